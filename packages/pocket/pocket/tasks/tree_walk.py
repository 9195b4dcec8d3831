"""Scenes of a walk down a tree of summaries: what the parents say, which part to go into, whether a
segment answers.

"shortened"   texts: summaries of consecutive parts           reply: "About A, B and C. About D." (a sentence a part)
"triage"      texts: working memory, then summaries           reply: "Action: 2", the part with the first missing fact
"leaf"        texts: working memory, then a segment           reply: "Action: -2\\nAnswer: x", or "Action: -1"

A summary of a segment tells its facts; one of several parts names what they are about. The working
memory is one text, a line for each summary in it, "" where there is none. Which part is right is
decided by the facts alone: a scene in which the summaries do not show it is not made.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from harness_training.tasks import Scene

from harness.stats.rng import Dice
from harness.types import Question
from pocket.tasks import scenes
from pocket.tasks.recipes import Recipe
from pocket.tasks.shown_text import (
    Part,
    Shown,
    ask_about,
    in_words,
    names_of,
    proves,
    question_of,
    remove_fact,
)
from pocket.world.fact_proofs import paths
from pocket.world.questions import Asker

_PARTS = 9  # summaries to choose from at most
_LOST = (
    0.4  # share of segments from which facts are taken out, and of questions that lose one there
)


def shortened(_recipe: Recipe, shown: Shown, dice: Dice) -> Iterator[Scene]:
    """A scene with summaries of the parts; the reply has a sentence for each part that names what
    it is about."""
    parts = _parts(shown, dice)
    if not parts:
        return
    high = dice.chance(0.4)
    texts = tuple(
        _about_parts(_halves(part), shown) if high else in_words(part, shown) for part in parts
    )
    reply = _about_parts(parts, shown)
    yield Scene(Question("scene", "", ("scene",)), texts, scenes.task_of(shown.kind), (reply,))


def triage(recipe: Recipe, shown: Shown, dice: Dice) -> Iterator[Scene]:
    """Scenes that ask which part to read next: that of the first fact which the memory lacks."""
    left = _parts(shown, dice)
    remembered: Part = ()
    memory = [_about_parts(left, shown)] if left and dice.chance(0.4) else []
    if len(left) > 2 and dice.chance(0.5):
        remembered = left.pop(dice.below(len(left)))
        memory.append(in_words(remembered, shown))
    if len(left) < 2:
        return
    named = dice.chance(0.4)
    summaries = [
        _about_parts(_halves(part), shown) if named else in_words(part, shown) for part in left
    ]
    for question in ask_about(recipe, shown, dice):
        lacking = [fact for fact in question.supports if fact not in remembered]
        right = [i for i, part in enumerate(left) if lacking and lacking[0] in part]
        if (
            right and named
        ):  # the part must be the only one that names an end of the fact which is known already
            starts = {path.start for path in paths(question.query)}
            starts.update(end for fact in remembered for end in (fact.subject, fact.object))
            starts &= {lacking[0].subject, lacking[0].object}
            if [i for i, part in enumerate(left) if starts & set(names_of(part, shown))] != right:
                continue
        if right:
            texts = ("\n".join(memory), *summaries)
            yield Scene(
                question_of(question), texts, scenes.task_of(shown.kind), (f"Action: {right[0]}",)
            )


def leaf(recipe: Recipe, shown: Shown, dice: Dice) -> Iterator[Scene]:
    """A part of the text as a segment; its answer, where the segment and the memory prove it.

    The parts and the memory are the same for all questions about the text. Half of the questions
    are about what the segment and the memory say: of questions about the whole text most have no
    answer there, and a model trained on those alone refused segments that held the answer (58 of
    100 in its exam).
    """
    parts = [(text.strip(), facts) for text, facts in zip(shown.texts, shown.stated, strict=True)]
    stating = [i for i, (_, facts) in enumerate(parts) if facts]
    if not stating:
        return
    number = dice.pick(stating)
    text, facts = parts[number]
    other_parts = [part for i, (_, part) in enumerate(parts) if i != number and part]
    remembered = dice.pick(other_parts) if other_parts and dice.chance(0.6) else ()
    memory = (
        [_about_parts([*other_parts, facts], shown)] if other_parts and dice.chance(0.5) else []
    )
    memory += [in_words(remembered, shown)] if remembered else []
    near = replace(shown, asker=Asker(shown.schema, [*remembered, *facts], dice))
    half = recipe.model_copy(update={"questions": max(1, recipe.questions // 2)})
    every = {
        question.query: question
        for about in (near, shown)
        for question in ask_about(half, about, dice)
    }
    questions = dice.shuffled(list(every.values()))[: recipe.questions]
    for question in questions if dice.chance(_LOST) else ():
        if question.supports and dice.chance(_LOST):
            text, facts = remove_fact(dice.pick(question.supports), text, facts, shown)
    for question in questions:
        answer = question.answer if proves(question, (*remembered, *facts)) else None
        reply = "Action: -1" if answer is None else f"Action: -2\nAnswer: {answer}"
        yield Scene(
            question_of(question), ("\n".join(memory), text), scenes.task_of(shown.kind), (reply,)
        )


def _parts(shown: Shown, dice: Dice) -> list[Part]:
    """The facts of the text's parts, where it has some; else of 2 to 9 parts of about equal
    size."""
    parts = [facts for facts in shown.stated if facts]
    if 2 <= len(parts) <= _PARTS:
        return parts
    facts = [fact for part in parts for fact in part]
    count = min(len(facts), dice.between(2, _PARTS))
    return [
        tuple(facts[len(facts) * i // count : len(facts) * (i + 1) // count]) for i in range(count)
    ]


def _halves(part: Part) -> list[Part]:
    """A part cut in two, as the parts under a higher node; only halves with a fact."""
    middle = (len(part) + 1) // 2
    return [half for half in (part[:middle], part[middle:]) if half]


def _about_parts(parts: Sequence[Part], shown: Shown) -> str:
    """ "About A and B. About C.": a sentence for each part with what it names."""
    return " ".join(scenes.about_sentence(names_of(part, shown)) for part in parts)
