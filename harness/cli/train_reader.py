"""`harness train reader`: one adapter for what all methods ask of a reader (harness/training/reader.py)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from harness.cli.options import sets_of
from harness.cli.output import columns, say
from harness.cli.stopping import say_again
from harness.cli.training_run import TrainOptions, check, feed, watched
from harness.errors import UserError

if TYPE_CHECKING:
    from harness.training.reader import ReaderTraining

NAME = "reader"
PROFILE = "cpu"


def train(options: TrainOptions, out: Path) -> int:
    """Train, or with --eval measure; 2 for what cannot be run, raised as UserError; 130 when interrupted."""
    from harness.storage.files import save_error, touch

    training = _training(options, out)
    touch(out)
    try:
        if options.eval_only:
            from harness.training.evaluate import rows_of

            print(columns(rows_of(training.examine(say))))
            return 0
        params = {"method": NAME, "base": training.base.name, "seed": str(options.seed), "data": str(training.data)}
        log = feed(out, options.mlflow, params, "adapter training")
        done, finished = watched(lambda tell, stop: training.run(tell, stop, options.steps), log)
    except OSError as error:
        raise save_error(out, error) from error
    if not done:
        say_again("interrupted; a checkpoint of the step is saved")
        return 130
    say(f"use it: --set model.adapter={training.folder}")
    if not finished:
        say("the same command without --steps goes on")
    return 0


def _training(options: TrainOptions, out: Path) -> ReaderTraining:
    """All that is said, checked, before anything is loaded. Raises UserError."""
    from harness.config.resolve import part
    from harness.llm.model_info import model_facts
    from harness.training.reader import ReaderSettings, ReaderTraining
    from harness.training.settings import read_as

    if options.data is None:
        raise UserError("name the folder with the training rows: --data DIR (files such as hotpot_train.json)")
    labelling = (options.teacher, options.dataset, options.task, options.exclude, options.pages, options.plan)
    if any(labelling):
        raise UserError(
            "the reader learns from training rows: leave out --teacher, --dataset, --task, --exclude, --pages and "
            "--plan"
        )
    check(options.device, options.mlflow)
    sets = sets_of(options.sets)
    of_model = {key: value for key, value in sets.items() if key.startswith("model.")}
    rest = {key: value for key, value in sets.items() if key not in of_model}
    own = Path(options.config) if options.config is not None else None
    settings = read_as(ReaderSettings, NAME, options.profile or PROFILE, [NAME], rest, own)
    base = part("models", model=options.model, sets=of_model)
    if problems := model_facts(base).problems:
        raise UserError(problems[0])
    return ReaderTraining(base, settings, Path(options.data), out, options.seed, options.device)
