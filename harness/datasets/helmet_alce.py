"""HELMET's questions with citations (Yen et al., ICLR 2025; after ALCE, Gao et al. 2023): ASQA and
QAMPARI with 700 retrieved passages.

    asqa      {"question": "..", "qa_pairs": [{"short_answers": ["Ada", ".."]}, ..],
               "docs": [{"title": "..", "text": ".."}, ..]}
    qampari   {"question": "..", "answers": [["Ada", ".."], ..], "docs": [..]}

The layout of data/alce as the authors' program reads it (load_alce in data.py, eval_alce.py). A
document is the first 700 passages, each as "Document [N](Title: T): text".
"""

import itertools

from harness.datasets.raw_rows import RawRow
from harness.datasets.rows import (
    SEPARATOR,
    Group,
    RowError,
    StrictRow,
    clean_answers,
    made_id,
    refuse_blank,
)
from harness.types import Document, Example, Gold, Passage, Question

PASSAGES = 700


class _Passage(StrictRow):
    title: str
    text: str

    def shown(self, number: int) -> str:
        """The passage as the authors' prompt shows it: "Document [1](Title: Ada): She wrote."

        Args:
            number: Its number, from 1.
        """
        return f"Document [{number}](Title: {self.title}): {self.text}"


class _Pair(StrictRow):
    short_answers: list[str]


class _Row(StrictRow):
    question: str
    docs: list[_Passage]
    qa_pairs: list[_Pair] | None = None
    answers: list[list[str]] | None = None

    def short_answers(self) -> list[list[str]]:
        """The accepted answers of each part of the question. Raises RowError where the row has
        none.
        """
        if self.answers is not None:
            return self.answers
        if not self.qa_pairs:
            raise RowError("qa_pairs", "is missing, as are answers")
        return [pair.short_answers for pair in self.qa_pairs]


def parse_row(raw: RawRow) -> Group:
    """Parse one row of ASQA or QAMPARI, {"question", "docs", "qa_pairs" or "answers"}.

    Its passages are one document. Gold.extra: short_answers, the accepted answers of each part of
    the question. Raises RowError, which names the field.
    """
    row = _Row.read(raw)
    refuse_blank({"question": row.question})
    if not row.docs:
        raise RowError("docs", "is empty")
    accepted = row.short_answers()
    document = _document(row)
    flat = itertools.chain.from_iterable(accepted)
    question = Question(document.id, row.question, (document.id,))
    gold = Gold(clean_answers(flat, "answers"), extra={"short_answers": accepted})
    return Group(document, (Example(question, gold),))


def _document(row: _Row) -> Document:
    """The first 700 passages of a row as one document, a passage each."""
    shown = []
    spans = []
    start = 0
    for number, passage in enumerate(row.docs[:PASSAGES], start=1):
        text = passage.shown(number)
        spans.append(Passage(passage.title, start, start + len(text)))
        shown.append(text)
        start += len(text) + len(SEPARATOR)
    text = SEPARATOR.join(shown)
    return Document(made_id("alce", f"{row.question}\n{text}"), text, passages=tuple(spans))
