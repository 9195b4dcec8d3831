"""An object store (s3://, gs://, any fsspec address), and the entries of the index cache in one.

    <url>/<implementation>/<first 2>/<digest>/<checksum>.zip     the files of an entry
    <url>/<implementation>/<first 2>/<digest>/key.json           {"sha256": ..., "bytes": ...}; written last, only once

A store has no rename that is atomic, so a name that depends on its content comes first and the key file last, with a
conditional put (If-None-Match): of builders that race the first one's entry stands. A reader trusts an entry only
through its key file, and only if the checksum fits.
"""

import contextlib
import hashlib
import io
import json
import os
import zipfile
from collections.abc import Mapping
from typing import Any

from harness.errors import DataError, UserError
from harness.storage.input_limits import check_ratio
from harness.storage.untrusted import as_object

_KEY = "key.json"


def is_url(text: str) -> bool:
    """Whether `text` is an address such as s3://bucket/folder, and no folder of this machine."""
    return "://" in text


class StoreFailed(Exception):
    """The store could not be read or written; the message is a sentence without its full stop."""


class Damaged(Exception):
    """An entry of the store whose checksum does not fit, or that is no entry."""


class ObjectStore:
    """An object store with paths below `url`. requests: how many were sent. Raises UserError for an unusable url."""

    def __init__(self, url: str) -> None:
        self.url, self.requests = url.rstrip("/"), 0
        kind, _, place = url.partition("://")
        if not (place if kind in ("file", "local") else place.partition("/")[0]).strip("/"):
            raise UserError(f"the object store {url} names no bucket; write it as {kind}://BUCKET/FOLDER")
        extra = "; install it with: pip install 'longdoc-harness[s3]'" if kind == "s3" else ""
        try:
            import fsspec

            local = {"auto_mkdir": True} if kind in ("file", "local") else {}
            self._files, self._root = fsspec.core.url_to_fs(self.url, **local)
        except (ImportError, ValueError) as error:
            why = str(error).splitlines()[0].rstrip(".")
            raise UserError(f"the object store {self.url} cannot be used ({why}){extra}") from error

    def check(self) -> None:
        """Raise UserError where the store does not answer, or refuses the credentials."""
        bucket = self._root.split("/")[0]  # "" where the address is that of a folder
        try:
            if bucket:
                self._call("ls", bucket)
        except FileNotFoundError:
            raise UserError(f"there is no bucket '{bucket}' ({self.url}); make it first, or name another.") from None
        except StoreFailed as error:
            raise UserError(f"{error}.") from error

    def read(self, name: str) -> bytes | None:
        """The content of the object at the path `name`, None where there is none. Raises StoreFailed."""
        try:
            data: bytes = self._call("cat_file", f"{self._root}/{name}")
        except FileNotFoundError:
            return None
        return data

    def write(self, name: str, data: bytes) -> None:
        """Make or replace an object. Raises StoreFailed."""
        self._call("pipe_file", f"{self._root}/{name}", data)

    def create(self, name: str, data: bytes) -> bool:
        """Make an object; False if one with other content is there, so one of several wins. Raises StoreFailed."""
        try:
            self._call("pipe_file", f"{self._root}/{name}", data, mode="create")
        except FileExistsError:
            return self.read(name) == data  # a request whose reply was lost is sent again, and finds its own object
        return True

    def remove(self, name: str) -> None:
        """Remove an object, if there is one. Raises StoreFailed."""
        with contextlib.suppress(FileNotFoundError):
            self._call("rm_file", f"{self._root}/{name}")

    def names(self, folder: str = "") -> list[str]:
        """The names of all objects below a folder, sorted. Raises StoreFailed."""
        root = f"{self._root}/{folder}".rstrip("/")
        self._files.invalidate_cache()
        try:
            return sorted(name[len(self._root) + 1 :] for name in self._call("find", root))
        except FileNotFoundError:
            return []

    def get(self, place: str) -> dict[str, bytes] | None:
        """The files (name -> content) of the entry at a path, None without one. Raises Damaged and StoreFailed."""
        if (key := self.read(f"{place}/{_KEY}")) is None:
            return None
        try:
            digest = str(as_object(key)["sha256"])
        except (ValueError, KeyError) as error:
            raise Damaged(f"{_KEY}: {error}") from error
        packed = self.read(f"{place}/{digest}.zip")
        if packed is None or hashlib.sha256(packed).hexdigest() != digest:
            raise Damaged("its checksum does not fit" if packed else "its files are missing")
        try:
            with zipfile.ZipFile(io.BytesIO(packed)) as files:
                for entry in files.infolist():
                    check_ratio(entry.filename, entry.file_size, entry.compress_size)
                return {name: files.read(name) for name in files.namelist()}
        except (zipfile.BadZipFile, DataError, NotImplementedError, RuntimeError) as error:
            raise Damaged(str(error)) from error

    def put(self, place: str, files: Mapping[str, bytes]) -> None:
        """Store `files` (name -> content) as the entry at a path, unless it has one. Raises StoreFailed."""
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:  # the same bytes for the same files
            for name, data in sorted(files.items()):
                archive.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
        packed = out.getvalue()
        digest = hashlib.sha256(packed).hexdigest()
        self.write(f"{place}/{digest}.zip", packed)
        # Where another builder came first, its entry has the same value.
        self.create(f"{place}/{_KEY}", json.dumps({"sha256": digest, "bytes": len(packed)}).encode())

    def drop(self, place: str) -> None:
        """Remove the key file of a damaged entry, so that the next builder may write one. Raises StoreFailed."""
        self.remove(f"{place}/{_KEY}")

    def _call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method of the fsspec file system. Raises FileNotFoundError, FileExistsError, else StoreFailed."""
        self.requests += 1
        try:
            return getattr(self._files, name)(*args, **kwargs)
        except (FileNotFoundError, FileExistsError):
            raise
        except Exception as error:  # each store has errors of its own
            # s3fs knows refusals of a conditional put only if they name the condition, as those of AWS do.
            response = getattr(error.__cause__, "response", None) or {}
            if response.get("Error", {}).get("Code") in ("PreconditionFailed", "ConditionalRequestConflict"):
                raise FileExistsError from error
            why = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
            raise StoreFailed(
                f"the object store {self.url} cannot be used ({why[:200]}); check its address, the credentials and "
                "the network"
            ) from error


def shared_store() -> ObjectStore | None:
    """The store that HARNESS_CACHE names, None where it names a folder or nothing. Raises UserError."""
    url = os.environ.get("HARNESS_CACHE", "")
    return ObjectStore(url) if is_url(url) else None
