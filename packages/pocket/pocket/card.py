"""The card beside the pocket model's weights, as a run reads it: its file, the weights' hashes, the
trained prompts.

The harness calls check_weights and stale_skills (section `packages` of configs/registry.yaml). How
a card is made and what its fingerprints are stands in pocket/eval/card.py; no skill is played here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness_training.method_skills import has_skills_listed, skills_of

from harness.errors import CannotRun
from harness.llm.adapters import prompt_digests
from harness.method import Method
from harness.storage.file_hash import file_hash
from harness.storage.files import read_object

EMBEDDED = Path(__file__).parent / "model"
"""The folder of the model that comes with the package."""

NAME = "pocket-llama"
CHANGED, UNTRAINED, OTHER_WORDS = (
    "changed since training",
    "never trained",
    "not trained in these words",
)
UNKNOWN = "it lists no prompts, so nobody knows"
_FILES = ("model.safetensors", "tokenizer.json")


@dataclass(frozen=True)
class Card:
    """card.json; `folder` is where the weights are and is not written.

    trained: seed, steps, tokens, seconds, stages passed, hardware, weights it began from, and what
    these went through ("before", the first training first); sha256: of weights and tokenizer;
    skills: name -> fingerprint at training time; prompts: digests of the prompts that these skills
    use (harness.llm.adapters.prompt_digests); exam: questions a cell and seed; results: rows of the
    exam.
    """

    folder: Path
    name: str = NAME
    trained: Mapping[str, Any] = field(default_factory=dict)
    sha256: Mapping[str, str] = field(default_factory=dict)
    skills: Mapping[str, str] = field(default_factory=dict)
    prompts: Sequence[str] = ()
    exam: Mapping[str, int] = field(default_factory=dict)
    results: Sequence[Mapping[str, Any]] = ()


def read_card(folder: Path) -> Card | None:
    """The card in `folder`, or None. Raises CannotRun for a card that cannot be read."""
    path = folder / "card.json"
    if not path.exists():
        return None
    try:
        return Card(folder=folder, **read_object(path))
    except (OSError, ValueError, TypeError) as error:
        raise CannotRun(
            f"the card {path} cannot be read ({error}); reinstall the model, or delete the card"
        ) from error


def blank_card(folder: Path) -> Card:
    """A card for the weights in `folder` of which nothing else is known. Raises CannotRun where a
    file is missing."""
    return Card(folder, sha256={name: file_sha256(folder, name) for name in _FILES})


def file_sha256(folder: Path, name: str) -> str:
    """The sha256 of a file of the model. Raises CannotRun where it is missing."""
    try:
        return file_hash(folder / name)
    except OSError as error:
        raise CannotRun(
            f"the model folder {folder} lacks {name} ({error.strerror}); reinstall the model"
        ) from error


def check_weights(folder: Path) -> None:
    """Raise CannotRun where weights or tokenizer are not the bytes that the card is about, or there
    is no card."""
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
    """Skills and prompts of the method that the model's card does not cover, each with the reason;
    None without a card.

    Compares names and hashes; that a skill is asked for as it was trained, `harness pocket check`
    finds out.
    """
    card = read_card(folder)
    if card is None:
        return None
    skills = skills_of(method)
    if has_skills_listed(method) and not skills:
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
