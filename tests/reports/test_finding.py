"""The sentences that open a page, worked out by hand from the scores and costs of a few runs, as
`harness report --html` writes them."""

import html
import re
from dataclasses import dataclass, field
from typing import Any

import pytest

from harness.storage.run_folder import read_run
from reports.figures.front import points
from reports.main_table import table_rows
from reports.page import page
from tests.reports.build import SCORE, built, record, usage, write_run

HIGH, LOW, ZERO = [1.0] * 19 + [0.0], [0.0] * 19 + [1.0], [0.0] * 20
ALIKE, HALF = [1.0] * 18 + [0.0, 0.0], [1.0, 0.0] * 10
UNKNOWN = {"flops": {}, "uncounted": 1, "requests": 1, "roles": {}}
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
    of cost."""

    method: str
    scores: list[float | None]
    cost: float | list[float] | None = 1.0
    per_document: int = 1
    documents: list[list[str]] | None = None
    score: str = SCORE
    n_scored: int = 1000
    usage: dict[str, Any] | None = None
    changes: dict[str, Any] = field(default_factory=dict)

    def write(self, root):
        """Write its folder below `root`."""
        records = []
        for number, score in enumerate(self.scores):
            changes = {} if score is None else {"usage": self.usage_of(number)}
            documents = [f"d{number // self.per_document}"]
            if self.documents is not None:
                documents = self.documents[number]
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
    text = re.sub(r"(interval|at once|within) -?\d+\.\d to -?\d+\.\d", r"\1 LOW to HIGH", text)
    text = re.sub(r"points \[[\d.]+, [\d.]+\]", "points [LOW, HIGH]", text)
    return re.sub(r"by about \d+\.\d points", "by about X points", text)


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
            "pecan scores 95.0 of 100 points [LOW, HIGH] (longbench.qa_f1), on 20 questions"
            " about 20 documents. The data separate it from closed-book (5.0 points; pecan "
            "minus closed-book: 90.0 points, 95 % interval LOW to HIGH), a floor that "
            "methods must beat."
        ),
    ),
    "one run with an upper bound": (
        [Run("pecan", HALF), Run("oracle", HIGH, changes=ORACLE)],
        (
            "pecan scores 50.0 of 100 points [LOW, HIGH] (longbench.qa_f1), on 20 questions"
            " about 20 documents. The upper bound oracle (95.0 points) is no method to "
            "choose: it was shown the passages that hold the answer."
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
        (
            "No answer has a score (longbench.qa_f1). Failed questions, left out: 1 of 1 of bm25"
            " and 1 of 1 of pecan."
        ),
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
            "bm25 and pecan score 95.0 of 100 points each (longbench.qa_f1), on 20 "
            "questions about 20 documents. Equal scores leave a difference open (bm25 minus"
            " pecan, 95 % interval LOW to HIGH). bm25 takes 25 % of the FLOPs of pecan, "
            "indexes included."
        ),
    ),
    "all equal on other questions": (
        [Run("pecan", HALF, 4.0), Run("bm25", HALF[::-1])],
        (
            "bm25 and pecan score 50.0 of 100 points each (longbench.qa_f1), on 20 "
            "questions about 20 documents. The highest of 2 scores is too high by chance, "
            "on average by about X points. Equal scores leave a difference open (bm25 minus "
            "pecan, 95 % interval LOW to HIGH). bm25 takes 25 % of the FLOPs of pecan, "
            "indexes included, though it may lose more than half of the points."
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
            "pecan scores highest of 2 methods, 95.0 of 100 points (longbench.qa_f1), on 20"
            " questions about 20 documents. The data separate it from bm25. bm25 scores "
            "90.0 points less (95 % interval LOW to HIGH) and takes 25 % of the FLOPs of "
            "pecan, indexes included. Not ranked, as scored on other questions: graph (3 of"
            " 20). Failed questions, left out: 17 of 20 of graph."
        ),
    ),
    # The test over all pairs alone finds a difference (p .02); the interval of a pair has 0 in it.
    "one a little better than ten that are alike": (
        [
            Run("pecan", [1.0] * 15 + [0.0] * 15, 2.0),
            *(Run(f"bm25-{number}", [1.0] * 8 + [0.0] * 22) for number in range(10)),
        ],
        (
            "pecan scores highest of 11 methods, 50.0 of 100 points (longbench.qa_f1), on 30 "
            "questions about 30 documents. The data separate it from every other method. bm25-0 "
            "scores 23.3 points less (95 % interval for all pairs at once LOW to HIGH) and takes "
            "50 % of the FLOPs of pecan, indexes included."
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
            "pecan scores highest of the 2 methods that are no upper bound, 95.0 of 100 "
            "points (longbench.qa_f1), on 20 questions about 20 documents. The data "
            "separate it from bm25. bm25 scores 90.0 points less (95 % interval LOW to "
            "HIGH) and takes 25 % of the FLOPs of pecan, indexes included. The upper bound "
            "oracle (50.0 points) is no method to choose: it was shown the passages that "
            "hold the answer. pecan scores more than oracle, so it is no bound here."
        ),
    ),
    "two dearer ones": (
        [Run("pecan", HIGH, 1.0), Run("bm25", LOW, 2.0), Run("lead", LOW, 4.0)],
        (
            "pecan scores highest of 3 methods, 95.0 of 100 points (longbench.qa_f1), on 20"
            " questions about 20 documents. The data separate it from bm25 and lead. pecan "
            "takes 50 % of the FLOPs of bm25, the cheapest of the others, indexes included."
        ),
    ),
    "five equal": (
        [Run(name, HIGH, 1.0) for name in "abcde"],
        (
            "a, b, c and 2 more score 95.0 of 100 points each (longbench.qa_f1), on 20 "
            "questions about 20 documents. Equal scores leave differences open (a minus "
            "each of the others, 95 % intervals for all pairs at once within LOW to HIGH). "
            "a costs about the same as b, the cheapest of the others, by FLOPs, indexes "
            "included."
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
            "bm25 and pecan score 95.0 of 100 points each (longbench.qa_f1), on 20 "
            "questions about 20 documents. The data separate bm25 from closed-book (5.0 "
            "points; bm25 minus closed-book: 90.0 points, 95 % interval for all pairs at "
            "once LOW to HIGH) and random (0.0 points; bm25 minus random: 95.0 points, 95 %"
            " interval for all pairs at once LOW to HIGH), floors that methods must beat. "
            "Equal scores leave a difference open (bm25 minus pecan, 95 % interval for all "
            "pairs at once LOW to HIGH). bm25 takes 50 % of the FLOPs of pecan, indexes "
            "included."
        ),
    ),
    "one clear winner": (
        [Run("pecan", HIGH, 4.0), Run("lead", LOW, 0.5)],
        (
            "pecan scores highest of 2 methods, 95.0 of 100 points (longbench.qa_f1), on 20"
            " questions about 20 documents. The data separate it from lead. lead scores "
            "90.0 points less (95 % interval LOW to HIGH) and takes 12.5 % of the FLOPs of "
            "pecan, indexes included."
        ),
    ),
    "one clear winner, the cheapest": (
        [Run("pecan", HIGH, 1.0), Run("lead", LOW, 2.0)],
        (
            "pecan scores highest of 2 methods, 95.0 of 100 points (longbench.qa_f1), on 20"
            " questions about 20 documents. The data separate it from lead. pecan takes 50 "
            "% of the FLOPs of lead, indexes included."
        ),
    ),
    "two equals named together": (
        [Run("pecan", HIGH, 4.0), Run("bm25", HIGH, 2.0), Run("lead", LOW, 0.5)],
        (
            "bm25 and pecan score highest of 3 methods, 95.0 of 100 points each "
            "(longbench.qa_f1), on 20 questions about 20 documents. Equal scores leave a "
            "difference open (bm25 minus pecan, 95 % interval for all pairs at once LOW to "
            "HIGH). The data separate bm25 from lead. bm25 takes 50 % of the FLOPs of "
            "pecan, indexes included."
        ),
    ),
    "a cheap one within reach": (
        [Run("pecan", HIGH, 4.0), Run("bm25", ALIKE, 1.0), Run("lead", LOW, 0.5)],
        (
            "pecan scores highest of 3 methods, 95.0 of 100 points (longbench.qa_f1), on 20"
            " questions about 20 documents. The highest of 3 scores is too high by chance, "
            "on average by about X points. The data cannot separate bm25 (pecan minus bm25:"
            " 5.0 points, 95 % interval for all pairs at once LOW to HIGH) from it; they "
            "separate it from lead. bm25 takes 25 % of the FLOPs of pecan, indexes "
            "included."
        ),
    ),
    "two with one difference": (
        [Run("pecan", HIGH, 4.0), Run("bm25", ALIKE, 1.0), Run("sbert", ALIKE, 2.0)],
        (
            "pecan scores highest of 3 methods, 95.0 of 100 points (longbench.qa_f1), on 20"
            " questions about 20 documents. The highest of 3 scores is too high by chance, "
            "on average by about X points. The data cannot separate bm25 and sbert from it (pecan minus "
            "each: 5.0 points, 95 % interval for all pairs at once LOW to HIGH). bm25 takes "
            "25 % of the FLOPs of pecan, indexes included."
        ),
    ),
    "two within reach": (
        [Run("pecan", HIGH, 4.0), Run("bm25", ALIKE, 1.0), Run("sbert", ALIKE[::-1], 2.0)],
        (
            "pecan scores highest of 3 methods, 95.0 of 100 points (longbench.qa_f1), on 20"
            " questions about 20 documents. The highest of 3 scores is too high by chance, "
            "on average by about X points. The data cannot separate bm25 (pecan minus bm25: 5.0 "
            "points, 95 % interval for all pairs at once LOW to HIGH) and sbert (pecan "
            "minus sbert: 5.0 points, 95 % interval for all pairs at once LOW to HIGH) from"
            " it. bm25 takes 25 % of the FLOPs of pecan, indexes included."
        ),
    ),
    "one within reach, dearer": (
        [Run("pecan", HIGH, 1.0), Run("bm25", ALIKE, 3.0)],
        (
            "pecan scores highest of 2 methods, 95.0 of 100 points (longbench.qa_f1), on 20"
            " questions about 20 documents. The highest of 2 scores is too high by chance, "
            "on average by about X points. The data cannot separate bm25 (pecan minus bm25: 5.0 "
            "points, 95 % interval LOW to HIGH) from it. pecan takes 33.3 % of the FLOPs of"
            " bm25, indexes included."
        ),
    ),
    "one within reach at the same cost": (
        [Run("pecan", HIGH, 1.0), Run("bm25", ALIKE, 0.998)],
        (
            "pecan scores highest of 2 methods, 95.0 of 100 points (longbench.qa_f1), on 20"
            " questions about 20 documents. The highest of 2 scores is too high by chance, "
            "on average by about X points. The data cannot separate bm25 (pecan minus bm25: 5.0 "
            "points, 95 % interval LOW to HIGH) from it. pecan costs about the same as "
            "bm25, by FLOPs, indexes included."
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
            "pecan scores highest of the 2 methods that are no floor, "
            "95.0 of 100 points (longbench.qa_f1), on 20"
            " questions about 20 documents. The data cannot separate it from closed-book "
            "(90.0 points; pecan minus closed-book: 5.0 points, 95 % interval for all pairs"
            " at once LOW to HIGH), a floor that methods must beat."
        ),
    ),
    "with an upper bound": (
        [Run("pecan", HALF, 4.0), Run("lead", LOW, 0.5), Run("oracle", HIGH, 0.1, changes=ORACLE)],
        (
            "pecan scores highest of the 2 methods that are no upper bound, 50.0 of 100 "
            "points (longbench.qa_f1), on 20 questions about 20 documents. The data "
            "separate it from lead. lead scores 45.0 points less (95 % interval LOW to "
            "HIGH) and takes 12.5 % of the FLOPs of pecan, indexes included. The upper "
            "bound oracle (95.0 points) is no method to choose: it was shown the passages "
            "that hold the answer."
        ),
    ),
    "unfinished": (
        [
            Run("pecan", HIGH, 4.0),
            Run("lead", LOW, 0.5),
            Run("bm25", ALIKE[:7], 0.1, changes=UNFINISHED),
        ],
        (
            "pecan scores highest of 2 methods, 95.0 of 100 points (longbench.qa_f1), on 20"
            " questions about 20 documents. The data separate it from lead. lead scores "
            "90.0 points less (95 % interval LOW to HIGH) and takes 12.5 % of the FLOPs of "
            "pecan, indexes included. Not finished, so not ranked: bm25."
        ),
    ),
    "all unfinished": (
        [Run("pecan", HIGH, 4.0, changes=UNFINISHED), Run("lead", LOW, 0.5, changes=UNFINISHED)],
        (
            "No run is finished yet: what follows is about the questions answered so far. "
            "pecan scores highest of 2 methods, 95.0 of 100 points (longbench.qa_f1), on 20"
            " questions about 20 documents. The data separate it from lead. lead scores "
            "90.0 points less (95 % interval LOW to HIGH) and takes 12.5 % of the FLOPs of "
            "pecan, indexes included."
        ),
    ),
    "costs of one are unknown": (
        [Run("pecan", HIGH, 4.0), Run("bm25", ALIKE, None), Run("lead", LOW, 0.5)],
        (
            "pecan scores highest of 3 methods, 95.0 of 100 points (longbench.qa_f1), on 20"
            " questions about 20 documents. The highest of 3 scores is too high by chance, "
            "on average by about X points. The data cannot separate bm25 (pecan minus bm25:"
            " 5.0 points, 95 % interval for all pairs at once LOW to HIGH) from it; they "
            "separate it from lead. No cost was measured for bm25."
        ),
    ),
    "failed questions": (
        [Run("pecan", [*HIGH[:-1], None], 4.0), Run("lead", [None, *LOW[1:]], 0.5)],
        (
            "pecan scores highest of 2 methods, 95.0 of 100 points (longbench.qa_f1), on 20"
            " questions about 20 documents. The data separate it from lead. lead scores "
            "90.0 points less (95 % interval LOW to HIGH) and takes 12.5 % of the FLOPs of "
            "pecan, indexes included, over the 18 of 20 questions that both answered. "
            "Failed questions, which count 0: 1 of 20 of pecan and 1 of 20 of lead."
        ),
    ),
    "other rows of the data set": (
        [
            Run("pecan", HIGH, 4.0),
            Run("lead", LOW, 0.5),
            Run("bm25", ALIKE, 0.1, changes=OTHER_ROWS),
        ],
        (
            "pecan scores highest of 2 methods, 95.0 of 100 points (longbench.qa_f1), on 20"
            " questions about 20 documents. The data separate it from lead. lead scores "
            "90.0 points less (95 % interval LOW to HIGH) and takes 12.5 % of the FLOPs of "
            "pecan, indexes included. Asked otherwise, so not ranked: bm25."
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
            "pecan scores highest of 2 methods, 95.0 of 100 points (longbench.qa_f1), on 20"
            " questions about 20 documents. The data separate it from lead. No cost was "
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
            "pecan scores highest of 3 methods, 50.0 of 100 points (longbench.qa_f1), on 20"
            " questions about 20 documents. The highest of 3 scores is too high by chance, "
            "on average by about X points. The data cannot separate bm25 (pecan minus bm25: 10.0 "
            "points, 95 % interval for all pairs at once LOW to HIGH) and sbert (pecan "
            "minus sbert: 30.0 points, 95 % interval for all pairs at once LOW to HIGH) "
            "from it. sbert takes 50 % of the FLOPs of pecan, indexes included, though it "
            "may lose more than half of the points."
        ),
    ),
    "a rival that may lose most": (
        [Run("pecan", [1.0] * 5 + [0.0] * 7, 4.0), Run("bm25", [0.0] * 10 + [1.0, 1.0], 1.0)],
        (
            "pecan scores highest of 2 methods, 41.7 of 100 points (longbench.qa_f1), on 12"
            " questions about 12 documents. The highest of 2 scores is too high by chance, "
            "on average by about X points. The data cannot separate bm25 (pecan minus bm25: 25.0 "
            "points, 95 % interval LOW to HIGH) from it. bm25 takes 25 % of the FLOPs of "
            "pecan, indexes included, though it may lose more than half of the points."
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
            "(longbench.qa_f1), on the 19 of 20 questions for which all have a score, about"
            " 19 documents. The highest of 2 scores is too high by chance, on average by "
            "about X points. The data separate it from closed-book (5.3 points on 19 of 20 "
            "questions; pecan minus closed-book: 94.7 points, 95 % interval for all pairs "
            "at once LOW to HIGH), a floor that methods must beat. The data cannot separate"
            " bm25 (pecan minus bm25: 5.3 points, 95 % interval for all pairs at once LOW "
            "to HIGH) from it. bm25 takes 25 % of the FLOPs of pecan, indexes included, "
            "over the 19 of 20 questions that both answered. Failed questions, left out: 1 "
            "of 20 of pecan and 1 of 20 of bm25."
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
            "(longbench.qa_f1), on the 19 of 20 questions for which all have a score, about"
            " 19 documents. Equal scores leave differences open (bm25 minus each of the "
            "others, 95 % intervals for all pairs at once within LOW to HIGH). The data "
            "separate bm25 from lead. bm25 costs about the same as lead, the cheapest of "
            "the others, by FLOPs, indexes included, over the 19 of 20 questions that both "
            "answered. Failed questions, left out: 1 of 20 of bm25, 1 of 20 of pecan and 1 "
            "of 20 of sbert."
        ),
    ),
    "each lacks another question": (
        [
            Run("pecan", [None] + [1.0] * 19, 4.0, changes=SKIP),
            Run("bm25", [1.0] * 19 + [None], 1.0, changes=SKIP),
        ],
        (
            "bm25 and pecan score 100.0 of 100 points each (longbench.qa_f1), on the 18 of "
            "20 questions for which all have a score, about 18 documents. Equal scores "
            "leave a difference open (bm25 minus pecan, 95 % interval LOW to HIGH). bm25 "
            "takes 25 % of the FLOPs of pecan, indexes included, over the 18 of 20 "
            "questions that both answered. Failed questions, left out: 1 of 20 of bm25 and "
            "1 of 20 of pecan."
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
            "pecan scores 95.0 of 100 points [LOW, HIGH] (longbench.qa_f1), on 20 questions"
            " about 20 documents. The data separate it from random (10.0 points on 10 of 20"
            " questions; pecan minus random: 90.0 points, 95 % interval LOW to HIGH) and "
            "closed-book (0.0 points on 10 of 20 questions; pecan minus closed-book: 100.0 "
            "points, 95 % interval LOW to HIGH), floors that methods must beat."
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
            "No method is finished yet: what follows is about the questions answered so "
            "far. bm25 scores 100.0 of 100 points [LOW, HIGH] (longbench.qa_f1), on 9 "
            "questions about 9 documents. The data separate it from closed-book (0.0 "
            "points; bm25 minus closed-book: 100.0 points, 95 % interval LOW to HIGH), a "
            "floor that methods must beat. Not finished, so not ranked: pecan."
        ),
    ),
    "an upper bound a little below the best": (
        [
            Run("pecan", ONES_THEN_ZEROS[10], 4.0),
            Run("bm25", ONES_THEN_ZEROS[9]),
            Run("oracle", [0.0, *ONES_THEN_ZEROS[9][:-1]], 0.1, changes=ORACLE),
        ],
        (
            "pecan scores highest of the 2 methods that are no upper bound, 50.0 of 100 "
            "points (longbench.qa_f1), on 20 questions about 20 documents. The highest of 2"
            " scores is too high by chance, on average by about X points. The data cannot "
            "separate bm25 (pecan minus bm25: 5.0 points, 95 % interval LOW to HIGH) from "
            "it. bm25 takes 25 % of the FLOPs of pecan, indexes included. The upper bound "
            "oracle (45.0 points) is no method to choose: it was shown the passages that "
            "hold the answer."
        ),
    ),
    "an upper bound with a score for three questions": (
        [
            Run("pecan", HALF, 4.0),
            Run("bm25", LOW),
            Run("oracle", [1.0, 0.0, 0.0] + [1.0] * 17, 0.1, n_scored=3, changes=ORACLE),
        ],
        (
            "pecan scores highest of the 2 methods that are no upper bound, 50.0 of 100 "
            "points (longbench.qa_f1), on 20 questions about 20 documents. The data "
            "separate it from bm25. bm25 scores 45.0 points less (95 % interval LOW to "
            "HIGH) and takes 25 % of the FLOPs of pecan, indexes included. The upper bound "
            "oracle (33.3 points on 3 of 20 questions) is no method to choose: it was shown"
            " the passages that hold the answer."
        ),
    ),
    "an upper bound that mostly failed": (
        [
            Run("pecan", HALF, 4.0),
            Run("oracle", [1.0] * 4 + [None] * 16, 4.0, changes=ORACLE),
        ],
        (
            "pecan scores 50.0 of 100 points [LOW, HIGH] (longbench.qa_f1), on 20 questions"
            " about 20 documents. The upper bound oracle (100.0 points on 4 of 20 "
            "questions) is no method to choose: it was shown the passages that hold the "
            "answer. Failed questions, which count 0: 16 of 20 of oracle."
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
            "pecan scores highest of 2 methods, 100.0 of 100 points (longbench.qa_f1), on "
            "the 8 of 20 questions for which all have a score, about 8 documents. The data "
            "separate it from bm25. pecan costs about the same as bm25, by FLOPs, indexes "
            "included."
        ),
    ),
    "two judges": (
        [
            Run("pecan", HIGH, 4.0, score="judge.llama", changes=judged("judge.llama")),
            Run("bm25", HALF, 1.0, score="judge.other", changes=judged("judge.other")),
        ],
        (
            "No answer has a score (right). Scored otherwise: bm25 by judge.other and pecan"
            " by judge.llama."
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
            "pecan scores highest of 2 methods, 95.0 of 100 points (judge.llama.faithful), "
            "on 20 questions about the folder. The data separate it from bm25. bm25 scores "
            "45.0 points less (95 % interval LOW to HIGH) and takes 25 % of the FLOPs of "
            "pecan, indexes included. This score is a judgement of claim-faithfulness, not "
            "of right answers."
        ),
    ),
    "questions that were left out when they were loaded": (
        [
            Run("pecan", HIGH, 4.0, changes=LOADED_IN_PART),
            Run("bm25", LOW, 1.0, changes=LOADED_IN_PART),
        ],
        (
            "pecan scores highest of 2 methods, 95.0 of 100 points (longbench.qa_f1), on 20"
            " questions about 20 documents. The data separate it from bm25. bm25 scores "
            "90.0 points less (95 % interval LOW to HIGH) and takes 25 % of the FLOPs of "
            "pecan, indexes included. Left out when the questions were loaded: 480 of 500 "
            "of each run."
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
            "(longbench.qa_f1), on 100 questions about 100 documents. The highest of 2 "
            "scores is too high by chance, on average by about X points. The data separate "
            "it from closed-book (50.0 points; pecan minus closed-book: 10.0 points, 95 % "
            "interval for all pairs at once LOW to HIGH), a floor that methods must beat. "
            "The data cannot separate bm25 (pecan minus bm25: 12.0 points, 95 % interval "
            "for all pairs at once LOW to HIGH) from it. bm25 takes 25 % of the FLOPs of "
            "pecan, indexes included, but the data do not show that it scores more than "
            "closed-book."
        ),
    ),
    "a cheap one without a right answer": (
        [Run("pecan", [1.0] + [0.0] * 49, 4.0), Run("bm25", [0.0] * 50)],
        (
            "pecan scores highest of 2 methods, 2.0 of 100 points (longbench.qa_f1), on 50 "
            "questions about 50 documents. The highest of 2 scores is too high by chance, "
            "on average by about X points. The data cannot separate bm25 (pecan minus bm25:"
            " 2.0 points, 95 % interval LOW to HIGH) from it. bm25 has no right answer."
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
            "best scores highest of 12 methods, 90.0 of 100 points (longbench.qa_f1), on 40"
            " questions about 40 documents. The data cannot separate m6 (best minus m6: "
            "17.5 points, 95 % interval for all pairs at once LOW to HIGH) and 6 others "
            "from it; they separate it from 4 others. m6 takes 40 % of the FLOPs of best, "
            "indexes included."
        ),
    ),
    "one within reach, and a cheaper one that may lose most": (
        [
            Run("pecan", ONES_THEN_ZEROS[10], 4.0),
            Run("sbert", ONES_THEN_ZEROS[9], 3.9),
            Run("bm25", [0.0] * 8 + [1.0] * 7 + [0.0] * 5, 0.04),
        ],
        (
            "pecan scores highest of 3 methods, 50.0 of 100 points (longbench.qa_f1), on 20"
            " questions about 20 documents. The highest of 3 scores is too high by chance, "
            "on average by about X points. The data cannot separate sbert (pecan minus "
            "sbert: 5.0 points, 95 % interval for all pairs at once LOW to HIGH) and bm25 "
            "(pecan minus bm25: 15.0 points, 95 % interval for all pairs at once LOW to "
            "HIGH) from it. sbert takes 97.5 % of the FLOPs of pecan, indexes included. "
            "bm25 takes 1 % of the FLOPs of pecan, indexes included, though it may lose "
            "more than half of the points."
        ),
    ),
    "a worse one, and a cheaper one that is much worse": (
        [
            Run("pecan", [0.9, 0.8] * 30, 4.0),
            Run("bm25", [0.86, 0.74, 0.82, 0.76, 0.84, 0.72] * 10, 1.0),
            Run("lead", [0.0, 0.1] * 30, 0.9),
        ],
        (
            "pecan scores highest of 3 methods, 85.0 of 100 points (longbench.qa_f1), on 60"
            " questions about 60 documents. The data separate it from bm25 and lead. bm25 "
            "scores 6.0 points less (95 % interval for all pairs at once LOW to HIGH) and "
            "takes 25 % of the FLOPs of pecan, indexes included. lead scores 80.0 points "
            "less (95 % interval for all pairs at once LOW to HIGH) and takes 22.5 % of the"
            " FLOPs of pecan, indexes included."
        ),
    ),
    "three equal ones at three costs": (
        [Run("a", HALF, 1.0), Run("b", HALF[::-1], 2.0), Run("c", HALF, 8.0)],
        (
            "a, b and c score 50.0 of 100 points each (longbench.qa_f1), on 20 questions "
            "about 20 documents. The highest of 3 scores is too high by chance, on average "
            "by about X points. Equal scores leave differences open (a minus each of the "
            "others, 95 % intervals for all pairs at once within LOW to HIGH). a takes 12.5"
            " % of the FLOPs of c, indexes included, and b 25 %."
        ),
    ),
    "a dearer one that may lose most": (
        [Run("pecan", [1.0] * 5 + [0.0] * 7, 1.0), Run("bm25", [0.0] * 10 + [1.0, 1.0], 4.0)],
        (
            "pecan scores highest of 2 methods, 41.7 of 100 points (longbench.qa_f1), on 12"
            " questions about 12 documents. The highest of 2 scores is too high by chance, "
            "on average by about X points. The data cannot separate bm25 (pecan minus bm25:"
            " 25.0 points, 95 % interval LOW to HIGH) from it. pecan takes 25 % of the "
            "FLOPs of bm25, indexes included."
        ),
    ),
    "a method that calls no model": (
        [Run("pecan", HIGH, 4.0), Run("rule", LOW, usage={})],
        (
            "pecan scores highest of 2 methods, 95.0 of 100 points (longbench.qa_f1), on 20"
            " questions about 20 documents. The data separate it from rule. No cost was "
            "measured for rule."
        ),
    ),
    "one failed on the dear questions": (
        [
            Run("pecan", HIGH, [1.0] * 18 + [100.0] * 2),
            Run("bm25", [1.0] * 18 + [None] * 2),
        ],
        (
            "pecan scores highest of 2 methods, 95.0 of 100 points (longbench.qa_f1), on 20"
            " questions about 20 documents. The highest of 2 scores is too high by chance, "
            "on average by about X points. The data cannot separate bm25 (pecan minus bm25:"
            " 5.0 points, 95 % interval LOW to HIGH) from it. pecan costs about the same as"
            " bm25, by FLOPs, indexes included, over the 18 of 20 questions that both "
            "answered. Failed questions, which count 0: 2 of 20 of bm25."
        ),
    ),
    "one question costs most": (
        [Run("pecan", HIGH, [1.0] * 19 + [200.0]), Run("bm25", ALIKE, 3.0)],
        (
            "pecan scores highest of 2 methods, 95.0 of 100 points (longbench.qa_f1), on 20"
            " questions about 20 documents. The highest of 2 scores is too high by chance, "
            "on average by about X points. The data cannot separate bm25 (pecan minus bm25:"
            " 5.0 points, 95 % interval LOW to HIGH) from it. bm25 takes 27.4 % of the "
            "FLOPs of pecan, indexes included. One question takes 91 % of the FLOPs of "
            "pecan."
        ),
    ),
    "conventions for FLOPs that disagree": (
        [
            Run("pecan", HIGH, usage=flops_by_convention(4.0, full=10.0)),
            Run("bm25", ALIKE, usage=flops_by_convention(8.0, full=9.0)),
        ],
        (
            "pecan scores highest of 2 methods, 95.0 of 100 points (longbench.qa_f1), on 20"
            " questions about 20 documents. The highest of 2 scores is too high by chance, "
            "on average by about X points. The data cannot separate bm25 (pecan minus bm25:"
            " 5.0 points, 95 % interval LOW to HIGH) from it. pecan takes 50 % of the FLOPs"
            " of bm25, indexes included (but 111 % under the convention full)."
        ),
    ),
    "tokens of indexes": (
        [
            Run("graph", HIGH, usage=tokens(500), changes={"documents": INDEXES}),
            Run("full", ALIKE, usage=tokens(5000)),
        ],
        (
            "graph scores highest of 2 methods, 95.0 of 100 points (longbench.qa_f1), on 20"
            " questions about 20 documents. The highest of 2 scores is too high by chance, "
            "on average by about X points. The data cannot separate full (graph minus full:"
            " 5.0 points, 95 % interval LOW to HIGH) from it. full takes 4.98 % of the "
            "tokens of graph, indexes included."
        ),
    ),
    "an index of unknown cost": (
        [
            Run("pecan", HIGH, 4.0, changes={"summary": INDEXES_NOT_RECORDED}),
            Run("bm25", ALIKE),
        ],
        (
            "pecan scores highest of 2 methods, 95.0 of 100 points (longbench.qa_f1), on 20"
            " questions about 20 documents. The highest of 2 scores is too high by chance, "
            "on average by about X points. The data cannot separate bm25 (pecan minus bm25:"
            " 5.0 points, 95 % interval LOW to HIGH) from it. pecan costs about the same as"
            " bm25, by tokens, without those of indexes, which are unknown. FLOPs are not "
            "compared, as those of pecan are unknown."
        ),
    ),
    "cached tokens": (
        [
            Run("pecan", HIGH, usage=tokens(5000)),
            Run("session", ALIKE, usage=tokens(500, cached=90000)),
        ],
        (
            "pecan scores highest of 2 methods, 95.0 of 100 points (longbench.qa_f1), on 20"
            " questions about 20 documents. The highest of 2 scores is too high by chance, "
            "on average by about X points. The data cannot separate session (pecan minus "
            "session: 5.0 points, 95 % interval LOW to HIGH) from it. session takes 10.1 % "
            "of the tokens of pecan, indexes included, without cached ones (90,000 a "
            "question of session)."
        ),
    ),
    "two currencies": (
        [
            Run("pecan", HIGH, usage=BILLED, changes={"settings": priced("USD")}),
            Run("bm25", ALIKE, usage=BILLED, changes={"settings": priced("EUR")}),
        ],
        (
            "pecan scores highest of 2 methods, 95.0 of 100 points (longbench.qa_f1), on 20"
            " questions about 20 documents. The highest of 2 scores is too high by chance, "
            "on average by about X points. The data cannot separate bm25 (pecan minus bm25:"
            " 5.0 points, 95 % interval LOW to HIGH) from it. pecan costs about the same as"
            " bm25, by tokens, indexes included. Money is not compared, as it is in EUR and"
            " USD."
        ),
    ),
    "one costs next to nothing": (
        [Run("pecan", HIGH, 5000.0), Run("bm25", ALIKE, 0.00002)],
        (
            "pecan scores highest of 2 methods, 95.0 of 100 points (longbench.qa_f1), on 20"
            " questions about 20 documents. The highest of 2 scores is too high by chance, "
            "on average by about X points. The data cannot separate bm25 (pecan minus bm25:"
            " 5.0 points, 95 % interval LOW to HIGH) from it. bm25 takes less than 0.01 % "
            "of the FLOPs of pecan, indexes included."
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
            "pecan seed=2 scores highest of 3 runs, 85.0 of 100 points (longbench.qa_f1), "
            "on 20 questions about 20 documents. The highest of 3 scores is too high by "
            "chance, on average by about X points. Not tested, as with another seed: pecan "
            "seed=1 (80.0 points, 100 % of the FLOPs of pecan seed=2) and pecan seed=0 "
            "(75.0 points, 100 % of the FLOPs of pecan seed=2)."
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
            "b and a score 80.0 of 100 points each (longbench.qa_f1), on 204 questions "
            "about 204 documents. The data separate them: a scores more than b by less than"
            " 0.1 points. b takes 25 % of the FLOPs of a, indexes included."
        ),
    ),
    "one document with most questions": (
        [
            Run("pecan", [1.0] * 107, 4.0, documents=UNEQUAL),
            Run("bm25", [0.0] * 107, 1.0, documents=UNEQUAL),
        ],
        (
            "pecan scores highest of 2 methods, 100.0 of 100 points (longbench.qa_f1), on "
            "107 questions about 8 documents. The data cannot separate bm25 (pecan minus "
            "bm25: 100.0 points, no interval can be given) from it. This test cannot "
            "separate them: 100 of 107 questions are about one document. bm25 has no right "
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
            "bm25 with large scores highest of 4 runs, 75.0 of 100 points "
            "(longbench.qa_f1), on 20 questions about 20 documents. The highest of 4 scores"
            " is too high by chance, on average by about X points. The data cannot separate"
            " pecan with large (bm25 with large minus pecan with large: 15.0 points, 95 % "
            "interval LOW to HIGH) from it. bm25 with large takes 25 % of the FLOPs of "
            "pecan with large, indexes included. The data cannot separate pecan with small "
            "(bm25 with small minus pecan with small: 15.0 points, 95 % interval LOW to "
            "HIGH) from bm25 with small. Not tested, as with another model: bm25 with small"
            " (60.0 points, 100 % of the FLOPs of bm25 with large) and pecan with small "
            "(45.0 points, 400 % of the FLOPs of bm25 with large)."
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
            "20 questions about 20 documents. The data separate it from bm25 with tiny and lead "
            "with tiny. pecan with tiny takes 50 % of the FLOPs of bm25 with tiny, the cheapest of "
            "those that were tested, indexes included. Not tested, as with another model: bm25 "
            "with large (5.0 points, 100 % of the FLOPs of pecan with tiny)."
        ),
    ),
    "all answers of one failed": (
        [Run("pecan", HIGH, 4.0), Run("bm25", ALIKE), Run("broken", [None] * 20)],
        (
            "pecan scores highest of 3 methods, 95.0 of 100 points (longbench.qa_f1), on 20 "
            "questions about 20 documents. The highest of 3 scores is too high by chance, on "
            "average by about X points. The data cannot separate bm25 (pecan minus bm25: 5.0 "
            "points, 95 % interval for all pairs at once LOW to HIGH) from it; they separate it "
            "from broken. bm25 takes 25 % of the FLOPs of pecan, indexes included. Failed "
            "questions, which count 0: 20 of 20 of broken."
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
            "closed-book (66.7 points on 3 of 20 questions), a floor that methods must beat. The "
            "data separate it from bm25. bm25 scores 90.0 points less (95 % interval LOW to HIGH) "
            "and takes 25 % of the FLOPs of pecan, indexes included."
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
            "(longbench.qa_f1), on 20 questions about 20 documents. The data separate it "
            "from bm25. bm25 scores 45.0 points less (95 % interval LOW to HIGH) and takes "
            "25 % of the FLOPs of pecan, indexes included. Not tested, as with another "
            "model: closed-book with large (5.0 points)."
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
    assert "The data cannot separate bm25 (wiki minus bm25: 30.0 points" in verdict
    assert "The data cannot separate the two." in paragraph
    (interval,) = re.findall(r"30.0 points, (95 % interval.*?)\)", verdict)
    assert interval in paragraph


def test_a_difference_of_nothing_has_no_sign(command, tmp_path):
    runs = [
        Run("pecan", [1.0] * 12, 4.0),
        Run("bm25", [1.0] * 6 + [0.0] * 6),
        Run("closed-book", [0.0] * 5 + [1.0] * 6 + [0.0], 0.1, changes=FLOOR),
    ]
    (text,) = opening(command, tmp_path, *runs)
    assert " 0.0 to 100.0" in text
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
