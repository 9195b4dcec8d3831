"""A phrase before the final answer, where a data set asks for one (dataset.answer_prefix; off by default).

task(dataset)                                      what a method is told: the instruction, and the phrase asked for
final("Two towns. So the final answer is: Mira", "So the final answer is:")   "Mira"   scorers see this
final("Mira", "So the final answer is:")                                      None     scored whole, and counted

LongRefiner asks for such a phrase in its short-answer prompt (S002, appendix D, prompt C.1) and scores what stands
behind its last occurrence, stripped (facts 5.8). The record keeps the whole reply.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.method import Task

if TYPE_CHECKING:
    from harness.config import DatasetConfig

__all__ = ["ASK", "final", "task"]

ASK = " Put '{prefix}' before your final answer."


def task(dataset: DatasetConfig) -> Task:
    """What the data set asks of every method; without a prefix its instruction as it stands."""
    asked = "" if dataset.answer_prefix is None else ASK.format(prefix=dataset.answer_prefix)
    return Task(instruction=dataset.instruction + asked, max_answer_tokens=dataset.max_answer_tokens)


def final(reply: str, prefix: str) -> str | None:
    """The text behind the last `prefix`, stripped; None for a reply without it. Upper and lower case differ."""
    _, found, answer = reply.rpartition(prefix)
    return answer.strip() if found else None
