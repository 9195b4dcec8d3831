"""The newer data sets and methods on three rows each, by a scripted model and by smollm2-135m.

    HARNESS_TEST_DATA=FOLDER python -m bench.smoke_newer [--out FOLDER] [--model NAME,..] [--retry]
    python -m bench.smoke_newer --table       the table of what is stored; nothing is run

Each data set is read by one method (full-context; made-up texts of some 300 tokens), each method
reads one data set (real questions of Natural Questions on their passage). Otherwise as
bench.smoke_real.
The table has a line for each preset: rows that were asked, those that failed, mean headline score
in percent ("-": all is left to a judge).
"""

import argparse
from pathlib import Path

from bench.smoke_real import (
    MODELS,
    RANDOM,
    Cells,
    Folders,
    Key,
    Refused,
    asked_alone,
    chosen,
    data_folder,
    keys_of,
    reasons,
    run_cells,
    until_interrupted,
)
from bench.smoke_rows import DATA

READER, ROWS = "full-context", "nq"
MAX_BYTES = 8_000
OLDER_SETS = (
    "infinitebench/en_qa",
    "infinitebench/en_mc",
    "oolong/synth",
    "oolong/real",
    "loong/paper",
    "loong/financial",
    "helmet/nq",
    "helmet/triviaqa",
    "helmet/hotpotqa",
    "helmet/popqa",
)
OLDER_FAMILIES = ("longbench", "longmemeval/", "mrcr/", "ruler/")
METHODS = (
    "rlm",
    "rlm-depth-2",
    "rememr1",
    "rememr1-short-answer",
    "linearrag",
    "linearrag-code-defaults",
    "graphrag-local",
    "graphrag-global",
    "graphrag-global-c0",
    "comorag",
    "ircot",
    "ircot-reasoning",
    "iter-retgen",
    "self-ask",
    "flare",
    "search-r1",
    "search-r1-released",
    "search-o1",
    "tool-agent",
    "hyde",
    "multi-query",
    "hybrid",
    "hybrid-rerank",
    "bm25-rerank",
    "sbert-rerank",
    "parent-pages",
    "snapkv",
    "streamingllm",
    "h2o-like",
    "pyramidkv",
    "expected-attention",
    "kvzip",
    "mem0",
)


def newer_sets() -> list[str]:
    """The data sets with made-up rows that are not among the older ones."""
    found = []
    for name, rows in DATA.items():
        older = name in OLDER_SETS or name.startswith(OLDER_FAMILIES)
        if not rows.file and not older:
            found.append(name)
    return found


def newer_keys(models: list[str]) -> list[Key]:
    """The cells: each data set by one method, then each method on one data set."""
    keys = keys_of(models, [READER], newer_sets())
    return keys + keys_of(models, list(METHODS), [ROWS])


def run_newer(models: list[str], folders: Folders, retry: bool) -> None:
    """Run the cells that are left, a model after the other."""
    for model in models:
        run_cells(model, [READER], newer_sets(), folders, retry)
        run_cells(model, list(METHODS), [ROWS], folders, retry)


def table(models: list[str], out: Path) -> str:
    """A line for each preset, then a line of counts for each model, then what failed and why."""
    keys = newer_keys(models)
    cells, refused = asked_alone(keys, out)
    lines = [f"{'preset':<40}{'model':<14}{'rows':>6}{'failed':>8}{'score':>8}"]
    lines.extend(_line(key, cells, refused) for key in keys)
    lines.append("")
    lines.extend(_totals(model, keys, cells) for model in models)
    return "\n".join([*lines, *reasons(cells, refused)])


def _preset(key: Key) -> str:
    """The preset that a cell is about."""
    if key.method == READER:
        return key.dataset
    return key.method


def _line(key: Key, cells: Cells, refused: Refused) -> str:
    """The line of a cell."""
    head = f"{_preset(key):<40}{key.model:<14}"
    cell = cells.get(key)
    if cell is None:
        why = "left"
        if key in refused:
            why = "did not run"
        return f"{head}{why:>14}"
    score = "-"
    if cell.score is not None:
        score = f"{100 * cell.score:.1f}"
    return f"{head}{cell.done:>6}{cell.failed:>8}{score:>8}"


def _totals(model: str, keys: list[Key], cells: Cells) -> str:
    """How many presets a model answered, and the sums of rows and failures."""
    presets = rows = failed = 0
    for key in keys:
        if key.model == model and key in cells:
            presets += 1
            rows += cells[key].done
            failed += cells[key].failed
    return f"{model}: {presets} presets, {rows} rows, {failed} failed"


def main() -> None:
    """Run what is left, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    models = [name for name in MODELS if name != RANDOM]
    parser.add_argument("--out", type=Path, default=Path("results/smoke-newer"))
    parser.add_argument("--model", default=",".join(models), help="models, separated by commas")
    parser.add_argument("--retry", action="store_true", help="run again what failed or was refused")
    parser.add_argument(
        "--table", action="store_true", help="print the table of what is stored; run nothing"
    )
    flags = parser.parse_args()
    models = chosen(MODELS, flags.model)
    if not flags.table:
        flags.out.mkdir(parents=True, exist_ok=True)
        folders = Folders(data_folder(), flags.out.resolve(), MAX_BYTES)
        until_interrupted(lambda: run_newer(models, folders, flags.retry))
    print(table(models, flags.out))


if __name__ == "__main__":
    main()
