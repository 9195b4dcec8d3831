"""How a method declares its settings: each stands once, with its default, limits and meaning.

    class Config(MethodConfig):
        # Construction: a change builds a new index.
        chunk_tokens: int = index_setting(300, gt=0, help="Most tokens of a chunk.")
        # Search
        k: int = setting(5, gt=0, help="Chunks that are shown.")
        # Recording: a change keeps the run's predictions.
        record_stops: int | None = recording_setting(None, ge=1, help="Stops to record.")

`harness show METHOD` prints the help. A field without one of these functions is an index setting,
so that a forgotten declaration builds an index anew instead of reusing a wrong one.
"""

from collections.abc import Iterator
from typing import Any, Literal

from pydantic import BaseModel, Field
from pydantic.fields import FieldInfo

Purpose = Literal["index", "answer", "recording"]


def setting(default: Any, *, help: str, **limits: Any) -> Any:  # noqa: A002
    """Declare a setting that changes answers, but no index.

    Args:
        default: The value where nobody sets it: the paper's or its authors' code's.
        help: What it is, its unit and its source, in one or two sentences.
        **limits: Limits as `pydantic.Field` has them (gt, ge, lt, le).
    """
    return _declared_field(default, "answer", help, limits)


def index_setting(default: Any, *, help: str, **limits: Any) -> Any:  # noqa: A002
    """Declare a setting that changes the index: another value builds a new one.

    Args:
        default: The value where nobody sets it: the paper's or its authors' code's.
        help: What it is, its unit and its source, in one or two sentences.
        **limits: Limits as `pydantic.Field` has them (gt, ge, lt, le).
    """
    return _declared_field(default, "index", help, limits)


def recording_setting(default: Any, *, help: str, **limits: Any) -> Any:  # noqa: A002
    """Declare a setting that changes what is recorded, but no answer.

    Args:
        default: The value where nobody sets it: the paper's or its authors' code's.
        help: What it is, its unit and its source, in one or two sentences.
        **limits: Limits as `pydantic.Field` has them (gt, ge, lt, le).
    """
    return _declared_field(default, "recording", help, limits)


def index_fields(config: type[BaseModel]) -> tuple[str, ...]:
    """The names of the settings that change a method's index, sorted.

    Args:
        config: The class of the method's settings.

    Returns:
        Those that `index_setting` declares, and those that nothing declares.
    """
    return tuple(sorted(_names_with_purpose(config, "index")))


def recording_fields(config: type[BaseModel]) -> tuple[str, ...]:
    """The names of the settings that change only what is recorded, sorted.

    Args:
        config: The class of the method's settings.
    """
    return tuple(sorted(_names_with_purpose(config, "recording")))


def help_of(field: FieldInfo) -> str:
    """What a setting says of itself; "" for a field without help."""
    return field.description or ""


def _declared_field(default: Any, purpose: Purpose, help_text: str, limits: dict[str, Any]) -> Any:
    """A pydantic field with a default, a help text and limits, which says what the setting is for.

    Args:
        default: The value where nobody sets it.
        purpose: What a change of it changes: "index", "answer" or "recording".
        help_text: The help text.
        limits: Limits as `pydantic.Field` has them.
    """
    return Field(
        default=default, description=help_text, json_schema_extra={"purpose": purpose}, **limits
    )


def _names_with_purpose(config: type[BaseModel], purpose: Purpose) -> Iterator[str]:
    """The names of a configuration's settings with this purpose, in the order of the class;
    `prompts` is left out."""
    for name, field in config.model_fields.items():
        if name != "prompts" and _declared_purpose(field) == purpose:
            yield name


def _declared_purpose(field: FieldInfo) -> str:
    """What a setting is for: "index" (the default), or what its declaration says."""
    declaration = field.json_schema_extra
    if isinstance(declaration, dict):
        return str(declaration["purpose"])
    return "index"
