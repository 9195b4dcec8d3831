"""Methods that were run with several seeds, as the opening sentences of a page see them: a seed is no
method to choose, so a method has the mean of its runs.

    seeds = seeds_of_methods(rows)       [Seeds("pecan", [0.75, 0.80, 0.85])]
    rows_over_seeds(rows, seeds)         one row in place of the three
    ranges_over_seeds(seeds)             ["Scores are means over seeds: pecan 75.0 to 85.0 (3 seeds)."]
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from harness.config.schema import canonical_json
from reports.main_table import best_first, table_rows
from reports.number_formats import points_of_100, with_noun
from reports.repeats import average_over_seeds
from reports.sentences import join_names
from reports.table_row import TableRow


class Seeds(NamedTuple):
    """The scores of a method with each of its seeds.

    Attributes:
        method: Its name, without the seed.
        scores: The mean score of each run, in [0, 1].
    """

    method: str
    scores: Sequence[float]


def seeds_of_methods(rows: Sequence[TableRow]) -> list[Seeds]:
    """The methods that were run with several seeds; [] where none was, or one run is there twice.

    Runs that are not finished, or differ in more than the seed from most, do not count.

    Args:
        rows: The rows of one data set.
    """
    rows_by_settings: dict[str, list[TableRow]] = {}
    for row in rows:
        if _is_repeat(row):
            rows_by_settings.setdefault(_settings_but_seed(row), []).append(row)
    several_models = len({row.model for row in rows}) > 1
    found = []
    for repeats in rows_by_settings.values():
        seeds = {row.run.config.seed for row in repeats}
        if len(seeds) < len(repeats):
            return []
        means = [row.score(row.headline).mean for row in repeats]
        scores = [mean for mean in means if mean is not None]
        if len(scores) > 1:
            first = replace(repeats[0], label=repeats[0].base or repeats[0].label)
            name = first.label
            if several_models:
                name = first.label_with_model
            found.append(Seeds(name, scores))
    return found


def rows_over_seeds(rows: Sequence[TableRow], seeds: Sequence[Seeds]) -> Sequence[TableRow]:
    """The rows with one for all seeds of a method, best first; the same rows without such a method.

    Args:
        rows: The rows of one data set.
        seeds: The methods with several seeds.
    """
    if not seeds:
        return rows
    repeats = [row for row in rows if _is_repeat(row)]
    others = [row.run for row in rows if not _is_repeat(row)]
    counts = Counter(_settings_but_seed(row) for row in repeats)
    runs = [*average_over_seeds([row.run for row in repeats]), *others]
    averaged_rows = []
    for row in table_rows(runs, convention=rows[0].numbers.convention):
        is_mean = _is_repeat(row) and counts[_settings_but_seed(row)] > 1
        if is_mean and row.base:
            row = replace(row, label=row.base)  # without the seed of its first run
        averaged_rows.append(row)
    return best_first(averaged_rows)


def _settings_but_seed(row: TableRow) -> str:
    """A text that is equal for runs whose settings differ in nothing but the seed."""
    return canonical_json({**row.run.config.to_json(), "seed": None})


def _is_repeat(row: TableRow) -> bool:
    """Whether a run may count as one of the seeds of its method."""
    is_asked_alike = not row.asked_otherwise or row.differs_in_seed_alone
    return is_asked_alike and not row.is_unfinished and not row.has_misfits


def ranges_over_seeds(seeds: Sequence[Seeds]) -> list[str]:
    """One sentence on how far the scores of each method's seeds lie apart; [] without such a method.

    -> ["Scores are means over seeds: pecan 75.0 to 85.0 (3 seeds)."]

    Args:
        seeds: The methods with several seeds.
    """
    if not seeds:
        return []
    ranges = []
    for method in seeds:
        low = points_of_100(min(method.scores))
        high = points_of_100(max(method.scores))
        n_seeds = with_noun(len(method.scores), "seed")
        ranges.append(f"{method.method} {low} to {high} ({n_seeds})")
    return [f"Scores are means over seeds: {join_names(ranges)}."]
