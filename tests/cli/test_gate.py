"""--fail-under and --fail-below-baseline: when a CI job fails, and what it is told."""

import json
from xml.etree import ElementTree

import pytest

from harness.cli.main import main


@pytest.fixture
def asked(tmp_path, capsys):
    """Answers questions about a folder, `right` of them rightly; returns (exit code, stderr).

    documents: pages with a question each; broken: questions to which the model has no reply, so that
    they fail; whole_folder: whether no question names its page.
    """

    def call(right, name, *more, documents=12, broken=0, whole_folder=False, scorers="flashrag.em"):
        folder = tmp_path / f"wiki{documents}"
        folder.mkdir(exist_ok=True)
        lines, replies = [], []
        for n in range(documents):
            (folder / f"p{n}.txt").write_text(f"Page {n} says so.")
            question = {"id": f"q{n}", "question": f"Question {n}?"}
            if not whole_folder:
                question["document"] = f"p{n}"
            question["answer"] = f"word{n}"
            lines.append(json.dumps(question))
            reply = f"word{n}" if n < right else "no"
            if n < documents - broken:
                replies.append({"when": f"Question {n}?", "reply": reply})
        questions = tmp_path / f"{name}.jsonl"
        questions.write_text("\n".join(lines))
        (tmp_path / f"{name}.yaml").write_text(json.dumps({"replies": replies}))
        words = ["run", "-m", "closed-book", "--documents", str(folder)]
        words += ["--questions", str(questions), "--model", "scripted"]
        words += ["--set", f"model.script={tmp_path / name}.yaml", "--mlflow", "off", "-q"]
        words += ["--out", str(tmp_path / name), "--set", f"dataset.scorers=[{scorers}]"]
        with pytest.raises(SystemExit) as ended:
            main([*words, *map(str, more)])
        return ended.value.code, capsys.readouterr().err

    return call


@pytest.fixture
def baseline(asked, tmp_path):
    """The folder of a run that answered `right` questions rightly."""

    def call(right, **more):
        assert asked(right, "base", **more)[0] == 0
        (folder,) = (tmp_path / "base").glob("*/*")
        return folder

    return call


@pytest.mark.parametrize(
    ("right", "least", "code"), [(6, 50, 0), (6, 50.1, 4), (0, 0, 0), (12, 100, 0)]
)
def test_a_mean_below_the_limit_fails(asked, right, least, code):
    got, err = asked(right, "a", "--fail-under", f"flashrag.em={least}")
    assert got == code
    assert f"flashrag.em at least {least}: {100 * right / 12:.1f} [" in err


def test_a_limit_says_what_the_interval_leaves_open_and_takes_a_margin(asked):
    code, err = asked(6, "a", "--fail-under", "flashrag.em=60")
    assert code == 4
    assert "the interval holds 60: other questions of this kind may lie on its other side" in err
    code, err = asked(6, "b", "--fail-under", "flashrag.em=60", "--margin", "10")
    assert code == 0
    assert "check passed" in err
    assert "flashrag.em at least 60, less a margin of 10: 50.0 [" in err


def test_questions_that_failed_and_are_left_out_count_0_unless_allowed(asked):
    limit = ("--set", "failed=skip", "--fail-under", "flashrag.em=60")
    code, err = asked(7, "a", *limit, broken=4)
    assert (code, "4 questions left out count 0" in err) == (4, True), err
    code, err = asked(7, "b", *limit, "--allow-left-out", broken=4)
    assert (code, "check passed" in err) == (3, True), err


def test_several_limits_after_one_option_hold_all(asked):
    limits = ("--fail-under", "flashrag.em=40", "flashrag.acc=60")
    code, err = asked(6, "a", *limits, scorers="flashrag.em,flashrag.acc")
    assert code == 4
    assert "check passed: closed-book on wiki12: flashrag.em at least 40: 50.0 [" in err
    assert "check FAILED: closed-book on wiki12: flashrag.acc at least 60: 50.0 [" in err


def test_a_difference_on_a_whole_folder_names_no_documents(asked, baseline):
    """All pages are one document then, and each question is a cluster."""
    folder = baseline(12, whole_folder=True)
    code, err = asked(11, "new", "--fail-below-baseline", folder, whole_folder=True)
    assert (code, "points on 12 questions about the folder; " in err) == (0, True), err


@pytest.mark.parametrize(
    ("before", "after", "outcome", "code"),
    [
        (12, 11, "undecided", 0),  # one question of twelve may be chance
        (12, 2, "FAILED", 4),
        (2, 12, "passed", 0),
    ],
)
def test_the_interval_of_the_paired_difference_decides(
    asked, baseline, before, after, outcome, code
):
    got, err = asked(after, "new", "--fail-below-baseline", baseline(before))
    assert (got, f"check {outcome}:" in err) == (code, True), err


@pytest.mark.parametrize(
    ("before", "after", "outcome", "code"),
    [(2, 0, "FAILED", 4), (2, 1, "FAILED", 4), (1, 1, "undecided", 0), (0, 2, "undecided", 0)],
)
def test_with_two_documents_an_observed_drop_fails_and_nothing_passes(
    asked, baseline, before, after, outcome, code
):
    folder = baseline(before, documents=2)
    got, err = asked(after, "new", "--fail-below-baseline", folder, documents=2)
    assert (got, f"check {outcome}:" in err) == (code, True), err
    assert "no interval with so few documents" in err


def test_a_chosen_score_may_drop_by_so_much(asked, baseline):
    folder = baseline(12)
    for drop, outcome in ((0, "FAILED"), (95, "passed")):
        _, err = asked(
            6,
            f"new{drop}",
            "--fail-below-baseline",
            folder,
            "--max-drop",
            f"flashrag.em={drop}",
        )
        assert f"check {outcome}:" in err, err


def test_questions_that_only_the_baseline_has_count_as_lost_unless_allowed(asked, baseline):
    folder = baseline(12)
    check = ("--fail-below-baseline", folder, "--limit", "3")
    code, err = asked(12, "new", *check)
    assert (code, "9 questions left out count 0" in err) == (4, True), err
    code, err = asked(12, "other", *check, "--allow-left-out")
    assert (code, "9 questions left out, as allowed" in err) == (0, True), err


def test_checks_are_written_for_the_job(asked, baseline, tmp_path):
    (tmp_path / "summary.md").write_text("before\n")
    files = ("--junit", tmp_path / "checks.xml", "--job-summary", tmp_path / "summary.md")
    checks = ("--fail-under", "flashrag.em=60", "--fail-below-baseline", baseline(6))
    asked(6, "a", *checks, *files)
    suite = ElementTree.parse(tmp_path / "checks.xml").getroot()
    counts = [suite.get(key) for key in ("tests", "failures", "skipped")]
    assert counts == ["2", "1", "1"]
    assert suite.find("testcase/failure").get("message").startswith("50.0 [")
    assert "the interval holds 0" in suite.find("testcase/skipped").get("message")
    text = (tmp_path / "summary.md").read_text()
    assert text.startswith("before\n| run | check |")
    assert "| **FAILED** | 50.0 [" in text
    assert "| undecided | +0.0 [" in text


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--fail-under", "flashrag.em"), "should be SCORE=X with X from 0 to 100"),
        (("--fail-under", "flashrag.em=120"), "should be SCORE=X with X from 0 to 100"),
        (("--fail-under", "flashrag.em=nan"), "should be SCORE=X with X from 0 to 100"),
        (("--fail-under", "other=1"), "has no score 'other' (it has flashrag.em)"),
        (("--fail-below-baseline", "gone"), "there is no run folder 'gone'"),
        (("--junit", "x.xml"), "add --fail-under SCORE=X or --fail-below-baseline RUN"),
        (("--max-drop", "flashrag.em=1"), "add --fail-below-baseline RUN"),
        (("--fail-below-baseline", ".", "--max-drop", "other=1"), "has no score 'other'"),
        (("--margin", "2"), "add --fail-under SCORE=X"),
        (("--fail-under", "flashrag.em=1", "--margin", "-2"), "should be points from 0 to 100"),
    ],
)
@pytest.mark.parametrize("more", [(), ("--plan",)])
def test_a_check_that_cannot_be_made_is_refused(asked, tmp_path, words, problem, more):
    code, err = asked(12, "a", *words, *more)
    assert code == 2
    assert problem in err
    assert not list((tmp_path / "a").glob("*/*"))
