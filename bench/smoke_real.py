"""Every method preset on two rows of each data set that it serves, by a random model and by the
default one.

    HARNESS_TEST_DATA=FOLDER python -m bench.smoke_real [--model NAME,..] [--dataset NAME,..]
    [--method NAME,..]
    python -m bench.smoke_real --table        the table of what is stored; nothing is run

The random model (bench/smoke_models.py) answers the whole matrix first, some seconds a cell; then
smollm2-135m does. Ordinary runs in one results folder (--out): the same command goes on where it
was stopped. Data sets with short texts come first. Profile `small` stands in for weights that must
be fetched, a random classifier for LLMLingua-2's. Answers are cut at 32 tokens. For the random
model a text is cut to its first 6,000 bytes, some 1,000 English words; the default one reads whole
texts, or with --bytes N the first N bytes. Equal requests are sent once (--cache replies). The rows
are real ones in the folder `data` of HARNESS_TEST_DATA; where there is no sample they are made up
in the official layout (bench/smoke_rows.py), those of RULER by its own generator.
"""

import argparse
import contextlib
import json
import os
import sys
import traceback
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import harness
from bench.smoke_models import classifier, language_model
from bench.smoke_rows import DATA, QUESTIONS, row_settings, rows_file
from harness.config import presets
from harness.errors import DataError, HarnessError
from harness.storage.run_folder import find_runs, read_run

PROFILE = "small"
RANDOM = "random-llama"
MODELS = {
    RANDOM: RANDOM,
    "smollm2-135m": "SmolLM2-135M",
}  # name here -> in run folders, in the order of runs
RANDOM_BYTES = 6_000
REFUSED = "refused.json"


class Key(NamedTuple):
    """A cell of the matrix; the model by its name in MODELS."""

    method: str
    dataset: str
    model: str


class Folders(NamedTuple):
    """The folders of rows and of results."""

    data: Path
    out: Path
    max_bytes: int | None = None  # of a text that the default model reads; None for whole texts


@dataclass(frozen=True)
class Cell:
    """The stored run of a cell. done, failed, truncated: its questions; seconds: of all phases;
    errors: messages."""

    done: int
    failed: int
    truncated: int
    seconds: float
    errors: tuple[str, ...]


Cells = dict[Key, Cell]
Refused = dict[Key, str]
"""Why a cell did not run, in a sentence."""


def cell_of(folder: Path) -> tuple[Key, Cell]:
    """The cell in a run folder; a preset with a stand-in counts under its own name. Raises
    DataError."""
    run = read_run(folder)
    usages = list(run.usages())
    errors = [row.error for row in run.records if row.error]
    model = run.config["model"]["name"]
    short = next((short for short, name in MODELS.items() if name == model), model)
    return Key(
        str(run.config["method"]["name"]).partition("[")[0], run.config["dataset"]["name"], short
    ), Cell(
        len(run.records),
        len(errors),
        sum(row.truncated is not None for row in run.records),
        sum(phase["seconds"] for usage in usages for phase in usage.values()),
        tuple(f"{error['type']}: {error['message']}" for error in errors),
    )


def stored(out: Path) -> Cells:
    """The newest run of each cell in the results folder."""
    cells: Cells = {}
    for folder in sorted(
        find_runs(out) if out.is_dir() else (), key=lambda folder: folder.stat().st_mtime
    ):
        with contextlib.suppress(DataError):  # has no record yet
            cells.update([cell_of(folder)])
    return cells


def refused_in(out: Path) -> Refused:
    """The stored cells that did not run, with the reason of each."""
    path = out / REFUSED
    rows = json.loads(path.read_text("utf-8")) if path.exists() else []
    return {Key(*row[:3]): row[3] for row in rows}


def own_settings(method: str, out: Path) -> dict[str, str]:
    """Settings that a preset alone needs: LLMLingua-2's classifier, and a limit of replies."""
    if method.startswith(
        ("hipporag", "lightrag", "a-rag")
    ):  # the default model repeats itself up to 2,048 tokens
        return {"method.reply_tokens": "96"}
    named = any(
        "classifier" in (layer.get("params") or {}) for _, layer in presets.read("methods", method)
    )
    return {"method.classifier": str(classifier(out / "classifier"))} if named else {}


def source_of(method: str) -> list[str]:
    """The presets that a preset takes a number from: they must be in its command."""
    layers = [layer.get("params") or {} for _, layer in presets.read("methods", method)]
    values = [str(value) for params in layers for value in params.values()]
    return [value.removeprefix("from:") for value in values if value.startswith("from:")]


def run_cell(key: Key, folders: Folders, retry: bool) -> tuple[Path | None, str]:
    """Run a cell. Returns its run folder, and why it did not run; a question that fails is in the
    folder."""
    random = key.model == RANDOM
    max_bytes = RANDOM_BYTES if random else folders.max_bytes
    sets = {
        **row_settings(key.dataset, folders.data, folders.out, max_bytes),
        **own_settings(key.method, folders.out),
    }
    print(f"=== {key.dataset}: {key.method}, {key.model}", file=sys.stderr, flush=True)
    try:
        runs = harness.run(
            [*source_of(key.method), key.method],
            [key.dataset],
            model=language_model(folders.out / RANDOM) if random else key.model,
            data=rows_file(key.dataset, folders.data, folders.out, max_bytes),
            limit=QUESTIONS,
            profile=PROFILE,
            set=sets,
            retry_failed=retry,
            cache="replies",
            out=folders.out,
            mlflow="off",
        )
    except HarnessError as error:
        return None, str(error)
    except Exception as error:  # noqa: BLE001 - a bug in one cell must not lose the others
        traceback.print_exc()
        return None, f"bug: {type(error).__name__}: {error}"
    if runs.lost:
        return None, next(reversed(runs.lost.values()))
    return runs[-1].folder, ""


def cells_left(keys: list[Key], cells: Cells, refused: Refused, retry: bool = False) -> list[Key]:
    """The cells that are not answered whole and not refused; with `retry` those too, and those with
    failures."""
    return [
        key
        for key in keys
        if (retry and (key in refused or (key in cells and cells[key].failed)))
        or (key not in refused and (key not in cells or cells[key].done < QUESTIONS))
    ]


def run_cells(
    model: str, methods: list[str], datasets: list[str], folders: Folders, retry: bool = False
) -> None:
    """Run the cells of a model that are left, data sets with short texts first; store which were
    refused."""
    refused = refused_in(folders.out)
    for key in cells_left(
        [Key(m, d, model) for d in datasets for m in methods], stored(folders.out), refused, retry
    ):
        _, why = run_cell(key, folders, retry)
        if why or refused.pop(key, ""):
            refused |= {key: why} if why else {}
            (folders.out / REFUSED).write_text(
                json.dumps([[*k, w] for k, w in refused.items()], indent=1), "utf-8"
            )


def table(models: list[str], methods: list[str], datasets: list[str], out: Path) -> str:
    """Counts of cells by data set and model, those of all data sets last; then the failures by
    preset.

    served: stored or not refused; whole: each question answered; failed, truncated: with such
    questions; left: to run.
    """
    keys = [Key(m, d, model) for d in datasets for model in models for m in methods]
    cells, refused = stored(out), refused_in(out)
    cells = {key: cells[key] for key in keys if key in cells}
    refused = {key: refused[key] for key in keys if key in refused}
    heads = ("served", "whole", "failed", "truncated", "left")
    lines = [
        f"{'data set':<28}{'model':<14}" + "".join(f"{head:>10}" for head in (*heads, "seconds"))
    ]
    for dataset in (*datasets, "all"):
        for model in models:
            asked = [key for key in keys if key.model == model and dataset in ("all", key.dataset)]
            here = [cells[key] for key in asked if key in cells]
            served = sum(key not in refused or key in cells for key in asked)
            whole = sum(cell.done >= QUESTIONS and not cell.failed for cell in here)
            failed, cut = (
                sum(bool(cell.failed) for cell in here),
                sum(bool(cell.truncated) for cell in here),
            )
            numbers = (
                served,
                whole,
                failed,
                cut,
                len(cells_left(asked, cells, refused)),
                sum(c.seconds for c in here),
            )
            lines.append(f"{dataset:<28}{model:<14}" + "".join(f"{n:>10.0f}" for n in numbers))
    return "\n".join([*lines, *_reasons(cells, refused)])


def _reasons(cells: Cells, refused: Refused) -> list[str]:
    """Every sentence of failed questions and of cells that did not run, with the cells below it."""
    rows: dict[str, list[str]] = defaultdict(list)
    for key, cell in sorted(cells.items()):
        for error, count in Counter(cell.errors).items():
            rows[error[:300]].append(
                f"{key.method} on {key.dataset}" + (f" ({count}x)" if count > 1 else "")
            )
    for key, why in refused.items():
        head = "stopped" if key in cells or why.startswith("bug") else "not served"
        rows[
            f"{head}: {why.replace(repr(key.method), 'it').replace(repr(key.dataset), 'it')[:300]}"
        ].append(f"{key.method} on {key.dataset}")
    title = "failures and refusals:" if rows else "no question failed"
    return [
        "",
        title,
        *(f"  {why}\n    {', '.join(dict.fromkeys(names))}" for why, names in rows.items()),
    ]


def main() -> None:
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
        "--bytes", type=int, help="cut texts to as many bytes for the default model too"
    )
    parser.add_argument(
        "--table", action="store_true", help="print the table of what is stored; run nothing"
    )
    flags = parser.parse_args()
    methods, datasets = (
        flags.method.split(","),
        [name for name in DATA if name in flags.dataset.split(",")],
    )
    models = [name for name in MODELS if name in flags.model.split(",")]
    if not flags.table:
        root = os.environ.get("HARNESS_TEST_DATA")
        if not root:
            sys.exit(
                "HARNESS_TEST_DATA is not set: it names the folder that holds data/ with real rows"
            )
        flags.out.mkdir(parents=True, exist_ok=True)
        folders = Folders(Path(root, "data").resolve(), flags.out.resolve(), flags.bytes)
        try:
            for model in models:
                run_cells(model, methods, datasets, folders, flags.retry)
        except KeyboardInterrupt:
            print("interrupted; the same command goes on", file=sys.stderr)
            sys.exit(130)
    print(table(models, methods, datasets, flags.out))


if __name__ == "__main__":
    main()
