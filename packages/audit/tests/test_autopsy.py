"""Autopsy: one class a question, by substitution from stored runs."""

import pytest
from harness_audit.autopsy import CLASSES, Case, cases_of, frame, siblings_of, table
from harness_audit.autopsy_figure import draw

from harness.storage.run_folder import read_run
from reports.gold_rows import read_rows
from reports.page import page
from tests.reports.build import SCORE, answered, span, write_run
from tests.reports.conftest import empty_drawing  # noqa: F401 - a fixture
from tests.reports.figure_searches import step

GOLD = {
    "answers": ["north"],
    "supporting": [{"document_id": "d0", "start": 0, "end": 9}],
    "extra": {},
}


def row(number, score, recall=1.0, **changes):
    scores = {SCORE: score or 0.0} | ({} if recall is None else {"evidence_recall": recall})
    fields = {"prediction": "south", "shown": [span("d0", 0, 9, "the north")], "scores": scores}
    return answered(number, score, GOLD, **{**fields, **changes})


def probe(answer, action="visit"):
    return step(1, action=action, p_yes=0.6, answer=answer)


OWN = probe(None)
# number -> (record of the method, score on the evidence alone, score without any text, class)
CASES = {
    0: (row(0, 1.0), 1.0, 0.0, "read"),
    1: (row(1, 1.0), 1.0, 1.0, "known"),
    2: (row(2, None), 1.0, 0.0, "failed"),
    3: (row(3, 0.2, prediction="it is north of it"), 1.0, 0.0, "scorer"),
    4: (row(4, 0.2, scores={SCORE: 0.2, "flashrag.f1": 0.9}), 0.0, 0.0, "scorer"),
    5: (row(5, 0.0, steps=[probe("north"), OWN]), 1.0, 0.0, "stopped too late"),
    6: (row(6, 0.0, steps=[OWN, probe("north", "study")]), 0.0, 0.0, "stopped too early"),
    7: (row(7, 0.0, steps=[probe("east"), OWN]), 0.0, 0.0, "beyond the model"),
    8: (row(8, 0.0, 0.5, truncated={"side": "end"}), 1.0, 0.0, "cut by the window"),
    9: (row(9, 0.0, 0.5), 1.0, 1.0, "not retrieved"),
    10: (row(10, 0.0), 1.0, 0.0, "misread"),
    11: (row(11, 0.0, None), 1.0, 0.0, "unknown"),
    12: (row(12, 0.4), 1.0, 0.0, "misread"),
}
DATASET = {"name": "musique", "format": "musique", "scorers": ["longbench.qa_f1_score"]}
SETTINGS = {"dataset": {**DATASET, "instruction": "Answer.", "max_answer_tokens": 8}}


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """Runs of a method, of the evidence alone and without any text, scored by the data set's own
    scorer."""
    name = "longbench.qa_f1_score"

    def renamed(values):
        return {
            **values,
            "scores": {name if key == SCORE else key: v for key, v in values["scores"].items()},
        }

    manifest = {
        "scorers": {name: "1"},
        "command": ["harness", "run", "--model", "gpt2", "--limit", "13"],
    }
    own = write_run(
        tmp_path, [renamed(c[0]) for c in CASES.values()], settings=SETTINGS, manifest=manifest
    )
    oracle_settings = {
        **SETTINGS,
        "method": {"name": "oracle", "implementation": "m:M", "view": "evidence"},
    }
    oracle = [renamed(row(n, c[1])) for n, c in CASES.items()]
    closed = [renamed(row(n, c[2], shown=[])) for n, c in CASES.items()]
    evidence = write_run(
        tmp_path, oracle, method="oracle", settings=oracle_settings, manifest=manifest
    )
    return [
        own,
        evidence,
        write_run(tmp_path, closed, method="closed", settings=SETTINGS, manifest=manifest),
    ]


def test_every_class(folders):
    run, *others = map(read_run, folders)
    cases = cases_of(run, read_rows(run), siblings_of(run, others))
    assert {c.question_id: c.kind for c in cases} == {
        f"q{n}": kind for n, (*_, kind) in CASES.items()
    }
    assert {case.kind for case in cases} | {"right"} == set(CLASSES), (
        "each class but one has a case"
    )


def test_without_siblings_classes_are_coarser(folders):
    run = read_run(folders[0])
    siblings = siblings_of(run, [])
    assert siblings.missing == ["oracle-evidence", "closed-book"]
    kinds = [case.kind for case in cases_of(run, read_rows(run), siblings)]
    assert kinds[:7] == [
        "right",
        "right",
        "failed",
        "scorer",
        "scorer",
        "stopped too late",
        "stopped too early",
    ]
    assert set(kinds[7:]) == {"unknown"}


def test_the_border_between_won_and_lost(folders):
    run, *others = map(read_run, folders)
    cases = cases_of(run, read_rows(run), siblings_of(run, others), lost_below=0.3)
    assert {case.question_id: case.kind for case in cases}["q12"] == "read"


def test_runs_of_other_questions_are_no_siblings(folders, tmp_path):
    run, oracle, _ = map(read_run, folders)
    fewer = write_run(
        tmp_path / "x", oracle.records[:-1], method="oracle", settings=oracle.config.to_json()
    )
    assert siblings_of(run, [read_run(fewer)]).oracle is None
    rows = {"dataset": {"fingerprint": "0"}}
    other = write_run(
        tmp_path / "y", oracle.records, settings=oracle.config.to_json(), manifest=rows
    )
    assert siblings_of(run, [read_run(other)]).oracle is None


def test_counts_intervals_and_the_figure(folders):
    run, *others = map(read_run, folders)
    cases = {("musique", "pecan", "tiny"): cases_of(run, read_rows(run), siblings_of(run, others))}
    counted = frame(cases)
    assert counted["count"].sum() == len(CASES)
    assert counted["share"].sum() == pytest.approx(1.0)
    misread = counted.set_index("class").loc["misread"]
    assert (misread["count"], misread["known"], misread["examples"]) == (2, 0, ("q10", "q12"))
    assert misread["share.low"] <= misread["share"] <= misread["share.high"]
    ((title, shown),) = table(cases)
    assert title == "musique · tiny · 13 questions"
    assert shown.set_index("class").loc["misread", "pecan"].startswith("2 (15 %) [")
    assert draw(counted) == draw(counted)
    assert b"not retrieved" in draw(counted)


def test_too_few_documents_for_an_interval():
    cases = {("musique", "pecan", "tiny"): [Case("q0", "d0", 1.0, "read", None)]}
    ((_, shown),) = table(cases)
    assert shown["pecan"].tolist() == ["1 (100 %)"]


def test_the_page_links_the_questions_of_each_class(folders):
    made = page([read_run(folder) for folder in folders])
    assert "Why questions were lost" in made
    assert '<a href="#d=musique&amp;q=q10">q10</a>' in made
    assert "Why questions were lost" not in page([read_run(folders[0])])


def test_the_command_names_what_is_missing(folders, tmp_path, capsys, monkeypatch):
    from harness.cli.main import _run_command

    assert _run_command(["autopsy", str(folders[0])]) == 0
    printed = capsys.readouterr()
    assert "stopped too late" in printed.out
    assert "harness run -m oracle-evidence,closed-book -d musique --model gpt2 --out" in printed.err
    assert _run_command(["autopsy", str(folders[1])]) == 2
    assert _run_command(["autopsy", str(folders[0]), "--lost-below", "0"]) == 2
    out = tmp_path / "lost.svg"
    assert _run_command(["autopsy", *map(str, folders), "--out", str(out)]) == 0
    assert out.read_bytes().startswith(b"<?xml")
