"""Search while answering, as a user has it: an index of a corpus, runs over it, a server for it."""

import json
import re
import threading

import httpx2
import pytest

from harness.retrieval.index_server import make_server
from harness.retrieval.search_index import SearchIndex
from tests.datasets.more_rows import browsecomp_plus

TITLES = ("Velindra", "Toren", "Mira", "Kelford")
TEXTS = (
    "The novel of the winter was written by Toren.",
    "Toren lives in Kelford since the flood.",
    "She sold two green boats.",
    "Kelford is the town by the river Une.",
)
QUESTION = "Which river does the author of the novel Velindra see?"
LONG = " ".join(f"word{n}" for n in range(250))
REPLIES = {
    "ircot": [
        {"when": "Next sentence:", "reply": "Toren lives in a town.", "once": True},
        {"when": "Next sentence:", "reply": "So the answer is: the Une.", "once": True},
        {"when": "Answer:", "reply": "Une"},
    ],
    "iter-retgen": [
        {"when": "Reasoning:", "reply": "It is by Toren of Kelford.", "once": True},
        {"when": "Reasoning:", "reply": "So the answer is: Une."},
    ],
    "self-ask": [
        {"when": "Next line:", "reply": "Follow up: Where does Toren live?", "once": True},
        {"when": "Next line:", "reply": "So the final answer is: Une."},
        {"when": "Answer:", "reply": "In Kelford."},
    ],
    "search-r1": [
        {"reply": "<think>who</think><search> Toren lives </search> more", "once": True},
        {"reply": "<think>seen</think><answer> Une </answer> and more"},
    ],
    "search-o1": [
        {"when": "The passages end here.", "reply": "**Final Information**\nIn Kelford."},
        {"reply": "<|begin_search_query|>Toren lives<|end_search_query|> more", "once": True},
        {"reply": "Thus \\boxed{Une}."},
    ],
    "tool-agent": [
        {"when": "<tool_response>", "reply": "Answer: Une"},
        {
            "when": "Question:",
            "reply": '<tool_call>{"name": "search", "arguments": {"query": "Toren lives"}}</tool_call>',
        },
    ],
    "bm25": [{"reply": "Une"}],
}


ASKED = "river the author of the novel Velindra see?"
QUERIES = {
    "ircot": [ASKED, "Toren lives in a town."],
    "iter-retgen": [QUESTION, f"It is by Toren of Kelford. {QUESTION}"],
    "self-ask": ["Where does Toren live?"],
    "search-r1": ["Toren lives"],
    "search-o1": ["Toren lives"],
    "tool-agent": ["Toren lives"],
    "bm25": [QUESTION],
}


def write_corpus(folder):
    lines = []
    for number, (title, text) in enumerate(zip(TITLES, TEXTS, strict=True)):
        lines.append(json.dumps({"id": f"p{number}", "title": title, "text": text}))
    lines.append(json.dumps({"id": "long", "title": "Long", "text": LONG}))
    (folder / "corpus.jsonl").write_text("\n".join(lines))


def write_questions(folder, **extra):
    paragraphs = list(zip(TITLES, TEXTS, strict=True))
    row = {
        "id": "q",
        "question": QUESTION,
        "paragraphs": paragraphs,
        "answers": ["Une"],
        "supporting": [0, 3],
        "extra": extra,
    }
    (folder / "rows.jsonl").write_text(json.dumps(row))


@pytest.fixture
def index(here, tmp_path):
    """The folder of an index of the corpus; questions about it in rows.jsonl."""
    write_corpus(tmp_path)
    write_questions(tmp_path)
    made = here("index-corpus", "corpus.jsonl", "--out", "index").checked()
    assert made.stdout == "index: 7 passages of 5 documents, bm25\n"
    return tmp_path / "index"


def run(here, tmp_path, method, *options, replies=None, code=0):
    """Run a method on the question; returns its record."""
    script = tmp_path / f"{method}.yaml"
    script.write_text(json.dumps({"replies": replies or REPLIES[method]}))
    words = ["run", "--method", method, "--dataset", "rows", "--data", "rows.jsonl"]
    model = ["--model", "scripted", "--set", f"model.script={script}"]
    here(*words, *model, "--out", "out", "--mlflow", "off", *options).checked(code)
    return record_of(tmp_path, method)


def record_of(tmp_path, method):
    files = sorted((tmp_path / "out").glob(f"*/{method}--*/records.jsonl"))
    (line,) = files[-1].read_text().splitlines()
    return json.loads(line)


def found(record):
    """(query, ids) of each search."""
    return [(s["query"], [passage["id"] for passage in s["found"]]) for s in record["searches"]]


@pytest.mark.parametrize("method", REPLIES)
def test_each_method_searches_the_corpus_and_answers(here, tmp_path, index, method):
    record = run(here, tmp_path, method, "--corpus", str(index))
    assert record["error"] is None
    assert record["prediction"].removeprefix("the ") == "Une"
    assert (
        record["scores"]["search_recall_pages"]
        == len({"p0", "p3"} & {name for _, names in found(record) for name in names}) / 2
    )
    assert [query for query, _ in found(record)] == QUERIES[method]
    searches = record["usage"]["search"]["searches"]
    assert searches["requests"] == len(record["searches"])
    assert searches["passages"] == sum(len(names) for _, names in found(record))
    assert searches["seconds"] > 0


def test_what_a_search_finds_stands_in_the_record(here, tmp_path, index):
    record = run(here, tmp_path, "ircot", "--corpus", str(index), "--set", "method.k=1")
    assert found(record) == [
        (ASKED, ["p0"]),
        ("Toren lives in a town.", ["p1"]),
    ]
    text = f"Velindra\n{TEXTS[0]}"
    (piece,) = record["searches"][0]["found"][0]["shown"]
    assert (piece["kind"], piece["start"], piece["end"]) == ("span", 0, len(text))
    assert record["scores"]["search_recall"] == 0.5
    assert record["scores"]["evidence_recall"] == 0.5


@pytest.mark.parametrize("method", ["search-r1", "search-o1"])
def test_the_thinking_stays_in_the_reply_that_goes_on(here, tmp_path, index, method):
    first, *rest = REPLIES[method][-2:]
    begun = "<think>hm " + first["reply"].removeprefix("<think>").removesuffix(" more")
    read = {"when": "The passages end here.", "reply": "**Final Information**\nIn Kelford."}
    replies = [read, {"reply": begun, "once": True}, *rest]
    record = run(here, tmp_path, method, "--corpus", str(index), "--keep-prompts", replies=replies)
    assert [query for query, _ in found(record)] == ["Toren lives"]
    (requests,) = (tmp_path / "out").glob(f"*/{method}--*/requests.jsonl")
    last = json.loads(requests.read_text().splitlines()[-1])
    assert f"{begun}\n\n<" in last["prompt"]


def test_search_o1_reads_with_the_first_and_the_last_three_steps(here, tmp_path, index):
    first, *rest = REPLIES["search-o1"][-2:]
    steps = "one\ntwo\nthree\nfour\nfive\n" + first["reply"]
    replies = [REPLIES["search-o1"][0], {"reply": steps, "once": True}, *rest]
    words = ("--corpus", str(index), "--keep-prompts")
    run(here, tmp_path, "search-o1", *words, replies=replies)
    (requests,) = (tmp_path / "out").glob("*/search-o1--*/requests.jsonl")
    assert r"Step 1: one\n\n...\n\nStep 4: four\n\nStep 5: five" in requests.read_text()


def test_own_documents_are_searched_without_a_corpus(here, tmp_path):
    write_questions(tmp_path)
    record = run(here, tmp_path, "ircot", "--set", "method.k=2")
    assert found(record)[0][1] == ["q:0", "q:3"]
    assert record["scores"]["search_recall"] == 1.0
    assert "search" in record["usage"]


def test_gold_passages_are_ids_or_titles_of_the_corpus(here, tmp_path, index):
    write_questions(tmp_path, gold_passages=["p0", "Mira", "nowhere", "Kelford"])
    record = run(here, tmp_path, "bm25", "--corpus", str(index), "--set", "corpus_passages=2")
    assert found(record) == [(QUESTION, ["p0", "p3"])]
    assert record["scores"]["search_recall"] == 0.5


def test_the_passages_of_the_corpus_are_all_that_a_method_reads(here, tmp_path, index):
    replies = [{"when": TEXTS[0], "reply": "Une"}]
    with_one = ("--corpus", str(index), "--set", "corpus_passages=1", "--keep-prompts")
    run(here, tmp_path, "bm25", *with_one, replies=replies)
    (requests,) = (tmp_path / "out").glob("*/bm25--*/requests.jsonl")
    prompt = json.loads(requests.read_text().splitlines()[-1])["prompt"]
    assert TEXTS[0] in prompt
    assert TEXTS[1] not in prompt


def test_runs_with_another_corpus_are_other_runs(here, tmp_path, index):
    run(here, tmp_path, "bm25")
    run(here, tmp_path, "bm25", "--corpus", str(index))
    run(here, tmp_path, "bm25", "--corpus", str(index), "--set", "corpus_passages=2")
    here("index-corpus", "corpus.jsonl", "--out", "short", "--words", "50").checked()
    run(here, tmp_path, "bm25", "--corpus", "short")
    assert len(list((tmp_path / "out").glob("*/bm25--*"))) == 4
    report = here("report", "out", "--columns", "method").checked().stdout
    marks = re.findall(r"bm25 \[corpus corpus.jsonl bm25 ([0-9a-f]{4})(, 2 passages)?\]", report)
    assert len({digits for digits, _ in marks}) == 2
    assert len(set(marks)) == 3
    assert "another corpus (corpus.jsonl bm25" in " ".join(report.split())


def test_the_same_index_elsewhere_resumes_the_run(here, tmp_path, index):
    run(here, tmp_path, "bm25", "--corpus", str(index))
    index.rename(tmp_path / "moved")
    (tmp_path / "corpus.jsonl").unlink()
    run(here, tmp_path, "bm25", "--corpus", "moved")
    assert len(list((tmp_path / "out").glob("*/bm25--*"))) == 1


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            ("--corpus", "nowhere"),
            "--corpus nowhere: no such folder; make it: harness index-corpus",
        ),
        (("--corpus", "."), "--corpus . is no finished index; make one: harness index-corpus"),
        (("--corpus", "http://127.0.0.1:9"), "no index is served there"),
    ],
)
def test_a_corpus_that_is_none_is_said(here, tmp_path, options, sentence):
    write_questions(tmp_path)
    words = ("run", "--method", "bm25", "--dataset", "rows", "--data", "rows.jsonl")
    ended = here(*words, *options, "--mlflow", "off")
    assert ended.returncode == 2
    assert sentence in ended.stderr


def test_a_method_that_reads_nothing_says_so(here, tmp_path, index):
    write_questions(tmp_path)
    words = ("run", "--method", "closed-book,oracle-evidence", "--dataset", "rows")
    ended = here(*words, "--data", "rows.jsonl", "--corpus", str(index), "--plan")
    assert "'closed-book' reads no documents: it does not use --corpus" in ended.stderr
    assert "'oracle-evidence' reads what the data set marks as supporting" in ended.stderr


@pytest.fixture
def url(index):
    """The address of a server that has the index."""
    server = make_server(SearchIndex.open(index), "127.0.0.1", 0)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_a_served_index_gives_what_the_folder_gives(here, tmp_path, index, url):
    served = run(here, tmp_path, "ircot", "--corpus", url)
    there = found(served)
    assert found(run(here, tmp_path, "ircot", "--corpus", str(index))) == there
    assert len(list((tmp_path / "out").glob("*/ircot--*"))) == 1  # one index, one run


def test_the_server_takes_the_requests_of_search_r1_and_of_flashrags_servers(url):
    document = {
        "id": "p2",
        "title": "Mira",
        "text": TEXTS[2],
        "contents": f"Mira\n{TEXTS[2]}",
    }
    asked = {"queries": ["green boats", "nothing of it"], "topk": 3, "return_scores": True}
    result = httpx2.post(f"{url}/retrieve", json=asked).json()["result"]
    assert [[entry["document"] for entry in entries] for entries in result] == [[document], []]
    score = result[0][0]["score"]
    assert httpx2.post(f"{url}/retrieve", json={**asked, "return_scores": False}).json() == {
        "result": [[document], []]
    }
    one = {"query": "green boats", "top_n": 1, "return_score": True}
    assert httpx2.post(f"{url}/search", json=one).json() == [[document], [score]]
    many = {"query": ["green boats"], "top_n": 1}
    assert httpx2.post(f"{url}/batch_search", json=many).json() == [[document]]
    wrong = httpx2.post(f"{url}/retrieve", json={"queries": "green boats"})
    assert (wrong.status_code, wrong.json()) == (
        400,
        {"error": "queries should be a list of texts"},
    )
    assert httpx2.post(f"{url}/nowhere", json={}).status_code == 404


def test_a_folder_of_pages_is_indexed(here, tmp_path):
    pages = tmp_path / "wiki"
    pages.mkdir()
    (pages / "velindra.md").write_text(f"# Velindra\n\n{TEXTS[0]}\n")
    (pages / "toren.md").write_text(f"# Toren\n\n{TEXTS[1]}\n")
    write_questions(tmp_path)
    here("index-corpus", "wiki", "--out", "index").checked()
    record = run(here, tmp_path, "bm25", "--corpus", "index", "--set", "corpus_passages=1")
    assert found(record) == [(QUESTION, ["velindra"])]


def test_texts_that_must_not_be_kept_are_not_in_the_searches(here, tmp_path, index):
    record = run(here, tmp_path, "bm25", "--corpus", str(index), "--keep-texts", "no")
    (search,) = record["searches"]
    assert search["query"] == ""
    assert {passage["title"] for passage in search["found"]} == {""}
    assert all(piece["text"] == "" for passage in search["found"] for piece in passage["shown"])
    assert record["scores"]["search_recall"] == 1.0


@pytest.mark.parametrize(
    ("query", "sentence", "holding_answer"),
    [("Who built it?", "Bo left.", 1.0), ("Who left?", "It was in 1719.", 0.0)],
)
def test_searches_are_counted_and_pages_that_hold_the_answer(
    here, tmp_path, query, sentence, holding_answer
):
    (tmp_path / "b.jsonl").write_text(json.dumps(browsecomp_plus(query=query)) + "\n")
    replies = [
        {"when": "Next sentence:", "reply": sentence, "once": True},
        *REPLIES["ircot"][1:],
    ]
    (tmp_path / "b.yaml").write_text(json.dumps({"replies": replies}))
    words = ["run", "--method", "ircot", "--dataset", "browsecomp-plus", "--data", "b.jsonl"]
    model = ["--model", "scripted", "--set", "model.script=b.yaml", "method.k=1", "--mlflow", "off"]
    here(*words, *model, "--out", "out").checked()
    scores = record_of(tmp_path, "ircot")["scores"]
    # Two of three pages are evidence, of which one holds the answer; each search finds one page.
    assert (scores["search_recall"], scores["search_recall_answer"]) == (0.5, holding_answer)
    report = here("report", "out", "--columns", "method,searches").checked().stdout
    assert re.search(r"ircot \[k=1\] +2\.0", report)
    assert "searches: in the corpus, per question" in report


def test_a_default_that_a_profile_changes_is_no_doubt_of_a_run_without_a_profile(here, tmp_path):
    """Profile paper finds names with Stanza, and the defaults with rules."""
    write_questions(tmp_path)
    run(here, tmp_path, "linearrag", "--set", "encoder=minilm", replies=[{"reply": "Une"}])
    done = here("report", "out").checked()
    assert "its preset's" not in " ".join(done.stdout.split())
