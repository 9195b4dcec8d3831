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

from harness.scorers.abstention import DECLINING_REPLY
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


def _contains_answer(prediction: str, answer: str) -> bool:
    """Whether the words of an answer stand in a reply, next to each other and in their order.

    ("It is two years.", "two years") -> True; ("It is 17 years.", "7") -> False. For an answer
    without words ("$", "the"), whether its text stands in the reply.
    """
    answer_words = _words(answer)
    if not answer_words:
        return answer.strip().casefold() in prediction.casefold()
    reply_words = _words(prediction)
    last_start = len(reply_words) - len(answer_words)
    return any(
        reply_words[start : start + len(answer_words)] == answer_words
        for start in range(last_start + 1)
    )


@scorer("right", "1 where the reply contains an accepted answer", needs_answers=False)
def right(
    prediction: str, references: Sequence[str], *, declined: bool | None = None
) -> float | None:
    """1.0 where the reply contains an accepted answer in whole words, or declines a question that
    is to be declined, else 0.0.

    None for a question without accepted answers that is not to be declined.

    Args:
        prediction: The reply.
        references: The accepted answers.
        declined: Whether the question has no answer, so that declining is right.
    """
    if any(_contains_answer(prediction, reference) for reference in references):
        return 1.0
    if declined:
        return float(bool(DECLINING_REPLY.search(prediction)))
    if not references:
        return None
    return 0.0
