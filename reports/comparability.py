"""Whether runs of one data set may be ranked together: the same rows, the same questions, the same
task.

A score over other questions ranks questions, not methods: such a run stays in the table with a
footnote, has no ratio to a reference that was asked something else, and dominates nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import NamedTuple

import numpy as np

from harness.config.schema import SAMPLING
from harness.errors import UserError
from harness.scorers.squad import exact
from harness.storage.run_folder import StoredRun
from reports import facts
from reports.checks import Checks, run_identity
from reports.copies import count_changed_in_copy
from reports.differences import Difference, differences
from reports.run_records import question_ids
from reports.settings import run_versions

_CORPUS_KEY = "manifest.corpus.searched"
_EVIDENCE_RECALL = "evidence_recall"  # which a table shows beside the headline
_NOTED_IN_TABLES = re.compile(
    r"whether its files .*|what was asked.*|.*, a score of its data set"
    r"|whether .* is its preset's.*"
)
"""What tables say was not checked; verify says all."""


class QuestionSet(NamedTuple):
    """What a run was asked.

    Attributes:
        rows: The hash of its data set's rows; None where the manifest has none.
        ids: The ids of its questions, failed ones too.
    """

    rows: str | None
    ids: frozenset[str]


def question_set(run: StoredRun) -> QuestionSet:
    """What a run was asked: rows of its data set, and questions of these."""
    return QuestionSet(facts.rows_fingerprint(run), question_ids(run))


def most_common_question_set(question_sets: Sequence[QuestionSet]) -> QuestionSet:
    """The question set that most runs have; of several, the one with most questions, then the
    first."""
    counts = Counter(question_sets)

    def runs_then_questions(questions: QuestionSet) -> tuple[int, int]:
        """A sort key: how many runs have these questions, then how many questions they are."""
        return counts[questions], len(questions.ids)

    return max(counts, key=runs_then_questions)


@dataclass(frozen=True)
class NotRanked:
    """Why a run should not be ranked with the run that stands for most of its data set.

    Attributes:
        sentence: The reasons in words, with the names of both runs.
        reasons: The reasons, a phrase each: "another seed (0 and 1)".
        only_other_questions: Whether it was asked other questions of the same rows, and nothing
            else speaks against it; on the questions in common it may be compared.
        has_copied_answers: Whether some of its answers are copies of another run's.
    """

    sentence: str
    reasons: Sequence[str]
    only_other_questions: bool
    has_copied_answers: bool


def reasons_not_to_rank(
    runs: Sequence[StoredRun], checks: Checks | None = None
) -> list[NotRanked | None]:
    """For each run, why it should not be ranked with the run that stands for most of its data set.

    Args:
        runs: The runs of a table.
        checks: What was found in their records; by default they are read for it.

    Returns:
        The reasons for each run; None where it may be ranked.
    """
    checks = checks or Checks()
    labels = facts.run_labels(runs)
    typical_positions = _typical_positions(runs, checks)
    copied_counts = _count_copied_answers(runs, checks)
    found: list[NotRanked | None] = []
    for position, run in enumerate(runs):
        typical_position = typical_positions[run.config.dataset.name]
        typical_run = runs[typical_position]
        reasons = []
        if position != typical_position:
            reasons = _reasons_not_to_rank_with(run, typical_run, labels[position], checks)
        has_same_rows = question_set(run).rows == question_set(typical_run).rows
        are_about_questions = reasons == _question_reasons(run, typical_run)
        n_copied = copied_counts[position]
        if n_copied:
            reasons.append(
                f"{n_copied} of its answers have the costs of another run's, seconds included"
            )
        if not reasons:
            found.append(None)
            continue
        start = f"{labels[position]} should not be ranked"
        if position != typical_position:
            start += f" with {labels[typical_position]}"
        not_ranked = NotRanked(
            sentence=f"{start}: {'; '.join(reasons)}",
            reasons=reasons,
            only_other_questions=has_same_rows and are_about_questions and not n_copied,
            has_copied_answers=n_copied > 0,
        )
        found.append(not_ranked)
    return found


def _typical_positions(runs: Sequence[StoredRun], checks: Checks) -> dict[str, int]:
    """Data set -> the place in `runs` of the run that stands for most runs of it."""
    positions_by_dataset: dict[str, list[int]] = {}
    for position, run in enumerate(runs):
        positions_by_dataset.setdefault(run.config.dataset.name, []).append(position)
    return {
        name: _typical_position(runs, positions, checks)
        for name, positions in positions_by_dataset.items()
    }


def _typical_position(runs: Sequence[StoredRun], positions: Sequence[int], checks: Checks) -> int:
    """The place of the run that stands for most runs of its data set.

    It is a finished method where there is one, and has the commonest questions of these; of such
    runs, the commonest task and texts with gold answers.

    Args:
        runs: All runs.
        positions: Places in `runs` of the runs of one data set.
        checks: What was found in their records.
    """
    questions_by_position = {}
    for position in _deciding_positions(runs, positions):
        questions_by_position[position] = question_set(runs[position])
    commonest_questions = most_common_question_set(list(questions_by_position.values()))
    task_by_position = {}
    for position, questions in questions_by_position.items():
        if questions == commonest_questions:
            run = runs[position]
            task_and_texts = (facts.task_settings(run), checks.examined(run).texts_key)
            task_by_position[position] = task_and_texts
    all_tasks = list(task_by_position.values())

    def count_of_same_task(position: int) -> int:
        """How many of the runs have the task and texts of this one."""
        return all_tasks.count(task_by_position[position])

    return max(task_by_position, key=count_of_same_task)


def _deciding_positions(runs: Sequence[StoredRun], positions: Sequence[int]) -> Sequence[int]:
    """The places of the runs that decide which questions are usual in a table: finished methods.

    Floors and upper bounds only mark the range. Without a finished method the others decide, and
    without any method all runs.

    Args:
        runs: All runs.
        positions: Places in `runs` of the runs of one data set.
    """
    methods = []
    for position in positions:
        run = runs[position]
        if not facts.is_floor(run) and not facts.is_upper_bound(run):
            methods.append(position)
    finished = [position for position in methods if not facts.is_unfinished(runs[position])]
    return finished or methods or positions


def _reasons_not_to_rank_with(
    run: StoredRun, typical_run: StoredRun, label: str, checks: Checks
) -> list[str]:
    """Why a run should not be ranked with another, a phrase each; [] where it may be. Of a run that
    another tool made only the questions are compared.

        -> ["another task (instruction)", "another seed (0 and 1)"]

    Args:
        run: The run.
        typical_run: The run that stands for most of its data set.
        label: The name of the run in tables; a seed that it names is no reason.
        checks: What was found in the records of both.
    """
    reasons = _question_reasons(run, typical_run)
    if facts.is_imported(run) or facts.is_imported(typical_run):
        return reasons
    reasons += different_texts(run, typical_run, checks)
    all_differences = differences(run, typical_run)
    differing = [difference for difference in all_differences if difference.kind == "answers"]
    reasons += _task_reasons(differing)
    reasons += _reader_reasons(run, typical_run, differing)
    for difference in differing:
        if difference.key in keys_outside_task(label):
            reasons.append(f"another {difference.key} ({difference.values})")
        if difference.key == _CORPUS_KEY:
            reasons.append(f"another corpus ({corpora_in_words(difference)})")
        if difference.key.startswith("manifest.dataset."):
            reasons.append(f"other rows read ({difference})")
    return reasons + _scorer_reasons(run, typical_run)


def _task_reasons(differing: Sequence[Difference]) -> list[str]:
    """One phrase on the settings of the data set in which two runs differ, "another task
    (instruction, shots)"; [] for none."""
    differing_keys = [difference.key for difference in differing]
    task_keys = [key for key in differing_keys if key.startswith("dataset.")]
    if not task_keys:
        return []
    names = sorted(key.removeprefix("dataset.") for key in task_keys)
    return [f"another task ({', '.join(names)})"]


def _reader_reasons(run: StoredRun, base: StoredRun, differing: Sequence[Difference]) -> list[str]:
    """One phrase where two runs have different readers of one name; [] otherwise.

    Readers of different names are seen in the table, and applications are what is compared.

    Args:
        run: The run.
        base: The run that stands for most of its data set.
        differing: The differences of the two that change answers.
    """
    if run.config.model.name != base.config.model.name or _one_is_application(run, base):
        return []
    reader_keys = [difference.key for difference in differing if _is_of_reader(difference)]
    if not reader_keys:
        return []
    names = [key.removeprefix("manifest.") for key in reader_keys]
    return [f"another reader of the same name ({', '.join(names)})"]


def _is_of_reader(difference: Difference) -> bool:
    """Whether a difference is in a setting of the model that wrote the answers."""
    return difference.key.startswith(("model.", "manifest.models."))


def _scorer_reasons(run: StoredRun, base: StoredRun) -> list[str]:
    """One phrase where the scorer of the headline had another version, "another version of f1 (2
    and 1)"; [] where it is the same, or not known."""
    name = facts.common_headline_score([base, run])
    if name not in facts.score_names(run):
        return []
    version = facts.scorer_version(run, name)
    base_version = facts.scorer_version(base, name)
    both_are_known = version is not None and base_version is not None
    if not both_are_known or version == base_version:
        return []
    return [f"another version of {name} ({version} and {base_version})"]


def corpora_in_words(difference: Difference) -> str:
    """What two runs searched in: "wiki18 and own documents"."""
    corpus = difference.run_value or "own documents"
    base_corpus = difference.base_value or "own documents"
    return f"{corpus} and {base_corpus}"


def keys_outside_task(label: str) -> set[str]:
    """Settings outside of method, data set and models that change answers; without the seed where
    the label of the run names it, so that it is seen in the table."""
    keys = {"seed", "sample", "sample_seed", "failed"}
    if "seed=" in label:
        keys.remove("seed")
    return keys


def _question_reasons(run: StoredRun, base: StoredRun) -> list[str]:
    """Phrases on other rows of the data set, and other questions of these; [] where both are
    equal.

    -> ["other questions (20 and 18, 18 in common)", "--common shows all runs on ..."]
    """
    questions = question_set(run)
    base_questions = question_set(base)
    reasons = []
    if questions.rows != base_questions.rows:
        hashes = f"{_short_hash(questions.rows)} and {_short_hash(base_questions.rows)}"
        reasons.append(f"other rows of the data set (fingerprints {hashes})")
    shared = questions.ids & base_questions.ids
    if questions.ids != base_questions.ids:
        counts = f"{len(questions.ids)} and {len(base_questions.ids)}, {len(shared)} in common"
        reasons.append(f"other questions ({counts})")
        if questions.rows == base_questions.rows and shared:
            reasons.append("--common shows all runs on the questions in common")
    return reasons


def _short_hash(rows_hash: str | None) -> str:
    """The first twelve digits of the hash of rows; "not recorded" where there is none."""
    return (rows_hash or "not recorded")[:12]


def different_texts(run: StoredRun, base: StoredRun, checks: Checks) -> list[str]:
    """What differs between the records of two runs for the same questions, a phrase each: "other
    gold answers of 3 questions".

    Compared are gold answers, question texts, kinds, documents and their lengths. [] where the runs
    read different rows of the data set, as that says it already.

    Args:
        run: The run.
        base: The run that it is compared with.
        checks: What was found in the records of both.
    """
    if facts.rows_fingerprint(run) != facts.rows_fingerprint(base):
        return []
    examined = checks.examined(run)
    base_examined = checks.examined(base)
    counts = (
        (examined.count_different_golds(base_examined), "other gold answers of {} questions"),
        (examined.count_different_questions(base_examined), "other texts of {} questions"),
        (examined.count_different_kinds(base_examined), "other kinds of {} questions"),
        (examined.count_different_documents(base_examined), "other documents of {} questions"),
        (
            examined.count_different_lengths(base_examined),
            "documents of other lengths of {} questions",
        ),
        (
            count_changed_in_copy(run.whole_run or run, base.whole_run or base),
            "{} other records, though both are copies of one run",
        ),
    )
    return [phrase.format(count) for count, phrase in counts if count]


def _one_is_application(run: StoredRun, base: StoredRun) -> bool:
    """Whether the reader of either run is an application of the user's."""
    return facts.is_application(run) or facts.is_application(base)


def answer_differences(run: StoredRun, base: StoredRun) -> list[str]:
    """What besides the method may make the answers of two runs differ.

        -> ["have different seeds (0 and 1)", "have different readers (llama-8b and qwen-7b)"]

    Returns:
        The end of a sentence each; [] where only the methods differ.
    """
    sentences: list[str] = []
    reader_keys = []
    for difference in differences(run, base):
        if difference.kind != "answers" or difference.key == "failed":
            continue
        if difference.key == "seed":
            seed = run.config.seed
            base_seed = base.config.seed
            sentences.append(f"have different seeds ({seed} and {base_seed})")
        elif difference.key.removeprefix("model.") in SAMPLING:
            sentences.append(f"were answered differently ({difference})")
        elif _is_of_reader(difference):
            reader_keys.append(difference.key.removeprefix("manifest."))
        elif difference.key == _CORPUS_KEY:
            sentences.append(f"searched in different texts ({corpora_in_words(difference)})")
        else:
            sentences.append(f"were asked differently ({difference})")
    if _one_is_application(run, base):
        return sentences
    if reader_keys or facts.reader_identity(run) != facts.reader_identity(base):
        sentences.append(_different_readers(run, base, reader_keys))
    return sentences


def _different_readers(run: StoredRun, base: StoredRun, keys: Sequence[str]) -> str:
    """The end of a sentence on the readers of two runs: "have different readers (a and b)".

    Args:
        run: The run.
        base: The run that it is compared with.
        keys: Settings of the reader in which they differ.
    """
    name = facts.model_name(run)
    base_name = facts.model_name(base)
    readers = f"{name} and {base_name}"
    if name == base_name:
        readers = f"both named {name}"
    if keys:
        readers += f": {', '.join(keys)}"
    return f"have different readers ({readers})"


def _count_copied_answers(runs: Sequence[StoredRun], checks: Checks) -> list[int]:
    """For each run, how many of its answers another run has at the same cost, to the last digit of
    the seconds.

    Copies of a whole run are one run, so their answers do not count as copied.
    """
    # An answer and its costs are compared by their hash; 0 stands for one that is not known.
    hashes_by_run = {run_identity(run): checks.examined(run).answers_with_costs for run in runs}
    all_hashes = np.concatenate(list(hashes_by_run.values()))
    known_hashes = all_hashes[all_hashes != 0]
    distinct_hashes, n_runs_with_hash = np.unique(known_hashes, return_counts=True)
    hashes_of_several_runs = distinct_hashes[n_runs_with_hash > 1]
    counts = []
    for run in runs:
        is_copied = np.isin(checks.examined(run).answers_with_costs, hashes_of_several_runs)
        counts.append(int(is_copied.sum()))
    return counts


def notes_on_versions(runs: Sequence[StoredRun], checks: Checks | None = None) -> list[str | None]:
    """For each run, a sentence on its versions that are not those of most runs of its data set, and
    on costs that are measured otherwise; None where there is nothing to say.

    Args:
        runs: The runs of a table.
        checks: What was found in their records; by default they are read for it.
    """
    typical_positions = _typical_positions(runs, checks or Checks())
    versions_of_runs = [_versions_without_rows(run) for run in runs]
    versions_by_dataset: dict[str, list[dict[str, str]]] = {}
    for run, versions in zip(runs, versions_of_runs, strict=True):
        versions_by_dataset.setdefault(run.config.dataset.name, []).append(versions)
    commonest_versions: dict[str, dict[str, str]] = {}
    for dataset, versions_of_dataset in versions_by_dataset.items():
        commonest_versions[dataset] = max(versions_of_dataset, key=versions_of_dataset.count)
    sentences: list[str | None] = []
    for run, versions, label in zip(runs, versions_of_runs, facts.run_labels(runs), strict=True):
        dataset = run.config.dataset.name
        other_runs = "most runs"
        if len(versions_by_dataset[dataset]) == 2:
            other_runs = "the other run"
        parts = [
            *_version_sentence(label, versions, commonest_versions[dataset], other_runs),
            *_notes_on_costs(run, runs[typical_positions[dataset]], label),
        ]
        sentences.append("; ".join(parts) or None)
    return sentences


def _versions_without_rows(run: StoredRun) -> dict[str, str]:
    """What the run was made with, name -> version; without the rows of its data set, which
    reasons_not_to_rank compares."""
    versions = run_versions(run)
    versions.pop("rows", None)
    return versions


def _version_sentence(
    label: str, versions: dict[str, str], typical: dict[str, str], other_runs: str
) -> list[str]:
    """One sentence on the versions in which a run differs from most; [] for none. What most runs do
    not have is not compared.

        -> ["bm25 was made with numpy 2.1 (most runs: 2.0)"]

    Args:
        label: Its name in tables.
        versions: What the run was made with, package -> version.
        typical: What most runs of its data set were made with.
        other_runs: What the sentence calls those: "most runs" or "the other run".
    """
    parts = []
    for key, version in versions.items():
        if version != typical.get(key, version):
            parts.append(f"{key} {version} ({other_runs}: {typical[key]})")
    if not parts:
        return []
    return [f"{label} was made with {', '.join(parts)}"]


def _notes_on_costs(run: StoredRun, base: StoredRun, label: str) -> list[str]:
    """Sentences on costs that are measured otherwise than in another run, and on differing settings
    that nobody classified; [] where the two have other models or applications.

    Args:
        run: The run.
        base: The run that stands for most of its data set.
        label: The name of the run in tables.
    """
    if run is base:
        return []
    if facts.is_imported(run) or facts.is_imported(base):
        return []
    if run.config.model.name != base.config.model.name or _one_is_application(run, base):
        return []
    costs = []
    not_checked = []
    for difference in differences(run, base):
        if _changes_measured_costs(difference):
            costs.append(str(difference))
        elif difference.kind == "not checked":
            not_checked.append(str(difference))
    sentences = []
    if costs:
        sentences.append(f"costs of {label} are measured otherwise ({', '.join(costs)})")
    if not_checked:
        sentences.append(f"{label}: not checked: {', '.join(not_checked)}")
    return sentences


def _changes_measured_costs(difference: Difference) -> bool:
    """Whether a difference changes how costs are measured; prices are left out, as
    reports/prices.py compares them over all runs."""
    return difference.kind == "cost" and not difference.key.startswith(("model.price.", "currency"))


def misfit_notes(run: StoredRun, checks: Checks) -> list[str]:
    """Sentences on what does not fit in a run.

    Also compares the scores that tables show with those that its stored answers give.

    Args:
        run: A stored run.
        checks: Holds what was found in its records, or reads them.
    """
    notes = checks.inconsistency_notes(run)
    shown_scores = {facts.headline_score(run), facts.first_score(run), _EVIDENCE_RECALL}
    for name in sorted(shown_scores.intersection(facts.score_names(run))):
        problem = checks.rescored(run, name).problem
        if problem is not None:
            notes.append(f"does not fit: {problem}")
    return notes


def unchecked_notes(run: StoredRun, checks: Checks) -> list[str]:
    """Sentences on what could not be checked of a finished run, as far as tables note it; of one that
    is not finished, nothing.

    Args:
        run: A stored run.
        checks: Holds what was found in its records, or reads them.
    """
    if not run.summary.is_finished:
        return []
    phrases = checks.unchecked(run)
    return [f"not checked: {phrase}" for phrase in phrases if _NOTED_IN_TABLES.fullmatch(phrase)]


def on_common_questions(runs: Sequence[StoredRun]) -> list[StoredRun]:
    """The runs, each reduced to the questions that all runs over the same rows were asked; a note
    of each reduced run says to how many.

    Raises:
        UserError: Runs over the same rows have no question in common.
    """
    common_ids: dict[_RowsKey, frozenset[str]] = {}
    for run in runs:
        rows_key = _rows_key(run)
        ids = question_ids(run)
        common_so_far = common_ids.get(rows_key, ids)
        common_ids[rows_key] = common_so_far & ids
    datasets_without_common = []
    for rows_key, ids in common_ids.items():
        if not ids:
            datasets_without_common.append(rows_key.dataset)
    if datasets_without_common:
        names = ", ".join(datasets_without_common)
        raise UserError(f"--common: the runs over {names} have no question in common")
    return [_with_questions(run, common_ids[_rows_key(run)]) for run in runs]


class _RowsKey(NamedTuple):
    """The name of a data set, and the hash of the rows that were read of it."""

    dataset: str
    rows_hash: str | None


def _rows_key(run: StoredRun) -> _RowsKey:
    """The data set and rows of a run, equal for runs over equal rows."""
    return _RowsKey(run.config.dataset.name, facts.rows_fingerprint(run))


def _with_questions(run: StoredRun, ids: frozenset[str]) -> StoredRun:
    """The run with only the questions `ids` and a note that says so; unchanged where it has no
    others."""
    kept_records = [record for record in run.records if record.question_id in ids]
    if len(kept_records) == len(run.records):
        return run
    note = (
        f"reduced to the {len(kept_records)} of {len(run.records)} questions that every run was "
        "asked (--common)"
    )
    return replace(run, records=kept_records, whole_run=run, notes=(*run.notes, note))


@dataclass(frozen=True)
class SharedQuestions:
    """The questions that two whole runs have in common.

    Attributes:
        number: How many they share.
        of_larger: How many the larger run has; those that an import left out count as a run's.
        sentence: "musique: bm25 with llama-8b and ... share 90 questions (...) of 100 and 95".
    """

    number: int
    of_larger: int
    sentence: str


def shared_questions(run: StoredRun, base: StoredRun) -> SharedQuestions:
    """How many questions two runs have in common, by id, question and a right answer.

    Parts of runs are compared as the whole runs that they are of.
    """
    run = run.whole_run or run
    base = base.whole_run or base
    n_questions = _count_questions(run)
    n_base_questions = _count_questions(base)
    n_shared = len(same_question_ids(run, base))
    sentence = (
        f"{run.config.dataset.name}: {_run_in_words(run)} and {_run_in_words(base)} share "
        f"{n_shared} questions (id, question and a right answer) of {n_questions} and "
        f"{n_base_questions}"
    )
    return SharedQuestions(n_shared, max(n_questions, n_base_questions), sentence)


def _count_questions(run: StoredRun) -> int:
    """The number of questions of a run; of an imported one, those that the import left out count
    too."""
    n_recorded = len(run.records)
    if not facts.is_imported(run):
        return n_recorded
    return run.manifest.dataset.questions or n_recorded


def _run_in_words(run: StoredRun) -> str:
    """A run in a sentence: "bm25 with llama-8b"; an application has no model."""
    if facts.is_application(run):
        return run.config.method.name
    return f"{run.config.method.name} with {facts.model_name(run)}"


def same_question_ids(run: StoredRun, base: StoredRun) -> set[str]:
    """Ids that stand for the same question in both runs.

    Of an id that both have, question text and right answers must agree as far as both runs hold
    them.
    """
    base_texts = _texts_by_question(base)
    same_ids = set()
    for question_id, texts in _texts_by_question(run).items():
        if question_id in base_texts and texts.may_be(base_texts[question_id]):
            same_ids.add(question_id)
    return same_ids


@dataclass(frozen=True)
class _QuestionTexts:
    """A question and its right answers, as far as a record holds them."""

    question: str | None
    answers: Sequence[str]

    def may_be(self, other: _QuestionTexts) -> bool:
        """Whether nothing speaks against both being one question: texts that are unknown agree with
        any."""
        questions_agree = _may_be_equal([self.question], [other.question])
        return questions_agree and _may_be_equal(self.answers, other.answers)


def _texts_by_question(run: StoredRun) -> dict[str, _QuestionTexts]:
    """Question id -> its text and gold answers, as the run recorded them."""
    texts = {}
    for record in run.records_with_texts:
        answers = record.gold_answers
        texts[record.question_id] = _QuestionTexts(record.question, answers)
    return texts


def _may_be_equal(texts: Sequence[str | None], others: Sequence[str | None]) -> bool:
    """Whether two lists have a text in common after normalising, or either list has no known
    text."""
    known_texts = [text for text in texts if text]
    known_others = [text for text in others if text]
    if not known_texts or not known_others:
        return True
    return any(exact(text, other) for text, other in product(known_texts, known_others))
