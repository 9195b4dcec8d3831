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
from dataclasses import dataclass
from pathlib import Path

from harness.config import plugins
from harness.config.registry import ENV, GROUPS, load, trust
from harness.config.registry import KINDS as KINDS
from harness.config.yaml_tree import Layer, mapping_at, read_yaml
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


@dataclass(frozen=True)
class _Preset:
    """A preset of some kind.

    Attributes:
        name: Its name: "bm25", "ruler/vt".
        shown: Its file as messages name it; for one of an installed package without a file, the
            target of its entry point.
        path: Its file; None for an entry point.
    """

    name: str
    shown: str
    path: Path | None


_Files = dict[str, _Preset]
"""Folded name -> preset."""


def singular(kind: str) -> str:
    """The kind of presets in the singular, as messages say it: "methods" -> "method"."""
    return "data set" if kind == "datasets" else kind.removesuffix("s")


def _files_in(folder: Path, kind: str, label: str) -> _Files:
    """List the preset files of a kind below a folder, by folded name.

    Args:
        folder: A folder like configs/.
        kind: "methods": the files are in folder/methods.
        label: What messages call the folder: "configs".
    """
    files: _Files = {}
    for path in sorted((folder / kind).rglob("*.yaml")):
        name = path.relative_to(folder / kind).as_posix().removesuffix(".yaml")
        files[fold(name)] = _Preset(name, f"{label}/{kind}/{name}.yaml", path)
    return files


# These files are listed and parsed once: a list of all plans looks presets up 11,000 times.
@functools.cache
def _shipped(kind: str) -> _Files:
    """List the preset files of a kind of this project and of installed packages; cached.

    Of equal names this project's counts.
    """
    files: _Files = {}
    for package in plugins.targets("harness.configs").values():
        spec = importlib.util.find_spec(package)
        if spec is not None and spec.origin:
            files |= _files_in(Path(spec.origin).parent / "configs", kind, "configs")
    return files | _files_in(Path(__file__).parents[2] / "configs", kind, "configs")


_read_shipped = functools.cache(read_yaml)


def _files(kind: str) -> _Files:
    """List all presets of a kind, by folded name.

    Of equal names the user's own (HARNESS_CONFIGS) counts, then this project's, then those of
    installed packages. Raises UserError.
    """
    if kind not in KINDS:
        raise UnknownName("kind", kind, KINDS)
    folder = os.environ.get(ENV)
    if folder and not Path(folder).is_dir():
        raise UserError(f"the environment variable {ENV} names '{folder}', which is no folder")
    files: _Files = {}
    if kind in GROUPS:
        for name, target in plugins.targets(GROUPS[kind]).items():
            files[fold(name)] = _Preset(name, target, None)
    files |= _shipped(kind)
    if folder:
        files |= _files_in(Path(folder), kind, f"${ENV}")
    return files


def names(kind: str) -> list[str]:
    """All names of a kind of presets ("methods"), sorted; those of installed packages included."""
    return sorted(preset.name for preset in _files(kind).values())


def find(kind: str, name: str) -> str:
    """The spelling of a preset's name: "Full_Context" -> "full-context". Raises UnknownName."""
    preset = _files(kind).get(fold(name))
    if preset is not None:
        return preset.name
    hint = f"harness list {kind}; for your own set {ENV}=FOLDER"
    if kind in ("models", "encoders"):
        hint += "; a folder or a hub id owner/name will do too"
    known = [each.name for each in _files(kind).values()]
    raise UnknownName(singular(kind), name, known, hint)


def _with_full_paths(value: object, folder: Path, is_path: bool = False) -> object:
    """Make names of files in a folder absolute: {"data": "a.jsonl"} -> {"data": "/own/a.jsonl"}.

    Other values stay: a hub id, a path from the current folder.

    Args:
        value: A preset's value, at any depth.
        folder: The folder.
        is_path: Whether the value stands below a key that names files.
    """
    if isinstance(value, dict):
        full: dict[str, object] = {}
        for key, inner in value.items():
            full[key] = _with_full_paths(inner, folder, is_path or key in _PATH_KEYS)
        return full
    if isinstance(value, list):
        return [_with_full_paths(inner, folder, is_path) for inner in value]
    if is_path and isinstance(value, str) and value and (folder / value).exists():
        return str(folder / value)
    return value


def read(kind: str, name: str, about: bool = False) -> list[Layer]:
    """Read the layers of a preset, base first: [("configs/methods/bm25.yaml", {...})].

    Also marks the code that they name as trusted, so that it may be imported.

    Args:
        kind: "methods", "datasets", ...
        name: The preset's name.
        about: Also return the keys that set nothing (`summary`, `download`, ...).

    Raises:
        UnknownName: There is no such preset.
        ConfigError: A file cannot be read, or extends itself.
    """
    layers: list[Layer] = []
    seen: list[str] = []
    next_name: object = name
    while next_name is not None:
        if not isinstance(next_name, str):
            raise ConfigError([f"{seen[-1]}: 'extends' must be the name of another file"])
        preset = _files(kind)[fold(find(kind, next_name))]
        seen.append(preset.shown)
        if preset.shown in seen[:-1]:
            raise ConfigError([f"{preset.shown}: extends itself ({' -> '.join(seen)})"])
        values = _values_of(kind, preset)
        trust(values)  # shipped, in the user's own folder, or of an installed package
        next_name = values.get("extends")
        left_out = {"extends"}
        if not about:
            left_out |= set(_NOTES)
        if layers:
            left_out.add("name")  # a base's name in tables
        own = {key: value for key, value in values.items() if key not in left_out}
        layers.insert(0, (preset.shown, own))
    return layers


def _values_of(kind: str, preset: _Preset) -> dict[str, object]:
    """Read what a preset's file holds, or what the entry point of an installed package names.

    Of the user's own file, names of files beside it become absolute. Raises ConfigError.
    """
    if preset.path is None:
        trust(preset.shown)  # its package was installed
        if kind == "methods":
            return {"implementation": preset.shown}
        loaded: dict[str, object] = load(preset.shown)
        return loaded
    if preset.shown.startswith("configs/"):
        return _read_shipped(preset.path, preset.shown)
    own_folder = Path(os.environ[ENV]).absolute()
    values = read_yaml(preset.path, preset.shown)
    return {
        key: _with_full_paths(value, own_folder, key in _PATH_KEYS) for key, value in values.items()
    }


def download_notes(dataset: str) -> list[str]:
    """What to download for a data set, from where and how large, a sentence each; [] where its
    preset does not say.
    """
    notes = _dataset_note(dataset, "download")
    if not isinstance(notes, list):
        return []
    return list(map(str, notes))


def official_questions(dataset: str) -> int:
    """How many questions the published file of a data set has; 0 where its preset does not say."""
    number = _dataset_note(dataset, "official_questions")
    if not isinstance(number, int):
        return 0
    return number


def _dataset_note(dataset: str, key: str) -> object:
    """What a data set's preset, or one that it extends, says under a key that sets nothing.

    None where none does, or there is no such preset.
    """
    if fold(dataset) not in _files("datasets"):
        return None
    for _, values in reversed(read("datasets", dataset, about=True)):
        if key in values:
            return values[key]
    return None


def summaries(kind: str) -> dict[str, str]:
    """All names of a kind with one line about each, sorted by name; read
    from files, nothing is imported.
    """
    found: dict[str, str] = {}
    for preset in sorted(_files(kind).values(), key=lambda preset: preset.name):
        if preset.path is None:
            found[preset.name] = f"added by {preset.shown}"
        else:
            summary = read_yaml(preset.path, preset.shown).get("summary")
            found[preset.name] = str(summary or f"see {preset.shown}")
    return found


def params_for_dataset(values: Mapping[str, object], dataset: str | None) -> dict[str, object]:
    """The parameters that a method's file has for one data set
    (`by_dataset`); {} where it has none.

    "pocket/<name>", "longbench/<name>" and "longbench/<name>_e" without parameters of their own
    have those of <name>.

    Args:
        values: What the method's file holds.
        dataset: The data set's name; None for no data set.
    """
    by_dataset = mapping_at(values, "by_dataset")
    table = {fold(name): params for name, params in by_dataset.items()}
    name = fold(dataset or "")
    base_name = name.rpartition("/")[2].removesuffix("-e")
    return mapping_at(table, name) or mapping_at(table, base_name)


def synthetic_counterpart(dataset: str) -> str | None:
    """The made-up data set "pocket/<name>" that may stand in for another
    one; None where there is none.
    """
    preset = _files("datasets").get(fold(f"pocket/{dataset}"))
    if preset is None:
        return None
    return preset.name
