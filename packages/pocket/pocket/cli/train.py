"""`harness pocket train`: train the pocket model; the same command resumes.

OUT/model        the weights with their tokenizer and card, as `--model` takes them
OUT/checkpoint   to resume from; OUT/log.jsonl: a line every 50 steps
"""

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from harness_training.cli.training_run import Report, check_options, run_until_stopped
from harness_training.teacher import WINDOW

from harness.cli.command import execution, setting
from harness.cli.options import Device, TrainingMlflow, TrainingOut
from harness.cli.stopping import print_resume_command
from harness.storage.files import check_writable
from pocket.train import llama
from pocket.train.curriculum import read_curriculum


@dataclass(frozen=True)
class Options:
    """The options of a training: stages, first weights, length; see
    pocket.train.trainer.Settings."""

    out: TrainingOut
    curriculum: Annotated[
        str | None,
        setting(
            "--curriculum FILE",
            "YAML file with the stages of training.",
            "pocket/train/curriculum.yaml",
        ),
    ] = None
    begin: Annotated[
        str | None,
        setting(
            "--from FOLDER", "Model folder whose weights training starts from.", "random weights"
        ),
    ] = None
    seed: Annotated[int, setting("--seed N", "Random seed of first weights and texts.")] = 0
    steps: Annotated[
        int | None,
        execution(
            "--steps N",
            "Total optimizer steps after which to stop.",
            "until every stage is learnt",
            min=1,
        ),
    ] = None
    device: Device = "auto"
    mlflow: TrainingMlflow = None


def train(options: Options) -> int:
    """Train the model on the skills that methods declare; the same command resumes."""
    check_options(options.device, options.mlflow)
    folder = Path(options.out)
    begin: Path | None = None
    window = WINDOW
    if options.begin is not None:
        begin = Path(options.begin)
        llama.check_folder(begin, folder / "model")
        window = llama.config_of(begin).max_position_embeddings
    curriculum: Path | None = None
    if options.curriculum is not None:
        curriculum = Path(options.curriculum)
    course = read_curriculum(curriculum, window)
    check_writable(folder)
    left_out = {"out", "mlflow"}
    params = {k: str(v) for k, v in vars(options).items() if k not in left_out and v is not None}

    def run(report: Report, stop: threading.Event) -> int:
        """Train to the end or until `stop` is set; returns the last step."""
        from pocket.train.trainer import Settings, Trainer

        settings = Settings(
            folder, course, begin, options.seed, options.steps, device=options.device
        )
        trainer = Trainer(settings, report)
        trainer.run(stop)
        return trainer.progress.step

    done, step = run_until_stopped(run, folder, options.mlflow, "pocket training", params)
    if not done:
        where = "the last checkpoint is kept"
        if step is not None:
            where = f"a checkpoint of step {step} is saved"
        print_resume_command(f"interrupted; {where}")
        return 130
    print(folder / "model")
    return 0
