"""A folder of six files, five questions about it, and an application over HTTP that answers them."""

import json
import threading
import time
from dataclasses import dataclass, field

from tests.llm.loopback import Loopback

PAGES = {
    "setup.md": "# Setting up\n\nThe device starts in nine seconds.\n\n## Warranty\n\nThe warranty"
    " of the device lasts two years.\n",
    "prices.md": "# Prices\n\nThe large plan costs forty euros a month.\n",
    "people.txt": "Mira leads the team in Lisbon since spring.\n",
    "travel.md": "# Travel\n\nTrains are booked by the office in Ghent.\n",
    "lunch.txt": "Lunch is served at noon on weekdays.\n",
    "garage.md": "# Garage\n\nThe garage closes at ten in the evening.\n",
}
ANSWERS = {
    "How long is the warranty?": ("two years", "setup.md", "lasts two years"),
    "What does the large plan cost?": ("forty euros", "prices.md", "costs forty euros"),
    "Who leads the team?": ("Mira", "people.txt", "Mira leads the team"),
    "Where are trains booked?": ("Ghent", "travel.md", "the office in Ghent"),
    "When does the garage close?": ("ten", "garage.md", "closes at ten"),
}


def write_wiki(folder):
    """Write wiki/ and questions.jsonl into a folder."""
    pages = folder / "wiki"
    pages.mkdir()
    for name, text in PAGES.items():
        (pages / name).write_text(text)
    lines = []
    for number, (question, (answer, page, _)) in enumerate(ANSWERS.items(), start=1):
        row = {"id": f"q{number}", "question": question, "answer": answer, "gold_pages": [page]}
        lines.append(json.dumps(row))
    (folder / "questions.jsonl").write_text("\n".join(lines) + "\n")


@dataclass
class WikiApp:
    """An application. wrong: questions that it answers with "I do not know"; moods: status codes
    of its first requests, "ok" for a reply; unpriced: questions whose reply says no cost; seconds: that a reply takes; took: its own log."""

    wrong: tuple[str, ...] = ()
    moods: list[str] = field(default_factory=list)
    unpriced: tuple[str, ...] = ()
    seconds: float = 0.0
    fields: tuple[str, ...] = ("answer", "sources", "contexts", "tokens", "cost")
    took: list[float] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    most_at_once: int = 0

    def __post_init__(self):
        self._lock = threading.Lock()
        self._at_once = 0

    def server(self):
        """The application over HTTP, to be used in a `with` block."""
        return Loopback([self.over_http])

    def over_http(self, body):
        began = time.perf_counter()
        with self._lock:
            self.asked.append(body["question"])
            if self.moods and (mood := self.moods.pop(0)) != "ok":
                return mood
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
        time.sleep(self.seconds)
        with self._lock:
            self._at_once -= 1
            self.took.append(time.perf_counter() - began)
        return self.reply(body["question"])

    def reply(self, question):
        answer, page, text = ANSWERS[question]
        if question in self.wrong:
            answer, page, text = "I do not know", "lunch.txt", "served at noon"
        whole = {
            "answer": answer,
            "sources": [page, "nowhere.md"],
            "contexts": [text],
            "tokens": {"input": 100, "output": 4},
            "cost": 0.002,
        }
        if question in self.unpriced:
            del whole["cost"]
        return {name: whole[name] for name in self.fields if name in whole}
