"""The matrix of docs/reproducing.md: every table and figure with its command; `reproduce NAME
--list` has its needs.

python -m reports.paper.matrix docs/reproducing.md    writes it between its two marks; a test checks that it is current
"""

import sys
from pathlib import Path

from reports.paper.tables_and_figures import printed, tables_and_figures

BEGIN, END = (
    "<!-- matrix: python -m reports.paper.matrix docs/reproducing.md -->",
    "<!-- end of the matrix -->",
)


def matrix() -> str:
    """A Markdown list of the tables and figures that a command makes, with their printed values
    counted; the others."""
    made = [item for item in tables_and_figures() if item.name or item.look]
    lines = []
    for item in made:
        values = sum(
            item.has_row(row.source, row.table) and row.value.strip() != "-" for row in printed()
        )
        named = f"- `{item.name}`: {item.title}{f' ({values})' if values else ''}"
        lines.append(named if item.name else f"- `{item.look}`: {item.label}: {item.title}")
    drawn = "; ".join(item.label for item in tables_and_figures() if item not in made)
    lacks = "; ".join(
        f"{p.label}: {p.real.removeprefix('yes, but ')}" for p in made if p.real != "yes"
    )
    return (
        "\n".join(lines)
        + f"\n\nIllustrations: {drawn}.\n\nNot planned on samples of the data: {lacks}."
    )


def put(document: str) -> str:
    """The document with the matrix of today between its marks. Raises ValueError for one without
    them."""
    head, mark, rest = document.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not mark or not end:
        raise ValueError(f"the document has no '{BEGIN}' and '{END}'")
    return f"{head}{BEGIN}\n{matrix()}\n{END}{tail}"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(put(path.read_text(encoding="utf-8")), encoding="utf-8")
