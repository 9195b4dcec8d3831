"""An MLflow store: its address, whether anybody listens there, and where the files of its runs are.

>>> connection_problem("http://127.0.0.1:9")
'ConnectionRefusedError: nobody answers at 127.0.0.1:9'
>>> connection_problem("sqlite:///runs.db") is None
True
>>> artifacts_uri("sqlite:////r/mlflow.db", "pocket/musique"), artifacts_folder("sqlite:////r/mlflow.db")
('mlflow-artifacts:/pocket_musique', PosixPath('/r/mlartifacts'))

The files of a sqlite store's runs are in the folder mlartifacts beside it, which moves with it.
Left to itself MLflow stores an absolute path for each run of such a store. Here it stores
mlflow-artifacts:/NAME/..., which MLflow's server looks up below --artifacts-destination, by default
mlartifacts in the folder where it was started. Without a server MLflow cannot write to such an
address, so this module does.
"""

from __future__ import annotations

import re
import shutil
import socket
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from harness.storage.paths import path_inside, with_home_expanded

if TYPE_CHECKING:
    from mlflow import MlflowClient

_SQLITE_PREFIX = "sqlite:///"
_ARTIFACTS_PREFIX = "mlflow-artifacts:/"
_DEFAULT_PORTS = {"http": 80, "https": 443, "postgresql": 5432, "mysql": 3306, "mssql": 1433}


def sqlite_uri(path: Path) -> str:
    """The URI of a sqlite file: /r/a.db -> "sqlite:////r/a.db".

    A "%" or "?" in it is quoted, as it would be read as an escape or a query; nothing else is.
    """
    return _SQLITE_PREFIX + str(path).replace("%", "%25").replace("?", "%3F")


def expand_home(uri: str) -> str:
    """Write the ~ of a sqlite file's URI as the home folder; other URIs stay as they are.

    "sqlite:///~/a.db" -> "sqlite:////home/ann/a.db"
    """
    if not uri.startswith(f"{_SQLITE_PREFIX}~"):
        return uri
    return _SQLITE_PREFIX + with_home_expanded(uri.removeprefix(_SQLITE_PREFIX))


def sqlite_path(uri: str) -> Path | None:
    """The file of a sqlite URI: "sqlite:////r/a.db" -> /r/a.db.

    None for another database, a server, or a database in memory.
    """
    scheme, _, rest = uri.partition("://")
    name = unquote(rest.partition("?")[0].removeprefix("/"))
    if scheme.split("+")[0] != "sqlite":
        return None
    is_in_memory = not name or name.startswith(":memory:")
    if is_in_memory:
        return None
    return Path(name)


def connection_problem(uri: str, seconds: float = 5.0) -> str | None:
    """Try whether a connection to the host of an address can be made; if not, say why.

    None where one can, and where this cannot tell: a file, a local socket, a proxy.

    Args:
        uri: The address of a store.
        seconds: How long each address of the host is waited for, about.
    """
    from urllib.request import getproxies, proxy_bypass  # slow to import

    try:
        parts = urlsplit(uri)
        scheme = parts.scheme.split("+")[0]
        port = parts.port or _DEFAULT_PORTS.get(scheme)
    except ValueError:
        return None
    host = parts.hostname
    if host is None or port is None:
        return None
    if scheme in getproxies() and not proxy_bypass(host):
        return None
    try:
        socket.create_connection((host, port), seconds).close()
    except OSError as error:
        return f"{type(error).__name__}: nobody answers at {host}:{port}"
    return None


def artifacts_folder(uri: str) -> Path | None:
    """The folder of a sqlite store's artifacts, mlartifacts beside it; None for another store."""
    path = sqlite_path(uri)
    if path is None:
        return None
    return path.parent / "mlartifacts"


def artifacts_uri(uri: str, name: str) -> str | None:
    """The address for the artifacts of an experiment; None where the store's server decides.

    "pocket/musique" -> "mlflow-artifacts:/pocket_musique", which names no local path.

    Args:
        uri: The address of the store.
        name: The experiment.
    """
    if artifacts_folder(uri) is None:
        return None
    folder = re.sub(r"[^\w-]", "_", name, flags=re.ASCII)
    return _ARTIFACTS_PREFIX + (folder or "_")


def write_artifacts(client: MlflowClient, uri: str, run_id: str, folder: Path) -> None:
    """Write the files of a folder as a run's artifacts, replacing older ones.

    They are copied into the folder beside a sqlite store where the run's address is of the form
    that `artifacts_uri` gives; else MLflow writes them itself, as for runs of older stores.

    Args:
        client: MLflow's client.
        uri: The address of the store.
        run_id: MLflow's id of the run.
        folder: The folder with the files.

    Raises:
        OSError: A file cannot be written.
        MlflowException: MLflow refuses them.
    """
    address = str(client.get_run(run_id).info.artifact_uri)
    own_folder = artifacts_folder(uri)
    if own_folder is not None and address.startswith(_ARTIFACTS_PREFIX):
        target = path_inside(own_folder, address.removeprefix(_ARTIFACTS_PREFIX).lstrip("/"))
        shutil.copytree(folder, target, dirs_exist_ok=True)
    else:
        client.log_artifacts(run_id, str(folder))
