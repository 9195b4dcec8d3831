"""Questions in flight share the global random generators: a note if something drew from them."""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Iterator

import numpy as np

from harness.engine.tools import seed_everything
from harness.parallel.in_flight import Note


@contextlib.contextmanager
def draws_watched(note: Note, seed: int) -> Iterator[None]:
    """Call `note` if code inside the block drew from the global generators, which the questions in flight share."""
    seed_everything(seed)
    before = _states()
    yield
    after = _states()
    if changed := [name for name, state in before.items() if state != after[name]]:
        note(
            f"something drew from the global random generator of {' and '.join(changed)} while several questions were "
            "in flight: such draws depend on which question was faster; --parallel 1 gives the same ones every time"
        )


def _states() -> dict[str, object]:
    name, keys, *rest = np.random.get_state()
    states: dict[str, object] = {"Python": random.getstate(), "NumPy": (name, np.asarray(keys).tobytes(), *rest)}
    if torch := sys.modules.get("torch"):
        states["torch"] = torch.get_rng_state().numpy().tobytes()
    return states
