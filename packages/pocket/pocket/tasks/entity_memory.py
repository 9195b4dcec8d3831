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
    Facts,
    ShownText,
    cut_into_parts,
    draw_questions,
    facts_in_words,
    facts_prove_answer,
    names_in_facts,
    remove_fact,
    scene_question,
    without_opener,
)
from pocket.world.fact_proofs import INVERSE, Fact, FactBase, Path, Query, paths_of_query
from pocket.world.facts_and_distractors import ProvedQuestion
from pocket.world.templates import Schema, schema

_MAX_QUESTIONS = 4  # questions about a segment
_DRAWS_PER_QUESTION = 4  # questions drawn for each one needed
_SHARE_LACKING_A_FACT = 0.3  # share of questions that lose a fact they need


def entities(recipe: Recipe, shown: ShownText, dice: Dice) -> Iterator[Scene]:
    """Scenes that ask for the things that the facts of a segment name. The texts are a summary of
    the whole text, questions that guide the reading, and the segment; the reply is "* Toren", a
    line for each thing.

    Args:
        recipe: Says how many questions, and of which kinds.
        shown: The text.
        dice: Draws segments and questions.
    """
    for segment in _draw_segments(recipe, shown, dice):
        guiding_questions = _guiding_questions(segment.facts, shown, dice)
        # In the order of the segment, which a model can copy.
        entity_names = sorted(names_in_facts(segment.facts, shown), key=segment.text.find)
        texts = (_made_up_summary(shown, dice), guiding_questions, segment.text)
        yield _answered_scene(segment.question, shown, texts, _bullet_list(entity_names))


def _guiding_questions(facts: Facts, shown: ShownText, dice: Dice) -> str:
    """Questions about a segment, a line each, that guide what is read out of it; "" in half of the
    scenes.

    Args:
        facts: The facts of the segment.
        shown: The text.
        dice: Draws the questions.
    """
    if not dice.chance(0.5):
        return ""
    return "\n".join(_questions_about_facts(facts, shown, dice)[:_MAX_QUESTIONS])


def relations(recipe: Recipe, shown: ShownText, dice: Dice) -> Iterator[Scene]:
    """Scenes that ask for the facts of a segment that relate two things. The texts are a summary,
    the things, questions that guide the reading, and the segment; the reply is "* Toren | Kelford |
    Toren was born in Kelford.", a line for each fact.

    Args:
        recipe: Says how many questions, and of which kinds.
        shown: The text.
        dice: Draws segments and questions.
    """
    for segment in _draw_segments(recipe, shown, dice):
        guiding_questions = _guiding_questions(segment.facts, shown, dice)
        entity_names = "\n".join(names_in_facts(segment.facts, shown))
        texts = (_made_up_summary(shown, dice), entity_names, guiding_questions, segment.text)
        reply = _bullet_list(_relation_lines(segment.facts, shown))
        yield _answered_scene(segment.question, shown, texts, reply)


def doubts(recipe: Recipe, shown: ShownText, dice: Dice) -> Iterator[Scene]:
    """Scenes that show some relations of a segment, and ask for questions about its other facts;
    about all its facts where these have no question. The texts are a summary, the segment, the
    things, and the relations; the reply is "* Who ...?", a line for each question.

    Args:
        recipe: Says how many questions, and of which kinds.
        shown: The text.
        dice: Draws segments, relations and questions.
    """
    for segment in _draw_segments(recipe, shown, dice):
        facts = segment.facts
        relations = _facts_about_two_things(facts, shown)
        shown_relations = relations[: dice.between(0, len(relations))]
        other_facts = [fact for fact in facts if fact not in shown_relations]
        questions = _questions_about_facts(tuple(other_facts), shown, dice)
        if not questions:
            questions = _questions_about_facts(facts, shown, dice)
        text_summary = _made_up_summary(shown, dice)
        entity_names = "\n".join(names_in_facts(facts, shown))
        relation_lines = "\n".join(_relation_lines(tuple(shown_relations), shown))
        texts = (text_summary, segment.text, entity_names, relation_lines)
        yield _answered_scene(
            segment.question, shown, texts, _bullet_list(questions[:_MAX_QUESTIONS])
        )


def fusion(recipe: Recipe, shown: ShownText, dice: Dice) -> Iterator[Scene]:
    """Scenes that merge two relations of the same two things: into one sentence where both tell the
    same fact, else into two. The texts are a summary, then a segment and a relation twice; the
    first reply is questions that the relations answer, the second the merged text.

    Args:
        recipe: Says how many questions, and of which kinds.
        shown: The text.
        dice: Draws segments and relations.
    """
    text_schema = schema(shown.schema)
    for segment in _draw_segments(recipe, shown, dice):
        relations = _facts_about_two_things(segment.facts, shown)
        if not relations:
            continue
        relation = dice.pick(relations)
        second_relation = _same_or_other_relation(relation, text_schema, dice)
        first_sentence = without_opener(shown.sentences[relation], shown.schema)
        second_sentence = without_opener(
            text_schema.sentence_for(second_relation, dice), shown.schema
        )
        merged = first_sentence
        if second_relation != relation:
            merged = f"{first_sentence} {second_sentence}"
        questions = _questions_about_facts((relation, second_relation), shown, dice)
        # (summary, first segment, first relation, second segment, second relation); the second
        # segment is the second sentence alone.
        texts = (
            _made_up_summary(shown, dice),
            segment.text,
            first_sentence,
            second_sentence,
            second_sentence,
        )
        yield _answered_scene(segment.question, shown, texts, _bullet_list(questions), merged)


def _same_or_other_relation(fact: Fact, text_schema: Schema, dice: Dice) -> Fact:
    """A made-up fact with another relation between the same two things; in half of the scenes, or
    where there is no such relation, the fact itself.

    Args:
        fact: The fact.
        text_schema: The schema of the text, with its relations.
        dice: Draws the relation.
    """
    relation = text_schema.relations[fact.relation]
    alternatives = [
        r for r in text_schema.relations_from[relation.subject] if r.object == relation.object
    ]
    alternatives.remove(relation)
    if not alternatives or not dice.chance(0.5):
        return fact
    return Fact(fact.subject, dice.pick(alternatives).name, fact.object)


def reflection(recipe: Recipe, shown: ShownText, dice: Dice) -> Iterator[Scene]:
    """Scenes that ask what is known and what is missing to answer a question; and for the answer,
    if nothing is missing. The texts are the parts of the text, out of which, for some of the
    questions, a fact was taken that they need; the reply is "Reasoning: ...", then "Action: -1", or
    "Action: -2" and the answer. All scenes show the same texts.

    Args:
        recipe: Says how many questions, and of which kinds.
        shown: The text.
        dice: Draws questions and missing facts.
    """
    texts = [text.strip() for text in shown.texts]
    facts_by_part = list(shown.facts_by_part)
    questions = list(draw_questions(recipe, shown, dice))
    for question in questions:  # all facts are taken out before the first scene is made
        if not question.supports or not dice.chance(_SHARE_LACKING_A_FACT):
            continue
        missing_fact = dice.pick(question.supports)
        for i in range(len(texts)):
            texts[i], facts_by_part[i] = remove_fact(
                missing_fact, texts[i], facts_by_part[i], shown
            )
    stated_facts = tuple(chain.from_iterable(facts_by_part))
    shown_texts = tuple(filter(None, texts))
    for question in questions:
        known_facts = [fact for fact in question.supports if fact in stated_facts]
        answer: str | None = None
        action = "Action: -1"
        if facts_prove_answer(question, stated_facts):
            answer = question.answer
            action = f"Action: -2\nAnswer: {answer}"
        reason = _reasoning_text(question, known_facts, answer, shown, dice)
        yield _answered_scene(
            scene_question(question), shown, shown_texts, f"Reasoning: {reason}\n{action}"
        )


def trial(recipe: Recipe, shown: ShownText, dice: Dice) -> Iterator[Scene]:
    """Scenes of a question of two steps, whose text states the fact of the first step and all other
    facts of its subject. The texts are what is known and missing, the thing that the question
    names, other things, and the text; the reply names the things that the proof has reached, the
    start and what the first fact leads to.

    Args:
        recipe: Says how many questions.
        shown: The text.
        dice: Draws the order of the other things.
    """
    for two_step in _draw_two_step_questions(recipe, shown):
        other_facts = [fact for fact in shown.facts if fact.subject == two_step.first.subject]
        other_facts.remove(two_step.first)
        text = facts_in_words([two_step.first, *other_facts], shown)
        other_names = names_in_facts(tuple(shown.facts), shown)
        if two_step.start in other_names:
            other_names.remove(two_step.start)
        other_things = "\n".join(dice.shuffled(other_names))
        reason = _reasoning_text(
            two_step.question, [two_step.first], answer=None, shown=shown, dice=dice
        )
        reply = _bullet_list([two_step.start, two_step.middle])
        yield _answered_scene(
            scene_question(two_step.question),
            shown,
            (reason, two_step.start, other_things, text),
            reply,
        )


def elaborated(recipe: Recipe, shown: ShownText, dice: Dice) -> Iterator[Scene]:
    """Scenes of a question of two steps, with a relation that tells the fact of the first step. The
    texts are the things and the relation; the reply is a question for the second step.

    Args:
        recipe: Says how many questions.
        shown: The text.
        dice: Draws the wording.
    """
    text_schema = schema(shown.schema)
    for two_step in _draw_two_step_questions(recipe, shown):
        next_question = text_schema.question_for(
            Path(two_step.middle, two_step.path.steps[1:]), dice
        )
        relation = two_step.first
        sentence = without_opener(shown.sentences[relation], shown.schema)
        entity_names = "\n".join([two_step.start, two_step.middle])
        texts = (entity_names, f"{relation.subject} ; {sentence} ; {relation.object}")
        yield _answered_scene(
            scene_question(two_step.question), shown, texts, _bullet_list([next_question])
        )


def decomposed(recipe: Recipe, shown: ShownText, dice: Dice) -> Iterator[Scene]:
    """Scenes that ask to split a question into one question for each step; one of a single step
    stays as it is, and one with a step that has no wording of its own is passed over. There are no
    texts; the reply is "* Who wrote Velindra?", a line for each step.

    Args:
        recipe: Says how many questions, and of which kinds.
        shown: The text.
        dice: Draws questions and wording.
    """
    text_schema = schema(shown.schema)
    for question in draw_questions(recipe, shown, dice):
        query_paths = paths_of_query(question.query)
        steps = list(chain.from_iterable(path.steps for path in query_paths))
        questions = [question.text]
        if len(steps) > 1:
            if not all(_has_question_wording(step, text_schema) for step in steps):
                continue
            questions = _question_for_each_step(query_paths, text_schema, dice)
        yield _answered_scene(scene_question(question), shown, (), _bullet_list(questions))


def _question_for_each_step(
    query_paths: Sequence[Path], text_schema: Schema, dice: Dice
) -> list[str]:
    """A question for each step, in order, where "#1" stands for the answer to the first:

        ["Who wrote Velindra?", "Where was #1 born?"]

    Args:
        query_paths: The path of the question, or both of a comparison.
        text_schema: The schema of the text, with its relations.
        dice: Draws the wording.
    """
    questions: list[str] = []
    for path in query_paths:
        thing = path.start
        for step in path.steps:
            questions.append(text_schema.question_for(Path(thing, (step,)), dice))
            thing = f"#{len(questions)}"
    return questions


def lookup(recipe: Recipe, shown: ShownText, dice: Dice) -> Iterator[Scene]:
    """Scenes that show summaries of 2 to 6 pages (the facts of each, in words), and ask which pages
    have a fact that the answer needs: the reply is "Pages: 0, 2". A question that needs no fact is
    passed over.

    Args:
        recipe: Says how many questions, and of which kinds.
        shown: The text.
        dice: Draws pages and questions.
    """
    facts = list(shown.facts)
    pages = cut_into_parts(facts, min(len(facts), dice.between(2, 6)))
    texts = tuple(map(partial(facts_in_words, shown=shown), pages))
    for question in draw_questions(recipe, shown, dice):
        needed_facts = set(question.supports)
        needed_pages = [str(i) for i, page in enumerate(pages) if needed_facts.intersection(page)]
        if needed_pages:
            yield _answered_scene(
                scene_question(question), shown, texts, f"Pages: {', '.join(needed_pages)}"
            )


def pause(_recipe: Recipe, shown: ShownText, dice: Dice) -> Iterator[Scene]:
    """A scene with the sentences of the text, grouped by subject, and from some sentence on a
    number before each. The texts are number ("" for none) and sentence in turn. The reply, "Break:
    4", is the first shown number at which another subject begins, or the number after the last
    sentence. There is no scene for fewer than three facts.

    Args:
        _recipe: Not used; every maker of scenes has the same parameters.
        shown: The text.
        dice: Draws the first number that is shown.
    """
    facts_by_subject: dict[str, list[Fact]] = {}
    for fact in shown.facts:
        facts_by_subject.setdefault(fact.subject, []).append(fact)
    facts = list(chain.from_iterable(facts_by_subject.values()))
    if len(facts) < 3:
        return
    first_number = dice.between(1, max(1, len(facts) // 2))
    break_number = first_number
    while break_number < len(facts):
        if facts[break_number].subject != facts[break_number - 1].subject:
            break
        break_number += 1
    texts: list[str] = []
    for i, fact in enumerate(facts):
        number = ""
        if i >= first_number:
            number = str(i)
        texts += [number, without_opener(shown.sentences[fact], shown.schema)]
    texts += [str(len(facts)), ""]  # the number after the last sentence
    yield _answered_scene(scenes.NO_QUESTION, shown, tuple(texts), f"Break: {break_number}")


def _answered_scene(
    question: Question, shown: ShownText, texts: tuple[str, ...], *replies: str
) -> Scene:
    """A scene whose task (instruction and length of the answer) is that of questions about the kind
    of the text.

    Args:
        question: The question.
        shown: The text, which says the kind.
        texts: The passages that the scene shows.
        *replies: The right replies, in turn.
    """
    return Scene(question, texts, task=scenes.answer_task(shown.kind), replies=replies)


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
    facts: Facts


def _draw_segments(recipe: Recipe, shown: ShownText, dice: Dice) -> Iterator[_Segment]:
    """Yield, for each question about the text, a random part of the text that states a fact;
    nothing where no part does.

    Args:
        recipe: Says how many questions, and of which kinds.
        shown: The text.
        dice: Draws questions and parts.
    """
    parts_with_facts = [i for i, facts in enumerate(shown.facts_by_part) if facts]
    if not parts_with_facts:
        return
    for question in draw_questions(recipe, shown, dice):
        part = dice.pick(parts_with_facts)
        text = shown.texts[part].strip()
        yield _Segment(scene_question(question), text, shown.facts_by_part[part])


def _made_up_summary(shown: ShownText, dice: Dice) -> str:
    """A made-up summary of the whole text: a sentence that names some of its subjects."""
    subjects = list(dict.fromkeys(scenes.subjects(shown)))
    return scenes.about_sentence(subjects[: dice.between(1, 2 * scenes.GROUP)])


def _bullet_list(items: Sequence[str]) -> str:
    """The items as a list with a bullet before each, a line each; "none" where there is none."""
    return "\n".join(f"* {item}" for item in items) or "none"


def _facts_about_two_things(facts: Sequence[Fact], shown: ShownText) -> list[Fact]:
    """The facts whose object is a thing with a name, not a value such as a year.

    Args:
        facts: The facts.
        shown: The text that states them.
    """
    relations = schema(shown.schema).relations
    return [fact for fact in facts if relations[fact.relation].object in ENDINGS]


def _relation_lines(facts: Sequence[Fact], shown: ShownText) -> list[str]:
    """A line for each fact of two named things: "Toren | Kelford | Toren was born in Kelford."

    Args:
        facts: The facts.
        shown: The text that states them.
    """
    lines: list[str] = []
    for fact in _facts_about_two_things(facts, shown):
        sentence = without_opener(shown.sentences[fact], shown.schema)
        lines.append(f"{fact.subject} | {fact.object} | {sentence}")
    return lines


def _questions_about_facts(facts: Sequence[Fact], shown: ShownText, dice: Dice) -> list[str]:
    """A question for each fact that it answers, none twice; facts whose relation has no wording of
    a question are left out.

    Args:
        facts: The facts.
        shown: The text.
        dice: Draws the wording.
    """
    text_schema = schema(shown.schema)
    questions: dict[str, None] = {}  # each once, in order
    for fact in facts:
        if _has_question_wording(fact.relation, text_schema):
            question = text_schema.question_for(Path(fact.subject, (fact.relation,)), dice)
            questions[question] = None
    return list(questions)


def _has_question_wording(step: str, text_schema: Schema) -> bool:
    """Whether a step can be asked for: its relation has the wording of a question for its object,
    or, for a step "^relation", for its subject.

    Args:
        step: A relation, or "^relation".
        text_schema: The schema with the relation.
    """
    relation = text_schema.relations[step.removeprefix(INVERSE)]
    if step.startswith(INVERSE):
        return relation.has_question_for_subject
    return relation.has_question_for_object


@dataclass(frozen=True)
class _TwoStepQuestion:
    """A question of two steps.

    Args:
        question: The question with its proof.
        path: Its path.
        first: The fact that its first step takes.
    """

    question: ProvedQuestion
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


def _draw_two_step_questions(recipe: Recipe, shown: ShownText) -> Iterator[_TwoStepQuestion]:
    """Yield questions of two steps about the text, none twice, at most as many as the recipe has
    questions; only questions whose second step can be asked for alone.

    Args:
        recipe: Says how many.
        shown: The text.
    """
    if not shown.asker.facts:
        return
    text_schema = schema(shown.schema)
    drawn_paths: set[Query] = set()
    for _ in range(recipe.questions * _DRAWS_PER_QUESTION):
        question = shown.asker.two()
        has_enough = len(drawn_paths) == recipe.questions
        if question is None or question.query in drawn_paths or has_enough:
            continue
        path = question.query
        assert isinstance(path, Path)  # as of every question of two hops
        if _has_question_wording(path.steps[1], text_schema):
            drawn_paths.add(path)
            yield _TwoStepQuestion(question, path, first=question.supports[0])


def _reasoning_text(
    question: ProvedQuestion,
    known_facts: Sequence[Fact],
    answer: str | None,
    shown: ShownText,
    dice: Dice,
) -> str:
    """The reasoning of a reply: the sentences of the known facts and, without an answer, what the
    text leaves open: "Toren wrote Velindra. The text does not say: Where was Toren born?".

    Args:
        question: The question.
        known_facts: The facts of its proof that are known.
        answer: The answer; None where the text does not prove it.
        shown: The text.
        dice: Draws the wording.
    """
    sentences = [without_opener(shown.sentences[fact], shown.schema) for fact in known_facts]
    if answer is None:
        sentences.append(
            f"The text does not say: {_first_unproved_step(question, known_facts, shown, dice)}"
        )
    return " ".join(sentences) or "The text says so."


def _first_unproved_step(
    question: ProvedQuestion, known_facts: Sequence[Fact], shown: ShownText, dice: Dice
) -> str:
    """The first step of a question that no known fact takes, as a question in words; the whole
    question where the step has no wording of its own.

    Args:
        question: The question.
        known_facts: The facts of its proof that are known.
        shown: The text.
        dice: Draws the wording.
    """
    text_schema = schema(shown.schema)
    fact_base = FactBase.of(known_facts)
    for path in paths_of_query(question.query):
        thing = path.start
        for step in path.steps:
            facts = fact_base.facts_of_step(thing, step)
            if not facts:
                if not _has_question_wording(step, text_schema):
                    return question.text
                return text_schema.question_for(Path(thing, (step,)), dice)
            thing = facts[0].object
            if step.startswith(INVERSE):
                thing = facts[0].subject
    return question.text
