"""HELMET's recall and re-ranking (Yen et al., ICLR 2025): a value of a JSON object of 1,800 keys, and
the order of 1,000 passages.

    json_kv   {"context": "{\"a1..\": \"b2..\", ..}", "question": "a1..", "answer": "b2..",
               "demos": [["k", "v"], ..], "num_kvs": 1800}
    rerank    {"qid": "1", "query": "..", "ctxs": [{"id": "7", "text": "..", "label": 2}, ..]}

The layouts of data/json_kv and data/msmarco as the authors' program reads them (load_json_kv,
load_msmarco_rerank in data.py). Two solved examples of a row of json_kv stand in its question; those
of re-ranking come from a second file (dataset.shots_from).
"""

from operator import attrgetter

from harness.datasets.raw_rows import RawRow
from harness.datasets.rows import (
    SEPARATOR,
    Group,
    QuestionText,
    RowError,
    StrictRow,
    clean_answers,
    group_of_one_question,
    id_from_text,
    refuse_blank,
)
from harness.types import Document, Example, Gold, Passage, Question

SOLVED_EXAMPLES = 2  # in the question of a row of json_kv, as the authors' prompt has them


class _KeyValueRow(StrictRow):
    context: str
    question: str
    answer: str | list[str]
    demos: list[list[str]]


class _Passage(StrictRow):
    id: str
    text: str
    label: int
    title: str | None = None

    def text_in_prompt(self) -> str:
        """The passage as the authors' prompt shows it: "[ID: 7] Document (Title: Ada): She
        wrote."
        """
        if self.title is None:
            return f"[ID: {self.id}] Document: {self.text}"
        return f"[ID: {self.id}] Document (Title: {self.title}): {self.text}"


class _RankingRow(StrictRow):
    qid: str
    query: str
    ctxs: list[_Passage]


def parse_key(raw: RawRow) -> Group:
    """Parse one row of json_kv: the JSON object is the text, and a key with two solved examples
    the question.

    Raises RowError, which names the field.
    """
    row = _KeyValueRow.read(raw)
    refuse_blank({"context": row.context, "question": row.question})
    answers = row.answer
    if isinstance(answers, str):
        answers = [answers]
    examples_and_key = []
    for number, pair in enumerate(row.demos[:SOLVED_EXAMPLES]):
        if len(pair) != 2:
            raise RowError(f"demos[{number}]", f"should be a key and a value, are {len(pair)}")
        key, value = pair
        examples_and_key.append(f"Key: {key}\nCorresponding value: {value}")
    examples_and_key.append(f"Key: {row.question}")
    question_id = id_from_text("json-kv", f"{row.context}\n{row.question}")
    question = QuestionText(question_id, SEPARATOR.join(examples_and_key))
    return group_of_one_question(
        "json-kv-text", row.context, question, clean_answers(answers, "answer"), extra={}
    )


def parse_ranking(raw: RawRow) -> Group:
    """Parse one row of re-ranking; the gold answer is the ranking by grade, "7 > 3 > 12".

    Gold.extra: labels (id of a passage -> its grade), and draw_key, which identifies the question
    for the draw of its solved examples. Raises RowError, which names the field.
    """
    row = _RankingRow.read(raw)
    refuse_blank({"query": row.query})
    if not row.ctxs:
        raise RowError("ctxs", "is empty")
    best_first = sorted(row.ctxs, key=attrgetter("label"), reverse=True)
    ranking = " > ".join(map(attrgetter("id"), best_first))
    grade_by_passage_id = {passage.id: passage.label for passage in row.ctxs}
    document = _document_of_passages(row)
    question = Question(document.id, f"Query: {row.query}", (document.id,))
    gold = Gold((ranking,), extra={"labels": grade_by_passage_id, "draw_key": row.qid})
    return Group(document, (Example(question, gold),))


def _document_of_passages(row: _RankingRow) -> Document:
    """The passages of a row as one document; its id is the question's and a hash of the text."""
    passages = []
    start = 0
    for passage in row.ctxs:
        end = start + len(passage.text_in_prompt())
        passages.append(Passage(passage.title or "", start, end))
        start = end + len(SEPARATOR)
    text = SEPARATOR.join(passage.text_in_prompt() for passage in row.ctxs)
    return Document(id_from_text(row.qid, text, digits=8), text, passages=tuple(passages))
