"""Train one adapter for all requests that methods make of a reader, on real rows and on the synthetic world.

    reader = ReaderTraining(base, settings, data, out, seed)
    reader.run(tell, stop, steps=None)          resumes from `out`
    out/adapters/reader                         the adapter with its card

The training examples are described in harness/training/lessons.py; harness/training/trainer.py trains on them.
"""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from harness.config.schema import ModelConfig
from harness.errors import UserError
from harness.llm.adapters import WEIGHTS, prompt_digests
from harness.training import cards
from harness.training.base import Base, fits, teacher_of
from harness.training.checkpoint import Progress
from harness.training.data import Recipe
from harness.training.exam import Measure, examine
from harness.training.lessons import Mixture, lesson_trees
from harness.training.real_rows import RealRow, Source, check_apart, other_rows, training_rows
from harness.training.settings import Settings
from harness.training.skills import declared, owners, prompts
from harness.training.token_rows import Rows
from harness.training.trainer import Job, export, identity, train

NAME = "reader"


class SourceSettings(BaseModel):
    """files: name pattern of the training files; weight: among the data sets; measured: pattern of evaluation files."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    files: str
    weight: float = Field(default=1.0, gt=0)
    measured: str | None = None


class ReaderSettings(Settings):
    """Settings with the training data: sources: by data set; real: kind of lesson -> weight; exam_world: evaluation
    scenes of the synthetic world for each skill; start: folder of an adapter to initialise from.

    The task's recipes give scenes of the synthetic world, each with its weight beside those of `real`.
    """

    start: str | None = None
    exam_world: int = Field(default=10, ge=1)
    sources: dict[str, SourceSettings] = Field(min_length=1)
    real: dict[str, float] = Field(min_length=1)


@dataclass
class ReaderTraining:
    """data: the folder with the training files; out: the folder for checkpoints, log and adapter."""

    base: ModelConfig
    settings: ReaderSettings
    data: Path
    out: Path
    seed: int
    device: str = "auto"

    def run(self, tell: Callable[[str], None], stop: threading.Event, last_step: int | None) -> bool:
        """Train to the end, to `last_step` or until `stop` is set; return whether it ended. Raises as `train` does."""
        fits(self.base, self.settings, [NAME], self.device)
        rows = self.rows()
        base = Base(self.base, self.settings, self.device)
        data, skills = self._token_rows(base, rows)
        tell(f"{len(rows)} training questions; {len(data.rows)} rows, {data.tokens} tokens: {_listed(skills)}")
        start = None if self.settings.start is None else Path(self.settings.start)
        from_adapter = {} if start is None else {"start": cards.adapter_digest(start)}
        ids = sorted(row.id for row in rows)
        about = identity(base, self.settings, NAME, self.seed, data=ids, prompts=prompts(), **from_adapter)
        job = Job(NAME, self.out, data, self.settings, self.seed, about, 0, last_step, start)
        progress = train(base, job, tell, stop)
        if progress.step < job.steps and not stop.is_set():
            export(base, job, self.folder)  # stopped by --steps: the adapter can be used, and training can resume
        if not stop.is_set():
            self._write_card(base, job, progress, rows, skills)
        return progress.step >= job.steps

    def _write_card(
        self, base: Base, job: Job, progress: Progress, rows: list[RealRow], skills: Mapping[str, int]
    ) -> None:
        methods: Counter[str] = Counter()
        for skill, owner in owners().items():
            methods[owner] += skills.get(skill, 0)
        continued: dict[str, Any] = {}
        if self.settings.start is not None:  # the adapter that was continued, and how it was trained
            start = Path(self.settings.start)
            continued = {"start": cards.adapter_digest(start), "before": cards.courses(start)}
        cards.write(
            self.folder,
            NAME,
            base,
            prompt_digests(prompts()),
            job,
            progress,
            data=dict(Counter(row.dataset for row in rows)),
            skills=dict(skills),
            methods=dict((+methods).most_common()),
            licences=_licences(self.settings.sources),
            **continued,
        )

    def examine(self, tell: Callable[[str], None]) -> list[Measure]:
        """Measure the base without and with the adapter, and write the measures to its card.

        Raises UserError where the data folder has no evaluation rows, or some that are trained on, and CannotRun.
        """
        from harness.llm.load import load_model
        from harness.training.reader_exam import parts

        if not (self.folder / WEIGHTS).is_file():
            raise UserError(f"there is no adapter in {self.folder}; train it first")
        sources = [Source(name, s.measured) for name, s in self.settings.sources.items() if s.measured]
        others = other_rows(sources, self.data)
        check_apart(self.rows(), others)
        models = load_model(self.base), load_model(self.base.model_copy(update={"adapter": str(self.folder)}))
        count = self.settings.exam, self.settings.exam_world
        measures: list[Measure] = []
        for part in parts(others, self._recipes(), declared(), *count, self.seed):
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
        return training_rows([Source(name, s.files) for name, s in self.settings.sources.items()], self.data)

    def _recipes(self) -> list[Recipe]:
        return self.settings.recipes(NAME, "answer") if self.settings.of(NAME).recipes else []

    def _token_rows(self, base: Base, rows: list[RealRow]) -> tuple[Rows, Counter[str]]:
        own = self.settings.of(NAME)
        weights = {name: s.weight for name, s in self.settings.sources.items()}
        mixture = Mixture(weights, self.settings.real, self._recipes(), own.length)
        trees = lesson_trees(rows, mixture, declared(), teacher_of(self.base, max(own.length, base.window)), self.seed)
        taken = list(itertools.islice(trees, own.scenes))
        return Rows([tree.row() for _, tree in taken]), Counter(skill for skill, _ in taken)


def _licences(datasets: Iterable[str]) -> dict[str, str]:
    """Data set -> licence, from its preset; the synthetic world has this project's."""
    from harness.config import presets

    licences = {name: str(presets.read("datasets", name)[-1][1].get("licence", "")) for name in datasets}
    return {**licences, "the made-up world": "as this project"}


def _listed(skills: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(skills.items(), key=lambda item: -item[1]))
