"""A built wheel, installed outside the checkout: configurations and templates come with it."""

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("harness", "methods", "configs", "reports")
POCKET = ROOT / "packages" / "pocket"


def call(*words: str, cwd: Path, **env: str) -> str:
    whole = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "HARNESS_CONFIGS")} | env
    done = subprocess.run(words, cwd=cwd, env=whole, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment that has the wheel, and this environment's packages except the project itself."""
    version = importlib.metadata.version("setuptools")
    if int(version.partition(".")[0]) < 77:
        pytest.skip(f"building the wheel without a network needs setuptools >= 77, here is {version}")
    folder = tmp_path_factory.mktemp("wheel")
    for name in PACKAGES:
        shutil.copytree(ROOT / name, folder / "source" / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder / "source" / name)
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
    shutil.copytree(POCKET, folder / "pocket", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info", "tests"))
    sources = (str(folder / "source"), str(folder / "pocket"))
    call(*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", str(folder), *sources, cwd=folder)
    call(sys.executable, "-m", "venv", "--without-pip", str(folder / "venv"), cwd=folder)
    main, pocket = sorted(folder.glob("*.whl"))
    python = folder / "venv" / "bin" / "python"
    here = ("--python", str(python), "install", "--no-deps", "--no-index", "--no-compile")
    call(*pip, *here, str(main), str(pocket), cwd=folder)
    site = call(str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder).strip()
    # A path named in a .pth file is searched, but its own .pth files (an editable install) are not read.
    Path(site, "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder


def data_files(root: Path) -> set[str]:
    """Everything in the packages that is no Python file."""
    found = (p for name in PACKAGES for p in (root / name).rglob("*") if p.is_file())
    return {p.relative_to(root).as_posix() for p in found if p.suffix not in (".py", ".pyc")}


def test_the_wheel_has_every_file_of_the_packages(installed: Path) -> None:
    (site,) = (installed / "venv").glob("lib/python*/site-packages")
    assert data_files(site) == data_files(ROOT)
    assert "configs/methods/pecan.yaml" in data_files(site)
    assert (site / "pocket/model/model.safetensors").is_file()


def test_the_main_wheel_has_no_other_package(installed: Path) -> None:
    main, _ = sorted(installed.glob("*.whl"))
    tops = {name.partition("/")[0] for name in zipfile.ZipFile(main).namelist()}
    assert {name for name in tops if not name.endswith(".dist-info")} == set(PACKAGES)


def test_the_installed_command_runs_and_reports(installed: Path, tmp_path: Path) -> None:
    harness, python = (str(installed / "venv" / "bin" / name) for name in ("harness", "python"))
    env = {"HARNESS_HOME": str(tmp_path / "home"), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    where = Path(call(python, "-c", "import harness; print(harness.__file__)", cwd=tmp_path).strip())
    assert where.is_relative_to(installed / "venv")
    words = ["run", "--method", "bm25", "--dataset", "pocket/musique", "--limit", "2", "--json"]
    line = json.loads(call(harness, *words, "--mlflow", "off", cwd=tmp_path, **env).splitlines()[-1])
    assert line["summary"]["n_scored"] == 2
    assert "bm25--pocket-llama--" in line["run"]  # the model came with the wheel of packages/pocket
    assert "bm25" in call(harness, "report", "results", cwd=tmp_path, **env)
    manifest = json.loads((tmp_path / line["run"] / "manifest.json").read_text())
    assert manifest["git"] is None
