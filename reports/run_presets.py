"""What does not fit between a run and the presets that its method and data set are called by.

    preset_inconsistencies(run)
        -> ["method.mark is empty, and the settings differ from the preset's (pocket)"]
    unchecked_by_preset(run)
        -> ["evidence_recall, a score of its data set"]

Tables show "bm25 [pocket]" by the mark that the plan wrote. A mark in other words may be of another
version; a missing one, or one that names another value, is of none.
"""

import re
from collections.abc import Iterator, Mapping

from harness.config.layers import Choices
from harness.config.registry import short_name
from harness.config.resolve import DEFAULT_ORIGIN, resolve_dataset, resolve_method
from harness.config.run_label import changes_from_preset
from harness.config.schema import DatasetConfig, MethodChoice, canonical_json
from harness.config.yaml_tree import value_text
from harness.errors import UserError
from harness.method import Method
from harness.storage.run_folder import StoredRun
from reports.declared import configured_shipped_method
from reports.gold_rows import are_rows_made_quickly

_PARAMS_PREFIX = "method.params."
_PRESET_ORIGINS = ("configs/", "$")
_DEFAULT_PROFILE = "paper"  # the profile that is a preset's own
_SETTING_IN_MARK = re.compile(r"(?:^|, )(\w+)=([^,\[]+)(?=, |$)")


def preset_inconsistencies(run: StoredRun) -> Iterator[str]:
    """Yield what does not fit between a whole run's mark and its settings, and between the name
    and the rows of its data set, a sentence each.

    A mark says in the name of a method how it differs from its preset: "k=3" of "bm25 [k=3]".
    """
    yield from _made_up_rows_of_other_name(run)
    method = run.config.method
    mark = method.mark or ""
    if _has_name_of_other_method(run):
        yield f"it is called {method.name}, whose preset is another method"
        return
    changes = _changes_from_preset(run)
    if changes and not mark:
        yield f"method.mark is empty, and the settings differ from the preset's ({changes})"
    params = method.params
    for name, value in _SETTING_IN_MARK.findall(mark):
        is_cut = value.endswith("...")
        if is_cut or name not in params:
            continue
        if value_text(params[name]) != value:
            yield f"method.mark says {name}={value}, method.params has {value_text(params[name])}"
    corpus = run.manifest.corpus
    if corpus is not None and corpus.searched and corpus.searched not in mark:
        yield "method.mark does not name the corpus that was searched"


def _made_up_rows_of_other_name(run: StoredRun) -> Iterator[str]:
    """Yield a sentence where the program makes the rows itself, and they are called by the name of
    a data set of another format."""
    dataset = run.config.dataset
    preset = preset_of_dataset(dataset.name)
    if preset is None or run.manifest.imported is not None:
        return
    if preset.format != dataset.format and are_rows_made_quickly(run):
        yield f"its rows are made up by {dataset.format}, and it is called {dataset.name}"


def preset_of_dataset(name: str) -> DatasetConfig | None:
    """The preset of a data set; None where there is none of this name."""
    try:
        preset: DatasetConfig = resolve_dataset(Choices(dataset=name)).value
    except UserError:
        return None
    return preset


def _has_name_of_other_method(run: StoredRun) -> bool:
    """Whether the run's method has the name of a preset whose implementation is another one.

    Never for a run whose manifest does not record what its hash covers, as an imported run or one
    of an older version: such a run did not take its method from a preset of this version.
    """
    preset = _preset(run, _DEFAULT_PROFILE)
    records_what_was_hashed = not run.manifest.lacks_hashed_values
    if preset is None or not records_what_was_hashed:
        return False
    implementation = str(run.config.method.implementation)
    return short_name(preset.implementation) != short_name(implementation)


def unchecked_by_preset(run: StoredRun) -> Iterator[str]:
    """Yield a phrase for each thing of a whole run that cannot be checked, as the run lacks it or
    has it otherwise than this version; nothing for an imported run or one of an older version."""
    if run.manifest.lacks_hashed_values:
        return
    method = configured_shipped_method(run)
    if method is not None and method.prompts() != run.manifest.prompts:
        yield "what was asked, as its prompts are not those of the method in this version"
    if method is not None:
        yield from _values_unlike_preset(run, method)
    dataset = run.config.dataset
    preset = preset_of_dataset(dataset.name)
    if preset is None:
        return
    for name in preset.scorers:
        if name not in dataset.scorers:
            yield f"{name}, a score of its data set"


def _values_unlike_preset(run: StoredRun, method: Method) -> Iterator[str]:
    """Yield a phrase for each parameter that has not the value which its origin would give it.

    The origin says preset, profile or the method's defaults; in this version these have another
    value.

    Args:
        run: The run.
        method: Its method, with its settings.
    """
    preset_params = _preset_params(run, run.config.profile)
    for name, value in run.config.method.params.items():
        origin = run.origins.get(f"{_PARAMS_PREFIX}{name}", "")
        is_by_preset = origin == DEFAULT_ORIGIN or origin.startswith(("configs/", "profile "))
        field = type(method.config).model_fields.get(name)
        is_from_other_run = name in run.manifest.amounts
        if not is_by_preset or field is None or is_from_other_run:
            continue
        preset_value = preset_params.get(name, field.get_default(call_default_factory=True))
        # run.yaml holds values as JSON does: a tuple as a list
        if preset_value != value and canonical_json(preset_value) != canonical_json(value):
            yield (
                f"whether {name}={value_text(value)} is its preset's, which has "
                f"{name}={value_text(preset_value)} in this version"
            )


def _changes_from_preset(run: StoredRun) -> str:
    """How the settings differ from their preset, as a mark says it: "k=3"; "" if they do not."""
    method = configured_shipped_method(run)
    origins = {**_origins_of_profile_params(run), **_origins_of_user_params(run)}
    if method is None or not origins:
        return ""
    choice = MethodChoice.model_validate({**run.config.method.to_json(), "mark": ""})
    return changes_from_preset(method, choice, run.config.dataset.name, origins)


def _origins_of_user_params(run: StoredRun) -> dict[str, str]:
    """Parameter of the method -> its origin, of those that the user set: {"k": "--set"}.

    Not those of a preset or default, and not those that were taken from another run.
    """
    origins = {}
    for path, origin in run.origins.items():
        if not path.startswith(_PARAMS_PREFIX):  # a setting of another part
            continue
        name = path.removeprefix(_PARAMS_PREFIX)
        is_by_preset = origin == DEFAULT_ORIGIN or origin.startswith(_PRESET_ORIGINS)
        is_from_other_run = name in run.manifest.amounts
        if not is_by_preset and not is_from_other_run:
            origins[name] = origin
    return origins


def _origins_of_profile_params(run: StoredRun) -> dict[str, str]:
    """Parameter -> "profile NAME", of those whose value is that of the run's profile and not that
    of the preset.

    The recorded origins of the values are not looked at.
    """
    profile = run.config.profile
    params = run.config.method.params
    if profile in (None, _DEFAULT_PROFILE):
        return {}
    default_params = _preset_params(run, _DEFAULT_PROFILE)
    profile_params = _preset_params(run, str(profile))
    origins = {}
    for name, value in profile_params.items():
        if params.get(name) == value and default_params.get(name) != value:
            origins[name] = f"profile {profile}"
    return origins


def _preset_params(run: StoredRun, profile: str | None) -> Mapping[str, object]:
    """The parameters of the run's preset under a profile, or without one; {} where there is no
    such preset."""
    preset = _preset(run, profile)
    if preset is None:
        return {}
    return preset.params


def _preset(run: StoredRun, profile: str | None) -> MethodChoice | None:
    """The preset that the run's method is called by, under a profile or without one; None where
    there is none."""
    name = run.config.method.name.partition("[")[0]
    dataset = run.config.dataset.name
    try:
        preset: MethodChoice = resolve_method(
            Choices(method=name, dataset=dataset, profile=profile)
        ).value
    except UserError:
        return None
    return preset
