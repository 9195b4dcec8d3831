"""StreamingLLM, H2O and SnapKV as methods: prompts, limits, steps and costs."""

import pytest
from pydantic import ValidationError

from harness.errors import QuestionError
from harness.llm.scripted import Rule
from harness.models import CacheLimit
from harness.types import Document, Question
from methods.kv_eviction import BoundedCache, BoundedCacheConfig, PrintedCacheConfig
from tests.methods.conftest import FakeTools

TEXT = "Red fox runs fast. Blue fox sleeps now. Green bird sings well. " * 20
QUESTION = Question("q", "Which bird?", ("d",))


def config(**more):
    return BoundedCacheConfig(**{"rule": "observed", "budget": 100, "last": 32, "width": 7, **more})


def answered(**more):
    tools = FakeTools([Rule(reply="Green")])
    return BoundedCache(config(**more)).answer(QUESTION, [Document("d", TEXT)], [{}], tools), tools


@pytest.mark.parametrize(
    ("asked", "order", "read"),
    [
        ("behind", "text question", 279),
        ("before", "question text", 271),
        ("after", "text question", 262),
    ],
)
def test_golden_trace(asked, order, read):
    found, tools = answered(asked=asked)
    assert (found.text, found.stop_reason) == ("Green", "whole")
    (step,) = found.steps
    prompt = tools.reader.prompts[0]
    place = {"text": prompt.index("Red fox"), "question": prompt.index("Which bird?")}
    assert " ".join(sorted(place, key=place.get)) == order
    assert step.scores == {"read": read, "kept": 100.0, "megabytes": 0.0}
    assert [(e.phase, e.kind, e.requests) for e in tools.meter.events if e.requests] == [
        ("answer", "prefill", 1)
    ]


@pytest.mark.parametrize(
    ("params", "limit"),
    [
        ({}, CacheLimit(100, 0, 32, 32, 7)),
        ({"last": None}, CacheLimit(100, 0, 32, 32, 7)),
        ({"choice": "query_head"}, CacheLimit(100, 0, 32, 32, 7, by_query_head=True)),
        ({"rule": "summed", "last": None, "width": 1}, CacheLimit(100, 0, 50, None, 1)),
        (
            {"rule": "recent", "first": 4, "last": None, "width": 1},
            CacheLimit(100, 4, 96, 0, step=64),
        ),
    ],
)
def test_the_rules_as_limits(params, limit):
    assert config(**params).limit() == limit


@pytest.mark.parametrize(
    "params", [{"rule": "observed"}, {"choice": "query_head"}, {"asked": "after"}]
)
def test_one_by_one_needs_a_rule_that_can_go_on(params):
    assert PrintedCacheConfig(rule="summed", budget=100).limit() == CacheLimit(
        100, 0, 50, None, step=1, written=True
    )
    with pytest.raises(ValidationError, match="one by one needs rule recent or summed"):
        PrintedCacheConfig(**{"rule": "summed", "budget": 100, **params})


def test_a_budget_below_the_question_is_refused():
    with pytest.raises(
        QuestionError, match=r"takes \d+ tokens, more than the cache's budget of 33; raise"
    ):
        answered(budget=33)


@pytest.mark.parametrize(("window", "refused"), [(0, False), (100, True), (101, False)])
def test_a_budget_that_the_window_never_fills_is_refused(window, refused):
    assert bool(BoundedCache(config()).model_problems("reader", window, {})) is refused
