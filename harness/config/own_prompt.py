"""A system prompt and an answer format of the user's own, each read from a file.

    --system-prompt brief.txt       SystemPrompt("brief", "You are a clerk ...")
    --answer-schema reply.json      AnswerSchema("reply", {"type": "object", "properties": {"answer": ...}})

A setting holds the text itself from here on, so that a run.yaml needs no file.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict


class SystemPrompt(BaseModel):
    """The system turn that stands before the request for an answer.

    Attributes:
        name: The name of its file, as tables show it.
        text: The prompt.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    name: str
    text: str


class AnswerSchema(BaseModel):
    """The JSON schema that a reply has to follow.

    Attributes:
        name: The name of its file, as tables show it.
        form: The schema.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    name: str
    form: dict[str, object]


def read_system_prompt(value: Any) -> Any:
    """Read the system prompt from a file, if a setting names one: {"name": "brief", "text": "You
    are a clerk ..."}.

    Args:
        value: The name of the file. Anything but a text is returned as it is.

    Raises:
        ValueError: There is no such file, or it is empty.
    """
    if not isinstance(value, str):
        return value
    text = _read_text(value).strip()
    if not text:
        raise ValueError(f"{value} is empty; write the system prompt into it")
    return {"name": _name_in_tables(value), "text": text}


def read_answer_schema(value: Any) -> Any:
    """Read and check the JSON schema in a file, if a setting names one: {"name": "reply", "form":
    {"type": "object", ...}}.

    Args:
        value: The name of the file. Anything but a text is returned as it is.

    Raises:
        ValueError: There is no such file, or it holds no JSON schema.
    """
    from jsonschema import Draft202012Validator, SchemaError

    if not isinstance(value, str):
        return value
    try:
        schema = json.loads(_read_text(value))
    except json.JSONDecodeError as error:
        raise ValueError(f"{value} is not JSON: {error}") from error
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        raise ValueError(f"{value} is no JSON schema: {error.message}") from error
    return {"name": _name_in_tables(value), "form": schema}


def _name_in_tables(path: str) -> str:
    """The name of a file in tables, without its ending: as it was typed, or the mere file name
    where it was typed as a place on this machine.
    """
    file = Path(path)
    if file.is_absolute() or path.startswith("~"):
        return file.stem
    return file.with_suffix("").as_posix()


def _read_text(path: str) -> str:
    """Read the text of a file. Raises ValueError, which pydantic turns
    into a sentence on the setting.
    """
    try:
        return Path(path).expanduser().read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ValueError(f"{path} could not be read ({error.strerror}); name a file") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8; save it so") from error
