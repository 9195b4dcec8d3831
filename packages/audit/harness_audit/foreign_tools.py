"""Files of other tools as foreign runs: `read_foreign(tool, path)`.

inspect          .eval and .json logs of version 2, as inspect_ai 0.3.285 writes them; epochs are repeats
lm-eval          samples_TASK_DATE.jsonl of lm_eval 0.4.13 (--log_samples) with one filter and one reply to a question;
                 results_DATE.json beside it if there; the scores of a filter are METRIC,FILTER
flashrag         intermediate_data.json of FlashRAG; config.yaml beside it
jsonl            lines as docs/guide.md#elsewhere says
"""

import io
import re
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from harness.datasets.archives import opened
from harness.datasets.files import (
    PYTHON_JSON,
    JsonText,
    as_row,
    json_value,
    parse_line,
    read_rows,
)
from harness.datasets.row_places import BrokenRow, RowPlace
from harness.errors import DataError
from harness.storage.yaml_text import parse_yaml
from harness_audit.bundle import zip_problems
from harness_audit.foreign import (
    FORMS,
    ForeignRun,
    as_options,
    check_run,
    parse_answers,
    value_at,
    without_thinking,
)

_Row = Mapping[str, Any]
_Rows = Iterable[tuple[RowPlace, _Row | BrokenRow]]
_ZSTANDARD = 93  # a zip method that Python's zipfile reads from 3.14 on
_VERSION = 2  # of Inspect's logs
_STATES = {"success": "finished", "cancelled": "interrupted", "error": "stopped"}
_USED = {
    "tokens_in": "input_tokens",
    "tokens_out": "output_tokens",
    "tokens_cached": "input_tokens_cache_read",
}
_CORRECT = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}  # Inspect's value_to_float
_SAMPLES = re.compile(r"samples_(?P<task>.+)_(?P<date>\d{4}-\d\d-\d\dT.+)\.jsonl")


def _rows(path: Path) -> _Rows:
    """The rows of a file; NaN and Infinity are numbers, as the tools are written in Python."""
    return read_rows(path, decoder=PYTHON_JSON)


def _read_inspect(path: Path) -> ForeignRun:
    """Read a log of Inspect, .eval or .json. Raises DataError for another version."""
    samples: _Rows
    if path.suffix == ".eval":  # a zip of header.json and samples/ID_epoch_1.json
        (_, log), *_ = [*_eval_entries(path, lambda name: name == "header.json"), (None, None)]
        if not isinstance(log, dict):
            raise DataError(
                path, None, None, "has no header.json that can be read; has the evaluation ended?"
            )
        samples = _eval_entries(path, lambda name: name.startswith("samples/"))
    else:
        log = dict(_log_pairs(path))
        answered = (as_row(value) for key, value in _log_pairs(path) if key == "samples")
        samples = (
            (RowPlace(path.name, row=n), sample) for n, sample in enumerate(answered, start=1)
        )
    if log.get("version") != _VERSION:
        raise DataError(
            path,
            None,
            "version",
            f"is {log.get('version')}, and logs of version {_VERSION} are read",
        )
    if not value_at(log, "eval.model") or not value_at(log, "eval.task"):
        raise DataError(
            path, None, "eval", "says no model or no task; this is no log of Inspect, or a cut one"
        )
    steps = "+".join(str(value_at(step, "solver")) for step in value_at(log, "plan.steps") or ())
    version = value_at(log, "eval.packages.inspect_ai")
    asked, epochs = value_at(log, "results.total_samples"), value_at(log, "eval.config.epochs")
    return ForeignRun(
        tool=f"inspect_ai {version}" if version else "inspect_ai",
        model=str(value_at(log, "eval.model")),
        method=str(value_at(log, "eval.solver") or steps or "inspect"),
        dataset=str(value_at(log, "eval.dataset.name") or value_at(log, "eval.task")),
        answers=parse_answers(samples, FORMS["inspect"], _adjust_inspect),
        files=[path],
        printed_means=dict(  # means only, no other reducer of epochs, such as the best of k
            _printed_mean(score)
            for score in value_at(log, "results.scores") or ()
            if score.get("reducer") in (None, "mean")
        ),
        asked=int(asked or 0) // int(epochs or 1)
        or int(value_at(log, "eval.dataset.samples") or 0),
        state=_STATES.get(str(log.get("status")), "interrupted"),
        started=datetime.fromisoformat(started).isoformat()
        if (started := value_at(log, "stats.started_at"))
        else None,
    )


def _log_pairs(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield (key, value) of a log of Inspect, and ("samples", sample) for each of its samples."""
    with opened(path) as stream:
        text = JsonText(path.name, stream, PYTHON_JSON)
        yield from text.pairs("samples")
        text.end()


def _eval_entries(
    path: Path, wanted: Callable[[str], bool]
) -> Iterator[tuple[RowPlace, _Row | BrokenRow]]:
    """Yield the entries of an .eval file whose names are `wanted`, sorted by name. Raises
    DataError."""
    try:
        with open(path, "rb") as file, zipfile.ZipFile(file) as archive:
            entries = [e for e in archive.infolist() if wanted(e.filename)]
            if problems := list(zip_problems(entries)):
                raise ValueError(problems[0])
            for entry in sorted(entries, key=lambda e: e.filename):
                data = _read_entry(file, archive, entry)
                yield RowPlace(f"{path.name}, {entry.filename}"), parse_line(data, PYTHON_JSON)
    except OSError as error:
        raise DataError(path, None, None, f"cannot be read ({error.strerror})") from None
    except (ValueError, EOFError, NotImplementedError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(path, None, None, f"cannot be read ({error}); is the file cut?") from None


def _read_entry(file: Any, archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    """Read an entry of the zip file open as `file`, also one compressed by zstd. Raises OSError and
    ValueError."""
    if entry.compress_type != _ZSTANDARD:
        return archive.read(entry)
    import pyarrow

    file.seek(
        entry.header_offset + 26
    )  # APPNOTE.TXT 4.3.7: lengths of the name and the extra field, which follow
    lengths = file.read(4)
    file.seek(
        int.from_bytes(lengths[:2], "little") + int.from_bytes(lengths[2:], "little"), io.SEEK_CUR
    )
    packed = pyarrow.BufferReader(file.read(entry.compress_size))
    data: bytes = pyarrow.CompressedInputStream(packed, "zstd").read(entry.file_size)
    if zlib.crc32(data) != entry.CRC:
        raise ValueError(f"{entry.filename} is damaged")
    return data


def _adjust_inspect(row: _Row, values: dict[str, Any]) -> None:
    """Fill in values of a sample of Inspect: the last message, tokens of all models, scores as
    numbers."""
    if not row["output"].get("choices"):  # stopped before it wrote something
        values.setdefault("prediction", "")
    if isinstance(values.get("question"), list):
        values["question"] = value_at(values["question"], f"{len(values['question']) - 1}.content")
    usages = list((row.get("model_usage") or {}).values())
    for name, key in _USED.items():
        if usages and all(usage.get(key) is not None for usage in usages):
            values[name] = sum(usage[key] for usage in usages)
    scores: dict[str, Any] = {}
    for name, score in (row.get("scores") or {}).items():
        value = score["value"]
        scores |= (
            {f"{name}.{k}": v for k, v in value.items()}
            if isinstance(value, dict)
            else {name: value}
        )
    numbers = {name: _CORRECT.get(v, v) if isinstance(v, str) else v for name, v in scores.items()}
    values["scores"] = {name: v for name, v in numbers.items() if isinstance(v, int | float)}


def _printed_mean(score: _Row) -> tuple[str, tuple[float | None, float | None]]:
    """(name, (mean, standard error)) of a score in Inspect's results; the mean of C, P, I, N is
    named accuracy."""
    name = str(
        score["name"]
        if score["name"] == score.get("scorer")
        else f"{score.get('scorer')}.{score['name']}"
    )
    names = ("mean", "accuracy", "stderr")
    mean, accuracy, stderr = (
        _number(value_at(score, f"metrics.{metric}.value")) for metric in names
    )
    return name, (accuracy if mean is None else mean, stderr)


def _read_lm_eval(path: Path) -> ForeignRun:
    """Read samples of lm-eval, and printed means from the results file beside it. Raises DataError
    for another name."""
    if (named := _SAMPLES.fullmatch(path.name)) is None:
        name = "samples_TASK_DATE.jsonl, as in samples_mills_2026-01-02T03-04-05.123456.jsonl"
        raise DataError(path, None, None, f"should have the name that lm-eval gives it: {name}")
    task, beside = named["task"], path.with_name(f"results_{named['date']}.json")
    lost = set[str]()

    def scored(row: _Row, values: dict[str, Any]) -> None:
        if not isinstance(values.get("prediction"), str):
            raise TypeError("answers are log-likelihoods, not texts")
        if len(row["resps"][0]) > 1:
            raise TypeError("a question has several replies, which are scored together")
        mark = "" if row.get("filter") in (None, "none") else f",{row['filter']}"
        numbers = {name: row[name] for name in row["metrics"] if isinstance(row[name], int | float)}
        lost.update({*row["metrics"]} - numbers.keys())
        values["scores"] = {f"{name}{mark}": value for name, value in numbers.items()}
        right, options = str(values.get("answers")), as_options(values.get("options")) or ()
        if (
            right.isdigit() and right not in options and int(right) < len(options)
        ):  # the number of the right choice
            values["answers"] = options[int(right)]

    results = json_value(beside, PYTHON_JSON) if beside.exists() else {}
    version, shots, scores = (
        value_at(results, k) for k in ("lm_eval_version", f"n-shot.{task}", f"results.{task}")
    )
    numbers = {
        key.removesuffix(",none"): _number(v) for key, v in (scores or {}).items() if "," in key
    }
    printed = {key: v for key, v in numbers.items() if v is not None}
    means = {name: value for name, value in printed.items() if "_stderr" not in name}
    errors = {name: printed.get(re.sub("(,|$)", r"_stderr\1", name, count=1)) for name in means}
    answers = parse_answers(_rows(path), FORMS["lm-eval"], scored)
    return ForeignRun(
        tool=f"lm_eval {version}" if version else "lm_eval",
        model=str(
            value_at(results, "model_name")
            or value_at(results, "model_source")
            or path.resolve().parent.name
        ),
        method="lm-eval" if shots is None else f"{shots}-shot",
        dataset=task,
        answers=answers,
        files=[path, *([beside] if results else [])],
        printed_means={name: (mean, errors[name]) for name, mean in means.items()},
        asked=int(value_at(results, f"n-samples.{task}.effective") or 0),
        lost=[
            f"{name} has no value for a single question, so it is left out" for name in sorted(lost)
        ],
    )


def _number(value: Any) -> float | None:
    """`value` if it is a number that a float can hold, else None: NaN is the tools' mark for
    none."""
    return value if isinstance(value, int | float) and abs(value) <= sys.float_info.max else None


def _read_flashrag(path: Path) -> ForeignRun:
    """Read answers of FlashRAG; model, method and data set are those of config.yaml beside it, else
    "unknown"."""
    answers = parse_answers(_rows(path), FORMS["flashrag"])
    beside = path.with_name("config.yaml")
    settings = parse_yaml(beside.read_bytes()) if beside.exists() else {}
    keys = ("generator_model", "save_note", "dataset_name")
    model, method, dataset = (str(value_at(settings, key) or "unknown") for key in keys)
    return ForeignRun(
        "FlashRAG", model, method, dataset, answers, [path, *([beside] if settings else [])]
    )


def _read_jsonl(path: Path) -> ForeignRun:
    answers = parse_answers(_rows(path), FORMS["jsonl"])
    first = next(iter(answers), None)
    model, method = (str(getattr(first, name, None) or "unknown") for name in ("model", "method"))
    return ForeignRun("jsonl", model, method, path.stem, answers, [path])


READERS: Mapping[str, Callable[[Path], ForeignRun]] = {
    "inspect": _read_inspect,
    "lm-eval": _read_lm_eval,
    "flashrag": _read_flashrag,
    "jsonl": _read_jsonl,
}


def read_foreign(tool: str, path: Path, keep_thinking: bool = False) -> ForeignRun:
    """Read a run from a file.

    Args:
        tool: Who wrote it, one of READERS.
        path: The file.
        keep_thinking: Whether what is between the markers of a known reasoning model stays in the
            answers.

    Raises:
        DataError: The file cannot be used.
    """
    try:
        run = check_run(READERS[tool](path))
        return run if keep_thinking else without_thinking(run)
    except (
        AttributeError,
        KeyError,
        OSError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        raise DataError(
            path, None, None, f"is not of the form that is read ({error}); another version?"
        ) from None
