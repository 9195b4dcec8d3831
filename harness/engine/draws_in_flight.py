"""A warning for draws from the global random generators while several questions are in flight."""

import contextlib
import random
import sys
from collections.abc import Callable, Iterator

import numpy as np

from harness.engine.tools import seed_everything


@contextlib.contextmanager
def warn_of_global_draws(note: Callable[[str], None], seed: int) -> Iterator[None]:
    """Context manager: seeds the global random generators, which all questions in flight share, and
    after its block warns if something in it drew from them.

    Args:
        note: Gets the warning.
        seed: What they are seeded with.
    """
    seed_everything(seed)
    before = _generator_states()
    yield
    after = _generator_states()
    changed = [name for name, state in before.items() if state != after[name]]
    if changed:
        note(
            f"something drew from the global random generator of {' and '.join(changed)} while "
            "several questions were in flight: such draws depend on which question was faster; "
            "--parallel 1 gives the same ones every time"
        )


def _generator_states() -> dict[str, object]:
    """Library -> state of its global random generator, as a value that == compares; "torch" only
    where it is loaded."""
    name, keys, *rest = np.random.get_state()
    states: dict[str, object] = {
        "Python": random.getstate(),
        "NumPy": (name, np.asarray(keys).tobytes(), *rest),
    }
    torch = sys.modules.get("torch")
    if torch is not None:
        states["torch"] = torch.get_rng_state().numpy().tobytes()
    return states
