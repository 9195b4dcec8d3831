"""What the files of a run folder must look like for a reader to use them: names and types of what is read, no more.

    RECORD.parse(line)       a line as a dict; raises ValueError (no JSON) or WrongValue (a wrong value)
    DOCUMENT, MANIFEST, SUMMARY, RUN     the other files; LAYOUT: of a run in an object store

Keys that are not named here are kept as they are, so a folder of an older or newer version still loads. A line is
parsed and checked in one pass, which takes no longer than parsing it with `json`.
"""

import json
import re
from datetime import datetime
from typing import Annotated, Any, Literal, NotRequired

from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

# Keys of a record's notes: whether the reply has the answer prefix, counts of a score over all answers, and what models
# judged.
PREFIX, MISSING, COUNTS, JUDGES = "answer_prefix", "missing", "counts", "judges"
LOGGED = "logged."
"""The start of the names of scores that another tool gave (harness import); nothing here can compute them."""

# The escape of half a character (\\ud83d): JSON allows it, pydantic's parser does not.
_LONE_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")


class WrongValue(ValueError):
    """A value of the wrong type: key is its place ("usage.search.flops"), the message says what it should be."""

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(problem)
        self.key = key


def _date(text: str) -> str:
    datetime.fromisoformat(text)
    return text


Date = Annotated[str, AfterValidator(_date)]
Count = Annotated[int, Field(ge=0, le=2**63)]
Costs = dict[str, float]


class _Open(TypedDict):
    __pydantic_config__ = ConfigDict(extra="allow", strict=True, allow_inf_nan=False)  # type: ignore[misc]


class _Probes(_Open):
    requests: NotRequired[Count]
    tokens: Count
    flops: Costs


class _Thinking(_Open):
    tokens: Count
    unclosed: Count
    flops: Costs


class _Usage(_Open):
    flops: NotRequired[Costs]
    tokens_in: NotRequired[Count]
    tokens_cached: NotRequired[Count]
    tokens_reused: NotRequired[Count]
    tokens_out: NotRequired[Count]
    requests: NotRequired[Count]
    seconds: NotRequired[float]
    uncounted: NotRequired[Count]
    texts: NotRequired[Count]
    texts_cut: NotRequired[Count]
    retries: NotRequired[Count]
    endings_cut: NotRequired[Count]
    recounted: NotRequired[Count]
    encoder_requests: NotRequired[Count]
    roles: NotRequired[Costs]
    probes: NotRequired[_Probes]
    thinking: NotRequired[_Thinking]


class _Support(_Open):
    document_id: str
    start: Count
    end: Count


class _Gold(_Open):
    answers: list[str]
    supporting: list[_Support]
    extra: dict[str, Any]


class _Shown(_Open):
    text_sha256: NotRequired[str]
    kind: Literal["span", "generated"]
    document_id: NotRequired[str]
    start: NotRequired[Count]
    end: NotRequired[Count]
    text: NotRequired[str]
    sources: NotRequired[list[tuple[str, Count, Count]]]


class _Step(_Open):
    action: str
    node: int | None
    level: int | None
    scores: dict[str, float]
    tokens: Count
    p_yes: float | None
    flops: Costs | float
    shown: _Shown | None
    note: str
    answer: NotRequired[str | None]
    answer_flops: NotRequired[Costs | float]
    probe_flops: NotRequired[Costs | float]


class _Error(_Open):
    type: str
    message: str
    stage: NotRequired[str]


class _Notes(_Open):
    flags: NotRequired[dict[str, str]]
    counts: NotRequired[dict[str, list[Count]]]
    answer_prefix: NotRequired[str]
    scored: NotRequired[str]
    judges: NotRequired[dict[str, dict[str, str]]]
    seconds: NotRequired[float]


class _Record(_Open):
    question_id: str
    question: NotRequired[str | None]
    options: NotRequired[list[str] | None]
    document_ids: list[str]
    document_characters: NotRequired[list[Count]]
    gold: NotRequired[_Gold | None]
    prediction: str
    scores: dict[str, float]
    usage: dict[str, _Usage]
    shown: list[_Shown]
    stop_reason: str
    steps: list[_Step]
    truncated: dict[str, Any] | None
    error: _Error | None
    notes: _Notes


class _Document(_Open):
    document_id: str
    key: NotRequired[str]
    status: Literal["built", "hit", "failed"]
    usage: dict[str, _Usage]
    question_id: NotRequired[str]


class _Start(_Open):
    started: NotRequired[Date | None]
    finished: NotRequired[Date | None]
    state: NotRequired[str | None]
    changed: NotRequired[list[str] | dict[str, Any] | None]
    parallel: NotRequired[Count]
    command: NotRequired[list[str]]


class _Rows(_Open):
    fingerprint: NotRequired[str | None]
    questions: NotRequired[Count]


class _File(_Open):
    name: str
    sha256: str


class _Imported(_Open):
    tool: str
    files: list[_File]


class _Manifest(_Open):
    started: NotRequired[Date | None]
    dataset: NotRequired[_Rows | None]
    models: NotRequired[dict[str, dict[str, Any]] | None]
    scorers: NotRequired[dict[str, str | int | None] | None]
    judges: NotRequired[dict[str, dict[str, Any]] | None]
    packages: NotRequired[dict[str, str | None] | None]
    prompts: NotRequired[dict[str, Any] | None]
    first_prompts: NotRequired[dict[str, Any]]
    starts: NotRequired[list[_Start] | None]
    warnings: NotRequired[list[str] | None]
    git: NotRequired[dict[str, Any] | None]
    imported: NotRequired[_Imported]


class _Mean(_Open):
    mean: float | None
    low: float | None
    high: float | None
    n: NotRequired[Count]


class _StoppedEarly(_Open):
    questions: Count
    of: Count
    seed: Count
    verdicts: list[str]


class _Built(_Open):
    documents: NotRequired[Count]


class _Summary(_Open):
    index: NotRequired[_Built | None]
    state: NotRequired[str]
    n_asked: NotRequired[Count]
    stopped_early: NotRequired[_StoppedEarly]
    n_total: NotRequired[Count]
    n_scored: NotRequired[Count]
    n_failed: NotRequired[Count]
    scores: NotRequired[dict[str, _Mean]]
    errors: NotRequired[dict[str, Count]]


class _DatasetConfig(_Open):
    name: str
    scorers: Annotated[list[str], Field(min_length=1)]
    format: NotRequired[str]
    instruction: NotRequired[str]
    answer_prefix: NotRequired[str | None]
    options: NotRequired[dict[str, Any] | None]


class _MethodConfig(_Open):
    name: str
    implementation: NotRequired[str]
    view: NotRequired[str | None]
    params: NotRequired[dict[str, Any] | None]


class _ModelConfig(_Open):
    name: str
    source: NotRequired[str | None]


class _Config(_Open):
    method: _MethodConfig
    dataset: _DatasetConfig
    model: _ModelConfig
    roles: NotRequired[dict[str, _ModelConfig] | None]
    encoder: NotRequired[dict[str, Any] | None]
    seed: Count
    failed: NotRequired[Literal["zero", "skip"]]
    limit: NotRequired[int | None]


class _Run(_Open):
    config: _Config
    origins: NotRequired[dict[str, str] | None]


class _Layout(_Open):
    files: dict[str, list[tuple[str, Count]]]
    time: Annotated[float, Field(ge=0)]


class Schema:
    """Parses and checks one kind of file or line."""

    def __init__(self, kind: Any) -> None:
        self._adapter: TypeAdapter[Any] = TypeAdapter(kind)

    def parse(self, data: bytes) -> dict[str, Any]:
        """Parse JSON and check it. Raises WrongValue, or ValueError for no JSON and too deep nesting."""
        value: dict[str, Any]
        try:
            value = self._adapter.validate_json(data)
        except ValidationError as error:
            if not _LONE_SURROGATE.search(data) or error.errors()[0]["type"] != "json_invalid":
                raise _readable_error(error) from None
            self.parse(_LONE_SURROGATE.sub(b"?", data))  # checks all else
            value = json.loads(data)
        return value

    def check(self, value: Any) -> None:
        """Raise WrongValue for a value that was read from another format than JSON."""
        try:
            self._adapter.validate_python(value)
        except ValidationError as error:
            raise _readable_error(error) from None


def _readable_error(error: ValidationError) -> ValueError:
    first = error.errors(include_url=False, include_context=False)[0]
    if first["type"] == "json_invalid":
        return ValueError(first["msg"].removeprefix("Invalid JSON: "))
    return WrongValue(".".join(str(part) for part in first["loc"])[:200], first["msg"][:1].lower() + first["msg"][1:])


RECORD, DOCUMENT, MANIFEST, SUMMARY = map(Schema, (_Record, _Document, _Manifest, _Summary))
RUN, LAYOUT = map(Schema, (_Run, _Layout))
