"""Questions answered by other processes, also on other machines, as Ray actors: `harness run
--engine ray`.

    with connect(workers=4, gpus=1, address=None, parallel=None) as workers:
        runner.run(plan, out, options=AskOptions(executor=workers), ...)

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
from typing import Any, NamedTuple, cast

from harness.cost.usage import SentUsage
from harness.embed.encoder_info import encoder_facts
from harness.engine.answer_question import AnswerQuestion, Unscored
from harness.engine.executors import IN_FLIGHT_ON_A_GPU, Executor
from harness.engine.manifest import program_versions, with_first_prompts
from harness.engine.open_run import OpenRun
from harness.engine.plan import PlannedRun
from harness.engine.progress import Silent
from harness.engine.record_answer import RecordAnswer
from harness.engine.spending_limits import Budget
from harness.engine.start_manifest import StartManifest
from harness.engine.tools import seed_everything
from harness.errors import CannotRun, HarnessError, SaveError, UserError, WorkerLost
from harness.llm.backend import model_facts
from harness.parallel.in_flight import questions_that_fit
from harness.parallel.scheduler import Scheduler
from harness.stats.rng import derived_seed
from harness.storage.manifest_file import RunManifest
from harness.storage.records import StoredRecord
from harness.storage.run_store import RunStore
from harness.types import Example

_MAX_START_SECONDS = 120.0  # until the first worker is ready
_MAX_SILENT_SECONDS = 15.0  # in which a cluster's head may start again
_MAX_TRIES = 3  # a question that ended as many workers is recorded as failed


@contextlib.contextmanager
def connect(
    *, workers: int | None, gpus: float, address: str | None, parallel: int | None
) -> Iterator[Workers]:
    """Context manager: connect to a Ray cluster, or start one on this machine, and yield its
    workers; the block's end ends them. The process keeps its own handler of SIGTERM.

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

    handler_of_caller = signal.getsignal(signal.SIGTERM)
    try:
        _open_cluster(ray, address, workers)
        # In place of Ray's handler, which ends the process; outside of the main thread, where this
        # raises ValueError, none was set.
        with contextlib.suppress(ValueError):
            signal.signal(signal.SIGTERM, handler_of_caller)
        n_workers = worker_count(ray.cluster_resources(), workers, gpus)
        if parallel is None:
            parallel = 1
            if gpus:
                parallel = IN_FLIGHT_ON_A_GPU
        yield Workers(ray, n_workers, gpus, parallel)
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
    # A worker that asks for no GPU keeps the CUDA_VISIBLE_DEVICES that it finds.
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
        reason = " ".join(str(error).split())[:300]
        raise UserError(f"no Ray cluster can be used ({address}): {reason}") from error


def worker_count(resources: Mapping[str, float], workers: int | None, gpus: float) -> int:
    """Decide how many workers to start.

    Args:
        resources: What the cluster has: {"CPU": 16, "GPU": 2}.
        workers: How many the user asked for; None: one for each CPU, or for each `gpus` GPUs.
        gpus: GPUs of each worker.

    Raises:
        UserError: The cluster can never hold them.
    """
    n_cpus = int(resources.get("CPU", 0))
    n_gpus = resources.get("GPU", 0)
    n_workers = n_cpus
    if workers is not None:
        n_workers = workers
    elif gpus:
        n_workers = int(n_gpus // gpus)
    if n_workers < 1 or n_workers * gpus > n_gpus:
        n_wanted = max(n_workers, 1)
        raise UserError(
            f"{n_wanted} workers with {gpus:g} GPUs each need {n_wanted * gpus:g} GPUs, "
            f"and the cluster has {n_gpus:g}; lower --workers or --gpus-per-worker"
        )
    if n_workers > n_cpus:
        raise UserError(
            f"{n_workers} workers need {n_workers} CPUs, and the cluster has {n_cpus}; lower "
            "--workers"
        )
    return n_workers


class Workers(Executor):
    """The Ray actors of one command, which answer the questions of its runs.

    Attributes:
        ray: The module.
        parallel: Questions in flight in each worker.
        address: Where the cluster listens: "host:port".
        silent_since: When nobody listened there for the first time; None while somebody does.
        n_questions_of: Worker that is ready -> how many questions it has.
        calls: Ray's reference of a call -> the call, of those under way.
    """

    def __init__(self, ray: Any, n_workers: int, gpus: float, parallel: int) -> None:
        """Start the workers, ask each for its versions, and wait until the first one answers.

        Args:
            ray: The module.
            n_workers: How many.
            gpus: GPUs of each worker.
            parallel: Questions in flight in each.

        Raises:
            UserError: No worker is ready in time, or the cluster ended.
        """
        self.ray = ray
        self.parallel = parallel
        self.address: str = ray.get_runtime_context().gcs_address
        self.silent_since: float | None = None
        self.n_questions_of: dict[Any, int] = {}
        self.calls: dict[Any, _Call] = {}
        as_actor = ray.remote(num_cpus=1, num_gpus=gpus, max_restarts=-1, max_concurrency=parallel)
        actor_class = as_actor(_Worker)
        for _ in range(n_workers):
            self.greet(actor_class.remote(os.getcwd(), parallel))
        deadline = time.monotonic() + _MAX_START_SECONDS
        while not self.ready_calls(list(self.calls), timeout=1.0):
            self.check_cluster()
            if time.monotonic() > deadline:
                raise UserError(
                    f"no worker was ready after {_MAX_START_SECONDS:.0f} seconds; the cluster is "
                    "busy: ray status"
                )

    def in_flight(self) -> int:
        """How many questions each worker has in flight."""
        return self.parallel

    def ask(
        self, examples: Sequence[Example], answer: AnswerQuestion, record: RecordAnswer
    ) -> None:
        """Have the workers answer the questions, and store and score each answer as it arrives.

        A dead worker's questions are asked again, each alone on its worker; one that ends
        _MAX_TRIES workers is recorded as failed.

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
        """Ask a worker for its versions; Ray answers the call once the worker runs, also after a
        restart."""
        call = worker.versions.options(max_task_retries=-1).remote()
        self.calls[call] = _Call(worker, _GREETING, n_places=0)

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
            if time.monotonic() - self.silent_since > _MAX_SILENT_SECONDS:
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
        n_places: How many of the worker's places it takes.
    """

    worker: Any
    number: int
    n_places: int


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
        self._waiting = _WaitingQuestions(self._run.plan, examples)
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
                for reference in ended:
                    self._take_result(reference)
                if not ended:
                    self._workers.check_cluster()
        except KeyboardInterrupt:
            for reference in self._workers.ready_calls(list(self._running)):
                self._take_result(reference)
            raise

    def _send_all_possible(self) -> bool:
        """Send questions to the workers that have room, as long as the limits allow.

        Returns whether there is more to wait for.
        """
        while self._waiting.n_left and self._run.budget.may_continue():
            call = self._take_next_call()
            if call is None:
                break
            self._send(call)
        questions_will_be_sent = self._waiting.n_left > 0 and not self._run.budget.reached_limit
        return bool(self._running) or questions_will_be_sent

    def _take_next_call(self) -> _Call | None:
        """Choose the least busy worker for which a question waits, and take that question out of
        those that wait; None if all workers are full or have to wait.

        A question that ended a worker before takes all of a worker's room.
        """
        n_questions_of = self._workers.n_questions_of
        for worker in sorted(n_questions_of, key=n_questions_of.__getitem__):
            n_questions = n_questions_of[worker]
            if n_questions >= self._workers.parallel:
                continue
            number = self._waiting.take_next_for(worker, is_idle=n_questions == 0)
            if number is not None:
                n_places = 1
                if self._deaths[number]:
                    n_places = self._workers.parallel
                return _Call(worker, number, n_places)
        return None

    def _send(self, call: _Call) -> None:
        """Ask the worker of `call` its question, and note the call as under way."""
        question_id = self._waiting.examples[call.number].question.id
        sent_by_earlier_tries = self._run.earlier_tries.get(question_id)
        position = self._waiting.positions[call.number]
        reference = call.worker.answer.remote(self._plan, position, sent_by_earlier_tries)
        self._workers.n_questions_of[call.worker] += call.n_places
        self._workers.calls[reference] = call
        self._running.add(reference)

    def _take_result(self, reference: Any) -> None:
        """Take the result of a call that ended: store an answer, or let a greeted worker begin.

        A worker's own error is raised here; a call that Ray lost is asked again. An answer to a
        question of an earlier round is dropped.

        Args:
            reference: Ray's reference of the call.
        """
        call = self._workers.calls.pop(reference)
        of_this_round = reference in self._running
        self._running.discard(reference)
        n_questions_of = self._workers.n_questions_of
        if call.worker in n_questions_of:  # else it died since
            n_questions_of[call.worker] = max(n_questions_of[call.worker] - call.n_places, 0)
        try:
            answered = self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:
            if of_this_round:
                if isinstance(error.cause, HarnessError):
                    raise error.cause from None
                raise error from None
        except self._ray.exceptions.RayError as error:
            self._ask_again_or_fail(call, error, of_this_round)
        else:
            if call.number == _GREETING:
                _check_versions(answered)
                self._workers.n_questions_of[call.worker] = 0
            elif of_this_round:
                self._store_and_record(call, answered)

    def _ask_again_or_fail(self, call: _Call, error: Exception, of_this_round: bool) -> None:
        """Have the question of a call that Ray lost asked again, or record it as failed.

        The first call that a worker loses says so and greets the worker anew, as Ray starts it
        again; until the greeting is answered it has no entry in `n_questions_of` and gets no
        questions.

        Args:
            call: The lost call; where its number is _GREETING, the worker did not even start.
            error: Ray's error.
            of_this_round: Whether the call is of this round's questions.

        Raises:
            UserError: A worker cannot start at all.
        """
        if call.number == _GREETING:
            reason = " ".join(str(error).split())[-300:]
            raise UserError(f"a worker cannot start: {reason}") from error
        if self._workers.n_questions_of.pop(call.worker, None) is not None:
            self._run.progress.note(
                "a worker ended; what it had is asked again, one question at a time"
            )
            self._workers.greet(call.worker)
        if not of_this_round:
            return
        self._deaths[call.number] += 1
        if self._deaths[call.number] < _MAX_TRIES:
            self._waiting.put_back(call.number)
            return
        self._waiting.mark_as_ended(call.number)
        example = self._waiting.examples[call.number]
        lost = WorkerLost(f"{_MAX_TRIES} workers ended while they answered this question")
        self._record([self._answer.store_failure(example, lost)])

    def _store_and_record(self, call: _Call, answered: _Answered) -> None:
        """Write what a worker's question would have written, count its cost and that of the indexes
        built for it, and record its answer.

        Also prints the worker's notes that were not printed before, and notes why its models ran
        slowly and in what its machine differs.

        Args:
            call: The call that ended.
            answered: What the worker returned.
        """
        self._waiting.mark_as_ended(call.number)
        self._run.models.slow_paths_of_workers[call.worker] = answered.slow_paths
        for note in answered.notes:
            if note not in self._noted:
                self._run.progress.note(note)
            self._noted.add(note)
        for call_of_store in answered.calls:
            write = getattr(self._run.store, call_of_store.method)
            write(call_of_store.argument)
            if call_of_store.method == RunStore.append_index_line.__name__:
                self._run.budget.spend_index(call_of_store.argument)
        self._run.budget.spend(answered.record.usage)
        if answered.manifest:
            self._add_manifest(answered.manifest)
        self._record([Unscored(self._waiting.examples[call.number], answered.record)])

    def _add_manifest(self, workers_manifest: RunManifest) -> None:
        """Add to the run's manifest what differs on a worker's machine, and its first prompts."""
        self._run.manifest.add_differences_of_worker(workers_manifest)
        if self._run.plan.config.dataset.keep_texts:
            self._run.manifest.write_new_first_prompts(workers_manifest.first_prompts)


def _check_versions(worker_versions: Mapping[str, str]) -> None:
    """Raise UserError for a worker whose packages have other versions than this process's.

    Args:
        worker_versions: Package -> version in the worker, and its "host".
    """
    own_versions = program_versions().packages
    packages = sorted(own_versions.keys() | worker_versions.keys() - {"host"})
    different: list[str] = []
    for package in packages:
        own_version = own_versions.get(package)
        worker_version = worker_versions.get(package)
        if own_version != worker_version:
            different.append(f"{package} {worker_version} there, {own_version} here")
    if different:
        raise UserError(
            f"the worker on {worker_versions['host']} has other versions: "
            f"{'; '.join(different)}; install the same on all machines"
        )


@dataclass(eq=False)
class _Group:
    """Questions about the same documents.

    Attributes:
        document_ids: The documents; empty for a question that shares no index.
        numbers: The numbers of the questions that wait.
        indexed_by: The worker that indexes the documents; None before one does.
    """

    document_ids: frozenset[str]
    numbers: deque[int] = field(default_factory=deque)
    indexed_by: Any = None


class _WaitingQuestions:
    """The questions that no worker has yet, in groups about the same documents.

    One worker indexes a document; others help once it did, if they are idle.

    Attributes:
        examples: The questions by number.
        positions: For each number the question's position in the data set.
        n_left: How many wait.
    """

    def __init__(self, plan: PlannedRun, examples: Sequence[Example]) -> None:
        """Group the questions that are about the same documents, so that one worker builds the
        indexes of these. Each is alone where the method builds no index, or none that belongs to a
        document (`scope`). A question's number is its index in `examples`.

        Args:
            plan: The run.
            examples: The questions.
        """
        self.examples = examples
        self.n_left = len(examples)
        position_of = {each.question.id: n for n, each in enumerate(plan.dataset.examples)}
        self.positions = [position_of[example.question.id] for example in examples]
        groups: dict[frozenset[str] | int, _Group] = {}
        self._group_of: list[_Group] = []  # by the number of a question
        shares_indexes = plan.builds_indexes and plan.method.scope == "document"
        for number, example in enumerate(examples):
            document_ids: frozenset[str] = frozenset()
            if shares_indexes:
                document_ids = frozenset(example.question.document_ids)
            key = document_ids or number  # a question without documents is a group of its own
            group = groups.setdefault(key, _Group(document_ids))
            group.numbers.append(number)
            self._group_of.append(group)
        self._not_begun = deque(groups.values())
        # Of the groups that a worker has begun:
        self._with_questions_left: list[_Group] = []
        self._without_an_answer: set[_Group] = set()
        self._of_dead_workers: deque[int] = deque()  # numbers of questions

    def take_next_for(self, worker: Any, is_idle: bool) -> int | None:
        """Take the next question for a worker out of those that wait: its number; None if the
        worker has to wait.

        Args:
            worker: The worker.
            is_idle: Whether the worker has no question, so that it may get one that ended a worker.
        """
        if is_idle and self._of_dead_workers:
            self.n_left -= 1
            return self._of_dead_workers.popleft()
        group = self._choose_or_begin_group(worker)
        if group is None:
            return None
        number = group.numbers.popleft()
        if not group.numbers:
            self._with_questions_left.remove(group)
        self.n_left -= 1
        return number

    def _choose_or_begin_group(self, worker: Any) -> _Group | None:
        """Choose the group that a worker takes its next question of; None if it has to wait.

        It is one that the worker has indexed itself, else one that nobody has begun, which it
        begins, else the largest one that another worker has indexed.
        """
        indexed = [
            group for group in self._with_questions_left if group not in self._without_an_answer
        ]
        for group in indexed:
            if group.indexed_by is worker:
                return group
        begun_now = self._begin_group(worker)
        if begun_now is not None:
            return begun_now
        return max(indexed, key=lambda group: len(group.numbers), default=None)

    def _begin_group(self, worker: Any) -> _Group | None:
        """Let a worker begin the first group none of whose documents is being indexed; None if
        there is no such group.
        """
        ids_being_indexed: set[str] = set()
        for group in self._without_an_answer:
            ids_being_indexed |= group.document_ids
        for group in self._not_begun:
            if ids_being_indexed.isdisjoint(group.document_ids):
                self._not_begun.remove(group)
                group.indexed_by = worker
                self._with_questions_left.append(group)
                self._without_an_answer.add(group)
                return group
        return None

    def put_back(self, number: int) -> None:
        """Let a question wait again, whose worker died."""
        self.n_left += 1
        self._of_dead_workers.append(number)

    def mark_as_ended(self, number: int) -> None:
        """Note that a question was answered, or given up, so that other workers may help with its
        documents."""
        self._without_an_answer.discard(self._group_of[number])


class _CallOfStore(NamedTuple):
    """A call of RunStore that a worker leaves to the driver.

    Attributes:
        method: The name of the method: "append_index_line".
        argument: Its one argument.
    """

    method: str
    argument: Any


@dataclass
class _Answered:
    """What a worker returns of a question.

    Attributes:
        calls: The calls of RunStore that it would have made, the last one with its answer.
        manifest: The worker's, where it is new: its machine, code and first prompts.
        notes: The worker's notes since its last answer.
        slow_paths: What slows the worker's models down, so far.
    """

    calls: list[_CallOfStore]
    manifest: RunManifest | None
    notes: list[str]
    slow_paths: list[str]

    @property
    def record(self) -> StoredRecord:
        """The answer, a record without scores: the argument of the last call, which stores it."""
        last_call = self.calls[-1]
        return cast(StoredRecord, last_call.argument)


class _RememberedCalls(threading.local):
    """Stands for RunStore in a worker: it remembers calls, by thread, for the driver to make.

    Attributes:
        made: The calls in this thread.
    """

    def __init__(self) -> None:
        """Begin with no calls; each thread has its own."""
        self.made: list[_CallOfStore] = []

    def manifest(self) -> RunManifest:
        """An empty manifest, as the driver has the run's."""
        return RunManifest()

    def __getattr__(self, name: str) -> Callable[[Any], None]:
        """Stand for any other method of RunStore: a function that remembers its call in `made`."""
        return lambda argument: self.made.append(_CallOfStore(name, argument))


@dataclass
class _WorkerRun:
    """A run that a worker answers questions of.

    Attributes:
        reference: Ray's reference of its plan.
        answer: Answers a question.
        calls: What its questions would write.
        progress: Collects notes.
        scheduler: Batches the questions in flight; None for one question at a time.
        sent_manifest: The manifest that the driver has.
    """

    reference: Any
    answer: AnswerQuestion
    calls: _RememberedCalls
    progress: Silent
    scheduler: Scheduler | None
    sent_manifest: RunManifest | None = None

    def take_new_manifest(self) -> RunManifest | None:
        """The manifest of this machine with first prompts; None where the driver has it.

        New first prompts are also put into the run's manifest here, and what is returned counts as
        one that the driver has from now on.
        """
        run = self.answer.run
        manifest = with_first_prompts(run.manifest.manifest, run.models.first_prompts())
        run.manifest.manifest = manifest
        if self.sent_manifest is manifest:
            return None
        self.sent_manifest = manifest
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
        self._opened: _WorkerRun | None = None

    def versions(self) -> dict[str, str]:
        """The versions of the packages here, by name, and the host's name as "host".

        Ray itself compares its own version and Python's.
        """
        return {**program_versions().packages, "host": socket.gethostname()}

    def answer(
        self, plan: list[Any], position: int, sent_by_earlier_tries: SentUsage | None
    ) -> _Answered:
        """Answer a question, getting its run ready if another run was asked before. Returns the
        answer as the calls of RunStore that it makes, with what is new of this worker: its
        manifest, its notes, and why its models ran slowly.

        Args:
            plan: [Ray's reference of the plan].
            position: The question's position in the data set.
            sent_by_earlier_tries: What earlier tries of the question sent.

        Raises:
            HarnessError: UserError, SaveError or HarnessError itself, which can be pickled on the
                way back to the driver; any other of its classes becomes the one it is derived from.
        """
        try:
            (reference,) = plan
            with self._lock:
                if self._opened is None or self._opened.reference != reference:
                    self._opened = open_in_worker(reference, self._parallel)
                opened = self._opened
            calls = _answer_by_calls(opened, position, sent_by_earlier_tries)
        except HarnessError as error:
            own_classes = (UserError, SaveError, HarnessError)
            error_class = next(each for each in own_classes if isinstance(error, each))
            raise error_class(f"worker on {socket.gethostname()}: {error}") from None
        run = opened.answer.run
        with self._lock:
            manifest = opened.take_new_manifest()
            notes = opened.take_notes()
        return _Answered(calls, manifest, notes, run.models.slow_paths())


def _answer_by_calls(
    opened: _WorkerRun, position: int, sent_by_earlier_tries: SentUsage | None
) -> list[_CallOfStore]:
    """Answer one question, and return the calls of RunStore that it would make: the run's store
    writes nothing here, but remembers them, for each thread on its own. Also notes in the run what
    earlier tries sent.

    Args:
        opened: The run in this worker.
        position: The question's position in the data set.
        sent_by_earlier_tries: What earlier tries of the question sent.
    """
    run = opened.answer.run
    example = run.plan.dataset.examples[position]
    if sent_by_earlier_tries:
        run.earlier_tries[example.question.id] = sent_by_earlier_tries

    def work() -> list[_CallOfStore]:
        """Answer the question, and return the calls that were made to the store meanwhile."""
        opened.calls.made = []
        opened.answer(example)
        return opened.calls.made

    if opened.scheduler is None:
        return work()
    calls: list[_CallOfStore] = _run_in_scheduler(opened.scheduler, work)
    return calls


def open_in_worker(reference: Any, parallel: int) -> _WorkerRun:
    """Get a run ready in a worker, for `parallel` questions at a time: a store that only remembers
    what it should write, no output, no limits, and for several questions at a time the models
    loaded and a scheduler.

    Raises UserError where its weights are others than the driver's, CannotRun from loading.

    Args:
        reference: Ray's reference of the plan.
        parallel: Questions at a time.
    """
    import ray

    plan: PlannedRun = ray.get(reference)
    _check_weights(plan)
    calls = _RememberedCalls()
    progress = Silent()
    store = cast(RunStore, calls)
    manifest = StartManifest(plan, store, [])
    examples = plan.dataset.examples[: plan.config.limit]
    run = OpenRun.prepare(plan, store, progress, Budget({}), examples, manifest)
    scheduler = None
    if parallel > 1:
        seed_everything(derived_seed(plan.config.seed, "in flight"))
        n_in_flight = questions_that_fit(
            run.models.load_all(), parallel, progress.note, run.longest_context_tokens
        )
        run.indexer.max_in_memory = max(run.indexer.max_in_memory, n_in_flight)
        scheduler = Scheduler(n_in_flight)
    return _WorkerRun(reference, AnswerQuestion(run), calls, progress, scheduler)


def _check_weights(plan: PlannedRun) -> None:
    """Raise UserError where the weights of a model on this machine are not the driver's."""
    identities = {role: model_facts(config).identity for role, config in plan.models.items()}
    for role, config in plan.encoders.items():
        identities[role] = encoder_facts(config, role).identity
    for role, identity in identities.items():
        if identity != plan.identities[role]:
            raise UserError(
                f"the weights of its {role} are not those of the driver's machine; make them equal"
            )


def _run_in_scheduler(scheduler: Scheduler, work: Callable[[], Any]) -> Any:
    """Run work() in a thread of the scheduler, so that its requests share batches with others.

    Returns its result, or raises its error, in this thread.
    """
    result: Future[Any] = Future()

    def member() -> None:
        """Run `work`, and hand its result or error to the thread that waits for it."""
        try:
            result.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised in the thread that waits
            result.set_exception(error)

    scheduler.start_threads(member)
    return result.result()
