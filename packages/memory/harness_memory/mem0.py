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
from harness_memory.store import MemoryStore, Points
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
        """The package, whose prompts and rules make the index."""
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
        """The memories of all chunks in order, with the chunk of each."""
        model = tools.model("builder")
        spans = passage_chunks(document, self.config.chunk_tokens, model)
        texts = [document.text[start:end] for start, end in spans]
        width = int(tools.encoder().encode(texts[:1] or [document.text], "passage").shape[1])
        store = MemoryStore(
            _Extraction(model, self.config.reply_tokens, tools), tools.encoder(), width
        )
        span_of: dict[str, list[int]] = {}
        for number, (text, span) in enumerate(zip(texts, spans, strict=True)):
            for memory in store.add(text):
                span_of[memory.id] = list(span)
            tools.progress(number + 1, len(texts), "chunks")
        points = store.points()
        return {
            "width": width,
            "ids": points.ids,
            "payloads": points.payloads,
            "vectors": points.vectors,
            "spans": [span_of[name] for name in points.ids],
        }

    def most_shown(self) -> int | None:
        """The setting k."""
        k: int = self.config.k
        return k

    def answer(
        self, question: Question, documents: Sequence[Document], indexes: Indexes, tools: Tools
    ) -> Answer:
        """Search the memories, read the best."""
        (document,) = documents
        (index,) = indexes
        store = MemoryStore(_no_extraction, tools.encoder(), index["width"])
        store.restore(Points(index["ids"], index["payloads"], np.asarray(index["vectors"])))
        with tools.phase("search"):
            found = store.search(question.text, self.config.k)
        flops = tools.meter.flops()
        request = Reading(tools.task, self.config.window, self.config)
        reply, count = ask_fitting(question, [one.text for one in found], tools, request)
        number_of = {name: number for number, name in enumerate(index["ids"])}
        shown: list[Shown] = []
        steps: list[Step] = []
        for memory in found[:count]:
            number = number_of[memory.id]
            start, end = index["spans"][number]
            piece = Shown(
                "generated", document.id, text=memory.text, sources=((document.id, start, end),)
            )
            shown.append(piece)
            scores = {"score": memory.score}
            steps.append(Step("read", number, scores=scores, flops=flops, shown=piece))
        return Answer(reply, tuple(shown), "k", tuple(steps))


class _Extraction:
    """Asks the builder for memories; replies are kept, so that a stopped build goes on."""

    def __init__(self, model: MeteredModel, reply_tokens: int, tools: Tools) -> None:
        """Begin with the first chunk.

        Args:
            model: The builder.
            reply_tokens: Of a reply at most.
            tools: The engine's tools.
        """
        self._model = model
        self._reply_tokens = reply_tokens
        self._tools = tools
        self._asked = 0

    def __call__(self, system: str, user: str) -> str:
        """The reply to the package's request, of which there is one a chunk."""
        self._asked += 1
        reply: str = self._tools.keep(f"memories {self._asked}", lambda: self._ask(system, user))
        return reply

    def _ask(self, system: str, user: str) -> str:
        """The model's reply."""
        with self._model.session() as session:
            session.system(system)
            session.user(user)
            return session.write(self._reply_tokens).text


def _no_extraction(*_turns: str) -> str:
    """A search extracts nothing."""
    raise AssertionError("the package asked the model while searching")
