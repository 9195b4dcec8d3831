"""Runs that a newer version of the same code made again: an edited method or prompt gets a new run
folder beside the old one.

    newest, older = split_by_newest_code(runs)     tables show `newest`; each says how many it supersedes

Two runs are versions of one another when settings, rows, models and the corpus are the same and only
the hash of their folders differs. The same run in two results folders has one hash, and is no such
version.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from harness.config.registry import short_name
from harness.config.schema import canonical_json
from harness.storage.manifest_file import SearchedCorpus
from harness.storage.run_folder import StoredRun
from reports import facts
from reports.number_formats import with_noun
from reports.settings import setting_values


def split_by_newest_code(runs: Sequence[StoredRun]) -> tuple[list[StoredRun], list[StoredRun]]:
    """Two lists: the runs without those that newer code made again, and these others.

    A run of the first list has a note of how many others it takes the place of.
    """
    keys = [_key_without_code(run) for run in runs]
    versions_by_key: dict[str, list[StoredRun]] = defaultdict(list)
    for run, key in zip(runs, keys, strict=True):
        versions_by_key[key].append(run)
    newest = []
    older = []
    for run, key in zip(runs, keys, strict=True):
        newest_version = max(versions_by_key[key], key=_last_start)
        if facts.hash8(run) != facts.hash8(newest_version):
            older.append(run)
        else:
            newest.append(_with_note_on_versions(run, versions_by_key[key]))
    return newest, older


def _key_without_code(run: StoredRun) -> str:
    """A text that is equal for runs which only code, prompts or the version of an index tell apart.

    An imported run has a key of its own, as it has no code that could be edited.
    """
    if facts.is_imported(run):
        return str(run.path)
    method = run.config.method
    corpus = run.manifest.corpus or SearchedCorpus()
    key_values = [
        run.config.dataset.name,
        method.name,
        short_name(str(method.implementation)),
        setting_values(run),
        run.config.failed,
        facts.rows_fingerprint(run),
        run.manifest.models,
        corpus.hashed,
    ]
    return canonical_json(key_values)


def _last_start(run: StoredRun) -> str:
    """When the last start of the run began; "" where that is not recorded."""
    return run.manifest.run_and_starts[-1].started or ""


def _with_note_on_versions(run: StoredRun, versions: Sequence[StoredRun]) -> StoredRun:
    """The run with a note of how many of these versions are of older code; as it is without any.

    Args:
        run: The newest version.
        versions: All versions of the run, itself included.
    """
    n_older = sum(facts.hash8(other) != facts.hash8(run) for other in versions)
    if not n_older:
        return run
    older_runs = f"{with_noun(n_older, 'run')} of older code or prompts left out"
    note = f"{older_runs} (--all-code shows them, harness prune lists)"
    return replace(run, notes=(*run.notes, note))
