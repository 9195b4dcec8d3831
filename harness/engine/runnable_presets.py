"""Which presets a model can serve, by its capabilities."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from harness.config import presets, registry
from harness.config.yaml_tree import Tree
from harness.errors import HarnessError
from harness.method import Method
from harness.method.abilities import needs_trained_adapters


def runnable_presets(capabilities: Collection[str]) -> list[str]:
    """Names of presets that run on a model with `capabilities`: the first preset of each
    implementation, sorted.

    Left out are presets on the supporting passages alone, those that need trained adapters, and
    unreadable ones.
    """
    by_implementation: dict[str, str] = {}
    for preset in preset_methods():
        lacking: set[str] = set()
        for need in preset.method.needs.values():
            lacking |= need - set(capabilities)
        if not lacking and not needs_trained_adapters(preset.method):
            by_implementation.setdefault(preset.implementation, preset.name)
    return sorted(by_implementation.values())


@dataclass(frozen=True)
class PresetMethod:
    """A preset with its method.

    Attributes:
        name: The preset's name.
        implementation: "module:Class" of the method.
        method: The method with the preset's settings.
    """

    name: str
    implementation: str
    method: Method


def preset_methods() -> Iterator[PresetMethod]:
    """Make the method of each preset.

    Skipped are presets with `view: evidence`, which see the supporting passages only, and presets
    that cannot be read.
    """
    for name in presets.names("methods"):
        try:
            tree = Tree(presets.read("methods", name))
            if tree.values.get("view", "document") == "evidence":
                continue
            implementation = str(tree.values.get("implementation"))
            cls: type[Method] = registry.load(implementation, Method)
            method = cls(cls.Config.model_validate(tree.values.get("params", {})))
        except (HarnessError, ValueError, TypeError):
            # `harness validate` reports the mistake. TypeError: a method class without answer().
            continue
        yield PresetMethod(name, implementation, method)
