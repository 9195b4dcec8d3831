"""`harness compare`: means beside paired differences, one section of each a data set.

found = side_by_side(runs, reference="full-context")
found.means          reports.tables.frame, best first
found.differences    reports.compare.compare; None where every data set has one run only
found.joined()       one row a run with its difference: what csv and json hold
found.render("text")

musique · Llama-3.1-8B-Instruct
method        longbench.qa_f1_score  evidence_recall  tokens  ratio  n     failed  truncated
full-context  35.8 [33.9, 37.7]      ...
bm25          28.7 [26.8, 30.6]      ...

musique: longbench.qa_f1_score minus that of full-context, on the same questions
method  n     clusters  mean  reference mean  difference         p       p_holm  detectable
bm25    2417      2417  28.7            35.8  -7.1 [-8.8, -5.4]  <0.001  <0.001         2.4
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from harness.cost.flops import DEFAULT
from harness.errors import UnknownName, UserError
from reports import stored as facts
from reports.columns import PAIRED, Section, ordered, sections, select
from reports.compare import brief_difference, compare
from reports.render import render, render_sections
from reports.tables import REFERENCE, frame

if TYPE_CHECKING:
    from harness.storage.run_folder import StoredRun


@dataclass(frozen=True)
class SideBySide:
    """The two tables of a comparison; `score` is the one asked for, None the headline of each data set."""

    means: pd.DataFrame
    differences: pd.DataFrame | None
    score: str | None = None
    runs: Sequence[StoredRun] = ()

    def joined(self) -> pd.DataFrame:
        """`means` with the columns of `differences` ("paired.n", "difference", "p", ...); a reference has none."""
        if self.differences is None:
            return self.means
        renamed = self.differences.rename(columns={"notes": "paired.notes"} | _PREFIXED)
        return self.means.merge(renamed.drop(columns=["model", "method"]), on=["dataset", "run"], how="left")

    def render(self, form: str, columns: Sequence[str] | None = None) -> str:
        """Both tables in a format of reports.render.FORMATS.

        columns: of the means, as in reports.columns.sections; csv and json hold all of them by default.
        """
        if form in ("csv", "json"):
            table = self.joined()
            return render(select(table, columns, self.score) if columns else table, form)
        found = [*sections(self.means, columns, self.score), *self.paired()]
        return render_sections([(s.title, s.frame) for s in found], form)

    def paired(self) -> list[Section]:
        """The differences, a section for each data set, their legend among the notes."""
        if self.differences is None:
            return []
        return [_paired(group, len(self.differences)) for _, group in self._fresh().groupby("dataset")]

    def _fresh(self) -> pd.DataFrame:
        """The differences without the notes that stand below the means, and with the changes in brief."""
        assert self.differences is not None
        means = zip(self.means["method"], self.means["notes"], strict=True)
        told = {f"{method}: {note}" for method, notes in means for note in notes}
        table = self.differences.copy()
        table["notes"] = [tuple(n for n in cell if n not in told) for cell in table["notes"]]
        table["changed"] = [self._changed(row) for row in table.to_dict("records")]
        return table

    def _changed(self, row: dict[Any, Any]) -> tuple[str, ...]:
        ours, base = (self._run(row["dataset"], row[name]) for name in ("run", "reference_run"))
        changed = brief_difference(ours, base)
        return (f"{row['method']} differs from {row['reference']} in {'; '.join(changed)}",) if changed else ()

    def _run(self, dataset: str, name: str) -> StoredRun:
        return next(r for r in self.runs if facts.key(r) == (dataset, name))


_LEGEND = (
    "difference with its 95 % interval (bootstrap by document, by question where passages are retrieved); p: sign "
    "flips likewise, p_holm: adjusted by Holm; detectable: the smallest difference found with power 0.8 at this n"
)
_PREFIXED = {name: f"paired.{name}" for name in ("score", "n", "clusters", "mean", "reference mean")}


def side_by_side(
    runs: Sequence[StoredRun],
    *,
    reference: str | None = None,
    score: str | None = None,
    force: bool = False,
    convention: str = DEFAULT,
) -> SideBySide:
    """Compare `runs`; arguments and errors are those of reports.compare.compare, `convention` is of the means' FLOPs.

    A single run, or one of each data set, has means only.
    """
    facts.check_runs(runs)
    _check_score(runs, score)
    _check_copies(runs)
    names = [run.config["dataset"]["name"] for run in runs]
    differences = None
    if reference is not None or len(set(names)) < len(names):
        differences = compare(runs, reference=reference, score=score, force=force)
    means = frame(runs, convention=convention, reference=reference or REFERENCE)
    return SideBySide(ordered(means, score), differences, score, tuple(runs))


def _check_copies(runs: Sequence[StoredRun]) -> None:
    """One run in two results folders has no difference to itself, and its rows could not be told apart."""
    twice = [name for (_, name), count in Counter(facts.key(run) for run in runs).items() if count > 1]
    if twice:
        raise UserError(f"{', '.join(twice)} is given more than once, from several folders; leave one out")


def _check_score(runs: Sequence[StoredRun], score: str | None) -> None:
    known = list(dict.fromkeys(name for run in runs for name in facts.score_names(run)))
    if score is not None and score not in known:
        raise UnknownName("score", score, known)


def _paired(group: pd.DataFrame, family: int) -> Section:
    """The section of one data set: a title and the columns that differ between its rows."""
    first = group.iloc[0]
    legend = f"{_LEGEND}; p_holm over {family} comparison{'s' if family > 1 else ''}"
    table = group.copy()
    table["notes"] = [(legend, *notes) for notes in group["notes"]]
    wanted = [*PAIRED, "changed", "notes"]
    if table["model"].nunique() == 1:
        wanted.remove("model")
    kept = [part for name in wanted for part in (name, f"{name}.low", f"{name}.high") if part in table.columns]
    title = f"{first['dataset']}: {first['score']} minus that of {first['reference']}, on the same questions"
    return Section(title, table[kept].reset_index(drop=True))
