"""Whether runs of one data set may be ranked together: the same rows, the same questions, the same
task.

A score over other questions ranks questions, not methods: such a run stays in the table with a
footnote, has no ratio to a reference that was asked something else, and dominates nothing.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, compress, product
from typing import Any

from harness.config.schema import canonical
from harness.errors import UserError
from harness.scorers.squad import exact
from harness.storage.run_folder import StoredRun
from reports import facts
from reports.settings import made_with

QuestionSet = tuple[str | None, frozenset[str]]


def question_set(run: StoredRun) -> QuestionSet:
    """The fingerprint of the rows and the ids of the questions, failed ones too."""
    return facts.fingerprint(run), frozenset(record["question_id"] for record in run.records)


def most_common(keys: Sequence[QuestionSet]) -> QuestionSet:
    """The key that comes most often; of several, the one with most questions, then the first."""
    counts = Counter(keys)
    return max(counts, key=lambda key: (counts[key], len(key[1])))


def reasons_not_to_rank(runs: Sequence[StoredRun]) -> list[str | None]:
    """For each run, why it should not be ranked with most runs of its data set; None where it may
    be."""
    labels = facts.labels(runs)
    keys = [question_set(run) for run in runs]
    bases: dict[str, int] = {}  # the place of the run that stands for most of its data set
    for dataset in dict.fromkeys(facts.run_key(run)[0] for run in runs):
        members = [i for i, run in enumerate(runs) if facts.run_key(run)[0] == dataset]
        commonest = most_common([keys[i] for i in members])
        matching = [i for i in members if keys[i] == commonest]
        tasks = [facts.task(runs[i]) for i in matching]
        bases[dataset] = matching[tasks.index(max(tasks, key=tasks.count))]
    sentences: list[str | None] = []
    for run, key, label in zip(runs, keys, labels, strict=True):
        base, (rows, asked), reasons = bases[facts.run_key(run)[0]], key, []
        usual_rows, usual = keys[base]
        if rows != usual_rows:
            fingerprints = " and ".join(
                (name or "not recorded")[:12] for name in (rows, usual_rows)
            )
            reasons.append(f"other rows of the data set (fingerprints {fingerprints})")
        if asked != usual:
            reasons.append(
                f"other questions ({len(asked)} and {len(usual)}, {len(asked & usual)} in common)"
            )
            if rows == usual_rows and asked & usual:
                reasons.append("--common shows all runs on the questions in common")
        elsewhere = facts.made_elsewhere(run) or facts.made_elsewhere(runs[base])
        usual_task = facts.task(run if elsewhere else runs[base])
        if names := [name for name, value in facts.task(run).items() if value != usual_task[name]]:
            reasons.append(f"another task ({', '.join(names)})")
        sentence = f"{label} should not be ranked with {labels[base]}: {'; '.join(reasons)}"
        sentences.append(sentence if reasons else None)
    return sentences


def other_versions(runs: Sequence[StoredRun]) -> list[str | None]:
    """For each run, in which versions, and in how many gold answers, it is otherwise than most runs
    of its data set."""
    labels, sentences = facts.labels(runs), []
    versions = [
        {key: value for key, value in made_with(run).items() if key != "rows"} for run in runs
    ]
    golds: dict[tuple[str | None, str], Counter[str]] = defaultdict(Counter)
    gold_texts = [_gold_texts(run) for run in runs]
    for question, gold in chain.from_iterable(texts.items() for texts in gold_texts):
        golds[question][gold] += 1
    for run, its, label, answers in zip(runs, versions, labels, gold_texts, strict=True):
        dataset = facts.run_key(run)[0]
        in_dataset = [facts.run_key(other)[0] == dataset for other in runs]
        group = list(compress(versions, in_dataset))
        usual = max(group, key=group.count)
        unlike = [key for key in its if its[key] != usual.get(key, its[key])]
        apart = [f"{key} {its[key]} (most runs: {usual[key]})" for key in unlike]
        usual_golds = {question: golds[question].most_common(1)[0][0] for question in answers}
        if n_other := sum(usual_golds[question] != gold for question, gold in answers.items()):
            apart.append(f"other gold answers of {n_other} questions than most runs")
        sentences.append(f"{label} was made with {', '.join(apart)}" if apart else None)
    return sentences


def _gold_texts(run: StoredRun) -> dict[tuple[str | None, str], str]:
    """(fingerprint of the rows, question) -> its gold answers as JSON text, where the run's records
    hold them."""
    answers = ((r["question_id"], (r.get("gold") or {}).get("answers")) for r in run.records)
    fingerprint = facts.fingerprint(run)
    return {(fingerprint, name): canonical(gold) for name, gold in answers if gold is not None}


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
        kept = [record for record in run.records if record["question_id"] in common[key]]
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
    texts_a, texts_b = (
        {
            r["question_id"]: ([r.get("question")], (r.get("gold") or {}).get("answers") or ())
            for r in x.whole_records
        }
        for x in (run, base)
    )

    def may_be_equal(*texts: Sequence[str | None]) -> bool:
        """Whether two lists have a normalised text in common, or one of them is not known."""
        texts_given = [list(filter(None, group)) for group in texts]
        return not all(texts_given) or any(exact(a, b) for a, b in product(*texts_given))

    in_both = texts_a.keys() & texts_b.keys()
    return {name for name in in_both if all(map(may_be_equal, texts_a[name], texts_b[name]))}
