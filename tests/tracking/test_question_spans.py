"""A question as MLflow's spans: what stands where, and what it is made of."""

import pytest

from harness.cost.flops import Request
from harness.storage.json_lines import json_line
from harness.storage.kept_requests import request_rows
from harness.storage.record_texts import text_checksum
from harness.storage.run_files import REQUESTS, TEXTS
from harness.storage.run_folder import read_run
from harness.tracking.traced_question import cut_middle, traced_questions
from tests.reports.build import SCORE, built, flops, parsed, record, stored, usage, write_run
from tests.reports.build import span as plain_span
from tests.reports.build import step as plain_step

NO_MLFLOW = "the extra 'mlflow' is not installed"
mlflow_traces = pytest.importorskip("harness.tracking.mlflow_traces", reason=NO_MLFLOW)
question_spans = pytest.importorskip("harness.tracking.question_spans", reason=NO_MLFLOW)

TRACE = "tr-" + "1" * 32


def passage(start, end, text=""):
    return plain_span("d0", start, end, text)


def step(action, node, tflops, **changes):
    shown = passage(node, node + 5, f"text {node}")
    return (
        plain_step(action, node, scores={"total": 0.5}, tokens=10, flops=flops(tflops), shown=shown)
        | changes
    )


def questions(root, *records, **changes):
    run = read_run(write_run(root, records, **changes))
    return list(traced_questions(run, {r["question_id"] for r in records}))


def spans_of(question):
    return question_spans.QuestionSpans(question, TRACE).make()


def below(spans, parent):
    """The spans right below one."""
    return [span for span in spans if span.parent_id == parent.span_id]


def named(spans, name):
    (span,) = [span for span in spans if span.name == name]
    return span


def times(question, spans):
    """Seconds from the start of the question."""
    start = round(question.start_seconds * 1e9)
    return [((s.start_time_ns - start) / 1e9, (s.end_time_ns - start) / 1e9) for s in spans]


QUESTION = {
    "question": "Who rules Orb?",
    "options": None,
    "prediction": "Mira",
    "notes": {"seconds": 4.0},
    "gold": {"answers": ["Mira", "Mira Tal"], "supporting": [], "extra": {}},
}


def test_what_was_asked_shown_and_answered(tmp_path):
    shown = [passage(0, 4, "Orb."), passage(6, 9)]
    (question,) = questions(tmp_path, record(0, 0.25, shown=shown, stop_reason="k", **QUESTION))
    root, search, answer = spans_of(question)
    assert [(s.name, s.span_type) for s in (root, search, answer)] == [
        ("pecan", "AGENT"),
        ("search", "RETRIEVER"),
        ("answer", "LLM"),
    ]
    assert {s.trace_id for s in (root, search, answer)} == {TRACE}
    assert (root.inputs, root.outputs) == ({"question": "Who rules Orb?"}, "Mira")
    assert search.outputs == [
        {"page_content": "Orb.", "metadata": {"kind": "span", "doc_uri": "d0[0:4]"}},
        {
            "page_content": "characters of d0[6:9]",
            "metadata": {"kind": "span", "doc_uri": "d0[6:9]"},
        },
    ]
    assert (answer.outputs, answer.inputs) == (
        "Mira",
        {"question": "Who rules Orb?", "passages": 2},
    )
    assert answer.attributes["TFLOPs"] == 0.5
    assert answer.attributes["mlflow.chat.tokenUsage"]["total_tokens"] == 105
    assert mlflow_traces._trace_tags(question) == {
        "mlflow.traceName": "pecan",
        "method": "pecan",
        "model": "tiny",
        "TFLOPs": "1.5",
        "stop_reason": "k",
    }


def test_scores_are_feedback_and_gold_answers_an_expectation(tmp_path):
    (question,) = questions(tmp_path, record(0, 0.25, **QUESTION))
    score, gold = mlflow_traces._assessments(question.record, TRACE)
    assert (score.name, score.value, score.source.source_type) == (SCORE, 25.0, "CODE")
    assert (gold.name, gold.value) == ("gold_answers", ["Mira", "Mira Tal"])


def test_times_are_the_phases_own_and_questions_follow_each_other(tmp_path):
    documents = [built("d0", 9.0, usage={"index": usage(9.0) | {"seconds": 1.0}})]
    rows = [
        record(0, 1.0, notes={"seconds": 4.0}),
        record(1, 1.0, notes={"seconds": 2.0}),
        record(2, 1.0),
    ]
    first, second, third = questions(tmp_path, *rows, documents=documents)
    root, *parts = spans_of(first)
    assert [part.name for part in parts] == ["index", "search", "answer"]
    assert times(first, [root, *parts]) == [(0.0, 4.0), (0.0, 1.0), (1.0, 3.5), (3.5, 4.0)]
    assert parts[0].outputs == {"d0": "built"}
    assert [s.name for s in spans_of(second)[1:]] == ["search", "answer"], (
        "the index is the first's"
    )
    assert (
        second.start_seconds - first.start_seconds,
        third.start_seconds - second.start_seconds,
    ) == (4.0, 2.0)
    assert times(third, spans_of(third)[:1]) == [(0.0, 1.0)], "no shorter than its phases"


def test_questions_that_ran_together_start_closer(tmp_path):
    rows = [record(i, 1.0, notes={"seconds": 4.0}) for i in range(2)]
    first, second = questions(tmp_path, *rows, manifest={"starts": [{"parallel": 4}]})
    assert second.start_seconds - first.start_seconds == 1.0


def test_a_step_is_a_span_and_takes_the_time_of_its_flops(tmp_path):
    steps = [
        step("start", 1, 0.25),
        step("start", 2, 0.25, shown=None),
        step("visit", 7, 0.75, p_yes=0.5),
        step("visit", 8, 1.0, p_yes=0.75, note="enough"),
    ]
    (question,) = questions(tmp_path, record(0, 1.0, steps=steps, notes={"seconds": 2.5}))
    spans = spans_of(question)
    shown = below(spans, named(spans, "search"))
    assert [s.name for s in shown] == ["start 1", "start 2", "visit 7", "visit 8"]
    assert times(question, shown) == [(0.0, 0.5), (0.5, 0.5), (0.5, 1.5), (1.5, 2.0)]
    last = shown[-1]
    assert [piece["page_content"] for piece in last.outputs] == ["text 8"]
    assert [last.attributes[key] for key in ("note", "TFLOPs so far", "P(Yes)")] == [
        "enough",
        1.0,
        0.75,
    ]


def test_of_long_searches_and_long_texts_the_first_is_shown(tmp_path):
    steps = [step("visit", n, n / 100, p_yes=0.1) for n in range(100)]
    (question,) = questions(tmp_path, record(0, 1.0, steps=steps))
    spans = spans_of(question)
    search = named(spans, "search")
    assert (len(below(spans, search)), search.attributes["steps"]) == (40, 100)
    shown = [passage(n, n + 1, "x" * 2000) for n in range(30)]
    (flat,) = questions(tmp_path / "flat", record(0, 1.0, shown=shown))
    found = spans_of(flat)[1].outputs
    assert len(found) == 20
    assert "characters ...]" in found[0]["page_content"]
    assert len(found[0]["page_content"]) < 1100


def test_a_text_is_cut_in_the_middle():
    assert cut_middle("abc", 3) == "abc"
    assert cut_middle("a" * 6 + "b" * 6, 6) == "aaaa\n[... 6 characters ...]\nbb"


def test_a_failed_question_has_its_error_and_no_phases(tmp_path):
    (question,) = questions(tmp_path, record(0, None))
    (root,) = spans_of(question)
    assert (root.status.status_code.value, root.status.description) == ("ERROR", "too long")
    assert root.events[0].attributes["exception.type"] == "WindowExceeded"
    assert mlflow_traces._trace_tags(question)["error"] == "WindowExceeded"


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({"scores": {SCORE: 1.0}}, True),
        ({"notes": {"flags": {SCORE: "empty"}}}, True),
        ({"prediction": "x"}, False),
        ({"question": "now recorded"}, False),
    ],
)
def test_a_digest_is_of_all_but_the_scores(change, same):
    before = mlflow_traces.answer_digest(parsed(record(0, 0.5)))
    assert (before == mlflow_traces.answer_digest(parsed(record(0, 0.5, **change)))) is same


def test_why_a_score_is_0(tmp_path):
    flagged = parsed(record(0, 0.0, notes={"flags": {SCORE: "no answer"}}))
    (score,) = mlflow_traces._assessments(flagged, TRACE)
    assert score.rationale == "no answer"
    assert mlflow_traces.percent_scores(parsed(record(0, 0.5, scores={"a(b)": 0.12345}))) == {
        "a_b_": 12.35
    }


def test_what_a_judge_replied():
    judges = {
        "judge.a": {"verdict": "yes", "reply": "Yes."},
        "judge.b": {"verdict": "unclear", "reply": "Hm."},
        "judge.c": {"verdict": "no"},
    }
    notes = {"judges": judges, "flags": {"judge.b": "unclear"}}
    scores = dict.fromkeys(judges, 1.0) | {SCORE: 1.0}
    given = mlflow_traces._assessments(parsed(record(0, 1.0, notes=notes, scores=scores)), TRACE)
    reasons = {feedback.name: feedback.rationale for feedback in given}
    assert reasons == {
        "judge.a": "Yes.",
        "judge.b": "unclear: Hm.",
        "judge.c": None,
        SCORE: None,
    }
    sources = {feedback.name: feedback.source.source_type for feedback in given}
    assert sources == dict.fromkeys(judges, "LLM_JUDGE") | {SCORE: "CODE"}


def write_requests(folder, question, *requests):
    """Append a question's requests to the run."""
    with open(folder / REQUESTS, "ab") as file:
        file.writelines(map(json_line, request_rows(requests, {"question_id": question})))


def test_requests_that_a_run_has_are_spans_with_whole_prompts(tmp_path):
    steps = [step("visit", 7, 0.5, p_yes=0.5)]
    folder = write_run(tmp_path, [record(0, 1.0), record(1, 1.0, steps=steps)])
    probe = Request("searcher", "search", "probe", "Text. Yes or no?", '{"Yes": 0.5}')
    write = Request("reader", "answer", "write", "Text. Who?", "Ann")
    write_requests(folder, "q1", probe, write)
    write_requests(folder, "q0", write)
    flat, searched = traced_questions(read_run(folder), {"q0", "q1"})
    spans = spans_of(flat)
    (only,) = below(spans, named(spans, "answer"))
    assert (only.name, only.span_type, only.inputs, only.outputs) == (
        "write (reader)",
        "LLM",
        {"prompt": "Text. Who?"},
        "Ann",
    )
    spans = spans_of(searched)
    visit, asked = below(spans, named(spans, "search"))
    assert visit.name == "visit 7"
    assert (asked.name, asked.inputs) == ("probe (searcher)", {"prompt": "Text. Yes or no?"})
    (written,) = below(spans, named(spans, "answer"))
    assert written.inputs == {"prompt": "Text. Who?"}


def test_of_many_requests_the_first_are_shown(tmp_path):
    folder = write_run(tmp_path, [record(0, 1.0)])
    sent = [Request("reader", "answer", "write", f"Text {n}", "Ann") for n in range(50)]
    write_requests(folder, "q0", *sent)
    (question,) = traced_questions(read_run(folder), {"q0"})
    spans = spans_of(question)
    shown = below(spans, named(spans, "answer"))
    assert [s.inputs["prompt"] for s in shown] == [f"Text {n}" for n in range(40)]


def test_a_long_text_stands_beside_the_records(tmp_path):
    long = {**passage(0, 400), "text_sha256": text_checksum("long " * 80)}
    folder = write_run(tmp_path, [record(0, 1.0, shown=[long])])
    with open(folder / TEXTS, "ab") as file:
        file.write(json_line({"sha256": long["text_sha256"], "text": "long " * 80}))
    (question,) = traced_questions(read_run(folder), {"q0"})
    assert spans_of(question)[1].outputs[0]["page_content"] == "long " * 80


def test_only_what_is_wanted(tmp_path):
    run = stored(tmp_path, [1.0, 0.5, 0.0])
    assert [q.record.question_id for q in traced_questions(run, {"q1"})] == ["q1"]
