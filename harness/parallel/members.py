"""Whether several questions are in flight: then each is answered in a thread that is a member of a Scheduler.

A run of one question at a time reads this much of harness/parallel; the rest begins in scheduler.py.
"""

import threading

this_thread = threading.local()
"""scheduler, member: set by the Scheduler in the threads of its members; queued: seconds that one waited for others."""


def is_member() -> bool:
    """Whether the calling thread is a member of a Scheduler, so that other questions are in flight beside its own."""
    return getattr(this_thread, "scheduler", None) is not None
