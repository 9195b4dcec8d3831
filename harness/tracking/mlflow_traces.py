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

_DIGEST_KEY = "harness.digest"
_SENDER = "harness"
_TRACES_PER_REQUEST = 20  # traces whose spans are sent together; a pass can end only between two
# Questions whose long texts are read together: each reading goes through the file.
_QUESTIONS_PER_READ = 200
_TRACES_PER_PAGE = 500
_MAX_PREVIEW_CHARACTERS = 1000
_MAX_TAG_CHARACTERS = 250
# A tag that the store sets with the spans, which are sent last.
_SPANS_SENT_TAG = "mlflow.trace.spansLocation"


class MlflowTraces:
    """The traces of one MLflow run. Methods raise what MLflow raises."""

    def __init__(self, uri: str, experiment_id: str, run_id: str) -> None:
        """Make the client of a store.

        Args:
            uri: The address of the store.
            experiment_id: MLflow's id of the experiment.
            run_id: MLflow's id of the run.
        """
        self._client = TracingClient(uri)
        self._experiment_id = experiment_id
        self._run_id = run_id

    def log(self, run: StoredRun, max_traces: int, tracing_time: TracingTime | None = None) -> int:
        """Log the questions whose traces are not in MLflow, or have changed.

        Args:
            run: The run.
            max_traces: Only the first so many questions.
            tracing_time: The time that traces may take; the batch that is under way is sent whole.

        Returns:
            How many of them are still missing.
        """
        digests = {record.question_id: _trace_digest(record) for record in run.records[:max_traces]}
        if not digests:
            return 0
        stored_traces = {str(info.client_request_id): info for info in self._stored_traces()}
        changed_questions = []
        for question_id, digest in digests.items():
            trace = stored_traces.get(question_id)
            if trace is None or _stored_digest(trace) != digest:
                changed_questions.append(question_id)
        n_left = len(changed_questions)
        for question_ids in _batches(changed_questions, _QUESTIONS_PER_READ):
            for batch in _batches(traced_questions(run, set(question_ids)), _TRACES_PER_REQUEST):
                if tracing_time is not None:
                    tracing_time.start_once()
                    if tracing_time.is_over():
                        return n_left
                self._replace_traces(batch, stored_traces)
                n_left -= len(batch)
        return n_left

    def _stored_traces(self) -> Iterator[TraceInfo]:
        """Yield what MLflow knows of the traces of the run, without their spans, page by page."""
        token = None
        while True:
            page = self._client.search_traces(
                locations=[self._experiment_id],
                run_id=self._run_id,
                include_spans=False,
                max_results=_TRACES_PER_PAGE,
                page_token=token,
            )
            for trace in page:
                yield trace.info
            token = page.token
            if not token:
                return

    def _replace_traces(
        self, batch: Sequence[TracedQuestion], stored_traces: Mapping[str, TraceInfo]
    ) -> None:
        """Send the traces of some questions, in place of those that MLflow has of them.

        What people added to an old trace goes to the new one, unless its answer has changed.

        Args:
            batch: The questions.
            stored_traces: Question id -> the trace that MLflow has of it.
        """
        spans = []
        question_ids = [question.record.question_id for question in batch]
        old_trace_ids = [
            stored_traces[question_id].trace_id
            for question_id in question_ids
            if question_id in stored_traces
        ]
        if old_trace_ids:
            self._client.delete_traces(self._experiment_id, trace_ids=old_trace_ids)
        for question in batch:
            question_id = question.record.question_id
            trace_id = self._trace_id(question_id)
            question_spans = QuestionSpans(question, trace_id).make()
            info = self._trace_info(question, trace_id, question_spans[0].end_time_ns or 0)
            info.assessments += _assessments_by_people(
                stored_traces.get(question_id), question.record
            )
            self._client.start_trace(info)
            spans += question_spans
        self._client.log_spans(self._experiment_id, spans)

    def _trace_id(self, question_id: str) -> str:
        """MLflow's id of a question's trace, made of the run and the question, so always the
        same.
        """
        name = f"{self._run_id} {question_id}"
        return "tr-" + hashlib.sha256(name.encode()).hexdigest()[:32]

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
            _DIGEST_KEY: _trace_digest(record),
        }
        if tokens:
            metadata["mlflow.trace.tokenUsage"] = json.dumps(tokens)
        state = TraceState.OK
        if record.error is not None:
            state = TraceState.ERROR
        return TraceInfo(
            trace_id=trace_id,
            trace_location=TraceLocation.from_experiment_id(self._experiment_id),
            request_time=round(question.start_seconds * 1000),
            execution_duration=round(end_ns / 1e6 - question.start_seconds * 1000),
            state=state,
            request_preview=cut_middle(
                record.question or record.question_id, _MAX_PREVIEW_CHARACTERS
            ),
            response_preview=cut_middle(record.prediction, _MAX_PREVIEW_CHARACTERS),
            client_request_id=record.question_id,
            trace_metadata=metadata,
            tags=_trace_tags(question),
            assessments=_assessments(record, trace_id),
        )


def _batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield the items in lists of `size`, the last one maybe shorter."""
    remaining = iter(items)
    batch = list(itertools.islice(remaining, size))
    while batch:
        yield batch
        batch = list(itertools.islice(remaining, size))


def answer_digest(record: StoredRecord) -> str:
    """Hash a record without its scores and notes, so that scoring again does not change the
    digest.
    """
    values = record.to_json()
    values.pop("scores", None)
    values.pop("notes", None)
    return _short_digest(values)


def _trace_digest(record: StoredRecord) -> str:
    """The digest of all that a trace is made of: "<hash of the answer>-<hash of its scores>"."""
    parts = [percent_scores(record), record.notes.get("flags")]
    if JUDGES in record.notes:
        parts.append(record.notes[JUDGES])
    return f"{answer_digest(record)}-{_short_digest(parts)}"


def _short_digest(value: object) -> str:
    """Hash a JSON value: the first 16 hexadecimal digits of its sha256."""
    text = json.dumps(value, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _stored_digest(info: TraceInfo) -> str:
    """The digest that a trace in MLflow was made with; "" for one whose spans never came."""
    if _SPANS_SENT_TAG not in info.tags:
        return ""
    return str(info.trace_metadata.get(_DIGEST_KEY, ""))


def _stored_answer_digest(info: TraceInfo) -> str:
    """The part of a stored trace's digest that stands for its answer: what is before the "-"."""
    return _stored_digest(info).partition("-")[0]


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


def _trace_tags(question: TracedQuestion) -> dict[str, str]:
    """The tags by which MLflow's list of traces can be filtered: {"method": "pecan", "error":
    ...}. Empty ones are left out, and "TFLOPs" where those of a part are unknown.
    """
    record = question.record
    config = question.run.config
    usage = sum_phases([record.usage], "search", "answer")
    tags = {
        "mlflow.traceName": config.method.name,
        "method": config.method.name,
        "model": config.model.name,
        "stop_reason": record.stop_reason,
    }
    if not usage.get("uncounted"):
        tags["TFLOPs"] = f"{tflops(usage):.4g}"
    if record.error is not None:
        tags["error"] = record.error.get("type", "")
    if record.truncated:
        tags["truncated"] = "true"
    return {name: value[:_MAX_TAG_CHARACTERS] for name, value in tags.items() if value}


def _assessments(record: StoredRecord, trace_id: str) -> list[Assessment]:
    """The scores of a record as MLflow's feedback, of code or of a judge, and its
    gold answers as an expectation.
    """
    judges = {metric_name(name) for name in record.judgements}
    reasons = _reasons_by_metric(record)
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
        data_set = AssessmentSource("HUMAN", f"{_SENDER} data set")
        assessments.append(Expectation("gold_answers", record.gold_answers, data_set, trace_id))
    return assessments


def _reasons_by_metric(record: StoredRecord) -> dict[str, str]:
    """Why a score is as it is, by the metric's name: a scorer's flag, a judge's reply, or both."""
    reasons = {}
    for name in (*record.flags, *record.judgements):
        sentences: list[str] = []
        if record.flags.get(name):
            sentences.append(record.flags[name])
        if name in record.judgements and record.judgements[name].get("reply"):
            sentences.append(record.judgements[name]["reply"])
        if sentences:
            reasons[metric_name(name)] = ": ".join(sentences)
    return reasons


def _assessments_by_people(old_trace: TraceInfo | None, record: StoredRecord) -> list[Assessment]:
    """What people added in MLflow to the trace that is replaced; [] if its answer has changed.

    Args:
        old_trace: The trace that MLflow has; None for none.
        record: The question's record now.
    """
    if old_trace is None:
        return []
    if _stored_answer_digest(old_trace) != answer_digest(record):
        return []
    return [each for each in old_trace.assessments if not _is_ours(each)]


def _is_ours(assessment: Assessment) -> bool:
    """Whether the harness made an assessment, and no person."""
    return str(assessment.source.source_id).startswith(_SENDER)
