"""Score and answer recall by the length of what a question is asked about (LongRefiner, figures 3 and 4).

    length         tokens of all documents of a question, counted by the reader's tokenizer (handed in)
    edges          500, 900     ->     up to 500 | 501 to 900 | over 900
                   where none are named: three that part the questions of a data set into four about equal groups

The buckets are the same for all runs over the same rows with the same model. The row "all" holds all questions.
Runs over texts that are made for several lengths (dataset.tokens) are a point each, those of a method a line; several
such data sets of one family (ruler/vt, ruler/cwe) have their mean below (reports/figures/made_lengths.py).

dataset method model length                 the bucket's name
tokens.from tokens.mean tokens.to           shortest, mean and longest of its questions
score mean mean.low mean.high               the score's name, its mean in [0, 1], 95 % interval clustered by document
answer_recall answer_recall.low .high       share of questions whose gold answer stands in what the reader was shown,
                                            in whole words; questions with no answer but yes, no and the like left out
answer_recall_substring (.low .high)        share of questions of whose shown texts one contains a gold answer as a
                                            substring, over all questions (FlashRAG's retrieval recall)
n failed notes run
"""

from __future__ import annotations

import functools
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from harness.errors import UserError
from reports import facts
from reports.answer_recall import answer_shown, answer_shown_as_substring
from reports.figures import plot, tokens
from reports.figures.figure import SAME, Figure, Titled, for_people
from reports.figures.made_lengths import MADE, family_means, made_lengths
from reports.figures.plot import Axis, Panel
from reports.gold_rows import Rows, with_rows, with_texts

if TYPE_CHECKING:
    from harness.storage.run_folder import StoredRun


ALL = "all"
GROUPS = 4
_RECALL = "answer_recall"
_SUBSTRING = "answer_recall_substring"


@dataclass(frozen=True)
class Measured:
    """A run with the rows of its data set and its texts, and what counts the tokens of a document of that id."""

    run: StoredRun
    rows: Rows
    tokens: Callable[[str], int]

    def lengths(self) -> dict[str, int]:
        """Question -> tokens of its documents, each counted once."""
        found: dict[str, int] = {}
        for record in self.run.records:
            example = self.rows.examples.get(record["question_id"])
            if example is not None:
                found[record["question_id"]] = sum(self.tokens(d) for d in dict.fromkeys(example.question.document_ids))
        return found


def figure(
    runs: Sequence[StoredRun],
    *,
    score: str | None,
    edges: Sequence[int] | None,
    data: str | None,
    warn: Callable[[str], None],
) -> Figure:
    """The figure of the runs; those whose rows or tokenizer cannot be loaded are left out with a warning.

    score, edges: as in `frame`; data: where the rows are now. Raises UserError where nothing can be loaded, and what
    `frame` raises.
    """
    counts: dict[tuple[str, str | None, str], Callable[[str], int]] = {}
    measured: list[Measured] = []
    problems: list[UserError] = []
    for run, rows in with_rows(runs, data, warn, whole=True):
        try:
            if (key := group(run)) not in counts:
                counts[key] = _counting(rows, tokens.tokens_by(run))
        except UserError as error:
            problems.append(error)
            continue
        measured.append(Measured(run, with_texts(rows, run, run.records), counts[key]))
    if not measured:
        raise problems[0]
    for problem in problems:
        warn(f"warning: left out: {problem}")
    table = frame(measured, score, edges)
    return Figure("Length of the documents", table, sections(table), panels(table))


def _counting(rows: Rows, count: Callable[[str], int]) -> Callable[[str], int]:
    return functools.cache(lambda name: count(rows.documents[name].text))


def group(run: StoredRun) -> tuple[str, str | None, str]:
    """What runs with the same buckets have in common: data set, its rows, reader."""
    return run.config["dataset"]["name"], facts.fingerprint(run), run.config["model"]["name"]


def quantiles(lengths: Sequence[int], groups: int = GROUPS) -> tuple[int, ...]:
    """Edges that part the lengths into `groups` about equal groups; fewer where many are the same."""
    told = sorted(lengths)
    cuts = {told[-(-len(told) * i // groups) - 1] for i in range(1, groups)} if told else set()
    return tuple(sorted(cut for cut in cuts if cut < told[-1]))


def bucket_name(edges: Sequence[int], number: int) -> str:
    """The name of bucket `number`; an edge belongs to the bucket below it."""
    if not edges:
        return ALL
    if number == 0:
        return f"up to {edges[0]:,}"
    if number == len(edges):
        return f"over {edges[-1]:,}"
    low, high = edges[number - 1] + 1, edges[number]
    return f"{high:,}" if low == high else f"{low:,} to {high:,}"


def frame(runs: Sequence[Measured], score: str | None = None, edges: Sequence[int] | None = None) -> pd.DataFrame:
    """The table above. score: by default each run's first; edges: in rising order, by default by `quantiles`.

    Raises UserError where no question of any run has a score, UnknownName for a score that a run does not have.
    """
    groups: dict[tuple[str, str | None, str], dict[str, int]] = {}
    for one in runs:
        groups.setdefault(group(one.run), {}).update(one.lengths())
    made = made_lengths([one.run for one in runs]) if edges is None else {}
    labels = facts.labels([one.run for one in runs], {f"dataset.{MADE}"} if made else ())
    rows: list[dict[str, Any]] = []
    for one, label in zip(runs, labels, strict=True):
        cut = tuple(edges) if edges is not None else quantiles(list(groups[group(one.run)].values()))
        tokens = made.get(str(one.run.path))
        own = _rows(one, label, score or facts.headline(one.run), () if tokens else cut)
        rows += [{**row, "length": f"{tokens:,}"} for row in own] if tokens else own
    if made:
        rows.sort(key=lambda row: (labels.index(row["method"]), made.get(row["run"], 0)))
    if not rows:
        raise UserError("no question of these runs has a score: every one failed and was left out of the scores")
    return facts.numbers(pd.DataFrame([*rows, *family_means(rows, made)]))


def _rows(one: Measured, label: str, score: str, edges: Sequence[int]) -> list[dict[str, Any]]:
    run, lengths = one.run, one.lengths()
    scored = facts.scored(run, score)
    held, contained = _recalled(one)
    known = [i for i, question in enumerate(scored.ids) if question in lengths]
    cells: dict[int, list[int]] = {}
    for i in known:
        cells.setdefault(bisect_left(edges, lengths[scored.ids[i]]), []).append(i)
    named = [(bucket_name(edges, number), chosen) for number, chosen in sorted(cells.items())]
    silent = sum(held.get(scored.ids[i]) is None for i in known)
    left_out = (
        f"{silent} of {len(known)} questions have no answer that could stand in a text and are left out of {_RECALL}"
    )
    notes = (*facts.notes(run), *([left_out] if silent else []))
    failed = {record["question_id"] for record in run.records if record["error"] is not None}

    def mean(name: str, chosen: Sequence[int], value: Callable[[int], float]) -> dict[str, float | None]:
        values, clusters = [value(i) for i in chosen], [scored.clusters[i] for i in chosen]
        return facts.mean_columns(name, values, clusters, seed=int(run.config["seed"]))

    rows = []
    for name, chosen in [*(named if edges else []), (ALL, known)]:
        if not chosen:
            continue
        told = [lengths[scored.ids[i]] for i in chosen]
        with_answer = [i for i in chosen if held.get(scored.ids[i]) is not None]
        rows.append(
            {
                **facts.head(run, label),
                "length": name,
                "tokens.from": min(told),
                "tokens.mean": sum(told) / len(told),
                "tokens.to": max(told),
                "score": score,
                **mean("mean", chosen, lambda i: scored.values[i]),
                **mean(_RECALL, with_answer, lambda i: float(held[scored.ids[i]] or 0)),
                **mean(_SUBSTRING, chosen, lambda i: contained[scored.ids[i]]),
                "n": len(chosen),
                "failed": sum(scored.ids[i] in failed for i in chosen),
                "notes": notes,
                "run": str(run.path),
            }
        )
    return rows


def _recalled(one: Measured) -> tuple[dict[str, bool | None], dict[str, float]]:
    """Question -> whether an answer stands in what was shown: in whole words (None: says nothing), as a substring."""
    examples = one.rows.examples
    known = {record["question_id"]: record for record in one.run.records if record["question_id"] in examples}
    words = {question: answer_shown(record, examples[question], one.rows) for question, record in known.items()}
    contained = {
        question: float(answer_shown_as_substring(record, examples[question], one.rows))
        for question, record in known.items()
    }
    return words, contained


def sections(table: pd.DataFrame) -> list[Titled]:
    """A table for each data set, model and score, for people."""
    return [
        for_people(f"{dataset} · {model}", rows, ["run", "tokens.from", "tokens.to"], length="tokens of the documents")
        for (dataset, model, _), rows in table.groupby(SAME, sort=False)
    ]


def panels(table: pd.DataFrame) -> list[Panel]:
    """Two drawings for each data set, model and score: the score and the answer recall against the length."""
    found = []
    x = Axis("tokens of the documents, mean of the bucket")
    for (dataset, model, score), rows in table.groupby(SAME, sort=False):
        parted = rows[rows["length"] != ALL]
        drawn = (parted if len(parted) else rows).sort_values("method", kind="stable")
        for value, name in (("mean", f"{score} × 100"), (_RECALL, "answer in the text shown, % of questions")):
            known = plot.lines(drawn[drawn[value].notna()], "tokens.mean", value, 100)
            found += plot.panels(f"{dataset} · {model}", x, Axis(name, zero=True), known)
    return found
