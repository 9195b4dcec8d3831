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
    made_id,
    refuse_blank,
)
from harness.types import Document, Example, Gold, Question, Support

SUMMARY = "Please generate a summary of the paper."
NO_PAIRS = "none"


class _Row(StrictRow):
    input: str
    title: str
    qa_pairs: str | list[RawRow]
    output: str


class _Pair(StrictRow):
    Q: str
    A: str | dict[str, str]
    S: str | list[str] = ""
    type: str | None = None

    def sentences(self) -> list[str]:
        """The sentences of evidence as a list, of which a row may have a single one without."""
        if isinstance(self.S, str):
            return [self.S]
        return self.S


def _pairs(row: _Row) -> list[_Pair]:
    """The questions of a row with their answers.

    A row for a summary has none: one is made here, whose answer is the summary. Raises RowError.
    """
    if row.qa_pairs == NO_PAIRS:
        return [_Pair(Q=SUMMARY, A=row.output)]
    pairs = row.qa_pairs
    if isinstance(pairs, str):
        try:
            pairs = ast.literal_eval(pairs)
        except (ValueError, SyntaxError):
            raise RowError("qa_pairs", "should be a list in Python's form") from None
    return [_Pair.read(pair) for pair in pairs]


def _evidence(pair: _Pair, document: Document) -> tuple[Support, ...]:
    """The spans of those sentences of evidence that stand in the text as they are written."""
    spans = []
    for sentence in pair.sentences():
        start = document.text.find(sentence)
        if sentence.strip() and start >= 0:
            spans.append(Support(document.id, start, start + len(sentence)))
    return tuple(dict.fromkeys(spans))


def _example(pair: _Pair, number: int, document: Document) -> Example:
    """Make one question on a text; a cloze asks for its masked entities.

    Args:
        pair: The question with its answer.
        number: Its number in the row, from 0.
        document: The text.

    Raises:
        RowError: A field cannot be used.
    """
    name = f"qa_pairs[{number}]"
    refuse_blank({f"{name}.Q": pair.Q})
    extra: dict[str, object] = {}
    if pair.type is not None:
        extra["type"] = pair.type
    answer = str(pair.A)
    text = pair.Q
    if isinstance(pair.A, dict):
        extra["masks"] = pair.A
        text = f"{text} What are the masked entities?"
    answers = clean_answers([answer], f"{name}.A")
    question = Question(f"{document.id}-{made_id('q', pair.Q, 8)}", text, (document.id,))
    return Example(question, Gold(answers, _evidence(pair, document), extra))


def parse_row(raw: RawRow) -> Group:
    """Parse one text with its questions, {"input": text, "title", "qa_pairs", "output": a
    summary}.

    Gold.extra: type, where the row says it, and masks (mask -> entity) of a cloze. Raises RowError,
    which names the field.
    """
    row = _Row.read(raw)
    refuse_blank({"input": row.input})
    document = Document(made_id("loogle", row.input), row.input, row.title)
    examples = []
    for number, pair in enumerate(_pairs(row)):
        examples.append(_example(pair, number, document))
    return Group(document, tuple(examples))
