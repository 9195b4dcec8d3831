"""`harness init`: what it writes runs as it is, against a server on this machine."""

import json
import os
import re
import shlex
from pathlib import Path

import pytest
import yaml

from harness.cli.init import FILES
from tests.stand_in_server import StandIn


@pytest.fixture
def written(here, tmp_path):
    """A folder as `harness init` writes it."""
    here("init", "ours").checked()
    return tmp_path / "ours"


def workflow(folder):
    """The workflow of a written folder, and its steps with a name."""
    read = yaml.safe_load((folder / ".github/workflows/answers.yml").read_text())
    steps = {step["name"]: step for step in read["jobs"]["answers"]["steps"] if "name" in step}
    return read, steps


def test_all_that_it_writes_is_said(here, tmp_path):
    printed = here("init", "ours").checked().stdout
    files = sorted(
        str(path.relative_to(tmp_path))
        for path in Path("ours").resolve().rglob("*.*")
        if path.is_file()
    )
    assert sorted(printed.partition("\n\n")[0].splitlines()) == files


def test_the_commands_that_it_prints_run_as_they_are(here, written, monkeypatch, tmp_path):
    (tmp_path / "again").mkdir()
    commands = [
        line
        for line in here("init", "again").checked().stdout.splitlines()
        if line.startswith("harness ")
    ]
    monkeypatch.chdir(written)
    monkeypatch.setenv("HARNESS_CONFIGS", "configs")
    monkeypatch.setenv("MODEL_KEY", "k")
    model = written / "configs/models/wiki-model.yaml"
    with StandIn(ill=False).server() as server:
        model.write_text(model.read_text().replace("http://127.0.0.1:8000/v1", server.url))
        for command in commands:
            _, *words = shlex.split(command)
            if words[0] == "run":
                words += ["--mlflow", "off"]
            done = here(*words).checked()
            if words[0] == "run":
                table = done.stdout
    assert re.search(r"^documents · wiki-model$", table, re.M)
    summaries = [json.loads(path.read_text()) for path in written.glob("results/*/*/summary.json")]
    assert [(summary["n_total"], summary["n_failed"]) for summary in summaries] == [(6, 0)] * 3
    assert "EUR per 1,000 questions" in (written / "report.html").read_text()
    assert (written / "report.xlsx").exists()


def test_the_steps_of_the_workflow_run(here, written, monkeypatch):
    _, steps = workflow(written)
    monkeypatch.chdir(written)
    with StandIn(ill=False).server() as server:
        variables = {
            "HARNESS_CONFIGS": "configs",
            "MODEL_KEY": "k",
            "MODEL_URL": server.url,
            "MODEL_NAME": "stand-in",
            "GITHUB_STEP_SUMMARY": "summary.md",
        }
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        done = here(*shlex.split(os.path.expandvars(steps["Ask"]["run"]))[1:], "--limit", "2")
    assert done.returncode in (0, 4), done.stderr
    assert Path("checks.xml").exists()
    here(*shlex.split(steps["Report"]["run"])[1:]).checked()


def test_the_workflow_gives_its_key_to_no_stranger(written):
    """A pull request from a fork is skipped, and none runs with the rights of the repository."""
    read, steps = workflow(written)
    assert "secrets" not in str(read).replace(str(steps["Ask"]), "")
    assert set(read[True]) == {"push", "pull_request"}  # YAML reads the key `on` as true
    assert read["permissions"] == {"contents": "read"}
    (job,) = read["jobs"].values()
    assert " ".join(job["if"].split()) == (
        "(github.event_name == 'push' && github.ref_name == github.event.repository.default_branch)"
        " || (github.event_name == 'pull_request' &&"
        " github.event.pull_request.head.repo.full_name == github.repository)"
    )


def test_no_link_of_the_folder_leaves_it(written):
    pages = list(written.glob("documents/*.md"))
    links = [(page, to) for page in pages for to in re.findall(r"\]\(([^)#]+)", page.read_text())]
    assert links
    for page, to in links:
        assert (page.parent / to).resolve().is_relative_to(written), to
        assert (page.parent / to).exists(), to
    assert not any(path.is_symlink() for path in written.rglob("*"))


@pytest.mark.parametrize("place", ["questions.jsonl", ".github/workflows/answers.yml"])
def test_nothing_is_overwritten(here, tmp_path, place):
    file = tmp_path / "ours" / place
    file.parent.mkdir(parents=True)
    file.write_text("mine")
    done = here("init", "ours").checked(2)
    assert f"nothing is written, as 'ours' has {place} already" in done.stderr
    assert file.read_text() == "mine"
    assert [path for path in (tmp_path / "ours").rglob("*") if path.is_file()] == [file]


def test_nothing_is_written_through_a_link_that_leads_out(here, tmp_path):
    (tmp_path / "ours").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "ours" / "documents").symlink_to(tmp_path / "elsewhere")
    assert "leads out of 'ours'" in here("init", "ours").checked(2).stderr
    assert not any((tmp_path / "elsewhere").iterdir())
    assert [path.name for path in (tmp_path / "ours").iterdir()] == ["documents"]


def test_a_file_in_its_place_is_one_sentence(here, tmp_path):
    (tmp_path / "ours").write_text("")
    assert "'ours' is a file; name a folder" in here("init", "ours").checked(2).stderr


def test_a_folder_that_is_there_gets_the_files(here, tmp_path):
    (tmp_path / "README.md").write_text("mine")
    here("init").checked()
    assert all((tmp_path / place).exists() for place in FILES)
