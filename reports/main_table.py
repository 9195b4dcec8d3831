"""One row a run: scores with intervals, what it cost, what went wrong.

    runs = [read_run(folder) for folder in find_runs(Path("results"))]     # harness.storage.run_folder
    print(render(frame(runs), "markdown"))

Columns of `frame`, in order:

    dataset method model hash8          the run; method names the settings in which runs of it differ: "bm25 k=3"
    base                                method without these settings; this and the next line only where some differ
    method.k, seed, ...                 the settings, one column each (reports/settings.py)
    headline upper_bound                name of the data set's first score; whether the evidence alone was shown
    floor unfinished                    whether it only marks what others must beat; whether questions may be missing
    asked_otherwise                     whether the run asked other questions than most runs; it is not ranked then
    n documents                         questions recorded, and their documents: the clusters of question_clusters.py
    failed truncated                    of them failed (scored 0 unless the run says skip), with cut context
    left_out                            questions without a record, left out by the loader
    texts_cut                           texts that an encoder or reranker read only in part (notes: of how many)
    declined                            questions answered only by a second request, over the whole document
    <score> <score>.low <score>.high    mean in [0, 1] and its 95 % interval, by cluster (stats/bootstrap.py);
                                        of a score of all answers (hf_bleu.corpus_bleu4) its value,
                                        where a run has it
    tokens.index / .search / .answer    tokens through a model: per document; per question in each phase
    tokens.probes / tflops.probes       the part of .search that probes took; missing for a method without probes
    tokens.thinking / tflops.thinking   the part of search + answer that a reasoning model thought; else missing
    tokens tokens.in tokens.out         search + answer per question; read and written
    money money.index money.run         of requests to servers (harness/cost/usage.py): per question with its share of
                                        the index; per document; of all questions and indexes
    tflops.index / .search / .answer    1e12 FLOPs likewise
    tflops tflops.low tflops.high       search + answer per question, with its interval
    tflops.total .low .high             the same with the index, shared by the questions asked of its document
    ratio                               tflops.total over the reference's (same data set, model and questions), over
                                        the questions that both answered
    ratio.search                        tflops over the reference's likewise: what the papers print, without the index
    seconds                             search + answer per question: the time that its own calls ran
    seconds.p50 seconds.p95             the median of that over questions, and what 95 % of them do not exceed; missing
                                        for an older run of several questions at once, whose times
                                        hold the queue
    seconds.queue seconds.index         what a question's calls waited for others or before a retry; per document
    convention                          how FLOPs are counted: one of harness.cost.flops.CONVENTIONS
    scorers notes run                   versions; sentences to print below the table; the folder's name
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from harness.config.yaml_tree import value_text
from harness.cost.flops import DEFAULT
from harness.stats.bootstrap import NOTHING
from harness.storage.run_folder import StoredRun
from reports import costs, facts
from reports.checks import Checks
from reports.comparability import (
    other_versions,
    question_set,
    reasons_not_to_rank,
    record_notes,
)
from reports.search_notes import declined, same_nodes_notes
from reports.settings import is_number, name_runs

REFERENCE = "full-context"
_ADDED = ("tokens", "tokens_in", "tokens_out", "seconds", "queued")  # of search and answer


def frame(
    runs: Sequence[StoredRun],
    *,
    convention: str = DEFAULT,
    reference: str = REFERENCE,
    checks: Checks | None = None,
) -> pd.DataFrame:
    """A row a run: scores, costs, notes (columns: see the module), by data set and in the given
    order within one.

    convention: one of cost.flops.CONVENTIONS; reference: what `ratio` refers to, a label, a
    preset's name or a run folder's name or hash (missing where no such run is there, or it was
    asked other questions); checks: what was found in the records, read for it by default. A run
    that was asked other questions, or for another task, than most of
    its data set says so in its notes. Means come from the records, so they hold for an unfinished
    run too; costs are means over answered questions. Raises UserError for no runs or a run without
    records, UnknownName for a convention.
    """
    facts.check_runs(runs)
    costs.check_convention(convention)
    names = list(
        dict.fromkeys(
            name for run in runs for name in (*facts.score_names(run), *facts.corpus_scores(run))
        )
    )
    labels = name_runs(runs)
    references = [run for run, named in zip(runs, labels, strict=True) if reference == named.label]
    references = references or [run for run in runs if reference in facts.reference_names(run)]
    cache = _Tflops()
    rows = [
        _run_row(run, named.label, names, convention, cache)
        for run, named in zip(runs, labels, strict=True)
    ]
    same_answers = same_nodes_notes(runs, [named.label for named in labels])
    checks = checks or Checks()
    combined = zip(
        rows,
        runs,
        reasons_not_to_rank(runs, checks),
        other_versions(runs, checks),
        same_answers,
        strict=True,
    )
    for row, run, asked_otherwise, versions, same in combined:
        row["notes"] += record_notes(run, checks)
        row["notes"] += [*filter(None, [asked_otherwise, versions]), *same]
        row["asked_otherwise"] = asked_otherwise is not None
        bases = [base for base in references if _group(base) == _group(run)]
        bases = [base for base in bases if question_set(base) == question_set(run)]
        # "causal" counts about half of DEFAULT's attention: methods that read long texts at once
        # get cheaper by it.
        other = DEFAULT if convention == "causal" else "causal"
        for name, with_index, index in (
            ("ratio", True, "with"),
            ("ratio.search", False, "without"),
        ):
            ratios = {
                how: _cost_ratio(run, bases, how, cache, with_index) for how in (convention, other)
            }
            row[name], shared = ratios[convention] or (None, 0)
            if with_index and 0 < shared < len(run.records) and run is not bases[0]:
                both = f"{shared} of {len(run.records)} questions that both answered"
                row["notes"].append(f"ratio is over the {both}")
            shares = {
                how: 100 * (found[0] - 1) for how, found in ratios.items() if found is not None
            }
            if len(shares) == 2 and min(shares.values()) < 0 < max(shares.values()):
                words = (
                    f"{abs(x):.1f} % {'dearer' if x > 0 else 'cheaper'} under {n}"
                    for n, x in shares.items()
                )
                row["notes"].append(
                    f"FLOPs {index} the index, beside {reference}: {', '.join(words)}"
                )
    table = pd.DataFrame(rows)
    position = list(table.columns).index("hash8") + 1
    swept = list(dict.fromkeys(key for named in labels for key in named.values))
    for key in reversed(swept):
        values_set = [named.values[key] for named in labels if key in named.values]
        write = (lambda value: value) if all(map(is_number, values_set)) else value_text
        values = [write(named.values[key]) if key in named.values else None for named in labels]
        table.insert(position, key, pd.Series(values, dtype=object, index=table.index))
    if swept:
        table.insert(position, "base", [named.base for named in labels])
    table = table.sort_values("dataset", kind="stable", ignore_index=True)
    table["notes"] = [tuple(n) for n in table["notes"]]
    return facts.as_floats(table)


def _group(run: StoredRun) -> tuple[str, str]:
    """Data set and model: runs of other ones have no ratio."""
    return facts.run_key(run)[0], str(run.config["model"]["name"])


class _Tflops(dict[tuple[int, str, bool], dict[str, float]]):
    """A cache of costs.question_tflops for a table: (id of the run, convention, with_index) ->
    question -> TFLOPs."""

    def __call__(self, run: StoredRun, convention: str, with_index: bool) -> dict[str, float]:
        """Question -> TFLOPs as `costs.question_tflops`, worked out at the first call."""
        key = id(run), convention, with_index
        if key not in self:
            self[key] = costs.question_tflops(run, convention, with_index=with_index)
        return self[key]


def _run_row(
    run: StoredRun, label: str, names: Sequence[str], convention: str, cache: _Tflops
) -> dict[str, Any]:
    """A run's row of `frame`, its ratios still missing; names: score columns of all runs; cache:
    cache of TFLOPs."""
    clusters = facts.question_clusters(run)
    notes = list(facts.notes(run, clusters))
    row: dict[str, Any] = {
        **facts.head_columns(run, label),
        "hash8": facts.hash8(run),
        "headline": facts.headline(run),
        "upper_bound": facts.is_upper_bound(run),
        "floor": facts.is_floor(run),
        "unfinished": facts.is_unfinished(run),
        "asked_otherwise": False,
        "n": len(run.records),
        "documents": len(np.unique(clusters)),
        "failed": sum(r["error"] is not None for r in run.records),
        "truncated": sum(r["truncated"] is not None for r in run.records),
        "left_out": facts.left_out(run),
        "texts_cut": facts.texts_cut(run)[1],
        "declined": declined(run.records),
    }
    if facts.made_elsewhere(run) or facts.is_application(run):
        row |= dict.fromkeys(("truncated", "texts_cut", "declined"))
    score_names, of_corpus = facts.score_names(run), facts.corpus_scores(run)
    missing: dict[int, list[str]] = {}
    for name in names:  # None for a score that this run does not have
        row |= facts.interval_columns(
            name, facts.corpus(run, name) if name in of_corpus else NOTHING
        )
        if name not in score_names:
            continue
        column = facts.scored(run, name, clusters)
        row |= facts.mean_columns(
            name, column.values, column.clusters, seed=int(run.config["seed"])
        )
        if column.missing:
            missing.setdefault(column.missing, []).append(name)
    for count, lacking in missing.items():
        are = "is" if len(lacking) == 1 else "are"
        notes.append(
            f"{', '.join(lacking)} {are} missing for {count} of the answered questions and left "
            "out for them"
        )
    row |= _cost_columns(run, convention, clusters, cache)
    if row["tflops"] is not None and row["tflops.total"] is None:
        notes.append("what an index cost is not known, so ratio is not")
    row.update(convention=convention, scorers=(facts.versions(run),), notes=notes, run=run.name)
    return row


def _cost_columns(
    run: StoredRun, convention: str, clusters: NDArray[np.int32], cache: _Tflops
) -> dict[str, float | None]:
    """Means of tokens and TFLOPs by phase, of seconds, and TFLOPs with their interval, without and
    with the index.

    clusters: of all questions; cache: gives the TFLOPs of each answered question, {} where they are
    unknown.
    """
    phases = {
        phase: costs.phase_costs(run, phase, convention) for phase in ("index", "search", "answer")
    }
    row: dict[str, float | None] = {f"tokens.{name}": _mean(c.tokens) for name, c in phases.items()}
    row.update({f"tflops.{name}": _mean(c.tflops) for name, c in phases.items()})
    for part, within in (("probes", ("search",)), ("thinking", ("search", "answer"))):
        part_cost = costs.part_costs(run, part, within, convention)
        row[f"tokens.{part}"] = _mean(part_cost.tokens)
        row[f"tflops.{part}"] = _mean(part_cost.tflops)
    search, answer = phases["search"], phases["answer"]
    both = {
        name: costs.search_and_answer(getattr(search, name), getattr(answer, name))
        for name in _ADDED
    }
    row["tokens"], row["tokens.in"], row["tokens.out"] = (_mean(both[name]) for name in _ADDED[:3])
    row["money"] = _mean([*costs.question_money(run).values()])
    row["money.index"], row["money.run"] = _mean(costs.index_money(run)), costs.run_money(run)
    answered = facts.answered_clusters(run, clusters)
    seed = int(run.config["seed"])
    for name, with_index in (("tflops", False), ("tflops.total", True)):
        values = list(cache(run, convention, with_index).values())
        row |= facts.mean_columns(name, values, answered[: len(values)], seed=seed, bounds=None)
    row["ratio"] = row["ratio.search"] = (
        None  # their place among the columns; `frame` knows the reference
    )
    seconds, queued = both["seconds"], both["queued"]
    row["seconds"] = _mean(seconds)
    latency = seconds if costs.is_latency(run, queued) else []
    for percent in (50, 95):
        row[f"seconds.p{percent}"] = float(np.percentile(latency, percent)) if latency else None
    row["seconds.queue"], row["seconds.index"] = _mean(queued), _mean(phases["index"].seconds)
    return row


def _mean(values: Sequence[float] | None) -> float | None:
    return sum(values) / len(values) if values else None


def _cost_ratio(
    run: StoredRun, bases: Sequence[StoredRun], convention: str, cache: _Tflops, with_index: bool
) -> tuple[float, int] | None:
    """(TFLOPs of a run over those of `bases`, number of questions that both answered); None unless
    that is one run.

    A reference that fails on the longest texts would look cheap by its mean.
    """
    if len(bases) != 1:
        return None
    flops, base_flops = cache(run, convention, with_index), cache(bases[0], convention, with_index)
    common = [question for question in flops if question in base_flops]
    below = sum(base_flops[question] for question in common)
    return (sum(flops[question] for question in common) / below, len(common)) if below > 0 else None
