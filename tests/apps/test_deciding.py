"""What someone reads who has to decide between an application and methods: numbers that say what they
are of."""

import json
import re

import pytest

from bench import own_application
from tests.llm.endpoints import POCKET
from tests.llm.loopback import Loopback, completion

ASKED = (*range(11), own_application.BROKEN)
"""Places of the questions that are asked; of 6 the application names another page, the last fails."""
UNANSWERED = (2, 9)  # of these, those that get no accepted answer
MODEL = (
    "--model", "endpoint", "--set", "model.source=qwen-of-ours", "model.window=20000",
    f"model.tokenizer={POCKET}",
)  # fmt: skip


@pytest.fixture
def decided(here, tmp_path, monkeypatch):
    """What `harness run` printed for an application, which says its money, beside full-context on a
    server without a price: 60 files, 12 questions, two without an accepted answer."""
    monkeypatch.setattr(own_application, "_SECONDS", (0.0, 0.001))
    own_application.make(tmp_path)
    file = tmp_path / "questions.jsonl"
    lines = file.read_text().splitlines()
    rows = [json.loads(lines[place]) for place in ASKED]
    for place in UNANSWERED:
        del rows[place]["answer"]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    application = own_application.Application(tmp_path / "log.jsonl")

    def app_reply(body):
        return application.answer(body["question"]) or "400"

    def model_reply(body):
        asked = body["messages"][-1]["content"]
        reply = completion("no idea")
        for row in own_application.rows():
            if row.question in asked:
                reply = completion(row.answer)
        reply["usage"] = {"prompt_tokens": len(asked) // 2, "completion_tokens": 4}
        return reply

    with Loopback([app_reply]) as app, Loopback([model_reply]) as server:
        return here(
            "run", "--app", f"bot={app.url}", "--method", "full-context", *MODEL,
            f"model.base_url={server.url}", "--documents", "wiki", "--questions",
            "questions.jsonl", "--mlflow", "off",
        ).checked(3)  # fmt: skip


@pytest.fixture
def rows(decided, here):
    """The rows of the table, by method."""
    found = json.loads(here("report", "results", "--format", "json", "--all").checked().stdout)
    return {row["method"]: row for row in found}


@pytest.fixture
def opening(decided, here, tmp_path):
    """The words that the page opens with."""
    here("report", "results", "--html", "page.html").checked()
    header = (tmp_path / "page.html").read_text().split("<header>")[1].split("</header>")[0]
    return " ".join(re.sub("<[^>]+>", " ", header).split())


def test_documents_are_those_of_the_folder(rows, opening, here):
    assert {row["documents"] for row in rows.values()} == {60}
    assert "wiki, 12 questions about 60 documents" in opening
    below = " ".join(here("report", "results").checked().stdout.split())
    assert (
        "documents: those in the folder, each of which every question may be about; intervals and "
        "tests are over questions"
    ) in below


def test_the_model_of_a_server_has_its_own_name_and_an_application_has_none(rows, here, tmp_path):
    assert {name: row["model"] for name, row in rows.items()} == {
        "bot": "–",
        "full-context": "qwen-of-ours",
    }
    table = here("report", "results").checked().stdout.partition("\n\n")[0]
    assert "qwen-of-ours" in table
    assert not {"endpoint", "application"} & set(table.split())
    here("report", "results", "--html", "page.html").checked()
    page = (tmp_path / "page.html").read_text()
    for name in ("endpoint", "application"):
        assert f">{name}<" not in page
        assert f"· {name}<" not in page


def test_the_only_rows_of_an_application_are_titled_by_the_folder_alone(decided, here, tmp_path):
    (bot,) = (tmp_path / "results" / "wiki").glob("bot--*")
    (title, *_) = here("report", str(bot)).checked().stdout.splitlines()
    assert title == "wiki"


def test_the_verdict_names_the_cost_that_it_compares_and_whose_money_is_unknown(opening):
    assert "of the tokens of full-context, indexes included" in opening
    assert "FLOPs are not compared, as those of bot are unknown." in opening
    assert "Money is not compared, as that of full-context is unknown." in opening
    assert "% of the money" not in opening


def test_the_figure_of_score_against_cost_says_whom_it_lacks(opening, tmp_path):
    page = (tmp_path / "page.html").read_text()
    assert "Not in the figure, as TFLOPs of these are unknown: bot." in page


def test_each_share_names_its_denominator(decided, rows, opening, here):
    note = "2 of 12 questions have no accepted answer; scores of answers are over the other 10"
    assert note in " ".join((decided.stdout + decided.stderr).split())
    # Of the 10 one is wrong, and one fails, which counts 0.
    assert rows["bot"]["right"] == pytest.approx(8 / 10)
    below = " ".join(here("report", "results").checked().stdout.split())
    assert "right: mean over 10 of 12 questions; 2 answers have no value" in below
    assert "80.0" in opening
    assert opening.count("over 10 of 12 questions") == 2
    assert "Failed questions, which count 0: 1 of 12 of bot." in opening
    assert "1 / 0 of 12" in opening
