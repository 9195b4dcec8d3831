"""Checksums of a run folder's files, written when a run ends: an edit made later shows.

    summary.json    {..., "files": {"run.yaml": sha256, "manifest.json": ..., "records.jsonl": ...}}

They reveal accidents and careless edits. Whoever computes them anew hides an edit from them; what
records, settings and methods say of each other is compared elsewhere (reports/consistency.py).
"""

from pathlib import Path

from harness.storage.file_hash import file_hash
from harness.storage.manifest_file import RunManifest
from harness.storage.run_files import DOCUMENTS, MANIFEST, RECORDS, RUN, TEXTS
from harness.storage.summary_file import RunSummary

_HASHED_FILES = (RUN, MANIFEST, RECORDS, DOCUMENTS, TEXTS)


def file_checksums(folder: Path) -> dict[str, str]:
    """Hash the files of a run that are in `folder`: {"records.jsonl": <sha256>, ...}."""
    return {name: file_hash(folder / name) for name in _HASHED_FILES if (folder / name).is_file()}


def changed_files(folder: Path, manifest: RunManifest, summary: RunSummary) -> list[str] | None:
    """Names of the files of a run that differ from what its summary.json says they were when the
    run ended.

    Args:
        folder: The run folder.
        manifest: Its manifest.json.
        summary: Its summary.json.

    Returns:
        The names, [] where all are as they were. None where that is not known: an older run, or one
        that has not ended.
    """
    at_end_of_run = summary.files
    if at_end_of_run is None or manifest.last_start.state == "running":
        return None
    current = file_checksums(folder)
    return [name for name in _HASHED_FILES if at_end_of_run.get(name) != current.get(name)]
