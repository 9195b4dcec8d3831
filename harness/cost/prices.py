"""What tokens of a run's models cost: money of a million tokens, by role.

reader = {"input": 0.5, "cached": 0.5, "output": 2.0}
prices = Prices(reader)
prices.of_role("builder")    the reader's, where the role has no model of its own
money_spent({"billed": {"reader": {"input": 900, "cached": 100, "output": 12}}}, prices)
    -> (900 * 0.5 + 100 * 0.5 + 12 * 2.0) / 1e6
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.cost.usage import BilledTokens, PhaseUsage, SentUsage

ENCODER_ROLES = ("encoder", "reranker")
"""Roles whose price is one number; those that are loaded here take no money."""
FREE: BilledTokens = {"input": 0.0, "cached": 0.0, "output": 0.0}


@dataclass(frozen=True)
class Prices:
    """Money of a million tokens of each model of a run; None where nobody said it.

    Attributes:
        reader: The prices of the reader, and of each role without a model of its own.
        roles: Role -> prices, for roles that have a model to themselves.
        encoders: "encoder" or "reranker" -> prices, if a server runs them.
    """

    reader: BilledTokens | None = None
    roles: Mapping[str, BilledTokens | None] = field(default_factory=dict)
    encoders: Mapping[str, BilledTokens | None] = field(default_factory=dict)

    def of_role(self, role: str) -> BilledTokens | None:
        """The prices of the model of a role; None where nobody said them.

        An encoder or reranker that no server runs is free.
        """
        if role in ENCODER_ROLES:
            return self.encoders.get(role, FREE)
        return self.roles.get(role, self.reader)


def money_spent(usage: PhaseUsage | SentUsage, prices: Prices) -> float | None:
    """What one phase's usage, a sum of phases, or what was sent costs, in the currency of the
    prices.

    0.0 where no server billed anything; None where a model that billed tokens has no price, or
    where an application does not say what it took.

    Args:
        usage: The billed tokens by role, and the money that replies said.
        prices: The prices of a million tokens of each model.
    """
    if usage.get("money_unknown"):
        return None
    total = float(usage.get("charged", 0.0))
    for role, billed_tokens in usage.get("billed", {}).items():
        price = prices.of_role(role)
        if price is None:
            return None
        total += _price_of_tokens(billed_tokens, price)
    return total


def _price_of_tokens(tokens: BilledTokens, price: BilledTokens) -> float:
    """What tokens cost, in the currency of the prices.

    Args:
        tokens: The numbers of tokens read, read from a cache, and written.
        price: The price of a million of each.
    """
    amounts = (
        price["input"] * tokens.get("input", 0.0),
        price["cached"] * tokens.get("cached", 0.0),
        price["output"] * tokens.get("output", 0.0),
    )
    return sum(amounts) / 1e6
