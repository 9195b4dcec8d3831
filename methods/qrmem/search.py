"""One search under every maximum of trials: when it ends, what it answers, and what other maxima
would have answered.

    moves     a navigation as a generator: after each trial that left the question open it yields the segments read so
              far, and where it ends by itself it returns an End
    updates   0    1    2 │  3    4            of the entity set; max_trials = 2, record_stops = 4
    steps     ask  ask ask│ study ...          the last step of a trial has the score "updates", and "ended" where the
    phase     search, answer │ study           search ended there by itself
    answers   a    a   own│  b    b            the others only with record_stops, booked under "study"

With record_stops the run, its steps up to the stop and its usage are as without it, and costs are
booked as in PECAN's recording (methods/pecan/recording.py). Of equal segments the answer is written
once, as the likeliest reply is the same. A recording that fails is left out, and a step says so; it
never costs the question.

room      what the window leaves for segments beside the question and a reply, in every prompt that shows them
start     S_imp, the segments of the question's entities; without any, the most similar segments
fit       S_mix = S_imp u S_add, where S_add loses its lowest scores until all fit (algorithm 1, lines 16 to 19)
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from harness.cost.flops import Flops
from harness.errors import QuestionError
from harness.method import Tools
from harness.models import MeteredModel
from harness.prompts import prompt_tokens
from harness.types import Answer, Document, Question, Shown, Step
from methods import reading
from methods.qrmem import prompts, replies
from methods.qrmem.build import retry_of
from methods.qrmem.config import QRMeMConfig
from methods.qrmem.memory import Memory
from methods.retrieval import best_first, similarity_to
from methods.retry import ParsedReply, ask_parsed, window_of

_FORM = "Reasoning:\nAction: -2\nAnswer:\n"
_SPARE = 8  # tokens of a reply beside its form, the reasons and the answer
NOT_PARSED = "replies never parsed"

Lengths = Mapping[int, int]
T = TypeVar("T")


def fit_start(
    segments: Sequence[int], lengths: Lengths, room: int, share: float, similarity: np.ndarray
) -> list[int]:
    """The segments to begin with: all, where they fit `room`; else the most similar ones, in
    `share` of it.

    At least one is kept, if it fits the room. lengths: tokens of each segment, what parts it from
    others included.
    """
    if sum(lengths[k] for k in segments) <= room:
        return list(segments)
    ranked = sorted(segments, key=lambda k: (-similarity[k], k))
    ranked = [k for k in ranked if lengths[k] <= room]
    kept: list[int] = []
    for k in ranked:
        if kept and sum(lengths[i] for i in [*kept, k]) > room * share:
            break
        kept.append(k)
    return sorted(kept)


def fit_added(
    start: Sequence[int], added: Mapping[int, float], lengths: Lengths, room: int
) -> dict[int, float]:
    """Drop the lowest scores of `added` (segment -> score) until all fit `room`; of equal scores
    the later segment."""
    kept = dict(added)
    used = sum(lengths[k] for k in {*start, *kept})
    while kept and used > room:
        lowest = min(kept, key=lambda k: (kept[k], -k))
        del kept[lowest]
        used -= 0 if lowest in start else lengths[lowest]
    return kept


@dataclass
class State:
    """The state that every navigation shares; `steps` is the trace, `later`: past the stop of the
    run itself."""

    document: Document
    question: Question
    memory: Memory
    config: QRMeMConfig
    tools: Tools
    steps: list[Step] = field(default_factory=list)
    later: bool = False

    def __post_init__(self) -> None:
        self.model: MeteredModel = self.tools.model("reader")
        self.asking = prompts.Asking(self.config, self.question)
        self.texts = [self.document.text[a:b].strip() for a, b in self.memory.segments]
        apart = self.model.count("\n\n")
        self.lengths = {k: self.model.count(text) + apart for k, text in enumerate(self.texts)}
        self.limit = (
            self.model.count(_FORM)
            + _SPARE
            + self.config.reasoning_tokens
            + self.tools.task.max_answer_tokens
        )
        self._answer_flops = Flops()  # FLOPs of answers, which belong to no step
        self._read: dict[tuple[int, ...], tuple[str, Flops]] = {}
        with self.searching():
            self.similarity = self.similar([self.question.text], self.memory.segment_vectors)
        self.entities = self.memory.named_in(self.question.text)

    def searching(self) -> AbstractContextManager[None]:
        """Costs inside count for the phase "search"; past the run's own stop for "study"."""
        return self.tools.phase("study" if self.later else "search")

    @property
    def room(self) -> int:
        """Tokens of segments that fit both the question's prompt and the shared reading prompt."""
        config, task = self.config, self.tools.task
        window = window_of(config.window, self.model)
        frame = prompt_tokens(self.asking.ask([], task.instruction), self.model)
        request = reading.Reading(task, config.window, config)
        read = reading.room_for_text(self.question, self.tools, self.model, request)
        return max(0, min(window - frame - self.limit, read))

    def similar(self, texts: Sequence[str], vectors: np.ndarray) -> np.ndarray:
        """Similarity [rows] of a query, its parts on a line each, to every row of `vectors`."""
        if not len(vectors):
            return np.zeros(0)
        return similarity_to("\n".join(texts), vectors, self.tools)

    def start(self, share: float) -> list[int]:
        """The segments to begin with (the paper's S_imp), in `share` of the room if not all fit;
        adds their steps."""
        memory, notes = self.memory, list(self.memory.notes)
        names = ", ".join(memory.names[e] for e in self.entities)
        segments = memory.segments_of(self.entities)
        if segments:
            notes.append(f"entities of the question: {names}")
        else:
            segments = sorted(best_first(self.similarity)[: self.config.fallback_k])
            notes.append(
                "the memory has no entity of the question: it begins with the most similar segments"
            )
            self.entities = [
                e for e, where in enumerate(memory.places) if set(where) & set(segments)
            ]
        kept = fit_start(segments, self.lengths, self.room, share, self.similarity)
        if len(kept) < len(segments):
            notes.append(f"{len(kept)} of {len(segments)} segments fit")
        self.step(
            "start",
            scores={"entities": len(self.entities), "segments": len(kept)},
            note="; ".join(notes),
        )
        self.add_segments(kept, by=self.entities if names else ())
        return kept

    def add_segments(
        self,
        segments: Sequence[int],
        scores: Mapping[int, float] | None = None,
        by: Sequence[int] = (),
    ) -> None:
        """Add a step for each segment that is read from now on; by: entities that led there, if any
        did."""
        for k in segments:
            a, b = self.memory.segments[k]
            similarity = {"similarity": scores[k]} if scores is not None else {}
            led = ", ".join(self.memory.names[e] for e in by if k in self.memory.places[e])
            note, shown = f"through {led}" if led else "", Shown("span", self.document.id, a, b)
            self.step("segment", k, similarity, tokens=self.lengths[k], shown=shown, note=note)

    def drop_segments(self, segments: Sequence[int], why: str) -> None:
        """Add a step for each segment that is read no longer; why: its note."""
        for k in segments:
            self.step("leave", None, {"segment": k}, note=why)

    def ask(self, segments: list[int]) -> str | End:
        """Why the segments do not answer the question; the End where they do, or no reply could be
        parsed."""
        pieces = self.asking.ask([self.texts[k] for k in segments], self.tools.task.instruction)
        response: ParsedReply[replies.Verdict] = self.ask_parsed(
            self.model, pieces, self.limit, replies.parse_verdict
        )
        result = response.found
        if result is not None and result.answer is not None:
            offsets = self.model.offsets(result.answer)[: self.tools.task.max_answer_tokens]
            result = replies.Verdict(result.reason, result.answer[: offsets[-1][1]].strip())
        verdict = {} if result is None else {"answers": float(result.answer is not None)}
        notes = [*response.notes, result.reason if result else NOT_PARSED]
        self.step(
            "ask",
            None,
            {**verdict, "replies": response.replies},
            tokens=response.tokens,
            note="; ".join(notes),
        )
        if result is None:
            return End(segments, NOT_PARSED)
        return result.reason if result.answer is None else End(segments, "answered", result.answer)

    def ask_parsed(
        self,
        model: MeteredModel,
        pieces: Sequence[str],
        limit: int,
        parse: Callable[[str], T | None],
    ) -> ParsedReply[T]:
        """Ask until the reply can be parsed, as often as the config allows."""
        return ask_parsed(model, pieces, limit, parse, retry_of(self.config, self.tools.seed))

    def read(self, segments: Sequence[int], reason: str) -> Answer:
        """Answer from the segments with the prompt that all methods share; reason: why the search
        stopped.

        Its FLOPs belong to no step, so `step` leaves them out. `_read` keeps the answer: `record`
        asks for none twice.
        """
        before = self.tools.meter.flops()
        request = reading.Reading(self.tools.task, self.config.window, self.config)
        texts = [self.texts[k] for k in segments]
        try:
            text = reading.ask(self.question, texts, self.tools, self.model, request)
        finally:
            spent = self.tools.meter.flops() - before
            self._answer_flops += spent
        self._read[tuple(segments)] = text, spent
        return self.answer(text, segments, reason if segments else f"{reason}: no text fits")

    def mark(self, updates: int, *, ended: bool) -> None:
        """Note in the last step how many updates of the entity set were made, and whether the
        search ended."""
        scores = {"updates": float(updates), **({"ended": 1.0} if ended else {})}
        self.steps[-1] = replace(self.steps[-1], scores={**self.steps[-1].scores, **scores})

    def record(self, segments: Sequence[int], answer: str | None = None) -> None:
        """Write into the last step what would be answered there; `answer`: that of a verdict, where
        there is one."""
        last, spent = len(self.steps) - 1, Flops()
        if answer is None:
            try:
                with self.tools.phase("study"):
                    if tuple(segments) not in self._read:
                        self.read(segments, "recorded")
            except QuestionError as error:
                self.step("stop", note=f"not recorded: {error}")
                return
            answer, spent = self._read[tuple(segments)]
        self.steps[last] = replace(self.steps[last], answer=answer, answer_flops=spent)

    def answer(self, text: str, segments: Sequence[int], reason: str) -> Answer:
        """The answer, with the segments it was read from and why the search stopped."""
        shown = tuple(Shown("span", self.document.id, *self.memory.segments[k]) for k in segments)
        return Answer(text, shown, reason, tuple(self.steps))

    def step(
        self,
        action: str,
        node: int | None = None,
        scores: Mapping[str, float] | None = None,
        tokens: int = 0,
        shown: Shown | None = None,
        note: str = "",
    ) -> None:
        """Write down one move; `node` is a segment's number for "segment", an entity's for
        "expand"."""
        numbers = {name: float(score) for name, score in (scores or {}).items()}
        flops = self.tools.meter.flops() - self._answer_flops
        if self.later:
            action, note = "study", f"{action}: {note}" if note else action
        self.steps.append(
            Step(action, node, scores=numbers, tokens=tokens, flops=flops, shown=shown, note=note)
        )


MAX_TRIALS = "max trials"


@dataclass(frozen=True)
class End:
    """How a search ends by itself: the segments read, why, and the answer of the verdict, if
    any."""

    segments: list[int]
    reason: str
    answer: str | None = None


Moves = Generator[list[int], None, End]


def run_search(state: State, moves: Moves) -> Answer:
    """Search with the moves of a navigation; the answer at `max_trials`, or where it ends
    before."""
    segments: list[int] = []
    for updates in range(state.config.max_trials + 1):
        move = _next_move(moves)
        state.mark(updates, ended=isinstance(move, End))
        if isinstance(move, End):
            if move.answer is not None:
                return state.answer(move.answer, move.segments, move.reason)
            return state.read(move.segments, move.reason)
        segments = move
        if updates < state.config.max_trials and state.config.record_stops is not None:
            state.record(segments)
    from_question = state.read(segments, MAX_TRIALS)
    if (state.config.record_stops or 0) > state.config.max_trials:
        _record_later_stops(state, moves)
    return replace(from_question, steps=tuple(state.steps))


def _next_move(moves: Moves) -> list[int] | End:
    """What a navigation yields next, or the End that it returns."""
    try:
        return next(moves)
    except StopIteration as ended:
        end: End = ended.value
        return end


def _record_later_stops(state: State, moves: Moves) -> None:
    """Search on past the own stop, and record the answer after each of `record_stops` updates."""
    state.later = True
    with state.tools.phase("study"):
        for updates in range(state.config.max_trials + 1, (state.config.record_stops or 0) + 1):
            try:
                move = _next_move(moves)
            except QuestionError as error:
                state.step("stop", note=f"recording ends: {error}")
                return
            state.mark(updates, ended=isinstance(move, End))
            if isinstance(move, End):
                state.record(move.segments, move.answer)
                return
            state.record(move)


def replay(steps: Sequence[Mapping[str, Any]], max_trials: int) -> int | None:
    """The place in `steps` at which a search with at most `max_trials` updates ends; None where it
    was not recorded.

    A search with fewer trials is the beginning of the same search, and one that ended by itself
    ends so under every larger maximum.
    """
    marks = {
        int(s["scores"]["updates"]): i
        for i, s in enumerate(steps)
        if "updates" in (s.get("scores") or {})
    }
    if max_trials in marks or not marks:
        return marks.get(max_trials)
    last = max(marks)
    return marks[last] if max_trials > last and "ended" in steps[marks[last]]["scores"] else None
