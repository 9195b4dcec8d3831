"""The prompts of the refiner's three tasks, in this project's words, and the parsers of its
replies.

Source: docs/methods/longrefiner.md#longrefiner.

analysis      question                          ──►  the probabilities of "Local" and "Global" after "["
structuring   document                          ──►  an outline, see outline.py
selection     title, abstract, outline, question ──►  ['abstract', 'Career']

A prompt is a list of pieces, each encoded on its own, so that a document's words never run into
those around them.
"""

from collections.abc import Sequence

from harness.method import MethodConfig
from harness.prompts import Pieces, Prompt
from methods.values import values_in

LABELS = ("Local", "Global")
LABEL_BEGIN = "["
ANALYSIS = Prompt(
    "analysis",
    "What does the question below ask for? [Local]: a clear and fixed answer, for which a few "
    "passages are enough. [Global]: something broad or open, for which much of a document must be "
    "understood.\n\n"
    "Question: {question}\n\n"
    "Answer [Local] or [Global].",
)
STRUCTURING = Prompt(
    "structuring",
    "Write the outline of the text below.\n\n"
    "Text:\n"
    "{text}\n\n"
    "The text ends here. Write its outline: <abstract>...</abstract>, then for each section "
    "<section: title>...</section: title>, with <sub-section: title> inside where it has parts. "
    "Of each paragraph write its first and last words with <skip> between, and <br> between "
    "paragraphs.\n\n"
    "Outline:",
)
SELECTION = Prompt(
    "selection",
    "Which parts of a document help to answer a question? Choose by its abstract and its "
    "outline.\n\nTitle: {title}\n"
    "Abstract: {abstract}\nOutline:{outline}\n\nQuestion: {question}\n\nList the titles of all "
    "parts that help, or "
    "'abstract', as ['title', 'title'].\n\nList:",
)
PROMPTS = (ANALYSIS, STRUCTURING, SELECTION)


def analysis(question: str, config: MethodConfig | None = None) -> Pieces:
    """The request that asks whether a question is local or global; the reply is probed after
    LABEL_BEGIN."""
    return ANALYSIS.with_replacements(config).fill(question=[question])


def structuring(texts: Sequence[str], config: MethodConfig | None = None) -> Pieces:
    """The request for the outline of a text.

    Args:
        texts: The text, or its two ends where the middle is left out.
        config: The method's settings, which may have another prompt.
    """
    pieces: list[str] = []
    for text in texts:
        if pieces:
            pieces.append("\n\n")
        pieces.append(text)
    return STRUCTURING.with_replacements(config).fill(text=pieces)


def selection(
    question: str, title: str, abstract: str, outline: str, config: MethodConfig | None = None
) -> Pieces:
    """The request for the parts of a document that help with a question.

    Args:
        question: The text of the question.
        title: The document's title.
        abstract: The document's abstract.
        outline: The lines of its titles, each after a line break.
        config: The method's settings, which may have another prompt.
    """
    return SELECTION.with_replacements(config).fill(
        title=[title], abstract=[abstract], outline=[outline], question=[question]
    )


def titles_reply(titles: Sequence[str]) -> str:
    """The reply, a list in Python's spelling, by which a model selects these titles."""
    return str(list(titles))


def folded(title: str) -> str:
    """The form in which titles are compared: lower case, single spaces."""
    return " ".join(title.lower().split())


def parse_titles(reply: str) -> frozenset[str] | None:
    """The titles that a reply selects, folded: of a list of strings, or of a mapping's
    "selected_titles".

        "['Career', 'abstract']" -> {"career", "abstract"}

    None for a reply without either (methods/values.py; the released code repairs lists, too).
    """
    for value in values_in(reply):
        titles = value
        if isinstance(value, dict):
            titles = value.get("selected_titles")
        if isinstance(titles, str):  # one title without a list
            titles = [titles]
        if isinstance(titles, list) and all(isinstance(title, str) for title in titles):
            return frozenset(folded(title) for title in titles if title.strip())
    return None
