"""ROUGE-L of the `rouge` package (version 1.0.1) with what LongBench makes of it.

    rouge_l("The cat. It sat.", "The cat sat.")      F at summary level: sentences end at ".", words count once

The package walks the longest common subsequence by recursion, one Python frame a step, and
LongBench scores 0.0 when that hits Python's limit of 1000 frames (about 1000 words without a full
stop). So the published value depends on how deep the caller's own stack is. Here it does not: the
frames the package will need are counted first, a text that needs more than LongBench's own script
had left scores 0.0, and everything else runs on a thread of its own, whose stack is empty. Python's
recursion limit is never changed, and a caller who has changed it gets the published value too.
"""

import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product

from harness.scorers.base import ScoreError, need

# Left for the recursion when eval.py calls it: 1000, less the nine from the module to the recursion.
MAX_RECURSION_FRAMES = 991


def _sentences(text: str) -> list[str]:
    """The parts of `text` between full stops, with single spaces.

    "A  cat. It sat." -> ["A cat", "It sat"]
    """
    return [" ".join(part.split()) for part in text.split(".") if part]


def count_recursion_frames(reference: Sequence[str], prediction: Sequence[str]) -> int:
    """Count the frames that the rouge package's recursion needs for two sentences.

    It walks back through the table of longest common subsequences: a match steps back in both
    lists; else the step goes where the table is larger, and back in `prediction` on a tie.

    Args:
        reference: The words of the reference.
        prediction: The words of the prediction.
    """
    lengths = [[0] * (len(prediction) + 1)]
    for word in reference:
        above = lengths[-1]
        row = [0]
        for j, other in enumerate(prediction):
            if word == other:
                row.append(above[j] + 1)
            else:
                row.append(max(above[j + 1], row[j]))
        lengths.append(row)
    i = len(reference)
    j = len(prediction)
    frames = 1
    while i and j:
        if reference[i - 1] == prediction[j - 1]:
            i -= 1
            j -= 1
        elif lengths[i - 1][j] > lengths[i][j - 1]:
            i -= 1
        else:
            j -= 1
        frames += 1
    return frames


def _recursion_fits(prediction: Sequence[str], reference: Sequence[str], max_frames: int) -> bool:
    """Whether the package's recursion stays within `max_frames` for every pair of sentences.

    Args:
        prediction: The sentences of the reply.
        reference: The sentences of the reference.
        max_frames: The number of Python frames that it may use.
    """
    gold_word_lists = [sentence.split(" ") for sentence in reference]
    text_word_lists = [sentence.split(" ") for sentence in prediction]
    for gold_words, text_words in product(gold_word_lists, text_word_lists):
        most_frames = len(gold_words) + len(text_words)
        fewest_frames = min(len(gold_words), len(text_words)) + 1
        if most_frames <= max_frames:
            continue
        if fewest_frames > max_frames:
            return False
        # In between they have to be counted, which is slow.
        if count_recursion_frames(gold_words, text_words) > max_frames:
            return False
    return True


def rouge_l(prediction: str, reference: str, *, frames: int = MAX_RECURSION_FRAMES) -> float:
    """The F of ROUGE-L as LongBench computes it by the `rouge` package.

    0.0 for a text without a sentence, and for one so long that the package's recursion would exceed
    Python's limit: LongBench's script catches either exception and scores 0.

    By the package, words are sets, and 1e-8 is added to the denominator, so identical texts give
    0.999999995.

    Args:
        prediction: The reply.
        reference: The reference.
        frames: The number of Python frames that the published script has left for the recursion.

    Raises:
        ScoreError: Python's recursion limit was lowered below the text's need.
    """
    texts = _sentences(prediction)
    golds = _sentences(reference)
    if not texts or not golds or not _recursion_fits(texts, golds, frames):
        return 0.0
    summary_level = need("rouge.rouge_score").rouge_l_summary_level
    try:
        # In a thread of its own the frames of our callers do not count against Python's limit.
        with ThreadPoolExecutor(max_workers=1) as new_thread:
            figures = new_thread.submit(summary_level, texts, golds).result()
            return float(figures["f"])
    except RecursionError as error:
        limit = sys.getrecursionlimit()
        raise ScoreError(
            f"Python's recursion limit is {limit}; the rouge package needs the default of 1000"
        ) from error
