"""Shards as an array job of Slurm: `harness run --engine slurm`, through submitit.

    driver = SlurmDriver(out, progress, workers=16, settings={"slurm_partition": "gpu"}, options)
    driver.add(plan, chain)       one array job, a task for each shard of the row
    driver.wait(plan)             RunResult; the last shard has merged by then

A task is what `harness run --shard K/N` does. It may be preempted and requeued at any moment: it goes on with what has
no record. So may this process: the tasks end without it, and the same command prints what they did.
"""

import importlib.util
import os
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.config.layers import Choices
from harness.engine import runner
from harness.engine.plan import Plan
from harness.engine.progress import Progress
from harness.errors import CannotRun, HarnessError, RunLocked, UserError
from harness.scale.merge import merge
from harness.scale.shard import RecordFollower, partition, run_shard
from harness.scale.worker import Done, Log, failed_result, plan_chain, reported_error
from harness.storage.json_lines import read_lines
from harness.storage.run_folder import RECORDS, RUN
from harness.storage.shard_files import TRIES

_POLL = 1.0  # seconds between two looks at the records; submitit asks Slurm less often
_CLUSTERS = ("slurm", "local", "debug")


@dataclass(frozen=True)
class ShardTask:
    """A shard that submitit stores and another machine calls; chain, folder: as in `Order`; options: of run_shard."""

    chain: tuple[Choices, ...]
    folder: str
    out: str
    cwd: str
    number: int
    of: int
    options: dict[str, Any]

    def __call__(self) -> Done:
        """Answer the shard; what ends it is in the result."""
        try:
            os.chdir(self.cwd)
            plan = plan_chain(self.chain, Path(self.out))
            if plan.folder != self.folder:
                raise UserError(
                    f"this machine would write {plan.folder}, not {self.folder}: data, weights or code differ"
                )
            log = Log(plan.folder)
            result, _ = run_shard(plan, Path(self.out), self.number, self.of, progress=log, **self.options)
        except Exception as error:  # noqa: BLE001 - a result is read by the driver, an exception needs its class there
            return failed_result(error)
        return Done(result.summary.get("n_total", 0), tuple(result.save_problems))

    def checkpoint(self) -> Any:
        """What submitit queues again before Slurm ends the task: the same, because a shard resumes."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self)


@dataclass
class _Row:
    """A submitted row. tasks, jobs, tries: by number of the shard; problems: sentences on what was not saved."""

    folder: Path
    tasks: dict[int, ShardTask]
    jobs: dict[int, Any]  # those that have not ended
    tail: RecordFollower
    tries: Counter[int] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)


class SlurmDriver:
    """Submits rows and waits for them.

    workers: shards of a row; gpus: of each; settings: submitit's parameters, such as slurm_partition or timeout_min,
    and "cluster": slurm, or local for processes of this machine; options: for runner.run in each task. Raises CannotRun
    and UserError: no submitit, no Slurm, a parameter that submitit does not know.
    """

    def __init__(
        self,
        out: Path,
        progress: Progress,
        *,
        workers: int,
        gpus: float,
        settings: Mapping[str, Any],
        options: dict[str, Any],
    ) -> None:
        self._out, self._progress, self._workers, self._options = out.absolute(), progress, workers, options
        self._executor = _make_executor(self._out / "workers" / "slurm", workers, gpus, dict(settings))
        self._rows: dict[str, _Row] = {}

    def add(self, plan: Plan, chain: Sequence[Choices]) -> None:
        """Submit a row, unless it is submitted already; chain: as in `Order`. Raises UserError, CannotRun."""
        if plan.folder in self._rows:
            return
        folder = self._out / plan.folder
        asked = plan.dataset.examples[: plan.config.limit]
        shards = dict(enumerate(partition(asked, plan.dataset.documents, self._workers), 1))
        recorded = {r["question_id"] for r in read_lines(folder / RECORDS, "question_id")}
        again = self._options.get("retry_failed")
        left = [number for number, ids in shards.items() if not recorded.issuperset(ids) or (again and ids)]
        places = (plan.folder, str(self._out), os.getcwd())
        tasks = {number: ShardTask(tuple(chain), *places, number, self._workers, self._options) for number in left}
        jobs = _submit_array(self._executor, tasks) if tasks else {}
        if not self._rows:
            self._progress.start(0, plan.config.dataset.scorers[0])
        self._progress.more(sum(len(shards[number]) for number in left))
        self._rows[plan.folder] = _Row(folder, tasks, jobs, RecordFollower(folder, left))

    def wait(self, plan: Plan) -> runner.RunResult:
        """Wait until all shards of the row ended. Raises the error of a task, and what a merge raises."""
        row = self._rows[plan.folder]
        while row.jobs:
            self._poll_row(row)
            time.sleep(_POLL if row.jobs else 0)
        if not row.tasks:  # nothing was left to ask
            return runner.run(plan, self._out, command=self._options["command"], progress=self._progress)
        if not (row.folder / RUN).exists():
            raise HarnessError(f"no shard of {plan.row_name} began; see {self._out}/workers/slurm")
        summary = merge(row.folder, self._progress.note)
        return runner.RunResult(row.folder, summary, summary["n_failed"], row.problems)

    def _poll_row(self, row: _Row) -> None:
        """Show new records, and take the results of the tasks that ended."""
        for record in row.tail.new_records():
            self._progress.done(record)
        for number, job in [(n, job) for n, job in row.jobs.items() if job.done()]:
            del row.jobs[number]
            error = job.exception()
            done = None if error is not None else job.result()
            if done is not None and not done.error:
                row.problems += [problem for problem in done.problems if problem not in row.problems]
            elif done is not None and done.kind != "locked":
                raise reported_error(done, f"shard {number}")
            elif row.tries[number] + 1 < TRIES:
                row.tries[number] += 1
                why = done.error if done else _one_line(error)
                self._progress.note(f"shard {number} ended early ({why}); queued again")
                row.jobs[number] = self._executor.submit(row.tasks[number])
            elif done is not None:
                raise RunLocked(done.error)
            else:
                raise HarnessError(
                    f"shard {number} ended {TRIES} times early ({_one_line(error)}); see {job.paths.stderr}"
                )

    def close(self) -> None:
        """Cancel what is still queued or running."""
        for row in self._rows.values():
            for job in row.jobs.values():
                job.cancel()
        self._progress.stop()


def _submit_array(executor: Any, tasks: Mapping[int, ShardTask]) -> dict[int, Any]:
    """Shard -> its job, all in one array. Raises CannotRun where Slurm takes no jobs."""
    from submitit.core.utils import FailedJobError

    try:
        with executor.batch():
            return {number: executor.submit(task) for number, task in tasks.items()}
    except FailedJobError as error:
        raise CannotRun(
            f"sbatch took no jobs ({_one_line(error)}); check --slurm, or --slurm cluster=local runs the shards here"
        ) from error


def _one_line(error: object) -> str:
    return " ".join(str(error).split())[:120] or type(error).__name__


def _make_executor(folder: Path, workers: int, gpus: float, settings: dict[str, Any]) -> Any:
    """Make submitit's executor, with its logs in `folder`. Raises CannotRun without Slurm, UserError for settings."""
    if importlib.util.find_spec("submitit") is None:
        raise CannotRun("--engine slurm needs submitit, which is not installed; pip install 'longdoc-harness[slurm]'")
    # Importing it sets up logging anew, which closes the handlers that the program has.
    os.environ.setdefault("SUBMITIT_LOG_LEVEL", "NOCONFIG")
    import submitit

    cluster = str(settings.pop("cluster", "slurm"))
    if cluster not in _CLUSTERS:
        raise UserError(f"--slurm cluster={cluster}: should be slurm, or local for processes of this machine")
    fixed: dict[str, Any] = {"name": "harness", "timeout_min": 24 * 60, "gpus_per_node": round(gpus)}
    if cluster == "slurm":
        if missing := next((name for name in ("sbatch", "srun") if shutil.which(name) is None), None):
            raise CannotRun(
                f"there is no Slurm here (no command {missing}); --slurm cluster=local runs the shards on this machine"
            )
        if not _has_accounting():
            _watch_squeue()
        fixed["slurm_array_parallelism"] = workers
    executor = submitit.AutoExecutor(folder=folder, cluster=cluster)
    try:
        executor.update_parameters(**{**fixed, **settings})
    except (NameError, TypeError, AssertionError, ValueError) as error:
        raise UserError(f"--slurm {' '.join(settings)}: {_one_line(error)}") from error
    return executor


def _has_accounting() -> bool:
    try:
        return subprocess.run(["sacct", "--jobs", "1"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


def _watch_squeue() -> None:
    """Make submitit ask squeue for the states of jobs: without sacct it would wait for a dead task forever.

    squeue shows a job for some minutes after its end (MinJobAge), and is asked once a minute.
    """
    from submitit.slurm.slurm import SlurmInfoWatcher, SlurmJob

    class Queue(SlurmInfoWatcher):  # type: ignore[misc,unused-ignore]
        def _make_command(self) -> list[str] | None:
            jobs = sorted({job.partition("_")[0] for job in self._registered - self._finished})
            command = ["squeue", "--states=all", "--array", "--format=%i|%T|%N", "--jobs", ",".join(jobs)]
            return command if jobs else None

        def read_info(self, string: bytes | str) -> Any:
            lines = (string if isinstance(string, str) else string.decode()).splitlines()
            return super().read_info("\n".join(["JobID|State|NodeList", *lines[1:]]))

    SlurmJob.watcher = Queue(delay_s=60)
