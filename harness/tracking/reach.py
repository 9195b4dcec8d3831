"""Whether anybody listens where a tracking URI says, found out in a moment and without MLflow.

>>> unreachable("http://127.0.0.1:9")
'ConnectionRefusedError: nobody answers at 127.0.0.1:9'
>>> unreachable("sqlite:///runs.db") is None
True
"""

from __future__ import annotations

import socket
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

_PORTS = {"http": 80, "https": 443, "postgresql": 5432, "mysql": 3306, "mssql": 1433}


def unreachable(uri: str, seconds: float = 5.0) -> str | None:
    """Why no connection to the host of `uri` can be made; None where one can.

    None too where this cannot tell: a file, a local socket, a host behind a proxy. Waits at most about `seconds` for
    each address that the host has.
    """
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
