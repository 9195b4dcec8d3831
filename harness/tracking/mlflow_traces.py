"""Send the questions of a run to MLflow as traces; one that is there and has not changed is not
sent again.

MlflowTraces(uri, experiment, run_id).log(run, most=1000, until=deadline)    -> how many are still missing
mlflow_dataset(run)             -> the rows that the run was made with, as MLflow's entity: digest, schema, their number

A trace's id is made of its run and question, so that two processes that log one run cannot log a
question twice. The metadata harness.digest says what it was made of: a question that was asked or
scored again is logged anew. What people added to it in MLflow stays as long as its answer does.
MLflow is imported inside functions only.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from harness.storage.run_folder import StoredRun
from harness.tracking.traces import (
    Span,
    Trace,
    answer_digest,
    build_traces,
    cut_middle,
    percent_scores,
)
from harness.types import JUDGES

if TYPE_CHECKING:
    from mlflow.entities import Assessment, Dataset, TraceInfo
    from mlflow.entities import Span as MlflowSpan


_COLUMNS = {
    "question_id": "string",
    "question": "string",
    "document_ids": "string",
    "gold_answers": "string",
}


def mlflow_dataset(run: StoredRun) -> Dataset | None:
    """The rows that the run was made with; None where its manifest does not name them."""
    from mlflow.entities import Dataset

    about = run.manifest.get("dataset") or {}
    if not about.get("fingerprint"):
        return None
    source = {key: about[key] for key in ("fingerprint", "source", "revision") if about.get(key)}
    columns = [{"type": kind, "name": name, "required": True} for name, kind in _COLUMNS.items()]
    return Dataset(
        name=run.config["dataset"]["name"],
        digest=str(about["fingerprint"])[:8],
        source_type="harness",
        source=json.dumps(source),
        schema=json.dumps({"mlflow_colspec": columns}),
        profile=json.dumps({"num_rows": about.get("questions", len(run.records))}),
    )


_DIGEST = "harness.digest"
_SENDER = "harness"
_BATCH = 20  # traces whose spans are sent together: more save little, and a pass can end only between two
_READ = 200  # questions whose long texts are read together: each reading goes through the whole file of texts
_PAGE = 500
_COMPLETE = (
    "mlflow.trace.spansLocation"  # a tag that the store sets with the spans, which are sent last
)


class MlflowTraces:
    """The traces of one MLflow run; experiment, run_id: MLflow's ids. Methods raise what MLflow
    raises."""

    def __init__(self, uri: str, experiment: str, run_id: str) -> None:
        from mlflow.tracing.client import TracingClient

        self._client = TracingClient(uri)
        self._experiment, self._run_id = experiment, run_id

    def log(self, run: StoredRun, most: int, until: float | None = None) -> int:
        """Log the first `most` questions as far as time allows; returns how many of them are still
        missing.

        until: a moment of time.monotonic; the batch that is under way is sent whole.
        """
        digests = {}  # of a record's answer, "-", of its scores
        for record in run.records[:most]:
            notes = record.notes
            parts = [
                percent_scores(record),
                notes.get("flags"),
                *([notes[JUDGES]] if JUDGES in notes else []),
            ]
            scores = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]
            digests[record.question_id] = f"{answer_digest(record)}-{scores}"
        stored = {info.client_request_id: info for info in self._stored_traces()} if digests else {}
        new = [
            name
            for name, content in digests.items()
            if name not in stored or _digest_of(stored[name]) != content
        ]
        left = len(new)
        for start in range(0, len(new), _READ):
            ready = build_traces(run, set(new[start : start + _READ]))
            while until is None or time.monotonic() < until:
                if not (batch := list(itertools.islice(ready, _BATCH))):
                    break
                if old := [
                    stored[trace.question_id].trace_id
                    for trace in batch
                    if trace.question_id in stored
                ]:
                    self._client.delete_traces(self._experiment, trace_ids=old)
                spans: list[MlflowSpan] = []
                for trace in batch:
                    name = trace.question_id
                    spans += self._send_trace(trace, digests[name], stored.get(name))
                self._client.log_spans(self._experiment, spans)
                left -= len(batch)
        return left

    def _stored_traces(self) -> Iterator[TraceInfo]:
        """Yield the traces of the run that MLflow has, without their spans."""
        token, wanted = None, {"run_id": self._run_id, "include_spans": False, "max_results": _PAGE}
        while True:
            page = self._client.search_traces(
                locations=[self._experiment], page_token=token, **wanted
            )
            yield from (trace.info for trace in page)
            if not (token := page.token):
                return

    def _send_trace(self, trace: Trace, content: str, before: TraceInfo | None) -> list[MlflowSpan]:
        """Send a trace and return its spans, to be sent later; content: its digest; before: the
        trace it replaces.

        Scores are sent as feedback of code or of a judge, gold answers as expectations.
        """
        from mlflow.entities import (
            AssessmentSource,
            Expectation,
            Feedback,
            TraceInfo,
            TraceLocation,
            TraceState,
        )

        trace_id = (
            "tr-" + hashlib.sha256(f"{self._run_id} {trace.question_id}".encode()).hexdigest()[:32]
        )
        same_answer = (
            before is not None and _digest_of(before).partition("-")[0] == content.partition("-")[0]
        )
        of_people = (
            [a for a in before.assessments if not str(a.source.source_id).startswith(_SENDER)]
            if before
            else []
        )
        code, people = (
            AssessmentSource("CODE", f"{_SENDER} score"),
            AssessmentSource("HUMAN", f"{_SENDER} data set"),
        )
        model = AssessmentSource("LLM_JUDGE", f"{_SENDER} judge")
        assessments: list[Assessment] = []
        for name, value in trace.scores.items():
            source, reason = (
                model if name in trace.judges else code,
                trace.reasons.get(name) or None,
            )
            assessments.append(
                Feedback(name, value, source=source, trace_id=trace_id, rationale=reason)
            )
        assessments += [
            Expectation(name, value, people, trace_id) for name, value in trace.gold.items()
        ]
        about = {
            "mlflow.trace_schema.version": "3",
            "mlflow.sourceRun": self._run_id,
            "mlflow.trace.tokenUsage": json.dumps(trace.tokens) if trace.tokens else None,
            _DIGEST: content,
        }
        info = TraceInfo(
            trace_id=trace_id,
            trace_location=TraceLocation.from_experiment_id(self._experiment),
            request_time=round(trace.start * 1000),
            execution_duration=round(trace.root.end * 1000),
            state=TraceState.ERROR if trace.error else TraceState.OK,
            request_preview=cut_middle(trace.request, 1000),
            response_preview=cut_middle(trace.answer, 1000),
            client_request_id=trace.question_id,
            trace_metadata={name: value for name, value in about.items() if value is not None},
            tags={
                "mlflow.traceName": trace.root.name,
                **{k: v[:250] for k, v in trace.tags.items()},
            },
            assessments=[*assessments, *(of_people if same_answer else ())],
        )
        self._client.start_trace(info)
        return [_mlflow_span(trace, trace_id, *part) for part in _numbered_spans(trace.root)]


def _digest_of(info: TraceInfo) -> str:
    """The digest of a stored trace, "" for one whose spans never came."""
    return str(info.trace_metadata.get(_DIGEST, "")) if _COMPLETE in info.tags else ""


def _numbered_spans(
    span: Span, parent: int | None = None, number: int = 1
) -> Iterator[tuple[Span, int, int | None]]:
    """Yield (span, its number in the trace, its parent's number) for a span and all below it."""
    yield span, number, parent
    following = number + 1
    for child in span.children:
        for part in _numbered_spans(child, number, following):
            following = part[1] + 1
            yield part


def _mlflow_span(
    trace: Trace, trace_id: str, span: Span, number: int, parent: int | None
) -> MlflowSpan:
    """Convert a span to MLflow's; number, parent: those of `_numbered_spans`."""
    from mlflow.entities import Span as MlflowSpan

    start, end = (round((trace.start + seconds) * 1e9) for seconds in (span.start, span.end))
    status, events = {"code": "STATUS_CODE_OK", "message": ""}, []
    if trace.error and parent is None:
        status = {"code": "STATUS_CODE_ERROR", "message": trace.error.get("message", "")}
        about = (("type", "type"), ("message", "message"), ("stacktrace", "traceback"))
        exception = {
            f"exception.{name}": str(trace.error[key])
            for name, key in about
            if trace.error.get(key)
        }
        events = [{"name": "exception", "time_unix_nano": end, "attributes": exception}]
    attributes = {
        "mlflow.traceRequestId": trace_id,
        "mlflow.spanType": span.kind,
        "mlflow.spanInputs": span.inputs,
        "mlflow.spanOutputs": span.outputs,
        **(span.attributes or {}),
    }
    return MlflowSpan.from_dict(
        {
            "trace_id": base64.b64encode(bytes.fromhex(trace_id[3:])).decode(),
            "span_id": _span_id(number),
            "parent_span_id": _span_id(parent),
            "name": span.name,
            "start_time_unix_nano": start,
            "end_time_unix_nano": end,
            "status": status,
            "attributes": {
                name: json.dumps(value) for name, value in attributes.items() if value is not None
            },
            "events": events,
        }
    )


def _span_id(number: int | None) -> str:
    """The id of a span: its number, in the form of Span.to_dict."""
    return "" if number is None else base64.b64encode(number.to_bytes(8, "big")).decode()
