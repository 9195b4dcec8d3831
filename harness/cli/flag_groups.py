"""From a function to a verb of the command line: groups of flags are spread, and its result is the exit code."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, get_type_hints

import typer

PIPE_CLOSED = 141  # 128 + SIGPIPE, what a shell reports for any program whose reader went away


def takes_flags(verb: Callable[..., int]) -> Callable[..., None]:
    """Spread a parameter that is a dataclass over the signature Typer reads; a verb's result is the exit code."""
    own = inspect.signature(verb).parameters
    hints = get_type_hints(verb, include_extras=True)
    groups = {name: hints[name] for name in own if is_dataclass(hints[name])}

    def wrapper(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{f.name: given.pop(f.name) for f in fields(group)})
        try:
            code = verb(**given)
            sys.stdout.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing is left to flush at exit
            code = PIPE_CLOSED
        raise typer.Exit(code)

    parameters: list[inspect.Parameter] = []
    for name, parameter in own.items():
        if name in groups:
            parameters += _spread(groups[name])
        else:
            parameters.append(parameter.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY))
    wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapper.__name__, wrapper.__doc__ = verb.__name__, verb.__doc__
    return wrapper


def _spread(group: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    defaults = {f.name: [] if f.default is MISSING else f.default for f in fields(group)}
    kind = inspect.Parameter.KEYWORD_ONLY
    return [inspect.Parameter(n, kind, default=default, annotation=hints[n]) for n, default in defaults.items()]
