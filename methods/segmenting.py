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

    PPL_i = mean negative log-probability of the tokens of sentence i after all sentences before it
    a segment ends after sentence i where PPL_i is a local minimum: below PPL_{i-1}, not above
    PPL_{i+1}, and the fall to it or the rise after it is the threshold at least (where PPL_i =
    PPL_{i+1}, it is the fall that counts)

    long text:  | context ............ | window of whole sentences, scored |     context and window: `max_tokens`

The first sentence of a text counts without its first token, which nothing comes before. Unlike in
the released code a rule finds the sentences, a long one loses no text, and what a window is read
after is fed anew.
"""

import abc
import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from harness.method import Index, Indexes, MethodConfig, Needs, Tools, Traits
from harness.method.settings import index_setting, setting
from harness.models import MeteredModel
from harness.types import Answer, Document, Question, Shown, Step
from methods import reading
from methods.chunks import Span, trimmed
from methods.packing import Packing, packed_chunks, sentence_chunks, sentences
from methods.passage_scores import ENCODERS_OF_SCORING, Scoring, distinct_documents, score_passages
from methods.retrieval import best_first

# Tokens that a sentence is scored after, its window included, as in the released code.
CONTEXT_TOKENS = 24_576
# Tokens that a part of a text may have more when it is encoded on its own.
SLACK_TOKENS = 8


def segment_ends(perplexity_of_sentences: Sequence[float], min_depth: float) -> list[int]:
    """The numbers of the sentences that end a segment: those at a local minimum of perplexity.

        [3.0, 1.0, 2.0], 0.5 -> [1]

    Args:
        perplexity_of_sentences: The perplexity of each sentence, in nats [sentences].
        min_depth: The least fall to a minimum, or rise after it, in nats.
    """
    minima: list[int] = []
    for i in range(1, len(perplexity_of_sentences) - 1):
        fall = perplexity_of_sentences[i - 1] - perplexity_of_sentences[i]
        rise = perplexity_of_sentences[i + 1] - perplexity_of_sentences[i]
        is_minimum = fall > 0 and rise >= 0
        if is_minimum and max(fall, rise) >= min_depth:
            minima.append(i)
    return minima


def perplexities(
    text: str,
    sentence_spans: Sequence[Span],
    model: MeteredModel,
    max_tokens: int,
    window_tokens: int,
) -> list[float]:
    """PPL of each sentence of a text, in nats.

    They are scored in windows of whole sentences, each after as much of the text before it as fits;
    a sentence that is longer than a window is scored by its beginning.

    Args:
        text: The text.
        sentence_spans: (start, end) of its sentences.
        model: The model that scores.
        max_tokens: Most tokens of a window and the text before it together.
        window_tokens: Tokens of a window; half of `max_tokens` where that is fewer and the text has
            several.
    """
    if not sentence_spans:
        return []
    token_starts = [start for start, _ in model.offsets(text)]
    window_start = sentence_spans[0][0]
    text_end = sentence_spans[-1][1]
    tokens_of_sentences = _tokens_between(token_starts, window_start, text_end)
    max_window_tokens = min(window_tokens, max_tokens)
    if len(sentence_spans) > 1 and tokens_of_sentences > max_window_tokens:
        max_window_tokens = max(1, min(window_tokens, max_tokens // 2))
    context_tokens = max(0, max_tokens - max_window_tokens - SLACK_TOKENS)
    perplexity_of_sentences: list[float] = []
    for spans_of_window in _group_sentences(sentence_spans, token_starts, max_window_tokens):
        is_first_window = not perplexity_of_sentences
        text_before = ""
        if not is_first_window and context_tokens > 0:
            first_token = bisect_left(token_starts, window_start)
            context_start = token_starts[max(0, first_token - context_tokens)]
            text_before = text[context_start:window_start]
        window_end = spans_of_window[-1][1]
        window_text = text[window_start:window_end]
        starts_in_window = [start - window_start for start, _ in spans_of_window]
        perplexity_of_sentences += _perplexities_in_window(
            text_before, window_text, starts_in_window, max_window_tokens, model
        )
        # The white space before a sentence is scored with it.
        window_start = window_end
    return perplexity_of_sentences


def _group_sentences(
    sentence_spans: Sequence[Span], token_starts: Sequence[int], max_tokens: int
) -> list[list[Span]]:
    """The spans of sentences in groups of neighbours, as many in each as have at most `max_tokens`
    tokens; a longer sentence is a group alone.

    Args:
        sentence_spans: (start, end) of the sentences of a text, at least one.
        token_starts: The first character of each token of the text.
        max_tokens: Most tokens of a group, with the white space before it.
    """
    group_start = sentence_spans[0][0]
    groups = [[sentence_spans[0]]]
    for start, end in sentence_spans[1:]:
        if _tokens_between(token_starts, group_start, end) > max_tokens:
            group_start = groups[-1][-1][1]  # the end of the group before
            groups.append([(start, end)])
        else:
            groups[-1].append((start, end))
    return groups


def _tokens_between(token_starts: Sequence[int], start: int, end: int) -> int:
    """How many tokens begin in text[start:end], given the first character of each token."""
    return bisect_left(token_starts, end) - bisect_left(token_starts, start)


def _perplexities_in_window(
    text_before: str,
    window_text: str,
    sentence_starts: list[int],
    max_tokens: int,
    model: MeteredModel,
) -> list[float]:
    """PPL of each sentence of one window, in nats.

    Without a text before it, the first token of the window does not count.

    Args:
        text_before: The text before the window, which is read but not scored.
        window_text: The text of the window.
        sentence_starts: The characters of `window_text` at which its sentences begin.
        max_tokens: Most tokens of the window; what is longer is cut off.
        model: The model that scores.
    """
    offsets = model.offsets(window_text)
    slack_tokens = 0
    if len(sentence_starts) > 1:  # it fits as a part of the whole text, but may be longer alone
        slack_tokens = SLACK_TOKENS
    if len(offsets) > max_tokens + slack_tokens:
        window_text = window_text[: offsets[max_tokens - 1][1]]
        offsets = model.offsets(window_text)
    with model.session() as session:
        session.begin_text()
        session.user(text_before)
        scores = session.score(window_text)
    tokens = list(zip(offsets, scores, strict=True))
    if not text_before:
        tokens = tokens[1:]
    scores_of_sentences: list[list[float]] = [[] for _ in sentence_starts]
    for (_, token_end), score in tokens:
        # A token may begin with the space before a sentence: its last character says where it
        # belongs.
        last_character = max(token_end - 1, 0)
        sentence = max(0, bisect_right(sentence_starts, last_character) - 1)
        scores_of_sentences[sentence].append(score)
    return [_perplexity(scores_of_sentence) for scores_of_sentence in scores_of_sentences]


def _perplexity(scores: Sequence[float]) -> float:
    """The mean negative log-probability of tokens: [-1.0, -3.0] -> 2.0; 0 without a token."""
    if not scores:
        return 0.0
    total = 0.0
    for score in scores:
        total -= score
    return total / len(scores)


def perplexity_segments(
    text: str, min_depth: float, max_segment_tokens: int, model: MeteredModel, window_tokens: int
) -> list[Span]:
    """The spans of a text that is cut after the sentences at minima of perplexity; [] without a
    sentence.

    Args:
        text: The text.
        min_depth: The depth of a minimum that ends a segment, in nats.
        max_segment_tokens: A segment of more is cut at the ends of sentences.
        model: The model that scores.
        window_tokens: Most tokens that are scored together (fewer where the model's window is
            shorter); they are read after as many as make it CONTEXT_TOKENS, or the model's window.
    """
    sentence_spans = sentences(text)
    if not sentence_spans:
        return []
    context_tokens = max(1, min(CONTEXT_TOKENS, model.window - model.turn_tokens() - SLACK_TOKENS))
    perplexity_of_sentences = perplexities(
        text, sentence_spans, model, context_tokens, window_tokens
    )
    last_sentences = segment_ends(perplexity_of_sentences, min_depth)
    segments: list[Span] = []
    first_sentence = 0
    for last_sentence in [*last_sentences, len(sentence_spans) - 1]:
        start = sentence_spans[first_sentence][0]
        end = sentence_spans[last_sentence][1]
        first_sentence = last_sentence + 1
        if model.count(text[start:end]) <= max_segment_tokens:
            segments.append((start, end))
        else:
            part_spans = packed_chunks(text[start:end], max_segment_tokens, model)
            segments += [
                (start + part_start, start + part_end) for part_start, part_end in part_spans
            ]
    return segments


_PARAGRAPH_AND_LINE_ENDS = (re.compile(r"\n[^\S\n]*\n\s*"), re.compile(r"\n\s*"))


def packed_segments(text: str, max_tokens: int, model: MeteredModel) -> list[Span]:
    """Cut a text into spans, in order, that cover every word: of whole paragraphs, else lines,
    sentences or tokens.

    Tokens are those of the whole text: a span encoded on its own may have one or two more.

    Args:
        text: The text.
        max_tokens: Tokens of a span at most.
        model: The model whose tokens are counted.

    Returns:
        (start, end) of each span, without the white space around it; [] for a text without a word.
    """
    token_starts = [start for start, _ in model.offsets(text)]
    packed = _ParagraphPacking(text, token_starts, max_tokens).pack(0, len(text))
    spans = [trimmed(text, start, end) for start, end in packed]
    return [(start, end) for start, end in spans if start < end]


class _ParagraphPacking(Packing):
    """Cut at blank lines, then at line breaks, then at the ends of sentences, then where tokens
    begin."""

    last_rank = len(_PARAGRAPH_AND_LINE_ENDS) + 1

    def places_to_cut(self, start: int, end: int, rank: int) -> list[int]:
        """The places inside text[start:end] at which it may be cut, in order.

        Args:
            start: The first character of the part.
            end: The character after its last one.
            rank: Which places: 0 for blank lines, then line breaks, ends of sentences, and last
                tokens.
        """
        if rank < len(_PARAGRAPH_AND_LINE_ENDS):
            # White space goes with what follows, as it does in the tokens.
            matches = _PARAGRAPH_AND_LINE_ENDS[rank].finditer(self.text, start, end)
            places = [match.start() for match in matches]
        elif rank == len(_PARAGRAPH_AND_LINE_ENDS):
            places = [start + sentence_end for _, sentence_end in sentences(self.text[start:end])]
        else:
            first_token = self._token_with(start)
            end_token = bisect_left(self.token_starts, end)
            # Before every `max_tokens`-th token.
            places = self.token_starts[first_token + self.max_tokens : end_token : self.max_tokens]
        return [place for place in dict.fromkeys(places) if start < place < end]

    def token_count(self, start: int, end: int) -> int:
        """How many tokens text[start:end] touches, the first one included where only a part of it
        is inside."""
        return bisect_left(self.token_starts, end) - self._token_with(start)

    def _token_with(self, character: int) -> int:
        """The number of the token that the character at `character` belongs to."""
        return max(0, bisect_right(self.token_starts, character) - 1)


class SegmentConfig(MethodConfig):
    """Segments of documents, and how many are shown."""

    segment_tokens: int = index_setting(500, gt=0, help="Most tokens of a segment.")
    scoring: Scoring = setting("reranker", help="What ranks segments, as LongRefiner's.")
    budget: int = setting(2048, gt=0, help="Tokens shown, titles and separators included.")
    titles: bool = setting(
        True, help="Show a document's title above each of its segments (LongRefiner A.2)."
    )


@dataclass(frozen=True)
class _Segment:
    """document.text[start:end]."""

    document: Document
    start: int
    end: int

    @property
    def text(self) -> str:
        """The text of the segment."""
        return self.document.text[self.start : self.end]

    @property
    def titled_text(self) -> str:
        """The text below its document's title, which is not added where the text begins with it."""
        title = self.document.title.strip()
        if not title or self.text.startswith(title):
            return self.text
        return f"{title}\n{self.text}"

    @property
    def shown(self) -> Shown:
        """The segment in the form in which an Answer says what the reader saw."""
        return Shown("span", self.document.id, self.start, self.end)


def _distinct_segments(documents: Sequence[Document], indexes: Indexes) -> list[_Segment]:
    """The segments of all documents in order; of documents with the same text only the first
    counts."""
    segments: list[_Segment] = []
    for number in distinct_documents(documents):
        spans = indexes[number]["segments"]
        segments += [_Segment(documents[number], start, end) for start, end in spans]
    return segments


class _SegmentedReading(reading.ReadingMethod):
    """Documents cut apart; the segments that fit the question best are read, best first."""

    Config = SegmentConfig
    scope = "document"
    traits = Traits(one_document=False)
    index_roles: ClassVar[tuple[str, ...]] = ("reader",)

    def __init__(self, config: MethodConfig) -> None:
        """Keep the settings, and need the encoder or reranker that the setting `scoring` uses."""
        super().__init__(config)
        # What ranks is a parameter.
        self.encoders = ENCODERS_OF_SCORING[self.config.scoring]  # type: ignore[misc]

    @abc.abstractmethod
    def cut(self, text: str, model: MeteredModel) -> list[Span]:
        """The segments of a document as spans of characters.

        Args:
            text: The text of the document.
            model: The model whose tokens are counted, and that scores where a rule uses scores.
        """

    def index(self, document: Document, tools: Tools) -> Index:
        """The index of a document: {"segments": [[start, end], ...]} in characters."""
        model = tools.model(self.index_roles[0])

        def cut_as_json() -> list[list[int]]:
            """The segments as [start, end]."""
            return [list(span) for span in self.cut(document.text, model)]

        return {"segments": tools.keep("segments", cut_as_json)}

    def answer(
        self, question: Question, documents: Sequence[Document], indexes: Indexes, tools: Tools
    ) -> Answer:
        """Rank the segments of all documents, show the best until one does not fit, and answer.

        Where none fits, the answer is given without a text, and the stop reason says so.
        """
        config: SegmentConfig = self.config
        segments = _distinct_segments(documents, indexes)
        segment_texts = [segment.text for segment in segments]
        with tools.phase("search"):
            scores = score_passages(config.scoring, question.text, segment_texts, tools)
        model = tools.model()
        request = reading.Reading(tools.task, config=config)
        max_tokens = min(config.budget, reading.room_for_text(question, tools, model, request))
        shown_texts = [self._shown_text(segment) for segment in segments]
        numbers_best_first = best_first(scores)
        texts_best_first = [shown_texts[number] for number in numbers_best_first]
        shown_count = reading.how_many_fit(texts_best_first, max_tokens, model)
        shown_numbers = numbers_best_first[:shown_count]
        steps: list[Step] = []
        for number in shown_numbers:
            step = Step(
                "select",
                number,
                scores={"score": float(scores[number])},
                tokens=model.count(shown_texts[number]),
                flops=tools.meter.flops(),
                shown=segments[number].shown,
            )
            steps.append(step)
        reply = reading.ask(question, texts_best_first[:shown_count], tools, model, request)
        shown = tuple(segments[number].shown for number in shown_numbers)
        stop_reason = self._stop_reason(shown_count, len(segments), max_tokens)
        return Answer(reply, shown, stop_reason, tuple(steps))

    def _shown_text(self, segment: _Segment) -> str:
        """The text of a segment as the reader sees it, with its document's title where `titles` is
        set."""
        if self.config.titles:
            return segment.titled_text
        return segment.text

    def _stop_reason(self, shown_count: int, segment_count: int, max_tokens: int) -> str:
        """Why no more segments are shown: "exhausted" (all are), "no text" (there are none),
        "budget" or "window"; with ": not even one segment fits" where none is shown.

        Args:
            shown_count: How many segments are shown.
            segment_count: How many there are.
            max_tokens: Most tokens of all that are shown: the budget, or what the window leaves.
        """
        if segment_count == 0:
            return "no text"
        if shown_count == segment_count:
            return "exhausted"
        reason = "window"
        if max_tokens == self.config.budget:
            reason = "budget"
        if shown_count == 0:
            reason += ": not even one segment fits"
        return reason


class SentenceSegments(_SegmentedReading):
    """So many whole sentences a segment; one over `segment_tokens` is cut and counts as several."""

    class Config(SegmentConfig):
        """Settings of this method."""

        sentences: int = index_setting(6, gt=0, help="Sentences of a segment.")

    summary = "segments of six sentences, the best up to a budget"
    traits = Traits(one_document=False, one_request=True, draws=False)
    index_version = "2"

    def cut(self, text: str, model: MeteredModel) -> list[Span]:
        """Cut a text after every `sentences` sentences; the model only counts tokens."""
        return sentence_chunks(text, self.config.sentences, self.config.segment_tokens, model)


class JinaSegments(_SegmentedReading):
    """Paragraphs, lines and sentences packed up to `segment_tokens` tokens."""

    summary = "segments by a rule in place of Jina's web service, the best up to a budget"
    traits = Traits(one_document=False, one_request=True, draws=False)
    index_version = "3"

    def cut(self, text: str, model: MeteredModel) -> list[Span]:
        """Cut a text at blank lines, line breaks and ends of sentences; the model only counts
        tokens."""
        return packed_segments(text, self.config.segment_tokens, model)


class MetaChunking(_SegmentedReading):
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
        """Cut a text after the sentences whose perplexity by `model` is a minimum."""
        config = self.config
        return perplexity_segments(
            text, config.threshold, config.segment_tokens, model, config.window_tokens
        )
