"""`harness pocket train-reranker`: train a small reranker on the pocket world.

OUT/model        the folder that a reranker is loaded from, with its card: --set reranker.source=OUT/model
OUT/checkpoint   to resume from; OUT/log.jsonl: a line every 25 steps
"""

from pathlib import Path
from typing import Annotated

from harness_training.cli.training_run import run_until_stopped

from harness.cli.command import execution, setting
from harness.cli.options import TrainingOut
from harness.cli.stopping import print_resume_command
from harness.errors import CannotRun
from harness.storage.files import check_writable
from pocket.card import EMBEDDED
from pocket.train import llama


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
    from pocket.reranker import train as training

    first = EMBEDDED if begin is None else Path(begin)
    if begin is None and not (EMBEDDED / "config.json").is_file():
        raise CannotRun(
            "no pocket model comes with this installation; name a model folder with --from"
        )
    llama.check_folder(first, Path(out) / "none")
    check_writable(Path(out))
    chosen = {
        name: value
        for name, value in {"layers": layers, "steps": steps}.items()
        if value is not None
    }
    settings = training.Settings(Path(out), first, seed=seed, **chosen)
    done, _ = run_until_stopped(
        lambda tell, stop: training.Trainer(settings, tell).run(stop), settings.out
    )
    if not done:
        print_resume_command("interrupted; the last checkpoint is kept")
        return 130
    print(settings.out / "model")
    return 0
