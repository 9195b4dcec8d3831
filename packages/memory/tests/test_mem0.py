"""The method `mem0` through the command, with a scripted model and a stand-in of the package
(stand_in/); where the package itself is installed, with that."""

import json
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

STAND_IN = Path(__file__).parent / "stand_in"
INSTALLED = find_spec("mem0") is not None
TEXTS = [("Mill", "Ann built the mill."), ("Ann", "Ann was born in Kelford."), ("Cy", "Cy left.")]
REPLIES = [
    {
        "when": "## New Messages\nuser: Mill\n",
        "reply": '{"memory": [{"text": "Ann built the mill"}]}',
    },
    {
        "when": "## New Messages\nuser: Ann\n",
        "reply": '{"memory": [{"text": "Ann is of Kelford"}]}',
    },
    {"when": "## New Messages", "reply": "I found nothing."},
    {"when": "Ann is of Kelford", "reply": "Kelford"},
    {"reply": "unknown"},
]


@pytest.fixture
def run(command, tmp_path, monkeypatch):
    """Run the method on a question, or on another with the same document; returns the exit code,
    the last record and what was said."""
    if not INSTALLED:
        monkeypatch.syspath_prepend(str(STAND_IN))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path / "home"))
    paragraphs = [
        {"idx": number, "title": title, "paragraph_text": text, "is_supporting": number < 2}
        for number, (title, text) in enumerate(TEXTS)
    ]
    row = {
        "id": "2hop__1",
        "question": "Where was the builder of the mill born?",
        "paragraphs": paragraphs,
        "question_decomposition": [],
        "answer": "Kelford",
        "answer_aliases": [],
        "answerable": True,
    }
    Path("rows.jsonl").write_text(json.dumps(row))

    def run(replies, *sets):
        Path("replies.yaml").write_text(json.dumps({"replies": replies}))
        words = ["run", "--method", "mem0", "--dataset", "musique", "--data", "rows.jsonl"]
        words += ["--model", "scripted", "--mlflow", "off", "--out", "out", "--profile", "pocket"]
        words += ["--keep-prompts", "--set", "model.script=replies.yaml", *sets]
        code, out, err = command(*words)
        files = sorted(Path("out").glob("*/mem0--*/records.jsonl"), key=lambda f: f.stat().st_mtime)
        record = json.loads(files[-1].read_text().splitlines()[-1]) if files else {}
        return code, record, out + err

    yield run
    for name in [name for name in sys.modules if name.split(".")[0] in ("mem0", "qdrant_client")]:
        if not INSTALLED:
            del sys.modules[name]


def test_memories_are_extracted_found_and_read(run):
    code, record, said = run(REPLIES)
    assert code == 0, said
    assert record["prediction"] == "Kelford"
    texts = {piece["text"]: piece["sources"] for piece in record["shown"]}
    assert set(texts) == {"Ann built the mill", "Ann is of Kelford"}
    # A memory is of the chunk that it was extracted of.
    (source,) = texts["Ann is of Kelford"]
    begin = len("Mill\nAnn built the mill.\n\n")
    assert source[1:] == [begin, begin + len("Ann\nAnn was born in Kelford.")]
    assert all(step["scores"]["score"] > 0 for step in record["steps"])


def test_each_request_is_counted_and_an_index_is_built_once(run):
    _, record, _ = run(REPLIES)
    (document,) = Path("out").glob("*/mem0--*/documents.jsonl")
    usage = json.loads(document.read_text().splitlines()[-1])["usage"]["index"]
    requests = [
        json.loads(line)
        for file in Path("out").glob("*/mem0--*/requests.jsonl")
        for line in file.read_text().splitlines()
    ]
    extracted = [one for one in requests if "## New Messages" in one["prompt"]]
    assert len(extracted) == 3
    assert usage["requests"] - usage["encoder_requests"] == 3
    assert usage["tokens_out"] > 0
    assert record["usage"]["search"]["encoder_requests"] == 1
    # The second chunk is sent with what is known of the first.
    assert "Ann built the mill" in extracted[1]["prompt"].partition("## New Messages")[0]
    code, again, said = run(REPLIES, "method.k=1")
    assert code == 0, said
    assert len(again["shown"]) == 1
    files = sorted(Path("out").glob("*/mem0--*/requests.jsonl"), key=lambda f: f.stat().st_mtime)
    assert len(files) == 2
    assert "## New Messages" not in files[-1].read_text()


def test_a_request_that_fails_is_named_as_it_was_raised(run):
    code, record, said = run(REPLIES, "model.window=40", "dataset.max_answer_tokens=4")
    assert code == 3, said
    assert record["error"]["type"] == "WindowExceeded"  # and not the package's own error


def test_without_the_package_it_says_what_to_install(command, tmp_path, monkeypatch):
    if INSTALLED:
        pytest.skip("mem0ai is installed")
    monkeypatch.chdir(tmp_path)
    code, _, err = command("validate", "--method", "mem0", "--dataset", "pocket/musique")
    assert code != 0
    assert "pip install 'mem0ai>=2.2,<3'" in err
