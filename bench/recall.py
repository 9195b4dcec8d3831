"""Recall of the supporting paragraphs on real rows: BM25 as in the golden file, and the sentence encoder beside it.

    HARNESS_TEST_DATA=FOLDER python -m bench.recall [--encoder minilm]

The candidates are the paragraphs of the question's own row, the words whatever stands between spaces, as in the
golden file's recipe; its figures stand beside ours. Questions with fewer than four paragraphs, or all of them
supporting, are left out, as there.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from harness.config.layers import Choices
from harness.config.resolve import resolve_part
from harness.config.schema import EncoderConfig
from harness.cost.meter import Meter
from harness.datasets import load
from harness.embed.load import load_encoder
from methods.retrieval import bm25_scores

FILES = (
    "musique/musique_ans_v1.0_dev_sample.jsonl",
    "hotpotqa/hotpot_dev_distractor_sample.json",
    "2wikimultihopqa/dev_sample.json",
)
TOP = (1, 2, 3, 5)
Rank = Callable[[str, list[str]], np.ndarray]


def candidates(path: Path, dataset: str) -> Iterator[tuple[str, list[str], set[int]]]:
    """Question, paragraphs, and which of them support the answer."""
    config = resolve_part("datasets", Choices(dataset=dataset, data=str(path))).parts["dataset"]
    data = load(config)
    for example in data.examples:
        document = data.documents[example.question.id]
        spans = [(p.start, p.end) for p in document.passages]
        wanted = {spans.index((s.start, s.end)) for s in example.gold.supporting}
        if len(spans) >= 4 and 0 < len(wanted) < len(spans):
            yield example.question.text, [document.text[a:b] for a, b in spans], wanted


def recalls(rows: list[tuple[str, list[str], set[int]]], rank: Rank) -> dict[int, float]:
    orders = [np.argsort(-rank(question, texts), kind="stable").tolist() for question, texts, _ in rows]
    found = zip(orders, (wanted for _, _, wanted in rows), strict=True)
    shares = [[len(wanted & set(order[:k])) / len(wanted) for k in TOP] for order, wanted in found]
    return dict(zip(TOP, np.mean(shares, axis=0).tolist(), strict=True))


def bm25(question: str, texts: list[str]) -> np.ndarray:
    return bm25_scores(question.lower().split(), [text.lower().split() for text in texts])


def similar(name: str) -> Rank:
    config: EncoderConfig = resolve_part("encoders", Choices(sets={"encoder": name})).parts["encoder"]
    encoder: Any = load_encoder(config, Meter(), "encoder")

    def rank(question: str, texts: list[str]) -> np.ndarray:
        (query,) = encoder.encode([question], "query")
        return np.asarray(encoder.similarity(query, encoder.encode(texts, "passage")))

    return rank


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder", default="minilm")
    flags = parser.parse_args()
    root = os.environ.get("HARNESS_TEST_DATA")
    if not root:
        sys.exit("HARNESS_TEST_DATA is not set: it names the folder that holds data/ and golden/ with real rows")
    golden = json.loads(Path(root, "golden", "bm25_recall.json").read_text(encoding="utf-8"))["results"]
    encoder = similar(flags.encoder)
    print(f"{'recall of the supporting paragraphs, %':<46} " + " ".join(f"{f'@{k}':>6}" for k in TOP))
    for name in FILES:
        dataset = name.split("/")[0]
        rows = list(candidates(Path(root, "data", name), dataset))
        told = {"golden": {k: golden[name]["own_candidates"][f"recall@{k}"] for k in TOP}}
        told |= {"bm25": recalls(rows, bm25), f"sbert[{flags.encoder}]": recalls(rows, encoder)}
        for ranker, found in told.items():
            label = f"{dataset}, {len(rows)} questions, {ranker}"
            print(f"{label:<46} " + " ".join(f"{100 * found[k]:6.1f}" for k in TOP), flush=True)


if __name__ == "__main__":
    main()
