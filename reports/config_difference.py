"""The settings, versions and code in which two runs differ.

config_difference(run, base)      -> ["method.params.k: 5, reference 10"]
brief_difference(run, base)       the same, shorter where the methods are two different ones
"""

import re
from collections.abc import Iterable, Mapping

from harness.config.registry import short_name
from harness.config.yaml_tree import flatten
from harness.storage.paths import without_home
from harness.storage.run_folder import StoredRun
from harness.storage.stored_config import StoredConfig, StoredSystemPrompt
from reports import facts
from reports.settings import code_hash, made_with

_UNSET = object()
# Neither changes a prediction: a larger limit continues the same folder, origins tell where a value
# came from.
_NOT_COMPARED = ("origins", "limit", "keep_prompts")
# Where something lies, runs or is kept: the fingerprint says whether the rows are the same,
# wherever their file is.
_PLACES = re.compile(
    r"dataset\.(data|keep_texts)|(model|roles\.\w+|encoder|reranker)\.(device|device_map|batch_size)"
)


def config_difference(run: StoredRun, base: StoredRun) -> list[str]:
    """The settings, versions and own code in which two runs differ, a line each.

        -> ["method.params.k: 5, reference 10", "made with torch: 2.4.0, reference 2.3.1"]

    Where one of the runs is an imported one, only settings that both have are compared.
    """
    ours = _compared_settings(run.config)
    theirs = _compared_settings(base.config)
    if facts.is_imported(run) or facts.is_imported(base):
        shared = [key for key in ours if key in theirs and key != "dataset.scorers"]
        return _differing(ours, theirs, shared)
    same_code = ours["method.implementation"] == theirs["method.implementation"]
    ours |= _versions(run, base)
    theirs |= _versions(base, run)
    if same_code:
        ours["code"] = code_hash(run)
        theirs["code"] = code_hash(base)
    return _differing(ours, theirs, dict.fromkeys([*ours, *theirs]))


def brief_difference(run: StoredRun, base: StoredRun) -> list[str]:
    """The settings in which two runs differ, in short.

    For two different methods their parameters are left out, and so is an encoder or reranker that
    only one run has. For two runs of one method, the method's name is left out if anything else
    differs.
    """
    differences = config_difference(run, base)
    # Runs of the first edition hold the name of the class; it counts as today's name.
    method = short_name(str(run.config.method.implementation))
    if method == short_name(str(base.config.method.implementation)):
        without_name = [line for line in differences if not line.startswith("method.name:")]
        return without_name or differences
    left_out = {"method"}
    for part in ("encoder", "reranker"):
        ours = run.config.encoder_of(part)
        theirs = base.config.encoder_of(part)
        if (ours is None) != (theirs is None):
            left_out.add(part)
    return [line for line in differences if line.partition(".")[0] not in left_out]


def _compared_settings(config: StoredConfig) -> dict[str, object]:
    """The settings of a run that are compared, without places of files, devices and limits.

    -> {"method.name": "bm25", "method.params.k": 5, "dataset.name": "musique", ...}
    """
    values = config.to_json()
    for name in _NOT_COMPARED:
        values.pop(name, None)
    settings: dict[str, object] = flatten(without_home(values))
    if config.method.implementation is not None:
        settings["method.implementation"] = short_name(config.method.implementation)
    settings.pop("method.mark", None)
    if config.system_prompt is not None:
        settings = _with_system_prompt(settings, config.system_prompt)
    return {key: value for key, value in settings.items() if not _PLACES.fullmatch(key)}


def _with_system_prompt(
    settings: Mapping[str, object], system: StoredSystemPrompt
) -> dict[str, object]:
    """The settings with a run's system prompt once, under "system prompt".

    It is taken out of every prompt that has it as its system turn.

    Args:
        settings: The settings, by keys with dots.
        system: The run's system prompt.
    """
    found: dict[str, object] = {"system prompt": f"{system.name}: {system.text}"}
    for key, value in settings.items():
        is_turn = key.startswith("method.params.prompts.") and key.endswith(".system")
        repeats = is_turn and value == system.text
        if not repeats and not key.startswith("system_prompt."):
            found[key] = value
    return found


def _versions(run: StoredRun, base: StoredRun) -> dict[str, str]:
    """What the run was made with, {"made with torch": "2.4.0"}, without its rows and without the
    weights of a model that only this run has."""
    versions = made_with(run)
    others = made_with(base)
    found = {}
    for key, version in versions.items():
        if key == "rows":
            continue
        if key.startswith("weights ") and key not in others:
            continue
        found[f"made with {key}"] = version
    return found


def _differing(
    ours: Mapping[str, object], theirs: Mapping[str, object], keys: Iterable[str]
) -> list[str]:
    """A line for each of these settings that differs or that one of the two runs lacks.

    Args:
        ours: Key with dots -> value, of the run.
        theirs: The same of the run that it is compared with.
        keys: The settings to compare.
    """
    lines = []
    for key in keys:
        value = ours.get(key, _UNSET)
        reference = theirs.get(key, _UNSET)
        if value != reference:
            lines.append(f"{key}: {_value_text(value)}, reference {_value_text(reference)}")
    return lines


def _value_text(value: object) -> str:
    """A value in a sentence: as Python writes it, "not set" where the run lacks the setting."""
    if value is _UNSET:
        return "not set"
    return repr(value)
