"""LongRefiner's rivals (LongRefiner, table 2): a document cut into segments, the best of which are
read up to a budget.

SentenceSegments   six sentences a segment, as for the retrieval rows (docs/methods/longrefiner.md#longrefiner-rivals)
JinaSegments       paragraphs, lines and sentences packed up to 500 tokens
MetaChunking       cuts where a model finds the next sentence surprising again (arXiv 2410.12788)

They differ in where a document is cut, and in nothing else.

Jina's segmenter is a web service whose rules are not published (docs/methods/longrefiner.md#jina).
In its place a text is cut at blank lines first, then at line breaks, then where sentences end, then
where tokens do; neighbours that fit are packed together:

    packed_segments("A. B.\\n\\nC.", 4, model)  ──►  "A. B." | "C."

Meta-Chunking by perplexity (docs/methods/longrefiner.md#meta-chunking):

    PPL_i = mean negative log-probability of the tokens of sentence i behind all sentences before it
    a segment ends behind sentence i where PPL_i is a local minimum: below PPL_{i-1}, not above
    PPL_{i+1}, and the fall to it or the rise behind it is the threshold at least (where PPL_i =
    PPL_{i+1}, it is the fall that counts)

    long text:  | context ............ | window of whole sentences, scored |     context and window: `max_tokens`

The first sentence of a text counts without its first token, which nothing comes before. Unlike in
the released code a rule finds the sentences, a long one loses no text, and what a window is read
behind is fed anew.
"""

import abc
import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import ClassVar

from harness.method import Index, Indexes, MethodConfig, Needs, Tools, Traits
from harness.method.settings import index_setting, setting
from harness.models import MeteredModel
from harness.types import Answer, Document, Question, Shown, Step
from methods import reading
from methods.chunks import Span, trimmed
from methods.packing import Packing, packed_chunks, sentence_chunks, sentences
from methods.passage_scores import ROLES, Scoring, distinct_documents, score_passages
from methods.retrieval import best_first

CONTEXT = (
    24_576  # tokens that a sentence is scored behind, its window included, as in the released code
)
SLACK = 8  # tokens that a part of a text may have more when it is encoded on its own


def segment_ends(ppl: Sequence[float], threshold: float) -> list[int]:
    """The numbers of the sentences that end a segment: local minima of `ppl` [sentences] (nats)
    past the threshold."""
    minima = []
    for i in range(1, len(ppl) - 1):
        fall, rise = ppl[i - 1] - ppl[i], ppl[i + 1] - ppl[i]
        strict = fall > 0 and rise > 0 and (fall >= threshold or rise >= threshold)
        if strict or (rise == 0 and fall > 0 and fall >= threshold):
            minima.append(i)
    return minima


def perplexities(
    text: str, spans: Sequence[Span], model: MeteredModel, max_tokens: int, window: int
) -> list[float]:
    """PPL of each sentence of text[a:b], in nats.

    The text is scored in windows of whole sentences, `window` tokens each (half of `max_tokens`
    where that is fewer and the text has several), behind the tokens before it that make it
    `max_tokens` together. A sentence longer than a window is scored by its beginning.
    """
    if not spans:
        return []
    starts = [start for start, _ in model.offsets(text)]

    def token(character: int) -> int:
        return bisect_left(starts, character)

    size = min(window, max_tokens)
    if len(spans) > 1 and token(spans[-1][1]) - token(spans[0][0]) > size:
        size = max(1, min(window, max_tokens // 2))
    values: list[float] = []
    at = 0
    while at < len(spans):
        begin = (
            spans[at - 1][1] if at else spans[0][0]
        )  # the white space before a sentence is scored with it
        end = at + 1
        while end < len(spans) and token(spans[end][1]) - token(begin) <= size:
            end += 1
        first = max(0, token(begin) - max(0, max_tokens - size - SLACK)) if at else token(begin)
        before = text[starts[first] : begin] if first < token(begin) else ""
        values += _perplexities_in_window(
            before,
            text[begin : spans[end - 1][1]],
            [a - begin for a, _ in spans[at:end]],
            size,
            model,
        )
        at = end
    return values


def _perplexities_in_window(
    before: str, inside: str, firsts: list[int], size: int, model: MeteredModel
) -> list[float]:
    """PPL of the sentences of `inside`, which begin at characters `firsts`, behind `before`; size:
    tokens at most."""
    offsets = model.offsets(inside)
    if len(offsets) > size + (SLACK if len(firsts) > 1 else 0):
        inside = inside[: offsets[size - 1][1]]
        offsets = model.offsets(inside)
    with model.session() as s:
        s.begin_text()
        s.user(before)
        scores = s.score(inside)
    sums, counts = [0.0] * len(firsts), [0] * len(firsts)
    for (_, stop), score in list(zip(offsets, scores, strict=True))[0 if before else 1 :]:
        # A token may begin with the space before a sentence: its last character says where it
        # belongs.
        owner = max(0, bisect_right(firsts, max(stop - 1, 0)) - 1)
        sums[owner] -= score
        counts[owner] += 1
    return [total / count if count else 0.0 for total, count in zip(sums, counts, strict=True)]


def perplexity_segments(
    text: str, threshold: float, max_tokens: int, model: MeteredModel, window: int
) -> list[Span]:
    """The segments of `text`; one of more than `max_tokens` is cut at the ends of sentences.

    window: tokens that are scored together at most (fewer where the model's window is shorter);
    they are read behind as many as make it CONTEXT, or the model's window.
    """
    spans = sentences(text)
    if not spans:
        return []
    room = max(1, min(CONTEXT, model.window - model.turn_tokens() - SLACK))
    ends = [
        *segment_ends(perplexities(text, spans, model, room, window), threshold),
        len(spans) - 1,
    ]
    pieces: list[Span] = []
    first = 0
    for last in ends:
        a, b = spans[first][0], spans[last][1]
        first = last + 1
        if model.count(text[a:b]) <= max_tokens:
            pieces.append((a, b))
        else:
            pieces += [(a + c, a + d) for c, d in packed_chunks(text[a:b], max_tokens, model)]
    return pieces


_ENDS = (re.compile(r"\n[^\S\n]*\n\s*"), re.compile(r"\n\s*"))


def packed_segments(text: str, size: int, model: MeteredModel) -> list[Span]:
    """Spans of `size` tokens of `model` at most, in order, that cover every word; [] for a text
    without any.

    Tokens are those of the whole text: a span encoded on its own may have one or two more.
    """
    starts = [start for start, _ in model.offsets(text)]
    spans = (trimmed(text, a, b) for a, b in _Cutting(text, starts, size).pack(0, len(text)))
    return [(a, b) for a, b in spans if a < b]


class _Cutting(Packing):
    """Cut at blank lines, then at line breaks, then at the ends of sentences, then where tokens
    begin."""

    lowest = len(_ENDS) + 1

    def stops(self, start: int, end: int, rank: int) -> list[int]:
        """As `Packing.stops`; ranks: blank lines, line breaks, ends of sentences, tokens."""
        if rank < len(_ENDS):
            # White space goes with what follows, as it does in the tokens.
            stops = [match.start() for match in _ENDS[rank].finditer(self.text, start, end)]
        elif rank == len(_ENDS):
            stops = [start + b for _, b in sentences(self.text[start:end])]
        else:
            first = self._token_at(start)
            stops = self.starts[first + self.size : bisect_left(self.starts, end) : self.size]
        return [at for at in dict.fromkeys(stops) if start < at < end]

    def count(self, start: int, end: int) -> int:
        """Tokens that text[start:end] touches; white space before a word may belong to the token of
        one before it."""
        return bisect_left(self.starts, end) - self._token_at(start)

    def _token_at(self, start: int) -> int:
        """The token that the character at `start` belongs to."""
        return max(0, bisect_right(self.starts, start) - 1)


class SegmentConfig(MethodConfig):
    """Segments of documents, and how many are shown."""

    segment_tokens: int = index_setting(500, gt=0, help="Most tokens of a segment.")
    scoring: Scoring = setting("reranker", help="What ranks segments, as LongRefiner's.")
    budget: int = setting(2048, gt=0, help="Tokens shown, titles and separators included.")
    titles: bool = setting(
        True, help="Show a document's title above each of its segments (LongRefiner A.2)."
    )


class _Segmented(reading.ReadingMethod):
    """Documents cut apart; the segments that fit the question best are read, best first."""

    Config = SegmentConfig
    scope = "document"
    traits = Traits(one_document=False)
    index_roles: ClassVar[tuple[str, ...]] = ("reader",)

    def __init__(self, config: MethodConfig) -> None:
        super().__init__(config)
        self.encoders = ROLES[self.config.scoring]  # type: ignore[misc]  # what ranks is a parameter

    @abc.abstractmethod
    def cut(self, text: str, model: MeteredModel) -> list[Span]:
        """The segments of a document as spans of characters; `model` is that of the first of
        `index_roles`."""

    def index(self, document: Document, tools: Tools) -> Index:
        """The index: the segments as spans of characters."""
        model = tools.model(self.index_roles[0])
        return {
            "segments": tools.keep(
                "segments", lambda: [list(span) for span in self.cut(document.text, model)]
            )
        }

    def answer(
        self, question: Question, documents: Sequence[Document], indexes: Indexes, tools: Tools
    ) -> Answer:
        """Rank, show the best until one does not fit, answer; where none fits, answer without a
        text."""
        config: SegmentConfig = self.config
        places = [
            (documents[i], (a, b))
            for i in distinct_documents(documents)
            for a, b in indexes[i]["segments"]
        ]
        with tools.phase("search"):
            scores = score_passages(
                config.scoring, question.text, [d.text[a:b] for d, (a, b) in places], tools
            )
        model = tools.model()
        request = reading.Reading(tools.task, config=config)
        limit = min(config.budget, reading.room_for_text(question, tools, model, request))
        used, separator = 0, model.count(reading.SEPARATOR)
        texts: list[str] = []
        steps: list[Step] = []
        reason = "exhausted"
        for i in best_first(scores):
            document, (a, b) = places[i]
            text, title = document.text[a:b], document.title.strip()
            if config.titles and title and not text.startswith(title):
                text = f"{title}\n{text}"
            tokens = model.count(text)
            used += tokens + (separator if texts else 0)
            if used > limit:
                reason = "budget" if limit == config.budget else "window"
                break
            texts.append(text)
            shown, score = Shown("span", document.id, a, b), {"score": float(scores[i])}
            steps.append(
                Step(
                    "select", i, scores=score, tokens=tokens, flops=tools.meter.flops(), shown=shown
                )
            )
        if not texts:
            reason = f"{reason}: not even one segment fits" if places else "no text"
        reply = reading.ask(question, texts, tools, model, request)
        return Answer(reply, tuple(s.shown for s in steps if s.shown), reason, tuple(steps))


class SentenceSegments(_Segmented):
    """So many whole sentences a segment; one over `segment_tokens` is cut and counts as several."""

    class Config(SegmentConfig):
        """Settings of this method."""

        sentences: int = index_setting(6, gt=0, help="Sentences of a segment.")

    summary = "segments of six sentences, the best up to a budget"
    traits = Traits(one_document=False, one_request=True, draws=False)
    index_version = "2"

    def cut(self, text: str, model: MeteredModel) -> list[Span]:
        """Cut by rule, without a model's scores."""
        return sentence_chunks(text, self.config.sentences, self.config.segment_tokens, model)


class JinaSegments(_Segmented):
    """Paragraphs, lines and sentences packed up to `segment_tokens` tokens."""

    summary = "segments by a rule in place of Jina's web service, the best up to a budget"
    traits = Traits(one_document=False, one_request=True, draws=False)
    index_version = "3"

    def cut(self, text: str, model: MeteredModel) -> list[Span]:
        """Cut by rule, without a model's scores."""
        return packed_segments(text, self.config.segment_tokens, model)


class MetaChunking(_Segmented):
    """Segments end where the perplexity of sentences has a minimum."""

    class Config(SegmentConfig):
        """Settings of this method."""

        segment_tokens: int = index_setting(
            2000,
            gt=0,
            help=(
                "Most tokens of a segment: not the paper's, so that a text without a minimum "
                "can be shown at all."
            ),
        )
        threshold: float = index_setting(
            0.5, ge=0, help="Depth of a minimum of perplexity that ends a segment, in nats."
        )
        window_tokens: int = index_setting(
            8192, gt=0, help="Most tokens scored together, after the text before them."
        )

    summary = "segments that end at minima of perplexity (Meta-Chunking), the best up to a budget"
    traits = Traits(one_document=False, draws=False)
    needs: ClassVar[Needs] = {"reader": frozenset(), "builder": frozenset({"score"})}
    index_roles = ("builder",)
    index_version = "3"

    def cut(self, text: str, model: MeteredModel) -> list[Span]:
        """Cut at minima of the builder's perplexity."""
        config = self.config
        return perplexity_segments(
            text, config.threshold, config.segment_tokens, model, config.window_tokens
        )
