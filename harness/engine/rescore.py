"""Score stored answers again, without a model, for `harness score`."""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from harness import datasets
from harness.config.schema import DatasetConfig
from harness.config.yaml_tree import dataset_of_run
from harness.datasets.base import Dataset
from harness.engine.manifest import utc_now
from harness.engine.resume import rescored, update_texts
from harness.engine.scoring import silent_scorers
from harness.errors import ConfigError, DataError, UserError, attempt
from harness.scorers import problems, version
from harness.storage.failures import STOPS
from harness.storage.paths import expanded
from harness.storage.records import StoredGold, StoredRecord
from harness.storage.run_files import MANIFEST, RECORDS
from harness.storage.run_folder import StoredRun, StreamedRecords, read_run
from harness.storage.run_store import RunStore
from harness.storage.run_summary import KEPT, summarise
from harness.storage.serialize import json_values
from harness.types import JUDGES, LOGGED, Gold, lacks_only_scores


def rescore(
    folder: Path, *, scorers: Sequence[str] = (), only: bool = False, data: str | None = None
) -> dict[str, Any]:
    """Score the answers in a run folder again and return its new summary.

    scorers: in addition to the run's own, whose scores stay unless an answer lacks them, or instead
    of them if `only`;
    data: where the rows are now. The gold answers are those of the records; the data set is read if
    a record has none, or with `data`. An answer that a scorer had failed on is scored too, and is
    no failed question any more. Rows with other gold answers to the same questions about the same
    documents correct the run (`_corrected_questions`). Raises UserError when the rows are not those
    the run was made with, for code that only the run folder names, and what a scorer raises; the
    folder is then as it was.
    """
    stored = read_run(folder, hold="nothing")
    config, versions = _rescore_config(stored, scorers, only, data)
    recorded = (
        data is None
        and bool(stored.records)
        and all(row.gold is not None for row in stored.records)
    )
    if wrong := problems(config.scorers):
        raise ConfigError(wrong)
    if recorded:
        return _rescore_folder(stored, config, versions, None)
    dataset, before = (
        datasets.load(config, None),
        stored.manifest.get("dataset", {}).get("fingerprint"),
    )
    if before is None:
        raise UserError(
            f"{stored.path} has no manifest that says which rows it was made with; run it again"
        )
    if before == dataset.fingerprint:
        return _rescore_folder(stored, config, versions, dataset)
    corrected = _corrected_questions(stored, dataset, before)
    config, versions = _rescore_config(stored, scorers, only, data, every=True)
    return _rescore_folder(stored, config, versions, dataset, corrected)


def _corrected_questions(stored: StoredRun, dataset: Dataset, before: str) -> frozenset[str]:
    """Ids of the run's questions whose gold answers differ in `dataset`, where nothing else of them
    does.

    before: fingerprint of the rows that the run was made with, which are read, too. Raises
    UserError.
    """
    own, other = (
        dataset_of_run(stored.config, str(stored.path)),
        f"({before[:12]} then, {dataset.fingerprint[:12]} now)",
    )
    where = f"the rows of '{dataset.name}' are not those that {stored.path} was made with {other}"
    original = attempt([], datasets.load, own, None)
    if (
        original is None or original.fingerprint != before
    ):  # gold answers of other rows would score other questions
        raise UserError(
            f"{where}; name the right file with --data. Other gold answers are taken where the "
            "rows of then are still "
            f"at {own.data or own.hub}"
        )
    then, now = (
        {example.question.id: example for example in rows.examples} for rows in (original, dataset)
    )
    changed = set()
    for name in dict.fromkeys(row.question_id for row in stored.records):
        old, new = then.get(name), now.get(name)
        if old is None or new is None or old.question != new.question:
            raise UserError(
                f"{where}: question '{name}' is another one, and only gold answers may differ"
            )
        if any(original.documents[d] != dataset.documents[d] for d in old.question.document_ids):
            raise UserError(
                f"{where}: a document of question '{name}' is another one; only gold answers may "
                "differ"
            )
        changed |= {name} if old.gold != new.gold else set()
    if not changed:
        raise UserError(f"{where}, and no gold answer of its questions differs; leave --data out")
    return frozenset(changed)


def _rescore_config(
    stored: StoredRun, scorers: Sequence[str], only: bool, data: str | None, every: bool = False
) -> tuple[DatasetConfig, dict[str, str]]:
    """The run's data set with the scorers to compute, and all scorers -> version, "" for these;
    UserError for none.

    every: compute those, too, of which every answer has a score.
    """
    config = dataset_of_run(stored.config, str(stored.path))
    before: dict[str, str] = stored.manifest.get("scorers") or {}
    whole = (
        set() if only or every or not scorers else before.keys() - set(scorers)
    )  # scorers of which every answer has a score
    for row in stored.records if whole else ():
        if lacks_only_scores(row.error):
            whole = set()
        elif row.error is None:
            whole &= row.scores.keys() | (row.notes.get("flags") or {}).keys()
    keep = {name: v for name, v in before.items() if name.startswith(LOGGED) or name in whole}
    kept_scorers = [name for name in config.scorers if not name.startswith(LOGGED)]
    versions = {
        name: keep.get(name, "")
        for name in [*(() if only and scorers else kept_scorers), *scorers, *keep]
    }
    names = tuple(name for name, v in versions.items() if not v)
    if not names:
        raise UserError(f"{stored.path} has only scores of another tool; name some with --scorers")
    return config.model_copy(
        update={"scorers": names, **({} if data is None else {"data": expanded(data)})}
    ), versions


def _rescore_folder(
    stored: StoredRun,
    config: DatasetConfig,
    versions: Mapping[str, str],
    dataset: Dataset | None,
    corrected: frozenset[str] = frozenset(),
) -> dict[str, Any]:
    """Score every record, then replace them all: if a record cannot be scored, the folder stays as
    it was.

    versions: of `_rescore_config`; dataset: None if not read; else the records get the texts of it
    that they lack;
    corrected: questions that get other gold answers from it, and keep their former scores in
    `notes.uncorrected`.
    """
    note = partial(print, file=sys.stderr)
    rows_of = (stored.manifest.get("dataset") or {}).get("fingerprint")
    known = rows_of if dataset is None or corrected else dataset.fingerprint
    with RunStore.open(stored.path, known, note) as store:
        keep = [name for name, stated in versions.items() if stated and not name.startswith(LOGGED)]
        gold = (
            None
            if dataset is None
            else {example.question.id: example.gold for example in dataset.examples}
        )
        rows = rescored(StreamedRecords(stored.path / RECORDS), config, gold, keep)
        if corrected and gold is not None:
            rows = _with_corrected_gold(rows, stored, corrected, gold)
        imported = any(":" in name for name in config.scorers)
        store.replace_records(
            rows if imported or dataset is not None else _tell_gold(rows, stored.path / RECORDS)
        )
        numbers = summarise(store.records(), store.index_lines(), stored.config)
        summary = {**{k: v for k, v in stored.summary.items() if k in KEPT}, **numbers}
        if dataset is not None:
            update_texts(store, dataset, config.keep_texts, note)
        manifest = {
            **store.manifest(),
            "scorers": {n: stated or version(n) for n, stated in versions.items()},
        }
        if corrected and dataset is not None:
            means = {name: score.get("mean") for name, score in stored.summary["scores"].items()}
            file = Path(config.data or dataset.source).name
            entry = {
                "at": utc_now(),
                "file": file,
                "questions": len(corrected),
                "before": rows_of,
                "scores": means,
            }
            manifest["corrected"] = [*(manifest.get("corrected") or ()), entry]
            manifest["dataset"] = {**manifest["dataset"], "fingerprint": dataset.fingerprint}
        store.write(MANIFEST, manifest)
        changed = {"scorers": list(versions), "data": config.data}
        store.describe(
            {**stored.config, "dataset": {**stored.config["dataset"], **changed}}, stored.origins
        )
        summary = store.write_summary(summary)
    for sentence in silent_scorers(config.scorers, summary):
        note(sentence)
    if corrected:
        note(
            f"{stored.path}: gold answers of {len(corrected)} questions are corrected; the scores "
            "of before are kept"
        )
        if stored.manifest.get(JUDGES):
            note("its judges saw the former gold answers; ask them again with harness judge")
    return summary


def _with_corrected_gold(
    records: Iterable[StoredRecord],
    stored: StoredRun,
    corrected: frozenset[str],
    gold: Mapping[str, Gold],
) -> Iterator[StoredRecord]:
    """Yield the records with the gold answers of now; the corrected ones keep the scores of
    before."""
    for record, old in zip(records, StreamedRecords(stored.path / RECORDS), strict=True):
        if record.question_id not in corrected:
            yield record
            continue
        # Of several corrections the scores before the first.
        notes = {"uncorrected": old.scores, **record.notes}
        changed = replace(record, notes=notes)
        if record.gold:
            answers = cast(StoredGold, json_values(gold[record.question_id], lost=[]))
            changed = replace(changed, gold=answers)
        yield changed


def _tell_gold(records: Iterable[StoredRecord], path: Path) -> Iterator[StoredRecord]:
    """Yield the records; an error while one is scored becomes a DataError about the gold answers in
    the file `path`."""
    try:
        yield from records
    except STOPS:
        raise
    except Exception as broken:  # noqa: BLE001 - whatever a scorer makes of what the folder holds
        problem = f"its gold answers cannot be used ({type(broken).__name__}: {broken})"
        raise DataError(
            path, None, "gold", f"{problem}; name the data set's file with --data"
        ) from None
