"""Tracking URIs: the one of a sqlite file, the file of one, and whether anybody listens at the host of one.

>>> unreachable("http://127.0.0.1:9")
'ConnectionRefusedError: nobody answers at 127.0.0.1:9'
>>> unreachable("sqlite:///runs.db") is None
True
"""

from __future__ import annotations

import socket
from pathlib import Path
from urllib.parse import unquote, urlsplit

from harness.storage.paths import expanded

_SQLITE = "sqlite:///"
_PORTS = {"http": 80, "https": 443, "postgresql": 5432, "mysql": 3306, "mssql": 1433}


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


def unreachable(uri: str, seconds: float = 5.0) -> str | None:
    """Why no connection to the host of `uri` can be made; None if one can.

    None too where this cannot tell: a file, a local socket, a host behind a proxy. Waits at most about `seconds` for
    each address that the host has.
    """
    from urllib.request import getproxies, proxy_bypass  # slow to import

    try:
        parts = urlsplit(uri)
        scheme, host, port = parts.scheme.split("+")[0], parts.hostname, parts.port
    except ValueError:
        return None
    port = port or _PORTS.get(scheme)
    if host is None or port is None or (scheme in getproxies() and not proxy_bypass(host)):
        return None
    try:
        socket.create_connection((host, port), seconds).close()
    except OSError as error:
        return f"{type(error).__name__}: nobody answers at {host}:{port}"
    return None
