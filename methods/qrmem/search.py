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

_REPLY_FORM = "Reasoning:\nAction: -2\nAnswer:\n"
_SPARE_TOKENS = 8  # tokens of a reply beside its form, the reasons and the answer
NOT_PARSED = "replies never parsed"

TokensOfSegments = Mapping[int, int]
T = TypeVar("T")


def choose_first_segments(
    segments: Sequence[int],
    tokens_of_segment: TokensOfSegments,
    max_tokens: int,
    *,
    share: float,
    similarity: np.ndarray,
) -> list[int]:
    """Choose the segments to begin with: all where they fit, else the most similar ones, but at
    least one if it fits the room.

    Args:
        segments: The numbers of the segments to choose from.
        tokens_of_segment: Segment -> its tokens, a separator included.
        max_tokens: Most tokens of all.
        share: The share of the room that is used where not all fit.
        similarity: The similarity to the question of each of the document's segments [segments].

    Returns:
        Their numbers, in document order.
    """
    if sum(tokens_of_segment[segment] for segment in segments) <= max_tokens:
        return list(segments)
    fitting = [segment for segment in segments if tokens_of_segment[segment] <= max_tokens]
    chosen: list[int] = []
    used_tokens = 0

    def most_similar_first(segment: int) -> tuple[float, int]:
        """A sort key: a high similarity first, of equal ones the earlier segment."""
        return -float(similarity[segment]), segment

    for segment in sorted(fitting, key=most_similar_first):
        used_tokens += tokens_of_segment[segment]
        if chosen and used_tokens > max_tokens * share:
            break
        chosen.append(segment)
    return sorted(chosen)


def drop_until_all_fit(
    first_segments: Sequence[int],
    score_of_added: Mapping[int, float],
    tokens_of_segment: TokensOfSegments,
    max_tokens: int,
) -> dict[int, float]:
    """Leave out the added segments with the lowest scores until all fit; of equal scores the later
    segment goes first.

    Args:
        first_segments: The segments that stay.
        score_of_added: Further segment -> its score.
        tokens_of_segment: Segment -> its tokens.
        max_tokens: Most tokens of all.

    Returns:
        The added segments that are left, with their scores.
    """
    score_of_kept = dict(score_of_added)
    used_tokens = sum(tokens_of_segment[segment] for segment in {*first_segments, *score_of_kept})

    def lowest_first(segment: int) -> tuple[float, int]:
        """A sort key: a low score first, of equal ones the later segment."""
        return score_of_kept[segment], -segment

    while score_of_kept and used_tokens > max_tokens:
        dropped = min(score_of_kept, key=lowest_first)
        del score_of_kept[dropped]
        if dropped not in first_segments:
            used_tokens -= tokens_of_segment[dropped]
    return score_of_kept


@dataclass
class SearchState:
    """The state that every navigation shares.

    Attributes:
        document: The document.
        question: The question.
        memory: The document's memory for the question.
        config: The method's settings.
        tools: The engine's tools.
        steps: The trace so far.
        is_past_own_stop: Whether the search goes on past its own stop, to record later ones.
        texts: The text of each segment.
        tokens_of_segment: Segment -> its tokens, a separator included.
        max_reply_tokens: Most tokens of a reply with reasons and answer.
        similarity: The similarity of each segment to the question [segments].
        entities: The entities that the question names.
    """

    document: Document
    question: Question
    memory: Memory
    config: QRMeMConfig
    tools: Tools
    steps: list[Step] = field(default_factory=list)
    is_past_own_stop: bool = False

    def __post_init__(self) -> None:
        """Compute what every navigation needs: texts and tokens of segments, their similarity to
        the question, and the question's entities."""
        self.model: MeteredModel = self.tools.model("reader")
        self.requests = prompts.Requests(self.config, self.question)
        self.texts = [self.document.text[start:end].strip() for start, end in self.memory.segments]
        separator_tokens = self.model.count("\n\n")
        self.tokens_of_segment = {
            segment: self.model.count(text) + separator_tokens
            for segment, text in enumerate(self.texts)
        }
        self.max_reply_tokens = (
            self.model.count(_REPLY_FORM)
            + _SPARE_TOKENS
            + self.config.reasoning_tokens
            + self.tools.task.max_answer_tokens
        )
        self._answer_flops = Flops()  # FLOPs of answers, which belong to no step
        self._answers: dict[tuple[int, ...], tuple[str, Flops]] = {}
        with self.search_phase():
            self.similarity = self.similarity_of([self.question.text], self.memory.segment_vectors)
        self.entities = self.memory.entities_named_in(self.question.text)

    def search_phase(self) -> AbstractContextManager[None]:
        """Context manager: costs inside count for the phase "search"; past the run's own stop for
        "study"."""
        if self.is_past_own_stop:
            return self.tools.phase("study")
        return self.tools.phase("search")

    @property
    def max_segment_tokens(self) -> int:
        """How many tokens of segments fit both the question's prompt and the shared reading
        prompt."""
        config = self.config
        task = self.tools.task
        window_tokens = window_of(config.window, self.model)
        prompt_tokens_alone = prompt_tokens(self.requests.ask([], task.instruction), self.model)
        room_in_prompt = window_tokens - prompt_tokens_alone - self.max_reply_tokens
        request = reading.Reading(task, window=config.window, config=config)
        room_in_reading_prompt = reading.room_for_text(
            self.question, self.tools, self.model, request
        )
        return max(0, min(room_in_prompt, room_in_reading_prompt))

    def similarity_of(self, texts: Sequence[str], vectors: np.ndarray) -> np.ndarray:
        """How similar a query is to each row of `vectors`, [rows].

        Args:
            texts: The parts of the query, which are put on a line each.
            vectors: The vectors of edges or segments [rows, width].
        """
        if not len(vectors):
            return np.zeros(0)
        return similarity_to("\n".join(texts), vectors, self.tools)

    def read_first_segments(self, share: float) -> list[int]:
        """The numbers of the segments to begin with (the paper's S_imp): those of the question's
        entities, else the most similar ones, whose entities then become `entities`.

        Also adds their steps.

        Args:
            share: The share of the room that they take where not all fit.
        """
        memory = self.memory
        notes = list(memory.notes)
        leading_entities = self.entities
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
        first_segments = choose_first_segments(
            segments,
            self.tokens_of_segment,
            self.max_segment_tokens,
            share=share,
            similarity=self.similarity,
        )
        if len(first_segments) < len(segments):
            notes.append(f"{len(first_segments)} of {len(segments)} segments fit")
        self.record_step(
            "start",
            scores={"entities": len(self.entities), "segments": len(first_segments)},
            note="; ".join(notes),
        )
        self.record_new(first_segments, leading_entities=leading_entities)
        return first_segments

    def _entities_in(self, segments: Collection[int]) -> list[int]:
        """The numbers of the entities that stand in any of the segments."""
        entities: list[int] = []
        for entity, places in enumerate(self.memory.places):
            if not set(segments).isdisjoint(places):
                entities.append(entity)
        return entities

    def record_new(
        self,
        segments: Sequence[int],
        scores: Mapping[int, float] | None = None,
        leading_entities: Sequence[int] = (),
    ) -> None:
        """Add a step for each segment that is read from now on.

        Args:
            segments: The numbers of the segments.
            scores: Segment -> its similarity, where there is one.
            leading_entities: The entities that led there, if any did.
        """
        for segment in segments:
            similarity: dict[str, float] = {}
            if scores is not None:
                similarity["similarity"] = scores[segment]
            names = [
                self.memory.names[entity]
                for entity in leading_entities
                if segment in self.memory.places[entity]
            ]
            note = ""
            if names:
                note = f"through {', '.join(names)}"
            shown = Shown("span", self.document.id, *self.memory.segments[segment])
            self.record_step(
                "segment",
                segment,
                similarity,
                tokens=self.tokens_of_segment[segment],
                shown=shown,
                note=note,
            )

    def record_dropped(self, segments: Sequence[int], why: str) -> None:
        """Add a step for each segment that is read no longer.

        Args:
            segments: The numbers of the segments.
            why: The note of these steps.
        """
        for segment in segments:
            self.record_step("leave", scores={"segment": segment}, note=why)

    def ask(self, segments: list[int]) -> str | SearchEnd:
        """Ask the question over segments; also adds a step "ask".

        Returns:
            Why the segments do not answer; the SearchEnd where they do, or where no reply could be
            parsed.
        """
        request = self.requests.ask(
            [self.texts[segment] for segment in segments], self.tools.task.instruction
        )
        response: ParsedReply[replies.Verdict] = self.ask_parsed(
            self.model, request, self.max_reply_tokens, replies.parse_verdict
        )
        verdict = response.parsed
        scores: dict[str, float] = {"replies": response.replies}
        reason = NOT_PARSED
        if verdict is not None:
            scores = {"answers": float(verdict.answer is not None), **scores}
            reason = verdict.reason
        note = "; ".join([*response.notes, reason])
        self.record_step("ask", scores=scores, tokens=response.prompt_tokens, note=note)
        if verdict is None:
            return SearchEnd(segments, NOT_PARSED)
        if verdict.answer is None:
            return reason
        return SearchEnd(
            segments, reason="answered", answer=self._first_answer_tokens(verdict.answer)
        )

    def _first_answer_tokens(self, answer: str) -> str:
        """An answer cut at the task's limit of tokens, which is not empty."""
        offsets = self.model.offsets(answer)[: self.tools.task.max_answer_tokens]
        return answer[: offsets[-1][1]].strip()

    def ask_parsed(
        self,
        model: MeteredModel,
        request: Sequence[str],
        max_reply_tokens: int,
        parse: Callable[[str], T | None],
    ) -> ParsedReply[T]:
        """Ask until the reply can be parsed, as often as the config allows.

        Args:
            model: The model.
            request: The prompt.
            max_reply_tokens: Tokens of a reply at most.
            parse: Reads a reply; None for one that it does not understand.
        """
        return ask_parsed(
            model, request, max_reply_tokens, parse, retry_of(self.config, self.tools.seed)
        )

    def answer_from(self, segments: Sequence[int], reason: str) -> Answer:
        """Answer from segments with the prompt that all methods share.

        Also changes `_answer_flops`, as the FLOPs of the answer belong to no step, and `_answers`,
        which stores the answer, so that `record_answer` does not ask again.

        Args:
            segments: The numbers of the segments.
            reason: Why the search stopped.
        """
        flops_before = self.tools.meter.flops()
        request = reading.Reading(self.tools.task, window=self.config.window, config=self.config)
        texts = [self.texts[segment] for segment in segments]
        try:
            text = reading.ask(self.question, texts, self.tools, self.model, request)
        finally:
            answer_flops = self.tools.meter.flops() - flops_before
            self._answer_flops += answer_flops
        self._answers[tuple(segments)] = text, answer_flops
        if not segments:
            reason = f"{reason}: no text fits"
        return self.answer(text, segments, reason)

    def mark_updates(self, updates: int, *, ended: bool) -> None:
        """Note in the last step how many updates of the entity set were made, and whether the
        search ended by itself."""
        last_step = self.steps[-1]
        scores = {**last_step.scores, "updates": float(updates)}
        if ended:
            scores["ended"] = 1.0
        self.steps[-1] = replace(last_step, scores=scores)

    def record_answer(self, segments: Sequence[int], answer: str | None = None) -> None:
        """Add to the last step what would be answered there, and the FLOPs of that.

        Where this fails, a step that says so is added instead.

        Args:
            segments: The segments that would be read.
            answer: The answer, where a verdict gave one; None: the question is asked, unless it was
                asked over these segments before.
        """
        last_number = len(self.steps) - 1
        answer_flops = Flops()
        if answer is None:
            try:
                with self.tools.phase("study"):
                    if tuple(segments) not in self._answers:
                        self.answer_from(segments, "recorded")  # stores it in `_answers`
            except QuestionError as error:
                self.record_step("stop", note=f"not recorded: {error}")
                return
            answer, answer_flops = self._answers[tuple(segments)]
        self.steps[last_number] = replace(
            self.steps[last_number], answer=answer, answer_flops=answer_flops
        )

    def answer(self, text: str, segments: Sequence[int], reason: str) -> Answer:
        """The Answer that the method returns.

        Args:
            text: The answer.
            segments: The segments that it was read from.
            reason: Why the search stopped.
        """
        shown = tuple(
            Shown("span", self.document.id, *self.memory.segments[segment]) for segment in segments
        )
        return Answer(text, shown, reason, tuple(self.steps))

    def record_step(
        self,
        action: str,
        node: int | None = None,
        scores: Mapping[str, float] | None = None,
        tokens: int = 0,
        shown: Shown | None = None,
        note: str = "",
    ) -> None:
        """Add one move to the steps of the trace, with the FLOPs so far but for those of answers.

        Args:
            action: What was done, in a word; past the run's own stop the step is called "study",
                and this word begins its note.
            node: A segment's number for "segment", an entity's for "expand".
            scores: Its numbers by name.
            tokens: Tokens of what was read.
            shown: What the reader sees from now on.
            note: A sentence on it.
        """
        numbers = {name: float(score) for name, score in (scores or {}).items()}
        flops = self.tools.meter.flops() - self._answer_flops
        if self.is_past_own_stop:
            note = ": ".join(filter(None, [action, note]))
            action = "study"
        self.steps.append(
            Step(action, node, scores=numbers, tokens=tokens, flops=flops, shown=shown, note=note)
        )


MAX_TRIALS = "max trials"


@dataclass(frozen=True)
class SearchEnd:
    """How a search ends by itself: the segments read, why, and the answer of the verdict, if
    any."""

    segments: list[int]
    reason: str
    answer: str | None = None


Moves = Generator[list[int], None, SearchEnd]


def run_search(search: SearchState, moves: Moves) -> Answer:
    """Search with the moves of a navigation, and answer after `max_trials` updates, or where the
    navigation ends before.

    A move of the navigation is the segments read so far, or the SearchEnd. With record_stops the
    answers of all other maxima are recorded in the steps.

    Args:
        search: The search.
        moves: The navigation.
    """
    segments: list[int] = []
    for updates in range(search.config.max_trials + 1):
        move = _next_move(moves)
        search.mark_updates(updates, ended=isinstance(move, SearchEnd))
        if isinstance(move, SearchEnd):
            if move.answer is not None:
                return search.answer(move.answer, move.segments, move.reason)
            return search.answer_from(move.segments, move.reason)
        segments = move
        if updates < search.config.max_trials and search.config.record_stops is not None:
            search.record_answer(segments)
    answer_at_maximum = search.answer_from(segments, MAX_TRIALS)
    if (search.config.record_stops or 0) > search.config.max_trials:
        _record_later_stops(search, moves)
    return replace(answer_at_maximum, steps=tuple(search.steps))


def _next_move(moves: Moves) -> list[int] | SearchEnd:
    """The segments that a navigation yields next, or the SearchEnd that it returns."""
    try:
        return next(moves)
    except StopIteration as ended:
        end: SearchEnd = ended.value
        return end


def _record_later_stops(search: SearchState, moves: Moves) -> None:
    """Search on past the own stop, and record the answer after each update, up to `record_stops` of
    them."""
    search.is_past_own_stop = True
    first_count = search.config.max_trials + 1
    last_count = search.config.record_stops or 0
    with search.tools.phase("study"):
        for updates in range(first_count, last_count + 1):
            try:
                move = _next_move(moves)
            except QuestionError as error:
                search.record_step("stop", note=f"recording ends: {error}")
                return
            search.mark_updates(updates, ended=isinstance(move, SearchEnd))
            if isinstance(move, SearchEnd):
                search.record_answer(move.segments, move.answer)
                return
            search.record_answer(move)


def replay(steps: Sequence[StoredStep], max_trials: int) -> int | None:
    """Find where a search with fewer or more trials would have ended.

    A search with fewer trials is the beginning of the same search, and one that ended by itself
    ends so under every larger maximum. The last step of each trial has the score "updates", how
    many updates were made by then, and "ended" where the search ended there by itself.

    Args:
        steps: The steps of a record.
        max_trials: The most updates of the entity set.

    Returns:
        The place of the last step in `steps`; None where the search was not recorded that far.
    """
    last_step_of_updates: dict[int, int] = {}
    for number, step in enumerate(steps):
        scores = step.get("scores") or {}
        if "updates" in scores:
            last_step_of_updates[int(scores["updates"])] = number
    if max_trials in last_step_of_updates:
        return last_step_of_updates[max_trials]
    most_updates = max(last_step_of_updates, default=max_trials)
    if max_trials <= most_updates:
        return None
    number = last_step_of_updates[most_updates]
    if "ended" not in steps[number]["scores"]:
        return None
    return number
