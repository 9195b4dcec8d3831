"""Questions whose gold answer is probably wrong or ambiguous, from stored runs and the data, each
with its reason.

    found = analyse_runs(pairs)          pairs: (run, its rows with documents); an Audit for each data set
    found[0].suspects["q7"]              {"methods agree": "3 of 4 methods answer 'Oslo': ... was born in Oslo ..."}
    sections(found), frame(found)        tables for people; one row a question and reason for programs

This reads records and gold answers after the fact; no method sees either. The evidence is the data
set's supporting parts, or all documents of a question without such marks.

methods agree        most strong methods, two at least, give one other answer, and it stands in the
                     evidence. Strong: a mean of 50 or more; what is wrong more often than right
                     outvotes no gold answer
not in the evidence  no gold answer stands there (left out where most gold answers do not: they are
                     not verbatim)
gold contradicts     yes and no, an answer and unanswerable, or numbers with nothing in common
nothing to compare   normalised, no word is left of a gold answer ("A", "$"): a scorer gives 0 to
                     the same text or 1 to any, as the published code does
duplicate            the same question about the same document, or about none, has other gold answers
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import combinations, product
from textwrap import shorten

import pandas as pd

from harness.datasets.question_kinds import answer_kind
from harness.errors import UserError
from harness.scorers import ScoreError, score_answer
from harness.scorers.squad import normalize_answer, spaced_words, token_f1
from harness.storage.run_folder import StoredRun
from harness.types import Example, Gold
from reports import facts
from reports.answer_recall import has_answer
from reports.gold_rows import Rows

_STRONG = 0.5  # mean of the headline
_WRONG = 0.5  # token F1 below which two answers are different ones
_AROUND = 60  # characters of the evidence on either side of an answer
_WIDTHS = {"question": 50, "gold": 25, "evidence": 70}


@dataclass(frozen=True)
class Audit:
    """The gold answers of one data set.

    Args:
        dataset: Its name.
        headline: The score by which methods are strong.
        examples: Question id -> question and gold.
        suspects: Question id -> reason -> its evidence.
        scored: Method -> its values of the headline.
        strong: How many methods are strong (see the module).
    """

    dataset: str
    headline: str
    examples: Mapping[str, Example]
    suspects: Mapping[str, Mapping[str, str]]
    scored: Mapping[str, facts.Scored]
    strong: int


def analyse_runs(pairs: Sequence[tuple[StoredRun, Rows]]) -> list[Audit]:
    """An Audit for each data set, in the order of the runs.

    Runs of one data set are audited together only if they read the same rows (by fingerprint).

    Args:
        pairs: Each run with its rows of the data set.
    """
    groups: dict[tuple[str, str | None], list[tuple[StoredRun, Rows]]] = {}
    for run, rows in pairs:
        dataset = facts.run_key(run)[0]
        same_rows = groups.setdefault((dataset, facts.fingerprint(run)), [])
        same_rows.append((run, rows))
    return [_audit(dataset, group) for (dataset, _), group in groups.items()]


def _audit(name: str, group: Sequence[tuple[StoredRun, Rows]]) -> Audit:
    """The Audit of one data set: for each question the reasons why its gold answer looks wrong,
    with their evidence."""
    runs = [run for run, _ in group]
    examples = _asked_examples(group)
    evidence = {question: _first_evidence(group, example) for question, example in examples.items()}
    absent = _without_gold_in(evidence, examples)
    headline = facts.headline(runs[0])
    scored: dict[str, facts.Scored] = {}
    strong: list[StoredRun] = []
    for label, run in zip(facts.labels(runs), runs, strict=True):
        scored[label] = facts.scored(run, headline)
        values = scored[label].values
        if values and sum(values) / len(values) >= _STRONG:
            strong.append(run)
    answers = _answers_of(strong)
    duplicates = _duplicates(examples)
    names = [name for name in facts.score_names(runs[0]) if not name.startswith("evidence_")]
    suspects: dict[str, dict[str, str]] = {}
    for question, example in examples.items():
        gold = example.gold
        text = evidence[question]
        majority = _majority_answer(answers.get(question, ()), gold.answers, text)
        reasons = {"methods agree": majority}
        if question in absent:
            reasons["not in the evidence"] = _opening(text)
        reasons["gold contradicts"] = _contradiction(gold.answers)
        reasons["nothing to compare"] = _without_words(gold, names)
        reasons["duplicate"] = duplicates.get(question, "")
        found = {reason: why for reason, why in reasons.items() if why}
        if found:
            suspects[question] = found
    return Audit(name, headline, examples, suspects, scored, len(strong))


def _without_gold_in(evidence: Mapping[str, str], examples: Mapping[str, Example]) -> set[str]:
    """Questions whose evidence holds no gold answer; none where those are most of a data set, whose
    gold answers are then not verbatim.

    Args:
        evidence: Question id -> text.
        examples: Question id -> question and gold.
    """
    absent: set[str] = set()
    for question, example in examples.items():
        text = evidence[question]
        if text and has_answer(text, example.gold.answers) is False:
            absent.add(question)
    if 2 * len(absent) > len(examples):
        return set()
    return absent


def _asked_examples(group: Sequence[tuple[StoredRun, Rows]]) -> dict[str, Example]:
    """Question id -> example, for the questions that any of the runs asked."""
    asked: set[str] = set()
    for run, _ in group:
        for record in run.records:
            asked.add(record.question_id)
    examples: dict[str, Example] = {}
    for _, rows in group:
        examples.update(rows.examples)
    return {question: example for question, example in examples.items() if question in asked}


def _first_evidence(group: Sequence[tuple[StoredRun, Rows]], example: Example) -> str:
    """The evidence of a question, from the first run whose rows have it; "" if none has."""
    for _, rows in group:
        text = evidence_of(rows, example)
        if text:
            return text
    return ""


def _answers_of(runs: Sequence[StoredRun]) -> dict[str, list[str]]:
    """Question id -> the answers of the runs, without failed ones."""
    answers: dict[str, list[str]] = {}
    for run in runs:
        for record in run.records:
            if record.error is None:
                answers.setdefault(record.question_id, []).append(record.prediction)
    return answers


def evidence_of(rows: Rows, example: Example) -> str:
    """The supporting parts of a question, or its documents; "" where they are not at hand."""
    texts: dict[str, str] = {}
    for name in example.question.document_ids:
        if name in rows.documents:
            texts[name] = rows.documents[name].text
    if not example.gold.supporting:
        return "\n".join(texts.values())
    parts: list[str] = []
    for mark in example.gold.supporting:
        text = texts.get(mark.document_id)
        if text is not None:
            parts.append(text[mark.start : mark.end])
    return "\n".join(parts)


def _opening(text: str) -> str:
    """ "5120 characters: Ada Velmark was ...": the length of a text and how it begins."""
    return f"{len(text)} characters: {' '.join(text[: 2 * _AROUND].split())} ..."


def differ(a: Sequence[str], b: Sequence[str]) -> bool:
    """Whether no answer of one list could be taken for one of the other."""
    return not any(_alike(x, y) for x, y in product(a, b))


def _alike(x: str, y: str) -> bool:
    """Whether one answer has half of the other's words, or contains it."""
    return token_f1(x, y) >= _WRONG or bool(has_answer(x, [y])) or bool(has_answer(y, [x]))


def _majority_answer(answers: Sequence[str], gold: Sequence[str], text: str) -> str:
    """A sentence on the answer that most methods give, if the evidence has it and gold does not;
    else empty.

    Args:
        answers: Those of the strong methods.
        gold: The gold answers.
        text: The evidence.
    """
    if not answers:
        return ""
    ((best, count),) = Counter(map(normalize_answer, answers)).most_common(1)
    if count < 2 or 2 * count <= len(answers):
        return ""
    if not has_answer(text, [best]) or not differ([best], gold):
        return ""
    around = _opening(text)
    match = re.search(r"\W+".join(map(re.escape, best.split())), text, re.IGNORECASE)
    if match:
        start = max(match.start() - _AROUND, 0)
        around = " ".join(text[start : match.end() + _AROUND].split())
    return f"{count} of {len(answers)} methods answer '{best}': ... {around} ..."


def _contradiction(gold: Sequence[str]) -> str:
    """The first two gold answers of a question that exclude each other, as text; "" where there are
    none."""
    for a, b in combinations(gold, 2):
        kinds = {answer_kind([a]), answer_kind([b])}
        if (kinds & {"yes/no", "unanswerable"} or kinds == {"number"}) and token_f1(a, b) == 0:
            return f"'{a}' and '{b}'"
    return ""


def _without_words(gold: Gold, names: Sequence[str]) -> str:
    """What the scorers `names` make of a gold answer without a word once normalised, as text; ""
    for no harm."""
    empty = next((answer for answer in gold.answers if spaced_words(answer).isspace()), None)
    if empty is None:
        return ""
    harm = []
    for name in names:
        # A score of a run that was imported, or of another kind of data, is passed over.
        with suppress(ScoreError, UserError):
            same = score_answer([name], empty, (), gold).scores.get(name)
            other = score_answer([name], "some other text", (), gold).scores.get(name)
            if same == 0:
                harm.append(f"{name} gives 0 to the same text")
            if other == 1:
                harm.append(f"{name} gives 1 to any text")
    if not harm:
        return ""
    return f"'{empty}': {', '.join(harm)}"


def _duplicates(examples: Mapping[str, Example]) -> dict[str, str]:
    """Question id -> "q9 has Oslo": q9 asks the same words of the same document, but its gold
    answer is Oslo."""
    first_ids: dict[str, str] = {}
    same: dict[tuple[str, str], str] = {}
    for name, example in examples.items():
        for document in example.question.document_ids or ("",):
            other = same.setdefault((normalize_answer(example.question.text), document), name)
            if other != name and differ(example.gold.answers, examples[other].gold.answers):
                first_ids[name] = f"{other} has {_gold_text(examples[other])}"
                first_ids[other] = f"{name} has {_gold_text(example)}"
    return first_ids


def _gold_text(example: Example) -> str:
    """The gold answers of a question: "Oslo | Kristiania"."""
    return " | ".join(example.gold.answers)


def frame(audits: Sequence[Audit]) -> pd.DataFrame:
    """One row a suspect question and reason: dataset, question_id, question, gold, reason,
    evidence."""
    rows = []
    for audit in audits:
        for question, example in audit.examples.items():
            text = example.question.text
            gold = _gold_text(example)
            for reason, evidence in audit.suspects.get(question, {}).items():
                rows.append((audit.dataset, question, text, gold, reason, evidence))
    names = ("dataset", "question_id", "question", "gold", "reason", "evidence")
    return pd.DataFrame(rows, columns=names)


def sections(audits: Sequence[Audit]) -> list[tuple[str, pd.DataFrame]]:
    """For each data set the suspect questions, and each method's score.

    Not the score without them: which questions are suspect depends on the answers (18.5 points in a
    simulation).
    """
    out = []
    for audit in audits:
        listed = frame([audit]).drop(columns="dataset")
        for name, width in _WIDTHS.items():
            listed[name] = [shorten(text, width, placeholder=" ...") for text in listed[name]]
        if len(listed):
            out.append((f"{audit.dataset}: gold answers to look at", listed))
        suspects = f"{len(audit.suspects)} of {len(audit.examples)} gold answers are suspect"
        note = f"{suspects}; {audit.headline}"
        if audit.strong < 2:
            note += "; fewer than two methods have a mean of 50, so no agreement of methods is used"
        rows = []
        for label, scored in audit.scored.items():
            columns = facts.mean_columns("all", scored.values, scored.clusters, seed=0)
            rows.append({"method": label, **columns, "notes": (note,)})
        out.append((f"{audit.dataset}: scores", facts.as_floats(pd.DataFrame(rows))))
    return out
