"""The adapters that come with the embedded model: whether each is there, fits its weights, and knows today's prompts.

    result = check(embedded(), folder)
    result.right      ["analysis", "structuring"]
    result.wrong      ["the adapter 'selection' was trained on other prompts of 'longrefiner'"]

Only headers and cards are read, no weights are loaded. An adapter was trained on one set of weights and one wording; of
others it is worse than none.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from harness.config.layers import Choices
from harness.config.resolve import part, resolve_part
from harness.config.schema import ModelConfig
from harness.engine.plan import make_method
from harness.errors import CannotRun, UserError
from harness.llm import adapters
from harness.llm.model_info import hash_files
from pocket.card import NAME


@dataclass
class Adapters:
    """right: names of those that fit; wrong: sentences; unread: why none could be checked, None where all were."""

    right: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    unread: str | None = None


def embedded() -> ModelConfig:
    """The embedded model as its preset describes it."""
    config: ModelConfig = part("models", model=NAME)
    return config


def check(config: ModelConfig, folder: Path) -> Adapters:
    """Check every adapter that `config` offers against the weights in `folder`. Returns an empty result if no
    adapters are bundled. Raises CannotRun if the weights cannot be read.
    """
    there = adapters.furnished(config, config.offers).adapters
    if not there:
        return Adapters()
    if importlib.util.find_spec("peft") is None:
        return Adapters(unread="the adapters are not checked: they need the package peft")
    base = adapters.Base(config.name, folder, {"files": hash_files(folder)})
    result = Adapters()
    for name in config.offers:
        absent = f"the adapter '{name}' is not in the package"
        why = next(_wrong(name, Path(there[name]), base), None) if name in there else absent
        if why is None:
            result.right.append(name)
        else:
            result.wrong.append(why)
    return result


def _wrong(name: str, folder: Path, base: adapters.Base) -> Iterator[str]:
    """The problems of an adapter, the most serious first."""
    try:
        yield from adapters.check(name, folder, base)
    except CannotRun as error:
        yield str(error)
    card = adapters.read_card(folder)
    if card is None:
        yield f"the adapter '{name}' has no card that says which weights and prompts it was trained on"
        return
    preset, theirs = str(card.get("method")), card.get("prompts")
    try:
        ours = preset_digests(preset)
    except UserError as error:
        yield f"the method that the adapter '{name}' was trained for cannot be made: {error}"
        return
    if not isinstance(theirs, dict) or name not in theirs or not theirs.items() <= ours.items():
        yield f"the adapter '{name}' was trained on other prompts of '{preset}'"


def preset_digests(preset: str) -> dict[str, str]:
    """Name -> digest of a method's prompts under the embedded model's profile. Raises UserError for an unknown one."""
    made = make_method(resolve_part("methods", Choices(method=preset, profile="pocket")))
    return adapters.prompt_digests(made.prompts())
