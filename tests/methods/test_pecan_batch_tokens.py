"""PecanConfig.batch_tokens: no call is shown more of the level below, however long the window is."""

import pytest

from harness.llm.scripted import Rule
from harness.types import Document
from methods.pecan import Pecan
from methods.pecan.config import PecanConfig
from methods.pecan.prompts import POINTS
from tests.methods.conftest import FakeTools

WORDS = " ".join(f"w{n}" for n in range(60))
REPLY = Rule(reply="* one two\n* three")


def shown(batch_tokens, **params):
    """What stands between head and tail of every call of a graph over 20 chunks of three words."""
    tools = FakeTools([REPLY], attention=lambda row, column: 0.1)
    config = {"chunk_tokens": 3, "reserve": 20, "similarity": False, "batch_tokens": batch_tokens, **params}
    Pecan(PecanConfig(**{"min_ip_levels": 1, **config})).index(Document("d", WORDS), tools)
    (head,), (tail,) = POINTS.around("nodes")
    prompts = [p for p in tools.reader.prompts if head in p]
    return [p.partition(head)[2].partition(tail)[0] for p in prompts]


@pytest.mark.parametrize("batch_tokens", [4, 7, 8, 12, 30, 79, 80, 1000])
def test_no_call_is_shown_more(batch_tokens):
    tools = FakeTools()
    calls = shown(batch_tokens, max_levels=2)
    assert all(tools.reader.count(call) <= batch_tokens for call in calls)
    # Three words and a line's end a chunk: as many chunks a call as fit, so 20 chunks need so many calls.
    assert len(calls) == -(-20 // min(20, batch_tokens // 4))
    assert "".join(" ".join(calls).split()) == "".join(WORDS.split()), "every chunk is shown once, in order"


@pytest.mark.parametrize("batch_tokens", [9, 16])
def test_it_holds_on_every_level(batch_tokens):
    tools, calls = FakeTools(), shown(batch_tokens)
    assert any("* " in call for call in calls), "there are points of points"
    assert all(tools.reader.count(call) <= batch_tokens for call in calls)


def test_without_it_the_window_is_the_bound():
    assert len(shown(None, max_levels=2)) == 1
