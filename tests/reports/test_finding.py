"""The sentences that open a page, worked out by hand from the scores and costs of a few runs, as
`harness report --html` writes them."""

import html
import re
from dataclasses import dataclass, field
from typing import Any

import pytest

from harness.config import presets
from harness.config.registry import method_class
from harness.config.yaml_tree import Tree
from harness.storage.run_folder import read_run
from reports.facts import FLOORS
from reports.figures.front import points
from reports.main_table import table_rows
from reports.page import page
from tests.reports.build import SCORE, built, record, usage, write_run

HIGH, LOW, ZERO = [1.0] * 19 + [0.0], [0.0] * 19 + [1.0], [0.0] * 20
ALIKE, HALF = [1.0] * 18 + [0.0, 0.0], [1.0, 0.0] * 10
UNKNOWN = {"flops": {}, "uncounted": 1, "requests": 1, "roles": {}}
HALF_IN_ONE = [["d0"]] * 20 + [[f"d{number}"] for number in range(1, 21)]
FLOOR = {"manifest": {"floor": True}}
ORACLE = {
    "settings": {
        "method": {
            "name": "oracle",
            "implementation": "methods.long_context:FullContext",
            "view": "evidence",
            "params": {},
        }
    }
}
SKIP = {"settings": {"failed": "skip"}}
UNFINISHED = {"summary": {"state": "interrupted", "n_asked": 20}}
OTHER_ROWS = {"manifest": {"dataset": {"fingerprint": "e" * 64}}}


ONES_THEN_ZEROS = [[1.0] * n + [0.0] * (20 - n) for n in range(21)]
FOLDER = [["the whole folder"]] * 20
UNEQUAL = [["d0"]] * 100 + [[f"d{number}"] for number in range(1, 8)]
CORPUS = {"name": "musique", "format": "retrieved", "scorers": [SCORE]}
LOADED_IN_PART = {
    "summary": {"state": "finished", "n_asked": 500, "n_left_out": 480},
    "manifest": {"dataset": {"fingerprint": "f" * 64, "skipped": {"too long": 480}}},
}
INDEXES_NOT_RECORDED = {"state": "finished", "index": {"documents": 5}}
MEASURED = usage(1.0) | {"seconds": 0.512345678901}  # to which each question adds a little
BILLED = usage(0.0, uncounted=1) | {
    "billed": {"reader": {"input": 1000, "cached": 0, "output": 10}}
}


WITH_SHOTS = {
    "settings": {
        "dataset": {"name": "musique", "format": "musique", "scorers": [SCORE], "shots": 4}
    }
}
SCORED_BY_WER = {
    "settings": {"dataset": {"name": "musique", "format": "musique", "scorers": ["wer"]}},
    "manifest": {"scorers": {"wer": "1"}},
}


def index_of(document):
    """A line on an index of 100,000 tokens, whose FLOPs are unknown."""
    line = built(document, 0.0)
    line["usage"]["index"].update(tokens_in=100000, uncounted=1)
    return line


INDEXES = [index_of(f"d{number}") for number in range(20)]


def tokens(count, cached=0):
    """What a question costs of which only tokens are known."""
    return usage(0.0, tokens=count, uncounted=1) | {"tokens_cached": cached}


def flops_by_convention(tflops, full):
    """What a question costs: `tflops` under every convention but "full"."""
    spent = usage(tflops)
    spent["flops"]["full"] = full * 1e12
    return spent


def priced(currency):
    """Settings of a server's model that is priced in a currency."""
    price = {"input": 2.0, "cached": None, "output": 5.0}
    return {"model": {"name": "m", "backend": "endpoint", "price": price}, "currency": currency}


def judged(judge, kind="correctness"):
    """Changes of a run of a folder without gold answers, which a judge scored."""
    return {
        "settings": {"dataset": {"name": "musique", "format": "folder", "scorers": ["right"]}},
        "manifest": {"scorers": {"right": "1"}, "judges": {judge: {"version": "1", "kind": kind}}},
    }


@dataclass(frozen=True)
class Run:
    """A run of a made-up table. scores: one a question, None for a failed one; cost: TFLOPs of a
    question, or of each, None where unknown; per_document: questions of a document; documents: of
    each question; score: its name; n_scored: answers that have it; usage: of each answer, in place
    of cost; prediction: the text of each answer; n_cut: answers
    from a cut text."""

    method: str
    scores: list[float | None]
    cost: float | list[float] | None = 1.0
    per_document: int = 1
    documents: list[list[str]] | None = None
    score: str = SCORE
    n_scored: int = 1000
    usage: dict[str, Any] | None = None
    prediction: str = ""
    n_cut: int = 0
    changes: dict[str, Any] = field(default_factory=dict)

    def write(self, root):
        """Write its folder below `root`."""
        records = []
        for number, score in enumerate(self.scores):
            changes = {} if score is None else {"usage": self.usage_of(number)}
            documents = [f"d{number // self.per_document}"]
            if self.documents is not None:
                documents = self.documents[number]
            changes["prediction"] = self.prediction
            if number < self.n_cut:
                changes["truncated"] = {"side": "middle"}
            line = record(number, score, document_ids=documents, **changes)
            line["scores"] = {self.score: score or 0.0} if number < self.n_scored else {}
            records.append(line)
        write_run(root, records, method=self.method, **self.changes)

    def usage_of(self, number):
        """The usage of an answered question."""
        if self.usage is not None:
            spent = dict(self.usage)
            if self.usage is MEASURED:
                spent["seconds"] += number * 1e-7
            return {"answer": spent} if spent else {}
        cost = self.cost[number] if isinstance(self.cost, list) else self.cost
        return {"answer": UNKNOWN if cost is None else usage(cost)}


def opening(command, tmp_path, *runs):
    """The paragraphs that open the page of these runs."""
    for run in runs:
        run.write(tmp_path / "results")
    code, _, err = command(
        "report", str(tmp_path / "results"), "--html", str(tmp_path / "page.html")
    )
    assert code == 0, err
    text = (tmp_path / "page.html").read_text()
    return [html.unescape(found) for found in re.findall(r'<p class="finding">(.*?)</p>', text)]


def masked(text):
    """The paragraph without ends of intervals and the size of the selection's effect."""
    text = re.sub(r"between [\d.]+ and [\d.]+ less", "between LOW and HIGH less", text)
    text = re.sub(r"between [\d.]+ less and [\d.]+ more", "between LOW less and HIGH more", text)
    text = re.sub(r"points \[[\d.]+, [\d.]+\]", "points [LOW, HIGH]", text)
    return re.sub(r"about \d+\.\d points less of", "about X points less of", text)


# Tables and the paragraph that opens their page. Interval ends are tested where they are worked
# out (tests/stats).
CASES = {
    "one run": (
        [Run("bm25", HIGH)],
        (
            "bm25 scores 95.0 of 100 points [LOW, HIGH] (longbench.qa_f1), on 20 questions "
            "about 20 documents."
        ),
    ),
    "one run about one document": (
        [Run("bm25", HIGH, per_document=20)],
        (
            "bm25 scores 95.0 of 100 points (longbench.qa_f1), on 20 questions about 1 "
            "document. With so few documents no interval can be given."
        ),
    ),
    "one run with a failed question": (
        [Run("bm25", [*HIGH[:-1], None])],
        (
            "bm25 scores 95.0 of 100 points [LOW, HIGH] (longbench.qa_f1), on 20 questions "
            "about 20 documents. Failed questions, which count 0: 1 of 20 of bm25."
        ),
    ),
    "a failed question that is left out": (
        [Run("bm25", [*HIGH[:-1], None], changes=SKIP)],
        (
            "bm25 scores 100.0 of 100 points [LOW, HIGH] (longbench.qa_f1), on the 19 of 20"
            " questions that have a score, about 19 documents. Failed questions, left out: "
            "1 of 20 of bm25."
        ),
    ),
    "one run with a floor": (
        [Run("pecan", HIGH), Run("closed-book", LOW, 0.1, changes=FLOOR)],
        (
            "pecan scores 95.0 of 100 points [LOW, HIGH] (longbench.qa_f1), on 20 questions "
            "about 20 documents. pecan clearly beats the floor closed-book (5.0 points)."
        ),
    ),
    "one run with an upper bound": (
        [Run("pecan", HALF), Run("oracle", HIGH, changes=ORACLE)],
        (
            "pecan scores 50.0 of 100 points [LOW, HIGH] (longbench.qa_f1), on 20 questions "
            "about 20 documents. The upper bound oracle (95.0 points) was shown the passages "
            "that hold the answer."
        ),
    ),
    "only floors": (
        [Run("closed-book", LOW, changes=FLOOR), Run("random", HALF, changes=FLOOR)],
        (
            "No method to choose was run yet, only random (floor, 50.0 points) and closed-"
            "book (floor, 5.0 points) by longbench.qa_f1."
        ),
    ),
    "only a floor and an upper bound": (
        [Run("closed-book", LOW, changes=FLOOR), Run("oracle", HIGH, changes=ORACLE)],
        (
            "No method to choose was run yet, only closed-book (floor, 5.0 points) and "
            "oracle (upper bound, 95.0 points) by longbench.qa_f1."
        ),
    ),
    "no score at all": (
        [Run("pecan", [None], changes=SKIP), Run("bm25", [None], changes=SKIP)],
        ("No answer has a score (longbench.qa_f1). Failed on all questions: bm25 and pecan."),
    ),
    "all zero": (
        [Run("pecan", ZERO, 4.0), Run("bm25", ZERO), Run("lead", ZERO, 0.1)],
        ("None of 3 methods scores above 0 (longbench.qa_f1), on 20 questions about 20 documents."),
    ),
    "one zero beside a floor": (
        [Run("pecan", ZERO, 4.0), Run("closed-book", ZERO, 0.1, changes=FLOOR)],
        ("pecan does not score above 0 (longbench.qa_f1), on 20 questions about 20 documents."),
    ),
    "all equal": (
        [Run("pecan", HIGH, 4.0), Run("bm25", HIGH)],
        (
            "bm25 and pecan score 95.0 of 100 points each (longbench.qa_f1), on 20 questions "
            "about 20 documents. Equal scores do not show that they are equally good (pecan "
            "against bm25; 95 % interval: between LOW less and HIGH more). bm25 takes 25 % of "
            "the FLOPs of pecan, indexes included."
        ),
    ),
    "all equal on other questions": (
        [Run("pecan", HALF, 4.0), Run("bm25", HALF[::-1])],
        (
            "bm25 and pecan score 50.0 of 100 points each (longbench.qa_f1), on 20 questions "
            "about 20 documents. Equal scores do not show that they are equally good (pecan "
            "against bm25; 95 % interval: between LOW less and HIGH more). bm25 takes 25 % of "
            "the FLOPs of pecan, indexes included, but may score less than half as much. Expect "
            "about X points less of bm25 on new questions, as the best of 2 was picked on "
            "these."
        ),
    ),
    "one of two has a score for two questions": (
        [
            Run("pecan", [*[None] * 18, 1.0, 1.0], 4.0, changes=SKIP),
            Run("bm25", [1.0] * 20, changes=SKIP),
        ],
        (
            "bm25 scores 100.0 of 100 points [LOW, HIGH] (longbench.qa_f1), on 20 questions "
            "about 20 documents. Not ranked, as scored on other questions: pecan "
            "(2 of 20). Failed questions, left out: 18 of 20 of pecan."
        ),
    ),
    "a third has a score for three questions": (
        [
            Run("pecan", HIGH, 4.0, changes=SKIP),
            Run("bm25", LOW, 1.0, changes=SKIP),
            Run("graph", [1.0] * 3 + [None] * 17, 1.0, changes=SKIP),
        ],
        (
            "pecan scores highest of 2 methods, 95.0 of 100 points (longbench.qa_f1), on 20 "
            "questions about 20 documents. These questions show that pecan is better than bm25 "
            "(90.0 points less; 95 % interval: between LOW and HIGH less). bm25 takes 25 % of "
            "the FLOPs of pecan, indexes included. Not ranked, as scored on other questions: "
            "graph (3 of 20). Failed questions, left out: 17 of 20 of graph."
        ),
    ),
    "one a little better than ten that are alike": (
        [
            Run("pecan", [1.0] * 15 + [0.0] * 15, 2.0),
            *(Run(f"bm25-{number}", [1.0] * 8 + [0.0] * 22) for number in range(10)),
        ],
        (
            "pecan scores highest of 11 methods, 50.0 of 100 points (longbench.qa_f1), on 30 "
            "questions about 30 documents. These questions show that pecan is better than every "
            "other method. bm25-0 scores 23.3 points less (95 % joint interval: between LOW and "
            "HIGH less) and takes 50 % of the FLOPs of pecan, indexes included."
        ),
    ),
    "none above 0 but a floor": (
        [
            Run("pecan", ZERO, 4.0),
            Run("bm25", [0.008, *ZERO[1:]]),
            Run("closed-book", HALF, 0.1, changes=FLOOR),
        ],
        (
            "None of the 2 methods that are no floor scores above 0.05 points "
            "(longbench.qa_f1), on 20 questions about 20 documents. Only closed-book (50.0 "
            "points), a floor that methods must beat, scores above 0.05 points."
        ),
    ),
    "an upper bound below the best": (
        [
            Run("pecan", HIGH, 4.0),
            Run("bm25", LOW, 1.0),
            Run("oracle", HALF, 0.1, changes=ORACLE),
        ],
        (
            "pecan scores highest of the 2 methods that are no upper bound, 95.0 of 100 points "
            "(longbench.qa_f1), on 20 questions about 20 documents. These questions show that "
            "pecan is better than bm25 (90.0 points less; 95 % interval: between LOW and HIGH "
            "less). bm25 takes 25 % of the FLOPs of pecan, indexes included. The upper bound "
            "oracle (50.0 points) was shown the passages that hold the answer. pecan is better "
            "than oracle, so that is no bound here."
        ),
    ),
    "two dearer ones": (
        [Run("pecan", HIGH, 1.0), Run("bm25", LOW, 2.0), Run("lead", LOW, 4.0)],
        (
            "pecan scores highest of 3 methods, 95.0 of 100 points (longbench.qa_f1), on 20 "
            "questions about 20 documents. These questions show that pecan is better than bm25 "
            "(90.0 points less; 95 % joint interval: between LOW and HIGH less) and lead (90.0 "
            "points less; between LOW and HIGH less). pecan takes 50 % of the FLOPs of bm25, "
            "the cheapest of the others, indexes included."
        ),
    ),
    "five equal": (
        [Run(name, HIGH, 1.0) for name in "abcde"],
        (
            "a, b, c and 2 more score 95.0 of 100 points each (longbench.qa_f1), on 20 "
            "questions about 20 documents. Equal scores do not show that they are equally good "
            "(the others against a; 95 % joint interval: between LOW less and HIGH more). All "
            "methods cost about the same, by FLOPs, indexes included."
        ),
    ),
    "only floors differ": (
        [
            Run("pecan", HIGH, 4.0),
            Run("bm25", HIGH, 2.0),
            Run("closed-book", LOW, 0.1, changes=FLOOR),
            Run("random", ZERO, 0.1, changes=FLOOR),
        ],
        (
            "bm25 and pecan score 95.0 of 100 points each (longbench.qa_f1), on 20 questions "
            "about 20 documents. bm25 clearly beats the floors closed-book (5.0 points) and "
            "random (0.0 points). Equal scores do not show that they are equally good (pecan "
            "against bm25; 95 % joint interval: between LOW less and HIGH more). bm25 takes 50 "
            "% of the FLOPs of pecan, indexes included."
        ),
    ),
    "one clear winner": (
        [Run("pecan", HIGH, 4.0), Run("lead", LOW, 0.5)],
        (
            "pecan scores highest of 2 methods, 95.0 of 100 points (longbench.qa_f1), on 20 "
            "questions about 20 documents. These questions show that pecan is better than lead "
            "(90.0 points less; 95 % interval: between LOW and HIGH less). lead takes 12.5 % of "
            "the FLOPs of pecan, indexes included."
        ),
    ),
    "one clear winner, the cheapest": (
        [Run("pecan", HIGH, 1.0), Run("lead", LOW, 2.0)],
        (
            "pecan scores highest of 2 methods, 95.0 of 100 points (longbench.qa_f1), on 20 "
            "questions about 20 documents. These questions show that pecan is better than lead "
            "(90.0 points less; 95 % interval: between LOW and HIGH less). pecan takes 50 % of "
            "the FLOPs of lead, indexes included."
        ),
    ),
    "two equals named together": (
        [Run("pecan", HIGH, 4.0), Run("bm25", HIGH, 2.0), Run("lead", LOW, 0.5)],
        (
            "bm25 and pecan score highest of 3 methods, 95.0 of 100 points each "
            "(longbench.qa_f1), on 20 questions about 20 documents. Equal scores do not show "
            "that they are equally good (pecan against bm25; 95 % joint interval: between LOW "
            "less and HIGH more). These questions show that bm25 is better than lead (90.0 "
            "points less; between LOW and HIGH less). bm25 takes 50 % of the FLOPs of pecan, "
            "indexes included."
        ),
    ),
    "a cheap one within reach": (
        [Run("pecan", HIGH, 4.0), Run("bm25", ALIKE, 1.0), Run("lead", LOW, 0.5)],
        (
            "pecan scores highest of 3 methods, 95.0 of 100 points (longbench.qa_f1), on 20 "
            "questions about 20 documents. These questions do not show that pecan is better "
            "than bm25 (5.0 points less; 95 % joint interval: between LOW less and HIGH more), "
            "only that it is better than lead (90.0 points less). bm25 takes 25 % of the FLOPs "
            "of pecan, indexes included. Expect about X points less of pecan on new questions, "
            "as the best of 3 was picked on these."
        ),
    ),
    "two with one difference": (
        [Run("pecan", HIGH, 4.0), Run("bm25", ALIKE, 1.0), Run("sbert", ALIKE, 2.0)],
        (
            "pecan scores highest of 3 methods, 95.0 of 100 points (longbench.qa_f1), on 20 "
            "questions about 20 documents. These questions do not show that pecan is better "
            "than bm25 or sbert (each 5.0 points less; 95 % joint interval: between LOW less "
            "and HIGH more). bm25 takes 25 % of the FLOPs of pecan, indexes included. Expect "
            "about X points less of pecan on new questions, as the best of 3 was picked on "
            "these."
        ),
    ),
    "two within reach": (
        [Run("pecan", HIGH, 4.0), Run("bm25", ALIKE, 1.0), Run("sbert", ALIKE[::-1], 2.0)],
        (
            "pecan scores highest of 3 methods, 95.0 of 100 points (longbench.qa_f1), on 20 "
            "questions about 20 documents. These questions do not show that pecan is better "
            "than bm25 (5.0 points less; 95 % joint interval: between LOW less and HIGH more) "
            "or sbert (5.0 points less; between LOW less and HIGH more). bm25 takes 25 % of the "
            "FLOPs of pecan, indexes included. Expect about X points less of pecan on new "
            "questions, as the best of 3 was picked on these."
        ),
    ),
    "one within reach, dearer": (
        [Run("pecan", HIGH, 1.0), Run("bm25", ALIKE, 3.0)],
        (
            "pecan scores highest of 2 methods, 95.0 of 100 points (longbench.qa_f1), on 20 "
            "questions about 20 documents. These questions do not show that pecan is better "
            "than bm25 (5.0 points less; 95 % interval: between LOW less and HIGH more). pecan "
            "takes 33.3 % of the FLOPs of bm25, indexes included. Expect about X points less of "
            "pecan on new questions, as the best of 2 was picked on these."
        ),
    ),
    "one within reach at the same cost": (
        [Run("pecan", HIGH, 1.0), Run("bm25", ALIKE, 0.998)],
        (
            "pecan scores highest of 2 methods, 95.0 of 100 points (longbench.qa_f1), on 20 "
            "questions about 20 documents. These questions do not show that pecan is better "
            "than bm25 (5.0 points less; 95 % interval: between LOW less and HIGH more). pecan "
            "costs about the same as bm25, by FLOPs, indexes included. Expect about X points "
            "less of pecan on new questions, as the best of 2 was picked on these."
        ),
    ),
    "too few documents": (
        [Run("pecan", [1.0] * 4, 4.0), Run("closed-book", [0.0] * 4, 0.1, changes=FLOOR)],
        (
            "pecan scores 100.0 of 100 points [LOW, HIGH] (longbench.qa_f1), on 4 questions"
            " about 4 documents. With 4 documents no difference can be tested; 6 are the "
            "fewest. Methods must beat closed-book (0.0 points), a floor."
        ),
    ),
    "two documents, a cheap one": (
        [Run("pecan", HIGH, 4.0, 10), Run("bm25", ALIKE, 1.0, 10)],
        (
            "pecan scores highest of 2 methods, 95.0 of 100 points (longbench.qa_f1), on 20"
            " questions about 2 documents. With 2 documents no difference can be tested; 6 "
            "are the fewest."
        ),
    ),
    "a floor that scores more": (
        [
            Run("pecan", LOW, 4.0),
            Run("bm25", ZERO, 1.0),
            Run("closed-book", HALF, 0.1, changes=FLOOR),
        ],
        (
            "pecan scores highest of the 2 methods that are no floor, "
            "5.0 of 100 points (longbench.qa_f1), on 20 "
            "questions about 20 documents. That is no more than closed-book (50.0 points), "
            "a floor that methods must beat."
        ),
    ),
    "a floor as good": (
        [
            Run("pecan", HALF, 4.0),
            Run("bm25", LOW, 1.0),
            Run("closed-book", HALF, 0.1, changes=FLOOR),
        ],
        (
            "pecan scores highest of the 2 methods that are no floor, "
            "50.0 of 100 points (longbench.qa_f1), on 20"
            " questions about 20 documents. That is no more than closed-book (50.0 points),"
            " a floor that methods must beat."
        ),
    ),
    "a floor within reach": (
        [Run("pecan", HIGH, 4.0), Run("bm25", LOW), Run("closed-book", ALIKE, 0.1, changes=FLOOR)],
        (
            "pecan scores highest of the 2 methods that are no floor, 95.0 of 100 points "
            "(longbench.qa_f1), on 20 questions about 20 documents. These questions do not show "
            "that pecan is better than closed-book (90.0 points, 5.0 points less; 95 % joint "
            "interval: between LOW less and HIGH more), a floor that methods must beat."
        ),
    ),
    "with an upper bound": (
        [Run("pecan", HALF, 4.0), Run("lead", LOW, 0.5), Run("oracle", HIGH, 0.1, changes=ORACLE)],
        (
            "pecan scores highest of the 2 methods that are no upper bound, 50.0 of 100 points "
            "(longbench.qa_f1), on 20 questions about 20 documents. These questions show that "
            "pecan is better than lead (45.0 points less; 95 % interval: between LOW and HIGH "
            "less). lead takes 12.5 % of the FLOPs of pecan, indexes included. The upper bound "
            "oracle (95.0 points) was shown the passages that hold the answer."
        ),
    ),
    "unfinished": (
        [
            Run("pecan", HIGH, 4.0),
            Run("lead", LOW, 0.5),
            Run("bm25", ALIKE[:7], 0.1, changes=UNFINISHED),
        ],
        (
            "pecan scores highest of 2 methods, 95.0 of 100 points (longbench.qa_f1), on 20 "
            "questions about 20 documents. These questions show that pecan is better than lead "
            "(90.0 points less; 95 % interval: between LOW and HIGH less). lead takes 12.5 % of "
            "the FLOPs of pecan, indexes included. Not finished, so not ranked: bm25."
        ),
    ),
    "all unfinished": (
        [Run("pecan", HIGH, 4.0, changes=UNFINISHED), Run("lead", LOW, 0.5, changes=UNFINISHED)],
        (
            "No run is finished yet: what follows is about the questions answered so far. pecan "
            "scores highest of 2 methods, 95.0 of 100 points (longbench.qa_f1), on 20 questions "
            "about 20 documents. These questions show that pecan is better than lead (90.0 "
            "points less; 95 % interval: between LOW and HIGH less). lead takes 12.5 % of the "
            "FLOPs of pecan, indexes included."
        ),
    ),
    "costs of one are unknown": (
        [Run("pecan", HIGH, 4.0), Run("bm25", ALIKE, None), Run("lead", LOW, 0.5)],
        (
            "pecan scores highest of 3 methods, 95.0 of 100 points (longbench.qa_f1), on 20 "
            "questions about 20 documents. These questions do not show that pecan is better "
            "than bm25 (5.0 points less; 95 % joint interval: between LOW less and HIGH more), "
            "only that it is better than lead (90.0 points less). No cost was measured for "
            "bm25. Expect about X points less of pecan on new questions, as the best of 3 was "
            "picked on these."
        ),
    ),
    "failed questions": (
        [Run("pecan", [*HIGH[:-1], None], 4.0), Run("lead", [None, *LOW[1:]], 0.5)],
        (
            "pecan scores highest of 2 methods, 95.0 of 100 points (longbench.qa_f1), on 20 "
            "questions about 20 documents. These questions show that pecan is better than lead "
            "(90.0 points less; 95 % interval: between LOW and HIGH less). lead takes 12.5 % of "
            "the FLOPs of pecan, indexes included, over the 18 of 20 questions that both "
            "answered. Failed questions, which count 0: 1 of 20 of pecan and 1 of 20 of lead."
        ),
    ),
    "other rows of the data set": (
        [
            Run("pecan", HIGH, 4.0),
            Run("lead", LOW, 0.5),
            Run("bm25", ALIKE, 0.1, changes=OTHER_ROWS),
        ],
        (
            "pecan scores highest of 2 methods, 95.0 of 100 points (longbench.qa_f1), on 20 "
            "questions about 20 documents. These questions show that pecan is better than lead "
            "(90.0 points less; 95 % interval: between LOW and HIGH less). lead takes 12.5 % of "
            "the FLOPs of pecan, indexes included. Not ranked, because of other rows of the "
            "data set: bm25 (90.0 points)."
        ),
    ),
    "two models": (
        [Run("bm25", HIGH, 4.0, changes={"model": "large"}), Run("bm25", LOW, 0.5)],
        (
            "bm25 with large scores highest of 2 runs, 95.0 of 100 points "
            "(longbench.qa_f1), on 20 questions about 20 documents. Not tested, as with "
            "another model: bm25 with tiny (5.0 points, 12.5 % of the FLOPs of bm25 with "
            "large)."
        ),
    ),
    "costs of all are unknown": (
        [Run("pecan", HIGH, None), Run("lead", LOW, None)],
        (
            "pecan scores highest of 2 methods, 95.0 of 100 points (longbench.qa_f1), on 20 "
            "questions about 20 documents. These questions show that pecan is better than lead "
            "(90.0 points less; 95 % interval: between LOW and HIGH less). No cost was "
            "measured."
        ),
    ),
    "three within reach of different scores": (
        [
            Run("pecan", HALF, 1.0),
            Run("bm25", [1.0, 1.0, 0.0, 0.0, 0.0] * 4, 1.0),
            Run("sbert", [0.0, 0.0, 1.0, 0.0, 0.0] * 4, 0.5),
        ],
        (
            "pecan scores highest of 3 methods, 50.0 of 100 points (longbench.qa_f1), on 20 "
            "questions about 20 documents. These questions do not show that pecan is better "
            "than bm25 (10.0 points less; 95 % joint interval: between LOW less and HIGH more) "
            "or sbert (30.0 points less; between LOW less and HIGH more). sbert takes 50 % of "
            "the FLOPs of pecan, indexes included, but may score less than half as much. Expect "
            "about X points less of pecan on new questions, as the best of 3 was picked on "
            "these."
        ),
    ),
    "a rival that may lose most": (
        [Run("pecan", [1.0] * 5 + [0.0] * 7, 4.0), Run("bm25", [0.0] * 10 + [1.0, 1.0], 1.0)],
        (
            "pecan scores highest of 2 methods, 41.7 of 100 points (longbench.qa_f1), on 12 "
            "questions about 12 documents. These questions do not show that pecan is better "
            "than bm25 (25.0 points less; 95 % interval: between LOW less and HIGH more). bm25 "
            "takes 25 % of the FLOPs of pecan, indexes included, but may score less than half "
            "as much. Expect about X points less of pecan on new questions, as the best of 2 "
            "was picked on these."
        ),
    ),
    "methods lack a question that a floor has": (
        [
            Run("pecan", [None] + [1.0] * 19, 4.0, changes=SKIP),
            Run("bm25", [None] + [1.0] * 18 + [0.0], changes=SKIP),
            Run("closed-book", LOW, 0.1, changes=SKIP | FLOOR),
        ],
        (
            "pecan scores highest of the 2 methods that are no floor, 100.0 of 100 points "
            "(longbench.qa_f1), on the 19 of 20 questions for which all have a score, about 19 "
            "documents. pecan clearly beats the floor closed-book (5.3 points). These questions "
            "do not show that pecan is better than bm25 (5.3 points less; 95 % joint interval: "
            "between LOW less and HIGH more). bm25 takes 25 % of the FLOPs of pecan, indexes "
            "included. Expect about X points less of pecan on new questions, as the best of 2 "
            "was picked on these. Failed questions, left out: 1 of 20 of pecan and 1 of 20 of "
            "bm25."
        ),
    ),
    "most lack a question that the worst has": (
        [
            Run("lead", LOW, changes=SKIP),
            *(
                Run(method, [None] + [1.0] * 19, changes=SKIP)
                for method in ("pecan", "bm25", "sbert")
            ),
        ],
        (
            "bm25, pecan and sbert score highest of 4 methods, 100.0 of 100 points each "
            "(longbench.qa_f1), on the 19 of 20 questions for which all have a score, about 19 "
            "documents. Equal scores do not show that they are equally good (the others against "
            "bm25; 95 % joint interval: between LOW less and HIGH more). These questions show "
            "that bm25 is better than lead (94.7 points less; between LOW and HIGH less). All "
            "methods cost about the same, by FLOPs, indexes included. Failed questions, left "
            "out: 1 of 20 of bm25, 1 of 20 of pecan and 1 of 20 of sbert."
        ),
    ),
    "each lacks another question": (
        [
            Run("pecan", [None] + [1.0] * 19, 4.0, changes=SKIP),
            Run("bm25", [1.0] * 19 + [None], 1.0, changes=SKIP),
        ],
        (
            "bm25 and pecan score 100.0 of 100 points each (longbench.qa_f1), on the 18 of 20 "
            "questions for which all have a score, about 18 documents. Equal scores do not show "
            "that they are equally good (pecan against bm25; 95 % interval: between LOW less "
            "and HIGH more). bm25 takes 25 % of the FLOPs of pecan, indexes included. Failed "
            "questions, left out: 1 of 20 of bm25 and 1 of 20 of pecan."
        ),
    ),
    "a floor that lacks a question is better": (
        [
            Run("pecan", HIGH, 4.0, changes=SKIP),
            Run("bm25", ALIKE, changes=SKIP),
            Run("closed-book", [None] + [1.0] * 19, 0.1, changes=SKIP | FLOOR),
        ],
        (
            "pecan scores highest of the 2 methods that are no floor, 95.0 of 100 points "
            "(longbench.qa_f1), on 20 questions about 20 documents. That is no more than "
            "closed-book (100.0 points on 19 of 20 questions), a floor that methods must "
            "beat. Failed questions, left out: 1 of 20 of closed-book."
        ),
    ),
    "more floors than methods, with fewer questions": (
        [
            Run("pecan", HIGH, 4.0),
            Run("closed-book", ZERO[:10], 0.1, changes=FLOOR),
            Run("random", LOW[10:][::-1], 0.1, changes=FLOOR),
        ],
        (
            "pecan scores 95.0 of 100 points [LOW, HIGH] (longbench.qa_f1), on 20 questions "
            "about 20 documents. pecan clearly beats the floors random (10.0 points on 10 of 20 "
            "questions) and closed-book (0.0 points on 10 of 20 questions)."
        ),
    ),
    "more unfinished than finished": (
        [
            Run("pecan", HIGH, 4.0),
            *(Run(method, HALF[:8], changes=UNFINISHED) for method in "abc"),
        ],
        (
            "pecan scores 95.0 of 100 points [LOW, HIGH] (longbench.qa_f1), on 20 questions"
            " about 20 documents. Not finished, so not ranked: a, b and c."
        ),
    ),
    "only a floor is finished": (
        [
            Run("closed-book", LOW, 0.1, changes=FLOOR),
            Run("pecan", [1.0] * 7, 4.0, changes=UNFINISHED),
            Run("bm25", [1.0] * 9, changes=UNFINISHED),
        ],
        (
            "No method is finished yet: what follows is about the questions answered so far. "
            "bm25 scores 100.0 of 100 points [LOW, HIGH] (longbench.qa_f1), on 9 questions "
            "about 9 documents. bm25 clearly beats the floor closed-book (0.0 points). Not "
            "ranked, as scored on other questions so far: pecan."
        ),
    ),
    "an upper bound a little below the best": (
        [
            Run("pecan", ONES_THEN_ZEROS[10], 4.0),
            Run("bm25", ONES_THEN_ZEROS[9]),
            Run("oracle", [0.0, *ONES_THEN_ZEROS[9][:-1]], 0.1, changes=ORACLE),
        ],
        (
            "pecan scores highest of the 2 methods that are no upper bound, 50.0 of 100 points "
            "(longbench.qa_f1), on 20 questions about 20 documents. These questions do not show "
            "that pecan is better than bm25 (5.0 points less; 95 % interval: between LOW less "
            "and HIGH more). bm25 takes 25 % of the FLOPs of pecan, indexes included. Expect "
            "about X points less of pecan on new questions, as the best of 2 was picked on "
            "these. The upper bound oracle (45.0 points) was shown the passages that hold the "
            "answer. oracle scores no more than pecan, which may be chance."
        ),
    ),
    "an upper bound with a score for three questions": (
        [
            Run("pecan", HALF, 4.0),
            Run("bm25", LOW),
            Run("oracle", [1.0, 0.0, 0.0] + [1.0] * 17, 0.1, n_scored=3, changes=ORACLE),
        ],
        (
            "pecan scores highest of the 2 methods that are no upper bound, 50.0 of 100 points "
            "(longbench.qa_f1), on 20 questions about 20 documents. These questions show that "
            "pecan is better than bm25 (45.0 points less; 95 % interval: between LOW and HIGH "
            "less). bm25 takes 25 % of the FLOPs of pecan, indexes included. The upper bound "
            "oracle (33.3 points on 3 of 20 questions) was shown the passages that hold the "
            "answer."
        ),
    ),
    "an upper bound that mostly failed": (
        [
            Run("pecan", HALF, 4.0),
            Run("oracle", [1.0] * 4 + [None] * 16, 4.0, changes=ORACLE),
        ],
        (
            "pecan scores 50.0 of 100 points [LOW, HIGH] (longbench.qa_f1), on 20 questions "
            "about 20 documents. The upper bound oracle (100.0 points on the 4 of 20 questions "
            "that it answered) was shown the passages that hold the answer. Failed questions, "
            "left out: 16 of 20 of oracle."
        ),
    ),
    "one without the score": (
        [Run("bm25", HIGH), Run("pecan", HIGH, 4.0, score="em.squad")],
        (
            "bm25 scores 95.0 of 100 points [LOW, HIGH] (longbench.qa_f1), on 20 questions "
            "about 20 documents. Without this score, so not ranked: pecan."
        ),
    ),
    "a part of the answers has a score": (
        [Run("pecan", HIGH, n_scored=8), Run("bm25", LOW, n_scored=8)],
        (
            "pecan scores highest of 2 methods, 100.0 of 100 points (longbench.qa_f1), on the 8 "
            "of 20 questions for which all have a score, about 8 documents. These questions "
            "show that pecan is better than bm25 (100.0 points less; 95 % interval: between LOW "
            "and HIGH less). pecan costs about the same as bm25, by FLOPs, indexes included."
        ),
    ),
    "two judges": (
        [
            Run("pecan", HIGH, 4.0, score="judge.llama", changes=judged("judge.llama")),
            Run("bm25", HALF, 1.0, score="judge.other", changes=judged("judge.other")),
        ],
        (
            "No run is ranked, as they have no score in common: bm25 by judge.other and pecan "
            "by judge.llama."
        ),
    ),
    "a judge of faithfulness": (
        [
            *(
                Run(
                    method,
                    scores,
                    cost,
                    documents=FOLDER,
                    score="judge.llama.faithful",
                    changes=judged("judge.llama.faithful", "claim-faithfulness"),
                )
                for method, scores, cost in (("pecan", HIGH, 4.0), ("bm25", HALF, 1.0))
            ),
        ],
        (
            "pecan scores highest of 2 methods, 95.0 of 100 points (judge.llama.faithful), on "
            "20 questions about the folder. These questions show that pecan is better than bm25 "
            "(45.0 points less; 95 % interval: between LOW and HIGH less). bm25 takes 25 % of "
            "the FLOPs of pecan, indexes included. This score is a judgement of "
            "claim-faithfulness, not of right answers."
        ),
    ),
    "questions that were left out when they were loaded": (
        [
            Run("pecan", HIGH, 4.0, changes=LOADED_IN_PART),
            Run("bm25", LOW, 1.0, changes=LOADED_IN_PART),
        ],
        (
            "pecan scores highest of 2 methods, 95.0 of 100 points (longbench.qa_f1), on 20 "
            "questions about 20 documents. These questions show that pecan is better than bm25 "
            "(90.0 points less; 95 % interval: between LOW and HIGH less). bm25 takes 25 % of "
            "the FLOPs of pecan, indexes included. Left out when the questions were loaded: 480 "
            "of 500 of each run."
        ),
    ),
    "a cheap one that is no better than a floor": (
        [
            Run("pecan", [1.0] * 60 + [0.0] * 40, 4.0),
            Run("bm25", [1.0] * 32 + [0.0] * 28 + [1.0] * 16 + [0.0] * 24),
            Run("closed-book", [1.0] * 50 + [0.0] * 50, 0.1, changes=FLOOR),
        ],
        (
            "pecan scores highest of the 2 methods that are no floor, 60.0 of 100 points "
            "(longbench.qa_f1), on 100 questions about 100 documents. pecan clearly beats the "
            "floor closed-book (50.0 points). These questions do not show that pecan is better "
            "than bm25 (12.0 points less; 95 % joint interval: between LOW less and HIGH more). "
            "bm25 takes 25 % of the FLOPs of pecan, indexes included, but is not shown to be "
            "better than closed-book. Expect about X points less of pecan on new questions, as "
            "the best of 2 was picked on these."
        ),
    ),
    "a cheap one without a right answer": (
        [Run("pecan", [1.0] + [0.0] * 49, 4.0), Run("bm25", [0.0] * 50)],
        (
            "pecan scores highest of 2 methods, 2.0 of 100 points (longbench.qa_f1), on 50 "
            "questions about 50 documents. These questions do not show that pecan is better "
            "than bm25 (2.0 points less; 95 % interval: between LOW less and HIGH more). bm25 "
            "has no right answer. Expect about X points less of pecan on new questions, as the "
            "best of 2 was picked on these."
        ),
    ),
    "many within reach": (
        [
            Run("best", [1.0] * 36 + [0.0] * 4, 10.0),
            *(
                Run(f"m{number}", [1.0] * (35 - number) + [0.0] * (5 + number), 10.0 - number)
                for number in range(9)
            ),
            Run("low1", ZERO * 2, 5.0),
            Run("low2", [1.0] + [0.0] * 39, 5.0),
        ],
        (
            "best scores highest of 12 methods, 90.0 of 100 points (longbench.qa_f1), on 40 "
            "questions about 40 documents. These questions do not show that best is better than "
            "m0 (2.5 points less; 95 % joint interval: between LOW less and HIGH more), m6 (17.5 "
            "points less; between LOW and HIGH less) or 5 others, only that it is better than 4 "
            "others. m6 takes 40 % of the FLOPs of best, indexes "
            "included."
        ),
    ),
    "one within reach, and a cheaper one that may lose most": (
        [
            Run("pecan", ONES_THEN_ZEROS[10], 4.0),
            Run("sbert", ONES_THEN_ZEROS[9], 3.9),
            Run("bm25", [0.0] * 8 + [1.0] * 7 + [0.0] * 5, 0.04),
        ],
        (
            "pecan scores highest of 3 methods, 50.0 of 100 points (longbench.qa_f1), on 20 "
            "questions about 20 documents. These questions do not show that pecan is better "
            "than sbert (5.0 points less; 95 % joint interval: between LOW less and HIGH more) "
            "or bm25 (15.0 points less; between LOW less and HIGH more). sbert takes 97.5 % of "
            "the FLOPs of pecan, indexes included. bm25 takes 1 % of the FLOPs of pecan, but "
            "may score less than half as much. Expect about X points less of pecan on new "
            "questions, as the best of 3 was picked on these."
        ),
    ),
    "a worse one, and a cheaper one that is much worse": (
        [
            Run("pecan", [0.9, 0.8] * 30, 4.0),
            Run("bm25", [0.86, 0.74, 0.82, 0.76, 0.84, 0.72] * 10, 1.0),
            Run("lead", [0.0, 0.1] * 30, 0.9),
        ],
        (
            "pecan scores highest of 3 methods, 85.0 of 100 points (longbench.qa_f1), on 60 "
            "questions about 60 documents. These questions show that pecan is better than bm25 "
            "(6.0 points less; 95 % joint interval: between LOW and HIGH less) and lead (80.0 "
            "points less; between LOW and HIGH less). bm25 takes 25 % of the FLOPs of pecan, "
            "indexes included, and lead 22.5 %."
        ),
    ),
    "three equal ones at three costs": (
        [Run("a", HALF, 1.0), Run("b", HALF[::-1], 2.0), Run("c", HALF, 8.0)],
        (
            "a, b and c score 50.0 of 100 points each (longbench.qa_f1), on 20 questions about "
            "20 documents. Equal scores do not show that they are equally good (the others "
            "against a; 95 % joint interval: between LOW less and HIGH more). a takes 12.5 % of "
            "the FLOPs of c, indexes included, and b 25 %, but may score less than half as "
            "much. Expect about X points less of a on new questions, as the best of 3 was "
            "picked on these."
        ),
    ),
    "a dearer one that may lose most": (
        [Run("pecan", [1.0] * 5 + [0.0] * 7, 1.0), Run("bm25", [0.0] * 10 + [1.0, 1.0], 4.0)],
        (
            "pecan scores highest of 2 methods, 41.7 of 100 points (longbench.qa_f1), on 12 "
            "questions about 12 documents. These questions do not show that pecan is better "
            "than bm25 (25.0 points less; 95 % interval: between LOW less and HIGH more). pecan "
            "takes 25 % of the FLOPs of bm25, indexes included. Expect about X points less of "
            "pecan on new questions, as the best of 2 was picked on these."
        ),
    ),
    "a method that calls no model": (
        [Run("pecan", HIGH, 4.0), Run("rule", LOW, usage={})],
        (
            "pecan scores highest of 2 methods, 95.0 of 100 points (longbench.qa_f1), on 20 "
            "questions about 20 documents. These questions show that pecan is better than rule "
            "(90.0 points less; 95 % interval: between LOW and HIGH less). No cost was measured "
            "for rule."
        ),
    ),
    "one failed on the dear questions": (
        [
            Run("pecan", HIGH, [1.0] * 18 + [100.0] * 2),
            Run("bm25", [1.0] * 18 + [None] * 2),
        ],
        (
            "pecan scores highest of 2 methods, 95.0 of 100 points (longbench.qa_f1), on 20 "
            "questions about 20 documents. These questions do not show that pecan is better "
            "than bm25 (5.0 points less; 95 % interval: between LOW less and HIGH more). pecan "
            "costs about the same as bm25, by FLOPs, indexes included, over the 18 of 20 "
            "questions that both answered. The 2 questions that bm25 failed on take 92 % of the "
            "FLOPs of pecan. Expect about X points less of pecan on new questions, as the best "
            "of 2 was picked on these. Failed questions, which count 0: 2 of 20 of bm25."
        ),
    ),
    "one question costs most": (
        [Run("pecan", HIGH, [1.0] * 19 + [200.0]), Run("bm25", ALIKE, 3.0)],
        (
            "pecan scores highest of 2 methods, 95.0 of 100 points (longbench.qa_f1), on 20 "
            "questions about 20 documents. These questions do not show that pecan is better "
            "than bm25 (5.0 points less; 95 % interval: between LOW less and HIGH more). bm25 "
            "takes 27.4 % of the FLOPs of pecan, indexes included. One question takes 91 % of "
            "the FLOPs of pecan; without it bm25 takes 300 %. Expect about X points less of pecan "
            "on new questions, as the best of 2 was picked on these."
        ),
    ),
    "conventions for FLOPs that disagree": (
        [
            Run("pecan", HIGH, usage=flops_by_convention(4.0, full=10.0)),
            Run("bm25", ALIKE, usage=flops_by_convention(8.0, full=9.0)),
        ],
        (
            "pecan scores highest of 2 methods, 95.0 of 100 points (longbench.qa_f1), on 20 "
            "questions about 20 documents. These questions do not show that pecan is better "
            "than bm25 (5.0 points less; 95 % interval: between LOW less and HIGH more). pecan "
            "takes 50 % of the FLOPs of bm25, indexes included, but 111 % under the convention "
            "full. Expect about X points less of pecan on new questions, as the best of 2 was "
            "picked on these."
        ),
    ),
    "tokens of indexes": (
        [
            Run("graph", HIGH, usage=tokens(500), changes={"documents": INDEXES}),
            Run("full", ALIKE, usage=tokens(5000)),
        ],
        (
            "graph scores highest of 2 methods, 95.0 of 100 points (longbench.qa_f1), on 20 "
            "questions about 20 documents. These questions do not show that graph is better "
            "than full (5.0 points less; 95 % interval: between LOW less and HIGH more). full "
            "takes 4.98 % of the tokens of graph, indexes included (1 question an index), but "
            "991 % without indexes. Expect about X points less of graph on new questions, as "
            "the best of 2 was picked on these."
        ),
    ),
    "an index of unknown cost": (
        [
            Run("pecan", HIGH, 4.0, changes={"summary": INDEXES_NOT_RECORDED}),
            Run("bm25", ALIKE),
        ],
        (
            "pecan scores highest of 2 methods, 95.0 of 100 points (longbench.qa_f1), on 20 "
            "questions about 20 documents. These questions do not show that pecan is better "
            "than bm25 (5.0 points less; 95 % interval: between LOW less and HIGH more). bm25 "
            "takes 25 % of the FLOPs of pecan, without those of indexes, which are unknown. "
            "Expect about X points less of pecan on new questions, as the best of 2 was picked "
            "on these."
        ),
    ),
    "a few cached tokens of a cheap one": (
        [Run("pecan", HIGH, usage=tokens(5000)), Run("rule", ALIKE, usage=tokens(1, cached=7))],
        (
            "pecan scores highest of 2 methods, 95.0 of 100 points (longbench.qa_f1), on 20 "
            "questions about 20 documents. These questions do not show that pecan is better "
            "than rule (5.0 points less; 95 % interval: between LOW less and HIGH more). rule "
            "takes 0.12 % of the tokens of pecan, indexes included. Expect about X points less "
            "of pecan on new questions, as the best of 2 was picked on these."
        ),
    ),
    "cached tokens": (
        [
            Run("pecan", HIGH, usage=tokens(5000)),
            Run("session", ALIKE, usage=tokens(500, cached=90000)),
        ],
        (
            "pecan scores highest of 2 methods, 95.0 of 100 points (longbench.qa_f1), on 20 "
            "questions about 20 documents. These questions do not show that pecan is better "
            "than session (5.0 points less; 95 % interval: between LOW less and HIGH more). "
            "session takes 10.1 % of the tokens of pecan, indexes included, without cached ones "
            "(90,000 a question of session). Expect about X points less of pecan on new "
            "questions, as the best of 2 was picked on these."
        ),
    ),
    "two currencies": (
        [
            Run("pecan", HIGH, usage=BILLED, changes={"settings": priced("USD")}),
            Run("bm25", ALIKE, usage=BILLED, changes={"settings": priced("EUR")}),
        ],
        (
            "pecan scores highest of 2 methods, 95.0 of 100 points (longbench.qa_f1), on 20 "
            "questions about 20 documents. These questions do not show that pecan is better "
            "than bm25 (5.0 points less; 95 % interval: between LOW less and HIGH more). pecan "
            "costs about the same as bm25, by tokens, indexes included. Money is not compared, "
            "as it is in EUR and USD. Expect about X points less of pecan on new questions, as "
            "the best of 2 was picked on these."
        ),
    ),
    "one costs next to nothing": (
        [Run("pecan", HIGH, 5000.0), Run("bm25", ALIKE, 0.00002)],
        (
            "pecan scores highest of 2 methods, 95.0 of 100 points (longbench.qa_f1), on 20 "
            "questions about 20 documents. These questions do not show that pecan is better "
            "than bm25 (5.0 points less; 95 % interval: between LOW less and HIGH more). bm25 "
            "takes less than 0.01 % of the FLOPs of pecan, indexes included. Expect about X "
            "points less of pecan on new questions, as the best of 2 was picked on these."
        ),
    ),
    "three seeds of one method": (
        [
            *(
                Run(
                    "pecan",
                    ONES_THEN_ZEROS[15 + seed],
                    changes={"settings": {"seed": seed}, "hash8": f"0000000{seed}"},
                )
                for seed in range(3)
            ),
        ],
        (
            "pecan scores 80.0 of 100 points [LOW, HIGH] (longbench.qa_f1), on 20 questions "
            "about 20 documents. Scores are means over seeds: pecan 75.0 to 85.0 (3 seeds)."
        ),
    ),
    "questions about one corpus": (
        [Run("pecan", HIGH, per_document=20, changes={"settings": {"dataset": CORPUS}})],
        ("pecan scores 95.0 of 100 points [LOW, HIGH] (longbench.qa_f1), on 20 questions."),
    ),
    "three documents a question": (
        [Run("pecan", HIGH, documents=[[f"d{n}a", f"d{n}b", f"d{n}c"] for n in range(20)])],
        (
            "pecan scores 95.0 of 100 points [LOW, HIGH] (longbench.qa_f1), on 20 questions"
            " about 60 documents."
        ),
    ),
    "documents that questions chain together": (
        [Run("pecan", HIGH, documents=[[f"d{n:02d}", f"d{n + 1:02d}"] for n in range(20)])],
        (
            "pecan scores 95.0 of 100 points (longbench.qa_f1), on 20 questions about 21 "
            "documents in 1 group. With so few groups of documents no interval can be "
            "given."
        ),
    ),
    "scores in percent": (
        [Run("pecan", [85.0, 70.0] * 10, 4.0), Run("bm25", [40.0, 50.0] * 10)],
        (
            "No run is ranked by longbench.qa_f1. Not ranked, as scores lie outside 0 to 1:"
            " pecan and bm25."
        ),
    ),
    "files that do not fit": (
        [
            Run("pecan", HIGH, 4.0, changes={"summary": LOADED_IN_PART["summary"]}),
            Run("bm25", LOW, 1.0, changes={"summary": LOADED_IN_PART["summary"]}),
        ],
        (
            "No run is ranked by longbench.qa_f1. Not ranked, as files or records do not "
            "fit (see below): pecan and bm25. Left out when the questions were loaded: 480 "
            "of 500 of each run."
        ),
    ),
    "copied answers": (
        [Run("pecan", HIGH, usage=MEASURED), Run("bm25", HIGH, usage=MEASURED)],
        (
            "No run is ranked by longbench.qa_f1. Not ranked, as answers are copies of "
            "another run's: bm25 and pecan."
        ),
    ),
    "equal to the digit, yet separated": (
        [
            Run("a", [0.8003, 0.8004] * 102, 4.0),
            Run("b", [0.7997, 0.7998, 0.7998] * 68, 1.0),
        ],
        (
            "b and a score 80.0 of 100 points each (longbench.qa_f1), on 204 questions about "
            "204 documents. These questions show all the same that a is better than b, by less "
            "than 0.1 points. b takes 25 % of the FLOPs of a, indexes included."
        ),
    ),
    "one document with most questions": (
        [
            Run("pecan", [1.0] * 107, 4.0, documents=UNEQUAL),
            Run("bm25", [0.0] * 107, 1.0, documents=UNEQUAL),
        ],
        (
            "pecan scores highest of 2 methods, 100.0 of 100 points (longbench.qa_f1), on 107 "
            "questions about 8 documents. This test cannot compare pecan with bm25 (100.0 "
            "points less), as 100 of 107 questions are about one document. bm25 has no right "
            "answer."
        ),
    ),
    "two methods with two models": (
        [
            Run("bm25", ONES_THEN_ZEROS[15], changes={"model": "large"}),
            Run("pecan", ONES_THEN_ZEROS[12], 4.0, changes={"model": "large"}),
            Run("bm25", ONES_THEN_ZEROS[12], changes={"model": "small"}),
            Run("pecan", ONES_THEN_ZEROS[9], 4.0, changes={"model": "small"}),
        ],
        (
            "bm25 with large scores highest of 4 runs, 75.0 of 100 points (longbench.qa_f1), on "
            "20 questions about 20 documents. These questions do not show that bm25 with large "
            "is better than pecan with large (15.0 points less; 95 % interval: between LOW less "
            "and HIGH more). bm25 with large takes 25 % of the FLOPs of pecan with large, "
            "indexes included. With the model small, bm25 scores 60.0 points, pecan 45.0; these "
            "questions do not show that bm25 is better than pecan."
        ),
    ),
    "three methods with one model, one with another": (
        [
            Run("pecan", HIGH, 1.0),
            Run("bm25", LOW, 2.0),
            Run("lead", LOW, 4.0),
            Run("bm25", LOW, 1.0, changes={"model": "large"}),
        ],
        (
            "pecan with tiny scores highest of 4 runs, 95.0 of 100 points (longbench.qa_f1), on "
            "20 questions about 20 documents. These questions show that pecan with tiny is "
            "better than bm25 with tiny (90.0 points less; 95 % joint interval: between LOW and "
            "HIGH less) and lead with tiny (90.0 points less; between LOW and HIGH less). pecan "
            "with tiny takes 50 % of the FLOPs of bm25 with tiny, the cheapest of those that "
            "were tested, indexes included. Not tested, as with another model: bm25 with large "
            "(5.0 points, 100 % of the FLOPs of pecan with tiny)."
        ),
    ),
    "all answers of one failed": (
        [Run("pecan", HIGH, 4.0), Run("bm25", ALIKE), Run("broken", [None] * 20)],
        (
            "pecan scores highest of 2 methods, 95.0 of 100 points (longbench.qa_f1), on 20 "
            "questions about 20 documents. These questions do not show that pecan is better "
            "than bm25 (5.0 points less; 95 % interval: between LOW less and HIGH more). bm25 "
            "takes 25 % of the FLOPs of pecan, indexes included. Expect about X points less of "
            "pecan on new questions, as the best of 2 was picked on these. Failed on all "
            "questions: broken."
        ),
    ),
    "a floor with a score for three questions": (
        [
            Run("pecan", HIGH, 4.0),
            Run("bm25", LOW),
            Run("closed-book", [1.0, 1.0, 0.0], 0.1, changes=FLOOR),
        ],
        (
            "pecan scores highest of the 2 methods that are no floor, 95.0 of 100 points "
            "(longbench.qa_f1), on 20 questions about 20 documents. Too few questions to test "
            "closed-book (66.7 points on 3 of 20 questions), a floor that methods must beat. "
            "These questions show that pecan is better than bm25 (90.0 points less; 95 % "
            "interval: between LOW and HIGH less). bm25 takes 25 % of the FLOPs of pecan, "
            "indexes included."
        ),
    ),
    "one nearly as good, and a cheaper one": (
        [
            Run("long", [1.0] * 64 + [0.0] * 36, 20.0),
            Run("rag", [1.0] * 54 + [0.0] * 10 + [1.0] * 8 + [0.0] * 28),
            Run("bm25", [1.0] * 44 + [0.0] * 20 + [1.0] * 11 + [0.0] * 25, 0.5),
        ],
        (
            "long scores highest of 3 methods, 64.0 of 100 points (longbench.qa_f1), on 100 "
            "questions about 100 documents. These questions do not show that long is better "
            "than rag (2.0 points less; 95 % joint interval: between LOW less and HIGH more) or "
            "bm25 (9.0 points less; between LOW less and HIGH more). rag takes 5 % of the FLOPs "
            "of long, indexes included, and bm25 2.5 %. Expect about X points less of long on "
            "new questions, as the best of 3 was picked on these."
        ),
    ),
    "a dearer one within reach, and a cheaper one that is worse": (
        [
            Run("mid", [1.0] * 66 + [0.0] * 34, 5.0),
            Run("big", [1.0] * 60 + [0.0] * 6 + [1.0] * 4 + [0.0] * 30, 50.0),
            Run("small", [1.0] * 40 + [0.0] * 60, 0.5),
        ],
        (
            "mid scores highest of 3 methods, 66.0 of 100 points (longbench.qa_f1), on 100 "
            "questions about 100 documents. These questions do not show that mid is better than "
            "big (2.0 points less; 95 % joint interval: between LOW less and HIGH more), only "
            "that it is better than small (26.0 points less). mid takes 10 % of the FLOPs of "
            "big, indexes included. small takes 10 % of the FLOPs of mid. Expect about X points "
            "less of mid on new questions, as the best of 3 was picked on these."
        ),
    ),
    "two methods with three seeds": (
        [
            *(
                Run(
                    method,
                    ONES_THEN_ZEROS[10 + lead + seed],
                    cost,
                    changes={"settings": {"seed": seed}, "hash8": f"0000000{seed}"},
                )
                for seed in range(3)
                for method, lead, cost in (("pecan", 1, 4.0), ("bm25", 0, 1.0))
            ),
        ],
        (
            "pecan scores highest of 2 methods, 60.0 of 100 points (longbench.qa_f1), on 20 "
            "questions about 20 documents. These questions do not show that pecan is better "
            "than bm25 (5.0 points less; 95 % interval: between LOW less and HIGH more). bm25 "
            "takes 25 % of the FLOPs of pecan, indexes included. Scores are means over seeds: "
            "pecan 55.0 to 65.0 (3 seeds) and bm25 50.0 to 60.0 (3 seeds)."
        ),
    ),
    "a seed that is not finished": (
        [
            Run("pecan", ONES_THEN_ZEROS[12], 4.0),
            Run(
                "pecan",
                ONES_THEN_ZEROS[13][:6],
                4.0,
                changes={"settings": {"seed": 1}, "hash8": "00000001"} | UNFINISHED,
            ),
            Run("bm25", ONES_THEN_ZEROS[9]),
        ],
        (
            "pecan seed=0 scores highest of 2 methods, 60.0 of 100 points (longbench.qa_f1), on "
            "20 questions about 20 documents. These questions do not show that pecan seed=0 is "
            "better than bm25 (15.0 points less; 95 % interval: between LOW less and HIGH "
            "more). bm25 takes 25 % of the FLOPs of pecan seed=0, indexes included, but may "
            "score less than half as much. Expect about X points less of pecan seed=0 on new "
            "questions, as the best of 2 was picked on these. Not finished, so not ranked: "
            "pecan seed=1."
        ),
    ),
    "two seeds that are finished and one that is not": (
        [
            *(
                Run(
                    "pecan",
                    ONES_THEN_ZEROS[12 + 2 * seed],
                    4.0,
                    changes={"settings": {"seed": seed}, "hash8": f"0000000{seed}"},
                )
                for seed in range(2)
            ),
            Run(
                "pecan",
                ONES_THEN_ZEROS[13][:6],
                4.0,
                changes={"settings": {"seed": 2}, "hash8": "00000002"} | UNFINISHED,
            ),
        ],
        (
            "pecan scores 65.0 of 100 points [LOW, HIGH] (longbench.qa_f1), on 20 questions "
            "about 20 documents. Scores are means over seeds: pecan 60.0 to 70.0 (2 seeds). Not "
            "finished, so not ranked: pecan seed=2."
        ),
    ),
    "another seed": (
        [Run("pecan", HIGH, 4.0), Run("bm25", HALF, changes={"settings": {"seed": 1}})],
        (
            "pecan scores highest of 2 methods, 95.0 of 100 points (longbench.qa_f1), on 20 "
            "questions about 20 documents. Not tested, as with another seed: bm25 (50.0 points, "
            "25 % of the FLOPs of pecan)."
        ),
    ),
    "failed questions that are counted by one and left out by the other": (
        [
            Run("pecan", [*HIGH[:-1], None], 4.0),
            Run("bm25", [None, None, *HIGH[2:]], changes=SKIP),
        ],
        (
            "bm25 scores 94.4 of 100 points [LOW, HIGH] (longbench.qa_f1), on the 18 of 20 "
            "questions that have a score, about 18 documents. Not ranked, as failed questions "
            "count 0, and are not left out: pecan (95.0 points, 1 of 20 failed). Failed "
            "questions, left out: 2 of 20 of bm25."
        ),
    ),
    "a floor of an older version": (
        [Run("pecan", HIGH, 4.0), Run("closed-book", ALIKE, 0.1)],
        (
            "pecan scores 95.0 of 100 points [LOW, HIGH] (longbench.qa_f1), on 20 questions "
            "about 20 documents. These questions do not show that pecan is better than "
            "closed-book (90.0 points, 5.0 points less; 95 % interval: between LOW less and "
            "HIGH more), a floor that methods must beat."
        ),
    ),
    "one text to all questions": (
        [
            Run("pecan", HALF, 4.0),
            Run("yes-man", [1.0] * 9 + [0.0] * 11, prediction="yes"),
        ],
        (
            "pecan scores highest of 2 methods, 50.0 of 100 points (longbench.qa_f1), on 20 "
            "questions about 20 documents. These questions do not show that pecan is better "
            "than yes-man (5.0 points less; 95 % interval: between LOW less and HIGH more). "
            "yes-man gave one text to 20 of 20 questions. Expect about X points less of pecan "
            "on new questions, as the best of 2 was picked on these."
        ),
    ),
    "three of 60 questions cost most": (
        [
            Run("agent", [1.0] * 36 + [0.0] * 24, [1.0] * 57 + [210.0, 200.0, 190.0]),
            Run("bm25", [1.0] * 34 + [0.0] * 26, 1.2),
        ],
        (
            "agent scores highest of 2 methods, 60.0 of 100 points (longbench.qa_f1), on 60 "
            "questions about 60 documents. These questions do not show that agent is better "
            "than bm25 (3.3 points less; 95 % interval: between LOW less and HIGH more). bm25 "
            "takes 11 % of the FLOPs of agent, indexes included. 3 of 60 questions take 91 % of "
            "the FLOPs of agent; without them bm25 takes 120 %."
        ),
    ),
    "half of the questions about one document": (
        [
            Run("pecan", [1.0] * 28 + [0.0] * 12, 4.0, documents=HALF_IN_ONE),
            Run("bm25", [1.0] * 8 + [0.0] * 12 + [1.0] * 9 + [0.0] * 11, documents=HALF_IN_ONE),
        ],
        (
            "pecan scores highest of 2 methods, 70.0 of 100 points (longbench.qa_f1), on 40 "
            "questions about 21 documents. These questions do not show that pecan is better "
            "than bm25 (27.5 points less; 95 % interval: between LOW less and HIGH more). Note "
            "that 20 of 40 questions are about one document. bm25 takes 25 % of the FLOPs of "
            "pecan, indexes included, but may score less than half as much. Expect about X "
            "points less of pecan on new questions, as the best of 2 was picked on these."
        ),
    ),
    "a score that may be an error rate": (
        [
            Run("pecan", [0.1, 0.2] * 10, score="wer", changes=SCORED_BY_WER),
            Run("bm25", [0.3, 0.4] * 10, score="wer", changes=SCORED_BY_WER),
        ],
        (
            "bm25 scores highest of 2 methods, 35.0 of 100 points (wer, where higher is taken "
            "as better), on 20 questions about 20 documents. These questions do not show that "
            "bm25 scores higher than pecan (20.0 points less; 95 % interval: between LOW less and "
            "HIGH more). bm25 costs about the same as pecan, by FLOPs, indexes included."
        ),
    ),
    "three methods with two models": (
        [
            *(
                Run(method, ONES_THEN_ZEROS[right], cost, changes={"model": model})
                for method, right, cost, model in (
                    ("full", 15, 40.0, "large"),
                    ("rag", 13, 4.0, "large"),
                    ("rag", 12, 0.4, "small"),
                    ("bm25", 10, 0.3, "small"),
                    ("full", 1, 4.0, "small"),
                )
            ),
        ],
        (
            "full with large scores highest of 5 runs, 75.0 of 100 points (longbench.qa_f1), on "
            "20 questions about 20 documents. These questions do not show that full with large "
            "is better than rag with large (10.0 points less; 95 % interval: between LOW less "
            "and HIGH more). rag with large takes 10 % of the FLOPs of full with large, indexes "
            "included. Expect about X points less of full with large on new questions, as the "
            "best of 5 was picked on these. With the model small, rag scores 60.0 points, bm25 "
            "50.0 and full 5.0; these questions do not show that rag is better than bm25, only "
            "that it is better than full."
        ),
    ),
    "two methods with another model than the best": (
        [
            Run("pecan", HIGH, 40.0, changes={"model": "large"}),
            Run("bm25", HALF, 1.0),
            Run("hybrid", ONES_THEN_ZEROS[9], 2.0),
        ],
        (
            "pecan with large scores highest of 3 runs, 95.0 of 100 points (longbench.qa_f1), "
            "on 20 questions about 20 documents. Not tested, as with another model: bm25 with "
            "tiny (50.0 points, 2.5 % of the FLOPs of pecan with large) and hybrid with tiny "
            "(45.0 points, 5 % of the FLOPs of pecan with large). With the model tiny, these "
            "questions do not show that bm25 is better than hybrid."
        ),
    ),
    "all answers of one of two models failed": (
        [
            Run("pecan", HIGH, changes={"model": "large"}),
            Run("pecan", [None] * 20),
            Run("closed-book", [None] * 20, changes={"model": "large"} | FLOOR),
        ],
        (
            "pecan scores 95.0 of 100 points [LOW, HIGH] (longbench.qa_f1), on 20 questions "
            "about 20 documents. Failed on all questions: closed-book with large and pecan with "
            "tiny."
        ),
    ),
    "failures that decide who is best": (
        [
            Run("bm25", [1.0] * 40 + [0.0] * 20 + [1.0] * 28 + [0.0] * 12),
            Run("full", [1.0] * 54 + [0.0] * 6 + [None] * 40, 20.0),
        ],
        (
            "bm25 scores highest of 2 methods, 68.0 of 100 points (longbench.qa_f1), on 100 "
            "questions about 100 documents. These questions show that bm25 is better "
            "than full (14.0 points less; 95 % interval: between LOW and HIGH less). Failed "
            "questions count 0: on the 60 that both answered, full scores 90.0 points against "
            "66.7 of bm25. bm25 takes 5 % of the FLOPs of full, indexes included, over the 60 of "
            "100 questions that both answered. Expect about X points less of bm25 on new "
            "questions, as the best of 2 was picked on these. Failed questions, which count 0: 40 "
            "of 100 of full."
        ),
    ),
    "most answers from a cut text": (
        [Run("hybrid", HIGH), Run("full", LOW, 10.0, n_cut=16), Run("lead", LOW, n_cut=10)],
        (
            "hybrid scores highest of 3 methods, 95.0 of 100 points (longbench.qa_f1), on 20 "
            "questions about 20 documents. These questions show that hybrid is better than lead "
            "(90.0 points less; 95 % joint interval: between LOW and HIGH less) and full (90.0 "
            "points less; between LOW and HIGH less). hybrid costs about the same as lead, the "
            "cheapest of the others, by FLOPs, indexes included. Answered from a cut text: 16 of "
            "20 questions of full."
        ),
    ),
    "other examples in the prompt": (
        [Run("pecan", HIGH, 5.0, changes=WITH_SHOTS), Run("bm25", HALF), Run("lead", LOW, 0.5)],
        (
            "bm25 scores highest of 2 methods, 50.0 of 100 points (longbench.qa_f1), on 20 "
            "questions about 20 documents. These questions show that bm25 is better than lead "
            "(45.0 points less; 95 % interval: between LOW and HIGH less). lead takes 50 % of the "
            "FLOPs of bm25, indexes included. Not ranked, because of other examples in the prompt "
            "(shots): pecan (95.0 points)."
        ),
    ),
    "two equally cheap ones beside the best": (
        [Run("pecan", HIGH, 1.0), Run("bm25", LOW, 2.0), Run("lead", LOW, 2.0)],
        (
            "pecan scores highest of 3 methods, 95.0 of 100 points (longbench.qa_f1), on 20 "
            "questions about 20 documents. These questions show that pecan is better than bm25 "
            "(90.0 points less; 95 % joint interval: between LOW and HIGH less) and lead (90.0 "
            "points less; between LOW and HIGH less). pecan takes 50 % of the FLOPs of bm25, "
            "one of the cheapest of the others, indexes included."
        ),
    ),
    "a floor with another model": (
        [
            Run("pecan", HIGH, 4.0),
            Run("bm25", HALF),
            Run("closed-book", LOW, 0.1, changes={"model": "large"} | FLOOR),
        ],
        (
            "pecan scores highest of the 2 methods that are no floor, 95.0 of 100 points "
            "(longbench.qa_f1), on 20 questions about 20 documents. These questions show that "
            "pecan is better than bm25 (45.0 points less; 95 % interval: between LOW and HIGH "
            "less). bm25 takes 25 % of the FLOPs of pecan, indexes included. Not tested, as "
            "with another model: closed-book with large (5.0 points, a floor)."
        ),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_page_opens_with_what_the_table_can_carry(name, command, tmp_path):
    runs, expected = CASES[name]
    (text,) = opening(command, tmp_path, *runs)
    assert masked(text) == expected


APPLICATION = {
    "settings": {
        "model": {"name": "application", "backend": "application", "source": "wiki"},
        "method": {
            "name": "wiki", "implementation": "application", "view": "document", "params": {}
        },
    }
}  # fmt: skip


def test_the_verdict_and_the_paragraph_on_an_application_say_the_same(command, tmp_path):
    runs = [
        Run("wiki", [1.0] * 20, changes=APPLICATION),
        Run("bm25", ONES_THEN_ZEROS[14]),
        Run("closed-book", ZERO, 0.1, changes=FLOOR),
        Run("random", HALF[::-1], 0.1, changes=FLOOR),
    ]
    (verdict,) = opening(command, tmp_path, *runs)
    page_text = (tmp_path / "page.html").read_text()
    (paragraph,) = re.findall(r'<p class="application">(.*?)</p>', page_text)
    assert "These questions do not show that wiki is better than bm25 (30.0 points less" in verdict
    assert "These questions do not show which is better." in paragraph
    (ends_in_verdict,) = re.findall(
        r"95 % joint interval: between ([\d.]+) less and ([\d.]+) more", verdict
    )
    (ends_in_paragraph,) = re.findall(r"joint interval -([\d.]+) to ([\d.]+), p", paragraph)
    assert ends_in_verdict == ends_in_paragraph[::-1]


def test_of_several_equal_methods_none_is_the_best_of_the_others(command, tmp_path):
    runs = [
        Run("wiki", [1.0] * 20, changes=APPLICATION),
        *(Run(method, ONES_THEN_ZEROS[14]) for method in ("bm25", "lead", "sbert")),
    ]
    opening(command, tmp_path, *runs)
    page_text = (tmp_path / "page.html").read_text()
    (paragraph,) = re.findall(r'<p class="application">(.*?)</p>', page_text)
    assert "wiki minus bm25, one of 3 with the best score of the others: 30.0 points" in paragraph


def test_a_damaged_run_that_is_left_out_is_named(command, tmp_path):
    for run in (Run("pecan", HIGH), Run("bm25", HALF), Run("closed-book", LOW, changes=FLOOR)):
        run.write(tmp_path / "results")
    (manifest,) = (tmp_path / "results" / "musique").glob("closed-book--*/manifest.json")
    manifest.write_text("{")
    code, _, _ = command("report", str(tmp_path / "results"), "--html", str(tmp_path / "page.html"))
    assert code == 3
    page_text = (tmp_path / "page.html").read_text()
    assert "Left out, as damaged: musique/closed-book--tiny--0123abcd." in page_text


def test_floors_by_name_are_the_presets_whose_class_is_a_floor():
    floors = set()
    for name in presets.names("methods"):
        implementation = str(Tree(presets.read("methods", name)).values["implementation"])
        if method_class(implementation).traits.floor:
            floors.add(name)
    assert floors == FLOORS


def test_a_difference_of_nothing_has_no_sign(command, tmp_path):
    runs = [
        Run("pecan", [1.0] * 12, 4.0),
        Run("bm25", [1.0] * 6 + [0.0] * 6),
        Run("closed-book", [0.0] * 5 + [1.0] * 6 + [0.0], 0.1, changes=FLOOR),
    ]
    (text,) = opening(command, tmp_path, *runs)
    assert "between 100.0 less and 0.0 more" in text or "between 0.0 and 100.0 less" in text
    assert "-0.0" not in text


def test_one_run_in_two_folders_is_two_runs_and_names_no_absolute_path(command, tmp_path):
    for name, scores in (("mine", HIGH), ("yours", ALIKE)):
        started = f"2026-01-0{len(name)}T03:04:05+00:00"
        changes = {"manifest": {"id": name, "started": started}}
        Run("pecan", scores, 4.0, changes=changes).write(tmp_path / "both" / name)
    folders = [str(tmp_path / "both" / name) for name in ("mine", "yours")]
    code, _, err = command("report", *folders, "--html", str(tmp_path / "page.html"))
    assert code == 0, err
    text = (tmp_path / "page.html").read_text()
    (paragraph,) = re.findall(r'<p class="finding">(.*?)</p>', text)
    assert "0123abcd, both/mine) scores highest of 2 runs, 95.0 of 100 points" in paragraph
    assert str(tmp_path) not in paragraph


def test_each_data_set_has_a_paragraph_of_its_own(command, tmp_path):
    runs = [Run("pecan", HIGH), Run("bm25", HALF, changes={"dataset": "hotpotqa"})]
    paragraphs = opening(command, tmp_path, *runs)
    assert [text.partition(" of 100 points")[0] for text in paragraphs] == [
        "hotpotqa: bm25 scores 50.0",
        "musique: pecan scores 95.0",
    ]


def test_where_flops_are_unknown_the_page_draws_money(tmp_path, drawn):
    billed = usage(0.0, uncounted=1) | {
        "billed": {"reader": {"input": 1000, "cached": 0, "output": 10}}
    }
    model = {
        "name": "m",
        "backend": "endpoint",
        "price": {"input": 2.0, "cached": None, "output": 5.0},
    }
    rows = [record(n, 1.0, usage={"answer": billed}) for n in range(3)]
    runs = [
        read_run(write_run(tmp_path, rows, method=name, settings={"model": model}))
        for name in ("bm25", "lead")
    ]
    body = page(runs).partition("<body>")[2]
    assert "bm25 (m): 100.0 at 0.00205 money" in body
    assert "money a question" in body
    assert points(table_rows(runs)) == []


def test_closed_book_and_random_chunks_are_floors_of_a_run_of_the_command(here, tmp_path):
    (tmp_path / "replies.yaml").write_text("replies: [{reply: nothing}]")
    scripted = ["--model", "scripted", "--set", "model.script=replies.yaml", "--mlflow", "off"]
    methods = "closed-book,random,bm25"
    here("run", "-m", methods, "-d", "pocket/musique", "--limit", "1", *scripted).checked()
    here("report", "results", "--html", "page.html").checked()
    text = (tmp_path / "page.html").read_text()
    (opens,) = re.findall(r'<p class="finding">(.*?)</p>', text)
    assert opens.startswith("bm25 does not score above 0 (")


def test_the_table_of_one_data_set_ends_with_the_sentences_of_the_page(command, tmp_path):
    runs = [Run("pecan", HIGH), Run("bm25", HALF), Run("lead", LOW)]
    (paragraph,) = opening(command, tmp_path, *runs)
    results = str(tmp_path / "results")
    _, text, _ = command("report", results)
    assert paragraph in " ".join(text.split())
    for table_format in ("markdown", "latex", "csv", "json"):
        _, text, _ = command("report", results, "--format", table_format)
        assert "scores highest" not in text
    Run("bm25", HALF, changes={"dataset": "hotpotqa"}).write(tmp_path / "results")
    _, text, _ = command("report", results)
    assert "scores highest" not in text
