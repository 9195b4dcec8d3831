"""`harness trace RUN QUESTION_ID`: the stored search of one question, step by step.

#  action  node  level  p_yes  attention  similarity  tokens  TFLOPs  shown
0  start      3      2  0.112      0.031       0.402     120   0.512  ...
"""

from __future__ import annotations

from typing import Any

from harness.commands.common import run_folder
from harness.errors import UnknownName

_WIDEST = 60  # characters of a step's text; the records have all of it


def main(run: str, question: str) -> int:
    """Print the steps. Raises UserError for an unknown run or question."""
    from harness.store import read_run

    stored = read_run(run_folder(run))
    by_id = {record["question_id"]: record for record in stored.records}
    if question not in by_id:
        raise UnknownName("question", question, by_id, f"question_id in {stored.path}/records.jsonl")
    record = by_id[question]
    print(f"question   {question} on {', '.join(record['document_ids'])}")
    steps = record["steps"]
    print(table(steps) if steps else "this method stores no search steps")
    if record["stop_reason"]:
        print(f"stopped    {record['stop_reason']}")
    if record["error"]:
        print(f"failed     {record['error']['type']}: {record['error']['message']}")
    print(f"answer     {record['prediction']}")
    print("scores     " + ", ".join(f"{name} {value:.4f}" for name, value in record["scores"].items()))
    return 0


def table(steps: list[dict[str, Any]]) -> str:
    """The steps as aligned text, a column for each part of a score that any step has."""
    parts = list(dict.fromkeys(name for step in steps for name in step["scores"]))
    head = ["#", "action", "node", "level", "p_yes", *parts, "tokens", "TFLOPs", "text"]
    rows = [head] + [_row(i, step, parts) for i, step in enumerate(steps)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    words = (1, len(head) - 1)
    lines = []
    for row in rows:
        cells = [c.ljust(w) if i in words else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _row(number: int, step: dict[str, Any], parts: list[str]) -> list[str]:
    scores = [_number(step["scores"].get(p), ".4f") for p in parts]
    return [
        str(number),
        step["action"],
        _number(step["node"], "d"),
        _number(step["level"], "d"),
        _number(step["p_yes"], ".3f"),
        *scores,
        str(step["tokens"]),
        f"{step['flops'] / 1e12:.3g}",
        _text(step),
    ]


def _number(value: Any, form: str) -> str:
    return "" if value is None else format(value, form)


def _text(step: dict[str, Any]) -> str:
    shown = step["shown"] or {}
    text = step["note"] or shown.get("text") or ""
    if not text and shown.get("document_id"):
        text = f"{shown['document_id']} [{shown['start']}:{shown['end']}]"
    text = " ".join(text.split())
    return text if len(text) <= _WIDEST else text[: _WIDEST - 3] + "..."
