"""Run a pair, print its stages and keep them; without a pair, print docs/parity.md from all that is
kept.

HARNESS_TEST_DATA=FOLDER python -m bench.parity raptor --code FOLDER_OF_THE_PROGRAM
python -m bench.parity > docs/parity.md
"""

from __future__ import annotations

import argparse
import importlib
import json
import logging
import pkgutil
import subprocess
from collections.abc import Mapping
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

from bench import parity
from bench.parity import Found
from bench.parity.rows import Rows

KEPT = Path(__file__).parent / "stored"
PAIRS = sorted(
    {m.name for m in pkgutil.iter_modules(parity.__path__)}
    - {"__main__", "pecan_paper", "rows", "search_tools"}
)
HEAD = """# The authors' programs beside ours

`python -m bench.parity PAIR --code FOLDER` compares both on the same documents, tokenizer, models and seeds. The
programs of PECAN, GARLIC and QRMeM are not available; a second reading of PECAN's paper stands in for its program
(`bench/parity/pecan_paper.py`). Numbers are equal within 1e-9, or as the stage says. "kept": ours stays as it is.
"Answers": those of SmolLM2-135M to 20 questions of HotpotQA that are the same, and F1 with theirs and with ours.

{compared:,} items were compared in {stages} stages; {differing} stages differ. `bench/parity/stored` lists all.
"""


def version(program: str, code: Path | None) -> str:
    """The commit of the program in `code`, or of each of several below it; None: the version of the
    package."""
    if code is None:
        return f"{program} {metadata.version(program)}"
    folders = (
        [code]
        if (code / ".git").exists()
        else [code / name.rpartition("/")[2] for name in program.split(", ")]
    )
    git = [["git", "-C", str(folder), "rev-parse", "--short", "HEAD"] for folder in folders]
    commits = [
        subprocess.run(command, capture_output=True, text=True).stdout.strip() for command in git
    ]
    return f"{program} at {', '.join(commits)}"


def listed(stages: Mapping[str, Mapping[str, Any]]) -> str:
    """The stages that differ as a Markdown list, and how many others are equal."""
    differing = {
        name: stage for name, stage in stages.items() if stage["equal"] < stage["compared"]
    }
    lines = [
        f"- {name}: {stage['equal']:,} of {stage['compared']:,}"
        f"{f' (answers {answers})' if (answers := stage['answers']) else ''}; {stage['reason']}"
        for name, stage in differing.items()
    ]
    equal = [stage["equal"] for name, stage in stages.items() if name not in differing]
    rest = f"- {len(equal)} {'other ' if differing else ''}stages: all {sum(equal):,} items equal"
    return "\n".join([*lines, *([rest] if equal else [])])


def page() -> str:
    """The text of docs/parity.md, from all stored results."""
    pairs = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(KEPT.glob("*.json"))]
    stages = [stage for kept in pairs for stage in kept["stages"].values()]
    differing = sum(stage["equal"] < stage["compared"] for stage in stages)
    parts = [
        HEAD.format(
            compared=sum(s["compared"] for s in stages), stages=len(stages), differing=differing
        )
    ]
    parts += [
        f"## {kept['title']}\n\n`{kept['version']}`, beside "
        f"{kept['methods']}.\n\n{listed(kept['stages'])}\n"
        for kept in pairs
    ]
    return "\n".join(parts)


def main() -> None:
    """Run a pair and store its result, or print docs/parity.md."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pair", nargs="?", choices=PAIRS)
    parser.add_argument("--code", type=Path, help="folder of the program; none for a package")
    given = parser.parse_args()
    if given.pair is None:
        print(page(), end="")
        return
    logging.disable(logging.INFO)
    module, found = importlib.import_module(f"bench.parity.{given.pair}"), Found()
    module.compare(given.code, Rows(), found)
    for name, reason in module.REASONS.items():
        found[name].reason = reason
    kept = {
        "title": module.__doc__.partition("\n")[0].rstrip("."),
        "version": version(module.PROGRAM, given.code),
        "methods": module.METHODS,
        "stages": {name: asdict(stage) for name, stage in found.items()},
    }
    print(listed(kept["stages"]))
    (KEPT / f"{given.pair}.json").write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
