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


def _blocks(paper: _Paper) -> list[tuple[str, list[str]]]:
    """Divide a paper into passages: (title, lines) of each.

    The first has the paper's title and abstract; each other one a paragraph, the first of a section
    with the section's name before it:

        ("Method", ["Method", "We train ..."]), ("Method", ["Then ..."])
    """
    blocks = [(paper.title, [paper.title, paper.abstract])]
    for section in paper.full_text:
        name = section.section_name or ""
        paragraphs = [text for text in section.paragraphs if text.strip()]
        blocks.append((name, [name, *paragraphs[:1]]))
        blocks += [(name, [paragraph]) for paragraph in paragraphs[1:]]
    return blocks


def _document_and_spans(paper: _Paper) -> tuple[Document, _Spans]:
    """Make the document of a paper, a passage for its abstract and one for each paragraph.

    Returns:
        The document; and the text of each paragraph, with single spaces -> (start, end) in it.

    Raises:
        RowError: The paper has no text.
    """
    pieces: list[str] = []
    passages: list[Passage] = []
    spans: _Spans = {}
    start = 0
    for title, all_lines in _blocks(paper):
        lines = [line for line in all_lines if line.strip()]
        if not lines:
            continue
        at = start
        for line in lines:
            # Evidence that comes twice means the first.
            spans.setdefault(normalise_space(line), (at, at + len(line)))
            at += len(line) + len("\n")
        piece = "\n".join(lines)
        pieces.append(piece)
        passages.append(Passage(title, start, start + len(piece)))
        start += len(piece) + len(SEPARATOR)
    if not pieces:
        raise RowError(None, "the document is empty: title, abstract and sections have no text")
    return Document(paper.id, SEPARATOR.join(pieces), paper.title, tuple(passages)), spans


def _answer_and_kind(answer: _Answer, field: str) -> tuple[str, str]:
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
        return "Unanswerable", "none"
    if answer.extractive_spans:
        return ", ".join(answer.extractive_spans), "extractive"
    if answer.free_form_answer:
        return answer.free_form_answer, "abstractive"
    if answer.yes_no is None:
        raise RowError(field, "is neither unanswerable nor extractive, free-form or yes/no")
    if answer.yes_no:
        return "Yes", "boolean"
    return "No", "boolean"


def _cited(question: _Question) -> list[str]:
    """The texts that the annotators who answered name as evidence, each once, without blank
    ones.
    """
    cited: dict[str, None] = {}
    for annotation in question.answers:
        if not annotation.answer.unanswerable:
            cited.update(dict.fromkeys(annotation.answer.evidence))
    return [evidence for evidence in cited if evidence.strip()]


def _evidence(
    question: _Question, document: Document, spans: _Spans
) -> tuple[tuple[Support, ...], dict[str, int]]:
    """Find the evidence of all annotators in the paper.

    Args:
        question: The question, with its annotations.
        document: The paper.
        spans: Text of a paragraph, with single spaces -> (start, end) in the document.

    Returns:
        The spans, and the numbers of pieces that are in no text: evidence_floats (tables, figures)
        and evidence_not_found, where there are any.
    """
    marked: set[tuple[int, int]] = set()
    missing = Counter[str]()
    for evidence in _cited(question):
        span = spans.get(normalise_space(evidence))
        at = document.text.find(evidence)
        if evidence.startswith(FLOAT):
            missing["evidence_floats"] += 1
        elif span is not None:
            marked.add(span)
        elif at >= 0:  # a part of a paragraph
            marked.add((at, at + len(evidence)))
        else:
            missing["evidence_not_found"] += 1
    supporting = tuple(Support(document.id, start, end) for start, end in sorted(marked))
    return supporting, dict(sorted(missing.items()))


def _example(question: _Question, field: str, document: Document, spans: _Spans) -> Example:
    """Make a question with all annotators' answers and evidence.

    Args:
        question: The question as the row has it.
        field: Its place in the row, "qas[0]".
        document: The paper.
        spans: Text of a paragraph, with single spaces -> (start, end) in the document.

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
        text, kind = _answer_and_kind(annotation.answer, f"{field}.answers[{number}].answer")
        texts.append(text)
        kinds.append(kind)
    for number, text in enumerate(texts):
        if not text.strip():
            raise RowError(f"{field}.answers[{number}].answer", "is blank")
    supporting, counts = _evidence(question, document, spans)
    gold = Gold(tuple(dict.fromkeys(texts)), supporting, {"types": kinds, **counts})
    return Example(Question(question.question_id, question.question, (document.id,)), gold)


def parse_row(raw: RawRow) -> Group:
    """Parse one paper with all its questions, {"title", "abstract", "full_text", "qas", ..}.

    Gold.extra of a question has `types`, the kind of each annotator's answer (extractive,
    abstractive, boolean, none), and evidence_floats and evidence_not_found where there are any.
    Raises RowError, which names the field.
    """
    paper = _Paper.read(raw)
    refuse_blank({"id": paper.id})
    document, spans = _document_and_spans(paper)
    examples = [
        _example(question, f"qas[{number}]", document, spans)
        for number, question in enumerate(paper.qas)
    ]
    return Group(document, tuple(examples))
