"""LLMLingua (Jiang et al. 2023, arXiv 2310.05736) and LongLLMLingua (arXiv 2310.06839) as the engine sees them.

    document ──contexts──► ranked, within a budget ──sentences──► tokens ──► the shared reading prompt

LLMLingua does not read the question, so a document is compressed once, when it is indexed; LongLLMLingua compresses for
every question.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from harness.method import Index, Method, Skill, Tools
from harness.models import MeteredModel
from harness.prompts import Prompt
from harness.types import Answer, Document, Question, Shown, Step
from methods import reading
from methods.chunks import Span, fixed_chunks, packed_chunks
from methods.compression import library
from methods.compression.config import LinguaConfig, LLMLinguaConfig, LongLLMLinguaConfig
from methods.compression.ranking import RESTRICTIVE, Chosen, choose, choose_sentences, lines, priorities, titled_lines
from methods.compression.show import SEPARATOR, TEXT, Compressed, Piece, laid_out, placed, ranking, read
from methods.compression.surprise import SLACK
from methods.compression.tokens import Joined, compress, ratios, windows
from methods.compression.units import kept, units_of


@dataclass(frozen=True)
class PromptParts:
    """rank: the question as contexts are ranked by it; before: what the token level reads first, "" for nothing."""

    rank: str = ""
    before: str = ""


class LLMLingua(Method):
    """Drop the tokens that a small model predicts well; the question plays no part."""

    Config = LLMLinguaConfig
    summary = "tokens that a small model can guess are left out (LLMLingua)"
    needs: ClassVar[dict[str, frozenset[str]]] = {"reader": frozenset(), "compressor": frozenset({"score"})}
    scope = "document"
    index_roles = ("compressor",)

    def templates(self) -> Sequence[Prompt]:
        """The shared reading prompts."""
        return reading.PROMPTS

    def skills(self) -> list[Skill]:
        """Short answers and choices after a text, and texts with a high likelihood."""
        return [*reading.skills(self.config), TEXT]

    def index(self, document: Document, tools: Tools) -> Index:
        """The compressed document."""
        return squeeze(document, PromptParts(), self.config, tools).to_index()

    def answer(
        self, question: Question, documents: Sequence[Document], indexes: Sequence[Index], tools: Tools
    ) -> Answer:
        """Read the compressed document."""
        (document,), (index,) = documents, indexes
        return read(question, document, Compressed.from_index(index), tools, self.config)


class LongLLMLingua(Method):
    """Contexts by how well the question follows them, tokens by what the question changes about their surprise."""

    Config = LongLLMLinguaConfig
    summary = "contexts and tokens that matter to the question are kept (LongLLMLingua)"
    needs: ClassVar[dict[str, frozenset[str]]] = {"reader": frozenset(), "compressor": frozenset({"score"})}

    def templates(self) -> Sequence[Prompt]:
        """The sentence behind the question while contexts are ranked, and the shared reading prompts."""
        return (RESTRICTIVE, *reading.PROMPTS)

    def problems(self) -> list[str]:
        """The package llmlingua has the restrictive sentence in its code."""
        if self.config.engine == "library" and RESTRICTIVE.name in self.config.prompts:
            return [f"method.engine=library has its own '{RESTRICTIVE.name}'; leave out the replacement of that prompt"]
        return []

    def skills(self) -> list[Skill]:
        """Short answers and choices after a text; likely questions after texts, and likely texts after questions."""
        return [*reading.skills(self.config), ranking(RESTRICTIVE.of(self.config)), TEXT]

    def answer(
        self, question: Question, documents: Sequence[Document], indexes: Sequence[Index], tools: Tools
    ) -> Answer:
        """Compress for the question, then read."""
        (document,), config = documents, self.config
        before = question.text if config.prefixed else ""
        if config.add_instruction:
            before += SEPARATOR + tools.task.instruction
        request = reading.Reading(tools.task, config.window, config)
        # Cutting off what does not fit loses its end; a lower target loses what matters least.
        most = max(reading.room_for_text(question, tools, tools.model(), request), 1)
        with tools.phase("search"):
            compressed = squeeze(document, PromptParts(question.text, before), config, tools, most)
        return read(question, document, compressed, tools, self.config)


def squeeze(
    document: Document, prompt: PromptParts, config: LinguaConfig, tools: Tools, most: int | None = None
) -> Compressed:
    """Compress `document` to config.target_tokens, or config.rate of its tokens, and to `most` tokens."""
    model, text = tools.model("compressor"), document.text
    spans = [span for span in _contexts(document, prompt, config, model) if text[slice(*span)].strip()]
    sizes = [model.count(text[a:b]) for a, b in spans]
    before = sum(sizes)
    target = float(before * config.rate if config.target_tokens is None else config.target_tokens)
    target = target if most is None else min(target, most)
    if not spans:
        return Compressed([], 0, 0)
    if config.engine == "library":
        return library.squeeze(text, spans, target, prompt.rank, config, tools)
    if config.use_context_level_filter and len(spans) > 1:
        priority = priorities([text[a:b] for a, b in spans], prompt.rank + RESTRICTIVE.of(config).text, config, tools)
        chosen = choose(sizes, priority, target, config)
    else:
        chosen = [Chosen(i, 0.0, 0.0) for i in range(len(spans))]
    groups = [[spans[c.number]] for c in chosen]
    if config.use_sentence_level_filter:
        groups = choose_sentences(text, [spans[c.number] for c in chosen], prompt.rank, target, config, tools)
    pieces, after = _tokens(text, groups, [c.offset for c in chosen], prompt, target, config, tools)
    steps = [_step(c, spans[c.number], sizes[c.number], document) for c in chosen]
    return Compressed(pieces, before, after, steps)


def _contexts(document: Document, prompt: PromptParts, config: LinguaConfig, model: MeteredModel) -> list[Span]:
    """The contexts that are ranked, as spans of the document."""
    text, most = document.text, config.chunk_tokens
    if config.contexts in ("tokens", "packed"):
        return (fixed_chunks if config.contexts == "tokens" else packed_chunks)(text, most, model)
    if config.contexts == "lines":
        whole = lines(text)
    else:
        whole = titled_lines(document)
        most = max(
            model.window - model.turn_tokens() - model.count(prompt.rank + RESTRICTIVE.of(config).text) - SLACK, 1
        )
    return [(start + a, start + b) for start, end in whole for a, b in fixed_chunks(text[start:end], most, model)]


def _tokens(
    text: str,
    groups: list[list[Span]],
    offsets: list[float],
    prompt: PromptParts,
    target: float,
    config: LinguaConfig,
    tools: Tools,
) -> tuple[list[Piece], int]:
    """Apply the token level to contexts, spans of `text`; returns the kept pieces and their tokens."""
    model = tools.model("compressor")
    layout = laid_out(groups)
    shown = ["".join(text[a:b] for a, b in group) for group in groups]
    if not config.use_token_level_filter:
        return layout, sum(map(model.count, shown)) + model.count(SEPARATOR) * max(len(shown) - 1, 0)
    parts = [units_of(context, model) for context in shown if context]
    offsets = [offset for offset, context in zip(offsets, shown, strict=True) if context]
    keep = ratios([sum(units.sizes) for units in parts], target, offsets)
    head = prompt.before + SEPARATOR if prompt.before else ""
    units = units_of(head + SEPARATOR.join(c for c in shown if c), model)
    # A token may hold the end of the head and the beginning of the text; it is then the text's.
    start = next((i for i in range(len(units)) if units.cuts[i + 1] > len(head)), len(units))
    joined = Joined(units, start, windows([len(p) for p in parts], keep, config.iterative_size))
    alive = compress(joined, config, model, tools.progress)
    alive[:start] = False
    after = sum(size for size, stays in zip(units.sizes, alive.tolist(), strict=True) if stays)
    return placed(layout, [(a - len(head), b - len(head)) for a, b in kept(units, alive)]), after


def _step(chosen: Chosen, span: Span, tokens: int, document: Document) -> Step:
    shown = Shown("span", document.id, *span)
    scores = {"priority": chosen.score, "ratio offset": chosen.offset}
    return Step("context", chosen.number, scores=scores, tokens=tokens, shown=shown)
