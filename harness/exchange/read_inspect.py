"""A log of Inspect as a foreign run: .eval, its usual form, and .json; both of version 2.

    read(Path("logs/2026-01-02T03-04-05_hotpotqa_x.eval"))

An .eval file is a zip file with header.json and samples/ID_epoch_1.json, packed by zstandard, which Python's zipfile
does not read before 3.14. Letters are scored as Inspect's value_to_float does: C 1, P 0.5, I and N 0; a score of
several values becomes one score each. What inspect_ai 0.3.285 writes was read here.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.datasets.files import Place, json_value, parse_line
from harness.errors import DataError
from harness.exchange.bundle import zip_problems
from harness.exchange.foreign import ForeignAnswer, ForeignRun, Told, columns, each, one_of, text, texts, whole
from harness.storage.limits import limit
from harness.storage.untrusted import as_object, plain

_VERSION = 2
_ZSTANDARD = 93
_LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
_STATES = {"success": "finished", "cancelled": "interrupted", "error": "stopped", "started": "interrupted"}
_USED = {"tokens_in": "input_tokens", "tokens_out": "output_tokens", "tokens_cached": "input_tokens_cache_read"}
_NEEDED = ("id", "epoch", "input", "target", "output")


def read(path: Path) -> ForeignRun:
    """The run in the log at `path`. Raises DataError for a damaged log, another version, and several models."""
    header, samples = _packed(path) if path.suffix == ".eval" else _plain(path)
    if header.get("version") != _VERSION:
        raise DataError(
            path, None, "version", f"the log has version {header.get('version')}, and version {_VERSION} is read"
        )
    start = Place(path.name)
    spec = whole(start, header.get("eval") or {}, ("model", "task", "dataset"), "Inspect")
    rows = [(place, whole(place, row, _NEEDED, "Inspect")) for place, row in samples]
    if epochs := {row["epoch"] for _, row in rows} - {1}:
        raise DataError(path, None, "epoch", f"asks each question {max(epochs)} times; run it with --epochs 1")
    model, answers = str(spec["model"]), each(rows, _answer)
    one_of([(start, model), *((p, str(used)) for p, row in rows for used in _writers(row, spec))], "model")
    steps = [str(step.get("solver")) for step in (header.get("plan") or {}).get("steps") or ()]
    version = (spec.get("packages") or {}).get("inspect_ai")
    return ForeignRun(
        tool=f"inspect_ai {version}" if version else "inspect_ai",
        model=model,
        method=str(spec.get("solver") or "+".join(steps) or "inspect"),
        dataset=str(spec["dataset"].get("name") or spec["task"]),
        answers=answers,
        files=[path],
        told=_told(header.get("results") or {}),
        asked=(header.get("results") or {}).get("total_samples") or spec["dataset"].get("samples"),
        state=_STATES.get(str(header.get("status")), "interrupted"),
        started=(header.get("stats") or {}).get("started_at") or None,
    )


def _plain(path: Path) -> tuple[Mapping[str, Any], Iterator[tuple[Place, Any]]]:
    log = json_value(path)
    if not isinstance(log, dict):
        raise DataError(path, None, None, "is no log of Inspect")
    samples = log.pop("samples", None) or ()
    return log, ((Place(path.name, row=n), sample) for n, sample in enumerate(samples, start=1))


def _packed(path: Path) -> tuple[Mapping[str, Any], Iterator[tuple[Place, Any]]]:
    """The header and the samples of an .eval file, in the order of the samples' names."""
    try:
        data = _members(path)
        if "header.json" not in data:
            raise DataError(path, None, None, "has no header.json, because its evaluation did not end; end it first")
        header = as_object(data["header.json"])
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise DataError(path, None, None, f"cannot be read ({error}); is the file cut?") from None
    names = sorted(name for name in data if name.startswith("samples/"))
    return header, ((Place(f"{path.name}, {name}"), parse_line(data[name])) for name in names)


def _members(path: Path) -> dict[str, bytes]:
    with open(path, "rb", opener=plain) as file, zipfile.ZipFile(file) as archive:
        entries = archive.infolist()
        for problem in zip_problems(entries):
            raise DataError(path, None, None, f"{problem}; such a log is not read")
        return {entry.filename: _member(file, archive, entry) for entry in entries}


def _member(file: Any, archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    """The bytes of an entry. Raises OSError and ValueError for damaged or too long ones."""
    if entry.file_size > limit("LINE_MIB") << 20:
        raise ValueError(f"{entry.filename} is longer than {limit('LINE_MIB')} MiB")
    if entry.compress_type != _ZSTANDARD:
        return archive.read(entry)
    import pyarrow

    file.seek(entry.header_offset + 26)  # APPNOTE.TXT 4.3.7: lengths of name and extra field, which then follow
    lengths = file.read(4)
    file.seek(int.from_bytes(lengths[:2], "little") + int.from_bytes(lengths[2:], "little"), io.SEEK_CUR)
    packed = pyarrow.BufferReader(file.read(entry.compress_size))
    data: bytes = pyarrow.CompressedInputStream(packed, "zstd").read(entry.file_size + 1)
    if len(data) != entry.file_size:
        raise ValueError(f"{entry.filename} has not the length that the archive says")
    return data


def _writers(row: Mapping[str, Any], spec: Mapping[str, Any]) -> list[str]:
    """The models that answered, where they are not those of the log's roles (a grader is no writer)."""
    model = (row["output"] or {}).get("model")
    short = str(spec["model"]).partition("/")[2]
    return [str(spec["model"])] if model in (None, "", short, spec["model"]) else [str(model)]


def _answer(place: Place, row: Mapping[str, Any]) -> ForeignAnswer:
    choices = (row["output"] or {}).get("choices") or [{}]
    options, error = row.get("choices"), row.get("error")
    return ForeignAnswer(
        place=place,
        id=text(place, "id", row["id"]),
        question=_said(row["input"] if isinstance(row["input"], str) else (row["input"] or [{}])[-1].get("content")),
        answers=texts(row["target"]),
        prediction=_said((choices[0].get("message") or {}).get("content")),
        scores=dict(_scores(row.get("scores") or {})),
        options=tuple(map(str, options)) if options else None,
        extra=columns(row.get("metadata") or {}, ()),
        costs=_costs(row),
        error=None if error is None else str(error.get("message")),
    )


def _said(content: Any) -> str:
    """The text of a message, which may be a list of parts; reasoning is no part of the answer."""
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if part.get("type") == "text")
    return str(content or "")


def _costs(row: Mapping[str, Any]) -> dict[str, float]:
    """Tokens of all models that the sample called, and seconds without waiting."""
    usages = list((row.get("model_usage") or {}).values())
    told = {
        name: sum(usage.get(key) or 0 for usage in usages)
        for name, key in _USED.items()
        if usages and all(usage.get(key) is not None for usage in usages)
    }
    seconds = row.get("working_time")
    return told if seconds is None else {**told, "seconds": float(seconds)}


def _scores(scores: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for name, score in scores.items():
        value = score.get("value")
        for key, one in value.items() if isinstance(value, dict) else [("", value)]:
            number = _LETTERS.get(one) if isinstance(one, str) else one
            if isinstance(number, int | float):
                yield f"{name}.{key}" if key else name, float(number)


def _told(results: Mapping[str, Any]) -> dict[str, Told]:
    """The printed means; Inspect calls that of letters accuracy."""
    found = {}
    for score in results.get("scores") or ():
        metrics = {name: metric.get("value") for name, metric in (score.get("metrics") or {}).items()}
        mean = metrics.get("mean", metrics.get("accuracy"))
        name = score["scorer"] if score["name"] == score["scorer"] else f"{score['scorer']}.{score['name']}"
        if isinstance(mean, int | float):
            found[name] = Told(float(mean), metrics.get("stderr"))
    return found
