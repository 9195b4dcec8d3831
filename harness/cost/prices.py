"""Money of requests to a server: the tokens that it billed, by role, times the prices in run.yaml (`model.price`).

    usage["billed"]          {"reader": {"input": 900, "cached": 100, "output": 12}}, cached: read from the prefix cache
    money(usage, config)     (900 * input + 100 * cached + 12 * output) / 1e6

Records keep tokens, not money, so that a price that is set or corrected later holds for all questions of a run.
"""

from collections.abc import Mapping
from typing import Any


def price_of(config: Mapping[str, Any], role: str) -> dict[str, float] | None:
    """The prices of a role's model, None without one. config: of a run.

    Cached tokens cost as input unless it says, and requests in batches the share `price.batch` of the others.
    """
    model = (config.get("roles") or {}).get(role) or config["model"]
    if not (price := model.get("price")):
        return None
    cached = price["input"] if price.get("cached") is None else price["cached"]
    share = price["batch"] if model.get("batch") else 1.0
    return {"input": share * price["input"], "cached": share * cached, "output": share * price["output"]}


def money(usage: Mapping[str, Any], config: Mapping[str, Any]) -> float | None:
    """Money of one phase's usage, or of a sum of phases; 0 where no server billed anything, None without a price.

    config: of the run, as in run.yaml.
    """
    total = 0.0
    for role, tokens in (usage.get("billed") or {}).items():
        if (price := price_of(config, role)) is None:
            return None
        total += sum(price[kind] * count for kind, count in tokens.items()) / 1e6
    return total
