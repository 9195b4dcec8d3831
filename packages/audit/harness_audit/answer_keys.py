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
from reports.answer_recall import contains_answer
from reports.gold_rows import QuestionRows

_MIN_STRONG_MEAN = 0.5  # by the headline; a method with a lower mean is not strong
_MIN_ALIKE_F1 = 0.5  # token F1; two answers below it are different ones
_EXCERPT_MARGIN = 60  # characters of the evidence on either side of an answer
_MAX_CHARACTERS_BY_COLUMN = {"question": 50, "gold": 25, "evidence": 70}


@dataclass(frozen=True)
class Audit:
    """The gold answers of one data set.

    Args:
        dataset: Its name.
        headline: The score by which methods are strong.
        examples: Question id -> question and gold.
        suspects: Question id -> reason -> its evidence.
        scored: Method -> its values of the headline.
        n_strong: How many methods are strong (see the module).
    """

    dataset: str
    headline: str
    examples: Mapping[str, Example]
    suspects: Mapping[str, Mapping[str, str]]
    scored: Mapping[str, facts.ScoreValues]
    n_strong: int


def analyse_runs(pairs: Sequence[tuple[StoredRun, QuestionRows]]) -> list[Audit]:
    """Look for gold answers that are probably wrong: an Audit for each data set, in the order of
    the runs.

    Runs of one data set are audited together only if they read the same rows (by fingerprint).

    Args:
        pairs: Each run with its rows of the data set.
    """
    runs_by_rows: dict[tuple[str, str | None], list[tuple[StoredRun, QuestionRows]]] = {}
    for run, rows in pairs:
        dataset = run.config.dataset.name
        same_rows = runs_by_rows.setdefault((dataset, facts.rows_fingerprint(run)), [])
        same_rows.append((run, rows))
    return [
        _audit_dataset(dataset, pairs_of_dataset)
        for (dataset, _), pairs_of_dataset in runs_by_rows.items()
    ]


def _audit_dataset(dataset: str, pairs: Sequence[tuple[StoredRun, QuestionRows]]) -> Audit:
    """The Audit of one data set: for each suspect question the reasons why its gold answer looks
    wrong, with their evidence; and the scores of each method by the headline score, the first of
    the first run. A run is strong if its mean by that score is high: only answers of strong runs
    are compared with the gold answers.

    Args:
        dataset: The name of the data set.
        pairs: The runs over it, each with its rows.
    """
    runs = [run for run, _ in pairs]
    examples = _asked_examples(pairs)
    headline = facts.headline_score(runs[0])
    scores_by_method: dict[str, facts.ScoreValues] = {}
    strong_runs: list[StoredRun] = []
    for method, run in zip(facts.run_labels(runs), runs, strict=True):
        scores_by_method[method] = facts.score_values(run, headline)
        if _is_strong(scores_by_method[method].values):
            strong_runs.append(run)
    evidence_by_question = {
        question_id: _first_evidence(pairs, example) for question_id, example in examples.items()
    }
    checks = _GoldChecks(
        answers=_answers_by_question(strong_runs),
        evidence=evidence_by_question,
        without_gold_in_evidence=_questions_without_gold_in_evidence(
            evidence_by_question, examples
        ),
        duplicates=_duplicates(examples),
        # evidence_recall and its like judge the shown texts, not the answer.
        scorers=[name for name in facts.score_names(runs[0]) if not name.startswith("evidence_")],
    )
    suspects: dict[str, dict[str, str]] = {}
    for question_id, example in examples.items():
        reasons = checks.reasons(question_id, example.gold)
        if reasons:
            suspects[question_id] = reasons
    return Audit(
        dataset=dataset,
        headline=headline,
        examples=examples,
        suspects=suspects,
        scored=scores_by_method,
        n_strong=len(strong_runs),
    )


def _is_strong(scores: Sequence[float]) -> bool:
    """Whether a run with these scores of its questions has a mean of at least 0.5; False for a run
    without scores."""
    if not scores:
        return False
    return sum(scores) / len(scores) >= _MIN_STRONG_MEAN


@dataclass(frozen=True)
class _GoldChecks:
    """What is compared with the gold answers of a data set.

    Args:
        answers: Question id -> the answers of the strong methods.
        evidence: Question id -> text of its evidence, "" where it is not at hand.
        without_gold_in_evidence: Questions whose evidence holds no gold answer.
        duplicates: Question id -> another question of the same words, with its other gold answer.
        scorers: Names of the scorers that compare answers with gold answers.
    """

    answers: Mapping[str, Sequence[str]]
    evidence: Mapping[str, str]
    without_gold_in_evidence: set[str]
    duplicates: Mapping[str, str]
    scorers: Sequence[str]

    def reasons(self, question_id: str, gold: Gold) -> dict[str, str]:
        """Why the gold answer of a question looks wrong: reason -> its evidence; {} for no reason.

            {"gold contradicts": "'yes' and 'no'", "duplicate": "q9 has Oslo"}

        Args:
            question_id: The id of the question.
            gold: Its gold answers.
        """
        evidence_text = self.evidence[question_id]
        evidence_without_gold = ""
        if question_id in self.without_gold_in_evidence:
            evidence_without_gold = _length_and_opening(evidence_text)
        reasons = {
            "methods agree": _majority_answer(
                self.answers.get(question_id, ()), gold.answers, evidence_text
            ),
            "not in the evidence": evidence_without_gold,
            "gold contradicts": _contradiction(gold.answers),
            "nothing to compare": _empty_gold_problem(gold, self.scorers),
            "duplicate": self.duplicates.get(question_id, ""),
        }
        return {reason: why for reason, why in reasons.items() if why}


def _questions_without_gold_in_evidence(
    evidence: Mapping[str, str], examples: Mapping[str, Example]
) -> set[str]:
    """The ids of the questions whose evidence holds no gold answer.

    The set is empty where that is true of most questions of the data set: its gold answers are then
    not words of the text at all.

    Args:
        evidence: Question id -> text of its evidence, "" where it is not at hand.
        examples: Question id -> question and gold.
    """
    question_ids: set[str] = set()
    for question_id, example in examples.items():
        text = evidence[question_id]
        if text and contains_answer(text, example.gold.answers) is False:
            question_ids.add(question_id)
    if 2 * len(question_ids) > len(examples):
        return set()
    return question_ids


def _asked_examples(group: Sequence[tuple[StoredRun, QuestionRows]]) -> dict[str, Example]:
    """Question id -> question and gold answers, for the questions that any of the runs asked.

    Args:
        group: Runs over one data set, each with its rows.
    """
    asked_ids: set[str] = set()
    for run, _ in group:
        for record in run.records:
            asked_ids.add(record.question_id)
    examples: dict[str, Example] = {}
    for _, rows in group:
        examples.update(rows.examples)
    return {
        question_id: example
        for question_id, example in examples.items()
        if question_id in asked_ids
    }


def _first_evidence(group: Sequence[tuple[StoredRun, QuestionRows]], example: Example) -> str:
    """The text of a question's evidence, from the first run whose rows have it; "" if none has.

    Args:
        group: Runs over one data set, each with its rows.
        example: The question.
    """
    for _, rows in group:
        text = _evidence_text(rows, example)
        if text:
            return text
    return ""


def _answers_by_question(runs: Sequence[StoredRun]) -> dict[str, list[str]]:
    """Question id -> what the runs answered to it, failed questions left out."""
    answers: dict[str, list[str]] = {}
    for run in runs:
        for record in run.records:
            if record.error is None:
                answers.setdefault(record.question_id, []).append(record.prediction)
    return answers


def _evidence_text(rows: QuestionRows, example: Example) -> str:
    """The text that the answer to a question should stand in: its supporting parts, or its whole
    documents where no part is marked; "" where they are not at hand.

    Args:
        rows: Rows that may hold the documents.
        example: The question with its supporting parts.
    """
    text_by_document: dict[str, str] = {}
    for document_id in example.question.document_ids:
        if document_id in rows.documents:
            text_by_document[document_id] = rows.documents[document_id].text
    if not example.gold.supporting:
        return "\n".join(text_by_document.values())
    span_texts: list[str] = []
    for span in example.gold.supporting:
        text = text_by_document.get(span.document_id)
        if text is not None:
            span_texts.append(text[span.start : span.end])
    return "\n".join(span_texts)


def _length_and_opening(text: str) -> str:
    """ "5120 characters: Ada Velmark was ...": the length of a text and how it begins."""
    return f"{len(text)} characters: {' '.join(text[: 2 * _EXCERPT_MARGIN].split())} ..."


def _all_differ(a: Sequence[str], b: Sequence[str]) -> bool:
    """Whether each answer of one list is another one than each of the other list: neither shares
    half of its words with the other nor contains it."""
    return not any(_is_same_answer(x, y) for x, y in product(a, b))


def _is_same_answer(x: str, y: str) -> bool:
    """Whether one answer has half of the other's words, or contains it."""
    return (
        token_f1(x, y) >= _MIN_ALIKE_F1
        or bool(contains_answer(x, [y]))
        or bool(contains_answer(y, [x]))
    )


def _majority_answer(answers: Sequence[str], gold: Sequence[str], evidence: str) -> str:
    """ "3 of 4 methods answer 'oslo': ... was born in Oslo in ...": what more than half of the
    methods answer to a question, if two do at least, the evidence has it, and it is not a gold
    answer; else "". Answers are counted, and named, in their normalised form.

    Args:
        answers: The answers of the strong methods, one for each.
        gold: The gold answers.
        evidence: The text of the evidence, from which an excerpt around the answer is shown.
    """
    if not answers:
        return ""
    counts = Counter(map(normalize_answer, answers))
    majority_answer, count = counts.most_common(1)[0]
    is_majority = count >= 2 and 2 * count > len(answers)
    if not is_majority:
        return ""
    if not contains_answer(evidence, [majority_answer]) or not _all_differ([majority_answer], gold):
        return ""
    words = map(re.escape, majority_answer.split())
    match = re.search(r"\W+".join(words), evidence, re.IGNORECASE)
    # Without a match, normalising took away what stands between the words, such as "the".
    excerpt = _length_and_opening(evidence)
    if match:
        start = max(match.start() - _EXCERPT_MARGIN, 0)
        excerpt = " ".join(evidence[start : match.end() + _EXCERPT_MARGIN].split())
    return f"{count} of {len(answers)} methods answer '{majority_answer}': ... {excerpt} ..."


def _contradiction(gold: Sequence[str]) -> str:
    """ "'yes' and 'no'": the first two gold answers of a question that exclude each other; "" where
    there are none.

    Two answers exclude each other if they have no word in common and one of them is yes, no or
    "unanswerable", or both are numbers.
    """
    for a, b in combinations(gold, 2):
        kinds = {answer_kind([a]), answer_kind([b])}
        is_exclusive = "yes/no" in kinds or "unanswerable" in kinds or kinds == {"number"}
        if is_exclusive and token_f1(a, b) == 0:
            return f"'{a}' and '{b}'"
    return ""


def _empty_gold_problem(gold: Gold, scorer_names: Sequence[str]) -> str:
    """ "'$': f1 gives 0 to the same text": the first gold answer that has no word once normalised,
    and what scorers make of it; "" where there is no such answer, or it does no harm.

    Args:
        gold: The gold answers.
        scorer_names: The scorers.
    """
    # spaced_words gives " the words " of a normalised answer, so only spaces where none is left.
    wordless_answer = next(
        (answer for answer in gold.answers if spaced_words(answer).isspace()), None
    )
    if wordless_answer is None:
        return ""
    faults: list[str] = []
    for scorer in scorer_names:
        faults += _scorer_faults(scorer, wordless_answer, gold)
    if not faults:
        return ""
    return f"'{wordless_answer}': {', '.join(faults)}"


def _scorer_faults(scorer: str, wordless_answer: str, gold: Gold) -> list[str]:
    """Phrases on what a scorer does wrong with a gold answer without words: "f1 gives 0 to the same
    text". [] for a scorer that does nothing wrong, or cannot score here (of an imported run, or of
    another kind of data).

    Args:
        scorer: The scorer.
        wordless_answer: The gold answer without words.
        gold: All gold answers of its question.
    """
    try:
        of_same_text = score_answer([scorer], wordless_answer, shown=(), gold=gold)
        of_other_text = score_answer([scorer], "some other text", shown=(), gold=gold)
    except (ScoreError, UserError):
        return []
    faults = []
    if of_same_text.scores.get(scorer) == 0:
        faults.append(f"{scorer} gives 0 to the same text")
    if of_other_text.scores.get(scorer) == 1:
        faults.append(f"{scorer} gives 1 to any text")
    return faults


def _duplicates(examples: Mapping[str, Example]) -> dict[str, str]:
    """Question id -> "q9 has Oslo", for each question that another one repeats: q9 asks the same
    words of the same document, but its gold answer is Oslo. Both questions of such a pair get a
    note; words are compared in their normalised form.

    A question is compared with the first of its words and document only. Questions without
    documents are taken for questions about one and the same.

    Args:
        examples: Question id -> question and gold.
    """
    note_by_question: dict[str, str] = {}
    first_id_by_words_and_document: dict[tuple[str, str], str] = {}
    for question_id, example in examples.items():
        words = normalize_answer(example.question.text)
        for document_id in example.question.document_ids or ("",):
            earlier_id = first_id_by_words_and_document.setdefault(
                (words, document_id), question_id
            )
            if earlier_id != question_id and _all_differ(
                example.gold.answers, examples[earlier_id].gold.answers
            ):
                note_by_question[question_id] = (
                    f"{earlier_id} has {_gold_text(examples[earlier_id])}"
                )
                note_by_question[earlier_id] = f"{question_id} has {_gold_text(example)}"
    return note_by_question


def _gold_text(example: Example) -> str:
    """The gold answers of a question: "Oslo | Kristiania"."""
    return " | ".join(example.gold.answers)


def frame(audits: Sequence[Audit]) -> pd.DataFrame:
    """A row for each suspect question and reason, with the columns dataset, question_id, question,
    gold, reason, evidence."""
    rows = []
    for audit in audits:
        for question_id, example in audit.examples.items():
            text = example.question.text
            gold = _gold_text(example)
            for reason, evidence in audit.suspects.get(question_id, {}).items():
                rows.append((audit.dataset, question_id, text, gold, reason, evidence))
    column_names = ("dataset", "question_id", "question", "gold", "reason", "evidence")
    return pd.DataFrame(rows, columns=column_names)


def sections(audits: Sequence[Audit]) -> list[tuple[str, pd.DataFrame]]:
    """Titled tables for people: for each data set the suspect questions, where there are any, with
    long texts shortened; and each method's mean over all questions, with a note on how many gold
    answers are suspect.

    A method's score over the other questions alone is not shown. Which questions are suspect
    depends on what the methods answered, so leaving them out shifts the scores; in a simulation by
    18.5 points.
    """
    titled_tables = []
    for audit in audits:
        suspect_rows = frame([audit]).drop(columns="dataset")
        for column, max_characters in _MAX_CHARACTERS_BY_COLUMN.items():
            suspect_rows[column] = [
                shorten(text, max_characters, placeholder=" ...") for text in suspect_rows[column]
            ]
        if len(suspect_rows):
            titled_tables.append((f"{audit.dataset}: gold answers to look at", suspect_rows))
        suspect_count = f"{len(audit.suspects)} of {len(audit.examples)} gold answers are suspect"
        note = f"{suspect_count}; {audit.headline}"
        if audit.n_strong < 2:
            note += "; fewer than two methods have a mean of 50, so no agreement of methods is used"
        score_rows = []
        for method, scored in audit.scored.items():
            # "all", "all.low" and "all.high": the mean of all questions, and its interval
            columns = facts.mean_columns("all", scored.values, scored.clusters, seed=0)
            score_rows.append({"method": method, **columns, "notes": (note,)})
        score_table = facts.as_floats(pd.DataFrame(score_rows))
        titled_tables.append((f"{audit.dataset}: scores", score_table))
    return titled_tables
