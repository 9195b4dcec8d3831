"""What rows say of the right answer, through the installed command: unknown, unanswerable, several,
pages alone, assertions."""

import json
import time

import pytest

REPLIES = {
    "Who leads?": "It is led by Mira Oz.",
    "Who left?": "The text does not say who left.",
    "Who pays?": "The office in Ghent pays.",
    "As JSON?": '{"plan": "large", "euros": 40}',
}


@pytest.fixture
def ask(here, tmp_path):
    """Ask questions about one page with a reader of fixed replies; returns what ended, the records
    by question, and the summary."""

    def run(rows, *more, name="q.jsonl"):
        (tmp_path / "wiki").mkdir(exist_ok=True)
        (tmp_path / "wiki/a.md").write_text("# Team\n\nMira Oz leads.\n\n# Money\n\nGhent pays.")
        script = [
            {"when": f"Question: {question}", "reply": reply} for question, reply in REPLIES.items()
        ]
        script.append({"reply": "7"})
        (tmp_path / "script.json").write_text(json.dumps({"window": 9999, "replies": script}))
        text = rows if isinstance(rows, str) else "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / name).write_text(text)
        ended = here(
            "run", "--method", "full-context", "--documents", "wiki", "--questions", name,
            "--model", "reader", "--set", "model.backend=scripted", "model.script=script.json",
            "--mlflow", "off", *more,
        )  # fmt: skip
        files = sorted(tmp_path.glob("results/*/*/records.jsonl"))
        if not files:
            return ended, {}, {}
        lines = map(json.loads, files[-1].read_text().splitlines())
        summary = json.loads((files[-1].parent / "summary.json").read_text())
        return ended, {line["question"]: line for line in lines}, summary

    return run


def test_a_question_without_an_answer_is_asked_and_no_score_of_answers_counts_it(ask, here):
    ended, records, summary = ask(
        [{"question": "Who pays?"}, {"question": "Who leads?", "answers": ["Oz", "Mira Oz"]}]
    )
    assert (
        "1 of 2 questions has no accepted answer; scores of answers are over the other 1"
        in ended.checked().stderr
    )
    assert records["Who pays?"]["scores"] == {}
    assert records["Who pays?"]["usage"]["answer"]["tokens_in"] > 0
    assert (summary["n_total"], summary["scores"]["right"]["n"]) == (2, 1)
    assert summary["scores"]["right"]["mean"] == 1


def test_a_file_without_any_answer_has_no_score_and_not_0(ask, here):
    _, _, summary = ask([{"question": "Who pays?"}])
    assert summary["scores"] == {}
    table = json.loads(here("report", "results", "--format", "json", "--all").checked().stdout)
    assert table[0].get("right") is None


def test_unanswerable_questions_are_right_where_they_are_declined(ask):
    _, records, summary = ask(
        [
            {"question": "Who left?", "answerable": False},
            {"question": "Who pays?", "answerable": "no"},
            {"question": "Who leads?", "answer": "Mira", "answerable": True},
        ]
    )
    assert [row["scores"]["right"] for row in records.values()] == [1, 0, 1]
    means = {name: score["mean"] for name, score in summary["scores"].items()}
    assert means["abstention.declines"] == pytest.approx(0.5)
    assert means["abstention.answers"] == 1
    assert summary["scores"]["abstention.declines"]["n"] == 2


@pytest.mark.parametrize(
    ("page", "score"),
    [("a", {"evidence_pages"}), ("a#Team", {"evidence_pages", "evidence_recall"})],
)
def test_whole_pages_have_recall_by_page_alone(ask, page, score):
    _, records, _ = ask([{"question": "Who leads?", "gold_pages": [page]}])
    got = records["Who leads?"]["scores"].keys() & {"evidence_pages", "evidence_recall"}
    assert got == score


SCHEMA = {
    "type": "object",
    "required": ["plan"],
    "properties": {"plan": {"type": "string", "pattern": "^(large|small)$"}},
}
ASSERTED = {
    "all hold": ({"contains": ["Mira", "led by"], "not_contains": "Ada", "regex": "Mira \\w+"}, []),
    "a text is missing": ({"contains": "Ada"}, ["does not contain 'Ada'"]),
    "one is there": ({"not_contains": ["Mira"]}, ["contains 'Mira'"]),
    "no match": ({"regex": "^Mira"}, ["does not match '^Mira'"]),
    "no JSON": ({"json_schema": SCHEMA}, ["is no JSON"]),
}


@pytest.mark.parametrize("case", ASSERTED)
def test_assertions_hold_or_say_what_failed(ask, case):
    assertions, failed = ASSERTED[case]
    _, records, summary = ask([{"question": "Who leads?", "answer": "Mira", **assertions}])
    record = records["Who leads?"]
    said = record["notes"].get("failed_assertions", [])
    assert said == failed
    assert summary["scores"]["assertions"]["mean"] == float(not said)
    assert record["scores"]["right"] == 1


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (SCHEMA, []),
        ({**SCHEMA, "required": ["price"]}, ["does not fit the schema: 'price' is a required"]),
        ({"properties": {"plan": {"pattern": "^small"}}}, ["does not fit the schema"]),
    ],
)
def test_a_reply_fits_a_json_schema(ask, schema, said):
    _, records, _ = ask([{"question": "As JSON?", "json_schema": schema}])
    failed = records["As JSON?"]["notes"].get("failed_assertions", [])
    assert len(failed) == len(said)
    assert all(words in sentence for words, sentence in zip(said, failed, strict=True))


def test_assertions_are_in_the_table_and_gate_a_job(ask, here):
    rows = [
        {"question": "Who leads?", "contains": "Mira"},
        {"question": "Who pays?", "regex": "^x"},
    ]
    ask(rows, "--fail-under", "assertions=50")[0].checked()
    ask(rows, "--fail-under", "assertions=60")[0].checked(4)
    shown = here("report", "results").checked().stdout
    assert "assertions" in shown
    assert "50.0" in shown


def test_a_table_of_text_has_them_too(ask):
    text = "question;answer;answerable;contains;max_seconds\nWho leads?;Mira;;Mira;60\n"
    _, records, _ = ask(text + "Who left?;;false;;\n", name="q.csv")
    assert records["Who leads?"]["scores"]["assertions"] == 1
    assert records["Who left?"]["scores"]["right"] == 1


def test_a_pattern_that_would_not_end_fails_in_time(ask):
    began = time.monotonic()
    REPLIES["Long?"] = "a" * 40 + "!"
    try:
        row = {"question": "Long?", "regex": "(a|aa)+$", "json_schema": {"pattern": "(a+)+$"}}
        _, records, _ = ask([row])
    finally:
        del REPLIES["Long?"]
    assert records["Long?"]["scores"]["assertions"] == 0
    assert time.monotonic() - began < 30


BAD = {
    "a pattern that is none": ({"regex": "(a"}, "regex: '(a' is no regular expression"),
    "no schema": ({"json_schema": {"type": "objekt"}}, "json_schema: is no JSON schema"),
    "a schema elsewhere": ({"json_schema": {"$ref": "http://h/x"}}, "may refer to its own parts"),
    "no number": ({"max_seconds": "soon"}, "max_seconds: should be a number of seconds above 0"),
    "no truth": ({"answerable": "perhaps"}, "answerable: should be true or false, is 'perhaps'"),
    "no text": ({"contains": {"a": 1}}, "contains: should be a text or a list of texts"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_mistake_in_a_row_is_one_sentence_with_its_place(ask, case):
    row, sentence = BAD[case]
    ended, _, _ = ask([{"question": "Who leads?", **row}])
    assert "q.jsonl" in ended.checked(2).stderr
    assert "line 1" in ended.stderr
    assert sentence.partition(": ")[2] in ended.stderr


def test_a_folder_has_its_own_name_and_two_never_share_one(here, tmp_path):
    for place in ("old/handbook", "new/handbook", "musique"):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "a.md").write_text(f"# Team\n\n{place} leads.")
        (tmp_path / "q.jsonl").write_text(json.dumps({"question": "Who?", "answer": place}))
        (tmp_path / "script.json").write_text('{"window": 999, "replies": [{"reply": "7"}]}')
        for _ in range(2):  # the same command again resumes
            here(
                "run", "--method", "bm25", "--documents", place, "--questions", "q.jsonl",
                "--model", "reader", "--set", "model.backend=scripted", "model.script=script.json",
                "--mlflow", "off",
            ).checked()  # fmt: skip
    rows = json.loads(here("report", "results", "--format", "json", "--all").checked().stdout)
    names = sorted(row["dataset"] for row in rows)
    assert [name.partition(" (rows")[0] for name in names] == [
        "handbook",
        "handbook",
        "musique-folder",
    ]
    assert len(set(names)) == 3
    (stored,) = tmp_path.glob("results/musique-folder/*/run.yaml")
    again = here(
        "run", "--config", str(stored), "--set", "model.script=script.json", "--mlflow", "off"
    )
    assert "1 of 1 answers were stored" in again.checked().stderr


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("gold_page", "gold_pages"),
        ("answereable", "answerable"),
        ("contain", "contains"),
        ("anwser", "answer"),
    ],
)
def test_a_misspelt_key_is_refused_with_its_line_and_nothing_runs(ask, here, key, meant):
    ended, records, _ = ask([{"question": "Who leads?"}, {"question": "Who left?", key: "no"}])
    sentence = f"'{key}' is no key of a question; did you mean '{meant}'? (--columns names others)"
    assert ended.returncode == 2
    assert f"line 2: {sentence}" in ended.stderr
    assert records == {}
    checked = here(
        "validate", "--method", "full-context", "--documents", "wiki", "--questions", "q.jsonl",
        "--model", "reader", "--set", "model.backend=scripted", "model.script=script.json",
    )  # fmt: skip
    assert checked.returncode == 2
    assert sentence in checked.stdout + checked.stderr


def test_other_keys_are_named_once_and_not_refused(ask):
    others = {"topic": "people", "author": "x", "idx": 3, "document_id": "a", "answer2": "Oz"}
    ended, records, _ = ask(
        [
            {"question": "Who leads?", "answer": "Mira", **others},
            {"question": "Who pays?", "answer": "Ghent", "topic": "money"},
        ]
    )
    note = "keys that are not read: topic, author, idx, document_id, answer2 (2 questions)"
    assert ended.checked().stderr.count(note) == 1
    assert len(records) == 2


def test_a_key_that_columns_names_is_no_misspelt_one(ask):
    row = {"question": "Who leads?", "anwser": "Mira"}
    ended, records, _ = ask([row], "--columns", "question=question,answer=anwser")
    assert "not read" not in ended.checked().stderr
    assert records["Who leads?"]["scores"]["right"] == 1
