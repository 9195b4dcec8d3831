"""Made-up rows of `make smoke-real` in the layouts of releases of which there is no sample: texts of the pocket world.

made_file("longmemeval/s", out)  ->  out/made/longmemeval~s.json, two rows, written once
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from harness.config.layers import Choices
from harness.config.resolve import resolve_part
from harness.datasets import load
from harness.types import Document, Example

QUESTIONS = 2
Row = dict[str, Any]


def _world(dataset: str) -> list[tuple[Example, Document]]:
    """The first questions of a made-up data set, each with its document of about 1,000 tokens."""
    sets = {"dataset.questions": QUESTIONS, "dataset.tokens": 1000}
    made = load(resolve_part("datasets", Choices(dataset=dataset, sets=sets)).parts["dataset"], QUESTIONS)
    return [(one, made.documents[one.question.document_ids[0]]) for one in made.examples]


def _longbench_v2() -> list[Row]:
    rows = []
    for example, document in _world("pocket/quality"):
        choices = {
            f"choice_{letter}": option for letter, option in zip("ABCD", example.question.options or (), strict=True)
        }
        right = "ABCD"[int(example.gold.extra["gold_label"]) - 1]
        asked = {"_id": example.question.id, "question": example.question.text, "answer": right}
        rows.append({**asked, **choices, "context": document.text, "difficulty": "easy", "length": "short"})
    return rows


def _infinitebench(dataset: str) -> list[Row]:
    """With the options of questions that have some."""
    rows = []
    for example, document in _world(dataset):
        question, answers = example.question, list(example.gold.answers)
        options = {"options": list(question.options)} if question.options else {}
        rows.append({"id": question.id, "context": document.text, "input": question.text, "answer": answers, **options})
    return rows


def _longmemeval() -> list[Row]:
    """A session for each paragraph; the second question is one to be declined."""
    rows = []
    for number, (example, document) in enumerate(_world("pocket/musique")):
        marked = {(mark.start, mark.end) for mark in example.gold.supporting}
        turns = [
            {"role": "user", "content": document.text[p.start : p.end], "has_answer": (p.start, p.end) in marked}
            for p in document.passages
        ]
        rows.append(
            {
                "question_id": f"{example.question.id}{'_abs' * number}",
                "question_type": "multi-session",
                "question": example.question.text,
                "answer": example.gold.answers[0],
                "question_date": "2023/05/30 (Tue) 23:40",
                "haystack_dates": [f"2023/05/{day:02} (Mon) 10:00" for day in range(1, len(turns) + 1)],
                "haystack_sessions": [[turn, {"role": "assistant", "content": "I see."}] for turn in turns],
            }
        )
    return rows


MADE: dict[str, Callable[[], list[Row]]] = {
    "longmemeval/oracle": _longmemeval,
    "longmemeval/s": _longmemeval,
    "infinitebench/en_qa": partial(_infinitebench, "pocket/narrativeqa"),
    "infinitebench/en_mc": partial(_infinitebench, "pocket/quality"),
    "longbench-v2": _longbench_v2,
    "longbench-v2-cot": _longbench_v2,
}


def made_file(dataset: str, out: Path) -> Path:
    """The rows of a data set of MADE as a file in the results folder."""
    path = out / "made" / f"{dataset.replace('/', '~')}.json"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(MADE[dataset]()), encoding="utf-8")
    return path
