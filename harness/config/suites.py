"""A suite: methods and data sets that belong together, and the settings they are run with.

methods:                                every method over every data set
  - pecan
  - bm25-topx: {k: from:pecan}          a row with parameters of its own
datasets: [pocket/musique]
profile: pocket                         these three are optional; the command line overrides them
set: [dataset.tokens=1640]              as after --set
limit: 24
models: [pocket-llama, smollm2-135m]    may be left out; every row with each of them
sweep: {method.k: [1, 3]}               may be left out; every row at each combination of these values
parts:                                  may be left out; each is a suite, with what it does not say from above
  - models: [llama-2-70b-chat]          (its `set` is laid over the one above)
  - methods: [full-context-16k]
twin: {limit: 4}                        may be left out, or empty: pocket-NAME is the same on the made-up data sets,
                                        with the settings of configs/twins.yaml and these
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from harness.config import presets
from harness.config.yaml_tree import parse_assignments
from harness.errors import ConfigError, UserError, close_matches, unknown

_LISTS = {
    "methods": "names, or NAME: {PARAMETER: VALUE}",
    "datasets": "names",
    "set": "KEY=VALUE, as after --set",
    "models": "names",
}
_OPTIONAL = ("set", "models")
_KEYS = (*_LISTS, "profile", "limit", "sweep", "parts")


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
    shown, name = layers[-1][0], presets.find("suites", name)
    listed = merged.pop("parts", None)
    if listed is None:
        return _parse_suite(name, merged, shown)
    if not isinstance(listed, list) or not listed or not all(isinstance(part, dict) for part in listed):
        raise ConfigError([f"{shown}: 'parts' must be a list of mappings, each with what is its own of a suite's keys"])
    above, problems = _parse_sets(merged.pop("set", None), shown)
    if problems:
        raise ConfigError(problems)
    own = [_parse_suite(name, {**merged, **part}, shown) for part in listed]
    parts = tuple(replace(part, sets={**above, **part.sets}) for part in own)
    return replace(
        parts[0],
        methods=list(dict.fromkeys(method for part in parts for method in part.methods)),
        datasets=list(dict.fromkeys(dataset for part in parts for dataset in part.datasets)),
        parts=parts,
    )


def chosen_suite(name: str | None, unset: Sequence[str] = ()) -> Suite | None:
    """The suite `name` without the settings whose keys are `unset`; None where `name` is None. Raises UserError."""
    if name is None:
        if unset:
            raise UserError(f"--unset {','.join(unset)}: leaves out settings of a suite; name one with --suite")
        return None
    return without_settings(read_suite(name), unset)


def without_settings(suite: Suite, keys: Sequence[str]) -> Suite:
    """The suite without its settings of these keys. Raises UserError for a key that it does not set."""
    parts = suite.parts or (suite,)
    known = list(dict.fromkeys(key for part in parts for key in part.sets))
    for key in keys:
        if key not in known:
            near = close_matches(key, known)
            hint = f"did you mean '{near[0]}'?" if near else f"it sets: {', '.join(known) or 'nothing'}"
            raise UserError(f"--unset {key}: suite {suite.name} does not set it; {hint}")
    left = [replace(part, sets={k: v for k, v in part.sets.items() if k not in keys}) for part in parts]
    return replace(suite, sets=left[0].sets, parts=tuple(left) if suite.parts else ())


def _parse_suite(name: str, merged: dict[str, Any], shown: str) -> Suite:
    """Parse `merged`, the keys of a suite or of one of its parts; shown: its file. Raises ConfigError for mistakes."""
    problems = [str(unknown(f"key '{k}' ({shown})", k, _KEYS)) for k in merged if k not in _KEYS]
    rows = merged["methods"] if isinstance(merged.get("methods"), list) else []
    own = [
        row
        for row in rows
        if isinstance(row, dict) and len(row) == 1 and all(isinstance(v, dict) for v in row.values())
    ]
    params = {str(method): values for row in own for method, values in row.items()}
    if rows:
        merged = {**merged, "methods": [str(*row) if row in own else row for row in rows]}
    for key, items in _LISTS.items():
        value = merged.get(key)
        if not value and key in _OPTIONAL:
            continue
        if not isinstance(value, list) or not value or not all(isinstance(v, str) for v in value):
            problems.append(f"{shown}: '{key}' must be a list of {items}")
    if not isinstance(merged.get("profile"), str | None):
        problems.append(f"{shown}: 'profile' must be the name of a profile")
    sweep = merged.get("sweep") or {}
    if not isinstance(sweep, dict) or not all(isinstance(values, list) and values for values in sweep.values()):
        problems.append(f"{shown}: 'sweep' must be a mapping of keys to lists of values, method.k: [1, 3]")
    sets, mistakes = _parse_sets(merged.get("set"), shown)
    if problems := list(dict.fromkeys(problems + mistakes)):
        raise ConfigError(problems)
    lists, models = (merged["methods"], merged["datasets"]), merged.get("models") or ()
    return Suite(name, *lists, merged.get("profile"), sets, merged.get("limit"), params, models, sweep)


def _parse_sets(value: Any, shown: str) -> tuple[dict[str, Any], list[str]]:
    """Parse a suite's `set`, a list of "KEY=VALUE", into (settings, mistakes); shown: its file, for messages."""
    if value is not None and not (isinstance(value, list) and all(isinstance(text, str) for text in value)):
        return {}, [f"{shown}: 'set' must be a list of {_LISTS['set']}"]
    return parse_assignments(value or [], f"{shown}, set: ")
