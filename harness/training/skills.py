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
    table = {presets.fold(name): params for name, params in (parameters or {}).items()}
    found: dict[str, Skill] = {skill.name: skill for skill in import_module("methods.summary").SKILLS}
    seen: set[str] = set()
    for name in presets.names("methods"):
        target = {k: v for _, values in presets.read("methods", name) for k, v in values.items()}.get("implementation")
        if target is None or target in seen:
            continue
        seen.add(target)
        cls: type[Method] = registry.load(target, Method)
        params = {key: value for key, value in table.get(presets.fold(name), {}).items() if key != "roles"}
        for skill in cls(cls.Config(**params)).skills():
            found.setdefault(skill.name, skill)
    return found
