"""Self-Route (Li et al. 2024, arXiv 2407.16833): answer from a few chunks or decline, and read
everything only then.

    chunks of 300 words ──► the 5 nearest, numbered ──► an answer ─────────────────────► done
                                                    └─► "unanswerable" ──► the whole document ──► an answer

The first request counts as search, whether its answer stands or not; the second one as answer.
Source: docs/methods/retrieval.md#self-route.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from pydantic import model_validator

from harness.method import Indexes, Task, Tools, Traits
from harness.method.settings import index_setting, setting
from harness.models import MeteredModel
from harness.prompts import Prompt
from harness.types import Answer, Document, Question, Shown, Step
from methods.chunks import Span, word_chunks
from methods.long_context import FullContext
from methods.reading import Reading
from methods.retrieval import Dense, RetrievalConfig

REFUSAL = "unanswerable"
# The paper's table 9, after both places of the data set's instruction.
DECLINE = Prompt(
    "way to decline",
    " If the question cannot be answered based on the information in the article, write "
    "\u201cunanswerable\u201d.",
    first=False,
)
NUMBERED = Prompt("chunk with its number", "[{number}] {text}", first=False)


Chunks = Literal["words", "tokens", "packed", "clauses", "sentences", "passages"]


class SelfRouteConfig(RetrievalConfig):
    """Settings."""

    chunks: Chunks = index_setting(  # type: ignore[assignment]
        "words", help='As for top-k retrieval, and "words": chunk_words words a chunk.'
    )
    chunk_words: int = index_setting(300, gt=0, help='Words of a chunk with chunks="words".')
    window: int | None = setting(
        None,
        gt=0,
        help=(
            "Tokens of the request with the whole document, answer included; a longer "
            "document loses its middle. None = the model's window."
        ),
    )

    @model_validator(mode="after")
    def _check_chunk_size(self) -> SelfRouteConfig:
        """Raise ValueError where the size that the chosen `chunks` does not use (chunk_tokens for
        words, else chunk_words) was changed."""
        unused_setting = "chunk_tokens" if self.chunks == "words" else "chunk_words"
        if getattr(self, unused_setting) != type(self).model_fields[unused_setting].default:
            raise ValueError(
                f"{unused_setting} cuts nothing with chunks={self.chunks}; leave it out, or set "
                "chunks to match it"
            )
        return self

    @property
    def ends_with_sentences(self) -> bool:
        """Whether ends of sentences decide where a chunk ends."""
        return self.chunks not in ("tokens", "words")

    def _spans(self, document: Document, model: MeteredModel) -> list[Span]:
        """Cut a document into chunks as the setting `chunks` says: of words, or as for top-k
        retrieval."""
        if self.chunks == "words":
            return word_chunks(document.text, self.chunk_words)
        return super()._spans(document, model)


class SelfRoute(Dense):
    """Top-k chunks, and the whole document where the reader declines to answer from them."""

    Config = SelfRouteConfig
    summary = "answer from the nearest chunks, or decline and read the whole document (Self-Route)"
    traits = Traits(draws=False, takes_retriever=True)
    # More chunks change how often the whole document is read.
    from_other_runs = {}  # noqa: RUF012 - a class variable of Method
    own_prompts = (DECLINE, NUMBERED)

    def texts_as_shown(self, texts: list[str]) -> list[str]:
        """The chunks as the prompt shows them, each with its number in the document: "[1] Velindra
        ..."."""
        numbered = NUMBERED.with_replacements(self.config)
        return ["".join(numbered.fill(number=str(i), text=text)) for i, text in enumerate(texts, 1)]

    def most_shown(self) -> int | None:
        """The most passages that a reader is shown: k chunks, or the whole document, which is two
        where it loses its middle; None with a budget."""
        k: int | None = self.config.k
        if k is None:
            return None
        return max(k, 2)

    def most_tokens_shown(self) -> int | None:
        """None: there is no limit, as the whole document may be shown."""
        return None

    def answer(
        self, question: Question, documents: Sequence[Document], indexes: Indexes, tools: Tools
    ) -> Answer:
        """Answer from the chunks; where the reply declines, answer from the whole document, with
        the plain instruction. The first step of the trace says which."""
        (document,) = documents
        (index,) = indexes
        task = self._task_that_lets_decline(tools.task)
        with tools.phase("search"):
            answer_from_chunks = self.read_best(
                question, document, index, tools, Reading(task, config=self.config)
            )
        declined = REFUSAL in answer_from_chunks.text.lower()
        action = "accept"
        if declined:
            action = "decline"
        step = Step(
            action,
            tokens=_shown_tokens(answer_from_chunks.shown, document, tools),
            flops=tools.meter.flops(),
            note=f"{answer_from_chunks.stop_reason}: {answer_from_chunks.text}",
        )
        if not declined:
            return replace(
                answer_from_chunks, stop_reason="answered from the chunks", steps=(step,)
            )
        full_context_config = FullContext.Config(
            window=self.config.window, prompts=self.config.prompts
        )
        answer_from_document = FullContext(full_context_config).answer(
            question, documents, indexes, tools
        )
        return replace(answer_from_document, steps=(step,))

    def _task_that_lets_decline(self, task: Task) -> Task:
        """The task with an instruction that lets the model decline; itself where it has one."""
        if REFUSAL in task.instruction:
            return task
        may_decline = DECLINE.with_replacements(self.config).text
        return task.model_copy(update={"instruction": task.instruction + may_decline})


def _shown_tokens(shown: Sequence[Shown], document: Document, tools: Tools) -> int:
    """The tokens of all texts that were shown.

    Args:
        shown: The pieces that were shown; names of pages do not count.
        document: The document, of which spans were shown.
        tools: The engine's tools.
    """
    model = tools.model()
    tokens = 0
    for passage in shown:
        if passage.kind != "source":  # the name of a page, whose text was shown too
            text = passage.text or document.text[passage.start : passage.end]
            tokens += model.count(text)
    return tokens
