"""What `harness judge` prints of a run: the score, answers that were not judged, the cost, and how far
judges, scores and labels agree."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.cli.output import mean_text, say
from harness.cli.table_output import aligned_columns
from harness.cost import units
from harness.cost.prices import Prices, money_spent
from harness.errors import UserError
from harness.judging.citations import NO_CITATIONS
from harness.judging.claims import NO_CLAIMS
from harness.judging.judge_run import Judged, price_of
from harness.judging.kinds import UNCLEAR
from harness.judging.model_judge import EMPTY, FAILED, NO_CONTEXTS, NO_GOLD, NO_TEXT, Judge
from harness.judging.pairwise import BOTH_FAILED
from harness.stats.bootstrap import Interval, with_interval
from harness.storage.run_folder import read_run
from harness.storage.summary_file import ScoreMean
from reports.judges import (
    MIN_RIGHT_SCORE,
    PairwiseResult,
    Raters,
    judge_agreements,
    pairwise_result,
)
from reports.label_sheet import PEOPLE
from reports.labels import ONLY_RATER, HandLabels, MeanByLabels, label_agreements, means_by_labels

_WORDS_OF_COUNT = {
    "asked": "asked",
    "cached": "from the cache",
    "unclear": "replies without a verdict, scored 0",
    "empty": "empty answers, scored 0",
    "without_gold": "without gold answer, not scored",
    "without_text": "shown no text, scored 0",
    "without_contexts": "whose application says no context, not scored",
    "without_claims": "without a claim, not scored",
    "without_citations": "without a citation, scored 0",
    "failed_questions": "failed questions, scored 0",
    "both_failed": "questions that failed in both runs, not scored",
}


@dataclass(frozen=True)
class JudgeOutput:
    """Prints the results of judges.

    Attributes:
        labels: Labels by hand, to compare the judges with.
        as_json: Print a JSON object for each run in place of text.
    """

    labels: HandLabels
    as_json: bool

    def print(self, folder: Path, judge: Judge, judged: Judged) -> None:
        """Print the results of a judge on a run, and warn of what went wrong.

        Args:
            folder: The run folder.
            judge: The judge.
            judged: What it decided, with its costs.
        """
        agreement = _read_agreement(folder, self.labels)
        result = _Result(folder, judge, judged, agreement)
        if self.as_json:
            print(json.dumps(result.as_json()), flush=True)
        else:
            print(result.as_text(), flush=True)
        _say_problems(folder, judge, judged)


@dataclass(frozen=True)
class _Result:
    """A judge's results on a run, ready to print.

    Attributes:
        folder: The run folder.
        judge: The judge.
        judged: What it decided, with its costs.
        agreement: How far it agrees with others.
    """

    folder: Path
    judge: Judge
    judged: Judged
    agreement: _AgreementOfRun

    @property
    def score(self) -> ScoreMean | None:
        """The judge's mean with its interval; None where nothing is scored."""
        return self.judged.summary.scores.get(self.judge.name)

    @property
    def cost_in_money(self) -> float | None:
        """What all replies of the judge cost in money; None where its model has no price."""
        price = price_of(self.judge)
        if price is None:
            return None
        billed = price.billed(in_batches=self.judge.config.batch)
        return money_spent(self.judged.usage, Prices(billed))

    def count_by_reason(self) -> dict[str, int]:
        """How many answers were judged, or not judged, for each reason: {"asked": 20, ...}."""
        judged = self.judged
        return {
            "asked": judged.replied - judged.cached,
            "cached": judged.cached,
            "unclear": judged.count(UNCLEAR),
            "empty": judged.count(EMPTY),
            "without_gold": judged.count(NO_GOLD),
            "without_text": judged.count(NO_TEXT),
            "without_contexts": judged.count(NO_CONTEXTS),
            "without_claims": judged.count(NO_CLAIMS),
            "without_citations": judged.count(NO_CITATIONS),
            "failed_questions": judged.count(FAILED),
            "both_failed": judged.count(BOTH_FAILED),
            "not_judged": len(judged.failures),
        }

    def pairwise(self) -> PairwiseResult | None:
        """Wins, ties and losses against the other run; None for another kind of
        judge, or where no pair is scored.
        """
        if not self.judge.other_run or self.score is None:
            return None
        return pairwise_result(read_run(self.folder), self.judge.name)

    def as_json(self) -> dict[str, object]:
        """The results as a JSON object: score, counts, cost and agreement."""
        usage = self.judged.usage
        score = None
        if self.score is not None:
            score = self.score.to_json()
        line: dict[str, object] = {
            "run": str(self.folder),
            "judge": self.judge.name,
            "score": score,
            **self.count_by_reason(),
            "tokens_in": usage.get("tokens_in", 0),
            "tokens_out": usage.get("tokens_out", 0),
            "money": self.cost_in_money,
            **self.agreement.columns(),
        }
        if self.judged.calibration_error is not None:
            line["calibration_error"] = self.judged.calibration_error
        pairwise = self.pairwise()
        if pairwise is not None:
            line["pairs"] = pairwise.columns()
        return line

    def as_text(self) -> str:
        """The results as lines for people: score, counts, cost and agreement."""
        mean = "-"
        if self.score is not None:
            mean = mean_text(self.score)
        usage = self.judged.usage
        n_tokens_read = usage.get("tokens_in", 0)
        n_tokens_written = usage.get("tokens_out", 0)
        cost = f"  all replies: {n_tokens_read:,} tokens read, {n_tokens_written:,} written"
        if self.cost_in_money is not None:
            cost += f", {units.money_text(self.cost_in_money)} in money"
        lines = [str(self.folder), f"  {self.judge.name}  {mean}", f"  {self._counts_text()}"]
        if self.judged.calibration_error is not None:
            lines.append(f"  calibration error {_points(self.judged.calibration_error)}")
        pairwise = self.pairwise()
        if pairwise is not None:
            lines.append(f"  {_pairwise_text(pairwise)}")
        lines.append(cost)
        lines += self.agreement.lines()
        return "\n".join(lines)

    def _counts_text(self) -> str:
        """Write the counts that are not 0: "20 asked, 3 from the cache"."""
        parts = []
        count_by_reason = self.count_by_reason()
        for key, words in _WORDS_OF_COUNT.items():
            if key == "unclear" and self.judge.drops_unclear:
                words = "whose reply cannot be read, not scored"
            if count_by_reason[key]:
                parts.append(f"{count_by_reason[key]} {words}")
        return ", ".join(parts) or "nothing judged"


def _pairwise_text(pairs: PairwiseResult) -> str:
    """Write pairs: "wins 5, ties 3, losses 2 beside bm25--...; wins less
    losses 30.0 [-5.0, 60.0], p 0.12".
    """
    counts = f"wins {pairs.wins}, ties {pairs.ties}, losses {pairs.losses}"
    test = pairs.test
    if test is None:
        return f"{counts} beside {pairs.other_run}"
    difference = with_interval(_points, test.difference, test.low, test.high)
    return f"{counts} beside {pairs.other_run}; wins less losses {difference}, p {test.p:.2g}"


def _points(share: float) -> str:
    """Write a share in percent points: 0.81 -> "81.0"."""
    return f"{100 * share:.1f}"


def _say_problems(folder: Path, judge: Judge, judged: Judged) -> None:
    """Warn where most replies hold no verdict, and say which answers were not judged and why.

    Args:
        folder: The run folder.
        judge: The judge.
        judged: What it decided, and why the rest is not judged.
    """
    if 2 * judged.count(UNCLEAR) > judged.replied:
        advice = "use a larger model, or another prompt (--prompt)"
        if judge.drops_unclear:
            advice = "use a larger model, or a higher --max-tokens"
        say(f"warning: most replies of {judge.name} hold no verdict; {advice}")
    if judged.failures:
        question, reason = next(iter(judged.failures.items()))
        total = len(judged.judgements) + len(judged.failures)
        say(
            f"error: {folder}: {len(judged.failures)} of {total} answers were not judged; the "
            "first, that of "
            f"'{question}': {reason}  (the same command asks for them again)"
        )


@dataclass(frozen=True)
class _AgreementOfRun:
    """How far judges, scores and people agree on a run.

    Attributes:
        rater_pairs: The agreement of each pair of raters.
        means_by_labels: What people would say of all answers, estimated from their labels and a
            judge.
    """

    rater_pairs: list[Raters]
    means_by_labels: list[MeanByLabels]

    def columns(self) -> dict[str, object]:
        """The agreement as JSON: {"agreement": [...], "people":
        [...]}, the second only with labels.
        """
        values: dict[str, object] = {"agreement": [pair.columns() for pair in self.rater_pairs]}
        if self.means_by_labels:
            values["people"] = [mean.columns() for mean in self.means_by_labels]
        return values

    def lines(self) -> list[str]:
        """The agreement as text tables."""
        lines = []
        if self.rater_pairs:
            lines.append(agreement_table(self.rater_pairs))
        if self.means_by_labels:
            lines.append(_people_table(self.means_by_labels))
        return lines


def print_agreements(folders: Sequence[Path], labels: HandLabels, as_json: bool) -> int:
    """Print how far the judges agree that runs have already. Returns the exit code 0.

    Args:
        folders: The run folders.
        labels: Labels by hand.
        as_json: Print a JSON object for each run.

    Raises:
        UserError: No model has judged any of them.
    """
    agreement_by_folder: dict[Path, _AgreementOfRun] = {}
    for folder in folders:
        agreement = _read_agreement(folder, labels)
        if agreement.rater_pairs:
            agreement_by_folder[folder] = agreement
    if not agreement_by_folder:
        raise UserError("no model has judged these runs yet; name one with --model NAME")
    for folder, agreement in agreement_by_folder.items():
        if as_json:
            print(json.dumps({"run": str(folder), **agreement.columns()}))
        else:
            print("\n".join([str(folder), *agreement.lines()]))
    return 0


def _read_agreement(folder: Path, labels: HandLabels) -> _AgreementOfRun:
    """Read a run and compare its judges with each other and with people's labels."""
    run = read_run(folder)
    rater_pairs = [*judge_agreements(run), *label_agreements(run, labels)]
    return _AgreementOfRun(rater_pairs, means_by_labels(run, labels))


def agreement_table(pairs: list[Raters]) -> str:
    """A text table: percent agreement and Cohen's kappa, with its interval by
    document, of each pair of raters.
    """
    judge_names = {pair.first for pair in pairs}
    heads = ("  agreement", "n", "percent", "kappa")
    rows = [_agreement_row(pair, judge_names) for pair in pairs]
    return aligned_columns([heads, *rows], max_width=90)


def _agreement_row(pair: Raters, judge_names: set[str]) -> tuple[str, str, str, str]:
    """The cells of a pair of raters: names, number of answers, percent, kappa with its interval.

    Args:
        pair: The pair with its agreement.
        judge_names: Names of raters that decide right or wrong; a score beside them counts as
            right from a limit, which the row names.
    """
    agreement = pair.agreement
    second = pair.second
    if second not in (*judge_names, *PEOPLE, ONLY_RATER):
        second = f"{second} (right from {MIN_RIGHT_SCORE:g})"
    percent = "-"
    kappa = "-"
    if agreement.share is not None:
        percent = f"{100 * agreement.share:.1f}"
    if agreement.kappa is not None:
        kappa = with_interval("{:.2f}".format, agreement.kappa, agreement.low, agreement.high)
    return f"  {pair.first} and {second}", str(agreement.n), percent, kappa


def _people_table(means: list[MeanByLabels]) -> str:
    """A text table with the share of right answers by each judge, by
    the labels, and by both together.
    """
    rows = [("  right, of the answered questions", "n", "mean")]
    for mean in means:
        joined = f"both (prediction-powered by {mean.by_labels.n} labels)"
        rows.append((f"  {mean.judge}", str(mean.by_judge.n), _interval_text(mean.by_judge)))
        rows.append(("  labels alone", str(mean.by_labels.n), _interval_text(mean.by_labels)))
        rows.append((f"  {joined}", str(mean.by_judge.n), _interval_text(mean.joined)))
    return aligned_columns(rows, max_width=90)


def _interval_text(interval: Interval) -> str:
    """Write a mean with its interval in percent points: "81.0 [74.2, 87.8]"; "-" without a mean."""
    if interval.mean is None:
        return "-"
    return with_interval(_points, interval.mean, interval.low, interval.high)
