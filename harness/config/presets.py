"""Named configurations: one YAML file each, in configs/<kind>/ or in the folder that HARNESS_CONFIGS names.

    names("methods")                 ["bm25", "closed-book", ..., "pecan"]
    find("methods", "Full_Context")  "full-context": case, "-" and "_" do not count
    read("methods", "pecan-4k")      the layers, base first: [("configs/methods/pecan.yaml", {...}), (...)]

A file in a folder of its own is named with it: configs/datasets/ruler/vt.yaml is "ruler/vt". A file may say
`extends: other-name`; it is then laid over that one. The user's own folder is searched first, then those of installed
packages: an entry point of "harness.configs" names a package with a folder configs/.
"""

import copy
import functools
import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness.config.registry import ENV, GROUPS, load, plugins, trust
from harness.config.registry import KINDS as KINDS
from harness.config.yaml_tree import read_yaml
from harness.errors import ConfigError, UnknownName, UserError
from harness.errors import fold as fold

_TWIN = "pocket/"
# Keys whose values are files or folders, or a mapping or list of them.
_PATH_KEYS = ("data", "documents", "source", "query_source", "tokenizer", "template", "adapter", "adapters", "script")
_ABOUT = ("summary", "download", "official_questions")  # keys about a preset that set nothing
_SHIPPED = Path(__file__).parents[2] / "configs"


def singular(kind: str) -> str:
    """ "methods" -> "method", as messages say it."""
    return "data set" if kind == "datasets" else kind.removesuffix("s")


@contextmanager
def shipped_only() -> Iterator[None]:
    """Inside the block the folder HARNESS_CONFIGS is ignored."""
    own = os.environ.pop(ENV, None)
    try:
        yield
    finally:
        if own is not None:
            os.environ[ENV] = own


def _files_in_folder(label: str, kind: str, folder: Path) -> dict[str, tuple[str, Path]]:
    """Name -> (path for messages, with `label` for `folder`; path) of a kind's files; of names alike, the first."""
    by_form: dict[str, tuple[str, tuple[str, Path]]] = {}
    for path in sorted((folder / kind).rglob("*.yaml")):
        inside = path.relative_to(folder / kind).as_posix()
        name = inside.removesuffix(".yaml")
        by_form.setdefault(fold(name), (name, (f"{label}/{kind}/{inside}", path)))
    return dict(by_form.values())


# These files are listed and parsed once: a list of all plans looks presets up 11,000 times.
@functools.cache
def _shipped(kind: str) -> dict[str, tuple[str, Path]]:
    """As `_files_in_folder`, for the files of this project and of installed packages."""
    specs = map(importlib.util.find_spec, plugins("harness.configs").values())
    folders = [Path(spec.origin).parent / "configs" for spec in specs if spec is not None and spec.origin]
    return {n: f for folder in (*folders, _SHIPPED) for n, f in _files_in_folder("configs", kind, folder).items()}


_parse_shipped = functools.cache(read_yaml)


def _preset_files(kind: str) -> dict[str, tuple[str, Path]]:
    """Name -> (shown path, path) of a kind's presets. Raises UserError."""
    if kind not in KINDS:
        raise UnknownName("kind", kind, KINDS)
    if not (folder := os.environ.get(ENV)):
        return _shipped(kind)
    if not Path(folder).is_dir():
        raise UserError(f"the environment variable {ENV} names '{folder}', which is no folder")
    own = _files_in_folder(f"${ENV}", kind, Path(folder))
    taken = set(map(fold, own))
    return own | {name: file for name, file in _shipped(kind).items() if fold(name) not in taken}


def _read_file(shown: str, path: Path) -> dict[str, Any]:
    """The values of a preset's file, not to be changed; shown: its path for messages."""
    return (_parse_shipped if shown.startswith("configs/") else read_yaml)(path, shown)


def names(kind: str) -> list[str]:
    """All names of a kind (one of KINDS), sorted; those of installed add-on packages included."""
    more = plugins(GROUPS[kind]) if kind in GROUPS else {}
    return sorted({**_preset_files(kind), **more})


def find(kind: str, name: str) -> str:
    """The spelling under which a preset is registered: "Full_Context" -> "full-context". Raises UnknownName."""
    known = names(kind)
    if alike := [candidate for candidate in known if fold(candidate) == fold(name)]:
        return name if name in alike else alike[0]
    also = "; a folder or a hub id owner/name will do too" if kind in ("models", "encoders") else ""
    raise UnknownName(singular(kind), name, known, see(f"harness list {kind}") + also)


def see(listed: str = "harness list") -> str:
    """The end of a message about an unknown name: the command that lists names, and the folder of the user's own."""
    folder = os.environ.get(ENV)
    return f"{listed}; {ENV} is '{folder}'" if folder else f"{listed}; for your own set {ENV}=FOLDER"


def _read_layer(kind: str, name: str) -> tuple[str, dict[str, Any]]:
    """A preset's (origin, values) without its base; the code that it names becomes trusted. Raises UserError."""
    name = find(kind, name)
    if (file := _preset_files(kind).get(name)) is not None:
        shown, values = file[0], copy.deepcopy(_read_file(*file))
        if shown.startswith(f"${ENV}/"):
            values = _with_full_paths(values, Path(os.environ[ENV]).absolute())
    else:
        shown = plugins(GROUPS[kind])[name]
        trust(shown)  # its package was installed
        values = {"implementation": shown} if kind == "methods" else load(shown)
        if not isinstance(values, dict):
            raise UserError(f"'{shown}', which an installed package adds as {singular(kind)} '{name}', is no mapping")
        values = copy.deepcopy(values)
    trust(values)  # shipped, in the user's own folder, or of an installed package
    return shown, values


def _with_full_paths(values: Any, folder: Path, key: str = "") -> Any:
    """Replace names of files in `folder`, {"data": "a.jsonl"}, by absolute paths.

    key: under which `values` stands. Other values stay: a hub id, or a path from the current folder.
    """
    if isinstance(values, dict):
        return {
            name: _with_full_paths(value, folder, key if key in _PATH_KEYS else str(name))
            for name, value in values.items()
        }
    if isinstance(values, list):
        return [_with_full_paths(value, folder, key) for value in values]
    here = key in _PATH_KEYS and isinstance(values, str) and values and (folder / values).exists()
    return str(folder / values) if here else values


def read(kind: str, name: str) -> list[tuple[str, dict[str, Any]]]:
    """The layers of a preset, base first, as (origin, values); `summary`, `download`, `extends` and such are taken out.

    Raises UnknownName, and ConfigError for a file that cannot be read or that extends itself.
    """
    layers: list[tuple[str, dict[str, Any]]] = []
    following: str | None = name
    while following is not None:
        shown, values = _read_layer(kind, following)
        if shown in (seen := [origin for origin, _ in reversed(layers)]):
            raise ConfigError([f"{shown}: extends itself ({' -> '.join([*seen, shown])})"])
        for key in (*_ABOUT, *(["name"] if layers else ())):  # of a base, also its own name in tables
            values.pop(key, None)
        following = values.pop("extends", None)
        if following is not None and not isinstance(following, str):
            raise ConfigError([f"{shown}: 'extends' must be the name of another file"])
        layers.insert(0, (shown, values))
    return layers


def download(dataset: str) -> list[str]:
    """A preset's `download`, or its base's: sentences on what to download, from where, and its size; [] for none."""
    return [str(line) for line in _about_dataset(dataset, "download") or ()]


def official_questions(dataset: str) -> int:
    """How many questions the publishers' file has; 0 where no preset says so."""
    return int(_about_dataset(dataset, "official_questions") or 0)


def _about_dataset(dataset: str, key: str) -> Any:
    """The value of `key` in a data set's preset, or in the one that it extends; None where neither has it."""
    name: Any = dataset if fold(dataset) in map(fold, names("datasets")) else None
    values: dict[str, Any] = {}
    while isinstance(name, str) and key not in values:
        _, values = _read_layer("datasets", name)
        name = values.get("extends")
    return values.get(key)


def summaries(kind: str) -> dict[str, str]:
    """Name -> one line about it, sorted by name; read from the files, without importing their targets."""
    files = _preset_files(kind)
    by_name = {name: str(_read_file(*file).get("summary") or f"see {file[0]}") for name, file in files.items()}
    for name, target in (plugins(GROUPS[kind]) if kind in GROUPS else {}).items():
        by_name.setdefault(name, f"added by {target}")
    return dict(sorted(by_name.items()))


def params_for_dataset(values: dict[str, Any], dataset: str | None) -> dict[str, Any]:
    """The parameters for a data set under `by_dataset` of a method's file; {} where it has none.

    "pocket/<name>", "longbench/<name>" and "longbench/<name>_e" without parameters of their own have those of <name>.
    """
    table = {fold(name): params for name, params in (values.get("by_dataset") or {}).items()}
    name = fold(dataset or "")
    plain = name.rpartition("/")[2]
    return dict(table.get(name) or table.get(plain) or table.get(plain.removesuffix(fold("_e"))) or {})


def synthetic_twin(dataset: str) -> str | None:
    """The synthetic data set that may stand in for another one, "pocket/<name>"; None where there is none."""
    twin_name = fold(_TWIN + dataset)
    return next((name for name in names("datasets") if fold(name) == twin_name), None)
