"""`harness judge RUN... --model NAME`: a model judges stored answers; agreement with other scores
and hand labels.

exit 0 all judged · 2 a mistake, nothing was judged · 3 some answers, or runs, could not be judged ·
130 interrupted
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from textwrap import indent
from typing import Annotated

from harness.cli.command import choice, execution, output, setting
from harness.cli.judge_output import JudgeOutput, print_agreements
from harness.cli.options import Json, MovedData, Runs
from harness.cli.output import say
from harness.cli.stopping import until_interrupted
from harness.cli.table_output import print_or_write
from harness.config.yaml_tree import parse_assignments
from harness.engine.progress_line import ProgressLine
from harness.errors import HarnessError, UserError
from harness.judging.judge_run import judge_run
from harness.judging.make import JudgeRequest, make_judge
from harness.judging.model_judge import Judge
from harness.storage.files import check_home
from harness.storage.named_runs import run_folders
from harness.storage.paths import without_home
from harness.storage.run_files import read_manifest
from harness.storage.run_folder import read_run
from reports.judge_work import JudgeWork, runs_to_judge
from reports.label_sheet import make_sheet
from reports.labels import HandLabels, read_labels


@dataclass(frozen=True)
class JudgeOptions:
    """Who judges what: a model, or people on a sheet."""

    model: Annotated[
        str | None,
        choice(
            "--model NAME",
            "Model that judges: a preset (harness list models), a model folder, or a hub id. "
            "Without it nothing is "
            "judged; the judges that the runs have are compared.",
            complete="models",
        ),
    ] = None
    sets: Annotated[
        list[str] | None,
        setting("--set KEY=VALUE ...", "Any setting of the model: model.base_url=URL."),
    ] = None
    kind: Annotated[
        str,
        setting(
            "--kind NAME",
            "What is judged: correctness (beside the gold answers), faithfulness (whether what was "
            "shown supports the answer), relevance (whether what was shown answers the question), "
            "rubric (what --prompt and --scale say), pairwise (which of two runs answers better), "
            "claim by claim claim-faithfulness, claim-correctness and claim-completeness, or "
            "citation-recall and citation-precision (whether the texts cited as [n] support it), "
            "or ALCE's for numbered passages: alce-recall, alce-precision, and for lists "
            "alce-list-recall, alce-list-precision.",
        ),
    ] = "correctness"
    prompt: Annotated[
        str | None,
        setting(
            "--prompt FILE",
            "Another prompt, with the placeholders of the kind: {question}, {answers}, {answer}.",
        ),
    ] = None
    scale: Annotated[
        str | None,
        setting(
            "--scale LOW-HIGH",
            "With --prompt, a rubric: the reply is a number, perhaps in brackets behind an argument; "
            "placeholders as wanted, also {shown}.",
        ),
    ] = None
    labels: Annotated[
        str | None,
        setting(
            "--labels FILE",
            "Labels by hand, to print the agreement with: a filled sheet (.xlsx), or .jsonl or .csv "
            "with question_id and label.",
        ),
    ] = None
    sheet: Annotated[
        str | None,
        output(
            "--sheet FILE",
            "Write a sheet (.xlsx) on which two people label the answers of these runs, in random "
            "order and without names of methods; --labels reads it. No model judges.",
        ),
    ] = None
    name: Annotated[
        str | None,
        setting("--name NAME", "Name of the judge; its score is judge.NAME.", "the model's"),
    ] = None
    max_tokens: Annotated[
        int | None,
        setting(
            "--max-tokens N",
            "Length of a reply; more for a model that thinks first.",
            "32, of a rubric 1024, of published prompts as they say",
            min=1,
        ),
    ] = None

    def has_options_of_model(self) -> bool:
        """Whether an option is given that only makes sense with a model that judges."""
        model_options = (self.sets, self.prompt, self.name, self.max_tokens, self.scale)
        return any(model_options) or self.kind != "correctness"

    def judge_request(self, model: str) -> JudgeRequest:
        """The judge that the options ask for, with `model` to judge."""
        return JudgeRequest(
            model=model,
            sets=parse_assignments(self.sets or [], "--set "),
            prompt=self.prompt,
            name=self.name,
            max_tokens=self.max_tokens,
            kind=self.kind,
            scale=self.scale,
        )


def judge(
    runs: Runs,
    options: JudgeOptions,
    data: MovedData = None,
    parallel: Annotated[
        int, execution("--parallel N", "Answers to judge at a time.", min=1, max=4096)
    ] = 1,
    json: Json = False,
) -> int:
    """Let a model judge each stored answer: whether it is right, faithful, or by a rubric.

    Its scores (0 to 1) are stored beside those of the scorers; replies are kept, so the same
    command asks only for what is missing. Prints the prompt, what the judge cost, and how far
    judges, headline score and labels agree.
    """
    folders = run_folders(runs)
    if options.sheet is not None:
        if options.model is not None or options.labels is not None:
            raise UserError("--sheet writes a sheet for people; leave --model and --labels out")
        return _write_sheet(folders, data, Path(options.sheet))
    hand_labels = _read_hand_labels(options.labels)
    if options.model is None:
        if options.has_options_of_model():
            raise UserError(
                "name the model that judges with --model NAME; without it no answer is judged"
            )
        return print_agreements(folders, hand_labels, as_json=json)
    check_home()
    request = options.judge_request(options.model)
    base_judge = make_judge(request)
    work = runs_to_judge(base_judge, folders, data, request)
    if not json:
        _say_prompt(base_judge)
    judge_all = partial(_judge_all, work, parallel, JudgeOutput(hand_labels, as_json=json))
    return until_interrupted(judge_all, "interrupted; what was judged is saved")


def _read_hand_labels(file: str | None) -> HandLabels:
    """Read the labels that people gave from a file; no labels without a file."""
    if not file:
        return HandLabels({})
    return read_labels(Path(file), _print_note)


def _say_prompt(judge: Judge) -> None:
    """Print the prompt that a judge judges with."""
    text = indent(judge.prompt.text, "  | ")
    say(f"prompt ({judge.kind}, {judge.prompt_version}):\n{text}")


def _judge_all(work: Sequence[JudgeWork], parallel: int, output: JudgeOutput) -> int:
    """Judge every run and print its results; an error of the model ends the work.

    Args:
        work: The runs with their judges.
        parallel: How many answers are judged at a time.
        output: Prints the results.

    Returns:
        The exit code: 0; 2 if nothing was judged; 3 if something was left.
    """
    code = 0
    for n_judged_runs, run_work in enumerate(work):
        _say_notes_on(run_work)
        try:
            judged = judge_run(
                run_work.folder,
                run_work.questions,
                run_work.judge,
                parallel=parallel,
                progress=ProgressLine(),
            )
        except HarnessError as error:
            say(f"error: {run_work.folder}: {error}")
            is_mistake_at_start = isinstance(error, UserError) and not error.midway
            if is_mistake_at_start and n_judged_runs == 0:
                return 2
            say("what was judged is saved; the same command asks for the rest")
            return 3
        output.print(run_work.folder, run_work.judge, judged)
        if judged.failures:
            code = 3
    return code


def _say_notes_on(run_work: JudgeWork) -> None:
    """Print notes on a run that is to be judged: whose prompts are used, and whether the judge
    wrote the answers itself.
    """
    judge = run_work.judge
    if judge.published:
        say(f"note: {run_work.folder}: the prompts of {judge.published.source}")
    models = read_manifest(run_work.folder).models
    if without_home(dict(judge.identity)) in models.values():
        say(
            f"note: {run_work.folder}: {judge.name} is a model of this run; models tend to prefer "
            "their own answers"
        )


def _write_sheet(folders: Sequence[Path], data: str | None, path: Path) -> int:
    """Write a sheet on which people label the answers of runs. Returns the exit code 0.

    Args:
        folders: The run folders.
        data: Where the rows of their data set are now; None where they were.
        path: The .xlsx file, which must not be there yet.
    """
    if path.suffix.lower() != ".xlsx":
        raise UserError(f"--sheet {path}: should end in .xlsx")
    if path.exists():
        raise UserError(f"--sheet {path}: is there already, perhaps with labels; name another file")
    made = make_sheet([read_run(folder) for folder in folders], data)
    print_or_write(made.content, str(path))
    print(f"{path}: {made.n_answers} answers; two people fill 'person 1' and 'person 2'")
    return 0


def _print_note(sentence: str) -> None:
    """Print a sentence on stderr, marked as a note."""
    say(f"note: {sentence}")
