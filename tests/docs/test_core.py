"""The core is thirteen files, and names nothing that is attached to it.

`python -m tests.docs.test_core` prints its files, those of docs/architecture.md, with their lines
(make core).
"""

import re

import pytest

from tests.docs.pages import ROOT

ATTACHED = re.compile(
    r"shard|object.store|sibling|duel|record_stops|recorded stop|forecast|remote|mlflow|pocket|made.up",
    re.IGNORECASE,
)


def files():
    """The files of the table in docs/architecture.md#core, in reading order."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = page.partition('<a id="core"></a>')[2].partition("\n\n    ")[0]
    return [
        ROOT / path for path in re.findall(r"^\| [^|]+ \| `([\w/]+\.py)` \|", table, re.MULTILINE)
    ]


def lines(path):
    """Lines of a file."""
    return len(path.read_text(encoding="utf-8").splitlines())


def test_the_core_is_thirteen_files():
    assert 8 < len(files()) <= 13


@pytest.mark.parametrize("path", files(), ids=lambda path: path.stem)
def test_a_file_of_the_core_names_nothing_that_is_attached(path):
    assert ATTACHED.findall(path.read_text(encoding="utf-8")) == []


if __name__ == "__main__":
    for path in files():
        print(f"{lines(path):5} {path.relative_to(ROOT)}")
    print(f"{sum(map(lines, files())):5} lines in {len(files())} files")
