"""Indexes kept by content: the same document, method and models never pay for the same index twice.

    <root>/<implementation>/<first 2>/<digest>/
        key.json         everything that was hashed (harness/engine/indexing.py), to be read by a person
        data.json        the index without its arrays
        arrays.npz       its arrays (missing when it has none)
        usage.json       the model calls that building it took, and the shapes of those models
    <root>/<implementation>/<first 2>/<digest>.parts/<part digest>/     what tools.keep stored of an unfinished index
    <root>/shared.<name>/<first 2>/<digest>/                            what tools.share stored for indexes of any kind

No pickle. An entry is written beside its place and renamed into it, so it is there whole or not at all, and builders
that race end with the first one's entry. One that cannot be read is reported and built again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from harness.cost.flops import Event, ModelShape
from harness.cost.meter import Meter
from harness.errors import SaveError
from harness.parallel.locks import KeyedLocks
from harness.storage.files import home, read_object, save_error
from harness.storage.paths import local_folder
from harness.storage.serialize import Packed, dump, load
from harness.types import Document

Note = Callable[[str], None]


def cache_root() -> Path:
    """HARNESS_CACHE, else `cache` in HARNESS_HOME, else .harness/cache in the current folder."""
    if own := os.environ.get("HARNESS_CACHE"):
        return local_folder(own)
    return home() / "cache"


def open_cache(note: Callable[[str], None], served: Mapping[str, ModelShape | None]) -> IndexCache:
    """Open this machine's index cache; note, served: as of IndexCache."""
    return IndexCache(cache_root(), note, served)


def key_digest(key: dict[str, Any]) -> str:
    """sha256 (hex) of a cache key, a JSON object, with its keys sorted; escapes keep lone surrogates hashable."""
    return hashlib.sha256(json.dumps(key, sort_keys=True, ensure_ascii=True).encode()).hexdigest()


@lru_cache(maxsize=8)  # questions on one document follow each other, and a book takes tens of milliseconds
def document_digest(document: Document) -> str:
    """sha256 (hex) of all a method can see of a document, also of its id: an index may name its document."""
    return key_digest(asdict(document))


@dataclass(frozen=True)
class Entry:
    """A stored value with the model calls (events) that built it; shapes: Event.shape -> sizes of that model."""

    packed: Packed
    events: tuple[Event, ...] = ()
    shapes: dict[str, ModelShape] = field(default_factory=dict)

    @classmethod
    def of(cls, value: Any, events: list[Event], meter: Meter) -> Entry:
        """Serialise `value`, which `events` built; meter: has their shapes. Raises TypeError for an unfit value."""
        used = {e.shape for e in events}
        return cls(dump(value), tuple(events), {key: s for key, s in meter.shapes.items() if key in used})

    def value(self) -> Any:
        """A fresh copy of the value."""
        return load(self.packed)

    def replay(self, meter: Meter) -> None:
        """Add the stored model calls to `meter`."""
        for event in self.events:
            meter.record(event, self.shapes.get(event.shape))

    def with_shapes(self, served: Mapping[str, ModelShape | None]) -> Entry:
        """The entry with the sizes in `served` (role -> sizes) for its model calls: FLOPs are counted by these."""
        if not served:
            return self
        keys = {role: "" if shape is None else shape.key for role, shape in served.items()}
        events = [
            replace(e, shape=keys[e.role]) if e.role in keys and e.kind not in ("embed", "rerank") else e
            for e in self.events
        ]
        known = {**self.shapes, **{shape.key: shape for shape in served.values() if shape is not None}}
        used = {e.shape for e in events}
        return Entry(self.packed, tuple(events), {key: shape for key, shape in known.items() if key in used})

    @property
    def usage(self) -> dict[str, dict[str, Any]]:
        """The sum of the model calls: usage by phase, as `Meter.usage`."""
        meter = Meter("index")
        self.replay(meter)
        return meter.usage()


_DRAFT, _PARTS = ".draft-", ".parts"
_OLD = 86_400  # seconds after which a draft counts as abandoned


class IndexCache:
    """The index cache in the folder `root`; the key of an index comes from harness.engine.indexing.

    note: gets a sentence for every entry that had to be deleted; served: role -> sizes of a model behind a server, None
    if unknown; the user may correct them, so they are in no key, and the cost of a stored index uses the current ones.
    """

    def __init__(
        self,
        root: Path,
        note: Note,
        served: Mapping[str, ModelShape | None] | None = None,
    ) -> None:
        self.root, self.note, self.served = root, note, served or {}
        self.parts_lost = False
        self.written = False  # this object has stored an entry, so the next one that cannot be stored ends the run
        self.sharing = KeyedLocks()  # what indexes share is made by one of those that are built at once

    def folder(self, key: dict[str, Any]) -> Path:
        """The folder of the entry of `key`."""
        digest = key_digest(key)
        return self.root / str(key["method"]).replace(":", ".").replace("/", "~") / digest[:2] / digest

    def get(self, key: dict[str, Any]) -> Entry | None:
        """The entry of `key`, or None; a corrupt one is reported, removed and counts as missing."""
        return self._get(self.folder(key), key)

    def put(self, key: dict[str, Any], entry: Entry) -> None:
        """Store `entry` in one step, and delete what was kept while it was built (tools.keep). Raises SaveError."""
        folder = self.folder(key)
        self._put(folder, key, entry)
        shutil.rmtree(_parts_folder(folder), ignore_errors=True)

    def parts(self, key: dict[str, Any]) -> Parts:
        """Storage for what tools.keep and tools.share store while the index of `key` is built."""
        return Parts(self, key)

    def get_or_build(self, folder: Path, key: dict[str, Any], fn: Callable[[], Any], meter: Meter) -> Entry:
        """Return the entry in `folder`, else fn(), stored if possible. meter: gets the cost. Raises SaveError."""
        entry = self._get(folder, key)
        if entry is not None:
            entry.replay(meter)
            return entry
        before = len(meter.events)
        entry = Entry.of(fn(), meter.events[before:], meter)
        try:
            self._put(folder, key, entry)
        except SaveError as error:
            if self.written:
                raise
            if not self.parts_lost:  # reported once, not for each part
                self.note(f"parts of unfinished indexes are not kept: {error}")
            self.parts_lost = True
        return entry

    def _get(self, folder: Path, key: dict[str, Any]) -> Entry | None:
        """Read an entry; None without one. A damaged one is reported and removed."""
        if not folder.is_dir():
            return None
        try:
            entry = _read_entry(folder, key).with_shapes(self.served)
            entry.value()  # an entry whose checksums fit may hold what this version cannot read
            return entry
        except FileNotFoundError as error:
            if not folder.is_dir():  # another process has just removed it
                return None
            reason = f"{Path(error.filename).name} is missing"
        except Exception as error:  # noqa: BLE001 - whatever is wrong with it, it can be built again
            reason = str(error) or type(error).__name__
        self.note(f"cache entry {folder.name[:12]} is damaged ({reason}); it is built again")
        aside = folder.with_name(f".{folder.name}.{os.getpid()}.damaged")
        with contextlib.suppress(OSError):
            os.rename(folder, aside)
        shutil.rmtree(aside, ignore_errors=True)
        return None

    def _put(self, folder: Path, key: dict[str, Any], entry: Entry) -> None:
        """Write an entry in one step. Raises SaveError."""
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            for old in folder.parent.glob(f"{_DRAFT}*"):  # of builders that were killed
                with contextlib.suppress(OSError):
                    if time.time() - old.stat().st_mtime > _OLD:
                        shutil.rmtree(old, ignore_errors=True)
            draft = Path(tempfile.mkdtemp(prefix=_DRAFT, dir=folder.parent))
        except OSError as error:
            raise save_error(folder, error, "HARNESS_CACHE") from error
        try:
            for name, data in _entry_files(key, entry).items():
                (draft / name).write_bytes(data)
            os.rename(draft, folder)
            self.written = True
        except OSError as error:
            if not folder.is_dir():  # else another builder came first, with the same value
                raise save_error(folder, error, "HARNESS_CACHE") from error
        finally:
            shutil.rmtree(draft, ignore_errors=True)


class Parts:
    """Stores parts of the index of `key`: `keep` until it is complete, `share` for other indexes too."""

    def __init__(self, cache: IndexCache, key: dict[str, Any]) -> None:
        self._cache, self._key = cache, key
        self._folder = _parts_folder(cache.folder(key))

    def keep(self, name: str, fn: Callable[[], Any], meter: Meter) -> Any:
        """Return the part `name` if a stopped run stored it, else fn(), stored; `meter` gets the cost."""
        key = {"index": key_digest(self._key), "part": name}
        return self._cache.get_or_build(self._folder / key_digest(key), key, fn, meter).value()

    def share(self, what: Shared, fn: Callable[[], Any], meter: Meter) -> Any:
        """Return the part `what` if an index of any method stored it, else fn(), stored; `meter` gets the cost.

        Raises LookupError for needs without a "version" of fn's code, and where fn used another role's model.
        """
        if "version" not in what.needs:
            raise LookupError(f"tools.share('{what.name}') needs a 'version' of its code among its needs")
        key: dict[str, Any] = {
            "method": f"shared.{what.name}",
            "needs": key_digest(dict(what.needs)),
            "models": {what.role: self._key["models"][what.role]},
            **{name: self._key[name] for name in ("seed", "code", "packages") if name in self._key},
        }

        def build() -> Any:
            before = len(meter.events)
            value = fn()
            if others := sorted({e.role for e in meter.events[before:]} - {what.role}):
                raise LookupError(f"tools.share('{what.name}') is for role '{what.role}', but used {', '.join(others)}")
            return value

        with self._cache.sharing.hold(key_digest(key)):
            return self._cache.get_or_build(self._cache.folder(key), key, build, meter).value()


@dataclass(frozen=True)
class Shared:
    """The key of a part that indexes of several methods share: name, role of its model, what else it depends on."""

    name: str
    role: str
    needs: Mapping[str, Any]


def _parts_folder(folder: Path) -> Path:
    return folder.with_name(folder.name + _PARTS)


def _entry_files(key: dict[str, Any], entry: Entry) -> dict[str, bytes]:
    """Serialise an entry: file name -> content."""
    usage = {
        "usage": entry.usage,
        "shapes": {name: asdict(shape) for name, shape in entry.shapes.items()},
        "events": [asdict(e) for e in entry.events],
    }
    files = {
        "key.json": json.dumps(key, indent=1, sort_keys=True).encode(),
        "data.json": entry.packed.data,
        "usage.json": json.dumps(usage).encode(),
    }
    if entry.packed.arrays:
        files["arrays.npz"] = entry.packed.arrays
    return files


def read_packed(folder: Path, digest: str) -> Packed:
    """Read the index in an entry. Raises OSError, and ValueError where it is not the one whose key has this digest."""
    if key_digest(read_object(folder / "key.json")) != digest:
        raise ValueError("key.json is another entry's")
    arrays = folder / "arrays.npz"
    return Packed((folder / "data.json").read_bytes(), arrays.read_bytes() if arrays.exists() else b"")


def _read_entry(folder: Path, key: dict[str, Any]) -> Entry:
    """Read an entry. Raises OSError, ValueError, KeyError, TypeError where it is damaged, or not the one of `key`."""
    packed = read_packed(folder, key_digest(key))
    usage = read_object(folder / "usage.json")
    named = {name: ModelShape(**row) for name, row in usage["shapes"].items()}
    # Entries of before events named their shape have the shapes under the models' names.
    rows = [{"shape": named[m].key if (m := row["model"]) in named else "", **row} for row in usage["events"]]
    return Entry(
        packed=packed,
        events=tuple(Event(**row) for row in rows),
        shapes={shape.key: shape for shape in named.values()},
    )
