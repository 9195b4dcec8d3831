"""What a reader needs of the files of a run folder: which keys must be there, and of which type.

`harness.storage.files.check(values, RECORD)` checks by them. Other keys are kept: folders of older
and newer versions still load. A key that is NotRequired may also be null.
"""

from typing import Any, Literal, NotRequired

from pydantic import TypeAdapter
from typing_extensions import TypeAliasType, TypedDict

# Mappings of any depth whose innermost values are numbers, null where one is unknown.
_NUMBERS = TypeAliasType("_NUMBERS", "dict[str, float | _NUMBERS | None]")
_MAPPING = dict[str, object]


class _Shown(TypedDict):
    kind: NotRequired[str | None]
    document_id: NotRequired[str | None]
    text: NotRequired[str | None]
    start: NotRequired[int | None]
    end: NotRequired[int | None]
    sources: NotRequired[list[list[Any]] | None]


class _Step(TypedDict):
    action: NotRequired[str | None]
    note: NotRequired[str | None]
    answer: NotRequired[str | None]
    node: NotRequired[int | None]
    level: NotRequired[int | None]
    tokens: NotRequired[int | None]
    scores: NotRequired[_NUMBERS | None]
    p_yes: NotRequired[float | None]
    shown: NotRequired[_Shown | None]
    flops: NotRequired[_NUMBERS | float | None]  # a plain number in older runs


class _Found(TypedDict):
    shown: list[_Shown]
    pages: NotRequired[list[list[Any]] | None]


class _Search(TypedDict):
    query: str
    found: list[_Found]


class _Gold(TypedDict):
    answers: NotRequired[list[str] | None]
    supporting: NotRequired[list[_MAPPING] | None]
    extra: NotRequired[_MAPPING | None]


class _Record(TypedDict):
    question_id: str
    prediction: str
    stop_reason: str
    document_ids: list[str]
    shown: list[_Shown]
    steps: list[_Step]
    notes: _MAPPING
    scores: dict[str, float]
    usage: dict[str, _NUMBERS]
    gold: NotRequired[_Gold | None]
    searches: NotRequired[list[_Search] | None]
    options: NotRequired[list[str] | None]
    truncated: NotRequired[_MAPPING | None]
    error: NotRequired[_MAPPING | None]


class _Document(TypedDict):
    document_id: str
    key: NotRequired[str | None]
    status: Literal["built", "hit", "failed"]
    usage: dict[str, _NUMBERS]
    question_id: NotRequired[str | None]


RECORD: TypeAdapter[Any] = TypeAdapter(_Record)
DOCUMENT: TypeAdapter[Any] = TypeAdapter(_Document)
