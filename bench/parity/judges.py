"""Judges' replies of BEAM and BrowseComp-Plus: verdicts, ratings, orders, calibration.

Replies, events and confidences are made up. BEAM's program needs the package json_repair.
"""

from __future__ import annotations

import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from bench.parity import Found, import_theirs, stand_in
from bench.parity.rows import Rows
from harness.judging.calibration import ConfidentAnswer, calibration_error
from harness.judging.kinds import UNCLEAR, YES, VersionedPrompt
from harness.judging.model_judge import Case
from harness.judging.published import PublishedPrompts, published_for
from harness.judging.rubric import rubric_steps
from harness.types import Example, Gold, Question

PROGRAM = "mohammadtavakoli78/BEAM, texttron/BrowseComp-Plus"
METHODS = "`harness judge` with configs/judges/beam.yaml and browsecomp-plus.yaml"
REASONS = {
    "BEAM: Kendall's tau": "one line, four times: as its last place is the rank of lines that are "
    "no event, theirs is not a number; 0 here, flagged"
}
ANSWERS = 2000
KINDS = (
    *("abstention", "contradiction_resolution", "information_extraction"),
    *("instruction_following", "knowledge_update", "multi_session_reasoning"),
    *("preference_following", "summarization", "temporal_reasoning"),
)
ITEMS = [f"LLM response should state: {word}" for word in ("May 9", "Bo", "<question>", "7 rows")]
EVENTS = ["plan", "build", "test", "sell", "mend"]
RATED = [
    '{"score": 1.0, "reason": "It is there."}',
    '{"score": 0.5, "reason": "In part: {a} of it."}',
    '{\n   "score": 0.0,\n   "reason": "Not there."\n}',
    '```json\n{"score": 1, "reason": "Yes."}\n```',
    'Here it is: {"score": 0.5, "reason": "So."} Done.',
    '{"reason": "Said first.", "score": 1.0}',
    "{'score': 0.5, 'reason': 'Single quotes'}",
    '{"score": 1.0, "reason": "He said "yes" twice"}',
    '{"score": 1.0, "reason": "not closed',
    '{score: 0, reason: "bare"}',
]
SAID = ["YES", "**Yes**", "yes, the same", "NO", "No.", "", "They differ", "Yesterday"]
VERDICTS = [
    *("correct: yes", "**correct:** no", "**correct**: YES", "Correct: No", "correct: maybe"),
    *("incorrect: no", "[correct_answer]: yes", "correct:\nyes", "correct yes", "reasoning: so"),
    *("confidence: 85%", "**confidence:** 90", "confidence: 250", "**Confidence**: 12.5 %"),
    *("confidence: none", "extracted_final_answer: Bo", "confidence:", "Confidence: 7"),
]


def _published(name: str) -> PublishedPrompts:
    """The prompts of a file of configs/judges."""
    gold = Gold(("x",), extra={"judge": name})
    found = published_for({"q": Example(Question("q", "?", ("d",)), gold)})
    assert found is not None
    return found


class _Scripted:
    """A model of the program, and the judge of ours: both draw a reply by the request's text, and
    keep the requests."""

    def __init__(self, seed: int) -> None:
        """Begin without a request; the replies follow from the seed."""
        self.seed = seed
        self.requests: list[str] = []

    def _reply(self, text: str) -> str:
        """Note a request, and return a reply that follows from it and the seed."""
        self.requests.append(text)
        dice = random.Random(f"{self.seed} {text}")
        if "First snippet" in text:
            return dice.choice(SAID)
        return dice.choice(RATED)

    def invoke(self, prompt: Any) -> SimpleNamespace:
        """The program's request: a text, or a system and a user turn."""
        if isinstance(prompt, list):
            prompt = "\n".join(message["content"] for message in prompt)
        return SimpleNamespace(content=self._reply(prompt))

    def ask(self, prompt: VersionedPrompt, **values: Any) -> str:
        """Our request."""
        turns = [prompt.prompt.system, "".join(prompt.prompt.fill(**values))]
        return self._reply("\n".join(filter(None, turns)))


def _beam(code: Path, dice: random.Random, found: Found) -> None:
    """Compare BEAM's scores by rubric, and its orders of events."""
    stand_in("nltk", "nltk.translate", "nltk.translate.bleu_score", "rouge_score")
    stand_in("sentence_transformers", "src.llm")
    theirs = import_theirs(code / "BEAM", "src.evaluation.compute_metrics")
    steps = rubric_steps(_published("beam/item"))
    for number in range(ANSWERS):
        rubric = dice.sample(ITEMS, dice.randint(1, 4))
        kind = dice.choice(KINDS)
        asked, asks = _Scripted(number), _Scripted(number)
        value = getattr(theirs, f"evaluate_{kind}")(rubric, f"Answer {number}", "Which?", asked)
        case = Case("q", "Which?", None, ("x",), f"Answer {number}", "item", tuple(rubric))
        outcome = steps(case, asks.ask)
        found.add("BEAM: scores by rubric", value["llm_judge_score"], outcome.score)
        found.add("BEAM: requests by rubric", asked.requests, asks.requests)
    for number in range(ANSWERS):
        events = dice.sample(EVENTS, dice.randint(2, 5))
        lines = dice.choices([*EVENTS, "rest", ""], k=dice.randint(1, 6))
        _order(theirs, steps, (number, events, lines), found)


def _order(theirs: Any, steps: Any, drawn: tuple[int, list[str], list[str]], found: Found) -> None:
    """Compare an order of events by both."""
    number, events, lines = drawn
    asked, asks = _Scripted(number), _Scripted(number)
    answer = "\n".join(lines)
    value = theirs.evaluate_event_ordering(events, answer, "Which order?", asked)
    case = Case("q", "Which order?", None, ("x",), answer, "order", tuple(events))
    outcome = steps(case, asks.ask)
    found.add("BEAM: Kendall's tau", float(value["tau_norm"]), outcome.score)
    shown = (
        f"precision {value['precision']:.4g}, recall {value['recall']:.4g}, F1 {value['f1']:.4g}, "
        f"tau {value['tau_norm']:.4g}, F1 times tau {value['final_score']:.4g}, "
        f"items {value['llm_judge_score']:.4g}"
    )
    found.add("BEAM: precision, recall, F1 of events", shown, outcome.details.partition("\n")[0])
    # Its first request makes facts of the answer, which it then does not use.
    found.add("BEAM: requests by order, but the first", asked.requests[1:], asks.requests)


def _browsecomp_plus(code: Path, dice: random.Random, found: Found) -> None:
    """Compare BrowseComp-Plus's request, what is read in replies, and the calibration error."""
    stand_in("vllm")
    theirs = import_theirs(code / "BrowseComp-Plus" / "scripts_evaluation", "evaluate_run")
    published = _published("browsecomp-plus/answer")
    prompt = theirs.create_judge_prompt("Who?", "Bo {x}", "Ada")
    values = {"question": ["Who?"], "answer": ["Bo {x}"], "answers": ["Ada"]}
    ours = "".join(published.prompts["answer"].fill(**values))
    found.add("BrowseComp-Plus: request", prompt, ours)
    for _ in range(ANSWERS):
        reply = "\n".join(dice.choices(VERDICTS, k=dice.randint(0, 5)))
        parsed = theirs.parse_judge_response(reply)
        verdict = published.verdict(reply)
        right = None if verdict == UNCLEAR else verdict == YES
        found.add("BrowseComp-Plus: verdicts", parsed["correct"], right)
        found.add("BrowseComp-Plus: confidence", parsed["confidence"], published.confidence(reply))
    for _ in range(ANSWERS // 10):
        count = dice.randint(200, 900)
        # No two are equal: the program's sort leaves the order of equal ones open.
        confidences = [number / 10 for number in dice.sample(range(1001), count)]
        rights = [dice.random() < 0.6 for _ in confidences]
        value = theirs.calculate_calibration_error(confidences, rights)
        answers = [
            ConfidentAnswer(one, float(right))
            for one, right in zip(confidences, rights, strict=True)
        ]
        error = calibration_error(answers)
        assert error is not None
        found.add("BrowseComp-Plus: calibration error", float(value), 100 * error)


def compare(code: Path, rows: Rows, found: Found) -> None:  # noqa: ARG001 - all rows are made up
    """Compare what both make of made-up replies."""
    dice = random.Random(20261130)
    _beam(code, dice, found)
    _browsecomp_plus(code, dice, found)
