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
        """Whether the method costs clearly less than the other: less than 99.5 % of its cost."""
        return self.value < _MAX_SHARE_OF_CHEAPER

    @property
    def is_dearer(self) -> bool:
        """Whether the method costs clearly more than the other, which costs less than 99.5 % of it."""
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
        """The cost of a run divided by that of another one, over the questions that both answered;
        None where these are none, or the cost of one run is not known.

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
        """Under which other way of counting FLOPs the dearer run is clearly the cheaper, with the
        share under the first such: "150 % under the convention full"; "" for none.

        Args:
            row: A run.
            other: The run that it is compared with.
        """
        share = self.share(row, other)
        if self.kind != "FLOPs" or share is None:
            return ""
        for convention in CONVENTIONS:
            flops_ratio = _ratio(
                costs.question_tflops(row.run, convention),
                costs.question_tflops(other.run, convention),
            )
            if flops_ratio is None:
                continue
            contrary = CostShare(flops_ratio, n_shared=0, n_questions=0)  # counts are not shown
            turns_dearer = share.is_cheaper and contrary.is_dearer
            turns_cheaper = share.is_dearer and contrary.is_cheaper
            if turns_dearer or turns_cheaper:
                return f"{contrary.percent} under the convention {convention}"
        return ""

    def dominating_question(self, row: TableRow) -> float | None:
        """The share of the costliest question in the cost of a run, where it is half or more; else
        None, and also of fewer than five questions."""
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
    """The first of money, FLOPs and tokens that is known for all methods, and why it is not one
    before it; no cost where none is known for all.

    Args:
        methods: Name -> row. Methods without an answer have no costs, and do not count.
    """
    answering = {name: row for name, row in methods.items() if row.n_failed < row.n_questions}
    remarks = _why_money_is_not_compared(answering)
    if not remarks and _is_known_for_all(_money, answering):
        money = _compared_cost("money", "indexes included", _money, answering)
        return ComparableCosts(compared=money, remarks=[])
    if _is_known_for_all(_tflops, answering):
        flops = _compared_cost("FLOPs", "indexes included", _tflops, answering)
        return ComparableCosts(compared=flops, remarks=remarks)
    tokens = _compared_tokens(answering)
    if tokens is None:
        return ComparableCosts(compared=None, remarks=[_no_cost_is_known(answering), *remarks])
    return ComparableCosts(
        compared=tokens, remarks=[*remarks, *_why_flops_are_not_compared(answering)]
    )


def _compared_tokens(methods: Mapping[str, TableRow]) -> ComparedCost | None:
    """The tokens of methods, with those of indexes where they are known for all; None where not even
    those without indexes are.

    Args:
        methods: Name -> row.
    """
    if _is_known_for_all(_tokens, methods):
        cost_of = _tokens
        remark = "indexes included"
    elif _is_known_for_all(_tokens_without_index, methods):
        cost_of = _tokens_without_index
        remark = "without those of indexes, which are unknown"
    else:
        return None
    cached = _cached_tokens_in_words(methods)
    if cached:
        remark = f"{remark}, without cached ones ({join_names(cached)})"
    return _compared_cost("tokens", remark, cost_of, methods)


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
    """Whether a cost is known for every method.

    Args:
        cost_of: The cost of each question of a row.
        methods: Name -> row.
    """
    return all(_is_known(cost_of, row) for row in methods.values())


def _is_known(cost_of: _CostOfRow, row: TableRow) -> bool:
    """Whether a cost of a row is known; one of 0 was not measured."""
    cost_by_question = cost_of(row)
    return sum(cost_by_question.values()) > 0


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
    cost_by_run = {row.run.name: cost_of(row) for row in methods.values()}
    return ComparedCost(kind, remark, by_run=cost_by_run)


def _ratio(own_costs: _CostByQuestion, other_costs: _CostByQuestion) -> float | None:
    """The first cost divided by the second, each summed over the questions that both have; None
    where one of the sums is 0, as there is no such question or nothing was measured."""
    shared = [question for question in own_costs if question in other_costs]
    other_sum = sum(other_costs[question] for question in shared)
    own_sum = sum(own_costs[question] for question in shared)
    if own_sum <= 0 or other_sum <= 0:
        return None
    return own_sum / other_sum


def _cached_tokens_in_words(methods: Mapping[str, TableRow]) -> list[str]:
    """How many tokens of an answered question each method had in a cache, "90,000 a question of
    session", where they are more than a tenth of all its tokens.

    Args:
        methods: Name -> row.
    """
    in_words = []
    for name, row in methods.items():
        columns = row.run.columns
        is_answered = columns.answered
        n_cached = 0.0
        for phase in columns.phases:
            cached_by_question = columns.cost(phase, "tokens_cached")
            n_cached += float(cached_by_question[is_answered].sum())
        n_not_cached = sum(_tokens_without_index(row).values())
        if n_cached > _MIN_CACHED_SHARE * (n_cached + n_not_cached):
            n_answered = int(is_answered.sum())
            in_words.append(f"{n_cached / n_answered:,.0f} a question of {name}")
    return in_words


def _why_money_is_not_compared(methods: Mapping[str, TableRow]) -> list[str]:
    """One sentence on why money is not compared: it is unknown for some methods, in several
    currencies, or at several prices of one model.

    [] where none of that holds, or it is known for no method.
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
    has_several_prices = any(notes_on_prices(runs))
    if has_several_prices:
        return ["Money is not compared, as one model has several prices."]
    return []


def _why_flops_are_not_compared(methods: Mapping[str, TableRow]) -> list[str]:
    """One sentence on methods whose FLOPs are unknown; [] where they are unknown for all methods, or
    for none."""
    unknown = [name for name, row in methods.items() if not _tflops(row)]
    if len(unknown) in (0, len(methods)):
        return []
    return [f"FLOPs are not compared, as those of {join_names(unknown)} are unknown."]


def _no_cost_is_known(methods: Mapping[str, TableRow]) -> str:
    """The sentence that no kind of cost is known for all methods; it names those of which no cost at
    all is known."""
    unmeasured = []
    for name, row in methods.items():
        known = [cost_of for cost_of in (_money, _tflops, _tokens) if _is_known(cost_of, row)]
        if not known:
            unmeasured.append(name)
    if len(unmeasured) == len(methods):
        return "No cost was measured."
    if unmeasured:
        return f"No cost was measured for {join_names(unmeasured)}."
    return "No kind of cost is known for all methods."
