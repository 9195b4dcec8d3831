"""Which presets a model can serve, by its capabilities."""

from collections.abc import Collection, Iterator

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
    for name, implementation, method in preset_methods():
        lacking: set[str] = set()
        for need in method.needs.values():
            lacking |= need - set(capabilities)
        if not lacking and not needs_trained_adapters(method):
            by_implementation.setdefault(implementation, name)
    return sorted(by_implementation.values())


def preset_methods() -> Iterator[tuple[str, str, Method]]:
    """(Name, implementation, method) of each preset but those on the supporting passages alone and
    unreadable ones."""
    for name in presets.names("methods"):
        try:
            tree = Tree(presets.read("methods", name))
            if tree.values.get("view", "document") == "evidence":
                continue
            implementation = str(tree.values.get("implementation"))
            cls: type[Method] = registry.load(implementation, Method)
            method = cls(cls.Config(**tree.values.get("params", {})))
        except (HarnessError, ValueError, TypeError):  # a method without answer, too
            continue  # `harness validate` reports the mistake; here the preset is skipped
        yield name, implementation, method
