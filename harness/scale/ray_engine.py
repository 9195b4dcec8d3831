"""Questions answered by other processes, also on other machines, as Ray actors: `harness run
--engine ray`.

    with connect(workers=4, gpus=1, address=None, parallel=None) as workers:
        runner.run(plan, out, executor=workers, ...)

    driver                                     worker (an actor; it keeps its models loaded)
      the plan, once, by ray.put     ──────►     its OpenRun
      the number of a question       ──────►     AnswerQuestion
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
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, cast

from harness.cost.usage import SentUsage
from harness.embed.encoder_info import encoder_facts
from harness.engine.answer_question import AnswerQuestion, Unscored
from harness.engine.executors import IN_FLIGHT_ON_A_GPU, Executor
from harness.engine.manifest import made_by, with_first_prompts
from harness.engine.open_run import OpenRun
from harness.engine.plan import PlannedRun
from harness.engine.progress import Silent
from harness.engine.record_answer import RecordAnswer
from harness.engine.spending_limits import Budget
from harness.engine.start_manifest import StartManifest
from harness.engine.tools import seed_everything
from harness.errors import CannotRun, HarnessError, SaveError, UserError, WorkerLost
from harness.llm.backend import model_facts
from harness.parallel.in_flight import places_for
from harness.parallel.scheduler import Scheduler
from harness.stats.rng import derived_seed
from harness.storage.manifest_file import RunManifest
from harness.storage.records import StoredRecord
from harness.storage.run_store import RunStore
from harness.types import Example

_START = 120.0  # seconds for the first worker to be ready
_SILENCE = 15.0  # seconds in which a cluster's head may start again
_TRIES = 3  # a question that ended as many workers is recorded as failed


@contextlib.contextmanager
def connect(
    *, workers: int | None, gpus: float, address: str | None, parallel: int | None
) -> Iterator[Workers]:
    """Connect to a Ray cluster, or start one on this machine, and yield its
    workers; the block's end ends them.

    Args:
        workers: How many; by default one for each CPU, or for each `gpus` GPUs.
        gpus: GPUs of each worker, also a part of one.
        address: The address of the cluster; by default RAY_ADDRESS, else one on this machine.
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

    handler = signal.getsignal(signal.SIGTERM)
    try:
        _open_cluster(ray, address, workers)
        with contextlib.suppress(ValueError):  # outside of the main thread nobody handles signals
            signal.signal(signal.SIGTERM, handler)  # in place of Ray's, which ends the process
        count = worker_count(ray.cluster_resources(), workers, gpus)
        if parallel is None:
            parallel = 1
            if gpus:
                parallel = IN_FLIGHT_ON_A_GPU
        yield Workers(ray, count, gpus, parallel)
    finally:
        ray.shutdown()


def _open_cluster(ray: Any, address: str | None, workers: int | None) -> None:
    """Connect this process to a Ray cluster, or start one on this machine.

    Args:
        ray: The module.
        address: The address of the cluster; None: RAY_ADDRESS, else this machine.
        workers: How many workers a cluster of this machine must have room for.

    Raises:
        UserError: There is no such cluster.
    """
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    settings: dict[str, object] = {
        "log_to_driver": False,
        "logging_level": "ERROR",
        "configure_logging": False,
    }
    if address == "local":
        settings["num_cpus"] = max(workers or 1, os.cpu_count() or 1)
        settings["include_dashboard"] = False
    try:
        ray.init(address=address, **settings)
    except Exception as error:  # Ray raises a bare Exception, too
        first = " ".join(str(error).split())[:300]
        raise UserError(f"no Ray cluster can be used ({address}): {first}") from error


def worker_count(resources: Mapping[str, float], workers: int | None, gpus: float) -> int:
    """Decide how many workers to start.

    Args:
        resources: What the cluster has: {"CPU": 16, "GPU": 2}.
        workers: How many the user asked for; None: one for each CPU, or for each `gpus` GPUs.
        gpus: GPUs of each worker.

    Raises:
        UserError: The cluster can never hold them.
    """
    cpus = int(resources.get("CPU", 0))
    total_gpus = resources.get("GPU", 0)
    count = cpus
    if workers is not None:
        count = workers
    elif gpus:
        count = int(total_gpus // gpus)
    if count < 1 or count * gpus > total_gpus:
        raise UserError(
            f"{max(count, 1)} workers with {gpus:g} GPUs each need {max(count, 1) * gpus:g} GPUs, "
            f"and the cluster has {total_gpus:g}; lower --workers or --gpus-per-worker"
        )
    if count > cpus:
        raise UserError(
            f"{count} workers need {count} CPUs, and the cluster has {cpus}; lower --workers"
        )
    return count


class Workers(Executor):
    """The Ray actors of one command, which answer the questions of its runs.

    Attributes:
        ray: The module.
        parallel: Questions in flight in each worker.
        address: Where the cluster listens: "host:port".
        silent_since: When nobody listened there for the first time; None while somebody does.
        load: Worker that is ready -> questions that it has.
        calls: Ray's reference of a call -> the call, of those under way.
    """

    def __init__(self, ray: Any, count: int, gpus: float, parallel: int) -> None:
        """Start the workers and wait for the first one.

        Args:
            ray: The module.
            count: How many workers.
            gpus: GPUs of each worker.
            parallel: Questions in flight in each.

        Raises:
            UserError: No worker is ready in time, one has other versions, or the cluster ended.
        """
        self.ray = ray
        self.parallel = parallel
        self.address: str = ray.get_runtime_context().gcs_address
        self.silent_since: float | None = None  # when nobody listened there for the first time
        self.load: dict[Any, int] = {}  # worker that is ready -> questions that it has
        self.calls: dict[Any, _Call] = {}  # calls under way
        kind = ray.remote(num_cpus=1, num_gpus=gpus, max_restarts=-1, max_concurrency=parallel)(
            _Worker
        )
        for _ in range(count):
            self.greet(kind.remote(os.getcwd(), parallel))
        end = time.monotonic() + _START
        while not self.ready_calls(list(self.calls), timeout=1.0):
            self.check_cluster()
            if time.monotonic() > end:
                raise UserError(
                    f"no worker was ready after {_START:.0f} seconds; the cluster is busy: ray "
                    "status"
                )

    def in_flight(self) -> int:
        """How many questions each worker has in flight."""
        return self.parallel

    def ask(
        self, examples: Sequence[Example], answer: AnswerQuestion, record: RecordAnswer
    ) -> None:
        """Have the workers answer the questions, and store and score each answer as it arrives.

        A dead worker's questions are asked again, each alone on its worker; one that ends _TRIES
        workers is recorded as failed.

        Args:
            examples: The questions.
            answer: Has the run; workers answer by one of their own.
            record: Records answers.

        Raises:
            UserError: A worker cannot work. Also what a worker raises.
        """
        plan = answer.run.plan
        if plan.config.model.batch:
            raise UserError(
                "model.batch sends a run's requests from one process; leave out --engine ray"
            )
        for name in plan.code:  # the user's own modules: workers have no such file
            module = sys.modules.get(name)
            if module is not None:
                self.ray.cloudpickle.register_pickle_by_value(module)
        _Round(self, examples, answer, record).ask_all()

    def greet(self, worker: Any) -> None:
        """Ask a worker for its versions; Ray answers the call once the
        worker runs, also after a restart.
        """
        call = worker.versions.options(max_task_retries=-1).remote()
        self.calls[call] = _Call(worker, _GREETING, 0)

    def ready_calls(self, calls: Sequence[Any], timeout: float = 0) -> list[Any]:
        """Those of the calls that have ended.

        Args:
            calls: Ray's references of calls.
            timeout: Seconds to wait until one has ended, if none has.
        """
        if not calls:
            return []
        if timeout:
            self.ray.wait(calls, timeout=timeout)
        ended: list[Any] = self.ray.wait(calls, num_returns=len(calls), timeout=0)[0]
        return ended

    def check_cluster(self) -> None:
        """Raise UserError where nobody has listened at the cluster's address for a while.

        Also notes since when. Without this, Ray ends the process, with no summary, a minute after
        its cluster ended.
        """
        host, _, port = self.address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=1.0).close()
        except OSError as error:
            self.silent_since = self.silent_since or time.monotonic()
            if time.monotonic() - self.silent_since > _SILENCE:
                raise UserError(
                    f"the Ray cluster at {self.address} has ended; start it and run the same "
                    "command again"
                ) from error
        else:
            self.silent_since = None


_GREETING = -1
"""The number of a call that asks for a worker's versions, and for no question."""


@dataclass(frozen=True)
class _Call:
    """A call of a worker under way.

    Attributes:
        worker: The worker that was called.
        number: The number of its question, or _GREETING.
        load: How many of the worker's places it takes.
    """

    worker: Any
    number: int
    load: int


class _Round:
    """The questions of one call of Workers.ask, and which of them are under way."""

    def __init__(
        self,
        workers: Workers,
        examples: Sequence[Example],
        answer: AnswerQuestion,
        record: RecordAnswer,
    ) -> None:
        """Send the plan to the cluster; no question is asked yet.

        Args:
            workers: The workers that answer.
            examples: The questions.
            answer: Has the run, and stores questions that failed.
            record: Records answers.
        """
        self._workers = workers
        self._ray = workers.ray
        self._answer = answer
        self._record = record
        self._run = answer.run
        # In a list, as Ray would send the plan itself with each question.
        self._plan = [workers.ray.put(self._run.plan)]
        self._waiting = _Waiting(self._run.plan, examples)
        self._deaths: Counter[int] = Counter()  # question -> workers that it ended
        self._running: set[Any] = set()
        self._noted: set[str] = set()  # notes of workers that were shown

    def ask_all(self) -> None:
        """Send out questions and take answers until none is left, or a limit is reached.

        Ctrl-C takes the answers that have arrived, and is raised again.
        """
        try:
            while self._send_all_possible():
                ended = self._workers.ready_calls(list(self._workers.calls), timeout=1.0)
                for call in ended:
                    self._take(call)
                if not ended:
                    self._workers.check_cluster()
        except KeyboardInterrupt:
            for call in self._workers.ready_calls(list(self._running)):
                self._take(call)
            raise

    def _send_all_possible(self) -> bool:
        """Send questions to the workers that have room, as long as the limits allow.

        Returns whether there is more to wait for.
        """
        while self._waiting.left and self._run.budget.may_continue():
            call = self._choose()
            if call is None:
                break
            self._send(call)
        return bool(self._running) or (bool(self._waiting.left) and not self._run.budget.hit)

    def _choose(self) -> _Call | None:
        """Choose a worker that has room and its next question; None if all have to wait.

        A question that ended a worker before takes all of a worker's room.
        """
        for worker, load in sorted(self._workers.load.items(), key=lambda each: each[1]):
            if load >= self._workers.parallel:
                continue
            number = self._waiting.next_for(worker, alone=load == 0)
            if number is not None:
                takes = 1
                if self._deaths[number]:
                    takes = self._workers.parallel
                return _Call(worker, number, takes)
        return None

    def _send(self, call: _Call) -> None:
        """Ask the worker of `call` its question, and note the call as under way."""
        earlier = self._run.earlier.get(self._waiting.examples[call.number].question.id)
        position = self._waiting.position[call.number]
        reference = call.worker.answer.remote(self._plan, position, earlier)
        self._workers.load[call.worker] += call.load
        self._workers.calls[reference] = call
        self._running.add(reference)

    def _take(self, reference: Any) -> None:
        """Take the result of a call that ended: store an answer, or let a greeted worker begin.

        A worker's own error is raised here; a call that Ray lost is asked again. An answer to a
        question of an earlier round is dropped.

        Args:
            reference: Ray's reference of the call.
        """
        call = self._workers.calls.pop(reference)
        of_this_round = reference in self._running
        self._running.discard(reference)
        if call.worker in self._workers.load:  # else it died since
            self._workers.load[call.worker] = max(self._workers.load[call.worker] - call.load, 0)
        try:
            answered = self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:
            if of_this_round:
                if isinstance(error.cause, HarnessError):
                    raise error.cause from None
                raise error from None
        except self._ray.exceptions.RayError as error:
            self._lose(call, error, of_this_round)
        else:
            if call.number == _GREETING:
                _check_versions(answered)
                self._workers.load[call.worker] = 0
            elif of_this_round:
                self._store(call, answered)

    def _lose(self, call: _Call, error: Exception, of_this_round: bool) -> None:
        """Have the question of a call that Ray lost asked again, or record it as failed.

        The first call that a worker loses says so and greets the worker anew, as Ray starts it
        again; until the greeting is answered it has no entry in `load` and gets no questions.

        Args:
            call: The lost call; where its number is _GREETING, the worker did not even start.
            error: Ray's error.
            of_this_round: Whether the call is of this round's questions.

        Raises:
            UserError: A worker cannot start at all.
        """
        if call.number == _GREETING:
            why = " ".join(str(error).split())[-300:]
            raise UserError(f"a worker cannot start: {why}") from error
        if self._workers.load.pop(call.worker, None) is not None:
            self._run.progress.note(
                "a worker ended; what it had is asked again, one question at a time"
            )
            self._workers.greet(call.worker)
        if not of_this_round:
            return
        self._deaths[call.number] += 1
        if self._deaths[call.number] < _TRIES:
            self._waiting.put_back(call.number)
            return
        self._waiting.ended(call.number)
        lost = WorkerLost(f"{_TRIES} workers ended while they answered this question")
        self._record([self._answer.failed(self._waiting.examples[call.number], lost)])

    def _store(self, call: _Call, answered: _Answered) -> None:
        """Write what a worker's question would have written, count its cost, and record its answer.

        Also prints the worker's notes that were not printed before.

        Args:
            call: The call that ended.
            answered: What the worker returned.
        """
        self._waiting.ended(call.number)
        self._run.models.workers[call.worker] = answered.slow_paths
        for note in answered.notes:
            if note not in self._noted:
                self._run.progress.note(note)
            self._noted.add(note)
        for name, value in answered.calls:
            getattr(self._run.store, name)(value)
            if name == "append_index_line":
                self._run.budget.spend_index(value)
        self._run.budget.spend(answered.record.usage)
        if answered.manifest:
            self._add_manifest(answered.manifest)
        self._record([Unscored(self._waiting.examples[call.number], answered.record)])

    def _add_manifest(self, there: RunManifest) -> None:
        """Add to the run's manifest what differs on a worker's machine, and its first prompts."""
        self._run.manifest.add_worker(there)
        if self._run.plan.config.dataset.keep_texts:
            self._run.manifest.keep_first_prompts(there.first_prompts)


def _check_versions(there: Mapping[str, str]) -> None:
    """Raise UserError for a worker whose packages have other versions than this process's.

    Args:
        there: Package -> version in the worker, and its "host".
    """
    here = made_by().packages
    keys = sorted(here.keys() | there.keys() - {"host"})
    different = [
        f"{key} {there.get(key)} there, {here.get(key)} here"
        for key in keys
        if here.get(key) != there.get(key)
    ]
    if different:
        raise UserError(
            f"the worker on {there['host']} has other versions: {'; '.join(different)}; install "
            "the same on all machines"
        )


@dataclass(eq=False)
class _Group:
    """Questions about the same documents.

    Attributes:
        documents: The ids of the documents; empty for a question that shares no index.
        numbers: The numbers of the questions that wait.
        home: The worker that indexes the documents; None before one does.
    """

    documents: frozenset[str]
    numbers: deque[int] = field(default_factory=deque)
    home: Any = None


class _Waiting:
    """The questions that no worker has yet, in groups about the same documents.

    One worker indexes a document; others help once it did, if they are idle.

    Attributes:
        examples: The questions by number.
        position: For each number the question's position in the data set.
        left: How many wait.
    """

    def __init__(self, plan: PlannedRun, examples: Sequence[Example]) -> None:
        """Group the questions by their documents, or each alone where they share no indexes.

        Args:
            plan: The run.
            examples: The questions.
        """
        self.examples = examples
        self.left = len(examples)
        places = {example.question.id: n for n, example in enumerate(plan.dataset.examples)}
        self.position = [places[example.question.id] for example in examples]
        groups: dict[Any, _Group] = {}
        self._group: list[_Group] = []
        shares_indexes = plan.builds_indexes and plan.method.scope == "document"
        for number, example in enumerate(examples):
            documents: frozenset[str] = frozenset()
            if shares_indexes:
                documents = frozenset(example.question.document_ids)
            self._group.append(groups.setdefault(documents or number, _Group(documents)))
            self._group[-1].numbers.append(number)
        self._fresh = deque(groups.values())
        self._open: list[_Group] = []  # begun, with questions left
        self._indexing: set[_Group] = set()  # begun, without an answer
        self._again: deque[int] = deque()  # of workers that died

    def next_for(self, worker: Any, alone: bool) -> int | None:
        """Take the next question for a worker out of those that wait: its
        number; None if it has to wait.

        Args:
            worker: The worker.
            alone: Whether the worker has no question, so that it may get one that ended a worker.
        """
        if alone and self._again:
            self.left -= 1
            return self._again.popleft()
        group = self._group_for(worker)
        if group is None:
            return None
        number = group.numbers.popleft()
        if not group.numbers:
            self._open.remove(group)
        self.left -= 1
        return number

    def _group_for(self, worker: Any) -> _Group | None:
        """Choose the group that a worker takes its next question of; None if it has to wait.

        One that the worker has indexed itself, else one that nobody has begun, which it begins,
        else the largest one that another worker has indexed.
        """
        indexed = [group for group in self._open if group not in self._indexing]
        for group in indexed:
            if group.home is worker:
                return group
        new = self._begin_group(worker)
        if new is not None:
            return new
        return max(indexed, key=lambda group: len(group.numbers), default=None)

    def _begin_group(self, worker: Any) -> _Group | None:
        """Let a worker begin the first group none of whose documents is being indexed; None if
        there is no such group.
        """
        being_indexed: set[str] = set()
        for group in self._indexing:
            being_indexed |= group.documents
        for group in self._fresh:
            if being_indexed.isdisjoint(group.documents):
                self._fresh.remove(group)
                group.home = worker
                self._open.append(group)
                self._indexing.add(group)
                return group
        return None

    def put_back(self, number: int) -> None:
        """Let a question wait again, whose worker died."""
        self.left += 1
        self._again.append(number)

    def ended(self, number: int) -> None:
        """Note that a question was answered, or given up, so that other
        workers may help with its documents.
        """
        self._indexing.discard(self._group[number])


@dataclass
class _Answered:
    """What a worker returns of a question.

    Attributes:
        calls: The calls of RunStore that it would have made, (method, argument), the last one with
            its answer.
        manifest: The worker's, where it is new: its machine, code and first prompts.
        notes: The worker's notes since its last answer.
        slow_paths: What slows the worker's models down, so far.
    """

    calls: list[tuple[str, Any]]
    manifest: RunManifest | None
    notes: list[str]
    slow_paths: list[str]

    @property
    def record(self) -> StoredRecord:
        """The answer, which is a record without scores."""
        return cast(StoredRecord, self.calls[-1][1])


class _Calls(threading.local):
    """Stands for RunStore in a worker: it remembers calls, by thread, for the driver to make.

    Attributes:
        made: (method, argument) of the calls in this thread.
    """

    def __init__(self) -> None:
        """Begin with no calls; each thread has its own."""
        self.made: list[tuple[str, Any]] = []

    def manifest(self) -> RunManifest:
        """An empty manifest, as the driver has the run's."""
        return RunManifest()

    def __getattr__(self, name: str) -> Callable[[Any], None]:
        """Stand for any other method of RunStore: a function that remembers its call in `made`."""
        return lambda value: self.made.append((name, value))


@dataclass
class _WorkerRun:
    """A run that a worker answers questions of.

    Attributes:
        reference: Ray's reference of its plan.
        answer: Answers a question.
        calls: What its questions would write.
        progress: Collects notes.
        scheduler: Batches the questions in flight; None for one question at a time.
        sent: The manifest that the driver has.
    """

    reference: Any
    answer: AnswerQuestion
    calls: _Calls
    progress: Silent
    scheduler: Scheduler | None
    sent: RunManifest | None = None

    def new_manifest(self) -> RunManifest | None:
        """The manifest of this machine with first prompts; None where the driver has it.

        Also notes that the driver has it from now on.
        """
        run = self.answer.run
        manifest = with_first_prompts(run.manifest.value, run.models.first_prompts())
        run.manifest.value = manifest
        if self.sent is manifest:
            return None
        self.sent = manifest
        return manifest

    def take_notes(self) -> list[str]:
        """Return the notes since the last call, and forget them."""
        notes = self.progress.notes
        self.progress.notes = []
        return notes


class _Worker:
    """A Ray actor, which answers questions of one run after the other."""

    def __init__(self, cwd: str, parallel: int) -> None:
        """Begin without a run.

        Args:
            cwd: The folder to work in, the driver's; left out where this machine lacks it.
            parallel: How many questions are answered at a time.
        """
        with contextlib.suppress(OSError):  # a machine that lacks it may need no file of it
            os.chdir(cwd)
        self._parallel = parallel
        self._lock = threading.Lock()
        self._open: _WorkerRun | None = None

    def versions(self) -> dict[str, str]:
        """The versions of the packages here, by name, and the host's name as "host".

        Ray itself compares its own version and Python's.
        """
        return {**made_by().packages, "host": socket.gethostname()}

    def answer(self, plan: list[Any], position: int, earlier: SentUsage | None) -> _Answered:
        """Answer a question, getting its run ready if another one was answered before.

        Args:
            plan: [Ray's reference of the plan].
            position: The question's position in the data set.
            earlier: What earlier tries of the question cost.

        Raises:
            HarnessError: UserError, SaveError or this class itself, which survives the way back.
        """
        try:
            with self._lock:
                if self._open is None or self._open.reference != plan[0]:
                    self._open = open_in_worker(plan[0], self._parallel)
                opened = self._open
            made = _answer_by_calls(opened, position, earlier)
        except HarnessError as error:  # its own class may not survive the way
            kinds = (UserError, SaveError, HarnessError)
            kind = next(kind for kind in kinds if isinstance(error, kind))
            raise kind(f"worker on {socket.gethostname()}: {error}") from None
        run = opened.answer.run
        with self._lock:
            manifest = opened.new_manifest()
            notes = opened.take_notes()
        return _Answered(made, manifest, notes, run.models.slow_paths())


def _answer_by_calls(
    opened: _WorkerRun, position: int, earlier: SentUsage | None
) -> list[tuple[str, Any]]:
    """Answer one question, and return the calls of RunStore that it would make: (method, argument).

    Args:
        opened: The run in this worker.
        position: The question's position in the data set.
        earlier: What earlier tries of the question cost.
    """
    run = opened.answer.run
    example = run.plan.dataset.examples[position]
    if earlier:
        run.earlier[example.question.id] = earlier

    def work() -> list[tuple[str, Any]]:
        """Answer the question, and return the calls that were made to the store meanwhile."""
        opened.calls.made = []
        opened.answer(example)
        return opened.calls.made

    if opened.scheduler is None:
        return work()
    calls: list[tuple[str, Any]] = _run_in_scheduler(opened.scheduler, work)
    return calls


def open_in_worker(reference: Any, parallel: int) -> _WorkerRun:
    """Get a run ready in a worker, for `parallel` questions at a time; models are loaded.

    Raises UserError where its weights are others than the driver's, CannotRun from loading.

    Args:
        reference: Ray's reference of the plan.
        parallel: Questions at a time.
    """
    import ray

    plan: PlannedRun = ray.get(reference)
    _check_weights(plan)
    calls = _Calls()
    progress = Silent()
    store = cast(RunStore, calls)
    manifest = StartManifest(plan, store, [])
    examples = plan.dataset.examples[: plan.config.limit]
    run = OpenRun.of(plan, store, progress, Budget({}), examples, manifest)
    scheduler = None
    if parallel > 1:
        seed_everything(derived_seed(plan.config.seed, "in flight"))
        places = places_for(run.models.load_all(), parallel, progress.note, run.longest_context)
        run.indexer.most_in_memory = max(run.indexer.most_in_memory, places)
        scheduler = Scheduler(places)
    return _WorkerRun(reference, AnswerQuestion(run), calls, progress, scheduler)


def _check_weights(plan: PlannedRun) -> None:
    """Raise UserError where the weights of a model on this machine are not the driver's."""
    facts = {role: model_facts(config).identity for role, config in plan.models.items()}
    for role, config in plan.encoders.items():
        facts[role] = encoder_facts(config, role).identity
    for role, fact in facts.items():
        if fact != plan.identities[role]:
            raise UserError(
                f"the weights of its {role} are not those of the driver's machine; make them equal"
            )


def _run_in_scheduler(scheduler: Scheduler, work: Callable[[], Any]) -> Any:
    """Run work() in a thread of the scheduler, so that its requests share batches with others.

    Returns its result, or raises its error, in this thread.
    """
    answered: Future[Any] = Future()

    def member() -> None:
        """Run `work`, and hand its result or error to the thread that waits for it."""
        try:
            answered.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised in the thread that waits
            answered.set_exception(error)

    scheduler.start_threads(member)
    return answered.result()
