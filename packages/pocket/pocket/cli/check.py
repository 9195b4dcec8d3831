"""`harness pocket check`: whether a model, and the adapters that come with it, still fit the methods' prompts.

adapter_problems(config, folder)     {"analysis": None, "selection": "the adapter 'selection' was trained on other ..."}

Of adapters only headers and cards are read, no weights are loaded. An adapter was trained on one set of weights and one
wording; of others it is worse than none.
"""

import importlib.util
from collections.abc import Iterator
from pathlib import Path

from harness.cli.output import say
from harness.config.schema import ModelConfig
from harness.errors import CannotRun, UserError
from harness.llm import adapters
from pocket.card import NAME, check_weights
from pocket.cli.model_card import Model, model_card, model_folder
from pocket.eval.card import stale

FAILED = 4


def check(folder: Model = None) -> int:
    """Fail where a method needs a skill that the model was not trained on.

    Without a folder, also checks the adapters that come with the embedded model. The exit code is 4 if a check failed.
    """
    from pocket.tasks.catalog import skills as declared

    where = model_folder(folder)
    check_weights(where)
    known = declared()
    wrong = stale(model_card(where), known.values())
    for name, why in wrong:
        say(f"the skill '{name}' of the model in {where}: {why}; train again with: harness pocket train")
    if not wrong:
        print(f"ok  {len(known)} skills are as they were trained")
    fits = folder is not None or _adapters_fit(where)
    return 0 if fits and not wrong else FAILED


def _adapters_fit(where: Path) -> bool:
    """Print which of the embedded model's adapters do not fit; return whether all do."""
    from harness.config.resolve import resolved

    if importlib.util.find_spec("peft") is None:
        say("the adapters are not checked: they need the package peft")
        return True
    found = adapter_problems(resolved("models", model=NAME), where)
    wrong = [why for why in found.values() if why is not None]
    for sentence in wrong:
        say(sentence)
    if wrong:
        say("these adapters come with the package; train them again with: make adapters")
    elif found:
        print(f"ok  {len(found)} adapters fit the weights and the prompts")
    return not wrong


def adapter_problems(config: ModelConfig, folder: Path) -> dict[str, str | None]:
    """For each adapter that `config` offers its worst problem with the weights in `folder`, or None.

    Returns {} if no adapters are bundled. Raises CannotRun if the weights cannot be read.
    """
    from harness.llm.model_info import hash_files

    there = adapters.with_bundled_adapters(config, config.offers).adapters
    if not there:
        return {}
    base = adapters.Base(config.name, folder, {"files": hash_files(folder)})
    absent = "the adapter '{}' is not in the package"
    return {
        name: next(_adapter_problems(name, Path(there[name]), base), None) if name in there else absent.format(name)
        for name in config.offers
    }


def _adapter_problems(name: str, folder: Path, base: adapters.Base) -> Iterator[str]:
    """Yield the problems of the adapter in `folder`, the most serious first. base: the weights that it must fit."""
    try:
        yield from adapters.check_adapter(name, folder, base)
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
    from harness.config.layers import Choices
    from harness.config.resolve import resolve_part
    from harness.engine.plan import make_method

    made = make_method(resolve_part("methods", Choices(method=preset, profile="pocket")))
    return adapters.prompt_digests(made.prompts())
