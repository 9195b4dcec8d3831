"""Edits that keep hash, names and checksums in order: what is false stands between the files."""

from datetime import datetime

from bench.commands import call
from bench.fabrications import Edit, Folder, Record

LATER = "2026-05-01T09:00:01+00:00"


def _fewer_passages_by_settings(folder: Folder) -> None:
    """The records of k=5 stand under the settings, hash and name of k=3."""
    folder.config(method__params__k=3, method__mark="pocket, k=3")
    folder.rename()


def _more_passages_by_settings(folder: Folder) -> None:
    """The records of k=5 stand under the settings, hash and name of k=9."""
    folder.config(method__params__k=9, method__mark="pocket, k=9")
    folder.rename()


def _no_mark(folder: Folder) -> None:
    """A run of k=3 looks like one of the preset's k."""

    def cut(row: Record) -> None:
        """Leave three of the passages that a record shows."""
        row["shown"] = row["shown"][:3]

    folder.each(cut)
    folder.config(method__params__k=3)
    folder.origin("method.params.k", "--set")
    folder.rename()
    folder.seal()
    call("score", str(folder.path))


def _no_mark_or_origin(folder: Folder) -> None:
    """A run of a profile's chunks looks like one of the preset's."""
    folder.config(profile="pocket", method__params__chunk_tokens=100)
    folder.rename()


def _marked_with_another_k(folder: Folder) -> None:
    """The mark in the table names a k that is not the run's."""
    folder.config(method__mark="pocket, k=7")


def _short(folder: Folder) -> None:
    """The run, of questions that took nine seconds each, is said to have taken one, half a year
    ago."""
    folder.each(lambda row: row["notes"].update(seconds=9.0))
    times = {"started": "2026-05-01T09:00:00+00:00", "finished": LATER}
    starts = [{**start, **times} for start in folder.manifest_of()["starts"]]
    folder.manifest(starts=starts, **times)


def _long_questions(folder: Folder) -> None:
    """Each question took as long as the whole run may have, whose times are whole seconds."""
    (start,) = folder.manifest_of()["starts"]
    began, ended = (datetime.fromisoformat(start[key]) for key in ("started", "finished"))
    lasted = (ended - began).total_seconds() + 2
    folder.each(lambda row: row["notes"].update(seconds=lasted))


def _other_end(folder: Folder) -> None:
    """The run is said to have started at another time than its first start."""
    folder.manifest(started="2026-05-01T09:00:00+00:00")


FOURTH_EDITS: tuple[Edit, ...] = (
    Edit("the records of k=5 under k=3", _fewer_passages_by_settings),
    Edit("the records of k=5 under k=9", _more_passages_by_settings),
    Edit("no mark", _no_mark),
    Edit("no mark, and no origin", _no_mark_or_origin),
    Edit("a mark of another k", _marked_with_another_k),
    Edit("a run of one second", _short),
    Edit("questions as long as the run", _long_questions),
    Edit("a start of the run that is none", _other_end),
)
