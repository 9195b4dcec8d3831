"""Runs fabricated by seed, judged as `harness report --paper` judges them: python -m bench.fabricated [--seed 0]

Each run is an honest one of BM25 on MuSiQue's official rows with one thing changed, in a table with two honest runs.
Printed: dishonest runs that are certified without a mark, and honest ones that are refused. Both should be none.
"""

import argparse
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from harness.storage.run_folder import StoredRun
from reports.paper.comparable import differences
from reports.paper.printed import Value, load
from reports.paper.verdicts import NOT_COMPARABLE, frame
from tests.reports.paper_runs import changed, paper_run
from tests.reports.test_paper_public_releases import official

Changes = dict[str, Any]
Make = Callable[[random.Random], tuple[Changes, Changes]]  # of the configuration, of the manifest
WEIGHTS = "models.reader.weights"


def _hash(dice: random.Random, digits: int = 40) -> str:
    return f"{dice.getrandbits(4 * digits):0{digits}x}"


def _later_start(key: str) -> Make:
    """A second start, or a shard, with another value under `key` of the manifest."""
    return lambda dice: ({}, {"starts": [{}, {"changed": {key: _hash(dice)}}]})


DISHONEST: dict[str, Make] = {
    "temperature": lambda dice: ({"model.temperature": dice.uniform(0.1, 2)}, {}),
    "top_p": lambda dice: ({"model.top_p": dice.uniform(0.1, 0.9)}, {}),
    "max_tokens": lambda dice: ({"model.max_tokens": dice.randint(2, 30)}, {}),
    "thinking": lambda dice: ({"model.thinking": {"tokens": dice.randint(9, 4096)}}, {}),
    "sample": lambda dice: ({"sample": 2417, "sample_seed": dice.randint(1, 99)}, {}),
    "seed": lambda dice: ({"seed": dice.randint(1, 99)}, {}),
    "chunks": lambda dice: ({"method.params.chunk_tokens": dice.randint(20, 900)}, {}),
    "k": lambda dice: ({"method.params.k": dice.randint(6, 50)}, {}),
    "evidence": lambda dice: ({"method.view": "evidence"}, {}),
    "instruction": lambda dice: ({"dataset.instruction": f"Answer well. {_hash(dice)}"}, {}),
    "answer prefix": lambda dice: ({"dataset.answer_prefix": f"Answer {dice.randint(1, 9)}:"}, {}),
    "demonstration": lambda dice: ({"dataset.demonstration": f"Q: {_hash(dice)}"}, {}),
    "answer tokens": lambda dice: ({"dataset.max_answer_tokens": dice.randint(33, 999)}, {}),
    "retrieved file": lambda dice: ({"dataset.options": {"documents": f"{_hash(dice, 8)}.json"}}, {}),
    "adapter": lambda dice: ({"model.adapter": f"me/{_hash(dice, 8)}"}, {}),
    "hub owner": lambda dice: ({"model.source": "me/Llama-3.1-8B-Instruct"}, {WEIGHTS: {"hub": f"me/{_hash(dice)}"}}),
    "hub revision": lambda dice: ({"model.revision": _hash(dice)}, {}),
    "other code": lambda dice: ({}, {"git": {"commit": _hash(dice), "dirty": False}}),
    "uncommitted code": lambda dice: ({}, {"git": {"commit": "c0ffee", "dirty": True}}),
    "packages": lambda dice: ({}, {"packages": {"longdoc-harness": f"0.1.{dice.randint(1, 9)}"}}),
    "other weights": lambda dice: ({}, {WEIGHTS: {"hub": "meta-llama/Llama-3.1-8B-Instruct", "commit": _hash(dice)}}),
    "other rows": lambda dice: ({}, {"dataset": {"revision": "0" * 40, "fingerprint": _hash(dice, 64)}}),
    "quantised": lambda dice: ({}, {"models.reader.quantised": {"method": "bnb", "bits": dice.choice((4, 8))}}),
    "prompts": lambda dice: ({}, {"prompts": {"read": f"Read this. {_hash(dice)}"}}),
    "scorer": lambda dice: ({}, {"scorers": {"longbench.qa_f1_score": f"{dice.randint(2, 9)}"}}),
    **{f"a shard's {key}": _later_start(key) for key in ("git", "packages", "models", "prompts", "scorers", "gpu")},
}
HONEST: dict[str, Make] = {
    "as it is": lambda dice: ({}, {}),
    "dtype": lambda dice: ({}, {"models.reader.dtype": dice.choice(("float16", "float32"))}),
    "eager attention": lambda dice: ({"model.attention": "eager"}, {}),
    "resolved revision": lambda dice: ({"dataset.revision": _hash(dice)}, {}),
    "rows of a file": lambda dice: ({"dataset.data": f"/data/{_hash(dice, 6)}.jsonl", "dataset.hub": None}, {}),
    "mirror of the rows": lambda dice: ({"dataset.hub": f"mirror/{_hash(dice, 6)}"}, {}),
    "longer window": lambda dice: ({"model.window": None}, {"models.reader.window": 131072 + dice.randint(0, 9)}),
}
RECORDS = ("scores edited", "gold edited", "questions left out", "a question twice", "400 questions failed")


def _edited(kind: str, rows: list[dict[str, Any]], score: str, dice: random.Random) -> list[dict[str, Any]]:
    """The records with an edit of the kind `kind` of RECORDS in some of them."""
    picked = set(dice.sample(range(len(rows)), 400))
    if kind == "questions left out":
        return [row for i, row in enumerate(rows) if i not in picked]
    if kind == "a question twice":
        return [rows[(i + 1) % len(rows)] if i in picked else row for i, row in enumerate(rows)]
    lost = {"error": {"type": "T", "message": ""}, "usage": {}}
    gold = {"answers": ["Tom", "Mira"], "supporting": [], "extra": {}}
    change = {"scores edited": {"scores": {score: 1.0}}, "gold edited": {"gold": gold, "scores": {score: 1.0}}}
    return [{**row, **change.get(kind, lost)} if i in picked else row for i, row in enumerate(rows)]


def _answered(score: str) -> list[dict[str, Any]]:
    """The official rows, two in seven of them answered right."""
    gold = {"answers": ["Mira"], "supporting": [], "extra": {}}
    right = [i % 7 < 2 for i in range(len(official()))]
    told = [{"prediction": "Mira" if one else "Tom", "scores": {score: float(one)}, "gold": gold} for one in right]
    return [{**row, **own} for row, own in zip(official(), told, strict=True)]


def judged(run: StoredRun, honest: StoredRun, value: Value) -> tuple[bool, bool]:
    """(refused, certified without a mark) of a run that stands in a table with two honest ones."""
    others = [replace(honest, path=Path(f"r--{n}")) for n in range(2)]
    table = frame([*others, replace(run, path=Path("r--9"))], [value])
    own = table[table["run"] == "r--9"]
    if own.empty or own["verdict"].str.startswith(NOT_COMPARABLE).any():
        return True, False
    plain = frame([honest], [value])["notes"].iloc[0]
    unchecked = differences(value, run).unchecked != differences(value, honest).unchecked
    return False, not (set(own["notes"].iloc[0]) - set(plain) or unchecked)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    dice, bad = random.Random(parser.parse_args().seed), {"certified without a mark": [], "refused": []}
    value = next(v for v in load() if v.entry.preset == "bm25" and v.rules[0].dataset == "musique" and v.label == "F1")
    score, counts = str(value.metric.score), {"dishonest": 0, "honest": 0}
    with TemporaryDirectory() as folder:
        honest = paper_run(Path(folder), "bm25", "musique", _answered(score))
        kinds = [*DISHONEST, *RECORDS]
        for kind in [*kinds, *dice.choices(kinds, k=60 - len(kinds)), *HONEST]:
            rows = _edited(kind, honest.records, score, dice) if kind in RECORDS else honest.records
            config, manifest = {**DISHONEST, **HONEST}.get(kind, HONEST["as it is"])(dice)
            told = changed(honest.config, config), changed(honest.manifest, manifest)
            refused, certified = judged(replace(honest, config=told[0], manifest=told[1], records=rows), honest, value)
            counts["honest" if kind in HONEST else "dishonest"] += 1
            bad["refused"] += [kind] if kind in HONEST and refused else []
            bad["certified without a mark"] += [kind] if kind not in HONEST and certified else []
    for what, who in (("certified without a mark", "dishonest"), ("refused", "honest")):
        print(f"{who}: {counts[who]} runs, {what}: {len(bad[what])}", *sorted(set(bad[what])))


if __name__ == "__main__":
    main()
