"""One-word names, joined from syllables; the ending tells the kind. The supply has no end.

    Namer(dice).fresh("town")      "Velford", then others, never the same twice
    core("person")                 the 570 short names of a kind, the same in every document

A document takes its names from the short ones (two syllables, so that a tokenizer trained on this world can have each
as one token) and, when these are used up, from longer ones. A likeness to a real name would be chance.
"""

from __future__ import annotations

from functools import cache

from harness.stats.rng import Dice, Draws
from pocket.world.values import listed

STARTS = listed(
    "Bal Bel Cor Dal Dur Fal Fen Gor Hal Har Jor Kal Kir Lem Lor Mal Mir Nor Per Quo Ral Sel Sil Tam Tor Ulm Val Ver "
    "Wil Zan",
    " ",
)
MIDDLES = tuple(
    consonant + vowel for consonant in ("b", "d", "f", "g", "k", "l", "m", "n", "p", "r", "s", "t") for vowel in "aeiou"
)
ENDINGS: dict[str, tuple[str, ...]] = {
    kind: listed(endings, " ")
    for kind, endings in {
        "person": "a en ic us el ina ard ulf wyn ia ette emi una iro eth ilde ander ora is",
        "town": "ford wick holm stad burg thorpe dorf moor haven mead grad bury",
        "book": "indra antis opia iad andrel esque yrie othea",
        "company": "tex werk dyne zeug fabrik nova",
        "school": "eum arium icum odeon",
        "festival": "fest mas tide anza",
        "river": "une ain ovar esk",
        "lake": "mere enz ula",
        "region": "onia estan ossia",
        "keepsake": "ax ix orb ondo azar umbra",
        "system": "net bert tron vec mind zoom",
        "corpus": "bank crawl text base",
        "language": "ese uzi",
    }.items()
}


@cache
def core(kind: str) -> tuple[str, ...]:
    """The short names of a kind: every start with every ending."""
    return tuple(start + end for start in STARTS for end in ENDINGS[kind])


def _name(kind: str, middles: int, number: int) -> str:
    """Name `number` of those with the given number of middle syllables."""
    number, at = divmod(number, len(STARTS))
    text = STARTS[at]
    number, at = divmod(number, len(ENDINGS[kind]))
    end = ENDINGS[kind][at]
    for _ in range(middles):
        number, at = divmod(number, len(MIDDLES))
        text += MIDDLES[at]
    return text + end


class Namer:
    """Hands out names of each kind, none twice; short ones first."""

    def __init__(self, dice: Dice) -> None:
        self._dice = dice
        self._draws: dict[str, tuple[int, Draws]] = {}

    def fresh(self, kind: str) -> str:
        """A new name."""
        if kind not in self._draws:
            self._draws[kind] = 0, Draws(self._dice, len(core(kind)))
        middles, draws = self._draws[kind]
        number = draws.next()
        if number is None:
            middles += 1
            draws = Draws(self._dice, len(core(kind)) * len(MIDDLES) ** middles)
            self._draws[kind] = middles, draws
            number = draws.next()
        assert number is not None  # a new supply is never empty
        return core(kind)[number] if not middles else _name(kind, middles, number)
