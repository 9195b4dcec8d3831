"""Whether a reply is right: the headline of a folder of one's own.

right("The warranty is two years.", ["two years", "24 months"])    -> 1.0    it contains an accepted answer
right("It is 17 years.", ["7"])                                    -> 0.0    whole words and numbers alone
right("The wiki does not say.", [], declined=True)                 -> 1.0    a question without an answer

Case, punctuation and articles do not count. A reply that contains the answer and takes it back is
right here; where that matters, ask a judge.
"""

import re
import unicodedata
from collections.abc import Sequence

from harness.scorers.abstention import DECLINES
from harness.scorers.base import published

scorer = published("this project")

# A number with its separators, a word, or a letter of a script that is written without spaces.
_WORD = re.compile(
    r"\d+(?:[.,]\d+)*|[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]|[^\W\d_\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+"
)
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_ARTICLES = frozenset({"a", "an", "the"})


def _words(text: str) -> list[str]:
    """The words of a text in small letters, without articles: "The 1,000 mills" -> ["1000",
    "mills"].
    """
    plain = unicodedata.normalize("NFKC", text).casefold()
    words = _WORD.findall(_THOUSANDS.sub("", plain))
    return [word for word in words if word not in _ARTICLES]


def _is_in(answer: str, prediction: str) -> bool:
    """Whether the words of an answer stand in a reply, next to each other and in their order.

    ("two years", "It is two years.") -> True; ("7", "It is 17 years.") -> False. For an answer
    without words ("$", "the"), whether its text stands in the reply.
    """
    wanted = _words(answer)
    if not wanted:
        return answer.strip().casefold() in prediction.casefold()
    found = _words(prediction)
    last_start = len(found) - len(wanted)
    return any(found[at : at + len(wanted)] == wanted for at in range(last_start + 1))


@scorer("right", "1 where the reply contains an accepted answer", needs_answers=False)
def right(
    prediction: str, references: Sequence[str], *, declined: bool | None = None
) -> float | None:
    """1.0 where the reply contains an accepted answer in whole words, else 0.0.

    None for a question without accepted answers that is not to be declined.

    Args:
        prediction: The reply.
        references: The accepted answers.
        declined: Whether the question has no answer, so that declining is right.
    """
    if any(_is_in(reference, prediction) for reference in references):
        return 1.0
    if declined:
        return float(bool(DECLINES.search(prediction)))
    if not references:
        return None
    return 0.0
