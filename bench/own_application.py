"""A made-up wiki of 60 mixed files, 30 questions about it, and an application over HTTP that answers
them and logs its own seconds: what any program that evaluates applications can be tried on.

    python -m bench.own_application make FOLDER      FOLDER/wiki/ and FOLDER/questions.jsonl
    python -m bench.own_application serve FOLDER     on port 8000; a line of FOLDER/log.jsonl a request

It answers 25 questions right with the page that holds the answer, four wrong with another page, and
one with status 500. So 25 of 30 answers are right and 25 of 30 pages are named.
"""

import itertools
import json
import random
import sys
import time
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock

FILES, QUESTIONS = 60, 30
WRONG = (6, 13, 20, 27)
BROKEN = 29
_SEED = 7
_SECONDS = (0.4, 2.0)
_ENDINGS = (".md", ".txt", ".html")
_PLACES = ("Alder", "Birch", "Cedar", "Dogwood", "Elm", "Fir")
_THINGS = ("pump", "boiler", "lift", "gate", "lamp", "printer", "oven", "fan", "clock", "scanner")


@dataclass(frozen=True)
class Row:
    """A page of the wiki, and the question about it.

    Args:
        page: The name of the file.
        question: The question.
        answer: Its answer.
        text: The text of the page.
    """

    page: str
    question: str
    answer: str
    text: str


def rows() -> list[Row]:
    """A row for each file, always the same; questions are asked about the first QUESTIONS."""
    dice = random.Random(_SEED)
    made_up: list[Row] = []
    places_and_things = list(itertools.product(_PLACES, _THINGS))
    dice.shuffle(places_and_things)
    for number, (place, thing) in enumerate(places_and_things):
        code = f"{dice.choice('KLMNPR')}{dice.randrange(100, 999)}"
        text = (
            f"The {thing} in house {place} was last checked in spring. "
            f"The code of the {thing} in house {place} is {code}. Ask the desk for the key."
        )
        ending = _ENDINGS[number % len(_ENDINGS)]
        page = f"{place}-{thing}{ending}".lower()
        question = f"What is the code of the {thing} in house {place}?"
        made_up.append(Row(page, question, code, text))
    return made_up


def make(folder: Path) -> None:
    """Write the wiki and the file of questions into a folder."""
    pages = folder / "wiki"
    pages.mkdir(parents=True, exist_ok=True)
    for row in rows():
        (pages / row.page).write_text(_as_file(row), encoding="utf-8")
    with open(folder / "questions.jsonl", "w", encoding="utf-8") as file:
        for number, row in enumerate(rows()[:QUESTIONS], 1):
            line = {
                "id": f"q{number}",
                "question": row.question,
                "answer": row.answer,
                "gold_pages": [row.page],
            }
            file.write(json.dumps(line) + "\n")


def _as_file(row: Row) -> str:
    """The content of a page's file, in the form that its ending names: HTML, Markdown or plain
    text."""
    title = row.page.partition(".")[0]
    if row.page.endswith(".html"):
        return f"<html><head><title>{title}</title></head><body><p>{row.text}</p></body></html>\n"
    if row.page.endswith(".md"):
        return f"# {title}\n\n{row.text}\n"
    return f"{row.text}\n"


class Application:
    """Answers questions of the wiki, slowly, and logs how long each took."""

    def __init__(self, log: Path) -> None:
        """Begin, with `log` as the file that each request gets a line in."""
        self._log = log
        self._lock = Lock()
        self._places = {row.question: place for place, row in enumerate(rows()[:QUESTIONS])}

    def answer(self, question: str) -> dict[str, object] | None:
        """Answer a question after a while, and log how long that took; None for the question that
        it fails on."""
        began = time.perf_counter()
        place = self._places[question]
        time.sleep(random.Random(place).uniform(*_SECONDS))
        reply = _reply(place)
        self._write({"question": question, "seconds": time.perf_counter() - began})
        return reply

    def _write(self, line: dict[str, object]) -> None:
        """Append a line to the log."""
        with self._lock, open(self._log, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def _reply(place: int) -> dict[str, object] | None:
    """What the application says to the question of a number: the right page, another page, or None
    for the question that it fails on."""
    if place == BROKEN:
        return None
    row = rows()[place]
    if place in WRONG:
        other = rows()[place + QUESTIONS]
        return _as_reply(other, f"The code is {other.answer}.")
    return _as_reply(row, f"The code is {row.answer}.")


def _as_reply(row: Row, answer: str) -> dict[str, object]:
    """A reply as the application sends it: answer, pages, texts, tokens and cost."""
    return {
        "answer": answer,
        "sources": [row.page],
        "contexts": [row.text],
        "tokens": {"input": 400, "output": 6},
        "cost": 0.001,
    }


def serve(folder: Path) -> None:
    """Serve the application on port 8000 until Ctrl-C."""
    application = Application(folder / "log.jsonl")

    class Handler(BaseHTTPRequestHandler):
        """Answers requests over HTTP."""

        def do_POST(self) -> None:
            """Answer {"question": ...} with a reply, or with status 500."""
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            reply = application.answer(body["question"])
            sent = json.dumps(reply or {"error": "broken"}).encode()
            self.send_response(500 if reply is None else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    ThreadingHTTPServer(("127.0.0.1", 8000), Handler).serve_forever()


if __name__ == "__main__":
    what, place = sys.argv[1], Path(sys.argv[2])
    {"make": make, "serve": serve}[what](place)
