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

import numpy as np

from harness.config.schema import SAMPLING
from harness.errors import UserError
from harness.scorers.squad import exact
from harness.storage.run_folder import StoredRun
from reports import facts
from reports.checks import Checks, identity
from reports.copies import changed_in_copy
from reports.differences import Difference, differences
from reports.run_records import question_ids
from reports.settings import made_with

_CORPUS = "manifest.corpus.searched"
_RECALL = "evidence_recall"  # which a table shows beside the headline
_NOTED = re.compile(
    r"whether its files .*|what was asked.*|.*, a score of its data set"
    r"|whether .* is its preset's.*"
)
"""What tables say was not checked; verify says all."""
QuestionSet = tuple[str | None, frozenset[str]]
"""(Hash of the rows, None where the manifest has none; ids of the questions)."""


def question_set(run: StoredRun) -> QuestionSet:
    """What a run was asked: the hash of its data set's rows, and the ids of its questions, failed
    ones too; the hash is None where the manifest has none."""
    return facts.fingerprint(run), question_ids(run)


def most_common(keys: Sequence[QuestionSet]) -> QuestionSet:
    """The question set that most runs have; of several, the one with most questions, then the
    first."""
    counts = Counter(keys)

    def commonness(key: QuestionSet) -> tuple[int, int]:
        """How many runs have a question set, then how many questions it has."""
        _, questions = key
        return counts[key], len(questions)

    return max(counts, key=commonness)


def reasons_not_to_rank(
    runs: Sequence[StoredRun], checks: Checks | None = None
) -> list[str | None]:
    """For each run, why it should not be ranked with the run that stands for most of its data set.

    Args:
        runs: The runs of a table.
        checks: What was found in their records; by default they are read for it.

    Returns:
        A sentence for each run; None where it may be ranked.
    """
    checks = checks or Checks()
    labels = facts.labels(runs)
    usual = _usual_runs(runs, checks)
    copied = _copied_answers(runs, checks)
    sentences: list[str | None] = []
    for place, run in enumerate(runs):
        base = usual[run.config.dataset.name]
        reasons = []
        if place != base:
            reasons = _reasons(run, runs[base], labels[place], checks)
        if copied[place]:
            reasons.append(
                f"{copied[place]} of its answers have the costs of another run's, seconds included"
            )
        if reasons:
            head = f"{labels[place]} should not be ranked with {labels[base]}"
            sentences.append(f"{head}: {'; '.join(reasons)}")
        else:
            sentences.append(None)
    return sentences


def _usual_runs(runs: Sequence[StoredRun], checks: Checks) -> dict[str, int]:
    """Data set -> the place in `runs` of the run that stands for most runs of it."""
    places: dict[str, list[int]] = {}
    for place, run in enumerate(runs):
        places.setdefault(run.config.dataset.name, []).append(place)
    return {name: _usual_place(runs, members, checks) for name, members in places.items()}


def _usual_place(runs: Sequence[StoredRun], members: Sequence[int], checks: Checks) -> int:
    """The place of the run that stands for most runs of its data set.

    It has the commonest questions; of such runs, the commonest task and texts with gold answers.

    Args:
        runs: All runs.
        members: Places in `runs` of the runs of one data set.
        checks: What was found in their records.
    """
    keys = {place: question_set(runs[place]) for place in members}
    commonest = most_common(list(keys.values()))
    tasks = {}
    for place, key in keys.items():
        if key == commonest:
            run = runs[place]
            tasks[place] = [facts.task(run), checks.examined(run).texts_key]
    all_tasks = list(tasks.values())
    return max(tasks, key=lambda place: all_tasks.count(tasks[place]))


def _reasons(run: StoredRun, base: StoredRun, label: str, checks: Checks) -> list[str]:
    """Why a run should not be ranked with another, a phrase each; [] where it may be.

        -> ["another task (instruction)", "another seed (0 and 1)"]

    Args:
        run: The run.
        base: The run that stands for most of its data set.
        label: The name of the run in tables; a seed that it names is no reason.
        checks: What was found in the records of both.
    """
    reasons = _question_reasons(run, base)
    if facts.is_imported(run) or facts.is_imported(base):
        return reasons
    reasons += text_reasons(run, base, checks)
    found = [one for one in differences(run, base) if one.kind == "answers"]
    reasons += _task_reasons(found)
    reasons += _reader_reasons(run, base, found)
    for one in found:
        if one.key in task_free_keys(label):
            reasons.append(f"another {one.key} ({one.values})")
        if one.key == _CORPUS:
            reasons.append(f"another corpus ({corpora(one)})")
        if one.key.startswith("manifest.dataset."):
            reasons.append(f"other rows read ({one})")
    return reasons + _scorer_reasons(run, base)


def _task_reasons(found: Sequence[Difference]) -> list[str]:
    """One phrase on the settings of the data set in which two runs differ, "another task
    (instruction, shots)"; [] for none."""
    task = [one.key.removeprefix("dataset.") for one in found if one.key.startswith("dataset.")]
    if not task:
        return []
    return [f"another task ({', '.join(sorted(task))})"]


def _reader_reasons(run: StoredRun, base: StoredRun, found: Sequence[Difference]) -> list[str]:
    """One phrase where two runs have different readers of one name; [] otherwise.

    Readers of different names are seen in the table, and applications are what is compared.

    Args:
        run: The run.
        base: The run that stands for most of its data set.
        found: The differences of the two that change answers.
    """
    if run.config.model.name != base.config.model.name or _has_application(run, base):
        return []
    names = [one.key.removeprefix("manifest.") for one in found if _is_of_reader(one)]
    if not names:
        return []
    return [f"another reader of the same name ({', '.join(names)})"]


def _is_of_reader(one: Difference) -> bool:
    """Whether a difference is in a setting of the model that wrote the answers."""
    return one.key.startswith(("model.", "manifest.models."))


def _scorer_reasons(run: StoredRun, base: StoredRun) -> list[str]:
    """One phrase where the scorer of the headline had another version, "another version of f1 (2
    and 1)"; [] where it is the same, or not known."""
    name = facts.common_headline([base, run])
    if name not in facts.score_names(run):
        return []
    version = facts.scorer_version(run, name)
    usual = facts.scorer_version(base, name)
    if version is None or usual is None or version == usual:
        return []
    return [f"another version of {name} ({version} and {usual})"]


def corpora(difference: Difference) -> str:
    """What two runs searched in: "wiki18 and own documents"."""
    ours = difference.ours or "own documents"
    theirs = difference.theirs or "own documents"
    return f"{ours} and {theirs}"


def task_free_keys(label: str) -> set[str]:
    """Settings outside of method, data set and models that change answers; without the seed where
    the label of the run names it, so that it is seen in the table."""
    keys = {"seed", "sample", "sample_seed", "failed"}
    if "seed=" in label:
        keys.remove("seed")
    return keys


def _question_reasons(run: StoredRun, base: StoredRun) -> list[str]:
    """Phrases on other rows of the data set, and other questions of these; [] where both are
    equal."""
    rows, ids = question_set(run)
    usual_rows, usual_ids = question_set(base)
    reasons = []
    if rows != usual_rows:
        fingerprints = f"{_short_fingerprint(rows)} and {_short_fingerprint(usual_rows)}"
        reasons.append(f"other rows of the data set (fingerprints {fingerprints})")
    shared = ids & usual_ids
    if ids != usual_ids:
        reasons.append(
            f"other questions ({len(ids)} and {len(usual_ids)}, {len(shared)} in common)"
        )
        if rows == usual_rows and shared:
            reasons.append("--common shows all runs on the questions in common")
    return reasons


def _short_fingerprint(rows: str | None) -> str:
    """The first twelve digits of a fingerprint of rows; "not recorded" where there is none."""
    return (rows or "not recorded")[:12]


def text_reasons(run: StoredRun, base: StoredRun, checks: Checks) -> list[str]:
    """Other gold answers, question texts and documents of questions that both runs were asked, a
    phrase each: "other gold answers of 3 questions".

    Where the rows of the data set differ, that says it already, and there is none.

    Args:
        run: The run.
        base: The run that it is compared with.
        checks: What was found in the records of both.
    """
    if facts.fingerprint(run) != facts.fingerprint(base):
        return []
    ours = checks.examined(run)
    theirs = checks.examined(base)
    counted = (
        (ours.different_golds(theirs), "other gold answers of {} questions"),
        (ours.different_questions(theirs), "other texts of {} questions"),
        (ours.different_marks(theirs), "other kinds of {} questions"),
        (ours.different_documents(theirs), "other documents of {} questions"),
        (ours.different_lengths(theirs), "documents of other lengths of {} questions"),
        (
            changed_in_copy(run.whole_run or run, base.whole_run or base),
            "{} other records, though both are copies of one run",
        ),
    )
    return [phrase.format(number) for number, phrase in counted if number]


def _has_application(run: StoredRun, base: StoredRun) -> bool:
    """Whether the reader of either run is an application of the user's."""
    return facts.is_application(run) or facts.is_application(base)


def answer_reasons(run: StoredRun, base: StoredRun) -> list[str]:
    """Why the answers of two runs differ by more than the method, for `harness compare`.

        -> ["have different seeds (0 and 1)", "have different readers (llama-8b and qwen-7b)"]

    Returns:
        The end of a sentence each; [] where only the methods differ.
    """
    sentences: list[str] = []
    reader_keys = []
    for one in differences(run, base):
        if one.kind != "answers" or one.key == "failed":
            continue
        if one.key == "seed":
            seed = run.config.seed
            base_seed = base.config.seed
            sentences.append(f"have different seeds ({seed} and {base_seed})")
        elif one.key.removeprefix("model.") in SAMPLING:
            sentences.append(f"were answered differently ({one})")
        elif _is_of_reader(one):
            reader_keys.append(one.key.removeprefix("manifest."))
        elif one.key == _CORPUS:
            sentences.append(f"searched in different texts ({corpora(one)})")
        else:
            sentences.append(f"were asked differently ({one})")
    if _has_application(run, base):
        return sentences
    if reader_keys or facts.reader(run) != facts.reader(base):
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
    who = f"{name} and {base_name}"
    if name == base_name:
        who = f"both named {name}"
    if keys:
        who += f": {', '.join(keys)}"
    return f"have different readers ({who})"


def _copied_answers(runs: Sequence[StoredRun], checks: Checks) -> list[int]:
    """For each run, how many of its answers another run has at the same cost, to the last digit of
    the seconds.

    Copies of a whole run are one run, so their answers do not count as copied.
    """
    hashes_by_id = {identity(run): checks.examined(run).spent for run in runs}
    hashes = np.concatenate(list(hashes_by_id.values()))
    values, counts = np.unique(hashes[hashes != 0], return_counts=True)  # 0 is unknown
    shared = values[counts > 1]
    return [int(np.isin(checks.examined(run).spent, shared).sum()) for run in runs]


def other_versions(runs: Sequence[StoredRun], checks: Checks | None = None) -> list[str | None]:
    """For each run, a sentence on its versions that are not those of most runs of its data set, and
    on costs that are measured otherwise; None where there is nothing to say.

    Args:
        runs: The runs of a table.
        checks: What was found in their records; by default they are read for it.
    """
    usual = _usual_runs(runs, checks or Checks())
    by_dataset: dict[str, list[dict[str, str]]] = {}
    made = []
    for run in runs:
        versions = made_with(run)
        versions.pop("rows", None)
        made.append(versions)
        by_dataset.setdefault(run.config.dataset.name, []).append(versions)
    usual_versions: dict[str, dict[str, str]] = {}
    for dataset, of_dataset in by_dataset.items():
        usual_versions[dataset] = max(of_dataset, key=of_dataset.count)
    sentences: list[str | None] = []
    for run, versions, label in zip(runs, made, facts.labels(runs), strict=True):
        dataset = run.config.dataset.name
        others = "most runs"
        if len(by_dataset[dataset]) == 2:
            others = "the other run"
        parts = [
            *_other_version_sentences(label, versions, usual_versions[dataset], others),
            *_cost_sentences(run, runs[usual[dataset]], label),
        ]
        sentences.append("; ".join(parts) or None)
    return sentences


def _other_version_sentences(
    label: str, versions: dict[str, str], usual: dict[str, str], others: str
) -> list[str]:
    """One sentence on the versions in which a run differs from most; [] for none.

        -> ["bm25 was made with numpy 2.1 (most runs: 2.0)"]

    Args:
        label: Its name in tables.
        versions: What the run was made with, package -> version.
        usual: What most runs of its data set were made with.
        others: What the sentence calls those: "most runs" or "the other run".
    """
    parts = []
    for key, version in versions.items():
        if version != usual.get(key, version):
            parts.append(f"{key} {version} ({others}: {usual[key]})")
    if not parts:
        return []
    return [f"{label} was made with {', '.join(parts)}"]


def _cost_sentences(run: StoredRun, base: StoredRun, label: str) -> list[str]:
    """Sentences on costs that are measured otherwise than in another run, and on differing settings
    that nobody classified; [] where the two have other models or applications.

    Args:
        run: The run.
        base: The run that stands for most of its data set.
        label: The name of the run in tables.
    """
    if run is base or facts.is_imported(run) or facts.is_imported(base):
        return []
    if run.config.model.name != base.config.model.name or _has_application(run, base):
        return []
    costs = []
    unknown = []
    for one in differences(run, base):
        if _is_measured(one):
            costs.append(str(one))
        elif one.kind == "not checked":
            unknown.append(str(one))
    sentences = []
    if costs:
        sentences.append(f"costs of {label} are measured otherwise ({', '.join(costs)})")
    if unknown:
        sentences.append(f"{label}: not checked: {', '.join(unknown)}")
    return sentences


def _is_measured(one: Difference) -> bool:
    """Whether a difference changes how costs are measured; prices are left out, as
    reports/prices.py compares them over all runs."""
    return one.kind == "cost" and not one.key.startswith(("model.price.", "currency"))


def record_notes(run: StoredRun, checks: Checks) -> list[str]:
    """Sentences on what does not fit in a run, and on what could not be checked.

    Also compares the scores that tables show with those that its stored answers give.

    Args:
        run: A stored run.
        checks: Holds what was found in its records, or reads them.
    """
    notes = checks.misfit_notes(run)
    shown = {facts.headline(run), facts.first_score(run), _RECALL}
    for name in sorted(shown.intersection(facts.score_names(run))):
        problem = checks.rescored(run, name).problem
        if problem is not None:
            notes.append(f"does not fit: {problem}")
    for phrase in checks.unchecked(run):
        if _NOTED.fullmatch(phrase) and run.summary.is_finished:
            notes.append(f"not checked: {phrase}")
    return notes


def on_common_questions(runs: Sequence[StoredRun]) -> list[StoredRun]:
    """The runs, each reduced to the questions that all runs over the same rows were asked; a note
    of each reduced run says to how many.

    Raises:
        UserError: Runs over the same rows have no question in common.
    """
    common: dict[_Rows, frozenset[str]] = {}
    for run in runs:
        _, ids = question_set(run)
        common[_rows(run)] = common.get(_rows(run), ids) & ids
    empty = [dataset for (dataset, _), ids in common.items() if not ids]
    if empty:
        raise UserError(f"--common: the runs over {', '.join(empty)} have no question in common")
    return [_reduced(run, common[_rows(run)]) for run in runs]


_Rows = tuple[str, str | None]
"""Data set, and fingerprint of its rows."""


def _rows(run: StoredRun) -> _Rows:
    """The data set of a run and the fingerprint of its rows, equal for runs over equal rows."""
    return run.config.dataset.name, facts.fingerprint(run)


def _reduced(run: StoredRun, ids: frozenset[str]) -> StoredRun:
    """The run with only the questions `ids` and a note that says so; unchanged where it has no
    others."""
    shared = [record for record in run.records if record.question_id in ids]
    if len(shared) == len(run.records):
        return run
    note = (
        f"reduced to the {len(shared)} of {len(run.records)} questions that every run was asked "
        "(--common)"
    )
    return replace(run, records=shared, whole_run=run, notes=(*run.notes, note))


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
    size = _size(run)
    base_size = _size(base)
    number = len(same_questions(run, base))
    sentence = (
        f"{run.config.dataset.name}: {_who(run)} and {_who(base)} share {number} questions (id, "
        f"question and a right answer) of {size} and {base_size}"
    )
    return SharedQuestions(number, max(size, base_size), sentence)


def _size(run: StoredRun) -> int:
    """The number of questions of a run; of an imported one, those that the import left out count
    too."""
    questions = None
    if facts.is_imported(run):
        questions = run.manifest.dataset.questions
    return questions or len(run.records)


def _who(run: StoredRun) -> str:
    """A run in a sentence: "bm25 with llama-8b"; an application has no model."""
    if facts.is_application(run):
        return run.config.method.name
    return f"{run.config.method.name} with {facts.model_name(run)}"


def same_questions(run: StoredRun, base: StoredRun) -> set[str]:
    """Ids that stand for the same question in both runs.

    Of an id that both have, question text and right answers must agree as far as both runs hold
    them.
    """
    base_texts = _texts_by_question(base)
    same = set()
    for question_id, texts in _texts_by_question(run).items():
        if question_id in base_texts and texts.may_be(base_texts[question_id]):
            same.add(question_id)
    return same


@dataclass(frozen=True)
class _QuestionTexts:
    """A question and its right answers, as far as a record holds them."""

    question: str | None
    answers: Sequence[str]

    def may_be(self, other: _QuestionTexts) -> bool:
        """Whether nothing speaks against both being one question: texts that are unknown agree with
        any."""
        return _may_be_equal([self.question], [other.question]) and _may_be_equal(
            self.answers, other.answers
        )


def _texts_by_question(run: StoredRun) -> dict[str, _QuestionTexts]:
    """Question id -> its text and gold answers, as the run recorded them."""
    found = {}
    for record in run.records_with_texts:
        answers = record.gold_answers
        found[record.question_id] = _QuestionTexts(record.question, answers)
    return found


def _may_be_equal(texts: Sequence[str | None], others: Sequence[str | None]) -> bool:
    """Whether two lists have a text in common after normalising, or either list has no known
    text."""
    given = list(filter(None, texts))
    others_given = list(filter(None, others))
    if not given or not others_given:
        return True
    return any(exact(text, other) for text, other in product(given, others_given))
