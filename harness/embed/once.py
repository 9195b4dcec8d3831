"""Networks of encoders and rerankers, each loaded once a process and used by one thread at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from harness.config.schema import EncoderConfig
from harness.embed.encoder_info import encoder_facts, encoder_folder
from harness.errors import CannotRun, importable
from harness.parallel.scheduler import current

R = TypeVar("R")

_kept: dict[tuple[str, str], Any] = {}


def loaded(config: EncoderConfig, what: str, load: Callable[[str, str | None], Any]) -> tuple[Any, dict[str, Any]]:
    """The network of `config` as load(folder, device) makes it, and its identity; `what` is how messages call it.

    Raises CannotRun when it is missing, is not what it says, or cannot be loaded.
    """
    with importable():
        import transformers

    facts = encoder_facts(config)
    if facts.problems:
        raise CannotRun(facts.problems[0])
    key = (what, config.model_dump_json())
    if key not in _kept:
        transformers.logging.disable_progress_bar()
        device = None if config.device == "auto" else config.device
        try:
            with importable():
                _kept[key] = load(str(encoder_folder(config)), device)
        except (OSError, ValueError, KeyError, RuntimeError) as e:
            raise CannotRun(f"cannot load {what} '{config.name}': {str(e).splitlines()[0]}") from e
    return _kept[key], facts.identity


def one_at_a_time(fn: Callable[[], R]) -> R:
    """fn(), with several questions in flight in the thread of the forward passes: the libraries' tokenizers change
    their own settings with every call, and a pool of threads for each question would slow all of them down.
    """
    scheduler = current()
    return fn() if scheduler is None else scheduler.call(fn)
