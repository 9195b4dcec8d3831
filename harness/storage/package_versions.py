"""Versions of installed packages: {"umap-learn": "0.5.7"}."""

from collections.abc import Iterable
from contextlib import suppress
from importlib import metadata


def package_versions(names: Iterable[str]) -> dict[str, str]:
    """Package -> its installed version, or "not installed": {"umap-learn": "0.5.7"}."""
    names = sorted(names)
    return dict.fromkeys(names, "not installed") | installed_versions(names)


def installed_versions(names: Iterable[str]) -> dict[str, str]:
    """Package -> its installed version; packages that are not installed are left out."""
    by_name = {}
    for name in names:
        with suppress(metadata.PackageNotFoundError):
            by_name[name] = metadata.version(name)
    return by_name
