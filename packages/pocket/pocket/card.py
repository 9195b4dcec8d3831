"""The card beside the pocket model's weights, as a run reads it: its file, the weights' hashes, the
trained prompts.

The harness calls check_weights and stale_skills (section `packages` of configs/registry.yaml). How
a card is made and what its fingerprints are stands in pocket/eval/card.py; no skill is played here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from harness_training.method_skills import has_skills_listed, skills_of
from harness_training.progress import Hardware, PassedStage
from pydantic import TypeAdapter

from harness.errors import CannotRun
from harness.llm.adapters import prompt_digests
from harness.method import Method
from harness.storage.file_hash import file_hash
from harness.storage.files import read_object

EMBEDDED = Path(__file__).parent / "model"
"""The folder of the model that comes with the package."""

NAME = "pocket-llama"
CHANGED = "changed since training"
UNTRAINED = "never trained"
OTHER_WORDS = "not trained in these words"
UNKNOWN = "it lists no prompts, so nobody knows"
_FILES = ("model.safetensors", "tokenizer.json")


@dataclass(frozen=True)
class Training:
    """How weights were trained.

    Args:
        seed: The seed of first weights and texts.
        steps: How many optimizer steps.
        tokens: How many tokens they were trained on.
        seconds: How long it took.
        stages: The stages of the curriculum that were passed.
        hardware: What it ran on.
        began: The first digits of the sha256 of the weights that it began from; None for random
            ones.
        before: The trainings that those weights went through, the first one first.
    """

    seed: int
    steps: int
    tokens: int
    seconds: float
    stages: tuple[PassedStage, ...]
    hardware: Hardware
    began: str | None = None
    before: tuple[Training, ...] = ()


@dataclass(frozen=True)
class Exam:
    """The exam that a card's results are of.

    Args:
        questions: How many questions a cell.
        seed: The seed of its texts.
    """

    questions: int
    seed: int


@dataclass(frozen=True)
class Result:
    """One number of the exam.

    Args:
        skill: The skill that was examined.
        asked: The row of its table, a kind of question.
        text: The column of its table, a kind of text.
        measure: The name of the number.
        value: A share or an area in [0, 1]; None where there was nothing to measure (n 0).
        low: Lower end of its 95 % interval.
        high: Upper end of its 95 % interval.
        n: Answers, probes, points or names that were measured.
        floor: Expected value of guessing without reading, if known.
        failed: Scenes that ended with an error, counted as wrong.
    """

    skill: str
    asked: str
    text: str
    measure: str
    value: float | None
    low: float | None
    high: float | None
    n: int
    floor: float | None = None
    failed: int = 0


@dataclass(frozen=True)
class Card:
    """What card.json says of weights.

    Args:
        folder: The folder of the weights; not written.
        name: The name of the model.
        trained: How the weights were trained; None where nobody recorded it.
        sha256: Name of a file -> its sha256, for weights and tokenizer.
        skills: Skill -> its fingerprint at training time.
        prompts: Digests of the prompts that these skills use (harness.llm.adapters.prompt_digests).
        exam: The exam that `results` are of; None where there was none.
        results: The rows of the exam.
    """

    folder: Path
    name: str = NAME
    trained: Training | None = None
    sha256: Mapping[str, str] = field(default_factory=dict)
    skills: Mapping[str, str] = field(default_factory=dict)
    prompts: Sequence[str] = ()
    exam: Exam | None = None
    results: Sequence[Result] = ()

    def as_json(self) -> dict[str, object]:
        """The object that is written as card.json; `trained` or `exam` is {} where nobody recorded
        it."""
        trained: object = {}
        if self.trained is not None:
            trained = training_as_json(self.trained)
        exam: dict[str, int] = {}
        if self.exam is not None:
            exam = asdict(self.exam)
        return {
            "name": self.name,
            "trained": trained,
            "sha256": dict(self.sha256),
            "skills": dict(self.skills),
            "prompts": list(self.prompts),
            "exam": exam,
            "results": [asdict(result) for result in self.results],
        }


_TRAINING = TypeAdapter(Training)


def training_as_json(training: Training) -> object:
    """A training as a JSON object, without values that nobody recorded."""
    return _TRAINING.dump_python(training, mode="json", exclude_defaults=True)


def training_of_json(values: object) -> Training:
    """The training that `training_as_json` wrote. Raises ValueError for other values."""
    return _TRAINING.validate_python(values)


def read_card(folder: Path) -> Card | None:
    """Read the card in a model folder; None where there is none. Raises CannotRun for a card that
    cannot be read."""
    path = folder / "card.json"
    if not path.exists():
        return None
    try:
        return _card_of_json(folder, read_object(path))
    except (OSError, ValueError, TypeError) as error:
        raise CannotRun(
            f"the card {path} cannot be read ({error}); reinstall the model, or delete the card"
        ) from error


def _card_of_json(folder: Path, values: Mapping[str, Any]) -> Card:
    """The card that `Card.as_json` wrote; {} for `trained` or `exam` becomes None. Raises
    ValueError or TypeError for other values.

    Args:
        folder: The folder of the weights.
        values: The object in card.json.
    """
    trained = None
    if values.get("trained"):
        trained = training_of_json(values["trained"])
    exam = None
    if values.get("exam"):
        exam = Exam(**values["exam"])
    results = [Result(**row) for row in values.get("results", ())]
    return Card(folder, **{**values, "trained": trained, "exam": exam, "results": results})


def blank_card(folder: Path) -> Card:
    """A card for weights of which nothing is known but their hashes. Raises CannotRun where a file
    is missing in `folder`."""
    return Card(folder, sha256={name: file_sha256(folder, name) for name in _FILES})


def file_sha256(folder: Path, name: str) -> str:
    """The sha256 of a file in a model folder. Raises CannotRun where it is missing."""
    try:
        return file_hash(folder / name)
    except OSError as error:
        raise CannotRun(
            f"the model folder {folder} lacks {name} ({error.strerror}); reinstall the model"
        ) from error


def check_weights(folder: Path) -> None:
    """Raise CannotRun where weights or tokenizer in a model folder are not those that its card is
    about, or there is no card."""
    card = read_card(folder)
    if card is None:
        raise CannotRun(
            f"there is no card.json beside the weights in {folder}; reinstall the model"
        )
    for name, recorded in card.sha256.items():
        actual = file_sha256(folder, name)
        if actual != recorded:
            raise CannotRun(
                f"the weights in {folder} are damaged: {name} has sha256 {actual[:12]}, its card "
                f"says {recorded[:12]}; "
                "reinstall the model"
            )


def stale_skills(folder: Path, method: Method) -> list[str] | None:
    """Say which skills and prompts of a method a model was not trained for: "answer: never
    trained", "prompt 'answer': not trained in these words". [] where it was trained for all;
    [UNKNOWN] for a method that lists neither; None without a card.

    It compares names and hashes alone; whether a skill is played as it was trained, `harness pocket
    check` finds out.

    Args:
        folder: The model folder, with its card.
        method: The method.
    """
    card = read_card(folder)
    if card is None:
        return None
    skills = skills_of(method)
    if has_skills_listed(method) and not skills:  # it is known to need none
        return []
    prompts = prompt_digests(method.prompts())
    if not skills and not prompts:
        return [UNKNOWN]
    reasons = [f"{skill.name}: {UNTRAINED}" for skill in skills if skill.name not in card.skills]
    # Of a method whose skills are listed nowhere the prompts alone can tell.
    for name, digest in prompts.items():
        if digest not in card.prompts:
            reasons.append(f"prompt '{name}': {OTHER_WORDS}")
    return reasons
