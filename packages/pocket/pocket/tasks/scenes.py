"""Scenes to train and test on: a text of the world, questions about it, and what would be right to
say.

    recipe = Recipe(skill="answer", kinds=("musique",), facts=(4, 12), ask={"one": 3, "two": 1})
    scenes = SCENES["question"](recipe, make_text(recipe, dice), dice)       several questions about one text

A text is `facts` sentences in random order, or a whole document of `tokens` (characters / 4). What
is right is proved from the facts that are shown whole; a sentence that is cut proves nothing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache

from harness_training.reader_examples import preset_task
from harness_training.tasks import Scene

from harness.method import Task
from harness.stats.rng import Dice
from harness.types import Question
from pocket.tasks.recipes import SCHEMAS, Recipe
from pocket.tasks.shown_text import Shown, ask_about, draw_question, in_words, plain, question_of
from pocket.world.fact_proofs import Fact, FactBase, Path, prove
from pocket.world.facts_and_distractors import NOUNS, UNANSWERABLE
from pocket.world.names import VALUES, Namer, make_value
from pocket.world.questions import Asker
from pocket.world.sample import FIRST_TRAINING_SEED, LEAST_TOKENS, Purpose, sample

_FACT = (
    15  # tokens (characters / 4) of a sentence with a fact, about; a text is ordered by its length
)
_BULLET = "* "
_LACKING = 0.4  # share of searches without all they need; at 0.25 the model's AUC was that of counting the points
_LEVEL = 18  # points that are gathered at a time, at most: a batch of a graph's level holds about as many
_MAX = 10_000_000  # seeds of either purpose that are used


@cache
def task_of(kind: str) -> Task:
    """The answer instruction of the pocket data set of that kind."""
    return preset_task(f"pocket/{kind}")


def make_text(recipe: Recipe, dice: Dice, purpose: Purpose = "training") -> Shown:
    """Make a text of the world as the recipe asks for, from a seed of `purpose`."""
    kind = dice.pick(recipe.kinds)
    hops = (2,) if recipe.ask.get("two") and dice.chance(0.5) else (1,)
    if recipe.facts is not None:
        count = dice.between(*recipe.facts)
        tokens = max(LEAST_TOKENS, count * _FACT)
    else:
        assert recipe.tokens is not None  # a recipe has one of the two; the curriculum checks that
        tokens, count = dice.between(*recipe.tokens), 0
    first, seeds = (
        (FIRST_TRAINING_SEED, _MAX) if purpose == "training" else (0, FIRST_TRAINING_SEED)
    )
    seed = first + dice.below(seeds)
    made = sample(kind, seed, tokens=max(tokens, LEAST_TOKENS), purpose=purpose, hops=hops)
    sentences = {
        s.fact: page.document.text[s.start : s.end] for page in made.pages for s in page.stated
    }
    if count:  # sentences in random order, those that prove the first question among them
        needed = list(dict.fromkeys(f for a in made.asked[:1] for f in a.supports))[:count]
        others = dice.shuffled([f for f in sentences if f not in needed])[: count - len(needed)]
        facts = dice.shuffled([*needed, *others])
        chosen = {
            f: plain(sentences[f], SCHEMAS[kind]) if recipe.pieces > 1 else sentences[f]
            for f in facts
        }
        asker = Asker(SCHEMAS[kind], facts, dice)
        if recipe.pieces > 1:
            return Shown(kind, tuple(chosen.values()), tuple((f,) for f in facts), chosen, asker)
        text = dice.pick((" ", "\n", "\n\n", " ")).join(chosen.values())
        return Shown(kind, (text,), (tuple(facts),), chosen, asker)
    parts = [
        (
            page.document.text[start:end],
            tuple(s.fact for s in page.stated if start <= s.start and s.end <= end),
        )
        for page in made.pages
        for start, end in _cut_spans(page.document.text, recipe.pieces, dice)
    ]
    facts = list(sentences)
    if recipe.some:
        parts = dice.shuffled(parts)[: dice.between(max(1, len(parts) // 3), len(parts))]
        facts = [fact for _, part in parts for fact in part]
    texts, stated = zip(*parts, strict=True)
    return Shown(kind, texts, stated, sentences, Asker(SCHEMAS[kind], facts, dice))


def _cut_spans(text: str, pieces: int, dice: Dice) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of at most `pieces` parts of about equal length, cut at spaces as chunks
    are: in sentences."""
    if pieces < 2:
        yield 0, len(text)
        return
    parts = dice.between(2, pieces)
    start = 0
    for at in range(1, parts):
        end = text.find(" ", len(text) * at // parts)
        if end > start:
            yield start, end
            start = end
    yield start, len(text)


def answers(recipe: Recipe, shown: Shown, dice: Dice) -> Iterator[Scene]:
    """Scenes that ask for a short answer; the text is shown whole."""
    for question in ask_about(recipe, shown, dice):
        yield Scene(
            question_of(question), shown.texts, task_of(shown.kind), replies=(question.answer,)
        )


def choices(recipe: Recipe, shown: Shown, dice: Dice) -> Iterator[Scene]:
    """Scenes with four options of one kind; in half of them the text names the wrong ones, where it
    can."""
    for question in ask_about(recipe, shown, dice):
        path = question.query
        if not isinstance(path, Path) or question.answer in ("yes", "no", UNANSWERABLE):
            continue
        kind = shown.asker.schema.ends(path.steps[-1])[1]
        things: list[str] = []  # of this kind, in the text's facts
        for fact in shown.asker.facts:
            relation = shown.asker.schema.relations[fact.relation]
            things += [fact.subject] * (relation.subject == kind) + [fact.object] * (
                relation.object == kind
            )
        named = dice.shuffled(list(dict.fromkeys(things))) if dice.chance(0.5) else []
        wrong = [w for w in named if w not in (question.answer, path.start)][:3]
        made = Namer(dice)
        while len(wrong) < 3:
            other = make_value(kind, dice) if kind in VALUES else made.fresh(kind)
            if other not in (question.answer, path.start, *wrong):
                wrong.append(f"the {dice.pick(NOUNS)} {other}" if kind == "keepsake" else other)
        options = tuple(dice.shuffled([question.answer, *wrong]))
        yield Scene(
            question_of(question, options),
            shown.texts,
            task_of("quality"),
            replies=(question.answer,),
        )


def sufficiency(recipe: Recipe, shown: Shown, dice: Dice) -> Iterator[Scene]:
    """Scenes with a probe after each part: do the parts so far prove the answer? In the end the
    answer, if so.

    The parts stand in random order; where the recipe is `mixed`, some as one line a fact.
    """
    for question in ask_about(recipe, shown, dice):
        parts: list[tuple[str, tuple[Fact, ...]]] = []
        for i in dice.shuffled(range(len(shown.texts))) if len(shown.texts) > 1 else [0]:
            if recipe.mixed and dice.chance(0.5):
                parts += [(in_words([fact], shown), (fact,)) for fact in shown.stated[i]]
            else:
                parts.append((_on_one_line(shown.texts[i]), shown.stated[i]))
        if question.supports and dice.chance(_LACKING):
            missing = dice.pick(question.supports)
            parts = [part for part in parts if missing not in part[1]]
        if not parts:
            continue
        heads = _headlines(shown) if dice.chance(0.6) else []
        base, verdicts = FactBase(), [False] * len(heads)
        for _, facts in parts:
            for fact in facts:
                base.add(fact)
            verdicts.append(
                prove(question.query, base) == {question.answer} and question.kind != "unanswerable"
            )
        replies = (question.answer,) if verdicts[-1] else ()  # a search answers once it stops
        texts = (*heads, *(text for text, _ in parts))
        yield Scene(question_of(question), texts, task_of(shown.kind), replies, tuple(verdicts))


def _headlines(shown: Shown) -> list[str]:
    """Sentences on the subjects of the text, as the summaries at the top of a graph; they prove
    nothing."""
    subjects = [fact.subject for fact in shown.sentences]
    return [
        about_sentence(list(dict.fromkeys(subjects[i : i + GROUP])))
        for i in range(0, len(subjects), GROUP)
    ]


def points(_recipe: Recipe, shown: Shown, _dice: Dice) -> Iterator[Scene]:
    """A training example whose reply lists every fact of the text as a bullet, in order.

    Sentences that state no fact give none. As for every kind of scene, recipe and dice come first
    and last.
    """
    lines = [_BULLET + in_words([fact], shown) for fact in shown.sentences]
    texts = tuple(map(_on_one_line, shown.texts))
    yield Scene(Question("scene", "", ("scene",)), texts, task_of(shown.kind), ("\n".join(lines),))


def summary(_recipe: Recipe, shown: Shown, _dice: Dice) -> Iterator[Scene]:
    """A scene with every fact of the text, in order, as one paragraph."""
    texts = tuple(map(_on_one_line, shown.texts))
    yield Scene(
        Question("scene", "", ("scene",)),
        texts,
        task_of(shown.kind),
        (in_words(shown.sentences, shown),),
    )


def followed(recipe: Recipe, shown: Shown, dice: Dice) -> Iterator[Scene]:
    """Scenes of a part of the text and a question behind it, whose likelihood ranks the part for a
    compressor."""
    text, facts = dice.pick(list(zip(shown.texts, shown.stated, strict=True)))
    asker = Asker(shown.schema, list(facts), dice) if facts and dice.chance(0.8) else shown.asker
    for question in ask_about(recipe, replace(shown, asker=asker), dice):
        yield Scene(question_of(question), (text.strip(),), task_of(shown.kind))


def guessed(recipe: Recipe, shown: Shown, dice: Dice) -> Iterator[Scene]:
    """Scenes of a text whose tokens a compressor scores, behind a question or behind nothing."""
    asked_question = (
        draw_question(recipe, shown, dice) if shown.asker.facts and dice.chance(0.5) else None
    )
    question = (
        Question("scene", "", ("scene",)) if asked_question is None else question_of(asked_question)
    )
    yield Scene(question, ("\n\n".join(shown.texts),), task_of(shown.kind))


def _on_one_line(text: str) -> str:
    """The text on one line, as methods show their nodes."""
    return " ".join(text.split())


def gathered(recipe: Recipe, shown: Shown, dice: Dice) -> Iterator[Scene]:
    """A scene of points; the reply has lines that name what they are about, four subjects a line,
    none twice.

    Of a whole document some points that follow each other are taken, as a level of a graph shows
    them: several of one subject after another. Shown single sentences in random order alone, the
    model learnt to name the subject of every point, and graphs ended in 50 nodes "About A, A, A and
    A.". In some scenes the points are such lines themselves, as on the next level; the first name
    of each goes on.
    """
    if recipe.tokens is None:
        parts = [
            (text, facts[0].subject)
            for text, facts in zip(shown.texts, shown.stated, strict=True)
            if facts
        ]
    else:
        facts = list(shown.sentences)
        count = min(len(facts), dice.between(3, _LEVEL))
        start = dice.below(len(facts) - count + 1)
        parts = [(in_words([f], shown), f.subject) for f in facts[start : start + count]]
    if not parts:
        return
    if dice.chance(0.25):
        # Of lines of fewer names more are needed to fill a level.
        every = (
            [f.subject for f in shown.sentences]
            if recipe.tokens is not None
            else [s for _, s in parts]
        )
        parts = [
            (about_sentence(group), group[0]) for group in _groups(every, dice.between(1, GROUP))
        ]
    texts, subjects = zip(*parts, strict=True)
    lines = [_BULLET + about_sentence(group) for group in _groups(subjects, GROUP)]
    yield Scene(Question("scene", "", ("scene",)), texts, task_of(shown.kind), ("\n".join(lines),))


def _groups(names: Sequence[str], size: int) -> list[list[str]]:
    """The different names in groups of `size`."""
    once = list(dict.fromkeys(names))
    return [once[i : i + size] for i in range(0, len(once), size)]


GROUP = 4


def about_sentence(names: Sequence[str]) -> str:
    """A sentence that names things: "About Velindra, Toren and Kelford."."""
    *first, last = names
    return f"About {', '.join(first)} and {last}." if first else f"About {last}."
