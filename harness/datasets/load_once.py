"""Load a data set once in a process, whatever the number of methods.

load_once(config, limit) ─► Dataset
made_up_hint(config)     ─► "; made-up questions of its kind: --dataset pocket/musique", where there are such
"""

from pathlib import Path
from typing import NamedTuple

from harness import datasets
from harness.config import presets, registry
from harness.config.schema import DatasetConfig, canonical_json
from harness.datasets.base import Dataset
from harness.errors import CannotRun, HarnessError, Missing, call_noting_problem
from harness.storage.own_code_hash import own_code

# Format -> made-up data set, for data sets that have none of their own name.
_MADE_UP_BY_FORMAT = {"retrieved": "pocket/retrieved"}

# What was loaded, or the error that loading raised, by all that changes it.
_loaded_by_key: dict[str, Dataset | HarnessError] = {}


class _FileState(NamedTuple):
    """What tells that a file has changed."""

    path: str
    modified_ns: int
    size_bytes: int


def load_once(config: DatasetConfig, limit: int | None) -> Dataset:
    """Load the first `limit` questions (None: all) of a data set and keep them for later calls.

    A later call with equal arguments returns the same object, or raises the same error: several
    methods share one data set, and an unreachable hub is tried once. After a change of its files,
    or of the code of the user's own parser, it is loaded again. Raises what harness.datasets.load
    raises; where the hub cannot be reached, the message offers made-up questions.
    """
    settings = config.model_dump(mode="json")
    key = canonical_json(
        [settings, limit, _states_of_local_files(config), _hashes_of_users_parser(config)]
    )
    if key not in _loaded_by_key:
        _loaded_by_key[key] = _load_or_return_error(config, limit)
    loaded = _loaded_by_key[key]
    if isinstance(loaded, HarnessError):
        raise loaded
    return loaded


def _hashes_of_users_parser(config: DatasetConfig) -> dict[str, str]:
    """The hashes of the code of the user's own parser, whose format is named "module:function".

    {} for the formats of this project, and for a parser that cannot be imported.
    """
    if ":" not in config.format:
        return {}
    parser = call_noting_problem(
        [], registry.load, config.format
    )  # None where it cannot be imported
    if not callable(parser):
        return {}
    return own_code(parser)


def _load_or_return_error(config: DatasetConfig, limit: int | None) -> Dataset | HarnessError:
    """Load a data set, and return the error in place of it where loading raises one.

    Where this machine lacks something (Missing, CannotRun), the message also offers made-up
    questions.
    """
    try:
        return datasets.load(config, limit)
    except Missing as error:
        return Missing(f"{error}{made_up_hint(config)}", error.thing)
    except CannotRun as error:
        return CannotRun(f"{error}{made_up_hint(config)}")
    except HarnessError as error:
        return error


def _states_of_local_files(config: DatasetConfig) -> list[_FileState]:
    """The states of all local files with rows or documents.

    These are the files at `config.data` and at the option "documents"; [] where there are none.
    """
    states = []
    try:
        for file_or_folder in (config.data, config.options.get("documents")):
            if file_or_folder:
                states += _states_of_files_in(Path(str(file_or_folder)).absolute())
    except OSError:  # a name that is too long; `load` says what is wrong with it
        return []
    return states


def _states_of_files_in(file_or_folder: Path) -> list[_FileState]:
    """The state of a file, or of each file in a folder; [] where there is no such file."""
    paths = [file_or_folder]
    if file_or_folder.is_dir():
        paths = sorted(file_or_folder.rglob("*"))
    states = []
    for path in paths:
        if path.is_file():
            stat = path.stat()
            states.append(_FileState(str(path), stat.st_mtime_ns, stat.st_size))
    return states


def made_up_hint(config: DatasetConfig) -> str:
    """The end of an error message that names made-up questions of the same kind.

    "; made-up questions of its kind: --dataset pocket/musique", or "" where there are none and
    where the rows are read from a local file.
    """
    if config.data is not None:
        return ""
    name = presets.synthetic_counterpart(config.name) or _MADE_UP_BY_FORMAT.get(config.format)
    if not name:
        return ""
    return f"; made-up questions of its kind: --dataset {name}"
