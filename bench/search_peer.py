"""IRCoT over a corpus beside FlashRAG's own pipeline: recall of supporting pages and seconds, with
the same questions and the same replies of the model.

    HARNESS_TEST_DATA=DATA python -m bench.search_peer --peer PYTHON [--passages 100000] [--questions 100]

PYTHON: of an environment with flashrag-dev 0.1.2 (what the package index has), bm25s and PyStemmer. Three rows:

    harness            harness run -m ircot --corpus INDEX, BM25 of this project
    flashrag           IRCOTPipeline with its BM25Retriever (bm25s) over an index that its Index_Builder made
    flashrag, served   the same pipeline, whose retriever asks harness serve-index for the same index

A model's two replies to a question are made of its row: a sentence that names the first supporting
page, then the answer. Both ask for k passages at a time, twice. Recall: share of supporting titles
among all passages found. The peer's part of this file runs by itself: python bench/search_peer.py.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

K = 5


@dataclass(frozen=True)
class Asked:
    """A question with the titles that support it and the model's two replies."""

    question: str
    titles: list[str]
    replies: list[str]


def asked_questions(path: Path, count: int) -> list[Asked]:
    """Questions of HotpotQA's file with made-up replies."""
    found: list[Asked] = []
    for row in json.loads(path.read_text())[:count]:
        titles = list(dict.fromkeys(title for title, _ in row["supporting_facts"]))
        replies = [f"The first page is {titles[0]}", f"So the answer is: {row['answer']}"]
        found.append(Asked(row["question"], titles, replies))
    return found


# The peer's part, which imports nothing of this project.


class Replies:
    """FlashRAG's interface of a generator, with replies by question."""

    def __init__(self, asked: list[dict[str, Any]]) -> None:
        self._asked = asked
        self._given: dict[str, int] = {}

    def generate(self, prompt: str, **_: Any) -> list[str]:
        """The next reply to the question of a prompt."""
        each = next(one for one in self._asked if f"Question: {one['question']}" in prompt)
        number = self._given.get(each["question"], 0)
        self._given[each["question"]] = number + 1
        return [each["replies"][min(number, 1)]]


class Served:
    """FlashRAG's interface of a retriever, over harness serve-index."""

    def __init__(self, url: str) -> None:
        self._url = url

    def search(self, query: str, return_score: bool = False) -> Any:
        """The passages of a query, and their scores."""
        import requests

        body = {"query": query, "top_n": K, "return_score": return_score}
        return requests.post(f"{self._url}/search", json=body, timeout=600).json()


def peer(settings: dict[str, Any]) -> dict[str, Any]:
    """Run FlashRAG's pipeline on each question; returns seconds and recall."""
    from flashrag.dataset.dataset import Item
    from flashrag.pipeline import IRCOTPipeline
    from flashrag.retriever.retriever import BM25Retriever

    if settings["url"]:
        retriever: Any = Served(settings["url"])
    else:
        retriever = BM25Retriever(flashrag_config(settings))
    pipeline = IRCOTPipeline.__new__(IRCOTPipeline)
    pipeline.prompt_template = Template()
    pipeline.generator = Replies(settings["asked"])
    pipeline.retriever = retriever
    pipeline.max_iter = 2
    seconds, recalls = [], []
    for one in settings["asked"]:
        item = Item({"question": one["question"], "golden_answers": [""]})
        began = time.perf_counter()
        pipeline.run_item(item)
        seconds.append(time.perf_counter() - began)
        titles = {title_of(document) for document in item.retrieval_result}
        recalls.append(len(titles & set(one["titles"])) / len(set(one["titles"])))
    return {"seconds": statistics.median(seconds), "recall": statistics.mean(recalls)}


class Template:
    """FlashRAG's interface of a prompt; the replies need the question alone."""

    def get_string(self, question: str, **_: Any) -> str:
        """The prompt."""
        return f"Question: {question}\nThought:"


def title_of(document: dict[str, Any]) -> str:
    """The first line of a document's contents."""
    return str(document["contents"]).split("\n")[0].strip('"')


def flashrag_config(settings: dict[str, Any]) -> dict[str, Any]:
    """What FlashRAG's BM25Retriever reads of a configuration."""
    return {
        "retrieval_method": "bm25",
        "bm25_backend": "bm25s",
        "index_path": settings["index"],
        "corpus_path": settings["corpus"],
        "retrieval_topk": K,
        "save_retrieval_cache": False,
        "use_retrieval_cache": False,
        "retrieval_cache_path": None,
        "use_reranker": False,
        "silent_retrieval": True,
        "save_dir": settings["folder"],
    }


def peer_index(settings: dict[str, Any]) -> dict[str, Any]:
    """Build FlashRAG's index of words; returns seconds."""
    from flashrag.retriever.index_builder import Index_Builder

    began = time.perf_counter()
    builder = Index_Builder(
        retrieval_method="bm25",
        model_path=None,
        corpus_path=settings["corpus"],
        save_dir=settings["folder"],
        max_length=180,
        batch_size=512,
        use_fp16=False,
        pooling_method="mean",
        instruction="none",  # it raises where none is given
        bm25_backend="bm25s",
    )
    builder.build_index()
    return {"seconds": time.perf_counter() - began}


# This project's part.


def run_peer(python: str, step: str, settings: dict[str, Any], folder: Path) -> dict[str, Any]:
    """What a step of the peer's part prints."""
    file = folder / f"{step}.json"
    file.write_text(json.dumps(settings))
    command = [python, __file__, "--step", step, str(file)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def harness_row(folder: Path, data: Path, asked: list[Asked]) -> dict[str, Any]:
    """Recall and the median of seconds of `harness run -m ircot`."""
    replies: list[dict[str, Any]] = []
    for one in asked:
        first = f"Question: {one.question}\n\nReasoning so far: (none)"
        second = f"Question: {one.question}\n\nReasoning so far: The first page"
        replies.append({"when": first, "reply": f"{one.replies[0]}."})
        replies.append({"when": second, "reply": f"{one.replies[1]}."})
    script = folder / "replies.yaml"
    script.write_text(json.dumps({"replies": [*replies, {"reply": "none"}], "window": 100_000}))
    words = ["run", "-m", "ircot-reasoning", "-d", "hotpotqa", "--data", str(data)]
    words += ["--limit", str(len(asked)), "--corpus", str(folder / "index"), "--model", "scripted"]
    words += ["--set", f"model.script={script}", f"method.k={K}", "method.most=100"]
    words += ["--out", str(folder / "out"), "--mlflow", "off", "--quiet"]
    subprocess.run([sys.executable, "-m", "harness", *words], check=True, capture_output=True)
    (records,) = (folder / "out").glob("*/*/records.jsonl")
    rows = [json.loads(line) for line in records.read_text().splitlines()]
    recalls = [row["scores"]["search_recall_pages"] for row in rows]
    seconds = [row["notes"]["seconds"] for row in rows]
    return {"seconds": statistics.median(seconds), "recall": statistics.mean(recalls)}


def print_row(name: str, row: dict[str, Any]) -> None:
    """Print a row."""
    milliseconds = 1000 * row["seconds"]
    print(f"{name:>18}  recall {100 * row['recall']:5.1f}   {milliseconds:8.1f} ms a question")


def compare(python: str, passages: int, count: int, folder: Path) -> None:
    """Print the three rows."""
    import threading

    from bench.search_corpus import material, write_corpus
    from harness.retrieval.index_server import make_server
    from harness.retrieval.search_index import IndexRequest, SearchIndex, build_index

    root = Path(os.environ["HARNESS_TEST_DATA"])
    data = root / "data" / "hotpotqa" / "hotpot_dev_distractor_sample.json"
    asked = asked_questions(data, count)
    write_corpus(material(root), passages, folder / "corpus.jsonl")
    request = IndexRequest(folder / "corpus.jsonl", folder / "index", "bm25", None, 100)
    build_index(request, lambda *_: None)
    flashrag_corpus = folder / "flashrag.jsonl"
    with flashrag_corpus.open("w") as file:
        for text in (folder / "index" / "passages.jsonl").read_text().splitlines():
            row = json.loads(text)
            contents = f"{row['title']}\n{row['text']}"
            file.write(json.dumps({"id": row["id"], "contents": contents}) + "\n")
    print_row("harness", harness_row(folder, data, asked))
    settings: dict[str, Any] = {
        "asked": [vars(one) for one in asked],
        "url": "",
        "corpus": str(flashrag_corpus),
        "folder": str(folder / "peer"),
        "index": str(folder / "peer" / "bm25"),
    }
    run_peer(python, "index", settings, folder)
    print_row("flashrag", run_peer(python, "run", settings, folder))
    server = make_server(SearchIndex.open(folder / "index"), "127.0.0.1", 0)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    settings["url"] = f"http://127.0.0.1:{server.server_port}"
    print_row("flashrag, served", run_peer(python, "run", settings, folder))


def main() -> None:
    """Run the comparison, or a step of the peer's part."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--peer")
    parser.add_argument("--passages", type=int, default=100_000)
    parser.add_argument("--questions", type=int, default=100)
    parser.add_argument("--step", nargs=2)
    arguments = parser.parse_args()
    if arguments.step:
        step, file = arguments.step
        settings = json.loads(Path(file).read_text())
        print(json.dumps({"index": peer_index, "run": peer}[step](settings)))
        return
    with tempfile.TemporaryDirectory() as folder:
        compare(arguments.peer, arguments.passages, arguments.questions, Path(folder))


if __name__ == "__main__":
    main()
