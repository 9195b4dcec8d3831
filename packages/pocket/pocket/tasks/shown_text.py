"""A text shown in a scene: its parts and facts, questions drawn about it, what of it proves an
answer.

for question in draw_questions(recipe, shown, dice): ...   questions about the text, none twice
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.datasets.syllables import ENDINGS
from harness.stats.rng import Dice
from harness.types import Question
from pocket.tasks.recipes import SCHEMAS, Recipe
from pocket.world.fact_proofs import Fact, FactBase, Query, prove
from pocket.world.facts_and_distractors import ProvedQuestion
from pocket.world.questions import Asker
from pocket.world.templates import OPENERS, schema


@dataclass(frozen=True)
class ShownText:
    """A made-up text as scenes show it: in parts, with the facts that each part states.

    Args:
        kind: The kind of text, one of pocket.world.sample.KINDS.
        texts: Its parts, in order.
        facts_by_part: For each part the facts that it states whole.
        sentences: Fact -> the sentence that states it.
        asker: Draws questions about the facts.
    """

    kind: str
    texts: tuple[str, ...]
    facts_by_part: tuple[tuple[Fact, ...], ...]
    sentences: Mapping[Fact, str]
    asker: Asker

    @property
    def facts(self) -> Collection[Fact]:
        """The facts that have a sentence, in the order of `sentences`."""
        return self.sentences.keys()

    @property
    def schema(self) -> str:
        """The name of the text's schema: "encyclopedia", "story" or "paper"."""
        return SCHEMAS[self.kind]


_TRIES = 2  # questions drawn for each one needed

Facts = tuple[Fact, ...]
"""The facts that a part of a text states."""


def draw_question(recipe: Recipe, shown: ShownText, dice: Dice) -> ProvedQuestion | None:
    """Draw a question about a text, of a kind that is drawn by weight; None if the text has none of
    that kind.

    Args:
        recipe: Says how often each kind is asked.
        shown: The text.
        dice: Draws the kind.
    """
    kind = dice.weighted([*recipe.ask.items()])  # "one", "two", ...
    draw_of_kind = getattr(shown.asker, kind)  # the asker has a method for each kind
    question: ProvedQuestion | None = draw_of_kind()
    return question


def draw_questions(recipe: Recipe, shown: ShownText, dice: Dice) -> Iterator[ProvedQuestion]:
    """Yield questions about a text, none twice. There may be fewer than wanted, as not every draw
    gives one.

    Args:
        recipe: Says how many there are at most, and how often each kind is asked.
        shown: The text.
        dice: Draws the kinds.
    """
    drawn_queries: set[Query] = set()
    if not shown.asker.facts:
        return
    for _ in range(recipe.questions * _TRIES):
        question = draw_question(recipe, shown, dice)
        if question is not None and question.query not in drawn_queries:
            drawn_queries.add(question.query)
            yield question
            if len(drawn_queries) == recipe.questions:
                return


def scene_question(question: ProvedQuestion, options: tuple[str, ...] | None = None) -> Question:
    """A drawn question as the Question of a scene, about the document "scene".

    Args:
        question: The drawn question.
        options: The options to choose from; None for a question without options.
    """
    return Question(id="scene", text=question.text, document_ids=("scene",), options=options)


def without_opener(sentence: str, schema_name: str) -> str:
    """A sentence without its opening phrase: "In truth, Toren sold it." -> "Toren sold it."

    Args:
        sentence: The sentence.
        schema_name: The schema whose phrases it may open with.
    """
    for opener in OPENERS[schema_name]:
        if sentence.startswith(opener):
            rest = sentence[len(opener) :]
            return rest[0].upper() + rest[1:]
    return sentence


def facts_prove_answer(question: ProvedQuestion, facts: Sequence[Fact]) -> bool:
    """Whether facts prove the answer to a question, and no other answer; never for one that the
    text does not answer.

    Args:
        question: The question.
        facts: The only facts that are known.
    """
    if question.kind == "unanswerable":
        return False
    return prove(question.query, FactBase.of(facts)) == {question.answer}


def remove_fact(fact: Fact, text: str, facts: Facts, shown: ShownText) -> tuple[str, Facts]:
    """Take a fact out of a part of a text, with its sentence.

    Args:
        fact: The fact.
        text: The part.
        facts: The facts that the part states.
        shown: The whole text, which knows the sentence of each fact.

    Returns:
        (text, facts) without it; both as they are where the part does not state it exactly once.
    """
    if fact not in facts or text.count(shown.sentences[fact]) != 1:
        return text, facts
    before, _, after = text.partition(shown.sentences[fact])
    joined = before
    if after.strip():
        joined = before.rstrip(" ") + " " + after.lstrip(" ")
    return joined.strip(), tuple(other for other in facts if other != fact)


def facts_in_words(facts: Iterable[Fact], shown: ShownText) -> str:
    """The sentences of facts in one line, without opening phrases.

    Args:
        facts: The facts.
        shown: The text that states them.
    """
    return " ".join(without_opener(shown.sentences[fact], shown.schema) for fact in facts)


def cut_into_parts(facts: Sequence[Fact], count: int) -> list[Facts]:
    """Cut facts, in order, into `count` parts of about equal size.

    facts a to e, count 2 -> [(a, b), (c, d, e)]
    """
    parts: list[Facts] = []
    for number in range(count):
        start = len(facts) * number // count
        end = len(facts) * (number + 1) // count
        parts.append(tuple(facts[start:end]))
    return parts


def names_in_facts(facts: Sequence[Fact], shown: ShownText) -> list[str]:
    """The names of the subjects and objects of facts, in order, none twice; no values such as years
    or trades.

    Args:
        facts: The facts.
        shown: The text that states them.
    """
    relations = schema(shown.schema).relations
    names: dict[str, None] = {}  # each once, in order
    for fact in facts:
        names[fact.subject] = None
        kind_of_object = relations[fact.relation].object
        if kind_of_object in ENDINGS:  # a kind whose things have names
            names[fact.object] = None
    return list(names)
