"""The card beside the reranker's weights: where they come from and what they find, beside other rankers.

write(folder, settings, rows)      card.json and CARD.md
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.storage.file_hash import file_hash
from harness.storage.home import write_json
from pocket.reranker.exam import SEED
from pocket.train import initial_weights as beginning

if TYPE_CHECKING:
    from pocket.reranker.exam import Row
    from pocket.reranker.train import Settings


_HEAD = """# pocket-reranker

A toy cross-encoder of the synthetic world, so that the reranker rows can run anywhere: it stands in for a real reranker
in the names of rows (`bge-reranker[pocket-reranker]`). On real text its scores mean nothing.
"""
_MEASURES = {
    "facts": "Sentences that state a supporting fact, of which at least half is in the five best chunks, per cent.",
    "passages": "The same of the supporting passages, which the tables call evidence recall, per cent.",
}


def write(folder: Path, settings: Settings, rows: Sequence[Row]) -> None:
    """Write both files into the model's folder. Raises OSError."""
    state = json.loads((settings.out / "checkpoint" / "state.json").read_text(encoding="utf-8"))
    trained = {name: getattr(settings, name) for name in ("layers", "seed", "steps", "questions")}
    trained |= {"begin": beginning.weights_mark(settings.begin), "tokens": state["tokens"]}
    trained["processor_minutes"] = round(state["seconds"] / 60, 1)
    card = {
        "name": "pocket-reranker",
        "trained": trained,
        "sha256": {name: file_hash(folder / name) for name in ("model.safetensors", "tokenizer.json")},
        "exam": {"seed": SEED, "questions": max((row.n for row in rows), default=0)},
        "results": [asdict(row) for row in rows],
    }
    (folder / "CARD.md").write_text(_page(card, rows), encoding="utf-8")
    write_json(folder / "card.json", card)


def _page(card: dict[str, Any], rows: Sequence[Row]) -> str:
    run = card["trained"]
    origin = (
        f"Cut from pocket-llama (weights {run['begin']}): its input embeddings and first {run['layers']} layers, "
        f"under a new head. {run['steps']:,} steps of {run['questions']} questions with all chunks of their texts, "
        f"{run['tokens']:,} tokens, {run['processor_minutes']} minutes of one processor core, seed {run['seed']}.\n"
    )
    tasks = (
        "Recall at 5 on texts of 1,640 tokens in chunks of 100, questions of one hop and two, evaluation seed "
        f"{SEED}: mean [95 % interval, clustered by text].\n"
    )
    parts = [_HEAD, origin, tasks]
    for measure, meaning in _MEASURES.items():
        parts += [f"## {measure}\n\n{meaning}\n", _table([row for row in rows if row.measure == measure])]
    return "\n".join(parts).rstrip() + "\n"


def _table(rows: Sequence[Row]) -> str:
    kinds, rankers = (list(dict.fromkeys(getattr(row, name) for row in rows)) for name in ("kind", "ranker"))
    by_pair = {(row.ranker, row.kind): row for row in rows}
    lines = [["ranker", *kinds], ["---"] * (len(kinds) + 1)]
    lines += [[ranker, *(_cell(by_pair[ranker, kind]) for kind in kinds)] for ranker in rankers]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def _cell(row: Row) -> str:
    mean, low, high = ("-" if value is None else f"{100 * value:.1f}" for value in (row.mean, row.low, row.high))
    return f"{mean} [{low}, {high}] of {row.n}"
