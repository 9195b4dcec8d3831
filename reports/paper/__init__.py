"""Published numbers beside measured ones.

mapping, printed      mapping.yaml and paper_results.csv     load() -> (Value, ...)
preset                the settings of a printed row          settings_of(value, rule) -> Settings
matching              the runs that measure a value          matches(value, runs), incomplete(runs)
measured              what they measured                     Measured(value, wide, narrow)
comparable            what stands between the two            differences(value, run)
tables_and_figures    every table and figure; matrix: of docs/reproducing.md; needs: of a suite
all_values            every printed value beside ours (harness reproduce)
verdicts              frame(runs): a row for each printed value that runs measure, with a verdict
"""

from reports.paper.matching import incomplete
from reports.paper.verdicts import MARGIN, frame, legend, text

__all__ = ["MARGIN", "frame", "incomplete", "legend", "text"]
