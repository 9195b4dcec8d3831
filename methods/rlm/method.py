"""Recursive Language Models (Zhang et al. 2025, arXiv 2512.24601): the text is a variable of a Python
session; the model writes code that looks at it and asks a model about parts of it.

    user       the question; context is a text of 120,000 characters
    model      ```repl
               print(context[:500])
               ```
    user       REPL output: ...
    model      ```repl
               answer["content"] = llm_query("Who wrote Velindra? " + context[4000:9000])
               answer["ready"] = True
               ```

The model's text is untrusted: its code is run only with `allow_code`, in a process that may only
compute (repl.py). Source: docs/methods/searching.md#rlm.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from harness.errors import CannotRun
from harness.method import Indexes, Method, MethodConfig, Needs, Tools, Traits
from harness.method.settings import setting
from harness.models import Session
from harness.prompts import Pieces, Prompt, feed, prompt_tokens
from harness.types import Answer, Document, Question, Shown, Step
from methods.reading import question_text
from methods.retry import require_room
from methods.rlm.repl import BlockResult, Limits, Repl, confinement_problem

_SESSION = (
    "You answer a question about a text that is too long to read. The text is the variable "
    "`context` of a Python session. You work in turns: write one block of code between ```repl and "
    "```, see what it prints, go on.\n\nThe session has:\n"
    "- `context`: the text, a str\n"
    "- `llm_query(prompt)`: the reply of a language model to one prompt, which has to hold all that "
    "it needs, parts of the text included\n"
    "- `llm_query_batched(prompts)`: the replies to a list of prompts, in order\n"
    "- `rlm_query(prompt)`, `rlm_query_batched(prompts)`: likewise, by a model with a session of its "
    "own in which the prompt is `context`, where that is possible\n"
    "- `SHOW_VARS()`: the names of your variables, which stay between turns\n"
    '- `answer`: {"content": "", "ready": False}. To finish, set answer["content"] to the final '
    'answer and answer["ready"] = True in a block\n\n'
    "Only what is printed is shown to you, and cut where it is long. First look at the "
    "text, then plan: search it with code where words decide, and give parts of it to llm_query "
    "where meaning does. Print what you found before you finish.\n\n"
)
TASK = Prompt(
    "recursive task",
    _SESSION
    + "Answer the following: {question}\n{instruction}\n\nYour context is a str of {length} "
    "characters.\n\nYou have not seen it yet: look at it first, and do not answer yet.\n\n{turn}",
    answers=True,
)
SUBTASK = Prompt(
    "recursive task, of a model",
    _SESSION
    + "Your context is a str of {length} characters, which says what to do.\n\nYou have not seen it "
    "yet: look at it first, and do not answer yet.\n\n{turn}",
)
TURN = Prompt("turn", "Turn {number} of {most}:", first=False)
OUTPUT = Prompt("output of code", "REPL output:\n{output}\n\n{turn}", first=False)
NO_CODE = Prompt("reply without code", "Your reply has no block of code.\n\n{turn}", first=False)
ANSWER_NOW = Prompt(
    "final answer", "Give the final answer now, from what was found. {instruction}", first=False
)
_BLOCK = re.compile(r"```repl\s*\n(.*?)\n?```", re.DOTALL)
_MAX_VARIABLES = 20  # names of variables that the model is shown at most


@dataclass
class _Trace:
    """What one question has done: steps, what was seen, and how many requests code made."""

    steps: list[Step] = field(default_factory=list)
    shown: list[Shown] = field(default_factory=list)
    n_requests: int = 0


@dataclass(frozen=True)
class _Conversation:
    """What a conversation is about: its text, its first request, and its depth, from 1."""

    text: str
    first_request: Pieces
    instruction: str
    depth: int = 1


@dataclass(frozen=True)
class _ConversationEnd:
    """The answer of a conversation, and why it ended."""

    text: str
    reason: str


class RLM(Method):
    """A model that reads a text by code, which may ask models about parts of it."""

    class Config(MethodConfig):
        """Settings of this method."""

        allow_code: bool = setting(
            False,
            help="Run the code that the model writes, in a process that may only compute; off: "
            "the method refuses to run.",
        )
        max_turns: int = setting(30, gt=0, help="Most turns of code.")
        depth: int = setting(
            1, gt=0, help="Levels of sessions: at the last one rlm_query is llm_query."
        )
        output_characters: int = setting(
            20_000, gt=0, help="Characters of a block's output that the model is shown."
        )
        reply_tokens: int = setting(2048, gt=0, help="Most tokens of each reply with code.")
        asked_tokens: int = setting(2048, gt=0, help="Most tokens of a reply that code asks for.")
        max_asked: int = setting(500, gt=0, help="Most replies that the code of a question gets.")
        seconds: float = setting(
            60, gt=0, help="Seconds of a block of code, without those in which a model replies."
        )
        megabytes: int = setting(1024, ge=256, help="Most memory of the code.")

    summary = "the model writes code that reads the text and asks models about parts of it (RLM)"
    traits = Traits(draws=False)
    needs: ClassVar[Needs] = {"reader": frozenset(), "searcher": frozenset()}

    def templates(self) -> Sequence[Prompt]:
        """The prompts that it sends: the task, what code prints, and the request to answer."""
        return (TASK, SUBTASK, TURN, OUTPUT, NO_CODE, ANSWER_NOW)

    def problems(self) -> list[str]:
        """No sentence, as no setting is wrong by itself; checks that code may be run.

        Raises:
            CannotRun: The setting `allow_code` is off, or this machine cannot confine the code.
        """
        if not self.config.allow_code:
            raise CannotRun(
                "this method runs Python code that the model writes, which is off; if the code may "
                "be run on this machine, in a process without files and network, allow it: "
                "--set method.allow_code=true"
            )
        problem = confinement_problem()
        if problem:
            raise CannotRun(problem)
        return []

    def answer(
        self, question: Question, documents: Sequence[Document], indexes: Indexes, tools: Tools
    ) -> Answer:
        """Let the model read the document by code until it answers; all of it counts as search.

        Raises:
            WindowExceeded: The task with two replies does not fit the window.
        """
        (document,) = documents
        instruction = tools.task.instruction
        first_request = self._first_request(
            TASK, document.text, question=[question_text(question)], instruction=instruction
        )
        conversation = _Conversation(document.text, first_request, instruction)
        trace = _Trace()
        with tools.phase("search"):
            end = self._hold_conversation(conversation, trace, tools)
        reason = f"{end.reason}, {trace.n_requests} requests by code"
        text = tools.task.answer_in(end.text)
        return Answer(text, tuple(trace.shown), reason, tuple(trace.steps))

    def _first_request(self, prompt: Prompt, text: str, **values: str | list[str]) -> Pieces:
        """The first request about a text, which does not show the text itself.

        Args:
            prompt: TASK or SUBTASK.
            text: The text, of which the prompt says the length.
            **values: What stands at the prompt's other placeholders.
        """
        turn = "".join(
            TURN.with_replacements(self.config).fill(number="1", most=str(self.config.max_turns))
        )
        return prompt.with_replacements(self.config).fill(
            length=str(len(text)), turn=turn, **values
        )

    def _hold_conversation(
        self, conversation: _Conversation, trace: _Trace, tools: Tools
    ) -> _ConversationEnd:
        """Hold one conversation, in which the model writes code until the code gives an answer, or
        a limit is reached and the model is told to answer: the next request would leave no room
        for two replies ("window"), or there were `max_turns` replies.

        Args:
            conversation: The text, the task and the depth.
            trace: The steps and what was shown are added to it.
            tools: The engine's tools.

        Returns:
            The answer, and why the conversation ended.

        Raises:
            WindowExceeded: The task with two replies does not fit the window.
        """
        config = self.config
        model = tools.model()
        request_to_answer = ANSWER_NOW.with_replacements(config).fill(
            instruction=conversation.instruction
        )
        reserved_tokens = prompt_tokens(request_to_answer, model) + 2 * config.reply_tokens
        require_room(
            prompt_tokens(conversation.first_request, model) + reserved_tokens, model, window=None
        )

        def ask(prompts: Sequence[str], in_own_session: bool) -> list[str]:
            """What models reply to the code of this conversation."""
            return self._answer_code(prompts, in_own_session, conversation.depth, trace, tools)

        limits = Limits(config.seconds, config.megabytes)
        with model.session() as session, Repl(conversation.text, limits, ask) as repl:
            feed(session, conversation.first_request)
            for turn_number in range(1, config.max_turns + 1):
                reply = session.write(config.reply_tokens).text
                block_results = self._run_blocks(repl, reply, session, trace, tools)
                for block in block_results:
                    if block.answer is not None:
                        return _ConversationEnd(block.answer, f"answered in turn {turn_number}")
                next_request = self._next_request(block_results, turn_number)
                tokens_needed = (
                    session.length() + sum(map(model.count, next_request)) + reserved_tokens
                )
                if tokens_needed > model.window:
                    return self._tell_to_answer(session, request_to_answer, "window")
                if turn_number < config.max_turns:
                    feed(session, next_request)
            return self._tell_to_answer(session, request_to_answer, "max_turns")

    def _tell_to_answer(
        self, session: Session, request_to_answer: Pieces, limit_reached: str
    ) -> _ConversationEnd:
        """The end of a conversation by a limit: the model is told to answer, and its reply is the
        answer.

        Args:
            session: The conversation, to which the request and the reply are added.
            request_to_answer: The request to answer now.
            limit_reached: "window" or "max_turns".
        """
        feed(session, request_to_answer)
        reply = session.write(self.config.reply_tokens).text
        return _ConversationEnd(reply, f"told to answer: {limit_reached}")

    def _run_blocks(
        self, repl: Repl, reply: str, session: Session, trace: _Trace, tools: Tools
    ) -> list[BlockResult]:
        """Run the blocks of code in a reply, up to one that answers, and return what each did.

        Args:
            repl: The Python session.
            reply: The model's reply.
            session: The conversation.
            trace: A step for each block, and what it printed, are added to it.
            tools: The engine's tools.
        """
        results: list[BlockResult] = []
        for code in _BLOCK.findall(reply):
            result = repl.run(code.strip())
            shown_output = Shown("quote", text=result.printed[: self.config.output_characters])
            if shown_output.text.strip():
                trace.shown.append(shown_output)
            step = Step(
                "code", tokens=session.length(), flops=tools.meter.flops(), note=code.strip()
            )
            trace.steps.append(replace(step, shown=shown_output))
            results.append(result)
            if result.answer is not None:
                break
        return results

    def _next_request(self, block_results: Sequence[BlockResult], turn_number: int) -> Pieces:
        """The request after a reply.

        Args:
            block_results: What the blocks of the reply did; [] where it had none.
            turn_number: The turn of the reply, from 1.
        """
        config = self.config
        turn = "".join(
            TURN.with_replacements(config).fill(
                number=str(turn_number + 1), most=str(config.max_turns)
            )
        )
        if not block_results:
            return NO_CODE.with_replacements(config).fill(turn=turn)
        outputs = [self._shown_output(block) for block in block_results]
        return OUTPUT.with_replacements(config).fill(output=["\n\n".join(outputs)], turn=turn)

    def _shown_output(self, result: BlockResult) -> str:
        """What a block printed as the model sees it, cut where it is long, with the names of the
        variables."""
        max_characters = self.config.output_characters
        output = result.printed[:max_characters]
        n_left_out = len(result.printed) - max_characters
        if n_left_out > 0:
            output += f"... ({n_left_out} more characters)"
        if result.names:
            output += f"\nVariables: {', '.join(result.names[:_MAX_VARIABLES])}"
        return output.strip() or "(nothing)"

    def _answer_code(
        self, prompts: Sequence[str], in_own_session: bool, depth: int, trace: _Trace, tools: Tools
    ) -> list[str]:
        """What models reply to prompts of the code, or errors where the code has asked too often.

        Args:
            prompts: The prompts.
            in_own_session: Whether each is to get a session of its own.
            depth: The depth of the session that asks, from 1.
            trace: Requests, steps and what was shown are added to it.
            tools: The engine's tools.
        """
        if trace.n_requests + len(prompts) > self.config.max_asked:
            return [f"Error: code may ask {self.config.max_asked} times"] * len(prompts)
        trace.n_requests += len(prompts)
        for prompt in prompts:
            trace.shown.append(Shown("quote", text=prompt))
        if in_own_session and depth < self.config.depth:
            return [self._ask_in_own_session(prompt, depth + 1, trace, tools) for prompt in prompts]
        replies = tools.map(lambda prompt: self._ask_once(prompt, tools), prompts)
        for prompt, reply in zip(prompts, replies, strict=True):
            prompt_length = tools.model("searcher").count(prompt)
            note = f"{prompt[:200]} -> {reply[:200]}"
            trace.steps.append(
                Step("ask", tokens=prompt_length, flops=tools.meter.flops(), note=note)
            )
        return replies

    def _ask_once(self, prompt: str, tools: Tools) -> str:
        """A model's reply to one prompt of the code; a sentence that says so where the prompt is
        too long."""
        model = tools.model("searcher")
        request = Pieces([prompt])
        prompt_length = prompt_tokens(request, model)
        if prompt_length + self.config.asked_tokens > model.window:
            return (
                f"Error: the prompt has {prompt_length} tokens, too many; ask about a shorter part"
            )
        with model.session() as session:
            feed(session, request)
            return session.write(self.config.asked_tokens).text

    def _ask_in_own_session(self, prompt: str, depth: int, trace: _Trace, tools: Tools) -> str:
        """The answer of a model that reads the prompt by code in a session of its own.

        Args:
            prompt: The prompt, which is that session's text.
            depth: The depth of that session.
            trace: The steps and what was shown are added to it.
            tools: The engine's tools.
        """
        conversation = _Conversation(
            text=prompt,
            first_request=self._first_request(SUBTASK, prompt),
            instruction="",
            depth=depth,
        )
        return self._hold_conversation(conversation, trace, tools).text
