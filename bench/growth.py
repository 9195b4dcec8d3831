"""How the cost of PECAN grows with the text: seconds, FLOPs and peak memory of construction and of one search.

    python -m bench.growth [--tokens 1000 10000 100000]

pocket-llama on stories of the made-up world, each size in a process of its own. Seconds are those of the processor.
Beside each number stands the slope of the logarithms since the line before: 1 is linear growth, 0 none.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

IN_FLIGHT = 16  # places for the calls of one level; there is one question
COLUMNS = {
    "construction s": "construction_s",
    "construction TFLOPs": "construction_tflops",
    "search s": "search_s",
    "search TFLOPs": "search_tflops",
    "peak MiB": "peak_mib",
    "nodes": "nodes",
}


def measured(tokens: int, folder: Path) -> dict[str, float]:
    """Costs for a story of about `tokens` tokens, this process's peak memory among them."""
    from harness.config.layers import Choices
    from harness.cost.flops import DEFAULT
    from harness.engine.plan import plan_choices
    from harness.engine.progress import Silent
    from harness.engine.runner import run
    from harness.storage.run_folder import read_run

    os.environ["HARNESS_CACHE"] = str(folder / "cache")

    def go(name: str, size: int) -> tuple[float, Any]:
        choices = Choices("pecan", "pocket/narrativeqa", limit=1, profile="pocket", sets={"dataset.tokens": size})
        plan = plan_choices(choices)
        began = time.process_time()
        done = run(plan, folder / name, command=["bench"], progress=Silent(), parallel=IN_FLIGHT)
        return time.process_time() - began, read_run(done.folder)

    go("warm", 300)  # loads the models and imports what is imported late
    cold, first = go("cold", tokens)
    warm, again = go("again", tokens)
    (record,), (index,) = again.records, first.documents

    def tflops(usage: dict[str, Any]) -> float:
        return float(sum(phase["flops"][DEFAULT] for phase in usage.values())) / 1e12

    return {
        "characters": record["document_characters"][0],
        "construction_s": cold - warm,
        "construction_tflops": tflops(index["usage"]),
        "search_s": warm,
        "search_tflops": tflops(record["usage"]),
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "nodes": len(record["steps"]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    flags = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        if flags.one:
            print(json.dumps(measured(flags.one, Path(name))))
            return
    print(f"{'tokens':>10} {'characters':>11}" + "".join(f"{what:>20} {'slope':>6}" for what in COLUMNS))
    before: dict[str, float] | None = None
    for tokens in flags.tokens:
        command = [sys.executable, "-m", "bench.growth", "--one", str(tokens)]
        out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        now: dict[str, float] = json.loads(out.splitlines()[-1])
        line = f"{tokens:>10,} {now['characters']:>11,}"
        for key in COLUMNS.values():
            slope = "" if before is None else f"{_slope(before, now, key):.2f}"
            line += f"{now[key]:>20.2f} {slope:>6}"
        print(line, flush=True)
        before = now


def _slope(a: dict[str, float], b: dict[str, float], key: str) -> float:
    return math.log(max(b[key], 1e-9) / max(a[key], 1e-9)) / math.log(b["characters"] / a["characters"])


if __name__ == "__main__":
    main()
