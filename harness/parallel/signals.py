"""Handle signals inside a block.

with interrupt_on_signals(): ...          SIGTERM and SIGHUP raise KeyboardInterrupt, as Ctrl-C does
with on_signals(stop, signal.SIGINT): ... any other handler
"""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from types import FrameType

_HANDLER = Callable[[int, FrameType | None], object] | int | signal.Handlers | None
"""What Python keeps for a signal."""


def _unhandled(numbers: Sequence[signal.Signals]) -> dict[signal.Signals, _HANDLER]:
    """The handler of each of these signals that is neither ignored nor handled by code of the
    program yet: that of the system, or Python's own of Ctrl-C."""
    unhandled: dict[signal.Signals, _HANDLER] = {}
    for number in numbers:
        current_handler = signal.getsignal(number)
        if current_handler in (signal.SIG_DFL, signal.default_int_handler):
            unhandled[number] = current_handler
    return unhandled


@contextlib.contextmanager
def on_signals(handler: Callable[[int], None], *numbers: signal.Signals) -> Iterator[None]:
    """Context manager: a signal that comes inside the block calls `handler` with its number.

    A signal that is ignored (nohup) or handled already keeps its handler. Outside the main thread,
    which alone may handle signals, nothing changes.

    Args:
        handler: Called with the number of a signal.
        *numbers: The signals.
    """
    old_handlers: dict[signal.Signals, _HANDLER] = {}
    if threading.current_thread() is threading.main_thread():
        old_handlers = _unhandled(numbers)
    for number in old_handlers:
        signal.signal(number, lambda number, _frame: handler(number))
    try:
        yield
    finally:
        for number, old_handler in old_handlers.items():
            signal.signal(number, old_handler)


def interrupt_on_signals() -> contextlib.AbstractContextManager[None]:
    """Context manager: SIGTERM and SIGHUP raise KeyboardInterrupt inside the block."""

    def interrupt(number: int) -> None:
        """Raise KeyboardInterrupt with the name of the signal."""
        raise KeyboardInterrupt(signal.Signals(number).name)

    return on_signals(interrupt, signal.SIGTERM, signal.SIGHUP)
