"""Attack commands as users and machines do, and print a table: kind, tries, fell.

    python -m bench.faults [--tries 20] [--seed 1] [--kinds NAME,...]

Each command runs in a process of its own in a new folder. An answer to bad input is right if it is
one sentence on stderr that begins with "error: ", without a traceback, and the exit code is 2 or 3.
A fault of the machine is survived if the same command, run again, ends with the records of an
undisturbed run. What fell is printed with its command, and the exit code is then 1.
"""

import argparse
import importlib
import os
import random
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench.faults import bad_input, bundles, in_flight, kills, places, servers
from bench.faults.commands import Bench, Kind, write_inputs

Attack = Callable[[Kind, Bench], None]
ATTACKS: dict[str, Attack] = {
    "bad numbers": bad_input.bad_numbers,
    "bad settings": bad_input.bad_settings,
    "bad words": bad_input.bad_words,
    "full disk": places.full_disk,
    "full disk in track": places.full_disk_in_track,
    "read-only folder": places.read_only,
    "moved folder": places.moved_folder,
    "vanishing folder": places.vanishing_folder,
    "half copied folder": places.half_copied,
    "jumping clock": places.jumping_clock,
    "two processes": places.two_processes,
    "redirected request": servers.redirected_request,
    "token limit": servers.token_limit,
    "forged bundle": bundles.forged_bundle,
    "kill run": kills.run_bm25,
    "kill in flight": in_flight.questions_in_flight,
    "kill pecan": kills.index_of_pecan,
    "kill raptor": kills.index_of_raptor,
    "kill shards": kills.shards_and_merge,
    "kill duel": kills.duel,
    "kill retry-failed": kills.retry_failed,
    "kill import": kills.imports,
    "kill judge": kills.judge,
    "kill score": kills.score,
    "kill export": kills.export,
    "kill track": kills.track_with_store,
    "kill batch": kills.batch_files,
    "kill ray": kills.ray_driver_and_workers,
    "kill ray's head": kills.ray_head,
}
_IMPORTED = (
    "torch",
    "transformers",
    "harness.llm.hf_model",
    "methods.retrieval",
    "harness_audit.verify",
)


def main() -> int:
    """Parse the arguments, attack, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tries", type=int, default=20, help="of each kind drawn at random")
    parser.add_argument("--kinds", default=",".join(ATTACKS), help="only these, NAME,...")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="faults-"))
    os.chdir(folder)
    own = {
        name: str(folder / name.split("_")[1].lower()) for name in ("HARNESS_HOME", "HARNESS_CACHE")
    }
    os.environ |= {**own, "HARNESS_CONFIGS": str(folder / "own"), "RAY_AUTH_MODE": "disabled"}
    os.environ |= {"HF_ENDPOINT": "http://127.0.0.1:9"}  # nothing is fetched
    for name in _IMPORTED:  # in this process, which computes nothing: each command forks from it
        importlib.import_module(name)
    write_inputs()
    print("| kind | tries | fell |\n|---|---|---|", flush=True)
    fell = tries = 0
    for name in options.kinds.split(","):
        kind = Kind(name)
        ATTACKS[name](kind, Bench(random.Random(f"{options.seed} {name}"), options.tries))
        print(f"| {name} | {kind.tries} | {len(kind.fell)} |", flush=True)
        for sentence in kind.fell:
            print(f"  {sentence}", file=sys.stderr, flush=True)
        fell += len(kind.fell)
        tries += kind.tries
    print(f"| all | {tries} | {fell} |\n{folder}")
    return int(fell > 0)


if __name__ == "__main__":
    sys.exit(main())
