"""What the page knows of each question, as JSON: scores of all, everything else of the first ones.

    {"name": "musique", "score": "longbench.qa_f1_score", "methods": [{"label", "model", "ceiling"}, ...],
     "reference": 1,                           the place of the reference in "methods"
     "ids": ["2hop__1", ...],                  at most SCORED questions, evenly spread where there are more
     "values": [[0.5, null, ...], ...],        one row a method, in the order of `ids`; null where it has no such score
     "questions": [{"id", "text", "gold", "options", "answers": [{...} or null, ...]}, ...],   the first ones
     "graphs": [{...}, ...],                   reports/search_player.py, for searches that can be played
     "notes": ["details of 200 of 2417 questions ..."]}

An answer: {"prediction", "scores", "stop", "error", "truncated", "shown": [...], "steps": [...], "replay": {...}},
texts cut to `_LONGEST` characters with the full length told, so that a page of many questions stays small.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.cost.flops import DEFAULT
from reports import stored as facts
from reports.evidence import evidence
from reports.gold_rows import Rows, with_texts
from reports.search_player import replays
from reports.step_flops import full_only, step_flops

if TYPE_CHECKING:
    from harness.storage.run_folder import StoredRun
    from harness.types import Example


SCORED = 20_000
_LONGEST = 600
_MOST_SHOWN = 12
_MOST_STEPS = 80
_SHORT = 160


@dataclass(frozen=True)
class Limits:
    """questions: at most so many with details; size: of their JSON, in bytes; graphs: of the searches to be played."""

    questions: int = 200
    size: int = 7_000_000
    graphs: int = 4_000_000


def details(
    runs: Sequence[StoredRun],
    labels: Sequence[str],
    reference: int,
    score: str,
    rows: Sequence[Rows],
    limits: Limits,
    convention: str = DEFAULT,
) -> dict[str, Any]:
    """The JSON value described above for the runs of one data set, with the `rows` of each; `reference` is the place
    of one in `runs`, `convention` how the FLOPs of steps are counted."""
    ids = list(dict.fromkeys(record["question_id"] for run in runs for record in run.records))
    kept, notes = ids, []
    if len(ids) > SCORED:
        kept = [ids[i * len(ids) // SCORED] for i in range(SCORED)]
        notes = [f"Differences of {SCORED} of {len(ids)} questions, evenly spread; the tables above are of all."]
    if problems := [one.problem for one in rows if one.problem]:
        notes.append(f"No gold answers, questions and shown texts: {problems[0]}.")
    questions = _questions(runs, ids, rows, limits, convention)
    if len(questions) < len(ids):
        notes.append(
            f"Details of {len(questions)} of {len(ids)} questions, so that the page stays small (--questions)."
        )
    graphs, said = replays(runs, questions, rows, limits.graphs)
    return {
        "name": runs[0].config["dataset"]["name"],
        "score": score,
        "methods": [
            {"label": label, "model": run.config["model"]["name"], "ceiling": facts.is_ceiling(run)}
            for run, label in zip(runs, labels, strict=True)
        ],
        "reference": reference,
        "ids": kept,
        "values": [_values(run, score, kept) for run in runs],
        "questions": questions,
        "graphs": graphs,
        "notes": notes
        + said
        + list(dict.fromkeys(note for run in runs for note in full_only(run.records, convention))),
    }


def _values(run: StoredRun, score: str, ids: list[str]) -> list[float | None]:
    if score not in facts.score_names(run):
        return [None] * len(ids)
    found = facts.scored(run, score)
    by_id = dict(zip(found.ids, found.values, strict=True))
    return [None if (value := by_id.get(i)) is None else round(value, 5) for i in ids]


def _questions(
    runs: Sequence[StoredRun], ids: list[str], rows: Sequence[Rows], limits: Limits, convention: str
) -> list[dict[str, Any]]:
    by_id = [{record["question_id"]: record for record in run.records} for run in runs]
    first = ids[: limits.questions]
    rows = [
        with_texts(one, run, [found[name] for name in first if name in found])
        for one, run, found in zip(rows, runs, by_id, strict=True)
    ]
    out: list[dict[str, Any]] = []
    size = 0
    for question_id in first:
        example = next((one.examples[question_id] for one in rows if question_id in one.examples), None)
        told = _question(question_id, example)
        told["answers"] = [
            _answer(found.get(question_id), example, one, convention) for found, one in zip(by_id, rows, strict=True)
        ]
        size += len(json.dumps(told))
        if size > limits.size:
            break
        out.append(told)
    return out


def _question(question_id: str, example: Example | None) -> dict[str, Any]:
    if example is None:
        return {"id": question_id, "text": None, "gold": None, "options": None}
    return {
        "id": question_id,
        "text": _cut(example.question.text),
        "gold": [_cut(answer) for answer in example.gold.answers[:20]],
        "options": [_cut(option) for option in example.question.options or ()] or None,
    }


def _answer(
    record: dict[str, Any] | None, example: Example | None, rows: Rows, convention: str
) -> dict[str, Any] | None:
    if record is None:
        return None
    shown = record["shown"]
    error = record["error"]
    return {
        "prediction": _cut(record["prediction"]),
        "scores": {name: round(value, 5) for name, value in record["scores"].items() if isinstance(value, int | float)},
        "stop": record["stop_reason"],
        "error": f"{error['type']}: {_cut(error['message'])}" if error else None,
        "truncated": record["truncated"],
        "shown": [_piece(piece, example, rows) for piece in shown[:_MOST_SHOWN]],
        "shown_total": len(shown),
        "steps": [_step(step, rows, convention) for step in record["steps"][:_MOST_STEPS]],
        "steps_total": len(record["steps"]),
    }


def _piece(piece: dict[str, Any], example: Example | None, rows: Rows) -> dict[str, Any]:
    """One piece of what the reader saw; `evidence` where it overlaps a supporting part."""
    if piece["kind"] == "generated":
        sources = ", ".join(f"{d} {a}–{b}" for d, a, b in piece["sources"][:6])
        return {"where": f"generated from {sources}" if sources else "generated", "text": _cut(rows.text(piece) or "")}
    start, end = piece["start"], piece["end"]
    told: dict[str, Any] = {
        "where": f"{piece['document_id']} {start}–{end}",
        "text": _span(piece, rows, _LONGEST),
    }
    if evidence(piece, example) == "yes":
        told["evidence"] = True
    return told


def _span(piece: dict[str, Any], rows: Rows, longest: int) -> str | None:
    """The text of a span, None where it is not at hand."""
    text = rows.text(piece)
    return None if text is None else _cut(text, longest)


def _step(step: dict[str, Any], rows: Rows, convention: str) -> dict[str, Any]:
    shown = step["shown"] or {}
    flops = step_flops(step["flops"], convention)
    text = step["note"] or (_span(shown, rows, _SHORT) if shown else "")
    return {
        "action": step["action"],
        "node": step["node"],
        "level": step["level"],
        "p_yes": None if step["p_yes"] is None else round(step["p_yes"], 4),
        "scores": {name: round(value, 5) for name, value in step["scores"].items()},
        "tokens": step["tokens"],
        "tflops": None if flops is None else round(flops / facts.TERA, 6),
        "text": _cut(text or "", _SHORT),
    }


def _cut(text: str, longest: int = _LONGEST) -> str:
    """At most `longest` characters, with the whole length told where some are missing."""
    if len(text) <= longest:
        return text
    return f"{text[:longest]} … ({len(text)} characters)"
