"""Workers as Ray actors: `harness run --engine ray`.

pool = connect(out, workers=4, gpus=1, address=None, options)     RayPool for harness/scale/schedule_shards.py

Ray starts the processes, finds their machines and sees them die. It holds no result: an order is settings and ids, and
what was answered is in the run folder. Nothing is uploaded: the machines of a cluster have the package and the folders.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import time
from pathlib import Path
from typing import Any

from harness.errors import CannotRun, UserError
from harness.scale.schedule_shards import Event
from harness.scale.worker import Order, Worker, versions

_START = 120.0  # seconds for the first worker to be ready
_RESTARTS = 3  # of one actor by Ray; then the driver starts another
_MOST_LOST = 20  # actors that may be lost, one after the other, without one that becomes ready


def connect(out: Path, *, workers: int | None, gpus: float, address: str | None, options: dict[str, Any]) -> RayPool:
    """Connect to a cluster, or start one on this machine, and start the workers.

    workers: default one for each CPU, or each `gpus` GPUs; gpus: for each worker; address: default RAY_ADDRESS;
    options: for runner.run. Raises CannotRun, UserError: no Ray, no such cluster, too few GPUs or CPUs, other versions.
    """
    if importlib.util.find_spec("ray") is None:
        raise CannotRun("--engine ray needs Ray, which is not installed; pip install 'longdoc-harness[ray]'")
    import ray

    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    address = address or os.environ.get("RAY_ADDRESS") or None
    settings: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR", "configure_logging": False}
    if address is None:
        settings |= {"num_cpus": max(workers or 1, os.cpu_count() or 1), "include_dashboard": False}
    try:
        ray.init(address=address, **settings)
    except (RuntimeError, ConnectionError, ValueError, OSError, ray.exceptions.RayError) as error:
        first = " ".join(str(error).split())[:300]
        raise UserError(f"no Ray cluster can be used at {address or 'this machine'}: {first}") from error
    if address is None:
        # Its autoscaler has nothing to do on one machine, and ray.shutdown waits a second for it.
        with contextlib.suppress(Exception):
            ray._private.worker._global_node.kill_monitor(check_alive=False)
    try:
        return RayPool(ray, _worker_count(ray, workers, gpus), gpus, out, options)
    except BaseException:
        ray.shutdown()
        raise


def _worker_count(ray: Any, workers: int | None, gpus: float) -> int:
    """How many workers to start. Raises UserError if the cluster can never hold them."""
    has = ray.cluster_resources()
    cpus, own = int(has.get("CPU", 0)), has.get("GPU", 0)
    count = workers if workers is not None else int(own // gpus) if gpus else cpus
    if count < 1 or count * gpus > own:
        raise UserError(
            f"{max(count, 1)} workers with {gpus:g} GPUs each need {max(count, 1) * gpus:g} GPUs, and the cluster has "
            f"{own:g}; lower --workers or --gpus-per-worker"
        )
    if count > cpus:
        raise UserError(f"{count} workers need {count} CPUs, and the cluster has {cpus}; lower --workers")
    return count


class RayPool:
    """A WorkerPool of Ray actors, restarted by Ray and then by this class. ray: the module; others: see `connect`."""

    def __init__(self, ray: Any, count: int, gpus: float, out: Path, options: dict[str, Any]) -> None:
        self.count = count
        self._ray = ray
        self._made = (str(out.absolute()), os.getcwd(), options)
        self._kind = ray.remote(
            num_cpus=1, num_gpus=gpus, max_restarts=_RESTARTS, max_task_retries=0, max_concurrency=1
        )(Worker)
        self._actors: dict[str, Any] = {}
        self._waiting: dict[Any, tuple[str, str]] = {}  # reference -> worker, "hello" or "run"
        self._again: dict[str, float] = {}  # worker -> when to greet it again
        self._lost, self._alive = 0, time.monotonic()
        for number in range(1, count + 1):
            self._start(f"worker-{number}")
        self._check_first_worker()

    def _start(self, worker: str) -> None:
        self._actors[worker] = self._kind.remote(worker, *self._made)
        self._greet(worker)

    def _greet(self, worker: str) -> None:
        self._waiting[self._actors[worker].hello.remote()] = (worker, "hello")

    def _check_first_worker(self) -> None:
        """Wait for the first worker. Raises UserError if none comes, or it cannot work."""
        ready, _ = self._ray.wait(list(self._waiting), timeout=_START)
        if not ready:
            raise UserError(f"no worker was ready after {_START:.0f} seconds; the cluster is busy: ray status")
        try:
            _check_same(self._ray.get(ready[0]))
        except self._ray.exceptions.RayError as error:
            raise UserError(f"a worker cannot start: {' '.join(str(error).split())[-300:]}") from error

    def submit(self, worker: str, order: Order) -> None:
        """Give a worker that is ready an order."""
        self._waiting[self._actors[worker].run.remote(order)] = (worker, "run")

    def poll(self, timeout: float) -> list[Event]:
        """What happened since the last call. Raises UserError for a worker that differs, or if no worker is left."""
        now = time.monotonic()
        for worker in [worker for worker, at in self._again.items() if at <= now]:
            del self._again[worker]
            self._greet(worker)
        if not self._waiting:
            time.sleep(timeout)
            return []
        self._check_alive(now)
        ready, _ = self._ray.wait(list(self._waiting), num_returns=1, timeout=timeout)
        if ready:  # take all that are there
            ready, _ = self._ray.wait(list(self._waiting), num_returns=len(self._waiting), timeout=0)
        return [event for reference in ready if (event := self._event_of(reference)) is not None]

    def _check_alive(self, now: float) -> None:
        """Raise UserError where workers end all the time, or none comes back."""
        if any(call == "run" for _, call in self._waiting.values()):
            self._alive = now
        again = f"see the logs in {self._made[0]}/workers, then run the same command again"
        if self._lost > _MOST_LOST:
            raise UserError(f"{self._lost} workers ended one after the other; {again}")
        if now - self._alive > _START:
            raise UserError(f"no worker is left and none could be started for {_START:.0f} seconds; {again}")

    def _event_of(self, reference: Any) -> Event | None:
        """The event that an ended call (a Ray reference) means for its worker; None for a greeting that failed."""
        worker, call = self._waiting.pop(reference)
        errors = self._ray.exceptions
        try:
            value = self._ray.get(reference)
        except errors.RayError as error:
            self._lost += 1
            if call == "hello" and isinstance(error, errors.ActorDiedError):
                self._start(worker)  # Ray does not restart it any more
            else:
                self._again[worker] = time.monotonic() + 1.0
            return Event(worker, died=True) if call == "run" else None
        self._lost, self._alive = 0, time.monotonic()
        if call == "run":
            return Event(worker, value)
        _check_same(value)
        return Event(worker)

    def close(self) -> None:
        """End all workers at once, and a cluster that was started for them."""
        for actor in self._actors.values():
            with contextlib.suppress(Exception):
                self._ray.kill(actor, no_restart=True)
        self._ray.shutdown()


def _check_same(hello: dict[str, Any]) -> None:
    """Raise UserError for a worker whose `Worker.hello` names a problem or other versions than this process's."""
    where = f"the worker on {hello['host']}"
    if hello["problem"]:
        raise UserError(f"{where} cannot work: {hello['problem']}")
    own, there = versions(), hello["versions"]
    if different := [f"{k} {there.get(k)} there, {own.get(k)} here" for k in own | there if own.get(k) != there.get(k)]:
        raise UserError(f"{where} has other versions: {'; '.join(different)}; install the same on all machines")
