"""The command `harness`, also as `python -m harness`: signals are heeded before anything slow is
imported."""

import os
import signal
import sys
from typing import NoReturn

_INTERRUPTED = 130


def main() -> None:
    """Import the command line, which takes a third of a second, and run it.

    SIGTERM and SIGHUP end it as Ctrl-C does, from the first moment on. Ctrl-C during the import
    ends the process with exit code 130.
    """
    try:
        for ending_signal in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(ending_signal) is signal.SIG_DFL:  # else it is ignored, as by nohup
                signal.signal(ending_signal, _raise_interrupt)
        from harness.cli.main import main as run_command  # slow: after the handlers
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; nothing was run\n")
        sys.stderr.flush()
        os._exit(_INTERRUPTED)  # imports that were cut short may not end well
    run_command()


def _raise_interrupt(signal_number: int, _frame: object) -> NoReturn:
    """Raise KeyboardInterrupt for a signal, with the signal's name: "SIGTERM"."""
    raise KeyboardInterrupt(signal.Signals(signal_number).name)


if __name__ == "__main__":
    main()
