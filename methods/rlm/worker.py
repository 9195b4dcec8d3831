"""The process that runs a model's code: a Python session that may only compute.

    stdin    {"text": "..."}                             the variable `context`, first
             {"code": "print(len(context))"}             a block
             {"replies": ["Kelford"]}                    what a model replied to questions
    stdout   {"ready": true}                             `context` is set
             {"ask": ["Where is ..."], "deep": false}    questions of the running block
             {"printed": "...", "answer": null, "names": ["hits"]}   the block has ended

It is started by methods/rlm/repl.py as a script, in an empty folder, without an environment. Before
it reads anything it gives up all system calls but a few (`confine`): it can open no file and no
socket, start no process and send no signal. What it prints in a block is kept, not written.
"""

import ast
import base64
import bisect
import collections
import copy
import csv
import ctypes
import dataclasses
import datetime
import decimal
import difflib
import fractions
import functools
import heapq
import html
import io
import itertools
import json
import linecache
import math
import operator
import pprint
import random
import re
import resource
import statistics
import string
import struct
import sys
import textwrap
import traceback
import typing
import unicodedata
from contextlib import redirect_stderr, redirect_stdout

# Modules that code may import: nothing can be read from the disk later.
PRELOADED = (
    ast, base64, bisect, collections, copy, csv, dataclasses, datetime, decimal, difflib, fractions,
    functools, heapq, html, itertools, linecache, math, operator, pprint, random, re, statistics,
    string, textwrap, traceback, typing, unicodedata,
)  # fmt: skip
# System calls that computing needs, by their numbers on x86-64: read, write, mmap, mprotect,
# munmap, brk, rt_sigaction, rt_sigprocmask, rt_sigreturn, sched_yield, mremap, madvise, exit,
# gettimeofday, futex, clock_gettime, exit_group, getrandom.
ALLOWED_CALLS = (0, 1, 9, 10, 11, 12, 13, 14, 15, 24, 25, 28, 60, 96, 202, 228, 231, 318)
X86_64 = 0xC000003E
# Of the kernel's filters (linux/bpf_common.h, linux/seccomp.h, linux/prctl.h).
LOAD, JUMP_EQUAL, JUMP_AT_LEAST, RETURN = 0x20, 0x15, 0x35, 0x06
KILL, REFUSE, ALLOW = 0x80000000, 0x00050001, 0x7FFF0000
OTHER_ABI = 0x40000000  # numbers from here on are those of the x32 ABI
NO_NEW_PRIVILEGES, SECCOMP, FILTER = 38, 22, 2


def limit_resources(memory_bytes: int, cpu_seconds: int) -> None:
    """Bound the process.

    Args:
        memory_bytes: Most bytes of its address space.
        cpu_seconds: Most seconds of processor time.
    """
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def confine() -> None:
    """Give up all system calls but ALLOWED_CALLS, for good, by a filter in the kernel.

    A call of another number fails with "operation not permitted"; one of another architecture kills
    the process.

    Raises:
        OSError: The kernel refuses the filter.
    """
    # A program of the kernel's filters. struct seccomp_data: the call's number is at 0, the
    # architecture at 4. A jump says how many instructions are left out if true, if false.
    program = [
        _instruction(LOAD, 0, 0, 4),  # the architecture
        _instruction(JUMP_EQUAL, 1, 0, X86_64),  # over the next one
        _instruction(RETURN, 0, 0, KILL),
        _instruction(LOAD, 0, 0, 0),  # the call's number
        _instruction(JUMP_AT_LEAST, len(ALLOWED_CALLS), 0, OTHER_ABI),  # to REFUSE
    ]
    for place, call_number in enumerate(ALLOWED_CALLS):
        to_allow = len(ALLOWED_CALLS) - place
        program.append(_instruction(JUMP_EQUAL, to_allow, 0, call_number))
    program += [_instruction(RETURN, 0, 0, REFUSE), _instruction(RETURN, 0, 0, ALLOW)]
    program_bytes = b"".join(program)
    buffer = ctypes.create_string_buffer(program_bytes, len(program_bytes))
    # struct sock_fprog: the number of instructions, and where they are.
    filter_description = struct.pack("HP", len(program), ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0) or libc.prctl(SECCOMP, FILTER, filter_description):
        raise OSError(ctypes.get_errno(), "the kernel takes no filter of system calls")


def _instruction(code: int, if_true: int, if_false: int, value: int) -> bytes:
    """One instruction of the kernel's filters as bytes (struct sock_filter).

    Args:
        code: What it does, such as LOAD or RETURN.
        if_true: How many instructions a jump leaves out where its condition holds.
        if_false: How many it leaves out where not.
        value: The number that it loads from, compares with, or returns.
    """
    return struct.pack("HBBI", code, if_true, if_false, value)


class Session:
    """The variables of the code, and its blocks."""

    def __init__(self, text: str) -> None:
        """Begin with the variables that the session provides, `context` being the text."""
        self._text = text
        self._variables: dict[str, object] = {}
        self._set_provided_variables()
        self._variables["answer"] = {"content": "", "ready": False}

    def run(self, code: str) -> dict[str, object]:
        """Run a block of code. The final answer is the content of the variable `answer`, once the code
        has set it ready: {"content": "Toren", "ready": True}.

        Returns:
            {"printed": its output, errors included, "answer": the final answer or None, "names":
                the variables that the code has made}.
        """
        printed = io.StringIO()
        with redirect_stdout(printed), redirect_stderr(printed):
            try:
                exec(compile(code, "<repl>", "exec"), self._variables)
            except BaseException as error:  # noqa: BLE001 - the model is shown what its code raises
                printed.write(f"{type(error).__name__}: {error}\n")
        self._set_provided_variables()
        answer = self._variables.get("answer")
        final_answer = None
        if isinstance(answer, dict) and answer.get("ready"):
            final_answer = str(answer.get("content", ""))
        return {
            "printed": printed.getvalue(),
            "answer": final_answer,
            "names": self._names_made_by_code(),
        }

    def _set_provided_variables(self) -> None:
        """Set the variables that the session provides anew, whatever a block did to them; `answer`
        stays."""
        self._variables.update(
            context=self._text,
            llm_query=_ask_one,
            llm_query_batched=_ask_harness,
            rlm_query=functools.partial(_ask_one, deep=True),
            rlm_query_batched=functools.partial(_ask_harness, deep=True),
            SHOW_VARS=self._names_made_by_code,
        )

    def _names_made_by_code(self) -> list[str]:
        """The names of the variables that the code has made, without those that begin with "_"."""
        provided = {"context", "llm_query", "llm_query_batched", "SHOW_VARS", "answer"}
        provided |= {"rlm_query", "rlm_query_batched"}
        names_not_provided = [name for name in self._variables if name not in provided]
        return [name for name in names_not_provided if not name.startswith("_")]


def _ask_one(prompt: object, model: object = None, deep: bool = False) -> str:
    """The reply of a model to one question of the code.

    Args:
        prompt: The question.
        model: Not used: the code may name a model, but there is only one.
        deep: Whether the model that is asked gets a session of its own.
    """
    return _ask_harness([prompt], model, deep)[0]


def _ask_harness(prompts: list[object], model: object = None, deep: bool = False) -> list[str]:
    """The replies of a model to questions of the code, in order.

    Args:
        prompts: The questions.
        model: Not used: the code may name a model, but there is only one.
        deep: Whether each question gets a session of its own.
    """
    del model
    _send({"ask": [str(prompt) for prompt in prompts], "deep": deep})
    replies: list[str] = _receive()["replies"]
    return replies


_input = sys.stdin
_output = sys.stdout


def _send(message: dict[str, object]) -> None:
    """Send a message to the harness as a line of JSON."""
    _output.write(json.dumps(message) + "\n")
    _output.flush()


def _receive() -> dict[str, typing.Any]:
    """Read the next message of the harness, a line of JSON; exit where the harness has gone."""
    line = _input.readline()
    if not line:
        sys.exit()
    message: dict[str, typing.Any] = json.loads(line)
    return message


def main() -> None:
    """Run blocks of code until the input ends.

    The two arguments of the command are bytes of memory and seconds of processor time.
    """
    limit_resources(int(sys.argv[1]), int(sys.argv[2]))
    confine()
    session = Session(_receive()["text"])
    _send({"ready": True})
    while True:
        _send(session.run(_receive()["code"]))


if __name__ == "__main__":
    main()
