"""Settings of a run beside those of a paper, as sentences.

setting_differences("method: ", {"k": 5}, {"k": 10})    -> ["method: k is 5, the paper's is 10"]
"""

from collections.abc import Mapping, Sequence


def setting_differences(
    head: str, used: Mapping[str, object], paper: Mapping[str, object]
) -> list[str]:
    """A sentence for each setting of the paper with another value in a run, and one for all that
    the run does not list.

        ("method: ", {"k": 5}, {"k": 10, "b": 0.7})
            -> ["method: k is 5, the paper's is 10",
                "method: b is not recorded; the paper has b 0.7"]

    A run lists no setting that is not set, so one that the paper has not set either is no
    difference.

    Args:
        head: The beginning of each sentence.
        used: The settings of the run.
        paper: The settings of the paper.
    """
    sentences = []
    missing = []
    for key, value in paper.items():
        is_set_in_paper = value not in (None, {})
        if key not in used:
            if is_set_in_paper:
                missing.append(key)
        elif used[key] != value:
            sentences.append(f"{head}{key} is {shown(used[key])}, the paper's is {shown(value)}")
    if missing:
        verb = "are"
        if len(missing) == 1:
            verb = "is"
        values = ", ".join(f"{key} {shown(paper[key])}" for key in missing)
        sentences.append(
            f"{head}{joined_names(missing)} {verb} not recorded; the paper has {values}"
        )
    return sentences


def shown(value: object) -> str:
    """A value in a sentence: None -> "not set", True -> "true", others as text."""
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


def joined_names(names: Sequence[str]) -> str:
    """Names as a phrase: "nq, triviaqa and popqa"."""
    *first, last = names
    if not first:
        return last
    return f"{', '.join(first)} and {last}"
