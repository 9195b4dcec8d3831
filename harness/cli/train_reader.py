"""`harness train reader`: one adapter for what all methods ask of a reader (harness/training/reader.py)."""

from __future__ import annotations

import sys
from pathlib import Path

from harness.cli.common import sets_of
from harness.cli.stopping import say, say_again
from harness.cli.train_flags import AdapterFlags
from harness.cli.training_run import check, feed, watched
from harness.errors import UserError

NAME = "reader"
PROFILE = "cpu"


def main(flags: AdapterFlags, out: Path) -> int:
    """Train; 2 for what cannot be run, raised as UserError; 130 when interrupted."""
    from harness.config.resolve import Choices, resolve_one
    from harness.llm.model_info import model_facts
    from harness.storage.files import save_error, touch
    from harness.training import settings as read
    from harness.training.reader import ReaderSettings, ReaderTraining

    if flags.data is None:
        raise UserError("name the folder with the training rows: --data DIR (files such as hotpot_train.json)")
    if flags.teacher or flags.dataset or flags.task:
        raise UserError("the reader learns from training rows: leave out --teacher, --dataset and --task")
    check(flags.device, flags.mlflow)
    sets = sets_of(flags.sets)
    of_model = {key: value for key, value in sets.items() if key.startswith("model.")}
    own = Path(flags.config) if flags.config is not None else None
    rest = {key: value for key, value in sets.items() if key not in of_model}
    settings = read.read(NAME, flags.profile or PROFILE, [NAME], rest, own, ReaderSettings)
    base = resolve_one("models", Choices(model=flags.model, sets=of_model)).parts["model"]
    if problems := model_facts(base).problems:
        raise UserError(problems[0])
    touch(out)
    training = ReaderTraining(base, settings, Path(flags.data), out, flags.seed, flags.device)
    params = {"method": NAME, "base": base.name, "seed": str(flags.seed), "data": flags.data}
    try:
        done, finished = watched(
            lambda tell, stop: training.run(tell, stop, flags.steps),
            feed(out, flags.mlflow, params, "adapter training"),
        )
    except OSError as error:
        raise save_error(out, error) from error
    if not done:
        say_again("interrupted; a checkpoint of the step is saved", ["harness", *sys.argv[1:]])
        return 130
    say(f"use it: --set model.adapter={training.folder}" if finished else "the same command without --steps goes on")
    return 0
