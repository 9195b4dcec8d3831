"""Model cards of adapters: card.json beside each, and CARD.md for all of them.

    write_card(folder, about, base, job, progress)                   after training
    write_measures(out, exam, measures)                   adds the measures, and writes CARD.md

The card names the base weights, so that harness/llm/adapters.py can refuse the adapter for others;
`prompts` has a hash of each prompt that it learnt.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
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


@dataclass(frozen=True)
class AboutAdapter:
    """What an adapter learnt.

    Args:
        method: The preset of its method.
        prompts: Name -> hash, of the prompts that it learnt.
        data: Facts about its data, as they stand in the card.
    """

    method: str
    prompts: dict[str, str]
    data: dict[str, Any]


def write_card(folder: Path, about: AboutAdapter, base: Base, job: Job, progress: Progress) -> None:
    """Write an adapter's card; measures in a card of the same training stay. Raises OSError."""
    trained = about.data | {
        "seed": job.seed,
        "rows": len(job.data.rows),
        "left_out": job.data.left_out,
        "cut": job.data.cut,
        "steps": progress.step,
        "of_steps": job.steps,
        "tokens": progress.tokens,
        "minutes": round(progress.seconds / 60, 1),
        "hardware": _hardware(base.device),
    }
    values = {
        "method": about.method,
        "base": {"name": base.config.name, "where": base.where},
        "prompts": about.prompts,
        "settings": job.task_settings.model_dump(mode="json", exclude={"recipes"}),
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
    others = {path.parent.name for path in adapters.glob(f"*/{CARD}")}
    cards: dict[str, Any] = {}
    for task in (*now, *sorted(others.difference(now))):
        card = read_json_or_empty(adapters / task / CARD)
        if "measures" in card:
            cards[task] = card
    page = _page(cards)
    (adapters / "CARD.md").write_text("\n".join(page) + "\n", encoding="utf-8")


def _page(cards: Mapping[str, Any]) -> list[str]:
    """The lines of CARD.md; cards: task -> card.json with measures."""
    any_card = next(iter(cards.values()))
    measured: list[Any] = []
    scenes: list[str] = []
    for card in cards.values():
        measured += card["measures"]["rows"]
        exam = card["measures"]["exam"]
        scenes.append(f"{exam['scenes']} scenes a task, {exam['source']}")
    page = [
        f"# Adapters of {any_card['method']} for {any_card['base']['name']}",
        "",
        f"Percent [95 % interval] over {' or '.join(dict.fromkeys(scenes))}; they were not trained on.",
        "",
        markdown_table(table_rows(measured)),
    ]
    training = [("task", "rank", *(name.replace("_", " ") for name in _COURSE))]
    for task, card in cards.items():
        for t in (*card["trained"].get("before", ()), card["trained"]):
            cells = (task, card["settings"]["rank"], *(t.get(name, "") for name in _COURSE))
            training.append(tuple(map(str, cells)))
    page.append(markdown_table(training).rstrip())
    for task, card in cards.items():
        trained = card["trained"]
        sources = _sources(trained)
        if sources:
            page += ["", f"{task} was trained on {', '.join(sources)}."]
        skills = [f"{name} {rows}" for name, rows in trained.get("skills", {}).items()]
        if skills:
            page += ["", f"Rows by skill: {', '.join(skills)}."]
    return page


def _sources(trained: Mapping[str, Any]) -> list[str]:
    """The data sets that an adapter was trained on, with licence and number of questions."""
    sources = []
    for name, licence in trained.get("licences", {}).items():
        if name in trained["data"]:
            sources.append(f"{name} ({trained['data'][name]} questions, {licence})")
        else:
            sources.append(f"{name} ({licence})")
    return sources


def markdown_table(rows: Iterable[Sequence[str]]) -> str:
    """The rows as a table in Markdown, the first one as its head; ends with a line feed."""
    head, *rest = rows
    text = ""
    for line in (head, ["---"] * len(head), *rest):
        cells = [cell.replace("|", "/") for cell in line]
        text += f"| {' | '.join(cells)} |\n"
    return text


def training_history(folder: Path) -> list[dict[str, Any]]:
    """How an adapter was trained, the first training first: seed, rows, steps ...; [] where it has
    no card."""
    trained = read_json_or_empty(folder / CARD).get("trained", {})
    this_training = {name: trained[name] for name in _COURSE if name in trained}
    history = list(trained.get("before", []))
    if this_training:
        history.append(this_training)
    return history


def processor(device: str) -> str:
    """The processor or GPU, without the machine's name."""
    import torch

    if device.startswith("cuda"):
        return str(torch.cuda.get_device_name(device))
    return platform.processor() or platform.machine()


def _hardware(device: str) -> str:
    """The processor with the number of threads, or the GPU."""
    import torch

    name = processor(device)
    if device.startswith("cuda"):
        return name
    return f"{name}, {torch.get_num_threads()} threads"
