"""A sample file of lm-evaluation-harness (--log_samples) as a foreign run.

    read(Path("out/gpt2/samples_hotpotqa_2026-01-02T03-04-05.123456.jsonl"))

results_<the same date>.json in the same folder names the model, the version and the printed means, where it is there.
A task with several filters writes a line of each: their scores become "exact_match.strict-match" and so on. Of answers
that were chosen by their likelihood the prediction is the likeliest. What lm_eval 0.4.13 writes was read here.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.datasets.files import Place, json_value, read_rows
from harness.errors import DataError
from harness.exchange.foreign import ForeignAnswer, ForeignRun, Told, columns, each, texts, whole

_NAME = re.compile(r"samples_(?P<task>.+)_(?P<date>\d{4}-\d\d-\d\dT.+)\.jsonl")
_NEEDED = ("doc_id", "doc", "target", "arguments", "resps", "filter", "metrics")
_IDS, _QUESTIONS, _GOLD = ("_id", "id", "question_id"), ("question", "input", "query"), ("answers", "golden_answers")


def read(path: Path) -> ForeignRun:
    """The run in a sample file. Raises DataError for a damaged file and one of another version."""
    if (named := _NAME.fullmatch(path.name)) is None:
        raise DataError(path, None, None, "should be named samples_TASK_DATE.jsonl, as lm-eval names it")
    rows = [(place, whole(place, row, _NEEDED, "lm-eval")) for place, row in read_rows(path)]
    beside = path.with_name(f"results_{named['date']}.json")
    results = json_value(beside) if beside.exists() else {}
    if not isinstance(results, dict):
        raise DataError(beside, None, None, "is no results file of lm-eval")
    version, task = results.get("lm_eval_version"), named["task"]
    shots = (results.get("n-shot") or {}).get(task)
    several = len({row["filter"] for _, row in rows}) > 1
    told = _told((results.get("results") or {}).get(task) or {}, several)
    return ForeignRun(
        tool=f"lm_eval {version}" if version else "lm_eval",
        model=str(results.get("model_name") or path.resolve().parent.name),
        method="lm-eval" if shots is None else f"{shots}-shot",
        dataset=task,
        answers=_joined(each(rows, _answer), several),
        files=[path, *([beside] if results else [])],
        told=told,
        asked=((results.get("n-samples") or {}).get(task) or {}).get("effective"),
        lost=_unscored(rows),
    )


def _answer(place: Place, row: Mapping[str, Any]) -> ForeignAnswer:
    """One line; its scores carry the filter's name."""
    doc = row["doc"] if isinstance(row["doc"], dict) else {}
    arguments = row["arguments"]
    requests = [list(one.values()) for one in arguments.values()] if isinstance(arguments, dict) else arguments
    asked = next((doc[key] for key in _QUESTIONS if isinstance(doc.get(key), str)), requests[0][0])
    likelihoods = _likelihoods(row["resps"])
    if likelihoods:
        options = tuple(str(request[1]).strip() for request in requests)
        prediction = options[likelihoods.index(max(likelihoods))]
        target = str(row["target"])
        gold = (options[int(target)],) if target.isdigit() else texts(row["target"])
    else:
        options, prediction = None, str(row["resps"][0][0])
        gold = next((found for key in _GOLD if (found := texts(doc.get(key) or []))), _gold(row["target"]))
    mark = f".{row['filter']}"
    scores = {name + mark: row[name] for name in row["metrics"] if isinstance(row[name], int | float)}
    return ForeignAnswer(
        place=place,
        id=next((str(doc[key]) for key in _IDS if key in doc), str(row["doc_id"])),
        question=asked,
        answers=gold,
        prediction=prediction,
        scores={name: float(value) for name, value in scores.items()},
        options=options,
        extra=columns(doc, (*_IDS, *_QUESTIONS, *_GOLD, "context", "answer")),
    )


def _likelihoods(replies: Sequence[Any]) -> list[float]:
    """Log-likelihoods of the options, [] for answers that were written; the file holds numbers as texts."""
    try:
        return [float(reply[0][0]) for reply in replies if not isinstance(reply[0], str)]
    except (TypeError, ValueError):
        return []


def _gold(target: Any) -> tuple[str, ...]:
    """The right answers in `target`, where a list may stand as Python's text of it: "['Ada']"."""
    if isinstance(target, str) and target.startswith("["):
        try:
            return texts(ast.literal_eval(target))
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return texts(target)
    return texts(target)


def _joined(answers: Sequence[ForeignAnswer], several: bool) -> list[ForeignAnswer]:
    """The lines of a question's filters as one answer; where there is one filter, scores lose its name."""
    if not several:
        return [replace(a, scores={n.rpartition(".")[0]: v for n, v in a.scores.items()}) for a in answers]
    found: dict[str, ForeignAnswer] = {}
    for answer in answers:
        first = found.get(str(answer.id))
        if first is not None and first.scores.keys() & answer.scores.keys():
            raise answer.place.error("doc_id", f"question '{answer.id}' is answered at {first.place} too")
        found[str(answer.id)] = answer if first is None else replace(first, scores={**first.scores, **answer.scores})
    return list(found.values())


def _told(results: Mapping[str, Any], several: bool) -> dict[str, Told]:
    """The printed means: {"qa_f1_score,none": 0.4, "qa_f1_score_stderr,none": 0.1}."""
    found = {}
    for key, value in results.items():
        name, comma, mark = key.partition(",")
        if not comma or name.endswith("_stderr") or not isinstance(value, int | float):
            continue
        error = results.get(f"{name}_stderr,{mark}")
        stderr = float(error) if isinstance(error, int | float) else None
        found[f"{name}.{mark}" if several else name] = Told(float(value), stderr)
    return found


def _unscored(rows: Sequence[tuple[Place, Mapping[str, Any]]]) -> list[str]:
    """Metrics that have no number for a single question, as BLEU."""
    names = dict.fromkeys(n for _, row in rows for n in row["metrics"] if not isinstance(row.get(n), int | float))
    return [f"{name} has no value for a single question, so it is left out" for name in names]
