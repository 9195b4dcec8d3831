"""A judge that judges by rule (does a text contain the answer?), so that what `harness judge` makes of
its verdicts can be computed by hand.

Twenty questions, each about a page of its own, in five groups of four numbers n:

    n % 4   mine                                            other
    0       wrong, cites a text that does not say it        right
    1, 3    right, then something that no text says         right (1), wrong (3)
    2       right, then what the second text says alone     wrong
"""

import json
import re

import pytest
from openpyxl import load_workbook

from harness.storage.run_folder import read_run
from tests.llm.endpoints import POCKET, content
from tests.llm.loopback import Loopback, completion

N = 20
NUMBERS = range(N)
APP = """
def number_of(question):
    return int(question.split()[-1])

def mine(question):
    n = number_of(question)
    answer = f"It is word{n:02} [1]. It is big{n:02} [2]."
    if n % 4 == 0:
        answer = f"It is blue{n:02} [1]."
    if n % 4 == 2:
        answer = f"It is word{n:02} [1]. It is big{n:02} [1][2]."
    second = "The page says nothing."
    if n % 2 == 0:
        second = f"The page says big{n:02}."
    return {"answer": answer, "contexts": [f"The page says word{n:02}.", second]}

def other(question):
    n = number_of(question)
    name = "word" if n % 4 in (0, 1) else "blue"
    return {"answer": f"It is {name}{n:02}.", "contexts": []}
"""


def between(text, start, end):
    return text.split(start, 1)[1].split(end, 1)[0]


def says(text, statement):
    """Whether a text contains the last word of a statement."""
    (word,) = re.findall(r"(\w+)\W*$", statement)
    return word in text


def numbered(prompt, verdict):
    """A verdict on each of the claims that a prompt lists."""
    claims = re.findall(r"^(\d+): (.+)$", between(prompt, "Claims:\n", "\n\nWrite"), re.M)
    return "\n".join(f"{number}: {'yes' if verdict(claim) else 'no'}" for number, claim in claims)


def judged(prompt):
    """The reply of the judge by rule."""
    if "Write one claim a line" in prompt:
        answer = between(prompt, "Answer: ", "\n\nWrite one claim")
        claims = re.findall(r"[^.\[\]]*\w+\d\d", answer)
        return "\n".join(f"- {claim.strip()}" for claim in claims)
    if "whether texts support it" in prompt:
        texts = between(prompt, "Texts:\n", "\n\nClaims:")
        return numbered(prompt, lambda claim: says(texts, claim))
    if "whether it is right. You" in prompt:
        (accepted,) = between(prompt, "Correct answers:\n", "\n\nClaims:").splitlines()
        return numbered(prompt, lambda claim: accepted.removeprefix("- ") in claim)
    if "whether an answer to a question states it" in prompt:
        answer = between(prompt, "Answer: ", "\n\nClaims:")
        return numbered(prompt, lambda claim: says(answer, claim))
    if "Statement: " in prompt:
        texts = between(prompt, "Texts:\n", "\n\nQuestion:")
        return "yes" if says(texts, between(prompt, "Statement: ", "\n\n")) else "no"
    accepted = re.search(r"^- (word\d\d)$", prompt, re.M)[1]
    if "Answer 1: " in prompt:
        first = accepted in between(prompt, "Answer 1: ", "\n\n")
        second = accepted in between(prompt, "Answer 2: ", "\n\n")
        # Of two right answers it prefers the one that is shown first, as real judges may.
        return "1" if first else "2" if second else "0"
    return "yes" if accepted in between(prompt, "Answer to judge: ", "\n\n") else "no"


@pytest.fixture
def folders(here, configs, tmp_path):
    """The runs of the two applications, by name."""
    pages = tmp_path / "pages"
    pages.mkdir()
    rows = []
    for n in NUMBERS:
        (pages / f"p{n:02}.txt").write_text(f"The page says word{n:02}.")
        row = {"id": f"q{n:02}", "question": f"What is {n:02}", "document": f"p{n:02}"}
        rows.append(json.dumps({**row, "answer": f"word{n:02}"}))
    (tmp_path / "twenty.jsonl").write_text("\n".join(rows))
    (configs / "both.py").write_text(APP)
    here(
        "run", "--app", "mine=both:mine,other=both:other", "--documents", "pages",
        "--questions", "twenty.jsonl", "--mlflow", "off", "-q",
    ).checked()  # fmt: skip
    found = (tmp_path / "results" / "pages").iterdir()
    return {folder.name.partition("--")[0]: folder for folder in found}


@pytest.fixture
def judge(here):
    """Let the judge by rule judge runs; the result as JSON. Its score is "judge.KIND"."""

    def call(*folders, kind="correctness"):
        with Loopback([lambda body: completion(judged(content(body)))]) as server:
            done = here(
                "judge", *map(str, folders), "--model", "endpoint", "--kind", kind, "--name",
                kind, "--json", "--set", f"model.base_url={server.url}",
                f"model.tokenizer={POCKET}",
            ).checked()  # fmt: skip
        return json.loads(done.stdout)

    return call


def by_group(folder, kind):
    """Group (n % 4) -> the one score of a kind that all of its answers have."""
    found = {}
    for record in read_run(folder).records:
        group = int(record.question_id[1:]) % 4
        found.setdefault(group, set()).add(round(record.scores[f"judge.{kind}"], 6))
    return {group: score for group, (score,) in sorted(found.items())}


BY_HAND = {
    # One claim, in no text; two, of which one is; two, of which both are.
    "claim-faithfulness": ([0, 1 / 2, 1, 1 / 2], 0.5),
    # One claim is the accepted answer, of two.
    "claim-correctness": ([0, 1 / 2, 1 / 2, 1 / 2], 0.375),
    # The accepted answer has one claim.
    "claim-completeness": ([0, 1, 1, 1], 0.75),
    "citation-recall": ([0, 1 / 2, 1, 1 / 2], 0.5),
    # Group 2 cites three times: the second sentence's [1] says nothing of it, and is not needed.
    "citation-precision": ([0, 1 / 2, 2 / 3, 1 / 2], 5 / 12),
    "correctness": ([0, 1, 1, 1], 0.75),
}


def test_scores_are_those_that_the_rule_gives_by_hand(folders, judge):
    for kind, (scores, mean) in BY_HAND.items():
        result = judge(folders["mine"], kind=kind)
        assert by_group(folders["mine"], kind) == dict(
            enumerate(pytest.approx(score, abs=1e-6) for score in scores)
        )
        assert result["score"]["mean"] == pytest.approx(mean)
        assert result["unclear"] == 0


def test_a_pair_is_won_in_both_orders_or_it_is_a_tie(folders, judge):
    result = judge(folders["mine"], folders["other"], kind="pairwise")
    # Right against wrong in groups 2 and 3, wrong against right in 0; both right in 1, where the
    # judge prefers what is shown first.
    assert by_group(folders["mine"], "pairwise") == {0: 0, 1: 0.5, 2: 1, 3: 1}
    pairs = result["pairs"]
    assert (pairs["wins"], pairs["ties"], pairs["losses"]) == (10, 5, 5)
    assert pairs["difference"] == pytest.approx((10 - 5) / 20)
    assert result["score"]["mean"] == pytest.approx((10 + 5 / 2) / 20)
    ties = [
        record.notes["judges"]["judge.pairwise"]["reply"]
        for record in read_run(folders["mine"]).records
        if int(record.question_id[1:]) % 4 == 1
    ]
    assert set(ties) == {"shown first: 1, shown second: 1"}


def test_kappa_and_the_share_that_people_would_call_right_are_those_by_hand(
    folders, judge, here, tmp_path
):
    judge(folders["mine"])
    here("judge", str(folders["mine"]), "--sheet", "sheet.xlsx").checked()
    book = load_workbook("sheet.xlsx")
    for line in book.worksheets[0].iter_rows(min_row=2):
        n = int(line[1].value.split()[-1])
        if n < 12:
            by_judge = n % 4 != 0
            line[5].value = "yes" if by_judge != (n in (1, 4)) else "no"  # differs in 1 and 4
            line[6].value = "yes" if by_judge != (n == 2) else "no"  # differs in 2
    book.save("sheet.xlsx")
    done = here("judge", str(folders["mine"]), "--labels", "sheet.xlsx", "--json").checked()
    result = json.loads(done.stdout)
    kappas = {(pair["a"], pair["b"]): (pair["n"], pair["kappa"]) for pair in result["agreement"]}
    # Of 12 the judge calls 9 right, person 1 calls 9, person 2 calls 8; (seen - chance) / (1 - chance):
    # (10/12 - 90/144) / (54/144), (11/12 - 84/144) / (60/144), (9/12 - 84/144) / (60/144).
    assert kappas == {
        ("judge.correctness", "right"): (20, 1.0),
        ("judge.correctness", "person 1"): (12, pytest.approx(5 / 9)),
        ("judge.correctness", "person 2"): (12, pytest.approx(0.8)),
        ("person 1", "person 2"): (12, pytest.approx(0.4)),
    }
    (people,) = result["people"]
    assert (people["judge.mean"], people["labels.mean"]) == pytest.approx((0.75, 8.5 / 12))
    # Judge's mean of all, and the mean of label minus judge over the labelled: .75 + (8.5 - 9) / 12.
    assert people["joined.mean"] == pytest.approx(0.75 - 0.5 / 12)
    # Label - .4 judge of the labelled: squares of deviations sum to .789167; .4 judge of the other 8:
    # .24. Variance (.789167 / 144 + .24 / 64) 12 / 11 = .0100694, and 2 / 14 of what the first part
    # lacks to .25 / 12: .0021933; times t(11) = 2.200985: +- .243731.
    assert people["joined.low"] == pytest.approx(0.708333 - 0.243731, abs=2e-5)
    assert people["joined.high"] == pytest.approx(0.708333 + 0.243731, abs=2e-5)
