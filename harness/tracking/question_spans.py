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

MOST_SPANS = 40
_MOST_PASSAGES = 20
_LONGEST_PASSAGE = 1000
_COSTS = ("tokens_in", "tokens_out", "tokens_cached", "requests", "encoder_requests", "seconds")


@dataclass(frozen=True)
class _Times:
    """When a span begins and ends, in seconds from the start of its question."""

    start: float
    end: float

    def share(self, number: int, count: int) -> _Times:
        """The times of part `number`, from 0, when this span is cut into `count` equal parts."""
        length = (self.end - self.start) / count
        return _Times(self.start + number * length, self.start + (number + 1) * length)


@dataclass(frozen=True)
class _Part:
    """What a span shows.

    Attributes:
        name: Its name.
        kind: MLflow's type of span.
        times: Its start and end.
        inputs: What went in, as JSON values.
        outputs: What came out, as JSON values.
        attributes: Name -> further value.
    """

    name: str
    kind: str
    times: _Times
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
        self._made: list[LiveSpan] = []

    def make(self) -> list[LiveSpan]:
        """Make all spans of the question, the one of the whole question first."""
        record = self._record
        search = _seconds(record.usage.get("search"))
        answer = _seconds(record.usage.get("answer"))
        whole = max(record.seconds or 0.0, search + answer)
        built = sum(_seconds(line.usage.get("index")) for line in self._question.indexes)
        index = min(built, whole - search - answer)  # another question may have built it
        root = self._add(
            _Part(
                self._question.run.config.method.name,
                "AGENT",
                _Times(0.0, whole),
                inputs=_filled({"question": record.question, "options": record.options}),
                outputs=record.prediction,
                attributes=self._notes(),
            )
        )
        if self._question.indexes:
            statuses = {line.document_id: line.status for line in self._question.indexes}
            self._add(_Part("index", "TASK", _Times(0.0, index), outputs=statuses), root)
        if record.usage.get("search") or record.steps or record.shown:
            self._add_search(root, _Times(index, whole - answer))
        if record.usage.get("answer"):
            self._add_answer(root, _Times(whole - answer, whole))
        return self._made

    def _add(self, part: _Part, parent: LiveSpan | None = None) -> LiveSpan:
        """Make the span of a part, and add it to those that `make` returns.

        Args:
            part: What it shows.
            parent: The span above it; None for the whole question, which also shows its error.
        """
        context = None
        if parent is not None:
            context = set_span_in_context(parent._span)
        start = self._moment(part.times.start)
        started = self._tracer.start_span(part.name, context, start_time=start)
        span = LiveSpan(started, self._trace_id, part.kind)
        span.set_inputs(part.inputs)
        if parent is None and self._record.error is not None:
            _set_error(span, self._record.error)
        end = self._moment(part.times.end)
        span.end(part.outputs, dict(part.attributes), end_time_ns=end)
        self._made.append(span)
        return span

    def _moment(self, seconds: float) -> int:
        """A moment of the question, in seconds from its start, as nanoseconds since 1970."""
        return round((self._question.start + seconds) * 1e9)

    def _notes(self) -> dict[str, object]:
        """The attributes of the whole question's span: its id, what
        was cut, the costs of each phase.
        """
        record = self._record
        notes: dict[str, object] = {
            "question_id": record.question_id,
            "truncated": record.truncated,
        }
        for phase, usage in record.usage.items():
            notes[f"costs.{phase}"] = _costs(usage)
        return _filled(notes)

    def _add_search(self, root: LiveSpan, times: _Times) -> None:
        """Add the span of the search or ranking, and those of its steps and requests below it.

        Args:
            root: The span of the whole question.
            times: Start and end of the search.
        """
        record = self._record
        name = "search" if record.usage.get("search") or record.steps else "retrieve"
        notes = _filled({"stop_reason": record.stop_reason, "steps": len(record.steps)})
        passages = self._passages(record.shown)
        part = _Part(name, "RETRIEVER", times, outputs=passages, attributes=notes)
        search = self._add(part, root)
        self._add_steps(search, times)
        self._add_requests(search, times, ("search", "study"))

    def _add_steps(self, search: LiveSpan, times: _Times) -> None:
        """Add a span for each of the first steps below the search; they
        share its time by their FLOPs.

        Args:
            search: The span of the search.
            times: Its start and end.
        """
        steps = search_steps(self._record.steps)
        spent = [step.tflops(DEFAULT_CONVENTION) or 0.0 for step in steps]
        most = max(spent, default=0.0) or 1.0
        start = times.start
        for step, tflops in zip(steps[:MOST_SPANS], spent, strict=False):
            share = (times.end - times.start) * tflops / most
            end = max(start, times.start + share)
            shown = [step.shown] if step.shown else []
            part = _Part(
                _step_name(step),
                "RETRIEVER",
                _Times(start, end),
                outputs=self._passages(shown),
                attributes=_step_notes(step),
            )
            self._add(part, search)
            start = end

    def _add_answer(self, root: LiveSpan, times: _Times) -> None:
        """Add the span of the answer, and those of its requests below it.

        Args:
            root: The span of the whole question.
            times: Start and end of the answer.
        """
        notes = _costs(self._record.usage["answer"])
        notes["mlflow.chat.tokenUsage"] = token_usage(self._record.usage["answer"])
        part = _Part(
            "answer",
            "LLM",
            times,
            inputs={"question": self._record.question, "passages": len(self._record.shown)},
            outputs=self._record.prediction,
            attributes=notes,
        )
        answer = self._add(part, root)
        self._add_requests(answer, times, ("answer",))

    def _add_requests(self, parent: LiveSpan, times: _Times, phases: Sequence[str]) -> None:
        """Add a span for each of the first requests of some phases.

        Args:
            parent: The span above them.
            times: Start and end of the phases.
            phases: "search", "answer" and the like.
        """
        sent = [request for request in self._question.requests if request.phase in phases]
        for number, request in enumerate(sent[:MOST_SPANS]):
            part = _Part(
                f"{request.kind} ({request.role})",
                "LLM",
                times.share(number, len(sent)),
                inputs={"prompt": request.prompt},
                outputs=request.reply,
            )
            self._add(part, parent)

    def _passages(self, shown: Sequence[Mapping[str, object]]) -> list[dict[str, object]]:
        """The first 20 shown passages in MLflow's form of retrieved documents.

        [{"page_content": "Ann ...", "metadata": {"kind": "span", "doc_uri": "d0[3:6]"}}]

        Args:
            shown: Passages as a record holds them (StoredPiece).
        """
        passages: list[dict[str, object]] = []
        for piece in shown[:_MOST_PASSAGES]:
            checksum = str(piece.get("text_sha256", ""))
            text = piece.get("text") or self._question.texts.get(checksum)
            place = _place(piece)
            content = cut_middle(str(text or f"characters of {place}"), _LONGEST_PASSAGE)
            notes = {"kind": piece["kind"], "doc_uri": place}
            passages.append({"page_content": content, "metadata": notes})
        return passages


class _OneTrace(RandomIdGenerator):
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
    ids = _OneTrace(trace_id)
    provider = TracerProvider(ALWAYS_ON, id_generator=ids, shutdown_on_exit=False)
    return provider.get_tracer(__name__)


def _set_error(span: LiveSpan, error: Mapping[str, str]) -> None:
    """Give a span the status ERROR and the error of its question, with
    the traceback if there is one.
    """
    span.set_status(SpanStatus("ERROR", error.get("message", "")))
    about = {"exception.type": error.get("type"), "exception.stacktrace": error.get("traceback")}
    span.add_event(SpanEvent("exception", attributes=_filled(about)))


def _step_name(step: SearchStep) -> str:
    """The name of a step's span: "visit 7", or its action alone where it has no node."""
    if step.node is None:
        return step.action
    return f"{step.action} {step.node}"


def _step_notes(step: SearchStep) -> dict[str, object]:
    """The attributes of a step's span: its numbers and note, those left out that are empty."""
    return _filled(
        {
            "level": step.level,
            "scores": dict(step.scores),
            "P(Yes)": step.p_yes,
            "answer if stopped here": step.answer,
            "tokens": step.tokens,
            "TFLOPs so far": step.tflops(DEFAULT_CONVENTION),
            "note": cut_middle(step.note, _LONGEST_PASSAGE),
        }
    )


def _place(piece: Mapping[str, object]) -> str:
    """Where a passage stands: "d0[3:6]" for characters of a document, else its document alone."""
    document = str(piece.get("document_id", ""))
    if piece["kind"] != "span":
        return document
    return f"{document}[{piece['start']}:{piece['end']}]"


def _seconds(usage: PhaseUsage | None) -> float:
    """The seconds of a phase; 0 for None or where they are unknown."""
    if usage is None:
        return 0.0
    return usage.get("seconds", 0.0)


def _costs(usage: PhaseUsage) -> dict[str, object]:
    """The costs of a phase by name, and its TFLOPs; those that are 0 or unknown are left out."""
    costs: dict[str, object] = {"TFLOPs": tflops(usage)}
    for name in _COSTS:
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


def _filled(values: Mapping[str, object]) -> dict[str, object]:
    """Leave out the values that are None or empty."""
    return {name: value for name, value in values.items() if value not in (None, "", [], {})}
