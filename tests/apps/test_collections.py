"""No garbage collection walks through loaded models while an application's reply is awaited."""

import gc

import pytest

import harness
from harness.parallel import heap

APP = """
import gc
import torch

modules = []

def ask(question):
    modules.append(sum(isinstance(one, torch.nn.Module) for one in gc.get_objects()))
    return "two years"
"""


def answer(question):
    return "two years"


def test_collections_during_calls_of_an_application_visit_no_model(run, configs):
    (configs / "looks.py").write_text(APP)
    run("looks:ask", "--method", "closed-book", "--model", "pocket-llama").checked()
    import looks

    assert looks.modules == [0] * 5


@pytest.fixture
def nothing_frozen():
    """A process like that of a user, who has frozen nothing; the suite freezes what it collects."""
    gc.unfreeze()
    heap.process_freezes_objects.cache_clear()
    yield
    gc.freeze()
    heap.process_freezes_objects.cache_clear()


def test_a_program_that_calls_the_harness_has_its_objects_collected_afterwards(
    nothing_frozen, wiki, here
):
    harness.run(
        app=answer,
        documents=wiki / "wiki",
        questions=wiki / "questions.jsonl",
        out=wiki / "results",
        mlflow="off",
        progress=False,
    )
    assert gc.get_freeze_count() == 0


def test_frozen_objects_are_counted_once_for_all_batches(monkeypatch):
    heap.process_freezes_objects.cache_clear()
    counted = []
    monkeypatch.setattr(gc, "get_freeze_count", lambda: counted.append(1) or 1)
    try:
        for _ in range(3):
            with heap.heap_kept_out_of_collections():
                pass
    finally:
        heap.process_freezes_objects.cache_clear()
    assert len(counted) == 1
