"""Send the questions of a run to MLflow as traces, by MLflow's tracing client.

    MlflowTraces(uri, experiment, run_id).log(run, 1000, TracingTime(40))   -> how many are still missing

A trace's id is made of its run and question, so that two processes that log one run cannot log a
question twice. The metadata harness.digest says what it was made of: a question that was asked or
scored again is logged anew, others are not sent again. What people added to a trace in MLflow stays
as long as its answer does.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from mlflow.entities import (
    Assessment,
    AssessmentSource,
    Expectation,
    Feedback,
    TraceInfo,
    TraceLocation,
    TraceState,
)
from mlflow.tracing.client import TracingClient

from harness.cost.usage import sum_phases
from harness.storage.records import StoredRecord
from harness.storage.run_folder import StoredRun
from harness.tracking.metrics import metric_name, percent
from harness.tracking.question_spans import QuestionSpans, tflops, token_usage
from harness.tracking.traced_question import TracedQuestion, cut_middle, traced_questions
from harness.tracking.tracing_time import TracingTime
from harness.types import JUDGES

T = TypeVar("T")

_DIGEST = "harness.digest"
_SENDER = "harness"
_BATCH = 20  # traces whose spans are sent together; a pass can end only between two
_READ = 200  # questions whose long texts are read together: each reading goes through the file
_PAGE = 500
_PREVIEW = 1000
_LONGEST_TAG = 250
# A tag that the store sets with the spans, which are sent last.
_COMPLETE = "mlflow.trace.spansLocation"


class MlflowTraces:
    """The traces of one MLflow run. Methods raise what MLflow raises."""

    def __init__(self, uri: str, experiment: str, run_id: str) -> None:
        """Make the client of a store.

        Args:
            uri: The address of the store.
            experiment: MLflow's id of the experiment.
            run_id: MLflow's id of the run.
        """
        self._client = TracingClient(uri)
        self._experiment = experiment
        self._run_id = run_id

    def log(self, run: StoredRun, most: int, tracing: TracingTime | None = None) -> int:
        """Log the questions whose traces are not in MLflow, or have changed.

        Args:
            run: The run.
            most: Only the first so many questions.
            tracing: The time that traces may take; the batch that is under way is sent whole.

        Returns:
            How many of them are still missing.
        """
        digests = {record.question_id: _digest(record) for record in run.records[:most]}
        if not digests:
            return 0
        stored = {str(info.client_request_id): info for info in self._stored_traces()}
        new = []
        for name, digest in digests.items():
            if name not in stored or _digest_of(stored[name]) != digest:
                new.append(name)
        left = len(new)
        for wanted in _batches(new, _READ):
            for batch in _batches(traced_questions(run, set(wanted)), _BATCH):
                if tracing is not None and tracing.is_over():
                    return left
                self._send(batch, stored)
                left -= len(batch)
        return left

    def _stored_traces(self) -> Iterator[TraceInfo]:
        """Yield what MLflow knows of the traces of the run, without their spans, page by page."""
        token = None
        while True:
            page = self._client.search_traces(
                locations=[self._experiment],
                run_id=self._run_id,
                include_spans=False,
                max_results=_PAGE,
                page_token=token,
            )
            for trace in page:
                yield trace.info
            token = page.token
            if not token:
                return

    def _send(self, batch: Sequence[TracedQuestion], stored: Mapping[str, TraceInfo]) -> None:
        """Send the traces of some questions, in place of those that MLflow has of them.

        Args:
            batch: The questions.
            stored: Question id -> the trace that MLflow has of it.
        """
        spans = []
        names = [question.record.question_id for question in batch]
        old = [stored[name].trace_id for name in names if name in stored]
        if old:
            self._client.delete_traces(self._experiment, trace_ids=old)
        for question in batch:
            name = question.record.question_id
            trace_id = self._trace_id(name)
            made = QuestionSpans(question, trace_id).make()
            info = self._trace_info(question, trace_id, made[0].end_time_ns or 0)
            info.assessments += _added_by_people(stored.get(name), question.record)
            self._client.start_trace(info)
            spans += made
        self._client.log_spans(self._experiment, spans)

    def _trace_id(self, question_id: str) -> str:
        """MLflow's id of a question's trace, made of the run and the question, so always the
        same.
        """
        place = f"{self._run_id} {question_id}"
        return "tr-" + hashlib.sha256(place.encode()).hexdigest()[:32]

    def _trace_info(self, question: TracedQuestion, trace_id: str, end_ns: int) -> TraceInfo:
        """Make what MLflow's list of traces shows of a question.

        Args:
            question: The question with all that its trace shows.
            trace_id: MLflow's id of the trace.
            end_ns: When the question ended, in nanoseconds since 1970.
        """
        record = question.record
        tokens = token_usage(sum_phases([record.usage], "search", "answer"))
        metadata = {
            "mlflow.trace_schema.version": "3",
            "mlflow.sourceRun": self._run_id,
            _DIGEST: _digest(record),
        }
        if tokens:
            metadata["mlflow.trace.tokenUsage"] = json.dumps(tokens)
        state = TraceState.OK
        if record.error is not None:
            state = TraceState.ERROR
        return TraceInfo(
            trace_id=trace_id,
            trace_location=TraceLocation.from_experiment_id(self._experiment),
            request_time=round(question.start * 1000),
            execution_duration=round(end_ns / 1e6 - question.start * 1000),
            state=state,
            request_preview=cut_middle(record.question or record.question_id, _PREVIEW),
            response_preview=cut_middle(record.prediction, _PREVIEW),
            client_request_id=record.question_id,
            trace_metadata=metadata,
            tags=_tags(question),
            assessments=_assessments(record, trace_id),
        )


def _batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield the items in lists of `size`, the last one maybe shorter."""
    left = iter(items)
    batch = list(itertools.islice(left, size))
    while batch:
        yield batch
        batch = list(itertools.islice(left, size))


def answer_digest(record: StoredRecord) -> str:
    """Hash a record without its scores and notes, so that scoring again does not change the
    digest.
    """
    values = record.to_json()
    values.pop("scores", None)
    values.pop("notes", None)
    return _short_digest(values)


def _digest(record: StoredRecord) -> str:
    """The digest of all that a trace is made of: "<hash of the answer>-<hash of its scores>"."""
    parts = [percent_scores(record), record.notes.get("flags")]
    if JUDGES in record.notes:
        parts.append(record.notes[JUDGES])
    return f"{answer_digest(record)}-{_short_digest(parts)}"


def _short_digest(value: object) -> str:
    """Hash a JSON value: the first 16 hexadecimal digits of its sha256."""
    text = json.dumps(value, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _digest_of(info: TraceInfo) -> str:
    """The digest that a trace in MLflow was made with; "" for one whose spans never came."""
    if _COMPLETE not in info.tags:
        return ""
    return str(info.trace_metadata.get(_DIGEST, ""))


def _answer_digest_of(info: TraceInfo) -> str:
    """The part of a stored trace's digest that stands for its answer: what is before the "-"."""
    return _digest_of(info).partition("-")[0]


def percent_scores(record: StoredRecord) -> dict[str, float]:
    """The scores of a record in percent, by the names that MLflow
    takes; infinite ones are left out.
    """
    scores = {}
    for name, value in record.scores.items():
        score = percent(value)
        if score is not None:
            scores[metric_name(name)] = score
    return scores


def _tags(question: TracedQuestion) -> dict[str, str]:
    """The tags by which MLflow's list of traces can be filtered: {"method": "pecan", "error":
    ...}.
    """
    record = question.record
    config = question.run.config
    spent = sum_phases([record.usage], "search", "answer")
    tags = {
        "mlflow.traceName": config.method.name,
        "method": config.method.name,
        "model": config.model.name,
        "stop_reason": record.stop_reason,
    }
    if not spent.get("uncounted"):
        tags["TFLOPs"] = f"{tflops(spent):.4g}"
    if record.error is not None:
        tags["error"] = record.error.get("type", "")
    if record.truncated:
        tags["truncated"] = "true"
    return {name: value[:_LONGEST_TAG] for name, value in tags.items() if value}


def _assessments(record: StoredRecord, trace_id: str) -> list[Assessment]:
    """The scores of a record as MLflow's feedback, of code or of a judge, and its
    gold answers as an expectation.
    """
    judges = {metric_name(name) for name in record.judgements}
    reasons = _reasons(record)
    assessments: list[Assessment] = []
    for name, value in percent_scores(record).items():
        source = AssessmentSource("CODE", f"{_SENDER} score")
        if name in judges:
            source = AssessmentSource("LLM_JUDGE", f"{_SENDER} judge")
        reason = reasons.get(name)
        assessments.append(
            Feedback(name, value, source=source, trace_id=trace_id, rationale=reason)
        )
    if record.gold_answers:
        people = AssessmentSource("HUMAN", f"{_SENDER} data set")
        assessments.append(Expectation("gold_answers", record.gold_answers, people, trace_id))
    return assessments


def _reasons(record: StoredRecord) -> dict[str, str]:
    """Why a score is as it is, by the metric's name: a scorer's flag, a judge's reply, or both."""
    reasons = {}
    for name in (*record.flags, *record.judgements):
        said: list[str] = []
        if record.flags.get(name):
            said.append(record.flags[name])
        if name in record.judgements and record.judgements[name].get("reply"):
            said.append(record.judgements[name]["reply"])
        if said:
            reasons[metric_name(name)] = ": ".join(said)
    return reasons


def _added_by_people(before: TraceInfo | None, record: StoredRecord) -> list[Assessment]:
    """What people added in MLflow to the trace that is replaced; [] if its answer has changed.

    Args:
        before: The trace that MLflow has; None for none.
        record: The question's record now.
    """
    if before is None:
        return []
    if _answer_digest_of(before) != answer_digest(record):
        return []
    return [each for each in before.assessments if not _is_ours(each)]


def _is_ours(assessment: Assessment) -> bool:
    """Whether the harness made an assessment, and no person."""
    return str(assessment.source.source_id).startswith(_SENDER)
