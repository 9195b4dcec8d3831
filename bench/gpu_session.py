"""All that is to be tried on a GPU, in one command that ends in time.

    python -m bench.gpu_session OUT [--minutes 14] [--shape llama-3.1-8b|tiny] [--peak TFLOPS]

Steps, each a process of its own with its output in OUT/NAME.log: the tests that need a GPU
(tests/llm/test_gpu.py); the rows of bench.gpu; where vLLM is installed, a run by transformers, the
same by vLLM, and the table of both. A step that fails or takes too long does not stop the others.
The weights (14 GB in the shape of Llama-3.1-8B) are drawn once, in a temporary folder. The exit
code is 1 where a step did not end well. Without a GPU, `--shape tiny` shows that every step runs.
"""

import argparse
import importlib.util
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

HARNESS = (sys.executable, "-m", "harness")


@dataclass(frozen=True)
class Step:
    """A command of the session.

    Args:
        name: The name of its log.
        command: Its words.
        share: Which share of the minutes that are left it may take at most.
    """

    name: str
    command: tuple[str, ...]
    share: float = 1.0


@dataclass(frozen=True)
class Flags:
    """What the command line says.

    Args:
        out: The folder of the logs.
        weights: The folder of the model's weights.
        shape: The shape of the model.
        peak: The card's peak in TFLOPS; None where it was not given.
    """

    out: Path
    weights: Path
    shape: str
    peak: str | None = None


def steps_of(flags: Flags) -> list[Step]:
    """The steps of a session, the surest first."""
    tests = (
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "tests/llm/test_gpu.py",
    )
    steps = [Step("tests", tests, 0.25), Step("rows", _rows(flags), 0.8)]
    if importlib.util.find_spec("vllm") is not None:
        steps += [Step(f"run-{backend}", _run(flags, backend), 0.6) for backend in ("hf", "vllm")]
        folders = [str(flags.out / "hf"), str(flags.out / "vllm")]
        steps.append(Step("table", (*HARNESS, "report", *folders)))
    return steps


def _rows(flags: Flags) -> tuple[str, ...]:
    """The command of the rows of bench.gpu."""
    command = [sys.executable, "-m", "bench.gpu", str(flags.weights), "--shape", flags.shape]
    if flags.shape == "tiny":
        command += ["--in-flight", "2", "--tokens", "300", "--repeats", "1"]
    else:
        command += ["--in-flight", "16", "64"]
    if flags.peak is not None:
        command += ["--peak", flags.peak]
    return tuple(command)


def _run(flags: Flags, backend: str) -> tuple[str, ...]:
    """The command of a run of BM25 by a back end, on the weights of bench.gpu."""
    words = "run -m bm25 -d pocket/musique --limit 64 --parallel 64 --mlflow off --out"
    model = ("--model", str(flags.weights), "--set", f"model.backend={backend}")
    return (*HARNESS, *words.split(), str(flags.out / backend), *model)


def run_steps(steps: Sequence[Step], out: Path, seconds: float) -> bool:
    """Run the steps one after the other, and print a line for each.

    Args:
        steps: What is run.
        out: Folder of their logs.
        seconds: That all of them may take.

    Returns:
        Whether all ended well.
    """
    out.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + seconds
    outcomes = []
    for step in steps:
        began = time.monotonic()
        outcome = _run_step(step, out / f"{step.name}.log", (end - began) * step.share)
        print(f"{step.name}: {outcome}, {time.monotonic() - began:.0f} s", flush=True)
        outcomes.append(outcome)
    return set(outcomes) == {"ended well"}


def _run_step(step: Step, log: Path, seconds: float) -> str:
    """Run a step for at most `seconds`, with its output in `log`; returns how it ended: "ended
    well", or what went wrong."""
    with log.open("w") as file:
        try:
            done = subprocess.run(
                step.command, stdout=file, stderr=subprocess.STDOUT, timeout=seconds, check=False
            )
        except subprocess.TimeoutExpired:
            return f"ended after {seconds:.0f} s; what it had printed is in {log.name}"
    if done.returncode:
        return f"failed with exit code {done.returncode}; see {log.name}"
    return "ended well"


def main() -> None:
    """Run all steps, and end with code 1 where one did not end well."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--minutes", type=float, default=14.0)
    parser.add_argument("--shape", default="llama-3.1-8b")
    parser.add_argument("--peak", help="TFLOPS of the card in bfloat16, dense: 989 for an H100")
    words = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        flags = Flags(words.out, Path(folder, "weights"), words.shape, words.peak)
        well = run_steps(steps_of(flags), words.out, 60 * words.minutes)
    sys.exit(0 if well else 1)


if __name__ == "__main__":
    main()
