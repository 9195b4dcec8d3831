"""Forecast of what a run has still to spend, extrapolated from what it has answered; else unknown.

    forecast(plan, Path("results"))
        -> Forecast("bm25", "musique", questions=24, done=10, tokens=7.8e3, tflops=0.08, money=None,
                    hours=0.02, how="the mean of 10 answered questions")

A run without an answer has no forecast: three questions of it would tell (`--limit 3`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from harness.cost.flops import DEFAULT_CONVENTION
from harness.cost.prices import Prices, money_spent
from harness.cost.usage import Usage, sum_phases, tokens_of
from harness.engine.plan import PlannedRun
from harness.errors import call_noting_problem
from harness.storage.records import StoredRecord
from harness.storage.run_folder import StoredRun, read_run
from harness.types import Question

NOTHING_ANSWERED = "no question is answered yet"


@dataclass(frozen=True, slots=True)
class Forecast:
    """What one run has still to spend; None where that is unknown.

    Attributes:
        method: The method, with its point of a sweep: "bm25 k=3".
        dataset: The data set's name.
        questions: How many the run asks, 0 if unknown.
        done: How many of these are recorded.
        tokens: Tokens that the questions left will read and write, with their indexes.
        tflops: TFLOPs of the questions left and their indexes.
        money: What these cost in the currency of the prices.
        hours: How long these take.
        how: From what these four were extrapolated, or why they are unknown.
    """

    method: str
    dataset: str
    questions: int
    done: int
    tokens: float | None = None
    tflops: float | None = None
    money: float | None = None
    hours: float | None = None
    how: str = ""


def forecast(plan: PlannedRun, out: Path, convention: str = DEFAULT_CONVENTION) -> Forecast:
    """Predict what the questions of `plan` that are not recorded yet will cost: by the mean cost of
    those that the run has answered (`_extrapolate`), 0 where every question is recorded. Without
    the rows or an answered question, the costs are None and `how` says why.

    Args:
        plan: The run; its models are not loaded.
        out: The results folder; only the run's own folder is read.
        convention: How FLOPs are counted (harness/cost/flops.py).
    """
    questions = [example.question for example in plan.dataset.examples[: plan.config.limit]]
    without_costs = Forecast(plan.method_name, plan.config.dataset.name, len(questions), done=0)
    if not questions:
        return replace(without_costs, questions=plan.n_questions, how="the rows are not here")
    stored = call_noting_problem([], read_run, out / plan.folder)  # None also for a damaged one
    if stored is None:
        return replace(without_costs, how=NOTHING_ANSWERED)
    recorded_ids = {record.question_id for record in stored.records}
    n_left = len([question for question in questions if question.id not in recorded_ids])
    without_costs = replace(without_costs, done=len(questions) - n_left)
    if not n_left:
        return replace(
            without_costs,
            tokens=0.0,
            tflops=0.0,
            money=0.0,
            hours=0.0,
            how="every question is stored",
        )
    n_indexes = _count_indexes(plan, questions)
    return _extrapolate(without_costs, stored, n_left, n_indexes, convention)


def _extrapolate(
    without_costs: Forecast, stored: StoredRun, n_left: int, n_indexes: int, convention: str
) -> Forecast:
    """A forecast with its costs: for each question left the mean cost of an answered one, and for
    each index that is not built yet the mean cost of the built ones. Hours are those that the
    answers took, indexes included, divided by how many were in flight. Without an answered question
    the costs stay None.

    Args:
        without_costs: The forecast so far.
        stored: The run, with its answered questions and its indexes.
        n_left: How many questions are still to be asked.
        n_indexes: How many indexes all questions need.
        convention: How FLOPs are counted.
    """
    answered = [record for record in stored.records if record.error is None]
    if not answered:
        return replace(without_costs, how=NOTHING_ANSWERED)
    how = "the mean of 1 answered question"
    if len(answered) > 1:
        how = f"the mean of {len(answered)} answered questions"
    index_usages = [line.usage for line in stored.index_lines if not line.failed]
    n_indexes_left = max(n_indexes - len(index_usages), 0)
    spending = Extrapolated(stored.prices, convention)
    spending.add([record.usage for record in answered], n_left)
    spending.add(index_usages, n_indexes_left)
    return replace(
        without_costs,
        tokens=spending.tokens,
        tflops=spending.known_tflops,
        money=spending.known_money,
        hours=_hours(stored, answered, n_left),
        how=how,
    )


@dataclass
class Extrapolated:
    """What is still to be spent, summed over questions and indexes.

    Attributes:
        prices: The prices of the run's models.
        convention: The convention by which FLOPs are counted.
        tokens: The sum so far.
        flops: The sum so far.
        money: The sum so far.
        has_uncounted_flops: Whether FLOPs of a part are not known.
        has_unknown_price: Whether nobody said what a part costs.
    """

    prices: Prices
    convention: str
    tokens: float = 0.0
    flops: float = 0.0
    money: float = 0.0
    has_uncounted_flops: bool = False
    has_unknown_price: bool = field(init=False)

    def __post_init__(self) -> None:
        """Begin without money where the reader has no price."""
        self.has_unknown_price = self.prices.of_role("reader") is None

    @property
    def known_tflops(self) -> float | None:
        """TFLOPs; None where those of a part are not known."""
        if self.has_uncounted_flops:
            return None
        return self.flops / 1e12

    @property
    def known_money(self) -> float | None:
        """Money; None where nobody said what a part costs."""
        if self.has_unknown_price:
            return None
        return self.money

    def add(self, usages: Sequence[Usage], n_to_pay: int) -> None:
        """Add what `n_to_pay` questions or indexes will cost, each the mean of `usages`, to the
        sums. Where there are no usages, nothing is added. Also notes where FLOPs of the usages were
        not counted, or nobody said a price.

        Args:
            usages: What some of them have cost, by phase.
            n_to_pay: How many are still to be paid for.
        """
        if not usages:
            return
        spent = sum_phases(usages)
        factor = n_to_pay / len(usages)
        self.tokens += tokens_of(spent) * factor
        self.flops += spent.get("flops", {}).get(self.convention, 0.0) * factor
        self.has_uncounted_flops |= bool(spent.get("uncounted"))
        paid = money_spent(spent, self.prices)
        if paid is None:
            self.has_unknown_price = True
        else:
            self.money += paid * factor


def _count_indexes(plan: PlannedRun, questions: Sequence[Question]) -> int:
    """How many different indexes the questions need: one for each document, or for all documents
    of a question together; where the method's scope is "question", each question has its own. 0
    for a method that builds none."""
    if not plan.builds_indexes:
        return 0
    indexes: set[tuple[str, ...]] = set()  # each named by its documents, and by its question
    for question in questions:
        # A document that is not in the data set is refused when the run begins.
        ids = [each for each in question.document_ids if each in plan.dataset.documents]
        owner: tuple[str, ...] = ()  # all questions share the index
        if plan.method.scope == "question":
            owner = (question.id,)
        if plan.method.traits.one_document:
            indexes.add((*ids, *owner))
        else:
            indexes.update((document_id, *owner) for document_id in ids)
    return len(indexes)


def _hours(stored: StoredRun, answered: Sequence[StoredRecord], n_left: int) -> float | None:
    """Hours that the questions left take at the pace of the answered ones; None where no time is
    stored.

    Args:
        stored: The run.
        answered: Its answered questions.
        n_left: How many are to be asked.
    """
    if not stored.manifest.starts:
        return None
    seconds = 0.0
    for record in answered:
        if record.seconds is None:
            return None
        seconds += record.seconds
    in_flight = stored.manifest.last_start.parallel or 1  # None where it was not recorded
    return seconds / len(answered) / in_flight * n_left / 3600
