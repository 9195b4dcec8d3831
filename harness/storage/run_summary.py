"""The numbers of a run, from its records alone, so that they can be computed again at any time.

summarise(records, documents) -> {
    "n_total": 200, "n_scored": 198, "n_failed": 2, "n_truncated": 31, "failed_count_as": "zero",
    "n_without_prefix": 12,                     only if the task asks for one: replies without it, scored whole
    "replies": {"empty": 3},                    only if some lack something (`lacking_replies`)
    "interval_rule": "1",                       by which the intervals were made (harness.stats)
    "scores": {"longbench-f1": {"mean": 0.41, "low": 0.36, "high": 0.46, "n": 200}},
                                                95 % interval by cluster; n: questions that have
                                                this score
    "usage": {"search": {...}, "answer": {...}},                              mean an answered question
    "index": {"documents": 40, "built": 12, "hit": 28, "failed": 0, "usage": {...},
    "usage_per_document": {...}},
    "texts_cut": {"texts": 412, "cut": 260},    only where an encoder cut texts: all that it was given, and those cut
    "errors": {"WindowExceeded": 2}}            failed questions by the type of their error
"""

import math
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from harness.cost.usage import add_usage, texts_and_cut
from harness.stats import INTERVAL_RULE
from harness.stats.bootstrap import interval
from harness.stats.question_clusters import cluster_numbers
from harness.storage.records import IndexLine
from harness.types import MISSING, NOT_SAID, PREFIX

KEPT = ("state", "n_asked", "n_left_out", "n_not_asked", "stopped_early")
"""The keys of a summary.json that its records do not determine: who computes the numbers again
keeps them."""


def summarise(
    records: Iterable[dict[str, Any]],
    documents: Iterable[IndexLine],
    config: Mapping[str, Any] = {},
) -> dict[str, Any]:
    """Return the mapping above. A failed question scores 0, as its record says, or is left out where
    the run's setting `failed` is "skip".

    n_scored + n_failed = n_total. Costs are those of questions answered and of indexes built or
    hit, since a hit knows what building cost. Costs of failed questions are left out: they stopped
    midway.

    Args:
        records: One a question, streamed, of which memory holds about 30 bytes each.
        documents: Lines of documents.jsonl.
        config: Of the run, as in run.yaml: `failed`, the bootstrap's `seed`, and the data set's
            format, which says what questions are resampled as one
            (harness.stats.question_clusters).
    """
    failed, seed = config.get("failed", "zero"), int(config.get("seed", 0))
    dataset_format = config.get("dataset", {}).get("format", "")
    total = truncated = cut = 0
    texts = 0.0  # that encoders got for questions, failed ones too, and indexes; NaN: unknown
    errors, prefixes, replies = Counter[str](), Counter[str](), Counter[str]()
    usage: dict[str, dict[str, Any]] = {}
    said: set[str] = set()  # scores that answered questions have
    unsaid: set[str] = set()  # scores that an application's replies do not allow
    columns: dict[
        str, tuple[array[float], array[int]]
    ] = {}  # score -> its values, and the rows that have it

    def scored_questions() -> Iterator[tuple[str, Sequence[str]]]:
        """Count each record; yield (id, documents) of those whose scores count."""
        nonlocal total, truncated, texts, cut
        rows = 0
        for record in records:
            error, prefix = record["error"], (record.get("notes") or {}).get(PREFIX)
            total += 1
            truncated += record["truncated"] is not None
            prefixes.update([] if prefix is None else [prefix])
            errors.update([] if error is None else [error["type"]])
            replies.update(lacking_replies(record["usage"]))
            given, cut_here = texts_and_cut([record["usage"]])
            texts, cut = texts + (math.nan if given is None else given), cut + cut_here
            if error is None:
                add_usage(usage, record["usage"])
                said.update(record["scores"])
                unsaid.update(_unsaid(record))
            elif failed != "zero":
                continue
            for name, value in record["scores"].items():
                values, places = columns.setdefault(name, (array("d"), array("I")))
                values.append(value)
                places.append(rows)
            rows += 1
            yield record["question_id"], record["document_ids"]

    clusters = cluster_numbers(dataset_format, scored_questions())
    scores = {}
    for name, (values, places) in columns.items():
        if name in unsaid - said:
            continue  # a failed question has no 0 of what no reply says
        i = interval(
            np.frombuffer(values), clusters[np.frombuffer(places, dtype=np.uint32)], seed=seed
        )
        scores[name] = {"mean": i.mean, "low": i.low, "high": i.high, "n": i.n}

    index_usage: dict[str, dict[str, Any]] = {}
    counts = {"built": 0, "hit": 0, "failed": 0}
    ids = set[str]()
    tried = set[tuple[str, str | None, str | None]]()
    for line in documents:
        if line.identity not in tried:  # one that failed in several starts has failed once
            counts[line.status] += 1
        if line.failed:
            tried.add(line.identity)
            continue
        ids.add(line.document_id)
        add_usage(index_usage, line.usage)
        given, cut_here = texts_and_cut([line.usage])
        texts, cut = texts + (math.nan if given is None else given), cut + cut_here
    replies.update(lacking_replies(index_usage))
    mean = _divide_all(index_usage, len(ids))
    return {
        "n_total": total,
        "n_scored": total - errors.total(),
        "n_failed": errors.total(),
        "n_truncated": truncated,
        **({"n_without_prefix": prefixes[MISSING]} if prefixes else {}),
        **({"replies": dict(replies)} if replies else {}),
        "failed_count_as": failed,
        "interval_rule": INTERVAL_RULE,
        "scores": scores,
        "usage": _divide_all(usage, total - errors.total()),
        "index": {
            "documents": len(ids),
            **counts,
            "usage": index_usage,
            "usage_per_document": mean,
        },
        **(
            {"texts_cut": {"texts": None if math.isnan(texts) else int(texts), "cut": cut}}
            if cut
            else {}
        ),
        "errors": dict(sorted(errors.items())),
    }


def _unsaid(record: Mapping[str, Any]) -> list[str]:
    """The scores that a record lacks as an application does not say what it used."""
    flags = (record.get("notes") or {}).get("flags") or {}
    return [name for name, why in flags.items() if why == NOT_SAID]


def lacking_replies(usage: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
    """Replies with a problem, or with reasoning that was left out, by kind; those that were cut at
    their limit count in the phase "answer" alone."""
    by_sentence: Counter[str] = Counter()
    for phase, spent in usage.items():
        for problem, count in (spent.get("replies") or {}).items():
            if problem != "unfinished" or phase == "answer":
                by_sentence[problem] += count
    return dict(by_sentence)


def reply_sentences(replies: Mapping[str, int], config: Mapping[str, Any]) -> list[str]:
    """A sentence for each kind of `replies` (a summary's) that lack something; config: as in
    run.yaml."""
    model, answer_limit = config["model"], config["dataset"].get("max_answer_tokens")
    thinking, model_limit = model.get("thinking"), model.get("max_tokens")
    raise_thinking = (
        f"raise model.thinking.tokens, now {thinking['tokens']}"
        if thinking
        else "set model.thinking.tokens=4096"
    )
    cut_by = ("dataset.max_answer_tokens", answer_limit)
    if model_limit and model_limit <= (answer_limit or model_limit):
        cut_by = ("model.max_tokens", model_limit)
    sentences = {
        "refused": "refusals: {}",
        "thought": f"replies whose limit went into thinking: {{}}; {raise_thinking}",
        "reasoned": "replies with reasoning before the answer, which is left out: {}; "
        "model.keep_thinking=true leaves it in",
        "empty": "empty replies: {}",
        "unread": "replies that the method could not read: {}",
        "unsearched": "answers without a single tool call: {}",
        "unfinished": f"replies cut at their limit ({'='.join(str(part) for part in cut_by if part)}): {{}}",
    }
    return [words.format(replies[kind]) for kind, words in sentences.items() if replies.get(kind)]


def _divide_all(value: Any, by: int) -> Any:
    """Divide all numbers in nested dicts; by 0 they stay."""
    if isinstance(value, dict):
        return {k: _divide_all(v, by) for k, v in value.items()}
    return value / by if by else value
