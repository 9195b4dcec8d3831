"""The last of the opening sentences: what is not ranked and why, failed and left-out questions, and
runs that are not finished.

    "Failed questions, which count 0: 2 of 20 of bm25. Not ranked, as scored on other questions: graph
    (3 of 20)."
"""

from collections.abc import Sequence

from reports import facts
from reports.ranking import Group
from reports.sentences import join_names
from reports.table_row import TableRow


def no_method_is_finished(rows: Sequence[TableRow]) -> list[str]:
    """One sentence where questions may be missing in every method, to come first; else []."""
    if not _all_methods_are_unfinished(rows):
        return []
    kind = "method"
    if all(row.is_unfinished for row in rows):
        kind = "run"
    what = "what follows is about the questions answered so far"
    return [f"No {kind} is finished yet: {what}."]


def _all_methods_are_unfinished(rows: Sequence[TableRow]) -> bool:
    """Whether questions may be missing in every method; without a method, in every run."""
    methods = [row for row in rows if not row.is_floor and not row.is_upper_bound]
    return all(row.is_unfinished for row in methods or rows)


def caveats(rows: Sequence[TableRow], group: Group) -> list[str]:
    """A sentence for each of these that some run has: it is not ranked, failed questions (scored 0
    or left out), questions that the loader left out, and a run that is not finished.

        -> ["Failed questions, which count 0: 2 of bm25 and 1 of pecan.", "Not finished: sbert."]

    Args:
        rows: All rows of the data set.
        group: The ranked runs.
    """
    names_by_head: dict[str, Sequence[str]] = {}
    for runs in group.not_ranked:
        names_by_head[runs.reason] = runs.names
    names_by_head["Scored otherwise"] = _other_judges(rows, group)
    alike = [row for row in rows if not row.asked_otherwise]
    several_models = group.several_models
    for head, are_left_out in (
        ("Failed questions, which count 0", False),
        ("Failed questions, left out", True),
    ):
        failed = []
        for row in alike:
            if row.n_failed and row.run.config.skips_failed == are_left_out:
                name = _name(row, with_model=several_models)
                failed.append(f"{row.n_failed} of {row.n_questions} of {name}")
        names_by_head[head] = failed
    names_by_head["Left out when the questions were loaded"] = _left_out_by_loader(alike, group)
    if not _all_methods_are_unfinished(rows):
        unfinished = [row for row in group.ranked_rows if row.is_unfinished]
        names_by_head["Not finished"] = [
            _name(row, with_model=several_models) for row in unfinished
        ]
    return [f"{head}: {join_names(names)}." for head, names in names_by_head.items() if names]


def _name(row: TableRow, *, with_model: bool) -> str:
    """The name of a row, with its model where the methods have several."""
    if with_model:
        return row.label_with_model
    return row.label


def _other_judges(rows: Sequence[TableRow], group: Group) -> list[str]:
    """The score that each run has in place of the common one, "pecan by judge.llama", where no run
    has the common one; else []."""
    names = []
    for row in rows:
        if row.score(group.score).mean is not None:
            return []
        own_score = facts.headline_score(row.run)
        if own_score != group.score:
            names.append(f"{row.label} by {own_score}")
    return names


def _left_out_by_loader(rows: Sequence[TableRow], group: Group) -> list[str]:
    """How many questions of each run the loader or an import left out, "480 of 500 of pecan", or
    "480 of 500 of each run" where that is one number for several; [] for none."""
    counts = {}
    for row in rows:
        n_left_out = facts.count_left_out(row.run)
        if n_left_out:
            name = _name(row, with_model=group.several_models)
            counts[name] = f"{n_left_out} of {n_left_out + row.n_questions}"
    if len(counts) == len(rows) > 1 and len(set(counts.values())) == 1:
        return [f"{next(iter(counts.values()))} of each run"]
    return [f"{count} of {name}" for name, count in counts.items()]
