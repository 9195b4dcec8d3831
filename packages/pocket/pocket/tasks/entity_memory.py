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

Lists are one text, a line an item. The facts alone decide what is right. Each function that yields
scenes is a pocket.tasks.catalog.SceneMaker.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

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
    cut_into,
    in_words,
    names_of,
    plain,
    proves,
    question_of,
    remove_fact,
)
from pocket.world.fact_proofs import INVERSE, Fact, FactBase, Path, Query, paths_of
from pocket.world.facts_and_distractors import Asked
from pocket.world.templates import Schema, schema

_MOST_QUESTIONS = 4  # questions about a segment
_TRIES = 4  # questions drawn for each one needed
_LACKING = 0.3  # share of questions that lose a fact they need


def entities(recipe: Recipe, shown: Shown, dice: Dice) -> Iterator[Scene]:
    """Scenes that ask for the things that the facts of a segment name. The texts are a summary of
    the whole text, questions that guide the reading, and the segment; the reply is "* Toren", a
    line for each thing.

    Args:
        recipe: Says how many questions, and of which kinds.
        shown: The text.
        dice: Draws segments and questions.
    """
    for segment in _segments(recipe, shown, dice):
        guide = _guide(segment.facts, shown, dice)
        # An order that can be copied.
        entity_names = sorted(names_of(segment.facts, shown), key=segment.text.find)
        texts = (_topic(shown, dice), guide, segment.text)
        yield _scene(segment.question, shown, texts, _as_list(entity_names))


def _guide(part: Part, shown: Shown, dice: Dice) -> str:
    """Questions about a segment, a line each, that guide what is read out of it; "" in half of the
    scenes.

    Args:
        part: The facts of the segment.
        shown: The text.
        dice: Draws the questions.
    """
    if not dice.chance(0.5):
        return ""
    return "\n".join(_questions_of(part, shown, dice)[:_MOST_QUESTIONS])


def relations(recipe: Recipe, shown: Shown, dice: Dice) -> Iterator[Scene]:
    """Scenes that ask for the facts of a segment that relate two things. The texts are a summary,
    the things, questions that guide the reading, and the segment; the reply is "* Toren | Kelford |
    Toren was born in Kelford.", a line for each fact.

    Args:
        recipe: Says how many questions, and of which kinds.
        shown: The text.
        dice: Draws segments and questions.
    """
    for segment in _segments(recipe, shown, dice):
        guide = _guide(segment.facts, shown, dice)
        entity_names = "\n".join(names_of(segment.facts, shown))
        texts = (_topic(shown, dice), entity_names, guide, segment.text)
        triples = _as_list(_triples(segment.facts, shown))
        yield _scene(segment.question, shown, texts, triples)


def doubts(recipe: Recipe, shown: Shown, dice: Dice) -> Iterator[Scene]:
    """Scenes that show some relations of a segment, and ask for questions about its other facts;
    about all its facts where these have no question. The texts are a summary, the segment, the
    things, and the relations; the reply is "* Who ...?", a line for each question.

    Args:
        recipe: Says how many questions, and of which kinds.
        shown: The text.
        dice: Draws segments, relations and questions.
    """
    for segment in _segments(recipe, shown, dice):
        part = segment.facts
        pairs = _relating(part, shown)
        shown_pairs = pairs[: dice.between(0, len(pairs))]
        left = [fact for fact in part if fact not in shown_pairs]
        questions = _questions_of(tuple(left), shown, dice)
        if not questions:
            questions = _questions_of(part, shown, dice)
        topic = _topic(shown, dice)
        entity_names = "\n".join(names_of(part, shown))
        triples = "\n".join(_triples(tuple(shown_pairs), shown))
        texts = (topic, segment.text, entity_names, triples)
        yield _scene(segment.question, shown, texts, _as_list(questions[:_MOST_QUESTIONS]))


def fusion(recipe: Recipe, shown: Shown, dice: Dice) -> Iterator[Scene]:
    """Scenes that merge two relations of the same two things: into one sentence where both tell the
    same fact, else into two. The texts are a summary, then a segment and a relation twice; the
    first reply is questions that the relations answer, the second the merged text.

    Args:
        recipe: Says how many questions, and of which kinds.
        shown: The text.
        dice: Draws segments and relations.
    """
    words = schema(shown.schema)
    for segment in _segments(recipe, shown, dice):
        pairs = _relating(segment.facts, shown)
        if not pairs:
            continue
        fact = dice.pick(pairs)
        other = _other_relation(fact, words, dice)
        first = plain(shown.sentences[fact], shown.schema)
        second = plain(words.sentence_for(other, dice), shown.schema)
        merged = first
        if other != fact:
            merged = f"{first} {second}"
        questions = _questions_of((fact, other), shown, dice)
        # The second segment is the second sentence alone.
        texts = (_topic(shown, dice), segment.text, first, second, second)
        yield _scene(segment.question, shown, texts, _as_list(questions), merged)


def _other_relation(fact: Fact, words: Schema, dice: Dice) -> Fact:
    """A made-up fact with another relation between the same two things; in half of the scenes, or
    where there is no such relation, the fact itself.

    Args:
        fact: The fact.
        words: The schema of the text, with its relations.
        dice: Draws the relation.
    """
    relation = words.relations[fact.relation]
    others = [r for r in words.relations_from[relation.subject] if r.object == relation.object]
    others.remove(relation)
    if not others or not dice.chance(0.5):
        return fact
    return Fact(fact.subject, dice.pick(others).name, fact.object)


def reflection(recipe: Recipe, shown: Shown, dice: Dice) -> Iterator[Scene]:
    """Scenes that ask what is known and what is missing to answer a question; and for the answer,
    if nothing is missing. The texts are the parts of the text, which lack a fact that some of the
    questions need; the reply is "Reasoning: ...", then "Action: -1", or "Action: -2" and the
    answer.

    Args:
        recipe: Says how many questions, and of which kinds.
        shown: The text.
        dice: Draws questions and missing facts.
    """
    texts = [text.strip() for text in shown.texts]
    stated = list(shown.stated)
    questions = list(ask_about(recipe, shown, dice))
    for question in questions:  # before the first scene, so that all scenes share one text
        if not question.supports or not dice.chance(_LACKING):
            continue
        missing = dice.pick(question.supports)
        for i in range(len(texts)):
            texts[i], stated[i] = remove_fact(missing, texts[i], stated[i], shown)
    facts = tuple(chain.from_iterable(stated))
    shown_texts = tuple(filter(None, texts))
    for question in questions:
        known = [fact for fact in question.supports if fact in facts]
        answer: str | None = None
        action = "Action: -1"
        if proves(question, facts):
            answer = question.answer
            action = f"Action: -2\nAnswer: {answer}"
        reason = _reasoning(question, known, answer, shown, dice)
        yield _scene(question_of(question), shown, shown_texts, f"Reasoning: {reason}\n{action}")


def trial(recipe: Recipe, shown: Shown, dice: Dice) -> Iterator[Scene]:
    """Scenes of a question of two steps, whose text states the fact of the first step. The texts
    are what is known and missing, the thing that the question names, other things, and the text;
    the reply names the things that the proof has reached, the start and what the first fact leads
    to.

    Args:
        recipe: Says how many questions.
        shown: The text.
        dice: Draws the order of the other things.
    """
    for two in _two_steps(recipe, shown):
        about_subject = [fact for fact in shown.sentences if fact.subject == two.first.subject]
        about_subject.remove(two.first)
        text = in_words([two.first, *about_subject], shown)
        other_names = names_of(tuple(shown.sentences), shown)
        if two.start in other_names:
            other_names.remove(two.start)
        others = "\n".join(dice.shuffled(other_names))
        reason = _reasoning(two.question, [two.first], None, shown, dice)
        reply = _as_list([two.start, two.middle])
        yield _scene(question_of(two.question), shown, (reason, two.start, others, text), reply)


def elaborated(recipe: Recipe, shown: Shown, dice: Dice) -> Iterator[Scene]:
    """Scenes of a question of two steps, with a relation that tells the fact of the first step. The
    texts are the things and the relation; the reply is a question for the second step.

    Args:
        recipe: Says how many questions.
        shown: The text.
        dice: Draws the wording.
    """
    words = schema(shown.schema)
    for two in _two_steps(recipe, shown):
        next_question = words.question_for(Path(two.middle, two.path.steps[1:]), dice)
        first = two.first
        sentence = plain(shown.sentences[first], shown.schema)
        entity_names = "\n".join([two.start, two.middle])
        texts = (entity_names, f"{first.subject} ; {sentence} ; {first.object}")
        yield _scene(question_of(two.question), shown, texts, _as_list([next_question]))


def decomposed(recipe: Recipe, shown: Shown, dice: Dice) -> Iterator[Scene]:
    """Scenes that ask to split a question into one question for each step; one of a single step
    stays as it is. There are no texts; the reply is "* Who wrote Velindra?", a line for each step.

    Args:
        recipe: Says how many questions, and of which kinds.
        shown: The text.
        dice: Draws questions and wording.
    """
    words = schema(shown.schema)
    for question in ask_about(recipe, shown, dice):
        query_paths = paths_of(question.query)
        steps = list(chain.from_iterable(path.steps for path in query_paths))
        questions = [question.text]
        if len(steps) > 1:
            if not all(_can_ask(step, words) for step in steps):
                continue
            questions = _questions_of_steps(query_paths, words, dice)
        yield _scene(question_of(question), shown, (), _as_list(questions))


def _questions_of_steps(query_paths: Sequence[Path], words: Schema, dice: Dice) -> list[str]:
    """A question for each step, in order, where "#1" stands for the answer to the first:

        ["Who wrote Velindra?", "Where was #1 born?"]

    Args:
        query_paths: The path of the question, or both of a comparison.
        words: The schema of the text, with its relations.
        dice: Draws the wording.
    """
    questions: list[str] = []
    for path in query_paths:
        here = path.start
        for step in path.steps:
            questions.append(words.question_for(Path(here, (step,)), dice))
            here = f"#{len(questions)}"
    return questions


def lookup(recipe: Recipe, shown: Shown, dice: Dice) -> Iterator[Scene]:
    """Scenes that show summaries of pages, and ask which pages have a fact that the answer needs:
    the reply is "Pages: 0, 2".

    Args:
        recipe: Says how many questions, and of which kinds.
        shown: The text.
        dice: Draws pages and questions.
    """
    facts = list(shown.sentences)
    pages = cut_into(facts, min(len(facts), dice.between(2, 6)))
    texts = tuple(map(partial(in_words, shown=shown), pages))
    for question in ask_about(recipe, shown, dice):
        needed = set(question.supports)
        right = [str(i) for i, page in enumerate(pages) if needed.intersection(page)]
        if right:
            yield _scene(question_of(question), shown, texts, f"Pages: {', '.join(right)}")


def pause(_recipe: Recipe, shown: Shown, dice: Dice) -> Iterator[Scene]:
    """A scene with the sentences of the text, grouped by subject, and from some sentence on a
    number before each. The texts are number ("" for none) and sentence in turn. The reply, "Break:
    4", is the first shown number at which another subject begins, or the number after the last
    sentence. There is no scene for fewer than three facts.

    Args:
        _recipe: Not used; every maker of scenes has the same parameters.
        shown: The text.
        dice: Draws the first number that is shown.
    """
    by_subject: dict[str, list[Fact]] = {}
    for fact in shown.sentences:
        by_subject.setdefault(fact.subject, []).append(fact)
    facts = list(chain.from_iterable(by_subject.values()))
    if len(facts) < 3:
        return
    least = dice.between(1, max(1, len(facts) // 2))
    right = least
    while right < len(facts) and facts[right].subject == facts[right - 1].subject:
        right += 1
    texts: list[str] = []
    for i, fact in enumerate(facts):
        number = ""
        if i >= least:
            number = str(i)
        texts += [number, plain(shown.sentences[fact], shown.schema)]
    texts += [str(len(facts)), ""]
    yield _scene(Question("scene", "", ("scene",)), shown, tuple(texts), f"Break: {right}")


def _scene(question: Question, shown: Shown, texts: tuple[str, ...], *replies: str) -> Scene:
    """A scene that is answered as questions about that kind of text are.

    Args:
        question: The question.
        shown: The text, which says the kind.
        texts: The passages that the scene shows.
        *replies: The right replies, in turn.
    """
    return Scene(question, texts, scenes.task_of(shown.kind), replies)


@dataclass(frozen=True)
class _Segment:
    """A part of a text, and a question about the whole text.

    Args:
        question: The question.
        text: The text of the part.
        facts: The facts that the part states.
    """

    question: Question
    text: str
    facts: Part


def _segments(recipe: Recipe, shown: Shown, dice: Dice) -> Iterator[_Segment]:
    """Yield, for each question about the text, a random part of the text that states a fact;
    nothing where no part does.

    Args:
        recipe: Says how many questions, and of which kinds.
        shown: The text.
        dice: Draws questions and parts.
    """
    stating = [i for i, facts in enumerate(shown.stated) if facts]
    if not stating:
        return
    for question in ask_about(recipe, shown, dice):
        number = dice.pick(stating)
        text = shown.texts[number].strip()
        yield _Segment(question_of(question), text, shown.stated[number])


def _topic(shown: Shown, dice: Dice) -> str:
    """A made-up summary of the whole text: a sentence that names some of its subjects."""
    names = list(dict.fromkeys(scenes.subjects(shown)))
    return scenes.about_sentence(names[: dice.between(1, 2 * scenes.GROUP)])


def _as_list(items: Sequence[str]) -> str:
    """The items as a list with a bullet before each, a line each; "none" where there is none."""
    return "\n".join(f"* {item}" for item in items) or "none"


def _relating(part: Sequence[Fact], shown: Shown) -> list[Fact]:
    """The facts whose object is a thing with a name, not a value such as a year.

    Args:
        part: The facts.
        shown: The text that states them.
    """
    relations_ = schema(shown.schema).relations
    return [fact for fact in part if relations_[fact.relation].object in ENDINGS]


def _triples(part: Sequence[Fact], shown: Shown) -> list[str]:
    """A line for each fact of two named things: "Toren | Kelford | Toren was born in Kelford."

    Args:
        part: The facts.
        shown: The text that states them.
    """
    lines: list[str] = []
    for fact in _relating(part, shown):
        sentence = plain(shown.sentences[fact], shown.schema)
        lines.append(f"{fact.subject} | {fact.object} | {sentence}")
    return lines


def _questions_of(part: Sequence[Fact], shown: Shown, dice: Dice) -> list[str]:
    """A question for each fact that it answers, none twice; facts whose relation has no wording of
    a question are left out.

    Args:
        part: The facts.
        shown: The text.
        dice: Draws the wording.
    """
    words = schema(shown.schema)
    questions: dict[str, None] = {}
    for fact in part:
        if _can_ask(fact.relation, words):
            question = words.question_for(Path(fact.subject, (fact.relation,)), dice)
            questions[question] = None
    return list(questions)


def _can_ask(step: str, words: Schema) -> bool:
    """Whether a step can be asked for: its relation has the wording of a question for its object,
    or, for a step "^relation", for its subject.

    Args:
        step: A relation, or "^relation".
        words: The schema with the relation.
    """
    lines = words.relations[step.removeprefix(INVERSE)].lines
    if step.startswith(INVERSE):
        return "!" in lines
    return "?" in lines


@dataclass(frozen=True)
class _TwoSteps:
    """A question of two steps.

    Args:
        question: The question with its proof.
        path: Its path.
        first: The fact that its first step takes.
    """

    question: Asked
    path: Path
    first: Fact

    @property
    def start(self) -> str:
        """The thing that the question names."""
        return self.path.start

    @property
    def middle(self) -> str:
        """The thing that the first fact leads to, from which the second step goes on."""
        if self.path.steps[0].startswith(INVERSE):
            return self.first.subject
        return self.first.object


def _two_steps(recipe: Recipe, shown: Shown) -> Iterator[_TwoSteps]:
    """Yield questions of two steps about the text, none twice, at most as many as the recipe has
    questions.

    Args:
        recipe: Says how many.
        shown: The text.
    """
    if not shown.asker.facts:
        return
    words = schema(shown.schema)
    seen: set[Query] = set()
    for _ in range(recipe.questions * _TRIES):
        question = shown.asker.two()
        if question is None or question.query in seen or len(seen) == recipe.questions:
            continue
        assert isinstance(question.query, Path)  # as of every question of two hops
        path = question.query
        if _can_ask(path.steps[1], words):
            seen.add(path)
            yield _TwoSteps(question, path, question.supports[0])


def _reasoning(
    question: Asked, known: Sequence[Fact], answer: str | None, shown: Shown, dice: Dice
) -> str:
    """The reasoning of a reply: the sentences of the known facts and, without an answer, what the
    text leaves open: "Toren wrote Velindra. The text does not say: Where was Toren born?".

    Args:
        question: The question.
        known: The facts of its proof that are known.
        answer: The answer; None where the text does not prove it.
        shown: The text.
        dice: Draws the wording.
    """
    sentences = [plain(shown.sentences[fact], shown.schema) for fact in known]
    if answer is None:
        sentences.append(f"The text does not say: {_open_question(question, known, shown, dice)}")
    return " ".join(sentences) or "The text says so."


def _open_question(question: Asked, known: Sequence[Fact], shown: Shown, dice: Dice) -> str:
    """The first step of a question that no known fact takes, as a question in words; the whole
    question where the step has no wording of its own.

    Args:
        question: The question.
        known: The facts of its proof that are known.
        shown: The text.
        dice: Draws the wording.
    """
    words = schema(shown.schema)
    base = FactBase.of(known)
    for path in paths_of(question.query):
        here = path.start
        for step in path.steps:
            facts = base.facts_of_step(here, step)
            if not facts:
                if not _can_ask(step, words):
                    return question.text
                return words.question_for(Path(here, (step,)), dice)
            here = facts[0].object
            if step.startswith(INVERSE):
                here = facts[0].subject
    return question.text
