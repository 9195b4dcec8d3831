"""What a run was made with: enough to tell two runs apart years later.

    {"command", "started", "finished", "starts": [{"command", "started", "finished", "state", "changed"?}, ...],
     "method", "hash", "seed", "models": {role: identity}, "servers"?: {role: url}, "prompts",
     "dataset": {"fingerprint", "source", ...},
     "scorers": {name: version}, "git": {"commit", "dirty"} | null, "packages", "python", "platform", "cpus",
     "memory_gib", "gpu", "warnings", "first_prompts": {role: {"text", "ids"}}}

A run that is continued keeps its first description; each later start says what had changed by then. The user's home
folder is written ~ everywhere but in the command, which is kept as typed.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import __version__

if TYPE_CHECKING:
    from harness.plan import Plan

__all__ = ["begun", "describe", "describe_gpu", "ended", "git_state", "now"]

# Packages whose version can change a prediction, a score or a count.
_PACKAGES = (
    "accelerate",
    "datasets",
    "evaluate",
    "fvcore",
    "jieba",
    "llmlingua",
    "mlflow",
    "nltk",
    "numpy",
    "pandas",
    "peft",
    "pydantic",
    "rank-bm25",
    "rouge",
    "rouge-score",
    "safetensors",
    "scikit-learn",
    "scipy",
    "sentence-transformers",
    "tokenizers",
    "torch",
    "transformers",
    "umap-learn",
)
_FIXED = ("method", "hash", "dataset", "first_prompts")  # part of a run's identity, or found while it goes


def now() -> str:
    """The time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def git_state(root: Path) -> dict[str, Any] | None:
    """Commit and dirty flag of the checkout whose top folder is `root`; None when it is not one.

    An installed package inside somebody else's checkout is not that checkout. The commit is None before the first.
    """

    def git(*words: str) -> str | None:
        try:
            done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, timeout=10)
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    top = git("rev-parse", "--show-toplevel")
    if not top or Path(top).resolve() != root.resolve():
        return None
    status = git("status", "--porcelain")
    return {"commit": git("rev-parse", "--verify", "HEAD"), "dirty": None if status is None else status != ""}


def describe(plan: Plan) -> dict[str, Any]:
    """Everything but the times, the command and the first prompts."""
    from harness import scorers

    dataset = plan.dataset
    described = {
        "method": plan.config.method.name,
        "hash": plan.hash8,
        "seed": plan.config.seed,
        "models": plan.facts,
        **_servers(plan),
        "prompts": plan.method.prompts(),
        "dataset": {
            "name": dataset.name,
            "fingerprint": dataset.fingerprint,
            "source": dataset.source,
            "revision": dataset.revision,
            "questions": len(dataset.examples),
            "skipped": dict(dataset.skipped),
        },
        "scorers": {name: scorers.version(name) for name in plan.config.dataset.scorers},
        "git": git_state(Path(__file__).resolve().parents[1]),
        "packages": _packages(),
        **_machine(),
        "warnings": list(plan.warnings),
    }
    without_home: dict[str, Any] = _no_home(described, _home())
    return without_home


def _servers(plan: Plan) -> dict[str, Any]:
    """{"servers": {role: base_url}} where a model is asked over the network; its key is nowhere in a plan."""
    found = {role: model.base_url for role, model in plan.models.items() if model.backend == "endpoint"}
    return {"servers": found} if found else {}


def begun(before: dict[str, Any], described: dict[str, Any], command: list[str]) -> dict[str, Any]:
    """The manifest at the start: a new one, or `before` with one more start."""
    start: dict[str, Any] = {"command": command, "started": now(), "finished": None, "state": "running"}
    if not before:
        return {"command": command, "started": start["started"], "finished": None, "starts": [start], **described}
    changed = {k: v for k, v in described.items() if k not in _FIXED and before.get(k) != v}
    if changed:
        start["changed"] = changed
    return {**before, "finished": None, "starts": [*before["starts"], start]}


def ended(manifest: dict[str, Any], state: str) -> dict[str, Any]:
    """The manifest at the end of this start; `state` is finished, interrupted or stopped."""
    time = now()
    last = {**manifest["starts"][-1], "finished": time, "state": state}
    finished = time if state == "finished" else None
    return {**manifest, "finished": finished, "starts": [*manifest["starts"][:-1], last]}


def _packages() -> dict[str, str]:
    found = {"longdoc-harness": __version__}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _machine() -> dict[str, Any]:
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "memory_gib": _memory_gib(),
        "gpu": describe_gpu(),
    }


def _memory_gib() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (ValueError, OSError):
        return None


def describe_gpu() -> str | None:
    """Name of the GPU, None where there is none or torch is not loaded."""
    torch = sys.modules.get("torch")  # not imported for this: a run that loads no model has no use for it
    if torch is None or not torch.cuda.is_available():
        return None
    return str(torch.cuda.get_device_name())


def _home() -> str | None:
    home = os.path.expanduser("~")
    return home if len(Path(home).parts) > 1 else None


def _no_home(value: Any, home: str | None) -> Any:
    if isinstance(value, str):
        return value if home is None else value.replace(home + os.sep, "~" + os.sep)
    if isinstance(value, dict):
        return {k: _no_home(v, home) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_no_home(v, home) for v in value]
    return value
