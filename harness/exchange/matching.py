"""Which question of a data set each answer from elsewhere is to: `match(answers, examples)`.

By id, where nothing that the file says speaks against it: the same id can be another question in another version of a
data set. Else by the normalised question with a right answer in common; where the file has no question, by a right
answer and the length, if it has that. What fits several questions fits none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from harness.exchange.foreign import ForeignAnswer
from harness.scorers.squad import exact, normalize_answer
from harness.types import Example


def match(
    answers: Sequence[ForeignAnswer], examples: Sequence[Example]
) -> tuple[list[tuple[ForeignAnswer, Example]], list[str]]:
    """The answers with their questions, and a sentence for each of the others.

    Raises DataError where two answers are to the same question.
    """
    by_id = {example.question.id: example for example in examples}
    by_gold: dict[str, list[Example]] = defaultdict(list)
    for example in examples:
        for gold in set(map(normalize_answer, example.gold.answers)):
            by_gold[gold].append(example)
    found: dict[str, tuple[ForeignAnswer, Example]] = {}
    lost = []
    for answer in answers:
        fitting = [by_id[answer.id]] if answer.id in by_id and _fits(answer, by_id[answer.id]) else []
        if not fitting:
            near = {e.question.id: e for gold in answer.answers for e in by_gold[normalize_answer(gold)]}
            fitting = [e for e in near.values() if _fits(answer, e) and (answer.question or _same_length(answer, e))]
        if len(fitting) != 1:
            told = answer.id or (answer.question or "")[-60:] or " / ".join(answer.answers)[:60]
            lost.append(f"{answer.place}: '{told}' fits {'several questions' if fitting else 'no question'}")
            continue
        key = fitting[0].question.id
        if key in found:
            raise answer.place.error(None, f"answers question '{key}', as {found[key][0].place} does; keep one of them")
        found[key] = answer, fitting[0]
    return list(found.values()), lost


def _fits(answer: ForeignAnswer, example: Example) -> bool:
    """Whether question and right answers, as far as the file has them, are those of the example."""
    if normalize_answer(example.question.text) not in normalize_answer(answer.question or example.question.text):
        return False
    return not answer.answers or any(exact(a, gold) for a in answer.answers for gold in example.gold.answers)


def _same_length(answer: ForeignAnswer, example: Example) -> bool:
    length = answer.extra.get("length")
    return length is not None and length == example.gold.extra.get("length")
