"""One start of a run: open its folder, ask what is not answered yet, write the summary.

    run(plan, out, command=[...], progress=Progress()) -> RunResult(folder, summary, failed, save_problems)

    with opened_job(plan, out, ...) as job:     the same in pieces, for a run whose end depends on its answers
        job.ask(examples)
        job.finished(early_stop)

    ask ──► Executor (executors.py) ──► AnswerQuestion (answer_question.py), on disk ──► RecordAnswer (record_answer.py)

The same call on the same folder goes on where it stopped. What a method raises costs that question
and no more; a UserError, a failure to save and an interrupt end the run with everything recorded so
far on disk.
"""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from harness.cost.usage import SentUsage
from harness.embed.encoder_info import cut_warning
from harness.engine.answer_question import AnswerQuestion
from harness.engine.executors import Executor, executor_for
from harness.engine.open_run import OpenRun
from harness.engine.plan import PlannedRun
from harness.engine.progress import CountedQuestion, Progress
from harness.engine.record_answer import RecordAnswer
from harness.engine.resume import bring_up_to_date
from harness.engine.scoring import warnings_of_silent_scorers
from harness.engine.spending_limits import Budget
from harness.engine.start_manifest import StartManifest
from harness.errors import HarnessError, LimitReached, SaveError, UserError
from harness.parallel.heap import heap_kept_out_of_collections
from harness.parallel.signals import interrupt_on_signals
from harness.storage.paths import with_address_secrets_masked
from harness.storage.run_files import Part
from harness.storage.run_store import RunStore
from harness.storage.run_summary import summarise
from harness.storage.summary_file import FINISHED, EarlyStop, RunSummary, summary_of_counts
from harness.types import Example


@dataclass(frozen=True)
class RunResult:
    """A finished run. `failed` counts questions; `save_problems` are sentences about what could not
    be written."""

    folder: Path
    summary: RunSummary
    failed: int
    save_problems: list[str] = field(default_factory=list)


class Interrupted(KeyboardInterrupt):
    """A signal stopped the run.

    Attributes:
        folder: The run folder, with partial results.
        resume_command: What to type to go on, as shell text; users, passwords and keys in its
            addresses ("://") are ***.
    """

    def __init__(self, folder: Path, command: Sequence[str]) -> None:
        """Keep the folder, and the command as one line of shell text, with users, passwords and
        keys masked in its addresses; words without "://" stay as they are.

        Args:
            folder: The run folder.
            command: Words of the command line.
        """
        self.folder = folder
        self.resume_command = shlex.join(map(with_address_secrets_masked, command))
        super().__init__(f"interrupted; partial results are in {folder}")


@dataclass(frozen=True)
class AskOptions:
    """How questions are asked.

    Attributes:
        retry_failed: Ask failed questions again, and score again the answers that a scorer failed
            on.
        parallel: Questions in flight at once, which changes no prediction in float32; None: 1, or
            many where a model runs on a GPU.
        fail_fast: Stop at the first question that fails.
        part: The questions to ask, where other processes ask the rest.
        executor: Who has questions answered, by default this process.
        budget: The command's limits; once one is reached, no further question is begun.
    """

    retry_failed: bool = False
    parallel: int | None = None
    fail_fast: bool = False
    part: Part | None = None
    executor: Executor | None = None
    budget: Budget = field(default_factory=lambda: Budget({}))


def run(
    plan: PlannedRun,
    out: Path,
    *,
    command: list[str],
    progress: Progress,
    options: AskOptions | None = None,
) -> RunResult:
    """Answer and score every question of the plan that is not recorded yet, in the order of the
    data set.

    Scores stored answers again if the records are of other scorers than the plan's.

    Args:
        plan: The run.
        out: The results folder.
        command: Words of the command line, for the manifest.
        progress: Shows what is done.
        options: How questions are asked; None for the defaults.

    Raises:
        UserError (RunLocked, DataError), SaveError, FirstFailure, LimitReached: The run cannot go
            on.
        Interrupted: SIGINT, SIGTERM or SIGHUP.
    """
    try:
        with (
            interrupt_on_signals(),
            opened_job(plan, out, command=command, progress=progress, options=options) as job,
        ):
            job.ask(job.examples)
            return job.finished()
    except KeyboardInterrupt as error:
        raise Interrupted(Path(out) / plan.folder, command) from error


@contextlib.contextmanager
def opened_job(
    plan: PlannedRun,
    out: Path,
    *,
    command: list[str],
    progress: Progress,
    options: AskOptions | None = None,
) -> Iterator[Job]:
    """Context manager: opens the run folder of a plan, brings it up to date and gives the job.

    The caller asks the questions and calls `finished`. An exception before that is recorded as the
    run's state: "interrupted" for a KeyboardInterrupt, else "stopped".

    Args:
        plan: The run.
        out: The results folder.
        command: Words of the command line, for the manifest.
        progress: Shows what is done.
        options: How questions are asked; None for the defaults.

    Raises:
        UserError (RunLocked, DataError), SaveError: The folder cannot be used.
    """
    options = options or AskOptions()
    if options.parallel is not None and options.parallel < 1:
        raise UserError(f"--parallel {options.parallel}: at least one question must be in flight.")
    check_questions(plan)
    folder = Path(out) / plan.folder
    with RunStore.open(folder, plan.dataset.fingerprint, progress.note, options.part) as store:
        if store.unscored_answers or not store.is_new_run:
            # A new folder too may have answers without scores: where several processes each ask a part
            # of the questions, one that starts after the parts were merged takes over the run's.
            bring_up_to_date(store, plan, progress.note, options.retry_failed)
        store.write_run_yaml(plan.config.stored(), plan.origins)
        job = Job(plan, store, progress, command, options)
        try:
            job.begin()
            yield job
        except BaseException as error:
            job.close_early(error)
            raise


def check_questions(plan: PlannedRun) -> None:
    """Raise UserError where two questions have one id, which alone identifies a question, or one
    names no document of the data set."""
    dataset = plan.dataset
    seen: set[str] = set()
    for example in dataset.examples:
        question = example.question
        if question.id in seen:
            raise UserError(
                f"data set {dataset.name} has two questions with the id '{question.id}'."
            )
        seen.add(question.id)
        for document_id in question.document_ids:
            if document_id not in dataset.documents:
                raise UserError(
                    f"question '{question.id}' names document '{document_id}', which is not in the "
                    "data set."
                )


@dataclass(frozen=True, slots=True)
class StoredQuestion:
    """What stays in memory of a record that the run folder holds already.

    Attributes:
        has_answer: Whether the question was answered, its answer scored or not.
        counted: Its scores and its cost, for the progress line.
        sent_by_earlier_tries: What tries before the record's own sent; None for no such try.
    """

    has_answer: bool
    counted: CountedQuestion
    sent_by_earlier_tries: SentUsage | None


class Job:
    """One start of a run, from the first question to the summary. examples: the questions to ask,
    answered ones too."""

    def __init__(
        self,
        plan: PlannedRun,
        store: RunStore,
        progress: Progress,
        command: list[str],
        options: AskOptions,
    ) -> None:
        """Open the manifest, the models (none is loaded) and the indexes of a start.

        Args:
            plan: The run.
            store: Its open folder.
            progress: Shows what is done.
            command: Words of the command line, for the manifest.
            options: How questions are asked.
        """
        self.plan = plan
        self.store = store
        self.options = options
        self._progress = progress
        self.examples = questions_to_ask(plan, options.part)
        manifest = StartManifest(plan, store, command, options.part)
        self.run = OpenRun.prepare(plan, store, progress, options.budget, self.examples, manifest)
        self._answer = AnswerQuestion(self.run)
        self._record = RecordAnswer(self.run, options.fail_fast)
        # Questions that are answered, failed and are not asked again, or were asked by this start.
        self._ids_not_to_ask: set[str] = set()

    @cached_property
    def executor(self) -> Executor:
        """The executor of this start: that of the options, else the one for this process. It is
        chosen at the first use, where a question is asked, as the choice may take the import of
        torch."""
        return self.options.executor or executor_for(self.plan, self.options.parallel)

    def begin(self) -> None:
        """Read which questions are answered already, count their cost and show them as done; then
        write the manifest of this start. Requests that earlier starts stored of the questions to
        ask are dropped."""
        self._progress.start(len(self.examples), self.plan.config.dataset.scorers[0])
        ids_of_start = {example.question.id for example in self.examples}
        stored = self._stored_questions()
        for question_id, question in stored.items():
            if question_id in ids_of_start:
                self._count_stored_question(question_id, question)
        ids_to_ask_again = self.run.earlier_tries.keys()  # filled by _count_stored_question
        self._ids_not_to_ask = stored.keys() - ids_to_ask_again
        manifest = self.run.manifest
        ids_over_limit = stored.keys() - ids_of_start
        self._note_what_is_stored(ids_of_start, len(ids_over_limit))
        if not ids_over_limit:
            manifest.set_dataset_of_this_start()
        ids_to_ask = ids_of_start - self._ids_not_to_ask
        max_in_flight = None
        if ids_to_ask:  # else no executor is chosen, which may take the import of torch
            max_in_flight = self.executor.in_flight()
        manifest.write_begin(max_in_flight)
        if manifest.earlier_starts:
            self.store.drop_requests(ids_to_ask)

    def _stored_questions(self) -> dict[str, StoredQuestion]:
        """Question id -> what its last record says; the records' texts do not stay in memory."""
        questions: dict[str, StoredQuestion] = {}
        for record in self.store.known_records():
            counted = CountedQuestion.from_record(record)
            questions[record.question_id] = StoredQuestion(
                record.has_answer, counted, record.earlier_tries
            )
        return questions

    def _count_stored_question(self, question_id: str, question: StoredQuestion) -> None:
        """Count the cost of a stored record against the command's limits, and show its question as
        done. With --retry-failed, one without an answer is not shown as done: it is asked again,
        and its cost becomes that of an earlier try (the run's `earlier_tries`)."""
        usage = question.counted.usage
        sent_by_all_tries = self.options.budget.spend_stored(usage, question.sent_by_earlier_tries)
        if self.options.retry_failed and not question.has_answer:
            self.run.earlier_tries[question_id] = sent_by_all_tries
        else:
            self._progress.count_stored(question.counted)

    def _note_what_is_stored(self, ids_of_start: set[str], n_over_limit: int) -> None:
        """Note how many answers are stored: "8 of 20 answers were stored on 2026-05-01".

        Args:
            ids_of_start: Ids of the questions of this start.
            n_over_limit: How many other questions have a record, beyond the limit of this start.
        """
        n_stored = len(self._ids_not_to_ask & ids_of_start)
        if n_stored:
            # Another writer's records may be there at the first start of this one.
            when = " by other processes"
            days = [str(start.started)[:10] for start in self.run.manifest.earlier_starts]
            if days:
                when = f" on {days[0]}"
                if days[-1] != days[0]:
                    when += f" to {days[-1]}"
            self._progress.note(f"{n_stored} of {len(ids_of_start)} answers were stored{when}")
        if n_over_limit:
            self._progress.note(
                f"the run folder holds {n_over_limit} questions beyond --limit; they count in its "
                "summary"
            )

    def ask(self, examples: Sequence[Example]) -> None:
        """Answer the questions that are not answered yet, and append each record as it is finished.

        Raises FirstFailure for a failed question under --fail-fast.
        """
        to_ask: dict[str, Example] = {}  # by id
        for example in examples:
            if example.question.id not in self._ids_not_to_ask:
                to_ask[example.question.id] = example
        if to_ask:
            self._ids_not_to_ask |= to_ask.keys()
            with heap_kept_out_of_collections():
                self.executor.ask(list(to_ask.values()), self._answer, self._record)

    def finished(self, early_stop: EarlyStop | None = None) -> RunResult:
        """Write the summary and the manifest of the finished run, note what was odd, and return the
        result.

        Args:
            early_stop: Why questions are left on purpose; None where all were asked.

        Raises:
            LimitReached: Questions are left because a limit of the command was reached.
        """
        budget = self.options.budget
        n_left = self._progress.n_unrecorded
        if budget.reached_limit and n_left:
            raise LimitReached(
                f"stopped at {budget.reached_limit_text()}: {n_left} of {len(self.examples)} "
                "questions are not answered yet"
            )
        summary = self._write_summary(FINISHED, early_stop)
        self._note_odd_results(summary)
        return RunResult(
            folder=self.store.folder,
            summary=summary,
            failed=summary.n_failed or 0,
            save_problems=self.run.problems,
        )

    def close_early(self, error: BaseException) -> None:
        """Write the summary of what was answered before `error` ended the run.

        Also adds to `error` what could not be saved, and for errors of this project (`midway`)
        whether questions were answered. For a UserError, deletes a folder that this run made and in
        which nothing was recorded.

        Args:
            error: A KeyboardInterrupt gives the run the state "interrupted", others "stopped".
        """
        state = "stopped"
        if isinstance(error, KeyboardInterrupt):
            state = "interrupted"
        self._write_summary(state, early_stop=None)
        for problem in self.run.problems:
            error.add_note(problem)
        if isinstance(error, HarnessError):
            error.midway = self._record.recorded > 0
        if isinstance(error, UserError):
            self.store.delete_if_nothing_recorded()

    def _note_odd_results(self, summary: RunSummary) -> None:
        """Note texts that an encoder cut, scorers that gave no question a score, what made models
        slow, and what each server of a fleet did."""
        note = self._progress.note
        texts_cut = summary.texts_cut
        if texts_cut is not None:
            encoders = self.plan.encoders.values()
            warning = cut_warning(encoders, texts_cut.texts, texts_cut.cut)
            if warning:
                note(f"warning: {warning}")
        for sentence in warnings_of_silent_scorers(self.plan.config.dataset.scorers, summary):
            note(sentence)
        for sentence in self.run.models.slow_paths():
            note(f"slower than it could be: {sentence}")
        for sentence in self.run.models.server_reports():
            note(sentence)

    def _write_summary(self, state: str, early_stop: EarlyStop | None) -> RunSummary:
        """Sort the records, end the manifest, write the summary and return it: counts of the
        questions asked, scored and skipped, means of the scores and sums of the costs.

        What cannot be written goes to the run's `problems`; where that is the sorted records, the
        summary has no values.

        Args:
            state: "finished", "interrupted" or "stopped".
            early_stop: Why questions are left; None for no reason.
        """
        self._progress.stop()
        manifest = self.run.manifest
        summary = RunSummary()
        try:
            numbers = self._sort_and_summarise()  # means and sums
            counts = summary_of_counts(len(self.examples), numbers.n_total or 0, manifest.skipped)
            counts = counts.with_values(state=state)
            if early_stop is not None:
                counts = counts.with_values(stopped_early=early_stop)
            summary = counts.with_numbers(numbers)
            manifest.write_end(state, early_stop, self.run.models.server_reports())
            summary = self.store.write_summary(summary)
        except SaveError as error:
            self.run.problems.append(str(error))
        return summary

    def _sort_and_summarise(self) -> RunSummary:
        """Put the stored records into the order of the data set's questions, and return the numbers
        of the summary: means of the scores, sums of the costs."""
        question_ids = [example.question.id for example in self.plan.dataset.examples]
        self.store.sort_records(question_ids)
        return summarise(
            self.store.records(),
            self.store.index_lines(),
            self.plan.config.stored(),
        )


def questions_to_ask(plan: PlannedRun, part: Part | None) -> tuple[Example, ...]:
    """The first questions of the data set up to the run's limit; with a part, those of them that
    this process asks."""
    examples = plan.dataset.examples[: plan.config.limit]
    if part is None:
        return examples
    return tuple(example for example in examples if example.question.id in part.question_ids)
