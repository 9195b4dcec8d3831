"""The answers of a run folder, judged by a model: its score stands beside those of the scorers.

records.jsonl    scores[judge.name] 0 or 1; notes.judges[judge.name] verdict and reply; notes.flags[judge.name]
manifest.json    judges[judge.name]: prompt, model, version, what the replies cost
summary.json     its mean and interval

If the work ends early, finished judgements are kept. Scores of another judge are kept too, and
those of this judge if they have the same version.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple, TypeVar

from harness.cost.meter import Meter
from harness.cost.usage import PhaseUsage, SentUsage, add_phase, add_sent, all_sent
from harness.engine.manifest import utc_now
from harness.engine.progress import CountedQuestion, Progress
from harness.errors import CannotRun, HarnessError, QuestionError, SaveError, UserError
from harness.judging.calibration import ConfidentAnswer, calibration_error
from harness.judging.kinds import UNCLEAR
from harness.judging.model_judge import DECLINE, Case, Judge, Judgement
from harness.parallel.in_flight import in_flight, questions_that_fit
from harness.storage.manifest_file import JudgeEntry
from harness.storage.paths import with_address_secrets_masked, without_home
from harness.storage.record_notes import JudgeNote
from harness.storage.record_texts import CHECKSUM_KEY
from harness.storage.records import StoredRecord
from harness.storage.run_folder import StoredRun, read_run
from harness.storage.run_store import RunStore
from harness.storage.run_summary import summarise
from harness.storage.stored_config import StoredPrice
from harness.storage.summary_file import RunSummary
from harness.storage.warn_once import WarnOnce
from harness.types import JUDGES, Example

T = TypeVar("T")

MAX_FAILURES_IN_A_ROW = 5
"""Failed requests in a row that end the work: a server that is down would fail all, slowly."""


@dataclass
class Judged:
    """The result of `judge_run`.

    Attributes:
        judgements: Question id -> what the judge decided.
        failures: Question id -> why it is not judged.
        summary: The run's new summary.
        sent_without_judgement: What requests that brought no judgement sent, earlier ones too, summed as by
            `harness.cost.usage.sent`.
    """

    judgements: dict[str, Judgement] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    summary: RunSummary = field(default_factory=RunSummary)
    sent_without_judgement: SentUsage = field(default_factory=lambda: SentUsage())

    def count(self, verdict: str) -> int:
        """How many judgements have this verdict (model_judge.YES and others)."""
        return sum(judgement.verdict == verdict for judgement in self.judgements.values())

    @property
    def replied(self) -> int:
        """For how many answers there is a reply of the model, cached ones included."""
        return sum(judgement.reply is not None for judgement in self.judgements.values())

    @property
    def cached(self) -> int:
        """For how many answers the reply came from the cache, as an earlier call paid for it."""
        return sum(judgement.cached for judgement in self.judgements.values())

    @property
    def calibration_error(self) -> float | None:
        """How far the answers' confidence is from how often they are right, from 0 to 1.

        Unclear judgements do not count. None where too few answers name a confidence.
        """
        confident_answers = [
            ConfidentAnswer(judgement.confidence, judgement.score or 0.0)
            for judgement in self.judgements.values()
            if judgement.confidence is not None and judgement.verdict != UNCLEAR
        ]
        return calibration_error(confident_answers)

    @property
    def usage(self) -> PhaseUsage:
        """What all replies together cost, cached ones included, in the
        form of one phase of a record.
        """
        total: PhaseUsage = {}
        for judgement in self.judgements.values():
            add_phase(total, judgement.usage)
        return total


def judge_run(
    folder: Path,
    examples: Mapping[str, Example],
    judge: Judge,
    *,
    parallel: int,
    progress: Progress,
) -> Judged:
    """Judge every answer of a run folder, store the scores, and return
    the judgements with their costs.

    A question that failed scores 0, as by every scorer. Also after an error what was judged is
    stored: with some replies the scores, without any only what the requests sent.

    Args:
        folder: The run folder.
        examples: Question id -> the question with its gold answers.
        judge: Who judges them.
        parallel: Requests in flight.
        progress: Shows how far it is.

    Raises:
        UserError: The run cannot be judged.
        SaveError: A file cannot be written.
        CannotRun: The model can judge no more; what was judged before is stored.
    """
    stored = read_run(folder)
    _check_can_be_judged(stored, judge)
    fingerprint = stored.manifest.dataset.fingerprint
    with RunStore.open(folder, fingerprint, progress.note) as store:
        records_by_question = {record.question_id: record for record in store.records()}
        cases = _make_cases(stored, records_by_question.values(), examples, judge)
        work = _JudgeWork(judge, progress, len(cases))
        sent_by_earlier_calls = _entry_before(stored, judge).earlier
        add_sent(work.judged.sent_without_judgement, sent_by_earlier_calls)
        try:
            work.judge(cases, parallel)
        except HarnessError as error:
            # Changes the exit code: the work was begun.
            error.midway = bool(work.judged.replied or work.judged.failures)
            raise
        finally:
            progress.stop()
            if work.judged.replied or len(work.judged.judgements) == len(cases):
                _add_failed_questions(work.judged, records_by_question.values(), judge)
                _store_judgements(store, stored, records_by_question, judge, work.judged)
            elif work.judged.sent_without_judgement.get("tokens"):
                _store_cost_without_judgement(store, stored, judge, work.judged)
    return work.judged


def _store_cost_without_judgement(
    store: RunStore, stored: StoredRun, judge: Judge, judged: Judged
) -> None:
    """Write into the judge's entry in the manifest what its requests have sent so far, none of
    which brought a judgement: limits of cost count it.

    The rest of the entry stays; a new one has only the price beside it.

    Args:
        store: Writes the folder.
        stored: The run as it was.
        judge: Who was asked.
        judged: The result, without a judgement.
    """
    entry = _entry_before(stored, judge)
    if not entry.has_values:
        entry = JudgeEntry(price=price_of(judge))
    _write_entry(store, judge, entry.with_values(earlier=judged.sent_without_judgement))


def _check_can_be_judged(stored: StoredRun, judge: Judge) -> None:
    """Raise UserError for a run whose answers this judge cannot judge.

    It has no answer, it keeps no texts that the judge must see, or a scorer has the judge's name.
    """
    dataset = stored.config.dataset
    if judge.name in dataset.scorers:
        raise UserError(
            f"{stored.path} has a scorer '{judge.name}'; give the judge another name with --name"
        )
    if not stored.records:
        raise UserError(f"{stored.path} has no answered question yet")
    if "shown" in judge.places and not dataset.keep_texts:
        raise UserError(
            f"{stored.path} keeps no texts, so what was shown cannot be judged; run it with "
            "--keep-texts yes"
        )


def _entry_before(stored: StoredRun, judge: Judge) -> JudgeEntry:
    """The judge's entry in the manifest before this call; one without values where there is
    none.
    """
    return stored.manifest.judges.get(judge.name) or JudgeEntry()


def _add_failed_questions(judged: Judged, records: Iterable[StoredRecord], judge: Judge) -> None:
    """Add a judgement of each question that failed to `judged`.

    Args:
        judged: The result; it is changed.
        records: The records of the run.
        judge: Whose judgements they are.
    """
    for record in records:
        if not record.has_answer:
            question_id = record.question_id
            judged.judgements[question_id] = judge.judgement_of_failed(question_id)


def _make_cases(
    stored: StoredRun,
    records: Collection[StoredRecord],
    examples: Mapping[str, Example],
    judge: Judge,
) -> list[Case]:
    """Make the judge's input for each answered question. Where the judge's prompt has the
    placeholder {shown}, it also has the texts that the reader was shown, or says that an application
    named pages without their text.

    Args:
        stored: The run.
        records: All of its records.
        examples: Question id -> the question with its gold answers.
        judge: Who judges them.
    """
    sees_texts = "shown" in judge.places
    texts: Mapping[str, str] = {}
    if sees_texts:
        texts = stored.texts(records)
    cases: list[Case] = []
    for record in records:
        if not record.has_answer:
            continue
        case = _make_case(
            stored.path, record, examples, uses_published_prompts=judge.published is not None
        )
        if sees_texts:
            shown = shown_texts(record, texts)
            names_pages_only = bool(record.shown) and not shown
            case = replace(case, shown=shown, names_pages_only=names_pages_only)
        cases.append(case)
    return cases


def shown_texts(record: StoredRecord, texts: Mapping[str, str]) -> tuple[str, ...]:
    """The texts that the reader of a record was shown; names of pages that an application gives are
    left out.

    Args:
        record: The record.
        texts: Its long texts by checksum.
    """
    shown: list[str] = []
    for piece in record.shown:
        if piece["kind"] == "source":
            continue
        text = texts.get(piece.get(CHECKSUM_KEY, ""), piece["text"])
        if text.strip():
            shown.append(text)
    return tuple(shown)


def _make_case(
    folder: Path,
    record: StoredRecord,
    examples: Mapping[str, Example],
    uses_published_prompts: bool,
) -> Case:
    """Make the judge's input for an answer.

    Of a reply with an answer prefix it has only the text after it, as for scorers. A question that
    no document answers has a gold answer that says so (DECLINE). Raises UserError where the data
    set no longer has the question.

    Args:
        folder: The run folder, for the error.
        record: The record of an answered question.
        examples: Question id -> the question with its gold answers.
        uses_published_prompts: Whether the judge uses prompts of the data set's authors, which see
            their own question.
    """
    question_id = record.question_id
    if question_id not in examples:
        raise UserError(f"question '{question_id}' of {folder} is not in the data set any more")
    question = examples[question_id].question
    gold = examples[question_id].gold
    question_text = question.text
    prompt_name = ""
    rubric: tuple[str, ...] = ()
    if uses_published_prompts:
        question_text = str(gold.extra.get("question", question.text))
        _, _, prompt_name = str(gold.extra.get("judge", "")).partition("/")  # "lme/fact" -> "fact"
        rubric = tuple(gold.extra.get("rubric", ()))
    gold_answers = gold.answers
    if not gold_answers and gold.extra.get("declined"):
        gold_answers = (DECLINE,)
    return Case(
        question_id=question_id,
        question=question_text,
        options=question.options,
        gold=gold_answers,
        answer=record.scored_text,
        prompt=prompt_name,
        rubric=rubric,
    )


class _Outcome(NamedTuple):
    """A case with the judgement, or the error that prevented it, and a meter of what was sent."""

    case: Case
    result: Judgement | QuestionError
    meter: Meter


class _JudgeWork:
    """Judges the cases of one run folder, one by one or several in flight.

    Attributes:
        judged: The result so far.
    """

    def __init__(self, judge: Judge, progress: Progress, n_cases: int) -> None:
        """Begin with nothing judged, and start the progress.

        Args:
            judge: Who judges.
            progress: Shows what is done.
            n_cases: How many answers there are to judge.
        """
        self.judged = Judged()
        self._judge = judge
        self._progress = progress
        self._warn = WarnOnce(progress.note, "the judge's replies are not cached")
        self._failed_in_a_row = 0  # cases that could not be judged since the last judgement
        progress.start(n_cases, judge.name)

    def judge(self, cases: list[Case], parallel: int) -> None:
        """Judge all cases: first those that need no request, then the others, `parallel` at a time.

        The results go to `judged`; what the model and its server report is printed. Raises
        CannotRun where too many fail in a row.
        """
        cases_to_ask = []
        for case in cases:
            judgement = self._judge.judge_without_asking(case)
            if judgement is None:
                cases_to_ask.append(case)
            else:
                self._finish(_Outcome(case, judgement, Meter()))
        if not cases_to_ask:
            return
        self._judge.model.report_events_to(self._progress.note)
        if parallel == 1:
            for case in cases_to_ask:
                self._finish(self._ask(case))
        else:
            n_in_flight = questions_that_fit([self._judge.model], parallel, self._progress.note)
            in_flight(cases_to_ask, n_in_flight, self._ask, self._finish_all)
        for sentence in self._judge.model.server_reports():
            self._progress.note(sentence)

    def _ask(self, case: Case) -> _Outcome:
        """Ask the model about a case, and store its reply in the cache.

        An error that only concerns this case is part of what is returned.
        """
        meter = Meter("answer")
        try:
            judgement = self._judge.request(case, meter)
        except QuestionError as error:
            return _Outcome(case, error, meter)
        try:
            self._judge.store_reply(case, judgement)
        except SaveError as error:
            self._warn(error)
        return _Outcome(case, judgement, meter)

    def _finish_all(self, outcomes: Sequence[_Outcome]) -> None:
        """Add several outcomes to `judged`."""
        for outcome in outcomes:
            self._finish(outcome)

    def _finish(self, outcome: _Outcome) -> None:
        """Add the outcome of a case to `judged`, and show progress.

        Raises CannotRun after MAX_FAILURES_IN_A_ROW failures.
        """
        question_id = outcome.case.question_id
        if isinstance(outcome.result, Judgement):
            self._finish_judged(question_id, outcome.result)
        else:
            self._finish_failed(question_id, outcome.result, outcome.meter)

    def _finish_judged(self, question_id: str, judgement: Judgement) -> None:
        """Add a judgement to `judged`, and show progress with its score and cost."""
        self._failed_in_a_row = 0
        self.judged.judgements[question_id] = judgement
        usage_by_phase = {}
        if judgement.usage:
            usage_by_phase["answer"] = judgement.usage
        scores = {}
        if judgement.score is not None:
            scores[self._judge.name] = judgement.score
        counted = CountedQuestion(
            question_id=question_id, failed=False, scores=scores, usage=usage_by_phase
        )
        self._progress.count_recorded(counted)

    def _finish_failed(self, question_id: str, error: QuestionError, meter: Meter) -> None:
        """Add a failure to `judged`, with what its requests sent, and show progress.

        Args:
            question_id: The question whose answer could not be judged.
            error: Why.
            meter: Counted the requests.

        Raises:
            CannotRun: It is the last of MAX_FAILURES_IN_A_ROW failures.
        """
        self._failed_in_a_row += 1
        self.judged.failures[question_id] = str(error)
        add_sent(self.judged.sent_without_judgement, all_sent(meter.usage()))
        counted = CountedQuestion(question_id=question_id, failed=True, scores={}, usage={})
        self._progress.count_recorded(counted)
        if self._failed_in_a_row == MAX_FAILURES_IN_A_ROW:
            raise CannotRun(
                f"{MAX_FAILURES_IN_A_ROW} answers one after the other could not be judged; "
                f"the last, because: {error}"
            )


def _store_judgements(
    store: RunStore,
    stored: StoredRun,
    records_by_question: dict[str, StoredRecord],
    judge: Judge,
    judged: Judged,
) -> None:
    """Write the judge's entry into the manifest, then the records with
    its judgements, and the summary.

    Scores that another version of the judge gave to answers that are not judged now are removed.
    The new summary is also put into `judged`. After a kill between manifest and records the same
    command writes the records, from the cache.

    Args:
        store: Writes the folder.
        stored: The run as it was.
        records_by_question: Question id -> record.
        judge: Who judged.
        judged: The judgements; it is changed.
    """
    entry_before = _entry_before(stored, judge)
    keep_texts = stored.config.dataset.keep_texts
    records = []
    for question_id, record in records_by_question.items():
        if question_id in judged.judgements:
            record = _with_judgement(record, judge.name, judged.judgements[question_id], keep_texts)
        elif entry_before.version != judge.version:
            # A mean over two prompts or two models would be meaningless.
            record = _without_judgement(record, judge.name)
        records.append(record)
    _write_entry(store, judge, _manifest_entry(judge, judged))
    store.replace_records(records)
    numbers = summarise(records, store.index_lines(), stored.config)
    judged.summary = store.write_summary(stored.summary.with_numbers(numbers))


def _with_judgement(
    record: StoredRecord, name: str, judgement: Judgement, keep_texts: bool
) -> StoredRecord:
    """A copy of a record with the score, verdict and flag of a judgement, in place of earlier ones.

    Args:
        record: The record as it was.
        name: The judge's score.
        judgement: What it decided on the answer.
        keep_texts: Whether the run stores texts, and so the judge's reply.
    """
    entry = JudgeNote(verdict=judgement.verdict)
    if judgement.reply is not None and keep_texts:
        entry["reply"] = judgement.reply
    if judgement.confidence is not None:
        entry["confidence"] = judgement.confidence
    flags = dict(record.flags)
    if judgement.flag is None:
        flags.pop(name, None)
    else:
        flags[name] = judgement.flag
    notes = {**record.notes, JUDGES: {**record.judgements, name: entry}}
    notes.pop("flags", None)
    if flags:
        notes["flags"] = flags
    scores = _without_key(record.scores, name)
    if judgement.score is not None:
        scores[name] = judgement.score
    return replace(record, scores=scores, notes=notes)


def _without_judgement(record: StoredRecord, name: str) -> StoredRecord:
    """A copy of the record without the score, verdict and flag of the judge `name`."""
    notes = dict(record.notes)
    if "flags" in notes:
        notes["flags"] = _without_key(record.flags, name)
    if JUDGES in notes:
        notes[JUDGES] = _without_key(record.judgements, name)
    return replace(record, scores=_without_key(record.scores, name), notes=notes)


def _without_key(values: Mapping[str, T], left_out_key: str) -> dict[str, T]:
    """A copy of a mapping without one key."""
    return {key: value for key, value in values.items() if key != left_out_key}


def _write_entry(store: RunStore, judge: Judge, entry: JudgeEntry) -> None:
    """Write the judge's entry into the manifest, beside those of other judges.

    Args:
        store: Writes the folder.
        judge: Whose entry it is.
        entry: Its values.
    """
    manifest = store.manifest()
    judges = {**manifest.judges, judge.name: entry}
    store.write_manifest(manifest.with_values(judges=judges))


def price_of(judge: Judge) -> StoredPrice | None:
    """The price of the judge's model as a manifest stores it; None where it has none."""
    if judge.config.price is None:
        return None
    return StoredPrice.from_json(judge.config.price.model_dump())


def _manifest_entry(judge: Judge, judged: Judged) -> JudgeEntry:
    """Make the judge's entry in the manifest: its prompt, model, verdicts and costs."""
    verdicts = Counter(judgement.verdict for judgement in judged.judgements.values())
    prompt = judge.prompt.text
    if judge.published is not None:
        prompt = judge.published.source
    entry = JudgeEntry(
        version=judge.version,
        kind=judge.kind,
        prompt=prompt,
        prompt_version=judge.prompt_version,
        max_tokens=judge.max_tokens,
        model=without_home({"name": judge.config.name, **judge.identity}),
        verdicts=dict(sorted(verdicts.items())),
        usage=judged.usage,
        finished=utc_now(),
    )
    if judged.calibration_error is not None:
        entry = entry.with_values(calibration_error=judged.calibration_error)
    if judge.other_run:
        entry = entry.with_values(other_run=judge.other_run)
    if judge.config.base_url:
        entry = entry.with_values(server=with_address_secrets_masked(judge.config.base_url))
    if judged.sent_without_judgement:
        entry = entry.with_values(earlier=judged.sent_without_judgement)
    if judge.config.price is not None:
        entry = entry.with_values(price=price_of(judge))
    return entry
