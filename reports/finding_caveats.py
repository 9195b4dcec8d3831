"""The last of the opening sentences: answers from cut texts, what is not ranked and why, failed and
left-out questions, and runs that are not finished.

    "Failed questions, which count 0: 2 of 20 of bm25. Not ranked, as scored on other questions: graph
    (3 of 20)."
"""

from collections.abc import Sequence

from reports import facts
from reports.ranking import Group
from reports.sentences import join_names
from reports.table_row import TableRow


def no_method_is_finished(rows: Sequence[TableRow]) -> list[str]:
    """The sentence that opens a page on which every method lacks questions, as its run is not
    finished; [] where one method is finished.

    -> ["No method is finished yet: what follows is about the questions answered so far."]

    "No run" where floors and upper bounds are not finished either.
    """
    if not _all_methods_are_unfinished(rows):
        return []
    kind = "method"
    if all(row.is_unfinished for row in rows):
        kind = "run"
    follows = "what follows is about the questions answered so far"
    return [f"No {kind} is finished yet: {follows}."]


def _all_methods_are_unfinished(rows: Sequence[TableRow]) -> bool:
    """Whether no method is finished; of rows without a method (only floors and upper bounds), whether
    no row is finished."""
    methods = [row for row in rows if not row.is_floor and not row.is_upper_bound]
    if not methods:
        return all(row.is_unfinished for row in rows)
    return all(row.is_unfinished for row in methods)


def caveats(rows: Sequence[TableRow], group: Group) -> list[str]:
    """A sentence for each of these that some run has: most answers from a cut text, it is not ranked,
    failed questions (scored 0 or left out), questions that the loader left out, and a run that is
    not finished.

        -> ["Failed questions, which count 0: 2 of bm25 and 1 of pecan.", "Not finished: sbert."]

    Args:
        rows: All rows of the data set.
        group: The ranked runs.
    """
    names_by_caveat: dict[str, Sequence[str]] = {}
    names_by_caveat["Answered from a cut text"] = _mostly_cut_in_words(group)
    for runs in group.not_ranked:
        names_by_caveat[runs.reason] = runs.names
    asked_alike = [row for row in rows if not row.asked_otherwise]
    scored_0 = [row for row in asked_alike if not _leaves_failed_out(row)]
    skipped = [row for row in asked_alike if _leaves_failed_out(row)]
    names_by_caveat["Failed questions, which count 0"] = _failed_in_words(scored_0, group)
    names_by_caveat["Failed questions, left out"] = _failed_in_words(skipped, group)
    names_by_caveat["Left out when the questions were loaded"] = _left_out_by_loader(
        asked_alike, group
    )
    if not _all_methods_are_unfinished(rows):  # else the first sentence of the page says it
        names_by_caveat["Not finished"] = _unfinished_names(group)
    sentences = []
    for caveat, names in names_by_caveat.items():
        if names:
            sentences.append(f"{caveat}: {join_names(names)}.")
    return sentences


def _leaves_failed_out(row: TableRow) -> bool:
    """Whether failed questions of a run do not count 0 in these sentences: it was asked to leave
    them out, or is an upper bound, which a failed answer bounds in nothing."""
    return row.run.config.skips_failed or row.is_upper_bound


def _failed_in_words(rows: Sequence[TableRow], group: Group) -> list[str]:
    """How many questions of each run failed, "2 of 20 of bm25"; runs without a failure, or with
    nothing else, are not named.

    Args:
        rows: The rows of the runs.
        group: The ranked runs.
    """
    in_words = []
    for row in rows:
        if 0 < row.n_failed < row.n_questions:
            name = _name(row, with_model=group.several_models)
            in_words.append(f"{row.n_failed} of {row.n_questions} of {name}")
    return in_words


def _mostly_cut_in_words(group: Group) -> list[str]:
    """How many questions of each method were answered from a cut text, "96 of 120 questions of
    full-context", where they are more than half of those that it answered.

    Args:
        group: The ranked runs.
    """
    in_words = []
    for method in group.methods:
        columns = method.row.run.columns
        n_answered = int(columns.answered.sum())
        n_cut = int((columns.truncated & columns.answered).sum())
        if n_cut > n_answered / 2:
            in_words.append(f"{n_cut} of {n_answered} questions of {method.method}")
    return in_words


def _unfinished_names(group: Group) -> list[str]:
    """The names of the ranked runs that are not finished."""
    unfinished = [row for row in group.ranked_rows if row.is_unfinished]
    return [_name(row, with_model=group.several_models) for row in unfinished]


def _name(row: TableRow, *, with_model: bool) -> str:
    """The name of a row's method: "bm25", or with its model "bm25 with llama-8b"."""
    if with_model:
        return row.label_with_model
    return row.label


def scores_in_place_of(score: str, rows: Sequence[TableRow]) -> list[str]:
    """The score by which each run would be ranked, "pecan by judge.llama", where no run has the score
    by which all should be; [] where one has it.

    Args:
        score: Name of the score by which all should be ranked.
        rows: The rows of the runs.
    """
    some_have_score = any(row.score(score).mean is not None for row in rows)
    if some_have_score:
        return []
    in_words = []
    for row in rows:
        own_score = facts.headline_score(row.run)
        if own_score != score:
            in_words.append(f"{row.label} by {own_score}")
    return in_words


def _left_out_by_loader(rows: Sequence[TableRow], group: Group) -> list[str]:
    """How many questions of each run the loader or an import left out, "480 of 500 of pecan"; [] for
    none.

    ["480 of 500 of each run"] where there are several runs and these numbers are the same in all.

    Args:
        rows: The rows of the runs.
        group: The ranked runs.
    """
    count_by_name = {}
    for row in rows:
        n_left_out = facts.count_left_out(row.run)
        if n_left_out:
            name = _name(row, with_model=group.several_models)
            n_in_file = n_left_out + row.n_questions
            count_by_name[name] = f"{n_left_out} of {n_in_file}"
    distinct_counts = set(count_by_name.values())
    each_left_some_out = len(count_by_name) == len(rows)
    if len(rows) > 1 and each_left_some_out and len(distinct_counts) == 1:
        return [f"{distinct_counts.pop()} of each run"]
    return [f"{count} of {name}" for name, count in count_by_name.items()]
