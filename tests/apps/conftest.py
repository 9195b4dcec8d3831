import json

import pytest

from tests.apps.wiki import write_wiki


@pytest.fixture
def wiki(tmp_path):
    """The folder with wiki/ and questions.jsonl."""
    write_wiki(tmp_path)
    return tmp_path


@pytest.fixture
def run(here, wiki):
    """Run `harness run` with --app on the wiki."""

    def call(app, *more):
        return here(
            "run", "--app", app, "--documents", "wiki", "--questions", "questions.jsonl",
            "--mlflow", "off", *more,
        )  # fmt: skip

    return call


@pytest.fixture
def records(wiki):
    """The records of the only run of a name, by question."""

    def read(name):
        (file,) = (wiki / "results" / "wiki").glob(f"{name}--*/records.jsonl")
        rows = [json.loads(line) for line in file.read_text().splitlines()]
        return {row["question_id"]: row for row in rows}

    return read


@pytest.fixture
def table(here):
    """The rows of the table, by method."""

    def read():
        rows = json.loads(here("report", "results", "--format", "json", "--all").checked().stdout)
        return {row["method"]: row for row in rows}

    return read
