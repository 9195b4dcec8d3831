"""Everything that methods ask of a model, by name: what a reader is trained and measured on.

declared()["answer"].play(scene, tools)
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from harness.config import presets, registry
from harness.method import Method, Skill


def declared(parameters: Mapping[str, Mapping[str, Any]] | None = None) -> dict[str, Skill]:
    """Every skill that a method preset declares, and those that methods share, by name; the first of a name counts.

    parameters: of methods by preset, where they are not the defaults; prompts among them change a skill's words.
    """
    found: dict[str, Skill] = {skill.name: skill for skill in import_module("methods.summary").SKILLS}
    for method in _methods(parameters or {}).values():
        for skill in method.skills():
            found.setdefault(skill.name, skill)
    return found


def prompts() -> dict[str, str]:
    """ "preset: name of the prompt" -> text, of every method as it is without settings."""
    made = _methods({})
    return {f"{preset}: {name}": text for preset, method in made.items() for name, text in method.prompts().items()}


def _methods(parameters: Mapping[str, Mapping[str, Any]]) -> dict[str, Method]:
    """Preset -> method: the first preset of each implementation."""
    table = {presets.fold(name): params for name, params in parameters.items()}
    found: dict[str, Method] = {}
    seen: set[str] = set()
    for name in presets.names("methods"):
        target = {k: v for _, values in presets.read("methods", name) for k, v in values.items()}.get("implementation")
        if target is None or target in seen:
            continue
        seen.add(target)
        cls: type[Method] = registry.load(target, Method)
        params = {key: value for key, value in table.get(presets.fold(name), {}).items() if key != "roles"}
        found[name] = cls(cls.Config(**params))
    return found
