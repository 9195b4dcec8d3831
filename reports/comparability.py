"""Whether runs of one data set may be ranked together: the same rows, the same questions, the same task.

A score over other questions ranks questions, not methods: such a run stays in the table with a footnote, has no ratio
to a reference that was asked something else, and dominates nothing.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, product

from harness.config.schema import canonical
from harness.errors import UserError
from harness.scorers.squad import exact
from harness.storage.run_folder import StoredRun
from reports import facts
from reports.settings import made_with

Asked = tuple[str | None, frozenset[str]]


def question_set(run: StoredRun) -> Asked:
    """The fingerprint of the rows and the ids of the questions, failed ones too."""
    return facts.fingerprint(run), frozenset(record["question_id"] for record in run.records)


def most_common(keys: Sequence[Asked]) -> Asked:
    """The key that comes most often; of several, the one with most questions, then the first."""
    counts = Counter(keys)
    return max(counts, key=lambda key: (counts[key], len(key[1])))


def reasons_not_to_rank(runs: Sequence[StoredRun]) -> list[str | None]:
    """For each run, why it should not be ranked with most runs of its data set; None where it may be."""
    labels = facts.labels(runs)
    keys = [question_set(run) for run in runs]
    usual: dict[str, int] = {}  # the place of the run that stands for most of its data set
    for dataset in dict.fromkeys(facts.run_key(run)[0] for run in runs):
        there = [i for i, run in enumerate(runs) if facts.run_key(run)[0] == dataset]
        most = most_common([keys[i] for i in there])
        like = [i for i in there if keys[i] == most]
        tasks = [facts.task(runs[i]) for i in like]
        usual[dataset] = like[tasks.index(max(tasks, key=tasks.count))]
    found: list[str | None] = []
    for run, own, label in zip(runs, keys, labels, strict=True):
        base, reasons = usual[facts.run_key(run)[0]], []
        rows, asked = keys[base]
        if own[0] != rows:
            prints = " and ".join((name or "not recorded")[:12] for name in (own[0], rows))
            reasons.append(f"other rows of the data set (fingerprints {prints})")
        if own[1] != asked:
            reasons.append(f"other questions ({len(own[1])} and {len(asked)}, {len(own[1] & asked)} in common)")
            if own[0] == rows and own[1] & asked:
                reasons.append("harness report --common shows all runs on the questions in common")
        usual_task = facts.task(run if facts.elsewhere(run) or facts.elsewhere(runs[base]) else runs[base])
        if names := [name for name, value in facts.task(run).items() if value != usual_task[name]]:
            reasons.append(f"another task ({', '.join(names)})")
        found.append(f"{label} should not be ranked with {labels[base]}: {'; '.join(reasons)}" if reasons else None)
    return found


def other_versions(runs: Sequence[StoredRun]) -> list[str | None]:
    """For each run, in which versions, and in how many gold answers, it is otherwise than most runs of its data set."""
    labels, found = facts.labels(runs), []
    made = [{key: value for key, value in made_with(run).items() if key != "rows"} for run in runs]
    golds: dict[tuple[str | None, str], Counter[str]] = defaultdict(Counter)
    held = [_golds(run) for run in runs]
    for question, gold in chain.from_iterable(one.items() for one in held):
        golds[question][gold] += 1
    for run, own, label, answers in zip(runs, made, labels, held, strict=True):
        there = [m for other, m in zip(runs, made, strict=True) if facts.run_key(other)[0] == facts.run_key(run)[0]]
        usual = max(there, key=there.count)
        apart = [f"{key} {own[key]} (most runs: {usual[key]})" for key in own if own[key] != usual.get(key, own[key])]
        if odd := sum(golds[question].most_common(1)[0][0] != gold for question, gold in answers.items()):
            apart.append(f"other gold answers of {odd} questions than most runs")
        found.append(f"{label} was made with {', '.join(apart)}" if apart else None)
    return found


def _golds(run: StoredRun) -> dict[tuple[str | None, str], str]:
    """(fingerprint of the rows, question) -> its gold answers as JSON text, where the run's records hold them."""
    held = ((r["question_id"], (r.get("gold") or {}).get("answers")) for r in run.records)
    return {(facts.fingerprint(run), name): canonical(gold) for name, gold in held if gold is not None}


def on_common_questions(runs: Sequence[StoredRun]) -> list[StoredRun]:
    """The runs, each reduced to the questions that every run over the same rows was asked; a note says of how many.

    Raises UserError where runs over the same rows have no question in common.
    """
    keys = [(facts.run_key(run)[0], facts.fingerprint(run)) for run in runs]
    asked = [question_set(run)[1] for run in runs]
    common = {
        key: frozenset.intersection(*(own for own, of in zip(asked, keys, strict=True) if of == key)) for key in keys
    }
    if empty := [name for (name, _), own in common.items() if not own]:
        raise UserError(f"--common: the runs over {', '.join(empty)} have no question in common")
    found = []
    for run, key in zip(runs, keys, strict=True):
        kept = [record for record in run.records if record["question_id"] in common[key]]
        if len(kept) == len(run.records):
            found.append(run)
            continue
        note = f"reduced to the {len(kept)} of {len(run.records)} questions that every run was asked (--common)"
        found.append(replace(run, records=kept, whole=run, notes=(*run.notes, note)))
    return found


def overlap(run: StoredRun, base: StoredRun) -> tuple[int, int, str]:
    """(questions that the whole runs share, questions of the larger one, both as a sentence).

    Those that an import left out count.
    """
    runs = [one.whole or one for one in (run, base)]
    counts = [(one.manifest.get("dataset") or {}).get("questions") if facts.elsewhere(one) else None for one in runs]
    sizes = [asked or len(one.records) for asked, one in zip(counts, runs, strict=True)]
    number = len(same_questions(*runs))
    who = " and ".join(f"{one.config['method']['name']} with {one.config['model']['name']}" for one in runs)
    shared = f"{who} share {number} questions (id, question and a right answer) of {sizes[0]} and {sizes[1]}"
    return number, max(sizes), f"{runs[0].config['dataset']['name']}: {shared}"


def same_questions(run: StoredRun, base: StoredRun) -> set[str]:
    """Ids that stand for the same question in both, as far as both hold question and right answers."""
    ours, theirs = (
        {r["question_id"]: ([r.get("question")], (r.get("gold") or {}).get("answers") or ()) for r in one.whole_records}
        for one in (run, base)
    )

    def may_be_equal(*texts: Sequence[str | None]) -> bool:
        """Whether two lists have a normalised text in common, or one of them is not known."""
        known = [list(filter(None, own)) for own in texts]
        return not all(known) or any(exact(a, b) for a, b in product(*known))

    return {name for name in ours.keys() & theirs.keys() if all(map(may_be_equal, ours[name], theirs[name]))}
