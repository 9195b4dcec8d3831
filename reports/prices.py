"""Whether the rows of a table are priced alike: money of a model, encoder or retriever at two prices
compares prices, not methods.

    notes_on_prices([bm25 at 0.15, sbert at 0.15, pecan repriced to 0.30])
        -> [None, None, "qwen is priced 0.3 in, 1.2 out (most runs: ...); ..."]

A price that is set later holds for stored answers too, so a run can be repriced alone.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from harness.config.applications import APPLICATION
from harness.storage.run_folder import StoredRun
from harness.storage.stored_config import StoredModel, StoredPrice

_ADVICE = "money of one table should be at prices of one day; the same command again sets them"


def notes_on_prices(runs: Sequence[StoredRun]) -> list[str | None]:
    """For each run, what of it is priced otherwise than in most runs that use the same thing.

    Args:
        runs: The runs of a table.

    Returns:
        A sentence for each run; None where its prices are those of the others.
    """
    prices = [_prices_in_words(run) for run in runs]
    commonest_prices = _commonest_prices(prices)
    sentences: list[str | None] = []
    for prices_of_run in prices:
        differences = []
        for name, price in prices_of_run.items():
            commonest = commonest_prices[name]
            if price != commonest:
                others = _other_runs_in_words(prices, name)
                differences.append(f"{name} is priced {price} ({others}: {commonest})")
        if differences:
            sentences.append(f"{', '.join(differences)}; {_ADVICE}")
        else:
            sentences.append(None)
    return sentences


def _prices_in_words(run: StoredRun) -> dict[str, str]:
    """What takes money in a run -> its price in words; only what has a price.

    -> {"money": "in EUR", "qwen": "0.15 in, 0.6 out", "encoder bge": "0.02"}
    """
    config = run.config
    prices = {}
    if config.currency:
        prices["money"] = f"in {config.currency}"
    for model in (config.model, *config.roles.values()):
        if model.price is not None:
            prices[_priced_model_name(model)] = _price_text(model.price)
    encoders = {
        "encoder": config.encoder,
        "reranker": config.reranker,
        "retriever": config.retriever,
    }
    for name, encoder in encoders.items():
        if encoder is not None and encoder.price is not None:
            prices[f"{name} {encoder.name}"] = f"{encoder.price:g}"
    return prices


def _priced_model_name(model: StoredModel) -> str:
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


def _commonest_prices(prices: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """What takes money -> its commonest price; of several as common, the one that comes first.

    Args:
        prices: Of each run, what takes money -> its price.
    """
    n_runs_by_price: dict[str, Counter[str]] = {}  # of each thing that takes money
    for prices_of_run in prices:
        for name, price in prices_of_run.items():
            n_runs = n_runs_by_price.setdefault(name, Counter())
            n_runs[price] += 1
    commonest = {}
    for name, n_runs in n_runs_by_price.items():
        [(price, _)] = n_runs.most_common(1)
        commonest[name] = price
    return commonest


def _other_runs_in_words(prices: Sequence[Mapping[str, str]], name: str) -> str:
    """What a sentence calls the other runs with a price of this name: "the other run" or "most
    runs".

    Args:
        prices: Of each run, what takes money -> its price.
        name: What takes money.
    """
    n_priced = sum(name in prices_of_run for prices_of_run in prices)
    if n_priced == 2:
        return "the other run"
    return "most runs"
