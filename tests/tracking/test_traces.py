"""A question as a trace, in plain values: what stands where, and what it is made of."""

import pytest

from harness.cost.flops import Request
from harness.storage.json_lines import json_line
from harness.storage.kept_requests import request_rows
from harness.storage.record_texts import checksum
from harness.storage.run_files import REQUESTS, TEXTS
from harness.storage.run_folder import read_run
from harness.tracking.traces import answer_digest, build_traces, cut_middle, percent_scores
from tests.reports.build import SCORE, built, flops, parsed, record, stored, usage, write_run
from tests.reports.build import span as plain_span
from tests.reports.build import step as plain_step


def span(start, end, text=""):
    return plain_span("d0", start, end, text)


def step(action, node, tflops, **changes):
    shown = span(node, node + 5, f"text {node}")
    return (
        plain_step(action, node, scores={"total": 0.5}, tokens=10, flops=flops(tflops), shown=shown)
        | changes
    )


def traced(root, *records, **changes):
    run = read_run(write_run(root, records, **changes))
    return list(build_traces(run, {r["question_id"] for r in records}))


def names(found):
    return [child.name for child in found.children]


MARK = {"document_id": "d0", "start": 3, "end": 6}
QUESTION = {
    "question": "Who rules Orb?",
    "options": None,
    "prediction": "Mira",
    "notes": {"seconds": 4.0},
}
QUESTION["gold"] = {"answers": ["Mira", "Mira Tal"], "supporting": [MARK], "extra": {}}


def test_what_was_asked_shown_and_answered(tmp_path):
    shown = [span(0, 4, "Orb."), span(6, 9)]
    (trace,) = traced(tmp_path, record(0, 0.25, shown=shown, stop_reason="k", **QUESTION))
    assert (trace.request, trace.answer, trace.error) == ("Who rules Orb?", "Mira", None)
    assert trace.gold == {"gold_answers": ["Mira", "Mira Tal"]}
    assert trace.scores == {SCORE: 25.0}
    assert trace.tokens == {"input_tokens": 200, "output_tokens": 10, "total_tokens": 210}
    assert trace.tags == {"method": "pecan", "model": "tiny", "TFLOPs": "1.5", "stop_reason": "k"}
    assert trace.root.inputs == {"question": "Who rules Orb?", "document_ids": ["d0"]}
    search, answer = trace.root.children
    assert [(s.name, s.kind) for s in (search, answer)] == [
        ("search", "RETRIEVER"),
        ("answer", "LLM"),
    ]
    first, second = (
        {"supporting": s, "kind": "span", "doc_uri": at}
        for s, at in ((True, "d0[0:4]"), (False, "d0[6:9]"))
    )
    pieces = [("Orb.", first), ("characters of d0[6:9]", second)]
    assert search.outputs == [{"page_content": text, "metadata": place} for text, place in pieces]
    assert (answer.outputs, answer.inputs) == ("Mira", {"pieces": 2, "question": "Who rules Orb?"})
    assert answer.attributes is not None
    assert answer.attributes["mlflow.llm.model"] == "tiny"
    assert answer.attributes["TFLOPs"] == 0.5
    assert answer.attributes["mlflow.chat.tokenUsage"]["total_tokens"] == 105


def test_an_older_record_has_its_id_for_its_question(tmp_path):
    (trace,) = traced(tmp_path, record(0, 1.0))
    assert (trace.request, trace.gold) == ("q0", {})
    assert trace.root.inputs == {"document_ids": ["d0"]}


def test_times_are_the_phases_own_and_questions_follow_each_other(tmp_path):
    documents = [built("d0", 9.0, usage={"index": usage(9.0) | {"seconds": 1.0}})]
    rows = [
        record(0, 1.0, notes={"seconds": 4.0}),
        record(1, 1.0, notes={"seconds": 2.0}),
        record(2, 1.0),
    ]
    first, second, third = traced(tmp_path, *rows, documents=documents)
    parts = [(s.name, s.start, s.end) for s in first.root.children]
    assert parts == [("index", 0.0, 1.0), ("search", 1.0, 3.5), ("answer", 3.5, 4.0)]
    assert names(second.root) == ["search", "answer"], "the index is the first question's"
    assert (second.start - first.start, third.start - second.start) == (4.0, 2.0)
    assert third.root.end == 1.0, "no shorter than its phases"


def test_questions_that_ran_together_start_closer(tmp_path):
    rows = [record(i, 1.0, notes={"seconds": 4.0}) for i in range(2)]
    first, second = traced(tmp_path, *rows, manifest={"starts": [{"parallel": 4}]})
    assert second.start - first.start == 1.0


def test_a_step_is_a_span_and_takes_the_time_of_its_flops(tmp_path):
    steps = [
        step("start", 1, 0.25),
        step("start", 2, 0.25, shown=None),
        step("visit", 7, 0.75, p_yes=0.5),
        step("visit", 8, 1.0, p_yes=0.75, note="enough"),
    ]
    (trace,) = traced(tmp_path, record(0, 1.0, steps=steps, notes={"seconds": 2.5}))
    search = trace.root.children[0]
    assert [(s.name, s.kind) for s in search.children] == [
        ("start 1", "RETRIEVER"),
        ("start 2", "TOOL"),
        ("visit 7", "RETRIEVER"),
        ("visit 8", "RETRIEVER"),
    ]
    assert [(s.start, s.end) for s in search.children] == [
        (0.0, 0.5),
        (0.5, 0.5),
        (0.5, 1.5),
        (1.5, 2.0),
    ]
    last = search.children[-1]
    assert [piece["page_content"] for piece in last.outputs] == ["text 8"]
    assert last.attributes is not None
    assert [last.attributes[key] for key in ("note", "TFLOPs so far", "P(Yes)")] == [
        "enough",
        1.0,
        0.75,
    ]


def test_long_searches_and_long_texts_are_cut_and_say_so(tmp_path):
    steps = [step("visit", n, n / 100, p_yes=0.1) for n in range(100)]
    shown = [span(n, n + 1, "x" * 2000) for n in range(30)]
    (trace,) = traced(tmp_path, record(0, 1.0, steps=steps))
    assert len(trace.root.children[0].children) == 41
    assert names(trace.root.children[0])[-1] == "60 more steps, in records.jsonl"
    (flat,) = traced(tmp_path / "flat", record(0, 1.0, shown=shown))
    pieces = flat.root.children[0].outputs
    assert len(pieces) == 21
    assert pieces[-1]["page_content"] == "10 more, in records.jsonl"
    assert "characters ...]" in pieces[0]["page_content"]
    assert len(pieces[0]["page_content"]) < 1100


def test_a_text_is_cut_in_the_middle():
    assert cut_middle("abc", 3) == "abc"
    assert cut_middle("a" * 6 + "b" * 6, 6) == "aaaa\n[... 6 characters ...]\nbb"


def test_a_failed_question_has_its_error_and_no_phases(tmp_path):
    (trace,) = traced(tmp_path, record(0, None))
    assert trace.error == {"type": "WindowExceeded", "message": "too long"}
    assert (trace.root.children, trace.tokens, trace.tags["error"]) == ((), {}, "WindowExceeded")


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
    before = answer_digest(parsed(record(0, 0.5)))
    assert (before == answer_digest(parsed(record(0, 0.5, **change)))) is same


def test_why_a_score_is_0(tmp_path):
    (trace,) = traced(tmp_path, record(0, 0.0, notes={"flags": {SCORE: "no answer"}}))
    assert trace.reasons == {SCORE: "no answer"}
    assert percent_scores(parsed(record(0, 0.5, scores={"a(b)": 0.12345}))) == {"a_b_": 12.35}


def test_what_a_judge_replied(tmp_path):
    judges = {
        "judge.a": {"verdict": "yes", "reply": "Yes."},
        "judge.b": {"verdict": "unclear", "reply": "Hm."},
    }
    notes = {"judges": {**judges, "judge.c": {"verdict": "no"}}, "flags": {"judge.b": "unclear"}}
    (trace,) = traced(tmp_path, record(0, 1.0, notes=notes))
    assert trace.reasons == {"judge.a": "Yes.", "judge.b": "unclear: Hm.", "judge.c": ""}
    assert trace.judges == {"judge.a", "judge.b", "judge.c"}
    assert "judges" not in str(trace.root.attributes)


def keep(folder, question, *requests):
    """Append a question's requests to the run."""
    with open(folder / REQUESTS, "ab") as file:
        file.writelines(map(json_line, request_rows(requests, {"question_id": question})))


def test_requests_that_were_kept_are_spans_with_whole_prompts(tmp_path):
    steps = [step("visit", 7, 0.5, p_yes=0.5)]
    folder = write_run(tmp_path, [record(0, 1.0), record(1, 1.0, steps=steps)])
    probe = Request("searcher", "search", "probe", "Text. Yes or no?", '{"Yes": 0.5}')
    write = Request("reader", "answer", "write", "Text. Who?", "Ann")
    keep(folder, "q1", probe, write)
    keep(folder, "q0", write)
    flat, searched = build_traces(read_run(folder), {"q0", "q1"})
    (only,) = flat.root.children[-1].children
    assert (only.name, only.kind, only.inputs, only.outputs) == (
        "write",
        "LLM",
        {"prompt": "Text. Who?"},
        "Ann",
    )
    search, answer = searched.root.children
    assert names(search) == ["visit 7"]
    (asked,) = search.children[0].children
    probe = ("probe (searcher)", {"prompt": "Text. Yes or no?"}, '{"Yes": 0.5}')
    assert (asked.name, asked.inputs, asked.outputs) == probe
    assert [child.inputs for child in answer.children] == [{"prompt": "Text. Who?"}]


def test_a_probe_stands_below_its_step_and_other_requests_of_a_search_together(tmp_path):
    steps = [step("start", n, 0.2, p_yes=p) for n, p in enumerate((None, 0.1))]
    steps += [step("visit", n, 0.5, p_yes=0.5) for n in (2, 3)]
    folder = write_run(tmp_path, [record(n, 1.0, steps=steps) for n in (0, 1)])
    probes = [Request("searcher", "search", "probe", f"Text {n}", "{}") for n in range(3)]
    keep(folder, "q0", *probes)
    keep(folder, "q1", *probes, Request("searcher", "search", "write", "Which node?", "3"))
    whole, other = (
        trace.root.children[0] for trace in build_traces(read_run(folder), {"q0", "q1"})
    )
    assert names(whole) == ["start 0", "start 1", "visit 2", "visit 3"]
    asked = [[child.inputs for child in step.children] for step in whole.children]
    assert asked == [[], [{"prompt": "Text 0"}], [{"prompt": "Text 1"}], [{"prompt": "Text 2"}]]
    assert names(other) == ["start 0", "start 1", "visit 2", "visit 3", "requests"]
    assert len(other.children[-1].children) == 4


def test_requests_that_are_too_many_are_counted(tmp_path):
    folder = write_run(tmp_path, [record(0, 1.0)])
    keep(
        folder, "q0", *(Request("reader", "answer", "write", f"Text {n}", "Ann") for n in range(50))
    )
    (trace,) = build_traces(read_run(folder), {"q0"})
    spans = trace.root.children[-1].children
    assert (len(spans), spans[0].inputs, spans[-2].inputs) == (
        40,
        {"prompt": "Text 0"},
        {"prompt": "Text 38"},
    )
    assert spans[-1].name == "11 more requests, in requests.jsonl"


def test_a_long_text_stands_beside_the_records(tmp_path):
    long = {**span(0, 400), "text_sha256": checksum("long " * 80)}
    folder = write_run(tmp_path, [record(0, 1.0, shown=[long])])
    with open(folder / TEXTS, "ab") as file:
        file.write(json_line({"sha256": long["text_sha256"], "text": "long " * 80}))
    (trace,) = build_traces(read_run(folder), {"q0"})
    assert trace.root.children[0].outputs[0]["page_content"] == "long " * 80


def test_only_what_is_wanted(tmp_path):
    run = stored(tmp_path, [1.0, 0.5, 0.0])
    assert [t.question_id for t in build_traces(run, {"q1"})] == ["q1"]
