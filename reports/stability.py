"""Whether a ranking survives its choices: every scorer, judge, judge prompt and draw of questions at once.

    found = of_runs(pairs)               pairs: (run, its rows); a Stability for each data set and model
    found[0].sentence                    "Pairs of methods that keep their order under 16 scorers and ...: 6 of 10"
    sections(found), frame(found)        tables for people; one row a choice and pair for programs

A choice is a scorer of `reports.bands`, or a judge: one model with one prompt. The order of a pair is the headline's; a
choice flips it where its means say the opposite. Questions are drawn anew DRAWS times (bootstrap by cluster, the same
draws for all choices), and the draw flips a pair where more than one in twenty of the headline's draws say the
opposite. A pair that the headline ties has the order of most choices.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from harness.stats.bootstrap import Floats, by_cluster, resampled
from reports.bands import CLOSE, JUDGES, Measured, measured

if TYPE_CHECKING:
    from harness.storage.run_folder import StoredRun
    from reports.gold_rows import Rows

DRAWS = 1000
DRAW = "draw of questions"
_RARE = 0.05  # share of draws up to which an order is kept
_NAMED = 4  # choices that the sentence names


@dataclass(frozen=True)
class Choice:
    """A way to score. kind: scorer, judge or judge prompt (where one model judged with several).

    means: (M,); apart: (P,) differences of the pairs' means; reversed: (P,) share of draws with the opposite order.
    """

    name: str
    kind: str
    means: Floats
    apart: Floats
    reversed: Floats


@dataclass(frozen=True)
class Stability:
    """The methods of one data set and model, best first by the headline, under every choice; the headline's is first.

    pairs: places of methods; order: (P,) 1 where the first of a pair is the better one, -1, or 0 for a tie everywhere.
    """

    found: Measured
    methods: Sequence[str]
    pairs: Sequence[tuple[int, int]]
    choices: Sequence[Choice]
    order: Floats

    def flipped(self, choice: Choice) -> NDArray[np.bool]:
        """(P,) whether the choice says the opposite of the order."""
        return choice.apart * self.order < -CLOSE

    @property
    def drawn(self) -> NDArray[np.bool]:
        """(P,) whether the draw of questions flips the headline's order."""
        return self.choices[0].reversed > _RARE

    @property
    def flips(self) -> dict[str, int]:
        """Choice -> number of pairs that it flips, most first; only those that flip one."""
        counts = {choice.name: int(self.flipped(choice).sum()) for choice in self.choices}
        counts[DRAW] = int(self.drawn.sum())
        return {name: count for name, count in Counter(counts).most_common() if count}

    @property
    def sentence(self) -> str:
        """How many pairs keep their order, and which choices flip the others."""
        if not self.pairs:
            return "One method alone has no ranking."
        some = np.any([self.drawn, *(self.flipped(choice) for choice in self.choices)], axis=0)
        kinds = Counter("judge" if choice.kind != "scorer" else "scorer" for choice in self.choices)
        prompts = sum(choice.kind == "judge prompt" for choice in self.choices)
        told = [f"{n} {kind}{'s' if n > 1 else ''}" for kind, n in kinds.items()]
        told[-1] += f" ({prompts} of them prompts of one model)" if prompts else ""
        n, flips, changing = len(self.pairs), self.flips, int(some.sum())
        text = (
            f"Pairs of methods that keep their order under {' and '.join(told)} and 95 % of {DRAWS:,} draws of the "
            f"questions: {n - changing} of {n}"
        )
        if not flips:
            return f"{text}."
        named = [f"{name} {count}" for name, count in list(flips.items())[:_NAMED]]
        more = f" and {len(flips) - _NAMED} more choices" if len(flips) > _NAMED else ""
        share = 100 * np.mean([choice.reversed for choice in self.choices])
        return (
            f"{text}; {changing} ({100 * changing / n:.0f} %) flip, by {', '.join(named)}{more}. Over all choices and "
            f"draws at once {share:.0f} % of the orders are reversed."
        )


def of_runs(pairs: Sequence[tuple[StoredRun, Rows]]) -> list[Stability]:
    """A Stability for each data set and model; raises as `reports.bands.measured`."""
    judges = {name: told for run, _ in pairs for name, told in (run.manifest.get("judges") or {}).items()}
    return [_stability(found, judges) for found in measured(pairs)]


def _stability(found: Measured, judges: Mapping[str, Any]) -> Stability:
    own = found.means[found.headline]
    methods = sorted(own, key=lambda name: -own[name])
    pairs = list(combinations(range(len(methods)), 2))
    names = [found.headline, *(name for name in found.columns if name != found.headline)]
    means = {name: np.asarray([found.means[name][method] for method in methods]) for name in names}
    first, second = (np.asarray([pair[k] for pair in pairs], dtype=int) for k in (0, 1))
    apart = {name: means[name][first] - means[name][second] for name in names}
    signs = np.asarray([_sign(apart[name]) for name in names])
    order = np.where(signs[0] != 0, signs[0], np.sign(signs.sum(axis=0)))
    models = Counter(_model(judges[name]) for name in names if name in judges)
    choices = []
    for name in names:
        kind = "scorer" if found.families[name] != JUDGES else "judge"
        if kind == "judge" and models[_model(judges.get(name) or {})] > 1:
            kind = "judge prompt"
        drawn = _drawn(found, name, methods)
        opposite = _sign(drawn[:, first] - drawn[:, second]) * order < 0
        choices.append(Choice(name, kind, means[name], apart[name], opposite.mean(axis=0)))
    return Stability(found, methods, pairs, choices, order)


def _model(judge: Mapping[str, Any]) -> str:
    return str((judge.get("model") or {}).get("name"))


def _sign(values: Floats) -> Floats:
    return np.where(np.abs(values) > CLOSE, np.sign(values), 0.0)


def _drawn(found: Measured, name: str, methods: Sequence[str]) -> Floats:
    """(DRAWS, M) means by the scorer `name` over the drawn clusters."""
    by_method = [by_cluster(found.columns[name][method], found.clusters[name]) for method in methods]
    totals = resampled([*(sums for sums, _ in by_method), by_method[0][1]], 0, DRAWS)
    means: Floats = totals[:, :-1] / totals[:, -1:]
    return means


def sections(found: Sequence[Stability]) -> list[tuple[str, pd.DataFrame]]:
    """For each data set and model a table of methods, and one of the choices that flip a pair."""
    out = []
    for each in found:
        title = f"{each.found.dataset} · {each.found.model}"
        partial = [f"not of all methods, so left out: {', '.join(each.found.partial)}"] if each.found.partial else []
        notes = (each.sentence, f"n = {each.found.n}; in draws: how many say so", *partial)
        rows = [{**_row(each, place), "notes": notes} for place in range(len(each.methods))]
        out.append((title, pd.DataFrame(rows)))
        if each.flips:
            out.append((f"{title}: what flips", pd.DataFrame([_flip(each, name) for name in each.flips])))
    return out


def _row(each: Stability, place: int) -> dict[str, Any]:
    ranks = [1 + int((choice.means > choice.means[place] + CLOSE).sum()) for choice in each.choices]
    low, high = min(ranks), max(ranks)
    return {
        "method": each.methods[place],
        each.found.headline: f"{100 * each.choices[0].means[place]:.1f}",
        "rank": str(ranks[0]),
        "by any choice": str(low) if low == high else f"{low} to {high}",
    }


def _flip(each: Stability, name: str) -> dict[str, str]:
    choice = next((choice for choice in each.choices if choice.name == name), each.choices[0])
    flipped, kind = (each.drawn, DRAW) if name == DRAW else (each.flipped(choice), choice.kind)
    told = [f"{each.methods[a]}, {each.methods[b]}" for (a, b), yes in zip(each.pairs, flipped, strict=True) if yes]
    return {
        "choice": name,
        "kind": kind,
        "pairs": str(len(told)),
        "in draws": f"{100 * choice.reversed[flipped].mean():.0f} %",
        "which": "; ".join(told[:3]) + (f" and {len(told) - 3} more" if len(told) > 3 else ""),
    }


def frame(found: Sequence[Stability]) -> pd.DataFrame:
    """One row a choice and pair: dataset, model, choice, kind, a, b, difference, flips, reversed (share of draws)."""
    return pd.DataFrame(
        [
            {
                "dataset": each.found.dataset,
                "model": each.found.model,
                "choice": choice.name,
                "kind": choice.kind,
                "a": each.methods[a],
                "b": each.methods[b],
                "difference": choice.apart[p],
                "flips": bool(each.flipped(choice)[p]),
                "reversed": choice.reversed[p],
            }
            for each in found
            for choice in each.choices
            for p, (a, b) in enumerate(each.pairs)
        ]
    )
