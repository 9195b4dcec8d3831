"""Forecast of a run's cost before it starts: rough, with how it was made, or "unknown".

    forecast(plan, Path("results")) -> Forecast(method="bm25", questions=24, done=10, tokens=7.8e3, tflops=0.08,
                                                how="stored: means of 10 questions of bm25--pocket-llama--1b2c...")

The first of these that there is:

stored     the means of the questions and indexes that the run's own folder holds
declared   what the method says it reads (`Method.reads`), counted by the formulas of harness.cost.flops;
           a token is taken as 4 bytes of text, every answer to be as long as it may: rather too much than too little
unknown    no number is made up

Only what is still to be answered counts. Indexes count as if they were built, though the cache may hold them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.cost.flops import DEFAULT, Event, Kind, ModelShape, flops
from harness.cost.usage import money, price_of, sum_phases, tokens_of
from harness.engine.manifest import shape_of_role
from harness.engine.plan import Plan
from harness.errors import attempt
from harness.storage.run_folder import read_run
from harness.types import Example

BYTES_A_TOKEN = 4
FRAME = 60  # tokens of the shared prompt's own words and of the chat template


@dataclass(frozen=True, slots=True)
class Forecast:
    """One run of a plan. done: questions recorded; tokens, tflops: of the others, None if unknown; how: from what.

    questions: 0 if unknown; money: of requests to servers, None where a price is unknown.
    """

    method: str
    dataset: str
    questions: int
    done: int
    tokens: float | None
    tflops: float | None
    how: str
    money: float | None = None


@dataclass(frozen=True, slots=True)
class Cost:
    """Tokens, FLOPs and money of requests to servers; flops, money: None where they are unknown."""

    tokens: float
    flops: float | None
    money: float | None = None

    def plus(self, other: Cost, times: float = 1.0) -> Cost:
        """This cost and `times` the `other`; FLOPs and money are None if those of one are."""
        pairs = (self.flops, other.flops), (self.money, other.money)
        flops, money = (None if a is None or b is None else a + times * b for a, b in pairs)
        return Cost(self.tokens + times * other.tokens, flops, money)


_NO_COST = Cost(0.0, 0.0, 0.0)


def forecast(plan: Plan, out: Path, convention: str = DEFAULT) -> Forecast:
    """What `plan` will cost in the results folder `out`, FLOPs under `convention`.

    Reads the run's own folder; loads no model and changes nothing.
    """
    own = attempt([], read_run, out / plan.folder)  # None for none, and for a damaged one
    if not plan.dataset.examples:
        how = f"unknown: the rows are not here{'; questions: as published' if plan.questions else ''}"
        return Forecast(plan.method_name, plan.config.dataset.name, plan.questions, 0, None, None, how)
    asked = plan.dataset.examples[: plan.config.limit]
    recorded = {record["question_id"] for record in own.records} if own else set()
    left = [example for example in asked if example.question.id not in recorded]
    head = (plan.method_name, plan.config.dataset.name, len(asked), len(asked) - len(left))
    config = plan.config.model_dump()
    priced = any(model.price for model in plan.models.values()) or any(one.price for one in plan.encoders.values())
    if not left:
        return Forecast(*head, 0.0, 0.0, "done: every question is stored", money=0.0 if priced else None)
    # Each index by the ids of its documents, with the question's id for scope "question".
    keys: set[tuple[str, ...]] = set()
    for question in (example.question for example in asked if plan.method.scope != "none"):
        of_question = (question.id,) if plan.method.scope == "question" else ()
        groups = [question.document_ids] if plan.method.one_document else [(one,) for one in question.document_ids]
        keys |= {(*ids, *of_question) for ids in groups}
    answered = [record["usage"] for record in own.records if record["error"] is None] if own else []
    built = [line["usage"] for line in own.documents if line["status"] != "failed"] if own else []
    indexes = max(len(keys) - len(built), 0)
    mean, mean_index = _mean_cost(answered, convention, config), _mean_cost(built, convention, config)
    cost: Cost | None
    if mean is not None and (mean_index is not None or not indexes):
        cost = _NO_COST.plus(mean, len(left)).plus(mean_index or _NO_COST, indexes)
        how = f"stored: means of {len(answered)} question{'s'[: len(answered) > 1]} of {plan.folder.rpartition('/')[2]}"
    else:
        texts = sum(_document_tokens(plan, one) for key in keys for one in key)
        cost = _declared_cost(plan, left, texts / len(keys) * indexes if keys else 0.0, convention)
        how = "declared: what the method says it reads"
    if cost is None:
        return Forecast(*head, None, None, "unknown: nothing stored yet; --limit 3 would measure it")
    tflops = None if cost.flops is None else cost.flops / 1e12
    return Forecast(*head, cost.tokens, tflops, how, money=cost.money if priced else None)


def _document_tokens(plan: Plan, document_id: str) -> float:
    """Tokens of a document; 0 for an id that is not in the data set."""
    document = plan.dataset.documents.get(document_id)
    return 0.0 if document is None else text_tokens(document.text)


def _mean_cost(usages: Sequence[dict[str, Any]], convention: str, config: dict[str, Any]) -> Cost | None:
    """The mean cost of questions or indexes, None for none; usages: of each, phase -> sums, as records hold them.

    config: has the prices.
    """
    if not usages:
        return None
    spent = sum_phases(usages)
    tokens, flops = tokens_of(spent), spent.get("flops", {convention: 0.0})[convention]
    paid = money(spent, config)
    means = None if spent.get("uncounted") else flops / len(usages), None if paid is None else paid / len(usages)
    return Cost(tokens / len(usages), *means)


def text_tokens(text: str) -> float:
    """Estimated tokens of a text: its UTF-8 bytes / BYTES_A_TOKEN."""
    return len(text.encode(errors="surrogatepass")) / BYTES_A_TOKEN


def _declared_cost(plan: Plan, left: Sequence[Example], index_tokens: float, convention: str) -> Cost | None:
    """Cost of the questions `left` and their indexes by `Method.reads`; None where the method declares nothing.

    index_tokens: of the texts that are still to be indexed.
    """
    cap, window = plan.task.max_answer_tokens, int((plan.identities.get("reader") or {}).get("window") or 0)
    if plan.missing and not window:
        return None
    shapes = {role: shape_of_role(plan, role) for role in ("reader", "encoder", "reranker")}
    total, embeds = _NO_COST, False
    prices = {role: price_of(plan.config.model_dump(), role) for role in shapes}
    for example in left:
        frame = FRAME + 2 * text_tokens(plan.task.instruction) + text_tokens(example.question.text)
        frame += sum(text_tokens(option) for option in example.question.options or ())
        room = max(int(window - frame - cap), 0)
        if plan.config.method.view == "evidence":
            marked = ((plan.dataset.documents[s.document_id].text, s) for s in example.gold.supporting)
            shown = sum(text_tokens(text[s.start : s.end]) for text, s in marked)
        else:
            shown = sum(_document_tokens(plan, one) for one in example.question.document_ids)
        reading = plan.method.reads(round(shown), room)
        if reading is None:
            return None
        prompt, requests = round(frame + reading.shown / max(reading.requests, 1)), reading.requests
        total = total.plus(event_cost("prefill", prompt, 0, shapes["reader"], convention, prices["reader"]), requests)
        total = total.plus(event_cost("decode", cap, prompt, shapes["reader"], convention, prices["reader"]), requests)
        if reading.ranked:
            ranked = event_cost("rerank", reading.ranked, 0, shapes["reranker"], convention, prices["reranker"])
            total = total.plus(ranked)
        embeds = embeds or reading.embedded > 0
    if embeds:
        total = total.plus(
            event_cost("embed", round(index_tokens), 0, shapes["encoder"], convention, prices["encoder"])
        )
    return total


def event_cost(
    kind: Kind,
    new: int,
    cached: int,
    shape: ModelShape | None,
    convention: str = DEFAULT,
    price: Mapping[str, float] | None = None,
) -> Cost:
    """The cost of one call of `new` tokens behind `cached` ones, by formula; FLOPs None for an unknown `shape`.

    price: as of harness.cost.usage.price_of. Logits: of the last position in a prefill, of each token in decoding. An
    encoder's attention is not counted.
    """
    logits = {"prefill": 1, "decode": new}.get(kind, 0)
    pairs = new * cached + new * (new + 1) // 2 if logits else 0
    event = Event("", "", "answer", kind, new, cached, logits=logits, pairs=pairs)
    paid = None if price is None else new * price["output" if kind == "decode" else "input"] / 1e6
    return Cost(new, None if shape is None else flops(event, shape, convention), paid)
