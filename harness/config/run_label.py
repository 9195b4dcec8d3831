"""The name of a run's method in tables: the preset's, marked where parameters or prompts differ
from the preset.

    changes_from_preset(...)    "pocket"            a profile other than `paper` replaced values of the preset
                                "chunk_tokens=200"  the user did: up to two settings by name, more by number
    label(method)               "pecan [pocket]"    `method` as it stands in a run.yaml

The reference is the preset under profile `paper` for the same data set
(docs/methods/shared.md#profiles). Only parameters and prompts of the method count, and of these
only those that change a prediction.
"""

from collections.abc import Mapping
from typing import Any

from harness.config.resolve import resolved
from harness.config.schema import MethodChoice
from harness.config.yaml_tree import flatten, value_text
from harness.errors import UserError
from harness.method import Method
from harness.method.settings import recording_fields

_PROFILE = "profile "
_REFERENCE = "paper"
_MOST_NAMED = 2  # settings by name in a mark; more are counted


def label(method: Mapping[str, Any]) -> str:
    """The method's name in tables, "pecan [pocket]"; without a mark (older runs have none) the
    preset's name alone."""
    text = method.get("mark")
    return f"{method['name']} [{text}]" if text else str(method["name"])


def changes_from_preset(
    method: Method, choice: MethodChoice, dataset: str, set_by: Mapping[str, str]
) -> str:
    """How a method differs from its preset, "pocket, k=3": profiles, then settings; "" if it does
    not.

    method: as it runs; choice: its settings; dataset: name; set_by: parameter -> the origin that is
    no preset.
    """
    try:
        preset_name = choice.name.partition("[")[0]  # without the encoder that stands in
        preset = resolved("methods", method=preset_name, dataset=dataset, profile=_REFERENCE)
    except UserError:
        return ""  # a method without a preset
    if preset.implementation != choice.implementation:
        return ""
    # Not validated: the preset may need a package that is not installed, which the run's own
    # settings do without.
    reference = type(method)(type(method.config).model_construct(**preset.params))
    settings_used, preset_settings = _prediction_settings(method), _prediction_settings(reference)
    changed = [key for key in settings_used if settings_used[key] != preset_settings.get(key)]
    profiles, setting_texts = [], []
    for key in changed:
        prompt = key.removeprefix("prompt ").removesuffix(", system")
        origins = (
            o
            for k, o in set_by.items()
            if k == key or k.startswith((f"prompts.{prompt}.", f"{key}."))
        )
        origin = next(origins, "")
        if origin.startswith(_PROFILE):
            profiles.append(origin.removeprefix(_PROFILE))
        else:
            text = value_text(settings_used[key])
            text = text if len(text) <= 24 else text[:21] + "..."
            setting_texts.append(key if key.startswith("prompt ") else f"{key}={text}")
    if len(setting_texts) > _MOST_NAMED:
        setting_texts = [f"{len(setting_texts)} settings"]
    return ", ".join([*dict.fromkeys(profiles), *setting_texts])


def _prediction_settings(method: Method) -> dict[str, Any]:
    """What changes a prediction: parameter ("a.b" where nested) -> value, and "prompt NAME" -> text
    in use."""
    left_out = {"prompts", *recording_fields(type(method.config))}
    params = method.config.model_dump(mode="json", exclude=left_out, warnings=False)
    return {
        **flatten(params),
        **{f"prompt {name}": text for name, text in method.prompts().items()},
    }
