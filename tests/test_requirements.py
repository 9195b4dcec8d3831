"""What `make venv` installs is pinned by hash, and nothing older than the first safe version is
allowed."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent
LOCKS = sorted((ROOT / "requirements").glob("*.txt"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# Extras that `make venv` leaves out: heavy, or only for a server.
NOT_INSTALLED = {"entities", "serving"}


def locked(path: Path) -> dict[str, str]:
    """Name -> its entry with all hashes."""
    entries = re.split(r"\n(?=\S)", path.read_text().strip())
    return {re.split(r"[=\s;]", entry)[0]: entry for entry in entries}


@pytest.mark.parametrize(
    "path",
    [p for p in LOCKS if p.name not in ("versions.txt", "overrides.txt")],
    ids=lambda p: p.name,
)
def test_every_package_has_an_exact_version_and_a_hash(path: Path) -> None:
    for name, entry in locked(path).items():
        assert re.match(r"[a-z0-9._-]+==\S+", entry, re.IGNORECASE), name
        assert re.findall(r"--hash=sha256:[0-9a-f]{64}", entry), name
        assert "://" not in entry


def test_the_locks_hold_everything_that_the_project_declares() -> None:
    held = {name.lower().replace("_", "-") for path in LOCKS for name in locked(path)}
    optional = PROJECT["optional-dependencies"]
    lines = [
        *PROJECT["dependencies"],
        *(line for key in optional.keys() - NOT_INSTALLED for line in optional[key]),
    ]
    wanted = {Requirement(line).name.lower().replace("_", "-") for line in lines} - {
        "longdoc-harness"
    }
    assert wanted - held == set()


@pytest.mark.parametrize(
    ("name", "unsafe"),
    [
        (
            "sentence-transformers",
            "5.7.0",
        ),  # runs code from a local model folder without being asked (its issue 3801)
        ("torch", "2.5.1"),  # weights_only=True does not stop code (CVE-2025-32434)
        ("datasets", "3.6.0"),  # runs a data set's loading script
    ],
)
def test_unsafe_versions_are_not_allowed(name: str, unsafe: str) -> None:
    (requirement,) = (r for r in map(Requirement, PROJECT["dependencies"]) if r.name == name)
    assert unsafe not in requirement.specifier
