"""`harness pocket train-reranker`: train a small reranker on the pocket world.

OUT/model        the folder that a reranker is loaded from, with its card: --set reranker.source=OUT/model
OUT/checkpoint   to resume from; OUT/log.jsonl: a line every 25 steps
"""

import threading
from pathlib import Path
from typing import Annotated

from harness_training.cli.training_run import Report, run_until_stopped

from harness.cli.command import execution, setting
from harness.cli.options import TrainingOut
from harness.cli.stopping import INTERRUPTED, print_resume_command
from harness.errors import CannotRun
from harness.storage.files import check_writable
from pocket.card import EMBEDDED
from pocket.train.model_folder import check_folder


def train_reranker(
    out: TrainingOut,
    begin: Annotated[
        str | None,
        setting(
            "--from FOLDER",
            "Pocket model whose first layers the reranker starts from.",
            "the embedded model",
        ),
    ] = None,
    layers: Annotated[int | None, setting("--layers N", "Number of layers to take.", min=1)] = None,
    seed: Annotated[int, setting("--seed N", "Random seed of first weights and texts.")] = 0,
    steps: Annotated[int | None, execution("--steps N", "Total optimizer steps.", min=1)] = None,
) -> int:
    """Train a small reranker; the same command resumes. Runs of `bm25` and `bge-reranker` compare
    them."""
    begin_folder = EMBEDDED
    if begin is not None:
        begin_folder = Path(begin)
    elif not (EMBEDDED / "config.json").is_file():
        raise CannotRun(
            "no pocket model comes with this installation; name a model folder with --from"
        )
    folder = Path(out)
    # Compared with no tokenizer: the one in `out` is written anew.
    check_folder(begin_folder, target_folder=folder / "none")
    check_writable(folder)
    from pocket.reranker.train import LAYERS, STEPS, Settings, Trainer  # imports torch

    settings = Settings(
        folder, begin_folder, layers=layers or LAYERS, seed=seed, steps=steps or STEPS
    )

    def run(report: Report, stop: threading.Event) -> None:
        """Train until --steps is reached or `stop` is set."""
        Trainer(settings, report).run(stop)

    was_uninterrupted, _ = run_until_stopped(run, folder)
    if not was_uninterrupted:
        print_resume_command("interrupted; the last checkpoint is kept")
        return INTERRUPTED
    print(folder / "model")
    return 0
