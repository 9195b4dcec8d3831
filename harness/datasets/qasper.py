"""Qasper (Dasigi et al., NAACL 2021): questions on papers, each answered by one to several
annotators.

    official   {"1909.00694": {"title": "..", "abstract": "..",
                 "full_text": [{"section_name": "..", "paragraphs": [..]}, ..],
                 "qas": [{"question": "..", "question_id": "..", "answers": [{"answer": {"unanswerable": false,
                    "extractive_spans": [..], "yes_no": null, "free_form_answer": "", "evidence": [..]}}]}]}}
    hub copy   a row a paper, its "id" among the other fields, and columns:
                 "full_text": {"section_name": [..], "paragraphs": [[..], ..]},
                 "qas": {"question": [..], "question_id": [..], "answers": [{"answer": [..]}, ..]}

The document is title, abstract, then every section's name (" ::: " between its parts, as published)
and paragraphs. Answers are those of the official evaluator (scripts/evaluator.py of
allenai/qasper-led-baseline): "Unanswerable", else the extractive spans joined with ", ", else the
free form, else "Yes" or "No". Supporting are the evidence paragraphs of all annotators; evidence
that names a table or figure ("FLOAT SELECTED: ...") is in no text, so it cannot be shown.
"""

from collections import Counter
from typing import Literal, NamedTuple

from harness.datasets.raw_rows import RawRow
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
TABLE_OR_FIGURE = "FLOAT SELECTED"
"""What evidence begins with that names a table or a figure."""


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


class _CharacterSpan(NamedTuple):
    """A part of a document: the index of its first character, and of the one after its last."""

    start: int
    end: int


# The text of a paragraph, with single spaces -> its span in the document.
_SpanByText = dict[str, _CharacterSpan]


class _TitledLines(NamedTuple):
    """The lines of a passage, and the title of the section that it is from."""

    title: str
    lines: list[str]


def _divide_into_passages(paper: _Paper) -> list[_TitledLines]:
    """Divide a paper into passages.

    The first has the paper's title and abstract; each other one a paragraph, the first of a section
    with the section's name before it:

        ("Method", ["Method", "We train ..."]), ("Method", ["Then ..."])
    """
    passages = [_TitledLines(paper.title, [paper.title, paper.abstract])]
    for section in paper.full_text:
        section_name = section.section_name or ""
        paragraphs = [text for text in section.paragraphs if text.strip()]
        passages.append(_TitledLines(section_name, [section_name, *paragraphs[:1]]))
        passages += [_TitledLines(section_name, [paragraph]) for paragraph in paragraphs[1:]]
    return passages


def _document_and_spans(paper: _Paper) -> tuple[Document, _SpanByText]:
    """Make the document of a paper, a passage for its abstract and one for each paragraph.

    Returns:
        The document; and the text of each paragraph, with single spaces -> its span in it, the
        first where the text comes twice.

    Raises:
        RowError: The paper has no text.
    """
    passage_texts: list[str] = []
    passages: list[Passage] = []
    span_by_text: _SpanByText = {}
    passage_start = 0
    for title, lines in _divide_into_passages(paper):
        lines_with_text = [line for line in lines if line.strip()]
        if not lines_with_text:
            continue
        line_start = passage_start
        for line in lines_with_text:
            span = _CharacterSpan(line_start, line_start + len(line))
            span_by_text.setdefault(normalise_space(line), span)
            line_start += len(line) + len("\n")
        passage_text = "\n".join(lines_with_text)
        passage_texts.append(passage_text)
        passages.append(Passage(title, passage_start, passage_start + len(passage_text)))
        passage_start += len(passage_text) + len(SEPARATOR)
    if not passage_texts:
        raise RowError(None, "the document is empty: title, abstract and sections have no text")
    text = SEPARATOR.join(passage_texts)
    return Document(paper.id, text, paper.title, tuple(passages)), span_by_text


class _AnswerWithKind(NamedTuple):
    """The text of an answer, and its kind in the official evaluator's words."""

    text: str
    kind: Literal["none", "extractive", "abstractive", "boolean"]


def _answer_with_kind(answer: _Answer, field: str) -> _AnswerWithKind:
    """The text of one annotator's answer, and its kind in the official evaluator's words.

    ("Unanswerable", "none"), ("BERT, GPT", "extractive"), ("They ...", "abstractive"), ("Yes",
    "boolean")

    Args:
        answer: The annotator's answer.
        field: Its place in the row, for the error.

    Raises:
        RowError: It is of none of these kinds.
    """
    if answer.unanswerable:
        return _AnswerWithKind("Unanswerable", "none")
    if answer.extractive_spans:
        return _AnswerWithKind(", ".join(answer.extractive_spans), "extractive")
    if answer.free_form_answer:
        return _AnswerWithKind(answer.free_form_answer, "abstractive")
    if answer.yes_no is None:
        raise RowError(field, "is neither unanswerable nor extractive, free-form or yes/no")
    if answer.yes_no:
        return _AnswerWithKind("Yes", "boolean")
    return _AnswerWithKind("No", "boolean")


def _evidence_texts(question: _Question) -> list[str]:
    """The texts that the annotators who answered name as evidence, each once, without blank
    ones.
    """
    texts: dict[str, None] = {}  # a set in order
    for annotation in question.answers:
        if not annotation.answer.unanswerable:
            texts.update(dict.fromkeys(annotation.answer.evidence))
    return [text for text in texts if text.strip()]


def _find_evidence(
    question: _Question, document: Document, span_by_text: _SpanByText
) -> tuple[tuple[Support, ...], dict[str, int]]:
    """Find the evidence of all annotators in the paper.

    Args:
        question: The question, with its annotations.
        document: The paper.
        span_by_text: Text of a paragraph, with single spaces -> its span in the document.

    Returns:
        The spans, in order; and the counts of evidence that is in no text, by the key for
        Gold.extra: {"evidence_floats": 1, "evidence_not_found": 2}, each only where there is any.
    """
    evidence_spans: set[_CharacterSpan] = set()
    missing = Counter[str]()
    for evidence in _evidence_texts(question):
        span = span_by_text.get(normalise_space(evidence))
        start = document.text.find(evidence)
        if evidence.startswith(TABLE_OR_FIGURE):
            missing["evidence_floats"] += 1
        elif span is not None:
            evidence_spans.add(span)
        elif start >= 0:  # a part of a paragraph
            evidence_spans.add(_CharacterSpan(start, start + len(evidence)))
        else:
            missing["evidence_not_found"] += 1
    supporting = tuple(
        Support(document.id, span.start, span.end) for span in sorted(evidence_spans)
    )
    return supporting, dict(sorted(missing.items()))


def _example(
    question: _Question, field: str, document: Document, span_by_text: _SpanByText
) -> Example:
    """Make a question with all annotators' answers and evidence.

    Gold.extra: types, the kind of each annotator's answer, and the counts of evidence that is in no
    text (`_find_evidence`).

    Args:
        question: The question as the row has it.
        field: Its place in the row, "qas[0]".
        document: The paper.
        span_by_text: Text of a paragraph, with single spaces -> its span in the document.

    Raises:
        RowError: A blank id, question or answer, or no answer at all.
    """
    refuse_blank(
        {f"{field}.question_id": question.question_id, f"{field}.question": question.question}
    )
    if not question.answers:
        raise RowError(f"{field}.answers", "the question has no answer")
    texts = []
    kinds = []
    for number, annotation in enumerate(question.answers):
        answer = _answer_with_kind(annotation.answer, f"{field}.answers[{number}].answer")
        texts.append(answer.text)
        kinds.append(answer.kind)
    for number, text in enumerate(texts):
        if not text.strip():
            raise RowError(f"{field}.answers[{number}].answer", "is blank")
    supporting, missing_counts = _find_evidence(question, document, span_by_text)
    gold = Gold(tuple(dict.fromkeys(texts)), supporting, {"types": kinds, **missing_counts})
    return Example(Question(question.question_id, question.question, (document.id,)), gold)


def parse_row(raw: RawRow) -> Group:
    """Parse one paper with all its questions, {"title", "abstract", "full_text", "qas", ..}.

    Gold.extra of a question has `types`, the kind of each annotator's answer (extractive,
    abstractive, boolean, none), and evidence_floats and evidence_not_found where there are any.
    Raises RowError, which names the field.
    """
    paper = _Paper.read(raw)
    refuse_blank({"id": paper.id})
    document, span_by_text = _document_and_spans(paper)
    examples = []
    for number, question in enumerate(paper.qas):
        examples.append(_example(question, f"qas[{number}]", document, span_by_text))
    return Group(document, tuple(examples))
