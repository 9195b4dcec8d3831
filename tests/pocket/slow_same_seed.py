"""The training at its full size, three times from one seed: undisturbed, again, and killed and resumed on the way.

python -m tests.pocket.slow_same_seed FOLDER        some minutes; exits 1 where losses differ by 1e-3 or more
"""

import json
import subprocess
import sys
import time
from pathlib import Path

STEPS, KILLED, NEAR = 200, 100, 1e-3


def command(out: Path) -> list[str]:
    """So many steps of the project's own curriculum on the CPU, as a user would start them."""
    return [
        sys.executable,
        "-m",
        "harness",
        "pocket",
        "train",
        "--out",
        str(out),
        "--steps",
        str(STEPS),
        "--device",
        "cpu",
    ]


def killed(out: Path) -> int:
    """Kill a training once its checkpoint is of step 100 or later; the step of that checkpoint."""
    state = out / "checkpoint" / "state.json"
    process = subprocess.Popen(command(out))
    while process.poll() is None:
        step = int(json.loads(state.read_text())["step"]) if state.exists() else 0
        if step >= KILLED:
            process.kill()
            process.wait()
            return step
        time.sleep(0.05)
    raise SystemExit(f"the training in {out} ended ({process.returncode}) before it could be killed")


def losses(out: Path) -> dict[int, float]:
    """Step -> loss. Raises SystemExit where a step is in the log twice, or one is missing."""
    lines = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    steps = [line["step"] for line in lines]
    if steps != list(range(50, STEPS + 1, 50)):
        raise SystemExit(f"the log in {out} has the steps {steps}")
    return {line["step"]: line["loss"] for line in lines}


def main(folder: Path) -> None:
    """Train three times and compare."""
    for name in ("one", "again"):
        subprocess.run(command(folder / name), check=True)
    step = killed(folder / "killed")
    subprocess.run(command(folder / "killed"), check=True)
    first = losses(folder / "one")
    for name in ("again", "killed"):
        other = losses(folder / name)
        most = max(abs(first[n] - other[n]) for n in first)
        print(f"{name}: losses {list(other.values())}, {most:.1e} from {list(first.values())} at most")
        if most >= NEAR:
            raise SystemExit(1)
    print(f"the same to {NEAR}; the killed one went on from step {step}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
