"""Published numbers beside measured ones.

printed.py     paper_results.csv and mapping.yaml, checked           load() -> Printed
beside.py      frame(runs) -> pandas.DataFrame, a row for each printed value that a run measures

from reports.paper import frame
frame([read_run(folder) for folder in find_runs("results")])
"""

from __future__ import annotations

from reports.paper.beside import frame

__all__ = ["frame"]
