"""A Python session in a process of its own, for code that a model wrote.

    with Repl("a long text", limits, ask) as repl:
        repl.run("print(len(context))")        Ran(printed="11\\n", answer=None)

The process may only compute (methods/rlm/worker.py): no file, no network, no other process. It is
bounded in memory, in the time of a block and in what it may print; a block that goes beyond ends it,
and the next one begins with a new process, without the variables.
"""

from __future__ import annotations

import json
import os
import platform
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

WORKER = Path(__file__).with_name("worker.py")
START_SECONDS = 30
MAX_MESSAGE_BYTES = 64 * 2**20  # of a message; the process holds a few times as much
AskModels = Callable[[Sequence[str], bool], list[str]]
"""Questions of the code, and whether they are for a session of their own -> replies."""


def confinement_problem() -> str:
    """One sentence where this machine cannot confine the process, else ""."""
    if sys.platform == "linux" and platform.machine() == "x86_64":
        return ""
    return (
        "the model's code is run in a process that may only compute, which needs Linux on x86-64; "
        "run this method there"
    )


@dataclass(frozen=True)
class Limits:
    """What the code may take.

    Attributes:
        seconds: Most seconds of a block, without the time in which a model replies.
        megabytes: Most memory of the process.
    """

    seconds: float
    megabytes: int


@dataclass(frozen=True)
class BlockResult:
    """What a block did.

    Attributes:
        printed: Its output, errors included.
        answer: The final answer that it gave; None: none.
        names: The variables there are.
    """

    printed: str
    answer: str | None = None
    names: tuple[str, ...] = ()


class Repl:
    """A session over one text."""

    def __init__(self, text: str, limits: Limits, ask: AskModels) -> None:
        """Keep what a process needs; it is started by the first code.

        Args:
            text: The variable `context` of the session.
            limits: What the code may take.
            ask: Answers the questions of the code.
        """
        self._text = text
        self._limits = limits
        self._ask = ask
        self._process: _Process | None = None

    def __enter__(self) -> Repl:
        """The session itself; its process ends with the block."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the process."""
        self._stop()

    def run(self, code: str) -> BlockResult:
        """Run a block of code; the questions that it asks are answered by `ask`. A block that goes
        beyond a limit ends the process, and what is returned says so."""
        try:
            if self._process is None:
                self._process = _Process(self._limits)
                self._process.send({"text": self._text}, START_SECONDS)
                self._process.receive(START_SECONDS)  # {"ready": true}
            return self._run_in_process(self._process, code)
        except _SessionEnded as ended:
            self._stop()
            return BlockResult(f"{ended} The session was started anew: all variables are lost.")

    def _run_in_process(self, process: _Process, code: str) -> BlockResult:
        """Run a block in the process, and answer what the code asks; that time does not count.

        The process sends {"ask": [prompts], "deep": true or false} for a question of the code, and
        at the end the result of the block.

        Raises:
            _SessionEnded: The block goes beyond a limit, or breaks the session.
        """
        seconds_left = self._limits.seconds
        process.send({"code": code}, seconds_left)
        while True:
            start_time = time.monotonic()
            message = process.receive(seconds_left)
            seconds_left -= time.monotonic() - start_time
            if "ask" not in message:
                return _parse_result(message)
            prompts = _as_texts(message["ask"])
            replies = self._ask(prompts, bool(message.get("deep")))
            process.send({"replies": replies}, seconds_left)

    def _stop(self) -> None:
        """End the process, if one runs; the next code starts another."""
        if self._process is not None:
            self._process.kill()
            self._process = None


_BROKEN_BY_CODE = "Error: the code broke the session."


def _parse_result(message: Mapping[str, object]) -> BlockResult:
    r"""The result of a block from the message that the process sends.

        {"printed": "11\n", "answer": null, "names": ["hits"]}
            -> BlockResult("11\n", None, ("hits",))

    Raises _SessionEnded for a message that lacks one of these: code can write any.
    """
    try:
        answer = message["answer"]
        if answer is not None:
            answer = str(answer)
        return BlockResult(
            printed=str(message["printed"]), answer=answer, names=tuple(_as_texts(message["names"]))
        )
    except KeyError as error:
        raise _SessionEnded(_BROKEN_BY_CODE) from error


def _as_texts(value: object) -> list[str]:
    """The items of a list as texts. Raises _SessionEnded for what is no list."""
    if not isinstance(value, list):
        raise _SessionEnded(_BROKEN_BY_CODE)
    return list(map(str, value))


_ENDED_BY_CODE = "Error: the code ended the session, took too much memory, or printed too much."


class _SessionEnded(Exception):
    """The process has ended, or must end; the text says why."""


class _Process:
    """The worker, and lines of JSON to and from it."""

    def __init__(self, limits: Limits) -> None:
        """Start the process in an empty folder, with pipes to it and from it; writing to it does
        not block.

        The limit of a block's seconds is kept by `send` and `receive`; the process itself may take
        the processor time of its start and of 100 such blocks.
        """
        self._folder = tempfile.TemporaryDirectory()
        memory_bytes = limits.megabytes * 2**20
        cpu_seconds = round(limits.seconds * 100) + START_SECONDS
        arguments = [str(memory_bytes), str(cpu_seconds)]
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-X", "utf8", str(WORKER), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=self._folder.name,
            env={},
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input = self._process.stdin.fileno()
        self._output = self._process.stdout.fileno()
        os.set_blocking(self._input, False)
        self._bytes_read = b""

    def send(self, message: Mapping[str, object], seconds: float) -> None:
        """Write a message as a line of JSON. Raises _SessionEnded where the process is gone, or
        does not read it in time."""
        bytes_to_write = json.dumps(message).encode() + b"\n"
        end_time = time.monotonic() + seconds
        while bytes_to_write:
            seconds_left = end_time - time.monotonic()
            if seconds_left <= 0 or not select.select([], [self._input], [], seconds_left)[1]:
                raise _SessionEnded("Error: the code took too long.")
            try:
                written = os.write(self._input, bytes_to_write)
            except OSError as error:
                raise _SessionEnded(_ENDED_BY_CODE) from error
            bytes_to_write = bytes_to_write[written:]

    def receive(self, seconds: float) -> Mapping[str, object]:
        """Read a line of JSON, an object. Raises _SessionEnded where none comes in time, or none
        that can be read."""
        end_time = time.monotonic() + seconds
        while b"\n" not in self._bytes_read:
            seconds_left = end_time - time.monotonic()
            if seconds_left <= 0 or not select.select([self._output], [], [], seconds_left)[0]:
                raise _SessionEnded("Error: the code took too long.")
            new_bytes = os.read(self._output, 2**20)
            self._bytes_read += new_bytes
            if not new_bytes or len(self._bytes_read) > MAX_MESSAGE_BYTES:
                raise _SessionEnded(_ENDED_BY_CODE)
        line, _, self._bytes_read = self._bytes_read.partition(b"\n")
        try:
            message = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise _SessionEnded(_BROKEN_BY_CODE) from error
        if not isinstance(message, dict):
            raise _SessionEnded(_BROKEN_BY_CODE)
        return message

    def kill(self) -> None:
        """End the process, and delete its folder."""
        self._process.kill()
        self._process.communicate()
        self._folder.cleanup()
