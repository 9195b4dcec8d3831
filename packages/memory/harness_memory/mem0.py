"""Mem0 (Chhikara et al. 2025, arXiv 2504.19413): facts that a model extracts of a document, chunk by
chunk, and that are searched in place of its text.

    index     chunk ──► the package: its prompt with the memories most like the chunk ──► the model
              ──► new memories ──► its vector store
    question  ──► the package's search ──► the 20 best memories ──► the reading prompt

Prompts, deduplication and search are those of the package mem0ai; models, encoder and counting are
the run's (store.py). Source: docs/methods/memory.md#mem0.
"""

from collections.abc import Sequence
from importlib.util import find_spec
from typing import ClassVar

import numpy as np

from harness.errors import Missing
from harness.method import Index, Indexes, MethodConfig, Needs, Tools, Traits
from harness.method.settings import index_setting, setting
from harness.models import MeteredModel
from harness.types import Answer, Document, Question, Shown, Step
from harness_memory.store import MemoryStore, StoredPoints
from methods.packing import passage_chunks
from methods.reading import Reading, ReadingMethod, ask_fitting

PACKAGE = "mem0ai"
DOWNLOADING = ("spacy", "fastembed")
"""Packages that mem0ai uses where they are installed, for names and for search by words."""


class Mem0(ReadingMethod):
    """The memories that the package extracts and finds."""

    class Config(MethodConfig):
        """Settings of this method."""

        chunk_tokens: int = index_setting(
            1000, gt=0, help="Most tokens of a text that memories are extracted of at once."
        )
        reply_tokens: int = index_setting(
            2000, gt=0, help="Most tokens of a reply with memories (the package's max_tokens)."
        )
        k: int = setting(20, gt=0, help="Memories that are read (the package's top_k).")
        window: int | None = setting(
            None,
            gt=0,
            help="Most tokens of the last request, reply included; None = the reader's window.",
        )

    summary = "memories extracted and found by the package mem0ai"
    traits = Traits(draws=False)
    needs: ClassVar[Needs] = {"reader": frozenset(), "builder": frozenset()}
    encoders = ("encoder",)
    scope = "document"
    index_roles = ("builder", "encoder")

    def index_packages(self) -> tuple[str, ...]:
        """The packages whose version is part of an index: their prompts and rules make it."""
        return (PACKAGE,)

    def problems(self) -> list[str]:
        """Why it cannot run here: packages for which mem0ai would download models. Raises Missing
        where mem0ai is not installed."""
        if find_spec("mem0") is None:
            raise Missing(
                "the method mem0 needs the package mem0ai; install it in an environment of its own: "
                "pip install 'mem0ai>=2.2,<3'",
                f"the package {PACKAGE}",
            )
        return [
            f"mem0ai uses {name} where it is installed and downloads a model for it; run the method "
            "mem0 in an environment without it"
            for name in DOWNLOADING
            if find_spec(name) is not None
        ]

    def index(self, document: Document, tools: Tools) -> Index:
        """Let the builder extract memories of each chunk, and return them with their vectors and
        the characters [start, end) of the chunk that each is from."""
        builder = tools.model("builder")
        chunk_spans = passage_chunks(document, self.config.chunk_tokens, builder)
        chunk_texts = [document.text[start:end] for start, end in chunk_spans]
        some_text = chunk_texts[:1] or [document.text]
        vector_width = int(tools.encoder().encode(some_text, "passage").shape[1])
        ask_builder = _MemoryExtraction(builder, self.config.reply_tokens, tools)
        store = MemoryStore(ask_builder, tools.encoder(), vector_width)
        span_of_memory: dict[str, list[int]] = {}
        chunks = zip(chunk_texts, chunk_spans, strict=True)
        for number, (chunk_text, chunk_span) in enumerate(chunks, start=1):
            for memory in store.add(chunk_text):  # asks the builder
                span_of_memory[memory.id] = list(chunk_span)
            tools.progress(number, len(chunk_texts), "chunks")
        points = store.points()
        return {
            "width": vector_width,
            "ids": points.ids,
            "payloads": points.payloads,
            "vectors": points.vectors,
            "spans": [span_of_memory[memory_id] for memory_id in points.ids],
        }

    def most_shown(self) -> int | None:
        """The most memories that an answer is read from: the setting k."""
        k: int = self.config.k
        return k

    def answer(
        self, question: Question, documents: Sequence[Document], indexes: Indexes, tools: Tools
    ) -> Answer:
        """Find the k memories most like the question, read as many as fit into the prompt, and
        answer. A shown memory has the chunk it is from as its source."""
        (document,) = documents
        (index,) = indexes
        store = MemoryStore(_no_extraction, tools.encoder(), index["width"])
        store.restore(StoredPoints(index["ids"], index["payloads"], np.asarray(index["vectors"])))
        with tools.phase("search"):
            found_memories = store.search(question.text, self.config.k)
        flops = tools.meter.flops()
        request = Reading(tools.task, self.config.window, self.config)
        reply, n_read = ask_fitting(
            question, [memory.text for memory in found_memories], tools, request
        )
        number_of_memory = {memory_id: number for number, memory_id in enumerate(index["ids"])}
        shown: list[Shown] = []
        steps: list[Step] = []
        for memory in found_memories[:n_read]:
            memory_number = number_of_memory[memory.id]
            start, end = index["spans"][memory_number]  # of its chunk
            shown_memory = Shown(
                "generated", document.id, text=memory.text, sources=((document.id, start, end),)
            )
            shown.append(shown_memory)
            scores = {"score": memory.score}
            steps.append(
                Step("read", memory_number, scores=scores, flops=flops, shown=shown_memory)
            )
        return Answer(reply, shown=tuple(shown), stop_reason="k", steps=tuple(steps))


class _MemoryExtraction:
    """Asks the builder for the memories of one chunk after the other. Each reply is stored, so that
    a stopped build goes on."""

    def __init__(self, model: MeteredModel, reply_tokens: int, tools: Tools) -> None:
        """Prepare the requests, of which the first is about the first chunk.

        Args:
            model: The builder.
            reply_tokens: Most tokens of a reply.
            tools: Store the replies.
        """
        self._model = model
        self._reply_tokens = reply_tokens
        self._tools = tools
        self._n_requests = 0

    def __call__(self, system: str, user: str) -> str:
        """The builder's reply to the package's request about the next chunk, which is stored, or
        the reply that an earlier start stored.

        Args:
            system: The text of the system turn.
            user: The text of the user turn.
        """
        self._n_requests += 1
        reply: str = self._tools.keep(
            f"memories {self._n_requests}", lambda: self._ask(system, user)
        )
        return reply

    def _ask(self, system: str, user: str) -> str:
        """Ask the builder in a new session, and return its reply."""
        with self._model.session() as session:
            session.system(system)
            session.user(user)
            return session.write(self._reply_tokens).text


def _no_extraction(*_turns: str) -> str:
    """Raise AssertionError: a search extracts no memories, so the model must not be asked."""
    raise AssertionError("the package asked the model while searching")
