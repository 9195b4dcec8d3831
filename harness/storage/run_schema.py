"""What the files of a run folder must look like for a reader to use them: names and types of what is read, no more.

    RECORD.parse(line)       a line as a dict; raises ValueError (no JSON) or WrongValue (a wrong value)
    DOCUMENT, MANIFEST, SUMMARY, RUN     the other files

Keys that are not named here are kept as they are, so a folder of an older or newer version still loads. A line is
parsed and checked in one pass, which takes no longer than parsing it with `json`.
"""

import json
import re
from datetime import datetime
from typing import Annotated, Any, Literal, NotRequired

from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

# Keys of a record's notes: whether the reply has the answer prefix, counts over all answers, what models judged.
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
# Types that are made at run time, which a type checker would refuse under their own names.
_typed_dict: Any = TypedDict
_not_required: Any = NotRequired
_list: Any = list
_dict: Any = dict


def _mapping(keys: dict[str, Any]) -> Any:
    """The type of a mapping with these keys and any others; a key with "?" may be missing.

    What is parsed has its keys in this order, which is that of the files: `harness score` changes no other byte.
    """
    kinds = {key.removesuffix("?"): _not_required[kind] if key.endswith("?") else kind for key, kind in keys.items()}
    made = _typed_dict("mapping", kinds)
    made.__pydantic_config__ = ConfigDict(extra="allow", strict=True, allow_inf_nan=False)
    return made


_COUNTED = ("uncounted?", "texts?", "texts_cut?", "retries?", "endings_cut?", "recounted?", "encoder_requests?")
_BILLED = _dict[str, _mapping({"input": Count, "cached": Count, "output": Count})]
_SENT = _mapping({"tokens": Count, "flops?": Costs, "billed?": _BILLED})
_USAGE_OF_PHASE = _mapping(
    {
        "flops?": Costs,
        **dict.fromkeys(("tokens_in?", "tokens_cached?", "tokens_reused?", "tokens_out?", "requests?"), Count),
        **dict.fromkeys(("seconds?", "queued?"), float),
        **dict.fromkeys(_COUNTED, Count),
        "roles?": Costs,
        "probes?": _mapping({"requests?": Count, "tokens": Count, "flops": Costs}),
        "billed?": _BILLED,
        "thinking?": _mapping({"tokens": Count, "unclosed": Count, "flops": Costs}),
        "replies?": dict[str, Count],
        "unanswered?": _SENT,
    }
)
USAGE_KEYS = frozenset(_USAGE_OF_PHASE.__annotations__)
"""The keys of a phase's usage that have a type."""
_USAGE = _dict[str, _USAGE_OF_PHASE]
_SUPPORT = _mapping({"document_id": str, "start": Count, "end": Count})
_GOLD = _mapping({"answers": list[str], "supporting": _list[_SUPPORT], "extra": dict[str, Any]})
_SHOWN = _mapping(
    {
        "text_sha256?": str,
        "kind": Literal["span", "generated"],
        "document_id?": str,
        "start?": Count,
        "end?": Count,
        "text?": str,
        "sources?": list[tuple[str, Count, Count]],
    }
)
_STEP = _mapping(
    {
        "action": str,
        "node": int | None,
        "level": int | None,
        "scores": dict[str, float],
        "tokens": Count,
        "p_yes": float | None,
        "flops": Costs | float,
        "shown": _SHOWN | None,
        "note": str,
        "answer?": str | None,
        "answer_flops?": Costs | float,
        "probe_flops?": Costs | float,
    }
)
_NOTES = _mapping(
    {
        "flags?": dict[str, str],
        "counts?": dict[str, list[Count]],
        "answer_prefix?": str,
        "scored?": str,
        "judges?": dict[str, dict[str, str]],
        "seconds?": float,
        "earlier?": _SENT,
        "uncorrected?": dict[str, float],
    }
)
_RECORD = _mapping(
    {
        "question_id": str,
        "question?": str | None,
        "options?": list[str] | None,
        "document_ids": list[str],
        "document_characters?": list[Count],
        "gold?": _GOLD | None,
        "prediction": str,
        "scores": dict[str, float],
        "usage": _USAGE,
        "shown": _list[_SHOWN],
        "stop_reason": str,
        "steps": _list[_STEP],
        "truncated": dict[str, Any] | None,
        "error": _mapping({"type": str, "message": str, "stage?": str}) | None,
        "notes": _NOTES,
    }
)
_STATUS = Literal["built", "hit", "failed"]
_DOCUMENT = _mapping({"document_id": str, "key?": str, "status": _STATUS, "usage": _USAGE, "question_id?": str})
_START = _mapping(
    {
        "started?": Date | None,
        "finished?": Date | None,
        "state?": str | None,
        "changed?": list[str] | dict[str, Any] | None,
        "parallel?": Count,
        "command?": list[str],
    }
)
_MANIFEST = _mapping(
    {
        "started?": Date | None,
        "dataset?": _mapping({"fingerprint?": str | None, "questions?": Count}) | None,
        "models?": dict[str, dict[str, Any]] | None,
        "scorers?": dict[str, str | int | None] | None,
        "judges?": dict[str, dict[str, Any]] | None,
        "packages?": dict[str, str | None] | None,
        "prompts?": dict[str, Any] | None,
        "first_prompts?": dict[str, Any],
        "starts?": _list[_START] | None,
        "warnings?": list[str] | None,
        "corrected?": _list[_mapping({"at": str, "file": str, "questions": Count, "scores": dict[str, float | None]})],
        "code?": dict[str, str] | None,
        "git?": dict[str, Any] | None,
        "imported?": _mapping({"tool": str, "files": _list[_mapping({"name": str, "sha256": str})]}),
    }
)
_SUMMARY = _mapping(
    {
        "index?": _mapping({"documents?": Count}) | None,
        "state?": str,
        "n_asked?": Count,
        "n_left_out?": Count,
        "replies?": dict[str, Count],
        "stopped_early?": _mapping({"questions": Count, "of": Count, "seed": Count, "verdicts": list[str]}),
        **dict.fromkeys(("n_total?", "n_scored?", "n_failed?"), Count),
        "scores?": _dict[str, _mapping({**dict.fromkeys(("mean", "low", "high"), float | None), "n?": Count})],
        "errors?": dict[str, Count],
    }
)
_DATASET = _mapping(
    {
        "name": str,
        "scorers": Annotated[list[str], Field(min_length=1)],
        "format?": str,
        "instruction?": str,
        "answer_prefix?": str | None,
        "options?": dict[str, Any] | None,
    }
)
_METHOD = _mapping({"name": str, "implementation?": str, "view?": str | None, "params?": dict[str, Any] | None})
_MODEL = _mapping({"name": str, "source?": str | None})
_CONFIG = _mapping(
    {
        "method": _METHOD,
        "dataset": _DATASET,
        "model": _MODEL,
        "roles?": _dict[str, _MODEL] | None,
        "encoder?": dict[str, Any] | None,
        "seed": Count,
        "failed?": Literal["zero", "skip"],
        "limit?": int | None,
    }
)


class Schema:
    """Parses and checks one kind of file or line. kind: its type, as pydantic takes it."""

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


RECORD, DOCUMENT, MANIFEST, SUMMARY = map(Schema, (_RECORD, _DOCUMENT, _MANIFEST, _SUMMARY))
RUN = Schema(_mapping({"config": _CONFIG, "origins?": dict[str, str] | None}))
