"""The name of a run's method in tables: the preset's, marked where parameters or prompts differ
from the preset.

    changes_from_preset(...)    "pocket"            a profile other than `paper` replaced values of the preset
                                "chunk_tokens=200"  the user did: up to two settings by name, more by number
    table_label(method)               "pecan [pocket]"    `method` as it stands in a run.yaml

The reference is the preset under profile `paper` for the same data set
(docs/methods/shared.md#profiles). Only parameters and prompts of the method count, and of these
only those that change a prediction.
"""

from collections.abc import Mapping
from typing import Any

from harness.config.layers import Choices
from harness.config.resolve import resolve_method
from harness.config.schema import MethodChoice
from harness.config.yaml_tree import flatten, value_text
from harness.errors import UserError
from harness.method import Method
from harness.method.settings import recording_fields

_PROFILE_ORIGIN = "profile "
SYSTEM_PROMPT = "system prompt "
"""The start of the origin of a system turn that --system-prompt gave; the prompt's name follows."""
_REFERENCE_PROFILE = "paper"
_MAX_NAMED_SETTINGS = 2  # settings by name in a mark; more are counted
_MAX_VALUE_CHARACTERS = 24  # of a value in a mark


def table_label(method: Mapping[str, object]) -> str:
    """The name of a run's method in tables: "pecan [pocket]".

    Without a mark (older runs have none) it is the preset's name alone.

    Args:
        method: The method as it stands in a run.yaml, with its `mark`: what differs from the
            preset, as `changes_from_preset` says it.
    """
    name = str(method["name"])
    mark = method.get("mark")
    if not mark:
        return name
    return f"{name} [{mark}]"


def changes_from_preset(
    method: Method, choice: MethodChoice, dataset: str, origins: Mapping[str, str]
) -> str:
    """Say how a method differs from its preset: "pocket, k=3"; "" if it does not.

    Profiles and a system prompt of the user's own come first, by name, then settings that the user
    gave; of more than _MAX_NAMED_SETTINGS only the number, "7 settings".

    Args:
        method: The method as it runs.
        choice: Its settings.
        dataset: The name of the data set.
        origins: Parameter -> its origin, of those that no preset set.
    """
    preset_settings = _preset_settings(method, choice, dataset)
    if preset_settings is None:
        return ""
    named_changes: dict[str, None] = {}  # as an ordered set
    settings: list[str] = []
    for key, value in _prediction_settings(method).items():
        if value == preset_settings.get(key):
            continue
        origin = _origin_of_setting(key, origins)
        if origin.startswith(SYSTEM_PROMPT):
            named_changes.setdefault(origin)
        elif origin.startswith(_PROFILE_ORIGIN):
            named_changes.setdefault(origin.removeprefix(_PROFILE_ORIGIN))
        else:
            settings.append(_setting_text(key, value))
    if len(settings) > _MAX_NAMED_SETTINGS:
        settings = [f"{len(settings)} settings"]
    return ", ".join([*named_changes, *settings])


def _preset_settings(
    method: Method, choice: MethodChoice, dataset: str
) -> dict[str, object] | None:
    """The settings that change a prediction, and the prompts, as the method's preset has them with
    the profile `paper`.

    {"k": 5, "prompt answer": "..."}; None for a method without a preset, or with a preset of
    another implementation.

    Args:
        method: The method as it runs.
        choice: Its settings, which name the preset.
        dataset: The name of the data set.
    """
    preset_name = choice.name.partition("[")[0]  # without the encoder that stands in
    choices = Choices(method=preset_name, dataset=dataset, profile=_REFERENCE_PROFILE)
    try:
        preset = resolve_method(choices).value
    except UserError:
        return None
    if preset.implementation != choice.implementation:
        return None
    # Not validated: the preset may need a package that is not installed, which the run's own
    # settings do without.
    config_of_preset = type(method.config).model_construct(**preset.params)
    method_as_preset = type(method)(config_of_preset)
    return _prediction_settings(method_as_preset)


def _origin_of_setting(key: str, origins: Mapping[str, str]) -> str:
    """Find what set a parameter or prompt; "" if nothing but a preset did.

    Args:
        key: "k", "prompt answer", or "prompt answer, system" for its system turn.
        origins: Parameter ("k", "prompts.answer.user") -> origin.
    """
    prompt_name = key.removeprefix("prompt ").removesuffix(", system")
    system_turn = f"prompts.{prompt_name}.system"
    if key.endswith(", system") and system_turn in origins:
        return origins[system_turn]
    for parameter, origin in origins.items():
        is_inside = parameter.startswith((f"prompts.{prompt_name}.", f"{key}."))
        if parameter == key or is_inside:
            return origin
    return ""


def _setting_text(key: str, value: Any) -> str:
    """Write a setting for a mark: "k=3", cut to 24 characters of value; of a prompt its name
    alone.
    """
    if key.startswith("prompt "):
        return key
    text = value_text(value)
    if len(text) > _MAX_VALUE_CHARACTERS:
        text = text[: _MAX_VALUE_CHARACTERS - 3] + "..."
    return f"{key}={text}"


def _prediction_settings(method: Method) -> dict[str, object]:
    """The settings of a method that change a prediction, and the prompts in use.

    {"k": 5, "a.b": 1, "prompt answer": "..."}; settings that only record more are left out.
    """
    left_out = {"prompts", *recording_fields(type(method.config))}
    params = method.config.model_dump(mode="json", exclude=left_out, warnings=False)
    settings = flatten(params)
    for name, text in method.prompts().items():
        settings[f"prompt {name}"] = text
    return settings
