"""A search agent with tool calls: the model calls a search tool in turns of a conversation, until a
reply calls none.

    user       the question, and how to call search
    model      <tool_call>{"name": "search", "arguments": {"query": "who wrote Velindra"}}</tool_call>
    user       <tool_response>Doc 1(Title: Velindra) ...</tool_response>
    model      Answer: Toren

The marks are those of the chat templates of Qwen 2.5 and Hermes. Source: docs/methods/searching.md#tool-agent.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from harness.method import Indexes, Method, MethodConfig, Tools, Traits
from harness.method.settings import setting
from harness.models import Session
from harness.prompts import Pieces, Prompt, feed, prompt_tokens
from harness.types import Answer, Document, Question, Step
from methods.reading import question_text
from methods.retry import LABEL, require_room
from methods.searching import FoundPassages
from methods.tagged_search import numbered_passages
from methods.values import values_in

TASK = Prompt(
    "agent",
    "Answer a question with a search tool. To call it, reply with nothing but:\n<tool_call>\n"
    '{"name": "search", "arguments": {"query": "what you look for"}}\n</tool_call>\nIt returns the '
    "best passages. Call it as often as you need, with another query each time. Solve a question "
    "of several steps step by step. When what was found gives the answer, call no tool and reply: "
    "Answer: ...\n\n{instruction}\n\nQuestion: {question}",
    answers=True,
)
FOUND = Prompt("found passages", "<tool_response>\n{passages}\n</tool_response>", first=False)
WRONG = Prompt(
    "call without a query",
    "<tool_response>\nThis call names no query.\n</tool_response>",
    first=False,
)
FORCE = Prompt(
    "answer now",
    "This was the last tool call. Answer now from what was found. {instruction}",
    first=False,
)
_ANSWER = re.compile(LABEL.format("answer") + "(.*)", re.IGNORECASE | re.DOTALL | re.MULTILINE)
_CALL = re.compile(r"<tool_call>(.*?)(?:</tool_call>|$)", re.DOTALL)


class ToolAgent(Method):
    """A conversation in which the model calls a search tool."""

    class Config(MethodConfig):
        """Settings of this method."""

        k: int = setting(5, gt=0, help="Passages of a search.")
        max_calls: int = setting(10, gt=0, help="Tool calls before the model is told to answer.")
        reply_tokens: int = setting(512, gt=0, help="Most tokens of each reply.")

    summary = "the model calls a search tool in a conversation until it answers"
    traits = Traits(one_document=False, draws=False, searches=True, takes_retriever=True)

    def templates(self) -> Sequence[Prompt]:
        """The prompts that it sends: the task, what the tool returns, and the request to answer."""
        return (TASK, FOUND, WRONG, FORCE)

    def answer(
        self, question: Question, documents: Sequence[Document], indexes: Indexes, tools: Tools
    ) -> Answer:
        """Let the model call the search tool until it answers; all of it counts as search.

        The answer is in the part of the last reply that names one, else all of that reply.

        Raises:
            WindowExceeded: The task with two replies does not fit the window.
        """
        del documents, indexes  # it reads what it finds
        config = self.config
        model = tools.model()
        instruction = tools.task.instruction
        task = TASK.with_replacements(config).fill(
            instruction=instruction, question=question_text(question)
        )
        request_to_answer = FORCE.with_replacements(config).fill(instruction=instruction)
        reserved_tokens = prompt_tokens(request_to_answer, model) + 2 * config.reply_tokens
        require_room(prompt_tokens(task, model) + reserved_tokens, model, window=None)
        passages = FoundPassages()
        with tools.phase("search"), model.session() as session:
            feed(session, task)
            end = self._converse(session, passages, tools, request_to_answer, reserved_tokens)
        reply = end.reply
        answer_match = _ANSWER.search(reply)
        if answer_match:
            reply = answer_match.group(1)
        return Answer(
            tools.task.answer_in(reply), passages.shown(), end.reason, tuple(passages.steps)
        )

    def _converse(
        self,
        session: Session,
        passages: FoundPassages,
        tools: Tools,
        request_to_answer: Pieces,
        reserved_tokens: int,
    ) -> _ConversationEnd:
        """Let the model call the tool until it calls none, or until a limit is reached and it is
        told to answer: the window (the last result is then left out), or `max_calls`. Of several
        calls in a reply only the first is run.

        Args:
            session: The conversation, which has the task.
            passages: The passages found, and steps, are added to it.
            tools: The engine's tools, for searching.
            request_to_answer: The request to answer now.
            reserved_tokens: Tokens that this request and two replies take.

        Returns:
            The last reply, and why it was the last.
        """
        model = tools.model()
        limit_reached = ""
        for calls_so_far in range(self.config.max_calls):
            written = session.write(self.config.reply_tokens)
            queries = _queries(written.text)
            if not queries:
                if calls_so_far == 0:  # it answers without any search
                    session.count_reply(written, kind="unsearched")
                return _ConversationEnd(written.text, f"answered after {calls_so_far} calls")
            result = self._run_call(queries[0], passages, tools)
            if session.length() + model.count(result) + reserved_tokens > model.window:
                limit_reached = "window"
                break
            is_last_call = calls_so_far + 1 == self.config.max_calls
            if is_last_call:
                result = f"{result}\n\n"
                feed(session, [result, *request_to_answer])
            else:
                feed(session, [result])
        if limit_reached:
            feed(session, request_to_answer)
        written = session.write(self.config.reply_tokens)
        reason = f"told to answer: {limit_reached or 'max_calls'}"
        return _ConversationEnd(written.text, reason)

    def _run_call(self, query: str, passages: FoundPassages, tools: Tools) -> str:
        """Search for the query of a call.

        Args:
            query: The query; "" where the call has none.
            passages: A step "search", and the passages found, are added to it.
            tools: The engine's tools.

        Returns:
            The passages, or what is wrong with the call, as the model sees it.
        """
        passages.steps.append(Step("search", flops=tools.meter.flops(), note=query))
        if not query:
            return "".join(WRONG.with_replacements(self.config).fill())
        hits = tools.search(query, self.config.k)
        passages.add(query, hits, tools)
        listed = numbered_passages(hits).strip() or "Nothing is found."
        return "".join(FOUND.with_replacements(self.config).fill(passages=listed))


@dataclass(frozen=True)
class _ConversationEnd:
    """How a conversation ended: the last reply, and why it was the last."""

    reply: str
    reason: str


def _queries(reply: str) -> list[str]:
    """The query of each tool call of a reply, "" for a call without one; [] where it calls no tool.

    A call is an object with a name, between marks where the reply has these:

        '<tool_call>{"name": "search", "arguments": {"query": "Velindra"}}</tool_call>' ->
            ["Velindra"]
    """
    calls_as_text = "\n".join(_CALL.findall(reply)) or reply
    objects = [value for value in values_in(calls_as_text) if isinstance(value, dict)]
    return [_query_of(value.get("arguments")) for value in objects if "name" in value]


def _query_of(arguments: object) -> str:
    """The query in the arguments of a tool call: {"query": "Velindra"} -> "Velindra"; "" where
    there is none."""
    if not isinstance(arguments, dict):
        return ""
    return str(arguments.get("query") or "").strip()
