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
from pocket.tasks import scenes
from pocket.tasks.recipes import Recipe
from pocket.tasks.shown_text import (
    Facts,
    ShownText,
    cut_into_parts,
    draw_questions,
    facts_in_words,
    facts_prove_answer,
    names_in_facts,
    remove_fact,
    scene_question,
)
from pocket.world.fact_proofs import Fact, Query, paths_of_query
from pocket.world.facts_and_distractors import ProvedQuestion
from pocket.world.questions import Asker

_MAX_PARTS = 9  # summaries to choose from at most
_SHARE_LOSING_A_FACT = 0.4
"""Share of segments from which facts are taken out, and of questions that lose one there."""


def shortened(_recipe: Recipe, shown: ShownText, dice: Dice) -> Iterator[Scene]:
    """A scene with a summary of each part of the text; in two of five each summary is a list of
    names only. The reply has a sentence for each part that names what it is about: "About A and B.
    About C.".

    Args:
        _recipe: Not used; every maker of scenes has the same parameters.
        shown: The text.
        dice: Draws parts and the form of the summaries.
    """
    parts = _facts_of_each_part(shown, dice)
    if not parts:
        return
    names_only = dice.chance(0.4)
    summary_of_part = _summary_writer(names_only, shown)
    texts = tuple(map(summary_of_part, parts))
    reply = _sentence_of_each_part(parts, shown)
    task = scenes.answer_task(shown.kind)
    yield Scene(scenes.NO_QUESTION, texts, task=task, replies=(reply,))


def _summary_writer(names_only: bool, shown: ShownText) -> Callable[[Facts], str]:
    """A function that writes the summary of a part: facts of the part -> text.

    Args:
        names_only: Whether a summary only names what the part is about, as one of several parts
            does; else it tells its facts.
        shown: The text.
    """
    if names_only:
        return partial(_sentence_of_each_half, shown=shown)
    return partial(facts_in_words, shown=shown)


def triage(recipe: Recipe, shown: ShownText, dice: Dice) -> Iterator[Scene]:
    """Scenes that ask which part of the text to read next: the part with the first fact of the
    proof that the memory lacks. The texts are the working memory ("" for an empty one), then a
    summary of each part; the reply is "Action: 2" for the part of number 2, from 0.

    The memory may hold what the parts are about, and the facts of one part that is read already.
    Where summaries are lists of names, a question is passed over unless exactly the right parts
    name what leads to the missing fact.

    Args:
        recipe: Says how many questions, and of which kinds.
        shown: The text.
        dice: Draws parts, memory and questions.
    """
    unread_parts = _facts_of_each_part(shown, dice)
    remembered: Facts = ()
    memory_lines: list[str] = []
    if unread_parts and dice.chance(0.4):
        memory_lines.append(_sentence_of_each_part(unread_parts, shown))
    if len(unread_parts) > 2 and dice.chance(0.5):
        remembered = unread_parts.pop(dice.below(len(unread_parts)))
        memory_lines.append(facts_in_words(remembered, shown))
    if len(unread_parts) < 2:
        return
    names_only = dice.chance(0.4)
    summary_of_part = _summary_writer(names_only, shown)
    texts = ("\n".join(memory_lines), *map(summary_of_part, unread_parts))
    for question in draw_questions(recipe, shown, dice):
        missing_fact = next((fact for fact in question.supports if fact not in remembered), None)
        if missing_fact is None:
            continue
        parts_with_fact = [i for i, part in enumerate(unread_parts) if missing_fact in part]
        if not parts_with_fact:
            continue
        if names_only:
            parts_to_choose = _parts_naming_ends_of_fact(
                unread_parts, question, remembered, missing_fact, shown
            )
            if parts_to_choose != parts_with_fact:
                continue
        reply = f"Action: {parts_with_fact[0]}"
        task = scenes.answer_task(shown.kind)
        yield Scene(scene_question(question), texts, task=task, replies=(reply,))


def _parts_naming_ends_of_fact(
    parts: Sequence[Facts],
    question: ProvedQuestion,
    remembered: Facts,
    missing_fact: Fact,
    shown: ShownText,
) -> list[int]:
    """The numbers of the parts that name what leads to the missing fact: an end of it that is known
    already.

    Args:
        parts: The parts to choose from, as the facts of each.
        question: The question; what it starts from is known.
        remembered: The facts in the memory, whose subjects and objects are known.
        missing_fact: The missing fact.
        shown: The text.
    """
    known_things: set[str] = set()
    for path in paths_of_query(question.query):
        known_things.add(path.start)
    for fact in remembered:
        known_things.update((fact.subject, fact.object))
    known_things &= {missing_fact.subject, missing_fact.object}
    part_numbers: list[int] = []
    for i, part in enumerate(parts):
        names = names_in_facts(part, shown)
        if known_things.intersection(names):
            part_numbers.append(i)
    return part_numbers


def leaf(recipe: Recipe, shown: ShownText, dice: Dice) -> Iterator[Scene]:
    """Scenes of a part of the text as a segment: does it answer the question, together with the
    working memory? The texts are the memory and the segment; the reply is "Action: -2" and the
    answer where the two prove it, else "Action: -1".

    The parts and the memory are the same for all questions about the text. Half of the questions
    are about what the segment and the memory say: of questions about the whole text most have no
    answer there, and a model trained on those alone refused segments that held the answer (58 of
    100 in its exam). Out of some segments a fact that a question needs is taken. The memory may
    hold what the parts are about, and the facts of another part.

    Args:
        recipe: Says how many questions, and of which kinds.
        shown: The text.
        dice: Draws segment, memory and questions.
    """
    parts_with_facts = [i for i, segment_facts in enumerate(shown.facts_by_part) if segment_facts]
    if not parts_with_facts:
        return
    segment_number = dice.pick(parts_with_facts)
    segment_text = shown.texts[segment_number].strip()
    segment_facts = shown.facts_by_part[segment_number]
    other_parts = [shown.facts_by_part[i] for i in parts_with_facts if i != segment_number]
    remembered: Facts = ()
    if other_parts and dice.chance(0.6):
        remembered = dice.pick(other_parts)
    memory_lines: list[str] = []
    if other_parts and dice.chance(0.5):
        memory_lines.append(_sentence_of_each_part([*other_parts, segment_facts], shown))
    if remembered:
        memory_lines.append(facts_in_words(remembered, shown))
    questions = _questions_half_about_facts(recipe, shown, [*remembered, *segment_facts], dice)
    if dice.chance(_SHARE_LOSING_A_FACT):
        for question in questions:
            if question.supports and dice.chance(_SHARE_LOSING_A_FACT):
                segment_text, segment_facts = remove_fact(
                    dice.pick(question.supports), segment_text, segment_facts, shown
                )
    for question in questions:
        reply = "Action: -1"
        if facts_prove_answer(question, (*remembered, *segment_facts)):
            reply = f"Action: -2\nAnswer: {question.answer}"
        texts = ("\n".join(memory_lines), segment_text)
        task = scenes.answer_task(shown.kind)
        yield Scene(scene_question(question), texts, task=task, replies=(reply,))


def _questions_half_about_facts(
    recipe: Recipe, shown: ShownText, facts: Sequence[Fact], dice: Dice
) -> list[ProvedQuestion]:
    """Questions in random order, none twice: half about certain facts, half about the whole text.

    Args:
        recipe: Says how many, and of which kinds.
        shown: The text.
        facts: The facts that half of them are about.
        dice: Draws them.
    """
    text_asked_about_facts = replace(shown, asker=Asker(shown.schema, facts, dice))
    half_recipe = recipe.model_copy(update={"questions": max(1, recipe.questions // 2)})
    question_of_query: dict[Query, ProvedQuestion] = {}
    for text in (text_asked_about_facts, shown):
        for question in draw_questions(half_recipe, text, dice):
            question_of_query[question.query] = question
    return dice.shuffled(list(question_of_query.values()))[: recipe.questions]


def _facts_of_each_part(shown: ShownText, dice: Dice) -> list[Facts]:
    """The parts of a text as the facts of each: its own parts, if there are 2 to _MAX_PARTS, else
    as many of about equal size."""
    parts = [facts for facts in shown.facts_by_part if facts]
    if 2 <= len(parts) <= _MAX_PARTS:
        return parts
    facts = list(chain.from_iterable(parts))
    count = min(len(facts), dice.between(2, _MAX_PARTS))
    return cut_into_parts(facts, count)


def _halves(part: Facts) -> list[Facts]:
    """A part, as its facts, cut into two parts of about equal size; only one where it has a single
    fact."""
    middle = (len(part) + 1) // 2
    halves = [part[:middle], part[middle:]]
    return [half for half in halves if half]


def _sentence_of_each_half(part: Facts, shown: ShownText) -> str:
    """The summary of a part that itself stands for two parts: a sentence for each half."""
    return _sentence_of_each_part(_halves(part), shown)


def _sentence_of_each_part(parts: Sequence[Facts], shown: ShownText) -> str:
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
