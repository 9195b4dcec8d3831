"""By which cost the methods of a data set are compared, and what one takes of another's.

    costs = comparable_costs(rows)
    costs.compared.kind                 "FLOPs"
    costs.compared.share(bm25, pecan)   CostShare(value=0.25, n_shared=18, ...)
    costs.remarks                       ["Money is not compared, as that of sbert is unknown."]

The first of these that is known for all methods: money, FLOPs, tokens with those of indexes, FLOPs
without them, tokens without them. A share is over the questions that both answered: a method that
fails on the longest texts would look cheap by its mean.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

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
"""Of the tokens of the method with most: fewer cached ones are not worth a remark."""
_MIN_DOMINATING_SHARE = 0.5
"""Of a method's cost: a few questions with so much decide what the method costs."""
_FEWEST_OF_DOMINATED = 5
"""Of fewer questions, one has a large part of the cost in any case."""
_MAX_SHARE_OF_DOMINATING = 0.05
"""Of a method's questions: so many at most are a few."""
_MIN_SHARE_OF_AS_DEAR = 0.9
"""Of a dear question's cost: another one that costs so much is as dear."""


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


class DearQuestions(NamedTuple):
    """Questions that take much of a method's cost.

    Attributes:
        ids: Their ids.
        share: Their part of the cost, in [0, 1].
    """

    ids: Collection[str]
    share: float

    @property
    def n_questions(self) -> int:
        """How many they are."""
        return len(self.ids)


@dataclass(frozen=True)
class ComparedCost:
    """The cost by which methods are compared.

    Args:
        kind: "money", "FLOPs" or "tokens".
        remark: What it includes: "indexes included (2 questions an index)".
        by_run: Name of a run -> question -> its cost.
        by_run_without_index: The same without shares of indexes.
    """

    kind: str
    remark: str
    by_run: Mapping[str, _CostByQuestion]
    by_run_without_index: Mapping[str, _CostByQuestion]

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
            contrary = _contrary(share, flops_ratio)
            if contrary:
                return f"{contrary} under the convention {convention}"
        return ""

    def contrary_without_index(self, row: TableRow, other: TableRow) -> str:
        """The share of one cost in another without indexes, where that turns the comparison round:
        "1,000 % without indexes"; "" where it does not.

        Args:
            row: A run.
            other: The run that it is compared with.
        """
        share = self.share(row, other)
        if share is None:
            return ""
        ratio = _ratio(
            self.by_run_without_index.get(row.run.name, {}),
            self.by_run_without_index.get(other.run.name, {}),
        )
        contrary = _contrary(share, ratio)
        if not contrary:
            return ""
        return f"{contrary} without indexes"

    def dominating_questions(self, row: TableRow) -> DearQuestions | None:
        """The fewest questions that take half or more of the cost of a run, where they are at most one
        in twenty, or a single one; else None, and also of fewer than five questions.

        All questions that cost about as much as the cheapest of these are among them.
        """
        question_costs = self.by_run.get(row.run.name, {})
        if len(question_costs) < _FEWEST_OF_DOMINATED:
            return None
        total = sum(question_costs.values())
        most_questions = max(1, int(_MAX_SHARE_OF_DOMINATING * len(question_costs)))
        costliest_first = sorted(question_costs.values(), reverse=True)
        taken = 0.0
        for cost in costliest_first[:most_questions]:
            taken += cost
            if taken >= _MIN_DOMINATING_SHARE * total:
                return _questions_as_dear(question_costs, _MIN_SHARE_OF_AS_DEAR * cost)
        return None

    def contrary_without_questions(
        self, row: TableRow, other: TableRow, questions: Collection[str]
    ) -> str:
        """The share of one cost in another without some questions, where that turns the comparison
        round: "300 %"; "" where it does not.

        Args:
            row: A run.
            other: The run that it is compared with.
            questions: The ids of the questions to leave out.
        """
        share = self.share(row, other)
        if share is None:
            return ""
        own_costs = self.by_run.get(row.run.name, {})
        other_costs = self.by_run.get(other.run.name, {})
        remaining = {key: cost for key, cost in own_costs.items() if key not in questions}
        return _contrary(share, _ratio(remaining, other_costs))

    def unshared_questions(self, row: TableRow, other: TableRow) -> DearQuestions | None:
        """The questions that a run answered and another one did not, where they take half or more of
        the run's cost; else None.

        Args:
            row: The run.
            other: The other run.
        """
        own_costs = self.by_run.get(row.run.name, {})
        other_costs = self.by_run.get(other.run.name, {})
        unshared = [question for question in own_costs if question not in other_costs]
        taken = sum(own_costs[question] for question in unshared)
        total = sum(own_costs.values())
        if not unshared or taken < _MIN_DOMINATING_SHARE * total:
            return None
        return DearQuestions(unshared, taken / total)


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
    """The first of money, FLOPs, tokens, and FLOPs and tokens without indexes that is known for all
    methods, and why it is not one before it; no cost where none is known for all.

    Args:
        methods: Name -> row. Methods without an answer have no costs, and do not count.
    """
    answering = {name: row for name, row in methods.items() if row.n_failed < row.n_questions}
    remarks = _why_money_is_not_compared(answering)
    if not remarks and _is_known_for_all(_money, answering):
        money = _compared_cost("money", _money, _money_without_index, answering)
        return ComparableCosts(compared=money, remarks=[])
    if _is_known_for_all(_tflops, answering):
        flops = _compared_cost("FLOPs", _tflops, _tflops_without_index, answering)
        return ComparableCosts(compared=flops, remarks=remarks)
    tokens_are_known = _is_known_for_all(_tokens, answering)
    if not tokens_are_known and _is_known_for_all(_tflops_without_index, answering):
        flops = _cost_without_index("FLOPs", _tflops_without_index, answering)
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
        tokens = _compared_cost("tokens", _tokens, _tokens_without_index, methods)
    elif _is_known_for_all(_tokens_without_index, methods):
        tokens = _cost_without_index("tokens", _tokens_without_index, methods)
    else:
        return None
    cached = _cached_tokens_in_words(methods)
    if not cached:
        return tokens
    return replace(tokens, remark=f"{tokens.remark}, without cached ones ({join_names(cached)})")


def _money(row: TableRow) -> _CostByQuestion:
    """Money of each answered question with its share of the indexes; {} where it is unknown."""
    return costs.question_money(row.run)


def _money_without_index(row: TableRow) -> _CostByQuestion:
    """Money of each answered question in search and answer; {} where it is unknown."""
    return costs.question_money(row.run, with_index=False)


def _tflops(row: TableRow) -> _CostByQuestion:
    """TFLOPs of each answered question with its share of the indexes; {} where unknown."""
    return costs.question_tflops(row.run, row.numbers.convention)


def _tflops_without_index(row: TableRow) -> _CostByQuestion:
    """TFLOPs of each answered question in search and answer; {} where they are unknown."""
    return costs.question_tflops(row.run, row.numbers.convention, with_index=False)


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
    kind: str,
    cost_of: _CostOfRow,
    cost_without_index: _CostOfRow,
    methods: Mapping[str, TableRow],
) -> ComparedCost:
    """The cost by which these methods are compared, with that of indexes.

    Args:
        kind: "money", "FLOPs" or "tokens".
        cost_of: The cost of each question of a row.
        cost_without_index: The same without its share of the indexes.
        methods: Name -> row.
    """
    by_run = {row.run.name: cost_of(row) for row in methods.values()}
    by_run_without_index = {row.run.name: cost_without_index(row) for row in methods.values()}
    remark = "indexes included"
    most_sharing = 0.0
    for row in methods.values():
        total = sum(by_run[row.run.name].values())
        if total > sum(by_run_without_index[row.run.name].values()):
            most_sharing = max(most_sharing, _questions_an_index(row))
    if most_sharing:
        remark = f"{remark} ({_count_sharing_in_words(most_sharing)} an index)"
    return ComparedCost(kind, remark, by_run, by_run_without_index)


def _cost_without_index(
    kind: str, cost_of: _CostOfRow, methods: Mapping[str, TableRow]
) -> ComparedCost:
    """The cost by which these methods are compared, where that of indexes is unknown.

    Args:
        kind: "FLOPs" or "tokens".
        cost_of: The cost of each question of a row, without indexes.
        methods: Name -> row.
    """
    by_run = {row.run.name: cost_of(row) for row in methods.values()}
    return ComparedCost(
        kind, "without those of indexes, which are unknown", by_run, by_run_without_index=by_run
    )


def _questions_as_dear(question_costs: _CostByQuestion, least_cost: float) -> DearQuestions:
    """The questions of a run that cost so much or more, with their part of its cost.

    Args:
        question_costs: Question -> its cost.
        least_cost: The lowest cost of a dear question.
    """
    dear = [question for question, cost in question_costs.items() if cost >= least_cost]
    taken = sum(question_costs[question] for question in dear)
    return DearQuestions(dear, taken / sum(question_costs.values()))


def _questions_an_index(row: TableRow) -> float:
    """How many questions of a run share an index, on average; 0 without an index."""
    n_indexes = sum(1 for line in row.run.index_lines if not line.failed)
    if n_indexes == 0:
        return 0.0
    return row.n_questions / n_indexes


def _count_sharing_in_words(n_questions: float) -> str:
    """A mean number of questions: "1 question", "2.5 questions", "200 questions"."""
    if n_questions == 1:
        return "1 question"
    return f"{n_questions:.3g} questions"


def _contrary(share: CostShare, other_ratio: float | None) -> str:
    """Another ratio of two costs in per cent, where the run that one calls clearly dearer is clearly
    cheaper by the other; "" where that is not so, or the ratio is unknown.

    Args:
        share: The share that is said first.
        other_ratio: The ratio by another way of counting.
    """
    if other_ratio is None:
        return ""
    contrary = CostShare(other_ratio, n_shared=0, n_questions=0)  # counts are not shown
    turns_dearer = share.is_cheaper and contrary.is_dearer
    turns_cheaper = share.is_dearer and contrary.is_cheaper
    if turns_dearer or turns_cheaper:
        return contrary.percent
    return ""


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
    session", where they are more than a tenth of those of the method with most.

    Args:
        methods: Name -> row.
    """
    cached_by_method = {}
    most_tokens = 0.0
    for name, row in methods.items():
        n_answered = int(row.run.columns.answered.sum())
        cached_by_method[name] = _count_cached_tokens(row) / n_answered
        not_cached = sum(_tokens_without_index(row).values()) / n_answered
        most_tokens = max(most_tokens, cached_by_method[name] + not_cached)
    in_words = []
    for name, cached in cached_by_method.items():
        if cached > _MIN_CACHED_SHARE * most_tokens:
            in_words.append(f"{cached:,.0f} a question of {name}")
    return in_words


def _count_cached_tokens(row: TableRow) -> float:
    """How many tokens of a run's answered questions were in a cache."""
    columns = row.run.columns
    n_cached = 0.0
    for phase in columns.phases:
        cached_by_question = columns.cost(phase, "tokens_cached")
        n_cached += float(cached_by_question[columns.answered].sum())
    return n_cached


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
