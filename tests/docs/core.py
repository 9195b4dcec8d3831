"""The core of docs/architecture.md: `python -m tests.docs.core` prints its files with their lines (make core)."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def files():
    """The files of the table in docs/architecture.md#core, in reading order."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = page.partition('<a id="core"></a>')[2].partition("\n\n    ")[0]
    return [ROOT / path for path in re.findall(r"^\| [^|]+ \| `([\w/]+\.py)` \|", table, re.MULTILINE)]


def lines(path):
    """Lines of a file."""
    return len(path.read_text(encoding="utf-8").splitlines())


if __name__ == "__main__":
    for path in files():
        print(f"{lines(path):5} {path.relative_to(ROOT)}")
    print(f"{sum(map(lines, files())):5} lines in {len(files())} files")
