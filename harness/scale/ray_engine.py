"""Questions answered by other processes, also on other machines, as Ray actors: `harness run
--engine ray`.

    with connect(workers=4, gpus=1, address=None, parallel=None) as workers:
        runner.run(plan, out, spread=workers, parallel=workers.parallel, ...)

    driver                                     worker (an actor; it keeps its models loaded)
      the plan, once, by ray.put     ──────►     its Job
      the number of a question       ──────►     steps 1 to 6 of Job.ask
      run folder, scores, limits     ◄──────     what this question would write: texts, indexes, answer

Ray starts the workers, restarts those that die, and carries the messages. The driver alone writes
the run folder, as a run of one process does, so limits, progress and resuming are the same.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import socket
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, cast

from harness.embed.encoder_info import encoder_facts
from harness.engine.manifest import changes, made_by, with_first_prompts
from harness.engine.plan import Plan
from harness.engine.progress import Silent
from harness.engine.runner import IN_FLIGHT_ON_A_GPU, AskOptions, Job
from harness.engine.tools import seed_everything
from harness.errors import CannotRun, HarnessError, SaveError, UserError, WorkerLost
from harness.llm.backend import model_facts
from harness.parallel.in_flight import places_for
from harness.parallel.scheduler import Scheduler
from harness.stats.rng import derived_seed
from harness.storage.run_store import RunStore
from harness.types import Example

_START = 120.0  # seconds for the first worker to be ready
_TRIES = 3  # a question that ended as many workers is recorded as failed

_Step = Callable[..., Any]  # of Job.ask: a question's answer; its scores and record


@contextlib.contextmanager
def connect(
    *, workers: int | None, gpus: float, address: str | None, parallel: int | None
) -> Iterator[Workers]:
    """Connect to a cluster, or start one on this machine, and start the workers; the block's end
    ends them.

    Args:
        workers: How many; by default one for each CPU, or for each `gpus` GPUs.
        gpus: GPUs of each worker, also a part of one.
        address: Of the cluster; by default RAY_ADDRESS.
        parallel: Questions in flight in each worker; by default 1, on a GPU as many as fit, up to
            IN_FLIGHT_ON_A_GPU.

    Raises:
        CannotRun: Ray is not installed.
        UserError: There is no such cluster, it has too few CPUs or GPUs, or its workers have other
            versions.
    """
    if importlib.util.find_spec("ray") is None:
        raise CannotRun(
            "--engine ray needs Ray, which is not installed; pip install 'longdoc-harness[ray]'"
        )
    import ray

    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    settings: dict[str, Any] = {
        "log_to_driver": False,
        "logging_level": "ERROR",
        "configure_logging": False,
    }
    if address == "local":
        settings |= {"num_cpus": max(workers or 1, os.cpu_count() or 1), "include_dashboard": False}
    handler = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(address=address, **settings)
        with contextlib.suppress(ValueError):  # outside of the main thread nobody handles signals
            signal.signal(signal.SIGTERM, handler)  # in place of Ray's, which ends the process
    except Exception as error:  # Ray raises a bare Exception, too
        first = " ".join(str(error).split())[:300]
        raise UserError(f"no Ray cluster can be used ({address}): {first}") from error
    try:
        count = worker_count(ray.cluster_resources(), workers, gpus)
        yield Workers(ray, count, gpus, parallel or (IN_FLIGHT_ON_A_GPU if gpus else 1))
    finally:
        ray.shutdown()


def worker_count(resources: Mapping[str, float], workers: int | None, gpus: float) -> int:
    """How many workers to start. resources: of the cluster. Raises UserError if it can never hold
    them."""
    cpus, total_gpus = int(resources.get("CPU", 0)), resources.get("GPU", 0)
    count = workers if workers is not None else int(total_gpus // gpus) if gpus else cpus
    if count < 1 or count * gpus > total_gpus:
        raise UserError(
            f"{max(count, 1)} workers with {gpus:g} GPUs each need {max(count, 1) * gpus:g} GPUs, "
            "and the cluster has "
            f"{total_gpus:g}; lower --workers or --gpus-per-worker"
        )
    if count > cpus:
        raise UserError(
            f"{count} workers need {count} CPUs, and the cluster has {cpus}; lower --workers"
        )
    return count


class Workers:
    """The actors of one command; called by Job.ask, which leaves its questions to them
    (AskOptions.spread)."""

    def __init__(self, ray: Any, count: int, gpus: float, parallel: int) -> None:
        """ray: the module; the others as for `connect`. Waits for the first worker. Raises
        UserError as `connect`."""
        self.parallel = parallel
        self._ray = ray
        kind = ray.remote(num_cpus=1, num_gpus=gpus, max_restarts=-1, max_concurrency=parallel)(
            _Worker
        )
        self._load: dict[Any, int] = {}  # worker that is ready -> questions that it has
        self._calls: dict[
            Any, tuple[Any, int, int]
        ] = {}  # call under way -> worker, question, load; -1: a greeting
        for _ in range(count):
            self._greet(kind.remote(os.getcwd(), parallel))
        if not ray.wait(list(self._calls), timeout=_START)[0]:
            raise UserError(
                f"no worker was ready after {_START:.0f} seconds; the cluster is busy: ray status"
            )

    def _greet(self, worker: Any) -> None:
        """Ask for the worker's versions; Ray answers once it runs, also after a restart."""
        self._calls[worker.versions.options(max_task_retries=-1).remote()] = (worker, -1, 0)

    def __call__(
        self,
        job: Job,
        examples: Sequence[Example],
        answer: Callable[..., Any],
        finish: Callable[..., Any],
    ) -> None:
        """Have the workers answer the questions, and store and score each answer as it arrives.

        A dead worker's questions are asked again, each alone on its worker; one that ends _TRIES
        workers is recorded as failed. Raises what Job.ask raises, and UserError for a worker that
        cannot work.
        """
        ray, plan, budget = self._ray, job.plan, job.budget
        if plan.config.model.batch:
            raise UserError(
                "model.batch sends a run's requests from one process; leave out --engine ray"
            )
        for module in filter(
            None, map(sys.modules.get, plan.code)
        ):  # the user's own: workers have no such file
            ray.cloudpickle.register_pickle_by_value(module)
        run = [ray.put(plan)]  # in a list, as Ray would send the plan itself with each question
        waiting = _Waiting(plan, examples)
        deaths: Counter[int] = Counter()  # question -> workers that it ended
        running: set[Any] = set()
        noted: set[str] = set()  # notes of workers that were shown

        def take(call: Any) -> None:
            worker, number, load = self._calls.pop(call)
            mine = call in running
            running.discard(call)
            if worker in self._load:  # else it died since
                self._load[worker] = max(self._load[worker] - load, 0)
            try:
                answered = ray.get(call)
            except ray.exceptions.RayTaskError as error:
                if mine:
                    raise (
                        error.cause if isinstance(error.cause, HarnessError) else error
                    ) from None
            except ray.exceptions.RayError as error:
                if number < 0:
                    raise UserError(
                        f"a worker cannot start: {' '.join(str(error).split())[-300:]}"
                    ) from error
                if self._load.pop(worker, None) is not None:
                    job.progress.note(
                        "a worker ended; what it had is asked again, one question at a time"
                    )
                    self._greet(worker)
                deaths[number] += mine
                if mine and deaths[number] < _TRIES:
                    waiting.put_back(number)
                elif mine:
                    waiting.ended(number)
                    why = WorkerLost(f"{_TRIES} workers ended while they answered this question")
                    finish(answer(waiting.asked[number], why))
            else:
                if number < 0:
                    _check_versions(answered)
                    self._load[worker] = 0
                    return
                if mine:
                    waiting.ended(number)
                    job.models.workers[worker] = answered.slow_paths
                    for note in answered.notes:
                        if note not in noted:
                            job.progress.note(note)
                        noted.add(note)
                    _store(job, answered)
                    finish((waiting.asked[number], answered.record))

        try:
            while True:
                while (
                    waiting.left
                    and budget.may_continue()
                    and (chosen := self._choose(waiting, deaths))
                ):
                    worker, number, load = chosen
                    tried = job.tried.get(waiting.asked[number].question.id)
                    call = worker.answer.remote(run, waiting.position[number], tried)
                    self._load[worker] += load
                    self._calls[call] = chosen
                    running.add(call)
                if not running and (not waiting.left or budget.hit):
                    break
                ray.wait(list(self._calls), timeout=1.0)
                for call in ray.wait(list(self._calls), num_returns=len(self._calls), timeout=0)[0]:
                    take(call)
        except KeyboardInterrupt:
            for call in (
                ray.wait(list(running), num_returns=len(running), timeout=0)[0] if running else ()
            ):
                take(call)
            raise

    def _choose(self, waiting: _Waiting, deaths: Mapping[int, int]) -> tuple[Any, int, int] | None:
        """(A worker that has room, its next question, how much of its room that takes); None if all
        have to wait."""
        for worker, load in sorted(self._load.items(), key=lambda each: each[1]):
            number = waiting.next_for(worker, alone=load == 0) if load < self.parallel else None
            if number is not None:
                return worker, number, self.parallel if deaths[number] else 1
        return None


def _check_versions(there: Mapping[str, str]) -> None:
    """Raise UserError for a worker with other versions than this process's."""
    here = made_by()["packages"]
    keys = sorted(here.keys() | there.keys() - {"host"})
    if different := [
        f"{k} {there.get(k)} there, {here.get(k)} here" for k in keys if here.get(k) != there.get(k)
    ]:
        what = "; ".join(different)
        raise UserError(
            f"the worker on {there['host']} has other versions: {what}; install the same on all "
            "machines"
        )


def _store(job: Job, answered: _Answered) -> None:
    """Write what a worker's question would have written, and count its cost."""
    for name, value in answered.calls:
        getattr(job.store, name)(value)
        if name == "add_document":
            job.budget.spend_index(value)
    job.budget.spend(answered.record["usage"])
    if there := answered.manifest:
        job.manifest = {**job.manifest, "gpu": job.manifest.get("gpu") or there.get("gpu")}
        if changed := changes(job.manifest, there):
            *starts, last = job.manifest["starts"]
            job.manifest["starts"] = [
                *starts,
                {**last, "changed": last.get("changed", {}) | changed},
            ]
        if job.plan.config.dataset.keep_texts:
            job.keep_first_prompts(there.get("first_prompts", {}))


@dataclass(eq=False)
class _Group:
    """Questions about the same documents, by number. home: the worker that indexes these."""

    documents: frozenset[str]
    numbers: deque[int] = field(default_factory=deque)
    home: Any = None


class _Waiting:
    """The questions that no worker has yet. One worker indexes a document; others help once it did,
    if they are idle.

    asked: the questions by number; position: of each in the data set; left: how many wait.
    """

    def __init__(self, plan: Plan, examples: Sequence[Example]) -> None:
        self.asked, self.left = examples, len(examples)
        places = {example.question.id: n for n, example in enumerate(plan.dataset.examples)}
        self.position = [places[example.question.id] for example in examples]
        groups: dict[Any, _Group] = {}
        self._group: list[_Group] = []
        for number, example in enumerate(examples):
            documents = frozenset(
                example.question.document_ids if plan.method.scope == "document" else ()
            )
            self._group.append(groups.setdefault(documents or number, _Group(documents)))
            self._group[-1].numbers.append(number)
        self._fresh = deque(groups.values())
        self._open: list[_Group] = []  # begun, with questions left
        self._indexing: set[_Group] = set()  # begun, without an answer
        self._again: deque[int] = deque()  # of workers that died

    def next_for(self, worker: Any, alone: bool) -> int | None:
        """The number of the worker's next question; alone: it has none, so it may get one that
        ended a worker."""
        if alone and self._again:
            self.left -= 1
            return self._again.popleft()
        indexed = [group for group in self._open if group not in self._indexing]
        chosen = next((group for group in indexed if group.home is worker), None)
        if chosen is None:
            busy = {document for group in self._indexing for document in group.documents}
            chosen = next((group for group in self._fresh if not busy & group.documents), None)
            if chosen is not None:
                self._fresh.remove(chosen)
                chosen.home = worker
                self._open.append(chosen)
                self._indexing.add(chosen)
        chosen = chosen or max(indexed, key=lambda group: len(group.numbers), default=None)
        if chosen is None:
            return None
        number = chosen.numbers.popleft()
        if not chosen.numbers:
            self._open.remove(chosen)
        self.left -= 1
        return number

    def put_back(self, number: int) -> None:
        """Have a question asked again, whose worker died."""
        self.left += 1
        self._again.append(number)

    def ended(self, number: int) -> None:
        """Note that a question was answered, or given up: its documents are indexed, or cannot
        be."""
        self._indexing.discard(self._group[number])


@dataclass
class _Answered:
    """What a worker's question would have written: calls of RunStore, the last one with its answer.

    manifest: of the worker, where it is new: its machine, code and first prompts; slow_paths: of
    its models so far.
    """

    calls: list[tuple[str, Any]]
    manifest: dict[str, Any] | None
    notes: list[str]
    slow_paths: list[str]

    @property
    def record(self) -> dict[str, Any]:
        """The answer, a record without scores."""
        return cast(dict[str, Any], self.calls[-1][1])


class _Calls(threading.local):
    """Stands for RunStore in a worker: keeps the calls of the thread that answers a question, for
    the driver."""

    def __init__(self) -> None:
        self.made: list[tuple[str, Any]] = []

    def manifest(self) -> dict[str, Any]:
        """No manifest: the driver has it."""
        return {}

    def __getattr__(self, name: str) -> Callable[[Any], None]:
        """Keep the call of any other method of RunStore."""
        return lambda value: self.made.append((name, value))


class _Worker:
    """An actor, which works in `cwd` and answers `parallel` questions at a time."""

    def __init__(self, cwd: str, parallel: int) -> None:
        with contextlib.suppress(OSError):  # a machine that lacks it may need no file of it
            os.chdir(cwd)
        self._parallel = parallel
        self._lock = threading.Lock()
        self._run: Any = None  # reference of the plan that `_job` is of
        self._sent: dict[str, Any] | None = None  # the manifest that the driver has

    def versions(self) -> dict[str, str]:
        """Versions of the packages here, and the host's name; Ray compares its own and Python's."""
        return {**made_by()["packages"], "host": socket.gethostname()}

    def answer(self, run: list[Any], position: int, tried: dict[str, Any] | None) -> _Answered:
        """Answer a question. run: [reference of its plan]; position: in the data set; tried: see
        Job.tried."""
        try:
            with self._lock:
                if self._run != run[0]:
                    self._open_run(run[0])
                job, progress, calls = self._job, self._progress, self._calls
                ask, scheduler = self._ask, self._scheduler
            example = job.plan.dataset.examples[position]
            if tried:
                job.tried[example.question.id] = tried

            def work() -> list[tuple[str, Any]]:
                calls.made = []
                ask(example)
                return calls.made

            made = work() if scheduler is None else _as_member(scheduler, work)
        except HarnessError as error:  # its own class may not survive the way
            kind = next(
                kind for kind in (UserError, SaveError, HarnessError) if isinstance(error, kind)
            )
            raise kind(f"worker on {socket.gethostname()}: {error}") from None
        with self._lock:
            job.manifest = with_first_prompts(job.manifest, job.models.first_prompts())
            manifest = None if self._sent is job.manifest else job.manifest
            self._sent = job.manifest
            notes, progress.notes = progress.notes, []
        return _Answered(made, manifest, notes, job.models.slow_paths())

    def _open_run(self, reference: Any) -> None:
        """Get a plan ready. Raises UserError where its weights are others than the driver's,
        CannotRun from loading."""
        import ray

        plan: Plan = ray.get(reference)
        facts = {role: model_facts(config).identity for role, config in plan.models.items()}
        facts |= {
            role: encoder_facts(config, role).identity for role, config in plan.encoders.items()
        }
        if other := [role for role, fact in facts.items() if fact != plan.identities[role]]:
            raise UserError(
                f"the weights of its {other[0]} are not those of the driver's machine; make them "
                "equal"
            )
        self._calls, self._progress = _Calls(), Silent()

        def keep_step(
            _job: Job, _examples: Sequence[Example], answer: _Step, _finish: _Step
        ) -> None:
            self._ask = answer

        job = Job(
            plan,
            cast(RunStore, self._calls),
            self._progress,
            [],
            AskOptions(parallel=1, spread=keep_step),
        )
        job.ask([])
        self._scheduler = None
        if self._parallel > 1:
            seed_everything(derived_seed(plan.config.seed, "in flight"))
            places = places_for(
                job.models.load_all(), self._parallel, job.progress.note, job.longest_context
            )
            job.indexer.kept = max(job.indexer.kept, places)
            self._scheduler = Scheduler(places)
        self._job, self._run = job, reference


def _as_member(scheduler: Scheduler, work: Callable[[], Any]) -> Any:
    """Return work(), run in a thread of the scheduler, which batches its requests with those of
    other threads."""
    answered: Future[Any] = Future()

    def member() -> None:
        try:
            answered.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised in the thread that waits
            answered.set_exception(error)

    scheduler.start_threads(member)
    return answered.result()
