"""The data set that a run asks for, or its made-up twin where it cannot be had.

    find(draft) ─► Found(draft, dataset, problems, warnings)

Where `musique` cannot be fetched, no rows are given with --data and no other model than a default is named, the run is
drawn anew with `pocket/musique`, as if that had been asked for: folder, MLflow, manifest and tables say what was run.
What was set for the data set is set for its twin; what the twin cannot do is an error. A model that was chosen is never
put on made-up rows that were not. Open-domain questions, which come without documents, have one twin in common.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from harness.config import presets
from harness.config.resolve import Draft, draft
from harness.config.schema import DatasetConfig, canonical
from harness.errors import CannotRun, ConfigError, HarnessError, UserError

if TYPE_CHECKING:
    from harness.datasets.base import Dataset


@dataclass(frozen=True)
class Found:
    """draft: the one to go on with; dataset: None where a problem (of the draft, or among `problems`) says why."""

    draft: Draft
    dataset: Dataset | None = None
    problems: list[HarnessError] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


# Format of the data sets -> their twin, where they have none of their own name.
_IN_COMMON = {"retrieved": "pocket/retrieved"}

_loaded: dict[str, Dataset | HarnessError] = {}


def load_once(config: DatasetConfig, limit: int | None) -> Dataset:
    """Load once in a process: several methods over one data set share it, and an unreachable hub is asked once. Files
    that have changed since are read again.

    limit: questions, None for all. Raises what harness.datasets.load raises, each time.
    """
    from harness.datasets import load

    key = canonical([config.model_dump(mode="json"), limit, _files(config)])
    if key not in _loaded:
        try:
            _loaded[key] = load(config, limit)
        except HarnessError as e:
            _loaded[key] = e
    found = _loaded[key]
    if isinstance(found, HarnessError):
        raise found
    return found


def _files(config: DatasetConfig) -> list[tuple[str, int, int]]:
    """Path, time of the last change in ns and size of every local file that the rows are read from."""
    places = [Path(str(place)).absolute() for place in (config.data, config.options.get("documents")) if place]
    try:
        files = [file for place in places for file in (sorted(place.rglob("*")) if place.is_dir() else [place])]
        return [(str(file), file.stat().st_mtime_ns, file.stat().st_size) for file in files if file.is_file()]
    except OSError:  # a name that is too long; `load` says what is wrong with it
        return []


def find(d: Draft) -> Found:
    """Load the data set of a draft or, where that may be, its twin; nothing is raised for a user's mistake."""
    dataset, mistake = _tried(d)
    told = Found(d, dataset, [mistake] if mistake else [])
    name = _twin(d) if dataset is None else None
    if name is None:
        return told
    other = draft(replace(d.choices, dataset=name))
    why = mistake if isinstance(mistake, CannotRun) else _unreachable(d, other)
    return told if why is None else _stand_in(d, other, name, why)


def _tried(d: Draft) -> tuple[Dataset | None, UserError | None]:
    """The data set of a draft, or why it cannot be loaded; neither where the draft has none (and says why)."""
    config: DatasetConfig | None = d.parts.get("dataset")
    if config is None:
        return None, None
    try:
        return load_once(config, d.parts.get("limit")), None
    except UserError as e:
        return None, e


def _twin(d: Draft) -> str | None:
    """The twin of the draft's data set, where there is one and it may be used."""
    config: DatasetConfig | None = d.parts.get("dataset")
    models = {path: m for path, m in d.parts.items() if path == "model" or path.startswith("roles.")}
    unnamed = d.origins.get("model.name") == "default"  # the twin then has its own
    chosen = not models or not all(m.embedded or (path == "model" and unnamed) for path, m in models.items())
    if chosen or d.choices.require_full or d.choices.data is not None or (config and config.data is not None):
        return None
    name = config.name if config else d.choices.dataset or ""
    return presets.twin(name) or _IN_COMMON.get(config.format if config else _format(name))


def _format(name: str) -> str:
    """The format of a data set by its files alone, "" for what is none: for a draft whose settings are wrong."""
    known = {presets.fold(n): n for n in presets.names("datasets")}
    layers = presets.read("datasets", known[presets.fold(name)]) if presets.fold(name) in known else []
    return str({key: value for _, values in layers for key, value in values.items()}.get("format", ""))


def _unreachable(d: Draft, other: Draft) -> CannotRun | None:
    """Why the data set cannot be had, where all that is wrong so far is an option that its twin alone has."""
    from harness.datasets import option_names

    twin: DatasetConfig | None = other.parts.get("dataset")
    if twin is None:
        return None
    own = {f"dataset.{start}{name}" for name in option_names(twin.format) for start in ("", "options.")}
    suite = d.choices.suite
    if suite is not None:
        suite = replace(suite, sets={k: v for k, v in suite.sets.items() if k not in own})
    plain = draft(replace(d.choices, sets={k: v for k, v in d.choices.sets.items() if k not in own}, suite=suite))
    config: DatasetConfig | None = plain.parts.get("dataset")
    if config is None or config.data is not None:
        return None
    _, mistake = _tried(plain)
    return mistake if isinstance(mistake, CannotRun) else None


def _stand_in(d: Draft, other: Draft, name: str, why: CannotRun) -> Found:
    """The twin, drawn as `other`, or what keeps it from being made as the user asked."""
    asked = d.parts["dataset"].name if "dataset" in d.parts else str(d.choices.dataset)
    known = {str(problem) for problem in d.problems}
    new = [problem for problem in other.problems if str(problem) not in known]
    made, mistake = (None, None) if new else _tried(other)
    if mistake is not None:
        new = [mistake]
    if new:
        head = f"'{asked}' cannot be had ({why}), and '{name}' cannot stand in for it as asked: "
        sentences = [s for p in new for s in (p.problems if isinstance(p, ConfigError) else [str(p)])]
        # Where it can be drawn, its draft has no complaint about options that are the twin's own.
        return Found(other if "dataset" in other.parts else d, problems=[UserError(head + s) for s in sentences])
    other.origins["dataset.name"] = f"stand-in for {asked}"
    told = f"'{asked}' cannot be had ({why}); using the bundled sample '{name}' of a synthetic world instead"
    return Found(other, made, warnings=[told])
