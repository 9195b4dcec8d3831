"""A reply of code reaches its scorer with the white space that the model wrote."""

import pytest

from harness.config import presets
from harness.config.schema import DatasetConfig
from harness.datasets import answer_prefix
from harness.llm.scripted import Rule
from harness.scorers import score
from harness.types import Question
from methods import reading
from tests.methods.conftest import FakeTools

REPLY = "\n    return total\n"


@pytest.mark.parametrize(
    ("dataset", "answer"),
    [("lcc", REPLY), ("lcc_e", REPLY), ("repobench-p", REPLY), ("repobench-p_e", REPLY), ("qasper", "return total")],
)
def test_white_space_of_a_reply_is_kept_where_the_data_set_is_code(dataset, answer):
    fields = {
        key: value for _, layer in presets.read("datasets", f"longbench/{dataset}") for key, value in layer.items()
    }
    tools = FakeTools([Rule(reply=REPLY)])
    task = answer_prefix.task(DatasetConfig.model_validate(fields))
    reply = reading.ask(Question("q", "Next?", ("d",)), ["x"], tools, tools.model(), reading.Reading(task))
    assert reply == answer
    assert (score("longbench.code_sim_score", reply, ["    return total"]) == 1) == (answer == REPLY)
