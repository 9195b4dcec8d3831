"""Names and numbers in the sentences that open a page.

join_names(["a", "b", "c"])         -> "a, b and c"
join_names(["a", "b"], "or")        -> "a or b"
say_once("a (x: 1), b (x: 2)", "x: ")     -> "a (x: 1), b (2)"
"""

from collections.abc import Sequence

_MAX_NAMES = 4  # names of methods; the others are counted


def join_names(names: Sequence[str], conjunction: str = "and") -> str:
    """One or more names as a list in a sentence: "a", "a and b", "a, b and c"; of more than four
    names the first three, "a, b, c and 2 more".

    Args:
        names: The names.
        conjunction: What stands before the last one: "and", or "or".
    """
    if len(names) > _MAX_NAMES:
        n_shown = _MAX_NAMES - 1
        return f"{', '.join(names[:n_shown])} {conjunction} {len(names) - n_shown} more"
    *before_last, last = names
    if not before_last:
        return last
    return f"{', '.join(before_last)} {conjunction} {last}"


def say_once(text: str, remark: str) -> str:
    """The text with a remark where it stands first, and without it further on.

    Args:
        text: Sentences.
        remark: What need not be said again, with the signs around it.
    """
    before, first, after = text.partition(remark)
    return before + first + after.replace(remark, "")
