"""A program to be killed: questions in flight.  python -m tests.engine.slow_parallel_run OUT"""

import sys
import time
from pathlib import Path

import harness.llm.backend
from tests.engine.fakes import FakeModel, Quiet, World, go, make_plan


class Slow(Quiet):
    """Takes its time, in an index of four durable parts that may be made together, and in every
    answer."""

    def index(self, document, tools):
        def part(n):
            def make():
                self.pause()
                tools.model().session().feed("part " * (n + 1))
                return n

            return int(tools.keep(f"part {n}", make))

        return {**super().index(document, tools), "parts": tools.map(part, range(4))}


def slow_plan(seconds=0.0):
    words = tuple("bug" if n % 7 == 3 else f"question {n}" for n in range(30))
    data = World(questions=len(words), documents=5, words=words).dataset()
    return make_plan(data, Slow(Slow.Config(), pause=lambda: time.sleep(seconds)))


if __name__ == "__main__":
    harness.llm.backend.load_model = FakeModel
    go(slow_plan(0.05), Path(sys.argv[1]), parallel=4)
