"""Tracking URIs, taken apart."""

from __future__ import annotations

from pathlib import Path

__all__ = ["sqlite_path"]


def sqlite_path(uri: str) -> Path | None:
    """The file of a sqlite URI; None for another database, a server, or one that is kept in memory."""
    scheme, _, rest = uri.partition("://")
    name = rest.partition("?")[0].removeprefix("/")
    return Path(name) if scheme.split("+")[0] == "sqlite" and name and not name.startswith(":memory:") else None
