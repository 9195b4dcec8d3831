"""Where the files of MLflow runs are: for a sqlite store in the folder mlartifacts beside it, which moves with it.

Left to itself MLflow stores an absolute path for each run of such a store. Here it stores mlflow-artifacts:/NAME/...,
which MLflow's server looks up below --artifacts-destination, by default mlartifacts in the folder where it was started.
Without a server MLflow cannot write to such an address, so this module does.

location("sqlite:////r/mlflow.db", "pocket/musique")  -> "mlflow-artifacts:/pocket_musique"
folder("sqlite:////r/mlflow.db")                      -> /r/mlartifacts
Artifacts(client, uri).text(run_id, "...", "table.md")
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from harness.storage.paths import inside
from harness.tracking.uri import sqlite_path

if TYPE_CHECKING:
    from mlflow import MlflowClient

_SCHEME = "mlflow-artifacts:/"


def folder(uri: str) -> Path | None:
    """The folder of a sqlite store's artifacts; None for another store, which knows its own."""
    path = sqlite_path(uri)
    return None if path is None else path.parent / "mlartifacts"


def location(uri: str, name: str) -> str | None:
    """The address of an experiment's artifacts, without any path of this machine; None if the server decides."""
    return None if folder(uri) is None else _SCHEME + (re.sub(r"[^\w-]", "_", name, flags=re.ASCII) or "_")


class Artifacts:
    """Writes the artifacts of a store's runs. Its methods raise OSError and what MLflow raises."""

    def __init__(self, client: MlflowClient, uri: str) -> None:
        self._client, self._folder = client, folder(uri)
        self._places: dict[str, Path | None] = {}

    def text(self, run_id: str, text: str, name: str) -> None:
        """Write `text` as the artifact `name`, in the place of an older one."""
        if (place := self._place(run_id)) is None:
            self._client.log_text(run_id, text, name)
        else:
            (place / name).write_text(text, encoding="utf-8")

    def file(self, run_id: str, path: Path) -> None:
        """Write a copy of a file, in the place of an older one."""
        if (place := self._place(run_id)) is None:
            self._client.log_artifact(run_id, str(path))
        else:
            shutil.copyfile(path, place / path.name)

    def _place(self, run_id: str) -> Path | None:
        """The folder of a run's artifacts; None if MLflow writes them itself, as for runs of older stores."""
        if run_id not in self._places:
            uri = str(self._client.get_run(run_id).info.artifact_uri)
            own = self._folder is not None and uri.startswith(_SCHEME)
            self._places[run_id] = inside(self._folder, uri.removeprefix(_SCHEME).lstrip("/")) if own else None  # type: ignore[arg-type]
        if (place := self._places[run_id]) is not None:
            place.mkdir(parents=True, exist_ok=True)
        return place
