"""Parts of tracking URIs: the file of a sqlite database, and the URI of a file."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

from harness.storage.paths import expanded

_SQLITE = "sqlite:///"


def sqlite_uri(path: Path) -> str:
    """The URI of a sqlite file. What would be read as a query or an escape is quoted, and nothing else."""
    return _SQLITE + str(path).replace("%", "%25").replace("?", "%3F")


def own_place(uri: str) -> str:
    """`uri` with the ~ of a sqlite file's path as the user's home folder."""
    path = uri.removeprefix(_SQLITE)
    return _SQLITE + expanded(path) if path != uri and path.startswith("~") else uri


def sqlite_path(uri: str) -> Path | None:
    """The file of a sqlite URI; None for another database, a server, or one that is kept in memory."""
    scheme, _, rest = uri.partition("://")
    name = unquote(rest.partition("?")[0].removeprefix("/"))
    return Path(name) if scheme.split("+")[0] == "sqlite" and name and not name.startswith(":memory:") else None
