"""A model that searches while it writes one reply: it puts a query between tags, what is found is
put after it, and it writes on.

    Velindra is a novel. <search>who wrote Velindra</search>
    <information>Doc 1 ... by Toren</information> So it is Toren. <answer>Toren</answer>

Search-R1 (search_r1.py) and Search-o1 (search_o1.py) differ in tags, limits and in how passages are
shown. The reply so far begins the next reply; a server that cannot continue a reply gets it at the
end of the user's turn. The reply is read anew at each search, as by the authors' scripts, and
counted. A part is as long as the window allows.
"""

from __future__ import annotations

import abc
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from harness.method import Indexes, Method, Tools, Traits
from harness.models import Session, Written
from harness.prompts import Pieces, feed
from harness.types import Answer, Document, Question, SearchHit, Step
from methods.searching import FoundPassages


@dataclass(frozen=True)
class Tags:
    """The tags around a query, and the tag after an answer ("" where nothing marks it)."""

    query_start: str
    query_end: str
    answer_end: str = ""

    @property
    def stops(self) -> tuple[str, ...]:
        """The texts at which the model stops writing: the end of a query, and of an answer where it
        is marked."""
        if not self.answer_end:
            return (self.query_end,)
        return (self.query_end, self.answer_end)

    def query_in(self, part: str) -> str | None:
        """The query that a part of the reply ends with; None where it ends otherwise, or the query
        is empty.

            "So <search> who wrote it </search>" -> "who wrote it"
        """
        if not part.endswith(self.query_end):
            return None
        _, tag, query = part.removesuffix(self.query_end).rpartition(self.query_start)
        if not tag:
            return None
        return query.strip() or None


@dataclass
class Trajectory:
    """The reply so far, with what was found in it.

    Attributes:
        question: The question.
        text: The reply so far, with what was put into it.
        newest_part: The part of it that the model wrote last.
        queries: Those that were searched for.
        passages: The passages found, and the steps of the trace.
    """

    question: Question
    text: str = ""
    newest_part: str = ""
    queries: list[str] = field(default_factory=list)
    passages: FoundPassages = field(default_factory=FoundPassages)


class TaggedSearch(Method):
    """The loop; subclasses say what is asked, and what is put after a query."""

    traits = Traits(one_document=False, draws=False, searches=True, takes_retriever=True)
    tags: Tags

    @abc.abstractmethod
    def request(self, question: Question, tools: Tools) -> Pieces:
        """The first user turn, with the question."""

    @abc.abstractmethod
    def search_and_quote(self, query: str, trajectory: Trajectory, tools: Tools) -> str:
        """Search, and return the text that is put into the reply after a query.

        Args:
            query: The query that the model wrote.
            trajectory: What is written so far; the passages found are added to it.
            tools: The engine's tools.
        """

    @abc.abstractmethod
    def text_after_invalid_part(self) -> str | None:
        """The text that is put into the reply after a part with neither query nor answer; None ends
        the reply there."""

    @abc.abstractmethod
    def answer_of(self, reply: str) -> str:
        """The answer that the whole reply marks, "" where it marks none."""

    def answer(
        self, question: Question, documents: Sequence[Document], indexes: Indexes, tools: Tools
    ) -> Answer:
        """Let the model write and search in one reply until it answers; all of it counts as search.

        The stop reason says why it ended, and where no answer is marked.
        """
        del documents, indexes  # it reads what it finds
        trajectory = Trajectory(question)
        with tools.phase("search"), tools.model().session() as session:
            # Its thinking is part of the reply that goes on, and may hold the query.
            session.keep_thinking = True
            feed(session, self.request(question, tools))
            reason = self._write_on(session, trajectory, tools)
        text = self.answer_of(trajectory.text)
        if not text:
            reason = f"{reason}, no answer is marked"
        passages = trajectory.passages
        return Answer(tools.task.answer_in(text), passages.shown(), reason, tuple(passages.steps))

    def _write_on(self, session: Session, trajectory: Trajectory, tools: Tools) -> str:
        """Write parts of the reply, each up to a query, with what is found put after it, until it
        ends; after `max_turns` parts one more is written, without a search after it.

        A part without a query or an answer ends the reply, unless the method corrects it.

        Args:
            session: The session, which has the task.
            trajectory: What is written, and what searches give, is added to it.
            tools: The engine's tools.

        Returns:
            Why it ended: "answered", "ended", "window" or "max_turns".
        """
        config = self.config
        for _ in range(config.max_turns):
            reason_to_end = self._write_part(session, trajectory, tools)
            if reason_to_end:
                return reason_to_end
            query = self.tags.query_in(trajectory.newest_part)
            if query is None:
                correction = self.text_after_invalid_part()
                if correction is None:
                    return "ended"
                trajectory.text += correction
            else:
                trajectory.text += self.search_and_quote(query, trajectory, tools)
        return self._write_part(session, trajectory, tools) or "max_turns"

    def _write_part(self, session: Session, trajectory: Trajectory, tools: Tools) -> str:
        """Write on from the reply so far, up to the next query or an answer.

        Args:
            session: The session, which has the task.
            trajectory: What is written is added to it, with a step "write" of the trace.
            tools: The engine's tools.

        Returns:
            "answered" or "window", where no more is to be written; "" if more is.
        """
        room = session.room() - tools.model().count(trajectory.text) - tools.model().turn_tokens()
        max_tokens = min(self.config.reply_tokens, room)
        if max_tokens < 1:
            return "window"
        reply_start = ""
        with session.branch():
            if session.can_begin_replies:
                reply_start = trajectory.text
            elif trajectory.text:
                session.feed(f"\n{trajectory.text}")
            written = session.write(max_tokens, stop=self.tags.stops, begin=reply_start)
        part = self._with_end_tag(written)
        trajectory.newest_part = part
        trajectory.text += part
        note = part.strip()
        trajectory.passages.steps.append(Step("write", flops=tools.meter.flops(), note=note))
        if self.tags.answer_end and part.endswith(self.tags.answer_end):
            return "answered"
        return ""

    def _with_end_tag(self, written: Written) -> str:
        """What was written, with the end tag at which the model stopped, which its text does not
        have.

        The tag is that of a query where the text ends with one, else that of an answer where there
        is one.
        """
        text = written.text
        if written.finish != "stop":
            return text
        if self.tags.query_in(text + self.tags.query_end) is not None:
            return text + self.tags.query_end
        if self.tags.answer_end and self.answer_of(text + self.tags.answer_end):
            return text + self.tags.answer_end
        return text


def numbered_passages(hits: Sequence[SearchHit]) -> str:
    r"""Passages as Search-R1 lists them, a line each: "Doc 1(Title: Velindra) The novel ...\n"."""
    lines: list[str] = []
    for number, hit in enumerate(hits, start=1):
        lines.append(f"Doc {number}(Title: {hit.title}) {hit.text}\n")
    return "".join(lines)


def last_between(text: str, start: str, end: str) -> str:
    """The text between the last pair of marks, without white space around it; "" where there is
    none.

        "<answer> Brem </answer> <answer> Toren </answer>", "<answer>", "</answer>" -> "Toren"
    """
    matches = re.findall(re.escape(start) + r"(.*?)" + re.escape(end), text, re.DOTALL)
    if not matches:
        return ""
    return str(matches[-1]).strip()
