"""Whether a reply is all that its row says it must be (harness/assertions.py).

assertions("The warranty is two years.", [], assertions={"contains": ["two years"]})   -> 1.0
assertions("No idea.", [], assertions={"contains": ["two years"]})                    -> 0.0
assertions("No idea.", [])                                                             -> None
"""

from collections.abc import Mapping, Sequence

from harness.assertions import Assertions, failed_assertions
from harness.scorers.base import published

scorer = published("this project")


@scorer(
    "assertions",
    "1 where all assertions of the row hold",
    needs_answers=False,
    why_none="no assertion that can be checked",
)
def assertions(
    prediction: str,
    references: Sequence[str],  # noqa: ARG001 - every scorer of answers is given them
    *,
    assertions: Mapping[str, object] | None = None,
    seconds: float | None = None,
) -> float | None:
    """1.0 where all assertions of the row hold, else 0.0; None where none can be checked.

    Args:
        prediction: The reply.
        references: Not used.
        assertions: The row's assertions, {"contains": ["two years"]}; None for none.
        seconds: How long the answer took, None where unknown.
    """
    if not assertions:
        return None
    failed = failed_assertions(Assertions.from_json(assertions), prediction, seconds)
    if failed is None:
        return None
    return float(not failed)
