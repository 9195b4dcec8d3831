"""Things of a text: one-word names without end, joined from syllables, and values such as trades
and numbers.

    Namer(dice).fresh("town")      "Velford", then others, never the same twice
    short_names("person")          the 570 short names of this kind, the same in every document
    make_value("length", dice)     "212 kilometres"
    aliases("212 kilometres")      ("212",)

The ending of a name tells its kind. A document takes its names from the short ones (two syllables,
so that a tokenizer trained on this world can have each as one token), and later from longer ones. A
likeness to a real name is chance.
"""

from collections.abc import Iterator
from functools import cache
from itertools import count, product
from pathlib import Path
from typing import NamedTuple

from harness.datasets.syllables import ENDINGS, MIDDLES, STARTS, split_words
from harness.stats.rng import Dice


@cache
def short_names(kind: str) -> tuple[str, ...]:
    """The short names of a kind, of two syllables: every start with every ending of the kind."""
    return tuple(start + end for start, end in product(STARTS, ENDINGS[kind]))


def _numbered_name(kind: str, n_middles: int, number: int) -> str:
    """The name of a kind with a certain number, made of a start, some middle syllables and an
    ending: "Vel" + "in" + "dra". The number is read as digits that choose each of them, so that
    each number below the count of such names gives another one.

    Args:
        kind: The kind of thing.
        n_middles: How many middle syllables it has.
        number: Its number among the names with as many, from 0.
    """
    number, index = divmod(number, len(STARTS))
    text = STARTS[index]
    number, index = divmod(number, len(ENDINGS[kind]))
    end = ENDINGS[kind][index]
    for _ in range(n_middles):
        number, index = divmod(number, len(MIDDLES))
        text += MIDDLES[index]
    return text + end


class Namer:
    """Hands out names of each kind, none twice; short ones first."""

    def __init__(self, dice: Dice) -> None:
        """Begin without a name; dice: draws the order of the names."""
        self._dice = dice
        self._names: dict[str, Iterator[str]] = {}

    def fresh(self, kind: str) -> str:
        """A name of the kind that was not handed out before."""
        return next(self._names.setdefault(kind, self._names_in_random_order(kind)))

    def _names_in_random_order(self, kind: str) -> Iterator[str]:
        """Yield the names of a kind without end, in random order, those with fewer middle syllables
        first.

        It shuffles their numbers as they are drawn (Fisher and Yates), since there are millions of
        long names.
        """
        for n_middles in count():
            n_names = len(short_names(kind)) * len(MIDDLES) ** n_middles
            # Place in the shuffled order -> the number that is there now, where it was moved; at
            # any other place is the number of the place itself.
            number_at_place: dict[int, int] = {}
            for n_drawn in range(n_names):
                place = n_drawn + self._dice.below(n_names - n_drawn)
                number = number_at_place.get(place, place)
                # The number at place n_drawn, which is not looked at again, takes its place.
                number_at_place[place] = number_at_place.pop(n_drawn, n_drawn)
                if n_middles:
                    yield _numbered_name(kind, n_middles, number)
                else:
                    yield short_names(kind)[number]


def _read_values() -> dict[str, tuple[str, ...]]:
    """Kind -> its values, from the table words/values.txt, whose parts have the kind in their first
    line: {"craft": ("weaver", ...), ...}."""
    table = (Path(__file__).with_name("words") / "values.txt").read_text("utf-8")
    values_of_kind: dict[str, tuple[str, ...]] = {}
    for block in table.split("\n\n"):
        kind, _, values = block.partition("\n")
        values_of_kind[kind] = split_words(values)
    return values_of_kind


_WORDS_OF_KIND = _read_values()


class _NumberRange(NamedTuple):
    """The numbers that a kind of value may have: every `step`-th from `lowest` to `highest`."""

    lowest: int
    highest: int
    step: int
    unit: str


_RANGE_OF_KIND: dict[str, _NumberRange] = {
    "year": _NumberRange(1201, 1989, 1, ""),
    "length": _NumberRange(31, 988, 1, " kilometres"),
    "depth": _NumberRange(11, 389, 1, " metres"),
    "price": _NumberRange(12, 960, 4, " crowns"),
    "sentences": _NumberRange(1100, 98700, 100, " sentences"),
    "annotators": _NumberRange(3, 77, 1, " annotators"),
    "layers": _NumberRange(2, 96, 2, " layers"),
    "parameters": _NumberRange(13, 970, 1, " million parameters"),
    "points": _NumberRange(201, 979, 1, " points"),
}
VALUES = frozenset((*_WORDS_OF_KIND, *_RANGE_OF_KIND))
"""Kinds of things that have no name of their own."""
_UNITS = tuple(numbers.unit for numbers in _RANGE_OF_KIND.values() if numbers.unit)


def make_value(kind: str, dice: Dice) -> str:
    """Draw a value of a kind as a text writes it: "212 kilometres", "weaver", "81.3 points",
    "12,300 sentences". Points are drawn in tenths.

    Args:
        kind: One of VALUES.
        dice: Draws it.
    """
    if kind in _WORDS_OF_KIND:
        return dice.pick(_WORDS_OF_KIND[kind])
    low, high, step, unit = _RANGE_OF_KIND[kind]
    number = low + step * dice.below((high - low) // step + 1)
    if kind == "points":
        return f"{number // 10}.{number % 10}{unit}"
    if kind == "sentences":
        return f"{number // 1000},{number % 1000:03d}{unit}"
    return f"{number}{unit}"


def aliases(answer: str) -> tuple[str, ...]:
    """Other ways to give an answer: without its unit, without the article, by the name alone; ()
    for none.

        "212 kilometres"    -> ("212",)
        "the lantern Velax" -> ("lantern Velax", "Velax")
    """
    for unit in _UNITS:
        if answer.endswith(unit):
            return (answer.removesuffix(unit),)
    if answer.startswith("the "):
        without_article = answer.removeprefix("the ")
        name = without_article.rpartition(" ")[2]
        if name[:1].isupper():
            return (without_article, name)
        return (without_article,)
    return ()
