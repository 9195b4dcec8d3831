"""Scenes of a walk down a tree of summaries: what the parents say, which part to go into, whether a
segment answers.

"shortened"   texts: summaries of consecutive parts           reply: "About A, B and C. About D." (a sentence a part)
"triage"      texts: working memory, then summaries           reply: "Action: 2", the part with the first missing fact
"leaf"        texts: working memory, then a segment           reply: "Action: -2\\nAnswer: x", or "Action: -1"

A summary of a segment tells its facts; one of several parts names what they are about. The working
memory is one text, a line for each summary in it, "" where there is none. Which part is right is
decided by the facts alone: a scene in which the summaries do not show it is not made.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain

from harness_training.tasks import Scene

from harness.stats.rng import Dice
from harness.types import Question
from pocket.tasks import scenes
from pocket.tasks.recipes import Recipe
from pocket.tasks.shown_text import (
    Facts,
    ShownText,
    cut_into_parts,
    draw_questions,
    facts_in_words,
    names_in_facts,
    proves,
    remove_fact,
    scene_question,
)
from pocket.world.fact_proofs import Fact, Query, paths_of_query
from pocket.world.facts_and_distractors import ProvedQuestion
from pocket.world.questions import Asker

_PARTS = 9  # summaries to choose from at most
_LOST = 0.4
"""Share of segments from which facts are taken out, and of questions that lose one there."""


def shortened(_recipe: Recipe, shown: ShownText, dice: Dice) -> Iterator[Scene]:
    """A scene with a summary of each part of the text. The reply has a sentence for each part that
    names what it is about: "About A and B. About C.".

    Args:
        _recipe: Not used; every maker of scenes has the same parameters.
        shown: The text.
        dice: Draws parts and the form of the summaries.
    """
    parts = _parts(shown, dice)
    if not parts:
        return
    describe = _summary_writer(dice.chance(0.4), shown)
    texts = tuple(map(describe, parts))
    reply = _about_parts(parts, shown)
    yield Scene(Question("scene", "", ("scene",)), texts, scenes.answer_task(shown.kind), (reply,))


def _summary_writer(names_only: bool, shown: ShownText) -> Callable[[Facts], str]:
    """A function that writes the summary of a part: facts of the part -> text.

    Args:
        names_only: Whether a summary only names what the part is about, as one of several parts
            does; else it tells its facts.
        shown: The text.
    """
    if names_only:
        return partial(_about_halves, shown=shown)
    return partial(facts_in_words, shown=shown)


def triage(recipe: Recipe, shown: ShownText, dice: Dice) -> Iterator[Scene]:
    """Scenes that ask which part of the text to read next: the part with the first fact of the
    proof that the memory lacks. The texts are the working memory ("" for an empty one), then a
    summary of each part; the reply is "Action: 2" for the part of number 2, from 0.

    Args:
        recipe: Says how many questions, and of which kinds.
        shown: The text.
        dice: Draws parts, memory and questions.
    """
    left = _parts(shown, dice)
    remembered: Facts = ()
    memory: list[str] = []
    if left and dice.chance(0.4):
        memory.append(_about_parts(left, shown))
    if len(left) > 2 and dice.chance(0.5):
        remembered = left.pop(dice.below(len(left)))
        memory.append(facts_in_words(remembered, shown))
    if len(left) < 2:
        return
    names_only = dice.chance(0.4)
    describe = _summary_writer(names_only, shown)
    texts = ("\n".join(memory), *map(describe, left))
    for question in draw_questions(recipe, shown, dice):
        lacking = next((fact for fact in question.supports if fact not in remembered), None)
        if lacking is None:
            continue
        right = [i for i, part in enumerate(left) if lacking in part]
        if not right:
            continue
        if names_only and _named_parts(left, question, remembered, lacking, shown) != right:
            continue
        reply = f"Action: {right[0]}"
        task = scenes.answer_task(shown.kind)
        yield Scene(scene_question(question), texts, task, (reply,))


def _named_parts(
    parts: Sequence[Facts],
    question: ProvedQuestion,
    remembered: Facts,
    lacking: Fact,
    shown: ShownText,
) -> list[int]:
    """The numbers of the parts that name what leads to the missing fact: an end of it that is known
    already.

    Args:
        parts: The parts to choose from, as the facts of each.
        question: The question; what it starts from is known.
        remembered: The facts in the memory, whose subjects and objects are known.
        lacking: The missing fact.
        shown: The text.
    """
    known: set[str] = set()
    for path in paths_of_query(question.query):
        known.add(path.start)
    for fact in remembered:
        known.update((fact.subject, fact.object))
    known &= {lacking.subject, lacking.object}
    places: list[int] = []
    for i, part in enumerate(parts):
        names = names_in_facts(part, shown)
        if known.intersection(names):
            places.append(i)
    return places


def leaf(recipe: Recipe, shown: ShownText, dice: Dice) -> Iterator[Scene]:
    """Scenes of a part of the text as a segment: does it answer the question, together with the
    working memory? The texts are the memory and the segment; the reply is "Action: -2" and the
    answer where the two prove it, else "Action: -1".

    The parts and the memory are the same for all questions about the text. Half of the questions
    are about what the segment and the memory say: of questions about the whole text most have no
    answer there, and a model trained on those alone refused segments that held the answer (58 of
    100 in its exam).

    Args:
        recipe: Says how many questions, and of which kinds.
        shown: The text.
        dice: Draws segment, memory and questions.
    """
    stating = [i for i, facts in enumerate(shown.stated) if facts]
    if not stating:
        return
    number = dice.pick(stating)
    text = shown.texts[number].strip()
    facts = shown.stated[number]
    other_parts = [shown.stated[i] for i in stating if i != number]
    remembered: Facts = ()
    if other_parts and dice.chance(0.6):
        remembered = dice.pick(other_parts)
    memory: list[str] = []
    if other_parts and dice.chance(0.5):
        memory.append(_about_parts([*other_parts, facts], shown))
    if remembered:
        memory.append(facts_in_words(remembered, shown))
    questions = _questions_near(recipe, shown, [*remembered, *facts], dice)
    if dice.chance(_LOST):
        for question in questions:
            if question.supports and dice.chance(_LOST):
                text, facts = remove_fact(dice.pick(question.supports), text, facts, shown)
    for question in questions:
        reply = "Action: -1"
        if proves(question, (*remembered, *facts)):
            reply = f"Action: -2\nAnswer: {question.answer}"
        texts = ("\n".join(memory), text)
        yield Scene(scene_question(question), texts, scenes.answer_task(shown.kind), (reply,))


def _questions_near(
    recipe: Recipe, shown: ShownText, facts: Sequence[Fact], dice: Dice
) -> list[ProvedQuestion]:
    """Questions in random order, none twice: half about certain facts, half about the whole text.

    Args:
        recipe: Says how many, and of which kinds.
        shown: The text.
        facts: The facts that half of them are about.
        dice: Draws them.
    """
    near = replace(shown, asker=Asker(shown.schema, facts, dice))
    half = recipe.model_copy(update={"questions": max(1, recipe.questions // 2)})
    by_query: dict[Query, ProvedQuestion] = {}
    for about in (near, shown):
        for question in draw_questions(half, about, dice):
            by_query[question.query] = question
    return dice.shuffled(list(by_query.values()))[: recipe.questions]


def _parts(shown: ShownText, dice: Dice) -> list[Facts]:
    """The parts of a text as the facts of each: its own parts, if there are 2 to _PARTS, else as
    many of about equal size."""
    parts = [facts for facts in shown.stated if facts]
    if 2 <= len(parts) <= _PARTS:
        return parts
    facts = list(chain.from_iterable(parts))
    count = min(len(facts), dice.between(2, _PARTS))
    return cut_into_parts(facts, count)


def _halves(part: Facts) -> list[Facts]:
    """A part, as its facts, cut into two parts of about equal size; only one where it has a single
    fact."""
    middle = (len(part) + 1) // 2
    halves = [part[:middle], part[middle:]]
    return [half for half in halves if half]


def _about_halves(part: Facts, shown: ShownText) -> str:
    """The summary of a part that itself stands for two parts: a sentence for each half."""
    return _about_parts(_halves(part), shown)


def _about_parts(parts: Sequence[Facts], shown: ShownText) -> str:
    """A sentence for each part with the things that it names: "About A and B. About C.".

    Args:
        parts: The parts, as the facts of each.
        shown: The text.
    """
    sentences: list[str] = []
    for part in parts:
        names = names_in_facts(part, shown)
        sentences.append(scenes.about_sentence(names))
    return " ".join(sentences)
