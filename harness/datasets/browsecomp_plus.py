"""BrowseComp-Plus (Chen et al. 2025): questions of BrowseComp, each with web pages that answer it
and pages that look like them.

    {"query_id": "1", "query": "..", "answer": "..",
     "gold_docs": [{"docid": "10", "text": "..", "url": ".."}, ..], "evidence_docs": [..], "negative_docs": [..]}

The fields of browsecomp_plus_decrypted.jsonl, which a script of the authors makes of
Tevatron/browsecomp-plus; the rows on the hub are encrypted. Each page is a document, in an order by
its hash, so that the answer's pages do not come first. A page that stands in several lists, or in
the rows of several questions, is one document. A judge says whether the answer is right
(configs/judges/browsecomp-plus.yaml).
"""

import hashlib
from collections.abc import Mapping, Sequence

from harness.datasets.raw_rows import RawRow
from harness.datasets.rows import Retrieved, RowError, StrictRow, clean_answers, refuse_blank
from harness.types import Document, Example, Gold, Question, Support


class _Page(StrictRow):
    docid: int | str
    text: str


class _Row(StrictRow):
    query_id: int | str
    query: str
    answer: str
    gold_docs: list[_Page]
    evidence_docs: list[_Page]
    negative_docs: list[_Page]


def _hash_of_id(page_id: str) -> bytes:
    """The sha256 of a page's id, by which the pages of a question are sorted."""
    return hashlib.sha256(page_id.encode()).digest()


def _documents_by_id(row: _Row) -> dict[str, Document]:
    """The pages of a question that have text: id -> document, each once, sorted by the hash of the
    id.
    """
    text_by_id = {}
    for page in (*row.gold_docs, *row.evidence_docs, *row.negative_docs):
        if page.text.strip():
            text_by_id[str(page.docid)] = page.text
    ids_in_order = sorted(text_by_id, key=_hash_of_id)
    return {page_id: Document(page_id, text_by_id[page_id]) for page_id in ids_in_order}


def _whole_page_spans(
    pages: Sequence[_Page], document_by_id: Mapping[str, Document]
) -> tuple[Support, ...]:
    """The spans that cover the whole of each page, each page once; pages without text are left out.

    Args:
        pages: The pages, as those marked as evidence.
        document_by_id: Id of each page with text -> its document.
    """
    spans = []
    for page_id in dict.fromkeys(str(page.docid) for page in pages):
        document = document_by_id.get(page_id)
        if document is not None:
            spans.append(Support(page_id, 0, len(document.text)))
    return tuple(spans)


def parse_row(raw: RawRow) -> Retrieved:
    """Parse one question with its pages, {"query", "answer", "gold_docs", "evidence_docs",
    "negative_docs"}.

    Gold.supporting are the pages marked as evidence. Gold.extra: holding_answer, the pages that hold
    the answer; judge, its published prompt. Raises RowError, which names the field.
    """
    row = _Row.read(raw)
    refuse_blank({"query_id": str(row.query_id), "query": row.query})
    document_by_id = _documents_by_id(row)
    if not document_by_id:
        raise RowError("negative_docs", "no page of the question has text")
    question = Question(str(row.query_id), row.query, tuple(document_by_id))
    pages_with_answer = _whole_page_spans(row.gold_docs, document_by_id)
    extra: dict[str, object] = {
        "judge": "browsecomp-plus/answer",
        "holding_answer": [[span.document_id, span.start, span.end] for span in pages_with_answer],
    }
    evidence_pages = _whole_page_spans(row.evidence_docs, document_by_id)
    gold = Gold(clean_answers([row.answer], "answer"), evidence_pages, extra)
    return Retrieved(tuple(document_by_id.values()), Example(question, gold))
