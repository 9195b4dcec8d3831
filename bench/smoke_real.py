"""Every method preset on three rows of each data set that it serves, by a random model, a scripted
one and the default one.

    HARNESS_TEST_DATA=FOLDER python -m bench.smoke_real [--model NAME,..] [--dataset NAME,..] [--method NAME,..]
    python -m bench.smoke_real --table        the table of what is stored; nothing is run

The random model (bench/smoke_models.py) answers the whole matrix first, some seconds a cell; then
the scripted one, whose reply is always the same, and smollm2-135m do. Each cell is a `harness run`
in one results folder (--out): the same command goes on where it was stopped. Data sets with short
texts come first. Profile `small` stands in for weights that must be fetched, a random classifier
for LLMLingua-2's. Answers are cut at 32 tokens. For the random model a text is cut to its first
6,000 bytes, some 1,000 English words; the others read whole texts, or with --bytes N the first N
bytes. Equal requests are sent once (--cache replies). The rows are real ones in the folder `data`
of HARNESS_TEST_DATA; where there is no sample they are made up in the official layout
(bench/smoke_rows.py), those of RULER by its own generator.
"""

import argparse
import contextlib
import json
import os
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from bench.commands import Said, call
from bench.smoke_models import classifier, language_model, script
from bench.smoke_rows import DATA, QUESTIONS, row_settings, rows_file
from harness.config import presets, registry
from harness.errors import DataError
from harness.method import Method
from harness.storage.run_folder import StoredRun, find_runs, read_run

PROFILE = "small"
RANDOM, SCRIPTED = "random-llama", "scripted"
MODELS = {RANDOM: RANDOM, SCRIPTED: SCRIPTED, "smollm2-135m": "SmolLM2-135M"}
"""Name here -> in run folders, in the order of runs."""

_LONG_REPLIES = frozenset(
    {
        *("hipporag-2", "lightrag", "lightrag-local", "lightrag-global", "a-rag", "rlm"),
        *("rlm-depth-2", "rememr1", "rememr1-short-answer", "linearrag", "comorag"),
        *("graphrag-local", "graphrag-global", "graphrag-global-c0", "search-r1"),
        *("search-r1-released", "search-o1", "tool-agent", "hyde", "multi-query"),
        *("iter-retgen", "ircot", "ircot-reasoning", "self-ask", "flare"),
    }
)
_MOST_WRITTEN = {
    "reply_tokens": 96,
    "asked_tokens": 48,
    "memory_tokens": 64,
    "answer_tokens": 48,
    "report_tokens": 96,
    "summary_tokens": 60,
    "note_tokens": 48,
    "finding_tokens": 48,
    "rewrite_tokens": 48,
    "read_tokens": 96,
    "max_turns": 3,
    "rounds": 1,
    "max_calls": 2,
}
"""The default model repeats itself up to the limit, some minutes a question with the methods' own."""

RANDOM_BYTES = 6_000
REFUSED = "refused.json"
INTERRUPTED = 130


class Key(NamedTuple):
    """A cell of the matrix.

    Args:
        method: The preset of the method.
        dataset: The data set.
        model: The model, by its name in MODELS.
    """

    method: str
    dataset: str
    model: str


class Folders(NamedTuple):
    """The folders of rows and of results.

    Args:
        data: The folder of real rows.
        out: The folder of results.
        max_bytes: Bytes of a text that the other models read; None for whole texts.
    """

    data: Path
    out: Path
    max_bytes: int | None = None


@dataclass(frozen=True)
class Cell:
    """The stored run of a cell.

    Args:
        done: How many questions have a record.
        failed: How many of them failed.
        truncated: How many had a text cut.
        seconds: The seconds of all phases.
        errors: The messages of the failed ones.
        score: The mean of the headline over the questions that have it; None without one.
    """

    done: int
    failed: int
    truncated: int
    seconds: float
    errors: tuple[str, ...]
    score: float | None = None


Cells = dict[Key, Cell]
Refused = dict[Key, str]
"""Why a cell did not run, in a sentence."""


def _key_of(run: StoredRun) -> Key:
    """The cell that a run belongs to; a preset with a stand-in counts under its own name."""
    model = run.config.model.name
    for short, name in MODELS.items():
        if name == model:
            model = short
    method = run.config.method.name.partition("[")[0]
    return Key(method=method, dataset=run.config.dataset.name, model=model)


def _seconds_of(run: StoredRun) -> float:
    """The seconds of all phases of a run."""
    seconds = 0.0
    for usage in run.usages():
        for phase in usage.values():
            seconds += phase["seconds"]
    return seconds


def _score_of(run: StoredRun) -> float | None:
    """The mean headline score of the questions that have it, failed ones with 0; None where none
    has."""
    headline = run.config.dataset.scorers[0]
    found = []
    for record in run.records:
        score = record.scores.get(headline)
        if score is not None:
            found.append(score)
    if not found:
        return None
    return sum(found) / len(found)


def cell_of(folder: Path) -> tuple[Key, Cell]:
    """Read a run folder: (its cell, what it holds). Raises DataError where it cannot be read."""
    run = read_run(folder)
    errors = []
    truncated = 0
    for record in run.records:
        truncated += record.truncated is not None
        if record.error:
            errors.append(f"{record.error['type']}: {record.error['message']}")
    cell = Cell(
        done=len(run.records),
        failed=len(errors),
        truncated=truncated,
        seconds=_seconds_of(run),
        errors=tuple(errors),
        score=_score_of(run),
    )
    return _key_of(run), cell


def stored(out: Path) -> Cells:
    """Cell -> its newest run in a folder of results; {} where the folder is missing."""
    cells: Cells = {}
    if not out.is_dir():
        return cells
    for folder in sorted(find_runs(out), key=_changed):
        with contextlib.suppress(DataError):  # has no record yet
            key, cell = cell_of(folder)
            cells[key] = cell
    return cells


def _changed(folder: Path) -> float:
    """When a folder was changed last, in seconds; a sort key."""
    return folder.stat().st_mtime


def refused_in(out: Path) -> Refused:
    """Cell -> why it did not run, as stored in a folder of results; {} where nothing is."""
    path = out / REFUSED
    refused: Refused = {}
    if path.exists():
        for method, dataset, model, why in json.loads(path.read_text("utf-8")):
            refused[Key(method, dataset, model)] = why
    return refused


def _write_refused(refused: Refused, out: Path) -> None:
    """Store which cells did not run, and why, in a folder of results."""
    rows = [[*key, why] for key, why in refused.items()]
    (out / REFUSED).write_text(json.dumps(rows, indent=1), "utf-8")


def _parameters(method: str) -> dict[str, str]:
    """Name -> value, as text, of the parameters in a preset's layers; the last layer's where several
    have one."""
    found = {}
    for _, layer in presets.read("methods", method):
        for name, value in (layer.get("params") or {}).items():
            found[name] = str(value)
    return found


def own_settings(method: str, out: Path) -> dict[str, str]:
    """Settings that only this preset needs: a classifier, limits of replies, leave to run code; {}
    for most.

    Args:
        method: The preset.
        out: The folder of results, in which a classifier is made.
    """
    settings = {}
    if method.startswith("rlm"):
        settings["method.allow_code"] = "true"
    if "classifier" in _parameters(method):
        settings["method.classifier"] = str(classifier(out / "classifier"))
    if method in _LONG_REPLIES:
        fields = _method_class(method).Config.model_fields
        for name, value in _MOST_WRITTEN.items():
            if name in fields:
                settings[f"method.{name}"] = str(value)
    return settings


def _method_class(method: str) -> type[Method]:
    """The class of a preset's method."""
    target = method
    for _, layer in presets.read("methods", method):
        target = layer.get("implementation", target)
    return registry.method_class(target)


def source_of(method: str) -> list[str]:
    """The presets that a preset takes a number from ("from:NAME"): they must be in its command."""
    values = _parameters(method).values()
    return [value.removeprefix("from:") for value in values if value.startswith("from:")]


def command_of(key: Key, folders: Folders) -> list[str]:
    """The arguments of the `harness` command that runs a cell; also makes the model, the script and
    the rows that it needs."""
    max_bytes = folders.max_bytes
    sets = own_settings(key.method, folders.out)
    model = key.model
    if key.model == RANDOM:
        max_bytes = RANDOM_BYTES
        model = str(language_model(folders.out / RANDOM))
    replies = ["--cache", "replies"]
    if key.model == SCRIPTED:
        sets["model.script"] = str(script(folders.out))
        replies = []
    elif key.model == "smollm2-135m":
        sets["model.dtype"] = "float32"  # bfloat16 takes 2.5 times as long on a CPU without AMX
    for name, value in row_settings(key.dataset, folders.data, folders.out, max_bytes).items():
        sets[name] = str(value)
    methods = ",".join([*source_of(key.method), key.method])
    words = ["run", "-m", methods, "-d", key.dataset, "--model", model]
    words += ["--limit", str(QUESTIONS), "--profile", PROFILE, "--out", str(folders.out)]
    words += [*replies, "--mlflow", "off", "--json"]
    data = rows_file(key.dataset, folders.data, folders.out, max_bytes)
    if data is not None:
        words += ["--data", str(data)]
    for name, value in sets.items():
        words += ["--set", f"{name}={value}"]
    return words


def run_cell(key: Key, folders: Folders, retry: bool) -> tuple[Path | None, str]:
    """Run a cell; prints which on stderr, and all output of a run that ended by a bug.

    Args:
        key: The cell.
        folders: The folders of rows and of results.
        retry: Whether failed questions are asked again.

    Returns:
        (its run folder or None, why it did not run or ""); a question that fails is in the folder.

    Raises:
        KeyboardInterrupt: The run was interrupted.
    """
    print(f"=== {key.dataset}: {key.method}, {key.model}", file=sys.stderr, flush=True)
    words = command_of(key, folders)
    if retry:
        words.append("--retry-failed")
    said = call(*words)
    if said.code == INTERRUPTED:
        raise KeyboardInterrupt
    folder = _folder_in(said)
    if folder is not None:
        return folder, ""
    if said.code == 1:
        print(said.text, file=sys.stderr)
        return None, f"bug: {_last_line(said)}"
    return None, _last_line(said)


def _folder_in(said: Said) -> Path | None:
    """The folder of the last run that a command names in what it printed (--json); None for
    none."""
    for line in reversed(said.text.splitlines()):
        if line.startswith('{"run": "'):
            return Path(json.loads(line)["run"])
    return None


def _last_line(said: Said) -> str:
    """The last line with words in what a command printed, or its exit code."""
    for line in reversed(said.text.splitlines()):
        if line.strip():
            return line.strip()
    return f"exit code {said.code}"


def cells_left(keys: list[Key], cells: Cells, refused: Refused, retry: bool = False) -> list[Key]:
    """The cells that still have to be run: those that are neither answered whole nor refused.

    Args:
        keys: The cells.
        cells: The stored runs.
        refused: Why others did not run.
        retry: Whether refused ones and those with failures are run again too.
    """
    left = []
    for key in keys:
        cell = cells.get(key)
        fell = key in refused or (cell is not None and cell.failed > 0)
        whole = cell is not None and cell.done >= QUESTIONS
        if (retry and fell) or not (key in refused or whole):
            left.append(key)
    return left


def keys_of(models: list[str], methods: list[str], datasets: list[str]) -> list[Key]:
    """The cells of a matrix, one data set after the other."""
    keys = []
    for dataset in datasets:
        for model in models:
            keys.extend(Key(method, dataset, model) for method in methods)
    return keys


def run_cells(
    model: str, methods: list[str], datasets: list[str], folders: Folders, retry: bool = False
) -> None:
    """Run the cells of a model that are left, in the order of the data sets, and store which did not
    run, after each.

    Args:
        model: The model.
        methods: The presets.
        datasets: The data sets.
        folders: The folders of rows and of results.
        retry: Whether failures and refusals are run again.
    """
    refused = refused_in(folders.out)
    keys = keys_of([model], methods, datasets)
    for key in cells_left(keys, stored(folders.out), refused, retry):
        _, why = run_cell(key, folders, retry)
        before = refused.pop(key, "")
        if why:
            refused[key] = why
        if why or before:
            _write_refused(refused, folders.out)


HEADS = ("served", "whole", "failed", "truncated", "left", "seconds")


def table(models: list[str], methods: list[str], datasets: list[str], out: Path) -> str:
    """Counts of cells by data set and model, those of all data sets last; then the failures by
    preset.

    served: stored or not refused; whole: each question answered; failed, truncated: with such
    questions; left: to run.
    """
    cells, refused = asked_alone(keys_of(models, methods, datasets), out)
    lines = [f"{'data set':<28}{'model':<14}" + _columns(HEADS)]
    for dataset in datasets:
        for model in models:
            keys = keys_of([model], methods, [dataset])
            counts = _columns(_counts(keys, cells, refused))
            lines.append(f"{dataset:<28}{model:<14}{counts}")
    for model in models:
        keys = keys_of([model], methods, datasets)
        lines.append(f"{'all':<28}{model:<14}{_columns(_counts(keys, cells, refused))}")
    return "\n".join([*lines, *reasons(cells, refused)])


def asked_alone(keys: list[Key], out: Path) -> tuple[Cells, Refused]:
    """(stored runs, refusals) in a folder of results, but only those of the cells `keys`."""
    cells = stored(out)
    refused = refused_in(out)
    for key in cells.keys() - set(keys):
        del cells[key]
    for key in refused.keys() - set(keys):
        del refused[key]
    return cells, refused


def _columns(values: Iterable[object]) -> str:
    """Values as columns of a table, each ten characters wide."""
    return "".join(f"{value:>10}" for value in values)


def _counts(keys: list[Key], cells: Cells, refused: Refused) -> list[str]:
    """The numbers of a line of the table, in the order of HEADS.

    Args:
        keys: The cells that the line is about.
        cells: The stored runs.
        refused: Why others did not run.
    """
    counts = dict.fromkeys(HEADS, 0.0)
    counts["left"] = len(cells_left(keys, cells, refused))
    for key in keys:
        cell = cells.get(key)
        counts["served"] += key not in refused or cell is not None
        if cell is None:
            continue
        counts["whole"] += cell.done >= QUESTIONS and not cell.failed
        counts["failed"] += cell.failed > 0
        counts["truncated"] += cell.truncated > 0
        counts["seconds"] += cell.seconds
    return [f"{count:.0f}" for count in counts.values()]


def reasons(cells: Cells, refused: Refused) -> list[str]:
    """The end of the table: every sentence of failed questions and of cells that did not run, with
    the cells below it."""
    rows: dict[str, list[str]] = defaultdict(list)
    for key, cell in sorted(cells.items(), key=_by_key):
        for error, count in Counter(cell.errors).items():
            times = ""
            if count > 1:
                times = f" ({count}x)"
            rows[error[:300]].append(f"{key.method} on {key.dataset}{times}")
    for key, why in refused.items():
        head = "not served"
        if key in cells or why.startswith("bug"):
            head = "stopped"
        why = why.replace(repr(key.method), "it").replace(repr(key.dataset), "it")
        rows[f"{head}: {why[:300]}"].append(f"{key.method} on {key.dataset}")
    if not rows:
        return ["", "no question failed"]
    lines = ["", "failures and refusals:"]
    for why, names in rows.items():
        lines.append(f"  {why}\n    {', '.join(dict.fromkeys(names))}")
    return lines


def _by_key(item: tuple[Key, Cell]) -> Key:
    """The cell of an item of a mapping; a sort key."""
    return item[0]


def data_folder() -> Path:
    """The folder of real rows, below HARNESS_TEST_DATA. Ends the program without it."""
    root = os.environ.get("HARNESS_TEST_DATA")
    if not root:
        sys.exit(
            "HARNESS_TEST_DATA is not set: it names the folder that holds data/ with real rows"
        )
    return Path(root, "data").resolve()


def until_interrupted(run: Callable[[], None]) -> None:
    """Run something; where the user stops it, say that the same command goes on, and end with code
    130."""
    try:
        run()
    except KeyboardInterrupt:
        print("interrupted; the same command goes on", file=sys.stderr)
        sys.exit(INTERRUPTED)


def chosen(known: Iterable[str], asked: str) -> list[str]:
    """The known names that are asked for, in their own order.

    Args:
        known: The known names.
        asked: Names divided by commas.
    """
    names = asked.split(",")
    return [name for name in known if name in names]


def main() -> None:
    """Run what is left, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("results/smoke-real"))
    parser.add_argument(
        "--model", default=",".join(MODELS), help="models in their order, separated by commas"
    )
    parser.add_argument("--dataset", default=",".join(DATA), help="data sets, separated by commas")
    parser.add_argument(
        "--method", default=",".join(presets.names("methods")), help="presets, separated by commas"
    )
    parser.add_argument("--retry", action="store_true", help="run again what failed or was refused")
    parser.add_argument(
        "--bytes", type=int, help="cut texts to as many bytes for the other models too"
    )
    parser.add_argument(
        "--table", action="store_true", help="print the table of what is stored; run nothing"
    )
    flags = parser.parse_args()
    methods = flags.method.split(",")
    datasets = chosen(DATA, flags.dataset)
    models = chosen(MODELS, flags.model)
    if not flags.table:
        flags.out.mkdir(parents=True, exist_ok=True)
        folders = Folders(data=data_folder(), out=flags.out.resolve(), max_bytes=flags.bytes)

        def run() -> None:
            """Run the cells that are left, a model after the other."""
            for model in models:
                run_cells(model, methods, datasets, folders, flags.retry)

        until_interrupted(run)
    print(table(models, methods, datasets, flags.out))


if __name__ == "__main__":
    main()
