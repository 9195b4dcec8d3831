"""A-RAG (Du et al. 2026, arXiv 2602.03442): the model searches the document itself, with three
tools, until it answers.

    question ──► {"tool": "keyword_search", "keywords": ["Velindra"]} ──► chunk 0: ... Velindra is by Toren ...
             ──► {"tool": "read_chunk", "chunks": [0, 1]}             ──► both chunks, whole
             ──► Answer: Kelford

It is one conversation. The first reply that calls no tool is the answer; at a limit the model is
told to answer. All of it counts as search. Source: docs/methods/retrieval.md#a-rag.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from harness.method import Index, Indexes, Method, MethodConfig, Tools, Traits
from harness.method.settings import index_setting, setting
from harness.models import MeteredModel, Session
from harness.prompts import Pieces, Prompt, feed, prompt_tokens
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
    "reply with one of these JSON objects and nothing else:\n\n"
    '{"tool": "keyword_search", "keywords": ["a name", "a term"], "top": 5}\n'
    "The chunks that have the keywords, written just so, with their sentences that have one. "
    "Keywords are of one to three words.\n\n"
    '{"tool": "semantic_search", "query": "what you look for", "top": 5}\n'
    "The chunks with the sentences that are nearest in meaning, for where you do not know the "
    "words.\n\n"
    '{"tool": "read_chunk", "chunks": [3, 4]}\n'
    "The whole chunks with these numbers.\n\n"
    "Searches show parts of chunks. Read the ones that look right, and those next to them, before "
    "you answer. Solve a question of several steps step by step. When what you have read gives "
    "the answer, call no tool and reply: Answer: ...\n\n"
    "{instruction}\n\n"
    "Question: {question}{options}",
    answers=True,
)
FOUND = Prompt("found sentences", "Chunk {number}: ... {sentences} ...", first=False)
WHOLE = Prompt("whole chunk", "[Chunk {number}]\n{text}", first=False)
ANSWER_NOW = Prompt(
    "answer now",
    "This was the last tool call. Answer now from what you have read, and call no tool. "
    "{instruction}",
    first=False,
)

# As in the released code: what is a sentence, and the next three numbers.
_SENTENCE = re.compile(r"[^.!?\n]+")
_MIN_CHARACTERS = 10  # a sentence of no more has no vector
_MAX_SENTENCES = 5  # of a chunk
_MAX_CHUNKS = 20  # chunks that a search shows
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
            5,
            gt=0,
            le=_MAX_CHUNKS,
            help="Chunks that a search shows where the model gives no number.",
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
        """The prompts that it sends: the task with the tools, what tools return, and the request to
        answer."""
        return (AGENT, FOUND, WHOLE, ANSWER_NOW)

    def index(self, document: Document, tools: Tools) -> Index:
        """The index of a document.

        Returns:
            "chunks": [start, end] of each in characters; "sentences": [number of its chunk, start,
                end] of each sentence that is not too short; "vectors": of these sentences,
                [sentences, width].
        """
        chunks = packed_chunks(document.text, self.config.segment_tokens, tools.model())
        sentences: list[list[int]] = []
        texts: list[str] = []
        for chunk_number, chunk in enumerate(chunks):
            for start, end in _sentence_spans(document.text, chunk):
                if end - start > _MIN_CHARACTERS:
                    sentences.append([chunk_number, start, end])
                    texts.append(document.text[start:end])
        return {
            "chunks": [list(chunk) for chunk in chunks],
            "sentences": sentences,
            "vectors": tools.encoder().encode(texts, "passage"),
        }

    def answer(
        self, question: Question, documents: Sequence[Document], indexes: Indexes, tools: Tools
    ) -> Answer:
        """Let the model call tools in one conversation until it answers.

        The answer is in the line of the last reply that names one, else all of that reply.

        Raises:
            WindowExceeded: The task with two replies does not fit the window.
        """
        (document,) = documents
        (index,) = indexes
        config = self.config
        model = tools.model()
        instruction = tools.task.instruction
        task = AGENT.with_replacements(config).fill(
            instruction=instruction, question=[question.text], options=options(question)
        )
        request_to_answer = ANSWER_NOW.with_replacements(config).fill(instruction=instruction)
        reserved_tokens = prompt_tokens(request_to_answer, model) + 2 * config.reply_tokens
        require_room(prompt_tokens(task, model) + reserved_tokens, model, window=None)
        document_tools = _DocumentTools(document, index, config, tools)
        with tools.phase("search"), model.session() as session:
            feed(session, task)
            end = self._converse(session, model, document_tools, request_to_answer, reserved_tokens)
        answer_line = _ANSWER.search(end.reply)
        reply = end.reply
        if answer_line:
            reply = answer_line.group(1)
        return Answer(
            tools.task.answer_in(reply),
            document_tools.shown(),
            end.reason,
            tuple(document_tools.steps),
        )

    def _converse(
        self,
        session: Session,
        model: MeteredModel,
        document_tools: _DocumentTools,
        request_to_answer: Pieces,
        reserved_tokens: int,
    ) -> _ConversationEnd:
        """Let the model call tools until it calls none, or until a limit is reached and it is told
        to answer: the window (the last results are then left out), `budget` or `max_loops`.

        Args:
            session: The conversation, which has the task.
            model: The reader.
            document_tools: The tools.
            request_to_answer: The request to answer now.
            reserved_tokens: Tokens that this request and two replies take.

        Returns:
            The last reply, and the reason why it was the last.
        """
        config = self.config
        reply_number = 1
        while True:
            written = session.write(config.reply_tokens)
            calls = _tool_calls(written.text)
            if not calls:
                if reply_number == 1:  # it answers without any search
                    session.count_reply(written, kind="unsearched")
                return _ConversationEnd(written.text, f"answered in reply {reply_number}")
            results = "\n\n".join(map(document_tools.run, calls))
            conversation_tokens = session.length() + model.count(results)
            limit_reached = ""
            if conversation_tokens + reserved_tokens > model.window:
                limit_reached = "window"
            elif conversation_tokens > config.budget:
                limit_reached = "budget"
            elif reply_number >= config.max_loops:
                limit_reached = "max_loops"
            if limit_reached:
                break
            feed(session, [results])
            reply_number += 1
        if limit_reached == "window":
            feed(session, request_to_answer)
        else:
            feed(session, [results, "\n\n", *request_to_answer])
        return _ConversationEnd(
            session.write(config.reply_tokens).text, f"told to answer: {limit_reached}"
        )


@dataclass(frozen=True)
class _ConversationEnd:
    """How a conversation ended: the last reply, and why it was the last."""

    reply: str
    reason: str


@dataclass(frozen=True)
class _ToolCall:
    """A tool call, {"tool": "keyword_search", "keywords": ["Velindra"], "top": 3}.

    Attributes:
        tool: The name of the tool, as the model writes it.
        keywords: Texts to find; of keyword_search.
        queries: What is looked for, of which the first counts; of semantic_search.
        chunks: Numbers of chunks; of read_chunk.
        top: How many chunks a search shows; None where the model gives no number.
        written: The whole call, for the trace.
    """

    tool: str
    keywords: list[str]
    queries: list[str]
    chunks: list[str]
    top: int | None
    written: str

    @classmethod
    def parse(cls, value: Mapping[str, object]) -> _ToolCall:
        """The call in an object of a reply that has the key "tool"; a "top" that is no number above 0
        counts as none.

        {"tool": "read_chunk", "chunks": [3, 4]} -> _ToolCall("read_chunk", chunks=["3", "4"],
            ...)
        """
        top = value.get("top")
        if not isinstance(top, int) or top <= 0:
            top = None
        return cls(
            tool=str(value["tool"]),
            keywords=_as_strings(value.get("keywords")),
            queries=_as_strings(value.get("query")),
            chunks=_as_strings(value.get("chunks")),
            top=top,
            written=str(value),
        )


def _tool_calls(reply: str) -> list[_ToolCall]:
    """The calls in a reply: its JSON objects that have the key "tool", in order."""
    objects = [value for value in values_in(reply) if isinstance(value, dict)]
    return [_ToolCall.parse(value) for value in objects if "tool" in value]


class _DocumentTools:
    """The tools over one document, and what they have shown.

    Attributes:
        chunks: The spans of the document's chunks.
        read_chunks: The numbers of the chunks that were read whole.
        shown_sentences: The spans of the sentences that searches showed.
        steps: A step for each call.
    """

    def __init__(
        self, document: Document, index: Index, config: SearchAgent.Config, tools: Tools
    ) -> None:
        """Keep the document and its index; nothing is read or seen yet."""
        self.document = document
        self.index = index
        self.config = config
        self.tools = tools
        self.chunks: list[Span] = [(start, end) for start, end in index["chunks"]]
        self.read_chunks: list[int] = []
        self.shown_sentences: list[Span] = []
        self.steps: list[Step] = []

    def run(self, call: _ToolCall) -> str:
        """Run a call, and return what the model sees of it. Also appends a step to `steps`."""
        result = self._result(call)
        step = Step(
            call.tool,
            tokens=self.tools.model().count(result),
            flops=self.tools.meter.flops(),
            note=call.written,
        )
        self.steps.append(step)
        return result

    def _result(self, call: _ToolCall) -> str:
        """Run the tool that the model called, and return the text that the model reads next; for a
        tool that does not exist, or without what it needs, a sentence that says so."""
        if call.tool == "keyword_search" and call.keywords:
            return self._show_sentences(
                self._search_keywords(call.keywords, self._max_chunks(call))
            )
        if call.tool == "semantic_search" and call.queries:
            return self._show_sentences(
                self._search_meaning(call.queries[0], self._max_chunks(call))
            )
        if call.tool == "read_chunk" and call.chunks:
            return "\n\n".join(map(self._show_chunk, call.chunks))
        return "Error: there is no such tool, or what it needs is missing."

    def _max_chunks(self, call: _ToolCall) -> int:
        """How many chunks a search shows: as many as the call says, up to _MAX_CHUNKS, else the
        setting `top`."""
        if call.top is not None:
            return min(call.top, _MAX_CHUNKS)
        return int(self.config.top)

    def _search_keywords(self, keywords: Sequence[str], max_chunks: int) -> dict[int, list[Span]]:
        """Find the chunks that have keywords, those first that have them most often, long ones
        counting more.

        Args:
            keywords: Texts to find, in any letters.
            max_chunks: Most chunks.

        Returns:
            Number of a chunk -> the spans of its first sentences with a keyword, best chunk first.
        """
        words = [keyword.lower() for keyword in keywords]
        scores = [self._keyword_score(chunk, words) for chunk in self.chunks]
        matching_chunks = [number for number, score in enumerate(scores) if score]
        matching_chunks.sort(key=lambda number: -scores[number])
        best = matching_chunks[:max_chunks]
        return {chunk: self._sentences_with(self.chunks[chunk], words) for chunk in best}

    def _keyword_score(self, chunk: Span, words: Sequence[str]) -> int:
        """How often words are in a chunk, each times its length.

        Args:
            chunk: The span of the chunk.
            words: The words, in small letters.
        """
        text = self.document.text[slice(*chunk)].lower()
        return sum(text.count(word) * len(word) for word in words)

    def _sentences_with(self, chunk: Span, words: Sequence[str]) -> list[Span]:
        """The spans of the first _MAX_SENTENCES sentences of a chunk that have one of the words.

        Args:
            chunk: The span of the chunk.
            words: The words, in small letters.
        """
        spans: list[Span] = []
        for span in _sentence_spans(self.document.text, chunk):
            sentence = self.document.text[slice(*span)].lower()
            if any(word in sentence for word in words):
                spans.append(span)
        return spans[:_MAX_SENTENCES]

    def _search_meaning(self, query: str, max_chunks: int) -> dict[int, list[Span]]:
        """Find chunks by the nearest of their sentences.

        Args:
            query: What is looked for.
            max_chunks: Most chunks; three times as many sentences are taken.

        Returns:
            Number of a chunk -> the spans of its sentences taken, the chunk with the nearest
            sentence first.
        """
        nearest = best_first(similarity_to(query, self.index["vectors"], self.tools))
        hits: dict[int, list[Span]] = {}
        for number in nearest[: 3 * max_chunks]:
            chunk, start, end = self.index["sentences"][number]
            hits.setdefault(chunk, []).append((start, end))
        best = list(hits)[:max_chunks]
        return {chunk: sorted(hits[chunk]) for chunk in best}

    def _show_sentences(self, hits: dict[int, list[Span]]) -> str:
        """The found sentences of each chunk as the model sees them. Also adds them to
        `shown_sentences`.

        Args:
            hits: Number of a chunk -> the spans of its sentences.
        """
        if not hits:
            return "Nothing is found."
        line = FOUND.with_replacements(self.config)
        lines: list[str] = []
        for chunk, spans in hits.items():
            self.shown_sentences += spans
            sentences = " ... ".join(self.document.text[start:end] for start, end in spans)
            lines.append("".join(line.fill(number=str(chunk), sentences=sentences)))
        return "\n\n".join(lines)

    def _show_chunk(self, number_as_text: str) -> str:
        """The text of a chunk as the model sees it. Also adds its number to `read_chunks`.

        A chunk that was read before is not repeated; where there is no such chunk, the text says
        so.

        Args:
            number_as_text: The number of the chunk as the model writes it.
        """
        if not number_as_text.isdecimal() or int(number_as_text) >= len(self.chunks):
            return f"[Chunk {number_as_text}] There is none."
        if int(number_as_text) in self.read_chunks:
            return f"[Chunk {number_as_text}] You have read it before."
        self.read_chunks.append(int(number_as_text))
        start, end = self.chunks[int(number_as_text)]
        return "".join(
            WHOLE.with_replacements(self.config).fill(
                number=number_as_text, text=self.document.text[start:end]
            )
        )

    def shown(self) -> tuple[Shown, ...]:
        """The chunks that were read, and the sentences that were seen of other chunks, in the form
        in which an Answer says what the reader saw."""
        chunks = [self.chunks[number] for number in self.read_chunks]
        parts: list[Span] = []
        for start, end in dict.fromkeys(self.shown_sentences):
            is_in_read_chunk = any(
                chunk_start <= start and end <= chunk_end for chunk_start, chunk_end in chunks
            )
            if not is_in_read_chunk:
                parts.append((start, end))
        return shown_spans(self.document, [*chunks, *parts])


def _sentence_spans(text: str, chunk: Span) -> Iterable[Span]:
    """Yield the spans of a chunk's sentences without the marks that end them, as the released code
    cuts them.

    Args:
        text: The text of the document.
        chunk: The span of the chunk.
    """
    for match in _SENTENCE.finditer(text, *chunk):
        start, end = trimmed(text, *match.span())
        if start < end:
            yield start, end


def _as_strings(value: object) -> list[str]:
    """The texts and numbers of a list, or a single one, as texts: [3, "a", None] -> ["3", "a"]."""
    values = [value]
    if isinstance(value, list):
        values = value
    return [str(v) for v in values if isinstance(v, (str, int)) and str(v)]
