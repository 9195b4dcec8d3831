"""Retrieval in stages as a user runs it: presets on a folder, what is recorded, what it costs."""

import json

import pytest

PAGES = {
    "pumps": "# Pumps\n\nA pump is oiled every month.\n\n## Repair\n\nA pump is repaired in ten days.",
    "valves": "# Valves\n\nA valve is checked in spring.\n\n## Repair\n\nA valve takes two days.",
    "office": "# Office\n\nThe office is in Turin.\n\n## Hours\n\nIt opens at nine.",
}
REPLIES = [
    {"when": "Queries:", "reply": "1. opening hours\n2. when it opens"},
    {"when": "Passage:", "reply": "The office opens at nine."},
    {"reply": "nine"},
]


@pytest.fixture
def ask(tmp_path, here):
    """Run a preset on the folder with a scripted model and the encoders that come along; returns
    the record."""
    folder = tmp_path / "wiki"
    folder.mkdir()
    for name, text in PAGES.items():
        (folder / f"{name}.md").write_text(text)
    question = {"question": "When does the office open?", "answer": "nine"}
    (tmp_path / "q.jsonl").write_text(json.dumps(question))
    (tmp_path / "script.yaml").write_text(json.dumps({"replies": REPLIES}))

    def call(method, *settings):
        out = tmp_path / "-".join((method, *settings)).replace("=", "-")
        words = ["run", "-m", method, "--documents", str(folder), "--questions", "q.jsonl"]
        words += ["--model", "scripted", "--out", str(out), "--mlflow", "off", "-q", "--set"]
        chosen = ["model.script=script.yaml", "encoder=minilm", "reranker=pocket-reranker"]
        here(*words, *chosen, *settings).checked()
        (records,) = out.glob("*/*/records.jsonl")
        return json.loads(records.read_text())

    return call


def search(record):
    """What the search of a question took, without its time."""
    return {k: v for k, v in record["usage"]["search"].items() if k not in ("seconds", "queued")}


def test_a_reranker_reads_the_first_chunks_alone(ask):
    small = "method.chunk_tokens=8"
    every_chunk = ask("bge-reranker", small)
    chunks = search(every_chunk)["texts"]
    assert chunks > 5
    # The same tokens and FLOPs as of all chunks, where it orders as many as there are.
    assert search(ask("bm25-rerank", small, f"method.rerank={chunks}")) == search(every_chunk)
    few = search(ask("hybrid-rerank", small, "method.rerank=2"))
    assert few["texts"] == 1 + 2  # the question for the encoder, and two pairs
    assert 0 < few["roles"]["reranker"] < search(every_chunk)["roles"]["reranker"] / 2


@pytest.mark.parametrize(
    ("method", "actions", "written"),
    [
        ("hybrid", ["retrieve"] * 2, 0),
        ("hyde", ["rewrite"] * 8 + ["retrieve"] * 2, 8 * 5),  # a scripted token is a word
        ("multi-query", ["rewrite"] * 2 + ["retrieve"] * 2, 7),
    ],
)
def test_searches_and_what_they_write_are_recorded(ask, method, actions, written):
    record = ask(method, "method.chunk_tokens=8", "method.k=2")
    assert [step["action"] for step in record["steps"]] == actions
    assert search(record)["tokens_out"] == written
    assert len(record["shown"]) == 2
    assert record["prediction"] == "nine"


def test_sections_of_pages_are_shown(ask):
    record = ask("parent-pages", "method.chunk_tokens=4", "method.budget=10")
    (shown,) = record["shown"]
    assert shown["end"] - shown["start"] == len("Office: Hours\nIt opens at nine.")


def test_a_setting_is_called_unused_once_and_where_no_method_of_the_command_has_it(ask, here):
    words = ["--documents", "wiki", "--questions", "q.jsonl", "--model", "scripted", "--plan"]
    sets = ["--set", "model.script=script.yaml", "reranker=pocket-reranker"]
    alone = here("run", "-m", "bm25,closed-book,random", *words, *sets).checked().stderr
    assert alone.count("is ignored") == 1
    assert "no method of this command uses reranker, so that setting is ignored" in alone
    used = here("run", "-m", "bm25,closed-book,bm25-rerank", *words, *sets).checked().stderr
    assert "ignored" not in used
    profiled = here("run", "-m", "bm25", *words, *sets[:2], "--profile", "small").checked().stderr
    assert "ignored" not in profiled
