"""Very long documents: what is done and held grows with the text and no faster, and a stopped index
is not begun again.

The sizes here are small enough for every run of the suite: twice two points on a line are enough to
see a square.
"""

import json
import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest

from harness.datasets import load
from harness.llm.scripted import Rule, Script, ScriptedModel
from harness.storage.index_cache import IndexCache
from harness.storage.index_parts import keep
from harness.types import Document, Question
from methods.long_context import FullContext
from methods.pecan import Pecan
from methods.retrieval import BM25
from tests.datasets.support import config
from tests.methods.conftest import FakeTools, answered

SMALL, LARGE = 6_000, 24_000  # words
QUESTION = Question("q", "Where is mill 17?", ("d",))


def story(words):
    """A text without repeats, so that no chunk equals another."""
    text = " ".join(
        f"mill {n} stands" if n % 9 else f"by river {n}.\n" for n in range(words // 3 + words // 30)
    )
    return Document("d", " ".join(text.split(" ")[:words]))


class Counting(ScriptedModel):
    """Two points a call; counts the characters it is asked to tokenise and the summaries it
    writes."""

    def __init__(self, window):
        script = Script(replies=[Rule(reply="* mill and river\n* river and mill")], window=window)
        super().__init__(script, attention=lambda row, column: 1.0 + len(column) % 7)
        self.characters = self.written = 0
        self.stop_after = None

    def offsets(self, text):
        self.characters += len(text)
        return super().offsets(text)

    def pick_rule(self, table, context):
        if self.stop_after is not None and self.written >= self.stop_after:
            raise KeyboardInterrupt
        self.written += 1
        return self._rules[table][0]  # without keeping every prompt, as a real model would not


class Desk(FakeTools):
    """A counting model, and durable parts on disk."""

    def __init__(self, folder, window=1024):
        super().__init__(
            similarity=SimpleNamespace(
                encode=lambda texts, kind: np.ones((len(texts), 4), np.float32)
            )
        )
        self.reader, self.made = Counting(window), []
        key = {"method": "methods.pecan:Pecan", "document": "d"}
        self.cache, self.key = IndexCache(folder, note=lambda text: None), key

    def keep(self, key, fn):
        def make():
            self.made.append(key)
            return fn()

        return keep(self.cache, self.key, key, make, self.meter)


def index(words, folder):
    desk = Desk(folder)
    method = Pecan(Pecan.Config(chunk_tokens=60, window=1024, reserve=64))
    return method.index(story(words), desk), desk


def test_the_work_of_an_index_grows_with_the_text(tmp_path):
    share = {}
    for words in (SMALL, LARGE):
        made, desk = index(words, tmp_path / str(words))
        share[words] = desk.reader.characters / len(story(words).text)
        chunks = sum(level == 1 for level in made["level"])
        assert chunks == words // 60
        # Every chunk is in one batch of the level above: an edge from every point of it.
        assert len(made["weight"]) <= 2 * len(made["level"])
        total = desk.said[-1][1]
        assert [done for done, _, what in desk.said if what == desk.said[-1][2]] == list(
            range(1, total + 1)
        )
    assert share[LARGE] < 1.1 * share[SMALL]
    assert share[LARGE] < 4


@pytest.mark.parametrize(
    "method",
    [FullContext(FullContext.Config()), BM25(BM25.Config(chunk_tokens=60))],
    ids=["full-context", "bm25"],
)
def test_the_work_of_an_answer_grows_with_the_text(method, tmp_path):
    share = []
    for words in (SMALL, LARGE):
        desk, document = Desk(tmp_path), story(words)
        answered(method, desk, document, QUESTION)
        share.append(desk.reader.characters / len(document.text))
    assert share[1] < 1.1 * share[0]


def _peak(work):
    """Most bytes that `work` held at a time."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_the_memory_of_an_index_grows_with_the_text(tmp_path):
    index(600, tmp_path / "warm")  # what is imported and compiled on the way is not the index's
    small = _peak(lambda: index(SMALL, tmp_path / "small"))
    large = _peak(lambda: index(LARGE, tmp_path / "large"))
    assert large < 1.2 * LARGE / SMALL * small


def test_a_stopped_index_goes_on_where_it_stopped(tmp_path):
    whole, undisturbed = index(SMALL, tmp_path / "whole")
    desk = Desk(tmp_path / "cut")
    method = Pecan(Pecan.Config(chunk_tokens=60, window=1024, reserve=64))
    desk.reader.stop_after = 3
    with pytest.raises(KeyboardInterrupt):
        method.index(story(SMALL), desk)
    kept = sorted((tmp_path / "cut").rglob("*.parts/*/data.json"))
    before = {path: path.stat().st_mtime_ns for path in kept}
    again = Desk(tmp_path / "cut")
    resumed = method.index(story(SMALL), again)
    assert len(kept) == 3
    assert again.reader.written == undisturbed.reader.written - 3
    assert again.made == undisturbed.made[3:]
    assert {path: path.stat().st_mtime_ns for path in kept} == before
    assert again.said == undisturbed.said
    assert resumed.keys() == whole.keys()
    for key, value in whole.items():
        assert (
            np.array_equal(resumed[key], value)
            if isinstance(value, np.ndarray)
            else resumed[key] == value
        )
    # What the finished parts cost is booked again: the cost does not depend on the interruption.
    assert (
        again.meter.usage()["answer"]["tokens_in"]
        == undisturbed.meter.usage()["answer"]["tokens_in"]
    )


@pytest.mark.parametrize("form", ["rows", "official"])
def test_a_story_that_thirty_questions_share_is_held_once(tmp_path, form):
    text = "x" * 400_000
    names = [f"{n:040}" for n in range(3)]
    if form == "rows":
        with (tmp_path / "r.jsonl").open("w") as out:
            for n in range(90):
                row = {
                    "document": {"id": names[n // 30], "text": text},
                    "question": {"text": f"Why {n}?"},
                }
                out.write(json.dumps({**row, "answers": [{"text": "so"}]}) + "\n")
    else:
        asked = "".join(f"{names[n // 30]},test,Why {n}?,so,\n" for n in range(90))
        (tmp_path / "qaps.csv").write_text("document_id,set,question,answer1,answer2\n" + asked)
        (tmp_path / "documents.csv").write_text(
            "document_id,set\n" + "".join(f"{name},test\n" for name in names)
        )
        for name in names:
            (tmp_path / f"{name}.content").write_text(text)
    data = config(
        "narrativeqa", data=str(tmp_path / "r.jsonl" if form == "rows" else tmp_path), split="test"
    )
    load(data, 1)
    # Three stories, and what one more row takes: its bytes (also trimmed), JSON and text, the row
    # before.
    assert _peak(lambda: load(data)) < (3 + 6) * len(text)
    # With a limit, one story and no more.
    assert _peak(lambda: load(data, 5)) < (1 + 6) * len(text)
