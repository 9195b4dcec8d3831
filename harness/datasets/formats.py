"""What a data set's format is: a parser of its rows, or a loader of its own, and its options.

row_format(config)       "musique", "qasper", "module:function": one raw row to a `Row`, a `Group` or a `Skip`
loader_of(name)          "pocket" makes its rows up, "narrativeqa" reads only those of its stories that it needs,
                         "retrieved" puts questions and the documents that were retrieved for them together
option_fields(name)      what `dataset.options` may hold
"""

import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from pydantic import ConfigDict, Field
from pydantic.fields import FieldInfo

from harness.config import registry
from harness.config.schema import DatasetConfig
from harness.datasets.base import loader_of
from harness.datasets.find_files import FileOptions
from harness.datasets.longbench import support_parser
from harness.datasets.place_options import LOOKED_UP, PLACED, Placement, PlaceOptions
from harness.datasets.placing import rearrange, split_options
from harness.datasets.raw_rows import RawRow
from harness.datasets.rows import (
    Group,
    Retrieved,
    Row,
    RowError,
    Skip,
    StrictRow,
    example_and_document,
    canonical_line,
)
from harness.errors import ConfigError, UnknownName, UserError
from harness.storage.failures import describe_failure, error_in_one_line


class LookUpOptions(PlaceOptions):
    """The options of LongBench's data sets: to move supporting paragraphs, and for rows that ask
    nothing."""

    support: str | None = Field(
        default=None,
        description="with place or distance: the original data set, a preset or a file, which marks the support",
    )
    question: str | None = Field(default=None, description="asked where a row asks nothing")


RowParser = Callable[[RawRow], Row | Skip | Group | Retrieved]


def formats() -> list[str]:
    """The names of the built-in formats, sorted."""
    return sorted([*registry.targets("row_formats"), *registry.targets("loaders")])


def option_fields(name: str) -> dict[str, FieldInfo]:
    """The options that a format has: name -> field of `dataset.options` with type, default,
    description.

    Args:
        name: The format.
    """
    loader = loader_of(name)
    if loader is not None:
        return dict(loader.Options.model_fields)
    if name in PLACED:
        return {**FileOptions.model_fields, **PlaceOptions.model_fields}
    if name == LOOKED_UP:
        return {**FileOptions.model_fields, **LookUpOptions.model_fields}
    return dict(FileOptions.model_fields)


def documents_given(name: str) -> str:
    """Help on how to give a format its retrieved documents; "" for a format whose rows have their
    own document."""
    return str(getattr(loader_of(name), "GIVEN", ""))


def _find_parser(config: DatasetConfig) -> tuple[RowParser, tuple[str, ...]]:
    """The parser of a format's rows, with the data set's subset, split and question filled in.

    Args:
        config: Names the format, built in or "module:function".

    Returns:
        The parser; and the keys of a row where a file may be one object {id: row, ...}, else ().

    Raises:
        UnknownName: There is no such format.
        ConfigError: It names no function.
    """
    name = config.format
    parsers = registry.targets("row_formats")
    module, _, function = parsers.get(name, name).partition(":")
    if not function:
        raise UnknownName(
            "data set format", name, formats(), see="or 'module:function' for a format of your own"
        )
    parser = registry.load(name, section="row_formats")
    if not callable(parser):
        raise ConfigError([f"dataset.format: '{name}' is not a function"])
    if name not in parsers:
        return partial(_run_users_parser, parser, name), ()
    settings = {
        "subset": config.subset,
        "split": config.split,
        "question": config.options.get("question"),
    }
    accepted = inspect.signature(parser).parameters.keys() & settings
    arguments = {key: settings[key] for key in accepted}
    row_keys = getattr(importlib.import_module(module), "ROW_KEYS", ())
    return partial(parser, **arguments), tuple(row_keys)


class _RowFields(StrictRow):
    """The types of a Row's fields, to check one of the user's own parser; lists will do for
    tuples."""

    model_config = ConfigDict(strict=False)
    id: str
    question: str
    paragraphs: tuple[tuple[str, str], ...]
    answers: tuple[str, ...]
    supporting: tuple[int, ...]


def _run_users_parser(parser: RowParser, name: str, raw: RawRow) -> Row | Skip | Group | Retrieved:
    """Parse a row by the user's parser, and check what it returns.

    Args:
        parser: The user's function.
        name: Its name, for messages.
        raw: The row.

    Raises:
        RowError: The parser failed, with the line that failed, or returned something else.
    """
    try:
        row = parser(raw)
        if isinstance(row, Row):
            _RowFields.read({name: getattr(row, name) for name in _RowFields.model_fields})
            canonical_line(example_and_document(row))  # what JSON cannot hold shows here
    except (RowError, UserError):
        raise
    except Exception as error:  # the user's code may raise anything
        field = None
        if isinstance(error, KeyError) and error.args:
            field = str(error.args[0])
        raise RowError(
            field, f"the parser '{name}' failed: {error_in_one_line(describe_failure(error))}"
        ) from error
    if not isinstance(row, Row | Skip | Group | Retrieved):
        raise RowError(
            None,
            f"the parser '{name}' returned {type(row).__name__}; return a Row, a Group or a Skip",
        )
    return row


@dataclass(frozen=True)
class RowFormat:
    """How the rows of a data set are read.

    Attributes:
        config: The data set's, without the options of the placement.
        parse: One raw row to a question, or several on one document.
        row_keys: Keys of a row where a file may be one object {id: row, ...}, else ().
        placement: Where the supporting paragraphs are moved; None: nowhere.
    """

    config: DatasetConfig
    parse: RowParser
    row_keys: tuple[str, ...]
    placement: Placement | None = None


def row_format(config: DatasetConfig) -> RowFormat:
    """How the rows of a data set are read: by which parser, and where support is moved, if it is.

    Raises ConfigError, UnknownName.
    """
    parser, row_keys = _find_parser(config)
    if config.format not in (*PLACED, LOOKED_UP):
        return RowFormat(config, parser, row_keys)
    placement, rest = split_options(config.options)
    if config.format == LOOKED_UP:
        support = rest.pop("support", None)
        rest.pop("question", None)
        if placement is not None:
            parser = support_parser(config, str(support or ""), placement)
    elif placement is not None:
        parser = partial(_parse_and_place, parser, placement)
    config = config.model_copy(update={"options": rest})
    return RowFormat(config, parser, row_keys, placement)


def _parse_and_place(
    parser: RowParser, placement: Placement, raw: RawRow
) -> Row | Skip | Group | Retrieved:
    """Parse a row, and move its supporting paragraphs where it has paragraphs of its own.

    Args:
        parser: The format's parser.
        placement: Where the supporting paragraphs are to be.
        raw: The row.

    Raises:
        RowError: The row cannot be parsed.
    """
    row = parser(raw)
    if isinstance(row, Row):
        return rearrange(row, placement)
    return row
