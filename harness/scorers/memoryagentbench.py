"""MemoryAgentBench's scores beside HELMET's, which it takes over (Hu et al., ICLR 2026;
utils/eval_other_utils.py of its repository).

    events("Then Ada left.", ["ada left"])          -> 1.0   (all answers stand in the reply)
    parsed_match("Answer: label: 7", ["label: 7"])  -> 1.0   (the parsed answer alone)
"""

from collections.abc import Sequence

from harness.scorers.base import published
from harness.scorers.helmet import parsed_answer
from harness.scorers.hotpotqa import em

scorer = published("HUST-AI-HYZ/MemoryAgentBench utils/eval_other_utils.py")


@scorer("memoryagentbench.events", "all answers stand in the reply, without regard to case")
def events(prediction: str, references: Sequence[str]) -> float:
    """1.0 where every reference stands in the reply, else 0.0 (EventQA)."""
    reply = prediction.lower()
    for reference in references:
        if reference.lower() not in reply:
            return 0.0
    return 1.0


@scorer("memoryagentbench.parsed_match", "exact match of the parsed answer")
def parsed_match(prediction: str, references: Sequence[str]) -> float:
    """1.0 where the answer parsed out of the reply is a reference, else 0.0 (labels).

    It is the rest of the line after "Answer:", else the reply's first line; both are normalised.
    """
    return float(em(parsed_answer(prediction), references))
