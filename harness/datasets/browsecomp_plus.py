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


def _by_hash(docid: str) -> bytes:
    """The key by which the pages of a question are sorted: the sha256 of a page's id."""
    return hashlib.sha256(docid.encode()).digest()


def _documents(row: _Row) -> dict[str, Document]:
    """The pages of a question that have text: id -> document, each once, in the order of their
    hashes.
    """
    texts = {}
    for page in (*row.gold_docs, *row.evidence_docs, *row.negative_docs):
        if page.text.strip():
            texts[str(page.docid)] = page.text
    return {docid: Document(docid, texts[docid]) for docid in sorted(texts, key=_by_hash)}


def _marked(pages: list[_Page], documents: dict[str, Document]) -> tuple[Support, ...]:
    """The pages with text of a list that people marked, each as a whole.

    Args:
        pages: The list, as of evidence.
        documents: Id of each page -> its document.
    """
    marked = dict.fromkeys(str(page.docid) for page in pages)
    with_text = [documents[docid] for docid in marked if docid in documents]
    return tuple(Support(document.id, 0, len(document.text)) for document in with_text)


def parse_row(raw: RawRow) -> Retrieved:
    """Parse one question with its pages, {"query", "answer", "gold_docs", "evidence_docs",
    "negative_docs"}.

    Gold.supporting are the pages marked as evidence. Gold.extra: holding_answer, the pages that hold
    the answer; judge, its published prompt. Raises RowError, which names the field.
    """
    row = _Row.read(raw)
    refuse_blank({"query_id": str(row.query_id), "query": row.query})
    documents = _documents(row)
    if not documents:
        raise RowError("negative_docs", "no page of the question has text")
    question = Question(str(row.query_id), row.query, tuple(documents))
    holding = _marked(row.gold_docs, documents)
    extra: dict[str, object] = {
        "judge": "browsecomp-plus/answer",
        "holding_answer": [[page.document_id, page.start, page.end] for page in holding],
    }
    evidence = _marked(row.evidence_docs, documents)
    gold = Gold(clean_answers([row.answer], "answer"), evidence, extra)
    return Retrieved(tuple(documents.values()), Example(question, gold))
