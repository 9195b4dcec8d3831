"""The sentences with which a page opens: what the runs of a data set say about quality and cost, for
who reads no table.

    "pecan scores highest of 3 methods, 95.0 points (longbench.qa_f1), on 20 questions about 20
    documents. The data cannot separate bm25 from it (difference 5.0 points, 95 % interval -5.7 to
    15.7). bm25 takes 25 % of the FLOPs of pecan. Differences below 33.1 points would often be
    missed."

They follow from the tables alone. Methods that were asked the same questions are ranked. A floor
(closed-book) and an upper bound (oracle-evidence) mark the range and are never proposed. Nor is a
cheaper method where the best one is not better than a floor, where nothing could be tested, or where
the data leave open that it loses more than half of the best score.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from harness.errors import UserError
from harness.storage.run_folder import StoredRun
from reports import facts
from reports.best import beside_best
from reports.compare import compare

_COST_NAMES = {"money": "money", "tflops.total": "FLOPs", "tokens": "tokens"}
_MOST_NAMES = 4  # of methods in a list; the others are counted
_CLEARLY_CHEAPER = 0.995  # of another cost: a smaller difference is not worth a sentence


@dataclass(frozen=True)
class Ranked:
    """A run in the opening sentences. score: its mean in [0, 1]; cost: in the unit of Group.cost, 0
    where that is None."""

    method: str
    run: str
    score: float
    cost: float
    low: float | None
    high: float | None

    @property
    def points(self) -> str:
        """The score as the tables write it; methods with the same text are called equal."""
        return f"{100 * self.score:.1f}"


@dataclass(frozen=True)
class FromBest:
    """How a run differs from the best one: best minus run, with the interval of the difference."""

    separated: bool
    difference: float
    low: float | None
    high: float | None
    detectable: float | None


@dataclass(frozen=True)
class Group:
    """The runs of one data set: methods, best and then cheapest first, and what marks their
    range."""

    methods: Sequence[Ranked]
    floors: Sequence[Ranked]
    upper_bounds: Sequence[Ranked]
    score: str
    cost: str | None
    questions: int
    documents: int

    @property
    def leaders(self) -> list[Ranked]:
        """The methods with the highest score; several where the tables show one number."""
        return [each for each in self.methods if each.points == self.methods[0].points]


def finding(means: pd.DataFrame, runs: Sequence[StoredRun]) -> str:
    """The sentences.

    Args:
        means: The rows of reports.main_table.frame for `runs`, which are of one data set.
        runs: The runs.
    """
    rows = facts.records(means)
    group = _group(rows)
    if not group.methods:
        sentences = [_without_methods(group)]
    elif len(group.methods) == 1 and not group.floors:
        sentences = [_one_method(group)]
    else:
        sentences = _several(group, runs)
    return " ".join([*sentences, *_caveats(rows, runs)])


def _group(rows: Sequence[Mapping[str, Any]]) -> Group:
    """The rows sorted into methods, floors and upper bounds; without those of other questions."""
    ranked = [row for row in rows if not row["asked_otherwise"]] or list(rows)
    score = str(ranked[0]["headline"])
    ranked = [row for row in ranked if pd.notna(row[score])]
    methods = [row for row in ranked if not (row["floor"] or row["upper_bound"])]
    cost = _known_cost(methods)
    name_models = len({row["model"] for row in ranked}) > 1

    def entry(row: Mapping[str, Any]) -> Ranked:
        name = f"{row['method']} with {row['model']}" if name_models else str(row["method"])
        spent = float(row[cost]) if cost is not None else 0.0
        low, high = (_known(row[f"{score}{end}"]) for end in (".low", ".high"))
        return Ranked(name, str(row["run"]), float(row[score]), spent, low, high)

    candidates = [entry(row) for row in methods]
    candidates.sort(key=lambda each: (-float(each.points), each.cost))
    return Group(
        candidates,
        [entry(row) for row in ranked if row["floor"]],
        [entry(row) for row in ranked if row["upper_bound"]],
        score,
        cost,
        max((int(row["n"]) for row in ranked), default=0),
        max((int(row["documents"]) for row in ranked), default=0),
    )


def _known_cost(rows: Sequence[Mapping[str, Any]]) -> str | None:
    """The column of costs that every method has; None where there is none."""
    for name in _COST_NAMES:
        if all(pd.notna(row[name]) and row[name] > 0 for row in rows):
            return name
    return None


def _known(value: Any) -> float | None:
    return None if pd.isna(value) else float(value)


def _without_methods(group: Group) -> str:
    """Of runs that are only floors and upper bounds, or have no score."""
    floors = [f"{each.method} (floor, {each.points} points)" for each in group.floors]
    bounds = [f"{each.method} (upper bound, {each.points} points)" for each in group.upper_bounds]
    if not floors and not bounds:
        return f"No answer has a score ({group.score})."
    only = _listed([*floors, *bounds])
    return f"No method to choose was run yet, only {only} by {group.score}."


def _one_method(group: Group) -> str:
    (only,) = group.methods
    interval = ""
    if only.low is not None and only.high is not None:
        interval = f" [{100 * only.low:.1f}, {100 * only.high:.1f}]"
    return f"{only.method} scores {only.points} points{interval} ({group.score}), {_asked(group)}."


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
        alike = "Differences are not tested, as these runs differ in more than the method."
        return [*sentences, alike]
    if not _can_separate(group.documents):
        return [*sentences, "With so few documents this test cannot separate any two runs."]
    them = "it" if len(leaders) == 1 else "them"
    unsure = [floor for floor in group.floors if not tested[floor.run].separated]
    if unsure:
        sentences.append(f"The data cannot separate {them} from {_the_floors(unsure)}.")
        return [*sentences, *_missed(tested)]
    if group.floors:
        sentences.append(f"The data separate {them} from {_the_floors(group.floors)}.")
    sentences += _quality(group, them, tested)
    return [*sentences, *_cost(group, tested), *_missed(tested)]


def _who_is_best(group: Group, leaders: Sequence[Ranked]) -> str:
    every, points = len(group.methods), leaders[0].points
    if float(points) == 0:
        who = leaders[0].method if every == 1 else f"None of {every} methods"
        verb = "does not score" if every == 1 else "scores"
        return f"{who} {verb} above 0 ({group.score}), {_asked(group)}."
    verb = "scores" if len(leaders) == 1 else "score"
    place = "" if len(leaders) == every else f" highest of {every} methods,"
    each = "points" if len(leaders) == 1 else "points each"
    best = f"{_named(leaders)} {verb}{place} {points} {each}"
    return f"{best} ({group.score}), {_asked(group)}."


def _asked(group: Group) -> str:
    return (
        f"on {_counted(group.questions, 'question')} about {_counted(group.documents, 'document')}"
    )


def _counted(number: int, noun: str) -> str:
    return f"1 {noun}" if number == 1 else f"{number} {noun}s"


def _the_floors(floors: Sequence[Ranked]) -> str:
    """ "the floor closed-book (5.0 points)" """
    noun = "the floor" if len(floors) == 1 else "the floors"
    return f"{noun} {_listed([f'{each.method} ({each.points} points)' for each in floors])}"


def from_best(group: Group, runs: Sequence[StoredRun]) -> dict[str, FromBest] | None:
    """Run -> how it differs from the best method, for every other method and floor; None where
    the runs must not be compared. The best was chosen by the data: tests and intervals hold for all
    pairs at once (reports/best.py)."""
    best, *others = (each.run for each in (*group.methods, *group.floors))
    compared = [run for run in runs if run.name in {best, *others}]
    try:
        table = compare(compared, reference=best)
    except UserError:
        return None
    jointly = {row.name: row for row in beside_best(compared, group.score, best).rows}
    found = {}
    for row in facts.records(table):
        beside = jointly[str(row["run"])]
        found[beside.name] = FromBest(
            separated=beside.p < facts.ALPHA,
            difference=-beside.difference,
            low=None if beside.high is None else -beside.high,
            high=None if beside.low is None else -beside.low,
            detectable=_known(row["detectable"]),
        )
    return found


def _can_separate(documents: int) -> bool:
    """Whether a sign-flip test over so many documents can reach its level."""
    return 2 * 0.5**documents < facts.ALPHA


def _unseparated(group: Group, tested: Mapping[str, FromBest]) -> list[Ranked]:
    """The methods below the best that the data cannot separate from it."""
    others = group.methods[len(group.leaders) :]
    return [each for each in others if not tested[each.run].separated]


def _quality(group: Group, them: str, tested: Mapping[str, FromBest]) -> list[str]:
    """Which other methods the data separate from the best."""
    unseparated = _unseparated(group, tested)
    if len(unseparated) == 1:
        (other,) = unseparated
        difference = _difference(tested[other.run])
        return [f"The data cannot separate {other.method} from {them} ({difference})."]
    if unseparated:
        return [f"The data cannot separate {_named(unseparated)} from {them}."]
    if len(group.leaders) < len(group.methods):
        return [f"The data separate {them} from every other method."]
    return []


def _cost(group: Group, tested: Mapping[str, FromBest]) -> list[str]:
    """What the cheapest method saves that may be as good as the best; else what the cheapest of all
    saves and loses."""
    best, leaders = group.methods[0], group.leaders
    if len(group.methods) == 1:
        return []
    if group.cost is None:
        return ["What an answer costs is not known for all methods."]
    may_be_as_good = [
        each for each in _unseparated(group, tested) if _keeps_half(best, tested[each.run])
    ]
    cheap = min([*leaders, *may_be_as_good], key=lambda each: each.cost)
    if cheap is not best and _is_cheaper(cheap, best):
        several = len(_unseparated(group, tested)) > 1  # the difference is not written yet
        which = f" ({_difference(tested[cheap.run])})" if several else ""
        return [f"{cheap.method}{which} {_share(cheap, best, group.cost)}."]
    if len(leaders) > 1 and _is_cheaper(best, leaders[-1]):
        return [f"{best.method} {_share(best, leaders[-1], group.cost)}."]
    worse = [each for each in group.methods if each.run in tested and tested[each.run].separated]
    cheapest = min([best, *worse], key=lambda each: each.cost)
    if _is_cheaper(cheapest, best):
        fewer = f"{100 * (best.score - cheapest.score):.1f} points less"
        return [f"{cheapest.method} scores {fewer} and {_share(cheapest, best, group.cost)}."]
    if all(not _is_cheaper(each, best) for each in group.methods):
        return [f"No method is clearly cheaper, by {_COST_NAMES[group.cost]}."]
    return []


def _keeps_half(best: Ranked, found: FromBest) -> bool:
    """Whether the interval of the difference leaves a method at least half of the best score."""
    return found.high is not None and best.score - found.high >= best.score / 2


def _is_cheaper(one: Ranked, other: Ranked) -> bool:
    return one.cost < _CLEARLY_CHEAPER * other.cost


def _difference(found: FromBest) -> str:
    """ "difference 5.0 points, 95 % interval -5.7 to 15.7", as far as there is an interval."""
    text = f"difference {100 * found.difference:.1f} points"
    if found.low is None or found.high is None:
        return text
    return f"{text}, 95 % interval {100 * found.low:.1f} to {100 * found.high:.1f}"


def _share(one: Ranked, best: Ranked, cost: str) -> str:
    return f"takes {100 * one.cost / best.cost:.0f} % of the {_COST_NAMES[cost]} of {best.method}"


def _missed(tested: Mapping[str, FromBest]) -> list[str]:
    """Which differences so few questions would not show."""
    known = [each.detectable for each in tested.values() if each.detectable is not None]
    if not known:
        return []
    return [f"Differences below {100 * max(known):.1f} points would often be missed."]


def _caveats(rows: Sequence[Mapping[str, Any]], runs: Sequence[StoredRun]) -> list[str]:
    """Failed questions, unfinished runs and runs of other questions, a sentence each."""
    skipping = {run.name for run in runs if run.config.get("failed") == "skip"}
    ranked = [row for row in rows if not row["asked_otherwise"]] or list(rows)
    unranked = [row for row in rows if row not in ranked]
    failed = [row for row in ranked if row["failed"]]
    sentences = {
        "Failed questions, which count 0": [
            _failures(row) for row in failed if row["run"] not in skipping
        ],
        "Failed questions, left out": [_failures(row) for row in failed if row["run"] in skipping],
        "Not finished": [str(row["method"]) for row in ranked if row["unfinished"]],
        "Not finished, so not ranked": [
            str(row["method"]) for row in unranked if row["unfinished"]
        ],
        "Asked otherwise, so not ranked": [
            str(row["method"]) for row in unranked if not row["unfinished"]
        ],
    }
    return [f"{head}: {_listed(names)}." for head, names in sentences.items() if names]


def _failures(row: Mapping[str, Any]) -> str:
    return f"{row['failed']:.0f} of {row['method']}"


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
