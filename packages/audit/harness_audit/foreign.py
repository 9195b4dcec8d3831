"""Answers that another tool wrote: where each form of file has them, and the checks that all forms
share.

    parse_answers(rows, FORMS["flashrag"])      the rows of a file as ForeignAnswer, or an error that names the line
    check_run(run)                          the run, if it may be imported

A file is parsed as data; the other tool is never imported. What a file does not say is None or
empty, never 0.
"""

import math
import re
import string
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
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
_MAX_CHARACTERS_OF_VALUE = 100  # characters of a value that questions may be divided by
_LETTER = re.compile(
    r"\(?([A-Z])[).:]?(?:\s+(.+))?"
)  # an option as a right answer, maybe with its text

FORMS: Mapping[str, Mapping[str, str]] = parse_yaml(
    Path(__file__).with_name("foreign_forms.yaml").read_bytes()
)
"""Tool -> field of ForeignAnswer -> where a row of its files has it."""
_FIELDS_OF_ANSWER = FORMS["jsonl"].keys() - {"extra"}

ForeignRow = Mapping[str, Any]
"""A row of another tool's file, parsed and not checked: JSON of any form."""

Adjustment = Callable[[ForeignRow, dict[str, object]], None]
"""(row, field of ForeignAnswer -> value): changes the values before they are checked."""


def _as_text(value: Any) -> Any:
    """A text of a row as ForeignAnswer holds it: a number becomes text, and a message in parts the
    texts of its parts without reasoning; other values stay, for pydantic to accept or refuse.

        7 -> "7"        [{"type": "reasoning", ...}, {"type": "text", "text": "Rome"}] -> "Rome"
    """
    if isinstance(value, list):
        return "\n".join(part["text"] for part in value if part.get("type") == "text")
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return str(value)
    return value


def _as_texts(value: Any) -> Any:
    """Right answers of a row as a tuple, each once and without blank ones.

    "Rome" -> ("Rome",)        {"text": ["Rome", "Roma", "Rome"]} -> ("Rome", "Roma")
    """
    value = _without_wrapper(value)
    items = value
    if not isinstance(items, list):
        items = [items]
    texts = dict.fromkeys(map(_as_text, items))  # each once
    return tuple(text for text in texts if not _is_blank(text))


def _is_blank(value: Any) -> bool:
    """Whether a value is a text that is empty or has nothing but white space."""
    return isinstance(value, str) and not value.strip()


def _without_wrapper(value: Any) -> Any:
    """The value inside {"text": VALUE}; any other value as it is."""
    if isinstance(value, Mapping):
        return value.get("text")
    return value


def as_options(value: Any) -> Any:
    """The options of a multiple-choice question as a tuple of texts; None for what has another
    shape.

        ["Rome", "Oslo"]           -> ("Rome", "Oslo")
        [{"text": "Rome"}, ...]    -> ("Rome", ...)
        {"text": ["Rome", ...]}    -> ("Rome", ...)      as in ARC
    """
    value = _without_wrapper(value)
    if isinstance(value, list):
        value = list(map(_without_wrapper, value))
    if not isinstance(value, list | tuple):
        return None
    if not all(isinstance(text, str) for text in value):
        return None
    return tuple(value)


def _without_nan(scores: dict[str, float]) -> dict[str, float]:
    """The scores that are not NaN, by which Inspect and lm-eval mark what is not scored."""
    return {name: value for name, value in scores.items() if not math.isnan(value)}


def _short_columns(row: Any) -> Any:
    """Further columns of a row that scorers or tables use: short texts and numbers, by which
    questions can be divided (harness compare --by), and the list "all_classes".

        {"id": "q1", "prediction": "Rome", "kind": "bridge"} -> {"kind": "bridge"}
    """
    columns = {}
    for name, value in row.items():
        if name in _FIELDS_OF_ANSWER or not isinstance(value, str | int):
            continue
        if len(str(value)) <= _MAX_CHARACTERS_OF_VALUE:
            columns[name] = value
    if row.get("all_classes"):
        columns["all_classes"] = row["all_classes"]
    return columns


_Text = Annotated[str, BeforeValidator(_as_text)]
_Texts = Annotated[tuple[str, ...], BeforeValidator(_as_texts)]
_Count = Annotated[int, Field(ge=0)]


class ForeignAnswer(BaseModel):
    """A question with its answer, as another tool's file has them.

    Args:
        place: The file and the line.
        id: The id of the question; None where the file has none.
        question: The question, or a prompt that contains it.
        answers: The right answers.
        prediction: What the model answered.
        scores: The tool's own scores, by its names.
        options: The options to choose from.
        extra: Further columns, by name.
        error: Why it has no answer; None for an answered question.
        model: The model's name.
        method: The method's name.
        tokens_in: Tokens read for the whole question.
        tokens_out: Tokens written.
        tokens_cached: Tokens read from a cache.
        seconds: Seconds for the whole question.
        repeat: The number of this answer among those to one question, from 1.
    """

    model_config = ConfigDict(frozen=True)

    place: RowPlace
    id: _Text | None = None
    question: _Text | None = None
    answers: _Texts = ()
    prediction: _Text = ""
    scores: Annotated[dict[str, float], AfterValidator(_without_nan)] = {}
    options: Annotated[tuple[str, ...] | None, BeforeValidator(as_options)] = None
    extra: Annotated[dict[str, object], BeforeValidator(_short_columns)] = {}
    error: _Text | None = None
    model: str | None = None
    method: str | None = None
    tokens_in: _Count | None = None
    tokens_out: _Count | None = None
    tokens_cached: _Count | None = None
    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    repeat: Annotated[int, Field(ge=1)] = 1


class Answers(Packed):
    """A list of answers that is packed into little memory, as a file may hold a million."""

    def append(self, value: ForeignAnswer) -> None:
        """Add an answer at the end."""
        super().append({**vars(value), "place": astuple(value.place)})

    def _unpacked_block(self, block_number: int) -> list[ForeignAnswer]:
        """The answers of a block, counted from 0; they were checked before they were packed, so not
        again."""
        answers = []
        for values in super()._unpacked_block(block_number):
            place = RowPlace(*values["place"])
            answers.append(ForeignAnswer.model_construct(**{**values, "place": place}))
        return answers


@dataclass(frozen=True)
class ForeignRun:
    """What a file of another tool says.

    Args:
        tool: The tool, with its version if the file says it.
        model: The model's name.
        method: The method's name.
        dataset: What the tool calls the data set.
        answers: The answers.
        files: All files that were read.
        printed_means: Score -> (mean, standard error) that the tool printed.
        n_to_answer: How many questions it was to ask, each repeat; 0 where the file does not say.
        state: "finished", "interrupted" or "stopped", as in a run's summary.
        started: When it started, in ISO format.
        left_out_notes: Sentences on what cannot be taken over.
        repeats: The numbers that answers have among those to one question: (1, 2) if each has two.
        scores: Names of the tool's own scores.
    """

    tool: str
    model: str
    method: str
    dataset: str
    answers: Answers
    files: Sequence[Path]
    printed_means: Mapping[str, tuple[float | None, float | None]] = field(default_factory=dict)
    n_to_answer: int = 0
    state: str = "finished"
    started: str | None = None
    left_out_notes: Sequence[str] = ()
    repeats: Sequence[int] = (1,)
    scores: Sequence[str] = ()


def value_at(row: Any, path: str) -> Any:
    """The value at a path in a row of JSON; None where there is nothing.

    {"choices": [{"text": "Rome"}]}, "choices.0.text" -> "Rome"
    """
    for key in filter(None, path.split(".")):
        if isinstance(row, Mapping):
            row = row.get(key)
        elif isinstance(row, list) and key.isdigit() and int(key) < len(row):
            row = row[int(key)]
        else:
            return None
    return row


def parse_answers(
    rows: Iterable[tuple[RowPlace, ForeignRow | BrokenRow]],
    form: Mapping[str, str],
    adjust: Adjustment = lambda row, values: None,
) -> Answers:
    """Parse the rows of a file into answers.

    Args:
        rows: Each row with its place in the file.
        form: Field of ForeignAnswer -> paths in a row, divided by spaces: the first that has a
            value counts. {"prediction": "output.completion prediction"}
        adjust: Is called with a row and its values, field -> value, and changes these before they
            are checked; by default it changes nothing.

    Raises:
        DataError: A row is broken, has no prediction, or a value of another type; it names the
            line.
    """
    paths = {name: places.split() for name, places in form.items()}
    answers = Answers()
    for place, row in rows:
        if isinstance(row, BrokenRow):
            likely_reason = _why_broken(row, first=not answers)
            raise place.error(field=None, problem=row.problem + likely_reason)
        values = _values_of(row, paths)
        try:
            adjust(row, values)
            if "prediction" not in values and "error" not in values:
                raise place.error(field=form["prediction"], problem=_no_prediction(row))
            answer = ForeignAnswer.model_validate({"place": place, **values})
            answers.append(_with_options(answer))
        except ValidationError as error:
            first_error = error.errors(include_url=False)[0]
            name = str(first_error["loc"][0])
            problem = f"{first_error['msg'].lower()}; another version?"
            raise place.error(field=form.get(name, name), problem=problem) from None
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            problem = f"is not of the form that is read ({error}); another version?"
            raise place.error(field=None, problem=problem) from None
    return answers


def _values_of(row: ForeignRow, paths: Mapping[str, Sequence[str]]) -> dict[str, object]:
    """The values that a row has for the fields of ForeignAnswer; fields without a value are left
    out.

    Args:
        row: The row.
        paths: Field -> paths in the row, of which the first that has a value counts.
    """
    values: dict[str, object] = {}
    for name, places in paths.items():
        for path in places:
            value = value_at(row, path)
            if value is not None and value == value:  # NaN is not equal to itself
                values[name] = value
                break
    return values


def _why_broken(row: BrokenRow, first: bool) -> str:
    """The end of an error on a broken row: what may be the reason; "" where the error says it.

    Args:
        row: The broken row.
        first: Whether it is the first of the file.
    """
    if not row.problem.startswith("broken"):
        return ""
    if first:
        return "; the file holds no rows of JSON (docs/guide.md#elsewhere says what they are)"
    return "; is the file cut?"


def _no_prediction(row: ForeignRow) -> str:
    """The end of an error on a row without an answer of a model: what the row has, and what to
    do."""
    names = ", ".join(map(str, row))[:200]
    return (
        f"is missing; the row has {names}; a file of another tool, or of another version? Rows of "
        "your own have id, question, answers and prediction: --from jsonl"
    )


def without_thinking(run: ForeignRun) -> ForeignRun:
    """The run without the thinking that known reasoning models write between markers before their
    answers. Where there is any, a sentence in `left_out_notes` counts these answers."""
    n_with_thinking = 0
    for answer in run.answers:
        n_with_thinking += bool(split_known_thinking(answer.prediction).thinking)
    if not n_with_thinking:
        return run
    answers = Answers()
    for answer in run.answers:
        text = split_known_thinking(answer.prediction).answer
        answers.append(answer.model_copy(update={"prediction": text}))
    note = (
        f"{n_with_thinking} answers have reasoning before them, which is left out (--keep-thinking leaves "
        "it in)"
    )
    return replace(run, answers=answers, left_out_notes=[*run.left_out_notes, note])


def _with_options(answer: ForeignAnswer) -> ForeignAnswer:
    """The answer in the form that scorers of multiple choice expect: the options stand in `extra`,
    as does the number of the right one, from 1; a letter as right answer is replaced by its option.

        options ("Rome", "Oslo"), answers ("B",)
            -> answers ("Oslo",), extra {"all_classes": ["Rome", "Oslo"], "gold_label": 2}

    An answer without options is returned as it is.
    """
    options = answer.options
    if not options:
        return answer
    answers = [_named_option(right, options) for right in answer.answers]
    extra: dict[str, object] = {"all_classes": list(options)}
    numbers = {options.index(right) + 1 for right in answers if right in options}
    if len(numbers) == 1:
        extra["gold_label"] = numbers.pop()
    extra.update(answer.extra)
    return answer.model_copy(update={"answers": tuple(answers), "extra": extra})


def _named_option(right: str, options: Sequence[str]) -> str:
    """The option that a right answer names by its letter; the right answer itself where it names
    none.

        "B", "(B)" or "B. Oslo", of ("Rome", "Oslo") -> "Oslo"
    """
    if right in options:
        return right
    match = _LETTER.fullmatch(right.strip())
    if match is None:
        return right
    letter, text = match.groups()
    number = string.ascii_uppercase.index(letter)
    if number >= len(options) or text not in (None, options[number]):
        return right
    return options[number]


def check_run(run: ForeignRun) -> ForeignRun:
    """Check the answers of a file, and return the run with `repeats` (the numbers of repeats that
    occur, [1, 2]) and `scores` (names of scores) filled in. A score that once is not from 0 to 1 is
    left out of all answers, with a sentence in `left_out_notes`.

    Raises DataError for no answers, several models, a question that comes twice, or an answer that
    names no question.
    """
    if not run.answers:
        raise DataError.of_file(run.files[0], "holds no answered question")
    _check_models(run.answers)
    _check_questions(run.answers)
    # Names of scores, each once and in the order in which they come.
    names: dict[str, None] = {}
    names_outside_0_to_1: dict[str, None] = {}
    repeats: set[int] = set()
    for answer in run.answers:
        repeats.add(answer.repeat)
        names.update(dict.fromkeys(answer.scores))
        for name, value in answer.scores.items():
            if not 0 <= value <= 1:
                names_outside_0_to_1[name] = None
    answers = run.answers
    if names_outside_0_to_1:
        answers = _without_scores(answers, names_outside_0_to_1)
    score_notes = [f"{name} is not from 0 to 1, so it is left out" for name in names_outside_0_to_1]
    return replace(
        run,
        answers=answers,
        repeats=sorted(repeats),
        scores=[name for name in names if name not in names_outside_0_to_1],
        left_out_notes=[*run.left_out_notes, *score_notes],
    )


def _check_models(answers: Answers) -> None:
    """Raise DataError if two answers name different models; an answer without a model, or with an
    empty one, names none."""
    first_model: str | None = None
    for answer in answers:
        if not answer.model:
            continue
        if first_model is None:
            first_model = answer.model
        if answer.model != first_model:
            raise answer.place.error(
                field=None,
                problem=f"the model is '{answer.model}', and '{first_model}' before; split the file "
                "by model",
            )


def _check_questions(answers: Answers) -> None:
    """Raise DataError for an answer that says nothing of its question, or for a second answer with
    the same question and number of repeat."""
    seen_hashes: set[int] = set()  # not the names themselves: a million of them take more memory
    for answer in answers:
        name = answer.id or answer.question
        if name is None and not answer.answers:
            raise answer.place.error(
                field=None,
                problem="an answer without id, question and right answer: nobody knows to what",
            )
        if name is None:  # known by its right answers alone, which other questions may have too
            continue
        name_hash = hash((name, answer.repeat))
        if name_hash in seen_hashes:
            _check_not_earlier(answer, name, answers)
        seen_hashes.add(name_hash)


def _check_not_earlier(answer: ForeignAnswer, name: str, answers: Answers) -> None:
    """Raise DataError if the question of an answer really is answered earlier in the file: the
    caller knows it by a hash, which two questions may share.

    Args:
        answer: The answer.
        name: The id or text of its question.
        answers: All answers of the file.
    """
    for other in answers:
        if (other.id or other.question) != name or other.repeat != answer.repeat:
            continue
        if other.place != answer.place:
            raise answer.place.error(
                field=None,
                problem=f"question '{name[:80]}' is answered at {other.place} too; keep one of them",
            )
        return  # the first with this name is the answer itself


def _without_scores(answers: Answers, names: Container[str]) -> Answers:
    """A copy of the answers without the scores `names`."""
    others = Answers()
    for answer in answers:
        scores = {name: value for name, value in answer.scores.items() if name not in names}
        others.append(answer.model_copy(update={"scores": scores}))
    return others
