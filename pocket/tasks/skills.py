"""The skills that the embedded model is trained on: those of every method preset, as profile pocket sets it."""

from __future__ import annotations

from functools import cache
from typing import Any

from harness.config import presets
from harness.method import Skill
from harness.training.skills import declared


@cache
def skills() -> dict[str, Skill]:
    """Name -> skill, with the parameters and prompts of profile pocket."""
    return declared(profile_methods())


def profile_methods() -> dict[str, Any]:
    """Preset -> parameters that profile pocket sets."""
    ((_, values),) = presets.read("profiles", "pocket")
    methods: dict[str, Any] = values["methods"]
    return methods
