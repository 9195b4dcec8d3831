"""What a reader needs of the files of a run folder: which keys must be there, and of which type.

    RECORD.parse(line)       a line as a dict; raises ValueError (no JSON) or WrongValue (a key is missing, or wrong)
    DOCUMENT, MANIFEST, SUMMARY, RUN     the other files

Other keys are kept as they are, so a folder of an older or newer version still loads.
"""

from types import NoneType
from typing import Any

from harness.storage.read_files import as_object

# Keys of a record's notes: whether the reply has the answer prefix, counts over all answers, what models judged.
PREFIX, MISSING, COUNTS, JUDGES = "answer_prefix", "missing", "counts", "judges"
LOGGED = "logged."
"""The start of the names of scores that another tool gave (harness import); nothing here can compute them."""


class WrongValue(ValueError):
    """A value of the wrong type: key is its place ("config.dataset.name"), the message says what it should be."""

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(problem)
        self.key = key


class Schema:
    """Parses and checks one kind of file or line.

    kinds: "config.dataset.name" -> type, or types, of that key; one with "?" behind it may be missing or null.
    """

    def __init__(self, kinds: dict[str, Any]) -> None:
        self._kinds = [(key.rstrip("?").split("."), kind, key.endswith("?")) for key, kind in kinds.items()]

    def parse(self, data: bytes) -> dict[str, Any]:
        """Parse JSON and check it. Raises WrongValue, or ValueError for no JSON object."""
        value = as_object(data)
        self.check(value)
        return value

    def check(self, value: Any) -> None:
        """Raise WrongValue where a key is missing or not of its type."""
        for path, kind, optional in self._kinds:
            found = value
            for key in path:
                found = found.get(key) if isinstance(found, dict) else None
            if not isinstance(found, kind) and not (optional and found is None):
                named = " or ".join(_NAMES[k] for k in (kind if isinstance(kind, tuple) else (kind,)))
                raise WrongValue(".".join(path), f"should be {named}")


_NAMES = {str: "a text", dict: "an object", list: "a list", int: "a whole number", NoneType: "null"}
_OBJECT_OR_NULL = (dict, NoneType)

RECORD = Schema(
    {
        **dict.fromkeys(("question_id", "prediction", "stop_reason"), str),
        **dict.fromkeys(("document_ids", "shown", "steps"), list),
        **dict.fromkeys(("scores", "usage", "notes"), dict),
        **dict.fromkeys(("truncated", "error"), _OBJECT_OR_NULL),
        "gold?": dict,
        "options?": list,
    }
)
DOCUMENT = Schema({"document_id": str, "status": str, "usage": dict})
MANIFEST = Schema(
    dict.fromkeys(
        ("dataset?", "models?", "scorers?", "judges?", "packages?", "prompts?", "first_prompts?", "imported?"), dict
    )
    | {"starts?": list, "warnings?": list, "started?": str}
)
SUMMARY = Schema({"state?": str, "n_total?": int, "scores?": dict, "index?": dict, "index.documents?": int})
RUN = Schema(
    {
        **dict.fromkeys(("config.method.name", "config.dataset.name", "config.model.name"), str),
        "config.dataset.scorers": list,
        "config.seed": int,
        "origins?": dict,
    }
)
