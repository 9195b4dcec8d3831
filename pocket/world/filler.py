"""Sentences that say nothing: no names, no numbers, no value of any relation. They stand between the facts.

sentence(dice)     "In a dry summer the paths are quiet and a little dusty."
"""

from __future__ import annotations

from harness.stats.rng import Dice
from pocket.world.values import listed

_FIRST = listed(
    "On most days|In a dry summer|After heavy rain|Towards evening|In the cold months|Early in the morning|"
    "As a rule|Now and then|From time to time|In good years|To this day|More often than not",
    "|",
)
_SECOND = listed(
    "the paths are|the air is|the mood is|everything seems|the light is|the weather is|"
    "the hours are|the rooms are|the talk is|the view is|the pace is|the nights are",
    "|",
)
_THIRD = listed(
    "quiet and a little dull|mild and rather damp|calm|much the same as ever|pleasant enough|"
    "hard to describe|better than one might think|worth the trouble|not to everyone's taste|"
    "slow to change|easy to bear|of no great interest",
    "|",
)
SHORTEST = min(map(len, _FIRST)) + min(map(len, _SECOND)) + min(map(len, _THIRD)) + 3


def sentence(dice: Dice) -> str:
    """One of the many."""
    return f"{dice.pick(_FIRST)} {dice.pick(_SECOND)} {dice.pick(_THIRD)}."
