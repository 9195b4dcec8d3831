"""PECAN's prompts as the first version of the paper prints them (S001, appendix A, tables 4 and 5).

The second-turn prompt is "Given the above information and question, " + the data set's answer instruction; with the
shared instruction "Answer the question as concisely as you can." that is the printed sentence.
"""

from __future__ import annotations

from harness.types import Question
from methods import summary
from methods.reading import options

__all__ = ["BULLET", "PROMPTS", "SEARCH_HEADS", "SEARCH_MIDDLE", "SUMMARY_HEAD", "SUMMARY_TAIL", "prompts_of"]
__all__ += ["second_turn"]

# S001 table 4.
SUMMARY_HEAD = "Summary the following information. Each segment is separated by a new line symbol.\n\n"
SUMMARY_TAIL = (
    "\n\nSplit your summary into different summary points according to the semantic information in these information "
    "points. It is not necessary to generate each summary point for each information point. Gather and organize "
    "information into summary points. In each summary point, try to avoid using pronouns like he/she/they and instead "
    "use full names. Generate in the format of:\n\n* summary point\n* summary point\n* summary point\n\u2026\u2026\n\n"
    "Do not provide any explanation and start the summary directly."
)
# The first turn of the search by config.probe_wording. "printed" is S001 table 5; "plain" is this project's.
SEARCH_HEADS = {
    "printed": (
        "Can this question be answered by the following information? Response \u201cYes\u201d or \u201cNo\u201d in one "
        "word. Do not provide any explanation.\n\nQuestion:\n"
    ),
    "plain": ("Is the information below enough to answer the question? Reply with one word, Yes or No.\n\nQuestion:\n"),
}
SEARCH_MIDDLE = "\n\nInformation:"
SECOND_TURN = "Given the above information and question, {instruction}"
# Fed apart from the text behind it, which keeps the space between them (docs/methods.md, PECAN and GARLIC).
BULLET = "*"

_SHOWN = "{question}" + SEARCH_MIDDLE + "\n" + BULLET + " {node} ..."
_POINTS = {"summary head (S001 table 4)": SUMMARY_HEAD, "summary tail (S001 table 4)": SUMMARY_TAIL}
# Both wordings are always listed: the graph does not depend on them, so its cache key must not either.
_SEARCH = {
    "search, first turn (S001 table 5)": SEARCH_HEADS["printed"] + _SHOWN,
    "search, first turn (probe_wording plain)": SEARCH_HEADS["plain"] + _SHOWN,
    "search, second turn (S001 table 5)": SECOND_TURN,
}
PROMPTS = {**_POINTS, **_SEARCH}


def prompts_of(graph: str) -> dict[str, str]:
    """Name -> text of the prompts by which a graph of this kind (config.graph) is built and searched."""
    return {**summary.PROMPTS, **_SEARCH} if graph == "tree" else PROMPTS


def second_turn(instruction: str, question: Question) -> str:
    """The second-turn prompt with the data set's instruction continued in lower case, and the options where there are.

    The papers have no multiple choice. Options stand here and not in the first turn, so that what is looked for and
    the attention to it are the question's alone.
    """
    return SECOND_TURN.format(instruction=instruction[:1].lower() + instruction[1:]) + options(question)
