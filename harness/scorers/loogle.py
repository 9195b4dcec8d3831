"""LooGLE's scores (Li et al., ACL 2024; Evaluation/automatic_metrics.py of its repository).

bleu1("Ada built it", ["Ada built it"])                        -> 1.0   (of words, as nltk's sentence_bleu)
rouge1("Ada built it", ["Ada"])                                -> 1.0   (recall, package rouge)
exact_match("{'<mask-0>': 'Ada'}", [..], masks={..})           -> the share of masks with the right entity

Theirs divide the sum of right masks of all clozes by that of all masks; here each cloze weighs the
same. Their METEOR changes from process to process (sets of words), BERTScore needs a model: neither is
here.
"""

import ast
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from harness.scorers.base import need, published
from harness.scorers.bleu import ngrams

scorer = published("bigai-nlco/LooGLE Evaluation/automatic_metrics.py")

_EMPTY_REPLY = "None"  # scored in place of an empty reply


def _bleu_of_order(prediction: str, references: Sequence[str], *, order: int) -> float:
    """BLEU of one reply by n-grams of one order: their precision times the penalty of a short
    reply.

    Args:
        prediction: The reply; its words are what stands between spaces. An empty one is scored as
            "None".
        references: The first is the gold answer.
        order: The number of words of an n-gram.
    """
    reply_words = (prediction or _EMPTY_REPLY).split()
    gold_words = references[0].split()
    common_ngrams = ngrams(reply_words, order) & ngrams(gold_words, order)
    if not common_ngrams:
        return 0.0
    precision = common_ngrams.total() / (len(reply_words) - order + 1)
    return precision * min(1.0, math.exp(1 - len(gold_words) / len(reply_words)))


def _rouge_recall(prediction: str, references: Sequence[str], *, kind: str) -> float:
    """Recall of ROUGE by the package rouge; 0.0 where it finds no words.

    Args:
        prediction: The reply; an empty one is scored as "None".
        references: The first is the gold answer.
        kind: "rouge-1", "rouge-2" or "rouge-l".
    """
    try:
        rouge_scores = need("rouge").Rouge().get_scores(prediction or _EMPTY_REPLY, references[0])
    except ValueError:
        return 0.0
    return float(rouge_scores[0][kind]["r"])


for _order in (1, 4):
    _summary = f"BLEU of {_order}-grams of words"
    scorer(f"loogle.bleu{_order}", _summary)(partial(_bleu_of_order, order=_order))
for _name, _kind in (("rouge1", "rouge-1"), ("rouge2", "rouge-2"), ("rougeL", "rouge-l")):
    _summary = f"recall of {_kind}, package rouge"
    scorer(f"loogle.{_name}", _summary, packages=("rouge",))(partial(_rouge_recall, kind=_kind))


def _parse_entities(prediction: str) -> dict[object, object]:
    """Parse a reply that is a Python dictionary: "{'<mask-0>': 'Ada'}" -> {"<mask-0>": "Ada"}.

    {} for any other reply.
    """
    try:
        value = ast.literal_eval(prediction.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return {}
    if isinstance(value, dict):
        return value
    return {}


def _share_of_right_masks(
    prediction: str, masks: Mapping[str, str], is_right: Callable[[str, object], bool]
) -> float:
    """The share of masks that the reply fills with the right entity.

    Args:
        prediction: The reply, a Python dictionary of mask -> entity.
        masks: Mask -> the right entity.
        is_right: (right entity, entity of the reply) -> whether the latter counts.
    """
    entity_by_mask = _parse_entities(prediction)
    n_right = 0
    for mask, right_entity in masks.items():
        if mask in entity_by_mask and is_right(right_entity, entity_by_mask[mask]):
            n_right += 1
    return n_right / len(masks)


def _shares_a_word(right_entity: str, reply_entity: object) -> bool:
    """Whether the right entity and that of the reply have a word in common."""
    return not set(right_entity.split()).isdisjoint(str(reply_entity).split())


def _is_same_entity(right_entity: str, reply_entity: object) -> bool:
    """Whether the entity of the reply, which may be no text, is the right one."""
    return reply_entity == right_entity


@scorer("loogle.exact_match", "share of the masks with the right entity", version="2")
def exact_match(prediction: str, _references: Sequence[str], *, masks: Mapping[str, str]) -> float:
    """The share of masks that the reply fills with exactly the right entity.

    Args:
        prediction: The reply, a Python dictionary of mask -> entity.
        masks: Mask -> the right entity.
    """
    return _share_of_right_masks(prediction, masks, _is_same_entity)


@scorer("loogle.partial_match", "share of the masks with a word of the right entity")
def partial_match(
    prediction: str, _references: Sequence[str], *, masks: Mapping[str, str]
) -> float:
    """The share of masks that the reply fills with an entity that shares a word with the right
    one.

    Args:
        prediction: The reply, a Python dictionary of mask -> entity.
        masks: Mask -> the right entity.
    """
    return _share_of_right_masks(prediction, masks, _shares_a_word)
