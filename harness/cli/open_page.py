"""Open a page in the user's browser once its server answers: python -m harness.cli.open_page PORT PAGE"""

from __future__ import annotations

import contextlib
import socket
import sys
import time
import webbrowser

_LONGEST = 120.0  # seconds until the server answers


def main(port: int, page: str) -> None:
    """Wait for the port on this machine, then open the page; nothing happens where there is no browser."""
    end = time.monotonic() + _LONGEST
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), 1.0).close()
            webbrowser.open(page)
            return
        time.sleep(0.3)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
