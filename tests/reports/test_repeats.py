"""Repeats as one run: means, the vote over drawn answers, and the best of some of them."""

import itertools
import statistics

import pytest

from bench.commands import call
from bench.fabrications import Folder
from harness.storage.run_folder import read_run
from reports import facts
from reports.main_table import frame
from reports.repeats import average_over_seeds, expected_best_of_k
from tests.reports.build import SCORE, config, record, write_run

MODEL = {"name": "tiny", "backend": "hf", "embedded": False}


@pytest.mark.parametrize("scores", [[0, 1, 0, 1, 1], [0.2, 0.9, 0.4], [1]])
def test_best_of_is_the_mean_over_all_draws(scores):
    for k in range(1, len(scores) + 1):
        drawn = [max(some) for some in itertools.combinations(scores, k)]
        assert expected_best_of_k(scores, k) == pytest.approx(statistics.fmean(drawn))


def table(root, temperature, draws):
    """The row of some repeats; draws: of each repeat the answer to each question with its score."""
    model = MODEL | ({"temperature": temperature} if temperature else {})
    paths, plain = [], config("musique", "pecan", "tiny", {})
    for seed, answers in enumerate(draws):
        rows = [record(n, score, prediction=text) for n, (text, score) in enumerate(answers)]
        made = {**plain, "model": model, "seed": seed}
        paths.append(write_run(root, rows, hash8=f"0000000{9 - seed}", settings=made))
    (row,) = frame(average_over_seeds([read_run(path) for path in reversed(paths)])).to_dict(
        "records"
    )
    return {str(name): value for name, value in row.items()}


DRAWS: list[list[tuple[str, float | None]]] = [
    [("Mira", 0.0), ("1804", 1.0)],
    [("the mira.", 0.0), ("", None)],
    [("Belic", 1.0), ("1805", 0.0)],
]


def test_the_vote_and_the_best_of_drawn_answers_have_intervals(tmp_path):
    row = table(tmp_path, 0.7, DRAWS)
    assert row[SCORE] == pytest.approx((1 / 3 + 1 / 3) / 2)
    assert row[f"{SCORE}.vote"] == pytest.approx(
        (0.0 + 1.0) / 2
    )  # equal but for case; a tie goes to the first
    assert row[f"{SCORE}.pass@2"] == pytest.approx(2 / 3)
    assert row[f"{SCORE}.pass@3"] == pytest.approx(1.0)
    assert {
        f"{SCORE}.{kind}.{end}" for kind in ("vote", "pass@2", "pass@3") for end in ("low", "high")
    } <= row.keys()
    assert "(seeds 0, 1, 2)" in str(row["notes"])
    (run,) = average_over_seeds([read_run(path) for path in tmp_path.glob("*/*")])
    assert f"{SCORE}.vote" in run.records[0].scores
    assert "vote" not in facts.scorer_versions(run), "it has no version of its own"


def test_evidence_recall_is_no_answer_to_vote_on(tmp_path):
    own = {
        "dataset": {"name": "musique", "format": "musique", "scorers": [SCORE, "evidence_recall"]}
    }
    paths = []
    for seed, score in enumerate((0.0, 1.0)):
        made = {**own, "model": MODEL | {"temperature": 0.7}, "seed": seed}
        rows = [record(0, score, scores={SCORE: score, "evidence_recall": 0.5})]
        paths.append(write_run(tmp_path, rows, hash8=f"0000000{seed}", settings=made))
    (run,) = average_over_seeds([read_run(path) for path in paths])
    names = {name.removeprefix(SCORE) for name in run.records[0].scores}
    assert names == {"", ".vote", ".pass@2", "evidence_recall"}


def test_the_report_shows_them(tmp_path, command):
    table(tmp_path, 0.7, DRAWS)
    code, out, err = command("report", str(tmp_path), "--average-seeds", "--format", "csv")
    assert (code, f"{SCORE}.vote" in out, f"{SCORE}.pass@2" in out) == (0, True, True), err
    code, out, err = command(
        "compare", *map(str, tmp_path.glob("*/*")), "--average-seeds", "--score", SCORE
    )
    assert (code, SCORE in out) == (0, True), err


def test_greedy_repeats_have_means_alone(tmp_path):
    assert not [name for name in table(tmp_path, 0.0, DRAWS) if "vote" in name or "pass@" in name]


def test_what_a_repeat_lacks_is_told(tmp_path):
    plain = config("musique", "pecan", "tiny", {})
    for seed, scores in enumerate([(1.0, 1.0, 1.0), (1.0, None), (1.0, 0.0, 1.0)]):
        rows = [record(n, score) for n, score in enumerate(scores)]
        git = {"commit": "c0ffee" if seed else "beef", "dirty": False}
        settings = {**plain, "seed": seed}
        write_run(tmp_path, rows, hash8=f"0000000{seed}", settings=settings, manifest={"git": git})
    (run,) = average_over_seeds([read_run(path) for path in tmp_path.glob("*/*")])
    assert run.notes[1:] == (
        "1 of 2 questions failed in a part of the repeats and count 0 there",
        "1 questions are not in every repeat and in no number",
        "a repeat was made with commit beef (most runs: c0ffee)",
    )


def test_a_question_that_a_repeat_did_not_score_has_the_mean_of_the_others(tmp_path):
    rows = [record(0, 1.0), record(1, 1.0)]
    unscored = [record(0, 1.0), {**record(1, 0.0), "scores": {}}]
    plain = config("musique", "pecan", "tiny", {})
    for seed, answers in enumerate([rows, unscored]):
        write_run(tmp_path, answers, hash8=f"0000000{seed}", settings={**plain, "seed": seed})
    (run,) = average_over_seeds([read_run(path) for path in tmp_path.glob("*/*")])
    assert [row.scores[SCORE] for row in run.records] == [1.0, 1.0]


def test_each_repeat_is_checked_and_the_mean_is_not(tmp_path, command):
    """The mean was compared with the summary of its first repeat, so honest repeats did not fit."""
    root = str(tmp_path)
    made = call(
        "run", "--method", "closed-book", "--model", "pocket-llama", "--dataset", "pocket/musique",
        "--limit", "2", "--repeat", "2", "--set", "model.temperature=0.7", "--out", root,
        "--mlflow", "off",
    )  # fmt: skip
    assert made.code == 0, made.text
    for verb in ("report", "compare"):
        code, out, _ = command(verb, root, "--average-seeds")
        assert (code, "mean of 2 repeats" in out, "does not fit" in out) == (0, True, False), out
        assert "not checked: 4 of 6 scores (harness verify)" in out
    folders = {
        read_run(path.parent).config.seed: path.parent for path in tmp_path.rglob("run.yaml")
    }
    second = Folder(folders[1], folders[0])
    honest = second.rows()
    reader = second.manifest_of()["models"]["reader"]
    second.manifest(models__reader__weights="f" * 64)
    second.seal()
    _, out, _ = command("report", root, "--average-seeds")
    assert "does not fit: seed 1 and seed 0: other readers" in " ".join(out.split())
    second.manifest(models__reader=reader)
    second.usage(lambda phase: phase.update(tokens_in=9_000))
    second.seal()
    for verb in ("report", "compare"):
        _, out, _ = command(verb, root, "--average-seeds")
        assert "does not fit: seed 1: 2 of 2 records have FLOPs" in " ".join(out.split())
        assert "seed 0" not in out
    first_rows = {row["question_id"]: row for row in second.others()}
    second.write([row | first_rows[row["question_id"]] for row in honest])
    second.seal()
    for verb in ("report", "compare"):
        _, out, _ = command(verb, root, "--average-seeds")
        assert "seed 1 and seed 0: 2 records with copied answers" in " ".join(out.split())
