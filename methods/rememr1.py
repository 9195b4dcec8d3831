"""ReMemR1's workflow without its training (Shi et al. 2025, arXiv 2509.23040): MemAgent's memory,
with queries that bring an earlier memory back.

    memory 1 + segment 2 ──► "Toren wrote it. <recall>who is Toren</recall>"
                             memory 2: what stands around the query
                             recalled: the memory so far that is nearest to the query (TF-IDF)
    memory 2 + recalled + segment 3 ──► ...        memory n + recalled ──► answer

Source: docs/methods/qrmem.md#rememr1.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module

import numpy as np

from harness.method import Indexes, Method, Tools, Traits
from harness.method.settings import setting
from harness.models import MeteredModel
from harness.prompts import Prompt
from harness.types import Answer, Document, Question, Shown, Step
from methods.chunks import Span
from methods.memagent import NO_MEMORY, MemAgent, segment_spans, send_request
from methods.reading import options, question_text

# The released code's, on which its models are trained, but for the form of the answer, which is the
# data set's instruction.
UPDATE = Prompt(
    "memory update with recall",
    "You are presented with a problem, a section of an article that may contain the answer to the "
    "problem, and a previous memory. You should generate response in the following format:\n"
    "- Output your thinking process in <thinking>your_thinking_process</thinking>.\n"
    "- Read the provided section carefully and update the memory with the new information that "
    "helps to answer the problem in only one <update>the_updated_memory</update> action. Be sure "
    "to retain all relevant details from the previous memory while adding any new, useful "
    "information.\n"
    "- If you notice partial key evidence that is not enough to answer the problem, also output "
    "only one `<recall>query</recall>` (e.g. `<recall>who's the president of the United "
    "States?</recall>`) to retrieve information in previous memories.\n\n"
    "<problem> \n{question}\n</problem>\n\n<recalled_memory>\n{recalled}\n</recalled_memory>\n\n"
    "<memory>\n{memory}\n</memory>\n\n<section>\n{section}\n</section>\n\nUpdated memory:\n",
)
FINAL = Prompt(
    "answer from memory and recall",
    "You are presented with a problem and a previous memory. Please answer the problem based on "
    "the previous memory. {instruction}\n\n<problem> \n{question}{options}\n</problem>\n\n"
    "<recalled_memory>\n{recalled}\n</recalled_memory>\n\n<memory>\n{memory}\n</memory>\n\n"
    "Your answer:\n",
    answers=True,
)
NOT_RECALLED = "No memory was recalled."
_QUERY = re.compile(r"<recall>(.+)</recall>")
_QUERY_WITH_TAGS = re.compile(r"<recall>.*?</recall>", re.DOTALL)


@dataclass
class _Memory:
    """The memory of one question.

    Attributes:
        text: The newest one.
        recalled: The earlier one that was brought back.
        all_texts: All different ones, in order.
    """

    text: str = NO_MEMORY
    recalled: str = NOT_RECALLED
    all_texts: list[str] = field(default_factory=list)

    def overwrite(self, reply: str, model: MeteredModel) -> str | None:
        """Make the model's reply, without its query, the newest memory, and recall the one of all
        memories so far that is nearest to the query; without a query nothing is recalled.

        Args:
            reply: "... <recall>who is Toren</recall>".
            model: The model whose tokens are compared.

        Returns:
            The query; None where the reply has none.
        """
        self.text = _QUERY_WITH_TAGS.sub("", reply).strip()
        if self.text not in self.all_texts:
            self.all_texts.append(self.text)
        query_match = _QUERY.search(reply)
        self.recalled = NOT_RECALLED
        if query_match is None:
            return None
        self.recalled = nearest_memory(query_match.group(1), self.all_texts, model)
        return query_match.group(1)


def nearest_memory(query: str, memories: Sequence[str], model: MeteredModel) -> str:
    """The memory that is most similar to a query.

    The similarity is the cosine of TF-IDF vectors over the model's tokens, in lower case. Of
    equally similar memories the newest is taken.

    Args:
        query: What the model asked for.
        memories: At least one, the newest last.
        model: The model whose tokenizer is used.

    Returns:
        One of the memories; NOT_RECALLED where all are empty.
    """
    text_features = import_module("sklearn.feature_extraction.text")

    def tokens(text: str) -> list[str]:
        """The model's tokens of a text in lower case, without spaces."""
        lower = text.lower()
        return [lower[start:end].replace(" ", "") for start, end in model.offsets(lower)]

    some_memory_has_tokens = any(tokens(memory) for memory in memories)
    if not some_memory_has_tokens:
        return NOT_RECALLED
    vectorizer = text_features.TfidfVectorizer(analyzer=tokens)
    vectors = vectorizer.fit_transform(memories)  # of length 1
    query_vectors = vectorizer.transform([query])
    similarity = (vectors @ query_vectors.T).toarray().ravel()  # of each memory [memories]
    most_similar = np.flatnonzero(similarity == similarity.max())
    newest = int(most_similar[-1])
    return memories[newest]


class ReMemR1(Method):
    """Read a document in segments, keep one memory, and recall earlier memories by queries."""

    class Config(MemAgent.Config):
        """Settings of this method: MemAgent's, with longer replies."""

        memory_tokens: int = setting(2048, gt=0, help="Most tokens of the reply with the memory.")
        answer_tokens: int | None = setting(
            2048, gt=0, help="Most tokens of the answer; None = the data set's."
        )

    summary = (
        "one memory overwritten segment by segment, earlier ones recalled by the model's queries "
        "(ReMemR1, untrained)"
    )
    traits = Traits(draws=False)

    def templates(self) -> Sequence[Prompt]:
        """The two prompts that it sends: the update of the memory, and the answer from it."""
        return (UPDATE, FINAL)

    def answer(
        self, question: Question, documents: Sequence[Document], indexes: Indexes, tools: Tools
    ) -> Answer:
        """Let the model overwrite the memory with every segment, then answer from the last memory
        and from what was recalled with it.

        Raises:
            WindowExceeded: A segment with two memories, and the memory that is written, does not
                fit.
        """
        (document,) = documents
        config = self.config
        model = tools.model()
        spans = segment_spans(document.text, config.segment_tokens, model)
        with tools.phase("search"):
            memory, steps = self._read_segments(document, spans, question, tools)
        request = FINAL.with_replacements(config).fill(
            instruction=tools.task.instruction,
            question=[question.text],
            options=options(question),
            recalled=[memory.recalled],
            memory=[memory.text],
        )
        max_tokens = config.answer_tokens or tools.task.max_answer_tokens
        reply = send_request(request, max_tokens, config.window, model)
        n_recalls = sum(step.action == "recall" for step in steps)
        reason = f"{len(spans)} segments, {n_recalls} recalls"
        shown_memories = _shown_memories(memory, document.id, spans)
        return Answer(tools.task.answer_in(reply.text), shown_memories, reason, tuple(steps))

    def _read_segments(
        self, document: Document, spans: Sequence[Span], question: Question, tools: Tools
    ) -> tuple[_Memory, list[Step]]:
        """Let the model overwrite an empty memory with each segment in order.

        Args:
            document: The document.
            spans: The spans of its segments.
            question: The question.
            tools: The engine's tools.

        Returns:
            The memory after the last segment, and the steps of the trace.
        """
        memory = _Memory()
        steps: list[Step] = []
        for number, (start, end) in enumerate(spans):
            segment = Shown("span", document.id, start, end)
            segment_text = document.text[start:end]
            steps += self._overwrite_memory(memory, question, segment_text, number, segment, tools)
        return memory, steps

    def _overwrite_memory(
        self,
        memory: _Memory,
        question: Question,
        segment_text: str,
        segment_number: int,
        segment: Shown,
        tools: Tools,
    ) -> list[Step]:
        """Show the model one segment with the memory and the recalled one; its reply overwrites the
        memory, and recalls an earlier memory where it has a query.

        Args:
            memory: The memory, which is changed.
            question: The question.
            segment_text: The segment's text.
            segment_number: The segment's number.
            segment: The segment's place in the document, for the step.
            tools: The engine's tools.

        Returns:
            The steps of the trace: the memory, and what was recalled where something was.
        """
        config = self.config
        model = tools.model()
        request = UPDATE.with_replacements(config).fill(
            question=[question_text(question)],
            recalled=[memory.recalled],
            memory=[memory.text],
            section=[segment_text],
        )
        reply = send_request(request, config.memory_tokens, config.window, model)
        query = memory.overwrite(reply.text, model)
        flops = tools.meter.flops()
        step = Step(
            "memory",
            segment_number,
            tokens=reply.request_tokens,
            flops=flops,
            shown=segment,
            note=memory.text,
        )
        if query is None:
            return [step]
        note = f"{query} -> {memory.recalled}"
        return [step, Step("recall", segment_number, flops=flops, note=note)]


def _shown_memories(memory: _Memory, document_id: str, spans: Sequence[Span]) -> tuple[Shown, ...]:
    """What the model was shown for its answer: the last memory, and the recalled one, if any.

    Args:
        memory: The memory after the last segment.
        document_id: The document.
        spans: The spans of its segments, from which both memories were written; without any there
            is no memory.
    """
    sources = tuple((document_id, start, end) for start, end in spans)
    shown: list[Shown] = []
    if spans:
        shown.append(Shown("generated", document_id, text=memory.text, sources=sources))
    if memory.recalled != NOT_RECALLED:
        shown.append(Shown("generated", document_id, text=memory.recalled, sources=sources))
    return tuple(shown)
