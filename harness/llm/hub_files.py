"""Models from the hub: the files a safe load reads, at the commit that harness.storage.hub pins."""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path

from harness.errors import CannotRun
from harness.storage.hub import MODELS, Kind, download, resolve

# No pickles, no code. Sub-folders hold other formats of the same weights, or a sentence encoder's pooling settings.
PATTERNS = ("*.safetensors", "*.json", "*.jinja", "*.txt", "tokenizer.model")
SETTINGS = ("*/config.json",)


def snapshot(repo: str, revision: str | None, kind: Kind = MODELS) -> tuple[Path, str]:
    """Folder and commit of a hub model; downloads what is missing. kind: for messages, where it is no reader.

    Raises CannotRun when the hub cannot be reached, or has no such model, or none in safetensors.
    """
    commit, files = resolve(kind, repo, revision)
    safe_files = [f for f in files if _safe(f)]
    if not any(f.endswith(".safetensors") for f in safe_files):
        raise CannotRun(
            f"the model '{repo}' on the hub has no *.safetensors file; weights in other formats are not loaded (they "
            "can run code)"
        )
    paths = [download(kind, repo, commit, name) for name in safe_files]
    return paths[safe_files.index("config.json")].parent if "config.json" in safe_files else paths[0].parent, commit


def _safe(name: str) -> bool:
    if "/" in name:
        return any(fnmatch(name, pattern) for pattern in SETTINGS)
    return any(fnmatch(name, pattern) for pattern in PATTERNS)


def single(repo: str, name: str, revision: str | None) -> Path:
    """One file of a hub model, at the locked commit. Raises CannotRun if it is not available."""
    commit, files = resolve(MODELS, repo, revision)
    if name not in files:
        some = ", ".join(sorted(f for f in files if f.endswith(Path(name).suffix))) or "none of that kind"
        raise CannotRun(f"the model '{repo}' on the hub has no file '{name}'; it has: {some}")
    return download(MODELS, repo, commit, name)
