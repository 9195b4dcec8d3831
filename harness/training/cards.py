"""What is known of trained adapters: card.json beside each, and CARD.md over all of them.

    write(out, task, Known(method, base, settings, trained))     before anything is measured
    measured(out, measures)                                      adds before and after, and CARD.md

The card names the weights that the adapter was trained on, so that one of other weights is noticed before it is used
(harness/llm/adapters.py); `prompts` has a mark of each prompt that it learnt.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.config.schema import ModelConfig
from harness.llm.adapters import CARD
from harness.llm.model_info import hash_files
from harness.storage.home import read_lock, write_json
from harness.training.evaluate import Measure, as_json, from_json, rows_of


@dataclass(frozen=True)
class Known:
    """method: the preset; base, where: the model and what identifies its weights; prompts: name -> mark of each
    that it learnt; settings: of the task; trained: steps, rows, tokens, minutes.
    """

    method: str
    base: ModelConfig
    where: Any
    prompts: dict[str, str]
    settings: dict[str, Any]
    trained: dict[str, Any]


def write(folder: Path, known: Known) -> None:
    """Write an adapter's card; measures of the same training stay. Raises OSError."""
    values = {
        "method": known.method,
        "base": {"name": known.base.name, "where": known.where},
        "prompts": known.prompts,
        "settings": known.settings,
        "trained": known.trained,
    }
    before = read_lock(folder / CARD)
    if before.get("trained") == known.trained and "measures" in before:
        values["measures"] = before["measures"]
    write_json(folder / CARD, values)


def measured(out: Path, exam: dict[str, Any], found: Sequence[Measure]) -> None:
    """Put the measures into the card of each adapter; CARD.md has those of all adapters there. Raises OSError."""
    adapters = out / "adapters"
    now = list(dict.fromkeys(one.task for one in found))
    for task in now:
        card = read_lock(adapters / task / CARD)
        card["measures"] = {"exam": exam, "rows": as_json([one for one in found if one.task == task])}
        write_json(adapters / task / CARD, card)
    others = sorted({path.parent.name for path in adapters.glob(f"*/{CARD}")} - {*now})
    cards = {task: card for task in (*now, *others) if "measures" in (card := read_lock(adapters / task / CARD))}
    (adapters / "CARD.md").write_text(_page(cards), encoding="utf-8")


def _page(cards: dict[str, dict[str, Any]]) -> str:
    one = next(iter(cards.values()))
    exams = [card["measures"]["exam"] for card in cards.values()]
    asked = dict.fromkeys(f"{exam['scenes']} scenes a task, {exam['source']}" for exam in exams)
    first, *lines = rows_of([row for card in cards.values() for row in from_json(card["measures"]["rows"])])
    told = [
        f"# Adapters of {one['method']} for {one['base']['name']}",
        "",
        f"Percent [95 % interval] over {' or '.join(asked)}; no training saw them.",
        "",
        "| " + " | ".join(first) + " |",
        "|" + " --- |" * len(first),
        *("| " + " | ".join(line) + " |" for line in lines),
        "",
        "| task | rank | rows | left out | steps | tokens | minutes | on |",
        "|" + " --- |" * 8,
    ]
    for task, card in cards.items():
        t = card["trained"]
        cells = (task, card["settings"]["rank"], t["rows"], t["left_out"], t["steps"], t["tokens"], t["minutes"])
        told.append("| " + " | ".join(map(str, (*cells, t["hardware"]))) + " |")
    return "\n".join(told) + "\n"


def adapter_mark(folder: Path) -> str:
    """The first 16 hex digits that identify an adapter's weights. Raises CannotRun where there is none."""
    return hash_files(folder)[:16]


def hardware(device: str) -> str:
    """What the steps ran on; no name of a machine."""
    import torch

    if device.startswith("cuda"):
        return str(torch.cuda.get_device_name(device))
    return f"{platform.processor() or platform.machine()}, {torch.get_num_threads()} threads"
