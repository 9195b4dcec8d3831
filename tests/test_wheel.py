"""A built wheel, installed outside the checkout: configurations and templates come with it."""

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("harness", "methods", "configs", "reports")
POCKET = ROOT / "packages" / "pocket"


def call(*words: str, cwd: Path, **env: str) -> str:
    whole = {
        k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "HARNESS_CONFIGS")
    } | env
    done = subprocess.run(
        words, cwd=cwd, env=whole, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what pip installs of the main package and the embedded model; all else is of
    this environment."""
    version = importlib.metadata.version("setuptools")
    if int(version.partition(".")[0]) < 77:
        pytest.skip(
            f"building the wheel without a network needs setuptools >= 77, here is {version}"
        )
    folder = tmp_path_factory.mktemp("wheel")
    for name in PACKAGES:
        shutil.copytree(
            ROOT / name, folder / "source" / name, ignore=shutil.ignore_patterns("__pycache__")
        )
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder / "source" / name)
    shutil.copytree(
        POCKET,
        folder / "pocket",
        ignore=shutil.ignore_patterns("__pycache__", "*.egg-info", "tests"),
    )
    pip = (
        sys.executable,
        "-m",
        "pip",
        "--quiet",
        "--disable-pip-version-check",
        "install",
        "--no-deps",
    )
    how = ("--no-build-isolation", "--no-index", "--no-compile", "--target", str(folder / "site"))
    call(*pip, *how, str(folder / "source"), str(folder / "pocket"), cwd=folder)
    return folder / "site"


def data_files(root: Path) -> set[str]:
    """Everything in the packages that is no Python file."""
    found = (p for name in PACKAGES for p in (root / name).rglob("*") if p.is_file())
    return {p.relative_to(root).as_posix() for p in found if p.suffix not in (".py", ".pyc")}


def test_the_wheel_has_every_file_of_the_packages_and_no_other_package(installed: Path) -> None:
    assert data_files(installed) == data_files(ROOT)
    assert "configs/methods/pecan.yaml" in data_files(installed)
    assert (installed / "pocket/model/model.safetensors").is_file()
    (record,) = installed.glob("longdoc_harness-*.dist-info/RECORD")
    tops = {line.partition("/")[0] for line in record.read_text().splitlines()}
    assert {name for name in tops if not name.endswith(".dist-info") and name != ".."} == set(
        PACKAGES
    )


def test_the_installed_command_runs_and_reports(installed: Path, tmp_path: Path) -> None:
    harness = (sys.executable, str(installed / "bin" / "harness"))
    env = {"HARNESS_HOME": str(tmp_path / "home"), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    env["PYTHONPATH"] = str(installed)
    where = Path(
        call(
            sys.executable, "-c", "import harness; print(harness.__file__)", cwd=tmp_path, **env
        ).strip()
    )
    assert where.is_relative_to(installed)
    words = ["run", "--method", "bm25", "--dataset", "pocket/musique", "--limit", "2", "--json"]
    line = json.loads(
        call(*harness, *words, "--mlflow", "off", cwd=tmp_path, **env).splitlines()[-1]
    )
    assert line["summary"]["n_scored"] == 2
    assert "bm25--pocket-llama--" in line["run"]  # the model came with the wheel of packages/pocket
    assert "bm25" in call(*harness, "report", "results", cwd=tmp_path, **env)
    manifest = json.loads((tmp_path / line["run"] / "manifest.json").read_text())
    assert manifest["git"] is None
