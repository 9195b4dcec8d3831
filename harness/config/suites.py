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
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationError, ValidationInfo

from harness.config import presets
from harness.config.schema import Frozen
from harness.config.yaml_tree import parse_assignments
from harness.errors import ConfigError, UserError, unknown

_PARTS = "a list of mappings, each with what is its own of a suite's keys"
_WithParams = Annotated[dict[str, dict[str, Any]], Field(min_length=1, max_length=1)]


def _parse_sets(texts: Any, info: ValidationInfo) -> dict[str, Any]:
    """Parse the `set` of a suite's file. Raises ValueError for no list of texts, ConfigError for a wrong text."""
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise ValueError
    return parse_assignments(texts, f"{info.context}, set: ")


class Suite(Frozen):
    """A suite as in its file; each description says what its key must be.

    sets: key of --set -> value; limit: as it stands in the file, the run's configuration checks it; parts: the suites
    that it is made of, () for one without; methods and data sets are then those of all parts.
    """

    name: str = Field(description="the name of the suite")
    rows: list[str | _WithParams] = Field(
        alias="methods", min_length=1, description="a list of names, or NAME: {PARAMETER: VALUE}"
    )
    datasets: list[str] = Field(min_length=1, description="a list of names")
    sets: Annotated[dict[str, Any], BeforeValidator(_parse_sets)] = Field(
        default={}, alias="set", description="a list of KEY=VALUE, as after --set"
    )
    models: list[str] = Field(default=[], description="a list of names")
    profile: str | None = Field(default=None, description="the name of a profile")
    limit: Any = None
    sweep: dict[str, Annotated[list[Any], Field(min_length=1)]] = Field(
        default={}, description="a mapping of keys to lists of values, method.k: [1, 3]"
    )
    parts: tuple[Suite, ...] = Field(default=(), description=_PARTS)

    @property
    def methods(self) -> list[str]:
        """The names of the methods."""
        return [row if isinstance(row, str) else next(iter(row)) for row in self.rows]

    @property
    def params(self) -> dict[str, dict[str, Any]]:
        """Method -> its own parameters, for those that have some."""
        return {name: params for row in self.rows if isinstance(row, dict) for name, params in row.items()}


def read_suite(name: str) -> Suite:
    """Read a suite with those that it extends. Raises UnknownName, and ConfigError with the mistakes in its file.

    With `parts`, each has the other keys of the suite too; the result is the first, with methods and data sets of all.
    """
    layers = presets.read("suites", name)
    values: dict[str, Any] = {"name": presets.find("suites", name)}
    for _, layer in layers:
        values |= layer
    file, entries = layers[-1][0], values.pop("parts", None)
    if entries is None:
        return _parse_suite(values, file)
    if not isinstance(entries, list) or not entries or not all(isinstance(entry, dict) for entry in entries):
        raise ConfigError([f"{file}: 'parts' must be {_PARTS}"])
    shared = _parse_suite({**values, **entries[0], "set": values.get("set")}, file).sets
    parts = [_parse_suite({**values, **entry, "set": entry.get("set")}, file) for entry in entries]
    parts = [part.model_copy(update={"sets": {**shared, **part.sets}}) for part in parts]
    methods = dict.fromkeys(method for part in parts for method in part.methods)
    datasets = dict.fromkeys(dataset for part in parts for dataset in part.datasets)
    return parts[0].model_copy(update={"rows": [*methods], "datasets": [*datasets], "parts": tuple(parts)})


def chosen_suite(name: str | None, unset: Sequence[str] = ()) -> Suite | None:
    """The suite `name` without the settings whose keys are `unset`; None where `name` is None.

    Raises UserError, also for a key that the suite does not set.
    """
    if name is None:
        if unset:
            raise UserError(f"--unset {','.join(unset)}: leaves out settings of a suite; name one with --suite")
        return None
    suite = read_suite(name)
    known = dict.fromkeys(key for part in (suite, *suite.parts) for key in part.sets)
    for key in unset:
        if key not in known:
            raise unknown(f"setting '{key}' of suite {suite.name} (--unset)", key, known)
    whole, *parts = (
        part.model_copy(update={"sets": {key: value for key, value in part.sets.items() if key not in unset}})
        for part in (suite, *suite.parts)
    )
    return whole.model_copy(update={"parts": tuple(parts)})


def _parse_suite(values: Mapping[str, Any], file: str) -> Suite:
    """Parse the keys of a suite or of one of its parts; file: for messages. Raises ConfigError with every mistake."""
    try:
        return Suite.model_validate({key: value for key, value in values.items() if value is not None}, context=file)
    except ValidationError as e:
        forms = {field.alias or name: field.description for name, field in Suite.model_fields.items()}
        keys = dict.fromkeys(str(error["loc"][0]) for error in e.errors())
        sentences = {key: f"{file}: '{key}' must be {form}" for key, form in forms.items()}
        raise ConfigError(
            [sentences.get(key) or str(unknown(f"key '{key}' ({file})", key, forms)) for key in keys]
        ) from None
