"""The skills that methods declare, by name; a reader adapter is trained and measured on them.

declared_skills()["answer"].play(scene, tools)
"""

from collections.abc import Mapping

from harness.config import presets, registry
from harness.method import Method
from harness_training.method_skills import skills_of
from harness_training.tasks import Skill


def declared_skills(
    parameters: Mapping[str, Mapping[str, object]] | None = None,
) -> dict[str, Skill]:
    """Name -> skill, of every skill that a method preset declares; of equal names the first.

    Methods ask for summaries in words of their own. The skill "summary" has those of the preset
    `summary`, which does nothing else before it reads.

    Args:
        parameters: Preset -> parameters that are not the defaults; replaced prompts among them
            change a skill's texts.
    """
    methods = methods_by_preset(parameters or {})
    skills: dict[str, Skill] = {}
    for method in [methods["summary"], *methods.values()]:
        for skill in skills_of(method):
            skills.setdefault(skill.name, skill)
    return skills


def presets_by_skill() -> dict[str, list[str]]:
    """Name of a skill -> the presets whose method declares it with default parameters."""
    presets: dict[str, list[str]] = {}
    for preset, target in _implementations().items():
        cls: type[Method] = registry.load(target, Method)
        for skill in skills_of(cls(cls.Config())):
            presets.setdefault(skill.name, []).append(preset)
    return presets


def skill_owners() -> dict[str, str]:
    """Name of a skill -> the implementation that alone declares it; a skill that several declare is
    left out."""
    targets = _implementations()
    owners: dict[str, str] = {}
    for name, declaring in presets_by_skill().items():
        implementations = {targets[preset] for preset in declaring}
        if len(implementations) == 1:
            owners[name] = implementations.pop()
    return owners


def prompts_by_name() -> dict[str, str]:
    """ "preset: name of the prompt" -> its text, for the defaults of every method; each text once,
    by its first preset."""
    name_of_text: dict[str, str] = {}
    for preset, method in methods_by_preset({}).items():
        for name, text in method.prompts().items():
            name_of_text.setdefault(text, f"{preset}: {name}")
    return {name: text for text, name in name_of_text.items()}


def methods_by_preset(parameters: Mapping[str, Mapping[str, object]]) -> dict[str, Method]:
    """Preset -> method, for the first preset of each implementation.

    Args:
        parameters: Preset -> parameters that are not the defaults; a preset that is not in it has
            all defaults.
    """
    # "Pecan" and "pecan" are one name.
    parameters_by_comparable_name = {
        presets.comparable_name(name): values for name, values in parameters.items()
    }
    # "module:Class" -> the first preset of that class.
    preset_of_implementation: dict[str, str] = {}
    for name, target in _implementations().items():
        preset_of_implementation.setdefault(target, name)
    methods: dict[str, Method] = {}
    for target, name in preset_of_implementation.items():
        method_class: type[Method] = registry.load(target, Method)
        values = dict(parameters_by_comparable_name.get(presets.comparable_name(name), {}))
        values.pop("roles", None)  # which models a method asks is no parameter
        methods[name] = method_class(method_class.Config.model_validate(values))
    return methods


def _implementations() -> dict[str, str]:
    """Preset of a method -> its implementation, "module:Class", for those that name one."""
    implementations: dict[str, str] = {}
    for name in presets.names("methods"):
        for _, values in presets.read("methods", name):
            if "implementation" in values:
                implementations[name] = str(values["implementation"])
    return implementations
