"""Load a data set once in a process, whatever the number of methods.

load_once(config, limit) ─► Dataset
made_up_hint(config)     ─► "; made-up questions of its kind: --dataset pocket/musique", where there are such
"""

from pathlib import Path

from harness.config import presets, registry
from harness.config.schema import DatasetConfig, canonical
from harness.datasets.base import Dataset
from harness.errors import CannotRun, HarnessError, Missing, attempt

_SHARED = {
    "retrieved": "pocket/retrieved"
}  # format -> made-up data set, for those that have none of their own name

_loaded: dict[str, Dataset | HarnessError] = {}


def load_once(config: DatasetConfig, limit: int | None) -> Dataset:
    """Load the first `limit` questions (None: all) of a data set; a later call returns, or raises,
    the same.

    So several methods share one data set, and an unreachable hub is tried once. After a change of
    its files, or of the code of the user's own parser, it is loaded again. Raises what
    harness.datasets.load raises; where the hub cannot be reached, the message offers made-up
    questions.
    """
    from harness.datasets import load

    user_parser = attempt([], registry.load, config.format) if ":" in config.format else None
    code = {}
    if callable(user_parser):
        from harness.storage.own_code_hash import own_code

        code = own_code(user_parser)
    key = canonical([config.model_dump(mode="json"), limit, _file_states(config), code])
    if key not in _loaded:
        try:
            _loaded[key] = load(config, limit)
        except Missing as e:
            _loaded[key] = Missing(f"{e}{made_up_hint(config)}", e.thing)
        except CannotRun as e:
            _loaded[key] = CannotRun(f"{e}{made_up_hint(config)}")
        except HarnessError as e:
            _loaded[key] = e
    loaded = _loaded[key]
    if isinstance(loaded, HarnessError):
        raise loaded
    return loaded


def _file_states(config: DatasetConfig) -> list[tuple[str, int, int]]:
    """Path, time of the last change in ns and size of every local file that the rows are read
    from."""
    places = [
        Path(str(place)).absolute()
        for place in (config.data, config.options.get("documents"))
        if place
    ]
    try:
        files = [
            file
            for place in places
            for file in (sorted(place.rglob("*")) if place.is_dir() else [place])
        ]
        return [
            (str(file), file.stat().st_mtime_ns, file.stat().st_size)
            for file in files
            if file.is_file()
        ]
    except OSError:  # a name that is too long; `load` says what is wrong with it
        return []


def made_up_hint(config: DatasetConfig) -> str:
    """The end of an error message that names made-up questions of the same kind; "" without such,
    and for a file."""
    name = (
        None
        if config.data is not None
        else presets.synthetic_counterpart(config.name) or _SHARED.get(config.format)
    )
    return f"; made-up questions of its kind: --dataset {name}" if name else ""
