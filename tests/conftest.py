"""Settings of the whole suite."""

from __future__ import annotations

import signal

from hypothesis import settings

# A deadline of 200 ms for one example says how busy the machine is, not whether the code is right.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")

# A suite started behind "&" or nohup inherits signals that are ignored, which a run respects and its children inherit; the
# tests say what a run does at a terminal.
for _signal, _handler in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGTERM, signal.SIG_DFL),
    (signal.SIGHUP, signal.SIG_DFL),
):
    if signal.getsignal(_signal) is signal.SIG_IGN:
        signal.signal(_signal, _handler)
