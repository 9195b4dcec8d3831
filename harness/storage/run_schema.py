"""What a reader needs of the files of a run folder: which keys must be there, and of which type.

`harness.storage.files.check(values, RECORD)` checks by them. Other keys are kept: folders of older
and newer versions still load.
"""

from typing import Any, Literal, NotRequired

from pydantic import TypeAdapter
from typing_extensions import TypeAliasType, TypedDict

# Mappings of any depth whose innermost values are numbers, null where one is unknown.
_NUMBERS = TypeAliasType("_NUMBERS", "dict[str, float | _NUMBERS | None]")
_MAPPING = dict[str, Any]


def _form(kinds: dict[str, Any]) -> Any:
    """The type of an object with these keys; a key that ends with "?" may be missing or null."""
    fields = {
        key.rstrip("?"): NotRequired[kind | None] if key.endswith("?") else kind
        for key, kind in kinds.items()
    }
    return TypedDict("_form", fields)  # type: ignore[operator]


_SPAN = {
    **dict.fromkeys(("kind?", "document_id?", "text?"), str),
    **dict.fromkeys(("start?", "end?"), int),
}
_SHOWN: Any = _form({**_SPAN, "sources?": list[list[Any]]})
_STEP: Any = _form(
    dict.fromkeys(("action?", "note?", "answer?"), str)
    | dict.fromkeys(("node?", "level?", "tokens?"), int)
    # FLOPs are a plain number in older runs.
    | {"scores?": _NUMBERS, "p_yes?": float, "shown?": _SHOWN, "flops?": _NUMBERS | float}
)
_FOUND: Any = _form({"shown": list[_SHOWN], "pages?": list[list[Any]]})
_SEARCH: Any = _form({"query": str, "found": list[_FOUND]})
_GOLD = _form({"answers?": list[str], "supporting?": list[_MAPPING], "extra?": _MAPPING})

RECORD: TypeAdapter[Any] = TypeAdapter(
    _form(
        dict.fromkeys(("question_id", "prediction", "stop_reason"), str)
        | {
            "document_ids": list[str],
            "shown": list[_SHOWN],
            "steps": list[_STEP],
            "notes": _MAPPING,
        }
        | {
            "scores": dict[str, float],
            "usage": dict[str, _NUMBERS],
            "gold?": _GOLD,
            "searches?": list[_SEARCH],
            "options?": list[str],
        }
        | dict.fromkeys(("truncated?", "error?"), _MAPPING)
    )
)
DOCUMENT: TypeAdapter[Any] = TypeAdapter(
    _form(
        {
            "document_id": str,
            "key?": str,
            "status": Literal["built", "hit", "failed"],
            "usage": dict[str, _NUMBERS],
            "question_id?": str,
        }
    )
)
