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
from reports.settings import own_code_hash, run_versions

_UNSET = object()
# Neither changes a prediction: a larger limit continues the same folder, origins tell where a value
# came from.
_KEYS_NOT_COMPARED = ("origins", "limit", "keep_prompts")
# Where something lies, runs or is kept: the fingerprint says whether the rows are the same,
# wherever their file is.
_PATH_KEYS = re.compile(
    r"dataset\.(data|keep_texts)|(model|roles\.\w+|encoder|reranker)\.(device|device_map|batch_size)"
)


def config_difference(run: StoredRun, base: StoredRun) -> list[str]:
    """The settings, versions and own code in which two runs differ, a line each.

        -> ["method.params.k: 5, reference 10", "made with torch: 2.4.0, reference 2.3.1"]

    Where one of the runs is an imported one, only settings that both have are compared.
    """
    run_settings = _compared_settings(run.config)
    base_settings = _compared_settings(base.config)
    if facts.is_imported(run) or facts.is_imported(base):
        shared_keys = [key for key in run_settings if key in base_settings]
        compared_keys = [key for key in shared_keys if key != "dataset.scorers"]
        return _differing_lines(run_settings, base_settings, compared_keys)
    implementation = run_settings["method.implementation"]
    have_same_implementation = implementation == base_settings["method.implementation"]
    run_settings |= _compared_versions(run, base)
    base_settings |= _compared_versions(base, run)
    if have_same_implementation:  # else own code differs in any case
        run_settings["code"] = own_code_hash(run)
        base_settings["code"] = own_code_hash(base)
    keys_of_either = dict.fromkeys([*run_settings, *base_settings])
    return _differing_lines(run_settings, base_settings, keys_of_either)


def brief_difference(run: StoredRun, base: StoredRun) -> list[str]:
    """The settings in which two runs differ, in short.

    For two different methods their parameters are left out, and so is an encoder or reranker that
    only one run has. For two runs of one method, the method's name is left out if anything else
    differs.
    """
    lines = config_difference(run, base)
    # Runs of the first edition hold the name of the class; it counts as today's name.
    method = short_name(str(run.config.method.implementation))
    if method == short_name(str(base.config.method.implementation)):
        lines_without_name = [line for line in lines if not line.startswith("method.name:")]
        return lines_without_name or lines
    left_out_parts = {"method"}
    for role in ("encoder", "reranker"):
        run_has_it = run.config.encoder_of(role) is not None
        base_has_it = base.config.encoder_of(role) is not None
        if run_has_it != base_has_it:
            left_out_parts.add(role)
    return [line for line in lines if line.partition(".")[0] not in left_out_parts]


def _compared_settings(config: StoredConfig) -> dict[str, object]:
    """The settings of a run that are compared, without places of files, devices and limits.

    -> {"method.name": "bm25", "method.params.k": 5, "dataset.name": "musique", ...}
    """
    values = config.to_json()
    for name in _KEYS_NOT_COMPARED:
        values.pop(name, None)
    settings: dict[str, object] = flatten(without_home(values))
    if config.method.implementation is not None:
        settings["method.implementation"] = short_name(config.method.implementation)
    settings.pop("method.mark", None)
    if config.system_prompt is not None:
        settings = _with_system_prompt(settings, config.system_prompt)
    return {key: value for key, value in settings.items() if not _PATH_KEYS.fullmatch(key)}


def _with_system_prompt(
    settings: Mapping[str, object], system: StoredSystemPrompt
) -> dict[str, object]:
    """The settings with a run's system prompt once, under "system prompt".

    It is taken out of every prompt that has it as its system turn.

    Args:
        settings: The settings, by keys with dots.
        system: The run's system prompt.
    """
    merged: dict[str, object] = {"system prompt": f"{system.name}: {system.text}"}
    for key, value in settings.items():
        is_turn = key.startswith("method.params.prompts.") and key.endswith(".system")
        repeats_system_prompt = is_turn and value == system.text
        if not repeats_system_prompt and not key.startswith("system_prompt."):
            merged[key] = value
    return merged


def _compared_versions(run: StoredRun, base: StoredRun) -> dict[str, str]:
    """What the run was made with, {"made with torch": "2.4.0"}, without its rows and without the
    weights of a model that only this run has."""
    versions = run_versions(run)
    base_versions = run_versions(base)
    compared = {}
    for key, version in versions.items():
        if key == "rows":
            continue
        if key.startswith("weights ") and key not in base_versions:
            continue
        compared[f"made with {key}"] = version
    return compared


def _differing_lines(
    run_settings: Mapping[str, object], base_settings: Mapping[str, object], keys: Iterable[str]
) -> list[str]:
    """A line for each of these settings that differs or that one of the two runs lacks.

    Args:
        run_settings: Key with dots -> value, of the run.
        base_settings: The same of the run that it is compared with.
        keys: The settings to compare.
    """
    lines = []
    for key in keys:
        value = run_settings.get(key, _UNSET)
        base_value = base_settings.get(key, _UNSET)
        if value != base_value:
            lines.append(f"{key}: {_value_text(value)}, reference {_value_text(base_value)}")
    return lines


def _value_text(value: object) -> str:
    """A value in a sentence: as Python writes it, "not set" where the run lacks the setting."""
    if value is _UNSET:
        return "not set"
    return repr(value)
