"""Which judge judges which run, with the questions of the run.

request = JudgeRequest("llama-8b", {})
runs_to_judge(make_judge(request), folders, None, request)
    -> [JudgeWork(folder, {"q1": Example(...)}, judge), ...]
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.errors import UserError
from harness.judging.make import JudgeRequest, with_published_prompts
from harness.judging.model_judge import Judge
from harness.judging.pairwise import PAIRWISE, beside
from harness.judging.stepwise import StepwiseJudge
from harness.storage.run_folder import read_run
from harness.types import Example
from reports.gold_rows import read_examples


@dataclass(frozen=True)
class JudgeWork:
    """A run to judge.

    Args:
        folder: The run folder.
        questions: Question id -> question with gold answers.
        judge: The judge, with the prompt that this run's questions need.
    """

    folder: Path
    questions: dict[str, Example]
    judge: Judge


def runs_to_judge(
    judge: Judge, folders: Sequence[Path], data: str | None, request: JudgeRequest
) -> list[JudgeWork]:
    """Each run with its judge and questions.

    Of two runs whose answers are compared, only the first, with a judge that shows its answers
    beside those of the second.

    Args:
        judge: What `make_judge` made of the request.
        folders: The run folders.
        data: The file of the data set's rows; None for the place that each run names.
        request: What the user said of the judge.

    Raises:
        UserError: A pair is to be judged, and there are not two runs, or they have other questions.
    """
    if isinstance(judge, StepwiseJudge) and judge.kind == PAIRWISE:
        return _pair_to_judge(judge, folders, data, is_named=request.name is not None)
    work = []
    for folder in folders:
        questions = read_examples(read_run(folder), data)
        # The data set's authors may publish prompts.
        judge_of_run = with_published_prompts(judge, questions, request)
        work.append(JudgeWork(folder, questions, judge_of_run))
    return work


def _pair_to_judge(
    judge: StepwiseJudge, folders: Sequence[Path], data: str | None, *, is_named: bool
) -> list[JudgeWork]:
    """The first of two runs, with a judge that shows its answers beside those of the second.

    Args:
        judge: A judge of pairs.
        folders: The two run folders.
        data: The file of the data set's rows; None for the place that the run names.
        is_named: Whether the user named the judge.

    Raises:
        UserError: There are not two runs, or they have other questions.
    """
    if len(folders) != 2:
        raise UserError(f"--kind pairwise compares two runs; {len(folders)} are named")
    run, other_run = map(read_run, folders)
    judge_of_pair = beside(judge, run, other_run, is_named)
    return [JudgeWork(folders[0], read_examples(run, data), judge_of_pair)]
