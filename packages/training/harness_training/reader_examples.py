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

from harness.config import presets
from harness.errors import UserError
from harness.method import Task
from harness.stats.rng import Dice
from harness.types import Question
from harness_training.example_files import Recipe, draw_scenes
from harness_training.real_rows import RealRow, RowQuestion
from harness_training.tasks import Scene, Skill
from harness_training.teacher import Teacher, Transcript
from harness_training.token_rows import Tree, build_trees

_FULL = 0.5  # share of searches that are shown every gold passage
_FEW = (0, 0, 0, 1, 1, 2, 2, 3, 5)  # numbers of passages besides the gold ones, to draw from
_SHARED = 3  # most further questions about one text
_TRIES = 50  # rows in a row that allow no lesson of a kind; lessons that are too long
SKILLS = {
    "answer": "answer",
    "probe": "pecan search",
    "choose": "choose",
    "unanswerable": "answer",
    "breadth": "longrefiner analysis",
    "steps": "decompose",
}
"""Kind of lesson -> the skill (tasks.Skill) whose prompt it uses."""
_ACCOUNT = re.compile(
    r"(how come|(please )?(describe|explain|discuss|summari[sz]e|tell (me|us) about|what is known about))\b"
)


def asks_for_account(question: str) -> bool:
    """Whether a question asks for reasons or an account, by its first words: no teacher has
    labelled these rows.

    Source of the classes: LongRefiner 3.1 and its prompt A ("Global": broad or open; "Local": clear
    and fixed).
    """
    small = question.lower()
    return "why" in small.split() or _ACCOUNT.match(small.strip()) is not None


@dataclass(frozen=True)
class Mixture:
    """Weights of the training examples.

    Args:
        datasets: Data set -> weight among the real rows.
        real: Kind of lesson -> weight.
        world: Recipes of the synthetic world, weighted beside `real`.
        length: Most tokens of a row.
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

    Args:
        rows: The training rows.
        mixture: How often which lesson is drawn.
        skills: Name -> skill.
        teacher: Lays out the lessons as tokens.
        seed: The seed of all draws.

    Raises:
        UserError: No lesson fits into `mixture.length` tokens.
    """
    lessons = _Lessons(rows, mixture, skills, seed)
    number = 0
    idle = 0
    while True:
        lesson = lessons.draw(Dice("reader", seed, number))
        number += 1
        transcripts = [teacher.play(lesson.skill, scene) for scene in lesson.scenes]
        if transcripts and _row_tokens(transcripts) > mixture.length:
            del transcripts[1:]
        trees = [tree for tree in build_trees(transcripts) if len(tree) <= mixture.length]
        idle += 1
        if trees:
            idle = 0
        if idle > _TRIES:
            raise UserError(
                f"no lesson fits into rows of {mixture.length} tokens; raise the length"
            )
        for tree in trees:
            yield lesson.skill.name, tree


def _row_tokens(transcripts: Sequence[Transcript]) -> int:
    """About how many tokens a row of transcripts of one text has: those of the first one, and 64
    for each other one."""
    return len(transcripts[0].ids) + 64 * (len(transcripts) - 1)


@dataclass(frozen=True)
class _Lesson:
    """Scenes of one text, and the skill that plays them."""

    skill: Skill
    scenes: list[Scene]


class _Lessons:
    """Draws lessons, of the rows and of the synthetic world."""

    def __init__(
        self, rows: Sequence[RealRow], mixture: Mixture, skills: Mapping[str, Skill], seed: int
    ) -> None:
        """Prepare the draws: the weight of each kind of lesson and each recipe, and for each kind
        an order of the rows."""
        self._rows = rows
        self._skills = skills
        self._chances: list[tuple[str | Recipe, float]] = []
        self._orders: dict[str, Iterator[int]] = {}
        for kind, weight in mixture.real.items():
            if rows:
                self._chances.append((kind, weight))
            self._orders[kind] = _row_order(rows, kind, mixture.datasets, seed)
        for recipe in mixture.world:
            self._chances.append((recipe, recipe.weight))

    def draw(self, dice: Dice) -> _Lesson:
        """Draw the kind of the next lesson, and return a lesson of it; without scenes where no row
        or text gives one."""
        kind = dice.weighted(self._chances)
        if isinstance(kind, str):
            return _Lesson(self._skills[SKILLS[kind]], self._of_rows(kind, dice))
        skill = self._skills[kind.skill]
        return _Lesson(skill, list(draw_scenes(kind, skill.scene, dice)))

    def _of_rows(self, kind: str, dice: Dice) -> list[Scene]:
        """The scenes of the next row that allows a lesson of this kind; [] after _TRIES rows."""
        for _ in range(_TRIES):
            row = self._rows[next(self._orders[kind])]
            scenes = KINDS[kind](row, self._rows, dice)
            if scenes:
                return scenes
        return []


def _row_order(
    rows: Sequence[RealRow], kind: str, weights: Mapping[str, float], seed: int
) -> Iterator[int]:
    """Yield indices of `rows`, without end: a data set is drawn by its weight, its rows come epoch
    by epoch.

    Args:
        rows: The training rows.
        kind: The kind of lesson; each has an order of its own.
        weights: Data set -> weight.
        seed: The seed of the order.
    """
    dice = Dice("rows", seed, kind)
    numbers: dict[str, list[int]] = {name: [] for name in weights}
    for number, row in enumerate(rows):
        if row.dataset in numbers:
            numbers[row.dataset].append(number)
    chances = [(name, weight) for name, weight in weights.items() if numbers[name]]
    queues: dict[str, list[int]] = {name: [] for name in weights}
    while True:
        name = dice.weighted(chances)
        if not queues[name]:
            queues[name] = dice.shuffled(numbers[name])
        yield queues[name].pop()


def _pick_question(row: RealRow, dice: Dice) -> RowQuestion:
    """Draw a question of a row: its own one, or in a third of the cases one of its single-hop
    questions, where it has some."""
    if len(row.questions) > 1 and dice.chance(1 / 3):
        return dice.pick(row.questions[1:])
    return row.questions[0]


def _passages_shown(
    row: RealRow, needs: Sequence[int], beside: int, dice: Dice, *, full: bool = True
) -> list[int]:
    """The shuffled numbers of the passages that a lesson shows.

    Args:
        row: The row of the lesson.
        needs: The numbers of the gold passages.
        beside: How many other passages are shown.
        dice: Draws them.
        full: Whether all gold passages are shown; else another passage replaces one.
    """
    shown = list(needs)
    if not full:
        missing = dice.pick(needs)
        shown = [number for number in needs if number != missing]
        beside += 1
    others = [number for number in range(len(row.passages)) if number not in needs]
    shown += dice.shuffled(others)[:beside]
    return dice.shuffled(shown)


def _joined(row: RealRow, shown: Sequence[int]) -> str:
    """The passages of these numbers as one text, a blank line between each two."""
    return "\n\n".join(row.passages[i] for i in shown)


def _scene(
    question: RowQuestion, texts: Sequence[str], task: Task, reply: str | None = None
) -> Scene:
    """A question, the texts that are shown with it, and the one right reply, to train on.

    Args:
        question: The question with its answer.
        texts: The passages that are shown, in order.
        task: The instruction and the length of the answer.
        reply: The right reply; by default the question's answer.
    """
    if reply is None:
        reply = question.answer.strip()
    asked = Question(id="scene", text=question.text, document_ids=("scene",))
    return Scene(asked, tuple(texts), task, replies=(reply,))


def _answer_lesson(row: RealRow, _: Sequence[RealRow], dice: Dice) -> list[Scene]:
    """Scenes of a question over some passages, and of up to _SHARED other questions that these
    passages answer.

    Args:
        row: The row.
        _: Not used.
        dice: Draws question and passages.
    """
    first = _pick_question(row, dice)
    beside = 4
    if first.needs:
        beside = dice.pick(_FEW)
    shown = _passages_shown(row, first.needs, beside, dice)
    others = [other for other in row.questions if other != first and _needs_only(other, shown)]
    questions = [first, *dice.shuffled(others)[:_SHARED]]
    return [_scene(question, [_joined(row, shown)], row.task) for question in questions]


def _needs_only(question: RowQuestion, shown: Sequence[int]) -> bool:
    """Whether a question has gold passages, all of them among the passages that are shown."""
    return bool(question.needs) and set(question.needs).issubset(shown)


def _probe_lesson(row: RealRow, _: Sequence[RealRow], dice: Dice) -> list[Scene]:
    """A scene of a search that is shown a row's passages one by one; [] for an unanswerable
    question.

    Args:
        row: The row.
        _: Not used.
        dice: Draws question and passages.
    """
    question = _pick_question(row, dice)
    if not question.needs:
        return []
    return [_probe_scene_of(row, question, dice.chance(_FULL), dice)]


def _probe_scene_of(row: RealRow, question: RowQuestion, full: bool, dice: Dice) -> Scene:
    """A scene of passages, after each the verdict whether all gold ones are shown by now.

    Args:
        row: The row.
        question: One of the row's questions.
        full: Whether all gold passages are shown; then the answer is the reply at the end.
        dice: Draws the passages.
    """
    beside = dice.pick((1, 1, 2, 2, 3))
    shown = _passages_shown(row, question.needs, beside, dice, full=full)
    missing = set(question.needs)
    texts: list[str] = []
    verdicts: list[bool] = []
    for number in shown:
        missing.discard(number)
        texts.append(" ".join(row.passages[number].split()))
        verdicts.append(not missing)
    scene = _scene(question, texts, row.task)
    if missing:
        scene = replace(scene, replies=())
    return replace(scene, verdicts=tuple(verdicts))


def answer_scene(row: RealRow, beside: int, dice: Dice) -> Scene:
    """A scene of the row's own question, with its answer as the reply.

    Args:
        row: The row.
        beside: How many passages are shown beside the gold ones.
        dice: Draws them.
    """
    question = row.questions[0]
    shown = _passages_shown(row, question.needs, beside, dice)
    return _scene(question, [_joined(row, shown)], row.task)


def probe_scene(row: RealRow, full: bool, dice: Dice) -> Scene:
    """A scene of the row's own question: a verdict after each passage, no reply.

    Args:
        row: The row.
        full: Whether all gold passages are shown; else one is missing.
        dice: Draws the passages.
    """
    return replace(_probe_scene_of(row, row.questions[0], full, dice), replies=())


def _choice_lesson(row: RealRow, rows: Sequence[RealRow], dice: Dice) -> list[Scene]:
    """A scene of a question with four options: its answer and three similar answers of other
    questions; [] without enough of these.

    Args:
        row: The row.
        rows: All rows of the data.
        dice: Draws question, options and passages.
    """
    question = _pick_question(row, dice)
    if not question.needs or question.answer.lower() in ("yes", "no"):
        return []
    wrong = _wrong_answers(question, row, rows, dice)
    if len(wrong) < 3:
        return []
    options = tuple(dice.shuffled([question.answer, *wrong[:3]]))
    shown = _passages_shown(row, question.needs, dice.pick(_FEW[:6]), dice)
    scene = _scene(question, [_joined(row, shown)], preset_task("quality"))
    return [replace(scene, question=replace(scene.question, options=options))]


def _wrong_answers(
    question: RowQuestion, row: RealRow, rows: Sequence[RealRow], dice: Dice
) -> list[str]:
    """Answers of other questions: some of the row's, then of other rows', which are numbers where
    the right one is, else none.

    Args:
        question: The question, whose answer is none of them.
        row: The row of the question.
        rows: All rows of the data.
        dice: Draws them.
    """
    is_number = question.answer[:1].isdigit()
    others = [other.answer for other in row.questions if other.answer != question.answer]
    wrong = [answer for answer in others if dice.chance(0.5)]
    for _ in range(_TRIES):
        answer = dice.pick(dice.pick(rows).questions).answer
        is_alike = answer[:1].isdigit() == is_number and len(answer) < 80
        if len(set(wrong)) < 3 and is_alike and answer not in (question.answer, *wrong):
            wrong.append(answer)
    return wrong


def _unanswerable_lesson(row: RealRow, _: Sequence[RealRow], dice: Dice) -> list[Scene]:
    """A scene of a question with its gold passages, to be answered, or without one of them, to be
    declined; [] for a question without gold passages.

    Args:
        row: The row.
        _: Not used.
        dice: Draws question and passages.
    """
    question = _pick_question(row, dice)
    if not question.needs:
        return []
    full = dice.chance(_FULL)
    beside = dice.pick(_FEW[:6])
    shown = _passages_shown(row, question.needs, beside, dice, full=full)
    reply = "Unanswerable"
    if set(question.needs).issubset(shown):
        reply = question.answer.strip()
    return [_scene(question, [_joined(row, shown)], preset_task("qasper"), reply)]


def _breadth_lesson(row: RealRow, _: Sequence[RealRow], dice: Dice) -> list[Scene]:
    """A scene of a question without texts, with the verdict whether its answer is clear and fixed.

    Args:
        row: The row.
        _: Not used.
        dice: Draws the question.
    """
    text = _pick_question(row, dice).text
    question = Question("scene", text, ("scene",))
    return [Scene(question, (), row.task, verdicts=(not asks_for_account(text),))]


def _steps_lesson(row: RealRow, _: Sequence[RealRow], _dice: Dice) -> list[Scene]:
    """A scene of a row's own question, whose reply is its decomposition as a list; [] for one of a
    single hop."""
    if len(row.steps) < 2:
        return []
    reply = "\n".join(f"* {step}" for step in row.steps)
    return [_scene(row.questions[0], (), row.task, reply)]


def preset_task(dataset: str) -> Task:
    """The answer instruction and the answer length in the preset of a data set."""
    _, values = presets.read("datasets", dataset)[-1]
    names = ("instruction", "max_answer_tokens")
    return Task.model_validate({name: values[name] for name in names})


Lesson = Callable[[RealRow, Sequence[RealRow], Dice], list[Scene]]
"""(a row, all rows of the data, what random choices are drawn from) -> scenes; [] where the row
allows none."""

KINDS: dict[str, Lesson] = {
    "answer": _answer_lesson,
    "probe": _probe_lesson,
    "choose": _choice_lesson,
    "unanswerable": _unanswerable_lesson,
    "breadth": _breadth_lesson,
    "steps": _steps_lesson,
}
