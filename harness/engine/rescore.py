"""Score stored answers again, without a model: for `harness score`, and where a run resumes (resume.py)."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from harness import datasets
from harness.config import registry
from harness.config.schema import DatasetConfig
from harness.config.validation import dataset_of_run
from harness.datasets.base import Dataset
from harness.engine.record_texts import gold_of, update_texts
from harness.engine.scoring import scored_record, silent_scorers
from harness.errors import ConfigError, DataError, UserError
from harness.scorers import problems, version
from harness.storage.failures import STOPS, lacks_only_scores
from harness.storage.paths import expanded
from harness.storage.run_folder import MANIFEST, RECORDS, SUMMARY, StoredRun, StreamedRecords, read_run
from harness.storage.run_place import RunPlace
from harness.storage.run_schema import LOGGED
from harness.storage.run_store import RunStore
from harness.storage.run_summary import KEPT, summarise_with
from harness.types import Gold

Ask = Callable[[Path, str, str], None]
"""ask(run folder, key of its data set, target): called before code that nobody chose is imported; raises to refuse."""


def rescored(
    rows: Iterable[dict[str, Any]], dataset: DatasetConfig, gold: Mapping[str, Gold] | None, keep: Sequence[str] = ()
) -> Iterator[dict[str, Any]]:
    """Yield the records with new scores. gold: by question id, or None to use those in the records themselves.

    keep: scorers whose scores stay. Raises UserError for a question that the data set does not have any more.
    """
    for row in rows:
        answers = gold_of(row) if gold is None else gold.get(row["question_id"])
        if answers is None:
            raise UserError(f"question '{row['question_id']}' is not in the data set any more")
        yield scored_record(row, dataset, answers, keep)


def refuse(folder: Path, key: str, target: str) -> None:
    """Raise UserError: `target` ("module:name"), which a key of the run folder's data set names, is not trusted."""
    raise UserError(
        f"{folder}: dataset.{key} names code ('{target}') that neither the command line nor a "
        f"preset in the folder {registry.ENV} names; to see it and decide, use: harness score --trust {folder}"
    )


def rescore(
    folder: Path, *, scorers: Sequence[str] = (), only: bool = False, data: str | None = None, ask: Ask = refuse
) -> dict[str, Any]:
    """Score the answers in a run folder again and return its new summary.

    scorers: in addition to the run's own, whose scores stay unless an answer lacks them, or instead of them if `only`;
    data: where the rows are now; ask: called for code to be imported that nobody chose. The gold answers are
    those of the records; the data set is read if a record has none, or with `data`. An answer that a scorer had failed
    on is scored too, and is no failed question any more. Raises UserError when the rows are not those the run was made
    with, and what a scorer raises; the folder is then as it was.
    """
    stored = read_run(folder, hold="nothing")
    config, versions = _rescore_config(stored, scorers, only, data)
    recorded = data is None and bool(stored.records) and all(row.get("gold") is not None for row in stored.records)
    code = registry.code_targets({"scorers": config.scorers} if recorded else config.model_dump())
    for target in [target for target in code if not registry.is_trusted(target)]:
        ask(folder, code[target], target)
    if wrong := problems(config.scorers):
        raise ConfigError(wrong)
    if recorded:
        return _rescore_folder(stored, config, versions, None)
    dataset, before = datasets.load(config, None), stored.manifest.get("dataset", {}).get("fingerprint")
    if before is None:
        raise UserError(f"{stored.path} has no manifest that says which rows it was made with; run it again")
    if before != dataset.fingerprint:  # gold answers of other rows would score other questions
        raise UserError(
            f"the rows of '{dataset.name}' are not those that {stored.path} was made with ({before[:12]} then, "
            f"{dataset.fingerprint[:12]} now); name the right file with --data"
        )
    return _rescore_folder(stored, config, versions, dataset)


def _rescore_config(
    stored: StoredRun, scorers: Sequence[str], only: bool, data: str | None
) -> tuple[DatasetConfig, dict[str, str]]:
    """The run's data set with the scorers to compute, and all scorers -> version, "" for these; UserError for none."""
    config = dataset_of_run(stored.config, str(stored.path))
    before: dict[str, str] = stored.manifest.get("scorers") or {}
    whole = set() if only or not scorers else before.keys() - set(scorers)  # scorers of which every answer has a score
    for row in stored.records if whole else ():
        if lacks_only_scores(row["error"]):
            whole = set()
        elif row["error"] is None:
            whole &= row["scores"].keys() | (row["notes"].get("flags") or {}).keys()
    keep = {name: v for name, v in before.items() if name.startswith(LOGGED) or name in whole}
    own = [name for name in config.scorers if not name.startswith(LOGGED)]
    versions = {name: keep.get(name, "") for name in [*(() if only and scorers else own), *scorers, *keep]}
    names = tuple(name for name, v in versions.items() if not v)
    if not names:
        raise UserError(f"{stored.path} has only scores of another tool; name some with --scorers")
    return config.model_copy(update={"scorers": names, **({} if data is None else {"data": expanded(data)})}), versions


def _rescore_folder(
    stored: StoredRun, config: DatasetConfig, versions: Mapping[str, str], dataset: Dataset | None
) -> dict[str, Any]:
    """Score every record, then replace them all: if a record cannot be scored, the folder stays as it was.

    versions: of `_rescore_config`; dataset: None if not read; else the records get the texts of it that they lack.
    """
    note = partial(print, file=sys.stderr)
    rows_of = (stored.manifest.get("dataset") or {}).get("fingerprint")
    with RunStore.open(RunPlace(stored.path), rows_of if dataset is None else dataset.fingerprint, note) as store:
        keep = [name for name, told in versions.items() if told and not name.startswith(LOGGED)]
        gold = None if dataset is None else {example.question.id: example.gold for example in dataset.examples}
        rows = rescored(StreamedRecords(stored.path / RECORDS), config, gold, keep)
        own = any(":" in name for name in config.scorers)
        store.replace(rows if own or dataset is not None else _tell_gold(rows, stored.path / RECORDS))
        numbers = summarise_with(stored.config, store.records(), store.documents())
        summary = {**{k: v for k, v in stored.summary.items() if k in KEPT}, **numbers}
        if dataset is not None:
            update_texts(store, dataset, config.keep_texts, note)
        store.write(MANIFEST, {**store.manifest(), "scorers": {n: told or version(n) for n, told in versions.items()}})
        changed = {"scorers": list(versions), "data": config.data}
        store.describe({**stored.config, "dataset": {**stored.config["dataset"], **changed}}, stored.origins)
        store.write(SUMMARY, summary)
    for told in silent_scorers(config.scorers, summary):
        note(told)
    return summary


def _tell_gold(rows: Iterable[dict[str, Any]], records: Path) -> Iterator[dict[str, Any]]:
    """Yield `rows`; an error while one is scored becomes a DataError about the gold answers in the file `records`."""
    try:
        yield from rows
    except STOPS:
        raise
    except Exception as broken:  # noqa: BLE001 - whatever a scorer makes of what the folder holds
        problem = f"its gold answers cannot be used ({type(broken).__name__}: {broken})"
        raise DataError(records, None, "gold", f"{problem}; name the data set's file with --data") from None
