"""What all commands that draw share: formats, files, folders and their mistakes; each figure's own
tests are beside."""

from pathlib import Path

import pytest

from tests.reports.build import mistake, stored
from tests.reports.figure_searches import searched, searched_run, settings

REPORTS = ("curves", "front", "memory", "nodes", "queries", "sweep", "tokens")
COMMANDS = [
    *(["report", name] for name in REPORTS),
    *(["study", name] for name in ("position", "length", "trials", "requests")),
    ["autopsy"],
]
SCORED = [c for c in COMMANDS if c[-1] in ("curves", "front", "requests", "sweep")]
FILES = {
    "a.svg": b"<?xml",
    "a.pdf": b"%PDF-",
    "a.png": b"\x89PNG",
    "a.html": b"<!doctype html>",
    "a.csv": b"dataset,method",
    "a.json": b"[",
    "a.md": b"### musique",
    "a.tex": b"% needs",
    "a.txt": b"musique",
}


@pytest.fixture
def call(tmp_path, monkeypatch, command, drawn):
    """Run a command beside results/ with a search that recorded other stops, and a run without
    any."""
    monkeypatch.chdir(tmp_path)
    rows = [searched(i, [0.1] * (i % 3 + 2), stop=i % 3 + 1) for i in range(9)]
    searched_run(tmp_path / "results", rows, settings=settings(record_stops=2))
    stored(tmp_path / "results", [0.5] * 9, method="full-context")
    return command


@pytest.mark.parametrize("name", FILES)
def test_to_a_file_by_its_ending(name, call):
    assert call("report", "curves", "results", "--out", f"drawn/{name}") == (
        0,
        "",
        f"written to drawn/{name}\n",
    )
    content = Path("drawn", name).read_bytes()
    assert content.startswith(FILES[name])
    if name.endswith("html"):
        assert b"<svg" in content
        assert b"<table>" in content
        assert b"<script" not in content


@pytest.mark.parametrize(
    "words", [*SCORED, ["report", "nodes"], ["report", "queries"]], ids=" ".join
)
def test_each_is_drawn(words, call):
    assert (
        call(
            *words, "results", *(["--x", "model"] if words[-1] == "sweep" else []), "--out", "a.svg"
        )[0]
        == 0
    )
    assert Path("a.svg").read_bytes().startswith(b"<?xml")


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_formats_and_folders_that_do_not_exist(words, call):
    assert "no format ends in '.gif'" in mistake(call(*words, "results", "--out", "a.gif"))
    assert "unknown format 'sgv'. Did you mean 'svg'" in mistake(
        call(*words, "results", "--format", "sgv")
    )
    assert "there is no folder 'nowhere'" in mistake(call(*words, "nowhere"))
    sentence = (
        "has no drawing"
        if words[-1] == "tokens"
        else "--format pdf needs a file to write to; add --out FILE.pdf"
    )
    assert sentence in mistake(call(*words, "results", "--format", "pdf"))


@pytest.mark.parametrize("name", REPORTS)
def test_a_folder_may_have_the_name_of_a_figure(name, call):
    Path(name).mkdir()
    assert f"harness report ./{name}" in mistake(call("report", name))


@pytest.mark.parametrize("words", SCORED, ids=" ".join)
def test_an_unknown_score_is_one_sentence(words, call):
    message = mistake(
        call(
            *words, "results", "--score", "f2", *(["--x", "model"] if words[-1] == "sweep" else [])
        )
    )
    assert "unknown score 'f2'" in message or "no run has both a score" in message


def test_a_damaged_run_is_left_out_and_the_exit_code_says_so(call):
    Path("results/musique/bm25--tiny--0").mkdir()
    Path("results/musique/bm25--tiny--0/run.yaml").write_text("{}")
    code, out, err = call("report", "nodes", "results")
    assert (code, "pecan" in out, err.startswith("warning: left out: ")) == (3, True, True)


def test_a_drawing_of_nothing_is_a_sentence(call, tmp_path):
    stored(tmp_path / "failed", [None, None])
    assert "nothing here can be drawn" in mistake(
        call("study", "requests", "failed", "--out", "a.svg")
    )
    assert call("study", "requests", "failed")[0] == 0
