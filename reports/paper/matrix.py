"""The matrix of docs/reproducing.md: every table and figure with its command; `reproduce NAME --list` has its needs.

python -m reports.paper.matrix docs/reproducing.md    writes it between its two marks; a test checks that it is current
"""

import sys
from pathlib import Path

from reports.paper.tables_and_figures import TableOrFigure, printed, tables_and_figures

BEGIN, END = "<!-- matrix: python -m reports.paper.matrix docs/reproducing.md -->", "<!-- end of the matrix -->"
_HEAD = ("paper", "what", "command", "printed values at hand")


def matrix() -> str:
    """The table as Markdown, a row for each place that a command makes; below it those that none makes."""
    made = [place for place in tables_and_figures() if place.name or place.look]
    rows = [_HEAD, ("---",) * len(_HEAD), *map(_matrix_row, made)]
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    drawn = "; ".join(place.label for place in tables_and_figures() if place not in made)
    lacks = "; ".join(f"{place.label}: {place.real.removeprefix('yes, but ')}" for place in made if place.real != "yes")
    return f"{table}\n\nIllustrations: {drawn}.\nRows that could not be planned on samples of the data: {lacks}."


def put(document: str) -> str:
    """The document with the matrix of today between its marks. Raises ValueError for one without them."""
    head, mark, rest = document.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not mark or not end:
        raise ValueError(f"the document has no '{BEGIN}' and '{END}'")
    return f"{head}{BEGIN}\n{matrix()}\n{END}{tail}"


def _matrix_row(place: TableOrFigure) -> tuple[str, ...]:
    """A row of the matrix: label, title, command, number of its printed values."""
    values = sum(place.has_row(one.source, one.table) and one.value.strip() != "-" for one in printed())
    if place.name is None:
        return place.label, place.title, f"`{place.look}`", "–"
    return place.label, place.title, f"`{place.name}`", str(values or "–")


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(put(path.read_text(encoding="utf-8")), encoding="utf-8")
