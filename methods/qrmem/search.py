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
    """Choose the segments to begin with: all where they fit, else the most similar ones, but at
    least one if it fits the room.

    Args:
        segments: The numbers of the segments to choose from.
        lengths: Segment -> its tokens, a separator included.
        room: Most tokens of all.
        share: The share of the room that is used where not all fit.
        similarity: The similarity to the question of each of the document's segments [segments].

    Returns:
        Their numbers, in document order.
    """
    if sum(lengths[k] for k in segments) <= room:
        return list(segments)
    fitting = [k for k in segments if lengths[k] <= room]
    chosen: list[int] = []
    used = 0

    def most_similar_first(segment: int) -> tuple[float, int]:
        """A sort key: a high similarity first, of equal ones the earlier segment."""
        return -float(similarity[segment]), segment

    for k in sorted(fitting, key=most_similar_first):
        used += lengths[k]
        if chosen and used > room * share:
            break
        chosen.append(k)
    return sorted(chosen)


def fit_added(
    start: Sequence[int], added: Mapping[int, float], lengths: Lengths, room: int
) -> dict[int, float]:
    """Leave out the added segments with the lowest scores until all fit; of equal scores the later
    segment goes first.

    Args:
        start: The segments that stay.
        added: Further segment -> its score.
        lengths: Segment -> its tokens.
        room: Most tokens of all.

    Returns:
        The added segments that are left, with their scores.
    """
    left = dict(added)
    used = sum(lengths[k] for k in {*start, *left})

    def lowest_first(segment: int) -> tuple[float, int]:
        """A sort key: a low score first, of equal ones the later segment."""
        return left[segment], -segment

    while left and used > room:
        lowest = min(left, key=lowest_first)
        del left[lowest]
        if lowest not in start:
            used -= lengths[lowest]
    return left


@dataclass
class State:
    """The state that every navigation shares.

    Attributes:
        document: The document.
        question: The question.
        memory: The document's memory for the question.
        config: The method's settings.
        tools: The engine's tools.
        steps: The trace so far.
        past_own_stop: Whether the search goes on past its own stop, to record later ones.
        texts: The text of each segment.
        lengths: Segment -> its tokens, a separator included.
        limit: Most tokens of a reply with reasons and answer.
        similarity: The similarity of each segment to the question [segments].
        entities: The entities that the question names.
    """

    document: Document
    question: Question
    memory: Memory
    config: QRMeMConfig
    tools: Tools
    steps: list[Step] = field(default_factory=list)
    past_own_stop: bool = False

    def __post_init__(self) -> None:
        """Compute what every navigation needs: texts and tokens of segments, their similarity to
        the question, and the question's entities."""
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
        self._answers: dict[tuple[int, ...], tuple[str, Flops]] = {}
        with self.searching():
            self.similarity = self.similar([self.question.text], self.memory.segment_vectors)
        self.entities = self.memory.named_in(self.question.text)

    def searching(self) -> AbstractContextManager[None]:
        """Context manager: costs inside count for the phase "search"; past the run's own stop for
        "study"."""
        if self.past_own_stop:
            return self.tools.phase("study")
        return self.tools.phase("search")

    @property
    def room(self) -> int:
        """How many tokens of segments fit both the question's prompt and the shared reading
        prompt."""
        config = self.config
        task = self.tools.task
        window = window_of(config.window, self.model)
        frame = prompt_tokens(self.asking.ask([], task.instruction), self.model)
        request = reading.Reading(task, config.window, config)
        read = reading.room_for_text(self.question, self.tools, self.model, request)
        return max(0, min(window - frame - self.limit, read))

    def similar(self, texts: Sequence[str], vectors: np.ndarray) -> np.ndarray:
        """How similar a query is to each row of `vectors`, [rows].

        Args:
            texts: The parts of the query, which are put on a line each.
            vectors: The vectors of edges or segments [rows, width].
        """
        if not len(vectors):
            return np.zeros(0)
        return similarity_to("\n".join(texts), vectors, self.tools)

    def start(self, share: float) -> list[int]:
        """The numbers of the segments to begin with (the paper's S_imp): those of the question's
        entities, else the most similar ones, whose entities then become `entities`.

        Also adds their steps.

        Args:
            share: The share of the room that they take where not all fit.
        """
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
        """The numbers of the entities that stand in any of the segments."""
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
            segments: The numbers of the segments.
            scores: Segment -> its similarity, where there is one.
            by: The entities that led there, if any did.
        """
        for k in segments:
            similarity: dict[str, float] = {}
            if scores is not None:
                similarity["similarity"] = scores[k]
            names = [self.memory.names[e] for e in by if k in self.memory.places[e]]
            note = ""
            if names:
                note = f"through {', '.join(names)}"
            shown = Shown("span", self.document.id, *self.memory.segments[k])
            self.step("segment", k, similarity, tokens=self.lengths[k], shown=shown, note=note)

    def drop_segments(self, segments: Sequence[int], why: str) -> None:
        """Add a step for each segment that is read no longer.

        Args:
            segments: The numbers of the segments.
            why: The note of these steps.
        """
        for k in segments:
            self.step("leave", None, {"segment": k}, note=why)

    def ask(self, segments: list[int]) -> str | End:
        """Ask the question over segments; also adds a step "ask".

        Returns:
            Why the segments do not answer; the End of the search where they do, or no reply could
            be parsed.
        """
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
        """An answer cut at the task's limit of tokens, which is not empty."""
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

    def answer_from(self, segments: Sequence[int], reason: str) -> Answer:
        """Answer from segments with the prompt that all methods share.

        Also changes `_answer_flops`, as the FLOPs of the answer belong to no step, and `_answers`,
        which stores the answer, so that `record_answer` does not ask again.

        Args:
            segments: The numbers of the segments.
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
        self._answers[tuple(segments)] = text, spent
        if not segments:
            reason = f"{reason}: no text fits"
        return self.answer(text, segments, reason)

    def mark_updates(self, updates: int, *, ended: bool) -> None:
        """Note in the last step how many updates of the entity set were made, and whether the
        search ended by itself."""
        last = self.steps[-1]
        scores = {**last.scores, "updates": float(updates)}
        if ended:
            scores["ended"] = 1.0
        self.steps[-1] = replace(last, scores=scores)

    def record_answer(self, segments: Sequence[int], answer: str | None = None) -> None:
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
                    if tuple(segments) not in self._answers:
                        self.answer_from(segments, "recorded")
            except QuestionError as error:
                self.step("stop", note=f"not recorded: {error}")
                return
            answer, spent = self._answers[tuple(segments)]
        self.steps[last] = replace(self.steps[last], answer=answer, answer_flops=spent)

    def answer(self, text: str, segments: Sequence[int], reason: str) -> Answer:
        """The Answer that the method returns.

        Args:
            text: The answer.
            segments: The segments that it was read from.
            reason: Why the search stopped.
        """
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
        """Add one move to the steps of the trace.

        Args:
            action: What was done, in a word; past the run's own stop it becomes the head of the
                note.
            node: A segment's number for "segment", an entity's for "expand".
            scores: Its numbers by name.
            tokens: Tokens of what was read.
            shown: What the reader sees from now on.
            note: A sentence on it.
        """
        numbers = {name: float(score) for name, score in (scores or {}).items()}
        flops = self.tools.meter.flops() - self._answer_flops
        if self.past_own_stop:
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
    """Search with the moves of a navigation, and answer after `max_trials` updates, or where the
    navigation ends before.

    With record_stops the answers of all other maxima are recorded in the steps.

    Args:
        state: The search.
        moves: The navigation.
    """
    segments: list[int] = []
    for updates in range(state.config.max_trials + 1):
        move = _next_move(moves)
        state.mark_updates(updates, ended=isinstance(move, End))
        if isinstance(move, End):
            if move.answer is not None:
                return state.answer(move.answer, move.segments, move.reason)
            return state.answer_from(move.segments, move.reason)
        segments = move
        if updates < state.config.max_trials and state.config.record_stops is not None:
            state.record_answer(segments)
    from_question = state.answer_from(segments, MAX_TRIALS)
    if (state.config.record_stops or 0) > state.config.max_trials:
        _record_later_stops(state, moves)
    return replace(from_question, steps=tuple(state.steps))


def _next_move(moves: Moves) -> list[int] | End:
    """The segments that a navigation yields next, or the End that it returns."""
    try:
        return next(moves)
    except StopIteration as ended:
        end: End = ended.value
        return end


def _record_later_stops(state: State, moves: Moves) -> None:
    """Search on past the own stop, and record the answer after each update, up to `record_stops` of
    them."""
    state.past_own_stop = True
    first = state.config.max_trials + 1
    last = state.config.record_stops or 0
    with state.tools.phase("study"):
        for updates in range(first, last + 1):
            try:
                move = _next_move(moves)
            except QuestionError as error:
                state.step("stop", note=f"recording ends: {error}")
                return
            state.mark_updates(updates, ended=isinstance(move, End))
            if isinstance(move, End):
                state.record_answer(move.segments, move.answer)
                return
            state.record_answer(move)


def replay(steps: Sequence[StoredStep], max_trials: int) -> int | None:
    """Find where a search with fewer or more trials would have ended.

    A search with fewer trials is the beginning of the same search, and one that ended by itself
    ends so under every larger maximum.

    Args:
        steps: The steps of a record.
        max_trials: The most updates of the entity set.

    Returns:
        The place of the last step in `steps`; None where the search was not recorded that far.
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
