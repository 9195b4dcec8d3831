"""The stop rule: when a probe counts as Yes, and where another rule would have stopped a recorded search.

A probe counts as Yes when p_yes > t_p (PECAN, section 3.2) or, where t_p is None, when Yes was the likeliest of all
tokens (GARLIC, section 3.2). The search ends at the t_n-th Yes, counted cumulatively, or where the window or the graph
ends. Which node comes next does not depend on the rule, so a search that goes on past its stop holds the stops of all
rules that are not stricter.

    p_yes      0.2   0.6   0.4   0.9   0.7     t_p = 0.5: stops of t_n = 1, 2, 3 are at the 2nd, 4th and 5th probe
    answer      a     b     b     c     c      t_p = 0.8: t_n = 1 at the 4th
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

GREEDY_YES = "greedy_yes"
"""Among a step's scores: 1 where Yes was the likeliest of all tokens, so that GARLIC's rule can be replayed too."""


def counts(p_yes: float, greedy: bool, t_p: float | None) -> bool:
    """Whether a probe counts as Yes; greedy: whether Yes was its likeliest token."""
    return greedy if t_p is None else p_yes > t_p


def replay(
    steps: Sequence[Mapping[str, Any]], t_n: int, t_p: float | None, most_t_n: int, most_t_p: float | None
) -> int | None:
    """The place in `steps` of the probe at which a search by (t_n, t_p) stops; None where the recording ends before.

    most_t_n, most_t_p: the rule up to which the search was recorded.
    """
    probes = [place for place, step in enumerate(steps) if step.get("p_yes") is not None]

    def yes(least: float | None) -> list[int]:
        values = (
            (place, steps[place]["p_yes"], (steps[place].get("scores") or {}).get(GREEDY_YES)) for place in probes
        )
        return [place for place, p_yes, greedy in values if counts(float(p_yes), bool(greedy), least)]

    if len(reached := yes(t_p)) >= t_n:
        return reached[t_n - 1]
    # An error that ended the recording left a last step without a probe (recording.py).
    failed = bool(steps) and steps[-1]["action"] == "study" and steps[-1].get("p_yes") is None
    # Otherwise it went on to the window or the end of the graph unless it had all its Yes.
    return probes[-1] if probes and not failed and len(yes(most_t_p)) < most_t_n else None
