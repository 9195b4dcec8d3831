"""Whether runs of one data set may be ranked together: the same rows, the same questions, the same
task.

A score over other questions ranks questions, not methods: such a run stays in the table with a
footnote, has no ratio to a reference that was asked something else, and dominates nothing.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import compress, product
from typing import Any

import numpy as np

from harness.config.schema import SAMPLING
from harness.errors import UserError
from harness.scorers.squad import exact
from harness.storage.run_folder import StoredRun
from reports import facts
from reports.checks import Checks, identity
from reports.copies import changed_in_copy
from reports.differences import Difference, differences
from reports.settings import made_with

_CORPUS = "manifest.corpus.searched"
_RECALL = "evidence_recall"  # which a table shows beside the headline
QuestionSet = tuple[str | None, frozenset[str]]


def question_set(run: StoredRun) -> QuestionSet:
    """The fingerprint of the rows and the ids of the questions, failed ones too."""
    return facts.fingerprint(run), frozenset(record.question_id for record in run.records)


def most_common(keys: Sequence[QuestionSet]) -> QuestionSet:
    """The key that comes most often; of several, the one with most questions, then the first."""
    counts = Counter(keys)
    return max(counts, key=lambda key: (counts[key], len(key[1])))


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
    bases = _usual_runs(runs, checks)
    copied = _copied_answers(runs, checks)
    sentences: list[str | None] = []
    for i, run in enumerate(runs):
        base = bases[facts.run_key(run)[0]]
        reasons = [] if base == i else _reasons(run, runs[base], labels[i], checks)
        if copied[i]:
            reasons.append(
                f"{copied[i]} of its answers have the costs of another run's, seconds included"
            )
        sentence = f"{labels[i]} should not be ranked with {labels[base]}: {'; '.join(reasons)}"
        sentences.append(sentence if reasons else None)
    return sentences


def _usual_runs(runs: Sequence[StoredRun], checks: Checks) -> dict[str, int]:
    """Data set -> the place of the run that stands for most of its runs: the commonest questions,
    of these the commonest task, of these the commonest gold answers."""
    keys = [question_set(run) for run in runs]
    bases: dict[str, int] = {}
    for dataset in dict.fromkeys(facts.run_key(run)[0] for run in runs):
        members = [i for i, run in enumerate(runs) if facts.run_key(run)[0] == dataset]
        commonest = most_common([keys[i] for i in members])
        matching = [i for i in members if keys[i] == commonest]
        tasks = [[facts.task(runs[i]), checks.examined(runs[i]).texts_key] for i in matching]
        bases[dataset] = matching[tasks.index(max(tasks, key=tasks.count))]
    return bases


def _reasons(run: StoredRun, base: StoredRun, label: str, checks: Checks) -> list[str]:
    """Why a run should not be ranked with `base`, a phrase each; label: its name in tables."""
    reasons = _question_reasons(run, base)
    if facts.made_elsewhere(run) or facts.made_elsewhere(base):
        return reasons
    reasons += text_reasons(run, base, checks)
    found = [one for one in differences(run, base) if one.kind == "answers"]
    task = [one.key.removeprefix("dataset.") for one in found if one.key.startswith("dataset.")]
    if task:
        reasons.append(f"another task ({', '.join(sorted(task))})")
    reader = [one for one in found if one.key.startswith(("model.", "manifest.models."))]
    same_name = run.config["model"]["name"] == base.config["model"]["name"]
    if reader and same_name and not _has_application(run, base):
        names = [one.key.removeprefix("manifest.") for one in reader]
        reasons.append(f"another reader of the same name ({', '.join(names)})")
    for one in found:
        if one.key in task_free_keys(label):
            reasons.append(f"another {one.key} ({one.values})")
        if one.key == _CORPUS:
            reasons.append(f"another corpus ({corpora(one)})")
        if one.key.startswith("manifest.dataset."):
            reasons.append(f"other rows read ({one})")
    name = facts.headline(base)
    versions = [facts.scorer_version(each, name) for each in (run, base)]
    if name in facts.score_names(run) and None not in versions and versions[0] != versions[1]:
        reasons.append(f"another version of {name} ({versions[0]} and {versions[1]})")
    return reasons


def corpora(difference: Difference) -> str:
    """What two runs searched in."""
    names = [each or "own documents" for each in (difference.ours, difference.theirs)]
    return " and ".join(names)


def task_free_keys(label: str) -> set[str]:
    """Settings of a run beside its parts that change answers; a seed that the label names is seen
    there."""
    keys = {"seed", "sample", "sample_seed", "failed"}
    return keys - {"seed"} if "seed=" in label else keys


def _question_reasons(run: StoredRun, base: StoredRun) -> list[str]:
    """Other rows, and other questions of them."""
    (rows, asked), (usual_rows, usual) = question_set(run), question_set(base)
    reasons = []
    if rows != usual_rows:
        fingerprints = " and ".join((name or "not recorded")[:12] for name in (rows, usual_rows))
        reasons.append(f"other rows of the data set (fingerprints {fingerprints})")
    if asked != usual:
        reasons.append(
            f"other questions ({len(asked)} and {len(usual)}, {len(asked & usual)} in common)"
        )
        if rows == usual_rows and asked & usual:
            reasons.append("--common shows all runs on the questions in common")
    return reasons


def text_reasons(run: StoredRun, base: StoredRun, checks: Checks) -> list[str]:
    """Other gold answers and question texts of questions that both were asked; where the rows
    differ, that says it already."""
    if facts.fingerprint(run) != facts.fingerprint(base):
        return []
    ours, theirs = checks.examined(run), checks.examined(base)
    reasons = []
    if number := ours.different_golds(theirs):
        reasons.append(f"other gold answers of {number} questions")
    if number := ours.different_questions(theirs):
        reasons.append(f"other texts of {number} questions")
    if number := ours.different_documents(theirs):
        reasons.append(f"other documents of {number} questions")
    if number := ours.different_lengths(theirs):
        reasons.append(f"documents of other lengths of {number} questions")
    if number := changed_in_copy(run.whole or run, base.whole or base):
        reasons.append(f"{number} other records, though both are copies of one run")
    return reasons


def _has_application(run: StoredRun, base: StoredRun) -> bool:
    """Whether one of them brings a reader of its own, which is what is compared."""
    return facts.is_application(run) or facts.is_application(base)


def answer_reasons(run: StoredRun, base: StoredRun) -> list[str]:
    """Why the answers of two runs differ by more than the method: the end of a sentence each, for
    `harness compare`."""
    sentences, reader = [], []
    for one in differences(run, base):
        if one.kind != "answers" or one.key == "failed":
            continue
        if one.key == "seed":
            seeds = [each.config.get("seed", 0) for each in (run, base)]
            sentences.append(f"have different seeds ({seeds[0]} and {seeds[1]})")
        elif one.key.removeprefix("model.") in SAMPLING:
            sentences.append(f"were answered differently ({one})")
        elif one.key.startswith(("model.", "manifest.models.")):
            reader.append(one.key.removeprefix("manifest."))
        elif one.key == _CORPUS:
            sentences.append(f"searched in different texts ({corpora(one)})")
        else:
            sentences.append(f"were asked differently ({one})")
    other_reader = reader or facts.reader(run) != facts.reader(base)
    if other_reader and not _has_application(run, base):
        names = [str(each.config["model"]["name"]) for each in (run, base)]
        who = " and ".join(names) if names[0] != names[1] else f"both named {names[0]}"
        keys = f": {', '.join(reader)}" if reader else ""
        sentences.append(f"have different readers ({who}{keys})")
    return sentences


def _copied_answers(runs: Sequence[StoredRun], checks: Checks) -> list[int]:
    """For each run, how many of its answers another run has at the same cost, to the last digit of
    the seconds; copies of a whole run are the same run."""
    by_id = {identity(run): checks.examined(run).spent for run in runs}
    spent = [column[column != 0] for column in by_id.values()]
    values, counts = np.unique(np.concatenate(spent), return_counts=True)
    shared = values[counts > 1]
    return [int(np.isin(checks.examined(run).spent, shared).sum()) for run in runs]


def other_versions(runs: Sequence[StoredRun], checks: Checks | None = None) -> list[str | None]:
    """For each run, in which versions it is otherwise than most runs of its data set, and what of
    its costs is measured otherwise.

    checks: as of `reasons_not_to_rank`.
    """
    labels, sentences = facts.labels(runs), []
    bases = _usual_runs(runs, checks or Checks())
    versions = [
        {key: value for key, value in made_with(run).items() if key != "rows"} for run in runs
    ]
    for run, its, label in zip(runs, versions, labels, strict=True):
        dataset = facts.run_key(run)[0]
        in_dataset = [facts.run_key(other)[0] == dataset for other in runs]
        group = list(compress(versions, in_dataset))
        usual = max(group, key=group.count)
        others = "the other run" if len(group) == 2 else "most runs"
        unlike = [key for key in its if its[key] != usual.get(key, its[key])]
        parts = [f"{key} {its[key]} ({others}: {usual[key]})" for key in unlike]
        said = [f"{label} was made with {', '.join(parts)}"] if parts else []
        said += _cost_sentences(run, runs[bases[dataset]], label)
        sentences.append("; ".join(said) or None)
    return sentences


def _cost_sentences(run: StoredRun, base: StoredRun, label: str) -> list[str]:
    """What is measured otherwise than in `base`, and what nobody classified."""
    if run is base or facts.made_elsewhere(run) or facts.made_elsewhere(base):
        return []
    if run.config["model"]["name"] != base.config["model"]["name"] or _has_application(run, base):
        return []
    found = differences(run, base)
    costs = [str(one) for one in found if one.kind == "cost"]
    unknown = [str(one) for one in found if one.kind == "not checked"]
    sentences = [f"costs of {label} are measured otherwise ({', '.join(costs)})"] if costs else []
    if unknown:
        sentences.append(f"{label}: not checked: {', '.join(unknown)}")
    return sentences


def record_notes(run: StoredRun, checks: Checks) -> list[str]:
    """What does not fit in a run, whether the scores that tables show are those of its answers, and whether its
    files could be checked; a sentence each."""
    notes = [f"does not fit: {sentence}" for sentence in checks.misfits(run)]
    shown = dict.fromkeys([facts.headline(run), _RECALL]).keys() & {*facts.score_names(run)}
    for name in sorted(shown):
        problem, _ = checks.rescored(run, name)
        if problem is not None:
            notes.append(f"does not fit: {problem}")
    files = [phrase for phrase in checks.unchecked(run) if "files" in phrase]
    if files and run.summary.get("state") == "finished":
        notes.append(f"not checked: {files[0]}")
    return notes


def on_common_questions(runs: Sequence[StoredRun]) -> list[StoredRun]:
    """The runs, each reduced to the questions that every run over the same rows was asked; a note
    says of how many.

    Raises UserError where runs over the same rows have no question in common.
    """
    keys = [(facts.run_key(run)[0], facts.fingerprint(run)) for run in runs]
    id_sets = [question_set(run)[1] for run in runs]
    common: dict[Any, frozenset[str]] = {}
    for key, ids in zip(keys, id_sets, strict=True):
        common[key] = common.get(key, ids) & ids
    if empty := [name for (name, _), ids in common.items() if not ids]:
        raise UserError(f"--common: the runs over {', '.join(empty)} have no question in common")
    reduced = []
    for run, key in zip(runs, keys, strict=True):
        kept = [record for record in run.records if record.question_id in common[key]]
        note = f"reduced to the {len(kept)} of {len(run.records)} questions that every run was asked (--common)"
        part = replace(run, records=kept, whole=run, notes=(*run.notes, note))
        reduced.append(run if len(kept) == len(run.records) else part)
    return reduced


def overlap(run: StoredRun, base: StoredRun) -> tuple[int, int, str]:
    """(number of questions that the whole runs share, that of the larger run, a sentence with
    both).

    Questions that an import left out count as the run's.
    """
    runs = [r.whole or r for r in (run, base)]
    sizes = []
    for r in runs:
        dataset = r.manifest.get("dataset") or {} if facts.made_elsewhere(r) else {}
        sizes.append(dataset.get("questions") or len(r.records))
    number = len(same_questions(*runs))
    names = " and ".join(
        f"{r.config['method']['name']} with {r.config['model']['name']}" for r in runs
    )
    shared = f"{names} share {number} questions (id, question and a right answer) of {sizes[0]} and {sizes[1]}"
    return number, max(sizes), f"{runs[0].config['dataset']['name']}: {shared}"


def same_questions(run: StoredRun, base: StoredRun) -> set[str]:
    """Ids that stand for the same question in both, as far as both hold question and right
    answers."""
    texts_a = _question_texts(run)
    texts_b = _question_texts(base)
    in_both = texts_a.keys() & texts_b.keys()
    return {name for name in in_both if _may_be_equal(texts_a[name], texts_b[name])}


@dataclass(frozen=True, slots=True)
class _QuestionTexts:
    """The texts of a question, as far as its record holds them."""

    question: Sequence[str]
    answers: Sequence[str]


def _question_texts(run: StoredRun) -> dict[str, _QuestionTexts]:
    """Question id -> its texts."""
    texts = {}
    for record in run.whole_records:
        question = [record.question] if record.question else []
        answers = [answer for answer in record.gold_answers if answer]
        texts[record.question_id] = _QuestionTexts(question, answers)
    return texts


def _may_be_equal(a: _QuestionTexts, b: _QuestionTexts) -> bool:
    """Whether two questions may be the same one, by their texts and their right answers."""
    return _share_text(a.question, b.question) and _share_text(a.answers, b.answers)


def _share_text(a: Sequence[str], b: Sequence[str]) -> bool:
    """Whether two lists have a normalised text in common, or one of them is not known."""
    if not a or not b:
        return True
    return any(exact(one, other) for one, other in product(a, b))
