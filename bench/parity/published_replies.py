"""Published replies to LongBench: their printed scores

twelve runs of Llama-2-7B, Llama-3-8B and Qwen3-8B, a file of replies for each of 21 sets, and
result.json.
"""

from __future__ import annotations

import json
from pathlib import Path

from bench.parity import Found
from bench.parity.rows import Rows
from harness.scorers.longbench_eval import DATASETS, mean_score

PROGRAM = "viridisGreen/LongBench"
METHODS = "LongBench's scorers, without the five sets of long summaries, whose ROUGE-L takes minutes a file"
REASONS: dict[str, str] = {}
SLOW = ("dureader", "gov_report", "multi_news", "qmsum", "vcsum")
CODE = ("lcc", "repobench-p")


def compare(code: Path, _rows: Rows, found: Found) -> None:
    """Compare the scores of result.json, two decimals of percent, with ours of the same replies."""
    for result in sorted((code / "pred").glob("*/result.json")):
        for name, theirs in json.loads(result.read_text(encoding="utf-8")).items():
            if name in SLOW or name not in DATASETS:
                continue
            lines = (result.parent / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
            replies = [json.loads(line) for line in lines]
            texts, gold = (
                [reply["pred"] for reply in replies],
                [reply["answers"] for reply in replies],
            )
            ours = mean_score(texts, gold, dataset=name, all_classes=replies[-1]["all_classes"])
            found.add(
                "code (files)" if name in CODE else "other sets (files)", theirs, ours, near=1e-9
            )
