"""Evidence recall: how much of what supports the answer the reader saw.

    supporting   ----[====A====]-----[==B==]----      A hit: at least half of its characters were shown
    shown        ------[##########]----------[#]      B missed                              -> 1 / 2

Only spans of a document count. Generated text hits nothing; `evidence_recall_sources` is the same
figure with the spans that generated text was written from added, reported separately.

An application says what it used, or does not: the pages that it names count by page, the texts that
it used by passage, and what it does not say has no score.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from harness.scorers.base import ScoreError, mean, published
from harness.types import Shown, Support

scorer = published("this project")


class Span(NamedTuple):
    """A part of a document, in characters."""

    document_id: str
    start: int
    end: int


class _Range(NamedTuple):
    """Characters of one document."""

    start: int
    end: int


def _united_ranges_by_document(spans: Iterable[Span]) -> dict[str, list[_Range]]:
    """Document id -> the ranges of its spans, sorted and united where they touch or overlap.

    [Span("d", 5, 9), Span("d", 0, 6)] -> {"d": [_Range(0, 9)]}

    Raises ScoreError for a span that ends before it starts, or starts below 0.
    """
    ranges_by_document: dict[str, list[_Range]] = defaultdict(list)
    for document_id, start, end in spans:
        if start > end or start < 0:
            raise ScoreError(f"a shown span of document '{document_id}' runs from {start} to {end}")
        ranges_by_document[document_id].append(_Range(start, end))
    return {
        document_id: _united_ranges(ranges) for document_id, ranges in ranges_by_document.items()
    }


def _united_ranges(ranges: Iterable[_Range]) -> list[_Range]:
    """Sort the ranges of one document and unite those that touch or overlap.

    [_Range(5, 9), _Range(0, 6), _Range(20, 30)] -> [_Range(0, 9), _Range(20, 30)]
    """
    united: list[_Range] = []
    for each in sorted(ranges):
        if united and each.start <= united[-1].end:
            last = united[-1]
            united[-1] = _Range(last.start, max(last.end, each.end))
        else:
            united.append(each)
    return united


def supporting_hits(spans: Iterable[Span], supporting: Sequence[Support]) -> list[bool]:
    """For each supporting passage, whether the spans cover at least half of its characters.

    Args:
        spans: What was shown, in any order.
        supporting: The passages that support the answer.

    Raises:
        ScoreError: A passage has no characters, or a span ends before it starts.
    """
    ranges_by_document = _united_ranges_by_document(spans)
    hits: list[bool] = []
    for support in supporting:
        n_characters = support.end - support.start
        if n_characters <= 0:
            raise ScoreError(
                f"a supporting passage of document '{support.document_id}' has no characters"
            )
        n_covered = 0
        for start, end in ranges_by_document.get(support.document_id, []):
            n_covered += max(0, min(end, support.end) - max(start, support.start))
        hits.append(2 * n_covered >= n_characters)
    return hits


def shown_spans(shown: Sequence[Shown]) -> list[Span]:
    """The spans of documents among what was shown; generated and quoted texts are left out."""
    pieces = [piece for piece in shown if piece.kind == "span"]
    return [Span(piece.document_id, piece.start, piece.end) for piece in pieces]


@scorer("evidence_recall", "share of supporting passages shown", "shown")
def evidence_recall(
    shown: Sequence[Shown], supporting: Sequence[Support], *, whole_pages: bool = False
) -> float | None:
    """The share of the supporting passages that were shown, in 0..1; None without such passages.

    A passage counts when at least half of its characters lie in the union of the shown spans of its
    document. None also where the application does not say which texts it used.

    Args:
        shown: What the reader saw.
        supporting: The passages that support the answer.
        whole_pages: Whether these are whole pages, of which no passage is known: recall by page
            (`evidence_pages`) is then all that can be said, and this is None.

    Raises:
        ScoreError: A span ends before it starts, or a supporting passage has no characters.
    """
    if not supporting or whole_pages or _has_unknown_texts(shown):
        return None
    return mean(supporting_hits(shown_spans(shown), supporting))


@scorer("evidence_recall_sources", "the same, sources of summaries counted", "shown")
def evidence_recall_sources(shown: Sequence[Shown], supporting: Sequence[Support]) -> float | None:
    """Share of the supporting passages of which at least half was shown, in 0..1; the sources of a
    generated text count as shown.

    None without supporting passages, and where an application does not say which texts it used.

    Args:
        shown: What the reader saw.
        supporting: The passages that support the answer.
    """
    if not supporting or _has_unknown_texts(shown):
        return None
    spans = shown_spans(shown)
    for piece in shown:
        if piece.kind == "generated":
            for document_id, start, end in piece.sources:
                spans.append(Span(document_id, start, end))
    return mean(supporting_hits(spans, supporting))


def _share_half_of_shorter(span: Shown, support: Support) -> bool:
    """Whether a shown span and a supporting passage share at least half of the shorter of the two.

    So a chunk of a long page counts, and a short page in a chunk.
    """
    if span.document_id != support.document_id:
        return False
    n_shared = min(span.end, support.end) - max(span.start, support.start)
    n_shorter = min(span.end - span.start, support.end - support.start)
    return n_shared > 0 and 2 * n_shared >= n_shorter


def _index_of_first_span_on(spans: Sequence[Shown], support: Support) -> int | None:
    """The index (from 0) of the first span on a supporting passage; None where none is.

    A span is on it where the two share at least half of the shorter one.
    """
    for index, span in enumerate(spans):
        if _share_half_of_shorter(span, support):
            return index
    return None


def _has_unknown_texts(shown: Sequence[Shown]) -> bool:
    """Whether some shown piece stands for texts that an application used without saying which."""
    return any(piece.kind == "unknown" for piece in shown)


def _names_no_text_or_page(shown: Sequence[Shown]) -> bool:
    """Whether an application neither says which texts it used nor names a page."""
    return _has_unknown_texts(shown) and not any(piece.kind == "source" for piece in shown)


def _ranked_pieces(shown: Sequence[Shown]) -> list[Shown]:
    """The shown pieces that hit@k, MRR and recall by page rank, in order.

    These are the pages that an application names, if any, else the texts; a quoted text that is
    nowhere in the documents takes a place too.
    """
    pages = [piece for piece in shown if piece.kind == "source"]
    if pages:
        return pages
    return [piece for piece in shown if piece.kind in ("span", "quote")]


def _index_of_first_piece_on_each(
    shown: Sequence[Shown], supporting: Sequence[Support]
) -> list[int]:
    """The index (from 0) among the ranked pieces of the first one on each supporting page.

    In the order of the pages; a page that no piece is on has no entry, so the list may be shorter.
    """
    ranked_pieces = _ranked_pieces(shown)
    indices: list[int] = []
    for support in supporting:
        index = _index_of_first_span_on(ranked_pieces, support)
        if index is not None:
            indices.append(index)
    return indices


@scorer("evidence_hit", "1 if a shown text is on a supporting page (hit@k)", "shown")
def evidence_hit(shown: Sequence[Shown], supporting: Sequence[Support]) -> float | None:
    """1.0 where a shown text is on a supporting page, else 0.0: hit@k for the k texts shown.

    None for a question without such pages, and where the application does not say what it used.
    """
    if not supporting or _names_no_text_or_page(shown):
        return None
    n_pages_shown = len(_index_of_first_piece_on_each(shown, supporting))
    return float(n_pages_shown > 0)


@scorer("evidence_mrr", "1 / place of the first shown text on a supporting page", "shown")
def evidence_mrr(shown: Sequence[Shown], supporting: Sequence[Support]) -> float | None:
    """1 / place of the first shown text on a supporting page (the place from 1), 0.0 if none is.

    None for a question without such pages, and where the application does not say what it used.
    """
    if not supporting or _names_no_text_or_page(shown):
        return None
    indices = _index_of_first_piece_on_each(shown, supporting)
    if not indices:
        return 0.0
    return 1 / (1 + min(indices))


@scorer("evidence_pages", "share of supporting pages that a shown text is on", "shown")
def evidence_pages(shown: Sequence[Shown], supporting: Sequence[Support]) -> float | None:
    """The share of the supporting pages that a shown text is on: recall by page.

    None for a question without such pages, and where the application does not say what it used.
    """
    if not supporting or _names_no_text_or_page(shown):
        return None
    n_pages_shown = len(_index_of_first_piece_on_each(shown, supporting))
    return n_pages_shown / len(supporting)


@scorer(
    "evidence_recall_sessions",
    "share of sessions with evidence of which a supporting passage was shown",
    "shown",
)
def evidence_recall_sessions(
    shown: Sequence[Shown], supporting: Sequence[Support], *, evidence_sessions: Sequence[int] = ()
) -> float | None:
    """The share of the sessions with evidence of which at least one supporting passage was shown.

    A passage counts as in `evidence_recall`.

    Args:
        shown: What the reader saw.
        supporting: The passages that support the answer.
        evidence_sessions: The number of the session of each of `supporting`.

    Returns:
        The share; None where there are no sessions, or not one for each supporting passage, or the
        application does not say which texts it used.
    """
    each_passage_has_a_session = len(evidence_sessions) == len(supporting)
    if not supporting or not each_passage_has_a_session or _has_unknown_texts(shown):
        return None
    hits = supporting_hits(shown_spans(shown), supporting)
    hit_sessions = {number for number, hit in zip(evidence_sessions, hits, strict=True) if hit}
    return len(hit_sessions) / len(set(evidence_sessions))
