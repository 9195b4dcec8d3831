"""How many answers depend on --parallel, with --deterministic and without it.

    python -m bench.deterministic --dataset hotpotqa --data FILE [--method bm25 pecan] [--limit 8]

Every run builds its indexes anew, and is held against the first number of questions in flight of its own mode: the
predictions, all numbers of the search (P(Yes), relevance) and the indexes (PECAN's edges are captured attention), to
the bit.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

from harness.config.layers import Choices
from harness.config.yaml_tree import Raw
from harness.engine.plan import plan_choices
from harness.engine.progress import Silent
from harness.engine.runner import run
from harness.storage.run_folder import read_run


def results(choices: Choices, folder: Path, parallel: int) -> tuple[dict[str, Any], dict[str, Any], set[str], float]:
    """Predictions and searches by question, digests of the indexes, CPU seconds."""
    os.environ["HARNESS_CACHE"] = str(folder / "cache")
    began = time.process_time()
    done = run(plan_choices(choices), folder / "out", command=["bench"], progress=Silent(), parallel=parallel)
    seconds = time.process_time() - began
    records = read_run(done.folder).records
    predictions = {r["question_id"]: r["prediction"] for r in records}
    searches = {r["question_id"]: json.dumps([r["steps"], r["shown"]], sort_keys=True) for r in records}
    files = [p for p in sorted((folder / "cache").rglob("*")) if p.name in ("data.json", "arrays.npz")]
    return predictions, searches, {hashlib.sha256(p.read_bytes()).hexdigest() for p in files}, seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--dataset", default="pocket/musique")
    parser.add_argument("--data")
    parser.add_argument("--method", nargs="+", default=["bm25", "pecan"])
    parser.add_argument("--limit", type=int, default=8)
    parser.add_argument("--parallel", type=int, nargs="+", default=[1, 4, 16, 64])
    parser.add_argument("--mode", nargs="+", default=["deterministic", "usual"])
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE")
    flags = parser.parse_args()
    more = {key: Raw(value) for key, _, value in (each.partition("=") for each in flags.set)}
    print(f"{'run':<52} {'CPU s':>7} {'predictions':>12} {'searches':>9} {'indexes':>8}  that differ from the first")
    for method in flags.method:
        for mode in flags.mode:
            sets = {"model.dtype": flags.dtype, "model.deterministic": mode == "deterministic", **more}
            choices = Choices(
                method=method, dataset=flags.dataset, data=flags.data, model=flags.model, limit=flags.limit, sets=sets
            )
            first = None
            for parallel in flags.parallel:
                with tempfile.TemporaryDirectory() as name:
                    predictions, searches, indexes, seconds = results(choices, Path(name), parallel)
                first = first or (predictions, searches, indexes)
                others = [
                    sum(one[q] != two[q] for q in one) for one, two in ((predictions, first[0]), (searches, first[1]))
                ]
                label = f"{method}, {flags.model} {flags.dtype}, {mode}, {parallel} in flight"
                shown = " ".join(
                    f"{n:>{w}}" for n, w in zip((*others, len(indexes - first[2])), (12, 9, 8), strict=True)
                )
                print(f"{label:<52} {seconds:7.1f} {shown}", flush=True)


if __name__ == "__main__":
    main()
