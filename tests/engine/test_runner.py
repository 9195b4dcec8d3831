"""The loop: every question recorded, failures counted as 0, gold kept apart, order without
influence."""

import json
import random
import signal
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest

from harness.datasets.base import Dataset
from harness.engine.manifest import program_versions
from harness.engine.progress import Silent
from harness.engine.runner import Interrupted
from harness.errors import CannotRun, UserError
from harness.method import Traits
from harness.storage.manifest_file import FirstPrompt, GitState
from harness.storage.run_files import used_settings
from harness.storage.run_folder import read_run
from harness.types import Answer, Document, Example, Gold, Question, Shown, Support
from tests.engine.fakes import SCORER, FakeModel, Plain, Words, World, comparable, go, make_plan

pytestmark = pytest.mark.usefixtures("fake_model")


def test_a_whole_run(tmp_path):
    plan = make_plan()
    result = go(plan, tmp_path)
    stored = read_run(tmp_path / plan.folder)
    assert [r.question_id for r in stored.records] == [f"q{n}" for n in range(6)]
    files = [
        "documents.jsonl",
        "lock",
        "manifest.json",
        "records.jsonl",
        "run.yaml",
        "summary.json",
    ]
    assert sorted(path.name for path in stored.path.iterdir()) == files
    assert plan.method.built == ["d0", "d1"]
    assert {"search", "answer"} == stored.records[0].usage.keys()
    shown = {"kind": "span", "document_id": "d0", "start": 0, "end": 2, "text": "w0", "sources": []}
    assert stored.records[0].shown == [shown]
    assert stored.records[0].scores["evidence_recall"] == 1.0
    assert [(line.document_id, line.status) for line in stored.index_lines] == [
        ("d0", "built"),
        ("d1", "built"),
    ]
    assert (stored.config.to_json(), stored.origins) == used_settings(
        plan.config.model_dump(mode="json"), plan.origins
    )
    assert stored.manifest.first_prompt("reader") == FirstPrompt(text="w0 alpha beta", ids=[1, 2])
    assert stored.manifest.finished is not None
    assert stored.summary == result.summary
    assert (stored.summary.n_total, stored.summary.n_scored, stored.summary.n_failed) == (
        6,
        6,
        0,
    )
    assert 0 < stored.summary.scores[SCORER].mean < 1
    assert (
        stored.summary.index.usage["index"]["tokens_in"] == 6
    )  # three words in each of two documents
    assert stored.summary.usage["search"]["tokens_in"] == 2.0


TROUBLES = {
    "window": ("WindowExceeded", "9 tokens do not fit in 8", False),
    "bug": ("KeyError", "'no such node'", True),
    "memory": ("MemoryError", "out of memory", False),
    "gpu": ("OutOfMemoryError", "CUDA out of memory", False),
    "ram": (
        "OutOfMemoryError",
        "DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes",
        False,
    ),
}


@pytest.mark.parametrize("word", TROUBLES)
def test_a_failing_question_is_recorded_and_scores_0(word, tmp_path):
    result = go(make_plan(World(questions=3, words=("question 0", word)).dataset()), tmp_path)
    stored = read_run(result.folder)
    bad = stored.records[1]
    kind, message, traced = TROUBLES[word]
    assert (bad.error["type"], bad.error["message"]) == (kind, message)
    assert ('File "tests/engine/fakes.py"' in bad.error.get("traceback", "")) is traced
    assert 'File "/' not in str(bad.error), "a traceback names no absolute path"
    assert bad.scores == {SCORER: 0.0, "evidence_recall": 0.0}
    assert bad.usage["search"]["tokens_in"] == 1, "what a failed question cost is kept"
    assert [r.error is None for r in stored.records] == [True, False, True]
    mean = sum(r.scores[SCORER] for r in stored.records) / 3
    assert result.summary.scores[SCORER].mean == pytest.approx(mean)
    assert (result.failed, result.summary.errors) == (1, {kind: 1})


def test_a_clock_that_jumps_back_gives_no_negative_seconds(tmp_path, monkeypatch):
    hours = iter(range(10**6, 0, -1))
    monkeypatch.setattr("time.time", lambda: 3600.0 * next(hours))
    data = World(questions=3).dataset()
    go(make_plan(data, limit=1), tmp_path)
    stored = read_run(go(make_plan(data), tmp_path).folder)
    assert len(stored.records) == 3
    assert all(r.notes["seconds"] >= 0 for r in stored.records)
    assert all(u["seconds"] >= 0 for usage in stored.usages() for u in usage.values())


def test_failed_questions_can_be_left_out_of_the_mean(tmp_path):
    data = World(questions=2, words=("question 0", "bug")).dataset()
    zero = go(make_plan(data), tmp_path / "zero").summary
    skip = go(make_plan(data, failed="skip"), tmp_path / "skip").summary
    assert skip.scores[SCORER].mean == pytest.approx(2 * zero.scores[SCORER].mean)
    assert (skip.n_total, skip.n_failed) == (zero.n_total, zero.n_failed) == (2, 1)


def test_an_answer_that_cannot_be_recorded_fails_its_question(tmp_path):
    foreign, past_the_end = Shown("span", "d9", 0, 1), Shown("span", "d0", 0, 999)
    unwritable = Answer("x", truncated={"side": object()})
    bad = [
        None,
        Answer(text=3),
        Answer("x", shown=(foreign,)),
        Answer("x", shown=(past_the_end,)),
        unwritable,
    ]

    class Odd(Plain):
        def answer(self, question, *args):
            return bad[int(question.id[1:])]

    result = go(make_plan(World(questions=5, documents=1).dataset(), Odd(Odd.Config())), tmp_path)
    assert result.summary.n_failed == 5


def test_text_that_breaks_lines_and_encodings_survives(tmp_path):
    text = "one\u2028two\x85three\ud800four\x00<script>"

    class Odd(Plain):
        def answer(self, *args):
            return Answer(text, truncated={"tokens_before": float("nan")})

    records = read_run(
        go(make_plan(World(questions=2).dataset(), Odd(Odd.Config())), tmp_path).folder
    ).records
    assert [r.prediction for r in records] == [text, text]
    assert records[0].truncated == {"tokens_before": None}
    assert records[0].notes["not_finite"] == ["truncated.tokens_before"]


def test_the_order_of_questions_changes_nothing(tmp_path):
    data = World(questions=12, documents=3).dataset()
    shuffled = list(data.examples)
    random.Random(1).shuffle(shuffled)
    a = read_run(go(make_plan(data), tmp_path / "a").folder).records
    b = read_run(
        go(make_plan(replace(data, examples=tuple(shuffled))), tmp_path / "b").folder
    ).records
    by_id = {r.question_id: comparable(r) for r in b}
    assert [comparable(r) for r in a] == [by_id[r.question_id] for r in a]
    assert [r.question_id for r in b] == [e.question.id for e in shuffled]


def two_documents():
    documents = {
        "a": Document("a", "aaaa AAAA", title="A"),
        "b": Document("b", "bbbb BBBB", title="B"),
    }
    example = Example(
        Question("q", "?", ("a", "b")), Gold(("x",), (Support("a", 5, 9), Support("b", 0, 4)))
    )
    return Dataset("tiny", (example,), documents, "f" * 64, "made up")


@pytest.mark.parametrize(
    ("view", "one", "texts", "notes"),
    [
        ("document", False, ["aaaa AAAA", "bbbb BBBB"], {}),
        ("document", True, ["aaaa AAAA\n\nbbbb BBBB"], {"joined": 2}),
        ("evidence", False, ["AAAA", "bbbb"], {"view": "evidence"}),
        ("evidence", True, ["AAAA\n\nbbbb"], {"view": "evidence", "joined": 2}),
    ],
)
def test_views_hand_over_and_map_back(view, one, texts, notes, tmp_path):
    method = Plain(Plain.Config())
    method.traits = Traits(one_document=one)
    stored = read_run(go(make_plan(two_documents(), method, view=view), tmp_path).folder)
    question, documents = method.seen[0]
    assert [d.text for d in documents] == texts
    assert question.document_ids == tuple(d.id for d in documents)
    record = stored.records[0]
    assert record.document_ids == ["a", "b"]
    spans = [(s["document_id"], s["start"], s["end"]) for s in record.shown]
    assert spans == (
        [("a", 5, 9), ("b", 0, 4)] if view == "evidence" else [("a", 0, 9), ("b", 0, 9)]
    )
    assert record.scores["evidence_recall"] == 1.0
    assert {k: v for k, v in record.notes.items() if k in ("joined", "view")} == notes


class Reads(Plain):
    """Shows what it was handed and says so, even where that is nothing."""

    def answer(self, question, documents, indexes, tools):
        self.seen.append((question, tuple(documents)))
        return Answer(
            "read",
            tuple(Shown("span", d.id, 0, len(d.text)) for d in documents),
            stop_reason="whole",
        )


@pytest.mark.parametrize("one_document", [True, False])
def test_without_evidence_an_empty_text_is_read_and_the_record_says_so(tmp_path, one_document):
    data = two_documents()
    data = replace(data, examples=(replace(data.examples[0], gold=Gold(("x",))),))
    method = Reads(Reads.Config())
    method.traits = Traits(one_document=one_document)
    record = read_run(go(make_plan(data, method, view="evidence"), tmp_path).folder).records[0]
    assert [d.text for d in method.seen[0][1]] == [""]
    assert (record.error, record.stop_reason, record.prediction) == (
        None,
        "no evidence",
        "read",
    )
    assert (record.notes["view"], record.shown) == ("no evidence", [])
    assert "evidence_recall" not in record.scores  # nothing is there to be recalled


def test_a_user_error_stops_the_run_and_leaves_no_empty_folder(tmp_path, monkeypatch):
    def no_weights(config):
        raise CannotRun("no weights in this folder")

    monkeypatch.setattr("harness.llm.backend.load_model", no_weights)
    with pytest.raises(CannotRun, match="no weights"):
        go(make_plan(), tmp_path)
    assert list(tmp_path.iterdir()) == []


def without_checksums(summary):
    """The numbers alone: a further start is in the manifest, which has another checksum then."""
    return {key: value for key, value in summary.to_json().items() if key != "files"}


def test_a_finished_run_loads_nothing_and_adds_nothing(tmp_path, monkeypatch):
    first = go(make_plan(), tmp_path)
    before = (
        (first.folder / "records.jsonl").read_bytes(),
        (first.folder / "documents.jsonl").read_bytes(),
    )

    monkeypatch.setattr(
        "harness.llm.backend.load_model", lambda config: pytest.fail("a model was loaded")
    )
    again = go(make_plan(), tmp_path)
    assert (
        (again.folder / "records.jsonl").read_bytes(),
        (again.folder / "documents.jsonl").read_bytes(),
    ) == before
    assert without_checksums(again.summary) == without_checksums(first.summary)
    assert [start.state for start in read_run(again.folder).manifest.starts] == [
        "finished",
        "finished",
    ]


def test_code_that_changed_before_a_start_that_asked_nothing_made_no_answer(tmp_path, monkeypatch):
    data = World(questions=3).dataset()
    go(make_plan(data, limit=2), tmp_path)
    other = replace(program_versions(), git=GitState(commit="b", dirty=False))
    monkeypatch.setattr("harness.engine.manifest.program_versions", lambda: other)
    go(make_plan(data, limit=2), tmp_path)
    starts = read_run(go(make_plan(data, limit=3), tmp_path).folder).manifest.starts
    assert [list(start.changed_keys) for start in starts] == [[], [], ["git"]]


def test_a_smaller_limit_reads_no_further_questions(tmp_path, monkeypatch):
    data = World(questions=4).dataset()
    go(make_plan(data), tmp_path)
    monkeypatch.setattr("harness.datasets.load", None)
    assert (
        go(make_plan(replace(data, examples=data.examples[:2]), limit=2), tmp_path).summary.n_total
        == 4
    )


def test_a_larger_limit_goes_on_and_a_smaller_one_loses_nothing(tmp_path):
    data = World(questions=9).dataset()
    assert go(make_plan(data, limit=3), tmp_path).summary.n_total == 3
    assert go(make_plan(data, limit=9), tmp_path).summary.n_total == 9
    progress = Silent()
    assert go(make_plan(data, limit=2), tmp_path, progress=progress).summary.n_total == 9
    assert any("7 questions beyond --limit" in note for note in progress.notes)
    assert f"2 of 2 answers were stored on {datetime.now(UTC):%Y-%m-%d}" in progress.notes
    whole = read_run(go(make_plan(data), tmp_path / "whole").folder)
    assert [*map(comparable, read_run(tmp_path / make_plan().folder).records)] == [
        *map(comparable, whole.records)
    ]


def test_retry_asks_the_failed_again_and_keeps_the_order(tmp_path):
    class Flaky(Plain):
        broken = True

        def answer(self, question, documents, indexes, tools):
            if self.broken and question.id in ("q0", "q3"):
                raise RuntimeError("not now")
            return super().answer(question, documents, indexes, tools)

    method = Flaky(Flaky.Config())
    assert go(make_plan(method=method), tmp_path).failed == 2
    method.broken = False
    assert go(make_plan(method=method), tmp_path).failed == 2, (
        "failed questions stay failed unless asked for"
    )
    method.seen.clear()
    result = go(make_plan(method=method), tmp_path, retry_failed=True)
    assert (result.failed, [q.id for q, _ in method.seen]) == (0, ["q0", "q3"])
    rows = [json.loads(line) for line in (result.folder / "records.jsonl").read_text().splitlines()]
    assert [r["question_id"] for r in rows] == [f"q{n}" for n in range(6)]


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_everything_and_the_way_on(kind, tmp_path):
    calls = []

    def pause():
        calls.append(1)
        if len(calls) == 4:
            signal.raise_signal(kind)

    before = signal.getsignal(kind)
    with pytest.raises(Interrupted) as caught:
        go(
            make_plan(method=Words(Words.Config(), pause)),
            tmp_path,
            command=["harness", "run", "--data", "my file"],
        )
    assert signal.getsignal(kind) is before
    assert caught.value.resume_command == "harness run --data 'my file'"
    stored = read_run(caught.value.folder)
    assert (len(stored.records), stored.summary.state) == (3, "interrupted")
    assert (stored.summary.n_asked, stored.summary.n_not_asked) == (6, 3)
    assert stored.manifest.finished is None
    assert go(make_plan(), tmp_path).summary.n_total == 6


@pytest.mark.parametrize("fault", ["twice", "document"])
def test_data_that_cannot_be_told_apart_is_refused(fault, tmp_path):
    data = World(questions=2).dataset()
    other = replace(
        data.examples[0],
        question=replace(data.examples[0].question, id="new", document_ids=("gone",)),
    )
    examples = (*data.examples, data.examples[0]) if fault == "twice" else (*data.examples, other)
    with pytest.raises(UserError, match=r"'q0'|'gone'"):
        go(make_plan(replace(data, examples=examples)), tmp_path)


def test_changed_rows_are_refused(tmp_path):
    go(make_plan(), tmp_path)
    with pytest.raises(UserError, match=r"not those that .* was begun with"):
        go(make_plan(World(words=("changed",)).dataset()), tmp_path)


def test_loading_a_model_draws_nothing_from_the_methods_generators(tmp_path, monkeypatch):
    def drawing(config):
        random.random()
        np.random.rand()
        return FakeModel(config)

    plain = read_run(go(make_plan(), tmp_path / "a").folder).records
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "other"))
    monkeypatch.setattr("harness.llm.backend.load_model", drawing)
    drawn = read_run(go(make_plan(), tmp_path / "b").folder).records
    assert [*map(comparable, plain)] == [*map(comparable, drawn)]
