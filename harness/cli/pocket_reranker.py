"""`harness pocket train-reranker`: train a small reranker on the pocket world, then compare it with other rankers.

OUT/model        the folder that a reranker is loaded from, with its card: --set reranker.source=OUT/model
OUT/checkpoint   where it stands, so that the same command goes on; OUT/log.jsonl: a line every 25 steps
"""

from __future__ import annotations

import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness.cli.stopping import say, say_again, signals
from harness.errors import CannotRun
from pocket.eval.card import EMBEDDED
from pocket.train import initial_weights as beginning

if TYPE_CHECKING:
    from pocket.reranker.train import Settings


@dataclass(frozen=True)
class Options:
    """The flags of the command. begin: a pocket model, None = the embedded one; questions: of a kind in the exam."""

    out: Path
    begin: Path | None = None
    layers: int | None = None
    seed: int = 0
    steps: int | None = None
    questions: int = 100


def main(options: Options) -> int:
    """Train, examine, write the card and print the folder. Raises UserError, CannotRun, SaveError before it starts."""
    from harness.storage.files import touch

    begin = EMBEDDED if options.begin is None else options.begin
    if options.begin is None and not (EMBEDDED / "config.json").is_file():
        raise CannotRun("no pocket model comes with this installation; name a model folder with --from")
    beginning.check(begin, options.out / "none")
    touch(options.out)
    from pocket.reranker import train as training

    chosen = {"layers": options.layers, "steps": options.steps}
    settings = training.Settings(
        options.out, begin, seed=options.seed, **{k: v for k, v in chosen.items() if v is not None}
    )
    stop = threading.Event()
    try:
        with signals(stop):
            training.train(settings, say, stop)
    except KeyboardInterrupt:
        stop.set()
    if stop.is_set():
        say_again("interrupted; the last checkpoint is kept", ["harness", *sys.argv[1:]])
        return 130
    return _examined(settings, options.questions)


def _examined(settings: Settings, questions: int) -> int:
    from pocket.reranker import card as reranker_card
    from pocket.reranker import exam as reranker_exam

    folder = settings.out / "model"
    rows = reranker_exam.examine(folder, questions=questions, tell=say)
    reranker_card.write(folder, settings, rows)
    print(folder)
    return 0
