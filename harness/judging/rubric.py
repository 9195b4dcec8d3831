"""Published judges that ask for each item of a question's rubric: BEAM's (Tavakoli et al. 2026;
compute_metrics.py of its authors).

    rubric   ["LLM response should state: May 9"]     one request an item, whose reply rates it 0, 0.5 or 1
    answer   "It ends on May 9."                      -> 1 of 1

The score of an answer is the mean over the items, with halves counted as 0, as the program makes a
whole number of each rating. For orders of events (the prompt "order" of Gold.extra) the items are
the events in their order and each line of the answer is an event:

    rubric   ["plan", "build", "sell"]                answer   "build\\nplan"
    same     "build" is "build", "plan" is "plan"     -> tau between the two orders, from -1..1 to 0..1

A line is the first event, of those that no earlier line is, that a request calls the same; lines
without one and events without one are tied at the end. Precision, recall and F1 of the lines, F1
times the score, and the mean of the items, with halves here, stand in the details. Otherwise than
there: a reply without a rating from 0 to 1 gives no score, where the program stops; lines that have
no order, as one that is repeated, have 0, where it is not a number.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isnan

from harness.judging.kinds import YES, VersionedPrompt
from harness.judging.model_judge import Case
from harness.judging.published import PublishedPrompts
from harness.judging.stepwise import Ask, Outcome, Steps, UnreadableReply

RUBRIC_STEPS = "rubric"
_RATING = re.compile(r"""[{,]\s*["']?score["']?\s*:\s*["']?(\d+(?:\.\d+)?)""")


def read_item_rating(reply: str) -> float:
    """Read the rating in a reply about one item, from 0 to 1.

    >>> read_item_rating('{"score": 0.5, "reason": "The month is missing."}')
    0.5

    Raises:
        UnreadableReply: There is none.
    """
    match = _RATING.search(reply)
    if match is None or float(match[1]) > 1:
        raise UnreadableReply(reply)
    return float(match[1])


@dataclass(frozen=True)
class Order:
    """How the lines of an answer compare with events in their order.

    Attributes:
        precision: The share of lines that are an event.
        recall: The share of events that a line is.
        tau: Kendall's tau-b of the two orders, from 0 to 1; nan where all ranks of one are equal.
    """

    precision: float
    recall: float
    tau: float

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        if not self.precision + self.recall:
            return 0.0
        return 2 * self.precision * self.recall / (self.precision + self.recall)

    def details(self) -> str:
        """All values on one line, for the details of a judgement."""
        return (
            f"precision {self.precision:.4g}, recall {self.recall:.4g}, F1 {self.f1:.4g}, "
            f"tau {self.tau:.4g}, F1 times tau {self.f1 * self.tau:.4g}"
        )


def align(
    events: Sequence[str], lines: Sequence[str], is_same: Callable[[str, str], bool]
) -> list[str]:
    """Replace each line of an answer that is an event by that event; other lines stay.

    Each event stands for one line only, the first that it is the same as.

    Args:
        events: The events in their order.
        lines: The lines of the answer.
        is_same: Called with (event, line): whether they are the same event.
    """
    aligned = []
    used_events: set[int] = set()
    for line in lines:
        aligned_line = line
        for index, event in enumerate(events):
            if index not in used_events and is_same(event, line):
                used_events.add(index)
                aligned_line = event
                break
        aligned.append(aligned_line)
    return aligned


def compare_orders(events: Sequence[str], lines: Sequence[str]) -> Order:
    """Compare the lines of an answer, in which events stand by their own text (`align`), with the
    events in their order, as `event_ordering_score` of BEAM's code does.

    Precision is the share of lines that are an event, recall the share of events that are a line,
    tau Kendall's tau-b of the two orders, brought from -1..1 to 0..1.

    >>> compare_orders(["plan", "build", "sell"], ["build", "plan"])
    Order(precision=1.0, recall=0.6666666666666666, tau=0.6666666666666667)
    """
    from scipy.stats import kendalltau

    matched = set(events) & set(lines)
    n_lines_without_event = 0
    for line in lines:
        if line not in matched:
            n_lines_without_event += 1
    n_events_without_line = 0
    for event in events:
        if event not in matched:
            n_events_without_line += 1
    all_names = list(dict.fromkeys([*events, *lines]))
    kendall = kendalltau(_ranks(events, all_names), _ranks(lines, all_names), variant="b")
    return Order(
        precision=len(matched) / (len(matched) + n_lines_without_event),
        recall=len(matched) / (len(matched) + n_events_without_line),
        tau=float(kendall.statistic + 1) / 2,
    )


def _ranks(order: Sequence[str], all_names: Sequence[str]) -> list[int]:
    """The rank of each of `all_names` in an order, from 1: (["b", "a"], ["a", "b", "c"]) ->
    [2, 1, 4].

    Names that are not in the order, as "c", share a rank after all others. A name that stands twice
    in the order has its last rank.

    Args:
        order: Names in their order.
        all_names: The names whose ranks are wanted.
    """
    rank_of = {name: rank for rank, name in enumerate(order, start=1)}
    after_all = len(all_names) + 1
    return [rank_of.get(name, after_all) for name in all_names]


@dataclass(frozen=True)
class _Asker:
    """Asks the requests about one answer with the published prompts.

    Attributes:
        published: The prompts.
        ask: Asks the judge.
    """

    published: PublishedPrompts
    ask: Ask

    def _prompt(self, kind: str) -> VersionedPrompt:
        """The published prompt of a kind ("item", "same_event"), with the version of its file."""
        return VersionedPrompt(self.published.prompts[kind], self.published.version)

    def rate(self, case: Case) -> list[float]:
        """Ask for a rating, from 0 to 1, of each item of the case's rubric. Raises
        UnreadableReply.
        """
        ratings = []
        for item in case.rubric:
            reply = self.ask(self._prompt("item"), item=[item], answer=[case.answer])
            ratings.append(read_item_rating(reply))
        return ratings

    def is_same(self, event: str, line: str) -> bool:
        """Ask whether a line of an answer is the same as an event; it is where
        "yes" stands anywhere in the reply.
        """
        reply = self.ask(self._prompt("same_event"), first=[event], second=[line])
        return YES in reply.lower()


def rubric_steps(published: PublishedPrompts) -> Steps:
    """Make the function that judges an answer by its rubric, asking the judge with the published
    prompts.
    """

    def judge_answer(case: Case, ask: Ask) -> Outcome:
        """Judge an answer by its events in order where the case's
        prompt says so, else item by item.
        """
        asker = _Asker(published, ask)
        if case.prompt == "order":
            return _judge_order(case, asker)
        return _judge_items(case, asker)

    return judge_answer


def _judge_items(case: Case, asker: _Asker) -> Outcome:
    """Score an answer by the share of its rubric's items that are rated 1; less counts as 0, as in
    BEAM's code.
    """
    ratings = asker.rate(case)
    n_complied = sum(map(int, ratings))  # int(0.5) is 0
    verdict = f"{n_complied} of {len(ratings)}"
    return Outcome(verdict, score=n_complied / len(ratings), details=_rating_lines(case, ratings))


def _judge_order(case: Case, asker: _Asker) -> Outcome:
    """Score an answer by Kendall's tau between its lines and the events of the rubric.

    0 where tau is not a number. The items are rated too, for the details.
    """
    lines = align(case.rubric, case.answer.split("\n"), asker.is_same)
    order = compare_orders(case.rubric, lines)
    ratings = asker.rate(case)
    mean = sum(ratings) / len(ratings)
    details = f"{order.details()}, items {mean:.4g}\n{_rating_lines(case, ratings)}"
    if isnan(order.tau):
        return Outcome(
            "no order",
            score=0.0,
            details=details,
            flag="the lines have no order: their ranks are equal",
        )
    return Outcome("order", score=order.tau, details=details)


def _rating_lines(case: Case, ratings: Sequence[float]) -> str:
    """Write a line for each item of the rubric, with its rating: "0.5:
    LLM response should state ...".
    """
    lines = []
    for rating, item in zip(ratings, case.rubric, strict=True):
        lines.append(f"{rating:g}: {item}")
    return "\n".join(lines)
