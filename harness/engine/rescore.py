"""Score stored answers again, without a model: for `harness score`, and where a run resumes (resume.py)."""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from harness.storage.failures import STOPS
from harness.storage.paths import expanded
from harness.storage.run_folder import MANIFEST, RECORDS, SUMMARY, StoredRun, StreamedRecords, read_run
from harness.storage.run_place import RunPlace
from harness.storage.run_schema import LOGGED
from harness.storage.run_store import RunStore
from harness.storage.run_summary import KEPT, summarise_with
from harness.types import Gold


def rescored(
    rows: Iterable[dict[str, Any]], dataset: DatasetConfig, gold: Mapping[str, Gold] | None
) -> Iterator[dict[str, Any]]:
    """Yield the records with new scores. gold: by question id, or None to use those in the records themselves.

    Raises UserError for a question that the data set does not have any more.
    """
    for row in rows:
        answers = gold_of(row) if gold is None else gold.get(row["question_id"])
        if answers is None:
            raise UserError(f"question '{row['question_id']}' is not in the data set any more")
        yield scored_record(row, dataset, answers)


def rescore(
    folder: Path, *, scorers: Sequence[str] = (), only: bool = False, data: str | None = None
) -> dict[str, Any]:
    """Score the answers in a run folder again and return its new summary.

    scorers: in addition to the run's own, or instead of them if `only`; data: where the rows are now. The gold answers
    are those of the records; the data set is read if a record has none, or with `data`. An answer that a scorer had
    failed on is scored too, and is no failed question any more. Raises UserError when the rows are not those the run
    was made with, and what a scorer raises; the folder is then as it was.
    """
    stored = read_run(folder, hold="nothing")
    config = _rescore_config(stored, scorers, only, data)
    recorded = data is None and bool(stored.records) and all(row.get("gold") is not None for row in stored.records)
    _check_code(folder, {"scorers": config.scorers} if recorded else config.model_dump())
    if wrong := problems(config.scorers):
        raise ConfigError(wrong)
    if recorded:
        return _rescore_folder(stored, config, None)
    dataset, before = datasets.load(config, None), stored.manifest.get("dataset", {}).get("fingerprint")
    if before is None:
        raise UserError(f"{stored.path} has no manifest that says which rows it was made with; run it again")
    if before != dataset.fingerprint:  # gold answers of other rows would score other questions
        raise UserError(
            f"the rows of '{dataset.name}' are not those that {stored.path} was made with ({before[:12]} then, "
            f"{dataset.fingerprint[:12]} now); name the right file with --data"
        )
    return _rescore_folder(stored, config, dataset)


def _check_code(folder: Path, values: Mapping[str, Any]) -> None:
    """Raise UserError for untrusted code ("module:name") in `values`, the data set's settings from the run folder."""
    named = registry.code_targets(values)
    if foreign := [target for target in named if not registry.is_trusted(target)]:
        raise UserError(
            f"{folder}: dataset.{named[foreign[0]]} names code ('{foreign[0]}') that neither the command line nor a "
            f"preset in the folder {registry.ENV} names; to see it and decide, use: harness score --trust {folder}"
        )


def _rescore_config(stored: StoredRun, scorers: Sequence[str], only: bool, data: str | None) -> DatasetConfig:
    """The run's data set with the scorers to compute (see `rescore`). Raises UserError where there is none."""
    config = dataset_of_run(stored.config, str(stored.path))
    own = [name for name in config.scorers if not name.startswith(LOGGED)]
    names = tuple(dict.fromkeys([*(() if only and scorers else own), *scorers]))
    if not names:
        raise UserError(f"{stored.path} has only scores of another tool; name some with --scorers")
    return config.model_copy(update={"scorers": names, **({} if data is None else {"data": expanded(data)})})


def _rescore_folder(stored: StoredRun, config: DatasetConfig, dataset: Dataset | None) -> dict[str, Any]:
    """Score every record, then replace them all: if a record cannot be scored, the folder stays as it was.

    dataset: None if it was not read; else the records get the texts of it that they lack.
    """

    def note(text: str) -> None:
        sys.stderr.write(text + "\n")

    rows_of = (stored.manifest.get("dataset") or {}).get("fingerprint")
    with RunStore.open(RunPlace(stored.path), rows_of if dataset is None else dataset.fingerprint, note) as store:
        store.replace(_rescored(StreamedRecords(stored.path / RECORDS), config, dataset))
        before = {n: v for n, v in (stored.manifest.get("scorers") or {}).items() if n.startswith(LOGGED)}
        versions = {**{name: version(name) for name in config.scorers}, **before}
        numbers = summarise_with(stored.config, store.records(), store.documents())
        summary = {**{k: v for k, v in stored.summary.items() if k in KEPT}, **numbers}
        if dataset is not None:
            update_texts(store, dataset, config.keep_texts, note)
        store.write(MANIFEST, {**store.manifest(), "scorers": versions})
        changed = {"scorers": list(versions), "data": config.data}
        store.describe({**stored.config, "dataset": {**stored.config["dataset"], **changed}}, stored.origins)
        store.write(SUMMARY, summary)
    for told in silent_scorers(config.scorers, summary):
        note(told)
    return summary


def _rescored(records: StreamedRecords, config: DatasetConfig, dataset: Dataset | None) -> Iterator[dict[str, Any]]:
    """As `rescored`, by the gold answers of `dataset`, or if None of the records: an error is then a DataError."""
    gold = None if dataset is None else {example.question.id: example.gold for example in dataset.examples}
    try:
        yield from rescored(records, config, gold)
    except STOPS:
        raise
    except Exception as broken:  # whatever a scorer makes of what the folder holds
        if dataset is not None or any(":" in name for name in config.scorers):
            raise
        problem = f"its gold answers cannot be used ({type(broken).__name__}: {broken})"
        raise DataError(records.path, None, "gold", f"{problem}; name the data set's file with --data") from None
