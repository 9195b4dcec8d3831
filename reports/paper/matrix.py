"""The matrix of docs/reproducing.md: every table and figure with its command; `reproduce NAME --list` has its needs.

python -m reports.paper.matrix docs/reproducing.md    writes it between its two marks; a test checks that it is current
"""

import sys
from pathlib import Path

from reports.paper.tables_and_figures import printed, tables_and_figures

BEGIN, END = "<!-- matrix: python -m reports.paper.matrix docs/reproducing.md -->", "<!-- end of the matrix -->"


def matrix() -> str:
    """A Markdown list of each place that a command makes, with its number of printed values; below it the others."""
    places = [place for place in tables_and_figures() if place.name or place.look]
    lines = []
    for place in places:
        values = sum(place.has_row(row.source, row.table) and row.value.strip() != "-" for row in printed())
        named = f"- `{place.name}`: {place.title}{f' ({values})' if values else ''}"
        lines.append(named if place.name else f"- `{place.look}`: {place.label}: {place.title}")
    drawn = "; ".join(place.label for place in tables_and_figures() if place not in places)
    lacks = "; ".join(f"{p.label}: {p.real.removeprefix('yes, but ')}" for p in places if p.real != "yes")
    return "\n".join(lines) + f"\n\nIllustrations: {drawn}.\n\nNot planned on samples of the data: {lacks}."


def put(document: str) -> str:
    """The document with the matrix of today between its marks. Raises ValueError for one without them."""
    head, mark, rest = document.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not mark or not end:
        raise ValueError(f"the document has no '{BEGIN}' and '{END}'")
    return f"{head}{BEGIN}\n{matrix()}\n{END}{tail}"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(put(path.read_text(encoding="utf-8")), encoding="utf-8")
