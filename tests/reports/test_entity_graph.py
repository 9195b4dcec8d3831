"""The memory behind a search: read by hand from an index, and `harness trace` over a run that has one."""

import json

import pytest

from harness.cli.trace import trace
from harness.config.schema import DatasetConfig
from harness.datasets import load
from reports.entity_graph import Walked, memory_json, memory_lines, parse_memory, search_in_memory
from tests.reports.build import SCORE, span
from tests.reports.build import step as plain_step
from tests.reports.searches import keep, searched

POCKET = {
    "name": "pocket/musique", "format": "pocket",
    "options": {"kind": "musique", "tokens": 400, "questions": 1, "hops": [2]},
    "instruction": "Answer.", "max_answer_tokens": 8, "scorers": [SCORE],
}  # fmt: skip

INDEX = {
    "names": ["Velindra", "Toren", "Kelford", "Mira"],
    "mentions": [["Velindra"], ["Ann Toren", "Toren"], ["Kelford"], ["Mira"]],
    "places": [[0], [0, 1], [1], [2]],
    "edges": [[0, 1, "by him"], [1, 2, "born there"], [3, 2, "lives there"]],
    "segments": [[0, 10], [10, 20], [20, 30]],
}


def step(action, node=None, place=None, **changes):
    return plain_step(action, node, level=None, shown=None if place is None else span("d0", *place)) | changes


STEPS = [
    step("start", note="entities of the question: Velindra", scores={"entities": 1.0}),
    step("segment", 0, (0, 10), note="through Velindra"),
    step("ask", scores={"answers": 0.0}),
    step("expand", 1, note="Velindra ; by him ; Toren", scores={"similarity": 0.25}),
    step("segment", 1, (10, 20), note="through Toren"),
]
RECORD = {"question_id": "q0", "document_ids": ["d0"], "steps": STEPS}


def test_what_a_search_did_in_a_memory():
    memory = parse_memory(INDEX)
    walk = search_in_memory(memory, RECORD, "Who wrote velindra?", frozenset({1, 2}))
    assert walk == Walked((0,), {1: 3}, {0: 1, 1: 4}, (1, 2))
    assert memory_lines(memory, walk) == [
        "memory     3 segments, 4 entities, 3 relations",
        "evidence   segment 1, read at step 4: Toren, Kelford",
        "           segment 2, never read: Mira",
        "entities   0 Velindra, in the question: segment 0",
        "           1 Toren, reached at step 3: segments 0, 1",
        "relations  Velindra ; by him ; Toren",
        "           Toren ; born there ; Kelford",
    ]
    told = memory_json(memory, walk)
    assert [(e["name"], e["in_question"], e["reached"]) for e in told["entities"]] == [
        ("Velindra", True, None), ("Toren", False, 3), ("Kelford", False, None), ("Mira", False, None),
    ]  # fmt: skip
    assert told["relations"][2] == "Mira ; lives there ; Kelford"
    assert (told["evidence"], told["read"]) == ([1, 2], {"0": 1, "1": 4})


@pytest.mark.parametrize(
    ("question", "asked"),
    [("Is Toren Ann?", (1,)), ("Torens and Miramar", ()), ("MIRA's Kelford", (2, 3)), ("", ())],
)
def test_entities_that_a_question_names(question, asked):
    memory = parse_memory(INDEX)
    assert search_in_memory(memory, {"steps": []}, question).asked == asked


def test_long_lists_are_cut_and_say_so():
    index = {**INDEX, "edges": [[0, 1, f"in way {n}"] for n in range(20)]}
    memory = parse_memory(index)
    told = memory_lines(memory, search_in_memory(memory, RECORD, "Velindra"))
    assert [line for line in told if "evidence" in line] == [], "nothing is known of it"
    assert told[-2:] == ["           Velindra ; in way 11 ; Toren", "           and 8 more (--json has all)"]


@pytest.mark.parametrize(
    "index",
    [
        None, {"names": 3}, {"edges": None}, {"places": [[0]]}, {"places": [[0], [0, 9], [1], [2]]},
        {"edges": [[0, 9, "x"]]}, {"edges": [[0, 1]]}, {"segments": [[0, "a"]]},
    ],
)  # fmt: skip
def test_what_is_no_memory(index):
    index = None if index is None else {key: one for key, one in (INDEX | index).items() if one is not None}
    assert parse_memory(index) is None


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A made-up question of two hops whose first supporting part is the first segment, and its memory."""
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    rows = load(DatasetConfig.model_validate(POCKET))
    example = rows.examples[0]
    (document,) = example.question.document_ids
    first, second = sorted((s.start, s.end) for s in example.gold.supporting)
    index = {**INDEX, "segments": [list(first), list(second), [0, 1] if first[0] else [second[1], second[1] + 1]]}

    def read(node, place, **changes):
        return step("segment", node, shown=span(document, *place), **changes)

    moves = [STEPS[0], read(0, first, note="through Velindra"), *STEPS[2:4], read(2, tuple(index["segments"][2]))]
    return searched(
        tmp_path, keep(tmp_path / "cache", index), line={"document_id": document}, question_id=example.question.id,
        document_ids=[document], steps=moves, settings={"dataset": POCKET},
        manifest={"dataset": {"fingerprint": rows.fingerprint}},
    )  # fmt: skip


def traced(run, capsys, **options):
    capsys.readouterr()
    assert trace(str(run.path), run.records[0]["question_id"], **options) == 0
    return capsys.readouterr().out


def test_the_trace_says_what_was_read_through_whom_and_where_the_evidence_is(run, capsys):
    whole = traced(run, capsys).splitlines()
    assert [line.split()[0] for line in whole[2:4]] == ["gold", "answer"], "the data set is at hand"
    out = whole[3:]
    assert out[1].split() == [
        "#", "action", "node", "level", "p_yes", "entities", "answers", "similarity", "tokens", "TFLOPs", "evidence",
        "text",
    ]  # fmt: skip
    rows = [" ".join(line.split()) for line in out[2:7]]
    assert rows[0] == "0 start 1 5 1 entities of the question: Velindra", "a count has no decimals"
    assert rows[1].startswith("1 segment 0 5 1 yes (through Velindra) ")
    assert rows[3] == "3 expand 1 0.2500 5 1 Velindra ; by him ; Toren"
    assert " no " in rows[4]
    assert out[7] == "memory     3 segments, 4 entities, 3 relations"
    assert out[8:10] == [
        "evidence   segment 0, read at step 1: Velindra, Toren",
        "           segment 1, never read: Toren, Kelford",
    ]
    assert out[10] == "entities   1 Toren, reached at step 3: segments 0, 1", "the made-up question names none of these"
    told = json.loads(traced(run, capsys, json=True))
    assert told["memory"]["evidence"] == [0, 1]
    assert [s["evidence"] for s in told["steps"]] == ["", "yes", "", "", "no"]


def test_a_memory_that_is_gone_leaves_the_table(run, capsys):
    (data,) = run.path.parents[1].glob("cache/*/*/*/data.json")
    data.write_text("{")
    out = traced(run, capsys)
    assert "memory " not in out
    assert "cannot be read from the cache" in out
    assert "(through Velindra) " in out
