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
_MARKS = (
    r"(?<![.!?\u2026])[.!?\u2026\u0964\u0965\u061f\u06d4]++[\"'\u201d\u2019)\]]*+(?=\s)"  # also of Hindi and Arabic
    r"|[\u3002\uff01\uff1f\uff61]++[\"'\u201d\u2019\uff09\u300d\u300f)\]]*+"
)
_BLANK_LINES = re.compile(rf"{_MARKS}|\n[^\S\n]*+\n\s*+")
_LINES = re.compile(rf"{_MARKS}|(?<=\S)(?=[^\S\n]*+\n)")
_BEFORE = re.compile(r"(?:[^\W_]|[.&])*\Z")
_AFTER = re.compile(r"\s+[\"'\u201c\u2018(\[]*(?![^\W\d_]\.)([^\W_]*)")
# J  U.S  Ph.D  M.Sc
_DOTTED = re.compile(r"(?:[^\W\d_]{1,2}\.)*[^\W\d_]|(?:[^\W\d_]{1,2}\.)+[^\W\d_]{1,3}")

_TITLES = "Dr Mr Mrs Ms Prof Rev Gen Col Capt Lt Sgt Maj Gov Sen Rep Pres Hon Mme Mlle Mt Ft vs cf ca viz e.g i.e"
_NUMBERED = "No Nos Nr Fig Figs Vol Vols Ch Sec Eq Art Pt pp Jan Feb Mar Apr Jun Jul Aug Sep Sept Oct Nov Dec"
_OTHERS = "St Jr Sr Inc Ltd Co Corp Bros Ave Rd Blvd Dept Univ Assn al est approx"
_WITH_NAME = frozenset(_TITLES.split())
_WITH_NUMBER = frozenset(_NUMBERED.split())
_WITHIN = frozenset(_OTHERS.split())
_OPENERS = SENTENCE_OPENERS - {"will", "may"}  # these two are names, too


def sentence_ends(
    text: str, start: int = 0, end: int | None = None, *, lines: bool = False
) -> Iterator[int]:
    """Yield the ends of sentences, as the head of this file has them, but for the end of the text.

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
    pattern = _BLANK_LINES
    if lines:
        pattern = _LINES
    if end is None:
        end = len(text)
    for match in pattern.finditer(text, start, end):
        # Only a lone full stop can be part of an abbreviation: "?!" and ".)" cannot.
        if match.group() != "." or not _is_abbreviation(text, match.start()):
            yield match.end()


def _is_abbreviation(text: str, stop: int) -> bool:
    """Whether the full stop at `stop` belongs to an abbreviation or an initial, and so ends no
    sentence.

    "Dr. Orb" always; "No. 7" before a digit; "etc. and" before a small letter; "Inc. grew", "J.
    Smith" unless the next word opens a sentence.
    """
    word = ""
    word_before = _BEFORE.search(text, max(0, stop - 12), stop)
    if word_before:
        word = word_before.group()
    following = "x"
    after = _AFTER.match(text, stop + 1)
    if after:
        following = after.group(1)
    if word in _WITH_NAME:
        return True
    if word in _WITH_NUMBER or word.capitalize() in _WITH_NUMBER:
        return following[:1].isdigit()
    if word == "etc":
        return following[:1].islower()
    is_short = word in _WITHIN or _DOTTED.fullmatch(word) is not None
    return is_short and not _opens_sentence(following, word)


def _opens_sentence(following: str, word: str) -> bool:
    """Whether the word `following` a full stop begins a sentence, where a short `word` stands
    before it.

    It must have a capital, and be a common opener ("The") unless `word` is one small letter.
    """
    if not following[:1].isupper():
        return False
    is_small_letter = len(word) == 1 and word.islower()
    return is_small_letter or following.lower() in _OPENERS
