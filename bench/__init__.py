"""Benchmarks: `python -m bench`. Ratios measured in one run; no test depends on them."""
