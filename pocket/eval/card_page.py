"""CARD.md: the card as plain tables, and in sentences what the model can do and what it cannot.

page(card)            the whole page
tables(results)       (heading, rows of cells) for each skill and measure: questions down, texts across
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.storage.home import write_json
from pocket.eval.metrics import AREA, EXACT, INVENTED

if TYPE_CHECKING:
    from pocket.eval.card import Card


_HEAD = """# {name}

A toy Llama trained on texts of a synthetic world, so that every method here can run anywhere. It knows nothing of the
real world and is never to be mistaken for a real model: its scores say that the plumbing works, not which method is
better. Replies are compared letter for letter, on texts it never saw.
"""
_CAN, _CANNOT = 0.8, 0.5
_NOTES = {
    EXACT: "Share of replies that are the answer letter for letter.",
    AREA: "Area under the ROC curve of P(first label) over all probes; the floor is that of counting the parts shown.",
    INVENTED: "Share of what was written that is not in the text; less is better.",
    "kept": "Share of what is in the text that was written.",
}
Result = Mapping[str, Any]


def page(card: Card) -> str:
    """The card as Markdown."""
    parts = [_HEAD.format(name=card.name), *_verdicts(card.results), *_training(card), *_results(card), *_files(card)]
    return "\n".join(parts).rstrip() + "\n"


def _table(rows: Sequence[Sequence[str]]) -> str:
    head, *rest = rows
    lines = [head, ["---"] * len(head), *rest]
    return "\n".join("| " + " | ".join(cell.replace("|", "/") for cell in line) + " |" for line in lines) + "\n"


def _percent(value: float) -> str:
    return f"{100 * value:.0f}"


def _cell(row: Result) -> str:
    """ "97 [95, 99] of 400, floor 25"."""
    if row["value"] is None:
        return "-"
    text = _percent(row["value"])
    if row["low"] is not None:
        text += f" [{_percent(row['low'])}, {_percent(row['high'])}]"
    text += f" of {row['n']}"
    if row["floor"] is not None:
        text += f", floor {_percent(row['floor'])}"
    return text + (f", {row['failed']} failed" if row["failed"] else "")


def tables(results: Sequence[Result]) -> Iterator[tuple[str, list[list[str]]]]:
    """A heading and rows of cells, the first row being the head."""
    groups: dict[tuple[str, str, bool], list[Result]] = {}
    for row in results:
        alike = row["text"].endswith(" alike")
        groups.setdefault((row["skill"], row["measure"], alike), []).append(row)
    for (skill, measure, alike), rows in groups.items():
        texts, kinds = (list(dict.fromkeys(row[key] for row in rows)) for key in ("text", "asked"))
        cells = {(row["asked"], row["text"]): _cell(row) for row in rows}
        body = [[name, *(cells.get((name, text), "") for text in texts)] for name in kinds]
        by = ", by facts of the text with the relation asked for" if alike else ""
        yield f"{skill}: {measure}{by}", [["", *texts], *body]


def _verdicts(results: Sequence[Result]) -> list[str]:
    if not results:
        return ["It was not examined yet: `harness pocket eval` does that.\n"]
    can: dict[str, list[str]] = {}
    cannot: dict[str, list[str]] = {}
    for row in results:
        if row["low"] is None or row["measure"] == INVENTED or row["text"].endswith(" alike"):
            continue
        head = f"{row['skill']}, {row['asked']} ({row['measure']})"
        guessed = row["floor"] is not None and row["low"] <= row["floor"]
        if guessed or row["high"] < _CANNOT:
            cannot.setdefault(head, []).append(row["text"])
        elif row["low"] >= _CAN:
            can.setdefault(head, []).append(row["text"])
    return [
        "## What it can do\n",
        f"Surely (the whole interval) at {_percent(_CAN)} % or more:\n",
        *_listed(can),
        "## What it cannot do\n",
        f"Surely under {_percent(_CANNOT)} %, or not surely better than a guess:\n",
        *_listed(cannot),
    ]


def _listed(sections: Mapping[str, Sequence[str]]) -> list[str]:
    return [
        "\n".join(f"- {head}: {'; '.join(texts)}" for head, texts in sections.items() or [("nothing", [""])]) + "\n"
    ]


def _training(card: Card) -> list[str]:
    training = card.trained
    if not training:
        return ["## Training\n", "Nothing is known of it.\n"]
    parts = ["## Training\n"]
    every = [*training.get("before", ()), training]
    if len(every) > 1:
        steps, tokens, seconds = (sum(run.get(key, 0) for run in every) for key in ("steps", "tokens", "seconds"))
        parts.append(
            f"{len(every)} trainings, each from the weights of the one before: {steps:,} steps, {tokens:,} tokens, "
            f"{seconds / 60:,.0f} minutes in all.\n"
        )
    for run in every:
        parts += _one_training(run)
    return parts


def _one_training(run: Mapping[str, Any]) -> list[str]:
    minutes = run.get("seconds", 0) / 60
    hardware = run.get("hardware", {})
    head = (
        f"Seed {run.get('seed')}, {run.get('steps', 0):,} steps, {run.get('tokens', 0):,} tokens, "
        f"{minutes:,.0f} minutes on {hardware.get('device', 'unknown')} with {hardware.get('threads', '?')} threads"
    )
    began = run.get("began")
    head += f", from trained weights whose sha256 begins with {began}.\n" if began else ".\n"
    rows = [["stage", "steps", "minutes", "minutes, in all", "mastered", "replies right at its end"]]
    before = 0.0
    for stage in run.get("stages", ()):
        # Earlier versions wrote only the total minutes.
        own = stage.get("stage_minutes", round(stage.get("minutes", before) - before, 1))
        before = stage.get("minutes", before)
        right = ", ".join(f"{name} {_percent(share)} %" for name, share in stage.get("right", {}).items())
        mastered = "yes" if stage.get("mastered") else "no"
        spent = [str(stage.get("steps", "")), str(own), str(stage.get("minutes", ""))]
        rows.append([stage["stage"], *spent, mastered, right])
    return [head, _table(rows)] if len(rows) > 1 else [head]


def _results(card: Card) -> list[str]:
    if not card.results:
        return []
    exam = card.exam
    head = (
        f"Exam of seed {exam.get('seed')}, {exam.get('questions')} questions a cell; percent [95 % interval] of n. "
        "Lengths are characters / 4. The floor is what guessing without reading would reach.\n"
    )
    parts = ["## Results\n", head]
    for heading, rows in tables(card.results):
        note = next((text for name, text in _NOTES.items() if f": {name}" in heading), "")
        parts += [f"### {heading}\n", *([note + "\n"] if note else []), _table(rows)]
    return parts


def _files(card: Card) -> list[str]:
    files = _table([["file", "sha256"], *([name, value] for name, value in card.sha256.items())])
    prints = _table([["skill", "fingerprint"], *([name, value[:16]] for name, value in card.skills.items())])
    return ["## Files\n", files, "## Skills it was trained on\n", prints if card.skills else "None that is known.\n"]


def write(card: Card, to: Path | None = None) -> Path:
    """Write card.json and CARD.md beside the weights, or into the folder `to`; returns it. Raises OSError."""
    to = to or card.folder
    values = {part.name: getattr(card, part.name) for part in fields(card) if part.name != "folder"}
    to.mkdir(parents=True, exist_ok=True)
    (to / "CARD.md").write_text(page(card), encoding="utf-8")
    write_json(to / "card.json", values)
    return to
