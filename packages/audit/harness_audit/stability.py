"""Whether a ranking survives its choices: every scorer, judge, judge prompt and draw of questions
at once.

    found = analyse_runs(pairs)          pairs: (run, its rows); a Stability for each data set and model
    found[0].sentence                    "6 of 10 pairs of methods keep their order by 16 scorers and ..."
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
from dataclasses import astuple, dataclass, fields, replace
from itertools import combinations

import numpy as np
import pandas as pd

from harness.errors import UserError
from harness.stats.bootstrap import per_cluster
from harness.stats.paired_tests import holm, paired_test
from harness.stats.resampling import Floats, resample_sums
from harness.storage.manifest_file import JudgeEntry
from harness.storage.run_folder import StoredRun
from harness_audit import score_bands
from harness_audit.score_bands import EQUAL_MEANS_TOLERANCE, JUDGES, Band, rank_range
from reports.gold_rows import QuestionRows
from reports.markup import Html, element, join_html

KINDS = ("scorer", "judge", "judge prompt")
DRAWS = 1000
DRAW = "draw of questions"
_ALPHA = 0.05  # that any pair of equal methods is called settled
_MAX_CHOICES_IN_SENTENCE = 4  # named one by one; the others are counted
_MAX_PAIRS_IN_ROW = 3  # of a choice, named one by one
_MAX_RESCORED_ANSWERS = 20_000
"""Most answers of a page that are scored again: each takes 0.6 ms under every scorer, and as much
memory again as the page."""
_NOTE_ON_DRAWS = (
    "in draws: in how many resamples of the questions these pairs have the opposite order by that "
    "choice"
)


@dataclass(frozen=True)
class Stability:
    """The methods of one data set and model under every choice: each scorer and judge that can
    score them.

    Args:
        band: The methods under every scorer.
        table: A row for each choice and pair, then for each pair one of the choice DRAW; columns
            are the fields of _PairByChoice.
    """

    band: Band
    table: pd.DataFrame

    @property
    def choices_without_order(self) -> list[str]:
        """The choices by which all methods are equal, so that they give no order."""
        if self.table.empty:
            return []
        choices_with_order = set(self.table["choice"])
        return [name for name in self.band.values_by_scorer if name not in choices_with_order]

    @property
    def flips(self) -> dict[str, int]:
        """Choice -> how many pairs of methods it flips, most first; for DRAW how many the questions
        leave open. Choices that flip none are not in it."""
        choices_that_flip = self.table["choice"][self.table["flips"]]  # one a pair that it flips
        return dict(Counter(choices_that_flip).most_common())

    @property
    def sentence(self) -> str:
        """How many pairs of methods keep their order by all choices (scorers, judges, draws of
        questions), and which choices flip the others:

        "2 of 3 pairs of methods keep their order by 16 scorers and whichever questions are drawn
        (5 % over all pairs); 1 (33 %) change it, by em 1. Over all choices and draws at once 8 % of
        the orders are reversed."
        """
        if self.table.empty:
            return "One method alone has no ranking."
        is_changed = self.table.groupby(["a", "b"])["flips"].any()  # of each pair, by any choice
        sentence = (
            f"{(~is_changed).sum()} of {len(is_changed)} pairs of methods keep their order by "
            f"{self._choice_counts()} and whichever questions are drawn (5 % over all pairs)"
        )
        if not self.flips:
            return f"{sentence}."
        sentence += self._flipped_by_choices()
        if DRAW in self.flips:
            sentence += f"; {self.flips[DRAW]} may change it with other questions"
        reversed_share = self.table["reversed"][self.table["choice"] != DRAW].mean()
        return (
            f"{sentence}. Over all choices and draws at once {100 * reversed_share:.0f} % of the "
            "orders are reversed."
        )

    def _choice_counts(self) -> str:
        """ "16 scorers, 1 judge": how many choices there are of each kind, the draw of questions
        left out."""
        kinds = Counter(self.table.drop_duplicates("choice")["kind"])
        phrases = []
        for kind in KINDS:
            if kinds[kind] == 1:
                phrases.append(f"1 {kind}")
            elif kinds[kind] > 1:
                phrases.append(f"{kinds[kind]} {kind}s")
        return ", ".join(phrases)

    def _flipped_by_choices(self) -> str:
        """ "; 2 (20 %) change it, by em 2": how many pairs scorers and judges flip, and which of
        these do; "" for none."""
        by_choice = [f"{name} {count}" for name, count in self.flips.items() if name != DRAW]
        if not by_choice:
            return ""
        named_choices = ", ".join(by_choice[:_MAX_CHOICES_IN_SENTENCE])
        if len(by_choice) > _MAX_CHOICES_IN_SENTENCE:
            named_choices += f" and {len(by_choice) - _MAX_CHOICES_IN_SENTENCE} more choices"
        is_flipped = self.table[self.table["choice"] != DRAW].groupby(["a", "b"])["flips"].any()
        return (
            f"; {is_flipped.sum()} ({100 * is_flipped.mean():.0f} %) change it, by {named_choices}"
        )


def analyse_runs(pairs: Sequence[tuple[StoredRun, QuestionRows]]) -> list[Stability]:
    """A Stability for each data set and model, in the order of the runs.

    Args:
        pairs: Each run with its rows.

    Raises:
        UserError: The runs of one data set and model have no question in common.
    """
    judges: dict[str, JudgeEntry] = {}
    for run, _ in pairs:
        judges.update(run.manifest.judges)
    bands = score_bands.analyse_runs(pairs)
    return [_compare_pairs(band, judges) for band in bands]


def _model_name(judge: JudgeEntry | None) -> str:
    """The name of a judge's model; "None" where it is not recorded."""
    if judge is None:
        return "None"
    return str((judge.model or {}).get("name"))


def _compare_pairs(band: Band, judges: Mapping[str, JudgeEntry]) -> Stability:
    """Compare each pair of methods by every choice (a scorer or a judge), and by draws of
    questions: a row for each choice and pair, which says whether the choice flips the pair, so
    orders it the other way than the headline does.

    Args:
        band: The methods under every choice.
        judges: Name of a judge -> what the manifests say of it.
    """
    pairs = list(combinations(band.methods, 2))
    differences_by_choice = _differences(band, pairs)
    choices = list(differences_by_choice)
    choices.remove(band.headline)
    choices.insert(0, band.headline)
    better_signs = _better_of_pairs(differences_by_choice, choices)
    kind_by_choice = _kinds(band, judges, choices)
    rows: list[_PairByChoice] = []
    for choice in choices:
        differences = differences_by_choice[choice]
        reversed_shares = _reversed_shares(band, choice, pairs, better_signs)
        flips = differences * better_signs < -EQUAL_MEANS_TOLERANCE
        for pair_index, (a, b) in enumerate(pairs):
            row = _PairByChoice(
                choice=choice,
                kind=kind_by_choice[choice],
                a=a,
                b=b,
                difference=differences[pair_index],
                reversed=reversed_shares[pair_index],
                flips=flips[pair_index],
            )
            rows.append(row)
    rows_of_headline = [row for row in rows if row.choice == band.headline]
    rows += _unsettled_by_draw(band, rows_of_headline)
    column_names = [field.name for field in fields(_PairByChoice)]
    return Stability(band, pd.DataFrame(map(astuple, rows), columns=column_names))


@dataclass(frozen=True)
class _PairByChoice:
    """A pair of methods by one choice: a row of Stability.table.

    Args:
        choice: The choice; DRAW for the draw of questions.
        kind: One of KINDS, "judge prompt" where one model judged with several; "draw" of DRAW.
        a: The first method.
        b: The second method.
        difference: Mean of a minus mean of b; of DRAW by the headline.
        reversed: Share of draws of questions with the opposite order.
        flips: Whether the choice has the opposite order; of DRAW whether the questions leave the
            order open.
    """

    choice: str
    kind: str
    a: str
    b: str
    difference: float
    reversed: float
    flips: bool


def _unsettled_by_draw(
    band: Band, rows_of_headline: Sequence[_PairByChoice]
) -> list[_PairByChoice]:
    """The rows of the choice DRAW, one for each pair: whether the questions leave its order open
    (`flips`). They do where a test of the difference by the headline gives p above 0.05, with
    Holm's correction for all pairs.

    Args:
        band: The methods.
        rows_of_headline: The rows of the headline, one for each pair.
    """
    values_by_method = band.values_by_scorer[band.headline]
    clusters = band.cluster_labels_by_scorer[band.headline]
    p_values = [
        paired_test(values_by_method[row.a], values_by_method[row.b], clusters).p
        for row in rows_of_headline
    ]
    rows: list[_PairByChoice] = []
    for row, p in zip(rows_of_headline, holm(p_values), strict=True):
        rows.append(replace(row, choice=DRAW, kind="draw", flips=p > _ALPHA))
    return rows


def _differences(band: Band, pairs: Sequence[tuple[str, str]]) -> dict[str, Floats]:
    """Choice (scorer or judge) -> for each pair the mean of its first method minus that of its
    second. Choices by which all methods are equal are left out, but not the headline.

    Args:
        band: The methods under every choice.
        pairs: The pairs of methods.
    """
    differences: dict[str, Floats] = {}
    for choice, means in band.means.items():
        mean_differences = np.asarray([means[a] - means[b] for a, b in pairs])
        if choice == band.headline or np.any(abs(mean_differences) > EQUAL_MEANS_TOLERANCE):
            differences[choice] = mean_differences
    return differences


def _better_of_pairs(differences: Mapping[str, Floats], choices: Sequence[str]) -> Floats:
    """Which method of each pair is better: 1 for the first, -1 for the second, 0 for neither. The
    first of `choices` decides; where it has no order, most of them do.

    Args:
        differences: Choice -> for each pair the difference of the means, first method minus second.
        choices: The choices, the headline first.
    """
    stacked = np.stack([differences[choice] for choice in choices])  # [choices, pairs]
    # Rounded to whole tolerances, equal means have the sign 0.
    signs = np.sign((stacked / EQUAL_MEANS_TOLERANCE).round())
    by_headline = signs[0]
    by_majority = np.sign(signs.sum(axis=0))
    better: Floats = np.where(by_headline != 0, by_headline, by_majority)
    return better


def _kinds(band: Band, judges: Mapping[str, JudgeEntry], choices: Sequence[str]) -> dict[str, str]:
    """Choice -> its kind, one of KINDS: "scorer", "judge", or "judge prompt" where several judges
    have the same model.

    Args:
        band: The methods under every choice.
        judges: Name of a judge -> what the manifests say of it.
        choices: The choices.
    """
    model_of_judge: dict[str, str] = {}  # judge -> its model
    for choice in choices:
        if band.family_by_scorer[choice] == JUDGES:
            model_of_judge[choice] = _model_name(judges.get(choice))
    n_judges_by_model = Counter(model_of_judge.values())
    kinds = dict.fromkeys(choices, "scorer")
    for choice, model in model_of_judge.items():
        kinds[choice] = "judge"
        if n_judges_by_model[model] > 1:
            kinds[choice] = "judge prompt"
    return kinds


def _reversed_shares(
    band: Band, choice: str, pairs: Sequence[tuple[str, str]], better: Floats
) -> list[float]:
    """For each pair the share of DRAWS resamples of the questions in which one choice has the
    opposite order: [0.02, 0.31, ...]; 0 for a pair of which neither method is better. Resampled are
    clusters of questions; seed 0 fixes the draws.

    Args:
        band: The methods under every choice.
        choice: The choice.
        pairs: The pairs of methods.
        better: For each pair 1 if its first method is better, -1 if its second is, 0 for neither.
    """
    cluster_sums_by_method: list[Floats] = []
    for values in band.values_by_scorer[choice].values():
        # The sizes are the same for all methods; those of the last one are used below.
        cluster_sums, cluster_sizes = per_cluster(values, band.cluster_labels_by_scorer[choice])
        cluster_sums_by_method.append(cluster_sums)
    # [draws, methods and size]: in the last column how many questions a draw has
    draw_sums = resample_sums([*cluster_sums_by_method, cluster_sizes], seed=0, resamples=DRAWS)
    sizes_of_draws = draw_sums[:, -1:]
    means_of_draws = draw_sums[:, :-1] / sizes_of_draws  # [draws, methods]
    drawn_means = dict(zip(band.values_by_scorer[choice], means_of_draws.T, strict=True))
    shares = []
    for (a, b), better_sign in zip(pairs, better, strict=True):
        is_opposite = (drawn_means[a] - drawn_means[b]) * better_sign < -EQUAL_MEANS_TOLERANCE
        shares.append(float(is_opposite.mean()))
    return shares


def sections(analyses: Sequence[Stability]) -> list[tuple[str, pd.DataFrame]]:
    """Titled tables for people: for each data set and model one of the methods, and where choices
    flip a pair one of these choices."""
    titled_tables = []
    for analysis in analyses:
        title = f"{analysis.band.dataset} · {analysis.band.model}"
        titled_tables.append((title, _ranking(analysis)))
        if analysis.flips:
            titled_tables.append(
                (f"{title}: what flips or is not settled", _flipping_choices(analysis))
            )
    return titled_tables


def _ranking(analysis: Stability) -> pd.DataFrame:
    """A row for each method: its score by the headline, its best and worst rank by all choices ("1
    to 3"), and notes on what was left out."""
    band = analysis.band
    choices_without_order = analysis.choices_without_order
    notes = [analysis.sentence, band.question_count_note]
    if band.scorers_of_some_methods:
        notes.append(f"not of all methods, so left out: {', '.join(band.scorers_of_some_methods)}")
    if choices_without_order:
        notes.append(f"the same for all methods, so left out: {', '.join(choices_without_order)}")
    means = dict(band.means)
    for name in choices_without_order:
        del means[name]
    rows = []
    for method in band.methods:
        score = f"{100 * means[band.headline][method]:.1f}"
        rows.append((method, score, rank_range(means, method), tuple(notes)))
    return pd.DataFrame(rows, columns=["method", band.headline, "rank by any choice", "notes"])


def _flipping_choices(analysis: Stability) -> pd.DataFrame:
    """A row for each choice that flips a pair, and one for the draw of questions if it leaves a
    pair open. Columns: choice, kind, pairs (how many), in draws (in how many draws these have the
    opposite order), which (the first of the pairs), notes."""
    rows = []
    for choice in analysis.flips:
        flipped_rows = analysis.table[
            analysis.table["flips"] & (analysis.table["choice"] == choice)
        ]
        pair_names = list(flipped_rows["a"] + ", " + flipped_rows["b"])
        pairs_text = "; ".join(pair_names[:_MAX_PAIRS_IN_ROW])
        if len(pair_names) > _MAX_PAIRS_IN_ROW:
            pairs_text += f" and {len(pair_names) - _MAX_PAIRS_IN_ROW} more"
        reversed_percent = f"{100 * flipped_rows['reversed'].mean():.0f} %"
        kind = flipped_rows["kind"].iloc[0]
        rows.append(
            (choice, kind, str(len(pair_names)), reversed_percent, pairs_text, (_NOTE_ON_DRAWS,))
        )
    column_names = ["choice", "kind", "pairs", "in draws", "which", "notes"]
    return pd.DataFrame(rows, columns=column_names)


def frame(analyses: Sequence[Stability]) -> pd.DataFrame:
    """The tables of all analyses below each other, a row for each choice and pair, with the columns
    dataset and model added."""
    tables = []
    for analysis in analyses:
        band = analysis.band
        tables.append(analysis.table.assign(dataset=band.dataset, model=band.model))
    return pd.concat(tables)


def page_section(pairs: Sequence[tuple[StoredRun, QuestionRows]]) -> Html | None:
    """The section of the page that says whether the ranking holds: a sentence for each model with
    several methods; None where there is none.

    With more than _MAX_RESCORED_ANSWERS it names the command instead, as scoring them takes too long.

    Args:
        pairs: Each run with its rows.
    """
    n_answers = 0
    for run, _ in pairs:
        n_answers += len(run.records)
    if n_answers > _MAX_RESCORED_ANSWERS:
        paragraphs = [
            f"`harness report stability` tells whether the ranking of {n_answers:,} answers is stable."
        ]
    else:
        paragraphs = _sentences([(run, rows) for run, rows in pairs if rows.problem is None])
    if not paragraphs:
        return None
    return join_html(
        element("h3", "Does the ranking hold?"),
        *(element("p", paragraph) for paragraph in paragraphs),
    )


def _sentences(pairs: Sequence[tuple[StoredRun, QuestionRows]]) -> list[str]:
    """ "llama-8b: 6 of 10 pairs ...": a sentence for each data set and model with several methods;
    [] where runs have no question in common."""
    try:
        analyses = analyse_runs(pairs)
    except UserError:
        return []
    ranked = [analysis for analysis in analyses if not analysis.table.empty]
    return [f"{analysis.band.model}: {analysis.sentence}" for analysis in ranked]
