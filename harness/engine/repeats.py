"""Leave out repeats (--repeat) that would answer as the row's first one: greedy rows of methods that draw nothing."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from harness.config.layers import Choices
from harness.config.registry import method_class
from harness.config.resolve import resolve_part
from harness.errors import UserError


def distinct_repeats(rows: Sequence[Choices], repeat: int | None, note: Callable[[str], None]) -> list[Choices]:
    """The rows with one repeat of each row whose answers no seed changes; `note` gets a sentence about these.

    repeat: the number of seeds of each row, which are in the points of the rows; None leaves the rows as they are.
    """
    if repeat is None or repeat == 1:
        return list(rows)
    equal: dict[str, bool] = {}
    kept: dict[str, Choices] = {}
    names: dict[str, None] = {}
    for row in rows:
        alike = repr(replace(row, point={**row.point, "seed": None}, sets={**row.sets, "seed": None}))
        if alike not in equal:
            equal[alike], takes = _draws_nothing(row)
            if takes and not equal[alike]:
                return list(rows)  # it takes a number of another row with the same seed
        if equal[alike] and alike in kept:
            names.setdefault(str(row.method))
        kept.setdefault(alike if equal[alike] else repr(row), row)
    if names:
        note(
            f"note: {', '.join(names)}: greedy, so all {repeat} repeats would be equal and one is run; "
            "to draw answers: --set model.temperature=0.7"
        )
    return list(kept.values())


def _draws_nothing(row: Choices) -> tuple[bool, bool]:
    """(whether no seed changes the row's answers, whether it takes a number from another row).

    (False, False) for a row with a mistake, which is reported when it is planned.
    """
    try:
        method = resolve_part("methods", row).parts["method"]
        model = resolve_part("models", row).parts["model"]
        own = vars(method_class(method.implementation)).get("draws", True)
    except UserError:
        return False, False
    takes = any(str(value).startswith("from:") for value in method.params.values())
    return not model.temperature and not own, takes
