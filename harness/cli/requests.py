"""From the options of a command to the request that Python makes too (harness/api/run_request.py)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.api.run_request import RunRequest
from harness.cli.options import RunOptions, split_names
from harness.config.sweep import parse_axes
from harness.config.yaml_tree import parse_assignments
from harness.errors import UserError


def request_of(
    selection: RunOptions,
    *options: Any,
    sweep: Sequence[str] | None = None,
    repeat: int | None = None,
) -> RunRequest:
    """The request of a command.

    Args:
        selection: What to run.
        options: More dataclasses of options.
        sweep: As typed after --sweep: "KEY=A,B".
        repeat: Number of seeds of each run.

    Raises:
        UserError, ConfigError: A text that cannot be read.
    """
    keep_texts = next((o.keep_texts for o in options if hasattr(o, "keep_texts")), None)
    return RunRequest.of(
        selection,
        *options,
        method=split_names(selection.method),
        dataset=split_names(selection.dataset),
        unset=split_names(selection.unset),
        set=parse_assignments(selection.sets, "--set "),
        sweep=parse_axes(sweep or ()),
        repeat=repeat,
        keep_texts=_yes_or_no(keep_texts),
    )


def _yes_or_no(text: str | None) -> bool | None:
    """The value of --keep-texts. Raises UserError."""
    if text not in (None, "yes", "no"):
        raise UserError(f"--keep-texts {text}: should be yes or no")
    return None if text is None else text == "yes"
