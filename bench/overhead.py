"""CPU time that the harness itself takes for a question and for a request, beside Inspect and
lm-evaluation-harness.

    python -m bench.overhead [--peers PYTHON] [--repeats 5] [--questions 10000]

Each tool runs as its own command on the same made-up questions with a model that answers at once,
so what is left is the tool: loading rows, building prompts, scoring, writing its log. CPU ms a
question is the slope between a short and a long run, so what a process takes to start is apart. A
request's is the slope between one and five requests a question. peers: the Python of an environment
in which inspect_ai and lm_eval are installed; without it the harness runs alone.
lm-evaluation-harness sends one request a question and has no setting for its mock model's requests
in flight.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pocket.world.sample import sample

from harness.method import Indexes, Method, Tools
from harness.types import Answer, Document, Question

SHORT = 200
REQUESTS = 5  # of a question, where more than one is sent
IN_FLIGHT = (1, 16, 256)

INSPECT = """
from inspect_ai import Task, task
from inspect_ai.dataset import Sample, json_dataset
from inspect_ai.scorer import exact, f1
from inspect_ai.solver import generate, solver
from inspect_ai.model import ChatMessageUser, ModelOutput, ModelUsage, get_model

def reply(*request):  # with its usage, which the mock model would count with a tokenizer otherwise
    output = ModelOutput.from_content("mockllm", "an answer")
    output.usage = ModelUsage(input_tokens=20, output_tokens=2, total_tokens=22)
    return output

@solver
def several(requests):
    async def solve(state, generate):
        for number in range(requests):
            state.output = await get_model().generate([ChatMessageUser(content=f"{number}. {state.input_text}")])
        return state
    return solve

@task
def overhead(rows: str, requests: int = 1):
    fields = lambda row: Sample(id=row["id"], input=row["question"], target=row["answer"])
    model = get_model("mockllm/model", custom_outputs=reply)
    return Task(dataset=json_dataset(rows, fields), model=model, solver=several(requests), scorer=[exact(), f1()])
"""
LM_EVAL = """
task: overhead
dataset_path: json
dataset_kwargs: {data_files: {test: ROWS}}
test_split: test
output_type: generate_until
doc_to_text: "{{question}}"
doc_to_target: "{{answer}}"
generation_kwargs: {until: ["\\n"], max_gen_toks: 32}
metric_list: [{metric: exact_match, aggregation: mean, higher_is_better: true}]
"""


class Several(Method):
    """Asks the question alone, REQUESTS times."""

    def answer(
        self, question: Question, documents: Sequence[Document], indexes: Indexes, tools: Tools
    ) -> Answer:
        """Ask the question REQUESTS times, and answer with the last reply."""
        reply = ""
        for number in range(REQUESTS):
            with tools.model().session() as session:
                session.user(f"{number}. {question.text}")
                reply = session.write(32).text
        return Answer(reply)


@dataclass(frozen=True)
class Tool:
    """A tool to time.

    Args:
        name: What the table calls it.
        command: Makes its command line from (file of rows, requests a question, in flight, folder
            for results).
        in_flight: The numbers in flight to time.
        most_requests: How many requests a question it can be told to send.
        check: Raises RuntimeError where the folder of results has not so many questions answered;
            for a tool whose exit code does not tell.
    """

    name: str
    command: Callable[[Path, int, int, Path], list[str]]
    in_flight: Sequence[int] = IN_FLIGHT
    most_requests: int = REQUESTS
    check: Callable[[Path, int], None] = lambda _out, _size: None  # where the exit code tells


def tools(folder: Path, peers: str | None) -> Iterator[Tool]:
    """Yield the harness with seven scorers and with two, then the tools that are installed for the
    Python `peers`.

    Args:
        folder: Where their files are written.
        peers: The Python of an environment with the other tools; None without.
    """
    script = folder / "script.yaml"
    script.write_text('replies: [{reply: "an answer"}]\n', encoding="utf-8")
    (folder / "methods").mkdir()
    preset = (
        f"summary: the question alone, {REQUESTS} times\nimplementation: bench.overhead:Several\n"
    )
    (folder / "methods" / "several.yaml").write_text(preset, encoding="utf-8")

    def harness(*more: str) -> Callable[[Path, int, int, Path], list[str]]:
        """What makes the command line of the harness, with further settings."""

        def command(rows: Path, requests: int, parallel: int, out: Path) -> list[str]:
            """The command line of a run."""
            method = "closed-book" if requests == 1 else "several"
            row = ["--method", method, "--dataset", "musique", "--data", str(rows)]
            model = ["--model", "scripted", "--set", f"model.script={script}", *more]
            ends = ["--parallel", str(parallel), "--mlflow", "off", "--out", str(out)]
            return [sys.executable, "-m", "harness", "run", *row, *model, *ends]

        return command

    yield Tool("harness, 7 scorers", harness())
    yield Tool(
        "harness, 2 scorers", harness("dataset.scorers=[musique.answer_em, musique.answer_f1]")
    )
    if peers is None:
        return
    (folder / "inspect_task.py").write_text(INSPECT, encoding="utf-8")

    def inspect(rows: Path, requests: int, parallel: int, out: Path) -> list[str]:
        """The command line of Inspect."""
        task = ["inspect_task.py", "-T", f"rows={rows}", "-T", f"requests={requests}"]
        places = ["--max-connections", str(parallel), "--max-samples", str(parallel)]
        quiet = ["--display", "none", "--no-log-realtime", "--log-dir", str(out)]
        return [peers, "-m", "inspect_ai", "eval", *task, *places, *quiet]

    def lm_eval(rows: Path, _requests: int, _parallel: int, out: Path) -> list[str]:
        """The command line of lm-evaluation-harness."""
        named = out.with_suffix(".tasks")
        named.mkdir(exist_ok=True)
        (named / "overhead.yaml").write_text(LM_EVAL.replace("ROWS", str(rows)), encoding="utf-8")
        task = ["--tasks", "overhead", "--include_path", str(named)]
        return [
            peers,
            "-m",
            "lm_eval",
            "run",
            "--model",
            "dummy",
            *task,
            "--log_samples",
            "--output_path",
            str(out),
        ]

    def check(out: Path, size: int) -> None:  # Inspect ends with 0 where a task failed
        """Raise RuntimeError unless Inspect's log says that all questions were answered; its exit
        code is 0 where a task failed."""
        (log,) = out.glob("*.eval")
        command = [peers, "-m", "inspect_ai", "log", "dump", "--header-only", str(log)]
        header = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
        if header["status"] != "success" or header["results"]["completed_samples"] != size:
            raise RuntimeError(f"Inspect did not answer all of {size} questions")

    yield Tool("inspect_ai, 2 scorers", inspect, check=check)
    yield Tool("lm_eval, 1 scorer", lm_eval, (1,), 1)


def write_rows(path: Path, count: int) -> Path:
    """Write `count` made-up rows of MuSiQue's format to `path`."""
    rows = [
        sample("musique", 0, tokens=300, purpose="evaluation", number=n).rows[0] for n in range(12)
    ]
    with path.open("w", encoding="utf-8") as file:
        for number in range(count):
            file.write(json.dumps({**rows[number % len(rows)], "id": f"q{number}"}) + "\n")
    return path


def cpu_seconds(command: list[str], folder: Path) -> float:
    """The CPU seconds of a command and its children, user and system. Raises RuntimeError where it
    fails.

    Args:
        command: Its words.
        folder: The folder that it is run in, with its configurations.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    own = {
        "HARNESS_CONFIGS": str(folder),
        "HARNESS_HOME": str(folder / "home"),
        "HF_HOME": str(folder / "hf"),
    }
    env = {
        **os.environ,
        **own,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(Path(__file__).parents[1]),
    }
    # Inspect finds a task's file below the current folder only.
    done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=folder, check=False)
    if done.returncode:
        raise RuntimeError(
            f"{' '.join(command)} ended with {done.returncode}: {done.stderr[-1000:]}"
        )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def slope(
    tool: Tool, folder: Path, questions: int, requests: int, parallel: int
) -> tuple[float, float]:
    """Run a tool on few (SHORT) and on many questions: (CPU seconds to start, CPU ms a question),
    by the line through the two.

    Args:
        tool: The tool.
        folder: The folder with the rows.
        questions: How many questions the long run has.
        requests: How many requests a question.
        parallel: How many are in flight.
    """
    sizes = (SHORT, questions)
    taken = []
    for size in sizes:
        with tempfile.TemporaryDirectory(dir=folder) as out:
            command = tool.command(folder / f"{size}.jsonl", requests, parallel, Path(out) / "out")
            taken.append(cpu_seconds(command, folder))
            tool.check(Path(out) / "out", size)
    seconds_of_short, seconds_of_long = taken
    seconds_per_question = (seconds_of_long - seconds_of_short) / (questions - SHORT)
    seconds_to_start = seconds_of_short - SHORT * seconds_per_question
    return seconds_to_start, seconds_per_question * 1e3


def table_row(tool: Tool, folder: Path, questions: int, parallel: int, repeats: int) -> str:
    """Time a tool, and return its row of the table: medians of `repeats` pairs of runs.

    The time of a further request is from a fifth of the questions, with REQUESTS requests each; "-"
    for a tool that sends one alone.

    Args:
        tool: The tool.
        folder: The folder with the rows.
        questions: How many questions the long runs have.
        parallel: How many are in flight.
        repeats: How many pairs of runs.
    """
    slopes = [slope(tool, folder, questions, 1, parallel) for _ in range(repeats)]
    start_seconds = statistics.median(seconds for seconds, _ in slopes)
    all_milliseconds = [milliseconds for _, milliseconds in slopes]
    per_question = statistics.median(all_milliseconds)
    spread = f"[{min(all_milliseconds):.2f}, {max(all_milliseconds):.2f}]"
    further_request = "-"
    if tool.most_requests > 1:
        with_several_requests: list[float] = []
        for _ in range(repeats):
            _, milliseconds = slope(tool, folder, questions // 5, REQUESTS, parallel)
            with_several_requests.append(milliseconds)
        difference = statistics.median(with_several_requests) - per_question
        further_request = f"{difference / (REQUESTS - 1):.2f}"
    return (
        f"| {tool.name} | {parallel} | {start_seconds:.1f} | {per_question:.2f} {spread} "
        f"| {further_request} |"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peers", help="the Python of an environment with inspect_ai and lm_eval")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--questions", type=int, default=10_000)
    given = parser.parse_args()
    print("| tool | in flight | CPU s to start | CPU ms a question | CPU ms a further request |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for size in (SHORT, given.questions // 5, given.questions):
            write_rows(folder / f"{size}.jsonl", size)
        for tool in tools(folder, given.peers):
            for parallel in tool.in_flight:
                print(table_row(tool, folder, given.questions, parallel, given.repeats), flush=True)


if __name__ == "__main__":
    main()
