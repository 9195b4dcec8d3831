"""The words of a text in any script, for all that compares texts by their words.

    words("Ärzte in St. Mary's")    ["ärzte", "in", "st", "mary", "s"]
    words("三千円")                  ["三", "千", "円"]

BM25 over a document and over a corpus, HippoRAG's phrases, solved examples by similarity and the
search for an answer in a text all read words here. The rule: docs/methods/retrieval.md#words.
"""

import re
import unicodedata

import regex

# Hebrew and Arabic vowel points and the Arabic stretching sign, which a text has or not, signs
# without a shape, and the dot above a small i, which capitals leave there.
_LEFT_OUT = regex.compile(
    r"(?V1)[\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0640\u064b-\u0652\u0670]|[\p{DI}--\u200b]|(?<=i)\u0307+"
)
# Letters, digits and marks of another width or shape ("ＡＢＣ", "Ⅷ"). Raised ones and fractions mean
# something else, and symbols would put a mark or letters beside a word: "don´t", "№5".
_SHAPES = r"\p{Dt=Wide}\p{Dt=Narrow}\p{Dt=Compat}\p{Dt=Font}\p{Dt=Initial}\p{Dt=Medial}\p{Dt=Final}\p{Dt=Isolated}"
_LETTERS = r"\p{L}\p{N}\p{M}\p{Block=Kangxi_Radicals}\p{Block=CJK_Radicals_Supplement}"
_LETTERS_OF_OTHER_SHAPE = regex.compile(rf"(?V1)[[{_SHAPES}]&&[{_LETTERS}]]+")
_UNSPACED = r"[[\p{scx=Hani}\p{scx=Hira}\p{scx=Kana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]&&\p{L}]"
_WORD = regex.compile(rf"(?V1){_UNSPACED}\p{{M}}*|[[\p{{L}}\p{{N}}\p{{M}}]--{_UNSPACED}]+")
_ASCII_WORD = re.compile(r"[a-z0-9]+")  # finds what _WORD finds in a third of the time
_SIGN_BETWEEN_WORDS = regex.compile(r"[^\p{L}\p{N}\p{M} ]")


def folded(text: str) -> str:
    """Write a text in one form, so that equal words compare equal.

    "Ärzte" -> "ärzte", "ＡＢＣ" -> "abc". In small letters, plain shapes and composed signs (NFC),
    without vowel points of Arabic and Hebrew.
    """
    plain_shapes = _LETTERS_OF_OTHER_SHAPE.sub(
        lambda match: unicodedata.normalize("NFKC", match[0]), text
    )
    small_and_composed = unicodedata.normalize("NFC", plain_shapes.casefold())
    without_points = _LEFT_OUT.sub("", small_and_composed)
    # Again: what was left out may have stood between a letter and its mark.
    return unicodedata.normalize("NFC", without_points)


def words(text: str) -> list[str]:
    """Cut a text into its words: "Ärzte in St. Mary's" -> ["ärzte", "in", "st", "mary", "s"].

    Args:
        text: In any script and any Unicode normal form.

    Returns:
        Runs of letters, digits and their combining marks, folded. In scripts without spaces between
        words (Chinese, Japanese, Thai, Lao, Khmer, Burmese) each letter, with its marks, is a word.
    """
    if text.isascii():
        return _ASCII_WORD.findall(text.lower())
    found_words: list[str] = _WORD.findall(folded(text))
    return found_words


def as_phrase(text: str) -> str:
    """Fold a text and write a space for each sign that is no part of a word, none at its ends.

    "St. Mary's" -> "st  mary s"
    """
    return str(_SIGN_BETWEEN_WORDS.sub(" ", folded(text))).strip()
