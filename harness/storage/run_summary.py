"""The numbers of a run, from its records alone, so that they can be computed again at any time.

summarise(records, documents) -> {
    "n_total": 200, "n_scored": 198, "n_failed": 2, "n_truncated": 31, "failed_count_as": "zero",
    "n_without_prefix": 12,                     only if the task asks for one: replies without it, scored whole
    "replies": {"empty": 3},                    only if some lack something (`lacking_replies`)
    "scores": {"longbench-f1": {"mean": 0.41, "low": 0.36, "high": 0.46, "n": 200}},
                                                95 % interval by cluster; n: questions that have this score
    "usage": {"search": {...}, "answer": {...}},                              mean an answered question
    "index": {"documents": 40, "built": 12, "hit": 28, "failed": 0, "usage": {...}, "usage_per_document": {...}},
    "texts_cut": {"texts": 412, "cut": 260},    only where an encoder cut texts: all that it was given, and those cut
    "errors": {"WindowExceeded": 2}}            failed questions by the type of their error
"""

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from harness.cost.usage import add_usage, texts_and_cut
from harness.stats.bootstrap import interval
from harness.stats.question_clusters import Clusters
from harness.types import MISSING, PREFIX

KEPT = ("state", "n_asked", "n_left_out", "n_not_asked", "stopped_early")
"""The keys of a summary.json that its records do not determine: who computes the numbers again keeps them."""


def summarise(
    records: Iterable[dict[str, Any]],
    documents: Iterable[dict[str, Any]],
    *,
    failed: Literal["zero", "skip"] = "zero",
    seed: int = 0,
    form: str = "",
) -> dict[str, Any]:
    """Return the mapping above. A failed question scores 0, as its record says, or is left out with failed="skip".

    records: one a question, streamed, of which memory holds about 30 bytes each; documents: lines of documents.jsonl;
    seed: of the bootstrap; form: the data set's format, which says what questions are resampled as one
    (harness.stats.question_clusters). n_scored + n_failed = n_total. Costs are those of questions answered and of
    indexes built or hit, since a hit knows what building cost. Costs of failed questions are left out: they stopped
    midway.
    """
    tally = _Tally(failed, form)
    for record in records:
        tally.add(record)
    index, index_texts = _index_numbers(documents)
    texts, cut = index_texts + tally.texts
    replies = tally.replies + Counter(lacking_replies(index["usage"]))
    return {
        "n_total": tally.total,
        "n_scored": tally.total - tally.errors.total(),
        "n_failed": tally.errors.total(),
        "n_truncated": tally.truncated,
        **({"n_without_prefix": tally.prefixes[MISSING]} if tally.prefixes else {}),
        **({"replies": dict(replies)} if replies else {}),
        "failed_count_as": failed,
        "scores": tally.scores(seed),
        "usage": _divide_all(tally.usage, tally.total - tally.errors.total()),
        "index": index,
        **({"texts_cut": {"texts": None if np.isnan(texts) else int(texts), "cut": int(cut)}} if cut else {}),
        "errors": dict(sorted(tally.errors.items())),
    }


def summarise_with(
    config: Mapping[str, Any], records: Iterable[dict[str, Any]], documents: Iterable[dict[str, Any]]
) -> dict[str, Any]:
    """`summarise` with the settings of run.yaml's `config`."""
    failed, seed, form = config.get("failed", "zero"), config.get("seed", 0), config["dataset"].get("format", "")
    return summarise(records, documents, failed=failed, seed=int(seed), form=form)


def lacking_replies(usage: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
    """Replies without an answer by `Written.problem`, cut ones in phase "answer" alone, and those that are "unread"."""
    found: Counter[str] = Counter()
    for phase, spent in usage.items():
        counts = (spent.get("replies") or {}).items()
        found.update({problem: n for problem, n in counts if problem != "unfinished" or phase == "answer"})
    return dict(found)


def reply_sentences(replies: Mapping[str, int], config: Mapping[str, Any]) -> list[str]:
    """A sentence for each kind of `replies` (a summary's) that lack something; config: as in run.yaml."""
    model, most = config["model"], config["dataset"].get("max_answer_tokens")
    think, own = model.get("thinking"), model.get("max_tokens")
    raised = f"raise model.thinking.tokens, now {think['tokens']}" if think else "set model.thinking.tokens=4096"
    cut_by = ("model.max_tokens", own) if own and own <= (most or own) else ("dataset.max_answer_tokens", most)
    sentences = {
        "refused": "refusals: {}",
        "thought": f"replies whose limit went into thinking: {{}}; {raised}",
        "empty": "empty replies: {}",
        "unread": "replies that the method could not read: {}",
        "unfinished": f"replies cut at their limit ({'='.join(str(part) for part in cut_by if part)}): {{}}",
    }
    return [words.format(replies[kind]) for kind, words in sentences.items() if replies.get(kind)]


class _Tally:
    """Sums over records, and what confidence intervals need of each; failed, form: as in `summarise`."""

    def __init__(self, failed: str, form: str) -> None:
        self._failed = failed
        self.total = self.truncated = 0
        self.errors: Counter[str] = Counter()
        self.prefixes: Counter[str] = Counter()
        self.replies: Counter[str] = Counter()
        self.usage: dict[str, dict[str, Any]] = {}
        self.texts = np.zeros(2)  # those of failed questions too
        self._count = 0  # of rows that have scores
        self._clusters = Clusters(form)  # of each such row
        self._scores: dict[str, tuple[array[float], array[int]]] = {}  # values, and the rows that have them

    def add(self, row: dict[str, Any]) -> None:
        """Count a record."""
        error, prefix = row["error"], (row.get("notes") or {}).get(PREFIX)
        self.total += 1
        self.truncated += row["truncated"] is not None
        self.prefixes.update([] if prefix is None else [prefix])
        self.errors.update([] if error is None else [error["type"]])
        self.replies.update(lacking_replies(row["usage"]))
        self.texts += _encoder_texts(row["usage"])
        if error is None:
            add_usage(self.usage, row["usage"])
        elif self._failed != "zero":
            return
        self._clusters.add(row["question_id"], row["document_ids"])
        for name, value in row["scores"].items():
            values, rows = self._scores.setdefault(name, (array("d"), array("I")))
            values.append(value)
            rows.append(self._count)
        self._count += 1

    def scores(self, seed: int) -> dict[str, dict[str, float | None]]:
        """Scorer -> mean, 95 % interval and the number of questions that have this score."""
        clusters = self._clusters.numbers()
        scores: dict[str, dict[str, float | None]] = {}
        for name, (values, rows) in self._scores.items():
            own = clusters if len(rows) == self._count else clusters[np.frombuffer(rows, dtype=np.uint32)]
            i = interval(np.frombuffer(values), own, seed=seed)
            scores[name] = {"mean": i.mean, "low": i.low, "high": i.high, "n": i.n}
        return scores


def _encoder_texts(usage: dict[str, dict[str, Any]]) -> NDArray[np.float64]:
    """[texts that encoders got for a question or an index (NaN: unknown), texts that they truncated]."""
    given, cut = texts_and_cut([usage])
    return np.array([np.nan if given is None else given, cut])


def _index_numbers(documents: Iterable[dict[str, Any]]) -> tuple[dict[str, Any], NDArray[np.float64]]:
    """Sum up documents.jsonl: the summary's "index", and the texts of encoders; failed indexes are left out."""
    usage: dict[str, dict[str, Any]] = {}
    texts, counts, ids, failed = np.zeros(2), {"built": 0, "hit": 0, "failed": 0}, set(), set()
    for row in documents:
        key = (row["document_id"], row.get("question_id"), row.get("key"))
        counts[row["status"]] += key not in failed  # one that failed in several starts has failed once
        failed |= {key} if row["status"] == "failed" else set()
        if row["status"] != "failed":
            ids.add(row["document_id"])
            add_usage(usage, row["usage"])
            texts += _encoder_texts(row["usage"])
    mean = _divide_all(usage, len(ids))
    return {"documents": len(ids), **counts, "usage": usage, "usage_per_document": mean}, texts


def _divide_all(value: Any, by: int) -> Any:
    """Divide all numbers in nested dicts; by 0 they stay."""
    if isinstance(value, dict):
        return {k: _divide_all(v, by) for k, v in value.items()}
    return value / by if by else value
