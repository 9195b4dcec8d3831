"""By which cost the methods of a data set are compared, and what one takes of another's.

    costs = comparable_costs(rows)
    costs.compared.kind                 "FLOPs"
    costs.compared.share(bm25, pecan)   CostShare(value=0.25, n_shared=18, ...)
    costs.remarks                       ["Money is not compared, as that of sbert is unknown."]

The first of these that is known for all methods: money, FLOPs, tokens with those of indexes, tokens
without them. A share is over the questions that both answered: a method that fails on the longest
texts would look cheap by its mean.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from harness.cost.flops import CONVENTIONS
from reports import costs, facts
from reports.prices import notes_on_prices
from reports.sentences import join_names
from reports.table_row import TableRow

_CostByQuestion = Mapping[str, float]
_CostOfRow = Callable[[TableRow], _CostByQuestion]
_MAX_SHARE_OF_CHEAPER = 0.995
"""Of another cost: a smaller difference is not worth a sentence."""
_MIN_CACHED_SHARE = 0.1
"""Of all tokens of a method: fewer cached ones are not worth a remark."""
_MIN_DOMINATING_SHARE = 0.5
"""Of a method's cost: one question with so much decides what the method costs."""
_FEWEST_OF_DOMINATED = 5
"""Of fewer questions, one has a large part of the cost in any case."""


@dataclass(frozen=True)
class CostShare:
    """What a method takes of another's cost.

    Args:
        value: Cost over cost, on the questions that both answered.
        n_shared: How many these are.
        n_questions: How many the two were asked.
    """

    value: float
    n_shared: int
    n_questions: int

    @property
    def is_cheaper(self) -> bool:
        """Whether the method costs clearly less than the other: less than 99.5 % of it."""
        return self.value < _MAX_SHARE_OF_CHEAPER

    @property
    def is_dearer(self) -> bool:
        """Whether the method costs clearly more than the other."""
        return self.value > 1 / _MAX_SHARE_OF_CHEAPER

    @property
    def percent(self) -> str:
        """The share in per cent: "12.5 %", "1,250 %", or "less than 0.01 %"."""
        percent = 100 * self.value
        if percent < 0.01:
            return "less than 0.01 %"
        if percent >= 999.5:
            return f"{percent:,.0f} %"
        return f"{percent:.3g} %"

    @property
    def coverage(self) -> str:
        """Over which questions it is, ", over the 18 of 20 questions that both answered"; "" where
        both answered all."""
        if self.n_shared == self.n_questions:
            return ""
        return f", over the {self.n_shared} of {self.n_questions} questions that both answered"


@dataclass(frozen=True)
class ComparedCost:
    """The cost by which methods are compared.

    Args:
        kind: "money", "FLOPs" or "tokens".
        remark: What it includes: "indexes included".
        by_run: Name of a run -> question -> its cost.
    """

    kind: str
    remark: str
    by_run: Mapping[str, _CostByQuestion]

    def share(self, row: TableRow, other: TableRow) -> CostShare | None:
        """What a run takes of another one's cost; None where they answered no question in common,
        or the cost of one is not known.

        Args:
            row: The run.
            other: The run that it is compared with.
        """
        own_costs = self.by_run.get(row.run.name, {})
        other_costs = self.by_run.get(other.run.name, {})
        value = _ratio(own_costs, other_costs)
        if value is None:
            return None
        return CostShare(
            value=value,
            n_shared=len(own_costs.keys() & other_costs.keys()),
            n_questions=max(row.n_questions, other.n_questions),
        )

    def contrary_convention(self, row: TableRow, other: TableRow) -> str:
        """The first other convention for FLOPs under which the dearer run is clearly the cheaper,
        with the share under it: "150 % under the convention full"; "" for none.

        Args:
            row: A run.
            other: The run that it is compared with.
        """
        own_share = self.share(row, other)
        if self.kind != "FLOPs" or own_share is None:
            return ""
        for convention in CONVENTIONS:
            other_value = _ratio(
                costs.question_tflops(row.run, convention),
                costs.question_tflops(other.run, convention),
            )
            if other_value is None:
                continue
            share = CostShare(other_value, 0, 0)
            was_cheaper = own_share.is_cheaper and share.is_dearer
            was_dearer = own_share.is_dearer and share.is_cheaper
            if was_cheaper or was_dearer:
                return f"{share.percent} under the convention {convention}"
        return ""

    def dominating_question(self, row: TableRow) -> float | None:
        """The share of the costliest question in the cost of a run, where it is half or more."""
        question_costs = self.by_run.get(row.run.name, {})
        if len(question_costs) < _FEWEST_OF_DOMINATED:
            return None
        share = max(question_costs.values()) / sum(question_costs.values())
        if share < _MIN_DOMINATING_SHARE:
            return None
        return share


@dataclass(frozen=True)
class ComparableCosts:
    """The cost by which methods are compared, and why not by another one.

    Args:
        compared: The cost; None where none is known for all methods.
        remarks: Why a cost is not compared, a sentence each.
    """

    compared: ComparedCost | None
    remarks: Sequence[str]


def comparable_costs(methods: Mapping[str, TableRow]) -> ComparableCosts:
    """The first cost that is known for all methods, and why it is not another one.

    Args:
        methods: Name -> row. Methods without an answer have no costs, and do not count.
    """
    answering = {name: row for name, row in methods.items() if row.n_failed < row.n_questions}
    remarks = _why_money_is_not_compared(answering)
    if not remarks and _is_known_for_all(_money, answering):
        return ComparableCosts(_compared_cost("money", "indexes included", _money, answering), [])
    if _is_known_for_all(_tflops, answering):
        flops = _compared_cost("FLOPs", "indexes included", _tflops, answering)
        return ComparableCosts(flops, remarks)
    if _is_known_for_all(_tokens, answering):
        remark = "indexes included"
        cost_of = _tokens
    elif _is_known_for_all(_tokens_without_index, answering):
        remark = "without those of indexes, which are unknown"
        cost_of = _tokens_without_index
    else:
        return ComparableCosts(None, [_no_cost_is_known(answering), *remarks])
    cached = _cached_tokens_in_words(answering)
    if cached:
        remark = f"{remark}, without cached ones ({join_names(cached)})"
    remarks += _why_flops_are_not_compared(answering)
    return ComparableCosts(_compared_cost("tokens", remark, cost_of, answering), remarks)


def _money(row: TableRow) -> _CostByQuestion:
    """Money of each answered question with its share of the indexes; {} where it is unknown."""
    return costs.question_money(row.run)


def _tflops(row: TableRow) -> _CostByQuestion:
    """TFLOPs of each answered question with its share of the indexes; {} where unknown."""
    return costs.question_tflops(row.run, row.numbers.convention)


def _tokens(row: TableRow) -> _CostByQuestion:
    """Tokens of each answered question with its share of the indexes; {} where unknown."""
    return costs.question_tokens(row.run)


def _tokens_without_index(row: TableRow) -> _CostByQuestion:
    """Tokens of each answered question in search and answer; {} where they are unknown."""
    return costs.question_tokens(row.run, with_index=False)


def _is_known_for_all(cost_of: _CostOfRow, methods: Mapping[str, TableRow]) -> bool:
    """Whether a cost is known for every method; one of 0 was not measured.

    Args:
        cost_of: The cost of each question of a row.
        methods: Name -> row.
    """
    return all(sum(cost_of(row).values()) > 0 for row in methods.values())


def _compared_cost(
    kind: str, remark: str, cost_of: _CostOfRow, methods: Mapping[str, TableRow]
) -> ComparedCost:
    """The cost by which these methods are compared.

    Args:
        kind: "money", "FLOPs" or "tokens".
        remark: What it includes.
        cost_of: The cost of each question of a row.
        methods: Name -> row.
    """
    return ComparedCost(kind, remark, {row.run.name: cost_of(row) for row in methods.values()})


def _ratio(own_costs: _CostByQuestion, other_costs: _CostByQuestion) -> float | None:
    """Cost over cost, summed over the questions that both have; None where that is unknown."""
    shared = [question for question in own_costs if question in other_costs]
    other_sum = sum(other_costs[question] for question in shared)
    own_sum = sum(own_costs[question] for question in shared)
    if own_sum <= 0 or other_sum <= 0:
        return None
    return own_sum / other_sum


def _cached_tokens_in_words(methods: Mapping[str, TableRow]) -> list[str]:
    """How many tokens each method had in a cache, "90,000 a question of session", where that is
    worth a remark.

    Args:
        methods: Name -> row.
    """
    in_words = []
    for name, row in methods.items():
        columns = row.run.columns
        n_cached = 0.0
        for phase in columns.phases:
            n_cached += float(columns.cost(phase, "tokens_cached")[columns.answered].sum())
        n_counted = sum(_tokens_without_index(row).values())
        if n_cached > _MIN_CACHED_SHARE * (n_cached + n_counted):
            per_question = n_cached / int(columns.answered.sum())
            in_words.append(f"{per_question:,.0f} a question of {name}")
    return in_words


def _why_money_is_not_compared(methods: Mapping[str, TableRow]) -> list[str]:
    """One sentence on why money is not compared, where it is known for some methods; else [].

    It is unknown for others, in several currencies, or at several prices of one model.
    """
    unknown = [name for name, row in methods.items() if not _money(row)]
    if len(unknown) == len(methods):
        return []
    if unknown:
        return [f"Money is not compared, as that of {join_names(unknown)} is unknown."]
    currencies = {row.run.config.currency for row in methods.values()}
    if len(currencies) > 1:
        names = sorted(currency or "one that is not named" for currency in currencies)
        return [f"Money is not compared, as it is in {join_names(names)}."]
    runs = [row.run for row in methods.values() if not facts.is_application(row.run)]
    if any(notes_on_prices(runs)):
        return ["Money is not compared, as one model has several prices."]
    return []


def _why_flops_are_not_compared(methods: Mapping[str, TableRow]) -> list[str]:
    """One sentence on methods whose FLOPs are unknown, where those of others are known; else []."""
    unknown = [name for name, row in methods.items() if not _tflops(row)]
    if not 0 < len(unknown) < len(methods):
        return []
    return [f"FLOPs are not compared, as those of {join_names(unknown)} are unknown."]


def _no_cost_is_known(methods: Mapping[str, TableRow]) -> str:
    """The sentence that there is no kind of cost that is known for all methods."""
    unmeasured = []
    for name, row in methods.items():
        if not any(sum(cost_of(row).values()) > 0 for cost_of in (_money, _tflops, _tokens)):
            unmeasured.append(name)
    if len(unmeasured) == len(methods):
        return "No cost was measured."
    if unmeasured:
        return f"No cost was measured for {join_names(unmeasured)}."
    return "No kind of cost is known for all methods."
