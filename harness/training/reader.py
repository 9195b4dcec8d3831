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
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field

from harness.config.schema import ModelConfig, canonical, digest
from harness.llm.adapters import marks
from harness.method import Skill
from harness.training import cards
from harness.training.base import Base, fits
from harness.training.lessons import Mixture, drawn
from harness.training.real_rows import RealRow, Source, training_rows
from harness.training.settings import Settings
from harness.training.token_rows import Row, Rows
from harness.training.trainer import Job, train

if TYPE_CHECKING:
    from pocket.train.packing import Tree

NAME = "reader"
_APART = {"tasks", "save", "say", "exam"}  # what changes no weight


class SourceSettings(BaseModel):
    """files: pattern of the training files' names; weight: among the data sets; measured: files to measure on."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    files: str
    weight: float = Field(default=1.0, gt=0)
    measured: str | None = None


class ReaderSettings(Settings):
    """As Settings, with what is learnt: sources: by data set; real: kind of lesson of their rows -> weight.

    The recipes of the task have the made-up world's scenes, each with its weight beside those of `real`.
    """

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
        job = Job(NAME, self.out, found, self.settings, self.seed, self._about(base, rows), 0, most)
        progress = train(base, job, tell, stop)
        if progress.step < job.steps:
            return False
        trained = {
            "seed": self.seed,
            "data": dict(Counter(row.dataset for row in rows)),
            "skills": dict(skills),
            "rows": len(found.rows),
            "steps": progress.step,
            "tokens": progress.tokens,
            "minutes": round(progress.seconds / 60, 1),
            "hardware": cards.hardware(base.device),
        }
        own = job.own.model_dump(mode="json", exclude={"recipes"})
        prompts = marks(_prompts())
        cards.write(self.folder, cards.Known(NAME, self.base, base.where, prompts, own, trained))
        return True

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
        trees = drawn(rows, mixture, _skills(), base.teacher(max(own.length, base.window)), self.seed)
        taken = list(itertools.islice(trees, own.scenes))
        return Rows([_row(tree) for _, tree in taken]), Counter(skill for skill, _ in taken)

    def _about(self, base: Base, rows: list[RealRow]) -> dict[str, Any]:
        own = self.settings.of(NAME)
        return {
            "seed": self.seed,
            "base": digest(canonical(base.where))[:16],
            "settings": digest([own.model_dump(mode="json"), self.settings.model_dump(mode="json", exclude=_APART)])[
                :16
            ],
            "data": digest(sorted(row.id for row in rows))[:16],
            "prompts": digest(_prompts())[:16],
        }


def _listed(skills: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(skills.items(), key=lambda one: -one[1]))


def _skills() -> dict[str, Skill]:
    from pocket.train.curriculum import skills

    return skills()


def _prompts() -> dict[str, str]:
    """Name -> text of the prompts that most rows are asked in: those that all methods share, and PECAN's search."""
    from harness.config.resolve import Choices, resolve_one
    from harness.engine.plan import make_method

    return (
        make_method(resolve_one("methods", Choices(method="pecan"))).prompts()
        | make_method(resolve_one("methods", Choices(method="full-context"))).prompts()
    )


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
