"""Which kinds of request each method makes of a model, and how its adapters are trained.

    skills_of(method)        -> [Skill("answer", ...), Skill("choose", ...)]
    trainings_of(method)     -> [TrainingTask("analysis", ...), ...]

A method is looked up by its class, then by the classes that it inherits from. What stands here is
imported for that method alone, so a run that asks does not import what other methods need.
"""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from harness.method import Method
from harness_training.tasks import Skill, TrainingTask

_HERE = "harness_training.method_skills"

SKILLS = {
    "methods.compression.lingua:LongLLMLingua": f"{_HERE}.compression:ranking_skills",
    "methods.compression.show:CompressedMethod": f"{_HERE}.compression:text_skills",
    "methods.decompose:Decompose": f"{_HERE}.decompose:skills",
    "methods.gist:Gist": f"{_HERE}.gist:skills",
    "methods.long_context:ClosedBook": f"{_HERE}.reading:no_skills",
    "methods.longrefiner.method:LongRefiner": f"{_HERE}.longrefiner:skills",
    "methods.memwalker.method:MemWalker": f"{_HERE}.memwalker:skills",
    "methods.pecan.method:Pecan": f"{_HERE}.pecan:skills",
    "methods.qrmem.method:QRMeM": f"{_HERE}.qrmem:skills",
    "methods.raptor.method:Raptor": f"{_HERE}.summary:detailed_skills",
    "methods.reading:ReadingMethod": f"{_HERE}.reading:skills",
    "methods.summarised:Summarised": f"{_HERE}.summary:shared_skills",
}
"""Class of a method -> the function that gives its skills by its config."""

TRAININGS = {"methods.longrefiner.method:LongRefiner": f"{_HERE}.longrefiner_labels:tasks"}
"""Class of a method -> the function that gives the tasks of its adapters by its config."""


def has_skills_listed(method: Method) -> bool:
    """Whether a method's class, or one that it inherits from, stands in SKILLS, be it without a
    skill."""
    return _target(method, SKILLS) is not None


def skills_of(method: Method) -> list[Skill]:
    """The kinds of request that the method makes of a model; [] where none are listed."""
    target = _target(method, SKILLS)
    if target is None:
        return []
    return list(_load(target)(method.config))


def trainings_of(method: Method) -> Sequence[TrainingTask]:
    """How each adapter of the method is trained; () if it trains none."""
    target = _target(method, TRAININGS)
    if target is None:
        return ()
    tasks: Sequence[TrainingTask] = _load(target)(method.config)
    return tasks


def _target(method: Method, table: Mapping[str, str]) -> str | None:
    """The entry of a table for the method's class, or for the nearest class that it inherits from;
    None without one."""
    for cls in type(method).__mro__:
        name = f"{cls.__module__}:{cls.__qualname__}"
        if name in table:
            return table[name]
    return None


def _load(target: str) -> Any:
    """The function that "module:name" stands for; imports the module."""
    module, _, name = target.partition(":")
    return getattr(import_module(module), name)
