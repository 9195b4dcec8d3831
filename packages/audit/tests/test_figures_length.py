"""Buckets worked by hand, means against plain arithmetic, and the command on stored runs."""

import itertools
import json
from bisect import bisect_left
from functools import partial

import pytest
from harness_audit import length as length_module
from harness_audit.length import ALL, GROUPS, Measured, bucket_name, frame, panels, quantiles
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import CannotRun
from harness.storage.run_folder import read_run
from harness.types import Document, Example, Gold, Question
from reports import gold_rows as rows_module
from reports.gold_rows import QuestionRows
from tests.reports.build import SCORE, mistake, record, span, write_run

WORDS = (2, 2, 3, 3, 5, 5, 9, 9)  # of the document of each question; q<n> is asked about d<n>
DOCUMENTS = {
    f"d{n}": Document(f"d{n}", " ".join(["sea"] * (size - 1) + [f"w{n}"]))
    for n, size in enumerate(WORDS)
}
EXAMPLES = {
    f"q{n}": Example(Question(f"q{n}", "?", (f"d{n}",)), Gold((f"w{n}",))) for n in range(8)
}
ROWS = QuestionRows(EXAMPLES, DOCUMENTS)
SCORES: tuple[float | None, ...] = (1.0, 0.0, 0.5, 0.5, 1.0, None, 0.0, 0.0)


def words(name):
    return len(DOCUMENTS[name].text.split())


def run_of(root, scores=SCORES, left=0, **changes):
    """A run that showed every document but its last `left` characters."""
    rows = []
    for n, score in enumerate(scores):
        text = DOCUMENTS[f"d{n}"].text
        rows.append(
            record(n, score, document_ids=[f"d{n}"], shown=[span(f"d{n}", 0, len(text) - left)])
        )
    return write_run(root, rows, **changes)


def measured(path, rows=ROWS):
    return Measured(read_run(path), rows, words)


@pytest.mark.parametrize(
    ("lengths", "edges"),
    [
        ([1, 2, 3, 4], (1, 2, 3)),
        ([4, 3, 2, 1, 8, 7, 6, 5], (2, 4, 6)),
        ([1, 1, 1, 9], (1,)),
        ([5, 5, 5], ()),
        ([7], ()),
        ([], ()),
    ],
)
def test_edges_by_hand(lengths, edges):
    assert quantiles(lengths) == edges


@given(st.lists(st.integers(1, 50), min_size=1, max_size=40))
def test_every_bucket_holds_a_question_and_every_question_is_in_the_one_of_its_name(lengths):
    edges = quantiles(lengths)
    assert len(edges) < GROUPS
    assert {bisect_left(edges, n) for n in lengths} == set(range(len(edges) + 1))
    if edges:
        names = [bucket_name(edges, i) for i in range(len(edges) + 1)]
        assert names[0] == f"up to {edges[0]}"
        assert names[-1] == f"over {edges[-1]}"
        assert names[1:-1] == [
            f"{b}" if a + 1 == b else f"{a + 1} to {b}" for a, b in itertools.pairwise(edges)
        ]


def test_means_by_hand_with_what_failed_and_what_cannot_be_recalled(tmp_path):
    examples = {**EXAMPLES, "q7": Example(Question("q7", "?", ("d7",)), Gold(("yes",)))}
    table = frame([measured(run_of(tmp_path), QuestionRows(examples, DOCUMENTS))])
    columns = ["tokens.from", "tokens.mean", "tokens.to", "mean", "answer_recall", "n"]
    found = {
        row["length"]: tuple(row[name] for name in columns) for row in table.to_dict("records")
    }
    assert found == {
        "up to 2": (2, 2.0, 2, 0.5, 1.0, 2),
        "3": (3, 3.0, 3, 0.5, 1.0, 2),
        "4 to 5": (5, 5.0, 5, 0.5, 0.5, 2),  # a failed question scores 0 and was shown nothing
        "over 5": (9, 9.0, 9, 0.0, 1.0, 2),  # of the one that asks for more than yes or no
        ALL: (2, 4.75, 9, 0.375, pytest.approx(6 / 7), 8),
    }
    assert list(table["answer_recall_substring"]) == [
        1.0,
        1.0,
        0.5,
        0.5,
        0.75,
    ]  # "yes" is asked for too, and not there
    assert list(table["length"])[-1] == ALL
    assert list(table["failed"]) == [0, 0, 1, 0, 1]
    assert any(
        "1 of 8 questions have no answer that could stand in a text" in note
        for note in table["notes"][0]
    )


def test_what_is_not_shown_is_not_recalled_and_the_buckets_are_the_same_for_all_runs(tmp_path):
    whole = measured(run_of(tmp_path))
    cut = measured(
        run_of(tmp_path, SCORES[:4], left=2, method="bm25")
    )  # it asked the four short ones only
    table = frame([whole, cut])
    mine = table[table["method"] == "bm25"]
    assert list(mine["length"]) == ["up to 2", "3", ALL]
    assert set(mine["answer_recall"]) == {0.0}
    score, recall = panels(table)
    assert [line.name for line in score.lines] == ["bm25", "pecan"]
    assert [p.x for p in score.lines[1].points] == [2.0, 3.0, 5.0, 9.0]
    assert [p.y for p in recall.lines[1].points] == [100.0, 100.0, 50.0, 100.0]
    assert recall.left.starts_at_zero


def test_a_document_that_comes_twice_counts_once(tmp_path):
    both = {"q0": Example(Question("q0", "?", ("d0", "d7", "d0")), Gold(("w0",)))}
    one = measured(write_run(tmp_path, [record(0, 1.0)]), QuestionRows(both, DOCUMENTS))
    assert list(frame([one])["tokens.mean"]) == [11.0]  # 2 + 9


def test_one_length_has_no_buckets_and_is_drawn_as_a_point(tmp_path):
    table = frame([measured(run_of(tmp_path, (1.0, 0.0)))])
    assert list(table["length"]) == [ALL]
    assert [len(line.points) for panel in panels(table) for line in panel.lines] == [1, 1]


def made(root, dataset, tokens, scores, method="bm25"):
    options = {
        "name": dataset,
        "format": "ruler",
        "scorers": [SCORE],
        "options": {"tokens": tokens},
    }
    manifest = {"dataset": {"fingerprint": str(tokens)}}
    name = {"dataset": dataset, "hash8": f"{tokens:08}", "method": method}
    return measured(run_of(root, scores, settings={"dataset": options}, manifest=manifest, **name))


def test_texts_made_for_several_lengths_are_one_line_and_a_family_has_its_mean(tmp_path):
    runs = [
        made(tmp_path, "r/vt", 800, (1.0, 1.0) * 3),
        made(tmp_path, "r/vt", 400, (1.0, 0.0) * 3),
        made(tmp_path, "r/cwe", 800, (0.0, 0.0) * 3),
        made(tmp_path, "r/cwe", 400, (0.0, 0.0) * 3),
        made(tmp_path, "r/cwe", 1600, (1.0, 1.0)),  # vt has none of this length
        made(tmp_path, "other", 400, (0.5, 0.5)),  # at one length: no curve
    ]
    table = frame(runs)
    own = {
        dataset: list(zip(rows["length"], rows["mean"], strict=True))
        for dataset, rows in table.groupby("dataset")
    }
    assert own == {
        "r/vt": [("400", 0.5), ("800", 1.0)],
        "r/cwe": [("400", 0.0), ("800", 0.0), ("1,600", 1.0)],
        "other": [(ALL, 0.5)],
        "r, mean of 2": [("400", 0.25), ("800", 0.5)],
    }
    assert set(table["method"]) == {"bm25"}
    mean = table[table["dataset"] == "r, mean of 2"].iloc[0]
    low = table[(table["dataset"] == "r/vt") & (table["length"] == "400")]["mean.low"].iloc[0]
    assert mean["mean.low"] == pytest.approx(
        0.25 - (0.5 - low) / 2
    )  # the other interval has no width below
    assert mean["n"] == 12
    drawn = {panel.title: [len(line.points) for line in panel.lines] for panel in panels(table)}
    assert drawn == {
        "r/vt · tiny": [2],
        "r/cwe · tiny": [3],
        "other · tiny": [1],
        "r, mean of 2 · tiny": [2],
    }


@pytest.fixture
def call(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        rows_module, "read_rows_of_runs", lambda runs, **_: [_rows(run) for run in runs]
    )
    monkeypatch.setattr(length_module, "token_counter", _tokens)

    return partial(command, "study", "length")


def _rows(run):
    return (
        ROWS if run.config.dataset.name == "musique" else QuestionRows(problem="the rows are gone")
    )


def _tokens(run):
    if run.config.model.name != "tiny":
        raise CannotRun(f"no tokenizer of '{run.config.model.name}'")
    return lambda text: len(text.split())


def test_table_json_and_drawing(call, tmp_path):
    run_of(tmp_path / "results")
    run_of(tmp_path / "results", model="far")
    write_run(tmp_path / "more", [record(0, 1.0)], dataset="qasper")
    code, out, err = call("results", "more")
    assert code == 0
    assert out.startswith(
        f"musique · tiny\nmethod  tokens of the documents  tokens.mean  {SCORE}  "
    )
    assert " 37.5 " in out
    assert "warning: left out: no tokenizer of 'far'" in err
    assert "warning: left out: more/qasper" in err
    rows = json.loads(call("results", "--format", "json")[1])
    assert [(r["length"], r["n"]) for r in rows][-1] == (ALL, 8)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["far"], "no tokenizer of 'far'"),
        (["failed"], "no question of these runs has a score"),
    ],
)
def test_mistakes_are_one_sentence(arguments, sentence, call, tmp_path):
    run_of(tmp_path / "results")
    run_of(tmp_path / "far", model="far")
    run_of(tmp_path / "failed", (None, None), settings={"failed": "skip"})
    assert sentence in mistake(call(*arguments))
