"""Answers that another tool wrote: where each form of file has them, and the checks that all forms share.

    parse_answers(rows, FORMS["flashrag"])      the rows of a file as ForeignAnswer, or an error that names the line
    check_run(run)                          the run, if it may be imported

A file is parsed as data; the other tool is never imported. What a file does not say is None or empty, never 0.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from harness.datasets.files import Broken, RowPlace
from harness.errors import DataError

COSTS = ("tokens_in", "tokens_out", "tokens_cached", "seconds")
_OWN = ("id", "question", "answers", "prediction", "scores", "options", "error", "model", "method", *COSTS)
_COLUMN = 100  # characters of a value that questions may be divided by

# Field of ForeignAnswer -> where a row has it; of several places the first that the row has. "." is the row itself.
FORMS: Mapping[str, Mapping[str, str]] = {
    "inspect": {
        "id": "id",
        "question": "input",
        "answers": "target",
        "options": "choices",
        "prediction": "output.choices.0.message.content",
        "error": "error.message",
        "extra": "metadata",
        "seconds": "working_time",
        "model": "output.model",
    },
    "lm-eval": {
        "id": "doc._id doc.id doc.question_id doc_id",
        "question": "doc.question doc.input doc.query arguments.gen_args_0.arg_0",
        "answers": "doc.answers doc.golden_answers target",
        "prediction": "resps.0.0",
        "extra": "doc",
    },
    "flashrag": {
        "id": "id",
        "question": "question",
        "answers": "golden_answers",
        "options": "choices",
        "prediction": "output.pred",
        "scores": "output.metric_score",
        "extra": "metadata",
    },
    "longbench": {"id": "_id", "question": "question", "answers": "answers", "prediction": "pred", "extra": "."},
    "infinitebench": {"id": "id", "answers": "ground_truth label", "prediction": "prediction pred"},
    "jsonl": {name: name for name in _OWN} | {"extra": "."},
}


def _as_text(value: Any) -> Any:
    """Turn a number into text, and a message in parts into the text of its parts without reasoning."""
    if isinstance(value, list):
        return "\n".join(part["text"] for part in value if part.get("type") == "text")
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _as_texts(value: Any) -> Any:
    """Turn one text, a list or {"text": [...]} into a tuple of texts, without repeated and blank ones."""
    value = value.get("text") if isinstance(value, Mapping) else value
    texts = map(_as_text, value if isinstance(value, list) else [value])
    return tuple(dict.fromkeys(text for text in texts if not isinstance(text, str) or text.strip()))


def _short_columns(row: Any) -> Any:
    """The short values of a row, by which questions can be divided (harness compare --by), and lists of classes."""
    told = {k: v for k, v in row.items() if k not in _OWN and isinstance(v, str | int)}
    short = {key: value for key, value in told.items() if len(str(value)) <= _COLUMN}
    return short | {key: row[key] for key in ("all_classes",) if row.get(key)}


_Text = Annotated[str, BeforeValidator(_as_text)]
_Texts = Annotated[tuple[str, ...], BeforeValidator(_as_texts)]
_Count = Annotated[int, Field(ge=0)]


class ForeignAnswer(BaseModel):
    """A question with its answer, as another tool's file has them. place: the file and the line.

    question may be a prompt that contains the question; scores: the tool's own, by its names; extra: further columns;
    tokens and seconds: of the whole question; error: why it has no answer.
    """

    model_config = ConfigDict(frozen=True)

    place: RowPlace
    id: _Text | None = None
    question: _Text | None = None
    answers: _Texts = ()
    prediction: _Text = ""
    scores: dict[str, Annotated[float, Field(allow_inf_nan=False)]] = {}
    options: tuple[str, ...] | None = None
    extra: Annotated[dict[str, Any], BeforeValidator(_short_columns)] = {}
    error: _Text | None = None
    model: str | None = None
    method: str | None = None
    tokens_in: _Count | None = None
    tokens_out: _Count | None = None
    tokens_cached: _Count | None = None
    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None


@dataclass(frozen=True)
class ForeignRun:
    """A file of another tool. tool: with its version, if the file says it; dataset: its name there.

    files: all that were read; form: the format of the tool's own data sets, of which one of ours may be the same; told:
    mean and standard error that the tool printed, by its names of scores; asked: questions that it was to ask; state:
    as in a run's summary; lost: sentences on what cannot be taken over.
    """

    tool: str
    model: str
    method: str
    dataset: str
    answers: Sequence[ForeignAnswer]
    files: Sequence[Path]
    form: str | None = None
    told: Mapping[str, tuple[float | None, float | None]] = field(default_factory=dict)
    asked: int = 0
    state: str = "finished"
    started: str | None = None
    lost: Sequence[str] = ()


def value_at(row: Any, path: str) -> Any:
    """The value of a row at a path such as "output.choices.0.message"; None where there is nothing."""
    for key in filter(None, path.split(".")):
        if isinstance(row, list) and key.isdigit():
            row = row[int(key)] if int(key) < len(row) else None
        else:
            row = row.get(key) if isinstance(row, Mapping) else None
    return row


def parse_answers(
    rows: Iterable[tuple[RowPlace, Mapping[str, Any] | Broken]],
    form: Mapping[str, str],
    adjust: Callable[[Mapping[str, Any], dict[str, Any]], None] = lambda row, values: None,
) -> list[ForeignAnswer]:
    """Parse rows by `form` (field -> paths in a row). adjust(row, values): changes values before they are checked.

    Raises DataError, naming the line, for a row that is broken, has no prediction, or has a value of another type.
    """
    found = []
    for place, row in rows:
        if isinstance(row, Broken):
            raise place.error(None, f"{row.problem}; is the file cut?")
        told = {name: [value_at(row, path) for path in places.split()] for name, places in form.items()}
        known = ((name, [value for value in found if value is not None]) for name, found in told.items())
        values = {name: found[0] for name, found in known if found}
        try:
            adjust(row, values)
            if "prediction" not in values and "error" not in values:
                raise place.error(form["prediction"], "is missing; a file of another tool, or of another version?")
            found.append(ForeignAnswer(place=place, **values))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            key = str(first["loc"][0])
            raise place.error(form.get(key, key), f"{first['msg'].lower()}; another version?") from None
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise place.error(None, f"is not of the form that is read ({error}); another version?") from None
    return found


def check_run(run: ForeignRun) -> ForeignRun:
    """Check a run; returns it without the scores that are not from 0 to 1.

    Raises DataError for no answers, several models, a question that comes twice, or an answer that names no question.
    """
    if not run.answers:
        raise DataError(run.files[0], None, None, "holds no answered question")
    seen: dict[str, RowPlace] = {}
    model = next((answer.model for answer in run.answers if answer.model), None)
    for answer in run.answers:
        if answer.model not in (None, "", model):
            raise answer.place.error(
                None, f"the model is '{answer.model}', and '{model}' before; split the file by model"
            )
        key = answer.id or answer.question
        if key is None and not answer.answers:
            raise answer.place.error(None, "an answer without id, question and right answer: nobody knows to what")
        if key is not None and (earlier := seen.setdefault(key, answer.place)) is not answer.place:
            raise answer.place.error(None, f"question '{key[:80]}' is answered at {earlier} too; keep one of them")
    names = dict.fromkeys(name for answer in run.answers for name in answer.scores)
    wrong = [n for n in names if not all(0 <= answer.scores.get(n, 0) <= 1 for answer in run.answers)]
    kept = [
        answer.model_copy(update={"scores": {n: v for n, v in answer.scores.items() if n not in wrong}})
        for answer in run.answers
    ]
    return replace(run, answers=kept, lost=[*run.lost, *(f"{n} is not from 0 to 1, so it is left out" for n in wrong)])
