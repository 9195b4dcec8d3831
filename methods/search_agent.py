"""A-RAG (Du et al. 2026, arXiv 2602.03442): the model searches the document itself, with three
tools, until it answers.

    question ──► {"tool": "keyword_search", "keywords": ["Velindra"]} ──► chunk 0: ... Velindra is by Toren ...
             ──► {"tool": "read_chunk", "chunks": [0, 1]}             ──► both chunks, whole
             ──► Answer: Kelford

It is one conversation. The first reply that calls no tool is the answer; at a limit the model is
told to answer. All of it counts as search. Source: docs/methods/retrieval.md#a-rag.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from harness.method import Index, Indexes, Method, MethodConfig, Tools, Traits
from harness.method.settings import index_setting, setting
from harness.prompts import Prompt, feed, prompt_tokens
from harness.types import Answer, Document, Question, Shown, Step
from methods.chunks import Span, shown_spans, trimmed
from methods.packing import packed_chunks
from methods.reading import options
from methods.retrieval import best_first, similarity_to
from methods.retry import LABEL, require_room
from methods.values import values_in

AGENT = Prompt(
    "agent",
    "Answer a question about a document that you can see through tools alone. To call a tool, "
    "reply with one of these "
    'JSON objects and nothing else:\n\n{"tool": "keyword_search", "keywords": ["a name", "a term"], "top": 5}\nThe '
    "chunks that have the keywords, written just so, with their sentences that have one. Keywords "
    "are of one to three "
    'words.\n\n{"tool": "semantic_search", "query": "what you look for", "top": 5}\nThe chunks with the sentences that '
    'are nearest in meaning, for where you do not know the words.\n\n{"tool": "read_chunk", "chunks": [3, 4]}\nThe '
    "whole chunks with these numbers.\n\nSearches show parts of chunks. Read the ones that look "
    "right, and those next "
    "to them, before you answer. Solve a question of several steps step by step. When what you "
    "have read gives the "
    "answer, call no tool and reply: Answer: ...\n\n{instruction}\n\nQuestion: {question}{options}",
)
FOUND = Prompt("found sentences", "Chunk {number}: ... {sentences} ...", first=False)
WHOLE = Prompt("whole chunk", "[Chunk {number}]\n{text}", first=False)
FORCE = Prompt(
    "answer now",
    "This was the last tool call. Answer now from what you have read, and call no tool. "
    "{instruction}",
    first=False,
)

# As in the released code: what ends a sentence, how long one that has a vector is, and how many of
# a chunk are shown.
_SENTENCE = re.compile(r"[^.!?\n]+")
_LEAST, _MOST, _TOP = 10, 5, 20
_ANSWER = re.compile(LABEL.format("answer") + "(.*)", re.IGNORECASE | re.DOTALL | re.MULTILINE)


class SearchAgent(Method):
    """A conversation in which the model calls keyword search, semantic search and the reading of
    chunks."""

    class Config(MethodConfig):
        """Settings of this method."""

        # Index
        segment_tokens: int = index_setting(
            1000, gt=0, help="Most tokens of a chunk of whole sentences."
        )
        # Search
        top: int = setting(
            5, gt=0, le=_TOP, help="Chunks that a search shows where the model gives no number."
        )
        max_loops: int = setting(15, gt=0, help="Replies before the model is told to answer.")
        budget: int = setting(
            128_000, gt=0, help="Tokens of the conversation before the model is told to answer."
        )
        reply_tokens: int = setting(1024, gt=0, help="Most tokens of each reply.")

    summary = "the model searches with keywords and by meaning, reads chunks, and answers when it wants (A-RAG)"
    traits = Traits(draws=False)
    encoders = ("encoder",)
    scope = "document"
    index_roles: ClassVar[tuple[str, ...]] = ("reader", "encoder")

    def templates(self) -> Sequence[Prompt]:
        """Its prompts: the task with the tools, what tools return, and the request to answer."""
        return (AGENT, FOUND, WHOLE, FORCE)

    def index(self, document: Document, tools: Tools) -> Index:
        """Spans of the chunks, [chunk, start, end] of their longer sentences, and the vectors of
        these."""
        chunks = packed_chunks(document.text, self.config.segment_tokens, tools.model())
        spans = [
            (i, a, b)
            for i, chunk in enumerate(chunks)
            for a, b in _sentences(document.text, chunk)
            if b - a > _LEAST
        ]
        vectors = tools.encoder().encode([document.text[a:b] for _, a, b in spans], "passage")
        return {
            "chunks": [list(chunk) for chunk in chunks],
            "sentences": [list(s) for s in spans],
            "vectors": vectors,
        }

    def answer(
        self, question: Question, documents: Sequence[Document], indexes: Indexes, tools: Tools
    ) -> Answer:
        """Let the model call tools until it answers.

        Raises WindowExceeded where the task with two replies does not fit the window.
        """
        (document,), (index,) = documents, indexes
        config, model, instruction = self.config, tools.model(), tools.task.instruction
        asked = AGENT.of(config).fill(
            instruction=instruction, question=[question.text], options=options(question)
        )
        force = FORCE.of(config).fill(instruction=instruction)
        reserved = prompt_tokens(force, model) + 2 * config.reply_tokens
        require_room(prompt_tokens(asked, model) + reserved, model, None)
        calls = _Calls(document, index, config, tools)
        with tools.phase("search"), model.session() as s:
            feed(s, asked)
            for number in range(1, config.max_loops + 1):
                written = s.write(config.reply_tokens)
                called = [
                    value
                    for value in values_in(written.text)
                    if isinstance(value, dict) and "tool" in value
                ]
                if not called:
                    reason = f"answered in reply {number}"
                    if number == 1:
                        s.count_reply(written, "unsearched")
                    break
                results = "\n\n".join(map(calls.result, called))
                length = s.length() + model.count(results)
                fits = length + reserved <= model.window
                if fits and length <= config.budget and number < config.max_loops:
                    feed(s, [results])
                    continue
                feed(s, [results, "\n\n", *force] if fits else force)
                written = s.write(config.reply_tokens)
                limit = (
                    "window" if not fits else "budget" if length > config.budget else "max_loops"
                )
                reason = f"told to answer: {limit}"
                break
        answer_line = _ANSWER.search(written.text)
        text = tools.task.answer_in(answer_line.group(1) if answer_line else written.text)
        return Answer(text, calls.shown(), reason, tuple(calls.steps))


class _Calls:
    """The tools over one document, and what they have shown."""

    def __init__(
        self, document: Document, index: Index, config: SearchAgent.Config, tools: Tools
    ) -> None:
        self.document, self.index, self.config, self.tools = document, index, config, tools
        self.chunks: list[Span] = [(a, b) for a, b in index["chunks"]]
        self.read: list[int] = []
        self.seen: list[Span] = []
        self.steps: list[Step] = []

    def result(self, call: dict[str, Any]) -> str:
        """What a call returns, as the model sees it; its step is appended to `steps`."""
        tool, top = call["tool"], call.get("top")
        most = min(top, _TOP) if isinstance(top, int) and top > 0 else self.config.top
        if tool == "keyword_search" and (keywords := _strings(call.get("keywords"))):
            result = self._found(self._by_keywords(keywords, most))
        elif tool == "semantic_search" and (queries := _strings(call.get("query"))):
            result = self._found(self._by_meaning(queries[0], most))
        elif tool == "read_chunk" and (numbers := _strings(call.get("chunks"))):
            result = "\n\n".join(map(self._whole, numbers))
        else:
            result = "Error: there is no such tool, or what it needs is missing."
        tokens, flops = self.tools.model().count(result), self.tools.meter.flops()
        self.steps.append(Step(str(tool), tokens=tokens, flops=flops, note=str(call)))
        return result

    def _by_keywords(self, keywords: Sequence[str], most: int) -> dict[int, list[Span]]:
        """The chunks with most keywords, longer ones counting more, and the first sentences of each
        with one."""
        text, words = self.document.text, [keyword.lower() for keyword in keywords]
        scores = [
            sum(text[a:b].lower().count(word) * len(word) for word in words) for a, b in self.chunks
        ]
        hits: dict[int, list[Span]] = {}
        for i in sorted(filter(scores.__getitem__, range(len(scores))), key=lambda i: -scores[i])[
            :most
        ]:
            spans = _sentences(text, self.chunks[i])
            hits[i] = [
                (a, b) for a, b in spans if any(word in text[a:b].lower() for word in words)
            ][:_MOST]
        return hits

    def _by_meaning(self, query: str, most: int) -> dict[int, list[Span]]:
        """The chunks with the nearest sentences, of three times as many sentences as chunks."""
        hits: dict[int, list[Span]] = {}
        for i in best_first(similarity_to(query, self.index["vectors"], self.tools))[: 3 * most]:
            chunk, start, end = self.index["sentences"][i]
            hits.setdefault(chunk, []).append((start, end))
        return {chunk: sorted(spans) for chunk, spans in list(hits.items())[:most]}

    def _found(self, hits: dict[int, list[Span]]) -> str:
        line, text = FOUND.of(self.config), self.document.text
        self.seen += [span for spans in hits.values() for span in spans]
        parts = {str(i): " ... ".join(text[a:b] for a, b in spans) for i, spans in hits.items()}
        lines = ["".join(line.fill(number=i, sentences=part)) for i, part in parts.items()]
        return "\n\n".join(lines) or "Nothing is found."

    def _whole(self, name: str) -> str:
        """A chunk by its number, once."""
        if not name.isdecimal() or int(name) >= len(self.chunks):
            return f"[Chunk {name}] There is none."
        if int(name) in self.read:
            return f"[Chunk {name}] You have read it before."
        self.read.append(int(name))
        start, end = self.chunks[int(name)]
        return "".join(WHOLE.of(self.config).fill(number=name, text=self.document.text[start:end]))

    def shown(self) -> tuple[Shown, ...]:
        """The chunks that were read, and the sentences that were seen of others."""
        whole = [self.chunks[i] for i in self.read]
        parts = [
            span
            for span in dict.fromkeys(self.seen)
            if not any(a <= span[0] and span[1] <= b for a, b in whole)
        ]
        return shown_spans(self.document, [*whole, *parts])


def _sentences(text: str, chunk: Span) -> Iterable[Span]:
    """Spans of a chunk's sentences without the marks that end them, as the released code cuts
    them."""
    return [
        span
        for m in _SENTENCE.finditer(text, *chunk)
        if (span := trimmed(text, *m.span()))[0] < span[1]
    ]


def _strings(value: Any) -> list[str]:
    """The texts and numbers of a list, or the one that `value` is."""
    return [
        str(v)
        for v in (value if isinstance(value, list) else [value])
        if isinstance(v, (str, int)) and str(v)
    ]
