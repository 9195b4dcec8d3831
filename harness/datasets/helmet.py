"""HELMET's questions with retrieved passages (Yen et al., ICLR 2025): NQ, TriviaQA, HotpotQA and
PopQA.

    {"question": "..", "answers": ["..", ".."], "ctxs": [{"title": "..", "text": ".."}, ..]}

A document is a question's passages in the file's order: a question comes several times, its answer
at other depths, so ids have the hash of the passages. Of PopQA (`s_pop`) only subjects with fewer
than 1,000 views are asked, as by the authors (popqa_3). The solved examples that they put first
(`demo_files`) are left out.
"""

from typing import Any

from harness.datasets.rows import Records, Row, Skip, StrictRow, clean_answers, made_id

KNOWN = "of a subject with 1,000 views or more"


class _Passage(StrictRow):
    title: str
    text: str


class _Row(StrictRow):
    id: int | str | None = None
    question: str
    answers: list[str]
    ctxs: Records[_Passage]
    s_pop: int | None = None


def parse_row(raw: dict[str, Any]) -> Row | Skip:
    """One row of HELMET's kilt files. Raises RowError naming the field."""
    row = _Row.read(raw)
    if row.s_pop is not None and row.s_pop >= 1000:
        return Skip(KNOWN)
    passages = tuple((passage.title, passage.text) for passage in row.ctxs)
    key = made_id("helmet", row.question, 8) if row.id is None else str(row.id)
    return Row(
        made_id(key, str(passages), 8),
        row.question,
        passages,
        clean_answers(row.answers, "answers"),
    )
