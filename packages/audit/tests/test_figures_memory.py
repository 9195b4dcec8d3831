"""Runs over a data set beside runs over an entity-swapped copy."""

import pytest
from harness_audit.memory import copy_pairs, figure, frame

from harness.cli.main import main
from harness.storage.named_runs import read_runs, run_folders
from tests.reports.build import stored

SWAP = {
    "dataset": {
        "fingerprint": "t" * 64,
        "twin": {"of": "f" * 64, "seed": 0, "recogniser": {"name": "rules"}},
    }
}


def _runs(root, before, after, **changes):
    copy = stored(root, after, hash8="11111111", manifest=SWAP, **changes)
    return [copy, stored(root, before, hash8="22222222", **changes)]


ORACLE = {"method": {"name": "oracle-evidence", "view": "evidence", "params": {}}}


def _oracle(root, before, after):
    copy = stored(root, after, hash8="33333333", manifest=SWAP, settings=ORACLE)
    return [copy, stored(root, before, hash8="44444444", settings=ORACLE)]


def test_the_drop_is_paired_and_has_an_interval(tmp_path):
    runs = _runs(tmp_path, [1.0, 1.0, 1.0, 0.0, 1.0, 0.0] * 4, [1.0, 0.0, 0.0, 0.0, 1.0, 0.0] * 4)
    pair, check = copy_pairs([*runs, *_oracle(tmp_path, [1.0] * 160, [1.0] * 160)])
    assert (pair.original, pair.copy) == (runs[1], runs[0])
    row, _ = frame([pair, check]).to_dict("records")
    assert (row["method"], row["n"], row["recogniser"]) == ("pecan", 24, "rules")
    assert [row[name] for name in ("original", "copy", "drop", "recalled")] == pytest.approx(
        [4 / 6, 2 / 6, 2 / 6, 0.5]
    )
    assert 0 < row["drop.low"] < row["drop"] < row["drop.high"] < 1
    assert 0.1 < row["recalled.low"] < 0.5 < row["recalled.high"] <= 1
    assert row["p"] < 0.05
    (panel,) = figure(runs, score=None, warn=print).panels
    assert [point.y for point in panel.lines[0].points] == pytest.approx([400 / 6, 200 / 6])


def test_runs_that_differ_in_more_are_no_pair(tmp_path, capsys):
    copy, original = _runs(tmp_path, [1.0, 0.0], [0.0, 0.0])
    other = stored(tmp_path / "b", [1.0, 0.0], settings={"seed": 1})
    assert list(copy_pairs([copy, other])) == []
    assert [pair.copy for pair in copy_pairs([other, copy, original])] == [copy]
    with pytest.raises(SystemExit, match="2"):
        main(["report", "memory", str(tmp_path / "b")])
    assert "with and without --set dataset.swap=entities" in capsys.readouterr().err


def test_without_a_score_to_lose_there_is_no_share(tmp_path, capsys):
    runs = _runs(tmp_path, [0.0, 0.0, 0.0], [1.0, 0.0, 0.0])
    (row,) = frame(list(copy_pairs(runs))).to_dict("records")
    assert row["recalled"] != row["recalled"]
    with pytest.raises(SystemExit, match="0"):
        main(["report", "memory", str(tmp_path)])
    assert "drop: original minus copy" in " ".join(capsys.readouterr().out.split())


def test_a_pair_without_a_common_question_has_no_p(tmp_path):
    _runs(tmp_path, [None, 1.0], [1.0, None], method="bm25", settings={"failed": "skip"})
    _runs(tmp_path, [1.0, 1.0], [0.0, 1.0])
    runs = read_runs(run_folders([str(tmp_path)]))
    rows = frame(list(copy_pairs(list(runs)))).set_index("method")
    assert rows.loc["bm25", "n"] == 0
    assert rows.loc["bm25", ["p", "p_holm"]].isna().all()
    assert rows.loc["pecan", "p"] == rows.loc["pecan", "p_holm"]


def test_with_too_few_documents_no_interval_is_spoken_of(tmp_path, capsys):
    _runs(tmp_path, [1.0, 0.0], [0.0, 0.0])
    _oracle(tmp_path, [1.0, 1.0], [1.0, 0.0])
    with pytest.raises(SystemExit, match="0"):
        main(["report", "memory", str(tmp_path)])
    said = " ".join(capsys.readouterr().out.split())
    assert (
        "is +50.0 points with too few documents for an interval, not shown to be equivalent" in said
    )
    assert "nan" not in said


@pytest.mark.parametrize(
    ("after", "check", "says"),
    [
        (
            [1.0] * 160,
            "equivalent",
            "the copy is no harder: original minus copy on the evidence alone is +0.0 points",
        ),
        ([1.0] * 30, "undecided", "the copy may be harder, so no drop is called recalled"),
        ([0.0, 1.0] * 80, "harder", "the copy is harder, so no drop is called recalled"),
        ([], "not checked", "run oracle-evidence with and without --set dataset.swap=entities"),
    ],
)
def test_a_drop_is_called_recalled_where_the_copy_is_no_harder(tmp_path, after, check, says):
    runs = _runs(tmp_path, [1.0, 1.0, 0.0] * 8, [1.0, 0.0, 0.0] * 8)
    runs += _oracle(tmp_path, [1.0] * len(after), after) if after else []
    made = figure(runs, score=None, warn=print)
    row = made.whole.to_dict("records")[0]
    assert row["check"] == check
    assert (row["recalled"] == row["recalled"]) is (check == "equivalent")
    assert says in " ".join(made.written("text").split())
