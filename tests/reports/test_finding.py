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
from tests.reports.build import record, usage, write_run

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


@dataclass(frozen=True)
class Run:
    """A run of a made-up table. scores: one a question, None for a failed one; cost: TFLOPs of a
    question, None where unknown; per_document: questions of a document."""

    method: str
    scores: list[float | None]
    cost: float | None = 1.0
    per_document: int = 1
    changes: dict[str, Any] = field(default_factory=dict)

    def write(self, root):
        """Write its folder below `root`."""
        records = []
        for number, score in enumerate(self.scores):
            spent = UNKNOWN if self.cost is None else usage(self.cost)
            changes = {} if score is None else {"usage": {"answer": spent}}
            document = f"d{number // self.per_document}"
            records.append(record(number, score, document_ids=[document], **changes))
        write_run(root, records, method=self.method, **self.changes)


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
            "bm25 scores 100.0 of 100 points [LOW, HIGH] (longbench.qa_f1), on 19 questions"
            " about 19 documents. Failed questions, left out: 1 of 20 of bm25."
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
            "pecan scores highest of 2 methods, 95.0 of 100 points (longbench.qa_f1), on 20 "
            "questions about 20 documents. The data separate it from every other method. bm25 "
            "scores 90.0 points less (95 % interval LOW to HIGH) and takes 25 % of the FLOPs of "
            "pecan, indexes included. Not ranked, as scored on other questions: graph "
            "(3 of 20). Failed questions, left out: 17 of 20 of graph."
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
            "None of the 2 methods that are no floor scores above 0.05 points (longbench.qa_f1), on "
            "20 questions about 20 documents. Only closed-book (50.0 points), a floor that methods "
            "must beat, scores above 0."
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
            "(longbench.qa_f1), on 20 questions about 20 documents. The data separate it from "
            "every other method. bm25 scores 90.0 points less (95 % interval LOW to HIGH) and "
            "takes 25 % of the FLOPs of pecan, indexes included. The upper bound oracle (50.0 "
            "points) is no method to choose: it was shown the passages that hold the answer. pecan "
            "scores more than oracle, so it is no bound here."
        ),
    ),
    "two dearer ones": (
        [Run("pecan", HIGH, 1.0), Run("bm25", LOW, 2.0), Run("lead", LOW, 4.0)],
        (
            "pecan scores highest of 3 methods, 95.0 of 100 points (longbench.qa_f1), on 20"
            " questions about 20 documents. The data separate it from every other method. "
            "pecan takes 50 % of the FLOPs of bm25, the cheapest of the others, indexes "
            "included."
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
            " questions about 20 documents. The data separate it from every other method. "
            "lead scores 90.0 points less (95 % interval LOW to HIGH) and takes 12.5 % of "
            "the FLOPs of pecan, indexes included."
        ),
    ),
    "one clear winner, the cheapest": (
        [Run("pecan", HIGH, 1.0), Run("lead", LOW, 2.0)],
        (
            "pecan scores highest of 2 methods, 95.0 of 100 points (longbench.qa_f1), on 20"
            " questions about 20 documents. The data separate it from every other method. "
            "pecan takes 50 % of the FLOPs of lead, indexes included."
        ),
    ),
    "two equals named together": (
        [Run("pecan", HIGH, 4.0), Run("bm25", HIGH, 2.0), Run("lead", LOW, 0.5)],
        (
            "bm25 and pecan score highest of 3 methods, 95.0 of 100 points each "
            "(longbench.qa_f1), on 20 questions about 20 documents. Equal scores leave a "
            "difference open (bm25 minus pecan, 95 % interval for all pairs at once LOW to "
            "HIGH). The data separate bm25 from every method that scores less. bm25 takes 50 % of the "
            "FLOPs of pecan, indexes included."
        ),
    ),
    "a cheap one within reach": (
        [Run("pecan", HIGH, 4.0), Run("bm25", ALIKE, 1.0), Run("lead", LOW, 0.5)],
        (
            "pecan scores highest of 3 methods, 95.0 of 100 points (longbench.qa_f1), on 20"
            " questions about 20 documents. The highest of 3 scores is too high by chance, "
            "on average by about X points. The data cannot separate bm25 (pecan minus bm25: 5.0 "
            "points, 95 % interval for all pairs at once LOW to HIGH) from it. bm25 takes "
            "25 % of the FLOPs of pecan, indexes included."
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
            " about 4 documents. With so few documents this test cannot separate any two "
            "runs; 6 are the fewest with which it can."
        ),
    ),
    "two documents, a cheap one": (
        [Run("pecan", HIGH, 4.0, 10), Run("bm25", ALIKE, 1.0, 10)],
        (
            "pecan scores highest of 2 methods, 95.0 of 100 points (longbench.qa_f1), on 20"
            " questions about 2 documents. With so few documents this test cannot separate "
            "any two runs; 6 are the fewest with which it can."
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
            "pecan scores highest of the 2 methods that are no upper bound, "
            "50.0 of 100 points (longbench.qa_f1), on 20"
            " questions about 20 documents. The data separate it from every other method. "
            "lead scores 45.0 points less (95 % interval LOW to HIGH) and takes 12.5 % of "
            "the FLOPs of pecan, indexes included. The upper bound oracle (95.0 points) is "
            "no method to choose: it was shown the passages that hold the answer."
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
            " questions about 20 documents. The data separate it from every other method. "
            "lead scores 90.0 points less (95 % interval LOW to HIGH) and takes 12.5 % of "
            "the FLOPs of pecan, indexes included. Not finished, so not ranked: bm25."
        ),
    ),
    "all unfinished": (
        [Run("pecan", HIGH, 4.0, changes=UNFINISHED), Run("lead", LOW, 0.5, changes=UNFINISHED)],
        (
            "No run is finished yet: what follows is about the questions answered so far. "
            "pecan scores highest of 2 methods, 95.0 of 100 points (longbench.qa_f1), on 20"
            " questions about 20 documents. The data separate it from every other method. "
            "lead scores 90.0 points less (95 % interval LOW to HIGH) and takes 12.5 % of "
            "the FLOPs of pecan, indexes included."
        ),
    ),
    "costs of one are unknown": (
        [Run("pecan", HIGH, 4.0), Run("bm25", ALIKE, None), Run("lead", LOW, 0.5)],
        (
            "pecan scores highest of 3 methods, 95.0 of 100 points (longbench.qa_f1), on 20"
            " questions about 20 documents. The highest of 3 scores is too high by chance, "
            "on average by about X points. The data cannot separate bm25 (pecan minus bm25: 5.0 "
            "points, 95 % interval for all pairs at once LOW to HIGH) from it. What an "
            "answer costs in FLOPs is unknown for bm25."
        ),
    ),
    "failed questions": (
        [Run("pecan", [*HIGH[:-1], None], 4.0), Run("lead", [None, *LOW[1:]], 0.5)],
        (
            "pecan scores highest of 2 methods, 95.0 of 100 points (longbench.qa_f1), on 20"
            " questions about 20 documents. The data separate it from every other method. "
            "lead scores 90.0 points less (95 % interval LOW to HIGH) and takes 12.5 % of "
            "the FLOPs of pecan, indexes included. Failed questions, which count 0: 1 of 20 of "
            "pecan and 1 of 20 of lead."
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
            " questions about 20 documents. The data separate it from every other method. "
            "lead scores 90.0 points less (95 % interval LOW to HIGH) and takes 12.5 % of "
            "the FLOPs of pecan, indexes included. Asked otherwise, so not ranked: bm25."
        ),
    ),
    "two models": (
        [Run("bm25", HIGH, 4.0, changes={"model": "large"}), Run("bm25", LOW, 0.5)],
        (
            "bm25 with large scores highest of 2 runs, 95.0 of 100 points "
            "(longbench.qa_f1), on 20 questions about 20 documents. Differences are not "
            "tested, as these runs differ in the model."
        ),
    ),
    "costs of all are unknown": (
        [Run("pecan", HIGH, None), Run("lead", LOW, None)],
        (
            "pecan scores highest of 2 methods, 95.0 of 100 points (longbench.qa_f1), on 20"
            " questions about 20 documents. The data separate it from every other method. "
            "What an answer costs in FLOPs is unknown."
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
}


@pytest.mark.parametrize("name", CASES)
def test_the_page_opens_with_what_the_table_can_carry(name, command, tmp_path):
    runs, expected = CASES[name]
    (text,) = opening(command, tmp_path, *runs)
    assert masked(text) == expected


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
