"""Real rows: all samples load, spans hold and are those of the files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.datasets import load
from harness.datasets.base import Dataset
from tests.datasets.support import config, needs_real, real

pytestmark = needs_real

FILES = [
    ("musique/musique_ans_v1.0_dev_sample.jsonl", 122),
    ("musique/musique_ans_v1.0_train_sample.jsonl", 54),
    ("hotpotqa/hotpot_dev_distractor_sample.json", 116),
    ("hotpotqa/hotpot_dev_distractor_hf_sample.jsonl", 57),
    ("hotpotqa/hotpot_train_sample.json", 70),
]


def _load(name: str) -> Dataset:
    return load(config(name.split("/")[0], data=str(real("data", name))))


def _raw(name: str) -> list[dict[str, Any]]:
    text = real("data", name).read_text(encoding="utf-8")
    lines = [text] if name.endswith(".json") else text.strip().split("\n")
    parsed = [json.loads(line) for line in lines]
    rows: list[dict[str, Any]] = parsed[0] if name.endswith(".json") else parsed
    return rows


def _paragraphs(row: dict[str, Any]) -> list[tuple[str, str, bool]]:
    """(title, text, supporting) of a raw row, read here a second time on purpose."""
    if "paragraphs" in row:
        return [(p["title"], p["paragraph_text"], p["is_supporting"]) for p in row["paragraphs"]]
    context, facts = row["context"], row["supporting_facts"]
    if isinstance(context, dict):
        pairs, titles = list(zip(context["title"], context["sentences"], strict=True)), set(facts["title"])
    else:
        pairs, titles = context, {title for title, _ in facts}
    return [(title, "".join(sentences), title in titles) for title, sentences in pairs]


@pytest.mark.parametrize(("name", "count"), FILES)
def test_rows_and_spans(name: str, count: int) -> None:
    data, raw = _load(name), _raw(name)
    assert (len(data), len(raw), data.skipped) == (count, count, {})
    assert data.source == Path(name).name
    for example, row in zip(data.examples, raw, strict=True):
        document = data.documents[example.question.id]
        paragraphs = _paragraphs(row)
        assert example.question.text == row["question"]
        assert example.gold.answers[0] == row["answer"]
        assert [document.text[p.start : p.end] for p in document.passages] == [f"{t}\n{x}" for t, x, _ in paragraphs]
        assert document.text == "\n\n".join(f"{title}\n{text}" for title, text, _ in paragraphs)
        supporting = [(p.start, p.end) for p, (_, _, yes) in zip(document.passages, paragraphs, strict=True) if yes]
        assert [(s.start, s.end) for s in example.gold.supporting] == supporting
        assert supporting
        assert example.gold.extra["supporting_paragraphs"] == [i for i, (_, _, yes) in enumerate(paragraphs) if yes]
