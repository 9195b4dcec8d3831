"""Says once that a cache cannot be written, however many of its entries are lost."""

import threading
from collections.abc import Callable

from harness.errors import SaveError


class WarnOnce:
    """Notes the first SaveError of a cache. A cache that cannot be written costs time, never a
    run."""

    def __init__(self, note: Callable[[str], None], consequence: str) -> None:
        """Begin without a warning.

        Args:
            note: Called with the sentence to print.
            consequence: What cannot be done now, the start of that sentence.
        """
        self._note = note
        self._consequence = consequence
        self._warned = False
        self._lock = threading.Lock()

    def __call__(self, error: SaveError) -> None:
        """Print a warning for this error if it is the first one; any thread may call this."""
        with self._lock:
            is_first = not self._warned
            self._warned = True
        if is_first:
            self._note(f"{self._consequence}: {error}")
