"""The matrix of docs/reproducing.md: every table and figure with its command; `reproduce NAME
--list` has its needs.

python -m reports.paper.matrix docs/reproducing.md    writes it between its two marks; a test checks that it is current
"""

import sys
from pathlib import Path

from reports.paper.tables_and_figures import TableOrFigure, printed, tables_and_figures

BEGIN = "<!-- matrix: python -m reports.paper.matrix docs/reproducing.md -->"
END = "<!-- end of the matrix -->"


def matrix() -> str:
    """A Markdown list of the tables and figures that a command makes, a line each, followed by a
    sentence on illustrations and one on those that are not planned on the real data."""
    lines: list[str] = []
    illustrations: list[str] = []
    not_planned: list[str] = []
    for item in tables_and_figures():
        if not item.name and not item.look:
            illustrations.append(item.label)
            continue
        lines.append(_line(item))
        if item.real != "yes":
            not_planned.append(f"{item.label}: {item.real.removeprefix('yes, but ')}")
    paragraphs = [
        "\n".join(lines),
        f"Illustrations: {'; '.join(illustrations)}.",
        f"Not planned on samples of the data: {'; '.join(not_planned)}.",
    ]
    return "\n\n".join(paragraphs)


def _line(item: TableOrFigure) -> str:
    """The line of a table or figure with the number of its printed values: "- `pecan-table1`: Main
    results (48)"."""
    if not item.name:
        return f"- `{item.look}`: {item.label}: {item.title}"
    n_values = 0
    for row in printed():
        if item.has_row(row.source, row.table) and row.value.strip() != "-":
            n_values += 1
    if not n_values:
        return f"- `{item.name}`: {item.title}"
    return f"- `{item.name}`: {item.title} ({n_values})"


def put(document: str) -> str:
    """The document with the matrix of today between its two marks.

    Raises:
        ValueError: The document lacks the marks.
    """
    head, mark, rest = document.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not mark or not end:
        raise ValueError(f"the document has no '{BEGIN}' and '{END}'")
    return f"{head}{BEGIN}\n{matrix()}\n{END}{tail}"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(put(path.read_text(encoding="utf-8")), encoding="utf-8")
