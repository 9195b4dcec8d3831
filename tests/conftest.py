"""Settings of the whole suite."""

from __future__ import annotations

from hypothesis import settings

# A deadline of 200 ms for one example says how busy the machine is, not whether the code is right.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")
