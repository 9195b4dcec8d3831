"""The matrix of docs/reproducing.md: every table and figure, its command, and what cannot be had on a closed machine.

python -m reports.paper.matrix docs/reproducing.md    writes it between its two marks; a test checks that it is current
"""

from __future__ import annotations

import sys
from pathlib import Path

from harness.config import suites
from reports.paper.needs import Needs, needs
from reports.paper.places import Place, places, printed

BEGIN, END = "<!-- matrix: python -m reports.paper.matrix docs/reproducing.md -->", "<!-- end of the matrix -->"
_HEAD = ("paper", "what", "command", "printed values", "real rows", "missing on a closed machine")


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
        command = f"`{place.look}`" if place.look else "an illustration"
        return place.label, place.title, command, "–", "yes" if place.look else "–", "–"
    known = str(values) if values else "not at hand"
    lacking = _missing(place, needs(suites.read(place.name)))
    return place.label, place.title, f"`harness reproduce {place.name}`", known, place.real, lacking


def _missing(place: Place, found: Needs) -> str:
    """Weights and data that the suite needs and that do not come with the project."""
    models = [name for name, one in found.models.items() if not one.package]
    weights = [*models, *(name for name, one in found.encoders.items() if not one.package)]
    weights += [source.rpartition("/")[2] for source in found.classifiers]
    weights += ["adapters trained on it"] * bool(found.adapters) + ["Stanza's model"] * found.entities
    data = [*found.datasets, *["documents out of Wikipedia"] * bool(found.documents), *place.lacks]
    return f"weights: {', '.join(weights)}; data: {', '.join(data)}"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(put(path.read_text(encoding="utf-8")), encoding="utf-8")
