"""Where sentences end, by one rule for all methods (docs/methods/shared.md#sentences).

    "Dr. Orb of the U.S. met J. R. Smith. He left."     ends after "Smith." and at the end of the text

A sentence ends after its marks, and quotes or brackets that close there, where white space follows
("3.14" is whole), after Chinese and Japanese marks everywhere, and at a blank line or, where that
is asked for, at each end of a line. A full stop that belongs to an abbreviation or an initial is
none, unless a word follows that opens sentences ("The").
"""

import re
from collections.abc import Iterator

from harness.entities.recogniser import SENTENCE_OPENERS

# No mark may stand before the first one and nothing is given back (++, *+): a line of 200,000 dots
# is read once.
_END_MARKS = (
    r"(?<![.!?\u2026])[.!?\u2026\u0964\u0965\u061f\u06d4]++[\"'\u201d\u2019)\]]*+(?=\s)"  # also of Hindi and Arabic
    r"|[\u3002\uff01\uff1f\uff61]++[\"'\u201d\u2019\uff09\u300d\u300f)\]]*+"
)
_ENDS_AND_BLANK_LINES = re.compile(rf"{_END_MARKS}|\n[^\S\n]*+\n\s*+")
_ENDS_AND_LINE_ENDS = re.compile(rf"{_END_MARKS}|(?<=\S)(?=[^\S\n]*+\n)")
_WORD_BEFORE = re.compile(r"(?:[^\W_]|[.&])*\Z")
_WORD_AFTER = re.compile(r"\s+[\"'\u201c\u2018(\[]*(?![^\W\d_]\.)([^\W_]*)")
# J  U.S  Ph.D  M.Sc
_INITIALS = re.compile(r"(?:[^\W\d_]{1,2}\.)*[^\W\d_]|(?:[^\W\d_]{1,2}\.)+[^\W\d_]{1,3}")

_TITLES = "Dr Mr Mrs Ms Prof Rev Gen Col Capt Lt Sgt Maj Gov Sen Rep Pres Hon Mme Mlle Mt Ft vs cf ca viz e.g i.e"
_BEFORE_NUMBERS = (
    "No Nos Nr Fig Figs Vol Vols Ch Sec Eq Art Pt pp Jan Feb Mar Apr Jun Jul Aug Sep Sept Oct Nov "
    "Dec"
)
_AT_ANY_PLACE = "St Jr Sr Inc Ltd Co Corp Bros Ave Rd Blvd Dept Univ Assn al est approx"
_NEVER_END_SENTENCE = frozenset(_TITLES.split())
_ABBREVIATIONS_BEFORE_NUMBERS = frozenset(_BEFORE_NUMBERS.split())
_OTHER_ABBREVIATIONS = frozenset(_AT_ANY_PLACE.split())
_WORDS_THAT_OPEN_SENTENCES = SENTENCE_OPENERS - {"will", "may"}  # these two are names, too


def sentence_ends(
    text: str, start: int = 0, end: int | None = None, *, lines: bool = False
) -> Iterator[int]:
    """Yield the ends of sentences: after a mark that ends one, and at blank lines; not the end of
    the text.

        "Dr. Orb left. It rained." -> 13

    Args:
        text: Any text.
        start: First character that counts.
        end: Character that it is read up to, by default its last.
        lines: Whether each line ends a sentence; by default a blank line does.

    Yields:
        Offsets at which a sentence ends, in order; the same one may come twice (a mark at the end
        of a line).
    """
    pattern = _ENDS_AND_BLANK_LINES
    if lines:
        pattern = _ENDS_AND_LINE_ENDS
    if end is None:
        end = len(text)
    for match in pattern.finditer(text, start, end):
        # Only a lone full stop can be part of an abbreviation: "?!" and ".)" cannot.
        if match.group() != "." or not _is_abbreviation(text, match.start()):
            yield match.end()


def _is_abbreviation(text: str, full_stop: int) -> bool:
    """Whether the full stop at `full_stop` belongs to an abbreviation or an initial, and so ends no
    sentence.

    "Dr. Orb" always; "No. 7" before a digit; "etc. and" before a small letter; "Inc. grew", "J.
    Smith" unless the next word opens a sentence.
    """
    word = ""
    # No abbreviation has more than 12 characters.
    word_before = _WORD_BEFORE.search(text, max(0, full_stop - 12), full_stop)
    if word_before:
        word = word_before.group()
    next_word = "x"  # as good as any that opens no sentence
    word_after = _WORD_AFTER.match(text, full_stop + 1)
    if word_after:
        next_word = word_after.group(1)
    if word in _NEVER_END_SENTENCE:
        return True
    if word in _ABBREVIATIONS_BEFORE_NUMBERS or word.capitalize() in _ABBREVIATIONS_BEFORE_NUMBERS:
        return next_word[:1].isdigit()
    if word == "etc":
        return next_word[:1].islower()
    is_short = word in _OTHER_ABBREVIATIONS or _INITIALS.fullmatch(word) is not None
    return is_short and not _opens_sentence(next_word, word)


def _opens_sentence(next_word: str, abbreviation: str) -> bool:
    """Whether the word after the full stop of a possible abbreviation begins a sentence.

    It must have a capital, and be a common opener ("The") unless `abbreviation` is one small
    letter.
    """
    if not next_word[:1].isupper():
        return False
    is_small_letter = len(abbreviation) == 1 and abbreviation.islower()
    return is_small_letter or next_word.lower() in _WORDS_THAT_OPEN_SENTENCES
