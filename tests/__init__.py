"""The tests, with the packages of this checkout on the path, also for processes that tests
start."""

import hashlib
import os
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_OF_TESTS = (
    "[harness.backends]\nrandom = tests.random_model:Random\n\n[harness.configs]\ntests = tests\n"
)
_PACKAGES = sorted(ROOT.glob("packages/*/pyproject.toml"))


def _entry_points() -> str:
    """A folder with what the packages of this checkout declare, as pip writes it; another version
    may be installed."""
    mark = hashlib.sha256(str(ROOT).encode()).hexdigest()[:12]
    info = Path(
        tempfile.gettempdir(), f"harness-tests-{os.getuid()}-{mark}", "checkout-0.dist-info"
    )
    info.mkdir(parents=True, exist_ok=True)
    (info / "METADATA").write_text("Name: checkout\nVersion: 0\n")
    text = ""
    for file in _PACKAGES:
        for group, targets in tomllib.loads(file.read_text())["project"]["entry-points"].items():
            text += (
                f"[{group}]\n"
                + "".join(f"{name} = {target}\n" for name, target in targets.items())
                + "\n"
            )
    (info / "entry_points.txt").write_text(text)
    tests = info.parent / "tests-0.dist-info"
    tests.mkdir(exist_ok=True)
    (tests / "METADATA").write_text("Name: tests\nVersion: 0\n")
    (tests / "entry_points.txt").write_text(_OF_TESTS)
    return str(info.parent)


_FOLDERS = [str(ROOT), *(str(path.parent) for path in _PACKAGES), _entry_points()]
sys.path[:0] = _FOLDERS
os.environ["PYTHONPATH"] = os.pathsep.join(
    [*_FOLDERS, *filter(None, [os.environ.get("PYTHONPATH")])]
)
