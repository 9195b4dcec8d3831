"""Replies of models across runs (--cache replies): a file each, named by all that the reply depends
on.

    <cache>/replies/<model>/model.json               the model's name, and all that changes its output
    <cache>/replies/<model>/<first 2>/<digest>.json  {"key", "value", "events"}

    replies = ReplyCache(cache_root(), "llama", identity, note)
    value, cached = replies.get_or_send(key, send, meter, "reader", shape)

A model is known by its identity (hashes of weights, tokenizer, template and adapters, dtype,
window), not by its name; one behind a server by what it is called there. A torn file counts as
missing.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import NamedTuple

from harness.cost.flops import Event, ModelShape
from harness.cost.meter import Meter
from harness.errors import SaveError
from harness.storage.files import make_folder, read_object, write_atomic
from harness.storage.index_cache import cache_root, key_digest
from harness.storage.json_lines import json_line
from harness.storage.warn_once import WarnOnce

_VERSION = "1"  # raise it when sessions can no longer use the replies that are stored
_FOLDER = "replies"
_SETTING = "HARNESS_CACHE"


class CachedModel(NamedTuple):
    """The folder of the cache with the replies of one model: the model's name, how many replies
    there are, and how many bytes they have.
    """

    folder: Path
    model: str
    replies: int
    size: int


class ObtainedReply(NamedTuple):
    """The JSON values of a reply, and whether it was in the cache before it was wanted."""

    value: dict[str, object]
    was_stored: bool


@dataclass(frozen=True)
class StoredReply:
    """A reply as a file of the cache holds it.

    Attributes:
        key: Digest of all that the reply depends on.
        value: The reply as JSON values, which the session of the model makes and reads.
        events: What it cost.
    """

    key: str
    value: dict[str, object]
    events: tuple[Event, ...]

    @classmethod
    def read(cls, path: Path, digest: str) -> StoredReply | None:
        """Read a reply of the cache; None where the file is missing,
        torn, or not of the key `digest`.
        """
        try:
            stored = read_object(path)
        except (OSError, ValueError):
            return None
        if stored.get("key") != digest:
            return None
        events = tuple(Event(**row) for row in stored["events"])
        return cls(key=digest, value=stored["value"], events=events)

    def to_json(self) -> dict[str, object]:
        """The JSON object that its file holds: {"key": ..., "value": ..., "events": [...]}."""
        events = [asdict(event) for event in self.events]
        return {"key": self.key, "value": self.value, "events": events}


class ReplyCache:
    """The stored replies of one model in a cache folder; any thread may use them."""

    def __init__(
        self, root: Path, model: str, identity: Mapping[str, object], note: Callable[[str], None]
    ) -> None:
        """Name the folder of the model's replies; nothing is made yet.

        Args:
            root: The cache folder.
            model: The model's name.
            identity: All that changes the model's output; the folder is named by its hash.
            note: Called with a sentence if replies cannot be written.
        """
        self._model_key = {"version": _VERSION, "identity": dict(identity)}
        self._model_name = model
        self.folder = root / _FOLDER / key_digest(self._model_key)[:16]
        self._warn = WarnOnce(note, "replies are not cached, and are asked for again next time")

    def get_or_send(
        self,
        key: Mapping[str, object],
        send: Callable[[], dict[str, object]],
        meter: Meter,
        role: str,
        shape: ModelShape | None,
    ) -> ObtainedReply:
        """Return the stored reply to a request, or else send it and store its reply.

        The cost is booked in `meter` in both cases; that of a stored reply as `recalled`. A reply
        that cannot be stored costs a warning.

        Args:
            key: All that the reply depends on beside the model.
            send: Sends the request, books its cost in `meter`, and returns its reply as JSON
                values.
            meter: The meter of the question.
            role: The role that a stored reply is booked under.
            shape: The sizes of the model, for a stored reply.
        """
        digest = key_digest({**self._model_key, **key})
        path = self.folder / digest[:2] / f"{digest}.json"
        stored = StoredReply.read(path, digest)
        if stored is not None:
            for event in stored.events:
                booked = replace(
                    event, role=role, phase=meter.current_phase, recalled=event.requests
                )
                meter.record(booked, shape)
            return ObtainedReply(stored.value, was_stored=True)
        events_before = len(meter.events)
        value = send()
        try:
            self._store(
                path,
                StoredReply(key=digest, value=value, events=tuple(meter.events[events_before:])),
            )
        except SaveError as error:
            self._warn(error)
        return ObtainedReply(value, was_stored=False)

    def _store(self, path: Path, reply: StoredReply) -> None:
        """Write a reply into its file; before a model's first one also model.json, which says what
        the model is. Raises SaveError.
        """
        make_folder(path.parent, _SETTING)
        model_file = self.folder / "model.json"
        if not model_file.exists():
            line = json_line({"name": self._model_name, **self._model_key})
            write_atomic(model_file, line, sync_folder=False, setting=_SETTING)
        write_atomic(path, json_line(reply.to_json()), sync_folder=False, setting=_SETTING)


def cached_models() -> list[CachedModel]:
    """List the models whose replies are in this machine's cache, with the number and bytes of
    each.
    """
    models = []
    for folder in sorted((cache_root() / _FOLDER).glob("*")):
        try:
            model_name = str(read_object(folder / "model.json")["name"])
        except (OSError, ValueError, KeyError):
            model_name = "unknown"
        sizes = [path.stat().st_size for path in folder.glob("*/*.json")]
        models.append(
            CachedModel(folder=folder, model=model_name, replies=len(sizes), size=sum(sizes))
        )
    return models


def delete_replies(models: list[CachedModel]) -> None:
    """Delete the folders with the stored replies of these models."""
    for model in models:
        shutil.rmtree(model.folder)
