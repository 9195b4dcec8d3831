"""The skills that methods declare, by name; a reader adapter is trained and measured on them.

declared()["answer"].play(scene, tools)
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from harness.config import presets, registry
from harness.method import Method, Skill


def declared(parameters: Mapping[str, Mapping[str, Any]] | None = None) -> dict[str, Skill]:
    """Every skill that a method preset declares or that methods share; of equal names the first.

    parameters: preset -> parameters that are not the defaults; replaced prompts among them change a skill's texts.
    """
    skills: dict[str, Skill] = {skill.name: skill for skill in import_module("methods.summary").SKILLS}
    for method in methods(parameters or {}).values():
        for skill in method.skills():
            skills.setdefault(skill.name, skill)
    return skills


def owners() -> dict[str, str]:
    """Skill -> the implementation that alone declares it; skills that several declare have none."""
    found: dict[str, set[str]] = {}
    for preset, method in methods({}).items():
        target = {k: v for _, values in presets.read("methods", preset) for k, v in values.items()}["implementation"]
        for skill in method.skills():
            found.setdefault(skill.name, set()).add(target)
    return {name: next(iter(targets)) for name, targets in found.items() if len(targets) == 1}


def prompts() -> dict[str, str]:
    """ "preset: name of the prompt" -> text, for the defaults of every method; each text once, by its first preset."""
    names: dict[str, str] = {}
    for preset, method in methods({}).items():
        for name, text in method.prompts().items():
            names.setdefault(text, f"{preset}: {name}")
    return {name: text for text, name in names.items()}


def methods(parameters: Mapping[str, Mapping[str, Any]]) -> dict[str, Method]:
    """Preset -> method: the first preset of each implementation."""
    table = {presets.fold(name): params for name, params in parameters.items()}
    made: dict[str, Method] = {}
    seen: set[str] = set()
    for name in presets.names("methods"):
        target = {k: v for _, values in presets.read("methods", name) for k, v in values.items()}.get("implementation")
        if target is None or target in seen:
            continue
        seen.add(target)
        cls: type[Method] = registry.load(target, Method)
        params = {key: value for key, value in table.get(presets.fold(name), {}).items() if key != "roles"}
        made[name] = cls(cls.Config(**params))
    return made
