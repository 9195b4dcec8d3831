"""Whether the rows of a table are priced alike: money of a model, encoder or retriever at two prices
compares prices, not methods.

    other_prices([bm25 at 0.15, sbert at 0.15, pecan repriced to 0.30])
        -> [None, None, "qwen is priced 0.3 in, 1.2 out (most runs: ...); ..."]

A price that is set later holds for stored answers too, so a run can be repriced alone.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from harness.config.applications import APPLICATION
from harness.storage.run_folder import StoredRun
from harness.storage.stored_config import StoredModel, StoredPrice

_ADVICE = "money of one table should be at prices of one day; the same command again sets them"


def other_prices(runs: Sequence[StoredRun]) -> list[str | None]:
    """For each run, what of it is priced otherwise than in most runs that use the same thing.

    Args:
        runs: The runs of a table.

    Returns:
        A sentence for each run; None where its prices are those of the others.
    """
    prices = [_prices(run) for run in runs]
    usual = _usual_prices(prices)
    sentences: list[str | None] = []
    for own in prices:
        parts = []
        for name, price in own.items():
            if price != usual[name]:
                parts.append(f"{name} is priced {price} ({_others(prices, name)}: {usual[name]})")
        sentence = None
        if parts:
            sentence = f"{', '.join(parts)}; {_ADVICE}"
        sentences.append(sentence)
    return sentences


def _prices(run: StoredRun) -> dict[str, str]:
    """What takes money in a run -> its price in words; only what has a price.

    -> {"money": "in EUR", "qwen": "0.15 in, 0.6 out", "encoder bge": "0.02"}
    """
    config = run.config
    found = {}
    if config.currency:
        found["money"] = f"in {config.currency}"
    for model in (config.model, *config.roles.values()):
        if model.price is not None:
            found[_model_name(model)] = _price_text(model.price)
    parts = {
        "encoder": config.encoder,
        "reranker": config.reranker,
        "retriever": config.retriever,
    }
    for name, part in parts.items():
        if part is not None and part.price is not None:
            found[f"{name} {part.name}"] = f"{part.price:g}"
    return found


def _model_name(model: StoredModel) -> str:
    """The name that a price belongs to: a model as its server calls it.

    All applications have one name, as nobody says which models theirs are.
    """
    if model.backend == APPLICATION:
        return "an application"
    return model.source or model.name


def _price_text(price: StoredPrice) -> str:
    """A price in words: "0.15 in, 0.6 out", and ", 0.1 cached" where cached tokens have their
    own."""
    text = f"{price.input:g} in, {price.output:g} out"
    if price.cached is not None:
        text += f", {price.cached:g} cached"
    return text


def _usual_prices(prices: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """What takes money -> its commonest price; of several as common, the one that comes first.

    Args:
        prices: Of each run, what takes money -> its price.
    """
    counts: dict[str, Counter[str]] = {}
    for own in prices:
        for name, price in own.items():
            counts.setdefault(name, Counter())[price] += 1
    return {name: counted.most_common(1)[0][0] for name, counted in counts.items()}


def _others(prices: Sequence[Mapping[str, str]], name: str) -> str:
    """What a sentence calls the other runs with a price of this name: "the other run" or "most
    runs".

    Args:
        prices: Of each run, what takes money -> its price.
        name: What takes money.
    """
    priced = sum(name in own for own in prices)
    if priced == 2:
        return "the other run"
    return "most runs"
