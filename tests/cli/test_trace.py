import json

import pytest

from harness.cli.trace import trace
from harness.config.schema import DatasetConfig
from harness.datasets import load
from harness.errors import UserError
from tests.reports.build import SCORE, record, usage, write_run
from tests.reports.build import span as plain_span
from tests.reports.searches import KEY, index, keep, searched, step, steps

POCKET = {
    "name": "pocket/musique", "format": "pocket", "options": {"kind": "musique", "tokens": 400, "questions": 1},
    "instruction": "Answer.", "max_answer_tokens": 8, "scorers": [SCORE],
}  # fmt: skip


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def lines_of(run, capsys, **options):
    capsys.readouterr()
    assert trace(str(run.path), run.records[0].question_id, **options) == 0
    return capsys.readouterr().out.splitlines()


def below(run, capsys):
    """The lines from the answer on; question, options and gold stand before it."""
    lines = lines_of(run, capsys)
    answer = next(n for n, line in enumerate(lines) if line.startswith("answer     "))
    assert all(
        line.split()[0] in ("question", "options", "gold") or line[0] == " "
        for line in lines[:answer]
    )
    return lines[answer:]


def evident(root, cache):
    """A made-up question whose first chunk is its first supporting part, and its point was written
    from it."""
    rows = load(DatasetConfig.model_validate(POCKET))
    question = rows.examples[0].question
    (document,) = question.document_ids
    support = rows.examples[0].gold.supporting[0]
    span = [
        [support.start, support.end],
        [support.end, support.end + 1],
        *[[0, 0]] * 2,
        None,
        None,
        None,
    ]
    shown = plain_span(document, support.start, support.end)
    point = shown | {
        "kind": "generated",
        "text": "all of it",
        "sources": [[document, support.start, support.end]],
    }
    moves = [
        step("start", 6, shown=point),
        step("visit", 4, shown=None),
        step("visit", 0, shown=shown),
        step("visit", 1, shown=shown | {"start": support.end, "end": support.end + 1}),
    ]
    return searched(
        root, keep(cache, index(span=span)), line={"document_id": document}, question_id=question.id,
        document_ids=[document], steps=moves, settings={"dataset": POCKET},
        manifest={"dataset": {"fingerprint": rows.fingerprint}},
    )  # fmt: skip


class TestTree:
    def test_the_tree_worked_by_hand(self, tmp_path, cache, capsys):
        lines = below(searched(tmp_path, keep(cache)), capsys)
        assert lines[1].split() == [
            "step", "node", "level", "p_yes", "attention", "similarity", "tokens", "TFLOPs", "edge", "evidence",
            "answer", "text",
        ]  # fmt: skip
        assert [" ".join(line.split()) for line in lines[2:8]] == [
            "0 start 6 3 0.100 5 1 - all of it",
            "├─ 1 visit 4 2 0.200 0.2500 0.5000 5 1 0.700 - points of zero and one",
            "│ └─ 2 visit 1 1 0.200 0.2500 0.5000 5 1 0.360 - one",
            "└─ 3 visit 5 2 0.200 0.2500 0.5000 5 1 0.300 - points of one and two",
            "└─ 4 visit 2 1 0.200 0.2500 0.5000 5 1 0.500 - two",
            "5 visit 3 1 0.200 0.2500 0.5000 5 1 - three",
        ]
        assert lines[6].startswith("   └─ 4 visit")
        # Numbers end below the ends of their heads, words begin below their beginnings.
        for row in lines[2:8]:
            for head in ("node", "level", "p_yes", "tokens", "TFLOPs"):
                end = lines[1].index(head) + len(head)
                assert row[end - 1].isdigit()
                assert row[end : end + 2] == "  "
            assert row[lines[1].index("evidence")] == "-"
        assert lines[8] == "what a later stop would have seen"
        assert lines[9].split() == [
            "6", "study", "(under", "1)", "0", "1", "0.900", "0.2500", "0.5000", "5", "1", "0.600", "-", "a", "later",
            "answer", "zero",
        ]  # fmt: skip
        assert lines[10].startswith(
            "It is unknown which steps showed evidence: the rows of musique are not available"
        )
        assert lines[11] == "TFLOPs     under the convention all-params"

    def test_evidence_comes_from_the_rows(self, tmp_path, cache, capsys):
        lines = below(evident(tmp_path, cache), capsys)
        at = lines[1].index("evidence")
        assert [line[at : at + 8].split() for line in lines[2:6]] == [
            ["source"],
            [],
            ["yes"],
            ["no"],
        ]
        assert not any(line.startswith("It is unknown which steps") for line in lines)

    def test_a_note_stands_before_the_text(self, tmp_path, cache, capsys):
        moves = [step("start", 6, note="2 top nodes left out"), step("probe", None)]
        run = searched(tmp_path, keep(cache), steps=moves)
        lines = below(run, capsys)
        assert lines[2].endswith("(2 top nodes left out) all of it")
        assert lines[3].split() == ["1", "probe", "5", "1"]


class TestFlat:
    def test_a_missing_entry_gives_the_flat_list_and_a_sentence(self, tmp_path, cache, capsys):
        lines = below(searched(tmp_path, "0" * 64), capsys)
        assert lines[1].split() == [
            "#", "action", "node", "level", "p_yes", "attention", "similarity", "tokens", "TFLOPs", "answer", "text",
        ]  # fmt: skip
        assert [line.split()[0] for line in lines[2:8]] == list("012345")
        assert lines[4].endswith("d0 [5:9]")
        assert lines[8] == "what a later stop would have seen"
        assert lines[9].split()[:4] == ["6", "study", "0", "1"]
        assert lines[10].startswith(f"The index of d0 is not in the cache {cache} any more")
        assert lines[10].endswith(". So the steps stand in their order only.")

    def test_a_search_without_an_index(self, tmp_path, cache, capsys):
        run = searched(
            tmp_path,
            keep(cache, {"vectors": [1.0]}, KEY | {"document": "other"}),
            steps=steps()[:2],
        )
        lines = below(run, capsys)
        assert [line.split()[0] for line in lines[1:4]] == ["#", "0", "1"]
        assert lines[5].startswith("scores ")

    def test_steps_of_an_older_run_have_no_answers(self, tmp_path, cache, capsys):
        old = [{k: v for k, v in s.items() if not k.startswith("answer")} for s in steps()[:3]]
        assert "answer" not in below(searched(tmp_path, "0" * 64, steps=old), capsys)[1]

    def test_what_probes_took_is_said_below(self, tmp_path, cache, capsys):
        probes = {"requests": 6, "tokens": 30, "flops": {"full": 0.196e12, "all-params": 0.098e12}}
        spent = usage(1.0) | {"probes": probes}
        lines = lines_of(
            searched(tmp_path, keep(cache), usage={"search": spent, "answer": usage(0.5)}), capsys
        )
        assert "probes     9.8 % of the FLOPs, 28.6 % of the tokens of the search" in lines
        older = lines_of(searched(tmp_path / "older", keep(cache)), capsys)
        assert not any(line.startswith("probes") for line in older)

    def test_a_run_with_no_steps(self, tmp_path, cache, capsys):
        lines = lines_of(searched(tmp_path, "0" * 64, steps=[]), capsys)
        assert lines == ["question   q0 on d0", "answer     an answer", "shown      nothing",
                         "scores     longbench.qa_f1 50.0"]  # fmt: skip

    def test_a_failed_question(self, tmp_path, cache, capsys):
        error = {"type": "WindowExceeded", "message": "too long"}
        assert "failed     WindowExceeded: too long" in lines_of(
            searched(tmp_path, "0" * 64, error=error), capsys
        )


def test_the_questions_of_a_run_failed_ones_first(tmp_path, capsys):
    error = {"type": "WindowExceeded", "message": "too long"}
    rows = [record(0, 1.0, question="Who?"), record(1, 0.25), record(2, None, error=error)]
    folder = str(write_run(tmp_path, rows))
    assert trace(folder) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert (
        head
        == "3 questions, failed ones first, then by longbench.qa_f1; harness trace RUN QUESTION_ID"
    )
    assert [line.split() for line in lines] == [
        ["WindowExceeded", "q2"],
        ["25.0", "q1"],
        ["100.0", "q0", "Who?"],
    ]
    with pytest.raises(UserError, match="name its QUESTION_ID"):
        trace(folder, json=True)


def test_what_a_method_without_a_search_has_shown(tmp_path, capsys):
    folder = write_run(
        tmp_path, [record(0, 1.0, shown=[plain_span("d0", 4, 9, "The mill burned.")])]
    )
    assert trace(str(folder), "q0") == 0
    assert "shown      d0 [4:9]  The mill burned." in capsys.readouterr().out.splitlines()


class TestGraphFile:
    def test_the_page_of_one_question(self, tmp_path, cache, capsys):
        target = tmp_path / "new" / "search.HTML"
        lines = lines_of(evident(tmp_path, cache), capsys, graph=str(target))
        assert lines[-1] == f"graph      {target}"
        source = target.read_text()
        assert 'id="d0-graph-0"' in source
        assert '"count": 1' in source

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            (
                {"graph": "g.svg"},
                (
                    "--graph writes a page, which saves SVG, PNG and PDF; 'g.svg' does not end in "
                    ".html"
                ),
            ),
            ({"graph": "g.html"}, "nothing to draw: the index of d0 is not in the cache"),
            ({"data": "nothing.jsonl"}, "the rows of musique are not available"),
        ],
    )
    def test_what_is_refused(self, options, said, tmp_path, cache):
        run = searched(tmp_path, "0" * 64)
        with pytest.raises(UserError) as error:
            trace(str(run.path), "q0", **options)
        assert said in str(error.value)
        assert "in their order" not in str(error.value)

    def test_a_search_over_no_graph_cannot_be_drawn(self, tmp_path, cache):
        run = searched(tmp_path, keep(cache, {"vectors": [1.0]}))
        with pytest.raises(UserError, match=r"nothing to draw: this search went over no graph"):
            trace(str(run.path), "q0", graph="g.html")


def test_json_has_the_steps_with_their_parents(tmp_path, cache, capsys):
    (line,) = lines_of(searched(tmp_path, keep(cache), prediction="\ud800"), capsys, json=True)
    parsed = json.loads(line)
    assert (parsed["question_id"], parsed["graph"], parsed["prediction"]) == ("q0", True, "\ud800")
    assert [(s["step"], s["parent"], s["edge"], s["later"]) for s in parsed["steps"]][1:3] == [
        (1, 0, 0.7, False), (2, 1, 0.36, False),
    ]  # fmt: skip
    assert parsed["steps"][2]["shown"]["start"] == 5
    assert parsed["steps"][6]["later"] is True
    assert {s["evidence"] for s in parsed["steps"]} == {"-"}
    assert len(parsed["notes"]) == 1
