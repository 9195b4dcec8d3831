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

from harness.datasets.syllables import ENDINGS, MIDDLES, STARTS, split_words
from harness.stats.rng import Dice


@cache
def short_names(kind: str) -> tuple[str, ...]:
    """The short names of a kind, of two syllables: every start with every ending of the kind."""
    return tuple(start + end for start, end in product(STARTS, ENDINGS[kind]))


def _name(kind: str, middles: int, number: int) -> str:
    """The name of a kind with a certain number, made of a start, some middle syllables and an
    ending.

    Args:
        kind: The kind of thing.
        middles: How many middle syllables it has.
        number: Its number among the names with as many, from 0.
    """
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
        """Begin without a name; dice: draws the order of the names."""
        self._dice = dice
        self._names: dict[str, Iterator[str]] = {}

    def fresh(self, kind: str) -> str:
        """A name of the kind that was not handed out before."""
        return next(self._names.setdefault(kind, self._drawn_names(kind)))

    def _drawn_names(self, kind: str) -> Iterator[str]:
        """Yield the names of a kind without end, in random order, those with fewer middle syllables
        first.

        It shuffles their numbers as they are drawn (Fisher and Yates), since there are millions of
        long names.
        """
        for middles in count():
            size = len(short_names(kind)) * len(MIDDLES) ** middles
            moved: dict[
                int, int
            ] = {}  # place in the shuffled order -> the number that is there now
            for drawn in range(size):
                at = drawn + self._dice.below(size - drawn)
                number = moved.get(at, at)
                moved[at] = moved.pop(drawn, drawn)
                if middles:
                    yield _name(kind, middles, number)
                else:
                    yield short_names(kind)[number]


def _read_values() -> dict[str, tuple[str, ...]]:
    """Kind -> its values, from the table words/values.txt, whose parts have the kind in their first
    line: {"craft": ("weaver", ...), ...}."""
    table = (Path(__file__).with_name("words") / "values.txt").read_text("utf-8")
    values_of: dict[str, tuple[str, ...]] = {}
    for part in table.split("\n\n"):
        kind, _, values = part.partition("\n")
        values_of[kind] = split_words(values)
    return values_of


_CHOICES = _read_values()
_NUMBERS: dict[str, tuple[int, int, int, str]] = {  # kind: lowest, highest, step, unit
    "year": (1201, 1989, 1, ""),
    "length": (31, 988, 1, " kilometres"),
    "depth": (11, 389, 1, " metres"),
    "price": (12, 960, 4, " crowns"),
    "sentences": (1100, 98700, 100, " sentences"),
    "annotators": (3, 77, 1, " annotators"),
    "layers": (2, 96, 2, " layers"),
    "parameters": (13, 970, 1, " million parameters"),
    "points": (201, 979, 1, " points"),
}
VALUES = frozenset((*_CHOICES, *_NUMBERS))
"""Kinds of things that have no name of their own."""
_UNITS = tuple(unit for *_, unit in _NUMBERS.values() if unit)


def make_value(kind: str, dice: Dice) -> str:
    """Draw a value of a kind as a text writes it: "212 kilometres", "weaver", "81.3 points".

    Args:
        kind: One of VALUES.
        dice: Draws it.
    """
    if kind in _CHOICES:
        return dice.pick(_CHOICES[kind])
    low, high, step, unit = _NUMBERS[kind]
    value = low + step * dice.below((high - low) // step + 1)
    if kind == "points":
        return f"{value // 10}.{value % 10}{unit}"
    if kind == "sentences":
        return f"{value // 1000},{value % 1000:03d}{unit}"
    return f"{value}{unit}"


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
        short = answer.removeprefix("the ")
        name = short.rpartition(" ")[2]
        if name[:1].isupper():
            return (short, name)
        return (short,)
    return ()
