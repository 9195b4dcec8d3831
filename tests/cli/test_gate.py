"""--fail-under and --fail-below-baseline: when a CI job fails, and what it is told."""

import json
from xml.etree import ElementTree

import pytest

from harness.cli.main import main


@pytest.fixture
def asked(tmp_path, capsys):
    """Answers 12 questions about a folder, `right` of them rightly; returns (exit code, stderr)."""
    folder = tmp_path / "wiki"
    folder.mkdir()
    lines = []
    for n in range(12):
        (folder / f"p{n}.txt").write_text(f"Page {n} says so.")
        lines.append(
            json.dumps(
                {
                    "id": f"q{n}",
                    "question": f"Question {n}?",
                    "answer": f"word{n}",
                    "document": f"p{n}",
                }
            )
        )
    (tmp_path / "q.jsonl").write_text("\n".join(lines))

    def call(right, name, *more):
        replies = [
            {"when": f"Question {n}?", "reply": f"word{n}" if n < right else "no"}
            for n in range(12)
        ]
        (tmp_path / f"{name}.yaml").write_text(json.dumps({"replies": replies}))
        words = [
            "run",
            "-m",
            "closed-book",
            "--documents",
            str(folder),
            "--questions",
            str(tmp_path / "q.jsonl"),
        ]
        words += [
            "--model",
            "scripted",
            "--set",
            f"model.script={tmp_path / name}.yaml",
            "--mlflow",
            "off",
            "-q",
        ]
        with pytest.raises(SystemExit) as ended:
            main(
                [
                    *words,
                    "--out",
                    str(tmp_path / name),
                    "--set",
                    "dataset.scorers=[flashrag.em]",
                    *map(str, more),
                ]
            )
        return ended.value.code, capsys.readouterr().err

    return call


@pytest.mark.parametrize(
    ("right", "least", "code"), [(6, 50, 0), (6, 50.1, 4), (0, 0, 0), (12, 100, 0)]
)
def test_a_mean_below_the_limit_fails(asked, right, least, code):
    got, err = asked(right, "a", "--fail-under", f"flashrag.em={least}")
    assert got == code
    assert f"flashrag.em at least {least}: {100 * right / 12:.1f} points" in err


@pytest.mark.parametrize(
    ("right", "code"),
    [
        (12, 0),
        (11, 0),  # one question of twelve may be chance
        (2, 4),
    ],
)
def test_a_drop_fails_where_it_is_real(asked, tmp_path, right, code):
    assert asked(12, "base")[0] == 0
    (baseline,) = (tmp_path / "base/folder").iterdir()
    assert asked(right, "new", "--fail-below-baseline", baseline)[0] == code


def test_checks_are_written_for_the_job(asked, tmp_path):
    (tmp_path / "summary.md").write_text("before\n")
    files = ("--junit", tmp_path / "checks.xml", "--job-summary", tmp_path / "summary.md")
    asked(6, "a", "--fail-under", "flashrag.em=60", *files)
    suite = ElementTree.parse(tmp_path / "checks.xml").getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("1", "1")
    assert suite.find("testcase/failure").get("message") == "50.0 points"
    text = (tmp_path / "summary.md").read_text()
    assert text.startswith("before\n| run | check |")
    assert "| **FAILED** | 50.0 points |" in text


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--fail-under", "flashrag.em"), "should be SCORE=X with X from 0 to 100"),
        (("--fail-under", "flashrag.em=120"), "should be SCORE=X with X from 0 to 100"),
        (("--fail-under", "other=1"), "has no score 'other' (it has flashrag.em)"),
        (("--fail-below-baseline", "gone"), "there is no run folder 'gone'"),
        (("--junit", "x.xml"), "add --fail-under SCORE=X or --fail-below-baseline RUN"),
    ],
)
def test_a_check_that_cannot_be_made_is_refused(asked, tmp_path, words, problem):
    code, err = asked(12, "a", *words)
    assert code == 2
    assert problem in err
    assert not (tmp_path / "a/folder").exists()
