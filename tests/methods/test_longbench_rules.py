"""LongBench's rules by set: replies of code keep their white space, few-shot sets have no chat
template."""

import pytest

from harness.config.layers import Choices
from harness.config.resolve import resolve_dataset, resolve_model
from harness.datasets import answer_prefix
from harness.llm.backend import load_model
from harness.llm.scripted import Rule
from harness.scorers import score
from harness.types import Document, Question
from methods import reading
from methods.kv_eviction import BoundedCache
from methods.long_context import FullContext
from tests.methods.conftest import FakeTools

REPLY = "\n    return total\n"
QUESTION = Question("q", "Next?", ("d",))
NO_CHAT = ("trec", "triviaqa", "samsum", "lsht", "lcc", "repobench-p")  # pred.py of THUDM/LongBench


def task_of(name):
    """The task of one of LongBench's sets."""
    return answer_prefix.load_task(resolve_dataset(Choices(dataset=f"longbench/{name}")).value)


@pytest.mark.parametrize("name", [*NO_CHAT, "trec_e", "lcc_e", "qasper", "qmsum"])
@pytest.mark.parametrize("method", [FullContext, BoundedCache])
def test_the_prompt_of_a_few_shot_set_is_its_text_without_a_chat_template(name, method):
    model = load_model(resolve_model(Choices(model="pocket-llama")).value)
    tools = FakeTools()
    tools.task, tools.reader = task_of(name), model
    model.forget_run()
    method(method.Config()).answer(QUESTION, [Document("d", "One. Two.")], [{}], tools)
    alone = "".join(reading.Reading(tools.task).pieces(QUESTION, ["One. Two."]))
    whole = model.first_prompts["reader"]["text"]
    assert (whole == f"<|begin|>{alone}") == (name.removesuffix("_e") in NO_CHAT)
    assert alone in whole


@pytest.mark.parametrize(
    ("dataset", "answer"),
    [
        ("lcc", REPLY),
        ("lcc_e", REPLY),
        ("repobench-p", REPLY),
        ("repobench-p_e", REPLY),
        ("qasper", "return total"),
    ],
)
def test_white_space_of_a_reply_is_kept_where_the_data_set_is_code(dataset, answer):
    tools = FakeTools([Rule(reply=REPLY)])
    reply = reading.ask(QUESTION, ["x"], tools, tools.model(), reading.Reading(task_of(dataset)))
    assert reply == answer
    assert (score("longbench.code_sim_score", reply, ["    return total"]) == 1) == (
        answer == REPLY
    )
