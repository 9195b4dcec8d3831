"""MLflow, filled from run folders."""

MAX_TRACES_PER_RUN = 1000
"""Traces of a run at most, by default: each takes 10 to 15 ms and 15 to 30 kB."""
