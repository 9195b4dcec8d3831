"""Methods that need no model, so that the command line is tested in seconds."""

import random
import time
from collections.abc import Mapping
from typing import ClassVar, Literal

from harness.errors import CannotRun
from harness.method import Method, MethodConfig
from harness.types import Answer, Shown, Step


class Echo(Method):
    class Config(MethodConfig):
        word: str = "echo"
        k: int = 1
        rate: float = 0.5
        mode: Literal["loud", "quiet"] = "quiet"
        pause: float = 0.0

    summary = "says one word"
    needs: ClassVar[dict[str, frozenset[str]]] = {}

    def answer(self, question, documents, indexes, tools):
        time.sleep(self.config.pause)
        shown, spent = Shown("span", documents[0].id, 0, 10), {"all-params": 2e12}
        step = Step(
            "visit",
            4,
            level=1,
            scores={"total": 0.25},
            tokens=7,
            p_yes=0.5,
            flops=spent,
            shown=shown,
        )
        return Answer(self.config.word, shown=(shown,), steps=(step,), stop_reason="said it")

    def prompts(self):
        return {"echo (table 9)": "Say {word}.\nNo more."}


class Dice(Echo):
    """Answers with one of the document's words, drawn with the run's seed."""

    def answer(self, question, documents, indexes, tools):
        words = documents[0].text.split()
        drawn = random.Random(f"{tools.seed} {question.id}")
        return Answer(" ".join(drawn.choices(words, k=len(words) // 4)))


class FailsOnce(Echo):
    def answer(self, question, documents, indexes, tools):
        if question.id.endswith("-0-0"):
            raise ValueError("the first question is too hard")
        return super().answer(question, documents, indexes, tools)


class Refuses(Echo):
    def answer(self, question, documents, indexes, tools):
        raise CannotRun("the weights are not there")


class Buggy(Echo):
    def prompts(self):
        raise RuntimeError("a bug in a method")


class Ranks(Echo):
    encoders = ("reranker",)


class Walks(Echo):
    """Visits 2 nodes for the first question of a world and one more for each later one, or
    max_nodes of them."""

    class Config(Echo.Config):
        max_nodes: int | None = None
        fails: int | None = None  # the question that fails, by its place
        stops: int | None = None  # the question that ends the run

    from_other_runs: Mapping[str, str] = {"max_nodes": "nodes"}

    def answer(self, question, documents, indexes, tools):
        place = int(question.id.rpartition("-")[2])
        if place == self.config.fails:
            raise ValueError("the way is blocked")
        if place == self.config.stops:
            raise CannotRun("the weights are gone")
        steps = [Step("visit", node=n) for n in range(self.config.max_nodes or 2 + place)]
        # Steps behind the stop of the run, and steps without a node, are no visits.
        return Answer("x", steps=(*steps, Step("probe"), Step("study", node=99)))


class NotAMethod:
    pass
