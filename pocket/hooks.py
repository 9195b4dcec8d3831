"""What the harness asks of this package about the model it carries (section `packages` of configs/registry.yaml)."""

from __future__ import annotations

from pathlib import Path

from harness.method import Method
from pocket.eval import card as cards
from pocket.eval.card import check_weights as check_weights


def stale_skills(folder: Path, method: Method) -> list[str] | None:
    """Skills of the method that the model's card does not cover, each with the reason; None without a card.

    Plays the skills without weights: no torch. Raises nothing for a skill that cannot be played.
    """
    card = cards.read(folder)
    if card is None:
        return None
    reasons = []
    for skill in method.skills():
        try:
            reasons += [f"{name}: {why}" for name, why in cards.stale(card, [skill])]
        except Exception as e:  # noqa: BLE001 - reported; whether a skill can be played is for `harness pocket check`
            reasons.append(f"{skill.name}: cannot be played, {type(e).__name__}: {e}")
    return reasons
