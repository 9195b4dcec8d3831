"""Handle signals inside a block.

with interrupt_on_signals(): ...          SIGTERM and SIGHUP raise KeyboardInterrupt, as Ctrl-C does
with on_signals(stop, signal.SIGINT): ... any other handler
"""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def on_signals(handler: Callable[[int], None], *numbers: signal.Signals) -> Iterator[None]:
    """Call `handler` with the number of each of these signals that comes inside the block.

    A signal that is ignored (nohup) or handled already keeps its handler. Outside the main thread,
    which alone may handle signals, nothing changes.
    """
    unhandled = (signal.SIG_DFL, signal.default_int_handler)
    main = threading.current_thread() is threading.main_thread()
    before = {n: old for n in numbers if main and (old := signal.getsignal(n)) in unhandled}
    for number in before:
        signal.signal(number, lambda number, _frame: handler(number))
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


def interrupt_on_signals() -> contextlib.AbstractContextManager[None]:
    """Raise KeyboardInterrupt for SIGTERM and SIGHUP inside the block."""

    def interrupt(number: int) -> None:
        raise KeyboardInterrupt(signal.Signals(number).name)

    return on_signals(interrupt, signal.SIGTERM, signal.SIGHUP)
