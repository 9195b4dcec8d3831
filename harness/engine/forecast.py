"""Forecast of a run's cost before it starts: rough, with how it was made, or "unknown".

forecast(plan, Path("results")) -> Forecast("bm25", "musique", questions=24, done=10, tokens=7.8e3,
tflops=0.08,
                                            how="stored: the mean cost of 10 questions")
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from harness.cost.flops import DEFAULT, Event, Kind, ModelShape, flops
from harness.cost.usage import sum_phases, tokens_of
from harness.engine.manifest import shape_of_role
from harness.engine.plan import Plan
from harness.errors import attempt
from harness.storage.run_folder import read_run

BYTES_A_TOKEN = 4
FRAME = 60  # tokens of the shared prompt's own words and of the chat template
Call = tuple[Kind, int, int, ModelShape | None]
"""A call of a model: kind, new tokens, cached ones, sizes of the model (None: unknown)."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """One run of a plan. done: questions recorded; tokens, tflops: of the others, None if unknown;
    how: from what.

    questions: 0 if unknown.
    """

    method: str
    dataset: str
    questions: int
    done: int
    tokens: float | None
    tflops: float | None
    how: str


def forecast(plan: Plan, out: Path, convention: str = DEFAULT) -> Forecast:
    """Predict what the questions of `plan` that are not recorded in the results folder `out` will
    cost.

    By the mean cost of the questions that the run has answered and of the indexes that it has; for
    a new run by what the method says it reads (`Method.reads`), with answers as long as they may be
    and no index in the cache.

    Args:
        plan: The run; its models are not loaded.
        out: The results folder; only the run's own folder is read.
        convention: Of the FLOPs.
    """
    documents, task = plan.dataset.documents, plan.task
    asked = plan.dataset.examples[: plan.config.limit]
    stored = attempt([], read_run, out / plan.folder)  # None also for a damaged one
    recorded = {record["question_id"] for record in stored.records} if stored else set()
    left = [example for example in asked if example.question.id not in recorded]
    run_facts = (
        plan.method_name,
        plan.config.dataset.name,
        len(asked) or plan.questions,
        len(asked) - len(left),
    )
    if not asked:
        return Forecast(*run_facts, None, None, "unknown: the rows are not here")
    if not left:
        return Forecast(*run_facts, 0.0, 0.0, "done: every question is stored")
    sizes = {name: text_tokens(document.text) for name, document in documents.items()}
    indexes: dict[
        tuple[str, ...], float
    ] = {}  # ids of its documents, the question's where it is its own -> tokens
    for question in (example.question for example in asked if plan.method.scope != "none"):
        ids = [document_id for document_id in question.document_ids if document_id in sizes]
        question_scope = (question.id,) if plan.method.scope == "question" else ()
        groups = (
            [tuple(ids)] if plan.method.one_document else [(document_id,) for document_id in ids]
        )
        indexes |= {
            (*group, *question_scope): sum(map(sizes.__getitem__, group)) for group in groups
        }
    answered = (
        [record["usage"] for record in stored.records if record["error"] is None] if stored else []
    )
    if stored and answered:
        built = [line["usage"] for line in stored.documents if line["status"] != "failed"]
        found = [(answered, len(left)), (built, max(len(indexes) - len(built), 0))]
        means = [(sum_phases(usages), count / max(len(usages), 1)) for usages, count in found]
        stored_tokens = sum(tokens_of(spent) * share for spent, share in means)
        spent_flops = sum(
            spent.get("flops", {}).get(convention, 0.0) * share for spent, share in means
        )
        tflops = None if any(spent.get("uncounted") for spent, _ in means) else spent_flops / 1e12
        how = f"stored: the mean cost of {len(answered)} question{'s'[: len(answered) > 1]}"
        return Forecast(*run_facts, stored_tokens, tflops, how)
    window, cap = (
        int((plan.identities.get("reader") or {}).get("window") or 0),
        task.max_answer_tokens,
    )
    shapes = {role: shape_of_role(plan, role) for role in ("reader", "encoder", "reranker")}
    calls: list[Call] = []
    embeds = False
    for example in left:
        question = example.question
        frame = FRAME + 2 * text_tokens(task.instruction) + text_tokens(question.text)
        frame += sum(text_tokens(option) for option in question.options or ())
        shown = sum(sizes.get(document_id, 0.0) for document_id in question.document_ids)
        if plan.config.method.view == "evidence":
            shown = sum(
                text_tokens(documents[s.document_id].text[s.start : s.end])
                for s in example.gold.supporting
            )
        reading = plan.method.reads(round(shown), max(int(window - frame - cap), 0))
        if reading is None or (plan.missing and not window):
            return Forecast(
                *run_facts, None, None, "unknown: nothing stored yet; --limit 3 would measure it"
            )
        prompt = round(frame + reading.shown / max(reading.requests, 1))
        asking: list[tuple[Kind, int, int]] = [("prefill", prompt, 0), ("decode", cap, prompt)]
        calls += [(*call, shapes["reader"]) for call in asking * reading.requests]
        if reading.ranked:
            calls.append(("rerank", reading.ranked, 0, shapes["reranker"]))
        embeds = embeds or reading.embedded > 0
    if embeds:
        calls.append(("embed", round(sum(indexes.values())), 0, shapes["encoder"]))
    tokens, total = tokens_and_flops(calls, convention)
    how = "declared: what the method says it reads"
    return Forecast(*run_facts, tokens, None if total is None else total / 1e12, how)


def text_tokens(text: str) -> float:
    """Estimated tokens of a text: its UTF-8 bytes / BYTES_A_TOKEN."""
    return len(text.encode(errors="surrogatepass")) / BYTES_A_TOKEN


def tokens_and_flops(calls: Iterable[Call], convention: str = DEFAULT) -> tuple[int, float | None]:
    """Sum the tokens and, by formula, the FLOPs of `calls`; None where the sizes of a model are
    unknown.

    Logits: of the last position in a prefill, of each token in decoding.
    An encoder's attention is not counted.
    """
    tokens, total = 0, 0.0
    for kind, new, cached, shape in calls:
        logits = {"prefill": 1, "decode": new}.get(kind, 0)
        pairs = new * cached + new * (new + 1) // 2 if logits else 0
        event = Event("", "", "answer", kind, new, cached, logits=logits, pairs=pairs)
        tokens += new
        total += math.nan if shape is None else flops(event, shape, convention)
    return tokens, None if math.isnan(total) else total
