"""A question of a run as a trace, in plain values; mlflow_traces.py sends them.

METHOD                   AGENT        question and documents in, answer out; what search and answer cost together
├─ index                 TASK         where its index was built for this question, or stored for it
├─ search / retrieve     RETRIEVER    the pieces that the reader saw
│  └─ start, visit, ...  RETRIEVER    one for each step of a search
└─ answer                LLM          the answer
   └─ write, probe, ...  LLM          one for each request as it was sent, where the run kept them (--keep-prompts);
                                      a probe of a search below the step that it followed

A record has the seconds of the question and of each phase's requests, no moments. So a trace's
times are estimates: questions follow each other from the start of the run, `parallel` of them at a
time; the answer stands at the end; the steps of a search share its time by their FLOPs.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from harness.cost.flops import DEFAULT
from harness.cost.usage import sum_phases
from harness.storage.kept_requests import read_requests
from harness.storage.records import IndexLine, StoredRecord
from harness.storage.run_files import REQUESTS
from harness.storage.run_folder import StoredRun
from harness.tracking.metrics import metric_name, percent
from harness.types import JUDGES

_MOST_STEPS, _MOST_PIECES = 40, 20  # spans below a search, pieces of one span: the rest is counted
_LONGEST_TEXT, _LONGEST_PIECE = 4000, 1000  # characters; the run folder has all of them
_SCORING = ("seconds", "flags", "counts", JUDGES)  # notes that stand elsewhere in a trace
_COSTS = ("tokens_in", "tokens_out", "tokens_cached", "requests", "encoder_requests", "seconds")


@dataclass(frozen=True)
class Span:
    """A part of a trace. kind: MLflow's type of span; start, end: seconds from the start of the
    question."""

    name: str
    kind: str
    start: float
    end: float
    inputs: Any = None
    outputs: Any = None
    attributes: Mapping[str, Any] | None = None
    children: tuple[Span, ...] = ()


def answer_digest(record: StoredRecord) -> str:
    """A digest of a record without scores and notes: scoring again does not change it."""
    values = record.to_json().items()
    parts = {key: value for key, value in values if key not in ("scores", "notes")}
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def percent_scores(record: StoredRecord) -> dict[str, float]:
    """Name of the metric -> score of a record in percent."""
    named = {metric_name(name): percent(value) for name, value in record.scores.items()}
    return {name: value for name, value in named.items() if value is not None}


def build_traces(run: StoredRun, wanted: set[str]) -> Iterator[Trace]:
    """Yield the traces of the questions with these ids, in the order of the records."""
    texts = run.texts([record for record in run.records if record.question_id in wanted])
    requests = read_requests(run.path, wanted, cut_middle)
    start = (
        datetime.fromisoformat(run.manifest["started"]).timestamp()
        if run.manifest.get("started")
        else 0.0
    )
    at_a_time = max([1, *(int(s.get("parallel") or 1) for s in run.manifest.get("starts") or ())])
    indexes = {line.place: line for line in run.documents}
    for record in run.records:
        first = [
            row
            for name in record.document_ids
            for key in ((name, None), (name, record.question_id))
            if (row := indexes.pop(key, None))
        ]
        if record.question_id in wanted:
            yield Trace(run, record, first, texts, requests.get(record.question_id, []), start)
        start += float(record.notes.get("seconds") or 0.0) / at_a_time


class Trace:
    """A record as a trace. start: seconds since 1970; tokens: by MLflow's names; scores: percent,
    by metric.

    reasons: metric -> a scorer's flag or a judge's reply; judges: metrics that models gave; gold:
    expectations. It is built from the rows of documents that the question uses first (indexes),
    long texts by checksum, and kept requests.
    """

    def __init__(
        self,
        run: StoredRun,
        record: StoredRecord,
        indexes: Sequence[IndexLine],
        texts: Mapping[str, str],
        requests: Sequence[Mapping[str, Any]],
        start: float,
    ) -> None:
        self.run, self.record, self.indexes, self.texts, self.requests = (
            run,
            record,
            indexes,
            texts,
            requests,
        )
        self.start, self.question_id, self.answer = (
            start,
            str(record.question_id),
            str(record.prediction),
        )
        self.request = str(record.question or record.question_id)
        self.error: Mapping[str, str] | None = record.error
        spent = sum_phases([record.usage], "search", "answer")
        self.tokens = _chat_tokens(spent)
        tags = {
            "method": run.config["method"][
                "name"
            ],  # first, as in the tags of runs: MLflow lists the first tag
            "model": run.config["model"]["name"],
            "TFLOPs": "" if spent.get("uncounted") else f"{_tflops(spent):.4g}",
            "stop_reason": record.stop_reason,
            "error": (self.error or {}).get("type", ""),
            "truncated": "true" if record.truncated else "",
        }
        self.tags: dict[str, str] = {name: value for name, value in tags.items() if value}
        self.scores = percent_scores(record)
        judged, flags = (record.notes.get(key) or {} for key in (JUDGES, "flags"))
        reasons = {
            name: (flags.get(name), judged.get(name, {}).get("reply")) for name in (*flags, *judged)
        }
        self.reasons = {
            metric_name(name): ": ".join(map(str, filter(None, parts)))
            for name, parts in reasons.items()
        }
        self.judges = frozenset(map(metric_name, judged))
        self.gold: dict[str, list[str]] = {}
        if record.gold_answers:
            self.gold["gold_answers"] = record.gold_answers
        self.root = self._root_span()

    def _root_span(self) -> Span:
        """The span of a whole question, with those of its index, search and answer."""
        record = self.record
        index, search, answer = (self._seconds(phase) for phase in ("index", "search", "answer"))
        whole = max(float(record.notes.get("seconds") or 0.0), search + answer)
        index = max(0.0, min(index, whole - search - answer))  # another question may have built it
        parts = []
        if self.indexes:
            built = [
                {"document_id": line.document_id, "status": line.status} for line in self.indexes
            ]
            spent = {
                "costs.index": [
                    _costs(line.usage["index"]) for line in self.indexes if line.usage.get("index")
                ]
            }
            parts.append(Span("index", "TASK", 0.0, index, None, built, _filled(spent)))
        if record.usage.get("search") or record.steps or record.shown:
            parts.append(self._search_span(index, whole - answer))
        if record.usage.get("answer"):
            usage, times = record.usage["answer"], (whole - answer, whole)
            role = next(
                (name for name in usage.get("roles") or () if name not in ("encoder", "reranker")),
                "reader",
            )
            model = ((self.run.config.get("roles") or {}).get(role) or self.run.config["model"])[
                "name"
            ]
            cost = {
                "mlflow.llm.model": model,
                "mlflow.chat.tokenUsage": _chat_tokens(usage),
                **_costs(usage),
            }
            inputs = {"pieces": len(record.shown)} | _filled({"question": record.question})
            requests = self._spans_of(self._requests_in("answer"), *times)
            parts.append(
                Span("answer", "LLM", *times, inputs, record.prediction, _filled(cost), requests)
            )
        asked = _filled(
            {
                "question": record.question,
                "options": record.options,
                "document_ids": record.document_ids,
            }
        )
        about = {
            "question_id": record.question_id,
            "truncated": record.truncated,
            "notes": {k: v for k, v in record.notes.items() if k not in _SCORING} or None,
            **{f"costs.{phase}": _costs(usage) for phase, usage in record.usage.items()},
        }
        name = self.run.config["method"]["name"]
        return Span(
            name, "AGENT", 0.0, whole, asked, record.prediction, _filled(about), tuple(parts)
        )

    def _seconds(self, phase: str) -> float:
        usages = [self.record.usage]
        if phase == "index":
            usages = [line.usage for line in self.indexes]
        return sum(float((usage.get(phase) or {}).get("seconds") or 0.0) for usage in usages)

    def _requests_in(self, *phases: str) -> list[Mapping[str, Any]]:
        return [request for request in self.requests if request["phase"] in phases]

    def _spans_of(
        self, mine: Sequence[Mapping[str, Any]], start: float, end: float
    ) -> tuple[Span, ...]:
        """A span for each of the requests `mine`, of equal time; those beyond _MOST_STEPS are
        counted in one."""
        shown = mine if len(mine) <= _MOST_STEPS else mine[: _MOST_STEPS - 1]
        share = (end - start) / max(1, len(mine))
        spans = []
        for number, request in enumerate(shown):
            name = request["kind"] + (
                "" if request["role"] == "reader" else f" ({request['role']})"
            )
            times = (start + number * share, start + (number + 1) * share)
            spans.append(Span(name, "LLM", *times, {"prompt": request["prompt"]}, request["reply"]))
        if more := len(mine) - len(shown):
            spans.append(
                Span(f"{more} more requests, in {REQUESTS}", "CHAIN", end - more * share, end)
            )
        return tuple(spans)

    def _search_span(self, start: float, end: float) -> Span:
        """The span of the search, above one for each step; steps share its time by their FLOPs."""
        usage = self.record.usage.get("search") or {}
        about = {"mlflow.chat.tokenUsage": _chat_tokens(usage), **_costs(usage)} if usage else {}
        about |= {"pieces": len(self.record.shown), "stop_reason": self.record.stop_reason}
        steps = self.record.steps
        sent = self._requests_in("search", "study")
        if not steps:
            name = "search" if usage else "retrieve"
            pieces = self._retrieved_pieces(self.record.shown)
            return Span(
                name,
                "RETRIEVER",
                start,
                end,
                None,
                pieces,
                _filled(about),
                self._spans_of(sent, start, end),
            )
        spent = max(1.0, *map(_flops, steps))
        probes = sum(step["p_yes"] is not None for step in steps)
        # A probe for each P(Yes): then it is known which step it followed.
        one_a_step = [request["kind"] for request in sent] == ["probe"] * probes
        probed = iter(sent if one_a_step else ())
        at, spans = start, []
        for step in steps[:_MOST_STEPS]:
            then = max(at, start + (end - start) * min(1.0, _flops(step) / spent))
            mine = list(itertools.islice(probed, step["p_yes"] is not None))
            details = {
                "level": step["level"],
                "scores": step["scores"],
                "P(Yes)": step["p_yes"],
                "answer if stopped here": step.get("answer"),
                "tokens": step["tokens"],
                "TFLOPs so far": _flops(step) / 1e12,
                "note": step["note"][:_LONGEST_PIECE],
            }
            name = step["action"] + ("" if step["node"] is None else f" {step['node']}")
            shown = self._retrieved_pieces([step["shown"]]) if step["shown"] else None
            kind, requests = "RETRIEVER" if shown else "TOOL", self._spans_of(mine, at, then)
            spans.append(Span(name, kind, at, then, None, shown, _filled(details), requests))
            at = then
        if more := len(steps[_MOST_STEPS:]):
            spans.append(Span(f"{more} more steps, in records.jsonl", "CHAIN", at, end))
        about["steps"] = len(steps)
        if sent and not one_a_step:
            spans.append(
                Span("requests", "CHAIN", start, end, children=self._spans_of(sent, start, end))
            )
        return Span(
            "search",
            "CHAIN",
            start,
            end,
            None,
            self.record.stop_reason,
            _filled(about),
            tuple(spans),
        )

    def _retrieved_pieces(self, shown: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Shown pieces as retrieved documents; those beyond _MOST_PIECES are counted in one.

        The metadata of one says whether it overlaps supporting text.
        """
        pieces, support = [], self.record.supporting
        for piece in shown[:_MOST_PIECES]:
            text = piece.get("text") or self.texts.get(piece.get("text_sha256") or "")
            place, about = piece.get("document_id", ""), {}
            if piece["kind"] == "span":
                if support:
                    marks = (mark for mark in support if mark["document_id"] == place)
                    about["supporting"] = any(
                        m["start"] < piece["end"] and piece["start"] < m["end"] for m in marks
                    )
                place += f"[{piece['start']}:{piece['end']}]"
            about |= {"kind": piece["kind"], "doc_uri": place}
            content = cut_middle(text or f"characters of {place}", _LONGEST_PIECE)
            pieces.append({"page_content": content, "metadata": about})
        more = len(shown) - len(pieces)
        return (
            [*pieces, {"page_content": f"{more} more, in records.jsonl", "metadata": {}}]
            if more
            else pieces
        )


def _flops(step: Mapping[str, Any]) -> float:
    """FLOPs of the question up to a step; older runs have one number for all conventions."""
    flops = step["flops"]
    return float(flops.get(DEFAULT) or 0.0) if isinstance(flops, Mapping) else float(flops or 0.0)


def _tflops(usage: Mapping[str, Any]) -> float:
    return float((usage.get("flops") or {}).get(DEFAULT) or 0.0) / 1e12


def _costs(usage: Mapping[str, Any]) -> dict[str, Any]:
    """The costs of a phase that are not 0."""
    spent = {"TFLOPs": _tflops(usage), **{key: usage.get(key) for key in _COSTS}}
    return {
        key: float(f"{value:.4g}") if isinstance(value, float) else value
        for key, value in spent.items()
        if value
    }


def _chat_tokens(usage: Mapping[str, Any]) -> dict[str, int]:
    """The tokens of a phase, or a sum of phases, under MLflow's names; none where a run made
    elsewhere tells none."""
    if "tokens_in" not in usage:
        return {}
    read, written = (int(usage.get(key) or 0) for key in ("tokens_in", "tokens_out"))
    return {"input_tokens": read, "output_tokens": written, "total_tokens": read + written}


def _filled(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value not in (None, "", [], {})}


def cut_middle(text: str, longest: int = _LONGEST_TEXT) -> str:
    """Cut the middle out of a text longer than `longest`: a prompt has its question at the end."""
    if len(text) <= longest:
        return text
    head, tail = longest * 2 // 3, longest // 3
    return f"{text[:head]}\n[... {len(text) - head - tail} characters ...]\n{text[-tail:]}"
