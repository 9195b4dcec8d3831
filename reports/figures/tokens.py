"""Tokens of documents, questions and answers by data set: least, mean and most (GARLIC table 6, PECAN table A3).

    count(Texts(...), tokens)                  {"document": [318, 402], "question": [14, 17], "answer": [2, 3, 2]}
    frame([Counted("musique", ...)])           one row a data set, tokenizer and kind

A run folder keeps no texts, and `documents.jsonl` only what building an index cost, so the texts are read from the data
set again and counted with the tokenizer of the run's reader; the harness hands over both. Only what the run asked is
counted: its questions, the documents they were asked about, each once, and every gold answer of each.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

KINDS = ("document", "question", "answer")


@dataclass(frozen=True)
class Texts:
    """The texts of one data set that were asked, each document and question once."""

    documents: Sequence[str]
    questions: Sequence[str]
    answers: Sequence[str]


@dataclass(frozen=True)
class Counted:
    """Token counts of one data set; tokenizer: whose tokens; notes: what a reader must know."""

    dataset: str
    tokenizer: str
    numbers: dict[str, list[int]]
    notes: tuple[str, ...] = ()


def count(texts: Texts, tokens: Callable[[str], int]) -> dict[str, list[int]]:
    """The number of tokens of every text, by kind; `tokens` is asked once for each different text."""
    ask = functools.cache(tokens)
    found = zip(KINDS, (texts.documents, texts.questions, texts.answers), strict=True)
    return {kind: [ask(text) for text in of_kind] for kind, of_kind in found}


def frame(found: Sequence[Counted]) -> pd.DataFrame:
    """dataset tokenizer kind n tokens.min tokens.mean tokens.max notes; a kind without any text has n = 0."""
    rows: list[dict[str, Any]] = []
    for one in found:
        for kind in KINDS:
            lengths = one.numbers[kind]
            rows.append(
                {
                    "dataset": one.dataset,
                    "tokenizer": one.tokenizer,
                    "kind": kind,
                    "n": len(lengths),
                    "tokens.min": min(lengths, default=None),
                    "tokens.mean": sum(lengths) / len(lengths) if lengths else None,
                    "tokens.max": max(lengths, default=None),
                    "notes": one.notes,
                }
            )
    return pd.DataFrame(rows)
