"""What the harness asks of this package about the model it carries (section `packages` of configs/registry.yaml)."""

from __future__ import annotations

from pathlib import Path

from harness.llm.adapters import marks
from harness.method import Method
from pocket import card as cards
from pocket.card import check_weights as check_weights


def stale_skills(folder: Path, method: Method) -> list[str] | None:
    """Skills and prompts of the method that the model's card does not cover, each with the reason; None without a card.

    Compares names and hashes; that a skill is asked for as it was trained, `harness pocket check` finds out.
    """
    card = cards.read(folder)
    if card is None:
        return None
    skills = method.skills()
    never = [f"{skill.name}: {cards.UNTRAINED}" for skill in skills if skill.name not in card.skills]
    prompts = marks(method.prompts()).items() if skills else ()
    return never + [f"prompt '{name}': {cards.CHANGED}" for name, mark in prompts if mark not in card.prompts]
