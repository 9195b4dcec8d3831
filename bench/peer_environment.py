"""The environment of `python -m bench.peers`: other tools at pinned versions, outside the project's."""

from __future__ import annotations

import hashlib
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PINS = ROOT / "bench" / "peers.txt"
FOLDER = Path.home() / ".cache" / "harness-peers"
_EXACTLY = ("--quiet", "--no-deps")


def peers_python(folder: Path) -> str:
    """The Python of the environment in `folder`, which is made where it is missing or its pins have
    changed. Raises CalledProcessError where a package cannot be installed."""
    python = folder / "bin" / "python"
    stamp = folder / "installed"
    digest = hashlib.sha256(PINS.read_bytes()).hexdigest()
    if not stamp.exists() or stamp.read_text() != digest:
        print(f"Installing the peers into {folder} ...", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        _install_torch(python)
        _install_pins(python)
        stamp.write_text(digest)
    return str(python)


def _install_torch(python: Path) -> None:
    """Install the PyTorch of the project: its build for CPUs, else that for CUDA."""
    pip = [str(python), "-m", "pip", "install", *_EXACTLY, "--require-hashes"]
    requirements = ROOT / "requirements"
    for_cpus = [*pip, "-r", str(requirements / "torch-cpu.txt")]
    if subprocess.run(for_cpus, capture_output=True).returncode:
        for_cuda = [*pip, "-r", str(requirements / "cuda.txt")]
        subprocess.run([*for_cuda, "-r", str(requirements / "torch.txt")], check=True)


def _install_pins(python: Path) -> None:
    """Install peers.txt, by uv where the project has it."""
    pip = [str(python), "-m", "pip", "install"]
    if importlib.util.find_spec("uv") is not None:
        pip = [sys.executable, "-m", "uv", "pip", "install", "--python", str(python)]
    subprocess.run([*pip, *_EXACTLY, "-r", str(PINS)], check=True)


def versions() -> str:
    """The peers with their versions, as they are pinned: the first lines of peers.txt."""
    first_block = PINS.read_text(encoding="utf-8").split("\n\n")[0]
    pins = re.findall(r"^([^#\s=]+)==(\S+)", first_block, re.MULTILINE)
    return ", ".join(map(" ".join, pins))
