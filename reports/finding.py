"""The sentences with which a page opens: what the runs of a data set say about quality and cost, for
who reads no table.

    "pecan scores highest of 3 methods, 95.0 of 100 points (longbench.qa_f1), on 20 questions about
    20 documents. The data cannot separate bm25 from it (pecan minus bm25: 5.0 points, 95 % interval
    for all pairs at once -5.7 to 15.7). bm25 takes 25 % of the FLOPs of pecan, indexes included."

They follow from the tables alone. Methods that were asked the same questions are ranked. A floor
(closed-book) and an upper bound (oracle-evidence) mark the range and are never proposed. Nor is a
cheaper method where the best one is not better than a floor, where nothing could be tested, or where
the data leave open that it loses more than half of the best score.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from harness.errors import UserError
from harness.stats.bootstrap import FEWEST
from harness.storage.run_folder import StoredRun
from reports import facts
from reports.best import beside_best, too_high_by
from reports.compare import paired_rows
from reports.table_row import TableRow

_COSTS: Mapping[str, Callable[[TableRow], float | None]] = {
    "money": lambda row: row.money,
    "FLOPs": lambda row: row.numbers.tflops_total.mean,
    "tokens": lambda row: row.tokens,
}
"""By what methods are compared: the first one that is known of all of them."""
_INDEXES = {
    "money": "indexes included",
    "FLOPs": "indexes included",
    "tokens": "without those of indexes",
}
_MOST_NAMES = 4  # of methods in a list; the others are counted
_FEWEST_TESTED = 6  # documents: with fewer a sign-flip test cannot reach its level
_WORTH_SAYING = 0.001  # of a score that is too high: the tables write one digit of a point
_CLEARLY_CHEAPER = 0.995  # of another cost: a smaller difference is not worth a sentence


@dataclass(frozen=True)
class Ranked:
    """A run in the opening sentences.

    Args:
        method: Its name, with the model where the runs have several.
        run: Name of its folder.
        score: Mean in [0, 1].
        low: Lower end of its 95 % interval, or None.
        high: Upper end, or None.
        questions: Questions that the mean is taken over.
        documents: Their clusters.
        cost: In the unit of Group.cost, 0 where that is None.
    """

    method: str
    run: str
    score: float
    low: float | None
    high: float | None
    questions: int
    documents: int
    cost: float

    @property
    def points(self) -> str:
        """The score as the tables write it; methods with the same text are called equal."""
        return f"{100 * self.score:.1f}"


@dataclass(frozen=True)
class FromBest:
    """How a run differs from the best one.

    Args:
        best: The best method.
        other: The run's method.
        separated: Whether the data separate the two.
        difference: Best minus run.
        low: Lower end of the interval of the difference, or None.
        high: Upper end, or None.
        several: Whether the interval holds for several pairs at once.
    """

    best: str
    other: str
    separated: bool
    difference: float
    low: float | None
    high: float | None
    several: bool

    def __str__(self) -> str:
        """ "pecan minus bm25: 5.0 points, 95 % interval -5.7 to 15.7", as far as there is one."""
        text = f"{self.best} minus {self.other}: {100 * self.difference:.1f} points"
        return text if self.ends is None else f"{text}, {self.ends}"

    @property
    def ends(self) -> str | None:
        """The interval in words; None where there is none."""
        if self.low is None or self.high is None:
            return None
        which = "95 % interval for all pairs at once" if self.several else "95 % interval"
        return f"{which} {100 * self.low:.1f} to {100 * self.high:.1f}"


@dataclass(frozen=True)
class Group:
    """The runs of one data set: methods, best and then cheapest first, and what marks their range.

    Args:
        methods: The runs that are ranked.
        floors: Runs that only mark what others must beat.
        upper_bounds: Runs that were shown the evidence alone.
        score: Name of the score.
        cost: The kind of cost that all methods have ("FLOPs"), or None.
        without_flops: Names of the methods whose FLOPs are unknown.
        several_models: Whether the runs differ in their model.
    """

    methods: Sequence[Ranked]
    floors: Sequence[Ranked]
    upper_bounds: Sequence[Ranked]
    score: str
    cost: str | None
    without_flops: Sequence[str]
    several_models: bool

    @property
    def leaders(self) -> list[Ranked]:
        """The methods with the highest score; several where the tables show one number."""
        return [each for each in self.methods if each.points == self.methods[0].points]


def finding(rows: Sequence[TableRow]) -> str:
    """The sentences.

    Args:
        rows: The rows of one data set (main_table.best_first).
    """
    runs = [row.run for row in rows]
    group = _group(rows)
    if not group.methods:
        sentences = [_without_methods(group)]
    elif len(group.methods) == 1 and not group.floors:
        sentences = _one_method(group)
    else:
        sentences = _several(group, runs)
    if all(row.is_unfinished for row in rows):
        sentences.insert(
            0, "No run is finished yet: what follows is about the questions answered so far."
        )
    if group.methods and group.upper_bounds:
        sentences.append(_no_choice(group.upper_bounds))
    return " ".join([*sentences, *_caveats(rows)])


def _group(rows: Sequence[TableRow]) -> Group:
    """The rows sorted into methods, floors and upper bounds; without those of other questions."""
    ranked = _ranked(rows)
    score = ranked[0].headline
    scored = [row for row in ranked if row.score(score).mean is not None]
    methods = [row for row in scored if not row.is_floor and not row.is_upper_bound]
    floors = [row for row in scored if row.is_floor]
    upper_bounds = [row for row in scored if row.is_upper_bound]
    entries = _Entries(
        score=score,
        cost=_known_cost(methods),
        with_model=len({row.model for row in scored}) > 1,
    )
    candidates = entries.of_rows(methods)
    candidates.sort(key=lambda each: (-float(each.points), each.cost))
    return Group(
        methods=candidates,
        floors=entries.of_rows(floors),
        upper_bounds=entries.of_rows(upper_bounds),
        score=score,
        cost=entries.cost,
        without_flops=[
            entries.name(row) for row in methods if row.numbers.tflops_total.mean is None
        ],
        several_models=entries.with_model,
    )


def _ranked(rows: Sequence[TableRow]) -> list[TableRow]:
    """The rows that were asked the same questions; all of them where none was."""
    ranked = [row for row in rows if not row.asked_otherwise]
    if not ranked:
        return list(rows)
    return ranked


@dataclass(frozen=True)
class _Entries:
    """Makes entries of a group from rows of the main table.

    Args:
        score: Name of the score.
        cost: A key of _COSTS, or None.
        with_model: Whether a name has the model too.
    """

    score: str
    cost: str | None
    with_model: bool

    def of_rows(self, rows: Sequence[TableRow]) -> list[Ranked]:
        """An entry a row, in their order."""
        return [self._entry(row) for row in rows]

    def name(self, row: TableRow) -> str:
        """ "bm25", or "bm25 with llama-8b"."""
        if self.with_model:
            return f"{row.label} with {row.model}"
        return row.label

    def _entry(self, row: TableRow) -> Ranked:
        estimate = row.score(self.score)
        assert estimate.mean is not None
        questions, documents = _count_scored(row, self.score)
        cost = None
        if self.cost is not None:
            cost = _COSTS[self.cost](row)
        return Ranked(
            method=self.name(row),
            run=row.run.name,
            score=estimate.mean,
            low=estimate.low,
            high=estimate.high,
            questions=questions,
            documents=documents,
            cost=cost or 0.0,
        )


def _count_scored(row: TableRow, score: str) -> tuple[int, int]:
    """How many questions have a score, and how many documents (clusters) these are about.

    A score of all answers together (corpus BLEU) is no mean over questions, so all questions and
    documents of the run count.
    """
    if score in facts.corpus_scores(row.run):
        return row.n_questions, row.n_documents
    scored = facts.scored(row.run, score)
    return len(scored.ids), len(set(scored.clusters))


def _known_cost(rows: Sequence[TableRow]) -> str | None:
    """The kind of cost that every method has; None where there is none."""
    for name, cost_of in _COSTS.items():
        costs = [cost_of(row) for row in rows]
        if all(cost is not None and cost > 0 for cost in costs):
            return name
    return None


def _without_methods(group: Group) -> str:
    """Of runs that are only floors and upper bounds, or have no score."""
    floors = [f"{each.method} (floor, {each.points} points)" for each in group.floors]
    bounds = [f"{each.method} (upper bound, {each.points} points)" for each in group.upper_bounds]
    if not floors and not bounds:
        return f"No answer has a score ({group.score})."
    only = _listed([*floors, *bounds])
    return f"No method to choose was run yet, only {only} by {group.score}."


def _no_choice(bounds: Sequence[Ranked]) -> str:
    named = _listed([f"{each.method} ({each.points} points)" for each in bounds])
    shown = "shown the passages that hold the answer"
    if len(bounds) == 1:
        return f"The upper bound {named} is no method to choose: it was {shown}."
    return f"The upper bounds {named} are no methods to choose: they were {shown}."


def _one_method(group: Group) -> list[str]:
    (only,) = group.methods
    sentences = [f"{only.method} {_scores(only)} ({group.score}), {_asked(only)}."]
    if only.documents < FEWEST:
        sentences.append("With so few documents no interval can be given.")
    return sentences


def _scores(only: Ranked) -> str:
    """ "scores 95.0 of 100 points [74.2, 99.2]", of a method that was not chosen among several."""
    interval = ""
    if only.low is not None and only.high is not None:
        interval = f" [{100 * only.low:.1f}, {100 * only.high:.1f}]"
    return f"scores {only.points} of 100 points{interval}"


def _several(group: Group, runs: Sequence[StoredRun]) -> list[str]:
    """Of several methods, or one beside a floor: who is best, what separates the others, what they
    cost."""
    leaders = group.leaders
    sentences = [_who_is_best(group, leaders)]
    if float(leaders[0].points) == 0:
        return sentences
    higher = [floor for floor in group.floors if float(floor.points) >= float(leaders[0].points)]
    if higher:
        return [*sentences, f"That is no more than {_the_floors(higher)}."]
    tested = from_best(group, runs)
    if tested is None:
        return [*sentences, f"Differences are not tested, as these runs {_unlike(group)}."]
    if leaders[0].documents < _FEWEST_TESTED:
        few = f"With so few documents this test cannot separate any two runs; {_FEWEST_TESTED} are"
        return [*sentences, f"{few} the fewest with which it can."]
    sentences += _selection(group, runs)
    them = "it" if len(leaders) == 1 else "them"
    unsure = [floor for floor in group.floors if not tested[floor.run].separated]
    if unsure:
        floors = _the_floors(unsure, tested)
        return [*sentences, f"The data cannot separate {them} from {floors}."]
    if group.floors:
        sentences.append(f"The data separate {them} from {_the_floors(group.floors, tested)}.")
    sentences += _quality(group, them, tested)
    return [*sentences, *_cost(group, tested)]


def _selection(group: Group, runs: Sequence[StoredRun]) -> list[str]:
    """By how much the best score is too high, as the data chose it."""
    names = {each.run for each in group.methods}
    if len(names) < 2:
        return []
    bias = too_high_by([run for run in runs if run.name in names], group.score)
    if bias < _WORTH_SAYING:
        return []
    chosen = f"The highest of {len(names)} scores is too high by chance"
    return [f"{chosen}, here by about {100 * bias:.1f} points."]


def _unlike(group: Group) -> str:
    """Why runs are not compared."""
    return "differ in the model" if group.several_models else "differ in more than the method"


def _who_is_best(group: Group, leaders: Sequence[Ranked]) -> str:
    every, points = len(group.methods), leaders[0].points
    compared = _compared(group)
    if float(points) == 0:
        who = leaders[0].method if every == 1 else f"None of {compared}"
        verb = "does not score" if every == 1 else "scores"
        return f"{who} {verb} above 0 ({group.score}), {_asked(leaders[0])}."
    verb = "scores" if len(leaders) == 1 else "score"
    place = "" if len(leaders) == every else f" highest of {compared},"
    each = "points" if len(leaders) == 1 else "points each"
    if every == 1:
        best = f"{leaders[0].method} {_scores(leaders[0])}"
    else:
        best = f"{_named(leaders)} {verb}{place} {points} of 100 {each}"
    return f"{best} ({group.score}), {_asked(leaders[0])}."


def _compared(group: Group) -> str:
    """How many are ranked, as the table has more rows: "3 methods", "the 3 runs that are no floor"."""
    noun = "runs" if group.several_models else "methods"
    number = f"{len(group.methods)} {noun}"
    others = []
    if group.floors:
        others.append("floor")
    if group.upper_bounds:
        others.append("upper bound")
    if not others:
        return number
    return f"the {number} that are no {' or '.join(others)}"


def _asked(run: Ranked) -> str:
    return f"on {_counted(run.questions, 'question')} about {_counted(run.documents, 'document')}"


def _counted(number: int, noun: str) -> str:
    return f"1 {noun}" if number == 1 else f"{number} {noun}s"


def _the_floors(floors: Sequence[Ranked], tested: Mapping[str, FromBest] = {}) -> str:
    """ "closed-book (5.0 points), a floor that methods must beat"

    Args:
        floors: One or more.
        tested: Run -> how it differs from the best method; {} where that is not tested.
    """
    names = []
    for floor in floors:
        difference = f"; {tested[floor.run]}" if floor.run in tested else ""
        names.append(f"{floor.method} ({floor.points} points{difference})")
    what = "a floor" if len(floors) == 1 else "floors"
    return f"{_listed(names)}, {what} that methods must beat"


def from_best(group: Group, runs: Sequence[StoredRun]) -> dict[str, FromBest] | None:
    """Run -> how it differs from the best method, for every other method and floor; None where
    the runs must not be compared. The best was chosen by the data: tests and intervals hold for all
    pairs at once (reports/best.py)."""
    entries = {each.run: each.method for each in (*group.methods, *group.floors)}
    best, *others = entries
    compared = [run for run in runs if run.name in {best, *others}]
    try:
        paired_rows(compared, reference=best)
    except UserError:
        return None
    found = {}
    for beside in beside_best(compared, group.score, best).rows:
        found[beside.name] = FromBest(
            best=entries[best],
            other=entries[beside.name],
            separated=beside.p < facts.ALPHA,
            difference=-beside.difference,
            low=None if beside.high is None else -beside.high,
            high=None if beside.low is None else -beside.low,
            several=len(others) > 1,
        )
    return found


def _unseparated(group: Group, tested: Mapping[str, FromBest]) -> list[Ranked]:
    """The methods below the best that the data cannot separate from it."""
    others = group.methods[len(group.leaders) :]
    return [each for each in others if not tested[each.run].separated]


def _quality(group: Group, them: str, tested: Mapping[str, FromBest]) -> list[str]:
    """How sure the equality of the best methods is, and which others the data separate from
    them."""
    sentences = _equality(group.leaders, tested)
    unseparated = _unseparated(group, tested)
    if unseparated:
        rivals = [f"{each.method} ({tested[each.run]})" for each in unseparated]
        return [*sentences, f"The data cannot separate {_listed(rivals)} from {them}."]
    if len(group.leaders) < len(group.methods):
        return [*sentences, f"The data separate {them} from every other method."]
    return sentences


def _equality(leaders: Sequence[Ranked], tested: Mapping[str, FromBest]) -> list[str]:
    """The interval of the difference between methods with the same score; of several, the ends
    that lie furthest out."""
    best, *equals = leaders
    if not equals:
        return []
    lows = [tested[each.run].low for each in equals]
    highs = [tested[each.run].high for each in equals]
    known_lows = [low for low in lows if low is not None]
    known_highs = [high for high in highs if high is not None]
    if len(known_lows) < len(equals) or len(known_highs) < len(equals):
        return ["No interval of their difference can be given."]
    ends = f"{100 * min(known_lows):.1f} to {100 * max(known_highs):.1f}"
    if len(equals) == 1:
        interval = f"{best.method} minus {equals[0].method}, {tested[equals[0].run].ends}"
        return [f"Equal scores leave a difference open ({interval})."]
    minus = f"{best.method} minus each of the others, 95 % intervals for all pairs at once"
    return [f"Equal scores leave differences open ({minus} within {ends})."]


def _cost(group: Group, tested: Mapping[str, FromBest]) -> list[str]:
    """What the cheapest method saves that may be as good as the best; else what the cheapest of all
    saves and loses."""
    best, leaders = group.methods[0], group.leaders
    if len(group.methods) == 1:
        return []
    if group.cost is None:
        return [_unknown_cost(group)]
    may_be_as_good = [
        each for each in _unseparated(group, tested) if _keeps_half(best, tested[each.run])
    ]
    cheap = min([*leaders, *may_be_as_good], key=lambda each: each.cost)
    if cheap is not best and _is_cheaper(cheap, best):
        return [f"{cheap.method} {_share(cheap, best, group.cost)}."]
    if len(leaders) > 1 and _is_cheaper(best, leaders[-1]):
        return [f"{best.method} {_share(best, leaders[-1], group.cost)}."]
    risky = [each for each in _unseparated(group, tested) if each not in may_be_as_good]
    if risky:
        return _risky_cost(min(risky, key=lambda each: each.cost), best, group.cost)
    worse = [each for each in group.methods if each.run in tested and tested[each.run].separated]
    cheapest = min([best, *worse], key=lambda each: each.cost)
    if _is_cheaper(cheapest, best):
        fewer = f"{100 * (best.score - cheapest.score):.1f} points less"
        fewer += _interval(tested[cheapest.run])
        return [f"{cheapest.method} scores {fewer} and {_share(cheapest, best, group.cost)}."]
    if all(not _is_cheaper(each, best) for each in group.methods):
        return [_best_is_cheapest(group, group.cost)]
    return []


def _risky_cost(cheap: Ranked, best: Ranked, cost: str) -> list[str]:
    """What the cheapest method saves that may lose more than half of the best score."""
    if not _is_cheaper(cheap, best):
        return []
    loss = "though it may lose more than half of the points"
    return [f"{cheap.method} {_share(cheap, best, cost)}, {loss}."]


def _unknown_cost(group: Group) -> str:
    if len(group.without_flops) == len(group.methods):
        return "What an answer costs in FLOPs is unknown."
    return f"What an answer costs in FLOPs is unknown for {_listed(group.without_flops)}."


def _best_is_cheapest(group: Group, cost: str) -> str:
    """What the best method costs beside the cheapest other one, where none is cheaper than it."""
    best, *others = group.methods
    cheapest = min(others, key=lambda each: each.cost)
    which = f"{cheapest.method}, the cheapest of the others" if len(others) > 1 else cheapest.method
    if _is_cheaper(best, cheapest):
        return f"{best.method} {_share(best, cheapest, cost, which)}."
    return f"{best.method} costs about the same as {which}, by {cost}, {_INDEXES[cost]}."


def _keeps_half(best: Ranked, found: FromBest) -> bool:
    """Whether the interval of the difference leaves a method at least half of the best score."""
    return found.high is not None and best.score - found.high >= best.score / 2


def _is_cheaper(one: Ranked, other: Ranked) -> bool:
    return one.cost < _CLEARLY_CHEAPER * other.cost


def _interval(found: FromBest) -> str:
    """ " (95 % interval -5.7 to 15.7)"; "" where there is none."""
    return "" if found.ends is None else f" ({found.ends})"


def _share(one: Ranked, other: Ranked, cost: str, which: str = "") -> str:
    """ "takes 12.5 % of the FLOPs of pecan, indexes included"; which: the other's name with what is
    said of it."""
    share = 100 * one.cost / other.cost
    return f"takes {share:.3g} % of the {cost} of {which or other.method}, {_INDEXES[cost]}"


def _caveats(rows: Sequence[TableRow]) -> list[str]:
    """Failed questions, unfinished runs and runs of other questions, a sentence each."""
    ranked = _ranked(rows)
    unranked = [row for row in rows if row not in ranked]
    failed = [row for row in ranked if row.n_failed]
    sentences = {
        "Failed questions, which count 0": [
            _failures(row) for row in failed if not _skips_failed(row)
        ],
        "Failed questions, left out": [_failures(row) for row in failed if _skips_failed(row)],
        "Not finished": [],
        "Not finished, so not ranked": [row.label for row in unranked if row.is_unfinished],
        "Asked otherwise, so not ranked": [row.label for row in unranked if not row.is_unfinished],
    }
    if not all(row.is_unfinished for row in rows):  # else the page opens with that
        sentences["Not finished"] = [row.label for row in ranked if row.is_unfinished]
    return [f"{head}: {_listed(names)}." for head, names in sentences.items() if names]


def _skips_failed(row: TableRow) -> bool:
    return bool(row.run.config.get("failed") == "skip")


def _failures(row: TableRow) -> str:
    return f"{row.n_failed} of {row.label}"


def _named(ranked: Sequence[Ranked]) -> str:
    return _listed([each.method for each in ranked])


def _listed(names: Sequence[str]) -> str:
    """ "a", "a and b", "a, b and c", or the first ones with the number of the others."""
    if len(names) > _MOST_NAMES:
        shown = _MOST_NAMES - 1
        return f"{', '.join(names[:shown])} and {len(names) - shown} more"
    if len(names) == 1:
        return names[0]
    return f"{', '.join(names[:-1])} and {names[-1]}"
