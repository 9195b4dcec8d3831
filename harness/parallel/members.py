"""Threads that are members of a Scheduler (scheduler.py): several questions are in flight, each in
one of them.

A run of one question at a time starts no Scheduler.
"""

import threading
from typing import Any

this_thread = threading.local()
"""scheduler, member: set by the Scheduler in the threads of its members; queued: seconds that one
waited for others."""


class Stopped(BaseException):
    """The run ends: not an Exception, so that no method takes it for a failure of its own."""


def current_scheduler() -> Any:
    """The Scheduler that the calling thread is a member of; None outside of one."""
    return getattr(this_thread, "scheduler", None)
