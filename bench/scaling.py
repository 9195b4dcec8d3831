"""What spreading a run costs: merging many records and many shards, and a driver with many workers.

    nice python -m bench.scaling merge 1000000 16      peak memory and time of merging made-up records
    nice python -m bench.scaling shards 1000           plan, run and merge that many shards of an empty method
    nice python -m bench.scaling driver 1000 20000     a driver with that many made-up workers and questions

Each prints one line. The made-up workers of `driver` write records at once, so that the driver is all that takes time.
"""

from __future__ import annotations

import json
import os
import random
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.engine.plan import Plan, plan_choices
from harness.engine.progress import Silent
from harness.scale.driver import Driver, Event
from harness.scale.merge import merge
from harness.scale.shard import partition, run_shard
from harness.scale.worker import Done, Order
from harness.storage.parts import ORDER, part_name
from harness.storage.run_folder import DOCUMENTS, MANIFEST, RECORDS, RUN
from harness.types import Answer, Document, Example, Gold, Question


def row(n: int) -> dict[str, Any]:
    """A record like that of a method without a search, about 1.2 kB."""
    usage = {
        "flops": dict.fromkeys(("all-params", "full", "causal", "executed"), 1500000000.0 + n),
        **dict.fromkeys(("tokens_in", "tokens_out", "tokens_cached", "requests", "encoder_requests"), n % 7),
        **dict.fromkeys(("tokens_reused", "uncounted", "texts", "texts_cut", "retries", "endings_cut"), 0),
        "seconds": 0.25,
        "roles": {"reader": 1.5e9},
    }
    return {
        "question_id": f"question-{n:08d}",
        "question": f"What is the number of question {n}? " * 3,
        "options": None,
        "document_ids": [f"document-{n // 10}"],
        "document_characters": [12000],
        "gold": {"answers": [str(n)], "supporting": [], "extra": {}},
        "prediction": str(n),
        "scores": {"longbench.qa_f1_score": (n % 10) / 10, "evidence_recall": 1.0},
        "usage": {"answer": usage},
        "shown": [],
        "stop_reason": "",
        "steps": [],
        "truncated": None,
        "error": None,
        "notes": {"seconds": 0.25},
    }


def made_up_shards(folder: Path, count: int, shards: int) -> None:
    """Shards as they end: each in the data set's order, ten questions a document."""
    config = {"method": {"name": "m"}, "dataset": {"name": "d", "scorers": ["s"]}, "model": {"name": "m"}, "seed": 0}
    (folder / RUN).write_text(json.dumps({"config": config}))
    with open(folder / ORDER, "w") as order:
        order.writelines(json.dumps({"question_id": f"question-{n:08d}"}) + "\n" for n in range(count))
    for shard in range(shards):
        manifest = {"starts": [], "shard": {"number": shard + 1, "of": shards, "asked": count}}
        (folder / part_name(MANIFEST, shard + 1)).write_text(json.dumps(manifest))
        with (
            open(folder / part_name(RECORDS, shard + 1), "w") as file,
            open(folder / part_name(DOCUMENTS, shard + 1), "w") as documents,
        ):
            for document in range(shard, count // 10, shards):
                file.writelines(json.dumps(row(n)) + "\n" for n in range(10 * document, 10 * document + 10))
                index = {"document_id": f"document-{document}", "key": "k", "status": "built", "usage": {}}
                documents.write(json.dumps(index) + "\n")


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def bench_merge(count: int, shards: int) -> None:
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as name:
        folder = Path(name)
        if os.fork() == 0:  # its memory is not ours
            made_up_shards(folder, count, shards)
            os._exit(0)
        os.wait()
        size = sum(path.stat().st_size for path in folder.iterdir()) / 2**20
        before, cpu, begun = peak_mib(), time.process_time(), time.monotonic()
        merge(folder, lambda _: None)
        used = f"{time.process_time() - cpu:.1f} CPU s, {time.monotonic() - begun:.1f} s"
        print(f"{count} records ({size:.0f} MiB) of {shards} shards: {used}, {before:.0f} -> {peak_mib():.0f} MiB peak")


def empty_plan(questions: int) -> Plan:
    """A plan whose method answers "" at once, with a document for each question."""
    from harness.config.layers import Choices

    plan = plan_choices(
        Choices(method="closed-book", dataset="pocket/musique", model="random", sets={"dataset.tokens": 300}, limit=1)
    )
    documents = {f"d{n}": Document(f"d{n}", "text") for n in range(questions)}
    examples = tuple(
        Example(Question(f"q{n}", "Which?", (f"d{n}",)), Gold((str(n),), (), {})) for n in range(questions)
    )
    plan.method.answer = lambda *_: Answer("")  # type: ignore[method-assign]
    dataset = replace(plan.dataset, examples=examples, documents=documents)
    return replace(plan, dataset=dataset, config=plan.config.model_copy(update={"limit": None}))


def bench_shards(shards: int) -> None:
    plan = empty_plan(shards)
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as name:
        out, begun = Path(name), time.monotonic()
        partition(plan.dataset.examples, plan.dataset.documents, shards)
        planned = time.monotonic() - begun
        cpu, begun, merged = time.process_time(), time.monotonic(), False
        for number in range(1, shards + 1):
            last = time.monotonic()
            _, merged = run_shard(plan, out, number, shards, progress=Silent(), command=["bench"])
        end = time.monotonic()
        used = f"{end - begun:.1f} s ({time.process_time() - cpu:.1f} CPU s)"
        print(f"{shards} shards: planned in {planned:.2f} s; all run and merged ({merged}) in {used}, ", end="")
        print(f"the last with its merge in {end - last:.1f} s")


class Instant:
    """Workers that write the records of an order at once."""

    def __init__(self, folder: Path, count: int) -> None:
        self.count, self.folder, self.messages = count, folder, count
        self._events = [Event(f"w{n}") for n in range(count)]
        self._record = row(0)

    def submit(self, worker: str, order: Order) -> None:
        lines = [json.dumps({**self._record, "question_id": q}) + "\n" for q in order.ids]
        (self.folder / part_name(RECORDS, order.number)).write_text("".join(lines))
        manifest = {"starts": [], "shard": {"number": order.number, "of": order.of, "asked": 0}}
        (self.folder / part_name(MANIFEST, order.number)).write_text(json.dumps(manifest))
        self._events.append(Event(worker, Done(len(lines))))
        self.messages += 2

    def poll(self, timeout: float) -> list[Event]:
        del timeout
        random.shuffle(self._events)
        events, self._events = self._events[:64], self._events[64:]
        return events

    def close(self) -> None:
        pass


def bench_driver(workers: int, questions: int) -> None:
    plan = empty_plan(questions)
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as name:
        out = Path(name)
        folder = out / plan.folder
        folder.mkdir(parents=True)
        config = plan.config.model_dump(mode="json")
        (folder / RUN).write_text(json.dumps({"config": config}))
        hands = Instant(folder, workers)
        driver = Driver(hands, out, Silent(), command=["bench"])
        cpu = time.process_time()
        driver.add(plan, [plan.choices])
        cut = time.process_time() - cpu
        cpu = time.process_time()
        driver._merged = lambda _row: {"n_failed": 0}  # type: ignore[method-assign,assignment]
        driver.wait(plan)
        used = time.process_time() - cpu
        cpu = time.process_time()
        merge(folder, lambda _: None)
        merged = time.process_time() - cpu
    print(f"{workers} workers, {questions} questions: cut in {cut:.1f} CPU s; {hands.messages} messages in {used:.1f}")
    print(
        f"CPU s ({hands.messages / used:.0f} and {questions / used:.0f} records shown a second); merged in {merged:.1f}"
    )


if __name__ == "__main__":
    kind, *numbers = sys.argv[1:]
    benches: dict[str, Callable[..., None]] = {"merge": bench_merge, "shards": bench_shards, "driver": bench_driver}
    benches[kind](*map(int, numbers))
