"""`harness score RUN...`: judge stored predictions again. No model is loaded; the data set is, for its gold answers."""

from __future__ import annotations

import json as json_
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.commands.common import mean_text, run_folders, split
from harness.errors import ConfigError, UserError

if TYPE_CHECKING:
    from harness.config import RunConfig
    from harness.datasets.base import Dataset
    from harness.store import StoredRun
    from harness.types import Gold, Shown


def main(runs: list[str], *, scorers: str | None, data: str | None, json: bool) -> int:
    """Score each run again and print its new means. Raises UserError, DataError, RunLocked or SaveError."""
    for folder in run_folders(runs):
        summary = rescore(folder, scorers=split([scorers]) if scorers else None, data=data)
        if json:
            print(json_.dumps({"run": str(folder), "summary": summary}))
        else:
            means = ", ".join(f"{name} {mean_text(s)}" for name, s in summary["scores"].items())
            print(f"{folder}: {means or 'no questions yet'}")
    return 0


def rescore(folder: Path, *, scorers: list[str] | None = None, data: str | None = None) -> dict[str, Any]:
    """Replace the scores in a run folder and return its new summary.

    scorers: instead of the run's own; data: where the rows are now. Raises UserError when the rows are not those the
    run was made with.
    """
    from harness.datasets import load
    from harness.scorers import problems
    from harness.store import read_run

    stored = read_run(folder)
    config = _config(stored, scorers, data)
    if wrong := problems(config.dataset.scorers):
        raise ConfigError(wrong)
    dataset = load(config.dataset, None)
    _same_rows(stored, dataset)
    return _write(stored, config, dataset)


def _config(stored: StoredRun, scorers: list[str] | None, data: str | None) -> RunConfig:
    from pydantic import ValidationError

    from harness.checks import explain
    from harness.config import RunConfig

    try:
        config = RunConfig.model_validate(stored.config)
    except ValidationError as e:
        problems = explain(e, RunConfig, "", {})
        raise ConfigError([f"{stored.path}/run.yaml: {p}" for p in problems]) from e
    update: dict[str, Any] = {}
    if scorers is not None:
        update["scorers"] = tuple(scorers)
    if data is not None:
        update["data"] = data
    return config.model_copy(update={"dataset": config.dataset.model_copy(update=update)})


def _same_rows(stored: StoredRun, dataset: Dataset) -> None:
    """Gold answers of other rows would score other questions."""
    before = stored.manifest.get("dataset", {}).get("fingerprint")
    if before is None:
        raise UserError(f"{stored.path} has no manifest that says which rows it was made with; run it again")
    if before != dataset.fingerprint:
        raise UserError(
            f"the rows of '{dataset.name}' are not those that {stored.path} was made with ({before[:12]} then, "
            f"{dataset.fingerprint[:12]} now); name the right file with --data"
        )


def _write(stored: StoredRun, config: RunConfig, dataset: Dataset) -> dict[str, Any]:
    from harness import scorers
    from harness.files import json_line, write_atomic
    from harness.store import MANIFEST, RECORDS, SUMMARY, RunStore
    from harness.summary import summarise

    def note(text: str) -> None:
        sys.stderr.write(text + "\n")

    gold = {example.question.id: example.gold for example in dataset.examples}
    names = list(config.dataset.scorers)
    dump = config.model_dump(mode="json")
    with RunStore.open(stored.path, dump, stored.origins, dataset.fingerprint, note) as store:
        latest = {row["question_id"]: row for row in store.records()}
        rows = [_scored(row, names, gold) for row in latest.values()]
        write_atomic(stored.path / RECORDS, b"".join(json_line(row) for row in rows))
        versions = {name: scorers.version(name) for name in names}
        store.write(MANIFEST, {**store.manifest(), "scorers": versions})
        numbers = summarise(rows, store.documents(), failed=config.failed, seed=config.seed)
        summary = {**{k: v for k, v in stored.summary.items() if k in ("state", "n_asked")}, **numbers}
        store.write(SUMMARY, summary)
    return summary


def _scored(row: dict[str, Any], names: list[str], gold: dict[str, Gold]) -> dict[str, Any]:
    """The record with new scores and flags; a failed question scores 0 in all."""
    from harness import scorers

    if row["question_id"] not in gold:
        raise UserError(f"question '{row['question_id']}' is not in the data set any more")
    if row["error"] is not None:
        return {**row, "scores": dict.fromkeys(names, 0.0)}
    shown = [_shown(s) for s in row["shown"]]
    sheet = scorers.score_record(names, row["prediction"], shown, gold[row["question_id"]])
    flags = dict(sheet.flags)
    scores = {name: float(value) for name, value in sheet.scores.items()}
    for name in [name for name, value in scores.items() if not math.isfinite(value)]:
        flags.setdefault(name, f"{scores[name]} counts as 0")
        scores[name] = 0.0
    notes = {key: value for key, value in row["notes"].items() if key != "flags"}
    return {**row, "scores": scores, "notes": {**notes, "flags": flags} if flags else notes}


def _shown(values: dict[str, Any]) -> Shown:
    from harness.types import Shown

    sources = tuple((str(d), int(a), int(b)) for d, a, b in values["sources"])
    return Shown(**{**values, "sources": sources})
