"""Qasper (Dasigi et al., NAACL 2021): questions on papers, each answered by one to several
annotators.

    official   {"1909.00694": {"title": "..", "abstract": "..",
                 "full_text": [{"section_name": "..", "paragraphs": [..]}, ..],
                 "qas": [{"question": "..", "question_id": "..", "answers": [{"answer":
                 {"unanswerable": false,
                    "extractive_spans": [..], "yes_no": null, "free_form_answer": "", "evidence":
                    [..]}}]}]}}
    hub copy   a row a paper, its "id" among the other fields, and columns:
                 "full_text": {"section_name": [..], "paragraphs": [[..], ..]},
                 "qas": {"question": [..], "question_id": [..], "answers": [{"answer": [..]}, ..]}

The document is title, abstract, then every section's name (" ::: " between its parts, as published)
and paragraphs. Answers are those of the official evaluator (scripts/evaluator.py of
allenai/qasper-led-baseline): "Unanswerable", else the extractive spans joined with ", ", else the
free form, else "Yes" or "No". Supporting are the evidence paragraphs of all annotators; evidence
that names a table or figure ("FLOAT SELECTED: ...") is in no text, so it cannot be shown.
"""

from typing import Any

from harness.datasets.rows import (
    SEPARATOR,
    Group,
    Records,
    RowError,
    StrictRow,
    normalise_space,
    refuse_blank,
)
from harness.types import Document, Example, Gold, Passage, Question, Support

ROW_KEYS = ("id", "title", "abstract", "full_text", "qas", "figures_and_tables")
FLOAT = "FLOAT SELECTED"


class _Answer(StrictRow):
    unanswerable: bool
    extractive_spans: list[str]
    yes_no: bool | None = None
    free_form_answer: str
    evidence: list[str]


class _Annotation(StrictRow):
    answer: _Answer


class _Question(StrictRow):
    question: str
    question_id: str
    answers: Records[_Annotation]


class _Section(StrictRow):
    section_name: str | None = None
    paragraphs: list[str]


class _Paper(StrictRow):
    id: str
    title: str
    abstract: str
    full_text: Records[_Section]
    qas: Records[_Question]


_Spans = dict[str, tuple[int, int]]  # a paragraph with single spaces -> where it is in the document


def _document_and_spans(paper: _Paper) -> tuple[Document, _Spans]:
    """The paper in passages (title with abstract, then each paragraph), and each paragraph's span.
    Raises RowError."""
    blocks = [(paper.title, [paper.title, paper.abstract])]
    for section in paper.full_text:
        name = section.section_name or ""
        first, *others = [p for p in section.paragraphs if p.strip()] or [""]
        blocks += [(name, [name, first]), *((name, [paragraph]) for paragraph in others)]
    text = ""
    passages: list[Passage] = []
    spans: _Spans = {}
    for title, lines in blocks:
        if not (lines := [line for line in lines if line.strip()]):
            continue
        at = start = len(text) + (len(SEPARATOR) if text else 0)
        for line in lines:
            spans.setdefault(
                normalise_space(line), (at, at + len(line))
            )  # evidence that comes twice means the first
            at += len(line) + 1  # and the line break
        text += (SEPARATOR if text else "") + "\n".join(lines)
        passages.append(Passage(title, start, len(text)))
    if not text:
        raise RowError(None, "the document is empty: title, abstract and sections have no text")
    return Document(paper.id, text, paper.title, tuple(passages)), spans


def _answer_and_kind(answer: _Answer, field: str) -> tuple[str, str]:
    """Text of one annotator's answer, and its kind in the official evaluator's words. field: for
    the RowError."""
    if answer.unanswerable:
        return "Unanswerable", "none"
    if answer.extractive_spans:
        return ", ".join(answer.extractive_spans), "extractive"
    if answer.free_form_answer:
        return answer.free_form_answer, "abstractive"
    if answer.yes_no is None:
        raise RowError(field, "is neither unanswerable nor extractive, free-form or yes/no")
    return ("Yes" if answer.yes_no else "No"), "boolean"


def _evidence(
    question: _Question, document: Document, spans: _Spans
) -> tuple[tuple[Support, ...], dict[str, int]]:
    """Spans of all annotators' evidence; counts of evidence_floats (tables, figures) and
    evidence_not_found, if any."""
    marked: set[tuple[int, int]] = set()
    missing = {"evidence_floats": 0, "evidence_not_found": 0}
    cited = (
        e
        for a in question.answers
        if not a.answer.unanswerable
        for e in a.answer.evidence
        if e.strip()
    )
    for evidence in dict.fromkeys(cited):
        if evidence.startswith(FLOAT):
            missing["evidence_floats"] += 1
        elif (span := spans.get(normalise_space(evidence))) is not None:
            marked.add(span)
        elif (at := document.text.find(evidence)) >= 0:  # a part of a paragraph
            marked.add((at, at + len(evidence)))
        else:
            missing["evidence_not_found"] += 1
    return tuple(Support(document.id, *span) for span in sorted(marked)), {
        k: n for k, n in missing.items() if n
    }


def _example(question: _Question, field: str, document: Document, spans: _Spans) -> Example:
    """A question with all annotators' answers and evidence. field: its place in the row, "qas[0]".
    Raises RowError."""
    refuse_blank(
        {f"{field}.question_id": question.question_id, f"{field}.question": question.question}
    )
    if not question.answers:
        raise RowError(f"{field}.answers", "the question has no answer")
    answered = [
        _answer_and_kind(a.answer, f"{field}.answers[{n}].answer")
        for n, a in enumerate(question.answers)
    ]
    if blank := [n for n, (answer, _) in enumerate(answered) if not answer.strip()]:
        raise RowError(f"{field}.answers[{blank[0]}].answer", "is blank")
    supporting, counts = _evidence(question, document, spans)
    answers = tuple(dict.fromkeys(answer for answer, _ in answered))
    gold = Gold(answers, supporting, {"types": [kind for _, kind in answered], **counts})
    return Example(Question(question.question_id, question.question, (document.id,)), gold)


def parse_row(raw: dict[str, Any]) -> Group:
    """One paper with all its questions. Gold.extra: `types` (one an annotator: extractive,
    abstractive, boolean, none), evidence_floats and evidence_not_found where there are any. Raises
    RowError naming the field.
    """
    paper = _Paper.read(raw)
    refuse_blank({"id": paper.id})
    document, spans = _document_and_spans(paper)
    return Group(
        document, tuple(_example(q, f"qas[{n}]", document, spans) for n, q in enumerate(paper.qas))
    )
