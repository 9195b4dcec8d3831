"""No garbage collection walks through loaded models while an application's reply is awaited."""

import gc

import harness

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


def test_a_program_that_calls_the_harness_has_its_objects_collected_afterwards(wiki, here):
    gc.unfreeze()  # what the suite has frozen
    try:
        harness.run(
            app=answer,
            documents=wiki / "wiki",
            questions=wiki / "questions.jsonl",
            out=wiki / "results",
            mlflow="off",
            progress=False,
        )
        assert gc.get_freeze_count() == 0
    finally:
        gc.freeze()
