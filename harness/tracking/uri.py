"""Tracking URIs, taken apart; and what is secret in them, in any text that holds one.

>>> masked("postgresql://bob:hunter2@db:5432/runs?password=x")
'postgresql://***@db:5432/runs?password=***'
"""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

from harness.storage.paths import expanded

_SQLITE = "sqlite:///"
# A user with a password may have anything but a space behind the colon, a "/" or an "@" too; one without ends there.
_USER = re.compile(r"(?<=://)(?:[^\s/?#@:]*:\S*|[^\s/?#@]*)@")
_WHOLE = re.compile(r"^(\S*?://)[^/?#@:]*:.*@", re.DOTALL)
_SECRET = re.compile(
    r"([?&;][^=&;\s]*(?:pass|pwd|secret|token|key|credential|signature|odbc_connect)[^=&;\s]*=)[^&\s]*", re.IGNORECASE
)


def masked(text: str) -> str:
    """`text` with users, passwords and keys in the addresses that it holds as ***; other texts as they are.

    A text that is one address is masked up to its last "@", so that a password with a space in it leaves nothing.
    """
    if "://" not in text:
        return text
    return _SECRET.sub(r"\1***", _USER.sub("***@", _WHOLE.sub(r"\1***@", text)))


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
