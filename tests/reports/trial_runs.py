"""Hand-made runs of a method that searches in trials."""

from harness.storage.run_folder import read_run
from tests.reports.build import flops, record, usage, write_run
from tests.reports.figure_searches import step

F1 = "longbench.qa_f1_score"


def ask(updates, answer=None, *, action="ask", **scores):
    """The last step of a trial; a recorded answer costs a tenth of a TFLOP, one of a verdict
    (answers=1) nothing."""
    numbers = {"updates": float(updates), "replies": 1.0, "answers": 0.0, **scores}
    spent = {} if answer is None or numbers["answers"] else flops(0.1)
    return step(
        updates,
        node=None,
        action=action,
        shown=None,
        scores=numbers,
        answer=answer,
        answer_flops=spent,
    )


# Maximum 1, recorded up to 2. q0 answers after one update; q1 does not, and would after two; q2
# failed.
Q0 = [ask(0, "wrong"), ask(1, answers=1.0, ended=1.0)]
Q1 = [
    ask(0, "wrong"),
    ask(1),
    step(3, action="study", node=3),
    ask(2, "b", action="study", answers=1.0, ended=1.0),
]


def found(number, steps, prediction, score):
    spent = {
        "search": usage(1.0),
        "answer": {**usage(0.5), "requests": number + 1},
        "study": usage(9.0),
    }
    return record(
        number, score, steps=steps, prediction=prediction, usage=spent, scores={F1: score}
    )


RECORDS = [found(0, Q0, "a", 1.0), found(2, Q1, "wrong", 0.0), record(4, None, scores={F1: 0.0})]


def settings(**params):
    parameters = {"max_trials": 1, "record_stops": 2, **params}
    return {
        "method": {
            "name": "qrmem",
            "implementation": "qrmem",
            "view": "document",
            "params": parameters,
        }
    }


def stored(root, records=RECORDS, **params):
    return read_run(write_run(root, records, method="qrmem", settings=settings(**params)))
