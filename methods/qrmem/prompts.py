"""What QRMeM asks, in this project's words; the paper's prompts (appendix E) and formulas ask the same.

A prompt is a list of pieces, each encoded on its own, so that a document's words never run into those around them.
"[Name]" in a segment marks an entity. `guide` is what the questions of an update are: none in the first round.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from harness.types import Question
from methods.qrmem.merge import places

__all__ = ["PROMPTS", "Relation", "ask", "elaborate", "entities", "fuse", "marked", "questions", "relations", "trial"]

QUESTION = "\n\nQuestion: "
SUMMARY = "\n\nWhat the whole document is about:\n"
SEGMENT = "\n\nPart of the document:\n"
ENTITIES = "\n\nEntities:"
RELATIONS = "\n\nRelations:"
GUIDE = "\n\nPay attention to what these questions ask for:"
ENTITY_HEAD = "Find the key entities in a part of a document, to help answer a question about the whole document."
ENTITY_TAIL = (
    "\n\nList the persons, places, times, organisations, works and other things that this part names and that matter "
    "here, as they are written there, each on a line that begins with '* '.\n\nEntities:"
)
RELATION_HEAD = "Describe how entities in a part of a document are related, to help answer a question."
RELATION_TAIL = (
    "\n\nFor each pair of the marked entities whose relation the part states, write one line: '* ', the first entity, "
    "' | ', the second entity, ' | ', and one sentence that describes their relation. State only what is said there."
    "\n\nRelations:"
)
DOUBT_HEAD = "Look for what is missing in a graph of entities and relations that was made of a part of a document."
DOUBT_TAIL = (
    "\n\nAsk up to {count} different questions that this part answers and that would complete the graph, each on a "
    "line that begins with '* '.\n\nQuestions:"
)
FUSE_HEAD = "Two parts of a document relate the same two entities. The two relations shall become one."
FUSE_PART = "\n\nPart {number}:\n"
FUSE_RELATION = "\n\nRelation in part {number}: "
FUSE_QUESTIONS = (
    "\n\nWhat has to be clear before they are merged: are the entities the same, do the relations agree, and in which "
    "order of time? Ask up to {count} questions about it, each on a line that begins with '* '.\n\nQuestions:"
)
FUSE_TAIL = (
    "Answer these questions for yourself, then write the one relation that holds in both parts, in one sentence."
)
ASK_HEAD = "Read the text and answer a question about it.\n\nText:"
ASK_TAIL = (
    "\n\nThe text ends here. If the answer CANNOT be inferred from it, choose action -1, and say in the reasoning what "
    "is known and what is missing. If it CAN, choose action -2 and give the answer. {instruction} Reply in this form:\n"
    "Reasoning: why\nAction: -1 or -2\nAnswer: the answer, if the action is -2"
)
TRIAL_HEAD = "Choose the entities of a document that lead to the parts which answer a question.\n\nText read so far:"
REASON = "\n\nWhy it does not answer the question: "
CHOSEN = "\n\nEntities chosen so far:"
OTHERS = "\n\nOther entities of the document:"
TRIAL_TAIL = (
    "\n\nWhich entities should be looked up now? List them, old and new, each on a line that begins with '* ', and no "
    "others.\n\nEntities:"
)
ELABORATE_HEAD = "Turn a question into one that is easier to find an answer to."
ELABORATE_TAIL = (
    "\n\nWrite one question that says what is still to be found, with what the relations tell. Write it on a line that "
    "begins with '* '.\n\nQuestion:"
)

_CONTEXT = QUESTION + "{question}" + SUMMARY + "{summary}"
PROMPTS = {
    "entities": ENTITY_HEAD + _CONTEXT + SEGMENT + "{segment}" + GUIDE + "\n* {question} ..." + ENTITY_TAIL,
    "relations": RELATION_HEAD + _CONTEXT + SEGMENT + "{segment}" + ENTITIES + "..." + GUIDE + "..." + RELATION_TAIL,
    "questions": DOUBT_HEAD + SUMMARY + "{summary}" + SEGMENT + "..." + ENTITIES + "..." + RELATIONS + DOUBT_TAIL,
    "fusion, questions": FUSE_HEAD + _CONTEXT + FUSE_PART + "..." + FUSE_RELATION + "..." + FUSE_QUESTIONS,
    "fusion, relation": FUSE_TAIL,
    "ask": ASK_HEAD + "\n\n{segment} ..." + QUESTION + "{question}" + ASK_TAIL,
    "entity trial": TRIAL_HEAD + "..." + QUESTION + "..." + REASON + "..." + CHOSEN + "..." + OTHERS + TRIAL_TAIL,
    "elaborated question": ELABORATE_HEAD + QUESTION + "..." + ENTITIES + "..." + RELATIONS + "..." + ELABORATE_TAIL,
}


class Relation(NamedTuple):
    """What one part says of a pair: its text, and the relation's."""

    segment: str
    text: str


def asked(question: Question) -> str:
    """The question with its lettered options, as the shared reading prompt shows them."""
    options = "".join(f"\n({chr(65 + i)}) {o}" for i, o in enumerate(question.options or ()))
    return question.text + ("\nOptions:" + options if options else "")


def marked(segment: str, names: Sequence[str]) -> str:
    """The segment with each occurrence of a name in brackets; longer names go first, and none is marked inside one.

    An occurrence is what merge.places takes for one: no part of a longer word, where the script parts its words.
    """
    known = sorted({name for name in names if name}, key=lambda name: (-len(name), name))
    found: dict[int, int] = {}
    inside: set[int] = set()
    for name in known:
        for at in places(name, segment):
            here = range(at, at + len(name))
            if inside.isdisjoint(here):
                found[at] = here.stop
                inside.update(here)
    pieces, end = [], 0
    for start, stop in sorted(found.items()):
        pieces += [segment[end:start], f"[{segment[start:stop]}]"]
        end = stop
    return "".join([*pieces, segment[end:]])


def entities(question: Question, summary: str, segment: str, guide: Sequence[str]) -> list[str]:
    """Ask for the entities of a segment."""
    return [ENTITY_HEAD, *_context(question, summary), SEGMENT, segment, *_guide(guide), ENTITY_TAIL]


def relations(question: Question, summary: str, segment: str, names: Sequence[str], guide: Sequence[str]) -> list[str]:
    """Ask for the relations between the entities `names` of a segment."""
    middle = [SEGMENT, marked(segment, names), ENTITIES, *_lines(names), *_guide(guide)]
    return [RELATION_HEAD, *_context(question, summary), *middle, RELATION_TAIL]


def questions(summary: str, segment: str, names: Sequence[str], told: Sequence[str], count: int) -> list[str]:
    """Ask for questions about a segment's graph; told: its relations as "a | b | text"."""
    graph = [ENTITIES, *_lines(names), RELATIONS, *_lines(told)]
    return [DOUBT_HEAD, SUMMARY, summary, SEGMENT, segment, *graph, DOUBT_TAIL.format(count=count)]


def fuse(question: Question, summary: str, first: Relation, second: Relation, count: int) -> list[str]:
    """Ask what has to be clear before two relations of one pair are merged; FUSE_TAIL is the turn after that."""
    parts = [
        piece
        for number, one in enumerate((first, second), 1)
        for piece in (FUSE_PART.format(number=number), one.segment, FUSE_RELATION.format(number=number), one.text)
    ]
    return [FUSE_HEAD, *_context(question, summary), *parts, FUSE_QUESTIONS.format(count=count)]


def ask(question: Question, segments: Sequence[str], instruction: str) -> list[str]:
    """Ask for the answer, or for what is missing in the segments."""
    tail = ASK_TAIL.format(instruction=instruction)
    return [ASK_HEAD, *_texts(segments), QUESTION, asked(question), tail]


def trial(
    question: Question, segments: Sequence[str], reason: str, chosen: Sequence[str], others: Sequence[str]
) -> list[str]:
    """Ask for an updated set of entities."""
    why = [REASON, reason] if reason else []
    sets = [CHOSEN, *_lines(chosen), OTHERS, *_lines(others)]
    return [TRIAL_HEAD, *_texts(segments), QUESTION, asked(question), *why, *sets, TRIAL_TAIL]


def elaborate(question: Question, names: Sequence[str], told: Sequence[str]) -> list[str]:
    """Ask for an elaborated question; told: the relations that were reached."""
    graph = [ENTITIES, *_lines(names), RELATIONS, *_lines(told)]
    return [ELABORATE_HEAD, QUESTION, asked(question), *graph, ELABORATE_TAIL]


def _context(question: Question, summary: str) -> list[str]:
    return [QUESTION, asked(question), *([SUMMARY, summary] if summary else [])]


def _guide(guide: Sequence[str]) -> list[str]:
    return [GUIDE, *_lines(guide)] if guide else []


def _lines(texts: Sequence[str]) -> list[str]:
    return [piece for text in texts or ("none",) for piece in ("\n* ", text)]


def _texts(segments: Sequence[str]) -> list[str]:
    return [piece for segment in segments for piece in ("\n\n", segment)]
