"""Indexes kept by content: the same document, method and models never pay for the same index twice.

    <root>/<implementation>/<first 2>/<digest>/
        key.json         everything that was hashed (harness/engine/indexing.py), to be read by a person
        data.json        the index without its arrays
        arrays.npz       its arrays (missing when it has none)
        usage.json       the model calls that building it took, and the shapes of those models
    <root>/<implementation>/<first 2>/<digest>.parts/<part digest>/     what tools.keep stored of an unfinished index
    <root>/shared.<name>/<first 2>/<digest>/                            what tools.share stored for indexes of any kind

No pickle. An entry is written beside its place and renamed into it, so it is there whole or not at
all, and builders that race end with the first one's entry. One that cannot be read is reported and
built again.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

from harness.cost.flops import Event, ModelShape
from harness.cost.meter import Meter
from harness.cost.usage import Usage, usage_of
from harness.errors import SaveError
from harness.parallel.locks import KeyedLocks
from harness.storage.files import (
    delete_abandoned_drafts,
    harness_home,
    new_folder,
    read_object,
    remove_folder,
)
from harness.storage.paths import local_folder
from harness.storage.serialize import SerialisedValue, dump, load
from harness.storage.warn_once import WarnOnce
from harness.types import Document


def cache_root() -> Path:
    """The folder of the index cache: HARNESS_CACHE, else `cache` in
    HARNESS_HOME, else .harness/cache.
    """
    folder = os.environ.get("HARNESS_CACHE")
    if folder:
        return local_folder(folder)
    return harness_home() / "cache"


CacheKey = Mapping[str, object]
"""A JSON object with all that a cached value depends on. It is hashed, and written beside the
value."""


@dataclass(frozen=True, kw_only=True)
class IndexKey:
    """All that an index depends on.

    Attributes:
        document: Digest of the document.
        method: The method's implementation: "methods.pecan:Pecan".
        version: The version of the method's code (index_version).
        params: Its index settings.
        prompts: By name.
        models: Role -> what identifies its model, of the roles that build the index.
        seed: The run's seed.
        code: Hashes of the user's own code.
        packages: Package -> version, of those that compute the index.
        question: For an index of scope "question", its text, options and task; else None.
    """

    document: str
    method: str
    version: str
    params: Mapping[str, object]
    prompts: Mapping[str, str]
    models: Mapping[str, Mapping[str, object]]
    seed: int
    code: Mapping[str, str] = field(default_factory=dict)
    packages: Mapping[str, str] = field(default_factory=dict)
    question: Mapping[str, object] | None = None

    def to_json(self) -> dict[str, object]:
        """The key as it is hashed: a value by attribute.

        `code`, `packages` and `question` are left out where they are empty.
        """
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        for name in ("code", "packages", "question"):
            if not values[name]:
                del values[name]
        return values

    @property
    def digest(self) -> str:
        """sha256 (hex) of the key, which names the index's folder."""
        return key_digest(self.to_json())


def key_digest(key: CacheKey) -> str:
    """sha256 (hex) of a key as JSON with its names sorted; escapes keep lone surrogates
    hashable.
    """
    text = json.dumps(key, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


# Questions on one document follow each other, and a book takes tens of milliseconds.
@lru_cache(maxsize=8)
def document_digest(document: Document) -> str:
    """sha256 (hex) of all that a method can see of a document; its id
    too, as an index may hold that.
    """
    return key_digest(asdict(document))


@dataclass(frozen=True)
class CacheEntry:
    """A stored value with the model calls that built it.

    Attributes:
        data: The value without its arrays, as `serialize.dump` makes it.
        arrays: Its arrays; b"" where it has none.
        events: The model calls.
        shapes: Event.shape -> sizes of that model.
    """

    data: bytes
    arrays: bytes
    events: tuple[Event, ...] = ()
    shapes: dict[str, ModelShape] = field(default_factory=dict)

    @classmethod
    def of(cls, value: Any, events: list[Event], meter: Meter) -> CacheEntry:
        """Make the entry of a value that was just built.

        Args:
            value: The value: JSON values and arrays.
            events: The model calls that built it.
            meter: The meter that counted these calls; it has the sizes of their models.

        Raises:
            TypeError: The value holds something else.
        """
        data, arrays = dump(value)
        shapes = {event.shape: meter.shapes[event.shape] for event in events if event.shape}
        return cls(data=data, arrays=arrays, events=tuple(events), shapes=shapes)

    def value(self) -> Any:
        """Parse the stored bytes into a fresh copy of the value."""
        return load(self.data, self.arrays)

    @property
    def usage(self) -> Usage:
        """The model calls summed up to a usage: phase -> its costs."""
        return usage_of(self.events, self.shapes)


ServerShapes = Mapping[str, ModelShape | None]
"""Role -> sizes of a model behind a server, None if unknown."""


class IndexCache:
    """The index cache in a folder; any thread may use it.

    Attributes:
        shared_part_locks: A lock by digest for each part that indexes share, so that of several
            threads that need the same part one computes it.
    """

    def __init__(
        self,
        root: Path,
        note: Callable[[str], None],
        server_shapes: ServerShapes | None = None,
    ) -> None:
        """Name the folder; nothing is read or made yet.

        Args:
            root: The folder.
            note: Called with a sentence for every entry that had to be deleted.
            server_shapes: The sizes of models behind servers. The user may correct these, so they
                are in no key, and the cost of a stored index uses the current ones.
        """
        self.root = root
        self.note = note
        self.server_shapes = server_shapes or {}
        self._warn = WarnOnce(note, "indexes are not cached, and are built again by the next run")
        self.shared_part_locks = KeyedLocks()

    def folder(self, key: CacheKey) -> Path:
        """The folder of the entry of a key, which need not exist, named by the key's "method" and
        hash: ROOT/methods.pecan.Pecan/9f/9f3c...
        """
        digest = key_digest(key)
        implementation = str(key["method"]).replace(":", ".").replace("/", "~")
        return self.root / implementation / digest[:2] / digest

    def get(self, folder: Path, key: CacheKey) -> CacheEntry | None:
        """Read an entry; None where there is none.

        A damaged entry is removed with a note, and None is returned.

        Args:
            folder: The folder of the entry (`folder`).
            key: The key that it must have.
        """
        try:
            if not folder.is_dir():
                return None
            entry = _read_entry(folder, key, self.server_shapes)
            entry.value()  # an entry whose checksums fit may hold what this version cannot read
            return entry
        except FileNotFoundError as error:
            if not folder.is_dir():  # another process has just removed it
                return None
            reason = f"{Path(error.filename).name} is missing"
        except Exception as error:  # noqa: BLE001 - whatever is wrong with it, it can be built again
            reason = str(error) or type(error).__name__
        self.note(f"cache entry {folder.name[:12]} is damaged ({reason}); it is built again")
        remove_folder(folder)
        return None

    def put(self, folder: Path, key: CacheKey, entry: CacheEntry) -> None:
        """Write an entry in one step, and delete the parts that an interrupted build had stored.

        An entry that cannot be written costs a warning: the index is in memory.

        Args:
            folder: The folder of the entry (`folder`).
            key: What the entry depends on; it is written into the folder too.
            entry: The value with its cost.
        """
        cost = {
            "usage": entry.usage,
            "shapes": {name: asdict(shape) for name, shape in entry.shapes.items()},
            "events": [asdict(event) for event in entry.events],
        }
        content_by_file = {
            "key.json": json.dumps(key, indent=1, sort_keys=True).encode(),
            "data.json": entry.data,
            "usage.json": json.dumps(cost).encode(),
        }
        if entry.arrays:
            content_by_file["arrays.npz"] = entry.arrays
        try:
            delete_abandoned_drafts(folder.parent)
            with new_folder(folder, "HARNESS_CACHE") as draft:
                for name, data in content_by_file.items():
                    (draft / name).write_bytes(data)
        except SaveError as error:
            self._warn(error)
            return
        shutil.rmtree(parts_folder(folder), ignore_errors=True)


def parts_folder(folder: Path) -> Path:
    """Where the finished parts of an index are kept while it is built: FOLDER.parts."""
    return folder.with_name(f"{folder.name}.parts")


def read_packed(folder: Path, digest: str) -> SerialisedValue:
    """Read the value of the entry in a folder, without parsing it; its arrays are b"" where it has
    none.

    Raises OSError, and ValueError where the entry's key.json has another digest.
    """
    if key_digest(read_object(folder / "key.json")) != digest:
        raise ValueError("key.json is another entry's")
    data = (folder / "data.json").read_bytes()
    arrays_path = folder / "arrays.npz"
    if not arrays_path.exists():
        return SerialisedValue(data, b"")
    return SerialisedValue(data, arrays_path.read_bytes())


def _read_entry(folder: Path, key: CacheKey, server_shapes: ServerShapes) -> CacheEntry:
    """Read and check an entry of the cache.

    Args:
        folder: The folder of the entry.
        key: The key that it must have.
        server_shapes: Role -> sizes by which FLOPs of that role's calls are counted, in place of
            the stored ones.

    Raises:
        OSError, ValueError, KeyError, TypeError: It is damaged, or another key's.
    """
    data, arrays = read_packed(folder, key_digest(key))
    usage = read_object(folder / "usage.json")
    stored_shapes = {name: ModelShape(**sizes) for name, sizes in usage["shapes"].items()}
    events: list[Event] = []
    shapes: dict[str, ModelShape] = {}
    for stored_event in usage["events"]:
        shape = _shape_for_flops(stored_event, stored_shapes, server_shapes)
        shape_key = ""
        if shape is not None:
            shape_key = shape.key
            shapes[shape_key] = shape
        events.append(Event(**{**stored_event, "shape": shape_key}))
    return CacheEntry(data=data, arrays=arrays, events=tuple(events), shapes=shapes)


def _shape_for_flops(
    stored_event: Mapping[str, str],
    stored_shapes: Mapping[str, ModelShape],
    server_shapes: ServerShapes,
) -> ModelShape | None:
    """Find the model sizes by which the FLOPs of a stored call are counted; None if unknown.

    Args:
        stored_event: The call (Event) as it is stored.
        stored_shapes: Stored sizes by `Event.shape`; in older entries by the model's name.
        server_shapes: Role -> sizes that count in place of the stored ones, but for encoders and
            rerankers.
    """
    is_of_language_model = stored_event["kind"] not in ("embed", "rerank")
    if is_of_language_model and stored_event["role"] in server_shapes:
        return server_shapes[stored_event["role"]]
    return stored_shapes.get(stored_event.get("shape", stored_event["model"]))
