"""Train one adapter for all requests that methods make of a reader, on real rows and on the
synthetic world.

    reader = ReaderTraining(base, settings, data, out, seed)
    reader.run(tell, stop, last_step)           resumes from `out`
    out/adapters/reader                         the adapter with its card

The training examples are described in reader_examples.py; trainer.py trains on them.
"""

import itertools
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from harness.config import presets
from harness.config.schema import ModelConfig
from harness.errors import UserError
from harness.llm.adapters import WEIGHTS, prompt_digests
from harness.llm.backend import load_model
from harness.llm.model_info import hash_files
from harness.scorers.longbench import qa_f1_score
from harness.stats.bootstrap import Interval
from harness.stats.rng import Dice
from harness_training import cards
from harness_training.exam import (
    ExamPart,
    Measure,
    ScoredProbe,
    area_under_roc,
    examine,
    mean_over_scenes,
)
from harness_training.example_files import Recipe, draw_scenes
from harness_training.lora_model import Base, load_teacher
from harness_training.reader_examples import (
    LESSON_MAKERS,
    SKILL_OF_LESSON,
    Mixture,
    answer_scene,
    lesson_trees,
    probe_scene,
)
from harness_training.real_rows import RealRow, check_apart, load_rows
from harness_training.settings import Settings
from harness_training.skills import declared_skills, prompts_by_name, skill_owners
from harness_training.tasks import Scene, SceneOutcome, Skill
from harness_training.token_rows import Rows
from harness_training.trainer import Job, identity, train

ADAPTER_NAME = "reader"
_N_OTHER_PASSAGES = 4  # passages beside the gold ones


class SourceSettings(BaseModel):
    """The rows of one data set.

    Args:
        files: Name pattern of its training files.
        weight: How often it is drawn beside the other data sets.
        measured: Name pattern of its evaluation files; None to measure nothing on it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    files: str
    weight: float = Field(default=1.0, gt=0)
    measured: str | None = None


class ReaderSettings(Settings):
    """Settings of a reader's training.

    Args:
        start: Folder of an adapter to initialise from.
        exam_world: Evaluation scenes of the synthetic world for each skill.
        sources: Data set -> its files.
        real: Kind of lesson -> weight.

    The task's recipes give scenes of the synthetic world, each with its weight beside those of
    `real`.
    """

    start: str | None = None
    exam_world: int = Field(default=10, ge=1)
    sources: dict[str, SourceSettings] = Field(min_length=1)
    real: dict[str, float] = Field(min_length=1)


@dataclass
class ReaderTraining:
    """The training of one adapter for all methods.

    Args:
        base: The model to train.
        settings: The settings of the training.
        data: Folder of the training files.
        out: Folder of log and adapter.
        seed: The seed of rows, weights and order.
        device: "auto", "cpu" or "cuda".
    """

    base: ModelConfig
    settings: ReaderSettings
    data: Path
    out: Path
    seed: int
    device: str = "auto"

    def run(
        self, tell: Callable[[str], None], stop: threading.Event, last_step: int | None
    ) -> bool:
        """Draw the training rows, say how many there are, and train until all steps are done,
        `last_step` is reached or `stop` is set; unless stopped, write the adapter and its card.

        Args:
            tell: Called with each line of progress.
            stop: Ends the training after the step in which it is set; then no card is written.
            last_step: The last step; None for no limit.

        Returns:
            Whether all steps are done.

        Raises:
            UserError: The folder holds another training, or the data cannot be used.
            CannotRun: A model cannot be used, or a loss is not finite.
        """
        real_rows = self.rows()
        base_model = Base(self.base, self.settings, self.device)
        token_rows, rows_by_skill = self._token_rows(base_model, real_rows)
        rows_of_each_skill = [f"{name} {count}" for name, count in rows_by_skill.most_common()]
        tell(
            f"{len(real_rows)} training questions; {len(token_rows.rows)} rows, "
            f"{token_rows.tokens} tokens: {', '.join(rows_of_each_skill)}"
        )
        job = self._job(base_model, real_rows, token_rows, last_step)
        progress = train(base_model, job, tell, stop)
        if not stop.is_set():
            trained = self._training_data(real_rows, rows_by_skill)
            about = cards.AboutAdapter(
                method=ADAPTER_NAME, prompts=prompt_digests(prompts_by_name()), data=trained
            )
            cards.write_card(self.folder, about, base_model, job, progress)
        return progress.step >= job.steps

    @property
    def _start(self) -> Path | None:
        """The folder of the adapter that the training continues; None for a new one."""
        if self.settings.start is None:
            return None
        return Path(self.settings.start)

    def _job(
        self, base: Base, rows: Sequence[RealRow], token_rows: Rows, last_step: int | None
    ) -> Job:
        """The training of the adapter, ready to start.

        Args:
            base: The model.
            rows: The real rows, whose ids are part of what identifies the training.
            token_rows: The token rows that are learnt.
            last_step: The last step; None for no limit.
        """
        identified_by: dict[str, object] = {
            "data": sorted(row.id for row in rows),
            "prompts": prompts_by_name(),
        }
        if self._start is not None:
            identified_by["start"] = hash_files(self._start)[:16]
        return Job(
            name=ADAPTER_NAME,
            out=self.out,
            data=token_rows,
            settings=self.settings,
            seed=self.seed,
            about=identity(base, self.settings, ADAPTER_NAME, self.seed, **identified_by),
            last_step=last_step,
            start=self._start,
            partial=True,
        )

    def _training_data(
        self, rows: Sequence[RealRow], rows_by_skill: Counter[str]
    ) -> cards.TrainingData:
        """What the adapter was trained on, for its card.

        Args:
            rows: The real rows.
            rows_by_skill: Skill -> how many token rows it has.
        """
        start_hash = None
        earlier_trainings = None
        if self._start is not None:
            start_hash = hash_files(self._start)[:16]
            earlier_trainings = cards.training_history(self._start)
        return cards.TrainingData(
            data=dict(Counter(row.dataset for row in rows)),
            skills=dict(rows_by_skill),
            methods=_rows_by_method(rows_by_skill),
            licences=self._licences(),
            start=start_hash,
            before=earlier_trainings,
        )

    def _licences(self) -> dict[str, str]:
        """Source of rows -> its licence; the made-up world is one of them."""
        licences = {}
        for name in self.settings.sources:
            _, values = presets.read("datasets", name)[-1]
            licences[name] = str(values.get("licence", ""))
        licences["the made-up world"] = "as this project"
        return licences

    def examine(self, tell: Callable[[str], None]) -> list[Measure]:
        """Measure the base without and with the adapter, and write the measures to its card.

        Args:
            tell: Called with the headline of each part of the exam.

        Raises:
            UserError: There is no adapter, or the data folder has no evaluation rows, or some that
                are trained on.
            CannotRun: A model cannot be used.
        """
        if not (self.folder / WEIGHTS).is_file():
            raise UserError(f"there is no adapter in {self.folder}; train it first")
        evaluation_files: dict[str, str] = {}
        for name, source in self.settings.sources.items():
            pattern = source.measured  # of its evaluation files' names; None: nothing is measured
            if pattern:
                evaluation_files[name] = pattern
        exam_rows = load_rows(evaluation_files, self.data, training=False)
        check_apart(self.rows(), exam_rows)  # raises where a row is trained on
        adapted = self.base.model_copy(update={"adapter": str(self.folder)})
        without_and_with_adapter = [(load_model(self.base), None), (load_model(adapted), None)]
        measures: list[Measure] = []
        exam_size = ExamSize(questions=self.settings.exam, world=self.settings.exam_world)
        for part in exam_parts(exam_rows, self._recipes(), declared_skills(), exam_size, self.seed):
            measures += examine(part, without_and_with_adapter, tell)
        about = cards.AboutExam(
            scenes=self.settings.exam, seed=self.seed, source="rows of other splits"
        )
        cards.write_measures(self.out, about, measures)
        return measures

    @property
    def folder(self) -> Path:
        """The folder of the adapter."""
        return self.out / "adapters" / ADAPTER_NAME

    def rows(self) -> list[RealRow]:
        """Load the training rows of all sources. Raises UserError, DataError."""
        files = {name: source.files for name, source in self.settings.sources.items()}
        return load_rows(files, self.data, training=True)

    def _recipes(self) -> list[Recipe]:
        """The recipes of made-up scenes that the settings list for the reader; [] where they list
        none."""
        if not self.settings.tasks[ADAPTER_NAME].recipes:
            return []
        return self.settings.recipes(ADAPTER_NAME, "answer")

    def _token_rows(self, base: Base, rows: list[RealRow]) -> tuple[Rows, Counter[str]]:
        """Draw lessons, and lay them out as the token rows to train on.

        Args:
            base: The model to train.
            rows: The real rows, which are drawn beside scenes of the synthetic world.

        Returns:
            The token rows; and skill -> how many of them it has.
        """
        task_settings = self.settings.tasks[ADAPTER_NAME]
        weights = {name: source.weight for name, source in self.settings.sources.items()}
        mixture = Mixture(
            datasets=weights,
            real=self.settings.real,
            world=self._recipes(),
            length=task_settings.length,
        )
        teacher = load_teacher(self.base, max(task_settings.length, base.window))
        trees = lesson_trees(rows, mixture, declared_skills(), teacher, self.seed)
        rows_of_tokens = Rows()
        rows_by_skill: Counter[str] = Counter()
        for skill, tree in itertools.islice(trees, task_settings.scenes):
            rows_of_tokens.rows.append(tree.row())
            rows_by_skill[skill] += 1
        return rows_of_tokens, rows_by_skill


@dataclass(frozen=True)
class ExamSize:
    """How many scenes are played.

    Args:
        questions: The most for each data set and kind.
        world: Made-up scenes for each skill.
    """

    questions: int
    world: int


def exam_parts(
    rows: Sequence[RealRow],
    recipes: Sequence[Recipe],
    skills: Mapping[str, Skill],
    size: ExamSize,
    seed: int,
) -> Iterator[ExamPart]:
    """Yield the parts of the adapter's exam: rows of other splits, then unseen texts of the
    synthetic world.

    For each data set: token F1 with the gold passages alone and with four others, the area under
    the ROC curve of P(Yes) between searches with all gold passages and searches that lack one, and
    the other kinds of examples. For each skill of the recipes: token F1 of its replies, or accuracy
    of its probes.

    Args:
        rows: Rows of evaluation splits.
        recipes: What the made-up world is asked for.
        skills: Name -> skill.
        size: How many questions and scenes.
        seed: The seed of the rows and scenes that are drawn.
    """
    for dataset in dict.fromkeys(row.dataset for row in rows):
        rows_of_dataset = [row for row in rows if row.dataset == dataset]
        shuffled_rows = Dice("exam", seed, dataset).shuffled(rows_of_dataset)
        answerable_rows = [row for row in shuffled_rows if row.questions[0].gold_passages]
        measured_rows = answerable_rows[: size.questions]
        yield from _answer_parts(dataset, measured_rows, skills["answer"])
        yield from _probe_parts(dataset, measured_rows, skills[SKILL_OF_LESSON["probe"]])
        for kind in ("choose", "unanswerable"):
            make_scenes = LESSON_MAKERS[kind]
            first_scenes: list[Scene] = []
            for row in measured_rows:
                scenes_of_row = make_scenes(row, rows_of_dataset, Dice("exam", row.id, kind))
                first_scenes += scenes_of_row[:1]
            yield _mean_score_part(
                dataset, f"token F1, {kind}", skills[SKILL_OF_LESSON[kind]], first_scenes
            )
    first_recipe_of_skill: dict[str, Recipe] = {}
    for recipe in recipes:
        first_recipe_of_skill.setdefault(recipe.skill, recipe)
    for skill_name, recipe in first_recipe_of_skill.items():
        scenes = _made_up_scenes(recipe, skills[skill_name].scene, size.world, seed)
        measure_name = "token F1"
        if scenes and scenes[0].verdicts:
            measure_name = "accuracy"
        yield _mean_score_part(
            f"made-up world: {skill_name}", measure_name, skills[skill_name], scenes
        )


def _answer_parts(dataset: str, rows: Sequence[RealRow], skill: Skill) -> Iterator[ExamPart]:
    """Yield two parts of an exam: answers from the gold passages alone, and from these among
    _N_OTHER_PASSAGES others.

    Args:
        dataset: The data set.
        rows: The rows whose own questions are asked.
        skill: Plays the answers.
    """
    shown_passages = {
        0: "gold passages",
        _N_OTHER_PASSAGES: f"gold passages and {_N_OTHER_PASSAGES} others",
    }
    for n_others, shown_in_words in shown_passages.items():
        scenes = [answer_scene(row, n_others, Dice("exam", row.id, n_others)) for row in rows]
        yield _mean_score_part(dataset, f"token F1, {shown_in_words}", skill, scenes)


def _probe_parts(dataset: str, rows: Sequence[RealRow], skill: Skill) -> Iterator[ExamPart]:
    """Yield a part of an exam: probes of searches with all gold passages and of searches that lack
    one, in turn for each row with several gold passages. Nothing where no row has several.

    Args:
        dataset: The data set.
        rows: The rows whose own questions are searched for.
        skill: Plays the searches.
    """
    scenes_in_pairs: list[Scene] = []
    for row in rows:
        if len(row.questions[0].gold_passages) > 1:
            scenes_in_pairs.append(probe_scene(row, Dice("exam", row.id, "probe"), all_gold=True))
            scenes_in_pairs.append(probe_scene(row, Dice("exam", row.id, "probe"), all_gold=False))
    if scenes_in_pairs:
        name = f"{dataset}: AUC of P(Yes), full against lacking"
        yield ExamPart(
            task="reader",
            skill=skill,
            scenes=scenes_in_pairs,
            measure=partial(_auc_of_last_probes, name),
            floor=0.5,
        )


def _made_up_scenes(recipe: Recipe, kind: str, count: int, seed: int) -> list[Scene]:
    """The first scene of each of `count` unseen texts of the synthetic world; fewer where 20 times
    as many texts do not give them.

    Args:
        recipe: What the texts should be like.
        kind: The kind of scene.
        count: How many scenes.
        seed: The seed of the texts.
    """
    scenes: list[Scene] = []
    for text_number in range(20 * count):
        if len(scenes) == count:
            break
        dice = Dice("exam", seed, recipe.skill, text_number)
        scenes += itertools.islice(draw_scenes(recipe, kind, dice, "evaluation"), 1)
    return scenes


def _rows_by_method(rows_by_skill: Counter[str]) -> dict[str, int]:
    """Method -> how many rows are of skills that it alone declares, the most first; methods without
    a row are left out."""
    rows: Counter[str] = Counter()
    for skill, owner in skill_owners().items():
        rows[owner] += rows_by_skill[skill]
    with_rows = +rows  # without the counts of 0
    return dict(with_rows.most_common())


def _mean_score_part(subject: str, name: str, skill: Skill, scenes: Sequence[Scene]) -> ExamPart:
    """A part of an exam that measures the mean score of the scenes: of a scene with probes the share
    that is right, of any other the token F1 of its replies.

    Args:
        subject: The data set or skill; the measure is called "subject: name".
        name: What is measured.
        skill: Plays the scenes.
        scenes: The scenes.
    """

    def measure(played: Sequence[Scene], outcomes: Sequence[SceneOutcome]) -> dict[str, Interval]:
        """{name of the measure: the mean score of the scenes}."""
        scores = list(map(_scene_score, played, outcomes))
        return {f"{subject}: {name}": mean_over_scenes(scores)}

    return ExamPart(task="reader", skill=skill, scenes=scenes, measure=measure)


def _auc_of_last_probes(
    name: str, _: Sequence[Scene], outcomes: Sequence[SceneOutcome]
) -> dict[str, Interval]:
    """{name: area under the ROC curve of the last probe of each scene}, resampled by pair; its n
    counts the pairs.

    Args:
        name: The name of the measure.
        _: The scenes.
        outcomes: The outcomes, in pairs of one row: with every gold passage, then with one missing.
    """
    probes: list[ScoredProbe] = []
    for number, outcome in enumerate(outcomes):
        pair_number, place_in_pair = divmod(number, 2)
        has_all_passages = place_in_pair == 0
        probes.append(
            ScoredProbe(scene=pair_number, value=outcome.p_first[-1], is_right=has_all_passages)
        )
    n_pairs = len(probes) // 2
    return {name: replace(area_under_roc(probes), n=n_pairs)}


def _scene_score(scene: Scene, outcome: SceneOutcome) -> float:
    """The score of one scene: the share of its probes that are right at 0.5; without probes the
    mean token F1 of its replies."""
    scores: list[float] = []
    if scene.verdicts:
        for p_first, verdict in zip(outcome.p_first, scene.verdicts, strict=True):
            says_first = p_first > 0.5
            scores.append(says_first == verdict)
    else:
        for written, reply in zip(outcome.written, scene.replies, strict=True):
            f1 = qa_f1_score(written, [reply])
            scores.append(f1)
    return float(np.mean(scores))
