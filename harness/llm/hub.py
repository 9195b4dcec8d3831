"""Models from the hub: the commit behind a name is resolved once, written to a lock file, and used ever after."""

from __future__ import annotations

from pathlib import Path

from harness.errors import CannotRun
from harness.home import home, read_lock, write_json

__all__ = ["LOCK", "snapshot"]

LOCK = "model-lock.json"
# Only what a safe load reads: no pickles, no code.
PATTERNS = ["*.safetensors", "*.json", "*.jinja", "tokenizer*", "*.txt"]


def snapshot(repo: str, revision: str | None) -> tuple[Path, str]:
    """Folder and commit of a hub model; downloads what is missing.

    The commit comes from `revision` if given, else from the lock file, else it is resolved and locked now.
    Raises CannotRun when the hub cannot be reached or has no such model.
    """
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError, RepositoryNotFoundError

    lock_file = home() / LOCK
    lock = read_lock(lock_file)
    wanted = revision or lock.get(repo)
    try:
        commit = wanted or HfApi().model_info(repo).sha
        folder = snapshot_download(repo, revision=commit, allow_patterns=PATTERNS)
    except RepositoryNotFoundError as e:
        raise CannotRun(f"the hub has no model '{repo}' (or it needs a token: set HF_TOKEN)") from e
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError) as e:
        raise CannotRun(
            f"the hub cannot be reached for '{repo}' ({type(e).__name__}); name a local folder with --model FOLDER"
        ) from e
    commit = Path(folder).name if revision else str(commit)
    if not wanted:
        write_json(lock_file, {**lock, repo: commit})
    return Path(folder), commit
