"""Score and answer recall by the length of what a question is asked about (LongRefiner, figures 3
and 4).

    length         tokens of all documents of a question, counted by the reader's tokenizer (handed in)
    edges          500, 900     ->     up to 500 | 501 to 900 | over 900
                   three, that part the questions of a data set into four about equal groups

The buckets are the same for all runs over the same rows with the same model. The row "all" holds
all questions. Runs over texts that are made for several lengths (dataset.tokens) are a point each,
those of a method a line; several such data sets of one family (ruler/vt, ruler/cwe) have their mean
below: they are samples of their own, so the errors of their means add in quadrature, as in
reports/paper/measured.py.

dataset method model length                 the bucket's name
tokens.from tokens.mean tokens.to           shortest, mean and longest of its questions
score mean mean.low mean.high               the score's name, its mean in [0, 1], 95 % interval clustered by document
answer_recall answer_recall.low .high       share of questions whose gold answer stands in what the reader was shown,
                                            in whole words; questions with no answer but yes, no and
                                            the like left out
answer_recall_substring (.low .high)        share of questions of whose shown texts one contains a gold answer as a
                                            substring, over all questions (FlashRAG's retrieval
                                            recall)
n failed notes run
"""

import functools
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from harness.errors import UserError
from harness.stats.bootstrap import NOTHING
from harness.storage.run_folder import StoredRun
from reports import facts
from reports.answer_recall import answer_shown, answer_shown_as_substring
from reports.figures import plot
from reports.figures.figure import SAME, Figure, by_score
from reports.figures.plot import Axis, Panel
from reports.figures.tokens import TextGroup, text_group, token_counter
from reports.gold_rows import Rows, with_rows
from reports.run_notes import run_notes

ALL = "all"
GROUPS = 4
_RECALL = "answer_recall"
_SUBSTRING = "answer_recall_substring"
_MADE = "tokens"  # the option of a data set whose texts are made for a length


@dataclass(frozen=True)
class Measured:
    """A run with the rows of its data set and its texts, and what counts the tokens of a document
    of that id."""

    run: StoredRun
    rows: Rows
    tokens: Callable[[str], int]

    def lengths(self) -> dict[str, int]:
        """Question -> tokens of its documents, each counted once."""
        examples = self.rows.examples
        asked = [
            examples[r.question_id].question for r in self.run.records if r.question_id in examples
        ]
        return {
            question.id: sum(map(self.tokens, set(question.document_ids))) for question in asked
        }


def figure(
    runs: Sequence[StoredRun], *, score: str | None, data: str | None, warn: Callable[[str], None]
) -> Figure:
    """The figure of the runs; those whose rows or tokenizer cannot be loaded are left out with a
    warning.

    score: as in `frame`; data: where the rows are now. Raises UserError where nothing is loaded, or
    as `frame`.
    """
    counts: dict[TextGroup, Callable[[str], int]] = {}
    measured: list[Measured] = []
    problems: list[UserError] = []
    for run, rows in with_rows(runs, data, warn, whole=True):
        try:
            key = text_group(run)
            if key not in counts:
                counts[key] = functools.cache(
                    functools.partial(_document_tokens, rows, token_counter(run))
                )
        except UserError as error:
            problems.append(error)
            continue
        measured.append(Measured(run, replace(rows, texts=run.texts(run.records)), counts[key]))
    if not measured:
        raise problems[0]
    for problem in problems:
        warn(f"warning: left out: {problem}")
    table = frame(measured, score)
    named = by_score(
        table, hidden=["run", "tokens.from", "tokens.to"], length="tokens of the documents"
    )
    return Figure("Length of the documents", table, named, panels(table))


def _document_tokens(rows: Rows, count: Callable[[str], int], document_id: str) -> int:
    return count(rows.documents[document_id].text)


def quantiles(lengths: Sequence[int]) -> tuple[int, ...]:
    """Edges that part the lengths into GROUPS about equal groups; fewer where many are the same."""
    rising = sorted(lengths)
    cuts = (
        {rising[-(-len(rising) * i // GROUPS) - 1] for i in range(1, GROUPS)} if rising else set()
    )
    return tuple(sorted(cut for cut in cuts if cut < rising[-1]))


def bucket_name(edges: Sequence[int], number: int) -> str:
    """ "up to 500", "501 to 900", "over 900": the name of bucket `number` between the edges 500 and
    900, from 0 on."""
    if number == 0:
        return f"up to {edges[0]:,}"
    if number == len(edges):
        return f"over {edges[-1]:,}"
    low, high = edges[number - 1] + 1, edges[number]
    return f"{high:,}" if low == high else f"{low:,} to {high:,}"


def frame(runs: Sequence[Measured], score: str | None = None) -> pd.DataFrame:
    """Score and recall by length (columns: see the module). score: by default the first.

    Raises UserError where no question of any run has a score, UnknownName for a score that a run
    does not have.
    """
    groups: dict[TextGroup, dict[str, int]] = {}
    for labelled in runs:
        groups.setdefault(text_group(labelled.run), {}).update(labelled.lengths())
    made = _lengths_of_made_texts([labelled.run for labelled in runs])
    labels = facts.labels([labelled.run for labelled in runs], {f"dataset.{_MADE}"} if made else ())
    rows: list[dict[str, Any]] = []
    for labelled, label in zip(runs, labels, strict=True):
        tokens = made.get(str(labelled.run.path))
        edges = () if tokens else quantiles(list(groups[text_group(labelled.run)].values()))
        bucket_rows = _bucket_rows(labelled, label, score or facts.headline(labelled.run), edges)
        rows += [{**row, "length": f"{tokens:,}"} for row in bucket_rows] if tokens else bucket_rows
    if made:
        rows.sort(key=lambda row: (labels.index(row["method"]), made.get(row["run"], 0)))
    if not rows:
        raise UserError(
            "no question of these runs has a score: every one failed and was left out of the scores"
        )
    families: dict[str, set[str]] = defaultdict(set)
    cells: dict[tuple[str, str, str, int], dict[str, Mapping[str, Any]]] = defaultdict(dict)
    for row in rows:
        family, slash, _ = row["dataset"].partition("/")
        if slash and row["run"] in made:
            families[family].add(row["dataset"])
            cells[family, row["model"], row["method"], made[row["run"]]][row["dataset"]] = row
    for (family, *_), alike in sorted(cells.items()):
        if len(alike) > 1 and alike.keys() == families[family]:
            rows.append(_family_mean(f"{family}, mean of {len(alike)}", list(alike.values())))
    return facts.as_floats(pd.DataFrame(rows))


def _bucket_rows(
    measured: Measured, label: str, score: str, edges: Sequence[int]
) -> list[dict[str, Any]]:
    """A run's row for each bucket that has questions, then the one for all; without edges that one
    alone."""
    run, lengths = measured.run, measured.lengths()
    scored = facts.scored(run, score)
    examples = measured.rows.examples
    answers = {r.question_id: r for r in run.records if r.question_id in examples}
    shown = {q: (record, examples[q], measured.rows) for q, record in answers.items()}
    recalled = {q: answer_shown(*one) for q, one in shown.items()}  # None: its answers say nothing
    contained = {q: float(answer_shown_as_substring(*one)) for q, one in shown.items()}
    with_length = [i for i, question in enumerate(scored.ids) if question in lengths]
    buckets: dict[int, list[int]] = {}
    for i in with_length:
        buckets.setdefault(bisect_left(edges, lengths[scored.ids[i]]), []).append(i)
    named = (
        [(bucket_name(edges, number), chosen) for number, chosen in sorted(buckets.items())]
        if edges
        else []
    )
    notes = [*run_notes(run)]
    if silent := sum(recalled.get(scored.ids[i]) is None for i in with_length):
        without = (
            f"{silent} of {len(with_length)} questions have no answer that could stand in a text"
        )
        notes.append(f"{without} and are left out of {_RECALL}")
    failed = {record.question_id for record in run.records if record.error is not None}

    def mean(
        name: str, chosen: Sequence[int], value: Callable[[int], float]
    ) -> dict[str, float | None]:
        """Columns `name` with the mean of `value` (of a question's place) over `chosen` questions,
        and its interval."""
        values, clusters = [value(i) for i in chosen], [scored.clusters[i] for i in chosen]
        return facts.mean_columns(name, values, clusters, seed=int(run.config["seed"]))

    rows = []
    for name, chosen in [*named, (ALL, with_length)]:
        if not chosen:
            continue
        tokens = [lengths[scored.ids[i]] for i in chosen]
        with_answer = [i for i in chosen if recalled.get(scored.ids[i]) is not None]
        rows.append(
            {
                **facts.head_columns(run, label),
                "length": name,
                "tokens.from": min(tokens),
                "tokens.mean": sum(tokens) / len(tokens),
                "tokens.to": max(tokens),
                "score": score,
                **mean("mean", chosen, lambda i: scored.values[i]),
                **mean(_RECALL, with_answer, lambda i: float(recalled[scored.ids[i]] or 0)),
                **mean(_SUBSTRING, chosen, lambda i: contained[scored.ids[i]]),
                "n": len(chosen),
                "failed": sum(scored.ids[i] in failed for i in chosen),
                "notes": tuple(notes),
                "run": str(run.path),
            }
        )
    return rows


def panels(table: pd.DataFrame) -> list[Panel]:
    """Two drawings for each data set, model and score: the score and the answer recall against the
    length."""
    panel_list = []
    x = Axis("tokens of the documents, mean of the bucket")
    for (dataset, model, score), rows in table.groupby(SAME, sort=False):
        parted = rows[rows["length"] != ALL]
        drawn = (parted if len(parted) else rows).sort_values("method", kind="stable")
        for value, name in (
            ("mean", f"{score} × 100"),
            (_RECALL, "answer in the text shown, % of questions"),
        ):
            series = plot.lines(drawn[drawn[value].notna()], "tokens.mean", value, 100)
            panel_list += plot.panels(f"{dataset} · {model}", x, Axis(name, zero=True), series)
    return panel_list


def _lengths_of_made_texts(runs: Sequence[StoredRun]) -> dict[str, int]:
    """Run folder -> length in tokens, of data sets that one model read at several lengths."""
    by_text: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    for run in runs:
        tokens = (run.config["dataset"].get("options") or {}).get(_MADE)
        if isinstance(tokens, int):
            by_text[run.config["dataset"]["name"], run.config["model"]["name"]][str(run.path)] = (
                tokens
            )
    return {
        path: tokens
        for by_path in by_text.values()
        if len(set(by_path.values())) > 1
        for path, tokens in by_path.items()
    }


def _family_mean(dataset: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The row that stands for `rows`, the data sets of a family at one length: each weighs the
    same."""
    scores = {row["score"] for row in rows}
    return {
        **rows[0],
        "dataset": dataset,
        "tokens.from": min(row["tokens.from"] for row in rows),
        "tokens.mean": sum(row["tokens.mean"] for row in rows) / len(rows),
        "tokens.to": max(row["tokens.to"] for row in rows),
        "score": scores.pop() if len(scores) == 1 else "score",
        **{
            key: value
            for name in ("mean", _RECALL, _SUBSTRING)
            for key, value in _mean_of_column(name, rows).items()
        },
        "n": sum(row["n"] for row in rows),
        "failed": sum(row["failed"] for row in rows),
        "notes": tuple(dict.fromkeys(note for row in rows for note in row["notes"])),
        "run": None,
    }


def _mean_of_column(name: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    """The mean of column `name` over rows, with its interval; None where a row has no value, or no
    interval."""
    values, lows, highs = ([row[f"{name}{end}"] for row in rows] for end in ("", ".low", ".high"))
    if None in values:
        return facts.interval_columns(name, NOTHING)
    middle, ends = facts.mean_of_samples(values, list(zip(lows, highs, strict=True)))
    return dict(
        zip((name, f"{name}.low", f"{name}.high"), (middle, *(ends or (None, None))), strict=True)
    )
