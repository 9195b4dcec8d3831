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

from collections.abc import Collection, Sequence
from typing import Annotated

from pydantic import BeforeValidator, Field

from harness.config import presets
from harness.config.schema import Frozen
from harness.config.yaml_tree import Tree, parse_assignments, validate_tree
from harness.errors import ConfigError, UserError, unknown_name_error


def _parse_methods(rows: object) -> dict[str, object]:
    """Parse a suite's `methods`: ["pecan", {"bm25": {"k": 3}}] -> {"pecan": {}, "bm25": {"k": 3}}.

    Raises ValueError, as pydantic asks, for a mistake.
    """
    if not isinstance(rows, list) or not all(isinstance(row, str | dict) for row in rows):
        raise ValueError("should be a list of names, or NAME: {PARAMETER: VALUE}")
    methods: dict[str, object] = {}
    for row in rows:
        if isinstance(row, str):
            methods[row] = {}
        else:
            methods |= row
    return methods


def _parse_sets(texts: object) -> dict[str, object]:
    """Parse a suite's `set`: ["method.k=3"] -> {"method.k": 3}.

    Raises ValueError, as pydantic asks, for a mistake.
    """
    if not isinstance(texts, list):
        raise ValueError("should be a list of KEY=VALUE, as after --set")
    try:
        return parse_assignments(map(str, texts), prefix="")
    except ConfigError as config_error:
        raise ValueError("; ".join(config_error.sentences)) from config_error


class Suite(Frozen):
    """A suite as in its file.

    Attributes:
        name: Its name.
        methods: Name -> the method's own parameters in it.
        datasets: Names.
        sets: Key of --set -> value.
        models: Names; () for the model of the command.
        profile: The profile's name; None for none.
        limit: As it stands in the file; the run's configuration checks it.
        sweep: Key -> the values that it is swept over.
        parts: The suites that it is made of, () for one without; its methods and data sets are then
            those of all parts.
    """

    name: str
    methods: Annotated[dict[str, dict[str, object]], BeforeValidator(_parse_methods)] = Field(
        min_length=1
    )
    datasets: list[str] = Field(min_length=1)
    sets: Annotated[dict[str, object], BeforeValidator(_parse_sets)] = Field(
        default={}, alias="set"
    )
    models: tuple[str, ...] = ()
    profile: str | None = None
    limit: object = None
    sweep: dict[str, list[object]] = Field(default={})
    parts: tuple[Suite, ...] = ()


def read_suite(name: str) -> Suite:
    """Read a suite with those that it extends.

    With `parts`, each part has the other keys of the suite too; the result is the first part with
    methods and data sets of all.

    Raises:
        UnknownName: There is no such suite.
        ConfigError: The mistakes in its file.
    """
    layers = presets.read("suites", name)
    values: dict[str, object] = {"name": presets.find("suites", name)}
    for layer in layers:
        values |= layer.values
    file = layers[-1].origin
    part_entries = values.pop("parts", None)
    if part_entries is None:
        return validate_tree(Suite, Tree([(file, values)]), path="")
    if not isinstance(part_entries, list) or not _are_only_mappings(part_entries):
        sentence = f"{file}: 'parts' must be a list of mappings, each with what is its own of a suite's keys"
        raise ConfigError([sentence])
    return _joined_parts(_make_parts(file, values, part_entries))


def _are_only_mappings(entries: Sequence[object]) -> bool:
    """Whether a list holds at least one mapping, and nothing else."""
    return bool(entries) and all(isinstance(entry, dict) for entry in entries)


def _make_parts(
    file: str, values: dict[str, object], part_entries: list[dict[str, object]]
) -> list[Suite]:
    """Make the parts of a suite; what a part does not say itself it has from the suite.

    Args:
        file: The suite's file, for messages.
        values: Its keys but `parts`.
        part_entries: Its parts, as they stand in the file.

    Raises:
        ConfigError: A mistake in a part.
    """
    # The suite's own `set` is parsed in the first part, as a Suite needs the keys of a part too.
    first_with_suite_set = {**values, **part_entries[0], "set": values.get("set", [])}
    suite_sets = validate_tree(Suite, Tree([(file, first_with_suite_set)]), path="").sets
    parts: list[Suite] = []
    for part_entry in part_entries:
        own_values = {**values, "set": [], **part_entry}
        part = validate_tree(Suite, Tree([(file, own_values)]), path="")
        sets = {**suite_sets, **part.sets}
        parts.append(part.model_copy(update={"sets": sets}))
    return parts


def _joined_parts(parts: list[Suite]) -> Suite:
    """Join the parts of a suite: the first part, with methods and data sets of all."""
    methods: dict[str, dict[str, object]] = {}
    datasets: dict[str, None] = {}  # as an ordered set
    for part in parts:
        methods |= part.methods
        datasets |= dict.fromkeys(part.datasets)
    values_of_all = {"methods": methods, "datasets": list(datasets), "parts": tuple(parts)}
    return parts[0].model_copy(update=values_of_all)


def chosen_suite(name: str | None, unset: Sequence[str] = ()) -> Suite | None:
    """Read the suite of a command, without the settings that --unset leaves out.

    Args:
        name: The suite; None without one.
        unset: Keys of its settings that do not hold.

    Returns:
        None where `name` is None.

    Raises:
        UserError: There is no such suite, or it does not set such a key.
    """
    if name is None:
        if unset:
            raise UserError(
                f"--unset {','.join(unset)}: leaves out settings of a suite; name one with --suite"
            )
        return None
    suite = read_suite(name)
    set_keys = dict.fromkeys(suite.sets)
    for part in suite.parts:
        set_keys |= dict.fromkeys(part.sets)
    for key in unset:
        if key not in set_keys:
            raise unknown_name_error(
                f"setting '{key}' of suite {suite.name} (--unset)", key, set_keys
            )
    parts = tuple(_without_sets(part, unset) for part in suite.parts)
    return _without_sets(suite, unset).model_copy(update={"parts": parts})


def _without_sets(suite: Suite, keys: Collection[str]) -> Suite:
    """A copy of the suite that does not set these keys."""
    sets = {key: value for key, value in suite.sets.items() if key not in keys}
    return suite.model_copy(update={"sets": sets})
