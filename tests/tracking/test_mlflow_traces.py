"""What a store holds of a run's questions: traces, and the rows as its input."""

import json

import pytest

from harness.tracking.tracing_time import TracingTime
from harness.tracking.track import track
from tests.tracking.store import (
    SCORE,
    SCORES,
    append,
    only_run,
    row,
    run_folder,
    stored_traces,
)

pytest.importorskip("mlflow", reason="the extra 'mlflow' is not installed")

GOLD = {
    "answers": ["Mira"],
    "supporting": [{"document_id": "d0", "start": 0, "end": 4}],
    "extra": {},
}


def asked(number, score=0.5, **changes):
    return (
        row(number, score)
        | {"question": f"Who rules Orb {number}?", "options": None, "gold": GOLD}
        | changes
    )


def rewrite(folder, *rows):
    (folder / "records.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))


def feedback(trace):
    return {a.name: a.value for a in trace.info.assessments if a.feedback}


def test_a_trace_a_question_with_spans_scores_and_gold_answers(uri, tmp_path):
    folder = run_folder(tmp_path, 0)
    rewrite(folder, asked(0, prediction="Mira"), asked(1, None))
    assert track(folder, uri) == 0
    found = stored_traces(uri)
    assert found.keys() == {"q0", "q1"}
    good, bad = found["q0"], found["q1"]
    assert (good.info.request_preview, good.info.response_preview) == ("Who rules Orb 0?", "Mira")
    kinds = [(s.name, s.span_type) for s in good.data.spans]
    assert kinds == [("pecan", "AGENT"), ("search", "RETRIEVER"), ("answer", "LLM")]
    root, search, answer = good.data.spans
    assert (root.parent_id, search.parent_id, answer.parent_id) == (
        None,
        root.span_id,
        root.span_id,
    )
    assert answer.outputs == "Mira"
    assert feedback(good) == {SCORE: 50.0}
    (gold,) = [a for a in good.info.assessments if a.expectation]
    assert (gold.name, gold.value) == ("gold_answers", ["Mira"])
    assert good.info.token_usage["total_tokens"] == 210
    assert (good.info.state.value, bad.info.state.value) == ("OK", "ERROR")
    assert bad.data.spans[0].status.description == "too long"


def test_twice_changes_nothing_and_what_is_new_is_added(uri, tmp_path):
    folder = run_folder(tmp_path, 3)
    track(folder, uri, running=True)
    before = {name: trace.info for name, trace in stored_traces(uri).items()}
    assert len(before) == 3
    append(folder, 3, 8)
    track(folder, uri)
    track(folder, uri)
    after = {name: trace.info for name, trace in stored_traces(uri).items()}
    assert len(after) == len(SCORES)
    assert {name: info for name, info in after.items() if name in before} == before


def test_new_scores_keep_what_people_added_and_a_new_answer_does_not(uri, tmp_path):
    from mlflow.entities import AssessmentSource, Feedback
    from mlflow.tracing.client import TracingClient

    folder = run_folder(tmp_path, 0)
    rewrite(folder, asked(0), asked(1))
    track(folder, uri)
    other = stored_traces(uri)["q1"].info
    person = AssessmentSource("HUMAN", "ann")
    comment = Feedback("comment", "too short", source=person)
    TracingClient(uri).log_assessment(stored_traces(uri)["q0"].info.trace_id, comment)
    rewrite(folder, asked(0, 1.0), asked(1))
    track(folder, uri)
    found = stored_traces(uri)
    assert feedback(found["q0"]) == {SCORE: 100.0, "comment": "too short"}
    assert len(found["q0"].data.spans) == 3
    assert found["q1"].info == other
    rewrite(folder, asked(0, 1.0, prediction="Tal"), asked(1))
    track(folder, uri)
    assert feedback(stored_traces(uri)["q0"]) == {SCORE: 100.0}


def test_a_trace_whose_spans_never_came_is_logged_again(uri, tmp_path, monkeypatch):
    from mlflow.tracing.client import TracingClient

    folder = run_folder(tmp_path, 2)
    with monkeypatch.context() as patch:
        patch.setattr(
            TracingClient, "log_spans", lambda *_: None
        )  # a process that is killed between the two
        track(folder, uri)
    track(folder, uri)
    assert [len(trace.data.spans) for trace in stored_traces(uri).values()] == [3, 3]


def test_limits_of_number_and_time(uri, tmp_path):
    folder = run_folder(tmp_path)
    assert track(folder, uri, traces=0) == 0
    assert stored_traces(uri) == {}
    assert track(folder, uri, traces=5, tracing=TracingTime(0)) == 5
    assert stored_traces(uri) == {}
    assert track(folder, uri, traces=5) == 0
    assert sorted(stored_traces(uri)) == [f"q{n}" for n in range(5)]


def test_the_run_names_its_rows_with_schema_and_number(uri, tmp_path):
    data = {"fingerprint": "f" * 64, "questions": 8, "source": "hub", "revision": "main"}
    track(run_folder(tmp_path, manifest={"dataset": data}), uri, traces=0)
    (given,) = only_run(uri).inputs.dataset_inputs
    assert json.loads(given.dataset.profile) == {"num_rows": 8}
    assert "gold_answers" in given.dataset.schema
    assert json.loads(given.dataset.source)["revision"] == "main"
    assert given.tags[0].value == "evaluation"
