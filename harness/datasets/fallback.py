"""The rows of a run's data set, or of its bundled synthetic sample where they cannot be loaded.

    load_or_sample(resolution) ─► (resolution, dataset, problems)

Where `musique` cannot be fetched, no rows are given with --data and no other model than a default is named, the run is
resolved again with `pocket/musique`, as if the user had chosen it: folder, MLflow, manifest and tables name the data
set that was run. What was set for the data set is set for its sample; what the sample cannot do is an error. A model
that the user chose never runs on synthetic rows that the user did not choose. Open-domain questions, which come without
documents, share one sample.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from harness.config import presets
from harness.config.resolve import Resolution, resolve
from harness.config.schema import DatasetConfig, canonical
from harness.errors import CannotRun, HarnessError, UserError

if TYPE_CHECKING:
    from harness.datasets.base import Dataset


# Format of data sets -> their sample, where they have none of their own name.
_SHARED = {"retrieved": "pocket/retrieved"}

_loaded: dict[str, Dataset | HarnessError] = {}


def load_once(config: DatasetConfig, limit: int | None) -> Dataset:
    """Load once in a process: several methods over one data set share it, and an unreachable hub is tried once. Files
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
    loaded = _loaded[key]
    if isinstance(loaded, HarnessError):
        raise loaded
    return loaded


def _files(config: DatasetConfig) -> list[tuple[str, int, int]]:
    """Path, time of the last change in ns and size of every local file that the rows are read from."""
    places = [Path(str(place)).absolute() for place in (config.data, config.options.get("documents")) if place]
    try:
        files = [file for place in places for file in (sorted(place.rglob("*")) if place.is_dir() else [place])]
        return [(str(file), file.stat().st_mtime_ns, file.stat().st_size) for file in files if file.is_file()]
    except OSError:  # a name that is too long; `load` says what is wrong with it
        return []


def load_or_sample(r: Resolution) -> tuple[Resolution, Dataset | None, list[HarnessError]]:
    """Load the data set of `r` or, where that is allowed, its sample. A user's mistake is not raised.

    Returns the resolution to go on with (the sample's, where that is used), the rows, and mistakes about the rows; the
    rows are None where one of these, or of the resolution's own, is the reason.
    """
    dataset, mistake = _load(r)
    name = _sample(r) if dataset is None else None
    if name is not None:
        sample = resolve(replace(r.choices, dataset=name))
        reason = mistake if isinstance(mistake, CannotRun) else _reason(r, sample)
        if reason is not None:
            return _use_sample(r, sample, name, reason)
    return r, dataset, [mistake] if mistake else []


def _load(r: Resolution) -> tuple[Dataset | None, UserError | None]:
    """The data set of `r`, or why it cannot be loaded; neither where `r` has none (and its problems say why)."""
    config: DatasetConfig | None = r.parts.get("dataset")
    if config is None:
        return None, None
    try:
        return load_once(config, r.parts.get("limit")), None
    except UserError as e:
        return None, e


def _sample(r: Resolution) -> str | None:
    """The name of the data set's sample, where there is one and it may be used."""
    config: DatasetConfig | None = r.parts.get("dataset")
    models = {path: m for path, m in r.parts.items() if path == "model" or path.startswith("roles.")}
    unnamed = r.origins.get("model.name") == "default"  # the sample then has its own
    chosen = not models or not all(m.embedded or (path == "model" and unnamed) for path, m in models.items())
    if chosen or r.choices.require_full or r.choices.data is not None or (config and config.data is not None):
        return None
    name = config.name if config else r.choices.dataset or ""
    return presets.twin(name) or _SHARED.get(config.format if config else _format(name))


def _format(name: str) -> str:
    """The format of a data set by its files alone, "" for an unknown name: for settings that are wrong."""
    known = {presets.fold(n): n for n in presets.names("datasets")}
    layers = presets.read("datasets", known[presets.fold(name)]) if presets.fold(name) in known else []
    return str({key: value for _, values in layers for key, value in values.items()}.get("format", ""))


def _reason(r: Resolution, sample: Resolution) -> CannotRun | None:
    """Why the data set cannot be loaded, where all that is wrong so far is an option that its sample alone has."""
    from harness.datasets import option_names

    config: DatasetConfig | None = sample.parts.get("dataset")
    if config is None:
        return None
    own = {f"dataset.{start}{name}" for name in option_names(config.format) for start in ("", "options.")}
    suite = r.choices.suite
    if suite is not None:
        suite = replace(suite, sets={k: v for k, v in suite.sets.items() if k not in own})
    sets = {k: v for k, v in r.choices.sets.items() if k not in own}
    without = resolve(replace(r.choices, sets=sets, suite=suite))
    config = without.parts.get("dataset")
    if config is None or config.data is not None:
        return None
    _, mistake = _load(without)
    return mistake if isinstance(mistake, CannotRun) else None


def _use_sample(
    r: Resolution, sample: Resolution, name: str, reason: CannotRun
) -> tuple[Resolution, Dataset | None, list[HarnessError]]:
    """Load the sample `name`; an option that it does not support is an error."""
    requested = r.parts["dataset"].name if "dataset" in r.parts else str(r.choices.dataset)
    known = {str(problem) for problem in r.problems}
    new = [problem for problem in sample.problems if str(problem) not in known]
    dataset, mistake = (None, None) if new else _load(sample)
    if mistake is not None:
        new = [mistake]
    if new:
        head = f"'{requested}' cannot be had ({reason}), and '{name}' cannot stand in for it as asked: "
        problems: list[HarnessError] = [UserError(head + sentence) for p in new for sentence in p.sentences]
        # Where the sample's data set is right, its resolution does not complain about options that are its own.
        return sample if "dataset" in sample.parts else r, None, problems
    sample.origins["dataset.name"] = f"stand-in for {requested}"
    sample.warnings.append(
        f"'{requested}' cannot be had ({reason}); using the bundled sample '{name}' of a synthetic world instead"
    )
    return sample, dataset, []
