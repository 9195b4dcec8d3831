"""Named configurations: one YAML file each, in configs/<kind>/ or in the folder that
HARNESS_CONFIGS names.

    names("methods")                 ["bm25", "closed-book", ..., "pecan"]
    find("methods", "Full_Context")  "full-context": case, "-" and "_" do not count
    read("methods", "pecan-4k")      the layers, base first: [("configs/methods/pecan.yaml", {...}), (...)]

A file in a folder of its own is named with it: configs/datasets/ruler/vt.yaml is "ruler/vt". A file
may say `extends: other-name`; it is then laid over that one. The user's own folder is searched
first, then those of installed packages: an entry point of "harness.configs" names a package with a
folder configs/.
"""

import functools
import importlib.util
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.config.registry import ENV, GROUPS, load, plugins, trust
from harness.config.registry import KINDS as KINDS
from harness.config.yaml_tree import Layer, read_yaml
from harness.errors import ConfigError, UnknownName, UserError
from harness.errors import fold as fold

# Keys whose values are files or folders, or a mapping or list of them.
_PATH_KEYS = (
    "data",
    "documents",
    "source",
    "query_source",
    "tokenizer",
    "template",
    "adapter",
    "adapters",
    "script",
)
_NOTES = ("summary", "download", "official_questions")  # keys about a preset that set nothing

_Files = dict[str, tuple[str, str, Path | None]]
"""Folded name -> (name, file for messages, its path); of an installed package's entry point: (name,
target, None)"""


def singular(kind: str) -> str:
    """ "methods" -> "method", as messages say it."""
    return "data set" if kind == "datasets" else kind.removesuffix("s")


def _files_in(folder: Path, kind: str, label: str) -> _Files:
    """The files of a kind in a folder; label: what stands for the folder in messages."""
    files: _Files = {}
    for path in sorted((folder / kind).rglob("*.yaml")):
        name = path.relative_to(folder / kind).as_posix().removesuffix(".yaml")
        files[fold(name)] = (name, f"{label}/{kind}/{name}.yaml", path)
    return files


# These files are listed and parsed once: a list of all plans looks presets up 11,000 times.
@functools.cache
def _shipped(kind: str) -> _Files:
    """The files of this project and of installed packages; those of this project count first."""
    files: _Files = {}
    for package in plugins("harness.configs").values():
        if (spec := importlib.util.find_spec(package)) is not None and spec.origin:
            files |= _files_in(Path(spec.origin).parent / "configs", kind, "configs")
    return files | _files_in(Path(__file__).parents[2] / "configs", kind, "configs")


_read_shipped = functools.cache(read_yaml)


def _files(kind: str) -> _Files:
    """All presets of a kind: the user's own count first, those of entry points last. Raises
    UserError."""
    if kind not in KINDS:
        raise UnknownName("kind", kind, KINDS)
    folder = os.environ.get(ENV)
    if folder and not Path(folder).is_dir():
        raise UserError(f"the environment variable {ENV} names '{folder}', which is no folder")
    entry_points = plugins(GROUPS[kind]) if kind in GROUPS else {}
    targets: _Files = {fold(name): (name, target, None) for name, target in entry_points.items()}
    return targets | _shipped(kind) | (_files_in(Path(folder), kind, f"${ENV}") if folder else {})


def names(kind: str) -> list[str]:
    """All names of a kind (one of KINDS), sorted; those of installed add-on packages included."""
    return sorted(name for name, _, _ in _files(kind).values())


def find(kind: str, name: str) -> str:
    """The spelling under which a preset is registered: "Full_Context" -> "full-context". Raises
    UnknownName."""
    if file := (files := _files(kind)).get(fold(name)):
        return file[0]
    also = "; a folder or a hub id owner/name will do too" if kind in ("models", "encoders") else ""
    known = [file[0] for file in files.values()]
    raise UnknownName(
        singular(kind), name, known, f"harness list {kind}; for your own set {ENV}=FOLDER{also}"
    )


def _with_full_paths(value: Any, folder: Path, is_path: bool = False) -> Any:
    """Replace names of files in `folder`, {"data": "a.jsonl"}, by absolute paths; other values
    stay.

    is_path: whether `value` stands under a key of paths. It may be a hub id, or a path from the
    current folder.
    """
    if isinstance(value, dict):
        return {
            key: _with_full_paths(inner, folder, is_path or key in _PATH_KEYS)
            for key, inner in value.items()
        }
    if isinstance(value, list):
        return [_with_full_paths(inner, folder, is_path) for inner in value]
    beside = is_path and isinstance(value, str) and value and (folder / value).exists()
    return str(folder / value) if beside else value


def read(kind: str, name: str, about: bool = False) -> list[Layer]:
    """The layers of a preset, base first, as (origin, values); the code that they name becomes
    trusted.

    about: with the keys that set nothing (`summary`, `download`, ...). Raises UnknownName, and
    ConfigError for a file that cannot be read or that extends itself.
    """
    layers: list[Layer] = []
    next_name: Any = name
    while next_name is not None:
        if not isinstance(next_name, str):
            raise ConfigError([f"{layers[0][0]}: 'extends' must be the name of another file"])
        _, shown, path = _files(kind)[fold(find(kind, next_name))]
        if shown in (seen := [origin for origin, _ in reversed(layers)]):
            raise ConfigError([f"{shown}: extends itself ({' -> '.join([*seen, shown])})"])
        if path is None:
            trust(shown)  # its package was installed
            values = {"implementation": shown} if kind == "methods" else load(shown)
        elif shown.startswith("configs/"):
            values = _read_shipped(path, shown)
        else:
            values = _with_full_paths(read_yaml(path, shown), Path(os.environ[ENV]).absolute())
        trust(values)  # shipped, in the user's own folder, or of an installed package
        next_name = values.get("extends")
        left_out = {
            "extends",
            *(() if about else _NOTES),
            *(("name",) if layers else ()),
        }  # a base's name in tables
        layers.insert(
            0, (shown, {key: value for key, value in values.items() if key not in left_out})
        )
    return layers


def dataset_note(dataset: str, key: str) -> Any:
    """What a data set's preset, or one that it extends, says under a key that sets nothing; None
    where none does.

    "download": sentences on what to download, from where, and its size; "official_questions": of
    the published file.
    """
    layers = read("datasets", dataset, about=True) if fold(dataset) in _files("datasets") else []
    return next((values[key] for _, values in reversed(layers) if key in values), None)


def summaries(kind: str) -> dict[str, str]:
    """Name -> one line about it, sorted by name; read from the files, without importing their
    targets."""
    return {
        name: str(read_yaml(path, shown).get("summary") or f"see {shown}")
        if path
        else f"added by {shown}"
        for name, shown, path in sorted(_files(kind).values())
    }


def params_for_dataset(values: Mapping[str, Any], dataset: str | None) -> dict[str, Any]:
    """The parameters for a data set under `by_dataset` of a method's file; {} where it has none.

    "pocket/<name>", "longbench/<name>" and "longbench/<name>_e" without parameters of their own
    have those of <name>.
    """
    table = {fold(name): params for name, params in (values.get("by_dataset") or {}).items()}
    name = fold(dataset or "")
    return table.get(name) or table.get(name.rpartition("/")[2].removesuffix("-e")) or {}


def synthetic_counterpart(dataset: str) -> str | None:
    """The synthetic data set that may stand in for another one, "pocket/<name>"; None where there
    is none."""
    return next(
        (name for name in names("datasets") if fold(name) == fold(f"pocket/{dataset}")), None
    )
