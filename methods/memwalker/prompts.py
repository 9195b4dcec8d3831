"""What is asked on the walk, in this project's words; the paper's prompts ask the same (facts 3.1, 3.2).

A prompt is a list of pieces, each encoded on its own, so that a document's words never run into those around them:

    feed(session, triage(question, memory, summaries, reasoning=False, back=False))
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.llm.base import Session
from harness.types import Question

__all__ = ["PROMPTS", "feed", "leaf", "parents", "triage"]

PARENT_HEAD = "The summaries below are of parts of one text that follow each other.\n"
PARENT_TAIL = (
    "\n\nShorten each of them strongly, in their order, and keep the names. Write one paragraph.\n\nShort summary:"
)
# The question stands behind the texts in both prompts, as the paper's leaf prompt has it; its triage prompt has it in
# front, where pocket-llama stayed at guessing in 1,500 steps. A model that reads left to right may hold a text once for
# all questions about it this way.
TRIAGE_HEAD = "A long text has the parts that are summarised below. Choose the part that answers a question."
SUMMARY = "\n\nSummary {number}: "
TRIAGE_REASONS = (
    "\n\nWhich summary most likely belongs to the part with the answer? Compare them, then choose exactly one{back}. "
    "Reply in this form:\nReasoning: the comparison\nAction: number of the summary"
)
TRIAGE = (
    "\n\nWhich summary most likely belongs to the part with the answer? Choose exactly one{back}. Reply in this form:\n"
    "Action: number of the summary"
)
BACK = ", or -1 to go back if none can"
LEAF_HEAD = "Answer a question from the text below, if it can be answered."
LEAF_TEXT = "\n\nText:\n"
QUESTION = "\n\nQuestion: "
LEAF_REASONS = (
    "\n\nThe text ends here. If the answer cannot be inferred from it and the background, choose action -1. If it can, "
    "choose action -2 and give the answer. {instruction} Reply in this form:\nReasoning: why\nAction: -1 or -2\n"
    "Answer: the answer, if the action is -2"
)
LEAF = (
    "\n\nThe text ends here. If the answer cannot be inferred from it and the background, choose action -1. If it can, "
    "choose action -2 and give the answer. {instruction} Reply in this form:\nAction: -1 or -2\n"
    "Answer: the answer, if the action is -2"
)
MEMORY = "\n\nBackground, from what was read before:"

_CHOICE = TRIAGE_HEAD + "{memory}" + SUMMARY + "{summary} ..." + QUESTION + "{question}"
PROMPTS = {
    "parents": PARENT_HEAD + "\n{summary} ..." + PARENT_TAIL,
    "working memory": MEMORY + "\n{summary} ...",
    "triage, with reasons": _CHOICE + TRIAGE_REASONS,
    "triage": _CHOICE + TRIAGE,
    "triage, the way back": BACK,
    "leaf, with reasons": LEAF_HEAD + "{memory}" + LEAF_TEXT + "{segment}" + QUESTION + "{question}" + LEAF_REASONS,
    "leaf": LEAF_HEAD + "{memory}" + LEAF_TEXT + "{segment}" + QUESTION + "{question}" + LEAF,
}


def feed(s: Session, pieces: Sequence[str]) -> None:
    """Put a prompt into an empty context."""
    s.user(pieces[0])
    for piece in pieces[1:]:
        s.feed(piece)


def parents(summaries: Sequence[str]) -> list[str]:
    """Ask for one short summary of the summaries of consecutive parts."""
    return [PARENT_HEAD, *_lines(summaries), PARENT_TAIL]


def triage(
    question: Question, memory: Sequence[str], summaries: Sequence[str], *, reasoning: bool, back: bool
) -> list[str]:
    """Ask which of the summaries, numbered from 0, belongs to the part with the answer; `back`: -1 is allowed."""
    listed = [piece for i, text in enumerate(summaries) for piece in (SUMMARY.format(number=i), text)]
    tail = (TRIAGE_REASONS if reasoning else TRIAGE).format(back=BACK if back else "")
    return [TRIAGE_HEAD, *_background(memory), *listed, QUESTION, _asked(question), tail]


def leaf(question: Question, memory: Sequence[str], segment: str, instruction: str, *, reasoning: bool) -> list[str]:
    """Ask for the answer, or for the word that the segment and the background do not give it."""
    tail = (LEAF_REASONS if reasoning else LEAF).format(instruction=instruction)
    return [LEAF_HEAD, *_background(memory), LEAF_TEXT, segment, QUESTION, _asked(question), tail]


def _background(memory: Sequence[str]) -> list[str]:
    return [MEMORY, *_lines(memory)] if memory else []


def _lines(texts: Sequence[str]) -> list[str]:
    return [piece for text in texts for piece in ("\n", text)]


def _asked(question: Question) -> str:
    """The question with its lettered options, as the shared reading prompt shows them."""
    options = "".join(f"\n({chr(65 + i)}) {o}" for i, o in enumerate(question.options or ()))
    return question.text + ("\nOptions:" + options if options else "")
