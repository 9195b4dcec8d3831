"""The tables of README.md and docs/results.md and bundles of the runs, from stored runs.

    python -m bench.results results/real
    python -m bench.results --second-reader results/reader

`harness report` prints the tables; they replace what stands between two marks of a document:

    <!-- results: python -m bench.results RUNS -->  ...  <!-- end of the results -->

docs/bundles/DATASET.zip holds the runs without texts (`harness export --keep-texts no`).
With --second-reader only the table of the second reader in docs/results.md is replaced.
"""

import argparse
import json
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from harness.storage.run_folder import find_runs

ROOT = Path(__file__).parents[1]
BEGIN = "<!-- results: python -m bench.results RUNS -->"
BEGIN_SECOND_READER = "<!-- results: python -m bench.results --second-reader RUNS -->"
END = "<!-- end of the results -->"


def main(runs: str) -> None:
    """Write both tables and a bundle for each data set; raises CalledProcessError where a command fails."""
    wide = harness("report", runs, "--wide", "--intervals")
    replace(ROOT / "README.md", block(without_footnotes(wide)))
    folders = find_runs(Path(runs))
    replace(ROOT / "docs" / "results.md", full_table(runs, folders))
    for dataset in sorted({folder.parent for folder in folders}):
        bundle = ROOT / "docs" / "bundles" / f"{dataset.name}.zip"
        bundle.parent.mkdir(exist_ok=True)
        bundle.unlink(missing_ok=True)
        print(harness("export", str(dataset), str(bundle), "--keep-texts", "no"), end="")


def write_second_reader(runs: str) -> None:
    """Write the second reader's table into docs/results.md.

    Raises:
        CalledProcessError: A command failed.
    """
    table = full_table(runs, find_runs(Path(runs)))
    replace(ROOT / "docs" / "results.md", table, begin=BEGIN_SECOND_READER)


def full_table(runs: str, folders: list[Path]) -> str:
    """The table of `harness report` as a block, and a sentence on how long the runs took.

    Args:
        runs: The folder of all runs.
        folders: The folder of each run.
    """
    sentence = time_taken([manifest(folder) for folder in folders])
    return f"{block(harness('report', runs))}\n\n{sentence}"


def harness(*arguments: str) -> str:
    """What the command prints on stdout."""
    command = [sys.executable, "-m", "harness", *arguments]
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout


def manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a run folder."""
    content: dict[str, Any] = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    return content


def without_footnotes(table: str) -> str:
    """A printed table without its numbered notes and their column.

    "method  f1   notes\\nbm25    7.3  [1]\\n\\n[1] two replies were cut"  ->  "method  f1\\nbm25    7.3"
    """
    lines = table.splitlines()
    head = next(line for line in lines if line.startswith("method"))
    width = head.index("notes") if head.endswith("notes") else len(head)
    rows = lines[: lines.index("")]
    others = []
    is_of_footnote = False
    for line in lines[len(rows) :]:
        is_of_footnote = line.startswith("[") or (is_of_footnote and line.startswith("    "))
        if not is_of_footnote:
            others.append(line)
    return "\n".join([*(row[:width].rstrip() for row in rows), *others]).rstrip()


def time_taken(manifests: list[dict[str, Any]]) -> str:
    """A sentence on how long the runs took, and on which kind of machine."""
    total = timedelta()
    for one in manifests:
        for start in one["starts"]:
            began, ended = map(datetime.fromisoformat, (start["started"], start["finished"]))
            total += ended - began
    cores = sorted({one["cpus"] for one in manifests})
    machine = " or ".join(str(number) for number in cores)
    minutes = total / timedelta(minutes=1)
    return f"Wall time of all runs: {minutes:.0f} minutes on a machine with {machine} cores and no GPU."


def block(text: str) -> str:
    """Text as a block of code of Markdown."""
    return f"```\n{text.rstrip()}\n```"


def replace(document: Path, text: str, begin: str = BEGIN) -> None:
    """Put a text between two marks of a document.

    Args:
        document: A file of Markdown.
        text: What stands between the marks afterwards.
        begin: The mark before the text; the next END is the mark after it.

    Raises:
        ValueError: The document lacks one of the marks.
    """
    head, _, rest = document.read_text(encoding="utf-8").partition(begin)
    _, end, tail = rest.partition(END)
    if not end:
        raise ValueError(f"{document} has no '{begin}' and '{END}'")
    document.write_text(f"{head}{begin}\n{text}\n{END}{tail}", encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", help="folder of the runs")
    parser.add_argument("--second-reader", action="store_true", help="replace only its table")
    options = parser.parse_args()
    if options.second_reader:
        write_second_reader(options.runs)
    else:
        main(options.runs)
