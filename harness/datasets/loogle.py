"""LooGLE (Li et al., ACL 2024): questions, clozes and summaries on long articles, scripts and papers.

    {"input": "..", "title": "..", "output": "none",
     "qa_pairs": "[{'Q': 'Who built it?', 'A': 'Ada', 'S': ['Ada built it.'], 'type': 'computation'}, ..]"}
    cloze    {.., "qa_pairs": "[{'Q': '<mask-0> built it.', 'A': {'<mask-0>': 'Ada'}}]"}
    summary  {.., "qa_pairs": "none", "output": "the abstract"}

The layout of LooGLE-testdata (bigai-nlco/LooGLE); `qa_pairs` may also be a list. Sentences of
`S` that stand in the text are supporting.
"""

import ast

from harness.datasets.raw_rows import RawRow
from harness.datasets.rows import (
    Group,
    RowError,
    StrictRow,
    clean_answers,
    id_from_text,
    refuse_blank,
)
from harness.types import Document, Example, Gold, Question, Support

SUMMARY_QUESTION = "Please generate a summary of the paper."
NO_PAIRS = "none"


class _Row(StrictRow):
    input: str
    title: str
    qa_pairs: str | list[RawRow]
    output: str


class _QuestionAndAnswer(StrictRow):
    Q: str
    A: str | dict[str, str]
    S: str | list[str] = ""
    type: str | None = None

    def evidence_sentences(self) -> list[str]:
        """The sentences of evidence as a list, of which a row may have a single one without."""
        if isinstance(self.S, str):
            return [self.S]
        return self.S


def _parse_pairs(row: _Row) -> list[_QuestionAndAnswer]:
    """The questions of a row with their answers.

    A row for a summary has none: one is made here, whose answer is the summary. Raises RowError.
    """
    if row.qa_pairs == NO_PAIRS:
        return [_QuestionAndAnswer(Q=SUMMARY_QUESTION, A=row.output)]
    pairs = row.qa_pairs
    if isinstance(pairs, str):
        try:
            pairs = ast.literal_eval(pairs)
        except (ValueError, SyntaxError):
            raise RowError("qa_pairs", "should be a list in Python's form") from None
    return [_QuestionAndAnswer.read(pair) for pair in pairs]


def _find_evidence(pair: _QuestionAndAnswer, document: Document) -> tuple[Support, ...]:
    """The spans of those sentences of evidence that stand in the text as they are written."""
    spans = []
    for sentence in pair.evidence_sentences():
        start = document.text.find(sentence)
        is_in_text = start >= 0
        if sentence.strip() and is_in_text:
            spans.append(Support(document.id, start, start + len(sentence)))
    return tuple(dict.fromkeys(spans))


def _example(pair: _QuestionAndAnswer, number: int, document: Document) -> Example:
    """Make one question on a text; a cloze asks for its masked entities.

    Args:
        pair: The question with its answer.
        number: Its number in the row, from 0.
        document: The text.

    Raises:
        RowError: A field cannot be used.
    """
    field = f"qa_pairs[{number}]"
    refuse_blank({f"{field}.Q": pair.Q})
    extra: dict[str, object] = {}
    if pair.type is not None:
        extra["type"] = pair.type
    text = pair.Q
    is_cloze = isinstance(pair.A, dict)
    if is_cloze:
        extra["masks"] = pair.A
        text = f"{text} What are the masked entities?"
    answers = clean_answers([str(pair.A)], f"{field}.A")
    question_id = f"{document.id}-{id_from_text('q', pair.Q, digits=8)}"
    question = Question(question_id, text, (document.id,))
    return Example(question, Gold(answers, _find_evidence(pair, document), extra))


def parse_row(raw: RawRow) -> Group:
    """Parse one text with its questions, {"input": text, "title", "qa_pairs", "output": a
    summary}.

    Gold.extra: type, where the row says it, and masks (mask -> entity) of a cloze. Raises RowError,
    which names the field.
    """
    row = _Row.read(raw)
    refuse_blank({"input": row.input})
    document = Document(id_from_text("loogle", row.input), row.input, row.title)
    examples = []
    for number, pair in enumerate(_parse_pairs(row)):
        examples.append(_example(pair, number, document))
    return Group(document, tuple(examples))
