"""What another stop rule would have answered in a recorded search (--record-stops), and at what
cost.

    recorded = recorded_rule(run, Rule)             -> Recorded(own_rule, furthest_rule, method)
    recorded.stop(record, Rule(t_n=3, t_p=0.5))     -> Stop(step=4, is_own_stop=False, answer="Rome", ...)
    score_stops(run, recorded, rules, ...)          -> the scores of all answers that the rules need

Where a rule stops is the method's to say (ReplaysSearches, reached by the name in the run's
configuration); what was answered there and what it cost stands in the record's steps. Nothing is
guessed beyond the end of a recording.

A recorded answer has no score yet: the gold answers are those of the records, or of the data set
where these hold none, and the scorer that scored the run judges it. No model is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import ClassVar, Generic, TypeVar

from harness import scorers
from harness.config import registry
from harness.config.schema import DatasetConfig
from harness.config.yaml_tree import part_of_run
from harness.cost.flops import DEFAULT_CONVENTION
from harness.engine.scoring import score_reply
from harness.errors import UserError
from harness.method import Method
from harness.method.abilities import ReplaysSearches
from harness.storage.records import StoredPiece, StoredRecord, StoredStep, parse_shown
from harness.storage.run_folder import StoredRun
from reports import facts
from reports.costs import question_flops, stop_flops
from reports.gold_rows import read_rows
from reports.search_steps import STUDY_ACTION
from reports.table_cell import Row

Key = tuple[str, int]
"""A question's id and the step that it was stopped at."""


@dataclass(frozen=True, slots=True, order=True)
class Rule:
    """Stop at the `t_n`-th probe with p_yes above `t_p`; None: at the t_n-th whose likeliest token
    is Yes."""

    t_n: int
    t_p: float | None

    NEEDED: ClassVar[bool] = False
    """Whether a search that never asked has no stop."""

    def __str__(self) -> str:
        if self.t_p is None:
            return f"t_n = {self.t_n}, greedy"
        return f"t_n = {self.t_n}, t_p = {self.t_p:g}"

    @staticmethod
    def may_stop_after(step: StoredStep) -> bool:
        """Whether the search was asked after this step whether to stop: the step has a P(Yes)."""
        return step.get("p_yes") is not None

    @staticmethod
    def shown_after(steps: Sequence[StoredStep]) -> list[StoredPiece]:
        """The pieces that the reader had seen after these steps, as a record's `shown` holds
        them."""
        shown_spans: list[StoredPiece] = []
        for step in steps:
            piece = step.get("shown")
            if piece:
                shown_spans += _source_spans(piece)
        return shown_spans

    def columns(self) -> Row:
        """The rule as columns of a table: {"t_n": 3, "t_p": 0.5, "rule": "threshold"}."""
        kind = "threshold"
        if self.t_p is None:
            kind = "greedy"
        return {"t_n": self.t_n, "t_p": self.t_p, "rule": kind}

    def uncovered(
        self, furthest_rule: Rule, n_short: int, n_broken: int, n_questions: int
    ) -> list[str]:
        """Sentences on why the rule has no row in a table.

        Args:
            furthest_rule: The furthest rule that was recorded.
            n_short: The number of questions whose search did not go as far as this rule.
            n_broken: The number of these that an error ended.
            n_questions: The number of all questions of the run.
        """
        notes = []
        if n_broken:
            notes.append(
                f"not covered: an error ended the recording before {self} in {n_broken} of "
                f"{n_questions} questions"
            )
        if n_short > n_broken:
            needed_options = f"--record-stops {max(self.t_n, furthest_rule.t_n)}"
            if self.t_p is not None and furthest_rule.t_p is not None:
                needed_options += f" --record-t-p {max(self.t_p, furthest_rule.t_p):g}"
            what_is_missing = (
                f"{self} would have searched on in {n_short - n_broken} of {n_questions} questions"
            )
            notes.append(f"not covered: {what_is_missing}; run it with {needed_options}")
        return notes


@dataclass(frozen=True, slots=True, order=True)
class Trials:
    """Stop after at most `max_trials` updates of the entity set (QRMeM).

    updates   0    1    2 │ 3      of the entity set
    answer    a    b   own│ c      max_trials = 2, recorded up to 3: one run holds maxima 0 to 3
    """

    max_trials: int

    NEEDED: ClassVar[bool] = True

    @staticmethod
    def may_stop_after(step: StoredStep) -> bool:
        """Whether this step ends a trial, after which the search may stop: it notes how many updates
        there were so far."""
        return "updates" in (step.get("scores") or {})

    @staticmethod
    def shown_after(steps: Sequence[StoredStep]) -> list[StoredPiece]:
        """The pieces that the reader had seen after these steps: segments that were added and did
        not leave again, by their number.

        A step that shows a node adds it; one with the score "segment" removes that one.
        """
        piece_by_number: dict[int, StoredPiece] = {}
        for step in steps:
            piece = step.get("shown")
            node = step.get("node")
            if piece is not None and node is not None:
                piece_by_number[node] = piece
            elif "segment" in step["scores"]:
                removed_number = int(step["scores"]["segment"])
                piece_by_number.pop(removed_number, None)
        shown_spans: list[StoredPiece] = []
        for number in sorted(piece_by_number):
            shown_spans += _source_spans(piece_by_number[number])
        return shown_spans

    def columns(self) -> Row:
        """The rule as a column of a table: {"trials": 2}."""
        return {"trials": self.max_trials}

    def uncovered(
        self, furthest_rule: Trials, n_short: int, _n_broken: int, n_questions: int
    ) -> list[str]:
        """One sentence on why the rule has no row in a table.

        Args:
            furthest_rule: The furthest rule that was recorded.
            n_short: The number of questions whose search did not go as far as this rule.
            _n_broken: The number of these that an error ended; this rule does not tell them apart.
            n_questions: The number of all questions of the run.
        """
        missing = (
            f"what {n_short} of {n_questions} questions answer after {self.max_trials} updates was "
            "not recorded"
        )
        needed_stops = max(self.max_trials, furthest_rule.max_trials, 1)
        return [f"not covered: {missing}; run it with --record-stops {needed_stops}"]


R = TypeVar("R", Rule, Trials)
"""A kind of stop rule."""


def _source_spans(shown: StoredPiece) -> list[StoredPiece]:
    """A step's `shown` as a list of spans; text over several documents, which is stored by its
    sources, becomes a span for each source."""
    if shown["kind"] != "span" or shown["document_id"] or not shown["sources"]:
        return [shown]
    spans: list[StoredPiece] = []
    for document, start, end in shown["sources"]:
        span = shown.copy()
        span["document_id"] = document
        span["start"] = start
        span["end"] = end
        span["sources"] = []
        spans.append(span)
    return spans


@dataclass(frozen=True, slots=True)
class Stop:
    """Where a rule stops in one question, and what was answered there."""

    step: int
    """Place in the record's steps; -1 for a search without probes."""
    is_own_stop: bool
    """Whether it is the stop of the run itself."""
    answer: str
    flops: float | None
    """Of search and answer under one convention; None where they are unknown."""

    def steps(self, record: StoredRecord) -> list[StoredStep]:
        """The steps of the record up to and with this stop; all of them for a search without
        probes."""
        if self.step < 0:
            return list(record.steps)
        return list(record.steps[: self.step + 1])


@dataclass(frozen=True)
class Recorded(Generic[R]):
    """What a run recorded of stop rules of one kind.

    Args:
        own_rule: The rule by which the run itself stopped.
        furthest_rule: The furthest rule that it recorded; equal to `own_rule` where it recorded no
            other.
        method: The run's method, which finds the stop of a rule in the steps of a record.
    """

    own_rule: R
    furthest_rule: R
    method: ReplaysSearches = field(compare=False)

    def stop(
        self, record: StoredRecord, rule: R, convention: str = DEFAULT_CONVENTION
    ) -> Stop | None:
        """Where a search would have stopped by a rule, and what it would have answered there.

        Args:
            record: The record of the question, which was answered.
            rule: The stop rule.
            convention: How FLOPs are counted.

        Returns:
            The stop; None where the record does not hold it.
        """
        own_index = own_stop_index(record, type(rule))
        if own_index < 0 and rule.NEEDED:  # no step after which such a search may stop
            return None
        index: int | None = own_index
        if rule != self.own_rule:
            index = self.method.replay(record.steps, **asdict(rule))
        if index is None:  # it would have searched on
            return None
        if index == own_index:
            return Stop(
                index,
                is_own_stop=True,
                answer=record.prediction,
                flops=question_flops(record, convention),
            )
        step = record.steps[index]
        if step.get("answer") is None:
            return None
        flops = None
        some_were_not_counted = any(usage.get("uncounted") for usage in record.usage.values())
        if not some_were_not_counted:
            flops = stop_flops(step, convention)
        return Stop(index, is_own_stop=False, answer=str(step["answer"]), flops=flops)


def own_stop_index(record: StoredRecord, rule: type[Rule | Trials] = Rule) -> int:
    """The place in the record's steps at which the run itself stopped.

    Args:
        record: The record.
        rule: The kind of its stop rule, which tells the steps after which a search may stop.

    Returns:
        The place, from 0; -1 where no step is one after which it may stop.
    """
    own_index = -1
    for index, step in enumerate(record.steps):
        if rule.may_stop_after(step) and step["action"] != STUDY_ACTION:
            own_index = index
    return own_index


def recorded_rule(run: StoredRun, kind: type[R]) -> Recorded[R] | None:
    """The stop rule of a run, and the furthest one that it recorded; None where it has no rule of
    this kind.

    Code is imported only where the stored parameters and steps fit `kind`.

    Args:
        run: A stored run.
        kind: The kind of rule.

    Raises:
        UserError: The method cannot be imported, or its parameters are not valid.
    """
    choice = run.config.method
    params = choice.params
    parameter_names = {parameter.name for parameter in fields(kind)}
    has_parameters = all(isinstance(params.get(name), int | float) for name in parameter_names)
    if not has_parameters:
        return None
    has_such_steps = any(_asked_whether_to_stop(record, kind) for record in run.records)
    if not has_such_steps:
        return None
    method: type[Method] = registry.load(registry.short_name(str(choice.implementation)), Method)
    # An older version may have had parameters that this one lacks.
    accepted_names = method.Config.model_fields
    known_params = {name: value for name, value in params.items() if name in accepted_names}
    replayer = method(part_of_run(method.Config, known_params, str(run.path)))
    if not isinstance(replayer, ReplaysSearches):
        return None
    rule = replayer.stop_rule()
    furthest_rule = replayer.recorded_rule()
    # Its parameters may have these names, and it replays another rule or none.
    if rule.keys() != parameter_names:
        return None
    return Recorded(kind(**rule), kind(**furthest_rule), replayer)


def _asked_whether_to_stop(record: StoredRecord, kind: type[Rule | Trials]) -> bool:
    """Whether a step of the record is one after which a search asks whether to stop."""
    return any(kind.may_stop_after(step) for step in record.steps)


def runs_with_rule(
    runs: Sequence[StoredRun], kind: type[R], warn: Callable[[str], None]
) -> list[tuple[StoredRun, Recorded[R]]]:
    """The runs with such a stop rule, each with its own and its furthest recorded rule.

    Args:
        runs: Stored runs.
        kind: The kind of rule.
        warn: Gets a sentence for each run that is left out, as its method cannot be loaded.
    """
    pairs = []
    for run in runs:
        try:
            recorded = recorded_rule(run, kind)
        except UserError as error:
            warn(f"warning: left out: {run.path}: {error}")
            continue
        if recorded is not None:
            pairs.append((run, recorded))
    return pairs


@dataclass(frozen=True)
class Scored(Generic[R]):
    """A run with the scores of the answers at its stops.

    Args:
        run: The run.
        recorded: Its own rule and the furthest one that it recorded.
        rules: The rules to show.
        values: (question id, step) -> score of the answer there, of `stops_to_score`; None where a
            scorer left an answer out.
    """

    run: StoredRun
    recorded: Recorded[R]
    rules: Sequence[R]
    values: Mapping[Key, float | None]


def stops_to_score(
    run: StoredRun, recorded_rules: Recorded[R], rules: Sequence[R]
) -> dict[Key, Stop]:
    """The stops whose answers have no score yet: those of rules other than the run's own.

    Args:
        run: A stored run.
        recorded_rules: Its own rule and the furthest one that it recorded.
        rules: The rules to show.

    Returns:
        (question id, step) -> the stop there.
    """
    stops: dict[Key, Stop] = {}
    for record in run.records:
        if record.error is not None:
            continue
        for rule in rules:
            stop = recorded_rules.stop(record, rule)
            if stop is not None and not stop.is_own_stop:
                stops[record.question_id, stop.step] = stop
    return stops


def score_stops(
    run: StoredRun,
    recorded_rules: Recorded[R],
    rules: Sequence[R],
    score: str | None,
    data: str | None,
) -> Scored[R]:
    """Score every answer that the rules need and that has no score yet.

    Args:
        run: A stored run.
        recorded_rules: Its own rule and the furthest one that it recorded.
        rules: The rules to show.
        score: Name of a score; by default the run's headline.
        data: The file of the data set's rows; None for the place that the run names.

    Raises:
        UserError: The gold answers or the scorer's version are not the run's.
        UnknownName: The run does not have the score.
    """
    score_name = score or facts.headline_score(run)
    facts.score_values(run, score_name)  # raises UnknownName where the run lacks it
    record_by_question = {record.question_id: record for record in run.records}
    answers = {}
    for key, stop in stops_to_score(run, recorded_rules, rules).items():
        question_id, _ = key
        steps = stop.steps(record_by_question[question_id])
        shown = recorded_rules.own_rule.shown_after(steps)
        answers[key] = ReplayedAnswer(stop.answer, shown)
    score_by_key: dict[Key, float | None] = {}
    if answers:
        score_by_key = score_answers(run, answers, score_name, data)
    return Scored(run, recorded_rules, rules, score_by_key)


@dataclass(frozen=True)
class ReplayedAnswer:
    """An answer at a stop, and the pieces that its reader had seen, as a record's `shown` holds
    them."""

    text: str
    shown: Sequence[StoredPiece]


def score_answers(
    run: StoredRun, answers: Mapping[Key, ReplayedAnswer], score_name: str, data: str | None
) -> dict[Key, float | None]:
    """Score answers as the run was scored.

    Args:
        run: The run that they are of.
        answers: (question id, step) -> the answer there.
        score_name: Name of the score.
        data: The file of the data set's rows; None for the place that the run names.

    Returns:
        (question id, step) -> score; None where the scorer left the answer out.

    Raises:
        UserError: The gold answers or the scorer's version are not the run's.
    """
    version_of_run = facts.scorer_version(run, score_name)
    version_here = scorers.version(score_name)
    if version_of_run != version_here:
        raise UserError(
            f"{run.path} was scored with version {version_of_run} of {score_name}, this is version "
            f"{version_here}; score it again first: harness score {run.path}"
        )
    rows = read_rows(run, data=data)
    if rows.problem is not None:
        raise UserError(
            f"recorded answers cannot be scored: {rows.problem}; name the file of the rows with "
            "--data"
        )
    config = part_of_run(DatasetConfig, run.config.dataset.to_json(), str(run.path))
    config = config.model_copy(update={"scorers": (score_name,)})
    score_by_key: dict[Key, float | None] = {}
    for (question_id, step), answer in answers.items():
        if question_id not in rows.examples:
            raise UserError(
                f"question '{question_id}' of {run.path} is not in the data set any more"
            )
        shown = [parse_shown(piece) for piece in answer.shown]
        scored = score_reply(config, answer.text, shown, rows.examples[question_id].gold)
        score_by_key[question_id, step] = scored.scores.get(score_name)
    return score_by_key
