"""What LLMLingua keeps before it looks at tokens: contexts, then sentences of them.

contexts    ranked, up to a budget, their order, the keep ratio of each (docs/methods/compression.md#lingua-contexts)
            LongLLMLingua by the surprise of the question behind the context, low is good; LLMLingua
            by the surprise of the context itself, high is good
sentences   those of highest priority, up to a budget (docs/methods/compression.md#lingua-sentences)

Sentences are those of methods.chunks (released: nltk's). White space behind a sentence goes with
it.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from harness.errors import QuestionError
from harness.method import Tools
from harness.models import MeteredModel
from harness.prompts import Prompt
from harness.types import Document
from methods.bm25 import bm25
from methods.chunks import Span, fixed_chunks
from methods.compression.config import LinguaConfig
from methods.compression.surprise import SLACK, open_context, surprise, units_of
from methods.packing import packed_chunks, sentences
from methods.retrieval import best_first


def choose_sentences(
    text: str,
    contexts: list[Span],
    question: str,
    target: float,
    config: LinguaConfig,
    tools: Tools,
) -> list[list[Span]]:
    """For each context, spans of text that are kept; the sentence that passes the budget is still
    in it.

    question: what ranks sentences; target: tokens to keep, of which the budget is a multiple.
    """
    groups = []
    for start, end in contexts:  # each sentence up to the beginning of the next
        starts = [start, *(start + a for a, _ in sentences(text[start:end])[1:]), end]
        groups.append([(a, b) for a, b in pairwise(starts) if a < b])
    spans = [span for group in groups for span in group]
    model = tools.model("compressor")
    priority = priorities([text[a:b] for a, b in spans], question, config, tools)
    first = _kept_first(groups, priority, config)
    order = sorted(range(len(spans)), key=lambda i: (i not in first, -priority[i]))
    left = (100.0 if target < 0 else target) * config.token_budget_ratio
    kept: set[int] = set()
    for i in order:
        left -= model.count(text[slice(*spans[i])])
        kept.add(i)
        if left < 0:
            break
    numbers = iter(range(len(spans)))
    return [[span for span in group if next(numbers) in kept] for group in groups]


def _kept_first(groups: list[list[Span]], priority: np.ndarray, config: LinguaConfig) -> set[int]:
    """Sentences that come before all others: at both ends, and the best of each context."""
    total = len(priority)
    numbers = set(range(min(config.keep_first_sentence, total)))
    numbers |= set(range(max(total - config.keep_last_sentence, 0), total))
    at = 0
    for group in groups:
        inside = sorted(range(at, at + len(group)), key=lambda i: -priority[i])
        numbers |= set(inside[: config.keep_sentence_number])
        at += len(group)
    return numbers


# LongLLMLingua's x^restrict (arXiv 2310.06839, section 4.1): it ties the question to the documents.
RESTRICTIVE = Prompt(
    "restrictive sentence",
    " We can get the answer to this question in the given documents.",
    first=False,
)


def line_spans(text: str) -> list[Span]:
    """The spans of the lines that are not blank, without the white space around them."""
    spans: list[Span] = []
    at = 0
    for line in text.splitlines(keepends=True):
        if inside := line.strip():
            start = at + line.index(inside)
            spans.append((start, start + len(inside)))
        at += len(line)
    return spans


def titled_lines(document: Document) -> list[Span]:
    """Every line of a document; a title that is a line of its own goes with the line behind it.

    FlashRAG writes "Doc 1(Title: title) first line" and cuts at line breaks
    (docs/methods/compression.md#compression-contexts).
    """
    titles = {passage.start: passage.title.strip() for passage in document.passages}
    spans: list[Span] = []
    headed = False
    for start, end in line_spans(document.text):
        if headed:
            spans[-1] = (spans[-1][0], end)
        else:
            spans.append((start, end))
        headed = not headed and document.text[start:end].strip('"') == titles.get(start)
    return spans


def context_spans(
    document: Document, question: str, config: LinguaConfig, model: MeteredModel
) -> list[Span]:
    """The contexts that are ranked, as spans of the document; question: leaves less of the window
    to a line."""
    text, max_tokens = document.text, config.chunk_tokens
    if config.contexts in ("tokens", "packed"):
        return (fixed_chunks if config.contexts == "tokens" else packed_chunks)(
            text, max_tokens, model
        )
    if config.contexts == "lines":
        whole = line_spans(text)
    else:
        whole = titled_lines(document)
        request = model.turn_tokens() + model.count(question + RESTRICTIVE.of(config).text)
        max_tokens = max(model.window - request - SLACK, 1)
    return [
        (start + a, start + b)
        for start, end in whole
        for a, b in fixed_chunks(text[start:end], max_tokens, model)
    ]


@dataclass(frozen=True)
class Chosen:
    """A chosen context: its number in the text, its score, and the offset added to its keep
    ratio."""

    number: int
    score: float
    offset: float


def perplexities(texts: list[str], question: str, condition: str, tools: Tools) -> np.ndarray:
    """Mean surprise [texts] of a text ("none"; "before": behind the question), or of the question
    after it: "after"."""
    model = tools.model("compressor")

    def mean_surprise(text: str) -> float:
        """Nats a token. Raises QuestionError where text and question exceed the window."""
        before, scored = {
            "none": ("", text),
            "before": (question, text),
            "after": (text, question),
        }[condition]
        units = units_of(scored, model)
        need = model.turn_tokens() + model.count(before) + sum(units.sizes)
        if need > model.window:
            raise QuestionError(
                f"a context with the question takes {need} tokens, more than the window of "
                f"{model.window} of the "
                f"compressor '{model.name}'; lower method.chunk_tokens or raise model.window"
            )
        with open_context(model) as s:
            s.feed(before)
            costs = surprise(s, model, units)
        weights = np.where(np.isnan(costs), 0, np.array(units.sizes))
        return float(np.nansum(costs * weights) / weights.sum()) if weights.any() else 0.0

    return np.array(tools.map(mean_surprise, texts))


def priorities(texts: list[str], question: str, config: LinguaConfig, tools: Tools) -> np.ndarray:
    """Priorities [texts], higher is better. `question` has the restrictive sentence behind it."""
    if config.rank_method == "bm25":
        return bm25(question, texts)
    condition = config.condition
    values = perplexities(texts, question, condition, tools)
    return values if condition == "none" else -values


def choose_contexts(
    sizes: list[int], priority: np.ndarray, target: float, config: LinguaConfig
) -> list[Chosen]:
    """The contexts that the budget lets through, in the order they are shown.

    sizes: tokens of each context; priority: [contexts], higher first; the one that passes the
    budget is still in it.
    """
    unknown = [i for i in config.force_context_ids if not 0 <= i < len(sizes)]
    if unknown:
        raise QuestionError(
            f"method.force_context_ids has {unknown[0]}, but the text has {len(sizes)} contexts"
        )
    left = config.budget(target)
    used = list(dict.fromkeys(config.force_context_ids))
    for count, i in enumerate(best_first(priority)):
        left -= sizes[i]
        if i not in used:
            used.append(i)
        if left < 0 or (
            config.force_context_number is not None and count >= config.force_context_number
        ):
            break
    last = max(len(used) - 1, 1)
    offset = config.dynamic_context_compression_ratio if len(used) > 1 else 0.0
    chosen = [
        Chosen(i, float(priority[i]), offset * (1 - 2 * rank / last)) for rank, i in enumerate(used)
    ]
    if config.reorder_context == "original":
        return sorted(chosen, key=lambda c: c.number)
    return chosen[::2] + chosen[1::2][::-1] if config.reorder_context == "two_stage" else chosen
