"""A phrase before the final answer, and an example of a reply, if a data set configures them; both
off by default.

load_task(dataset)           the task of a method: the instruction, the phrase, the example
text_after("Two towns. So the final answer is: Mira", "So the final answer is:")   "Mira"   scorers see this
text_after("Mira", "So the final answer is:")                                      None     scored whole, and counted

dataset.answer_prefix is the phrase, dataset.demonstration the example. LongRefiner has both in its
short-answer prompt (LongRefiner, appendix D, prompt C.1) and scores what stands after the phrase's
last occurrence, stripped. The record keeps the whole reply. See
docs/methods/longrefiner.md#longrefiner-answer.
"""

from harness.config.schema import DatasetConfig
from harness.datasets import answer_schema
from harness.datasets.few_shot import load_solved_examples
from harness.method import Task

_PREFIX_REQUEST = " Put '{prefix}' before your final answer."
_SHOT_OPTIONS = ("shots", "shots_from", "shots_by", "shots_passages", "shots_ids", "shots_seed")
_EXAMPLE_REPLY = "\n\nExample:\n{demonstration}\n"


def _sets_solved_examples(dataset: DatasetConfig) -> bool:
    """Whether one of the settings of solved examples, dataset.shots and the like, is not its
    default.
    """
    fields = DatasetConfig.model_fields
    return any(getattr(dataset, name) != fields[name].default for name in _SHOT_OPTIONS)


def load_task(dataset: DatasetConfig) -> Task:
    """The task that every method gets: the instruction and all that the data set adds to it.

    These are the phrase before an answer, the example reply, the schema, and solved examples,
    where they are set. Loads the solved examples from training rows, once in a process.
    """
    additions = ""
    if dataset.answer_prefix is not None:
        additions += _PREFIX_REQUEST.format(prefix=dataset.answer_prefix)
    if dataset.demonstration is not None:
        additions += _EXAMPLE_REPLY.format(demonstration=dataset.demonstration)
    additions += answer_schema.schema_request(dataset)
    examples_hash = ""
    if _sets_solved_examples(dataset):
        examples = load_solved_examples(dataset)
        if examples is not None:
            additions += examples.text_for_all()
            examples_hash = examples.pool_hash
    return Task(
        instruction=dataset.instruction + additions,
        max_answer_tokens=dataset.max_answer_tokens,
        shots=examples_hash,
        raw_replies=dataset.raw_replies,
        chat=dataset.chat,
        reply_schema=answer_schema.schema_text(dataset),
    )


def text_after(reply: str, prefix: str) -> str | None:
    """The text after the last `prefix` in a reply, stripped; None for a reply without it.

    ("So the answer is: Mira", "answer is:") -> "Mira". Case matters.
    """
    _, separator, answer = reply.rpartition(prefix)
    if not separator:
        return None
    return answer.strip()
