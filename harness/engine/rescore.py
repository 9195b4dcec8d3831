"""Score stored answers again, without a model: for `harness score`, and if a run resumes with other scorers.

rejudged(row, config.dataset, gold)     the record with new scores; a question that was not answered stays failed
recover(store, plan, note)              the answers that a stopped run had not scored yet
refresh(store, plan, note)              all records of the folder, if their scorers are not the plan's

Name and version identify a scorer. A mean over records that two scorers wrote would be meaningless.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.config import registry
from harness.engine.scoring import Verdict, judge, unanswered, without_verdict
from harness.engine.self_contained import bring_up_to_date, gold_of
from harness.errors import ConfigError, DataError, UserError
from harness.storage.failures import SCORING, STOPS, failure, unscored
from harness.storage.paths import expanded
from harness.storage.run_folder import MANIFEST, RECORDS, SUMMARY, StreamedRecords, read_run
from harness.storage.run_store import RunStore
from harness.storage.shapes import JUDGES
from harness.types import Gold, Shown

if TYPE_CHECKING:
    from harness.config.schema import DatasetConfig, RunConfig
    from harness.datasets.base import Dataset
    from harness.engine.plan import Plan
    from harness.storage.run_folder import StoredRun


def refresh(store: RunStore, plan: Plan, note: Callable[[str], None], *, unscored_too: bool = False) -> None:
    """Score all records again if names or versions of their scorers are not the plan's, and report it.

    unscored_too: also if a scorer failed on an answer. Raises what `rejudge` raises, and SaveError.
    """
    from harness import scorers

    now = {name: scorers.version(name) for name in plan.config.dataset.scorers}
    manifest = store.manifest()
    before: dict[str, str] = manifest.get("scorers") or {}
    alike = before == now and all(_judged_by(row, now) for row in store.records())
    if alike and not (unscored_too and any(unscored(row["error"]) for row in store.records())):
        return
    rows = {row["question_id"]: row for row in store.records()}
    if rows:
        store.replace(rejudge(rows.values(), plan.config.dataset, _gold(plan, rows)))
        if not alike:
            note(f"the records were of {_named(before)}: {len(rows)} scored again by {_named(now)}")
    if manifest and before != now:
        store.write(MANIFEST, {**manifest, "scorers": now})


def recover(store: RunStore, plan: Plan, note: Callable[[str], None]) -> None:
    """Score the answers that a stopped run had on disk and not scored yet, and record them. Raises SaveError."""
    left = store.left()
    if not left:
        return
    gold = _gold(plan, {row["question_id"]: row for row in left})
    for row in rejudge(left, plan.config.dataset, gold):
        store.append(row)
    note(f"answers of a run that was stopped, scored now: {len(left)}")


def rejudge(
    rows: Iterable[dict[str, Any]], dataset: DatasetConfig, gold: Mapping[str, Gold] | None
) -> Iterator[dict[str, Any]]:
    """Yield all records with new scores; gold: None for the gold answers of the records themselves.

    Raises UserError for a question that the data set does not have any more.
    """
    for row in rows:
        answers = gold_of(row) if gold is None else gold.get(row["question_id"])
        if answers is None:
            raise UserError(f"question '{row['question_id']}' is not in the data set any more")
        yield rejudged(row, dataset, answers)


def rejudged(row: dict[str, Any], dataset: DatasetConfig, gold: Gold) -> dict[str, Any]:
    """The record with new scores and flags, without the error of a scorer that had failed on its answer.

    A question that was not answered scores 0. Raises what a scorer raises on an answer that was scored before: the
    mistake is in the scorer, and the scores that are there are better than none.
    """
    error = row["error"]
    if error is not None and not unscored(error):
        return _failed(row, dataset, gold, error)
    try:
        verdict = judge(dataset, row["prediction"], [shown_of(s) for s in row["shown"]], gold)
    except STOPS:
        raise
    except Exception as broken:
        if error is None:
            broken.add_note(f"scoring the answer to question '{row['question_id']}' again; no record was changed")
            raise
        return _failed(row, dataset, gold, {**failure(broken), **SCORING})
    return _scored(row, verdict, None)


def _failed(row: dict[str, Any], dataset: DatasetConfig, gold: Gold, error: dict[str, str]) -> dict[str, Any]:
    return _scored(row, unanswered(dataset, gold), error)


def _scored(row: dict[str, Any], verdict: Verdict, error: dict[str, str] | None) -> dict[str, Any]:
    """The record with the scores of `verdict`; those of models that judged the same answer stay (judge_run.py)."""
    judges = row["notes"].get(JUDGES) or {}
    scores, flags = (
        {name: value for name, value in held.items() if name in judges}
        for held in (row["scores"], row["notes"].get("flags") or {})
    )
    notes = {**without_verdict(row["notes"]), **verdict.notes}
    if flags:
        notes["flags"] = {**notes.get("flags", {}), **flags}
    return {**row, "scores": {**verdict.scores, **scores}, "error": error, "notes": notes}


def shown_of(values: dict[str, Any]) -> Shown:
    """A record's `shown` entry as scorers take it."""
    sources = tuple((str(d), int(a), int(b)) for d, a, b in values.get("sources", ()))
    known = {name: values[name] for name in ("kind", "document_id", "start", "end", "text") if name in values}
    return Shown(**known, sources=sources)


def _judged_by(row: dict[str, Any], names: Mapping[str, str]) -> bool:
    """Whether a record has the scores of `names` and else only judges'; what a scorer left out is flagged."""
    notes = row.get("notes") or {}
    held = row["scores"].keys() - (notes.get(JUDGES) or {}).keys()
    flagged = notes.get("flags") or {}
    return held <= names.keys() and (row["error"] is not None or names.keys() <= held | flagged.keys())


def _gold(plan: Plan, rows: Mapping[str, Any]) -> dict[str, Gold]:
    """Gold answers by question id; of the whole data set if the folder holds questions beyond the plan's --limit."""
    gold = {example.question.id: example.gold for example in plan.dataset.examples}
    if rows.keys() <= gold.keys():
        return gold
    from harness.datasets import load

    return {example.question.id: example.gold for example in load(plan.config.dataset, None).examples}


def _named(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items()) or "scorers that are not recorded"


def rescore(
    folder: Path, *, scorers: Sequence[str] = (), only: bool = False, data: str | None = None
) -> dict[str, Any]:
    """Score the answers in a run folder again and return its new summary.

    scorers: in addition to the run's own, or instead of them if `only`; data: where the rows are now. The gold answers
    are those of the records; the data set is read if a record has none, or with `data`. An answer that a scorer had
    failed on is scored too, and is no failed question any more. Raises UserError when the rows are not those the run
    was made with, and what a scorer raises; the folder is then as it was.
    """
    from harness.datasets import load
    from harness.scorers import problems

    stored = read_run(folder, streamed=True)
    config = _config(stored, scorers, only, data)
    recorded = data is None and bool(stored.records) and all(row.get("gold") is not None for row in stored.records)
    _check_code(folder, {"scorers": config.dataset.scorers} if recorded else config.dataset.model_dump())
    if wrong := problems(config.dataset.scorers):
        raise ConfigError(wrong)
    if recorded:
        return _write(stored, config, None)
    dataset = load(config.dataset, None)
    _same_rows(stored, dataset)
    return _write(stored, config, dataset)


def _check_code(folder: Path, values: Mapping[str, Any]) -> None:
    """Raise UserError for code that the settings of a run folder name and the user did not."""
    named = registry.code_named(values)
    if foreign := [target for target in named if not registry.trusted(target)]:
        raise UserError(
            f"{folder}: dataset.{named[foreign[0]]} names code ('{foreign[0]}') that neither the command line nor a "
            f"preset in the folder {registry.ENV} names; to see it and decide, use: harness score --trust {folder}"
        )


def _config(stored: StoredRun, scorers: Sequence[str], only: bool, data: str | None) -> RunConfig:
    from harness.config.schema import RunConfig
    from harness.config.validation import part_of_run

    config = part_of_run(RunConfig, stored.config, str(stored.path))
    update: dict[str, Any] = {}
    if scorers:
        update["scorers"] = tuple(dict.fromkeys([*(() if only else config.dataset.scorers), *scorers]))
    if data is not None:
        update["data"] = expanded(data)
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


def _write(stored: StoredRun, config: RunConfig, dataset: Dataset | None) -> dict[str, Any]:
    """Score every record, then replace them all: if a record cannot be scored, the folder stays as it was.

    dataset: None if it was not read; else the records get the texts of it that they lack.
    """
    from harness import scorers
    from harness.storage.summary import KEPT, summarise

    def note(text: str) -> None:
        sys.stderr.write(text + "\n")

    rows_of = (stored.manifest.get("dataset") or {}).get("fingerprint")
    with RunStore.open(stored.path, rows_of if dataset is None else dataset.fingerprint, note) as store:
        store.replace(_scored_again(StreamedRecords(stored.path / RECORDS), config.dataset, dataset))
        versions = {name: scorers.version(name) for name in config.dataset.scorers}
        numbers = summarise(
            store.records(),
            store.documents(),
            failed=config.failed,
            seed=config.seed,
            form=config.dataset.format,
            unique=True,
        )
        summary = {**{k: v for k, v in stored.summary.items() if k in KEPT}, **numbers}
        if dataset is not None:
            bring_up_to_date(store, dataset, config.dataset.keep_texts, note)
        store.write(MANIFEST, {**store.manifest(), "scorers": versions})
        store.describe(config.model_dump(mode="json"), stored.origins)
        store.write(SUMMARY, summary)
    return summary


def _scored_again(records: StreamedRecords, config: DatasetConfig, dataset: Dataset | None) -> Iterator[dict[str, Any]]:
    """The records with new scores. Raises DataError for gold answers in records that cannot be used."""
    gold = None if dataset is None else {example.question.id: example.gold for example in dataset.examples}
    try:
        yield from rejudge(records, config, gold)
    except STOPS:
        raise
    except Exception as broken:
        if dataset is not None or any(":" in name for name in config.scorers):
            raise
        problem = f"its gold answers cannot be used ({type(broken).__name__}: {broken})"
        raise DataError(records.path, None, "gold", f"{problem}; name the data set's file with --data") from None
