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
from harness_training.exam import Measure, Part, area_under_roc, examine, mean_over_scenes
from harness_training.example_files import Recipe, draw_scenes
from harness_training.lora_model import Base, load_teacher
from harness_training.reader_examples import (
    KINDS,
    SKILLS,
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

NAME = "reader"
_BESIDE = 4  # passages beside the gold ones


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
        """Train to the end, to `last_step` or until `stop` is set; write the adapter and its card.

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
        rows = self.rows()
        base = Base(self.base, self.settings, self.device)
        data, skills = self._token_rows(base, rows)
        counts = [f"{name} {count}" for name, count in skills.most_common()]
        tell(
            f"{len(rows)} training questions; {len(data.rows)} rows, {data.tokens} tokens: "
            f"{', '.join(counts)}"
        )
        job = self._job(base, rows, data, last_step)
        progress = train(base, job, tell, stop)
        if not stop.is_set():
            trained = self._training_data(rows, skills)
            card = cards.AboutAdapter(NAME, prompt_digests(prompts_by_name()), trained)
            cards.write_card(self.folder, card, base, job, progress)
        return progress.step >= job.steps

    @property
    def _start(self) -> Path | None:
        """The folder of the adapter that the training continues; None for a new one."""
        if self.settings.start is None:
            return None
        return Path(self.settings.start)

    def _job(self, base: Base, rows: Sequence[RealRow], data: Rows, last_step: int | None) -> Job:
        """The training of the adapter, ready to start.

        Args:
            base: The model.
            rows: The real rows, whose ids are part of what identifies the training.
            data: The token rows that are learnt.
            last_step: The last step; None for no limit.
        """
        sources: dict[str, object] = {
            "data": sorted(row.id for row in rows),
            "prompts": prompts_by_name(),
        }
        if self._start is not None:
            sources["start"] = hash_files(self._start)[:16]
        return Job(
            name=NAME,
            out=self.out,
            data=data,
            settings=self.settings,
            seed=self.seed,
            about=identity(base, self.settings, NAME, self.seed, **sources),
            last_step=last_step,
            start=self._start,
            partial=True,
        )

    def _training_data(self, rows: Sequence[RealRow], skills: Counter[str]) -> cards.TrainingData:
        """What the adapter was trained on, for its card.

        Args:
            rows: The real rows.
            skills: Skill -> how many token rows it has.
        """
        start_hash = None
        before = None
        if self._start is not None:
            start_hash = hash_files(self._start)[:16]
            before = cards.training_history(self._start)
        return cards.TrainingData(
            data=dict(Counter(row.dataset for row in rows)),
            skills=dict(skills),
            methods=_rows_by_method(skills),
            licences=self._licences(),
            start=start_hash,
            before=before,
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
        sources: dict[str, str] = {}
        for name, source in self.settings.sources.items():
            files = source.measured
            if files:
                sources[name] = files
        exam_rows = load_rows(sources, self.data, training=False)
        check_apart(self.rows(), exam_rows)
        adapted = self.base.model_copy(update={"adapter": str(self.folder)})
        models = (load_model(self.base), load_model(adapted))
        measures: list[Measure] = []
        size = ExamSize(self.settings.exam, self.settings.exam_world)
        for part in exam_parts(exam_rows, self._recipes(), declared_skills(), size, self.seed):
            measures += examine(part, [(model, None) for model in models], tell)
        about = cards.AboutExam(self.settings.exam, self.seed, "rows of other splits")
        cards.write_measures(self.out, about, measures)
        return measures

    @property
    def folder(self) -> Path:
        """The folder of the adapter."""
        return self.out / "adapters" / NAME

    def rows(self) -> list[RealRow]:
        """Load the training rows of all sources. Raises UserError, DataError."""
        files = {name: source.files for name, source in self.settings.sources.items()}
        return load_rows(files, self.data, training=True)

    def _recipes(self) -> list[Recipe]:
        """The recipes of made-up scenes that the settings list for the reader; [] where they list
        none."""
        if not self.settings.tasks[NAME].recipes:
            return []
        return self.settings.recipes(NAME, "answer")

    def _token_rows(self, base: Base, rows: list[RealRow]) -> tuple[Rows, Counter[str]]:
        """Draw lessons, and lay them out as the token rows to train on.

        Args:
            base: The model to train.
            rows: The real rows, which are drawn beside scenes of the synthetic world.

        Returns:
            The token rows; and skill -> how many of them it has.
        """
        task_settings = self.settings.tasks[NAME]
        weights = {name: s.weight for name, s in self.settings.sources.items()}
        mixture = Mixture(weights, self.settings.real, self._recipes(), task_settings.length)
        teacher = load_teacher(self.base, max(task_settings.length, base.window))
        trees = lesson_trees(rows, mixture, declared_skills(), teacher, self.seed)
        rows_of_tokens = Rows()
        skills: Counter[str] = Counter()
        for skill, tree in itertools.islice(trees, task_settings.scenes):
            rows_of_tokens.rows.append(tree.row())
            skills[skill] += 1
        return rows_of_tokens, skills


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
) -> Iterator[Part]:
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
        of_dataset = [row for row in rows if row.dataset == dataset]
        drawn = Dice("exam", seed, dataset).shuffled(of_dataset)
        usable = [row for row in drawn if row.questions[0].needs][: size.questions]
        yield from _answer_parts(dataset, usable, skills["answer"])
        yield from _probe_parts(dataset, usable, skills[SKILLS["probe"]])
        for kind in ("choose", "unanswerable"):
            first: list[Scene] = []
            for row in usable:
                lessons = KINDS[kind](row, of_dataset, Dice("exam", row.id, kind))
                first += lessons[:1]
            yield _scored_part(dataset, f"token F1, {kind}", skills[SKILLS[kind]], first)
    first_recipes: dict[str, Recipe] = {}
    for recipe in recipes:
        first_recipes.setdefault(recipe.skill, recipe)
    for name, recipe in first_recipes.items():
        made = _made_up_scenes(recipe, skills[name].scene, size.world, seed)
        measure = "token F1"
        if made and made[0].verdicts:
            measure = "accuracy"
        yield _scored_part(f"made-up world: {name}", measure, skills[name], made)


def _answer_parts(dataset: str, rows: Sequence[RealRow], skill: Skill) -> Iterator[Part]:
    """Yield two parts of an exam: answers from the gold passages alone, and from these among
    _BESIDE others.

    Args:
        dataset: The data set.
        rows: The rows whose own questions are asked.
        skill: Plays the answers.
    """
    texts = {0: "gold passages", _BESIDE: f"gold passages and {_BESIDE} others"}
    for beside, text in texts.items():
        answers = [answer_scene(row, beside, Dice("exam", row.id, beside)) for row in rows]
        yield _scored_part(dataset, f"token F1, {text}", skill, answers)


def _probe_parts(dataset: str, rows: Sequence[RealRow], skill: Skill) -> Iterator[Part]:
    """Yield a part of an exam: probes of searches with all gold passages and of searches that lack
    one. None where no row has several gold passages.

    Args:
        dataset: The data set.
        rows: The rows whose own questions are searched for.
        skill: Plays the searches.
    """
    pairs: list[Scene] = []
    for row in rows:
        if len(row.questions[0].needs) > 1:
            pairs.append(probe_scene(row, True, Dice("exam", row.id, "probe")))
            pairs.append(probe_scene(row, False, Dice("exam", row.id, "probe")))
    if pairs:
        name = f"{dataset}: AUC of P(Yes), full against lacking"
        yield Part("reader", skill, pairs, partial(_probe_auc, name), 0.5)


def _made_up_scenes(recipe: Recipe, kind: str, count: int, seed: int) -> list[Scene]:
    """The first scene of each of `count` unseen texts of the synthetic world; fewer where 20 times
    as many texts do not give them.

    Args:
        recipe: What the texts should be like.
        kind: The kind of scene.
        count: How many scenes.
        seed: The seed of the texts.
    """
    made: list[Scene] = []
    for number in range(20 * count):
        if len(made) == count:
            break
        dice = Dice("exam", seed, recipe.skill, number)
        made += itertools.islice(draw_scenes(recipe, kind, dice, "evaluation"), 1)
    return made


def _rows_by_method(rows_by_skill: Counter[str]) -> dict[str, int]:
    """Method -> how many rows are of skills that it alone declares, the most first; methods without
    a row are left out."""
    rows: Counter[str] = Counter()
    for skill, owner in skill_owners().items():
        rows[owner] += rows_by_skill[skill]
    with_rows = +rows  # without the counts of 0
    return dict(with_rows.most_common())


def _scored_part(about: str, name: str, skill: Skill, made: Sequence[Scene]) -> Part:
    """A part of an exam that measures the mean of `_scene_score`.

    Args:
        about: The data set or skill; the measure is called "about: name".
        name: What is measured.
        skill: Plays the scenes.
        made: The scenes.
    """

    def measure(played: Sequence[Scene], outcomes: Sequence[SceneOutcome]) -> dict[str, Interval]:
        """{name of the measure: the mean score of the scenes}."""
        scores = list(map(_scene_score, played, outcomes))
        return {f"{about}: {name}": mean_over_scenes(scores)}

    return Part("reader", skill, made, measure)


def _probe_auc(
    name: str, _: Sequence[Scene], outcomes: Sequence[SceneOutcome]
) -> dict[str, Interval]:
    """{name: area under the ROC curve of the last probe of each scene}.

    Args:
        name: The name of the measure.
        _: The scenes.
        outcomes: The outcomes, in pairs of one row: with every gold passage, then with one missing.
    """
    probes: list[tuple[int, float, bool]] = []
    for number, outcome in enumerate(outcomes):
        pair, place = divmod(number, 2)
        probes.append((pair, outcome.p_first[-1], place == 0))
    return {name: replace(area_under_roc(probes), n=len(probes) // 2)}


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
