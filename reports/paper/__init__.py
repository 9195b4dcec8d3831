"""Published numbers beside measured ones.

mapping.py     mapping.yaml, checked
printed.py     paper_results.csv and what it means by the rules      load() -> (Value, ...)
preset.py      the settings of a printed row                         settings_of(value, rule) -> Settings
matching.py    the runs that measure a value, one or several         matches(value, runs), incomplete_means(runs)
measured.py    what they measured                                    Measured(value, interval_95, interval_90)
comparable.py  what stands between the two                           differences(value, run)
model_reasons.py, data_reasons.py      of models and of data sets
tables_and_figures.py  every table and figure: its suite, what draws it, what of it cannot be had
needs.py       what a suite needs: models, data sets, files, GPU memory
all_values.py  every printed value beside ours, as a page, Markdown or LaTeX (harness reproduce)
matrix.py      the matrix of docs/reproducing.md
verdicts.py    frame(runs) -> pandas.DataFrame, a row for each printed value that runs measure, with a verdict
"""

from reports.paper.matching import incomplete_means
from reports.paper.verdicts import MARGIN, frame, legend, text

__all__ = ["MARGIN", "frame", "incomplete_means", "legend", "text"]
