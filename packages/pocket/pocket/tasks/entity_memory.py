"""Scenes of an entity memory: build a graph from segments, and name what a text lacks.

"entities"    texts: summary, questions, segment               reply: "* name" for each thing the facts name
"relations"   texts: summary, entities, questions, segment     reply: "* name | name | sentence" for each fact of two
"doubts"      texts: summary, segment, entities, relations     reply: "* question" about facts, those without a
                                                               relation first
"fusion"      texts: summary, segment, relation, segment, relation    replies: "* question" ..., the merged sentence
"reflection"  texts: segments     reply: "Reasoning: known facts, missing facts\\nAction: -1", or -2 and an answer
"trial"       texts: reason, entities, other entities, segments       reply: "* name": those the proof has reached
"elaborated"  texts: entities, relations        reply: "* question": what is left to ask after the relations
"decomposed"  texts: none                       reply: "* question" for each step; "#1" stands for the first answer
"lookup"      texts: summaries of pages         reply: "Pages: 0, 2", those with the facts that are needed
"pause"       texts: numbers ("" for none) and units in turn   reply: "Break: 4", where the subject changes first

Lists are one text, a line an item. The facts alone decide what is right.
"""

from collections.abc import Iterator, Sequence

from harness_training.tasks import Scene

from harness.datasets.syllables import ENDINGS
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
    plain,
    proves,
    question_of,
    remove_fact,
)
from pocket.world.fact_proofs import INVERSE, Fact, Path, Query, paths
from pocket.world.facts_and_distractors import Asked
from pocket.world.templates import Schema, schema

_MOST = 4  # questions about a segment
_TRIES = 4  # questions drawn for each one needed
_LACKING = 0.3  # share of questions that lose a fact they need


def entities(recipe: Recipe, shown: Shown, dice: Dice) -> Iterator[Scene]:
    """Scenes that ask for the things which a segment's facts name."""
    for question, text, part in _segments(recipe, shown, dice):
        guide = _questions_of(part, shown, dice)[:_MOST] if dice.chance(0.5) else []
        entity_names = sorted(names_of(part, shown), key=text.find)  # an order that can be copied
        yield _scene(
            question, shown, (_topic(shown, dice), "\n".join(guide), text), _as_list(entity_names)
        )


def relations(recipe: Recipe, shown: Shown, dice: Dice) -> Iterator[Scene]:
    """Scenes that ask for the facts of a segment which relate two things."""
    for question, text, part in _segments(recipe, shown, dice):
        guide = _questions_of(part, shown, dice)[:_MOST] if dice.chance(0.5) else []
        texts = (_topic(shown, dice), "\n".join(names_of(part, shown)), "\n".join(guide), text)
        yield _scene(question, shown, texts, _as_list(_triples(part, shown)))


def doubts(recipe: Recipe, shown: Shown, dice: Dice) -> Iterator[Scene]:
    """Scenes that ask for questions about facts of a segment, first those that its relations do not
    tell yet."""
    for question, text, part in _segments(recipe, shown, dice):
        pairs = _relating(part, shown)
        shown_pairs = pairs[: dice.between(0, len(pairs))]
        left = [fact for fact in part if fact not in shown_pairs]
        questions = (_questions_of(tuple(left), shown, dice) or _questions_of(part, shown, dice))[
            :_MOST
        ]
        texts = (
            _topic(shown, dice),
            text,
            "\n".join(names_of(part, shown)),
            "\n".join(_triples(tuple(shown_pairs), shown)),
        )
        yield _scene(question, shown, texts, _as_list(questions))


def fusion(recipe: Recipe, shown: Shown, dice: Dice) -> Iterator[Scene]:
    """Scenes that merge two relations of one pair: into a sentence where both tell one fact, else
    into two."""
    words = schema(shown.schema)
    for question, text, part in _segments(recipe, shown, dice):
        pairs = _relating(part, shown)
        if not pairs:
            continue
        fact = dice.pick(pairs)
        relation = words.relations[fact.relation]
        alike = [
            r
            for r in words.of[relation.subject]
            if r.object == relation.object and r is not relation
        ]
        other = (
            Fact(fact.subject, dice.pick(alike).name, fact.object)
            if alike and dice.chance(0.5)
            else fact
        )
        first, second = (
            plain(shown.sentences[fact], shown.schema),
            plain(words.say(other, dice), shown.schema),
        )
        merged = first if other == fact else f"{first} {second}"
        questions = _questions_of((fact, other), shown, dice)
        texts = (_topic(shown, dice), text, first, second, second)
        yield _scene(question, shown, texts, _as_list(questions), merged)


def reflection(recipe: Recipe, shown: Shown, dice: Dice) -> Iterator[Scene]:
    """Scenes that ask for the known and the missing facts of a question; the answer if none is
    missing."""
    parts = [(text.strip(), facts) for text, facts in zip(shown.texts, shown.stated, strict=True)]
    every = list(ask_about(recipe, shown, dice))
    for question in every:  # before the first scene, so that all scenes share one text
        if question.supports and dice.chance(_LACKING):
            missing = dice.pick(question.supports)
            parts = [remove_fact(missing, text, facts, shown) for text, facts in parts]
    facts = tuple(fact for _, part in parts for fact in part)
    texts = tuple(text for text, _ in parts if text)
    for question in every:
        known = [fact for fact in question.supports if fact in facts]
        answer = question.answer if proves(question, facts) else None
        reason = _reasoning(question, known, answer, shown, dice)
        action = "Action: -1" if answer is None else f"Action: -2\nAnswer: {answer}"
        yield _scene(question_of(question), shown, texts, f"Reasoning: {reason}\n{action}")


def trial(recipe: Recipe, shown: Shown, dice: Dice) -> Iterator[Scene]:
    """Scenes whose text states the first fact of two: the thing it leads to is looked up next."""
    for question, path, first, middle in _two_steps(recipe, shown):
        text = in_words(
            (first, *(f for f in shown.sentences if first.subject == f.subject and f != first)),
            shown,
        )
        other_names = dice.shuffled(
            [n for n in names_of(tuple(shown.sentences), shown) if n != path.start]
        )
        reason = _reasoning(question, [first], None, shown, dice)
        texts = (reason, path.start, "\n".join(other_names), text)
        yield _scene(question_of(question), shown, texts, _as_list([path.start, middle]))


def elaborated(recipe: Recipe, shown: Shown, dice: Dice) -> Iterator[Scene]:
    """Scenes whose relation tells the first fact of two: the reply asks about the second one."""
    words = schema(shown.schema)
    for question, path, first, middle in _two_steps(recipe, shown):
        next_question = words.ask(Path(middle, path.steps[1:]), dice)
        lines = [
            f"{first.subject} ; {plain(shown.sentences[first], shown.schema)} ; {first.object}"
        ]
        texts = ("\n".join([path.start, middle]), "\n".join(lines))
        yield _scene(question_of(question), shown, texts, _as_list([next_question]))


def decomposed(recipe: Recipe, shown: Shown, dice: Dice) -> Iterator[Scene]:
    """Scenes that ask for a question for each step, in turn or one for each of two that are
    compared."""
    words = schema(shown.schema)
    for question in ask_about(recipe, shown, dice):
        questions: list[str] = [question.text]
        steps = [step for path in paths(question.query) for step in path.steps]
        if len(steps) > 1:
            if not all(_can_ask(step, words) for step in steps):
                continue
            questions = []
            for path in paths(question.query):
                here = path.start
                for step in path.steps:
                    questions.append(words.ask(Path(here, (step,)), dice))
                    here = f"#{len(questions)}"
        yield _scene(question_of(question), shown, (), _as_list(questions))


def lookup(recipe: Recipe, shown: Shown, dice: Dice) -> Iterator[Scene]:
    """Scenes with summaries of pages: which pages have a fact that the answer needs?"""
    facts = list(shown.sentences)
    count = min(len(facts), dice.between(2, 6))
    pages = [
        tuple(facts[len(facts) * i // count : len(facts) * (i + 1) // count]) for i in range(count)
    ]
    for question in ask_about(recipe, shown, dice):
        right = [i for i, page in enumerate(pages) if set(page) & set(question.supports)]
        if right:
            texts = tuple(in_words(page, shown) for page in pages)
            yield _scene(
                question_of(question), shown, texts, "Pages: " + ", ".join(map(str, right))
            )


def pause(_recipe: Recipe, shown: Shown, dice: Dice) -> Iterator[Scene]:
    """A scene with numbered sentences: behind which number does another subject begin?"""
    order: dict[str, int] = {}
    facts = sorted(shown.sentences, key=lambda fact: order.setdefault(fact.subject, len(order)))
    if len(facts) < 3:
        return
    least = dice.between(1, max(1, len(facts) // 2))
    changes = [i for i in range(least, len(facts)) if facts[i].subject != facts[i - 1].subject]
    right = changes[0] if changes else len(facts)
    texts: list[str] = []
    for i, fact in enumerate(facts):
        texts += [str(i) if i >= least else "", plain(shown.sentences[fact], shown.schema)]
    texts += [str(len(facts)), ""]
    yield _scene(Question("scene", "", ("scene",)), shown, tuple(texts), f"Break: {right}")


def _scene(question: Question, shown: Shown, texts: tuple[str, ...], *replies: str) -> Scene:
    return Scene(question, texts, scenes.task_of(shown.kind), replies)


def _segments(recipe: Recipe, shown: Shown, dice: Dice) -> Iterator[tuple[Question, str, Part]]:
    """Yield (question about the text, text of a random part, the facts in it); parts without facts
    are left out."""
    parts = [
        (text.strip(), facts)
        for text, facts in zip(shown.texts, shown.stated, strict=True)
        if facts
    ]
    for question in ask_about(recipe, shown, dice) if parts else ():
        text, facts = dice.pick(parts)
        yield question_of(question), text, facts


def _topic(shown: Shown, dice: Dice) -> str:
    """A made-up summary of the whole text: a sentence about some of its subjects."""
    names = list(dict.fromkeys(fact.subject for fact in shown.sentences))
    return scenes.about_sentence(names[: dice.between(1, 2 * scenes.GROUP)])


def _as_list(items: Sequence[str]) -> str:
    return "\n".join(f"* {item}" for item in items) or "none"


def _relating(part: Sequence[Fact], shown: Shown) -> list[Fact]:
    """The facts whose object is a thing with a name, not a value such as a year."""
    relations_ = schema(shown.schema).relations
    return [fact for fact in part if relations_[fact.relation].object in ENDINGS]


def _triples(part: Sequence[Fact], shown: Shown) -> list[str]:
    return [
        f"{f.subject} | {f.object} | {plain(shown.sentences[f], shown.schema)}"
        for f in _relating(part, shown)
    ]


def _questions_of(part: Sequence[Fact], shown: Shown, dice: Dice) -> list[str]:
    """A question that each fact answers, none twice; those whose relation has none are left out."""
    words = schema(shown.schema)
    asked = [
        Path(fact.subject, (fact.relation,)) for fact in part if _can_ask(fact.relation, words)
    ]
    return list(dict.fromkeys(words.ask(path, dice) for path in asked))


def _can_ask(step: str, words: Schema) -> bool:
    return ("!" if step.startswith(INVERSE) else "?") in words.relations[
        step.removeprefix(INVERSE)
    ].lines


def _two_steps(recipe: Recipe, shown: Shown) -> Iterator[tuple[Asked, Path, Fact, str]]:
    """(question, its path, its first fact, the thing that fact leads to) for questions of two
    steps, none twice."""
    words = schema(shown.schema)
    seen: set[Query] = set()
    for _ in range(recipe.questions * _TRIES if shown.asker.facts else 0):
        question = shown.asker.two()
        if question is None or question.query in seen or len(seen) == recipe.questions:
            continue
        assert isinstance(question.query, Path)  # as of every question of two hops
        path, first = question.query, question.supports[0]
        if _can_ask(path.steps[1], words):
            seen.add(path)
            yield (
                question,
                path,
                first,
                first.subject if path.steps[0].startswith(INVERSE) else first.object,
            )


def _reasoning(
    question: Asked, known: Sequence[Fact], answer: str | None, shown: Shown, dice: Dice
) -> str:
    """The sentences of the facts `known`; where `answer` is None, also the first question that the
    text leaves open."""
    sentences = [plain(shown.sentences[fact], shown.schema) for fact in known]
    if answer is None:
        sentences.append(f"The text does not say: {_open_question(question, known, shown, dice)}")
    return " ".join(sentences) or "The text says so."


def _open_question(question: Asked, known: Sequence[Fact], shown: Shown, dice: Dice) -> str:
    """The first step that no known fact takes, as a question; the whole question where it has no
    words of its own."""
    words = schema(shown.schema)
    for path in paths(question.query):
        here = path.start
        for step in path.steps:
            back = step.startswith(INVERSE)
            name = step.removeprefix(INVERSE)
            ends = [
                (f.object, f.subject) if back else (f.subject, f.object)
                for f in known
                if f.relation == name
            ]
            onward = [there for start, there in ends if start == here]
            if not onward:
                return (
                    words.ask(Path(here, (step,)), dice) if _can_ask(step, words) else question.text
                )
            here = onward[0]
    return question.text
