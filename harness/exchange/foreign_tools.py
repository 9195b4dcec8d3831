"""Files of other tools as foreign runs: `read_foreign(tool, path)`.

inspect          .eval and .json logs of version 2, as inspect_ai 0.3.285 writes them
lm-eval          samples_TASK_DATE.jsonl of lm_eval 0.4.13 (--log_samples), with results_DATE.json beside it if there
flashrag         intermediate_data.json of FlashRAG; config.yaml beside it
longbench        pred/MODEL/TASK.jsonl of LongBench, results/MODEL.jsonl of LongBench v2
infinitebench    results/MODEL/preds_TASK.jsonl of InfiniteBench
jsonl            lines as docs/guide.md#elsewhere says
"""

import io
import re
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from harness.datasets.files import Broken, RowPlace, json_value, parse_line, read_rows
from harness.errors import DataError
from harness.exchange.bundle import zip_problems
from harness.exchange.foreign import FORMS, ForeignRun, check_run, parse_answers, value_at
from harness.exchange.inspect_logs import STATES, USED, VERSION
from harness.storage.input_limits import limit
from harness.storage.untrusted import parse_yaml, read_plain, regular_only

_Row = Mapping[str, Any]
_Rows = Iterable[tuple[RowPlace, _Row | Broken]]
_ZSTANDARD = 93  # a zip method that Python's zipfile reads from 3.14 on
_CORRECT = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}  # Inspect's value_to_float
_SAMPLES = re.compile(r"samples_(?P<task>.+)_(?P<date>\d{4}-\d\d-\d\dT.+)\.jsonl")
_LETTERS = "ABCD"


def _read_inspect(path: Path) -> ForeignRun:
    """Read a log of Inspect, .eval or .json. Raises DataError for another version, and for repeated questions."""
    log, rows = _read_eval_log(path) if path.suffix == ".eval" else _read_json_log(path)
    if log.get("version") != VERSION:
        raise DataError(path, None, "version", f"is {log.get('version')}, and logs of version {VERSION} are read")
    if not value_at(log, "eval.model") or not value_at(log, "eval.task"):
        raise DataError(path, None, "eval", "says no model or no task; this is no log of Inspect, or a cut one")
    rows = list(rows)
    if repeated := [place for place, row in rows if value_at(row, "epoch") not in (None, 1)]:
        raise repeated[0].error("epoch", "a question is asked several times; run it with --epochs 1")
    steps = "+".join(str(value_at(step, "solver")) for step in value_at(log, "plan.steps") or ())
    version, states = value_at(log, "eval.packages.inspect_ai"), {told: own for own, told in STATES.items()}
    return ForeignRun(
        tool=f"inspect_ai {version}" if version else "inspect_ai",
        model=str(value_at(log, "eval.model")),
        method=str(value_at(log, "eval.solver") or steps or "inspect"),
        dataset=str(value_at(log, "eval.dataset.name") or value_at(log, "eval.task")),
        answers=parse_answers(rows, FORMS["inspect"], _adjust_inspect),
        files=[path],
        told=dict(map(_printed_mean, value_at(log, "results.scores") or ())),
        asked=int(value_at(log, "results.total_samples") or value_at(log, "eval.dataset.samples") or 0),
        state=states.get(str(log.get("status")), "interrupted"),
        started=datetime.fromisoformat(started).isoformat() if (started := value_at(log, "stats.started_at")) else None,
    )


def _read_json_log(path: Path) -> tuple[_Row, _Rows]:
    log = json_value(path)
    samples = enumerate(value_at(log, "samples") or (), start=1)
    return log if isinstance(log, dict) else {}, ((RowPlace(path.name, row=n), sample) for n, sample in samples)


def _read_eval_log(path: Path) -> tuple[_Row, _Rows]:
    """Read (header, samples with their places) of an .eval file, a zip of header.json and samples/ID_epoch_1.json."""
    try:
        with open(path, "rb", opener=regular_only) as file, zipfile.ZipFile(file) as archive:
            wanted = [e for e in archive.infolist() if e.filename == "header.json" or e.filename.startswith("samples/")]
            if problems := list(zip_problems(wanted)):
                raise ValueError(problems[0])
            data = {entry.filename: parse_line(_read_entry(file, archive, entry)) for entry in wanted}
    except OSError as error:
        raise DataError(path, None, None, f"cannot be read ({error.strerror})") from None
    except (ValueError, EOFError, NotImplementedError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(path, None, None, f"cannot be read ({error}); is the file cut?") from None
    header = data.pop("header.json", None)
    if not isinstance(header, dict):
        raise DataError(path, None, None, "has no header.json that can be read; has the evaluation ended?")
    return header, ((RowPlace(f"{path.name}, {name}"), data[name]) for name in sorted(data))


def _read_entry(file: Any, archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    """Read an entry of the zip file open as `file`, also one compressed by zstd. Raises OSError and ValueError."""
    if entry.file_size > limit("LINE_MIB") << 20:
        raise ValueError(f"{entry.filename} is longer than {limit('LINE_MIB')} MiB")
    if entry.compress_type != _ZSTANDARD:
        return archive.read(entry)
    import pyarrow

    file.seek(entry.header_offset + 26)  # APPNOTE.TXT 4.3.7: lengths of the name and the extra field, which follow
    lengths = file.read(4)
    file.seek(int.from_bytes(lengths[:2], "little") + int.from_bytes(lengths[2:], "little"), io.SEEK_CUR)
    packed = pyarrow.BufferReader(file.read(entry.compress_size))
    data: bytes = pyarrow.CompressedInputStream(packed, "zstd").read(entry.file_size)
    if zlib.crc32(data) != entry.CRC:
        raise ValueError(f"{entry.filename} is damaged")
    return data


def _adjust_inspect(row: _Row, values: dict[str, Any]) -> None:
    """Fill in values of a sample of Inspect: the last message, tokens of all models, scores as numbers."""
    if not row["output"].get("choices"):  # stopped before it wrote something
        values.setdefault("prediction", "")
    if isinstance(values.get("question"), list):
        values["question"] = value_at(values["question"], f"{len(values['question']) - 1}.content")
    usages = list((row.get("model_usage") or {}).values())
    for name, key in USED.items():
        if usages and all(usage.get(key) is not None for usage in usages):
            values[name] = sum(usage[key] for usage in usages)
    scores: dict[str, Any] = {}
    for name, score in (row.get("scores") or {}).items():
        value = score["value"]
        scores |= {f"{name}.{k}": v for k, v in value.items()} if isinstance(value, dict) else {name: value}
    numbers = {name: _CORRECT.get(v, v) if isinstance(v, str) else v for name, v in scores.items()}
    values["scores"] = {name: v for name, v in numbers.items() if isinstance(v, int | float)}


def _printed_mean(score: _Row) -> tuple[str, tuple[float | None, float | None]]:
    """(name, (mean, standard error)) of a score in Inspect's results; the mean of C, P, I, N is named accuracy."""
    name = str(score["name"] if score["name"] == score.get("scorer") else f"{score.get('scorer')}.{score['name']}")
    told = [value_at(score, f"metrics.{metric}.value") for metric in ("mean", "accuracy", "stderr")]
    mean, accuracy, stderr = (value if isinstance(value, int | float) else None for value in told)
    return name, (accuracy if mean is None else mean, stderr)


def _read_lm_eval(path: Path) -> ForeignRun:
    """Read samples of lm-eval, and printed means from the results file beside it. Raises DataError for another name."""
    if (named := _SAMPLES.fullmatch(path.name)) is None:
        raise DataError(path, None, None, "should be named samples_TASK_DATE.jsonl, as lm-eval names it")
    task, beside = named["task"], path.with_name(f"results_{named['date']}.json")
    lost: set[str] = set()

    def scored(row: _Row, values: dict[str, Any]) -> None:
        if not isinstance(values.get("prediction"), str):
            raise TypeError("answers are log-likelihoods, not texts")
        values["scores"] = {name: row[name] for name in row["metrics"] if isinstance(row[name], int | float)}
        lost.update({*row["metrics"]} - values["scores"].keys())

    found = parse_answers(read_rows(path), FORMS["lm-eval"], scored)
    results = json_value(beside) if beside.exists() else {}
    version, shots, told = (value_at(results, key) for key in ("lm_eval_version", f"n-shot.{task}", f"results.{task}"))
    printed = {
        key.partition(",")[::2]: v for key, v in (told or {}).items() if isinstance(v, int | float) and "," in key
    }
    return ForeignRun(
        tool=f"lm_eval {version}" if version else "lm_eval",
        model=str(value_at(results, "model_name") or value_at(results, "model_source") or path.resolve().parent.name),
        method="lm-eval" if shots is None else f"{shots}-shot",
        dataset=task,
        answers=found,
        files=[path, *([beside] if results else [])],
        told={name: (mean, printed.get((f"{name}_stderr", mark))) for (name, mark), mean in printed.items()},
        asked=int(value_at(results, f"n-samples.{task}.effective") or 0),
        lost=[f"{name} has no value for a single question, so it is left out" for name in sorted(lost)],
    )


def _read_flashrag(path: Path) -> ForeignRun:
    """Read answers of FlashRAG; model, method and data set are those of config.yaml beside it, else "unknown"."""
    found, beside = parse_answers(read_rows(path), FORMS["flashrag"]), path.with_name("config.yaml")
    told = parse_yaml(read_plain(beside)) if beside.exists() else {}
    keys = ("generator_model", "save_note", "dataset_name")
    model, method, dataset = (str(value_at(told, key) or "unknown") for key in keys)
    return ForeignRun("FlashRAG", model, method, dataset, found, [path, *([beside] if told else [])])


def _read_longbench(path: Path) -> ForeignRun:
    found = parse_answers(read_rows(path), FORMS["longbench"], _adjust_longbench_v2)
    if any(answer.id for answer in found):
        return ForeignRun("LongBench v2", path.stem, "longbench-v2", path.stem, found, [path], "longbench-v2")
    return ForeignRun("LongBench", path.resolve().parent.name, "longbench", path.stem, found, [path], "longbench")


def _adjust_longbench_v2(row: _Row, values: dict[str, Any]) -> None:
    """Fill in a row of LongBench v2: the raw reply, the options, and the extra inputs of its scorers."""
    if "response" not in row:
        return
    options, label = [row[f"choice_{letter}"] for letter in _LETTERS], _LETTERS.index(row["answer"])
    values |= {"prediction": row["response"], "options": options, "answers": options[label]}
    named = {"level": row["difficulty"], "length_class": row["length"], "type": row["domain"]}
    values["extra"] = {"gold_label": label + 1, "all_classes": options, **named}


def _read_infinitebench(path: Path) -> ForeignRun:
    """Read answers of InfiniteBench; the folder's name is the model. Raises DataError for another file name."""

    def labelled(_: _Row, values: dict[str, Any]) -> None:
        right = values.get("answers")
        if "choice" in path.stem and isinstance(right, list) and right[-1] in tuple(_LETTERS):  # text and letter
            values |= {"answers": right[:-1], "extra": {"gold_label": _LETTERS.index(right[-1]) + 1}}

    if not path.stem.startswith("preds_"):
        raise DataError(path, None, None, "should be named preds_TASK.jsonl, as InfiniteBench names it")
    found, task = parse_answers(read_rows(path), FORMS["infinitebench"], labelled), path.stem.removeprefix("preds_")
    model = path.resolve().parent.name
    return ForeignRun("InfiniteBench", model, "infinitebench", task, found, [path], "infinitebench")


def _read_jsonl(path: Path) -> ForeignRun:
    found = parse_answers(read_rows(path), FORMS["jsonl"])
    first = found[0] if found else None
    model, method = (str(getattr(first, name, None) or "unknown") for name in ("model", "method"))
    return ForeignRun("jsonl", model, method, path.stem, found, [path])


READERS: Mapping[str, Callable[[Path], ForeignRun]] = {
    "inspect": _read_inspect,
    "lm-eval": _read_lm_eval,
    "flashrag": _read_flashrag,
    "longbench": _read_longbench,
    "infinitebench": _read_infinitebench,
    "jsonl": _read_jsonl,
}


def read_foreign(tool: str, path: Path) -> ForeignRun:
    """Read a run from a file of `tool`, one of READERS. Raises DataError for a file that cannot be used."""
    try:
        return check_run(READERS[tool](path))
    except (AttributeError, KeyError, OSError, TypeError, ValueError, yaml.YAMLError) as error:
        raise DataError(path, None, None, f"is not of the form that is read ({error}); another version?") from None
