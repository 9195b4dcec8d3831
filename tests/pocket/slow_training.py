"""A small training in a process of its own, killed while it saves the checkpoint of a step.

python -m tests.pocket.slow_training OUT COURSE STEP
"""

import sys
from pathlib import Path
from typing import Any

from pocket.train.trainer import Settings, train
from tests.kills import kill_at

SIZES = {
    "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 2,
    "max_position_embeddings": 256,
}  # fmt: skip


def settings(out: Path, course: Path, **more: Any) -> Settings:
    """One thread's work of a second or two."""
    return Settings(**{"out": out, "course": course, "save": 50, "device": "cpu", "sizes": SIZES} | more)


def main() -> None:
    out, course, last = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    kill_at(last)
    train(settings(out, course, steps=200), print)


if __name__ == "__main__":
    main()
