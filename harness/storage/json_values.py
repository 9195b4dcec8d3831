"""The base of typed values that are read from a JSON object of a run folder and written back.

    class CutTexts(JsonValues):
        texts: int | None
        cut: int

    CutTexts.from_json({"texts": 9, "cut": 2, "new": 1}).cut    -> 2
    CutTexts.from_json({"texts": 9, "cut": 2, "new": 1}).to_json()    -> {"texts": 9, "cut": 2, "new": 1}

Keys of other versions are held and written back, and a key that the object lacks is not written.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainValidator, ValidationError

from harness.storage.files import wrong_value

NULL_IS_EMPTY = BeforeValidator(lambda value: {} if value is None else value)
"""For an object that older runs have as null."""
NULL_IS_NO_ITEM = BeforeValidator(lambda value: [] if value is None else value)
"""For a list that older runs have as null."""
NOT_CHECKED = PlainValidator(lambda value: value)
"""For values that are taken as they stand, such as costs, whose keys differ between versions."""


class JsonValues(BaseModel):
    """A JSON object with known keys. It is never changed: `with_values` gives a changed copy."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)

    @classmethod
    def from_json(cls, values: Mapping[str, object]) -> Self:
        """Parse a JSON object into this type. Raises WrongValue where a key
        is missing or not of its type.
        """
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            raise wrong_value(error) from None

    def to_json(self) -> dict[str, object]:
        """The JSON object, without the keys that it lacked when it was read."""
        return self.model_dump(exclude_unset=True, warnings=False)

    def with_values(self, **values: Any) -> Self:
        """A copy in which these keys have these values; they are not checked."""
        return self.model_copy(update=values)

    def without(self, *keys: str) -> Self:
        """A copy of the object that lacks these keys."""
        values = self.to_json()
        for key in keys:
            values.pop(key, None)
        return self.from_json(values)

    def has(self, key: str) -> bool:
        """Whether the object has a key, even with an empty value."""
        return key in self.model_fields_set

    @property
    def has_values(self) -> bool:
        """Whether the object has any key; that of a file that is not written yet has none."""
        return bool(self.model_fields_set)


def json_file(values: JsonValues) -> bytes:
    """The bytes of a JSON file that holds these values, indented, with a line end."""
    return json.dumps(values.to_json(), indent=2, allow_nan=False).encode() + b"\n"
