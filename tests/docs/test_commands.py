"""The documents are true: their examples run as they are printed, and the commands they name
exist."""

import re
import sys
from collections.abc import Callable
from glob import glob

import pytest

import harness
from harness.cli.init import FILES
from harness.cli.main import main
from harness.config import presets
from tests.docs.pages import PAGES, ROOT, blocks, split

# Rows that commands of the documents name with --data and dataset.documents.
ROWS = {
    "nq.jsonl": '{"id": "q1", "question": "Who did it?", "golden_answers": ["Ann"]}\n',
    "retrieved.jsonl": '{"id": "q1", "docs": [{"title": "The case", "text": "Ann did it."}]}\n',
    "corpus.jsonl": '{"id": "0", "contents": "\\"The case\\"\\nAnn did it."}\n',
    "dev.jsonl": next(
        block.text for block in blocks(ROOT / "docs" / "extending.md") if block.file == "ours.jsonl"
    ),
}
Cli = Callable[..., tuple[int, str]]


@pytest.fixture
def cli(tmp_path, monkeypatch, capfd):
    """Run a command in this process, in an empty folder with the rows above; returns its exit code
    and what it printed."""
    for name, text in ROWS.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.delenv("HARNESS_CONFIGS", raising=False)
    path, modules = list(sys.path), set(sys.modules)
    # As in the installed script: the current folder is no place for modules.
    monkeypatch.setattr(
        sys,
        "path",
        [str(ROOT), *(place for place in path if place not in ("", ".", str(tmp_path)))],
    )

    def call(*arguments, **variables):
        with monkeypatch.context() as here, pytest.raises(SystemExit) as exit_:
            for name, value in variables.items():
                here.setenv(name, value)
            main(list(arguments))
        out, err = capfd.readouterr()
        return int(exit_.value.code or 0), out + err

    yield call
    for name in set(sys.modules) - modules:
        if (tmp_path / f"{name}.py").exists():
            del sys.modules[name]


def write_example(folder, *files):
    """Write the files of docs/extending.md into a folder; files: only these."""
    for block in blocks(ROOT / "docs" / "extending.md"):
        if block.file and (not files or block.file in files):
            (folder / block.file).parent.mkdir(parents=True, exist_ok=True)
            (folder / block.file).write_text(block.text, encoding="utf-8")


def _run(block, cli):
    for line, printed in block.commands():
        variables, (program, *words) = split(line)
        arguments = [name for word in words for name in (sorted(glob(word)) or [word])]
        assert program == "harness", line
        if arguments[0] == "run":
            arguments += ["--mlflow", "off"]
        code, output = cli(*arguments, **variables)
        assert code == 0, f"{line}\n{output}"
        for expected in printed:
            assert expected in output, f"{line}\n{output}"


# The examples of these pages need a server: tests/apps/test_page.py and test_choose.py run them.
_WITH_SERVERS = ("applications.md", "choose.md")
RUN_HERE = [page for page in PAGES if page.name not in _WITH_SERVERS]


@pytest.mark.parametrize("page", RUN_HERE, ids=lambda page: page.name)
def test_examples_run_as_they_are_printed(page, cli, tmp_path, monkeypatch):
    names = {}
    for block in blocks(page):
        if block.file:
            path = tmp_path / block.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
        elif block.language == "console":
            _run(block, cli)
        elif block.language == "python":
            monkeypatch.syspath_prepend(str(tmp_path))
            exec(block.text, names)


def _named():
    return [
        (page.name, line)
        for page in PAGES
        for block in blocks(page)
        if block.language in ("bash", "console")
        for line in (
            block.lines() if block.language == "bash" else [line for line, _ in block.commands()]
        )
    ]


def test_commands_name_options_and_presets_that_exist(cli):
    """Also those that are not run here because they need a download, a server or hours."""
    helps = {}
    kinds = {
        "--method": "methods",
        "--dataset": "datasets",
        "--suite": "suites",
        "--profile": "profiles",
    }
    seen = 0
    for page, line in _named():
        variables, words = split(line)
        where = f"{page}: {line}"
        if words[:1] == ["make"]:
            assert re.search(
                rf"^{words[1]}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M
            ), where
        if words[:1] != ["harness"]:
            continue
        seen += 1
        command = tuple(words[1:3]) if words[1] in ("pocket", "study") else tuple(words[1:2])
        if (
            words[1] == "report"
            and words[2:3]
            and words[2] in ("curves", "nodes", "queries", "sweep", "tokens")
        ):
            command = tuple(words[1:3])
        if command not in helps:
            code, helps[command] = cli(*command, "--help")
            assert code == 0, where
        for word in words[1:]:
            if word.startswith("--"):
                assert re.search(rf"{word.partition('=')[0]}\b", helps[command]), (
                    f"{where}: no option {word}"
                )
        if not variables:
            for option, kind in kinds.items():
                if option in words:
                    for name in words[words.index(option) + 1].split(","):
                        known = (
                            name in presets.names(kind) or f"configs/{kind}/{name}.yaml" in FILES
                        )
                        assert known, f"{where}: no {option} {name}"
    assert seen > 40


def test_run_folder_of_the_example_has_the_scores_that_the_page_explains(cli, tmp_path):
    """The example method, data set and scorer of docs/extending.md work together."""
    write_example(tmp_path)
    choices = [
        "--method",
        "lead",
        "--dataset",
        "mine",
        "--data",
        "rows.jsonl",
        "--model",
        "replayed",
    ]
    code, output = cli("run", *choices, "--mlflow", "off", HARNESS_CONFIGS=".")
    assert code == 0, output
    (folder,) = (tmp_path / "results" / "mine").iterdir()
    run = harness.read_run(folder)
    assert run.records[0].prediction == "Ann"
    assert run.records[0].scores == {
        "longbench.qa_f1_score": 1.0,
        "evidence_recall": 1.0,
        "mine:brevity": 1.0,
    }
    assert re.fullmatch(r"1 \(code [0-9a-f]{8}\)", run.manifest.scorers["mine:brevity"])


@pytest.mark.parametrize(
    ("scorer", "message"),
    [
        ("mine:brev", "Did you mean 'brevity'"),
        ("nowhere:f", "no module 'nowhere'"),
        ("mine:1x", "of the form module:"),
    ],
)
def test_a_scorer_that_does_not_exist(cli, tmp_path, scorer, message):
    write_example(tmp_path, "mine.py", "datasets/mine.yaml", "rows.jsonl")
    choices = [
        "--method",
        "bm25",
        "--dataset",
        "mine",
        "--data",
        "rows.jsonl",
        "--set",
        f"dataset.scorers=[{scorer}]",
    ]
    code, output = cli("validate", *choices, HARNESS_CONFIGS=".")
    assert (code, message in output) == (2, True), output


def test_each_real_command_of_the_readme_is_the_papers_setting_or_says_that_it_is_not():
    """In the command itself, or in the paragraph behind it."""
    paragraphs = (ROOT / "README.md").read_text(encoding="utf-8").split("\n\n")
    real = [
        i
        for i, text in enumerate(paragraphs)
        if re.search(r"harness run .*--dataset (?!pocket/)", text)
    ]
    assert real
    assert all("--profile paper" in "".join(paragraphs[i : i + 2]) for i in real)
