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

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np

from harness.cost.flops import Flops
from harness.errors import QuestionError
from harness.method import Tools
from harness.models import MeteredModel
from harness.prompts import prompt_tokens
from harness.storage.records import StoredStep
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
    """Choose the segments to begin with; at least one, if it fits the room.

    Args:
        segments: The segments to choose from.
        lengths: Tokens of each segment, its separator included.
        room: Most tokens of all.
        share: The share of the room that is used where not all fit.
        similarity: To the question, [segments of the document].

    Returns:
        All, where they fit; else the most similar ones, in document order.
    """
    if sum(lengths[k] for k in segments) <= room:
        return list(segments)
    fitting = [k for k in segments if lengths[k] <= room]
    chosen: list[int] = []
    used = 0
    for k in sorted(fitting, key=lambda k: (-similarity[k], k)):
        used += lengths[k]
        if chosen and used > room * share:
            break
        chosen.append(k)
    return sorted(chosen)


def fit_added(
    start: Sequence[int], added: Mapping[int, float], lengths: Lengths, room: int
) -> dict[int, float]:
    """Drop the lowest scores until all segments fit; of equal scores the later segment.

    Args:
        start: The segments that stay.
        added: Further segment -> its score.
        lengths: Tokens of each segment.
        room: Most tokens of all.
    """
    left = dict(added)
    used = sum(lengths[k] for k in {*start, *left})
    while left and used > room:
        lowest = min(left, key=lambda k: (left[k], -k))
        del left[lowest]
        if lowest not in start:
            used -= lengths[lowest]
    return left


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
        separator = self.model.count("\n\n")
        self.lengths = {k: self.model.count(text) + separator for k, text in enumerate(self.texts)}
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
        if self.later:
            return self.tools.phase("study")
        return self.tools.phase("search")

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
        memory = self.memory
        notes = list(memory.notes)
        by = self.entities
        segments = memory.segments_of(self.entities)
        if segments:
            names = ", ".join(memory.names[entity] for entity in self.entities)
            notes.append(f"entities of the question: {names}")
        else:
            segments = sorted(best_first(self.similarity)[: self.config.fallback_k])
            notes.append(
                "the memory has no entity of the question: it begins with the most similar segments"
            )
            self.entities = self._entities_in(segments)
        read = fit_start(segments, self.lengths, self.room, share, self.similarity)
        if len(read) < len(segments):
            notes.append(f"{len(read)} of {len(segments)} segments fit")
        self.step(
            "start",
            scores={"entities": len(self.entities), "segments": len(read)},
            note="; ".join(notes),
        )
        self.add_segments(read, by=by)
        return read

    def _entities_in(self, segments: Collection[int]) -> list[int]:
        """The entities that stand in any of the segments."""
        entities: list[int] = []
        for entity, places in enumerate(self.memory.places):
            if not set(segments).isdisjoint(places):
                entities.append(entity)
        return entities

    def add_segments(
        self,
        segments: Sequence[int],
        scores: Mapping[int, float] | None = None,
        by: Sequence[int] = (),
    ) -> None:
        """Add a step for each segment that is read from now on.

        Args:
            segments: Their numbers.
            scores: The similarity of each, if there is one.
            by: The entities that led there, if any did.
        """
        for k in segments:
            similarity: dict[str, float] = {}
            if scores is not None:
                similarity["similarity"] = scores[k]
            led = ", ".join(self.memory.names[e] for e in by if k in self.memory.places[e])
            note = ""
            if led:
                note = f"through {led}"
            shown = Shown("span", self.document.id, *self.memory.segments[k])
            self.step("segment", k, similarity, tokens=self.lengths[k], shown=shown, note=note)

    def drop_segments(self, segments: Sequence[int], why: str) -> None:
        """Add a step for each segment that is read no longer.

        Args:
            segments: Their numbers.
            why: The note of these steps.
        """
        for k in segments:
            self.step("leave", None, {"segment": k}, note=why)

    def ask(self, segments: list[int]) -> str | End:
        """Why the segments do not answer the question; the End where they do, or no reply could be
        parsed."""
        pieces = self.asking.ask([self.texts[k] for k in segments], self.tools.task.instruction)
        response: ParsedReply[replies.Verdict] = self.ask_parsed(
            self.model, pieces, self.limit, replies.parse_verdict
        )
        verdict = response.found
        scores: dict[str, float] = {"replies": response.replies}
        reason = NOT_PARSED
        if verdict is not None:
            scores = {"answers": float(verdict.answer is not None), **scores}
            reason = verdict.reason
        note = "; ".join([*response.notes, reason])
        self.step("ask", None, scores, tokens=response.tokens, note=note)
        if verdict is None:
            return End(segments, NOT_PARSED)
        if verdict.answer is None:
            return reason
        return End(segments, "answered", self._shortened(verdict.answer))

    def _shortened(self, answer: str) -> str:
        """An answer cut at the task's limit of tokens."""
        offsets = self.model.offsets(answer)[: self.tools.task.max_answer_tokens]
        return answer[: offsets[-1][1]].strip()

    def ask_parsed(
        self,
        model: MeteredModel,
        pieces: Sequence[str],
        limit: int,
        parse: Callable[[str], T | None],
    ) -> ParsedReply[T]:
        """Ask until the reply can be parsed, as often as the config allows.

        Args:
            model: The model.
            pieces: The prompt.
            limit: Tokens of a reply at most.
            parse: Reads a reply; None for one that it does not understand.
        """
        return ask_parsed(model, pieces, limit, parse, retry_of(self.config, self.tools.seed))

    def read(self, segments: Sequence[int], reason: str) -> Answer:
        """Answer from segments with the prompt that all methods share.

        Changes `_answer_flops`, as the FLOPs of the answer belong to no step, and `_read`, which
        stores the answer, so that `record` does not ask again.

        Args:
            segments: Their numbers.
            reason: Why the search stopped.
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
        if not segments:
            reason = f"{reason}: no text fits"
        return self.answer(text, segments, reason)

    def mark(self, updates: int, *, ended: bool) -> None:
        """Note in the last step how many updates of the entity set were made, and whether the
        search ended."""
        last = self.steps[-1]
        scores = {**last.scores, "updates": float(updates)}
        if ended:
            scores["ended"] = 1.0
        self.steps[-1] = replace(last, scores=scores)

    def record(self, segments: Sequence[int], answer: str | None = None) -> None:
        """Add to the last step what would be answered there, and the FLOPs of that.

        Where this fails, a step that says so is added instead.

        Args:
            segments: The segments that would be read.
            answer: The answer, where a verdict gave one; None: the question is asked, unless it was
                asked over these segments before.
        """
        last = len(self.steps) - 1
        spent = Flops()
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
        """Write down one move.

        Args:
            action: What it is; past the run's own stop it becomes the head of the note.
            node: A segment's number for "segment", an entity's for "expand".
            scores: Its numbers by name.
            tokens: Of what was read.
            shown: What the reader sees from now on.
            note: A sentence on it.
        """
        numbers = {name: float(score) for name, score in (scores or {}).items()}
        flops = self.tools.meter.flops() - self._answer_flops
        if self.later:
            note = ": ".join(filter(None, [action, note]))
            action = "study"
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


def replay(steps: Sequence[StoredStep], max_trials: int) -> int | None:
    """Find where a search with fewer or more trials would have ended.

    A search with fewer trials is the beginning of the same search, and one that ended by itself
    ends so under every larger maximum.

    Args:
        steps: The steps of a record.
        max_trials: The most updates of the entity set.

    Returns:
        The place in `steps`; None where the search was not recorded that far.
    """
    place_of_updates: dict[int, int] = {}
    for place, step in enumerate(steps):
        scores = step.get("scores") or {}
        if "updates" in scores:
            place_of_updates[int(scores["updates"])] = place
    if max_trials in place_of_updates:
        return place_of_updates[max_trials]
    last = max(place_of_updates, default=max_trials)
    if max_trials <= last:
        return None
    place = place_of_updates[last]
    if "ended" not in steps[place]["scores"]:
        return None
    return place
