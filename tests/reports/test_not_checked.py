"""What only the rows of a data set show, or nothing: runs that were edited alike, and the last line
of tables on what was not checked."""

import shutil

import pytest

from bench.commands import call
from bench.fabricated import (
    BESIDE_SEARCHES,
    SEARCHES,
    copies,
    judged,
    make_runs,
    verdict_of_table,
    verdict_of_verify,
)
from bench.fabrications import Folder
from bench.fabrications_eighth import EIGHTH_EDITS, THIRD_OF_INDEX
from tests.made_up import musique_rows, write_rows
from tests.reports.build import SCORE, config, record, write_run

_ONLY_NAMED = "only named as not checked"


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    """Two honest runs of the embedded model: method -> run folder."""
    return _made(tmp_path_factory.mktemp("honest"), "--method bm25,full-context --limit 3")


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    """An honest run of a method whose index a model writes, and one of a method beside it."""
    return _made(tmp_path_factory.mktemp("searched"), SEARCHES, BESIDE_SEARCHES)


def _made(root, *commands):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HARNESS_CACHE", str(root / "cache"))
        return make_runs(root, *commands)


@pytest.mark.parametrize("edit", EIGHTH_EDITS, ids=lambda edit: edit.name)
def test_an_edit_of_both_runs_is_named_by_the_rows_or_as_not_checked(edit, honest):
    expected = ["refused", "named", "named"]
    if edit.line:
        expected = [_ONLY_NAMED] * 3
    assert _verdicts(edit, honest) == expected


def test_a_part_of_an_index_is_named_as_not_checked(searched):
    assert _verdicts(THIRD_OF_INDEX, searched) == [_ONLY_NAMED] * 3


def test_searches_that_asked_a_model_are_named_as_not_checked(searched, command, tmp_path):
    """Half of their tokens and requests, in phases and steps alike, was silent and certified."""
    root = str(searched["pecan"].parent)
    for verb in ("report", "compare"):
        code, out, _ = command(verb, root)
        assert (code, "index costs, search costs" in out.rpartition("not checked: ")[2]) == (
            0,
            True,
        )
    bundle = str(tmp_path / "b.zip")
    command("export", root, bundle)
    code, out, _ = command("verify", bundle)
    assert (code, "search costs" in out.splitlines()[-1]) == (0, True)


def _verdicts(edit, runs):
    """What compare, report and verify say of an edit."""
    with copies(runs) as here:
        plain = judged(here, edit.of)
    assert [one.code for one in plain] == [0, 0, 0]
    with copies(runs) as here:
        folder = Folder(here[edit.of], here["full-context"])
        edit.change(folder)
        folder.seal()
        here[edit.of] = folder.path
        compared, reported, verified = judged(here, edit.of)
    return [
        verdict_of_table(compared, plain[0], edit),
        verdict_of_table(reported, plain[1], edit),
        verdict_of_verify(verified, edit),
    ]


def test_the_line_stands_once_at_the_end_of_texts_and_on_pages(honest, command, tmp_path):
    root = str(honest["bm25"].parent)
    line = (
        "not checked: 4 of 6 scores (harness verify), that the model gave these answers with these "
        "settings and seed, model sizes, seconds\n"
    )
    for words in (["report"], ["compare"], ["report", "--wide"], ["report", "--by", "hops"]):
        code, out, _ = command(words[0], root, *words[1:])
        assert code == 0
        assert out.endswith(f"\n\n{line}")
        assert out.count("not checked") == 1
    for verb in ("report", "compare"):
        _, out, _ = command(verb, root, "--format", "md")
        assert out.rstrip().endswith(line.strip())
        for form in ("latex", "csv", "json"):
            assert "not checked: 4" not in command(verb, root, "--format", form)[1]
    command("report", root, "--html", str(tmp_path / "page.html"))
    page = (tmp_path / "page.html").read_text()
    assert page.count("<dt>Not checked</dt>") == 1
    assert line.strip().removeprefix("not checked: ") in page


def test_rows_that_the_program_does_not_make_are_read_from_a_file_that_is_named(command, tmp_path):
    rows = write_rows(tmp_path / "rows.jsonl", musique_rows(3))
    root = tmp_path / "results"
    said = call(
        "run", "--method", "bm25,closed-book", "--model", "pocket-llama", "--dataset", "musique",
        "--data", str(rows), "--out", str(root), "--mlflow", "off",
    )  # fmt: skip
    assert said.code == 0, said.text
    against_rows = "questions, gold answers and evidence against the data set (--data ROWS)"
    for verb in ("compare", "report"):
        code, out, _ = command(verb, str(root))
        assert (code, against_rows in out) == (0, True)
        code, out, _ = command(verb, str(root), "--data", str(rows))
        assert (code, "against the data set" in out) == (0, False)
        assert "does not fit" not in out
    folders = [path.parent for path in root.rglob("run.yaml")]
    for folder in folders:
        edited = Folder(folder, folder)
        edited.each(lambda row: row["gold"]["answers"].append("the"))
        edited.seal()
        assert call("score", str(folder)).code == 0
        edited.seal()
    assert command("compare", str(root))[0] == 0
    problem = "3 of 3 questions or gold answers are not those of the data set"
    code, _, err = command("compare", str(root), "--data", str(rows))
    assert (code, err.count(problem)) == (2, 2)
    code, out, _ = command("report", str(root), "--data", str(rows))
    assert (code, problem in out) == (0, True)
    bundle = str(tmp_path / "b.zip")
    command("export", str(root), bundle)
    assert command("verify", bundle)[0] == 0
    code, out, _ = command("verify", bundle, "--data", str(rows))
    assert (code, problem in out) == (4, True)
    command("export", str(root), str(tmp_path / "hashes.zip"), "--keep-texts", "no")
    rows.unlink()
    code, out, _ = command("verify", str(tmp_path / "hashes.zip"))
    last_line = out.splitlines()[-1]
    assert (code, last_line.count("answers without gold answers")) == (0, 1)
    assert "6 answers without gold answers" in last_line


def test_rows_of_one_file_are_of_one_data_set(honest, command, tmp_path):
    root = tmp_path / "results"
    shutil.copytree(honest["bm25"].parent, root / "pocket~musique")
    other = root / "other" / honest["bm25"].name
    shutil.copytree(honest["bm25"], other)
    Folder(other, other).config(dataset__name="other")
    for verb in ("compare", "report"):
        code, _, err = command(verb, str(root), "--data", "rows.jsonl")
        assert (code, "--data holds the rows of one data set" in err) == (2, True)


def test_rows_that_cannot_be_read_are_an_error(honest, command):
    folder = str(honest["bm25"])
    code, _, err = command("report", folder, "--data", "nowhere.jsonl")
    assert (code, "error:" in err) == (2, True)


def test_a_table_of_imported_runs_has_no_such_line(tmp_path, command):
    imported = {"imported": {"tool": "x", "files": []}}
    write_run(tmp_path, [record(0, 1.0), record(1, 0.0)], manifest=imported)
    code, out, _ = command("report", str(tmp_path))
    assert (code, "imported from x" in out) == (0, True)
    assert "\n\nnot checked: " not in out


def test_a_prompt_beyond_the_window_is_named_for_a_whole_text_too(honest, command):
    with copies(honest) as here:
        folder = Folder(here["full-context"], here["bm25"])
        folder.config(model__window=512)
        folder.manifest(models__reader__window=512)
        folder.rename()
        folder.seal()
        _, out, _ = command("report", str(folder.path))
    problem = "does not fit: 3 of 3 records have more tokens than the window of its reader"
    assert problem in " ".join(out.split())


def test_scores_of_a_judge_are_counted_apart(tmp_path, command):
    notes = {"judges": {"judge.correct": {"verdict": "yes"}}}
    scores = {SCORE: 1.0, "judge.correct": 1.0}
    write_run(tmp_path, [record(n, 1.0, scores=scores, notes=notes) for n in range(2)])
    _, out, _ = command("report", str(tmp_path))
    assert "1 of 1 scores (harness verify), 1 score of a judge" in " ".join(out.split())


def test_an_application_beside_a_method_is_named_in_the_last_line(tmp_path, command):
    for method, model in (("wiki", {"backend": "application"}), ("bm25", {})):
        settings = config("musique", method, "tiny", {})
        settings["model"] = settings["model"] | model
        write_run(tmp_path, [record(0, 1.0)], method=method, settings=settings)
    _, out, _ = command("report", str(tmp_path))
    last_line = " ".join(out.rpartition("\n\n")[2].split())
    assert "that the model or application gave these answers" in last_line
    assert "that the application's passages and charges are what it read" in last_line


def test_a_run_is_not_ranked_with_others_and_never_with_itself(honest, command):
    with copies(honest) as here:
        taken = Folder(here["bm25"], here["full-context"])
        whole = {row["question_id"]: row for row in taken.others()}
        taken.each(lambda row: row.update(whole[row["question_id"]]))
        _, out, _ = command("report", str(here["bm25"].parent))
    text = " ".join(out.split())
    assert text.count("should not be ranked") == 2
    for name in honest:
        assert f"{name} should not be ranked with {name}" not in text
