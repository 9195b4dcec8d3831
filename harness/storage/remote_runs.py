"""Run folders in an object store: a working copy on this machine, its files as parts in the store.

    out = working_copy("s3://bucket/results")       the folder of this machine that stands for it, with every run in it
    remote = Remote.claim(out / "musique/bm25--...")    become its one writer; what is appended is sent every 30 s
    remote.close()                                  send the rest; another machine may then go on

    <url>/<data set>/<run>/parts/<sha256>           bytes of a file
    <url>/<data set>/<run>/layout.json              {"files": {name: [[sha256, bytes], ...]}, "time": ...}: what counts
    <url>/<data set>/<run>/writer/<n>.json          who the n-th writer is, made with a conditional put

Parts never change and `layout.json` is replaced as a whole, so a reader sees one state of a run. A writer without a
sign of life for STALE seconds is replaced by the next number, which it sees before it sends its next layout.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.errors import RunLocked, SaveError, UserError
from harness.storage.home import home
from harness.storage.lock import FolderLock, process_start
from harness.storage.object_store import ObjectStore, StoreFailed, is_url
from harness.storage.paths import STORE, working_copy_root
from harness.storage.run_schema import LAYOUT
from harness.storage.untrusted import as_object, read_plain, regular_only

EVERY = 30.0  # seconds between two sends
AWAY = 30.0  # seconds that a run waits at its start and end for a store that fails
STALE = 300.0  # seconds without a sign of life after which a writer of another machine counts as gone
_LAYOUT, _APPLIED = "layout.json", ".layout.json"
_APPENDED = ("records", "documents", "texts", "requests")  # files that only grow, by the beginnings of their names
Parts = list[tuple[str, int]]  # of a file: sha256 and bytes of each part, in order


def working_copy(out: str | os.PathLike[str]) -> Path:
    """Return the folder `out`; for an address (s3://...) download its runs, return their folder. Raises UserError."""
    if not is_url(str(out)):
        return Path(out).expanduser()
    store = ObjectStore(str(out))
    store.check()
    folder = home() / "results" / hashlib.sha256(store.url.encode()).hexdigest()[:12]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / STORE).write_text(store.url, encoding="utf-8")
    try:
        for name in store.names():
            place, _, last = name.rpartition("/")
            if last == _LAYOUT and ".." not in place.split("/"):
                run = folder / place
                run.mkdir(parents=True, exist_ok=True)
                # A process of this machine that writes the run is ahead of the store.
                with contextlib.suppress(RunLocked), FolderLock(run):
                    _download_run(store, place, run)
    except StoreFailed as error:
        raise UserError(f"{error}.") from error
    return folder


def _download_run(store: ObjectStore, place: str, folder: Path) -> dict[str, Any]:
    """Download a run's changed files into `folder`; place: its path in the store. Returns its layout, {} for none."""
    for _ in range(3):
        layout = _read_layout(store, place)
        applied = _read_local_layout(folder / _APPLIED)
        if layout == applied or not layout:
            return layout
        try:
            for name, parts in layout["files"].items():
                if Path(name).name == name and parts != applied.get("files", {}).get(name):
                    _download_file(store, place, folder / name, parts)
        except _PartMissing:  # its writer has joined the parts since
            continue
        (folder / _APPLIED).write_text(json.dumps(layout), encoding="utf-8")
        return layout
    raise UserError(f"{store.url}/{place} lacks parts that its {_LAYOUT} names; run the same command again.")


def check_shared(folder: Path) -> None:
    """Raise UserError for a working copy: only this machine sees it, and shards meet in a folder that all share."""
    if (root := working_copy_root(folder)) is not None:
        url = read_plain(root / STORE).decode()
        raise UserError(
            f"a run in an object store has one writer, so its shards cannot be in --out {url}; give a folder that all "
            "processes share (the indexes may be in the store: HARNESS_CACHE)"
        )


class _PartMissing(Exception):
    """A part that the layout names was deleted or damaged."""


def _download_file(store: ObjectStore, place: str, path: Path, parts: Parts) -> None:
    """Download a file of the run at `place` as `path`, in one step. Raises _PartMissing."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with open(draft, "wb") as file:
        for digest, _ in parts:
            data = store.read(f"{place}/parts/{digest}")
            if data is None or hashlib.sha256(data).hexdigest() != digest:
                draft.unlink()
                raise _PartMissing
            file.write(data)
    os.replace(draft, path)


def _read_layout(store: ObjectStore, place: str) -> dict[str, Any]:
    """Read a run's layout from the store, {} where it has none yet. Raises UserError for a damaged one."""
    data = store.read(f"{place}/{_LAYOUT}")
    try:
        return {} if data is None else LAYOUT.parse(data)
    except ValueError as error:
        raise UserError(f"{store.url}/{place}/{_LAYOUT} is damaged ({error}); remove that run.") from None


def _read_local_layout(path: Path) -> dict[str, Any]:
    try:
        return LAYOUT.parse(read_plain(path))
    except (OSError, ValueError):
        return {}  # not there, or cut off: the store's own is used


class Remote:
    """Sends a run to a store as its one writer. place: the run's path there; number: the writer's. Made by `claim`."""

    def __init__(self, store: ObjectStore, place: str, folder: Path, number: int) -> None:
        self._store, self._place, self._folder, self._number = store, place, folder, number
        self._sent: dict[str, tuple[Parts, tuple[int, int, int]]] = {}  # parts, and (inode, bytes, time) then
        self._problem: str | None = None
        self._lock, self._stop = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._send_regularly, name="object store", daemon=True)

    @classmethod
    def claim(cls, folder: Path) -> Remote | None:
        """Become the writer of the run in a locked folder, and bring it up to date; None for a run in no store.

        Raises RunLocked where another machine writes it, SaveError where the store fails.
        """
        root = working_copy_root(folder)
        if root is None:
            return None
        store = ObjectStore(read_plain(root / STORE).decode())
        place = folder.relative_to(root).as_posix()
        try:
            remote = cls(store, place, folder, _retry(lambda: _claim_next_number(store, place)))
            layout = _retry(lambda: _download_run(store, place, folder))
        except StoreFailed as error:
            raise SaveError(f"{error}.") from error
        for name, parts in layout.get("files", {}).items():
            path = folder / name
            if path.exists() and path.stat().st_size == sum(size for _, size in parts):
                remote._sent[name] = (parts, _file_state(path))
        remote._thread.start()
        return remote

    def check(self) -> None:
        """Raise SaveError where another machine took the run over, or the store failed too long or at the end."""
        if self._problem:
            raise SaveError(
                f"{self._problem}; what was answered is kept in {self._folder}, and the same command sends it."
            )

    def close(self, keep: bool = True) -> None:
        """Send what is left, each file as one part, and let go of the run. Raises SaveError.

        keep: False for a run in which nothing was recorded, which the store then does not get.
        """
        self._stop.set()
        self._thread.join()

        def send_rest() -> None:
            if keep and self._problem is None:
                self._send(whole=True)
                kept = {digest for parts, _ in self._sent.values() for digest, _ in parts}
                for name in self._store.names(f"{self._place}/parts"):
                    if name.rpartition("/")[2] not in kept:  # a part that was joined with others
                        self._store.remove(name)
            self._store.write(f"{self._place}/writer/{self._number}.json", b'{"released": true}')

        try:
            _retry(send_rest)
        except StoreFailed as error:
            self._problem = self._problem or str(error)
        self.check()

    def _send_regularly(self) -> None:
        """Send what is new every EVERY seconds until `close`, or until the run is lost, which `_problem` then says."""
        last = time.monotonic()
        while not self._stop.wait(EVERY):
            try:
                self._send()
                last = time.monotonic()
            except StoreFailed as error:  # a short failure of the network is no reason to stop
                if time.monotonic() - last > STALE / 2:
                    self._problem = str(error)
            if self._problem:
                return

    def _send(self, whole: bool = False) -> None:
        """Upload changed files, then the layout. whole: each file as one part."""
        if self._store.read(f"{self._place}/writer/{self._number + 1}.json") is not None:
            self._problem = f"another machine took over {self._store.url}/{self._place}"
            return
        with self._lock:
            paths = [p for p in sorted(self._folder.iterdir()) if p.is_file() and not p.name.startswith(".")]
            files = {path.name: self._send_file(path, whole) for path in paths if path.name != "lock"}
            layout = {"files": files, "time": time.time()}
            self._store.write(f"{self._place}/{_LAYOUT}", json.dumps(layout).encode())
            (self._folder / _APPLIED).write_text(json.dumps(layout), encoding="utf-8")

    def _send_file(self, path: Path, whole: bool) -> Parts:
        """Upload a changed file, what was appended as a further part; returns its parts. whole: join them into one."""
        parts, before = self._sent.get(path.name, ([], (0, 0, 0)))
        now = _file_state(path)
        if now == before and not (whole and len(parts) > 1):
            return parts
        appended = path.name.startswith(_APPENDED) and now[0] == before[0] and now[1] >= before[1] and not whole
        start = before[1] if appended else 0
        with open(path, "rb", opener=regular_only) as file:
            file.seek(start)
            data = file.read()
        new = hashlib.sha256(data).hexdigest()
        self._store.write(f"{self._place}/parts/{new}", data)
        parts = [*(parts if appended else []), (new, len(data))]
        self._sent[path.name] = (parts, (now[0], start + len(data), now[2]))
        return parts


def _retry(action: Callable[[], Any]) -> Any:
    """Return action(), tried again for AWAY seconds while it raises StoreFailed."""
    until = time.monotonic() + AWAY
    while True:
        try:
            return action()
        except StoreFailed:
            if time.monotonic() > until:
                raise
            time.sleep(1)


def _file_state(path: Path) -> tuple[int, int, int]:
    """Inode, bytes, and time of the last change (ns)."""
    state = path.stat()
    return state.st_ino, state.st_size, state.st_mtime_ns


def _claim_next_number(store: ObjectStore, place: str) -> int:
    """Claim the next writer's number and return it. Raises RunLocked (the last one lives), UserError, StoreFailed."""
    names = (name.rpartition("/")[2].removesuffix(".json") for name in store.names(f"{place}/writer"))
    last = max((int(name) for name in names if name.isdecimal() and len(name) < 10), default=0)
    if last:
        try:
            holder = as_object(store.read(f"{place}/writer/{last}.json") or b"{}")
            last_seen = max(float(_read_layout(store, place).get("time", 0)), float(holder.get("time", 0)))
        except (ValueError, TypeError, OverflowError):
            raise UserError(f"{store.url}/{place}/writer/{last}.json is damaged; remove it from the store.") from None
        if not holder.get("released") and _is_alive(holder, last_seen):
            raise RunLocked(
                f"process {holder.get('pid')} on {holder.get('host')} writes {store.url}/{place}; wait for it or stop "
                f"it; one that was cut off is replaced {STALE:.0f} seconds after its last sign of life."
            )
    pid = os.getpid()
    own = {"pid": pid, "start": process_start(pid), "host": socket.gethostname(), "time": time.time()}
    if not store.create(f"{place}/writer/{last + 1}.json", json.dumps(own).encode()):
        raise RunLocked(f"another machine has just begun to write {store.url}/{place}; wait for it or stop it.")
    return last + 1


def _is_alive(holder: dict[str, Any], last_seen: float) -> bool:
    """Whether the writer {"pid", "start", "host"} may still write; last_seen: last sign of life, seconds since 1970."""
    if holder.get("host") == socket.gethostname():  # the folder's lock is held here, so an older writer is gone
        pid = int(holder.get("pid") or 0)
        return pid != os.getpid() and holder.get("start") == process_start(pid)
    return time.time() - last_seen < STALE
