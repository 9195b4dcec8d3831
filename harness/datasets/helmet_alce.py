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
    id_from_text,
    refuse_blank,
)
from harness.types import Document, Example, Gold, Passage, Question

MAX_PASSAGES = 700


class _Passage(StrictRow):
    title: str
    text: str

    def text_in_prompt(self, number: int) -> str:
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
    answers_of_each_part = row.short_answers()
    document = _document_of_passages(row)
    all_answers = itertools.chain.from_iterable(answers_of_each_part)
    question = Question(document.id, row.question, (document.id,))
    extra = {"short_answers": answers_of_each_part}
    gold = Gold(clean_answers(all_answers, "answers"), extra=extra)
    return Group(document, (Example(question, gold),))


def _document_of_passages(row: _Row) -> Document:
    """The first 700 passages of a row as one document, a passage each."""
    texts = []
    passages = []
    start = 0
    for number, passage in enumerate(row.docs[:MAX_PASSAGES], start=1):
        passage_text = passage.text_in_prompt(number)
        passages.append(Passage(passage.title, start, start + len(passage_text)))
        texts.append(passage_text)
        start += len(passage_text) + len(SEPARATOR)
    text = SEPARATOR.join(texts)
    document_id = id_from_text("alce", f"{row.question}\n{text}")
    return Document(document_id, text, passages=tuple(passages))
