"""The prompts that build the tree and walk it, in this project's words
(docs/methods/memwalker.md#memwalker).

feed(session, choice_request(question, memory, summaries, config, may_go_back=False))
"""

from collections.abc import Sequence

from harness.prompts import Pieces, Prompt
from harness.types import Question
from methods.memwalker.config import MemWalkerConfig
from methods.reading import question_text

SEGMENT = Prompt(
    "segment summary",
    "Text:\n{text}\n\nThe text ends here. Write a comprehensive and fluent summary of it in one "
    "passage.\n\nSummary:",
)
PARENT = Prompt(
    "parent summary",
    "The summaries below are of parts of one text that follow each other.\n{summaries}\n\nShorten "
    "each of them "
    "strongly, in their order.\n\nShort summary:",
)
_TRIAGE = (
    "The passages below are summaries of the parts of one text.{memory}\n\nQuestion: "
    "{question}\n\nWhich summary most "
    "likely belongs to the part with the answer?"
)
TRIAGE_REASONS = Prompt(
    "triage, with reasons",
    _TRIAGE
    + " First compare the summaries and give your reasoning, then choose.{summaries}\n\nChoose exactly one "
    "summary by its number{back}. Reply in this form:\nReasoning: the comparison\nAction: number "
    "of the summary",
)
TRIAGE = Prompt(
    "triage",
    _TRIAGE + "{summaries}\n\nChoose exactly one summary by its number{back}. Reply in this form:\n"
    "Action: number of the summary",
)
_LEAF = (
    "Answer a question from the text below, if it can be answered.{memory}\n\n"
    "Text:\n"
    "{segment}\n\n"
    "Question: {question}\n\n"
    "The text ends here. If the answer cannot be inferred from it and the background, choose "
    "action -1. If it can, choose action -2 and give the answer. {instruction} Reply in this "
    "form:\n"
)
LEAF_REASONS = Prompt(
    "leaf, with reasons",
    _LEAF + "Reasoning: why\nAction: -1 or -2\nAnswer: the answer, if the action is -2",
    answers=True,
)
LEAF = Prompt(
    "leaf", _LEAF + "Action: -1 or -2\nAnswer: the answer, if the action is -2", answers=True
)
# What stands in place of {summaries}, {back} and {memory} in the two prompts of the walk.
NUMBERED = Prompt("triage, one summary", "\n\nSummary {number}: {summary}", first=False)
BACK = Prompt("triage, the way back", ", or -1 to go back if none can", first=False)
MEMORY = Prompt(
    "working memory", "\n\nBackground, from what was read before:{summaries}", first=False
)

PROMPTS = (SEGMENT, PARENT, TRIAGE_REASONS, TRIAGE, LEAF_REASONS, LEAF, NUMBERED, BACK, MEMORY)


def parent_request(summaries: Sequence[str], config: MemWalkerConfig) -> Pieces:
    """The request for one short summary of the summaries of neighbouring parts."""
    return PARENT.with_replacements(config).fill(summaries=_each_on_new_line(summaries))


def choice_request(
    question: Question,
    memory: Sequence[str],
    summaries: Sequence[str],
    config: MemWalkerConfig,
    *,
    may_go_back: bool,
) -> Pieces:
    """The request that asks which part most likely leads to the answer.

    Args:
        question: The question.
        memory: Summaries that were read before.
        summaries: The summaries of the parts, which are numbered from 0.
        config: The method's settings.
        may_go_back: Whether the reply may be -1, to go back.
    """
    prompt = TRIAGE
    if config.reasoning:
        prompt = TRIAGE_REASONS
    way_back = ""
    if may_go_back:
        way_back = BACK.with_replacements(config).text
    numbered: list[str] = []
    for number, text in enumerate(summaries):
        numbered += NUMBERED.with_replacements(config).fill(number=str(number), summary=[text])
    return prompt.with_replacements(config).fill(
        memory=_background(memory, config),
        question=[question_text(question)],
        summaries=numbered,
        back=way_back,
    )


def segment_request(
    question: Question,
    memory: Sequence[str],
    segment: str,
    instruction: str,
    config: MemWalkerConfig,
) -> Pieces:
    """The request for the answer from a segment (-2), or for going back where it has none (-1).

    Args:
        question: The question.
        memory: Summaries that were read before.
        segment: The text of the segment.
        instruction: How to answer.
        config: The method's settings.
    """
    prompt = LEAF
    if config.reasoning:
        prompt = LEAF_REASONS
    return prompt.with_replacements(config).fill(
        memory=_background(memory, config),
        segment=[segment],
        question=[question_text(question)],
        instruction=instruction,
    )


def _background(memory: Sequence[str], config: MemWalkerConfig) -> Sequence[str]:
    """The summaries that were read on the way, as the prompt shows them; [] for none."""
    if not memory:
        return []
    return MEMORY.with_replacements(config).fill(summaries=_each_on_new_line(memory))


def _each_on_new_line(texts: Sequence[str]) -> list[str]:
    r"""Pieces of a prompt that put each text on a line of its own: ["a", "b"] -> ["\n", "a", "\n",
    "b"].

    A line break is a piece, so that texts are encoded as they were counted.
    """
    pieces: list[str] = []
    for text in texts:
        pieces += ["\n", text]
    return pieces
