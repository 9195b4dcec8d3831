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
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from harness.config import presets
from harness.config.schema import ModelConfig
from harness.errors import UserError
from harness.llm.adapters import WEIGHTS, prompt_digests
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
    """files: name pattern of the training files; weight: among the data sets; measured: pattern of
    evaluation files."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    files: str
    weight: float = Field(default=1.0, gt=0)
    measured: str | None = None


class ReaderSettings(Settings):
    """Settings with the training data: sources: by data set; real: kind of lesson -> weight;
    exam_world: evaluation scenes of the synthetic world for each skill; start: folder of an adapter
    to initialise from.

    The task's recipes give scenes of the synthetic world, each with its weight beside those of
    `real`.
    """

    start: str | None = None
    exam_world: int = Field(default=10, ge=1)
    sources: dict[str, SourceSettings] = Field(min_length=1)
    real: dict[str, float] = Field(min_length=1)


@dataclass
class ReaderTraining:
    """The training of one adapter for all methods. data: folder of the training files; out: of log
    and adapter."""

    base: ModelConfig
    settings: ReaderSettings
    data: Path
    out: Path
    seed: int
    device: str = "auto"

    def run(
        self, tell: Callable[[str], None], stop: threading.Event, last_step: int | None
    ) -> bool:
        """Train to the end, to `last_step` or until `stop` is set; return whether it ended. Raises
        as `train` does."""
        rows = self.rows()
        base = Base(self.base, self.settings, self.device)
        data, skills = self._token_rows(base, rows)
        counted = ", ".join(
            f"{name} {count}" for name, count in sorted(skills.items(), key=lambda item: -item[1])
        )
        tell(
            f"{len(rows)} training questions; {len(data.rows)} rows, {data.tokens} tokens: "
            f"{counted}"
        )
        start = None if self.settings.start is None else Path(self.settings.start)
        from_adapter: dict[str, Any] = {} if start is None else {"start": hash_files(start)[:16]}
        ids = sorted(row.id for row in rows)
        about = identity(
            base,
            self.settings,
            NAME,
            self.seed,
            data=ids,
            prompts=prompts_by_name(),
            **from_adapter,
        )
        job = Job(
            NAME, self.out, data, self.settings, self.seed, about, 0, last_step, start, partial=True
        )
        progress = train(base, job, tell, stop)
        if stop.is_set():
            return progress.step >= job.steps
        licences = {
            name: presets.read("datasets", name)[-1][1].get("licence", "")
            for name in self.settings.sources
        }
        methods: Counter[str] = Counter()
        for skill, owner in skill_owners().items():
            methods[owner] += skills[skill]
        trained: dict[str, Any] = {
            "data": dict(Counter(row.dataset for row in rows)),
            "skills": dict(skills),
            "methods": dict((+methods).most_common()),
            "licences": {**licences, "the made-up world": "as this project"},
        }
        if start is not None:  # the adapter that was continued, and how it was trained
            trained |= {**from_adapter, "before": cards.training_history(start)}
        cards.write_card(
            self.folder, NAME, base, prompt_digests(prompts_by_name()), job, progress, **trained
        )
        return progress.step >= job.steps

    def examine(self, tell: Callable[[str], None]) -> list[Measure]:
        """Measure the base without and with the adapter, and write the measures to its card.

        Raises UserError where the data folder has no evaluation rows, or some that are trained on,
        and CannotRun.
        """
        from harness.llm.backend import load_model

        if not (self.folder / WEIGHTS).is_file():
            raise UserError(f"there is no adapter in {self.folder}; train it first")
        sources = {name: s.measured for name, s in self.settings.sources.items() if s.measured}
        exam_rows = load_rows(sources, self.data, training=False)
        check_apart(self.rows(), exam_rows)
        models = (
            load_model(self.base),
            load_model(self.base.model_copy(update={"adapter": str(self.folder)})),
        )
        measures: list[Measure] = []
        for part in exam_parts(
            exam_rows,
            self._recipes(),
            declared_skills(),
            self.settings.exam,
            self.settings.exam_world,
            self.seed,
        ):
            measures += examine(part, [(model, None) for model in models], tell)
        about = {"scenes": self.settings.exam, "seed": self.seed, "source": "rows of other splits"}
        cards.write_measures(self.out, about, measures)
        return measures

    @property
    def folder(self) -> Path:
        """The adapter's folder."""
        return self.out / "adapters" / NAME

    def rows(self) -> list[RealRow]:
        """The training rows. Raises UserError, DataError."""
        return load_rows(
            {name: s.files for name, s in self.settings.sources.items()}, self.data, training=True
        )

    def _recipes(self) -> list[Recipe]:
        """The recipes of made-up scenes that the settings list for the reader; none where they list
        none."""
        return self.settings.recipes(NAME, "answer") if self.settings.tasks[NAME].recipes else []

    def _token_rows(self, base: Base, rows: list[RealRow]) -> tuple[Rows, Counter[str]]:
        """Draw the token rows to train on, of `rows` and of the synthetic world; and count them by
        skill."""
        task_settings = self.settings.tasks[NAME]
        weights = {name: s.weight for name, s in self.settings.sources.items()}
        mixture = Mixture(weights, self.settings.real, self._recipes(), task_settings.length)
        teacher = load_teacher(self.base, max(task_settings.length, base.window))
        trees = lesson_trees(rows, mixture, declared_skills(), teacher, self.seed)
        taken = list(itertools.islice(trees, task_settings.scenes))
        return Rows([tree.row() for _, tree in taken]), Counter(skill for skill, _ in taken)


def exam_parts(
    rows: Sequence[RealRow],
    recipes: Sequence[Recipe],
    skills: Mapping[str, Skill],
    questions: int,
    world: int,
    seed: int,
) -> Iterator[Part]:
    """Yield the parts of the adapter's exam: rows of other splits, then unseen texts of the
    synthetic world.

    For each data set: token F1 with the gold passages alone and with four others, the area under
    the ROC curve of P(Yes) between searches with all gold passages and searches that lack one, and
    the other kinds of examples. For each skill of the recipes: token F1 of its replies, or accuracy
    of its probes. skills: by name; questions: most for each data set and kind; world: scenes of the
    world for each skill.
    """
    for dataset in dict.fromkeys(row.dataset for row in rows):
        dataset_rows = [row for row in rows if row.dataset == dataset]
        usable = [
            row
            for row in Dice("exam", seed, dataset).shuffled(dataset_rows)
            if row.questions[0].needs
        ][:questions]
        for beside, text in (
            (0, "gold passages"),
            (_BESIDE, f"gold passages and {_BESIDE} others"),
        ):
            answers = [answer_scene(row, beside, Dice("exam", row.id, beside)) for row in usable]
            yield _scored_part(dataset, f"token F1, {text}", skills["answer"], answers)
        several = [row for row in usable if len(row.questions[0].needs) > 1]
        if pairs := [
            probe_scene(row, full, Dice("exam", row.id, "probe"))
            for row in several
            for full in (True, False)
        ]:
            name = f"{dataset}: AUC of P(Yes), full against lacking"
            yield Part("reader", skills[SKILLS["probe"]], pairs, partial(_probe_auc, name), 0.5)
        for kind in ("choose", "unanswerable"):
            lessons = (KINDS[kind](row, dataset_rows, Dice("exam", row.id, kind)) for row in usable)
            first = [lesson[0] for lesson in lessons if lesson]
            yield _scored_part(dataset, f"token F1, {kind}", skills[SKILLS[kind]], first)
    for name in dict.fromkeys(recipe.skill for recipe in recipes):
        recipe, kind = next(r for r in recipes if r.skill == name), skills[name].scene
        dice = (Dice("exam", seed, name, number) for number in range(20 * world))
        first_scenes = (
            next(draw_scenes(recipe, kind, of_text, "evaluation"), None) for of_text in dice
        )
        made = list(itertools.islice(filter(None, first_scenes), world))
        measure = "accuracy" if made and made[0].verdicts else "token F1"
        yield _scored_part(f"made-up world: {name}", measure, skills[name], made)


def _scored_part(about: str, name: str, skill: Skill, made: Sequence[Scene]) -> Part:
    """The part of the exam that measures `_scene_score` over the scenes `made`, under the name
    "about: name"."""

    def measure(played: Sequence[Scene], outcomes: Sequence[SceneOutcome]) -> dict[str, Interval]:
        return {
            f"{about}: {name}": mean_over_scenes(
                [_scene_score(*pair) for pair in zip(played, outcomes, strict=True)]
            )
        }

    return Part("reader", skill, made, measure)


def _probe_auc(
    name: str, _: Sequence[Scene], outcomes: Sequence[SceneOutcome]
) -> dict[str, Interval]:
    """AUC of the last probes; outcomes come in pairs of one row: with every gold passage, then with
    one missing."""
    probes = [(n // 2, outcome.p_first[-1], n % 2 == 0) for n, outcome in enumerate(outcomes)]
    return {name: replace(area_under_roc(probes), n=len(probes) // 2)}


def _scene_score(scene: Scene, outcome: SceneOutcome) -> float:
    """Accuracy of the scene's probes at 0.5; without probes the mean token F1 of its replies."""
    if scene.verdicts:
        return float(
            np.mean([(p > 0.5) == v for p, v in zip(outcome.p_first, scene.verdicts, strict=True)])
        )
    scores = [
        qa_f1_score(text, [right])
        for text, right in zip(outcome.written, scene.replies, strict=True)
    ]
    return float(np.mean(scores))
