"""Model cards of adapters: card.json beside each, and CARD.md for all of them.

    write_card(folder, method, base, ...)                      after training
    write_measures(out, exam, measures)                   adds the measures, and writes CARD.md

The card names the base weights, so that harness/llm/adapters.py can refuse the adapter for others;
`prompts` has a hash of each prompt that it learnt.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.llm.adapters import CARD
from harness.storage.files import read_json_or_empty, write_json
from harness_training.exam import Measure, table_rows

if TYPE_CHECKING:
    from harness_training.loop import Progress
    from harness_training.lora_model import Base
    from harness_training.trainer import Job

# What a course of training says of itself; `before` in a card has those of the adapter that it
# continued.
_COURSE = ("seed", "rows", "left_out", "steps", "tokens", "minutes", "hardware")


def write_card(
    folder: Path,
    method: str,
    base: Base,
    prompts: dict[str, str],
    job: Job,
    progress: Progress,
    **trained: Any,
) -> None:
    """Write an adapter's card; measures in a card of the same training are kept. Raises OSError.

    method: the preset; prompts: name -> hash, of the prompts that it learnt; trained: further facts
    about its data.
    """
    import torch

    threads = "" if base.device.startswith("cuda") else f", {torch.get_num_threads()} threads"
    trained |= {
        "seed": job.seed,
        "rows": len(job.data.rows),
        "left_out": job.data.left_out,
        "cut": job.data.cut,
        "steps": progress.step,
        "of_steps": job.steps,
        "tokens": progress.tokens,
        "minutes": round(progress.seconds / 60, 1),
        "hardware": processor(base.device) + threads,
    }
    of_base = {"name": base.config.name, "where": base.where}
    settings = job.task_settings.model_dump(mode="json", exclude={"recipes"})
    values = {
        "method": method,
        "base": of_base,
        "prompts": prompts,
        "settings": settings,
        "trained": trained,
    }
    before = read_json_or_empty(folder / CARD)
    if before.get("trained") == trained and "measures" in before:
        values["measures"] = before["measures"]
    write_json(folder / CARD, values)


def write_measures(out: Path, exam: dict[str, Any], measures: Sequence[Measure]) -> None:
    """Add measures and `exam` (scenes, seed, source) to the cards in `out`; write CARD.md for all.
    Raises OSError."""
    adapters = out / "adapters"
    now = list(dict.fromkeys(measure.task for measure in measures))
    for task in now:
        card = read_json_or_empty(adapters / task / CARD)
        card["measures"] = {"exam": exam, "rows": [asdict(m) for m in measures if m.task == task]}
        write_json(adapters / task / CARD, card)
    other_methods = sorted({path.parent.name for path in adapters.glob(f"*/{CARD}")} - {*now})
    cards = {
        task: card
        for task in (*now, *other_methods)
        if "measures" in (card := read_json_or_empty(adapters / task / CARD))
    }
    any_card = next(iter(cards.values()))
    every = [row for card in cards.values() for row in card["measures"]["rows"]]
    exams = [card["measures"]["exam"] for card in cards.values()]
    scenes = dict.fromkeys(f"{exam['scenes']} scenes a task, {exam['source']}" for exam in exams)
    page = [
        f"# Adapters of {any_card['method']} for {any_card['base']['name']}",
        "",
        f"Percent [95 % interval] over {' or '.join(scenes)}; they were not trained on.",
        "",
        markdown_table(table_rows(every)),
    ]
    training = [("task", "rank", *(name.replace("_", " ") for name in _COURSE))]
    for task, card in cards.items():
        for t in (*card["trained"].get("before", ()), card["trained"]):
            cells = (task, card["settings"]["rank"], *(t.get(name, "") for name in _COURSE))
            training.append(tuple(map(str, cells)))
    page.append(markdown_table(training).rstrip())
    for task, card in cards.items():
        t = card["trained"]
        sources = [
            f"{name} ({t['data'][name]} questions, {licence})"
            if name in t["data"]
            else f"{name} ({licence})"
            for name, licence in t.get("licences", {}).items()
        ]
        if sources:
            page += ["", f"{task} was trained on {', '.join(sources)}."]
        if skills := t.get("skills"):
            page += [
                "",
                f"Rows by skill: {', '.join(f'{name} {rows}' for name, rows in skills.items())}.",
            ]
    (adapters / "CARD.md").write_text("\n".join(page) + "\n", encoding="utf-8")


def markdown_table(rows: Iterable[Sequence[str]]) -> str:
    """The rows as a table in Markdown, the first one as its head; ends with a line feed."""
    head, *rest = rows
    lines = [head, ["---"] * len(head), *rest]
    return (
        "\n".join(
            "| " + " | ".join(cell.replace("|", "/") for cell in line) + " |" for line in lines
        )
        + "\n"
    )


def training_history(folder: Path) -> list[dict[str, Any]]:
    """How an adapter was trained, the first training first: seed, rows, steps ...; [] where it has
    no card."""
    trained = read_json_or_empty(folder / CARD).get("trained", {})
    this_training = {name: trained[name] for name in _COURSE if name in trained}
    return [*trained.get("before", []), *([this_training] if this_training else [])]


def processor(device: str) -> str:
    """The processor or GPU, without the machine's name."""
    import torch

    on_gpu = device.startswith("cuda")
    return (
        str(torch.cuda.get_device_name(device))
        if on_gpu
        else platform.processor() or platform.machine()
    )
