"""The matrix of docs/reproducing.md: every table and figure with its command; `reproduce NAME --list` has its needs.

python -m reports.paper.matrix docs/reproducing.md    writes it between its two marks; a test checks that it is current
"""

from __future__ import annotations

import sys
from pathlib import Path

from reports.paper.places import Place, places, printed

BEGIN, END = "<!-- matrix: python -m reports.paper.matrix docs/reproducing.md -->", "<!-- end of the matrix -->"
_HEAD = ("paper", "what", "command", "printed values", "real rows")


def matrix() -> str:
    """The table as Markdown, a row for each place."""
    rows = [_HEAD, ("---",) * len(_HEAD), *map(_row, places())]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def put(document: str) -> str:
    """The document with the matrix of today between its marks. Raises ValueError for one without them."""
    head, mark, rest = document.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not mark or not end:
        raise ValueError(f"the document has no '{BEGIN}' and '{END}'")
    return f"{head}{BEGIN}\n{matrix()}\n{END}{tail}"


def _row(place: Place) -> tuple[str, ...]:
    values = sum(place.holds(one.source, one.table) and one.value.strip() != "-" for one in printed())
    if place.name is None:
        command = f"`{place.look}`" if place.look else "illustration"
        return place.label, place.title, command, "–", "yes" if place.look else "–"
    known = str(values) if values else "not at hand"
    return place.label, place.title, f"`{place.name}`", known, place.real


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(put(path.read_text(encoding="utf-8")), encoding="utf-8")
