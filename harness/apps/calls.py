"""One call of an application: over HTTP, with the retries of every server, or of a function.

call = HttpCall(config, settings)       call = FunctionCall(config, settings)
call.check()                            whether it can be called at all
call.reply_to(question, tries)          what it sent: a text, or JSON
"""

from __future__ import annotations

import abc
import asyncio
import inspect
import json
import threading
from collections.abc import Awaitable, Callable
from dataclasses import asdict, is_dataclass
from typing import Any

import httpx2

from harness.apps.settings import AppQuestion, AppSettings, app_function
from harness.config.schema import ModelConfig
from harness.errors import CannotRun, ModelOutputError, RequestFailed
from harness.llm.endpoint_http import RetryPolicy, Server, Tries, key_mask, parse_json
from harness.llm.endpoint_info import api_key

_MOST_BYTES = 64 * 2**20
"""Of a reply; the contexts of an application may be long."""


class Call(abc.ABC):
    """How an application is called; any thread may do so."""

    @abc.abstractmethod
    def check(self) -> None:
        """Raise CannotRun where the application cannot be called."""

    @abc.abstractmethod
    def reply_to(self, question: AppQuestion, tries: Tries) -> Any:
        """The reply to a question: a text, or JSON values.

        Args:
            question: What is asked.
            tries: Counts how often it was sent.

        Raises:
            RequestFailed, ModelOutputError: This question has no reply.
            CannotRun: No question would have one.
        """


class AppServer(Server):
    """A server that is no language model's: its messages name --app."""

    def error_of_status(self, reply: httpx2.Response, content: bytes | None) -> Exception:
        """The exception for a reply by its HTTP status; any status says that the server is
        alive."""
        code = reply.status_code
        if content is None:
            return RequestFailed(f"status {code}")
        if 300 <= code < 400:
            return CannotRun(
                f"{self.base_url} answers with a redirect ({code}); give the final address as --app"
            )
        if code in (401, 402, 403) and self.key_env is None:
            return CannotRun(
                f"{self.base_url} refuses us (status {code}); name the variable that holds its "
                "key: --app-key NAME"
            )
        if code in (404, 405):
            return CannotRun(
                f"{self.base_url} takes no questions at this address (status {code}); correct --app"
            )
        # Without the content, no field of it is taken for a setting of a model.
        return super().error_of_status(reply, None)


class HttpCall(Call):
    """A POST of the body to the application's address."""

    def __init__(self, config: ModelConfig, settings: AppSettings) -> None:
        assert config.base_url is not None  # application_facts refuses it otherwise
        values = settings.header_values()
        policy = RetryPolicy(config.timeout, config.retries)
        self._settings = settings
        self._server = AppServer(
            config.base_url, api_key(config), policy, config.api_key_env, headers=values
        )
        self._server.mask_key = _all_masked(
            [self._server.mask_key, *map(key_mask, values.values())]
        )

    def check(self) -> None:
        """Raise CannotRun where no server answers at the address."""
        self._server.check_alive()

    def reply_to(self, question: AppQuestion, tries: Tries) -> Any:
        """The reply, as `Call.reply_to`."""
        content = self._settings.request(question).encode("utf-8", "replace")
        return self._server.request("", _no_problem, _MOST_BYTES, tries, content, parse=_parsed)


def _all_masked(masks: list[Callable[[str], str]]) -> Callable[[str], str]:
    """A function that masks every key."""

    def mask(text: str) -> str:
        for one in masks:
            text = one(text)
        return text

    return mask


def _no_problem(_: Any) -> None:
    """Every reply is read, and one that says nothing is the question's failure, not the server's."""


def _parsed(kind: str, body: bytes) -> Any:
    """The reply as JSON values, or as text where it is plain text."""
    if kind == "text/plain":
        return body.decode("utf-8", "replace")
    return parse_json(kind, body)


class FunctionCall(Call):
    """A function of the user's own, called with the question's text; it may be async."""

    def __init__(self, config: ModelConfig, settings: AppSettings) -> None:
        assert settings.function is not None
        self._target = settings.function
        self._timeout = config.timeout
        self._function = app_function(self._target)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()

    def check(self) -> None:
        """Nothing: the function was found."""

    def reply_to(self, question: AppQuestion, tries: Tries) -> Any:
        """What the function returns, as `Call.reply_to`."""
        tries.made += 1
        tries.sent += 1
        value = self._function(question.question)
        if inspect.isawaitable(value):
            value = self._awaited(value)
        return self._as_json(value)

    def _awaited(self, value: Awaitable[Any]) -> Any:
        """The result of an async function. All run in one event loop, so that a client that the
        application keeps stays usable."""

        async def result() -> Any:
            return await asyncio.wait_for(value, self._timeout)

        try:
            return asyncio.run_coroutine_threadsafe(result(), self._running_loop()).result()
        except TimeoutError:
            raise RequestFailed(
                f"{self._target} gave no reply within {self._timeout:g} seconds"
            ) from None

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        """The event loop of this application, in a thread of its own."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, daemon=True).start()
            return self._loop

    def _as_json(self, value: Any) -> Any:
        """A reply as JSON values. Raises ModelOutputError for what is none."""
        if is_dataclass(value) and not isinstance(value, type):
            value = asdict(value)
        try:
            return json.loads(json.dumps(value))
        except (TypeError, ValueError) as error:
            raise ModelOutputError(
                f"{self._target} returned what is no JSON ({error}); it should return a text or "
                "{'answer': text, 'sources': [names], 'contexts': [texts]}"
            ) from None
