"""An application over HTTP, evaluated by the command like a method."""

import json

import pytest

from tests.apps.wiki import ANSWERS, WikiApp


def test_answers_pages_contexts_and_costs_are_scored_and_nothing_is_invented(run, records, table):
    app = WikiApp(wrong=("Who leads the team?",))
    with app.server() as server:
        run(f"wiki={server.url}/ask").checked()
    assert app.asked == [*ANSWERS]
    row = table()["wiki"]
    assert row["headline"] == "right"
    assert row["right"] == row["flashrag.em"] == pytest.approx(0.8)
    assert row["evidence_pages"] == row["evidence_hit"] == pytest.approx(0.8)
    # Whole pages are marked, and no passage of them is known.
    assert row.get("evidence_recall") is None
    assert (row["tokens.in"], row["tokens.out"]) == (100, 4)
    assert row["money"] == pytest.approx(0.002)
    assert (row["tflops"], row["tflops.search"]) == (None, None)
    shown = records("wiki")["q1"]["shown"]
    assert [(piece["kind"], piece["text"]) for piece in shown] == [
        ("span", "lasts two years"),
        ("source", "setup.md"),
        ("source", "nowhere.md"),
    ]


def test_what_a_reply_does_not_say_is_unknown_and_never_0(run, table):
    with WikiApp(fields=("answer",)).server() as server:
        run(f"wiki={server.url}/ask").checked()
    row = table()["wiki"]
    names = (
        "tokens",
        "tokens.in",
        "tokens.search",
        "money",
        "money.run",
        "tflops",
        "evidence_pages",
    )
    assert {name: row.get(name) for name in names} == dict.fromkeys(names)


def test_money_is_unknown_where_one_reply_does_not_say_it(run, table):
    with WikiApp(unpriced=("Who leads the team?",)).server() as server:
        run(f"wiki={server.url}/ask").checked()
    row = table()["wiki"]
    assert row["tokens.in"] == 100
    assert (row["money"], row["money.run"]) == (None, None)


def test_a_failed_question_has_no_0_of_what_no_reply_says(run, table, wiki):
    with WikiApp(fields=("answer",), moods=["400"]).server() as server:
        run(f"wiki={server.url}/ask").checked(3)
    row = table()["wiki"]
    assert row["flashrag.em"] == pytest.approx(0.8)
    assert row.get("evidence_pages") is None
    (file,) = (wiki / "results" / "wiki").glob("wiki--*/summary.json")
    assert "evidence_pages" not in json.loads(file.read_text())["scores"]


def test_a_reply_without_sources_is_no_page_and_not_unknown(run, table, wiki):
    with WikiApp().server() as server:
        run(f"wiki={server.url}/ask", "--app-map", "sources=tokens.no[] || `[]`").checked()
    assert table()["wiki"]["evidence_pages"] == 0


def test_seconds_are_the_applications_own(run, records):
    app = WikiApp(seconds=0.3)
    with app.server() as server:
        run(f"wiki={server.url}/ask").checked()
    seconds = [row["usage"]["answer"]["seconds"] for row in records("wiki").values()]
    for measured, logged in zip(seconds, app.took, strict=True):
        assert logged <= measured <= logged + 0.15


def test_a_reply_that_takes_too_long_fails_its_assertion(run, records, wiki):
    rows = [
        {"id": question, "question": question, "max_seconds": most}
        for question, most in zip(ANSWERS, (0.1, 60), strict=False)
    ]
    (wiki / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with WikiApp(seconds=0.2).server() as server:
        run(f"wiki={server.url}/ask").checked()
    slow, fast = records("wiki").values()
    assert [row["scores"] for row in (slow, fast)] == [{"assertions": 0}, {"assertions": 1}]
    assert "s, more than 0.1 s" in slow["notes"]["failed_assertions"][0]


def test_a_stopped_run_goes_on_with_the_questions_that_are_left(run, records, here):
    app = WikiApp()
    with app.server() as server:
        address = f"wiki={server.url}/ask"
        run(address, "--limit", "2").checked()
        run(address).checked()
        assert app.asked == [*ANSWERS]
        run(address).checked()
    assert len(app.asked) == len(records("wiki")) == 5


def test_questions_are_in_flight_at_once(run):
    app = WikiApp(seconds=0.2)
    with app.server() as server:
        run(f"wiki={server.url}/ask", "--parallel", "4").checked()
    assert app.most_at_once >= 2


def test_a_busy_application_is_asked_again_and_a_failed_question_counts_0(run, records, table):
    app = WikiApp(moods=["429;0", "ok", "400"])
    with app.server() as server:
        address = f"wiki={server.url}/ask"
        run(address).checked(3)
        assert records("wiki")["q1"]["usage"]["answer"]["retries"] == 1
        assert records("wiki")["q2"]["error"]["type"] == "RequestFailed"
        row = table()["wiki"]
        assert (row["failed"], row["n"]) == (1, 5)
        assert row["flashrag.em"] == pytest.approx(0.8)
        run(address, "--retry-failed").checked()
    assert table()["wiki"]["flashrag.em"] == 1


def test_a_limit_of_money_counts_what_the_application_says(run, records):
    with WikiApp().server() as server:
        ended = run(f"wiki={server.url}/ask", "--max-money", "0.004").checked(3)
    assert len(records("wiki")) == 2
    assert "stopped at --max-money 0.004 (0.004 spent): 3 of 5 questions" in ended.stderr


@pytest.mark.parametrize("limit", [("--max-money", "1"), ("--max-tokens", "1000")])
def test_a_limit_that_cannot_be_counted_stops_the_run(run, limit):
    with WikiApp(fields=("answer",)).server() as server:
        ended = run(f"wiki={server.url}/ask", *limit).checked(3)
    assert "the application does not say" in ended.stderr


def test_replies_are_reused_across_runs(run, records):
    app = WikiApp()
    with app.server() as server:
        for out in ("one", "results"):
            run(f"wiki={server.url}/ask", "--cache", "replies", "--out", out).checked()
    assert len(app.asked) == 5
    row = records("wiki")["q1"]
    assert row["prediction"] == "two years"
    assert row["usage"]["answer"]["charged"] == pytest.approx(0.002)


def test_two_applications_are_compared_and_gated(run, here, wiki):
    new = WikiApp(wrong=("Who leads the team?", "Where are trains booked?"))
    with WikiApp().server() as old_server, new.server() as new_server:
        both = f"old={old_server.url}/ask,new={new_server.url}/ask"
        run(both, "--fail-under", "flashrag.em=50").checked()
        run(both, "--fail-under", "flashrag.em=90").checked(4)
    (old,) = (wiki / "results" / "wiki").glob("old--*")
    (changed,) = (wiki / "results" / "wiki").glob("new--*")
    compared = here("compare", str(old), str(changed), "--score", "flashrag.em").checked()
    assert "40.0" in compared.stdout
    last_line = " ".join(compared.stdout.rpartition("\n\n")[2].split())
    assert last_line.startswith("not checked: ")
    assert last_line.endswith(
        "that the application gave these answers, that the application's passages and charges are "
        "what it read and was charged, seconds"
    )
    here("report", "results", "--html", "page.html").checked()
    assert "old" in (wiki / "page.html").read_text()


def test_an_application_stands_beside_a_method(run, here, table, wiki):
    with WikiApp().server() as server:
        run(
            f"wiki={server.url}/ask", "--method", "closed-book", "--model", "pocket-llama",
            "--set", "model.window=2048", "app.timeout=7",
        ).checked()  # fmt: skip
    rows = table()
    assert rows["wiki"]["model"] == "–"
    assert rows["closed-book"]["model"] == "pocket-llama"
    (file,) = (wiki / "results" / "wiki").glob("wiki--*/run.yaml")
    assert "timeout: 7.0" in file.read_text()
    assert not [note for note in rows["wiki"]["notes"] if "not be ranked" in note]


def test_other_settings_of_an_application_are_another_run(run, wiki):
    with WikiApp().server() as server:
        address = f"wiki={server.url}/ask"
        (wiki / "body.json").write_text('{"question": {{ question | tojson }}, "k": 3}')
        run(address).checked()
        run(f"other={server.url}/ask").checked()
        run(f"wiki={server.url}/again").checked()
        run(address, "--app-map", "sources=contexts").checked()
        run(address, "--app-body", "body.json").checked()
        assert server.asked[-1]["k"] == 3
    assert len([*(wiki / "results" / "wiki").iterdir()]) == 5


def test_a_key_is_sent_and_stored_nowhere(run, wiki, monkeypatch):
    monkeypatch.setenv("WIKI_KEY", "secret-value-of-the-key")
    monkeypatch.setenv("WIKI_TEAM", "team-value-42")
    with WikiApp(moods=["says 400 no secret-value-of-the-key team-value-42"]).server() as server:
        run(
            f"wiki={server.url}/ask", "--app-key", "WIKI_KEY", "--app-header", "X-Token=$WIKI_TEAM",
            "--keep-prompts",
        ).checked(3)  # fmt: skip
        sent = {name.lower(): value for name, value in server.headers[0].items()}
    assert sent["authorization"] == "Bearer secret-value-of-the-key"
    assert sent["x-token"] == "team-value-42"
    stored = [file.read_text() for file in (wiki / "results").rglob("*") if file.is_file()]
    assert not [text for text in stored if "secret-value" in text or "team-value" in text]


CHAT = {"model": "wiki", "messages": [{"role": "user", "content": "How long is the warranty?"}]}
SPENT = {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}
DOCUMENT = {
    "page_content": "lasts two years",
    "metadata": {"source": "setup.md"},
    "type": "Document",
}
REPLIES = {
    "openai-chat": (
        CHAT,
        {
            "id": "chatcmpl-1", "object": "chat.completion", "usage": SPENT,
            "choices": [
                {
                    "index": 0, "finish_reason": "stop",
                    "message": {
                        "role": "assistant", "content": "two years", "refusal": None,
                        "annotations": [
                            {
                                "type": "url_citation",
                                "url_citation": {
                                    "url": "setup.md", "title": "Setup",
                                    "start_index": 0, "end_index": 9,
                                },
                            }
                        ],
                    },
                }
            ],
        },
    ),
    "openai-chat with context": (
        CHAT,
        {
            "usage": SPENT,
            "choices": [
                {
                    "message": {
                        "role": "assistant", "content": "two years [doc1]",
                        "context": {
                            "intent": "[]",
                            "citations": [
                                {
                                    "content": "lasts two years", "title": "Setup", "url": None,
                                    "filepath": "setup.md", "chunk_id": "0",
                                }
                            ],
                        },
                    }
                }
            ],
        },
    ),
    "openai-responses": (
        {"model": "wiki", "input": "How long is the warranty?"},
        {
            "object": "response", "status": "completed",
            "output": [
                {
                    "type": "file_search_call", "id": "fs_1", "status": "completed",
                    "queries": ["warranty"],
                    "results": [
                        {
                            "file_id": "file-1", "filename": "setup.md", "score": 0.9,
                            "text": "lasts two years", "attributes": {},
                        }
                    ],
                },
                {
                    "type": "message", "role": "assistant", "status": "completed",
                    "content": [
                        {
                            "type": "output_text", "text": "two years",
                            "annotations": [
                                {
                                    "type": "file_citation", "index": 9, "file_id": "file-1",
                                    "filename": "setup.md",
                                }
                            ],
                        }
                    ],
                },
            ],
            "usage": {"input_tokens": 9, "output_tokens": 2, "total_tokens": 11},
        },
    ),
    "langserve": (
        {"input": "How long is the warranty?"},
        {
            "output": {
                "input": "How long is the warranty?", "answer": "two years", "context": [DOCUMENT],
                "usage_metadata": {"input_tokens": 9, "output_tokens": 2},
            },
            "metadata": {"run_id": "1", "feedback_tokens": []},
        },
    ),
    "langserve with source documents": (
        {"input": "How long is the warranty?"},
        {
            "output": {
                "query": "How long is the warranty?", "result": "two years",
                "source_documents": [DOCUMENT],
                "usage_metadata": {"input_tokens": 9, "output_tokens": 2},
            },
        },
    ),
}  # fmt: skip


@pytest.mark.parametrize("form", REPLIES)
def test_known_forms_of_requests_and_replies(run, records, form):
    from tests.llm.loopback import Loopback

    sent, reply = REPLIES[form]
    with Loopback([lambda body: reply]) as server:
        run(f"wiki={server.url}/ask", "--app-format", form.split()[0], "--limit", "1").checked()
    assert server.asked == [sent]
    row = records("wiki")["q1"]
    assert row["prediction"].startswith("two years")
    assert row["scores"]["evidence_pages"] == 1
    usage = row["usage"]["answer"]
    assert (usage["tokens_in"], usage["tokens_out"]) == (9, 2)


WITHOUT_SOURCES = {
    "openai-chat": (
        {"choices": [{"message": {"content": None, "refusal": "I cannot", "annotations": []}}]},
        "I cannot",
    ),
    "openai-responses": (
        {
            "output": [
                {"type": "file_search_call", "queries": ["warranty"], "results": None},
                {"type": "message", "content": [{"type": "refusal", "refusal": "I cannot"}]},
            ]
        },
        "I cannot",
    ),
    "langserve": ({"output": "two years"}, "two years"),
}


@pytest.mark.parametrize("form", WITHOUT_SOURCES)
def test_a_form_without_citations_leaves_the_pages_unknown(run, records, form):
    from tests.llm.loopback import Loopback

    reply, answer = WITHOUT_SOURCES[form]
    with Loopback([lambda body: reply]) as server:
        run(f"wiki={server.url}/ask", "--app-format", form, "--limit", "1").checked()
    row = records("wiki")["q1"]
    assert row["prediction"] == answer
    assert not [name for name in row["scores"] if name.startswith("evidence")]


def test_tokens_that_are_not_told_apart_are_shown_as_their_sum(run, table):
    from tests.llm.loopback import Loopback

    with Loopback([lambda body: {"answer": "two years", "tokens": 812}]) as server:
        run(f"wiki={server.url}/ask", "--limit", "2", "--max-tokens", "5000").checked()
    row = table()["wiki"]
    assert (row["tokens"], row.get("tokens.in"), row.get("tokens.out")) == (812, None, None)


def test_a_reply_of_another_shape_is_read_by_a_map(run, records):
    from tests.llm.loopback import Loopback

    reply = {"data": {"text": "two years", "docs": [{"id": "setup"}]}}
    with Loopback([lambda body: reply]) as server:
        address = f"wiki={server.url}/ask"
        failed = run(address, "--limit", "1").checked(3)
        assert "say where the answer is: --app-map answer=PATH" in failed.stderr
        run(
            address, "--limit", "1", "--app-map", "answer=data.text", "sources=data.docs[].id"
        ).checked()
    row = [row for row in _all_records(records) if row["error"] is None]
    assert row[0]["prediction"] == "two years"
    assert row[0]["scores"]["evidence_pages"] == 1


def _all_records(records):
    folder = records.__closure__[0].cell_contents / "results" / "wiki"
    lines = [
        line for file in folder.glob("*/records.jsonl") for line in file.read_text().split("\n")
    ]
    return [json.loads(line) for line in lines if line]


def test_a_server_that_is_not_there_ends_the_run_at_once(run):
    ended = run("wiki=http://127.0.0.1:9/ask", "--set", "app.retries=0").checked(2)
    assert "no server answers at http://127.0.0.1:9/ask" in ended.stderr


@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        ("404", "takes no questions at this address (status 404); correct --app"),
        ("401", "name the variable that holds its key: --app-key NAME"),
        ("302", "answers with a redirect (302); give the final address as --app"),
    ],
)
def test_an_address_that_no_question_can_reach_ends_the_run(run, status, sentence):
    app = WikiApp(moods=[status] * 9)
    with app.server() as server:
        ended = run(f"wiki={server.url}/ask").checked(2)
    assert sentence in ended.stderr
    assert len(app.asked) == 1


def test_each_repeat_asks_the_application_again(run, wiki):
    app = WikiApp()
    with app.server() as server:
        run(f"wiki={server.url}/ask", "--repeat", "2").checked()
    assert len(app.asked) == 10


BAD = {
    "two of one name": (["a=http://h/x,a=http://h/y"], "two applications are called 'a'"),
    "the name of a method": (["bm25=http://h/x"], "'bm25' is a method; give it another name"),
    "no address": (["a=somewhere"], "should be NAME=http://HOST:PORT/PATH or NAME=module:function"),
    "a map that is none": (["a=http://h/x", "--app-map", "answer=a["], "no JMESPath"),
    "an unknown field": (["a=http://h/x", "--app-map", "anser=a"], "unknown field 'anser'"),
    "an unknown form": (["a=http://h/x", "--app-format", "soap"], "unknown format 'soap'"),
    "a body that is no JSON": (["a=http://h/x", "--app-body", "bad.txt"], "gives no JSON"),
    "a key in the command": (["a=http://h/x", "--app-header", "X-Key=abc"], "environment variable"),
    "a suite": (["a=http://h/x", "--suite", "smoke-app"], "of its own: --dataset pocket/musique"),
    "a model's setting": (["a=http://h/x", "--set", "app.window=5"], "is for a language model"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_mistake_is_one_sentence_and_nothing_is_run(run, wiki, case):
    (wiki / "bad.txt").write_text("{{ question }}")
    suites = wiki / "own" / "suites"
    suites.mkdir(parents=True, exist_ok=True)
    (suites / "smoke-app.yaml").write_text(
        "summary: s\nmethods: [bm25]\ndatasets: [pocket/musique]\n"
    )
    arguments, sentence = BAD[case]
    ended = run(*arguments).checked(2)
    assert sentence in ended.stderr
    assert not (wiki / "results").exists()


def test_answers_are_judged_and_traced(run, here, table, wiki):
    with WikiApp().server() as server:
        run(f"wiki={server.url}/ask", "--mlflow", f"sqlite:///{wiki}/log.db").checked()
    (folder,) = (wiki / "results" / "wiki").iterdir()
    (wiki / "script.yaml").write_text("replies: [{reply: 'yes'}]")
    judged = here(
        "judge", str(folder), "--model", "judge",
        "--set", "model.backend=scripted", "model.script=script.yaml",
    )  # fmt: skip
    judged.checked()
    assert [value for name, value in table()["wiki"].items() if name == "judge.judge"] == [1]
    header = here("report", "results").checked().stdout.split("method", 1)[1].splitlines()[0]
    assert header.split()[:2] == ["judge.judge", "right"]
    assert table()["wiki"]["headline"] == "judge.judge"
    assert "setup.md" in here("trace", str(folder), "q1").checked().stdout


def test_judged_and_other_runs_are_compared_by_what_both_have(run, here, table, wiki):
    with WikiApp().server() as server:
        run(f"wiki={server.url}/ask,other={server.url}/ask").checked()
    (folder,) = (wiki / "results" / "wiki").glob("other--*")
    (wiki / "script.yaml").write_text("replies: [{reply: 'no'}]")
    judged = ("--model", "judge", "--set", "model.backend=scripted", "model.script=script.yaml")
    here("judge", str(folder), *judged).checked()
    assert {row["headline"] for row in table().values()} == {"right"}
    compared = here("compare", "results", "--reference", "wiki", "--format", "json", "--force")
    assert {row["score"] for row in json.loads(compared.checked().stdout) if "score" in row} <= {
        "right"
    }
    here("judge", "results", *judged).checked()
    assert {row["headline"] for row in table().values()} == {"judge.judge"}


def test_declining_what_no_page_answers_is_right_for_a_judge_too(run, here, table, wiki):
    rows = [
        {"id": "q1", "question": "Who leads the team?", "answerable": False},
        {"id": "q2", "question": "How long is the warranty?"},
    ]
    (wiki / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with WikiApp().server() as server:
        run(f"wiki={server.url}/ask").checked()
    (folder,) = (wiki / "results" / "wiki").iterdir()
    rules = [{"when": "The documents do not say", "reply": "yes"}, {"reply": "no"}]
    (wiki / "script.yaml").write_text(json.dumps({"replies": rules}))
    judged = here(
        "judge", str(folder), "--model", "judge",
        "--set", "model.backend=scripted", "model.script=script.yaml",
    ).checked()  # fmt: skip
    assert "1 without gold answer, not scored" in judged.stdout
    row = table()["wiki"]
    assert (row["headline"], row["judge.judge"], row["n"]) == ("judge.judge", 1, 2)


def test_a_judge_is_the_headline_where_no_answer_is_known(run, here, table, wiki):
    rows = [{"id": str(number), "question": text} for number, text in enumerate(ANSWERS)]
    (wiki / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with WikiApp().server() as server:
        run(f"wiki={server.url}/ask", "--limit", "2").checked()
    assert table()["wiki"]["headline"] == "right"
    (folder,) = (wiki / "results" / "wiki").iterdir()
    (wiki / "script.yaml").write_text("replies: [{reply: 'yes'}]")
    here(
        "judge", str(folder), "--model", "judge", "--kind", "faithfulness",
        "--set", "model.backend=scripted", "model.script=script.yaml",
    ).checked()  # fmt: skip
    assert table()["wiki"]["headline"] == "judge.judge.faithfulness"
    header = here("report", "results").checked().stdout.split("method", 1)[1].splitlines()[0]
    assert header.split()[0] == "judge.judge.faithfulness"


def test_a_row_that_was_repriced_alone_is_marked(run, here):
    """Money at two prices compares the prices."""
    marks = "an application is priced 0.8 in, 1.6 out (the other run: 0.4 in, 1.6 out)"
    prices = ("--set", "app.price.output=1.6")
    with WikiApp(fields=("answer", "tokens")).server() as server:
        both = f"old={server.url}/ask,new={server.url}/v2"
        alike = run(both, *prices, "app.price.input=0.4").checked()
        run(f"old={server.url}/ask", *prices, "app.price.input=0.8").checked()
        repriced = here("report", "results").checked().stdout
        run(f"new={server.url}/v2", *prices, "app.price.input=0.8").checked()
    assert "is priced" not in alike.stdout
    assert marks in " ".join(repriced.split())
    assert "is priced" not in here("report", "results").checked().stdout


def test_several_runs_end_with_the_table_that_report_prints_of_them(run, here, wiki):
    with WikiApp().server() as server:
        run(f"older={server.url}/ask").checked()
        several = run(f"old={server.url}/ask,new={server.url}/v2").checked().stdout
        alone = run(f"old={server.url}/ask").checked().stdout
        as_json = run(f"old={server.url}/ask,new={server.url}/v2", "--json").checked().stdout
    folders = [str(path) for path in sorted((wiki / "results" / "wiki").glob("[no]*--*"))]
    folders = [folder for folder in folders if "older" not in folder]
    table = here("report", *folders).checked().stdout
    *tables_and_legend, _finding, _not_checked = table.rstrip().split("\n\n")
    assert several.rstrip().endswith("\n\n".join(tables_and_legend))
    assert "seconds.p95" in table
    assert "seconds.p95" not in alone
    assert len(as_json.splitlines()) == 2


NO_MODEL = """
def ask(question):
    return {"answer": "I do not know", "sources": ["setup.md"], "tokens": {"input": 0, "output": 0}}
"""


def test_an_application_that_asked_no_model_is_not_called_inconsistent(run, configs, here):
    (configs / "no_model.py").write_text(NO_MODEL)
    run("no_model:ask").checked()
    assert "does not fit" not in here("report", "results").checked().stdout


def test_notes_on_scores_that_are_no_columns_are_not_shown(run, here, wiki):
    rows = [{"id": question, "question": question} for question in ANSWERS]
    rows[0]["answer"] = "two years"
    (wiki / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with WikiApp().server() as server:
        run(f"wiki={server.url}/ask").checked()
    below = here("report", "results").checked().stdout
    assert "right: mean over 1 of 5 questions; 4 answers have no value" in below
    assert "flashrag.em" not in below
    chosen = here("report", "results", "--columns", "method,flashrag.em").checked().stdout
    assert "flashrag.em: mean over 1 of 5 questions; 4 answers have no value" in chosen
    assert "right:" not in chosen
