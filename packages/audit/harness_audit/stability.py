"""Whether a ranking survives its choices: every scorer, judge, judge prompt and draw of questions
at once.

    found = analyse_runs(pairs)          pairs: (run, its rows); a Stability for each data set and model
    found[0].sentence                    "Pairs of methods that keep their order under 16 scorers and ...: 6 of 10"
    sections(found), frame(found)        tables for people; one row a choice and pair for programs

A choice is a scorer of `score_bands`, or a judge: one model with one prompt. The order of a pair is
the headline's; a choice flips it where its means say the opposite; the questions settle it where
the sign-flip test of the headline's difference, by cluster, is below 5 % after Holm's correction
for all pairs. For each choice the share of DRAWS resamples with the opposite order is told too. A
pair that the headline ties has the order of most choices. A choice by which all methods are equal,
as of a judge that always says no, has no order and is left out.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd

from harness.errors import UserError
from harness.stats.bootstrap import per_cluster
from harness.stats.paired_tests import holm, paired_test
from harness.stats.resampling import resample_sums
from harness.storage.manifest_file import JudgeEntry
from harness.storage.run_folder import StoredRun
from harness_audit import score_bands
from harness_audit.score_bands import CLOSE, JUDGES, Band, rank_range
from reports.gold_rows import Rows
from reports.markup import Html, el, joined

KINDS = ("scorer", "judge", "judge prompt")
DRAWS = 1000
DRAW = "draw of questions"
_ALPHA = 0.05  # that any pair of equal methods is called settled
_NAMED = 4  # choices that the sentence names
_RESCORED = 20_000  # answers of a page; each takes 0.6 ms under every scorer, and as much memory again as the page
_IN_DRAWS = "in draws: in how many resamples of the questions these pairs have the opposite order by that choice"


@dataclass(frozen=True)
class Stability:
    """The methods of one data set and model under every choice.

    table: a row a choice and pair (and one for the draw): choice, kind (scorer, judge, judge prompt
    where one model judged with several, or draw), a, b, difference of their means, reversed (share
    of draws with the opposite order), flips (of the draw: does not settle).
    """

    found: Band
    table: pd.DataFrame

    @property
    def silent(self) -> list[str]:
        """The choices by which all methods are equal, which have no order."""
        telling = set(self.table["choice"])
        return [name for name in self.found.columns if telling and name not in telling]

    @property
    def flips(self) -> dict[str, int]:
        """Choice -> number of pairs that it flips, or leaves open (the draw), most first; only
        those that do."""
        return dict(Counter(self.table["choice"][self.table["flips"]]).most_common())

    @property
    def sentence(self) -> str:
        """How many pairs keep their order, and which choices flip the others."""
        if self.table.empty:
            return "One method alone has no ranking."
        changing = self.table.groupby(["a", "b"])["flips"].any()
        kinds = Counter(self.table.drop_duplicates("choice")["kind"])
        counted = [
            f"{kinds[kind]} {kind}{'s' if kinds[kind] > 1 else ''}" for kind in KINDS if kinds[kind]
        ]
        text = (
            f"Pairs of methods that keep their order under {', '.join(counted)} and the draw of "
            "questions (5 % over "
            f"all pairs): {(~changing).sum()} of {len(changing)}"
        )
        if not self.flips:
            return f"{text}."
        if by_choice := [f"{name} {count}" for name, count in self.flips.items() if name != DRAW]:
            flipped = self.table[self.table["choice"] != DRAW].groupby(["a", "b"])["flips"].any()
            more = f" and {len(by_choice) - _NAMED} more choices" if len(by_choice) > _NAMED else ""
            text += f"; {flipped.sum()} ({100 * flipped.mean():.0f} %) flip, by {', '.join(by_choice[:_NAMED])}{more}"
        if DRAW in self.flips:
            text += f"; {self.flips[DRAW]} not settled by the questions"
        share = self.table["reversed"][self.table["choice"] != DRAW].mean()
        return f"{text}. Over all choices and draws at once {100 * share:.0f} % of the orders are reversed."


def analyse_runs(pairs: Sequence[tuple[StoredRun, Rows]]) -> list[Stability]:
    """A Stability for each data set and model; pairs: each run with its rows. Raises as
    `score_bands.analyse_runs`."""
    judges = {name: judge for run, _ in pairs for name, judge in run.manifest.judges.items()}
    return [_stability(band, judges) for band in score_bands.analyse_runs(pairs)]


def _model_name(judge: JudgeEntry | None) -> str:
    """The name of a judge's model; "None" where it is not recorded."""
    model = None if judge is None else judge.model
    return str((model or {}).get("name"))


def _stability(band: Band, judges: Mapping[str, JudgeEntry]) -> Stability:
    """Compare each pair of methods by every scorer, judge and draw; judges: name -> its entry in
    the manifest."""
    pairs = list(combinations(band.methods, 2))
    apart = {
        name: np.asarray([own[a] - own[b] for a, b in pairs]) for name, own in band.means.items()
    }
    telling = [
        name for name, own in apart.items() if name == band.headline or np.any(abs(own) > CLOSE)
    ]
    names = sorted(telling, key=lambda name: name != band.headline)  # the headline first
    signs = np.sign([(apart[name] / CLOSE).round() for name in names])
    order = np.where(signs[0] != 0, signs[0], np.sign(signs.sum(axis=0)))
    entries = {name: judges.get(name) for name in names if band.families[name] == JUDGES}
    models = [_model_name(judge) for judge in entries.values()]
    kinds = {
        name: KINDS[1 + (models.count(model) > 1)]
        for name, model in zip(entries, models, strict=True)
    }
    rows = []
    for name in names:
        own = {
            method: per_cluster(values, band.clusters[name])
            for method, values in band.columns[name].items()
        }
        totals = resample_sums(
            [*(sums for sums, _ in own.values()), next(iter(own.values()))[1]], 0, DRAWS
        )
        drawn = {method: totals[:, place] / totals[:, -1] for place, method in enumerate(own)}
        reversed_ = [
            float(((drawn[a] - drawn[b]) * order[p] < -CLOSE).mean())
            for p, (a, b) in enumerate(pairs)
        ]
        flips = apart[name] * order < -CLOSE
        values = zip(pairs, apart[name], reversed_, flips, strict=True)
        rows += [(name, kinds.get(name, "scorer"), *pair, *value) for pair, *value in values]
    columns, clusters = band.columns[band.headline], band.clusters[band.headline]
    adjusted = holm([paired_test(columns[a], columns[b], clusters).p for a, b in pairs])
    for (_, _, a, b, *numbers, _), p in zip(rows[: len(pairs)], adjusted, strict=True):
        rows.append((DRAW, "draw", a, b, *numbers, p > _ALPHA))
    return Stability(
        band,
        pd.DataFrame(rows, columns=["choice", "kind", "a", "b", "difference", "reversed", "flips"]),
    )


def sections(analyses: Sequence[Stability]) -> list[tuple[str, pd.DataFrame]]:
    """For each data set and model a table of methods, and one of the choices that flip a pair."""
    out = []
    for analysis in analyses:
        silent, headline = analysis.silent, analysis.found.headline
        means = {
            name: by_method
            for name, by_method in analysis.found.means.items()
            if name not in silent
        }
        title = f"{analysis.found.dataset} · {analysis.found.model}"
        left_out = {
            "not of all methods": analysis.found.partial,
            "the same for all methods": silent,
        }
        without = [
            f"{why}, so left out: {', '.join(names)}" for why, names in left_out.items() if names
        ]
        notes = (analysis.sentence, analysis.found.asked, *without)
        rows = [
            (m, f"{100 * means[headline][m]:.1f}", rank_range(means, m), notes)
            for m in analysis.found.methods
        ]
        out.append(
            (title, pd.DataFrame(rows, columns=["method", headline, "rank by any choice", "notes"]))
        )
        if analysis.flips:
            changed = []
            for name in analysis.flips:
                part = analysis.table[analysis.table["flips"] & (analysis.table["choice"] == name)]
                pairs = [f"{a}, {b}" for a, b in zip(part["a"], part["b"], strict=True)]
                more = f" and {len(pairs) - 3} more" if len(pairs) > 3 else ""
                draws = f"{100 * part['reversed'].mean():.0f} %"
                changed.append(
                    (
                        name,
                        part["kind"].iloc[0],
                        str(len(pairs)),
                        draws,
                        "; ".join(pairs[:3]) + more,
                        (_IN_DRAWS,),
                    )
                )
            names = ["choice", "kind", "pairs", "in draws", "which", "notes"]
            out.append(
                (f"{title}: what flips or is not settled", pd.DataFrame(changed, columns=names))
            )
    return out


def frame(analyses: Sequence[Stability]) -> pd.DataFrame:
    """The tables of all below each other, with the columns dataset and model."""
    return pd.concat(
        [
            analysis.table.assign(dataset=analysis.found.dataset, model=analysis.found.model)
            for analysis in analyses
        ]
    )


def page_section(pairs: Sequence[tuple[StoredRun, Rows]]) -> Html | None:
    """For each model with several methods a sentence for the page: whether their ranking survives
    its choices."""
    if (count := sum(len(run.records) for run, _ in pairs)) > _RESCORED:
        texts = [
            f"`harness report stability` tells whether the ranking of {count:,} answers is stable."
        ]
    else:
        try:
            analyses = analyse_runs([pair for pair in pairs if pair[1].problem is None])
        except UserError:  # the methods have no question in common
            return None
        texts = [
            f"{analysis.found.model}: {analysis.sentence}"
            for analysis in analyses
            if not analysis.table.empty
        ]
    return (
        joined(el("h3", "Does the ranking hold?"), *(el("p", text) for text in texts))
        if texts
        else None
    )
