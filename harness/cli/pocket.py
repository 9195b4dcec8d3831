"""`harness pocket eval | skills | check`: what the pocket model can do, and whether it still fits the methods.

eval     the exam, into card.json and CARD.md        skills   who declares which, and what the card says of it
check    exit code 4 where a skill is not what the weights were trained on, or an adapter of the embedded model is stale
"""

from __future__ import annotations

import json as json_
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from harness.cli.common import columns, split
from harness.errors import CannotRun, UnknownName
from pocket.eval import card as cards
from pocket.eval.card import Card
from pocket.eval.card_page import write

if TYPE_CHECKING:
    from harness.method import Skill
    from harness.models import LanguageModel


FAILED = 4


@dataclass(frozen=True)
class Exam:
    """questions: a cell; skills: () for all; out: where the card goes, None beside the weights where that can be."""

    questions: int
    seed: int = 0
    skills: Sequence[str] = field(default_factory=tuple)
    out: Path | None = None


def _folder(folder: str | None) -> Path:
    """The folder that is named, or the embedded model's. Raises CannotRun where there is no model."""
    found = cards.EMBEDDED if folder is None else Path(folder)
    if (found / "config.json").is_file():
        return found
    if folder is None:
        raise CannotRun("no pocket model comes with this installation; name a model folder")
    what = f"the folder '{folder}' holds no model (no config.json)" if found.is_dir() else f"no model folder '{folder}'"
    raise CannotRun(f"{what}; a training leaves one in OUT/model")


def _card(folder: Path) -> Card:
    """The card beside the weights, checked against them; one that knows nothing where there is none."""
    card = cards.read(folder)
    if card is None:
        return cards.new(folder)
    cards.check_weights(folder)
    return card


def evaluate(folder: str | None, exam: Exam, *, json: bool) -> int:
    """Examine, print the tables and write the card. Raises UnknownName, CannotRun, SaveError."""
    where = _folder(folder)
    chosen = _chosen(exam.skills)
    card = _card(where)
    from pocket.eval.exam import examine

    rows = examine(_model(where), questions=exam.questions, seed=exam.seed, progress=_say, skills=chosen)
    card = cards.with_results(card, rows, exam.questions, exam.seed)
    written = _write(card, exam.out)
    if json:
        print(json_.dumps({"card": written and str(written), "results": [asdict(row) for row in rows]}))
        return 0
    from pocket.eval.card_page import tables

    for heading, table in tables([asdict(row) for row in rows]):
        print(f"{heading}\n{columns(table)}\n")
    if written:
        print(written)
    return 0


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def _chosen(names: Sequence[str]) -> list[Skill] | None:
    from pocket.train.curriculum import skills as declared

    known = declared()
    for name in split(names):
        if name not in known:
            raise UnknownName("skill", name, known, "harness pocket skills")
    return [known[name] for name in split(names)] or None


def _model(folder: Path) -> LanguageModel:
    from harness.config.schema import ModelConfig
    from harness.llm.load import load_model

    return load_model(ModelConfig(name=cards.NAME, source=str(folder.resolve()), dtype="float32"))


def _write(card: Card, out: Path | None) -> Path | None:
    """Write the card; beside the weights only where that may be. Raises SaveError for a folder that was named."""
    from harness.storage.files import save_error

    to = out or card.folder
    try:
        return write(card, to)
    except OSError as error:
        if out is not None:
            raise save_error(to, error) from error
        _say(f"the card is not written: {to} cannot be written to; name a folder with --out")
        return None


def skills(folder: str | None) -> int:
    """Print each skill with the methods that declare it and whether the weights were trained on it as it is now."""
    from pocket.train.curriculum import skills as declared

    known = declared()
    where = _folder(folder) if folder is not None or cards.EMBEDDED.is_dir() else None
    card = _card(where) if where is not None else None
    state = dict.fromkeys(known, "trained")
    if card is None or not card.trained:
        state = dict.fromkeys(known, "unknown (no card)")
    else:
        state |= dict(cards.stale(card, known.values()))
    methods = _methods()
    rows = [(name, state[name], ", ".join(methods.get(name, ()))) for name in known]
    print(columns([("skill", "state", "methods"), *rows]))
    return 0


def _methods() -> dict[str, list[str]]:
    """Skill -> names of the presets whose method declares it."""
    from harness.config import presets, registry
    from harness.method import Method

    found: dict[str, list[str]] = {}
    for preset in presets.names("methods"):
        values = {key: value for _, layer in presets.read("methods", preset) for key, value in layer.items()}
        target = values.get("implementation")
        if target is None:
            continue
        method: type[Method] = registry.load(target, Method)
        for skill in method(method.Config()).skills():
            found.setdefault(skill.name, []).append(preset)
    return found


def check(folder: str | None) -> int:
    """Exit code 4 and a line for each skill that is not what the weights were trained on, or adapter that does not fit.

    Adapters are checked where no folder is named: those that come with the package. Raises CannotRun.
    """
    from pocket.train.curriculum import skills as declared

    where = _folder(folder)
    cards.check_weights(where)
    known = declared()
    wrong = cards.stale(_card(where), known.values())
    for name, why in wrong:
        _say(f"the skill '{name}' of the model in {where}: {why}; train again with: harness pocket train")
    if not wrong:
        print(f"ok  {len(known)} skills are as they were trained")
    fits = folder is not None or _adapters_fit(where)
    return 0 if fits and not wrong else FAILED


def _adapters_fit(where: Path) -> bool:
    """Say of the adapters that come with the embedded model which do not fit; whether all do."""
    from pocket.eval import adapter_check as shipped

    found = shipped.check(shipped.embedded(), where)
    for sentence in found.wrong:
        _say(sentence)
    if found.wrong:
        _say("these adapters come with the package; train them again with: make adapters")
    if found.unread is not None:
        _say(found.unread)
    if found.right and not found.wrong:
        print(f"ok  {len(found.right)} adapters fit the weights and the prompts")
    return not found.wrong
