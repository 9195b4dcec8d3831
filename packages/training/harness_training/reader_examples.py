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

_SHARE_WITH_ALL_GOLD = 0.5  # share of searches that are shown every gold passage
# Numbers of passages besides the gold ones, to draw from.
_N_OTHER_PASSAGES_DRAWN = (0, 0, 0, 1, 1, 2, 2, 3, 5)
_MAX_FURTHER_QUESTIONS = 3  # most further questions about one text
_MAX_TRIES = 50  # rows in a row that allow no lesson of a kind; lessons that are too long
SKILL_OF_LESSON = {
    "answer": "answer",
    "probe": "pecan search",
    "choose": "choose",
    "unanswerable": "answer",
    "breadth": "longrefiner analysis",
    "steps": "decompose",
}
"""Kind of lesson -> the skill (tasks.Skill) whose prompt it uses."""
_ACCOUNT_WORDS = re.compile(
    r"(how come|(please )?(describe|explain|discuss|summari[sz]e|tell (me|us) about|what is known about))\b"
)


def asks_for_account(question: str) -> bool:
    """Whether a question asks for reasons or an account, by its first words: no teacher has
    labelled these rows.

    Source of the classes: LongRefiner 3.1 and its prompt A ("Global": broad or open; "Local": clear
    and fixed).
    """
    lowered = question.lower()
    return "why" in lowered.split() or _ACCOUNT_WORDS.match(lowered.strip()) is not None


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
    """Yield (name of the skill, tree) without end: lesson after lesson is drawn, and its scenes are
    laid out as tokens, as one tree where they share their text. The rows of a data set come epoch
    by epoch, in random order. Trees that are too long are left out; of scenes that are too long
    together the first one stays.

    Args:
        rows: The training rows.
        mixture: How often which lesson is drawn.
        skills: Name -> skill.
        teacher: Lays out the lessons as tokens.
        seed: The seed of all draws.

    Raises:
        UserError: No lesson fits into `mixture.length` tokens.
    """
    lesson_drawer = _LessonDrawer(rows, mixture, skills, seed)
    lesson_number = 0
    draws_without_tree = 0
    while True:
        lesson = lesson_drawer.draw(Dice("reader", seed, lesson_number))
        lesson_number += 1
        transcripts = [teacher.play(lesson.skill, scene) for scene in lesson.scenes]
        if transcripts and _estimated_row_tokens(transcripts) > mixture.length:
            transcripts = transcripts[:1]
        trees = [tree for tree in build_trees(transcripts) if len(tree) <= mixture.length]
        draws_without_tree += 1
        if trees:
            draws_without_tree = 0
        if draws_without_tree > _MAX_TRIES:
            raise UserError(
                f"no lesson fits into rows of {mixture.length} tokens; raise the length"
            )
        for tree in trees:
            yield lesson.skill.name, tree


def _estimated_row_tokens(transcripts: Sequence[Transcript]) -> int:
    """About how many tokens a row of transcripts of one text has: those of the first one, and 64
    for each other one."""
    return len(transcripts[0].ids) + 64 * (len(transcripts) - 1)


@dataclass(frozen=True)
class _Lesson:
    """Scenes of one text, and the skill that plays them."""

    skill: Skill
    scenes: list[Scene]


class _LessonDrawer:
    """Draws lessons, of the rows and of the synthetic world."""

    def __init__(
        self, rows: Sequence[RealRow], mixture: Mixture, skills: Mapping[str, Skill], seed: int
    ) -> None:
        """Prepare the draws: the weight of each kind of lesson and each recipe, and for each kind
        an order of the rows.

        Args:
            rows: The training rows; without any, only recipes are drawn.
            mixture: The weights.
            skills: Name -> skill.
            seed: The seed of the orders.
        """
        self._rows = rows
        self._skills = skills
        # Each kind of lesson from real rows, or recipe of the synthetic world, with its weight.
        self._chances: list[tuple[str | Recipe, float]] = []
        # Kind of lesson -> indices of rows, without end.
        self._orders: dict[str, Iterator[int]] = {}
        for kind, weight in mixture.real.items():
            if rows:
                self._chances.append((kind, weight))
            self._orders[kind] = _row_indices_in_order(rows, kind, mixture.datasets, seed)
        for recipe in mixture.world:
            self._chances.append((recipe, recipe.weight))

    def draw(self, dice: Dice) -> _Lesson:
        """Draw the kind of the next lesson, and return a lesson of it; without scenes where no row
        or text gives one."""
        kind_or_recipe = dice.weighted(self._chances)
        if isinstance(kind_or_recipe, str):
            skill_of_kind = self._skills[SKILL_OF_LESSON[kind_or_recipe]]
            return _Lesson(skill_of_kind, self._scenes_of_next_row(kind_or_recipe, dice))
        skill = self._skills[kind_or_recipe.skill]
        return _Lesson(skill, list(draw_scenes(kind_or_recipe, skill.scene, dice)))

    def _scenes_of_next_row(self, kind: str, dice: Dice) -> list[Scene]:
        """Take rows until one allows a lesson of this kind, and return its scenes; [] after
        _MAX_TRIES rows."""
        for _ in range(_MAX_TRIES):
            row = self._rows[next(self._orders[kind])]
            scenes = LESSON_MAKERS[kind](row, self._rows, dice)
            if scenes:
                return scenes
        return []


def _row_indices_in_order(
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
    indices_by_dataset: dict[str, list[int]] = {dataset: [] for dataset in weights}
    for index, row in enumerate(rows):
        if row.dataset in indices_by_dataset:
            indices_by_dataset[row.dataset].append(index)
    weighted_datasets = [
        (dataset, weight) for dataset, weight in weights.items() if indices_by_dataset[dataset]
    ]
    # The rows that are left of the present epoch.
    indices_left_by_dataset: dict[str, list[int]] = {dataset: [] for dataset in weights}
    while True:
        dataset = dice.weighted(weighted_datasets)
        if not indices_left_by_dataset[dataset]:
            indices_left_by_dataset[dataset] = dice.shuffled(indices_by_dataset[dataset])
        yield indices_left_by_dataset[dataset].pop()


def _draw_question(row: RealRow, dice: Dice) -> RowQuestion:
    """Draw a question of a row: its own one, or in a third of the cases one of its single-hop
    questions, where it has some."""
    if len(row.questions) > 1 and dice.chance(1 / 3):
        return dice.pick(row.questions[1:])
    return row.questions[0]


def _draw_passages(
    row: RealRow, gold_passages: Sequence[int], n_others: int, dice: Dice, *, all_gold: bool = True
) -> list[int]:
    """The shuffled numbers of the passages that a lesson shows.

    Args:
        row: The row of the lesson.
        gold_passages: The numbers of the gold passages.
        n_others: How many other passages are shown.
        dice: Draws them.
        all_gold: Whether all gold passages are shown; else another passage takes the place of a
            random one.
    """
    passages = list(gold_passages)
    if not all_gold:
        left_out = dice.pick(gold_passages)
        passages = [number for number in gold_passages if number != left_out]
        n_others += 1
    others = [number for number in range(len(row.passages)) if number not in gold_passages]
    passages += dice.shuffled(others)[:n_others]
    return dice.shuffled(passages)


def _join_passages(row: RealRow, passages: Sequence[int]) -> str:
    """The passages of these numbers as one text, a blank line between each two."""
    return "\n\n".join(row.passages[i] for i in passages)


def _scene_with_reply(
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
    """Scenes of a question over some passages, and of up to _MAX_FURTHER_QUESTIONS other questions
    that these passages answer.

    Args:
        row: The row.
        _: Not used.
        dice: Draws question and passages.
    """
    first_question = _draw_question(row, dice)
    n_others = 4  # for an unanswerable question, which has no gold passages
    if first_question.gold_passages:
        n_others = dice.pick(_N_OTHER_PASSAGES_DRAWN)
    passages = _draw_passages(row, first_question.gold_passages, n_others, dice)
    other_questions = [
        other
        for other in row.questions
        if other != first_question and _answered_by_passages(other, passages)
    ]
    questions = [first_question, *dice.shuffled(other_questions)[:_MAX_FURTHER_QUESTIONS]]
    return [
        _scene_with_reply(question, [_join_passages(row, passages)], row.task)
        for question in questions
    ]


def _answered_by_passages(question: RowQuestion, passages: Sequence[int]) -> bool:
    """Whether a question has gold passages, all of them among the passages that are shown."""
    return bool(question.gold_passages) and set(question.gold_passages).issubset(passages)


def _probe_lesson(row: RealRow, _: Sequence[RealRow], dice: Dice) -> list[Scene]:
    """A scene of a search that is shown a row's passages one by one; [] for an unanswerable
    question.

    Args:
        row: The row.
        _: Not used.
        dice: Draws question and passages.
    """
    question = _draw_question(row, dice)
    if not question.gold_passages:
        return []
    all_gold = dice.chance(_SHARE_WITH_ALL_GOLD)
    return [_probe_scene_of_question(row, question, dice, all_gold=all_gold)]


def _probe_scene_of_question(
    row: RealRow, question: RowQuestion, dice: Dice, *, all_gold: bool
) -> Scene:
    """A scene of passages, each on one line, after each the verdict whether all gold ones are shown
    by now.

    Args:
        row: The row.
        question: One of the row's questions.
        all_gold: Whether all gold passages are shown; then the answer is the reply at the end.
        dice: Draws the passages.
    """
    n_others = dice.pick((1, 1, 2, 2, 3))
    passages = _draw_passages(row, question.gold_passages, n_others, dice, all_gold=all_gold)
    gold_not_shown = set(question.gold_passages)
    texts: list[str] = []
    verdicts: list[bool] = []
    for number in passages:
        gold_not_shown.discard(number)
        texts.append(" ".join(row.passages[number].split()))
        verdicts.append(not gold_not_shown)
    scene = _scene_with_reply(question, texts, row.task)
    if gold_not_shown:  # one was missing, so there is no answer to give
        scene = replace(scene, replies=())
    return replace(scene, verdicts=tuple(verdicts))


def answer_scene(row: RealRow, n_other_passages: int, dice: Dice) -> Scene:
    """A scene of the row's own question, with its answer as the reply.

    Args:
        row: The row.
        n_other_passages: How many passages are shown beside the gold ones.
        dice: Draws them.
    """
    question = row.questions[0]
    passages = _draw_passages(row, question.gold_passages, n_other_passages, dice)
    return _scene_with_reply(question, [_join_passages(row, passages)], row.task)


def probe_scene(row: RealRow, dice: Dice, *, all_gold: bool) -> Scene:
    """A scene of the row's own question: a verdict after each passage, no reply.

    Args:
        row: The row.
        all_gold: Whether all gold passages are shown; else one is missing.
        dice: Draws the passages.
    """
    return replace(
        _probe_scene_of_question(row, row.questions[0], dice, all_gold=all_gold), replies=()
    )


def _choice_lesson(row: RealRow, rows: Sequence[RealRow], dice: Dice) -> list[Scene]:
    """A scene of a question with four options: its answer and three similar answers of other
    questions; [] without enough of these, and for an unanswerable question or one of yes or no. The
    instruction is QuALITY's.

    Args:
        row: The row.
        rows: All rows of the data.
        dice: Draws question, options and passages.
    """
    question = _draw_question(row, dice)
    if not question.gold_passages or question.answer.lower() in ("yes", "no"):
        return []
    wrong_answers = _wrong_answers(question, row, rows, dice)
    if len(wrong_answers) < 3:
        return []
    options = tuple(dice.shuffled([question.answer, *wrong_answers[:3]]))
    passages = _draw_passages(
        row, question.gold_passages, dice.pick(_N_OTHER_PASSAGES_DRAWN[:6]), dice
    )
    scene = _scene_with_reply(question, [_join_passages(row, passages)], preset_task("quality"))
    return [replace(scene, question=replace(scene.question, options=options))]


def _wrong_answers(
    question: RowQuestion, row: RealRow, rows: Sequence[RealRow], dice: Dice
) -> list[str]:
    """Answers of other questions: some of the row's, then of any rows' until there are three, only
    short ones, and only numbers where the right one is a number, else none. There may be more than
    three, or fewer.

    Args:
        question: The question, whose answer is none of them.
        row: The row of the question.
        rows: All rows of the data.
        dice: Draws them.
    """
    is_number = question.answer[:1].isdigit()
    answers_of_row = [other.answer for other in row.questions if other.answer != question.answer]
    wrong_answers = [answer for answer in answers_of_row if dice.chance(0.5)]
    for _ in range(_MAX_TRIES):
        answer = dice.pick(dice.pick(rows).questions).answer
        is_alike = answer[:1].isdigit() == is_number and len(answer) < 80
        is_new = answer not in (question.answer, *wrong_answers)
        needs_more = len(set(wrong_answers)) < 3
        if needs_more and is_alike and is_new:
            wrong_answers.append(answer)
    return wrong_answers


def _unanswerable_lesson(row: RealRow, _: Sequence[RealRow], dice: Dice) -> list[Scene]:
    """A scene of a question with its gold passages, to be answered, or without one of them, to be
    declined with "Unanswerable"; [] for a question without gold passages. The instruction is
    Qasper's.

    Args:
        row: The row.
        _: Not used.
        dice: Draws question and passages.
    """
    question = _draw_question(row, dice)
    if not question.gold_passages:
        return []
    all_gold = dice.chance(_SHARE_WITH_ALL_GOLD)
    n_others = dice.pick(_N_OTHER_PASSAGES_DRAWN[:6])
    passages = _draw_passages(row, question.gold_passages, n_others, dice, all_gold=all_gold)
    reply = "Unanswerable"
    if set(question.gold_passages).issubset(passages):
        reply = question.answer.strip()
    return [
        _scene_with_reply(question, [_join_passages(row, passages)], preset_task("qasper"), reply)
    ]


def _breadth_lesson(row: RealRow, _: Sequence[RealRow], dice: Dice) -> list[Scene]:
    """A scene of a question without texts, with the verdict whether its answer is clear and fixed.

    Args:
        row: The row.
        _: Not used.
        dice: Draws the question.
    """
    text = _draw_question(row, dice).text
    question = Question(id="scene", text=text, document_ids=("scene",))
    is_clear_and_fixed = not asks_for_account(text)
    return [Scene(question, texts=(), task=row.task, verdicts=(is_clear_and_fixed,))]


def _steps_lesson(row: RealRow, _: Sequence[RealRow], _dice: Dice) -> list[Scene]:
    """A scene of a row's own question, whose reply is its decomposition as a list; [] for one of a
    single hop."""
    if len(row.steps) < 2:
        return []
    reply = "\n".join(f"* {step}" for step in row.steps)
    return [_scene_with_reply(row.questions[0], (), row.task, reply)]


def preset_task(dataset: str) -> Task:
    """The answer instruction and the answer length in the preset of a data set."""
    _, values = presets.read("datasets", dataset)[-1]
    names = ("instruction", "max_answer_tokens")
    return Task.model_validate({name: values[name] for name in names})


Lesson = Callable[[RealRow, Sequence[RealRow], Dice], list[Scene]]
"""(a row, all rows of the data, what random choices are drawn from) -> scenes; [] where the row
allows none."""

LESSON_MAKERS: dict[str, Lesson] = {
    "answer": _answer_lesson,
    "probe": _probe_lesson,
    "choose": _choice_lesson,
    "unanswerable": _unanswerable_lesson,
    "breadth": _breadth_lesson,
    "steps": _steps_lesson,
}
