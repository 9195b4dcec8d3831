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
from harness.cli.stopping import INTERRUPTED, print_resume_command
from harness.storage.files import check_writable
from pocket.tasks.recipes import Curriculum
from pocket.train.curriculum import read_curriculum
from pocket.train.model_folder import check_folder


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
    begin_folder: Path | None = None
    if options.begin is not None:
        begin_folder = Path(options.begin)
    curriculum = _checked_curriculum(options.curriculum, begin_folder, folder)
    check_writable(folder)

    def run(report: Report, stop: threading.Event) -> int:
        """Train until the last stage or --steps is reached, or `stop` is set; returns the number of
        the last step."""
        # It imports torch, which a mistake in the options need not wait for.
        from pocket.train.trainer import Settings, Trainer

        settings = Settings(
            folder,
            curriculum,
            begin=begin_folder,
            seed=options.seed,
            steps=options.steps,
            device=options.device,
        )
        trainer = Trainer(settings, report)
        trainer.run(stop)
        return trainer.progress.step

    was_uninterrupted, last_step = run_until_stopped(
        run, folder, options.mlflow, "pocket training", _parameters(options)
    )
    if not was_uninterrupted:
        what_is_saved = "the last checkpoint is kept"
        if last_step is not None:
            what_is_saved = f"a checkpoint of step {last_step} is saved"
        print_resume_command(f"interrupted; {what_is_saved}")
        return INTERRUPTED
    print(folder / "model")
    return 0


def _checked_curriculum(file: str | None, begin: Path | None, out: Path) -> Curriculum:
    """The stages of the training, none with longer rows than the model can read at once (the window
    of `begin`, or of a new model).

    Args:
        file: The user's curriculum; None for the project's own.
        begin: The model folder that the training begins from.
        out: The folder of the training.

    Raises:
        UserError: The file cannot be read, or `out` has another tokenizer than `begin`.
        ConfigError: The curriculum has mistakes.
        CannotRun: `begin` lacks a file of a pocket model.
    """
    window = WINDOW
    if begin is not None:
        check_folder(begin, out / "model")
        window = _window_of(begin)
    if file is None:
        return read_curriculum(None, window)
    return read_curriculum(Path(file), window)


def _window_of(folder: Path) -> int:
    """How many tokens the model in a folder reads at most."""
    from pocket.train import llama

    return int(llama.config_of(folder).max_position_embeddings)


def _parameters(options: Options) -> dict[str, str]:
    """What MLflow is told of the options: name -> value, as text, of those that were given and
    change the model."""
    parameters: dict[str, str] = {}
    for name, value in vars(options).items():
        if name not in ("out", "mlflow") and value is not None:
            parameters[name] = str(value)
    return parameters
