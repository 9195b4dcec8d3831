"""Time the report of many large runs.

    python -m bench.large_report [--runs 200] [--questions 5000] [--folder FOLDER]

Makes runs of closed-book with scripted models on made-up questions, ten data sets with an equal
number of models each, and prints wall time, CPU time and memory of `harness report` as a table and
as a page: the first time, and again, when the columns of the runs are stored. Runs that the folder
has already are used again.
"""

import argparse
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import yaml
from pocket.world.sample import sample

from bench.overhead import write_rows
from bench.servers import taken

DATA_SETS = 10
_DIFFERENT_ROWS = 12  # that bench.overhead.write_rows repeats


def write_presets(folder: Path, models: int) -> None:
    """Write presets of data sets ("set-0") and of models ("model-0").

    Model k answers the made-up questions whose number is divisible by k + 1 right, by a script of
    replies; to others it says "unknown".

    Args:
        folder: The folder of presets.
        models: How many models.
    """
    for kind in ("datasets", "models"):
        (folder / kind).mkdir(parents=True, exist_ok=True)
    for number in range(DATA_SETS):
        preset = {"extends": "musique", "summary": "made-up questions"}
        write_yaml(folder / "datasets" / f"set-{number}.yaml", preset)
    rows = [
        sample("musique", 0, tokens=300, purpose="evaluation", number=number).rows[0]
        for number in range(_DIFFERENT_ROWS)
    ]
    for model_number in range(models):
        replies = []
        for number, row in enumerate(rows):
            is_answered_right = number % (model_number + 1) == 0
            if is_answered_right:
                replies.append({"when": row["question"], "reply": row["answer"]})
        replies.append({"reply": "unknown"})
        script = folder / f"script-{model_number}.yaml"
        write_yaml(script, {"replies": replies})
        preset = {"extends": "scripted", "script": str(script), "summary": "made-up replies"}
        write_yaml(folder / "models" / f"model-{model_number}.yaml", preset)


def write_yaml(path: Path, content: Mapping[str, object]) -> None:
    """Write a YAML file."""
    path.write_text(yaml.safe_dump(content), encoding="utf-8")


def run_commands(folder: Path, runs: int) -> Iterator[list[str]]:
    """The commands of the runs.

    Args:
        folder: The folder with rows.jsonl; results are written to "results" in it.
        runs: How many runs.
    """
    for number in range(runs):
        yield [
            *(sys.executable, "-m", "harness", "run", "--method", "closed-book"),
            *("--dataset", f"set-{number % DATA_SETS}", "--data", str(folder / "rows.jsonl")),
            *("--model", f"model-{number // DATA_SETS}"),
            *("--parallel", "16", "--mlflow", "off", "--out", str(folder / "results")),
        ]


def make_run(command: list[str], folder: Path) -> None:
    """Run a command, and show what it printed where it fails."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(
            f"{' '.join(command)} ended with {done.returncode}: {done.stderr[-999:]}"
        )


def main() -> None:
    """Make the runs and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--questions", type=int, default=5000)
    parser.add_argument("--folder", type=Path, help="where runs are written and kept")
    given = parser.parse_args()
    if given.folder is None:
        with tempfile.TemporaryDirectory() as name:
            measure(Path(name), given.runs, given.questions)
        return
    given.folder.mkdir(parents=True, exist_ok=True)
    measure(given.folder.resolve(), given.runs, given.questions)


def measure(folder: Path, runs: int, questions: int) -> None:
    """Make the runs in a folder, and print what their reports take.

    Args:
        folder: Where they are written.
        runs: How many runs.
        questions: How many questions each.
    """
    write_presets(folder, models=math.ceil(runs / DATA_SETS))
    write_rows(folder / "rows.jsonl", questions)
    os.environ["HARNESS_CONFIGS"] = str(folder)
    os.environ["PYTHONPATH"] = str(Path(__file__).parents[1])
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = pool.map(lambda command: make_run(command, folder), run_commands(folder, runs))
        list(results)  # waits for all, and raises where one failed
    print(f"{runs} runs of {questions} questions, {runs * questions} records\n")
    print("| report | wall s | CPU s | MB |")
    print("|---|---|---|---|")
    report = [sys.executable, "-m", "harness", "report", str(folder / "results")]
    page = [*report, "--html", str(folder / "page.html")]
    for name, command in (
        ("table, first time", report),
        ("table, again", report),
        ("page, first time", page),
        ("page, again", page),
    ):
        found = taken(command, folder)
        print(f"| {name} | {found.wall:.1f} | {found.cpu:.1f} | {found.memory:.0f} |", flush=True)


if __name__ == "__main__":
    main()
