"""Training examples of a reader adapter: scenes of real training rows and of the synthetic world.

    for skill, tree in lesson_trees(rows, mixture, skills, teacher, seed): ...     without end, a function of the seed

A real row becomes a lesson of one of these kinds, with the weights of `Mixture.real`:

answer           the gold passages among 0 to 5 others, and the answer; also for other questions about the same text
probe            passages one by one, as a search shows them, and after each whether they suffice (Yes, No); in half of
                 the searches a gold passage is replaced by another passage
choose           the same text with four options, three of them answers of other rows
unanswerable     as in QASPER: the answer, or 'unanswerable' where a gold passage is missing
breadth          whether the answer is clear and fixed (no for those that `asks_for_account` finds)
steps            the decomposition of a multi-hop question
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from harness.errors import UserError
from harness.method import Task
from harness.stats.rng import Dice
from harness.types import Question
from harness_training.example_files import Recipe, draw_scenes
from harness_training.real_rows import RealRow, RowQuestion
from harness_training.tasks import Scene, Skill
from harness_training.teacher import Teacher
from harness_training.token_rows import Tree, build_trees

_FULL = 0.5  # share of searches that are shown every gold passage
_FEW = (0, 0, 0, 1, 1, 2, 2, 3, 5)  # numbers of passages besides the gold ones, to draw from
_SHARED = 3  # most further questions about one text
_TRIES = 50  # rows in a row that allow no lesson of a kind; lessons that are too long
SKILLS = {"answer": "answer", "probe": "pecan search", "choose": "choose", "unanswerable": "answer"}
SKILLS |= {"breadth": "longrefiner analysis", "steps": "decompose"}
"""Kind of lesson -> the skill (harness.method.hooks.Skill) whose prompt it uses."""
_ACCOUNT = re.compile(
    r"(how come|(please )?(describe|explain|discuss|summari[sz]e|tell (me|us) about|what is known about))\b"
)


def asks_for_account(question: str) -> bool:
    """Whether a question asks for reasons or an account, by its first words: no teacher has
    labelled these rows.

    Source of the classes: LongRefiner 3.1 and its prompt A ("Global": broad or open; "Local": clear
    and fixed).
    """
    return "why" in question.lower().split() or _ACCOUNT.match(question.lower().strip()) is not None


@dataclass(frozen=True)
class Mixture:
    """Weights of the training examples. datasets: data set -> weight among the real rows; real:
    kind of lesson -> weight; world: recipes of the synthetic world, weighted beside `real`; length:
    most tokens of a row.
    """

    datasets: Mapping[str, float]
    real: Mapping[str, float]
    world: Sequence[Recipe]
    length: int


def lesson_trees(
    rows: Sequence[RealRow],
    mixture: Mixture,
    skills: Mapping[str, Skill],
    teacher: Teacher,
    seed: int,
) -> Iterator[tuple[str, Tree]]:
    """Yield (name of the skill, tree) without end; the rows of a data set come epoch by epoch, in
    random order.

    skills: by name; teacher: lays out the lessons. Raises UserError if no lesson fits into
    `mixture.length` tokens.
    """
    chances: list[tuple[str | Recipe, float]] = [
        (kind, weight) for kind, weight in mixture.real.items() if rows
    ]
    chances += [(recipe, recipe.weight) for recipe in mixture.world]
    orders = {kind: _row_order(rows, kind, mixture.datasets, seed) for kind in mixture.real}
    number = idle = 0
    while True:
        dice = Dice("reader", seed, number)
        number += 1
        kind = dice.weighted(chances)
        if isinstance(kind, str):
            skill = skills[SKILLS[kind]]
            tries = (KINDS[kind](rows[next(orders[kind])], rows, dice) for _ in range(_TRIES))
            lesson = next(filter(None, tries), [])
        else:
            skill = skills[kind.skill]
            lesson = list(draw_scenes(kind, skill.scene, dice))
        transcripts = [teacher.play(skill, scene) for scene in lesson]
        if transcripts and len(transcripts[0].ids) + 64 * (len(transcripts) - 1) > mixture.length:
            del transcripts[1:]  # counting 64 tokens for each branch
        trees = [tree for tree in build_trees(transcripts) if len(tree) <= mixture.length]
        idle = 0 if trees else idle + 1
        if idle > _TRIES:
            raise UserError(
                f"no lesson fits into rows of {mixture.length} tokens; raise the length"
            )
        for tree in trees:
            yield skill.name, tree


def _row_order(
    rows: Sequence[RealRow], kind: str, weights: Mapping[str, float], seed: int
) -> Iterator[int]:
    """Yield indices of `rows` for lessons of `kind`: a data set is drawn by its weight, its rows
    epoch by epoch."""
    dice = Dice("rows", seed, kind)
    numbers = {name: [i for i, row in enumerate(rows) if row.dataset == name] for name in weights}
    names = [name for name in weights if numbers[name]]
    queues: dict[str, list[int]] = {name: [] for name in names}
    while True:
        name = dice.weighted([(n, weights[n]) for n in names])
        queues[name] = queues[name] or dice.shuffled(numbers[name])
        yield queues[name].pop()


def _pick_question(row: RealRow, dice: Dice) -> RowQuestion:
    """The row's own question, or in a third of the cases one of its single-hop questions."""
    return (
        dice.pick(row.questions[1:])
        if len(row.questions) > 1 and dice.chance(1 / 3)
        else row.questions[0]
    )


def _draw(
    row: RealRow, needs: Sequence[int], beside: int, dice: Dice, *, full: bool = True
) -> list[int]:
    """Shuffled numbers of the gold passages `needs` and `beside` others; not `full`: another
    replaces a gold one."""
    missing = None if full else dice.pick(needs)
    other_passages = [i for i in range(len(row.passages)) if i not in needs]
    return dice.shuffled(
        [*(i for i in needs if i != missing), *dice.shuffled(other_passages)[: beside + (not full)]]
    )


def _join(row: RealRow, shown: Sequence[int]) -> str:
    return "\n\n".join(row.passages[i] for i in shown)


def _scene(
    question: RowQuestion, texts: Sequence[str], task: Task, reply: str | None = None
) -> Scene:
    replies = (question.answer.strip() if reply is None else reply,)
    return Scene(Question("scene", question.text, ("scene",)), tuple(texts), task, replies)


def _answer_lesson(row: RealRow, _: Sequence[RealRow], dice: Dice) -> list[Scene]:
    """A question over some passages, and up to _SHARED other questions that these passages
    answer."""
    first = _pick_question(row, dice)
    shown = (
        _draw(row, first.needs, dice.pick(_FEW), dice) if first.needs else _draw(row, (), 4, dice)
    )
    other_questions = [
        a for a in row.questions if a != first and a.needs and set(a.needs) <= {*shown}
    ]
    every = [first, *dice.shuffled(other_questions)[:_SHARED]]
    return [_scene(question, [_join(row, shown)], row.task) for question in every]


def _probe_lesson(row: RealRow, _: Sequence[RealRow], dice: Dice) -> list[Scene]:
    question = _pick_question(row, dice)
    return [_probe_scene_of(row, question, dice.chance(_FULL), dice)] if question.needs else []


def _probe_scene_of(row: RealRow, question: RowQuestion, full: bool, dice: Dice) -> Scene:
    """A scene of passages, after each the verdict whether all gold ones are shown; the answer at
    the end, if `full`."""
    beside = dice.pick((1, 1, 2, 2, 3))
    shown = _draw(row, question.needs, beside, dice, full=full)
    verdicts = tuple({*question.needs} <= {*shown[: n + 1]} for n in range(len(shown)))
    scene = _scene(question, [" ".join(row.passages[i].split()) for i in shown], row.task)
    return replace(scene, verdicts=verdicts, replies=scene.replies if verdicts[-1] else ())


def answer_scene(row: RealRow, beside: int, dice: Dice) -> Scene:
    """Make a scene of the row's own question: its gold passages among `beside` others, and its
    answer as the reply."""
    return _scene(
        row.questions[0], [_join(row, _draw(row, row.questions[0].needs, beside, dice))], row.task
    )


def probe_scene(row: RealRow, full: bool, dice: Dice) -> Scene:
    """A scene of the row's own question: a verdict after each passage, no reply; not `full`: a gold
    one is missing."""
    return replace(_probe_scene_of(row, row.questions[0], full, dice), replies=())


def _choice_lesson(row: RealRow, rows: Sequence[RealRow], dice: Dice) -> list[Scene]:
    """A question with four options: its answer and three similar answers of other questions; []
    without enough."""
    question = _pick_question(row, dice)
    if not question.needs or question.answer.lower() in ("yes", "no"):
        return []
    kind = question.answer[:1].isdigit()
    wrong: list[str] = [
        a.answer for a in row.questions if a.answer != question.answer and dice.chance(0.5)
    ]
    for _ in range(_TRIES):
        other = dice.pick(dice.pick(rows).questions).answer
        alike = other[:1].isdigit() == kind and len(other) < 80
        if len({*wrong}) < 3 and alike and other not in (question.answer, *wrong):
            wrong.append(other)
    if len(wrong) < 3:
        return []
    options = tuple(dice.shuffled([question.answer, *wrong[:3]]))
    scene = _scene(
        question,
        [_join(row, _draw(row, question.needs, dice.pick(_FEW[:6]), dice))],
        preset_task("quality"),
    )
    return [replace(scene, question=replace(scene.question, options=options))]


def _unanswerable_lesson(row: RealRow, _: Sequence[RealRow], dice: Dice) -> list[Scene]:
    """A question with its gold passages, to be answered, or without one of them, to be declined."""
    question = _pick_question(row, dice)
    if not question.needs:
        return []
    full, beside = dice.chance(_FULL), dice.pick(_FEW[:6])
    shown = _draw(row, question.needs, beside, dice, full=full)
    complete = {*question.needs} <= {*shown}
    return [
        _scene(
            question,
            [_join(row, shown)],
            preset_task("qasper"),
            None if complete else "Unanswerable",
        )
    ]


def _breadth_lesson(row: RealRow, _: Sequence[RealRow], dice: Dice) -> list[Scene]:
    text = _pick_question(row, dice).text
    return [
        Scene(
            Question("scene", text, ("scene",)),
            (),
            row.task,
            verdicts=(not asks_for_account(text),),
        )
    ]


def _steps_lesson(row: RealRow, _: Sequence[RealRow], _dice: Dice) -> list[Scene]:
    if len(row.steps) < 2:
        return []
    return [_scene(row.questions[0], (), row.task, "\n".join(f"* {step}" for step in row.steps))]


def preset_task(dataset: str) -> Task:
    """The instruction and the answer length in the preset of `dataset`."""
    from harness.config import presets

    values = presets.read("datasets", dataset)[-1][1]
    return Task(instruction=values["instruction"], max_answer_tokens=values["max_answer_tokens"])


KINDS: dict[str, Callable[[RealRow, Sequence[RealRow], Dice], list[Scene]]] = {
    "answer": _answer_lesson,
    "probe": _probe_lesson,
    "choose": _choice_lesson,
    "unanswerable": _unanswerable_lesson,
    "breadth": _breadth_lesson,
    "steps": _steps_lesson,
}
