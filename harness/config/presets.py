"""Named configurations: one YAML file each, in configs/<kind>/ or in the folder that
HARNESS_CONFIGS names.

    names("methods")                 ["bm25", "closed-book", ..., "pecan"]
    find("methods", "Full_Context")  "full-context": case, "-" and "_" do not count
    read("methods", "pecan-4k")      the layers, base first: [Layer("configs/methods/pecan.yaml", {...}), ...]

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
from harness.config.registry import CONFIGS_VARIABLE, ENTRY_POINT_GROUPS, load, trust
from harness.config.registry import PRESET_KINDS as PRESET_KINDS
from harness.config.yaml_tree import Layer, mapping_at, read_yaml
from harness.errors import ConfigError, UnknownName, UserError
from harness.errors import comparable_name as comparable_name

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
_KEYS_THAT_SET_NOTHING = (
    "summary",
    "download",
    "official_questions",
)  # keys about a preset that set nothing


@dataclass(frozen=True)
class _Preset:
    """Where a preset of some kind is.

    Attributes:
        name: Its name: "bm25", "ruler/vt".
        shown_name: Its file as messages name it; for one of an installed package without a file, the
            target of its entry point.
        path: Its file; None for an entry point.
    """

    name: str
    shown_name: str
    path: Path | None


_PresetByName = dict[str, _Preset]
"""comparable_name of a preset -> the preset."""


def singular(kind: str) -> str:
    """The kind of presets in the singular, as messages say it: "methods" -> "method"."""
    if kind == "datasets":
        return "data set"
    return kind.removesuffix("s")


def _presets_in_folder(folder: Path, kind: str, shown_folder: str) -> _PresetByName:
    """List the preset files of a kind below a folder, by comparable_name.

    Args:
        folder: A folder like configs/.
        kind: "methods": the files are in folder/methods.
        shown_folder: What messages call the folder: "configs".
    """
    preset_by_name: _PresetByName = {}
    for path in sorted((folder / kind).rglob("*.yaml")):
        name = path.relative_to(folder / kind).as_posix().removesuffix(".yaml")
        preset_by_name[comparable_name(name)] = _Preset(
            name, f"{shown_folder}/{kind}/{name}.yaml", path
        )
    return preset_by_name


# These files are listed and parsed once: a list of all plans looks presets up 11,000 times.
@functools.cache
def _shipped_presets(kind: str) -> _PresetByName:
    """List the preset files of a kind of this project and of installed packages; cached.

    Of equal names this project's counts.
    """
    preset_by_name: _PresetByName = {}
    for package in plugins.targets("harness.configs").values():
        spec = importlib.util.find_spec(package)
        if spec is not None and spec.origin:
            preset_by_name |= _presets_in_folder(
                Path(spec.origin).parent / "configs", kind, "configs"
            )
    return preset_by_name | _presets_in_folder(
        Path(__file__).parents[2] / "configs", kind, "configs"
    )


_read_shipped_file = functools.cache(read_yaml)


def _all_presets(kind: str) -> _PresetByName:
    """List all presets of a kind, by comparable_name.

    Of equal names the user's own (HARNESS_CONFIGS) counts, then this project's, then those of
    installed packages. Raises UserError.
    """
    if kind not in PRESET_KINDS:
        raise UnknownName("kind", kind, PRESET_KINDS)
    folder = os.environ.get(CONFIGS_VARIABLE)
    if folder and not Path(folder).is_dir():
        raise UserError(
            f"the environment variable {CONFIGS_VARIABLE} names '{folder}', which is no folder"
        )
    preset_by_name: _PresetByName = {}
    if kind in ENTRY_POINT_GROUPS:
        for name, target in plugins.targets(ENTRY_POINT_GROUPS[kind]).items():
            preset_by_name[comparable_name(name)] = _Preset(name, target, path=None)
    preset_by_name |= _shipped_presets(kind)
    if folder:
        preset_by_name |= _presets_in_folder(Path(folder), kind, f"${CONFIGS_VARIABLE}")
    return preset_by_name


def names(kind: str) -> list[str]:
    """All names of a kind of presets ("methods"), sorted; those of installed packages included."""
    return sorted(preset.name for preset in _all_presets(kind).values())


def find(kind: str, name: str) -> str:
    """The spelling of a preset's name: "Full_Context" -> "full-context". Raises UnknownName."""
    preset = _all_presets(kind).get(comparable_name(name))
    if preset is not None:
        return preset.name
    hint = f"harness list {kind}; for your own set {CONFIGS_VARIABLE}=FOLDER"
    if kind in ("models", "encoders"):
        hint += "; a folder or a hub id owner/name will do too"
    known_names = [each.name for each in _all_presets(kind).values()]
    raise UnknownName(singular(kind), name, known_names, hint)


def _with_full_paths(value: object, folder: Path, is_path: bool = False) -> object:
    """Make names of files in a folder absolute: {"data": "a.jsonl"} -> {"data": "/own/a.jsonl"}.

    Other values stay: a hub id, a path from the current folder.

    Args:
        value: A preset's value, at any depth.
        folder: The folder.
        is_path: Whether the value stands below a key that names files.
    """
    if isinstance(value, dict):
        with_full_paths: dict[str, object] = {}
        for key, inner in value.items():
            is_inner_path = is_path or key in _PATH_KEYS
            with_full_paths[key] = _with_full_paths(inner, folder, is_path=is_inner_path)
        return with_full_paths
    if isinstance(value, list):
        return [_with_full_paths(inner, folder, is_path=is_path) for inner in value]
    if not is_path or not isinstance(value, str):
        return value
    is_in_folder = value != "" and (folder / value).exists()
    if is_in_folder:
        return str(folder / value)
    return value


def read(kind: str, name: str, with_notes: bool = False) -> list[Layer]:
    """Read the layers of a preset, base first: [Layer("configs/methods/bm25.yaml", {...})].

    Also marks the code that they name as trusted, so that it may be imported.

    Args:
        kind: "methods", "datasets", ...
        name: The preset's name.
        with_notes: Whether the layers also have the keys that set nothing (`summary`, `download`,
            ...).

    Raises:
        UnknownName: There is no such preset.
        ConfigError: A file cannot be read, or extends itself.
    """
    layers: list[Layer] = []
    files_read: list[str] = []
    next_name: object = name
    while next_name is not None:
        if not isinstance(next_name, str):
            raise ConfigError([f"{files_read[-1]}: 'extends' must be the name of another file"])
        preset = _all_presets(kind)[comparable_name(find(kind, next_name))]
        files_read.append(preset.shown_name)
        if preset.shown_name in files_read[:-1]:
            raise ConfigError([f"{preset.shown_name}: extends itself ({' -> '.join(files_read)})"])
        values = _values_of(kind, preset)
        trust(values)  # shipped, in the user's own folder, or of an installed package
        next_name = values.get("extends")
        left_out = {"extends"}
        if not with_notes:
            left_out |= set(_KEYS_THAT_SET_NOTHING)
        if layers:
            left_out.add("name")  # a base's name in tables
        settings = {key: value for key, value in values.items() if key not in left_out}
        layers.insert(0, Layer(preset.shown_name, settings))
    return layers


def _values_of(kind: str, preset: _Preset) -> dict[str, object]:
    """Read what a preset's file holds, or what the entry point of an installed package names.

    Of the user's own file, names of files beside it become absolute. Raises ConfigError.
    """
    if preset.path is None:
        trust(preset.shown_name)  # its package was installed
        if kind == "methods":
            return {"implementation": preset.shown_name}
        loaded_values: dict[str, object] = load(preset.shown_name)
        return loaded_values
    if preset.shown_name.startswith("configs/"):
        return _read_shipped_file(preset.path, preset.shown_name)
    own_folder = Path(os.environ[CONFIGS_VARIABLE]).absolute()
    with_full_paths: dict[str, object] = {}
    for key, value in read_yaml(preset.path, preset.shown_name).items():
        with_full_paths[key] = _with_full_paths(value, own_folder, is_path=key in _PATH_KEYS)
    return with_full_paths


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
    if comparable_name(dataset) not in _all_presets("datasets"):
        return None
    for layer in reversed(read("datasets", dataset, with_notes=True)):
        if key in layer.values:
            return layer.values[key]
    return None


def summaries(kind: str) -> dict[str, str]:
    """All names of a kind with one line about each, sorted by name; read
    from files, nothing is imported.
    """
    summary_by_name: dict[str, str] = {}
    for preset in sorted(_all_presets(kind).values(), key=lambda preset: preset.name):
        if preset.path is None:
            summary_by_name[preset.name] = f"added by {preset.shown_name}"
        else:
            summary = read_yaml(preset.path, preset.shown_name).get("summary")
            summary_by_name[preset.name] = str(summary or f"see {preset.shown_name}")
    return summary_by_name


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
    params_by_dataset = {comparable_name(name): params for name, params in by_dataset.items()}
    name = comparable_name(dataset or "")
    base_name = name.rpartition("/")[2].removesuffix("-e")
    return mapping_at(params_by_dataset, name) or mapping_at(params_by_dataset, base_name)


def synthetic_counterpart(dataset: str) -> str | None:
    """The made-up data set "pocket/<name>" that may stand in for another
    one; None where there is none.
    """
    preset = _all_presets("datasets").get(comparable_name(f"pocket/{dataset}"))
    if preset is None:
        return None
    return preset.name
