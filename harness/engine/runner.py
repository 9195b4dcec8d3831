"""The loop: for each question, documents -> view -> index -> answer, on disk -> scores -> one line
on disk.

    run(plan, out, command=[...], progress=Progress()) -> RunResult(folder, summary, failed,
    save_problems)

    with opened_job(plan, out, ...) as job:     the same in pieces, for a run whose end depends on its answers
        job.ask(examples)
        job.finished(early_stop)

Gold is split off here: a method sees Question and Documents, scorers see Gold. The same call on the
same folder goes on where it stopped. What a method raises costs that question and no more; a
UserError, a failure to save and an interrupt end the run with everything recorded so far on disk.

With `parallel` above 1 that many questions are in flight, each in a thread (harness/parallel/);
scoring and writing stay in this one. A question's `notes.seconds` then include waiting for others;
the seconds of its calls do not.
"""

from __future__ import annotations

import contextlib
import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from harness.cost.meter import Meter
from harness.engine import manifest as manifests
from harness.engine.document_view import NO_EVIDENCE, View
from harness.engine.indexing import Indexer
from harness.engine.plan import Plan
from harness.engine.plan_models import server_shapes
from harness.engine.progress import COUNTED, Progress
from harness.engine.scoring import scored_record, silent_scorers, unanswered_verdict
from harness.engine.spending_limits import Budget
from harness.engine.tools import EngineTools, Models
from harness.errors import FirstFailure, HarnessError, LimitReached, SaveError, UserError
from harness.models import WaitsForBatch
from harness.parallel.signals import interrupt_on_signals
from harness.stats.rng import derived_seed
from harness.storage.failures import STOPS, describe_failure, one_line
from harness.storage.index_cache import IndexCache, cache_root
from harness.storage.kept_requests import request_rows
from harness.storage.paths import masked
from harness.storage.record_texts import with_texts, without_texts
from harness.storage.run_files import DOCUMENTS, MANIFEST, RECORDS, SUMMARY, Part
from harness.storage.run_store import RunStore
from harness.storage.run_summary import summarise
from harness.storage.serialize import json_values
from harness.types import NOT_SCORED_YET, Answer, Document, Example, has_answer


@dataclass(frozen=True)
class RunResult:
    """A finished run. `failed` counts questions; `save_problems` are sentences about what could not
    be written."""

    folder: Path
    summary: dict[str, Any]
    failed: int
    save_problems: list[str] = field(default_factory=list)


class Interrupted(KeyboardInterrupt):
    """A signal stopped the run. folder: of partial results; resume_command: what to type to go on,
    as shell text."""

    def __init__(self, folder: Path, command: Sequence[str]) -> None:
        self.folder, self.resume_command = folder, shlex.join(map(masked, command))
        super().__init__(f"interrupted; partial results are in {folder}")


# Questions in flight on a GPU, where --parallel says nothing: a document's construction took 39.7 s
# at 1, 3.0 at 16 and 1.0 at 64 (bench/README.md).
IN_FLIGHT_ON_A_GPU = 64


@dataclass(frozen=True)
class AskOptions:
    """How questions are asked.

    retry_failed: ask failed questions again, and score again the answers that a scorer failed on;
    parallel: questions in flight at once, which changes no prediction in float32; None: 1, or many
    where a model runs on a GPU;
    fail_fast: stop at the first question that fails; part: the questions to ask, where other
    processes ask the rest;
    spread: (job, examples, answer_question, score_and_record) -> None, which has them answered
    elsewhere;
    budget: of the command, at whose limits no further question is begun.
    """

    retry_failed: bool = False
    parallel: int | None = None
    fail_fast: bool = False
    part: Part | None = None
    spread: Callable[..., None] | None = None
    budget: Budget = field(default_factory=lambda: Budget({}))


def run(
    plan: Plan, out: Path, *, command: list[str], progress: Progress, **ask_options: Any
) -> RunResult:
    """Answer and score every question of the plan that is not recorded yet, in the order of the
    data set.

    out: the results folder; command: words of the command line, for the manifest; ask_options:
    fields of AskOptions. Scores stored answers again if the records are of other scorers than the
    plan's. Raises UserError (RunLocked, DataError), SaveError, FirstFailure, and Interrupted on
    SIGINT, SIGTERM or SIGHUP.
    """
    try:
        with (
            interrupt_on_signals(),
            opened_job(plan, out, command=command, progress=progress, **ask_options) as job,
        ):
            job.ask(job.examples)
            return job.finished()
    except KeyboardInterrupt as error:
        raise Interrupted(Path(out) / plan.folder, command) from error


@contextlib.contextmanager
def opened_job(
    plan: Plan, out: Path, *, command: list[str], progress: Progress, **ask_options: Any
) -> Iterator[Job]:
    """Open the run folder of a plan, with nothing asked yet; arguments and errors are those of
    `run`.

    The caller asks questions and ends with `finished`. An exception before that is recorded as the
    run's state:
    "interrupted" for a KeyboardInterrupt, else "stopped".
    """
    options = AskOptions(**ask_options)
    if options.parallel is not None and options.parallel < 1:
        raise UserError(f"--parallel {options.parallel}: at least one question must be in flight.")
    seen: set[str] = set()
    for example in plan.dataset.examples:  # an id alone identifies a question
        question = example.question
        if question.id in seen:
            raise UserError(
                f"data set {plan.dataset.name} has two questions with the id '{question.id}'."
            )
        seen.add(question.id)
        for name in question.document_ids:
            if name not in plan.dataset.documents:
                raise UserError(
                    f"question '{question.id}' names document '{name}', which is not in the data "
                    "set."
                )
    with RunStore.open(
        Path(out) / plan.folder, plan.dataset.fingerprint, progress.note, options.part
    ) as store:
        if (
            store.unscored or not store.fresh
        ):  # a part begun after a merge has unscored answers of the run
            from harness.engine.resume import bring_up_to_date

            bring_up_to_date(store, plan, progress.note, options.retry_failed)
        store.describe(plan.config.model_dump(mode="json"), plan.origins)
        job = Job(plan, store, progress, command, options)
        try:
            job.begin()
            yield job
        except BaseException as error:
            job.record_early_end(error)
            raise


class Job:
    """One start of a run, from the first question to the summary. examples: the questions to ask,
    answered ones too."""

    def __init__(
        self,
        plan: Plan,
        store: RunStore,
        progress: Progress,
        command: list[str],
        options: AskOptions,
    ) -> None:
        self.plan, self.store, self.progress, self.options = plan, store, progress, options
        self.models = Models(plan, progress.note)
        cache = IndexCache(cache_root(), progress.note, server_shapes(plan.models))
        self.budget = options.budget
        self.indexer = Indexer(plan, self.models, cache, store, progress, self.budget)
        self.examples = plan.dataset.examples[: plan.config.limit]
        self.problems: list[str] = []
        self.recorded = 0  # by this start
        self._known: set[str] = set()  # questions that are answered, or asked by this start
        self.tried: dict[str, dict[str, Any]] = {}  # what earlier tries of a question cost
        self._in_flight: int | None = None  # questions in flight, once the models are loaded
        self.manifest = manifests.with_start(
            store.manifest(), manifests.describe(plan), command, options.parallel or 1
        )
        if (part := options.part) is not None:
            self.examples = tuple(
                example for example in self.examples if example.question.id in part.ids
            )
            self.manifest |= part.described

    def record_early_end(self, error: BaseException) -> None:
        """Write the summary of what was answered before `error`, with state "interrupted" or
        "stopped"."""
        self._write_summary("interrupted" if isinstance(error, KeyboardInterrupt) else "stopped")
        for problem in self.problems:
            error.add_note(problem)
        if isinstance(error, HarnessError):
            error.midway = self.recorded > 0
        if isinstance(error, UserError):
            self.store.discard()

    def begin(self) -> None:
        """Write the manifest of this start, and read which questions are answered already."""
        self.progress.start(len(self.examples), self.plan.config.dataset.scorers[0])
        starts = self.manifest["starts"][:-1]
        asked = {example.question.id for example in self.examples}
        # Of several records of a question the last one holds; only the keys that are used below
        # stay in memory.
        kept_keys, records = (*COUNTED, "notes"), dict[str, dict[str, Any]]()
        for record in self.store.lines(RECORDS, merged=True):
            records[record["question_id"]] = {key: record[key] for key in kept_keys}
        for question_id, record in records.items():
            if question_id in asked:
                cost = self.budget.spend_record(record)
                if self.options.retry_failed and not has_answer(
                    record
                ):  # an answer without a score was paid for
                    self.tried[question_id] = cost
                else:
                    self.progress.seen(record)
        self._known = records.keys() - self.tried.keys()
        if kept := len(self._known & asked):
            # Another writer's records may be there at the first start of this one.
            days = [start["started"][:10] for start in starts]
            when = (
                " on " + " to ".join(dict.fromkeys([days[0], days[-1]]))
                if days
                else " by other processes"
            )
            self.progress.note(f"{kept} of {len(asked)} answers were stored{when}")
        if beyond := len(records.keys() - asked):
            self.progress.note(
                f"the run folder holds {beyond} questions beyond --limit; they count in its summary"
            )
        if asked <= self._known:
            self.manifest["starts"][-1].pop(
                "changed", None
            )  # this start asks nothing: its code makes no answer
        else:
            self.manifest["starts"][-1]["parallel"] = self._parallel
        self.store.write(MANIFEST, self.manifest)
        if starts:
            self.store.drop_requests(asked - self._known)

    @cached_property
    def _parallel(self) -> int:
        """Questions in flight at most; found out only where one is asked, as it may take the import
        of torch."""
        if self.options.parallel or not any(
            model.backend == "hf" for model in self.plan.models.values()
        ):
            return self.options.parallel or 1
        import torch

        return IN_FLIGHT_ON_A_GPU if torch.cuda.is_available() else 1

    def ask(self, examples: Sequence[Example]) -> None:
        """Answer the questions that are not answered yet, and append each record as it is finished.

        Steps 1 to 6 run in a question's own thread where several are in flight, steps 7 to 9 in the
        calling thread. Raises FirstFailure for a failed question under --fail-fast.
        """
        plan, config, store = self.plan, self.plan.config, self.store
        keep_texts, rounds = config.dataset.keep_texts, None
        if config.model.batch:
            from harness.engine.batch_rounds import BatchRounds

            rounds = BatchRounds(self.progress, self.budget)

        def answer_question(
            example: Example, failed_elsewhere: Exception | None = None
        ) -> tuple[Example, dict[str, Any]] | None:
            # 1. No further question begins once a limit of the command is reached.
            paid = rounds is not None and example.question.id in rounds.paid  # by a batch
            if not paid and not self.budget.may_continue():
                return None
            question = example.question
            meter = Meter("answer", keeps_requests=config.keep_prompts)
            begun = time.perf_counter()
            notes: dict[str, Any] = {}
            reply = json_values(Answer(""), lost=[])
            try:
                if (
                    failed_elsewhere is not None
                ):  # its worker processes ended while they answered it
                    raise failed_elsewhere
                # 2. The documents as the method sees them. A question for which nothing was
                # retrieved is answered from an empty text, so that it counts.
                documents = [plan.dataset.documents[d] for d in question.document_ids] or [
                    Document("no document", "")
                ]
                evidence_only = config.method.view == "evidence"
                supporting = example.gold.supporting if evidence_only else None
                view = View.of(documents)
                if evidence_only or (plan.method.one_document and len(documents) > 1):
                    from harness.engine.made_documents import view_for_method

                    view = view_for_method(documents, supporting, plan.method.one_document, notes)
                if plan.method.one_document or evidence_only:
                    question = replace(question, document_ids=tuple(view.pieces))
                # 3. Their indexes: from memory, from the cache, or built now.
                try:
                    indexes = self.indexer.indexes(view.documents, question)
                finally:
                    self.indexer.documents_done(
                        example.question
                    )  # with the documents that the view leaves out
                # 4. The method answers. It sees the question and the documents, never the gold
                # answers.
                self.models.reseed("answer", question.id)
                tools = EngineTools(self.models, meter, plan.task, self.progress.part)
                tools.question = question
                answer = plan.method.answer(question, view.documents, indexes, tools)
                if not isinstance(answer, Answer) or not isinstance(answer.text, str):
                    raise TypeError(
                        f"{type(plan.method).__name__}.answer returned no Answer with a text"
                    )
                # As JSON here: what JSON cannot hold fails this question, and is not found after it
                # was scored.
                not_finite: list[str] = []
                reply = json_values(view.original(answer), not_finite)
                if not_finite:
                    notes["not_finite"] = not_finite
                if notes.get("view") == NO_EVIDENCE:
                    reply["stop_reason"] = NO_EVIDENCE
                error = NOT_SCORED_YET  # until step 7 has scored it, also where the run is killed before
            except STOPS:
                raise
            except WaitsForBatch as request:
                assert rounds is not None
                rounds.wait(example, request, meter, self.tried)
                return None
            except Exception as e:  # noqa: BLE001 - whatever a method does wrong costs this question, not the run
                error = describe_failure(e)
            # 5. What it cost: the meter saw every call to a model.
            notes["seconds"] = round(time.perf_counter() - begun, 6)
            if earlier := self.tried.get(question.id):
                notes["earlier"] = earlier
            question = example.question
            record = {
                "question_id": question.id,
                "document_ids": list(question.document_ids),
                "document_characters": [
                    len(plan.dataset.documents[d].text) for d in question.document_ids
                ],
                "prediction": reply.pop("text"),
                "scores": {},
                "usage": json_values(self.budget.spend(meter.usage()), lost=[]),
                **reply,
                "error": error,
                "notes": notes,
            }
            # 6. The answer is on disk before it is scored.
            if keep_texts:
                record, texts = with_texts(record, example, plan.dataset.documents)
                store.keep_texts(texts)
            else:
                record = without_texts(record)
            if meter.requests:
                store.keep_requests(request_rows(meter.requests, {"question_id": question.id}))
            store.keep_answer(record)
            return example, record

        def score_and_record(outcome: tuple[Example, dict[str, Any]] | None) -> None:
            if outcome is None:
                return
            # 7. The scores: only here does gold meet the answer.
            example, kept = outcome
            record = scored_record(kept, config.dataset, example.gold)
            # 8. One line in records.jsonl.
            store.append_record(record)
            self.recorded += 1
            self.progress.done(record)
            # 9. The first prompts of each model go into the manifest.
            if keep_texts:
                self.keep_first_prompts(self.models.first_prompts())
            if self.options.fail_fast and (failure := record["error"]) is not None:
                sentence = (
                    f"question '{record['question_id']}' failed, and --fail-fast stops there: "
                    f"{one_line(failure)}"
                )
                raise FirstFailure(sentence, failure.get("traceback", ""))

        def ask_all(examples: Sequence[Example]) -> None:
            if self.options.spread is not None:
                self.options.spread(self, examples, answer_question, score_and_record)
            elif not examples or self._parallel == 1:
                for example in examples:
                    score_and_record(answer_question(example))
            else:
                from harness.engine.draws_in_flight import warn_of_global_draws
                from harness.parallel.in_flight import in_flight, places_for

                if self._in_flight is None:
                    loaded = self.models.load_all()
                    self._in_flight = places_for(
                        loaded, self._parallel, self.progress.note, self.longest_context
                    )
                # A scorer imports its packages with its first score, which would stall the requests
                # in flight.
                unanswered_verdict(config.dataset, examples[0].gold)
                self.indexer.kept = max(self.indexer.kept, self._in_flight)
                with warn_of_global_draws(
                    self.progress.note, derived_seed(config.seed, "in flight")
                ):
                    in_flight(
                        examples,
                        self._in_flight,
                        answer_question,
                        score_and_record,
                        self.indexer.choose_next,
                    )

        to_ask = {
            example.question.id: example
            for example in examples
            if example.question.id not in self._known
        }
        self._known |= to_ask.keys()
        if rounds is not None and to_ask:
            rounds.ask(self.models, store.folder, list(to_ask.values()), ask_all)
        else:
            ask_all(list(to_ask.values()))

    def longest_context(self) -> int:
        """About the tokens of the longest context: bytes of a question's documents / 3 (a token has
        3 to 5) + 1,024."""
        sizes = {
            name: len(document.text.encode())
            for name, document in self.plan.dataset.documents.items()
        }
        needs = (sum(map(sizes.__getitem__, e.question.document_ids)) for e in self.examples)
        return max(needs, default=0) // 3 + 1024

    def keep_first_prompts(self, prompts: Mapping[str, dict[str, Any]]) -> None:
        """Write the first prompts of roles that the manifest has none of."""
        before, self.manifest = self.manifest, manifests.with_first_prompts(self.manifest, prompts)
        if self.manifest is not before:
            self.store.write(MANIFEST, self.manifest)

    def finished(self, early_stop: dict[str, Any] | None = None) -> RunResult:
        """Write summary and manifest of the finished run; early_stop: keys for both that say why
        questions are left."""
        if self.budget.hit and (unanswered := self.progress.left):
            n_questions = len(self.examples)
            raise LimitReached(
                f"stopped at {self.budget.hit}: {unanswered} of {n_questions} questions are not "
                "answered yet"
            )
        summary = self._write_summary("finished", early_stop)
        cut = summary.get("texts_cut")
        if cut:
            from harness.embed.encoder_info import cut_warning

            if warning := cut_warning(self.plan.encoders.values(), cut["texts"], cut["cut"]):
                self.progress.note(f"warning: {warning}")
        for sentence in silent_scorers(self.plan.config.dataset.scorers, summary):
            self.progress.note(sentence)
        for sentence in self.models.slow_paths():
            self.progress.note(f"slower than it could be: {sentence}")
        return RunResult(self.store.folder, summary, summary.get("n_failed", 0), self.problems)

    def _write_summary(
        self, state: str, early_stop: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Sort the records, write and return the summary ({} where sorting failed); what failed
        goes to `problems`."""
        self.progress.stop()
        config, examples = self.plan.config, self.plan.dataset.examples
        summary: dict[str, Any] = {}
        try:
            self.store.sort_records([e.question.id for e in examples])
            lines = self.store.lines(RECORDS), self.store.lines(DOCUMENTS)
            numbers = summarise(
                *lines, failed=config.failed, seed=config.seed, dataset_format=config.dataset.format
            )
            counts = manifests.asked_counts(self.manifest, len(self.examples), numbers["n_total"])
            summary = {"state": state, **counts, **(early_stop or {}), **numbers}
            self.store.write(SUMMARY, summary, sync_folder=False)
            self.manifest = manifests.with_end(self.manifest, state, early_stop)
            self.store.write(MANIFEST, self.manifest)
        except SaveError as error:
            self.problems.append(str(error))
        return summary
