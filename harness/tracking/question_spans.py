"""The parts of a question as MLflow's own spans.

    METHOD                 AGENT        question in, answer out
    ├─ index               TASK         where an index was built, or found, for this question first
    ├─ search / retrieve   RETRIEVER    the passages that the reader saw
    │  └─ visit 7, ...     RETRIEVER    a step of the search (reports/search_steps.py)
    └─ answer              LLM
       └─ write, ...       LLM          a request as it was sent, where the run has it (--keep-prompts)

A record has the seconds of the question and of each phase, no moments. So times are estimates: the
answer stands at the end, the steps of a search share its time by their FLOPs, requests of a phase
share it equally. Long texts are cut, and of many steps, passages and requests the first are shown:
the run folder has all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mlflow.entities import SpanEvent, SpanStatus
from mlflow.entities.span import LiveSpan
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import Tracer, set_span_in_context

from harness.cost.flops import DEFAULT_CONVENTION
from harness.cost.usage import PhaseUsage
from harness.tracking.traced_question import TracedQuestion, cut_middle
from reports.search_steps import SearchStep, search_steps

MAX_CHILD_SPANS = 40
_PHASES_OF_SEARCH = ("search", "study")  # the phases whose requests are shown below the search
_MAX_PASSAGES = 20
_MAX_PASSAGE_CHARACTERS = 1000
_COST_NAMES = (
    "tokens_in",
    "tokens_out",
    "tokens_cached",
    "requests",
    "encoder_requests",
    "seconds",
)


@dataclass(frozen=True)
class _Interval:
    """When a span begins and ends, in seconds from the start of its question."""

    start: float
    end: float

    def equal_part(self, index: int, n_parts: int) -> _Interval:
        """The part with this index, from 0, when the interval is cut into `n_parts` equal parts."""
        seconds = (self.end - self.start) / n_parts
        return _Interval(self.start + index * seconds, self.start + (index + 1) * seconds)


@dataclass(frozen=True)
class _SpanContent:
    """What a span shows.

    Attributes:
        name: Its name.
        kind: MLflow's type of span.
        interval: Its start and end.
        inputs: What went in, as JSON values.
        outputs: What came out, as JSON values.
        attributes: Name -> further value.
    """

    name: str
    kind: str
    interval: _Interval
    inputs: object = None
    outputs: object = None
    attributes: Mapping[str, object] = field(default_factory=dict)


class QuestionSpans:
    """Makes the spans of one question."""

    def __init__(self, question: TracedQuestion, trace_id: str) -> None:
        """Begin without spans.

        Args:
            question: The question with all that its trace shows.
            trace_id: MLflow's id of the trace: "tr-" and 32 hexadecimal digits.
        """
        self._question = question
        self._record = question.record
        self._trace_id = trace_id
        self._tracer = _tracer(trace_id)
        self._spans: list[LiveSpan] = []

    def make(self) -> list[LiveSpan]:
        """Make all spans of the question, the one of the whole question first.

        Within its time the indexes come first, then the search, then the answer. The answer ends
        with the question; the search takes what the phases' own seconds leave between.
        """
        record = self._record
        search_seconds = _known_seconds(record.usage.get("search"))
        answer_seconds = _known_seconds(record.usage.get("answer"))
        all_seconds = max(record.seconds or 0.0, search_seconds + answer_seconds)
        indexes = self._question.indexes
        building_seconds = sum(_known_seconds(line.usage.get("index")) for line in indexes)
        # Other questions may have built some of them, outside of this question's time.
        index_seconds = min(building_seconds, all_seconds - search_seconds - answer_seconds)
        content = _SpanContent(
            name=self._question.run.config.method.name,
            kind="AGENT",
            interval=_Interval(0.0, all_seconds),
            inputs=_without_empty_values({"question": record.question, "options": record.options}),
            outputs=record.prediction,
            attributes=self._question_attributes(),
        )
        root = self._add_span(content)
        if indexes:
            self._add_indexes(root, _Interval(0.0, index_seconds))
        has_searched = record.usage.get("search") or record.steps
        if has_searched or record.shown:
            self._add_search(root, _Interval(index_seconds, all_seconds - answer_seconds))
        if record.usage.get("answer"):
            self._add_answer(root, _Interval(all_seconds - answer_seconds, all_seconds))
        return self._spans

    def _add_indexes(self, root: LiveSpan, interval: _Interval) -> None:
        """Add the span of the question's indexes: document id -> whether its index was built or
        found.

        Args:
            root: The span of the whole question.
            interval: Start and end of building them.
        """
        statuses = {line.document_id: line.status for line in self._question.indexes}
        content = _SpanContent(name="index", kind="TASK", interval=interval, outputs=statuses)
        self._add_span(content, root)

    def _add_span(self, content: _SpanContent, parent: LiveSpan | None = None) -> LiveSpan:
        """Make the span of a part, and add it to those that `make` returns.

        Args:
            content: What it shows.
            parent: The span above it; None for the whole question, which also shows its error.
        """
        context = None
        if parent is not None:
            context = set_span_in_context(parent._span)
        start = self._nanoseconds_since_1970(content.interval.start)
        started = self._tracer.start_span(content.name, context, start_time=start)
        span = LiveSpan(started, self._trace_id, content.kind)
        span.set_inputs(content.inputs)
        if parent is None and self._record.error is not None:
            _set_error(span, self._record.error)
        end = self._nanoseconds_since_1970(content.interval.end)
        span.end(content.outputs, dict(content.attributes), end_time_ns=end)
        self._spans.append(span)
        return span

    def _nanoseconds_since_1970(self, seconds: float) -> int:
        """A moment of the question, in seconds from its start, as nanoseconds since 1970."""
        return round((self._question.start_seconds + seconds) * 1e9)

    def _question_attributes(self) -> dict[str, object]:
        """The attributes of the whole question's span: its id, what
        was cut, the costs of each phase.
        """
        record = self._record
        attributes: dict[str, object] = {
            "question_id": record.question_id,
            "truncated": record.truncated,
        }
        for phase, usage in record.usage.items():
            attributes[f"costs.{phase}"] = _known_costs(usage)
        return _without_empty_values(attributes)

    def _add_search(self, root: LiveSpan, interval: _Interval) -> None:
        """Add the span of the search or ranking, and those of its steps and requests below it.

        Args:
            root: The span of the whole question.
            interval: Start and end of the search.
        """
        record = self._record
        name = "retrieve"
        if record.usage.get("search") or record.steps:
            name = "search"
        attributes = _without_empty_values(
            {"stop_reason": record.stop_reason, "steps": len(record.steps)}
        )
        passages = self._retrieved_documents(record.shown)
        content = _SpanContent(
            name=name,
            kind="RETRIEVER",
            interval=interval,
            outputs=passages,
            attributes=attributes,
        )
        search = self._add_span(content, root)
        self._add_steps(search, interval)
        self._add_requests(search, interval, _PHASES_OF_SEARCH)

    def _add_steps(self, search: LiveSpan, interval: _Interval) -> None:
        """Add a span for each of the first steps below the search.

        A step has the TFLOPs that the search had spent at its end. So its span ends at that share
        of the search's time, and begins where the one before it ended.

        Args:
            search: The span of the search.
            interval: Its start and end.
        """
        steps = search_steps(self._record.steps)
        tflops_so_far = [step.tflops(DEFAULT_CONVENTION) or 0.0 for step in steps]
        all_tflops = max(tflops_so_far, default=0.0) or 1.0
        start = interval.start
        for step, tflops_at_end in zip(steps[:MAX_CHILD_SPANS], tflops_so_far, strict=False):
            seconds_so_far = (interval.end - interval.start) * tflops_at_end / all_tflops
            end = max(start, interval.start + seconds_so_far)
            shown = [step.shown] if step.shown else []
            content = _SpanContent(
                name=_step_name(step),
                kind="RETRIEVER",
                interval=_Interval(start, end),
                outputs=self._retrieved_documents(shown),
                attributes=_step_attributes(step),
            )
            self._add_span(content, search)
            start = end

    def _add_answer(self, root: LiveSpan, interval: _Interval) -> None:
        """Add the span of the answer, and those of its requests below it.

        Args:
            root: The span of the whole question.
            interval: Start and end of the answer.
        """
        attributes = _known_costs(self._record.usage["answer"])
        attributes["mlflow.chat.tokenUsage"] = token_usage(self._record.usage["answer"])
        content = _SpanContent(
            name="answer",
            kind="LLM",
            interval=interval,
            inputs={"question": self._record.question, "passages": len(self._record.shown)},
            outputs=self._record.prediction,
            attributes=attributes,
        )
        answer = self._add_span(content, root)
        self._add_requests(answer, interval, ("answer",))

    def _add_requests(self, parent: LiveSpan, interval: _Interval, phases: Sequence[str]) -> None:
        """Add a span for each of the first requests of some phases. Their times are not known: each
        gets an equal part of the phases' time.

        Args:
            parent: The span above them.
            interval: Start and end of the phases.
            phases: "search", "answer" and the like.
        """
        sent_requests = [request for request in self._question.requests if request.phase in phases]
        for index, request in enumerate(sent_requests[:MAX_CHILD_SPANS]):
            content = _SpanContent(
                name=f"{request.kind} ({request.role})",
                kind="LLM",
                interval=interval.equal_part(index, len(sent_requests)),
                inputs={"prompt": request.prompt},
                outputs=request.reply,
            )
            self._add_span(content, parent)

    def _retrieved_documents(
        self, shown: Sequence[Mapping[str, object]]
    ) -> list[dict[str, object]]:
        """The first 20 shown passages in MLflow's form of retrieved documents.

        [{"page_content": "Ann ...", "metadata": {"kind": "span", "doc_uri": "d0[3:6]"}}]

        Args:
            shown: Passages as a record holds them (StoredPiece).
        """
        documents: list[dict[str, object]] = []
        for piece in shown[:_MAX_PASSAGES]:
            checksum = str(piece.get("text_sha256", ""))
            text = piece.get("text") or self._question.texts.get(checksum)
            location = _passage_location(piece)
            content = cut_middle(str(text or f"characters of {location}"), _MAX_PASSAGE_CHARACTERS)
            metadata = {"kind": piece["kind"], "doc_uri": location}
            documents.append({"page_content": content, "metadata": metadata})
        return documents


class _FixedTraceId(RandomIdGenerator):
    """Gives every span the same trace id."""

    def __init__(self, trace_id: str) -> None:
        """Keep the number in the id.

        Args:
            trace_id: "tr-" and 32 hexadecimal digits.
        """
        self._number = int(trace_id.removeprefix("tr-"), 16)

    def generate_trace_id(self) -> int:
        """The id as the number that OpenTelemetry asks for, the same each time."""
        return self._number


def _tracer(trace_id: str) -> Tracer:
    """Make a tracer whose spans all belong to one trace and are sent nowhere by themselves."""
    ids = _FixedTraceId(trace_id)
    provider = TracerProvider(ALWAYS_ON, id_generator=ids, shutdown_on_exit=False)
    return provider.get_tracer(__name__)


def _set_error(span: LiveSpan, error: Mapping[str, str]) -> None:
    """Give a span the status ERROR and the error of its question, with
    the traceback if there is one.
    """
    span.set_status(SpanStatus("ERROR", error.get("message", "")))
    attributes = {
        "exception.type": error.get("type"),
        "exception.stacktrace": error.get("traceback"),
    }
    span.add_event(SpanEvent("exception", attributes=_without_empty_values(attributes)))


def _step_name(step: SearchStep) -> str:
    """The name of a step's span: "visit 7", or its action alone where it has no node."""
    if step.node is None:
        return step.action
    return f"{step.action} {step.node}"


def _step_attributes(step: SearchStep) -> dict[str, object]:
    """The attributes of a step's span: its numbers and note, those left out that are empty."""
    return _without_empty_values(
        {
            "level": step.level,
            "scores": dict(step.scores),
            "P(Yes)": step.p_yes,
            "answer if stopped here": step.answer,
            "tokens": step.tokens,
            "TFLOPs so far": step.tflops(DEFAULT_CONVENTION),
            "note": cut_middle(step.note, _MAX_PASSAGE_CHARACTERS),
        }
    )


def _passage_location(piece: Mapping[str, object]) -> str:
    """Where a passage stands: "d0[3:6]" for characters of a document, else its document alone."""
    document = str(piece.get("document_id", ""))
    if piece["kind"] != "span":
        return document
    return f"{document}[{piece['start']}:{piece['end']}]"


def _known_seconds(usage: PhaseUsage | None) -> float:
    """The seconds of a phase; 0 for None or where they are unknown."""
    if usage is None:
        return 0.0
    return usage.get("seconds", 0.0)


def _known_costs(usage: PhaseUsage) -> dict[str, object]:
    """The costs of a phase by name, and its TFLOPs; those that are 0 or unknown are left out."""
    costs: dict[str, object] = {"TFLOPs": tflops(usage)}
    for name in _COST_NAMES:
        costs[name] = usage.get(name)
    return {name: value for name, value in costs.items() if value}


def tflops(usage: PhaseUsage) -> float:
    """The FLOPs of a phase by the default convention, in 1e12; 0 where they are unknown."""
    return usage.get("flops", {}).get(DEFAULT_CONVENTION, 0.0) / 1e12


def token_usage(usage: PhaseUsage) -> dict[str, int]:
    """The tokens of a phase under MLflow's names: {"input_tokens": 9, "output_tokens": 2, ...}.

    {} where the usage does not say them, as in a run made elsewhere.
    """
    if "tokens_in" not in usage:
        return {}
    read = int(usage["tokens_in"])
    written = int(usage.get("tokens_out", 0))
    return {"input_tokens": read, "output_tokens": written, "total_tokens": read + written}


def _without_empty_values(values: Mapping[str, object]) -> dict[str, object]:
    """Leave out the values that are None or empty."""
    return {name: value for name, value in values.items() if value not in (None, "", [], {})}
