"""Answers that another tool wrote: where each form of file has them, and the checks that all forms
share.

    parse_answers(rows, FORMS["flashrag"])      the rows of a file as ForeignAnswer, or an error that names the line
    check_run(run)                          the run, if it may be imported

A file is parsed as data; the other tool is never imported. What a file does not say is None or
empty, never 0.
"""

import re
import string
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from harness.datasets.row_places import BrokenRow, RowPlace
from harness.errors import DataError
from harness.storage.packed import Packed
from harness.storage.yaml_text import parse_yaml
from harness.thinking import split_known_thinking

COSTS = ("tokens_in", "tokens_out", "tokens_cached", "seconds")
_COLUMN = 100  # characters of a value that questions may be divided by
_LETTER = re.compile(
    r"\(?([A-Z])[).:]?(?:\s+(.+))?"
)  # an option as a right answer, maybe with its text

FORMS: Mapping[str, Mapping[str, str]] = parse_yaml(
    Path(__file__).with_name("foreign_forms.yaml").read_bytes()
)
"""Tool -> field of ForeignAnswer -> where a row of its files has it."""
_OWN = FORMS["jsonl"].keys() - {"extra"}


def _as_text(value: Any) -> Any:
    """Turn a number into text, and a message in parts into the text of its parts without
    reasoning."""
    if isinstance(value, list):
        return "\n".join(part["text"] for part in value if part.get("type") == "text")
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _as_texts(value: Any) -> Any:
    """Turn one text, a list or {"text": [...]} into a tuple of texts, without repeated and blank
    ones."""
    value = value.get("text") if isinstance(value, Mapping) else value
    texts = map(_as_text, value if isinstance(value, list) else [value])
    return tuple(dict.fromkeys(text for text in texts if not isinstance(text, str) or text.strip()))


def as_options(value: Any) -> Any:
    """Turn a list of texts or {"text": ...}, or {"text": [...]} (ARC), into a tuple; None for
    another shape."""
    value = value.get("text") if isinstance(value, Mapping) else value
    if isinstance(value, list):
        value = [option.get("text") if isinstance(option, Mapping) else option for option in value]
    return (
        tuple(value)
        if isinstance(value, list | tuple) and all(isinstance(text, str) for text in value)
        else None
    )


def _without_nan(scores: dict[str, float]) -> dict[str, float]:
    """Leave out scores that are NaN, by which Inspect and lm-eval mark what is not scored."""
    return {name: value for name, value in scores.items() if value == value}


def _short_columns(row: Any) -> Any:
    """The short values of a row, by which questions can be divided (harness compare --by), and
    lists of classes."""
    columns = {k: v for k, v in row.items() if k not in _OWN and isinstance(v, str | int)}
    short = {key: value for key, value in columns.items() if len(str(value)) <= _COLUMN}
    return short | {key: row[key] for key in ("all_classes",) if row.get(key)}


_Text = Annotated[str, BeforeValidator(_as_text)]
_Texts = Annotated[tuple[str, ...], BeforeValidator(_as_texts)]
_Count = Annotated[int, Field(ge=0)]


class ForeignAnswer(BaseModel):
    """A question with its answer, as another tool's file has them. place: the file and the line.

    question may be a prompt that contains the question; scores: the tool's own, by its names;
    extra: further columns; tokens and seconds: of the whole question; error: why it has no answer;
    repeat: the number of this answer among those to one question, from 1.
    """

    model_config = ConfigDict(frozen=True)

    place: RowPlace
    id: _Text | None = None
    question: _Text | None = None
    answers: _Texts = ()
    prediction: _Text = ""
    scores: Annotated[dict[str, float], AfterValidator(_without_nan)] = {}
    options: Annotated[tuple[str, ...] | None, BeforeValidator(as_options)] = None
    extra: Annotated[dict[str, Any], BeforeValidator(_short_columns)] = {}
    error: _Text | None = None
    model: str | None = None
    method: str | None = None
    tokens_in: _Count | None = None
    tokens_out: _Count | None = None
    tokens_cached: _Count | None = None
    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    repeat: Annotated[int, Field(ge=1)] = 1


class Answers(Packed):
    """Answers in little memory: a file may hold a million."""

    def append(self, value: ForeignAnswer) -> None:
        """Add an answer at the end."""
        super().append({**vars(value), "place": astuple(value.place)})

    def _unpacked(self, n: int) -> list[ForeignAnswer]:
        held = super()._unpacked(n)
        return [
            ForeignAnswer.model_construct(**{**one, "place": RowPlace(*one["place"])})
            for one in held
        ]


@dataclass(frozen=True)
class ForeignRun:
    """A file of another tool. tool: with its version, if the file says it; dataset: its name there.

    files: all that were read; printed_means: mean and standard error that the tool printed, by its
    names of scores;
    asked: questions that it was to ask, each repeat; state: as in a run's summary; lost: sentences
    on what cannot be taken over; repeats: the numbers of answers to one question, from 1; scores:
    names of the tool's own.
    """

    tool: str
    model: str
    method: str
    dataset: str
    answers: Answers
    files: Sequence[Path]
    printed_means: Mapping[str, tuple[float | None, float | None]] = field(default_factory=dict)
    asked: int = 0
    state: str = "finished"
    started: str | None = None
    lost: Sequence[str] = ()
    repeats: Sequence[int] = (1,)
    scores: Sequence[str] = ()


def value_at(row: Any, path: str) -> Any:
    """The value of a row at a path such as "output.choices.0.message"; None where there is
    nothing."""
    for key in filter(None, path.split(".")):
        if isinstance(row, list) and key.isdigit():
            row = row[int(key)] if int(key) < len(row) else None
        else:
            row = row.get(key) if isinstance(row, Mapping) else None
    return row


def parse_answers(
    rows: Iterable[tuple[RowPlace, Mapping[str, Any] | BrokenRow]],
    form: Mapping[str, str],
    adjust: Callable[[Mapping[str, Any], dict[str, Any]], None] = lambda row, values: None,
) -> Answers:
    """Parse rows by `form` (field -> paths in a row). adjust(row, values): changes values before
    they are checked.

    Raises DataError, naming the line, for a row that is broken, has no prediction, or has a value
    of another type.
    """
    paths = {name: places.split() for name, places in form.items()}
    parsed = Answers()
    for place, row in rows:
        if isinstance(row, BrokenRow):
            raise place.error(None, row.problem + _why_broken(row, first=not parsed))
        values_found = {
            name: [value_at(row, path) for path in fields] for name, fields in paths.items()
        }
        # NaN is not equal to itself.
        values_given = (
            (name, [v for v in candidates if v is not None and v == v])
            for name, candidates in values_found.items()
        )
        values = {name: candidates[0] for name, candidates in values_given if candidates}
        try:
            adjust(row, values)
            if "prediction" not in values and "error" not in values:
                raise place.error(form["prediction"], _no_prediction(row))
            parsed.append(_with_options(ForeignAnswer(place=place, **values)))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            key = str(first["loc"][0])
            raise place.error(
                form.get(key, key), f"{first['msg'].lower()}; another version?"
            ) from None
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise place.error(
                None, f"is not of the form that is read ({error}); another version?"
            ) from None
    return parsed


def _why_broken(row: BrokenRow, first: bool) -> str:
    """What may be the reason for a broken row. first: whether it is the first of the file."""
    if not row.problem.startswith("broken"):
        return ""
    if first:
        return "; the file holds no rows of JSON (docs/guide.md#elsewhere says what they are)"
    return "; is the file cut?"


def _no_prediction(row: Mapping[str, Any]) -> str:
    """What to do about a row without the answer of a model."""
    names = ", ".join(map(str, row))[:200]
    return (
        f"is missing; the row has {names}; a file of another tool, or of another version? Rows of "
        "your own have id, question, answers and prediction: --from jsonl"
    )


def without_thinking(run: ForeignRun) -> ForeignRun:
    """The run whose answers lack the thinking between the markers of known models, with a note."""
    thought = sum(bool(split_known_thinking(one.prediction).thinking) for one in run.answers)
    if not thought:
        return run
    kept = Answers()
    for answer in run.answers:
        text = split_known_thinking(answer.prediction).answer
        kept.append(answer.model_copy(update={"prediction": text}))
    note = (
        f"{thought} answers have reasoning before them, which is left out (--keep-thinking leaves "
        "it in)"
    )
    return replace(run, answers=kept, lost=[*run.lost, note])


def _with_options(answer: ForeignAnswer) -> ForeignAnswer:
    """Give scorers the options to choose from, with a letter as right answer replaced by its
    option."""
    options = answer.options
    if not options:
        return answer
    letters = dict(zip(string.ascii_uppercase, options, strict=False))

    def named(right: str) -> str:
        letter = None if right in options else _LETTER.fullmatch(right.strip())
        option = letters.get(letter[1], right) if letter else right
        return option if letter and letter[2] in (None, option) else right

    answers = tuple(map(named, answer.answers))
    numbers = {options.index(right) + 1 for right in answers if right in options}
    label = {"gold_label": numbers.pop()} if len(numbers) == 1 else {}
    extra = {"all_classes": list(options), **label, **answer.extra}
    return answer.model_copy(update={"answers": answers, "extra": extra})


def check_run(run: ForeignRun) -> ForeignRun:
    """The run with the numbers of its repeats and the scores that are from 0 to 1.

    Raises DataError for no answers, several models, a question that comes twice, or an answer that
    names no question.
    """
    if not run.answers:
        raise DataError(run.files[0], None, None, "holds no answered question")
    seen: set[int] = set()  # hashes of names: a million names take more
    model = next((answer.model for answer in run.answers if answer.model), None)
    for answer in run.answers:
        if answer.model not in (None, "", model):
            raise answer.place.error(
                None,
                f"the model is '{answer.model}', and '{model}' before; split the file by model",
            )
        if (name := answer.id or answer.question) is None and not answer.answers:
            raise answer.place.error(
                None, "an answer without id, question and right answer: nobody knows to what"
            )
        if name is None:
            continue
        key = name, answer.repeat
        if hash(key) in seen:
            earlier = next(a.place for a in run.answers if (a.id or a.question, a.repeat) == key)
            if earlier != answer.place:
                raise answer.place.error(
                    None, f"question '{name[:80]}' is answered at {earlier} too; keep one of them"
                )
        seen.add(hash(key))
    values = {name: None for answer in run.answers for name in answer.scores}
    wrong = {
        n: None
        for answer in run.answers
        for n, value in answer.scores.items()
        if not 0 <= value <= 1
    }
    kept = Answers() if wrong else run.answers
    for answer in run.answers if wrong else ():
        checked_scores = {name: value for name, value in answer.scores.items() if name not in wrong}
        kept.append(answer.model_copy(update={"scores": checked_scores}))
    lost = [*run.lost, *(f"{name} is not from 0 to 1, so it is left out" for name in wrong)]
    repeats = sorted({answer.repeat for answer in kept})
    return replace(
        run, answers=kept, repeats=repeats, scores=[n for n in values if n not in wrong], lost=lost
    )
