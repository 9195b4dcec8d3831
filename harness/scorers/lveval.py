"""LV-Eval's scores (Yuan et al., 2024; metrics.py of its repository): token F1 that is 0 where too few
of the answer's keywords are in the reply.

keyword_f1("Ada built it", ["Ada Toren"], keywords="Toren")      -> 0.0   (recall of the keywords below 0.2)
keyword_f1("Ada Toren built it", ["Ada Toren"], keywords=..)     -> 0.67
rouge_zh(..)                                                     ROUGE-L without frequent words
"""

from collections import Counter
from collections.abc import Sequence

from harness.scorers.base import published
from harness.scorers.longbench import qa_f1_score
from harness.scorers.longbench_zh import (
    jieba_words,
    normalised_words,
    normalize_zh_answer,
    qa_f1_zh_score,
)
from harness.scorers.rouge import MAX_RECURSION_FRAMES, rouge_l
from harness.scorers.squad import normalize_answer

scorer = published("infinigence/LVEval metrics.py")

_MIN_KEYWORD_RECALL, _MIN_KEYWORD_RECALL_ZH = 0.2, 0.4
_FREQUENT_WORDS = (
    "and to of in her was with for it from is that his he by she they or at because be on "
    "are their what as had were about being this who but have has when which does"
)
_FREQUENT_WORD_SET = frozenset(_FREQUENT_WORDS.split())
_FREQUENT_ZH_WORDS = (
    "的 和 是 等 在 年 可以 为 与 ‰ 了 或 一种 月 c 至 日 有 进行 于 不 中 × 根据 小 由 "
    "亩 也 要 指 法 会 元 主要 以及 通过 首先 对 然后 号 以 所 后 丁 包括 无 将 用 能 形 "
    "方面 因素 位于 而 从 到 一定 用于 但 使用 让 具有 并 亿元 万元 上 类 基于 才 来 地 片 "
    "其他 个 或者 变得 时 给 你 使 条 受 已经 带 度"
)
_FREQUENT_WORD_SET_ZH = frozenset(_FREQUENT_ZH_WORDS.split())


def _keyword_recall(
    words: Sequence[str], keywords: Sequence[str], ignored_words: frozenset[str]
) -> float:
    """The share of the keywords that are among the words; 0.0 without keywords.

    Args:
        words: The words of the reply.
        keywords: The words of the keywords.
        ignored_words: Words that never count as found.
    """
    if not keywords:
        return 0.0
    n_found = 0
    for word, count in (Counter(words) & Counter(keywords)).items():
        if word not in ignored_words:
            n_found += count
    return n_found / len(keywords)


@scorer("lveval.keyword_f1", "token F1; 0 with fewer than a fifth of the answer's keywords")
def keyword_f1(prediction: str, references: Sequence[str], *, keywords: str | None = None) -> float:
    """Token F1 by SQuAD's rules; 0.0 where the reply has fewer than a fifth of the keywords.

    Args:
        prediction: The reply.
        references: The accepted answers, of which the first counts.
        keywords: The words that the reply must have; None or "" for none, so that only the F1
            counts.
    """
    if keywords:
        words = normalize_answer(prediction).split()
        keyword_list = normalize_answer(keywords).split()
        if _keyword_recall(words, keyword_list, _FREQUENT_WORD_SET) < _MIN_KEYWORD_RECALL:
            return 0.0
    return qa_f1_score(prediction, references[:1])


@scorer(
    "lveval.keyword_f1_zh",
    "F1 of jieba's words; 0 with fewer than two fifths of the answer's keywords",
    packages=("jieba",),
)
def keyword_f1_zh(
    prediction: str, references: Sequence[str], *, keywords: str | None = None
) -> float:
    """F1 of jieba's words; 0.0 where the reply has fewer than two fifths of the keywords.

    Args:
        prediction: The reply.
        references: The first is the gold answer.
        keywords: The words that the reply must have; None or "" for those of the answer itself.
    """
    words = normalised_words(prediction)
    keyword_list = normalised_words(keywords or references[0])
    if _keyword_recall(words, keyword_list, _FREQUENT_WORD_SET_ZH) < _MIN_KEYWORD_RECALL_ZH:
        return 0.0
    return qa_f1_zh_score(prediction, references[:1])


def _infrequent_words_zh(text: str) -> str:
    """The words of a Chinese text without frequent ones, normalised and joined by spaces.

    The text is cut by jieba twice, as the published code does: its words are cut again.
    """
    words_with_spaces = " ".join(jieba_words(text))
    words = map(normalize_zh_answer, jieba_words(words_with_spaces))
    return " ".join(word for word in words if word not in _FREQUENT_WORD_SET_ZH)


@scorer(
    "lveval.rouge_zh", "ROUGE-L of jieba's words without frequent ones", packages=("jieba", "rouge")
)
def rouge_zh(prediction: str, references: Sequence[str]) -> float:
    """ROUGE-L of the `rouge` package over jieba's words without frequent ones.

    As in `rouge_zh_score`, one of Python's frames is taken before the recursion begins.
    """
    return rouge_l(
        _infrequent_words_zh(prediction),
        _infrequent_words_zh(references[0]),
        frames=MAX_RECURSION_FRAMES - 1,
    )
