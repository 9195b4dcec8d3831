"""What is said of the models that come with the project: to whoever runs one, below a table, and beside a paper.

pocket-llama    trained on the synthetic world: made for pocket/*, plumbing on any other data set
random          its answers are noise, on any data set
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from harness.method import Method

if TYPE_CHECKING:
    from harness.config.schema import ModelConfig
    from pocket.eval.card import Card


_WORLD = "pocket"  # the format of data sets that are drawn from the synthetic world


def ticket(model: ModelConfig) -> str:
    """The line before a run with an embedded model."""
    if model.backend == "random":
        return f"{model.name} answers, so its answers are noise; name a real model with --model"
    return f"{model.name} answers, the embedded default (trained on pocket/* only); name a real model with --model"


def caveat(model: Mapping[str, Any], dataset: Mapping[str, Any]) -> str:
    """What an embedded model's numbers on a data set are worth; both as they stand in a run.yaml."""
    name = model["name"]
    if model.get("backend") == "random":
        return f"{name} is a random model: its answers are noise"
    if dataset.get("format") == _WORLD:
        return f"{name} is the embedded model, made for the synthetic world (pocket/*)"
    return f"{name} is trained on pocket/* only: on {dataset['name']} it shows plumbing, no method's quality"


def untrained(models: Iterable[ModelConfig], method: Method, preset: str) -> list[str]:
    """A warning for each embedded model with a card that was not trained on the method's skills as they are now.

    One too for a method that never says what its skills are: of one that does and has none, nothing needs training.
    Reads the card and plays the skills without weights: no torch. Nothing is raised for a skill that cannot be played.
    """
    told = []
    for model in {m.name: m for m in models if m.embedded and m.package}.values():
        if type(method).skills is Method.skills:
            told += _unknown(model, preset)
            continue
        found = _stale(model, method)
        if found:
            told.append(
                f"{model.name} was not trained on what '{preset}' asks of it now ({'; '.join(found)}), so it may do "
                "worse than its card says  (harness pocket skills)"
            )
    return told


def _unknown(model: ModelConfig, preset: str) -> list[str]:
    if _card(model) is None:
        return []
    told = (
        f"'{preset}' declares no skills, so nobody knows whether {model.name} was trained on what it asks, and it may "
        "understand none of it; return its prompts from skills() (harness/method.py), or name a real model with --model"
    )
    return [told]


def _card(model: ModelConfig) -> Card | None:
    from harness.llm.model_info import local_folder
    from pocket.eval import card as cards

    return cards.read(local_folder(model)[0])


def _stale(model: ModelConfig, method: Method) -> list[str]:
    """Skills of the method that the model's card does not vouch for, each with the reason; [] without a card."""
    from pocket.eval import card as cards

    card = _card(model)
    if card is None:
        return []
    found = []
    for skill in method.skills():
        try:
            found += [f"{name}: {why}" for name, why in cards.stale(card, [skill])]
        except Exception as e:  # noqa: BLE001 - told; whether a skill can be played is for `harness pocket check`
            found.append(f"{skill.name}: cannot be played, {type(e).__name__}: {e}")
    return found
