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
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from harness.datasets.archives import opened
from harness.datasets.files import (
    PYTHON_JSON,
    JsonText,
    as_row,
    parse_line,
    read_json_value,
    read_rows,
)
from harness.datasets.row_places import BrokenRow, RowPlace
from harness.errors import DataError
from harness.storage.yaml_text import parse_yaml
from harness_audit.bundle import zip_problems
from harness_audit.foreign import (
    FORMS,
    ForeignRow,
    ForeignRun,
    as_options,
    check_run,
    parse_answers,
    value_at,
    without_thinking,
)

_Rows = Iterable[tuple[RowPlace, ForeignRow | BrokenRow]]
_ZSTANDARD = 93  # a zip method that Python's zipfile reads from 3.14 on
_VERSION = 2  # of Inspect's logs
_STATES = {"success": "finished", "cancelled": "interrupted", "error": "stopped"}
_TOKEN_COUNTS = {
    "tokens_in": "input_tokens",
    "tokens_out": "output_tokens",
    "tokens_cached": "input_tokens_cache_read",
}
"""Field of ForeignAnswer -> where Inspect has it in what one model used."""
_CORRECT = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}  # Inspect's value_to_float
_SAMPLES = re.compile(r"samples_(?P<task>.+)_(?P<date>\d{4}-\d\d-\d\dT.+)\.jsonl")


def _rows(path: Path) -> _Rows:
    """Read the rows of a file of JSON lines or of one JSON list, each with its place in the file.
    NaN and Infinity are read as numbers, since the tools are written in Python."""
    return read_rows(path, decoder=PYTHON_JSON)


def _read_inspect(path: Path) -> ForeignRun:
    """Read a log of Inspect, .eval or .json. Raises DataError for one that cannot be read, or of
    another version."""
    samples: _Rows
    if path.suffix == ".eval":  # a zip of header.json and samples/ID_epoch_1.json
        log = _eval_header(path)
        samples = _eval_entries(path, lambda name: name.startswith("samples/"))
    else:
        log = dict(_log_pairs(path))
        samples = _log_samples(path)
    _check_inspect(path, log)
    tool = "inspect_ai"
    version = value_at(log, "eval.packages.inspect_ai")
    if version:
        tool = f"inspect_ai {version}"
    return ForeignRun(
        tool=tool,
        model=str(value_at(log, "eval.model")),
        method=_inspect_method(log),
        dataset=str(value_at(log, "eval.dataset.name") or value_at(log, "eval.task")),
        answers=parse_answers(samples, FORMS["inspect"], _adjust_inspect),
        files=[path],
        printed_means=_inspect_means(log),
        n_to_answer=_inspect_questions(log),
        state=_STATES.get(str(log.get("status")), "interrupted"),
        started=_inspect_start(log),
    )


def _eval_header(path: Path) -> ForeignRow:
    """The content of header.json in an .eval file: settings and results of the evaluation. Raises
    DataError where there is none."""
    _, header = next(_eval_entries(path, lambda name: name == "header.json"), (None, None))
    if not isinstance(header, dict):
        raise DataError.of_file(
            path, "has no header.json that can be read; has the evaluation ended?"
        )
    return header


def _log_samples(path: Path) -> _Rows:
    """Yield each sample of a .json log with its place: the file's name and a number from 1."""
    number = 0
    for key, value in _log_pairs(path):
        if key == "samples":
            number += 1
            yield RowPlace(path.name, row=number), as_row(value)


def _check_inspect(path: Path, log: ForeignRow) -> None:
    """Raise DataError for a log of another version, or one that names no model or no task.

    Args:
        path: The file, to be named in the error.
        log: Its settings and results.
    """
    version = log.get("version")
    if version != _VERSION:
        problem = f"is {version}, and logs of version {_VERSION} are read"
        raise DataError(path, line=None, field="version", problem=problem)
    if not value_at(log, "eval.model") or not value_at(log, "eval.task"):
        problem = "says no model or no task; this is no log of Inspect, or a cut one"
        raise DataError(path, line=None, field="eval", problem=problem)


def _inspect_method(log: ForeignRow) -> str:
    """What an imported run calls its method: the solver of a log, else the solvers of its steps,
    joined ("generate+self_critique"), else "inspect"."""
    solver = value_at(log, "eval.solver")
    if solver:
        return str(solver)
    steps = value_at(log, "plan.steps") or ()
    return "+".join(str(value_at(step, "solver")) for step in steps) or "inspect"


def _inspect_means(log: ForeignRow) -> dict[str, tuple[float | None, float | None]]:
    """Name of a score -> (mean, standard error) as Inspect printed them.

    Only means over epochs are taken, no other reducer of epochs such as the best of k.
    """
    means: dict[str, tuple[float | None, float | None]] = {}
    for score in value_at(log, "results.scores") or ():
        if score.get("reducer") in (None, "mean"):
            name, mean = _printed_mean(score)
            means[name] = mean
    return means


def _inspect_questions(log: ForeignRow) -> int:
    """How many questions were asked, each counted once for all its epochs; 0 where the log does not
    say."""
    samples = int(value_at(log, "results.total_samples") or 0)
    epochs = int(value_at(log, "eval.config.epochs") or 1)
    return samples // epochs or int(value_at(log, "eval.dataset.samples") or 0)


def _inspect_start(log: ForeignRow) -> str | None:
    """When the evaluation started, in ISO format; None where the log does not say."""
    started = value_at(log, "stats.started_at")
    if not started:
        return None
    return datetime.fromisoformat(started).isoformat()


def _log_pairs(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield (key, value) for each key of a .json log, and instead of the list of samples
    ("samples", sample) for each of these, so that they are never in memory together."""
    with opened(path) as stream:
        text = JsonText(path.name, stream, PYTHON_JSON)
        yield from text.next_object("samples")
        text.require_end()


def _eval_entries(
    path: Path, wanted: Callable[[str], bool]
) -> Iterator[tuple[RowPlace, ForeignRow | BrokenRow]]:
    """Yield the JSON files in an .eval file, a zip, each parsed (or as a BrokenRow) and with its
    place, sorted by name.

    Args:
        path: The .eval file.
        wanted: Whether to read the file of that name.

    Raises:
        DataError: The file is no zip, is damaged, or must not be read (see `bundle.zip_problems`).
    """
    try:
        with open(path, "rb") as file, zipfile.ZipFile(file) as archive:
            entries = [e for e in archive.infolist() if wanted(e.filename)]
            problem = next(zip_problems(entries), None)
            if problem is not None:
                raise ValueError(problem)
            for entry in sorted(entries, key=lambda e: e.filename):
                data = _read_entry(file, archive, entry)
                yield RowPlace(f"{path.name}, {entry.filename}"), parse_line(data, PYTHON_JSON)
    except OSError as error:
        raise DataError.of_file(path, f"cannot be read ({error.strerror})") from None
    except (ValueError, EOFError, NotImplementedError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError.of_file(path, f"cannot be read ({error}); is the file cut?") from None


def _read_entry(file: Any, archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    """Read one file out of a zip, also where it is compressed by zstd, which Python's zipfile
    cannot do.

    Args:
        file: The zip file, open for bytes.
        archive: The same, as Python's zipfile reads it.
        entry: Which file in it.

    Raises:
        OSError: The file cannot be read.
        ValueError: The entry is damaged.
    """
    if entry.compress_type != _ZSTANDARD:
        return archive.read(entry)
    import pyarrow

    # Local file header (APPNOTE.TXT 4.3.7): 26 bytes in stand the lengths of the name and of the
    # extra field; name, extra field and then the packed bytes follow.
    file.seek(entry.header_offset + 26)
    name_length = int.from_bytes(file.read(2), "little")
    extra_length = int.from_bytes(file.read(2), "little")
    file.seek(name_length + extra_length, io.SEEK_CUR)
    packed = pyarrow.BufferReader(file.read(entry.compress_size))
    data: bytes = pyarrow.CompressedInputStream(packed, "zstd").read(entry.file_size)
    if zlib.crc32(data) != entry.CRC:
        raise ValueError(f"{entry.filename} is damaged")
    return data


def _adjust_inspect(row: ForeignRow, values: dict[str, object]) -> None:
    """Fill in what a sample of Inspect has in another form than a ForeignAnswer: changes `values`.

    Of a list of messages the question is the last one. A sample that wrote nothing has the
    prediction "". Tokens are those of all models together, where all of them are known. Of scores,
    those stay that are numbers:

        {"choice": {"value": "C"}}       -> {"choice": 1.0}
        {"qa": {"value": {"f1": 0.5}}}   -> {"qa.f1": 0.5}

    Args:
        row: The sample.
        values: Field of ForeignAnswer -> value; changed.
    """
    if not row["output"].get("choices"):  # stopped before it wrote something
        values.setdefault("prediction", "")
    question = values.get("question")
    if isinstance(question, list):
        values["question"] = value_at(question, f"{len(question) - 1}.content")
    usages = list((row.get("model_usage") or {}).values())
    for name, key in _TOKEN_COUNTS.items():
        counts = [usage.get(key) for usage in usages]
        if counts and None not in counts:
            values[name] = sum(counts)
    scores: dict[str, float] = {}
    for name, score in (row.get("scores") or {}).items():
        value = score["value"]
        values_by_score = {name: value}
        if isinstance(value, dict):
            values_by_score = {f"{name}.{part}": part_value for part, part_value in value.items()}
        scores.update(_numbers(values_by_score))
    values["scores"] = scores


def _numbers(scores: Mapping[str, object]) -> dict[str, float]:
    """The scores of a sample of Inspect as numbers: C (correct) is 1, P (partly) 0.5, I and N 0;
    values that stand for no number are left out.

    {"choice": "C", "f1": 0.4, "why": "short"} -> {"choice": 1.0, "f1": 0.4}
    """
    numbers: dict[str, float] = {}
    for name, value in scores.items():
        if isinstance(value, str):
            value = _CORRECT.get(value)
        if isinstance(value, int | float):
            numbers[name] = value
    return numbers


def _printed_mean(score: ForeignRow) -> tuple[str, tuple[float | None, float | None]]:
    """Name of a score in Inspect's results, and its (mean, standard error); None for what is not
    there.

    The name is the scorer's, or "SCORER.NAME" where they differ. The mean of C, P, I and N stands
    under "accuracy".
    """
    name = str(score["name"])
    if name != score.get("scorer"):
        name = f"{score.get('scorer')}.{name}"
    mean = _number(value_at(score, "metrics.mean.value"))
    if mean is None:
        mean = _number(value_at(score, "metrics.accuracy.value"))
    return name, (mean, _number(value_at(score, "metrics.stderr.value")))


@dataclass
class _LmEvalScores:
    """Takes scores and right answers out of the samples of one file of lm-eval.

    Attributes:
        names_without_number: Metrics that have no number for a single question, so far.
    """

    names_without_number: set[str] = field(default_factory=set)

    def adjust(self, row: ForeignRow, values: dict[str, object]) -> None:
        """Fill in scores and right answer of a sample: changes `values`, and adds metrics without a
        number to `names_without_number`. A score is named by its metric, "em", or where replies
        were filtered by both, "em,strict". A right answer that is the number of an option, from 0,
        becomes the option.

        Args:
            row: The sample.
            values: Field of ForeignAnswer -> value; changed.

        Raises:
            TypeError: The answer is no text, or there are several replies.
        """
        if not isinstance(values.get("prediction"), str):
            raise TypeError("answers are log-likelihoods, not texts")
        if len(row["resps"][0]) > 1:
            raise TypeError("a question has several replies, which are scored together")
        filter_suffix = ""
        if row.get("filter") not in (None, "none"):
            filter_suffix = f",{row['filter']}"
        scores: dict[str, float] = {}
        for name in row["metrics"]:
            if isinstance(row[name], int | float):
                scores[f"{name}{filter_suffix}"] = row[name]
            else:
                self.names_without_number.add(name)
        values["scores"] = scores
        right_answer = str(values.get("answers"))
        options = as_options(values.get("options")) or ()
        is_option_number = right_answer.isdigit() and right_answer not in options
        if is_option_number and int(right_answer) < len(options):
            values["answers"] = options[int(right_answer)]


def _read_lm_eval(path: Path) -> ForeignRun:
    """Read the samples of one task of lm-eval, and its version, the model and the printed means
    from the results file beside it, if there is one; else the model is named by the folder. Raises
    DataError for a file of another name than lm-eval gives."""
    name_parts = _SAMPLES.fullmatch(path.name)
    if name_parts is None:
        name = "samples_TASK_DATE.jsonl, as in samples_mills_2026-01-02T03-04-05.123456.jsonl"
        raise DataError.of_file(path, f"should have the name that lm-eval gives it: {name}")
    task = name_parts["task"]
    files = [path]
    results: Any = {}
    results_file = path.with_name(f"results_{name_parts['date']}.json")
    if results_file.exists():
        results = read_json_value(results_file, PYTHON_JSON)
    if results:
        files.append(results_file)
    tool = "lm_eval"
    version = value_at(results, "lm_eval_version")
    if version:
        tool = f"lm_eval {version}"
    model = value_at(results, "model_name") or value_at(results, "model_source")
    scores = _LmEvalScores()
    # Parsing also fills `scores.names_without_number`.
    answers = parse_answers(_rows(path), FORMS["lm-eval"], scores.adjust)
    left_out_notes = [
        f"{name} has no value for a single question, so it is left out"
        for name in sorted(scores.names_without_number)
    ]
    return ForeignRun(
        tool=tool,
        model=str(model or path.resolve().parent.name),
        method=_lm_eval_method(results, task),
        dataset=task,
        answers=answers,
        files=files,
        printed_means=_lm_eval_means(value_at(results, f"results.{task}") or {}),
        n_to_answer=int(value_at(results, f"n-samples.{task}.effective") or 0),
        left_out_notes=left_out_notes,
    )


def _lm_eval_method(results: ForeignRow, task: str) -> str:
    """What an imported run calls its method: "5-shot" for five solved examples, else "lm-eval".

    Args:
        results: The results file; empty where there is none.
        task: The name of the task.
    """
    shots = value_at(results, f"n-shot.{task}")
    if shots is None:
        return "lm-eval"
    return f"{shots}-shot"


def _lm_eval_means(results: ForeignRow) -> dict[str, tuple[float | None, float | None]]:
    """Name of a score -> (mean, standard error), from a task's part of the results; None for an
    error that is not there.

        {"em,none": 0.4, "em_stderr,none": 0.1} -> {"em": (0.4, 0.1)}
        {"em,strict": 0.4}                      -> {"em,strict": (0.4, None)}
    """
    printed: dict[str, float] = {}
    for key, value in results.items():
        number = _number(value)
        if "," in key and number is not None:
            printed[key.removesuffix(",none")] = number
    means: dict[str, tuple[float | None, float | None]] = {}
    for name, mean in printed.items():
        if "_stderr" not in name:
            # "em" -> "em_stderr", "em,strict" -> "em_stderr,strict"
            name_of_error = re.sub("(,|$)", r"_stderr\1", name, count=1)
            means[name] = mean, printed.get(name_of_error)
    return means


def _number(value: Any) -> float | None:
    """`value` if it is a number that a float can hold, else None; also for NaN, by which the tools
    mark that there is none."""
    if isinstance(value, int | float) and abs(value) <= sys.float_info.max:
        return value
    return None


def _read_flashrag(path: Path) -> ForeignRun:
    """Read answers of FlashRAG. Names of model, method and data set are taken from config.yaml
    beside the file; each is "unknown" where that does not say."""
    answers = parse_answers(_rows(path), FORMS["flashrag"])
    files = [path]
    settings: Any = {}
    settings_file = path.with_name("config.yaml")
    if settings_file.exists():
        settings = parse_yaml(settings_file.read_bytes())
    if settings:
        files.append(settings_file)
    return ForeignRun(
        tool="FlashRAG",
        model=str(value_at(settings, "generator_model") or "unknown"),
        method=str(value_at(settings, "save_note") or "unknown"),
        dataset=str(value_at(settings, "dataset_name") or "unknown"),
        answers=answers,
        files=files,
    )


def _read_jsonl(path: Path) -> ForeignRun:
    """Read answers in the project's own form. Names of model and method are those of the first
    line, else "unknown"; the data set is called as the file."""
    answers = parse_answers(_rows(path), FORMS["jsonl"])
    first = next(iter(answers), None)
    return ForeignRun(
        tool="jsonl",
        model=str(getattr(first, "model", None) or "unknown"),
        method=str(getattr(first, "method", None) or "unknown"),
        dataset=path.stem,
        answers=answers,
        files=[path],
    )


READERS: Mapping[str, Callable[[Path], ForeignRun]] = {
    "inspect": _read_inspect,
    "lm-eval": _read_lm_eval,
    "flashrag": _read_flashrag,
    "jsonl": _read_jsonl,
}


def read_foreign(tool: str, path: Path, keep_thinking: bool = False) -> ForeignRun:
    """Read the answers that another tool wrote into a file, and check them.

    Args:
        tool: Which tool wrote it, one of READERS.
        path: The file.
        keep_thinking: Whether answers keep the thinking of known reasoning models that stands
            before them.

    Raises:
        DataError: The file cannot be used.
    """
    try:
        run = check_run(READERS[tool](path))
        if keep_thinking:
            return run
        return without_thinking(run)
    except (
        AttributeError,
        KeyError,
        OSError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        raise DataError.of_file(
            path, f"is not of the form that is read ({error}); another version?"
        ) from None
