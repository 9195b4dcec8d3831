"""HELMET's questions with retrieved passages (Yen et al., ICLR 2025): NQ, TriviaQA, HotpotQA and
PopQA.

    {"question": "..", "answers": ["..", ".."], "ctxs": [{"title": "..", "text": ".."}, ..]}

A document is a question's passages in the file's order, each as "Document (Title: T): text" (data.py,
`load_qa`). A question comes several times, its answer at other depths, so ids have the hash of the
passages. Of PopQA (`s_pop`) only subjects with fewer than 1,000 views are asked, as by the authors
(popqa_3). Gold.extra has what identifies a question for the draw of its solved examples: its id,
else its words (harness/datasets/few_shot.py).
"""

from harness.datasets.raw_rows import RawRow
from harness.datasets.rows import (
    SEPARATOR,
    Group,
    Records,
    RowError,
    Skip,
    StrictRow,
    clean_answers,
    id_from_text,
    refuse_blank,
)
from harness.types import Document, Example, Gold, Passage, Question

_WELL_KNOWN_VIEWS = 1000  # of the subject; the authors' set is popqa_3
WELL_KNOWN = "of a subject with 1,000 views or more"


class _Passage(StrictRow):
    title: str
    text: str

    def text_in_prompt(self) -> str:
        """The passage as the authors' prompt shows it."""
        return f"Document (Title: {self.title}): {self.text}"


class _Row(StrictRow):
    id: int | str | None = None
    question: str
    answers: list[str]
    ctxs: Records[_Passage]
    s_pop: int | None = None


def parse_row(raw: RawRow) -> Group | Skip:
    """Parse one row, {"question", "answers", "ctxs": passages}, with its passages as one document.

    PopQA's questions on well-known things (s_pop of 1000 and more) are left out, as in HELMET.
    Gold.extra: draw_key, which identifies the question for its solved examples (few_shot.py).
    Raises RowError, which names the field.
    """
    row = _Row.read(raw)
    if row.s_pop is not None and row.s_pop >= _WELL_KNOWN_VIEWS:
        return Skip(WELL_KNOWN)
    refuse_blank({"question": row.question})
    if not row.ctxs:
        raise RowError("ctxs", "is empty")
    draw_key = row.question
    document_prefix = id_from_text("helmet", row.question, digits=8)
    if row.id is not None:
        draw_key = str(row.id)
        document_prefix = str(row.id)
    document = _document_of_passages(document_prefix, row.ctxs)
    question = Question(document.id, row.question, (document.id,))
    gold = Gold(clean_answers(row.answers, "answers"), extra={"draw_key": draw_key})
    return Group(document, (Example(question, gold),))


def _document_of_passages(id_prefix: str, row_passages: Records[_Passage]) -> Document:
    """The passages of a row as one document, a passage each.

    Args:
        id_prefix: The document's id is this and a hash of the passages.
        row_passages: The passages, in the order of the row.
    """
    passages = []
    start = 0
    for passage in row_passages:
        end = start + len(passage.text_in_prompt())
        passages.append(Passage(passage.title, start, end))
        start = end + len(SEPARATOR)
    text = SEPARATOR.join(passage.text_in_prompt() for passage in row_passages)
    titles_and_texts = tuple((passage.title, passage.text) for passage in row_passages)
    document_id = id_from_text(id_prefix, str(titles_and_texts), digits=8)
    return Document(document_id, text, passages=tuple(passages))
