"""Syllables of made-up words and names: "Bal" + "ba" + "ford" is a town, and no word of any
language."""

from itertools import product


def split_words(text: str, separator: str = ", ") -> tuple[str, ...]:
    """Split a text at a separator: "Bal  Bel, Cor" -> ("Bal Bel", "Cor").

    Args:
        text: Line breaks and runs of spaces in it count as one space.
        separator: What stands between two parts.
    """
    return tuple(" ".join(text.split()).split(separator))


STARTS = split_words(
    "Bal Bel Cor Dal Dur Fal Fen Gor Hal Har Jor Kal Kir Lem Lor Mal Mir Nor Per Quo Ral Sel Sil "
    "Tam Tor Ulm Val Ver Wil Zan",
    " ",
)
MIDDLES = tuple(map("".join, product("bdfgklmnprst", "aeiou")))
"""A consonant and a vowel: "ba", "be" ..."""
ENDINGS: dict[str, tuple[str, ...]] = {
    kind: split_words(endings, " ")
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
