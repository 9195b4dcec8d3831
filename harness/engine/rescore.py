"""Score stored answers again, without a model, for `harness score`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple, cast

from harness import datasets
from harness.config.schema import DatasetConfig
from harness.config.yaml_tree import dataset_of_run
from harness.datasets.base import Dataset
from harness.engine.manifest import utc_now
from harness.engine.resume import rescored, update_texts
from harness.engine.scoring import warnings_of_silent_scorers
from harness.errors import ConfigError, DataError, UserError, call_noting_problem
from harness.scorers import problems, version
from harness.storage.failures import STOPS
from harness.storage.manifest_file import Correction, RunManifest
from harness.storage.paths import with_home_expanded
from harness.storage.records import StoredGold, StoredRecord
from harness.storage.run_files import RECORDS
from harness.storage.run_folder import StoredRun, StreamedRecords, read_run
from harness.storage.run_store import RunStore
from harness.storage.run_summary import summarise
from harness.storage.serialize import json_values
from harness.storage.summary_file import RunSummary
from harness.types import LOGGED_SCORE_PREFIX, Gold, lacks_only_scores


def rescore(
    folder: Path, *, scorers: Sequence[str] = (), only: bool = False, data: str | None = None
) -> RunSummary:
    """Score the answers in a run folder again and return its new summary.

    The gold answers are those of the records; the data set is read if a record has none, or with
    `data`. An answer that a scorer had failed on is scored too, and is no failed question any more.
    Rows with other gold answers to the same questions about the same documents correct the run
    (`_corrected_questions`).

    Args:
        folder: The run's folder; its records, manifest and summary are replaced.
        scorers: In addition to the run's own, whose scores stay unless an answer lacks them.
        only: `scorers` replace the run's own.
        data: Where the rows are now.

    Raises:
        UserError: The rows are not those the run was made with, or code is named by the run folder
            alone; the folder is then as it was. Also what a scorer raises.
    """
    stored = read_run(folder, hold="nothing")  # its records are read from disk each time
    config, versions = _scorers_to_compute(stored, scorers, only, data)
    all_have_gold = all(record.gold is not None for record in stored.records)
    has_gold = bool(stored.records) and all_have_gold
    mistakes = problems(config.scorers)
    if mistakes:
        raise ConfigError(mistakes)
    if has_gold and data is None:
        return _Rescoring(stored, config, versions).run()
    dataset = datasets.load(config, None)  # all rows that are there now
    fingerprint_of_run = stored.manifest.dataset.fingerprint
    if fingerprint_of_run is None:
        raise UserError(
            f"{stored.path} has no manifest that says which rows it was made with; run it again"
        )
    if fingerprint_of_run == dataset.fingerprint:
        return _Rescoring(stored, config, versions, dataset).run()
    # Other rows: only gold answers may differ, and all scores by them change.
    corrected = _corrected_questions(stored, dataset, fingerprint_of_run)
    config, versions = _scorers_to_compute(stored, scorers, only, data, recompute_all=True)
    return _Rescoring(stored, config, versions, dataset, corrected).run()


def _corrected_questions(
    stored: StoredRun, dataset: Dataset, fingerprint_of_run: str
) -> frozenset[str]:
    """Ids of the run's questions whose gold answers differ between the rows that the run was made
    with and `dataset`. Raises where anything else of them differs.

    Args:
        stored: The run.
        dataset: Rows with another fingerprint.
        fingerprint_of_run: The fingerprint of the rows that the run was made with, which are read
            from where they were then.

    Raises:
        UserError: These rows are gone, a question or one of its documents differs, or nothing does.
    """
    hashes = f"({fingerprint_of_run[:12]} then, {dataset.fingerprint[:12]} now)"
    differing_rows = (
        f"the rows of '{dataset.name}' are not those that {stored.path} was made with {hashes}"
    )
    original = _original_rows(stored, fingerprint_of_run, differing_rows)
    old_examples = {example.question.id: example for example in original.examples}
    new_examples = {example.question.id: example for example in dataset.examples}
    changed: set[str] = set()
    for question_id in dict.fromkeys(record.question_id for record in stored.records):
        old = old_examples.get(question_id)
        new = new_examples.get(question_id)
        if old is None or new is None or old.question != new.question:
            raise UserError(
                f"{differing_rows}: question '{question_id}' is another one, and only gold answers "
                "may differ"
            )
        for document_id in old.question.document_ids:
            if original.documents[document_id] != dataset.documents[document_id]:
                raise UserError(
                    f"{differing_rows}: a document of question '{question_id}' is another one; only "
                    "gold answers may differ"
                )
        if old.gold != new.gold:
            changed.add(question_id)
    if not changed:
        raise UserError(
            f"{differing_rows}, and no gold answer of its questions differs; leave --data out"
        )
    return frozenset(changed)


def _original_rows(stored: StoredRun, fingerprint: str, differing_rows: str) -> Dataset:
    """The rows that a run was made with, read from where they were then. Gold answers of other rows
    would score other questions.

    Args:
        stored: The run.
        fingerprint: The hash of these rows.
        differing_rows: The beginning of the error's sentence.

    Raises:
        UserError: They are not there any more.
    """
    config = dataset_of_run(stored.config, str(stored.path))
    no_limit = None
    original = call_noting_problem([], datasets.load, config, no_limit)
    if original is None or original.fingerprint != fingerprint:
        raise UserError(
            f"{differing_rows}; name the right file with --data. Other gold answers are taken where "
            f"the rows of then are still at {config.data or config.hub}"
        )
    return original


class _ScorersToCompute(NamedTuple):
    """By which scorers a run is scored again.

    Attributes:
        config: The settings of the run's data set, whose scorers are those to compute.
        versions: All scorers of the run from now on -> the version that computed their scores, ""
            for those to compute.
    """

    config: DatasetConfig
    versions: dict[str, str | None]


def _scorers_to_compute(
    stored: StoredRun,
    scorers: Sequence[str],
    only: bool,
    data: str | None,
    recompute_all: bool = False,
) -> _ScorersToCompute:
    """By which scorers a run is scored again: its own and those that the user names, without those
    that need not be computed. These are scorers of another tool and, where the user names others,
    own scorers by which every answer has a score already; their versions stay.

    Args:
        stored: The run.
        scorers: Those that the user names; () for none.
        only: They replace the run's own.
        data: Where the rows are now; None where they were then.
        recompute_all: Compute also scorers by which every answer has a score already.

    Returns:
        The settings of the data set with the scorers to compute; and all scorers of the run from
        now on with their versions, "" for those to compute.

    Raises:
        UserError: There is no scorer to compute.
    """
    config = dataset_of_run(stored.config, str(stored.path))
    stored_versions = stored.manifest.scorers
    replaces_own = only and bool(scorers)
    not_computed = {name for name in stored_versions if name.startswith(LOGGED_SCORE_PREFIX)}
    if scorers and not only and not recompute_all:
        not_named_by_user = stored_versions.keys() - set(scorers)
        not_computed |= _complete_scorers(stored, not_named_by_user)
    versions_that_stay = {
        name: stored_versions[name] for name in stored_versions if name in not_computed
    }
    own_scorers: list[str] = []
    if not replaces_own:
        own_scorers = [name for name in config.scorers if not name.startswith(LOGGED_SCORE_PREFIX)]
    names = [*own_scorers, *scorers, *versions_that_stay]
    versions = {name: versions_that_stay.get(name, "") for name in names}
    computed = tuple(name for name, known_version in versions.items() if not known_version)
    if not computed:
        raise UserError(f"{stored.path} has only scores of another tool; name some with --scorers")
    config = config.model_copy(update={"scorers": computed})
    if data is not None:
        config = config.model_copy(update={"data": with_home_expanded(data)})
    return _ScorersToCompute(config, versions)


def _complete_scorers(stored: StoredRun, names: set[str]) -> set[str]:
    """Those of `names` by which every answer of the run has a score, or a flag why it has none.
    None of them where an answer is not scored yet."""
    complete = names
    for record in stored.records:
        if lacks_only_scores(record.error):
            return set()
        if record.error is None:
            scored_or_flagged = record.scores.keys() | record.flags.keys()
            complete = complete & scored_or_flagged
    return complete


@dataclass(frozen=True)
class _Rescoring:
    """A run folder whose records are scored again.

    Attributes:
        stored: The run as it was.
        config: The settings of its data set, whose scorers are those to compute.
        versions: All scorers of the run -> the version that computed their scores, "" for those to
            compute.
        dataset: The rows; None if they are not read. Records get the texts of it that they lack.
        corrected: Ids of questions that get other gold answers from `dataset`, and keep their
            former scores in `notes.uncorrected`.
    """

    stored: StoredRun
    config: DatasetConfig
    versions: Mapping[str, str | None]
    dataset: Dataset | None = None
    corrected: frozenset[str] = frozenset()

    def run(self) -> RunSummary:
        """Score every record, then replace them all, and return the new summary. Also writes
        manifest, settings and summary anew, adds texts that records lack where the rows were read,
        and prints warnings to stderr.

        If a record cannot be scored, the folder stays as it was.
        """
        note = partial(print, file=sys.stderr)
        with RunStore.open(self.stored.path, self._fingerprint_to_open(), note) as store:
            store.replace_records(self._rescored_records())
            numbers = summarise(store.records(), store.index_lines(), self.stored.config)
            if self.dataset is not None:
                update_texts(store, self.dataset, self.config.keep_texts, note)
            store.write_manifest(self._with_versions(store.manifest()))
            config = self.stored.config.with_dataset(
                scorers=list(self.versions), data=self.config.data
            )
            store.write_run_yaml(config, self.stored.origins)
            summary = store.write_summary(self.stored.summary.with_numbers(numbers))
        for sentence in warnings_of_silent_scorers(self.config.scorers, summary):
            note(sentence)
        for sentence in self._notes_on_corrections():
            note(sentence)
        return summary

    def _fingerprint_of_run(self) -> str | None:
        """The fingerprint of the rows that the run was made with; None where its manifest has
        none."""
        return self.stored.manifest.dataset.fingerprint

    def _fingerprint_to_open(self) -> str | None:
        """The fingerprint that the run folder must have to be opened: that of the rows that are
        read, but where gold answers are corrected that of the rows before."""
        if self.dataset is None or self.corrected:
            return self._fingerprint_of_run()
        return self.dataset.fingerprint

    def _rescored_records(self) -> Iterable[StoredRecord]:
        """The records with their new scores, by the gold answers of the rows, or without rows by
        those that the records hold. They are read and scored one at a time, as they are asked for.
        Where the records' own gold answers cannot be used, that is raised as a DataError."""
        path = self.stored.path / RECORDS
        kept_scorers = []  # those of other tools stay without being named
        for name, computed_version in self.versions.items():
            if computed_version and not name.startswith(LOGGED_SCORE_PREFIX):
                kept_scorers.append(name)
        if self.dataset is None:
            records = rescored(
                StreamedRecords(path), self.config, gold=None, kept_scorers=kept_scorers
            )
            has_own_scorer = any(":" in name for name in self.config.scorers)
            if has_own_scorer:
                return records  # what a function of the user's own raises is not about gold answers
            return _errors_about_gold(records, path)
        gold = {example.question.id: example.gold for example in self.dataset.examples}
        records = rescored(StreamedRecords(path), self.config, gold, kept_scorers)
        if not self.corrected:
            return records
        return _with_corrected_gold(records, self.stored, self.corrected, gold)

    def _with_versions(self, manifest: RunManifest) -> RunManifest:
        """The manifest with the versions of the scorers. Where gold answers were corrected, also
        with the new fingerprint of the rows, and a `Correction` that holds the former one and the
        former scores.

        Args:
            manifest: The folder's manifest.
        """
        versions: dict[str, str | None] = {}
        for name, computed_version in self.versions.items():
            versions[name] = computed_version or version(name)
        changed = manifest.with_values(scorers=versions)
        if not self.corrected or self.dataset is None:
            return changed
        correction = Correction(
            at=utc_now(),
            file=Path(self.config.data or self.dataset.source).name,
            questions=len(self.corrected),
            before=self._fingerprint_of_run(),
            scores=self.stored.summary.means,
        )
        return changed.with_values(
            corrected=[*manifest.corrected, correction],
            dataset=manifest.dataset.with_values(fingerprint=self.dataset.fingerprint),
        )

    def _notes_on_corrections(self) -> Iterator[str]:
        """Yield sentences that the user has to know of corrected gold answers; none where none is
        corrected."""
        if not self.corrected:
            return
        yield (
            f"{self.stored.path}: gold answers of {len(self.corrected)} questions are corrected; "
            "the scores of before are kept"
        )
        if self.stored.manifest.judges:
            yield "its judges saw the former gold answers; ask them again with harness judge"


def _with_corrected_gold(
    records: Iterable[StoredRecord],
    stored: StoredRun,
    corrected: frozenset[str],
    gold: Mapping[str, Gold],
) -> Iterator[StoredRecord]:
    """Yield the records; those of corrected questions with the gold answers of now, where records
    hold gold answers, and with their scores before the first correction in `notes.uncorrected`.

    Args:
        records: With their new scores, in the order of the folder.
        stored: The run as it was.
        corrected: Ids of questions with other gold answers.
        gold: Question id -> gold answers.
    """
    for record, old in zip(records, StreamedRecords(stored.path / RECORDS), strict=True):
        if record.question_id not in corrected:
            yield record
            continue
        # What an earlier correction noted stands in `record.notes`, and stays.
        notes = {"uncorrected": old.scores, **record.notes}
        changed = replace(record, notes=notes)
        if record.gold:
            answers = cast(StoredGold, json_values(gold[record.question_id], not_finite=[]))
            changed = replace(changed, gold=answers)
        yield changed


def _errors_about_gold(records: Iterable[StoredRecord], path: Path) -> Iterator[StoredRecord]:
    """Yield the records, each scored as it is asked for; an error meanwhile becomes a DataError
    about the gold answers that the records hold.

    Args:
        records: Scored one at a time as they are read.
        path: The file that they come from.
    """
    try:
        yield from records
    except STOPS:
        raise
    except Exception as broken:  # noqa: BLE001 - whatever a scorer makes of what the folder holds
        problem = f"its gold answers cannot be used ({type(broken).__name__}: {broken})"
        raise DataError(
            path,
            line=None,
            field="gold",
            problem=f"{problem}; name the data set's file with --data",
        ) from None
