"""Forecast of a run's cost before it starts: rough, with how it was made, or "unknown".

    forecast(plan, Path("results")) -> Forecast(method="bm25", questions=24, done=10, tokens=7.8e3, tflops=0.08,
                                                how="stored: means of 10 questions of bm25--pocket-llama--1b2c...")

The first of these that there is:

stored     the means of the run's own folder, or of another run of the method with the same settings and models on the
           same data set
declared   what the method says it reads (`Method.reads`), counted by the formulas of harness.cost.flops;
           a token is taken as 4 bytes of text, every answer to be as long as it may: rather too much than too little
unknown    no number is made up

Only what is still to be answered counts. Indexes count as if they were built, though the cache may hold them.

How long the tokens take on this hardware is known from earlier runs on it. Tokens a second are those of the calls
themselves (usage.seconds), so loading a model and waiting for a lock count as nothing. The first of these that has a
run: same method and data set, same method, same model.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from harness.cost.events import Event, Kind
from harness.cost.flops import DEFAULT, ModelShape, flops
from harness.cost.prices import money, price_of
from harness.cost.usage import sum_phases, tokens_of
from harness.engine.manifest import describe_gpu, shape_of_role
from harness.engine.plan import Plan
from harness.errors import UserError
from harness.storage.run_folder import MANIFEST, RUN, SUMMARY, StoredRun, read_json, read_run, run_yaml
from harness.types import Example

BYTES_A_TOKEN = 4
FRAME = 60  # tokens of the shared prompt's own words and of the chat template
_NOT_THE_TEXTS = ("questions", "seed", "files")  # options of a data set that leave its texts as long as they are


@dataclass(frozen=True, slots=True)
class Forecast:
    """One row of a plan. done: questions recorded; tokens, tflops: of the others, None if unknown; how: from what.

    questions: 0 if unknown; hours: of one worker like this machine, None if no run here says it; speed: by which runs;
    money: of requests to servers, None where a price is unknown.
    """

    method: str
    dataset: str
    questions: int
    done: int
    tokens: float | None
    tflops: float | None
    how: str
    hours: float | None = None
    speed: str = ""
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


class _RemainingWork:
    """What a plan has still to do. own: its run so far, if any; asked: its questions; left: those without a record."""

    def __init__(self, plan: Plan, own: StoredRun | None, convention: str) -> None:
        self.plan, self.own, self.convention = plan, own, convention
        self.asked: Sequence[Example] = plan.dataset.examples[: plan.config.limit]
        recorded = {row["question_id"] for row in own.records} if own else set()
        self.left = [e for e in self.asked if e.question.id not in recorded]
        self.done = len(self.asked) - len(self.left)

    @cached_property
    def indexes(self) -> int:
        """How many indexes have no record in the run's own folder yet."""
        known = sum(row["status"] != "failed" for row in self.own.documents) if self.own else 0
        return max(len(self._keys) - known, 0)

    @cached_property
    def _keys(self) -> set[tuple[str, ...]]:
        """The ids of each index's documents, with the question's id for scope "question"."""
        scope, joined = self.plan.method.scope, self.plan.method.one_document
        keys: set[tuple[str, ...]] = set()
        for example in self.asked if scope != "none" else ():
            ids = example.question.document_ids
            question_id = (example.question.id,) if scope == "question" else ()
            keys |= {(*ids, *question_id)} if joined else {(document_id, *question_id) for document_id in ids}
        return keys

    def index_tokens(self) -> float:
        """Tokens of the texts that are still to be indexed: the mean of an index, times the number of these indexes."""
        total = sum(self.tokens_of(id_) for key in self._keys for id_ in key)
        return total / len(self._keys) * self.indexes if self._keys else 0.0

    def tokens_of(self, document_id: str) -> float:
        """Tokens of a document; 0 for an id that is not in the data set."""
        document = self.plan.dataset.documents.get(document_id)
        return 0.0 if document is None else text_tokens(document.text)

    def tokens_shown(self, example: Example) -> float:
        """Tokens of the texts that the method is given for a question: the documents, or their marked parts."""
        if self.plan.config.method.view == "evidence":
            texts = self.plan.dataset.documents
            return sum(text_tokens(texts[s.document_id].text[s.start : s.end]) for s in example.gold.supporting)
        return sum(self.tokens_of(id_) for id_ in example.question.document_ids)


def forecast(plan: Plan, out: Path, convention: str = DEFAULT) -> Forecast:
    """What `plan` will cost in the results folder `out`, FLOPs under `convention`.

    Reads stored runs; loads no model and changes nothing.
    """
    own = _read_or_none(out / plan.folder)
    if not plan.dataset.examples:
        how = f"unknown: the rows are not here{'; questions: as published' if plan.questions else ''}"
        return Forecast(plan.method_name, plan.config.dataset.name, plan.questions, 0, None, None, how)
    work = _RemainingWork(plan, own, convention)
    head = (plan.method_name, plan.config.dataset.name, len(work.asked), work.done)
    priced = any(model.price for model in plan.models.values())
    if not work.left:
        return Forecast(*head, 0.0, 0.0, "done: every question is stored", money=0.0 if priced else None)
    cost: Cost | None
    for run in _comparable_runs(plan, out, own):
        answered = [row["usage"] for row in run.records if row["error"] is None]
        built = [row["usage"] for row in run.documents if row["status"] != "failed"]
        config = plan.config.model_dump()
        question, index = _mean_cost(answered, convention, config), _mean_cost(built, convention, config)
        if question is not None and (index is not None or not work.indexes):
            cost = _NO_COST.plus(question, len(work.left)).plus(index or _NO_COST, work.indexes)
            how = f"stored: means of {len(answered)} question{'s'[: len(answered) > 1]} of {run.path.name}"
            break
    else:
        cost, how = _declared_cost(work), "declared: what the method says it reads"
    if cost is None:
        return Forecast(*head, None, None, "unknown: no stored run with these settings; --limit 3 would give one")
    tflops = None if cost.flops is None else cost.flops / 1e12
    return Forecast(*head, cost.tokens, tflops, how, money=cost.money if priced else None)


def _read_or_none(folder: Path) -> StoredRun | None:
    """The run in a folder, None if there is none or it is damaged: a forecast must not stop a command."""
    try:
        return read_run(folder)
    except UserError:
        return None


def _comparable_runs(plan: Plan, out: Path, own: StoredRun | None) -> Iterator[StoredRun]:
    """Yield `own`, if any, then other runs in `out` of its method, model and data set with equal `_cost_settings`."""
    if own is not None:
        yield own
    here = out / plan.folder
    name_without_hash = here.name.rpartition("--")[0]
    for folder in sorted(here.parent.glob("*")) if here.parent.is_dir() else ():
        if folder == here or folder.name.rpartition("--")[0] != name_without_hash:
            continue
        run = _read_or_none(folder)
        if run is not None and _cost_settings(run.config) == _cost_settings(plan.config.model_dump(mode="json")):
            yield run


def _cost_settings(config: dict[str, Any]) -> tuple[Any, ...]:
    """The settings that a cost depends on, comparable by ==; config: as in run.yaml."""
    dataset = config["dataset"]
    options = {k: v for k, v in (dataset.get("options") or {}).items() if k not in _NOT_THE_TEXTS}
    dataset_settings = (dataset["name"], dataset["max_answer_tokens"], options)
    roles = config.get("roles") or {}
    used = (config["model"], *roles.values(), config.get("encoder"), config.get("reranker"))
    named = [sorted(roles), *({k: v for k, v in (each or {}).items() if k != "shape"} for each in used)]
    return (config["method"]["params"], config["method"].get("view"), *dataset_settings, *named)


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


def _declared_cost(work: _RemainingWork) -> Cost | None:
    """Cost of the questions left and their indexes by `Method.reads`; None where the method declares nothing."""
    plan = work.plan
    cap, window = plan.task.max_answer_tokens, int((plan.facts.get("reader") or {}).get("window") or 0)
    if plan.missing and not window:
        return None
    shapes = {role: shape_of_role(plan, role) for role in ("reader", "encoder", "reranker")}
    total, embeds, convention = _NO_COST, False, work.convention
    price = price_of(plan.config.model_dump(), "reader")
    for example in work.left:
        frame = FRAME + 2 * text_tokens(plan.task.instruction) + text_tokens(example.question.text)
        frame += sum(text_tokens(option) for option in example.question.options or ())
        room = max(int(window - frame - cap), 0)
        reading = plan.method.reads(round(work.tokens_shown(example)), room)
        if reading is None:
            return None
        prompt, requests = round(frame + reading.shown / max(reading.requests, 1)), reading.requests
        total = total.plus(event_cost("prefill", prompt, 0, shapes["reader"], convention, price), requests)
        total = total.plus(event_cost("decode", cap, prompt, shapes["reader"], convention, price), requests)
        if reading.ranked:
            total = total.plus(event_cost("rerank", reading.ranked, 0, shapes["reranker"], convention))
        embeds = embeds or reading.embedded > 0
    if embeds:
        total = total.plus(event_cost("embed", round(work.index_tokens()), 0, shapes["encoder"], convention))
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

    price: as of harness.cost.prices.price_of; encoders and rerankers run here, and take no money. Logits: of the last
    position in a prefill, of each token in decoding. An encoder's attention is not counted.
    """
    logits = {"prefill": 1, "decode": new}.get(kind, 0)
    pairs = new * cached + new * (new + 1) // 2 if logits else 0
    event = Event("", "", "answer", kind, new, cached, logits=logits, pairs=pairs)
    served = {"prefill": "input", "decode": "output"}.get(kind)
    paid = 0.0 if served is None else None if price is None else new * price[served] / 1e6
    return Cost(new, None if shape is None else flops(event, shape, convention), paid)


@dataclass(frozen=True)
class MeasuredRun:
    """A stored run. model: name and dtype; hardware: the GPU, or "8 CPUs"; tokens: of all calls; seconds: they took."""

    method: str
    dataset: str
    model: str
    hardware: str
    tokens: float
    seconds: float


def measured_runs(out: Path) -> list[MeasuredRun]:
    """The runs below `out` that have a summary and took time, for `expected_hours`; damaged ones are left out."""
    runs = []
    for path in sorted(Path(out).rglob(RUN)):
        try:
            if (run := _measured_run(path.parent)) is not None:
                runs.append(run)
        except (UserError, OSError, KeyError, TypeError, AttributeError):  # a forecast is no reason to stop
            continue
    return runs


def _measured_run(folder: Path) -> MeasuredRun | None:
    """Tokens and seconds of the run in `folder`; None without a summary, a manifest, tokens or time."""
    summary, manifest = read_json(folder / SUMMARY), read_json(folder / MANIFEST)
    if not summary or not manifest:
        return None
    config = run_yaml(folder)["config"]
    answered = summary["n_total"] - summary["n_failed"]
    phases = [(usage, answered) for usage in summary["usage"].values()]
    phases += [(usage, 1) for usage in summary["index"]["usage"].values()]
    tokens = sum(times * (usage["tokens_in"] + usage["tokens_out"]) for usage, times in phases)
    together = max((start.get("parallel") or 1 for start in manifest["starts"]), default=1)
    # What calls waited for each other counts too: all of it over the questions in flight is the time that passed.
    seconds = sum(times * (usage["seconds"] + usage.get("queued", 0.0)) for usage, times in phases) / together
    if tokens <= 0 or seconds <= 0:
        return None
    model = _model(config["model"]["name"], manifest.get("models") or {})
    names = config["method"]["name"], config["dataset"]["name"]
    return MeasuredRun(*names, model, manifest.get("gpu") or f"{manifest['cpus']} CPUs", tokens, seconds)


def _model(name: str, identities: dict[str, Any]) -> str:
    return f"{name} {(identities.get('reader') or {}).get('dtype')}"


def expected_hours(plan: Plan, tokens: float | None, known: Sequence[MeasuredRun]) -> tuple[float | None, str]:
    """(hours of one worker for `tokens`, by which runs in words), or (None, why); known: runs whose speed is taken."""
    if tokens is None:
        return None, "unknown"
    here, model = f"{os.cpu_count()} CPUs", _model(plan.config.model.name, plan.facts)
    if "torch" not in sys.modules and any(run.hardware != here for run in known):
        import torch  # noqa: F401 - describe_gpu asks it, once it is loaded
    here = describe_gpu() or here
    same = [run for run in known if (run.hardware, run.model) == (here, model)]
    method, dataset = plan.config.method.name, plan.config.dataset.name
    kinds = (
        (f"{method} on {dataset}", [r for r in same if (r.method, r.dataset) == (method, dataset)]),
        (method, [r for r in same if r.method == method]),
        (plan.config.model.name, same),
    )
    for name, runs in kinds:
        if runs:
            speed = sum(run.tokens for run in runs) / sum(run.seconds for run in runs)
            return tokens / speed / 3600, f"{speed:,.0f} tokens/s: {name}, {len(runs)} run{'s'[: len(runs) > 1]}"
    return None, f"no run with {model.partition(' ')[0]} on {here}"


def append_actual(out: Path, row: str, folder: str, workers: int, expected: float, took: float) -> None:
    """Add a line to forecasts.jsonl in `out`, if it can be written. folder: of the row's run; expected, took: hours."""
    line = {"row": row, "run": folder, "workers": workers, "forecast_hours": expected, "hours": took}
    with contextlib.suppress(OSError), open(out / "forecasts.jsonl", "a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
