"""YAML that someone else wrote: no text ends the process, its time or its memory; each is one
sentence."""

import json
import re
import zipfile
from pathlib import Path

import pytest
import yaml

from harness.storage.yaml_text import YAMLProblem, parse_yaml
from tests.made_up import musique_rows, write_rows


def _laughs(first, line):
    """Nine levels of `line`, with the level below in each of nine places."""
    below = (", ".join([f"*l{n}"] * 9) for n in range(9))
    levels = (line.format(n=n, below=names) for n, names in enumerate(below, start=1))
    return "\n".join([f"l0: &l0 {first}", *levels])


TEXTS = {
    "brackets": ("[" * 50_000, "nested more than 100 levels deep"),
    "closed brackets": ("[" * 300 + "]" * 300, "nested more than 100 levels deep"),
    "dashes": ("- " * 50_000, "nested more than 100 levels deep"),
    "keys": ("{a: " * 50_000, "nested more than 100 levels deep"),
    "complex keys": ("? " * 50_000, "nested more than 100 levels deep"),
    "aliases": (_laughs("[lol, lol]", "l{n}: &l{n} [{below}]"), "aliases repeat more than"),
    "merged aliases": (_laughs("{k: lol}", "l{n}: &l{n} {{<<: [{below}]}}"), "aliases repeat"),
    "a long text, repeated": (f"a: &a {'x' * 10_000}\nb: [{'*a, ' * 2_000}]", "aliases repeat"),
    "an alias of itself": ("a: &a [*a]", "the alias *a is inside of what it names"),
    "a long number": (f"a: {'1' * 5_000}", "digits"),
    "an empty number": ("a: !!int ''", "a value is not of its type"),
    "no date": ("a: !!timestamp now", "a value is not of its type"),
    "half an escape": ('a: "\\ud800"', "invalid Unicode character escape code"),
    "another object": ("a: !!python/object/apply:os.system [ls]", "could not determine"),
}


@pytest.mark.parametrize(("text", "problem"), TEXTS.values(), ids=TEXTS)
def test_a_text_that_is_not_read_is_one_error(text, problem):
    with pytest.raises(YAMLProblem, match=re.escape(problem)):
        parse_yaml(text)


def test_aliases_and_levels_of_ordinary_files_are_read():
    text = "a: &a {k: [1, 2]}\nb: [*a, *a]\nc: {<<: *a, d: 3}\n" + "e: " + "[" * 90 + "]" * 90
    assert parse_yaml(text) == yaml.safe_load(text)


@pytest.fixture(scope="module")
def bombs():
    return {name: TEXTS[name][0] for name in ("brackets", "aliases", "a long number")}


@pytest.fixture
def stored(here):
    rows = write_rows(Path.cwd() / "rows.jsonl", musique_rows(1))
    words = ("run", "-m", "echo", "-d", "musique", "--data", str(rows), "--mlflow", "off", "--json")
    done = here(*words).checked()
    return Path(json.loads(done.stdout.splitlines()[-1])["run"])


def _refused(ended, file):
    assert ended.returncode == 2, ended.stderr
    error = ended.stderr.splitlines()[-1]
    assert error.startswith("error: ")
    assert file in error
    assert len(error) < 400


@pytest.mark.parametrize("command", ["report", "compare", "score", "trace", "judge"])
def test_a_received_run_folder(command, here, stored, bombs):
    for text in bombs.values():
        (stored / "run.yaml").write_text(text)
        _refused(here(command, str(stored)), "run.yaml")


def test_a_received_bundle(here, bombs, tmp_path):
    index = {"format": 3, "table": [], "files": {}}
    index["runs"] = {"runs/musique/echo": {"answers": {}, "questions": {}, "scorers": {}}}
    for text in bombs.values():
        with zipfile.ZipFile(tmp_path / "bundle.zip", "w") as made:
            made.writestr("bundle.json", json.dumps(index))
            made.writestr("runs/musique/echo/run.yaml", text)
        _refused(here("verify", "bundle.zip"), "run.yaml")


def test_a_received_manifest_that_is_nested_deeply(here, stored):
    (stored / "manifest.json").write_text("[" * 50_000)
    _refused(here("report", str(stored)), "manifest.json")


@pytest.mark.parametrize(
    "flags",
    [
        ("--config", "bomb.yaml"),
        ("--questions", "bomb.yaml", "--documents", "pages"),
        ("--model", "scripted", "--set", "model.script=bomb.yaml"),
        ("--set", "method.prompts=bomb.yaml"),
    ],
    ids=lambda flags: flags[-1],
)
def test_a_file_of_a_run(flags, here, bombs, tmp_path):
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages/one.md").write_text("A page.\n")
    data = () if "--questions" in flags else ("-d", "pocket/musique")
    for text in bombs.values():
        (tmp_path / "bomb.yaml").write_text(text)
        _refused(here("run", "-m", "bm25", *data, *flags, "--mlflow", "off"), "bomb.yaml")


def test_front_matter_that_is_not_read_is_no_title(here, bombs, tmp_path):
    (tmp_path / "pages").mkdir()
    (tmp_path / "q.jsonl").write_text('{"question": "Where?", "answer": "here"}\n')
    for text in bombs.values():
        (tmp_path / "pages/one.md").write_text(f"---\n{text}\n---\nA page.\n")
        files = ("--documents", "pages", "--questions", "q.jsonl")
        here("run", "-m", "echo", *files, "--mlflow", "off").checked()
