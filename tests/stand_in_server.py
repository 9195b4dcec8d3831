"""A chat server on this machine: it reads, answers, is slow, and is at times unwell.

Each reply is the line of the last message that has most words of the question. Every request takes
`delay` seconds and a thousandth for each hundred characters; every seventh gets status 429, every
eleventh 500. Tokens are words. It keeps its own account: `billed`, `took`.
"""

import re
import threading
import time
from dataclasses import dataclass, field

from tests.llm.loopback import Loopback, completion


@dataclass
class StandIn:
    """billed: tokens that it read and wrote; took: seconds of each request that it answered;
    refused: the others."""

    delay: float = 0.02
    ill: bool = True
    billed: dict[str, int] = field(default_factory=lambda: {"input": 0, "cached": 0, "output": 0})
    took: list[float] = field(default_factory=list)
    refused: int = 0

    def __post_init__(self):
        self._lock, self._asked = threading.Lock(), 0

    def server(self):
        """The server, to be used in a `with` block."""
        return Loopback([self.reply], served=["stand-in"])

    def reply(self, body):
        began = time.perf_counter()
        with self._lock:
            self._asked += 1
            if self.ill and (self._asked % 7 == 0 or self._asked % 11 == 0):
                self.refused += 1
                return "429;0" if self._asked % 7 == 0 else "500"
        sent = "\n".join(message["content"] for message in body["messages"])
        answer = best_line(body["messages"][-1]["content"])
        time.sleep(self.delay + len(sent) / 100_000)
        tokens = {"input": len(sent.split()), "cached": 0, "output": len(answer.split())}
        tokens["cached"] = tokens["input"] // 4
        usage = {"prompt_tokens": tokens["input"], "completion_tokens": tokens["output"]}
        usage["prompt_tokens_details"] = {"cached_tokens": tokens["cached"]}
        with self._lock:
            self.took.append(time.perf_counter() - began)
            self.billed["input"] += tokens["input"] - tokens["cached"]
            self.billed["cached"] += tokens["cached"]
            self.billed["output"] += tokens["output"]
        return completion(answer) | {"usage": usage}


def best_line(prompt):
    """What stands behind ": " in the line that has most words of the prompt's last line with a
    question mark."""
    lines = prompt.splitlines()
    asked = set(
        re.findall(r"\w+", next((line for line in reversed(lines) if "?" in line), "").lower())
    )
    answers = [line for line in lines if ": " in line and "?" not in line]
    best = max(
        answers,
        key=lambda line: len(asked & set(re.findall(r"\w+", line.lower()))),
        default="none: unknown",
    )
    return best.partition(": ")[2].strip()
