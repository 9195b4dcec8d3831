"""The sentence at the end of tables and pages on what was not checked of their runs.

    not_checked_sentence(runs, Checks())
        -> "not checked: questions, gold answers and evidence against the data set (--data ROWS), 4
            of 6 scores (harness verify), that the model gave these answers with these settings and
            seed, model sizes, seconds"

It holds for runs as such and is no mark of any of them: what could not be checked of one run that
can be of others stands in that run's notes.
"""

from collections.abc import Sequence

from harness.stats import INTERVAL_RULE
from harness.storage.run_folder import StoredRun
from reports import facts
from reports.checks import Checks
from reports.declared import asks_models_for_indexes
from reports.gold_rows import are_rows_made_quickly
from reports.run_presets import preset_of_dataset

_EVIDENCE_RECALL = "evidence_recall"  # which a table shows beside the headline
OF_APPLICATIONS = "that the application's passages and charges are what it read and was charged"
"""What an application says of itself, and nothing else shows."""


def not_checked_sentence(
    runs: Sequence[StoredRun], checks: Checks, score: str | None = None
) -> str | None:
    """The phrases of `not_checked_phrases` in one sentence; None where nothing was left."""
    phrases = not_checked_phrases(runs, checks, score)
    if not phrases:
        return None
    return f"not checked: {', '.join(phrases)}"


def not_checked_phrases(
    runs: Sequence[StoredRun], checks: Checks, score: str | None = None
) -> list[str]:
    """What was not checked of the runs of a table, a phrase each; [] where nothing was left.

    Runs that another tool made are left out: their notes say that nothing of them was checked.

    Args:
        runs: The runs.
        checks: What was found in their records.
        score: A score that the table compares besides the usual ones.
    """
    own_runs: list[StoredRun] = []
    for run in runs:
        if not facts.is_imported(run):
            own_runs += run.repeats or [run]
    return [
        *_rows_part(own_runs, checks),
        *_scores_part(own_runs, checks, score),
        *_choice_of_score_part(own_runs, score),
        *_answers_part(own_runs),
        *_failures_part(own_runs),
        *_summary_part(own_runs),
        *unchecked_costs(own_runs),
        *_seconds_part(own_runs),
        *_money_part(own_runs),
    ]


def _rows_part(runs: Sequence[StoredRun], checks: Checks) -> list[str]:
    """A phrase on what the rows of a data set hold, where they were not read."""
    not_read = [run for run in runs if checks.row_inconsistencies(run) is None]
    if not not_read:
        return []
    phrase = "questions, gold answers and evidence against the data set"
    if all(map(are_rows_made_quickly, not_read)):  # by another version: no file has them
        return [phrase]
    return [f"{phrase} (--data ROWS)"]


def _scores_part(runs: Sequence[StoredRun], checks: Checks, score: str | None) -> list[str]:
    """A phrase with the number of scores that were not all computed again, "4 of 6 scores (harness
    verify)", and one with that of judges' scores, which nothing computes again.

    Args:
        runs: The runs.
        checks: What was found in their records.
        score: A score that the table compares besides the usual ones.
    """
    all_names: set[str] = set()
    names_of_judges: set[str] = set()
    not_computed: set[str] = set()
    for run in runs:
        of_judges = set(facts.judge_names(run))
        names = set(facts.score_names(run)) - of_judges
        shown = {facts.headline_score(run), facts.first_score(run), _EVIDENCE_RECALL, score}
        names_of_judges |= of_judges
        all_names |= names
        not_computed |= names - shown
        for name in names & shown:
            if not checks.rescored(run, str(name)).all_checked:
                not_computed.add(str(name))
    phrases = []
    if not_computed:
        phrases.append(f"{len(not_computed)} of {len(all_names)} scores (harness verify)")
    if len(names_of_judges) == 1:
        phrases.append("1 score of a judge")
    elif names_of_judges:
        phrases.append(f"{len(names_of_judges)} scores of judges")
    return phrases


def _choice_of_score_part(runs: Sequence[StoredRun], score: str | None) -> list[str]:
    """What `choice_of_score` gives; nothing where the user named the score (`score`)."""
    if score is not None:
        return []
    return choice_of_score(runs)


def choice_of_score(runs: Sequence[StoredRun]) -> list[str]:
    """A phrase where runs are judged by another score than their data set's first: "the choice of
    flashrag.acc"."""
    chosen: dict[str, None] = {}
    for run in runs:
        preset = preset_of_dataset(run.config.dataset.name)
        if preset is not None and preset.scorers[0] != facts.first_score(run):
            chosen[facts.first_score(run)] = None
    if not chosen:
        return []
    return [f"the choice of {' and '.join(chosen)}"]


def _answers_part(runs: Sequence[StoredRun]) -> list[str]:
    """Phrases on who gave the answers, as which model its costs are counted, and what applications
    say of themselves."""
    if not runs:
        return []
    n_applications = sum(map(facts.is_application, runs))
    if n_applications == len(runs):
        return ["that the application gave these answers", OF_APPLICATIONS]
    who = "model"
    if n_applications:
        who = "model or application"
    phrases = [f"that the {who} gave these answers with these settings and seed"]
    if any(run.manifest.shapes for run in runs):
        phrases.append("model sizes")
    if n_applications:
        phrases.append(OF_APPLICATIONS)
    return phrases


def _failures_part(runs: Sequence[StoredRun]) -> list[str]:
    """A word on failed questions, which may have had an answer."""
    if any(run.columns.failed.any() for run in runs):
        return ["failures"]
    return []


def _summary_part(runs: Sequence[StoredRun]) -> list[str]:
    """A phrase on intervals in summary.json that an older rule made; tables compute their own."""
    for run in runs:
        if run.summary.scores and run.summary.interval_rule != INTERVAL_RULE:
            return ["stored intervals of another rule (not shown)"]
    return []


def unchecked_costs(runs: Sequence[StoredRun]) -> list[str]:
    """A phrase on the costs of indexes, where a method asks models for them, and one on those of
    searches, where a model was asked in one.

    Both are recorded as sums. The tokens of the answer alone are counted again (recount.py).
    """
    phrases = []
    if any(map(asks_models_for_indexes, runs)):
        phrases.append("index costs")
    if any(run.columns.cost("search", "requests").any() for run in runs):
        phrases.append("search costs")
    return phrases


def _seconds_part(runs: Sequence[StoredRun]) -> list[str]:
    """A word on seconds, where any were recorded."""
    for run in runs:
        for phase in run.columns.phases:
            if run.columns.cost(phase, "seconds").any():
                return ["seconds"]
    return []


def _money_part(runs: Sequence[StoredRun]) -> list[str]:
    """A word on charges, where a search named any (those of applications are named with them), and
    one on prices, where a model has any."""
    parts = []
    if any(_has_charges(run) for run in runs if not facts.is_application(run)):
        parts.append("charges")
    if any(map(_has_prices, runs)):
        parts.append("prices")
    return parts


def _has_charges(run: StoredRun) -> bool:
    """Whether a reply named money."""
    columns = run.columns
    return any(columns.cost(phase, "charged").any() for phase in columns.phases)


def _has_prices(run: StoredRun) -> bool:
    """Whether a model of a run has a price in its settings."""
    models = [run.config.model, *run.config.roles.values()]
    return any(model.price is not None for model in models)
