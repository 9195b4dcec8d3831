"""Texts and questions for benchmarks that are made to measure and were given no files of their
own."""

from typing import Any

from pocket.world.sample import sample


def hotpotqa_rows(seed: int) -> list[Any]:
    """200 rows in the form of HotpotQA's file, each with a short made-up text."""
    rows: list[Any] = []
    for number in range(200):
        made = sample("hotpotqa", seed, tokens=400, purpose="evaluation", number=number)
        rows += made.rows
    return rows


def story(seed: int) -> str:
    """The text of a made-up story of 20,000 tokens (characters / 4)."""
    (document,) = sample("narrativeqa", seed, tokens=20_000, purpose="evaluation").documents
    return document.text
