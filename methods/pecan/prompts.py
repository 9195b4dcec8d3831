"""PECAN's prompts as the first version of the paper prints them (GARLIC, appendix A, tables 4 and
5).

The second-turn prompt is "Given the above information and question, " + the data set's answer
instruction; with the shared instruction "Answer the question as concisely as you can." that is the
printed sentence.
"""

from harness.prompts import Prompt
from harness.types import Question
from methods.pecan.config import PecanConfig
from methods.reading import options
from methods.summary import DETAILED

# GARLIC table 4.
POINTS = Prompt(
    "points",
    "Summary the following information. Each segment is separated by a new line symbol.\n\n"
    "{nodes}\n\n"
    "Split your summary into different summary points according to the semantic information in "
    "these information points. It is not necessary to generate each summary point for each "
    "information point. Gather and organize information into summary points. In each summary "
    "point, try to avoid using pronouns like he/she/they and instead use full names. Generate in "
    "the format of:\n\n"
    "* summary point\n"
    "* summary point\n"
    "* summary point\n"
    "\u2026\u2026\n\n"
    "Do not provide any explanation and start the summary directly.",
)
# The first turn of the search by config.probe_wording. "printed" is GARLIC table 5; "plain" is this
# project's.
PROBES = {
    "printed": Prompt(
        "search",
        "Can this question be answered by the following information? Response \u201cYes\u201d or "
        "\u201cNo\u201d in one word. Do not provide any explanation.\n\n"
        "Question:\n"
        "{question}\n\n"
        "Information:{nodes}",
        ordered=True,
        answers=True,
    ),
    "plain": Prompt(
        "search, plain wording",
        "Is the information below enough to answer the question? Reply with one word, Yes or "
        "No.\n\nQuestion:\n"
        "{question}\n\nInformation:{nodes}",
        ordered=True,
        answers=True,
    ),
}
# GARLIC table 5.
SECOND_TURN = Prompt(
    "second turn", "Given the above information and question, {instruction}{options}", first=False
)
# Fed separately from the text after it, which keeps the space between them
# (docs/methods/pecan.md#pecan-tokens).
BULLET = "*"


def prompts_of(graph: str) -> tuple[Prompt, ...]:
    """The prompts by which a graph of this kind (config.graph) is built and searched.

    Both wordings are always among them: the graph does not depend on them, so its cache key must
    not either.
    """
    building_prompt = POINTS
    if graph == "tree":
        building_prompt = DETAILED
    return (building_prompt, *PROBES.values(), SECOND_TURN)


def second_turn(instruction: str, question: Question, config: PecanConfig) -> str:
    """The text of the second turn, which asks for the answer.

    The papers have no multiple choice. Options are in this turn and not in the first one, so that
    the search and its attention depend on the question alone.

    Args:
        instruction: The data set's answer instruction; its first letter becomes a small one.
        question: The question, whose options are shown, if it has any.
        config: The method's settings.
    """
    instruction_in_small_letters = instruction[:1].lower() + instruction[1:]
    return "".join(
        SECOND_TURN.with_replacements(config).fill(
            instruction=instruction_in_small_letters, options=options(question)
        )
    )
