"""The back end of applications: a "model" that answers whole questions and has no context.

    session = model.session(meter)
    session.ask(AppQuestion("How long is the warranty?"))      -> AppReply, its cost on the meter

Seconds are those of the requests on their connections (http_loop.py), or of the function. Tokens
and money are what the reply says; where it says nothing they are unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any, NoReturn

from harness.apps.calls import Address, FunctionCall, HttpCall
from harness.apps.reply import AppReply, cached_reply, checked_map, read_reply
from harness.apps.settings import OPTION, AppQuestion, AppSettings, app_settings
from harness.config.schema import ModelConfig
from harness.cost.meter import Meter
from harness.errors import CannotRun, HarnessError, Missing, call_noting_problem
from harness.llm.backend import Backend, ModelFacts
from harness.llm.endpoint_http import RetryPolicy, Tries, timed_tries
from harness.llm.endpoint_info import api_key, one_address_problems
from harness.models import Decoding, LanguageModel, Probe, Session, Span, Written
from harness.parallel.scheduler import Took

CAPABILITY = "application"
_APPLICATION_SETTINGS = {
    "name", "backend", "source", "revision", "base_url", "api_key_env", "timeout", "retries",
    "price", "extra",
}  # fmt: skip


class Applications(Backend):
    """Applications of the user's own (--app)."""

    def facts(self, config: ModelConfig) -> ModelFacts:
        """Find out what can be known of an application without calling it.

        Its identity holds its name, its address or function, and how questions and replies are
        mapped. Mistakes in its settings are in `problems`.
        """
        # What a function raises is added to `problems`, and its result is then None.
        problems: list[HarnessError] = []
        settings = call_noting_problem(problems, app_settings, config)
        problem_sentences = [*map(str, problems), *_misplaced_settings(config)]
        if settings is None:
            return ModelFacts(config.name, problems=problem_sentences)
        if settings.function is None:
            problem_sentences += one_address_problems(config)
            call_noting_problem(problems, api_key, config)
            call_noting_problem(problems, settings.header_values)
        identity = call_noting_problem(problems, settings.identity, config)
        return ModelFacts(
            name=config.name,
            capabilities=frozenset({CAPABILITY}),
            identity=identity or {},
            problems=[*problem_sentences, *map(str, problems)],
            absent={
                str(problem): problem.thing for problem in problems if isinstance(problem, Missing)
            },
        )

    def load(self, config: ModelConfig, facts: ModelFacts) -> LanguageModel:
        """Make a model of the application, once it answers. Raises CannotRun where it does not."""
        settings = app_settings(config)
        call = AppCall(config, settings)
        call.check()
        return ApplicationModel(config, facts, call, settings)


class AppCall:
    """Calls an application, over HTTP or as a function; any thread may do so."""

    def __init__(self, config: ModelConfig, settings: AppSettings) -> None:
        """Find the server or function of the application, which is called later.

        Args:
            config: The settings of the model that stands for the application.
            settings: How it is asked: its format, headers and function.
        """
        self._settings = settings
        self._server: HttpCall | None = None
        self._function: FunctionCall | None = None
        if settings.function is None:
            self._server = HttpCall(_address(config, settings), OPTION)
        else:
            self._function = FunctionCall(settings.function, config.timeout, OPTION)

    def check(self) -> None:
        """Raise CannotRun where the application's server does not answer; a function is not
        tried.
        """
        if self._server is not None:
            self._server.check()

    def reply_to(self, question: AppQuestion, tries: Tries) -> object:
        """Send a question to the application and return its reply: a text, or JSON values.

        Args:
            question: What is asked.
            tries: Counts how often it was sent.

        Raises:
            RequestFailed, ModelOutputError: This question has no reply.
            CannotRun: No question would have one.
        """
        if self._function is not None:
            return self._function.reply_to(tries, question.question)
        assert self._server is not None  # one of the two is there
        return self._server.reply_to(self._settings.request(question), tries)


def _address(config: ModelConfig, settings: AppSettings) -> Address:
    """The address, key, headers and retries by which an application's requests are sent."""
    assert config.base_url is not None  # `facts` refuses it otherwise
    return Address(
        url=config.base_url,
        key=api_key(config),
        key_env=config.api_key_env,
        headers=settings.header_values(),
        policy=RetryPolicy(config.timeout, config.retries),
    )


def _misplaced_settings(config: ModelConfig) -> list[str]:
    """A sentence for each setting of a language model that was set for an application, which would
    ignore it.
    """
    sentences: list[str] = []
    for name, setting in ModelConfig.model_fields.items():
        default = setting.get_default(call_default_factory=True)
        if name not in _APPLICATION_SETTINGS and getattr(config, name) != default:
            sentences.append(
                f"model.{name} is for a language model, and an application (--app) would ignore "
                "it; leave it out"
            )
    return sentences


class ApplicationModel(LanguageModel):
    """An application that can be called."""

    def __init__(
        self, config: ModelConfig, facts: ModelFacts, call: AppCall, settings: AppSettings
    ) -> None:
        """Make a model of an application.

        Args:
            config: The settings of the model that stands for it.
            facts: What is known of the application.
            call: How it is called.
            settings: How questions and replies are mapped.
        """
        self.name = facts.name
        self.identity = facts.identity
        self.capabilities = facts.capabilities
        self.window = 0
        self.shape = None
        self.first_prompts = {}
        self.own_name = config.source or config.name
        self.has_price = config.price is not None
        self.call = call
        self.places = checked_map(settings.places)

    def session(
        self, meter: Meter, role: str = "reader", adapter: str | None = None
    ) -> ApplicationSession:
        """Make a session that answers questions.

        Args:
            meter: Books what they cost.
            role: The role that it is booked under.
            adapter: Not used.
        """
        return ApplicationSession(self, meter, role)

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Always empty, as an application's tokens are not known."""
        return []

    def turn_tokens(self) -> int:
        """Always 0, as an application has no turns."""
        return 0


class ApplicationSession(Session):
    """Answers whole questions. It has no context, so that methods of ours cannot use it."""

    def __init__(self, model: ApplicationModel, meter: Meter, role: str) -> None:
        """Begin a session.

        Args:
            model: The application.
            meter: Books what its answers cost.
            role: The role that they are booked under.
        """
        super().__init__(model.name, model.window, meter, role)
        self._model = model

    def ask(self, question: AppQuestion) -> AppReply:
        """Ask the application a question; its reply comes from the
        cache of replies where that has it.

        Also books the cost. Where the run keeps requests, the meter records the question and the
        answer as a request of kind "write".

        Raises:
            RequestFailed, ModelOutputError: There is no usable reply.
            CannotRun: No question would have one.
        """
        # `name` is a variable of the body's template.
        named_question = replace(question, name=self._model.own_name)

        def prompt() -> str:
            """The prompt of the recorded request."""
            return named_question.question

        with self._meter.request(self._role, "write", prompt) as recorded_reply:
            reply = self._cached_or_sent_reply(named_question)
            recorded_reply.append(reply.answer)
        return reply

    def _cached_or_sent_reply(self, question: AppQuestion) -> AppReply:
        """Get the reply from the cache of replies, or else from the application, and store it
        there. The cost is booked in both cases."""
        if self.replies is None:
            return self._send_and_book(question)
        key = {"kind": "application", "asked": asdict(question)}
        values, _ = self.replies.get_or_send(
            key,
            send=lambda: asdict(self._send_and_book(question)),
            meter=self._meter,
            role=self._role,
            shape=None,  # the sizes of its models are not known
        )
        return cached_reply(values)

    def _send_and_book(self, question: AppQuestion) -> AppReply:
        """Send the question to the application and read its reply; its cost
        is booked, also where it fails.
        """
        took = Took()
        tries = Tries()
        reply: AppReply | None = None
        try:
            with timed_tries(tries) as took:  # filled when the block ends
                value = self._model.call.reply_to(question, tries)
            reply = read_reply(value, self._model.places)
        finally:
            self._book_call(reply, took, tries)
        return reply

    def _book_call(self, reply: AppReply | None, took: Took, tries: Tries) -> None:
        """Book a call with what its reply says of tokens and money. Its tokens are known where it
        says both numbers, of tokens read and written; else their sum counts, if it says that. Known
        tokens are billed by the model's price where the reply says no cost of its own.

        Args:
            reply: The reply; None where there is none that can be used.
            took: The time of the call.
            tries: How often it was sent.
        """
        counted_reply = reply or AppReply(answer="")
        tokens_known = counted_reply.tokens_in is not None and counted_reply.tokens_out is not None
        tokens_read = counted_reply.tokens_in or 0
        tokens_written = counted_reply.tokens_out or 0
        is_billed = counted_reply.cost is None and tokens_known and self._model.has_price
        billed_tokens: int | None = None
        if is_billed:
            billed_tokens = tokens_written
        tokens_total = counted_reply.tokens
        if tokens_known:
            tokens_total = None
        self._book(
            "prefill",
            tokens_read,
            requests=1,
            out=tokens_written,
            seconds=took.seconds,
            queued=took.queued,
            retries=tries.retries,
            billed=billed_tokens,
            charged=counted_reply.cost,
            tokens_known=tokens_known,
            tokens_total=tokens_total,
            money_known=counted_reply.cost is not None or is_billed,
        )

    def length(self) -> int:
        """Always 0, as there is no context."""
        return 0

    def _refuse(self) -> NoReturn:
        """Raise CannotRun: an application has no context that a method could read into."""
        raise CannotRun(
            f"'{self._model.own_name}' is an application, which answers whole questions and cannot "
            "read for a method; name a model for it with --model"
        )

    def _open(self, turn: str) -> None:
        """Raise CannotRun: there is no context to open a turn in."""
        self._refuse()

    def _append(self, text: str) -> Span:
        """Raise CannotRun: there is no context to add text to."""
        self._refuse()

    def _first_token(self, label: str) -> Any:
        """Raise CannotRun: an application's tokens are not known."""
        self._refuse()

    def _probe(self, labels: Sequence[str], firsts: Sequence[Any], after: str) -> Probe:
        """Raise CannotRun: an application gives no probabilities."""
        self._refuse()

    def _write(self, decoding: Decoding, watch: Sequence[Span]) -> Written:
        """Raise CannotRun: an application continues no context."""
        self._refuse()

    def _save(self) -> Any:
        """Raise CannotRun: there is no context to save."""
        self._refuse()

    def _restore(self, state: Any) -> None:
        """Raise CannotRun: there is no context to restore."""
        self._refuse()
