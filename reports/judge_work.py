"""Which judge judges which run, with the questions of the run.

runs_to_judge(judge, folders, None, None, None)        each run by itself
pair_to_judge(judge, [run, other], None, named=False)  the first run beside the second
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.errors import UserError
from harness.judging.model_judge import Judge
from harness.judging.pairwise import beside
from harness.judging.stepwise import StepwiseJudge
from harness.storage.run_folder import read_run
from harness.types import Example
from reports.gold_rows import examples_of


@dataclass(frozen=True)
class JudgeWork:
    """A run to judge. questions: by id."""

    folder: Path
    questions: dict[str, Example]
    judge: Judge


def runs_to_judge(
    judge: Judge,
    folders: Sequence[Path],
    data: str | None,
    prompt: str | None,
    max_tokens: int | None,
) -> list[JudgeWork]:
    """Each run with its judge, which asks with the prompts that the data set's authors publish.

    Args:
        judge: Without these prompts.
        folders: Of the runs.
        data: Where their rows are now.
        prompt: A file that the user gives in their place.
        max_tokens: Of a reply, None as published.
    """
    work = []
    for folder in folders:
        questions = examples_of(read_run(folder), data)
        own = judge.for_questions(questions, prompt, max_tokens)
        work.append(JudgeWork(folder, questions, own))
    return work


def pair_to_judge(
    judge: StepwiseJudge, folders: Sequence[Path], data: str | None, *, named: bool
) -> list[JudgeWork]:
    """The first of two runs, with a judge that shows it beside the second.

    Args:
        judge: Of pairs.
        folders: Of the runs.
        data: Where their rows are now.
        named: Whether the user named the judge.

    Raises:
        UserError: There are not two runs, or they have other questions.
    """
    if len(folders) != 2:
        raise UserError(f"--kind pairwise compares two runs; {len(folders)} are named")
    run, other = read_run(folders[0]), read_run(folders[1])
    own = beside(judge, run, other, named)
    return [JudgeWork(folders[0], examples_of(run, data), own)]
