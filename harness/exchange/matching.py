"""Which question of a data set each answer from elsewhere is to.

    matched, lost = match(run.answers, dataset.examples)      lost: a sentence for each answer without a question

By id, where nothing that the file says speaks against it: the same id can be another question in another version of a
data set. Else by the normalised question with a right answer in common; where the file has no question, by the right
answers with the length that both files give. What fits several questions fits none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from harness.exchange.foreign import ForeignAnswer
from harness.scorers.squad import normalize_answer
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
        for gold in golds(example.gold.answers):
            by_gold[gold].append(example)
    found: dict[str, tuple[ForeignAnswer, Example]] = {}
    lost = []
    for answer in answers:
        named = by_id.get(answer.id or "")
        fitting = [named] if named is not None and _fits(answer, named) else []
        if not fitting:
            near = {e.question.id: e for gold in golds(answer.answers) for e in by_gold[gold]}
            fitting = [e for e in near.values() if _fits(answer, e) and (answer.question or _same_length(answer, e))]
        if len(fitting) != 1:
            why = "fits several questions" if fitting else "is another question there" if named else "fits no question"
            told = answer.id or (answer.question or "")[-60:] or " / ".join(answer.answers)[:60]
            lost.append(f"{answer.place}: '{told}' {why}")
            continue
        key = fitting[0].question.id
        if key in found:
            raise answer.place.error(None, f"answers question '{key}', as {found[key][0].place} does; keep one of them")
        found[key] = answer, fitting[0]
    return list(found.values()), lost


def golds(answers: Sequence[str]) -> frozenset[str]:
    """Right answers in the form that is compared: SQuAD's normalisation, or the text where nothing is left of it."""
    return frozenset(normalize_answer(answer) or answer for answer in answers)


def _fits(answer: ForeignAnswer, example: Example) -> bool:
    """Whether question and right answers, as far as the file has them, are those of the example."""
    asked = normalize_answer(answer.question or "")
    if asked and normalize_answer(example.question.text) not in asked:
        return False
    return not answer.answers or bool(golds(answer.answers) & golds(example.gold.answers))


def _same_length(answer: ForeignAnswer, example: Example) -> bool:
    length = answer.extra.get("length")
    return length is not None and length == example.gold.extra.get("length")
