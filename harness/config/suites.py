"""A suite: methods and data sets that belong together, and the settings they are run with.

methods:                                every method over every data set
  - pecan
  - bm25-topx: {k: from:pecan}          a run with parameters of its own
datasets: [pocket/musique]
profile: pocket                         these three are optional; the command line overrides them
set: [dataset.tokens=1640]              as after --set
limit: 24
models: [pocket-llama, smollm2-135m]    may be left out; every run with each of them
sweep: {method.k: [1, 3]}               may be left out; every run at each combination of these values
parts:                                  may be left out; each is a suite, with what it does not say from above
  - models: [llama-2-70b-chat]          (its `set` is laid over the one above)
  - methods: [full-context-16k]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from harness.config import presets
from harness.config.yaml_tree import parse_assignments
from harness.errors import ConfigError, UserError, unknown

_WithParams = Annotated[dict[str, dict[str, Any]], Field(min_length=1, max_length=1)]


class _SuiteFile(BaseModel):
    """The keys of a suite with their forms, for messages; `limit` is checked by the run's configuration."""

    model_config = ConfigDict(extra="forbid")
    methods: list[str | _WithParams] = Field(min_length=1, description="a list of names, or NAME: {PARAMETER: VALUE}")
    datasets: list[str] = Field(min_length=1, description="a list of names")
    set: list[str] = Field(default=[], description="a list of KEY=VALUE, as after --set")
    models: list[str] = Field(default=[], description="a list of names")
    profile: str | None = Field(default=None, description="the name of a profile")
    limit: Any = None
    sweep: dict[str, Annotated[list[Any], Field(min_length=1)]] = Field(
        default={}, description="a mapping of keys to lists of values, method.k: [1, 3]"
    )
    parts: list[dict[str, Any]] | None = Field(
        default=None, min_length=1, description="a list of mappings, each with what is its own of a suite's keys"
    )


@dataclass(frozen=True)
class Suite:
    """A suite as in its file. sets: key of --set -> value; sweep: key -> values; params: method -> own parameters.

    limit: questions, as it stands in the file: the run's configuration checks it. parts: the suites that it is made of,
    () for one without; methods and datasets are then those of all parts.
    """

    name: str
    methods: Sequence[str]
    datasets: Sequence[str]
    profile: str | None = None
    sets: Mapping[str, Any] = field(default_factory=dict)
    limit: Any = None
    params: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    models: Sequence[str] = ()
    sweep: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    parts: tuple[Suite, ...] = ()


def read_suite(name: str) -> Suite:
    """Read a suite with those that it extends. Raises UnknownName, and ConfigError with the mistakes in its file.

    With `parts`, each has the other keys of the suite too; the result is the first, with methods and data sets of all.
    """
    layers = presets.read("suites", name)
    merged: dict[str, Any] = {key: value for _, values in layers for key, value in values.items()}
    file, name = layers[-1][0], presets.find("suites", name)
    entries = merged.pop("parts", None)
    if entries is None:
        return _parse_suite(name, merged, file)
    if not isinstance(entries, list) or not entries or not all(isinstance(entry, dict) for entry in entries):
        raise ConfigError([f"{file}: 'parts' must be {_SuiteFile.model_fields['parts'].description}"])
    raw_parts = [_parse_suite(name, {**merged, **part, "set": part.get("set")}, file) for part in entries]
    shared_sets = _parse_suite(name, {**merged, **entries[0], "set": merged.get("set")}, file).sets
    parts = tuple(replace(part, sets={**shared_sets, **part.sets}) for part in raw_parts)
    return replace(
        parts[0],
        methods=list(dict.fromkeys(method for part in parts for method in part.methods)),
        datasets=list(dict.fromkeys(dataset for part in parts for dataset in part.datasets)),
        parts=parts,
    )


def chosen_suite(name: str | None, unset: Sequence[str] = ()) -> Suite | None:
    """The suite `name` without the settings whose keys are `unset`; None where `name` is None.

    Raises UserError, also for a key that the suite does not set.
    """
    if name is None:
        if unset:
            raise UserError(f"--unset {','.join(unset)}: leaves out settings of a suite; name one with --suite")
        return None
    suite = read_suite(name)
    parts = suite.parts or (suite,)
    known_keys = list(dict.fromkeys(key for part in parts for key in part.sets))
    for key in unset:
        if key not in known_keys:
            raise unknown(f"setting '{key}' of suite {suite.name} (--unset)", key, known_keys)
    kept_parts = [replace(part, sets={k: v for k, v in part.sets.items() if k not in unset}) for part in parts]
    return replace(suite, sets=kept_parts[0].sets, parts=tuple(kept_parts) if suite.parts else ())


def _parse_suite(name: str, merged: dict[str, Any], file_name: str) -> Suite:
    """Parse `merged`, the keys of a suite or of one of its parts; file_name: for messages. Raises ConfigError."""
    try:
        file = _SuiteFile.model_validate({key: value for key, value in merged.items() if value is not None})
    except ValidationError as e:
        keys = dict.fromkeys(str(error["loc"][0]) for error in e.errors())
        raise ConfigError(
            [
                f"{file_name}: '{key}' must be {_SuiteFile.model_fields[key].description}"
                if key in _SuiteFile.model_fields
                else str(unknown(f"key '{key}' ({file_name})", key, _SuiteFile.model_fields))
                for key in keys
            ]
        ) from None
    sets = parse_assignments(file.set, f"{file_name}, set: ")
    params = {name: values for entry in file.methods if isinstance(entry, dict) for name, values in entry.items()}
    methods = [entry if isinstance(entry, str) else next(iter(entry)) for entry in file.methods]
    return Suite(name, methods, file.datasets, file.profile, sets, file.limit, params, file.models, file.sweep)
