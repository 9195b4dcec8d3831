"""Files of predictions as foreign runs: a JSON object for each question, with or without a configuration beside them.

flashrag(path)        intermediate_data.json of FlashRAG; config.yaml and metric_score.txt in the same folder
longbench(path)       pred/MODEL/TASK.jsonl of LongBench; of LongBench v2 results/MODEL.jsonl
infinitebench(path)   results/MODEL/preds_TASK.jsonl of InfiniteBench
jsonl(path)           anything else, written as docs/guide.md#elsewhere says

Their forms were read in the repositories RUC-NLPIR/FlashRAG, THUDM/LongBench and OpenBMB/InfiniteBench.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from harness.datasets.files import Place, read_rows
from harness.errors import DataError
from harness.exchange.foreign import COSTS, ForeignAnswer, ForeignRun, Told, columns, each, one_of, text, texts, whole
from harness.storage.untrusted import parse_yaml, read_plain

_LETTERS = "ABCD"
_Rows = list[tuple[Place, Mapping[str, Any]]]


def _rows(path: Path, needed: Sequence[str], tool: str) -> _Rows:
    return [(place, whole(place, row, needed, tool)) for place, row in read_rows(path)]


def flashrag(path: Path) -> ForeignRun:
    """The run in FlashRAG's intermediate_data.json. Raises DataError."""

    def answer(place: Place, row: Mapping[str, Any]) -> ForeignAnswer:
        output = whole(place, row["output"], ("pred",), "FlashRAG")
        return ForeignAnswer(
            place=place,
            id=None if row.get("id") is None else text(place, "id", row["id"]),
            question=text(place, "question", row["question"]),
            answers=texts(row["golden_answers"]),
            prediction=text(place, "output.pred", output["pred"]),
            scores={name: float(value) for name, value in (output.get("metric_score") or {}).items()},
            options=tuple(map(str, row.get("choices") or ())) or None,
            extra=columns(row.get("metadata") or {}, ()),
        )

    settings, printed = path.with_name("config.yaml"), path.with_name("metric_score.txt")
    told = _object(settings) if settings.exists() else {}
    lines = read_plain(printed).decode(errors="replace").splitlines() if printed.exists() else []
    means = dict(line.partition(": ")[::2] for line in lines if ": " in line)
    return ForeignRun(
        tool="FlashRAG",
        model=str(told.get("generator_model") or "unknown"),
        method=str(told.get("save_note") or "flashrag"),
        dataset=str(told.get("dataset_name") or path.resolve().parent.name),
        answers=each(_rows(path, ("question", "golden_answers", "output"), "FlashRAG"), answer),
        files=[path, *(one for one in (settings, printed) if one.exists())],
        told={name: Told(float(value)) for name, value in means.items() if _is_number(value)},
    )


def _object(path: Path) -> Mapping[str, Any]:
    try:
        value = parse_yaml(read_plain(path))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise DataError(path, None, None, f"cannot be read ({error})") from None
    return value if isinstance(value, dict) else {}


def _is_number(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True


def longbench(path: Path) -> ForeignRun:
    """The run in a file of LongBench or LongBench v2. Raises DataError."""
    rows = _rows(path, (), "LongBench")
    if rows and "response" in rows[0][1]:
        return _longbench_v2(path, rows)

    def answer(place: Place, row: Mapping[str, Any]) -> ForeignAnswer:
        whole(place, row, ("pred", "answers"), "LongBench")
        extra = {key: row[key] for key in ("length", "all_classes") if row.get(key) is not None}
        return ForeignAnswer(place, None, None, texts(row["answers"]), text(place, "pred", row["pred"]), extra=extra)

    model = path.resolve().parent.name
    return ForeignRun("LongBench", model, "longbench", path.stem, each(rows, answer), [path], form="longbench")


def _longbench_v2(path: Path, rows: _Rows) -> ForeignRun:
    def answer(place: Place, row: Mapping[str, Any]) -> ForeignAnswer:
        whole(place, row, ("_id", "question", "answer", "response", "difficulty", "length"), "LongBench v2")
        options = tuple(str(row[f"choice_{letter}"]) for letter in _LETTERS)
        label = _LETTERS.index(row["answer"])
        extra = {"gold_label": label + 1, "all_classes": list(options), "level": row["difficulty"]}
        return ForeignAnswer(
            place=place,
            id=text(place, "_id", row["_id"]),
            question=text(place, "question", row["question"]),
            answers=(options[label],),
            prediction=text(place, "response", row["response"]),
            scores={"judge": float(row["judge"])} if isinstance(row.get("judge"), bool) else {},
            options=options,
            extra={**extra, "length_class": row["length"], "type": row.get("domain", "")},
        )

    answers = each(rows, answer)
    return ForeignRun("LongBench v2", path.stem, "longbench-v2", path.stem, answers, [path], form="longbench_v2")


def infinitebench(path: Path) -> ForeignRun:
    """The run in a prediction file of InfiniteBench. Raises DataError."""
    if not path.stem.startswith("preds_"):
        raise DataError(path, None, None, "should be named preds_TASK.jsonl, as InfiniteBench names it")
    task = path.stem.removeprefix("preds_")

    def answer(place: Place, row: Mapping[str, Any]) -> ForeignAnswer:
        prediction = row.get("prediction", row.get("pred"))
        gold = row.get("ground_truth", row.get("label"))
        if prediction is None or gold is None:
            raise place.error("prediction", "no answer (prediction, pred) or no right one (ground_truth, label)")
        right, label = list(texts(gold)), {}
        if "choice" in task and right[-1] in tuple(_LETTERS):  # the option's text and its letter
            label = {"gold_label": _LETTERS.index(right.pop()) + 1}
        key = None if row.get("id") is None else text(place, "id", row["id"])
        return ForeignAnswer(place, key, None, tuple(right), text(place, "prediction", prediction), extra=label)

    answers, model = each(_rows(path, (), "InfiniteBench"), answer), path.resolve().parent.name
    return ForeignRun("InfiniteBench", model, "infinitebench", task, answers, [path], form="infinitebench")


_OWN = ("id", "question", "answers", "answer", "prediction", "scores", "options", "error", "model", "method", *COSTS)


def jsonl(path: Path) -> ForeignRun:
    """The run in a file of JSON lines. Raises DataError, also for several models or methods in one file."""

    def answer(place: Place, row: Mapping[str, Any]) -> ForeignAnswer:
        error = row.get("error")
        if error is None and "prediction" not in row:
            raise place.error("prediction", "is missing, and there is no 'error' that says why")
        question = row.get("question")
        return ForeignAnswer(
            place=place,
            id=None if row.get("id") is None else text(place, "id", row["id"]),
            question=None if question is None else text(place, "question", question),
            answers=texts(row.get("answers", row.get("answer", []))),
            prediction="" if error is not None else text(place, "prediction", row["prediction"]),
            scores={name: float(value) for name, value in (row.get("scores") or {}).items()},
            options=tuple(map(str, row.get("options") or ())) or None,
            extra=columns(row, _OWN),
            costs={name: kind(row[name]) for name, kind in COSTS.items() if row.get(name) is not None},
            error=None if error is None else str(error),
        )

    rows = _rows(path, (), "JSON lines")
    model, method = (
        one_of([(place, str(row.get(key, "unknown"))) for place, row in rows] or [(Place(path.name), "")], key)
        for key in ("model", "method")
    )
    return ForeignRun("jsonl", model, method, path.stem, each(rows, answer), [path])
