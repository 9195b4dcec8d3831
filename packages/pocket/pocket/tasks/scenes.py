"""Scenes to train and test on: a text of the world, questions about it, and what would be right to
say.

    recipe = Recipe(skill="answer", kinds=("musique",), facts=(4, 12), ask={"one": 3, "two": 1})
    scenes = SCENES["question"](recipe, make_text(recipe, dice), dice)       several questions about one text

A text is `facts` sentences in random order, or a whole document of `tokens` (characters / 4). What
is right is proved from the facts that are shown whole; a sentence that is cut proves nothing. Each
function that yields scenes is a pocket.tasks.catalog.SceneMaker.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from typing import NamedTuple

from harness_training.reader_examples import preset_task
from harness_training.tasks import Scene

from harness.method import Task
from harness.stats.rng import Dice
from harness.types import Question
from pocket.tasks.recipes import SCHEMAS, Recipe
from pocket.tasks.shown_text import (
    Facts,
    ShownText,
    draw_question,
    draw_questions,
    facts_in_words,
    scene_question,
    without_opener,
)
from pocket.world.fact_proofs import Fact, FactBase, Path, prove
from pocket.world.facts_and_distractors import NOUNS, UNANSWERABLE
from pocket.world.layout import Sample
from pocket.world.names import VALUES, Namer, make_value
from pocket.world.questions import Asker
from pocket.world.sample import FIRST_TRAINING_SEED, LEAST_TOKENS, Purpose, sample

_TOKENS_PER_FACT = 15
"""Tokens (characters / 4) of a sentence with a fact, about; a text is ordered by its length."""
NO_QUESTION = Question(id="scene", text="", document_ids=("scene",))
"""Stands in a scene that asks for no answer, such as one of points or a summary."""
_BULLET = "* "
_SHARE_LACKING_A_FACT = 0.4
"""Share of searches without all they need; at 0.25 the model's AUC was that of counting the
points."""
_MAX_POINTS_OF_LEVEL = 18
"""Most points that are gathered at a time: a batch of a graph's level holds about as many."""
_SEEDS_OF_A_PURPOSE = 10_000_000  # seeds of either purpose that are used


@cache
def answer_task(kind: str) -> Task:
    """How a question about a text is to be answered: the instruction of the pocket data set of that
    kind.

    Args:
        kind: The kind of text, such as "musique".
    """
    return preset_task(f"pocket/{kind}")


def make_text(recipe: Recipe, dice: Dice, purpose: Purpose = "training") -> ShownText:
    """Make a text of the world for scenes: some sentences in random order where the recipe has
    `facts`, else a document of `tokens`. Where two hops may be asked for, half of the texts are
    made with a question of two hops.

    Args:
        recipe: What text is wanted.
        dice: Draws its seed and all that is random.
        purpose: Whether the text is to train on or to test on; each has seeds of its own.
    """
    kind = dice.pick(recipe.kinds)
    hops = 1
    if recipe.ask.get("two") and dice.chance(0.5):
        hops = 2
    if recipe.facts is not None:
        n_sentences = dice.between(*recipe.facts)  # (least, most)
        document = _make_document(kind, n_sentences * _TOKENS_PER_FACT, hops, dice, purpose)
        return _show_separate_sentences(recipe, kind, document, n_sentences, dice)
    assert recipe.tokens is not None  # a recipe has one of the two; the curriculum checks that
    document = _make_document(kind, dice.between(*recipe.tokens), hops, dice, purpose)
    return _show_document(recipe, kind, document, dice)


def _make_document(kind: str, tokens: int, hops: int, dice: Dice, purpose: Purpose) -> Sample:
    """Make a document of the world from a random seed, at least as long as the world makes any.

    Args:
        kind: The kind of text.
        tokens: Its length (characters / 4).
        hops: How many hops its questions have.
        dice: Draws the seed.
        purpose: Whose seeds are drawn.
    """
    seeds = range(FIRST_TRAINING_SEED)
    if purpose == "training":
        seeds = range(FIRST_TRAINING_SEED, FIRST_TRAINING_SEED + _SEEDS_OF_A_PURPOSE)
    seed = seeds[dice.below(len(seeds))]
    tokens = max(tokens, LEAST_TOKENS)
    return sample(kind, seed, tokens=tokens, purpose=purpose, hops=(hops,))


def _sentence_of_each_fact(document: Sample) -> dict[Fact, str]:
    """Fact -> the sentence that states it, for all facts of a document, in the order of the
    text."""
    sentences: dict[Fact, str] = {}
    for page in document.pages:
        for stated in page.stated:
            sentences[stated.fact] = page.document.text[stated.start : stated.end]
    return sentences


def _show_separate_sentences(
    recipe: Recipe, kind: str, document: Sample, n_sentences: int, dice: Dice
) -> ShownText:
    """Some sentences of a document in random order, with those that prove its first question among
    them.

    Args:
        recipe: Says whether each sentence is a part of its own, without its opening phrase
            (`pieces` above 1), or all are one text.
        kind: The kind of text.
        document: The document.
        n_sentences: How many sentences.
        dice: Draws them.
    """
    sentence_of_fact = _sentence_of_each_fact(document)
    proving_facts: list[Fact] = []
    if document.asked:
        proving_facts = list(dict.fromkeys(document.asked[0].supports))[:n_sentences]
    other_facts = [fact for fact in sentence_of_fact if fact not in proving_facts]
    n_other_facts = n_sentences - len(proving_facts)
    facts = dice.shuffled([*proving_facts, *dice.shuffled(other_facts)[:n_other_facts]])
    asker = Asker(SCHEMAS[kind], facts, dice)
    if recipe.pieces > 1:
        chosen_sentences = {
            fact: without_opener(sentence_of_fact[fact], SCHEMAS[kind]) for fact in facts
        }
        return ShownText(
            kind,
            texts=tuple(chosen_sentences.values()),
            facts_by_part=tuple((fact,) for fact in facts),
            sentences=chosen_sentences,
            asker=asker,
        )
    chosen_sentences = {fact: sentence_of_fact[fact] for fact in facts}
    text = dice.pick((" ", "\n", "\n\n", " ")).join(chosen_sentences.values())
    return ShownText(
        kind,
        texts=(text,),
        facts_by_part=(tuple(facts),),
        sentences=chosen_sentences,
        asker=asker,
    )


def _show_document(recipe: Recipe, kind: str, document: Sample, dice: Dice) -> ShownText:
    """A whole document in parts, or some of its parts in random order.

    Questions may be asked about every fact of a whole document, also one whose sentence is cut in
    two; of a document shown in part, about the facts that a shown part states whole.

    Args:
        recipe: Says how many parts a page is cut into at most (`pieces`), and whether only some of
            them are shown (`some`).
        kind: The kind of text.
        document: The document.
        dice: Draws parts and cuts.
    """
    sentence_of_fact = _sentence_of_each_fact(document)
    parts: list[tuple[str, Facts]] = []
    for page in document.pages:
        for start, end in _cut_spans(page.document.text, recipe.pieces, dice):
            facts_stated_whole = [s.fact for s in page.stated if start <= s.start and s.end <= end]
            parts.append((page.document.text[start:end], tuple(facts_stated_whole)))
    if recipe.some:
        least_parts = max(1, len(parts) // 3)
        parts = dice.shuffled(parts)[: dice.between(least_parts, len(parts))]
    texts, facts_by_part = zip(*parts, strict=True)
    facts_to_ask_about = list(sentence_of_fact)
    if recipe.some:
        facts_to_ask_about = list(chain.from_iterable(facts_by_part))
    asker = Asker(SCHEMAS[kind], facts_to_ask_about, dice)
    return ShownText(kind, texts, facts_by_part, sentence_of_fact, asker)


def _cut_spans(text: str, max_parts: int, dice: Dice) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of parts of a text, of about equal length, cut at spaces as chunks are:
    also inside sentences. A part without a space at its end is joined with the next one.

    Args:
        text: The text.
        max_parts: Most parts; their number is drawn from 2 on. Below 2 there is one.
        dice: Draws their number.
    """
    if max_parts < 2:
        yield 0, len(text)
        return
    n_parts = dice.between(2, max_parts)
    start = 0
    for part in range(1, n_parts):
        end = text.find(" ", len(text) * part // n_parts)
        if end > start:
            yield start, end
            start = end
    yield start, len(text)


def answers(recipe: Recipe, shown: ShownText, dice: Dice) -> Iterator[Scene]:
    """Scenes that ask for a short answer; the text is shown whole.

    Args:
        recipe: Says how many questions, and of which kinds.
        shown: The text.
        dice: Draws the questions.
    """
    for question in draw_questions(recipe, shown, dice):
        asked_in_scene = scene_question(question)
        yield Scene(
            asked_in_scene, shown.texts, answer_task(shown.kind), replies=(question.answer,)
        )


def choices(recipe: Recipe, shown: ShownText, dice: Dice) -> Iterator[Scene]:
    """Scenes with four options of one kind of thing; in half of them the text names the wrong ones,
    as far as it names enough; others are made up. Questions that compare two things, or whose
    answer is yes, no or that there is none, are passed over.

    Args:
        recipe: Says how many questions, and of which kinds.
        shown: The text.
        dice: Draws questions and options.
    """
    for question in draw_questions(recipe, shown, dice):
        path = question.query
        if not isinstance(path, Path) or question.answer in ("yes", "no", UNANSWERABLE):
            continue
        _, kind_of_thing = shown.asker.schema.ends(path.steps[-1])
        things_in_text: list[str] = []
        if dice.chance(0.5):
            things_in_text = dice.shuffled(_things_of_kind(kind_of_thing, shown))
        wrong_options = [
            thing for thing in things_in_text if thing not in (question.answer, path.start)
        ][:3]
        namer = Namer(dice)
        while len(wrong_options) < 3:
            wrong_option = _new_thing(kind_of_thing, namer, dice)
            if wrong_option in (question.answer, path.start, *wrong_options):
                continue
            if kind_of_thing == "keepsake":
                wrong_option = f"the {dice.pick(NOUNS)} {wrong_option}"
            wrong_options.append(wrong_option)
        options = tuple(dice.shuffled([question.answer, *wrong_options]))
        asked_in_scene = scene_question(question, options)
        yield Scene(asked_in_scene, shown.texts, answer_task("quality"), replies=(question.answer,))


def _things_of_kind(kind: str, shown: ShownText) -> list[str]:
    """The things of one kind in the text's facts, none twice.

    Args:
        kind: The kind of thing, such as "town".
        shown: The text.
    """
    things: dict[str, None] = {}  # each once, in order
    for fact in shown.asker.facts:
        relation = shown.asker.schema.relations[fact.relation]
        if relation.subject == kind:
            things[fact.subject] = None
        if relation.object == kind:
            things[fact.object] = None
    return list(things)


def _new_thing(kind: str, namer: Namer, dice: Dice) -> str:
    """Draw a value of a kind, or a name of that kind that the namer did not hand out before."""
    if kind in VALUES:
        return make_value(kind, dice)
    return namer.fresh(kind)


def sufficiency(recipe: Recipe, shown: ShownText, dice: Dice) -> Iterator[Scene]:
    """Scenes with a probe after each part of the text: do the parts so far prove the answer? Where
    they do in the end, the answer follows as a reply.

    The parts stand in random order; where the recipe is `mixed`, some as one line a fact. In some
    scenes the parts with a fact that the answer needs are left out. Before the parts there may be
    headlines, which state no fact, so that the answer is not proved after them.

    Args:
        recipe: Says how many questions, of which kinds, and how parts are shown.
        shown: The text.
        dice: Draws questions and order.
    """
    for question in draw_questions(recipe, shown, dice):
        parts = _parts_to_probe(recipe, shown, dice)
        if question.supports and dice.chance(_SHARE_LACKING_A_FACT):
            missing_fact = dice.pick(question.supports)
            parts = [part for part in parts if missing_fact not in part.facts]
        if not parts:
            continue
        texts: list[str] = []
        if dice.chance(0.6):
            texts = _headlines(shown)
        verdicts = [False] * len(texts)
        shown_facts = FactBase()
        for text, facts in parts:
            for fact in facts:
                shown_facts.add(fact)
            is_proved = prove(question.query, shown_facts) == {question.answer}
            texts.append(text)
            verdicts.append(is_proved and question.kind != "unanswerable")
        replies: tuple[str, ...] = ()
        if verdicts[-1]:  # a search answers once it stops
            replies = (question.answer,)
        yield Scene(
            scene_question(question),
            tuple(texts),
            task=answer_task(shown.kind),
            replies=replies,
            verdicts=tuple(verdicts),
        )


class _ProbedPart(NamedTuple):
    """A part of a text after which a search is probed.

    Attributes:
        text: Its text.
        facts: The facts that it states.
    """

    text: str
    facts: Facts


def _parts_to_probe(recipe: Recipe, shown: ShownText, dice: Dice) -> list[_ProbedPart]:
    """The parts of a text in random order.

    Args:
        recipe: If it is `mixed`, some parts come as one line for each fact.
        shown: The text.
        dice: Draws the order.
    """
    part_numbers: Sequence[int] = [0]
    if len(shown.texts) > 1:  # a single part needs no draw
        part_numbers = dice.shuffled(range(len(shown.texts)))
    parts: list[_ProbedPart] = []
    for i in part_numbers:
        if recipe.mixed and dice.chance(0.5):
            parts += [
                _ProbedPart(facts_in_words([fact], shown), (fact,))
                for fact in shown.facts_by_part[i]
            ]
        else:
            parts.append(_ProbedPart(_on_one_line(shown.texts[i]), shown.facts_by_part[i]))
    return parts


def _headlines(shown: ShownText) -> list[str]:
    """Sentences that name the subjects of the text, GROUP in each, as the summaries at the top of a
    graph do; they prove nothing."""
    names = subjects(shown)
    headlines: list[str] = []
    for start in range(0, len(names), GROUP):
        group = dict.fromkeys(names[start : start + GROUP])
        headlines.append(about_sentence(list(group)))
    return headlines


def subjects(shown: ShownText) -> list[str]:
    """The subject of each fact of the text, in order; one with several facts comes several
    times."""
    return [fact.subject for fact in shown.facts]


def points(_recipe: Recipe, shown: ShownText, _dice: Dice) -> Iterator[Scene]:
    """A scene whose reply lists every fact of the text as a bullet, in order; sentences that state
    no fact are left out.

    Args:
        _recipe: Not used; every maker of scenes has the same parameters.
        shown: The text.
        _dice: Not used.
    """
    reply = _bullets(facts_in_words([fact], shown) for fact in shown.facts)
    texts = tuple(map(_on_one_line, shown.texts))
    yield Scene(NO_QUESTION, texts, answer_task(shown.kind), replies=(reply,))


def summary(_recipe: Recipe, shown: ShownText, _dice: Dice) -> Iterator[Scene]:
    """A scene whose reply has every fact of the text, in order, as one paragraph.

    Args:
        _recipe: Not used; every maker of scenes has the same parameters.
        shown: The text.
        _dice: Not used.
    """
    texts = tuple(map(_on_one_line, shown.texts))
    reply = facts_in_words(shown.facts, shown)
    yield Scene(NO_QUESTION, texts, answer_task(shown.kind), replies=(reply,))


def followed(recipe: Recipe, shown: ShownText, dice: Dice) -> Iterator[Scene]:
    """Scenes of one part of the text and a question after it: how likely the question is then tells
    a compressor how much the part has to do with it. Mostly the questions are about the facts of
    that part, else about the whole text.

    Args:
        recipe: Says how many questions, and of which kinds.
        shown: The text.
        dice: Draws part and questions.
    """
    text, facts = dice.pick(list(zip(shown.texts, shown.facts_by_part, strict=True)))
    asker = shown.asker
    if facts and dice.chance(0.8):
        asker = Asker(shown.schema, list(facts), dice)
    for question in draw_questions(recipe, replace(shown, asker=asker), dice):
        yield Scene(scene_question(question), (text.strip(),), answer_task(shown.kind))


def guessed(recipe: Recipe, shown: ShownText, dice: Dice) -> Iterator[Scene]:
    """A scene of a whole text whose tokens a compressor scores by their likelihood, after a
    question or after nothing.

    Args:
        recipe: Says which kinds of questions.
        shown: The text.
        dice: Draws the question.
    """
    question = NO_QUESTION
    if shown.asker.facts and dice.chance(0.5):
        drawn = draw_question(recipe, shown, dice)
        if drawn is not None:
            question = scene_question(drawn)
    yield Scene(question, ("\n\n".join(shown.texts),), answer_task(shown.kind))


def _on_one_line(text: str) -> str:
    """The text with every run of spaces and line breaks replaced by one space, as methods show
    their nodes."""
    return " ".join(text.split())


@dataclass(frozen=True)
class _Point:
    """A point of a level of a graph.

    Attributes:
        text: Its text.
        subject: The thing that it is about.
    """

    text: str
    subject: str


def gathered(recipe: Recipe, shown: ShownText, dice: Dice) -> Iterator[Scene]:
    """A scene that teaches to summarise the points of one level of a graph for the next level.

        shown   "Ada lives in Kelford."  "Ada is a smith."  "Toren owns a boat."
        reply   "* About Ada and Toren."

    The reply names each subject once, four subjects a line. In a quarter of the scenes the shown
    points are such lines themselves, as on a higher level of a graph; each counts as about its
    first name. Without points there is no scene.

    Args:
        recipe: Says whether the text is a whole document (`tokens`), or comes in parts.
        shown: The text.
        dice: Draws which facts, and whether the level is a higher one.
    """
    is_whole_document = recipe.tokens is not None
    if is_whole_document:
        points_of_level = _level_of_document(shown, dice)
        named_things = subjects(shown)
    else:
        points_of_level = _level_of_parts(shown)
        named_things = [point.subject for point in points_of_level]
    if not points_of_level:
        return
    if dice.chance(0.25):
        points_of_level = _higher_level(named_things, dice)
    subjects_of_points = [point.subject for point in points_of_level]
    reply = _bullets(map(about_sentence, _groups(subjects_of_points, GROUP)))
    texts = tuple(point.text for point in points_of_level)
    yield Scene(NO_QUESTION, texts, answer_task(shown.kind), replies=(reply,))


def _level_of_parts(shown: ShownText) -> list[_Point]:
    """The points of a text in parts: each part that states a fact, about the subject of its first
    fact."""
    level: list[_Point] = []
    for text, facts in zip(shown.texts, shown.facts_by_part, strict=True):
        if facts:
            level.append(_Point(text, facts[0].subject))
    return level


def _level_of_document(shown: ShownText, dice: Dice) -> list[_Point]:
    """The points of a document: some facts that follow each other in it, so several of one subject,
    a point each.

    From single sentences in random order alone, the model learnt to name the subject of every
    point, and graphs ended in 50 nodes "About A, A, A and A.".

    Args:
        shown: The document.
        dice: Draws which facts.
    """
    all_facts = list(shown.facts)
    count = min(len(all_facts), dice.between(3, _MAX_POINTS_OF_LEVEL))
    start = dice.below(len(all_facts) - count + 1)
    facts = all_facts[start : start + count]
    return [_Point(facts_in_words([fact], shown), fact.subject) for fact in facts]


def _higher_level(names: Sequence[str], dice: Dice) -> list[_Point]:
    """The points of a level above others: "About A, B and C.", each about its first name.

    Args:
        names: The things that the points name; each once.
        dice: Draws how many a point names, up to GROUP.
    """
    groups = _groups(names, dice.between(1, GROUP))
    return [_Point(about_sentence(group), group[0]) for group in groups]


def _bullets(lines: Iterable[str]) -> str:
    """The lines as a list: "* first line", "* second line"."""
    return "\n".join(_BULLET + line for line in lines)


def _groups(names: Sequence[str], size: int) -> list[list[str]]:
    """The names, each once, in groups of `size`; the last group may be smaller."""
    once = list(dict.fromkeys(names))
    return [once[i : i + size] for i in range(0, len(once), size)]


GROUP = 4


def about_sentence(names: Sequence[str]) -> str:
    """A sentence that names things, at least one: "About Velindra, Toren and Kelford."."""
    *first, last = names
    if not first:
        return f"About {last}."
    return f"About {', '.join(first)} and {last}."
