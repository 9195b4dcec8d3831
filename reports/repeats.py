"""Runs that differ in their seed alone, as one run whose scores and costs are means over the
repeats.

A question's score is the mean over the repeats, so an interval over documents holds for the mean of
as many runs. How far the repeats lie apart is a note of the run: the standard deviation of their
means (n - 1 in the denominator). So is what a repeat lacks: questions, answers, the code or
packages of most.

Where the reader drew its replies, a question has two more kinds of scores beside each score, which
get intervals alike:

score.vote      the score of the answer that most repeats gave (self-consistency, Wang et al. 2023, arXiv 2203.11171)
score.pass@k    the expected best score of k of the repeats, k = 2, 4, 8, ... and all (`best_of`)
"""

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from harness.config.schema import canonical
from harness.scorers.squad import normalize_answer
from harness.storage.run_folder import StoredRun
from reports.comparability import other_versions


def average_over_seeds(runs: Sequence[StoredRun]) -> list[StoredRun]:
    """One run for each group of runs whose settings differ in nothing but the seed, in the order of
    their first ones.

    Only questions that every repeat has are kept. Records are those of the first repeat with the
    mean scores and costs; a question that failed in a repeat counts 0 there.
    """
    groups: dict[str, list[StoredRun]] = {}
    for run in runs:
        groups.setdefault(canonical({**run.config, "seed": None}), []).append(run)
    ordered = [
        sorted(group, key=lambda run: int(run.config.get("seed") or 0)) for group in groups.values()
    ]
    return [group[0] if len(group) == 1 else _mean_run(group) for group in ordered]


def best_of(scores: Sequence[float], k: int) -> float:
    """Mean, over all ways to draw k of n scores, of the best one drawn: sum of C(i - 1, k - 1) s_i
    / C(n, k), s sorted.

    Without bias for what k new draws would give. For scores of 0 and 1 with c ones it is pass@k, 1
    - C(n - c, k) / C(n, k) (Chen et al. 2021, arXiv 2107.03374, equation 1).

    >>> best_of([0, 1, 0], 2), best_of([0.5, 0.2], 2)
    (0.6666666666666666, 0.5)
    """
    n = len(scores)
    ways = (math.comb(i, k - 1) * score for i, score in enumerate(sorted(scores)))
    return sum(ways) / math.comb(n, k)


def _mean_run(repeats: Sequence[StoredRun]) -> StoredRun:
    """The first of the repeats with mean records of the questions that all have, and a note on
    their spread."""
    first = repeats[0]
    by_id = [{record["question_id"]: record for record in run.records} for run in repeats]
    ids = [name for name in by_id[0] if all(name in others for others in by_id)]
    drawn = first.config["dataset"]["scorers"] if first.config["model"].get("temperature") else ()
    records = [_mean_record([records[name] for records in by_id], drawn) for name in ids]
    n_dropped = len({name for by_question in by_id for name in by_question}) - len(ids)
    n_failed = sum(
        len({by_question[name]["error"] is None for by_question in by_id}) == 2 for name in ids
    )
    names = dict.fromkeys(name for records in by_id for i in ids for name in records[i]["scores"])
    parts = []
    for name in names:
        means = [
            100 * statistics.fmean(by_question[i]["scores"].get(name, 0.0) for i in ids)
            for by_question in by_id
        ]
        parts.append(f"{name} {statistics.stdev(means):.2f}")
    seeds = ", ".join(str(run.config.get("seed")) for run in repeats)
    spread = f"; standard deviation of their means, in points: {', '.join(parts)}" if parts else ""
    notes = [f"mean of {len(repeats)} repeats (seeds {seeds}){spread}"]
    if n_failed:
        notes.append(
            f"{n_failed} of {len(ids)} questions failed in a part of the repeats and count 0 there"
        )
    if n_dropped:
        notes.append(f"{n_dropped} questions are not in every repeat and in no number")
    notes += [
        f"a repeat was {sentence.partition(' was ')[2]}"
        for sentence in other_versions(repeats)
        if sentence
    ]
    return replace(first, records=records, notes=(*first.notes, *dict.fromkeys(notes)))


def _mean_record(records: Sequence[Mapping[str, Any]], drawn: Sequence[str]) -> dict[str, Any]:
    """One question's records as one, with mean scores and costs; drawn: scores that also get a vote
    and pass@k."""
    names = dict.fromkeys(name for record in records for name in record["scores"])
    # A failed question has zeros; one that lacks a score was not scored by it.
    scores = {}
    for name in names:
        scores[name] = statistics.fmean(r["scores"][name] for r in records if name in r["scores"])
    if drawn:
        answers = [
            normalize_answer(str((r.get("notes") or {}).get("scored", r["prediction"])))
            for r in records
        ]
        answered = [
            answer
            for answer, record in zip(answers, records, strict=True)
            if record["error"] is None
        ]
        elected = answers.index(
            Counter(answered or answers).most_common(1)[0][0]
        )  # of tied answers the first one
        sizes = [
            *(2**i for i in range(1, len(records).bit_length()) if 2**i < len(records)),
            len(records),
        ]
        for name in (name for name in names if name in drawn and not name.startswith("evidence_")):
            values = [record["scores"].get(name, 0.0) for record in records]
            scores[f"{name}.vote"] = values[elected]
            scores |= {f"{name}.pass@{k}": best_of(values, k) for k in sizes}
    errors = [record["error"] for record in records]
    error = errors[0] if all(error is not None for error in errors) else None
    usage = _mean_value([record["usage"] for record in records])
    return {**records[0], "scores": scores, "usage": usage, "error": error}


def _mean_value(values: Sequence[Any]) -> Any:
    """The mean of each number over the values that have it, key by key; anything else is that of
    the first value."""
    first = values[0]
    if isinstance(first, dict):
        return {
            k: _mean_value([v[k] for v in values if isinstance(v, dict) and k in v]) for k in first
        }
    if isinstance(first, int | float) and not isinstance(first, bool):
        return statistics.fmean(v for v in values if isinstance(v, int | float))
    return first
