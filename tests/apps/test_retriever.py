"""A retriever of the user's own in place of a method's ranking: by the command and in Python."""

import hashlib
import json

import pytest

import harness
from tests.apps.wiki import ANSWERS, PAGES
from tests.llm.loopback import Loopback

READER = ("--model", "reader", "--set", "model.backend=scripted", "model.script=script.yaml")
PAGE_OF = {question: page for question, (_, page, _) in ANSWERS.items()}


def hits(body):
    """The right page first, then two that are wrong; a passage of each, and a score."""
    pages = [PAGE_OF[body["query"]], "lunch.txt", "nowhere.md"]
    texts = [PAGES.get(page, "no page\n").strip().rpartition("\n")[2] for page in pages]
    rows = [
        {"page": page, "text": text, "score": 9.5 - number}
        for number, (page, text) in enumerate(zip(pages, texts, strict=True))
    ]
    return {"hits": rows[: body["k"]]}


@pytest.fixture
def ask(here, wiki):
    """Run methods on the wiki with a reader that always says the same."""
    (wiki / "script.yaml").write_text("replies: [{reply: 'two years'}]")

    def call(method, *more, sets=()):
        return here(
            "run", "--method", method, *READER, *sets, "--documents", "wiki",
            "--questions", "questions.jsonl", "--mlflow", "off", *more,
        )  # fmt: skip

    return call


def test_its_passages_are_read_recorded_and_scored(ask, records, table, wiki):
    with Loopback([hits]) as server:
        ask(
            "bm25", "--retriever", f"wiki={server.url}", "--keep-prompts",
            sets=("method.k=2",),
        ).checked()  # fmt: skip
    assert server.asked == [{"query": question, "k": 2} for question in ANSWERS]
    record = records("bm25*")["q1"]
    shown = [(piece["kind"], piece["text"]) for piece in record["shown"]]
    assert shown == [
        ("span", "The warranty of the device lasts two years."),
        ("span", "Lunch is served at noon on weekdays."),
        ("source", "setup.md"),
        ("source", "lunch.txt"),
    ]
    steps = [(step["node"], step["note"], step["scores"]) for step in record["steps"]]
    assert steps == [
        (0, "setup.md", {"retriever": 9.5}),
        (1, "lunch.txt", {"retriever": 8.5}),
    ]
    assert record["usage"]["search"]["seconds"] > 0
    row = table()["bm25[wiki] [k=2]"]
    assert row["evidence_pages"] == row["evidence_mrr"] == 1
    (prompts,) = (wiki / "results" / "wiki").glob("bm25*/*requests*")
    assert (
        "The warranty of the device lasts two years."
        in json.loads(prompts.read_text().splitlines()[0])["prompt"]
    )


def test_its_runs_are_consistent_and_are_compared(here, wiki):
    with Loopback([hits]) as server:
        for name in ("old", "new"):
            here(
                "run", "--method", "bm25", "--retriever", f"{name}={server.url}",
                "--model", "pocket-llama", "--set", "model.window=2048", "--documents", "wiki",
                "--questions", "questions.jsonl", "--mlflow", "off",
            ).checked()  # fmt: skip
    folders = [str(run.parent) for run in (wiki / "results" / "wiki").glob("*/run.yaml")]
    compared = here("compare", *folders).checked()
    rows = json.loads(here("report", "results", "--format", "json", "--all").checked().stdout)
    assert [row["tflops"] for row in rows] == [None, None]  # the reader's are known, its own not
    assert "bm25[old]" in compared.stdout
    assert "bm25[new]" in compared.stdout


def test_its_run_beside_one_without_it_differs_in_the_method_alone(ask, here, wiki):
    with Loopback([hits]) as server:
        ask("bm25").checked()
        ask("bm25", "--retriever", f"wiki={server.url}").checked()
    tables = here("report", "results", "--all").checked().stdout
    folders = sorted(str(run.parent) for run in (wiki / "results" / "wiki").glob("*/run.yaml"))
    compared = here("compare", *folders).checked().stdout
    scripted = "not checked: what was asked, as no first prompt is recorded"  # of no other back end
    own = [shown.rpartition("\n\nnot checked: ")[0] for shown in (tables, compared)]
    assert "not checked" not in "".join(own).replace(scripted, "")
    assert "does not fit" not in tables + compared
    assert "in retriever.name: 'wiki'" in " ".join(compared.split())


def test_what_a_search_costs_is_unknown_or_its_price(ask, table, here):
    with Loopback([hits]) as server:
        ask("bm25", "--retriever", f"free={server.url}").checked()
        ask("bm25", "--retriever", f"paid={server.url}", sets=("retriever.price=0.25",)).checked()
    served = ("model.backend=endpoint", "model.base_url=http://127.0.0.1:9/v1", "model.window=999",
              "model.price.input=1", "model.price.output=1")  # fmt: skip
    stopped = here(
        "run", "--method", "bm25", "--retriever", "free=http://127.0.0.1:9", "--model", "reader",
        "--set", *served, "--documents", "wiki", "--questions", "questions.jsonl",
        "--max-money", "1",
    )  # fmt: skip
    assert "what a search of 'free' takes is not known" in stopped.checked(2).stderr
    rows = table()
    assert (rows["bm25[free]"]["money"], rows["bm25[free]"]["tflops"]) == (None, None)
    assert rows["bm25[paid]"]["money"] == 0.25


def test_methods_without_a_ranking_stand_beside_it_and_alone_refuse_it(ask, table):
    with Loopback([hits]) as server:
        beside = ask("closed-book,sbert,a-rag,self-route", "--retriever", f"wiki={server.url}")
        alone = ask("closed-book", "--retriever", f"wiki={server.url}").checked(2)
    assert {"closed-book", "a-rag", "sbert[wiki]", "self-route[wiki]"} == set(table())
    said = (
        "note: --retriever ranks for sbert[wiki], self-route[wiki]; without it run: closed-book, "
    )
    assert f"{said}a-rag\n" in beside.checked().stderr
    assert "closed-book has none that it replaces" in alone.stderr


def test_methods_that_search_while_they_answer_ask_it(ask, records):
    def found(body):
        question = next(text for text in PAGE_OF if text in body["query"])
        return hits({**body, "query": question})

    with Loopback([found]) as server:
        ask("iter-retgen", "--retriever", f"wiki={server.url}", "--limit", "1").checked()
    record = records("iter-retgen*")["q1"]
    assert len(record["searches"]) == len(server.asked) > 1
    best = record["searches"][0]["found"][0]
    assert (best["score"], best["shown"][0]["kind"]) == (9.5, "span")


def test_decom_asks_it_by_each_sub_question(ask, records, wiki):
    replies = [
        {"when": "Simplify", "reply": "* Who leads the team?\n* Where are trains booked?"},
        {"reply": "two years"},
    ]
    (wiki / "script.yaml").write_text(json.dumps({"replies": replies}))
    with Loopback([hits]) as server:
        ask("decom", "--retriever", f"search={server.url}", "--limit", "1").checked()
    queries = [(body["query"], body["k"]) for body in server.asked]
    assert queries == [("Who leads the team?", 3), ("Where are trains booked?", 3)]
    shown = records("decom*")["q1"]["shown"]
    assert "people.txt" in [piece["text"] for piece in shown if piece["kind"] == "source"]
    assert shown[-1]["kind"] == "generated"


def test_a_page_without_a_text_is_read_from_the_folder(ask, records, wiki):
    row = {"id": "q1", "question": "How long is the warranty?", "answer": "two years"}
    row["gold_pages"] = ["setup.md#Warranty"]
    (wiki / "questions.jsonl").write_text(json.dumps(row))
    with Loopback([lambda body: [{"id": PAGE_OF[body["query"]]}]]) as server:
        ask("bm25", "--retriever", f"wiki={server.url}", "--limit", "1").checked()
    record = records("bm25*")["q1"]
    assert record["scores"]["evidence_recall"] == record["scores"]["evidence_pages"] == 1


def test_ids_that_are_no_pages_leave_the_pages_to_the_texts(ask, records):
    reply = [{"id": 17, "text": "The warranty of the device lasts two years."}]
    with Loopback([lambda body: reply]) as server:
        ask("bm25", "--retriever", f"wiki={server.url}", "--limit", "1").checked()
    assert records("bm25*")["q1"]["scores"]["evidence_pages"] == 1


def test_the_order_of_the_document_and_a_reranker_are_kept(ask, records, wiki):
    late = "The warranty of the device lasts two years."
    early = "The device starts in nine seconds."
    with Loopback([lambda body: [{"text": late}, {"text": early}]]) as server:
        ask(
            "dos-rag", "--retriever", f"wiki={server.url}", "--limit", "1",
        ).checked()  # fmt: skip
    assert server.asked[0]["k"] == 100
    assert [piece["text"] for piece in records("dos-rag*")["q1"]["shown"]] == [early, late]


def test_a_failed_search_fails_its_question_alone(ask, records):
    with Loopback(["500", hits]) as server:
        ask("bm25", "--retriever", f"wiki={server.url}", sets=("retriever.retries=0",)).checked(3)
    errors = [row["error"] and row["error"]["type"] for row in records("bm25*").values()]
    assert errors == ["RequestFailed", None, None, None, None]


def test_no_gold_reaches_it(ask, wiki, monkeypatch):
    """The same requests with other gold answers and other gold pages."""
    monkeypatch.setenv("WIKI_KEY", "secret-value-of-the-key")
    digests = []
    for answer, page in (("two years", "setup.md"), ("golden-answer", "lunch.txt")):
        row = {"id": "q1", "question": "How long is the warranty?", "answer": answer}
        (wiki / "questions.jsonl").write_text(json.dumps({**row, "gold_pages": [page]}))
        with Loopback([hits]) as server:
            ask(
                "bm25", "--retriever", f"wiki={server.url}", "--retriever-key", "WIKI_KEY"
            ).checked()
        sent = {name.lower(): value for name, value in server.headers[0].items()}
        assert sent["authorization"] == "Bearer secret-value-of-the-key"
        digests.append(hashlib.sha256(json.dumps(server.asked).encode()).hexdigest())
    assert digests[0] == digests[1]
    stored = [file.read_text() for file in (wiki / "results").rglob("*") if file.is_file()]
    assert not [text for text in stored if "secret-value" in text]


BAD = {
    "no address": (["wiki"], "should be NAME=http://HOST:PORT/PATH or NAME=module:function"),
    "an unknown form": (["http://h/x", "--retriever-format", "solr"], "unknown format 'solr'"),
    "an unknown field": (["http://h/x", "--retriever-map", "txt=a"], "unknown field 'txt'"),
    "a body that is no JSON": (["http://h/x", "--retriever-body", "bad.txt"], "gives no JSON"),
    "a key in the command": (["http://h/x", "--retriever-header", "api-key=a"], "environment vari"),
    "a server that is not there": (["http://127.0.0.1:9/x"], "no server answers at http://127.0"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_a_mistake_is_one_sentence(ask, wiki, case):
    (wiki / "bad.txt").write_text("{{ query }}")
    arguments, sentence = BAD[case]
    ended = ask("bm25", "--retriever", *arguments, sets=("retriever.retries=0",)).checked(2)
    assert sentence in ended.stderr


def test_options_without_a_retriever_and_a_retriever_of_applications_are_refused(ask, here):
    assert "are for --retriever; name one" in ask("bm25", "--retriever-key", "K").checked(2).stderr
    both = ("--app", "a=http://h/x", "--retriever", "http://h/y")
    ended = here("run", *both, "--documents", "wiki", "--questions", "questions.jsonl").checked(2)
    assert "--retriever is for methods" in ended.stderr
    two = ask("iter-retgen", "--retriever", "http://h/y", "--corpus", "index").checked(2)
    assert "--corpus and --retriever both say where to search; give one" in two.stderr


async def look_up(query, k):
    return [{"page": PAGE_OF[query], "text": PAGES[PAGE_OF[query]], "score": 1}]


def test_a_function_in_python_finds_the_passages(wiki, monkeypatch):
    monkeypatch.chdir(wiki)
    (wiki / "script.yaml").write_text("replies: [{reply: 'two years'}]")
    run = harness.run(
        "bm25", retriever={"mine": look_up}, documents="wiki", questions="questions.jsonl",
        model="reader", set={"model.backend": "scripted", "model.script": "script.yaml"},
        mlflow="off", progress=False,
    )  # fmt: skip
    assert run.config["method"]["name"] == "bm25[mine]"
    assert run.summary["scores"]["evidence_pages"]["mean"] == 1
