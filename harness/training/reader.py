"""One adapter for everything that methods ask of a reader, trained on real rows and on the made-up world.

    reader = ReaderTraining(base, settings, data, out, seed)
    reader.run(tell, stop, steps=None)          the same command goes on where it stopped
    out/adapters/reader                         the adapter with its card

What a row of training is says harness/training/lessons.py; how it is trained, harness/training/trainer.py.
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

from harness.config.schema import ModelConfig, canonical, digest
from harness.errors import UserError
from harness.llm.adapters import WEIGHTS, marks
from harness.llm.model_info import hash_files
from harness.training import cards
from harness.training.base import Base, fits
from harness.training.checkpoint import Progress
from harness.training.evaluate import Measure
from harness.training.lessons import Mixture, drawn
from harness.training.real_rows import RealRow, Source, check_apart, other_rows, training_rows
from harness.training.settings import Settings
from harness.training.skills import declared, prompts
from harness.training.token_rows import Row, Rows
from harness.training.trainer import Job, export, train
from harness.training.trees import Tree

NAME = "reader"
_APART = {"tasks", "save", "say", "exam", "exam_world", "start"}  # what changes no weight


class SourceSettings(BaseModel):
    """files: pattern of the training files' names; weight: among the data sets; measured: files to measure on."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    files: str
    weight: float = Field(default=1.0, gt=0)
    measured: str | None = None


class ReaderSettings(Settings):
    """As Settings, with what is learnt: sources: by data set; real: kind of lesson of their rows -> weight; exam_world:
    scenes of the made-up world a skill; start: folder of an adapter to go on with, by its rows and rates anew.

    The recipes of the task have the made-up world's scenes, each with its weight beside those of `real`.
    """

    start: str | None = None
    exam_world: int = Field(default=10, ge=1)
    sources: dict[str, SourceSettings] = Field(min_length=1)
    real: dict[str, float] = Field(min_length=1)


@dataclass
class ReaderTraining:
    """data: the folder with the training files; out: where everything is kept."""

    base: ModelConfig
    settings: ReaderSettings
    data: Path
    out: Path
    seed: int
    device: str = "auto"

    def run(self, tell: Callable[[str], None], stop: threading.Event, most: int | None) -> bool:
        """Train until it is done, `most` steps are, or `stop` is set; True when it is done. Raises as `train` does."""
        fits(self.base, self.settings, [NAME], self.device)
        rows = self.rows()
        base = Base(self.base, self.settings, self.device)
        found, skills = self._token_rows(base, rows)
        tell(f"{len(rows)} training questions; {len(found.rows)} rows, {found.tokens} tokens: {_listed(skills)}")
        start = None if self.settings.start is None else Path(self.settings.start)
        job = Job(NAME, self.out, found, self.settings, self.seed, self._about(base, rows), 0, most, start)
        progress = train(base, job, tell, stop)
        if progress.step < job.steps and not stop.is_set():
            export(base, job, self.folder)  # stopped where it was asked to: usable, and it goes on from there
        if not stop.is_set():
            self._card(base, job, progress, rows, skills)
        return progress.step >= job.steps

    def _card(self, base: Base, job: Job, progress: Progress, rows: list[RealRow], skills: Mapping[str, int]) -> None:
        trained = {
            "seed": self.seed,
            "data": dict(Counter(row.dataset for row in rows)),
            "skills": dict(skills),
            "licences": _licences(self.settings.sources),
            **({"start": self._about(base, rows)["start"]} if self.settings.start else {}),
            "rows": len(job.found.rows),
            "left_out": 0,
            "steps": progress.step,
            "of_steps": job.steps,
            "tokens": progress.tokens,
            "minutes": round(progress.seconds / 60, 1),
            "hardware": cards.hardware(base.device),
        }
        own = job.own.model_dump(mode="json", exclude={"recipes"})
        cards.write(self.folder, cards.Known(NAME, self.base, base.where, marks(prompts()), own, trained))

    def examine(self, tell: Callable[[str], None]) -> list[Measure]:
        """Measure the adapter that is there, before and after; its card keeps the figures.

        Raises UserError where the data folder has no rows to measure on, or some that are trained on, CannotRun.
        """
        from harness.llm.load import load_model
        from harness.training import reader_exam

        if not (self.folder / WEIGHTS).is_file():
            raise UserError(f"there is no adapter in {self.folder}; train it first")
        sources = [Source(name, one.measured) for name, one in self.settings.sources.items() if one.measured]
        others = other_rows(sources, self.data)
        check_apart(self.rows(), others)
        recipes = self.settings.recipes(NAME, "answer") if self.settings.of(NAME).recipes else []
        exam = reader_exam.Exam(self.settings.exam, self.settings.exam_world, self.seed)
        models = [load_model(self.base), load_model(self.base.model_copy(update={"adapter": str(self.folder)}))]
        found = reader_exam.examine(models, list(reader_exam.parts(others, recipes, declared(), exam)), tell)
        cards.measured(self.out, {"scenes": exam.questions, "seed": self.seed, "source": "rows of other splits"}, found)
        return found

    @property
    def folder(self) -> Path:
        """Of the adapter."""
        return self.out / "adapters" / NAME

    def rows(self) -> list[RealRow]:
        """The training rows. Raises UserError, DataError."""
        return training_rows([Source(name, one.files) for name, one in self.settings.sources.items()], self.data)

    def _token_rows(self, base: Base, rows: list[RealRow]) -> tuple[Rows, Counter[str]]:
        own = self.settings.of(NAME)
        recipes = self.settings.recipes(NAME, "answer") if own.recipes else []
        weights = {name: one.weight for name, one in self.settings.sources.items()}
        mixture = Mixture(weights, self.settings.real, recipes, own.length)
        trees = drawn(rows, mixture, declared(), base.teacher(max(own.length, base.window)), self.seed)
        taken = list(itertools.islice(trees, own.scenes))
        return Rows([_row(tree) for _, tree in taken]), Counter(skill for skill, _ in taken)

    def _about(self, base: Base, rows: list[RealRow]) -> dict[str, Any]:
        own, start = self.settings.of(NAME), self.settings.start
        return {
            **({"start": hash_files(Path(start))[:16]} if start else {}),
            "seed": self.seed,
            "base": digest(canonical(base.where))[:16],
            "settings": digest([own.model_dump(mode="json"), self.settings.model_dump(mode="json", exclude=_APART)])[
                :16
            ],
            "data": digest(sorted(row.id for row in rows))[:16],
            "prompts": digest(prompts())[:16],
        }


def _licences(datasets: Iterable[str]) -> dict[str, str]:
    """Data set -> its licence, as its preset says it; the made-up world is this project's own."""
    from harness.config import presets

    found = {name: str(presets.read("datasets", name)[-1][1].get("licence", "")) for name in datasets}
    return {**found, "the made-up world": "as this project"}


def _listed(skills: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(skills.items(), key=lambda one: -one[1]))


def _row(tree: Tree) -> Row:
    """A tree as one row. Each reply weighs as the root of its number of tokens: a probe of one token is to count beside
    a list of points of a hundred.
    """
    ids, branches, parts = list(tree.trunk), [], [list(tree.targets)] if tree.targets else []
    for branch in tree.branches:
        start = len(ids)
        branches.append((start, branch.at))
        parts.append([start + place for place in branch.targets])
        ids += branch.ids
    targets = [place for part in parts for place in part]
    weights = [len(part) ** -0.5 for part in parts for _ in part]
    return Row(tuple(ids), tuple(targets), tuple(branches), tuple(weights))
