"""Names and numbers in the sentences that open a page.

join_names(["a", "b", "c"])         -> "a, b and c"
"""

from collections.abc import Sequence

_MAX_NAMES = 4  # names of methods; the others are counted


def join_names(names: Sequence[str]) -> str:
    """One or more names as a list in a sentence: "a", "a and b", "a, b and c"; of more than four
    names the first three, "a, b, c and 2 more"."""
    if len(names) > _MAX_NAMES:
        n_shown = _MAX_NAMES - 1
        return f"{', '.join(names[:n_shown])} and {len(names) - n_shown} more"
    *before_last, last = names
    if not before_last:
        return last
    return f"{', '.join(before_last)} and {last}"
