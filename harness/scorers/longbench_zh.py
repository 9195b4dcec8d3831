"""LongBench's metrics for Chinese (LongBench/metrics.py); texts are cut into words by the optional
package jieba.

qa_f1_zh_score("今天天气很好", ["天气很好"])      token F1 over jieba's words
retrieval_zh_score("段落19", ["段落19"])          -> 1.0   (no jieba needed)
"""

import logging
import re
import string
from collections.abc import Sequence
from functools import cache
from typing import Any

from harness.scorers.base import best_score, need, published
from harness.scorers.longbench import share_of_reference_number
from harness.scorers.rouge import MAX_RECURSION_FRAMES, rouge_l
from harness.scorers.squad import overlap

scorer = published("THUDM/LongBench LongBench/metrics.py")

# The Chinese marks LongBench removes: full-width forms, CJK brackets and quotes. U+300A is not
# among them.
_MARKS = (
    "！？｡。＂＃＄％＆＇（）＊＋，－／：；＜＝＞＠［＼］＾＿｀｛｜｝～｟｠｢｣､、〃》「」『』【】〔〕〖〗〘〙〚〛〜〝〞〟〰〾〿"
    "–—‘’‛“”„‟…‧﹏."
)
_DELETE = str.maketrans("", "", string.punctuation + _MARKS)
_PARAGRAPH = re.compile(r"段落(\d+)")


@cache
def _jieba() -> Any:
    """Import jieba, once, and keep it from reporting on stderr. Raises CannotRun if it is
    missing.
    """
    module = need("jieba")
    module.setLogLevel(logging.WARNING)  # below that it says that it reads its dictionary
    return module


def jieba_words(text: str) -> list[str]:
    """The words that jieba cuts a text into."""
    return list(_jieba().cut(text, cut_all=False))


@scorer("longbench.normalize_zh_answer", "the Chinese normalised text", "text")
def normalize_zh_answer(text: str) -> str:
    """The text in lower case, without ASCII and Chinese punctuation and without any white
    space.
    """
    return "".join(text.lower().translate(_DELETE).split())


def normalised_words(text: str) -> list[str]:
    """The words that jieba cuts a text into, each normalised; those of which nothing is left
    are dropped.
    """
    return list(filter(None, map(normalize_zh_answer, jieba_words(text))))


@scorer("longbench.qa_f1_zh_score", "token F1 over jieba's words", packages=("jieba",))
def qa_f1_zh_score(prediction: str, references: Sequence[str]) -> float:
    """Token F1 over the normalised words that jieba cuts the texts into, best over the
    references.
    """
    return best_score(_words_f1, prediction, references)


def _words_f1(prediction: str, reference: str) -> float:
    """Token F1 of two texts over the normalised words that jieba cuts them into."""
    return overlap(normalised_words(prediction), normalised_words(reference)).f1


@scorer("longbench.rouge_zh_score", "ROUGE-L over jieba's words", packages=("jieba", "rouge"))
def rouge_zh_score(prediction: str, references: Sequence[str]) -> float:
    """ROUGE-L of the `rouge` package over jieba's words joined by spaces, best over the
    references.
    """
    text = " ".join(jieba_words(prediction))

    def rouge_with(spaced_text: str, gold: str) -> float:
        """ROUGE-L of the reply's words with those of one reference."""
        # One function lies between this and the English score in the published script: one frame
        # less for the recursion.
        return rouge_l(spaced_text, " ".join(jieba_words(gold)), frames=MAX_RECURSION_FRAMES - 1)

    return best_score(rouge_with, text, references)


@scorer("longbench.retrieval_zh_score", "share of numbers that name the Chinese paragraph")
def retrieval_zh_score(prediction: str, references: Sequence[str]) -> float:
    """The share of the numbers in the prediction that equal the number in "段落19", the
    reference.
    """
    return share_of_reference_number(prediction, references, _PARAGRAPH)
