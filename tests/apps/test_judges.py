"""Judges that ask several requests about an answer: claims, citations, pairs of runs."""

import json
from pathlib import Path

import nltk
import pytest
from nltk.tokenize.punkt import PunktTokenizer

from harness.storage.run_folder import read_run
from tests.apps.wiki import ANSWERS
from tests.llm.endpoints import POCKET, content
from tests.llm.loopback import Loopback, completion
from tests.nltk_data import nltk_data

APP = """
import json, pathlib
def answer(question):
    replies = json.loads(pathlib.Path(__file__).with_name("{name}.json").read_text())
    reply = replies.get(question, {{"answer": "I do not know", "contexts": ["served at noon"]}})
    if reply.get("fails"):
        raise ValueError("down")
    return reply
"""
WARRANTY, PRICE, TEAM, TRAINS, GARAGE = ANSWERS


@pytest.fixture
def answered(run, configs, wiki):
    """Run an application with these replies; returns the run's folder."""

    def call(name, replies, code=0):
        (configs / f"{name}.py").write_text(APP.format(name=name))
        (configs / f"{name}.json").write_text(json.dumps(replies))
        run(f"{name}={name}:answer").checked(code)
        (folder,) = (wiki / "results" / "wiki").glob(f"{name}--*")
        return folder

    return call


@pytest.fixture
def judge(here, wiki):
    """Let a scripted judge judge; rules: (a text in the request, the reply)."""

    def call(folders, kind, rules, *more):
        script = {"replies": [{"when": when, "reply": reply} for when, reply in rules]}
        (wiki / "script.yaml").write_text(json.dumps(script))
        return here(
            "judge", *map(str, folders), "--model", "scripted", "--kind", kind,
            "--set", "model.script=script.yaml", *more,
        )  # fmt: skip

    return call


def scores(folder, name):
    return {row.question_id: row.scores.get(name) for row in read_run(folder).records}


def reply(answer, *contexts):
    return {"answer": answer, "contexts": list(contexts)}


CLAIMED = {
    WARRANTY: reply("Two years, and it is free.", "lasts two years"),
    PRICE: reply("Forty euros.", "costs forty euros"),
    TEAM: reply("Nobody knows.", "Mira leads the team"),
    TRAINS: {"answer": "Ghent.", "sources": ["travel.md"]},
}
CLAIM_RULES = [
    ("Answer: Two years, and it is free.\n\nWrite", "- It lasts two years.\n- It is free."),
    ("Answer: Forty euros.\n\nWrite", "It costs forty euros"),
    ("\n\nWrite one claim", "none"),
    ("Claims:\n1: It lasts two years.\n2: It is free.", "1: yes\n2: no"),
]


def test_claims_are_judged_one_by_one_and_what_cannot_be_read_has_no_score(
    answered, judge, here, table
):
    folder = answered("claims", CLAIMED)
    done = judge([folder], "claim-faithfulness", CLAIM_RULES).checked()
    name = "judge.scripted.claim-faithfulness"
    found = {"q1": 0.5, "q2": None, "q3": None, "q4": None, "q5": None}
    assert scores(folder, name) == found
    assert "1 whose reply cannot be read, not scored" in done.stdout
    assert "2 without a claim, not scored" in done.stdout
    assert "1 whose application says no context, not scored" in done.stdout
    (first, *_) = read_run(folder).records
    judged = first.notes["judges"][name]
    assert judged == {"verdict": "1 of 2", "reply": "yes: It lasts two years.\nno: It is free."}
    assert table()["claims"][name] == 0.5
    printed = here("report", "results").checked().stdout
    assert name in printed.split("method", 1)[1].splitlines()[0].split()
    report = " ".join(printed.split())
    assert f"{name}: share of an answer's claims that the shown texts support" in report
    assert "4 of 5 answers have no score (1 contexts not said, 2 no claims, 1 unclear)" in report


def test_the_same_claims_are_extracted_once_for_all_kinds(answered, here):
    folder = answered("claims", CLAIMED)

    def judge_reply(body):
        if "Write one claim" in content(body):
            return completion("- A claim.")
        return completion("1: yes")

    with Loopback([judge_reply]) as server:
        words = [
            "judge", str(folder), "--model", "endpoint", "--set", f"model.base_url={server.url}",
            f"model.tokenizer={POCKET}", "model.price.input=1000000", "model.price.output=0",
        ]  # fmt: skip
        here(*words, "--kind", "claim-faithfulness").checked()
        before = len(server.asked)
        done = here(*words, "--kind", "claim-correctness", "--json").checked()
        later = [content(body) for body in server.asked[before:]]
    # An application that says no context was not split into claims before.
    assert [text for text in later if "Write one claim" in text] == [
        text for text in later if "Answer: Ghent.\n\nWrite" in text
    ]
    assert len(later) == 6
    result = json.loads(done.stdout)
    assert (result["score"]["mean"], result["money"]) == (1, result["tokens_in"])


def test_a_fleet_of_judges_says_which_server_is_absent_and_what_each_did(answered, here):
    folder = answered("claims", CLAIMED)
    with Loopback() as gone:
        pass
    with Loopback([lambda body: completion("- A claim.")]) as server:
        done = here(
            "judge", str(folder), "--model", "endpoint", "--kind", "claim-faithfulness", "--set",
            f"model.base_url={server.url},{gone.url}", f"model.tokenizer={POCKET}",
        ).checked()  # fmt: skip
        asked = len(server.asked)
    assert f"no server answers at {gone.url}" in done.stderr
    assert f"{server.url}: {asked} requests, " in done.stderr
    assert f"{gone.url}: 0 requests, " in done.stderr


def test_completeness_is_the_share_of_the_accepted_answers_claims(answered, judge):
    folder = answered("claims", CLAIMED)
    rules = [
        ("Answer: two years\n\nWrite", "- It lasts two years.\n- It is of 2026."),
        ("\n\nWrite one claim", "- Another claim."),
        ("Answer: Two years, and it is free.\n\nClaims:\n1: It lasts", "1: yes\n2: no"),
        ("\n\nClaims:", "1: no"),
    ]
    judge([folder], "claim-completeness", rules).checked()
    found = scores(folder, "judge.scripted.claim-completeness")
    assert found == {"q1": 0.5, "q2": 0, "q3": 0, "q4": 0, "q5": 0}


CITED = {
    WARRANTY: reply("It lasts two years [1]. It is free [2]. Dr. Bo said so.", "two years", "soup"),
    PRICE: reply("It costs forty euros [1][2].", "forty euros", "costs"),
    TEAM: reply("Mira [3].", "Mira leads"),
    TRAINS: reply("In Ghent.", "Ghent"),
    GARAGE: reply("It closes at ten on Fridays [1][2]. It closes [1, 2].", "at ten", "on Fridays"),
}
CITATION_RULES = [
    ("Texts:\nat ten\n\non Fridays\n\n", "yes"),
    ("Statement: It closes.", "yes"),
    ("Texts:\ntwo years\n\nQuestion: How long is the warranty?\n\nStatement: It lasts", "yes"),
    ("Texts:\nforty euros\n\ncosts\n\n", "yes"),
    ("Texts:\nforty euros\n\nQuestion", "yes"),
    ("", "no"),
]


def test_statements_are_checked_against_the_texts_that_they_cite(answered, judge, table):
    folder = answered("cites", CITED)
    done = judge([folder], "citation-recall", CITATION_RULES).checked()
    found = scores(folder, "judge.scripted.citation-recall")
    assert found == {"q1": pytest.approx(1 / 3), "q2": 1, "q3": 0, "q4": 0, "q5": 1}
    assert "1 without a citation, scored 0" in done.stdout
    judge([folder], "citation-precision", CITATION_RULES).checked()
    found = scores(folder, "judge.scripted.citation-precision")
    # Of [1][2] of q2 the second supports nothing alone, and the first does without it; of q5 both are
    # needed for the first statement, and each supports the second.
    assert found == {"q1": 0.5, "q2": 0.5, "q3": 0, "q4": 0, "q5": 1}
    assert table()["cites"]["judge.scripted.citation-precision"] == pytest.approx(0.4)


MILL = "Document [3](Title: Mill): Ann built it.\n\nDocument [7](Title: Abel): It stands."
NUMBERED = {
    WARRANTY: reply("Ann built\nit [3]. It stands [7][3]. It is old [9][3].", MILL),
    PRICE: reply("It stands [3][3].", MILL),
    TEAM: reply("It stands.", MILL),
    TRAINS: reply("Ann built [3], a barn [7], Bo [4].", MILL),
    GARAGE: reply("Ann built [7][7][3][7].", MILL),
}
ABEL = "Title: Abel\nIt stands."
ENTAILMENTS = [
    ("Title: Mill\nAnn built it.\n\nStatement: Ann built it.\n", "yes"),
    (f"{ABEL}\n\nTitle: Mill\nAnn built it.\n\nStatement: It stands.\n", "yes"),
    (f"Passages:\n{ABEL}\n\nStatement: It stands.\n", "yes"),
    (f"{ABEL}\n\nTitle: Mill\nAnn built it.\n\nStatement: Ann built.\n", "yes"),
    (f"Statement: {TRAINS} Ann built\n", "yes"),
    ("", "no"),
]


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        ("alce-recall", [2 / 3, 0, 0, 0, 1]),
        ("alce-precision", [2 / 3, 0, 0, 0, 1 / 3]),
        ("alce-list-recall", [0, 0, 0, 1 / 3, 0]),
        ("alce-list-precision", [0, 0, 0, 1 / 2, 0]),
    ],
)
def test_numbered_passages_are_judged_as_by_alces_code(
    kind, found, answered, judge, monkeypatch, tmp_path
):
    """The values are those of the published code for a model that infers the same."""
    monkeypatch.setattr(nltk.data, "path", [nltk_data(tmp_path / "nltk")])
    folder = answered("numbered", NUMBERED)
    judge([folder], kind, ENTAILMENTS).checked()
    stored = scores(folder, f"judge.scripted.{kind}")
    assert list(stored.values()) == [pytest.approx(score) for score in found]


def test_alces_sentences_need_nltks_data(answered, judge, monkeypatch):
    monkeypatch.setattr(nltk.data, "path", [])
    monkeypatch.setattr(nltk.tokenize, "_get_punkt_tokenizer", PunktTokenizer)
    done = judge([answered("numbered", NUMBERED)], "alce-recall", ENTAILMENTS)
    assert (done.returncode, "nltk.downloader punkt_tab" in done.stderr) == (2, True)


OLD = {
    WARRANTY: reply("old one"),
    PRICE: reply("old two"),
    TEAM: reply("the same"),
    TRAINS: {"fails": True},
    GARAGE: reply("old five"),
}
NEW = {
    WARRANTY: reply("new one"),
    PRICE: reply("new two"),
    TEAM: reply("the same"),
    TRAINS: reply("new four"),
    GARAGE: reply("new five"),
}
PAIR_RULES = [
    ("Answer 1: new one\n\nAnswer 2: old one", "1"),
    ("Answer 1: old one\n\nAnswer 2: new one", "2"),
    ("Answer 1: new two", "1"),
    ("Answer 1: old two", "1"),
    ("Answer 1: new five", "both are good"),
    ("Answer 1: old five", "2"),
]


def test_pairs_are_asked_in_both_orders_and_disagreement_is_a_tie(answered, judge, here, table):
    old, new = answered("old", OLD, 3), answered("new", NEW)
    done = judge([new, old], "pairwise", PAIR_RULES, "--json").checked()
    name = f"judge.scripted.pairwise.{old.name.rpartition('--')[2]}"
    found = {"q1": 1, "q2": 0.5, "q3": 0.5, "q4": 1, "q5": None}
    assert scores(new, name) == found
    result = json.loads(done.stdout)
    assert (result["judge"], result["unclear"]) == (name, 1)
    pairs = result["pairs"]
    assert (pairs["wins"], pairs["ties"], pairs["losses"]) == (2, 2, 0)
    assert pairs["difference"] == pytest.approx(0.5)
    assert (pairs["documents"], result["tokens_in"] > 0) == (4, True)
    entry = read_run(new).manifest.judges[name]
    assert (entry.other_run, entry.usage["tokens_in"] > 0) == (old.name, True)
    assert table()["new"][name] == pytest.approx(0.75)
    assert table()["old"].get(name) is None
    report = " ".join(here("report", "results").checked().stdout.split())
    assert f"preferred to that of {old.name}; a tie counts half" in report


def test_a_run_that_fails_loses_the_question(answered, judge):
    old, new = answered("old", OLD, 3), answered("new", NEW)
    rules = [(when, "0") for when, _ in PAIR_RULES]
    done = judge([old, new], "pairwise", rules, "--name", "beside-new").checked()
    assert "wins 0, ties 4, losses 1 beside" in done.stdout
    assert scores(old, "judge.beside-new")["q4"] == 0


def test_two_runs_with_the_same_questions_are_compared(answered, judge, run, wiki):
    new = answered("new", NEW)
    assert "compares two runs; 1 are named" in judge([new], "pairwise", []).checked(2).stderr
    run("new=new:answer", "--limit", "2", "--out", "fewer").checked()
    (fewer,) = Path("fewer").glob("*/new--*")
    refused = judge([new, fewer], "pairwise", []).checked(2)
    assert "do not have the same questions" in refused.stderr


def test_a_prompt_of_ones_own_does_not_fit_several_requests(answered, judge):
    folder = answered("claims", CLAIMED)
    Path("mine.txt").write_text("{answer}")
    refused = judge([folder], "claim-faithfulness", [], "--prompt", "mine.txt").checked(2)
    assert "claim-faithfulness has several prompts of its own" in refused.stderr


def test_a_gate_waits_for_the_judge_that_it_names(answered, judge, here):
    folder = answered("claims", CLAIMED)
    name = "judge.scripted.claim-faithfulness"
    gated = (
        "run", "--app", "claims=claims:answer", "--documents", "wiki",
        "--questions", "questions.jsonl", "--mlflow", "off", "--fail-under",
    )  # fmt: skip
    unjudged = here(*gated, f"{name}=40").checked(4)
    assert f"{name} has judged 0 of 5 questions; run harness judge" in unjudged.stderr
    judge([folder], "claim-faithfulness", CLAIM_RULES).checked()
    assert "over the 1 of 5 that have a score" in here(*gated, f"{name}=40").checked().stderr
    here(*gated, f"{name}=60").checked(4)


def test_a_gate_fails_where_questions_came_after_the_judge(judge, here, configs, wiki):
    (configs / "later.py").write_text(APP.format(name="later"))
    (configs / "later.json").write_text(json.dumps(CLAIMED))
    words = (
        "run", "--app", "later=later:answer", "--documents", "wiki",
        "--questions", "questions.jsonl", "--mlflow", "off",
    )  # fmt: skip
    here(*words, "--limit", "2").checked()
    (folder,) = (wiki / "results" / "wiki").glob("later--*")
    name = "judge.scripted.claim-faithfulness"
    judge([folder], "claim-faithfulness", CLAIM_RULES).checked()
    gated = here(*words, "--fail-under", f"{name}=40").checked(4)
    assert f"{name} has judged 2 of 5 questions" in gated.stderr
