"""What a data set's format is: a parser of its rows, or a loader of its own, and its options.

find_row_format(config)  "musique", "qasper", "module:function": one raw row to a `Row`, a `Group` or a `Skip`
import_loader(name)          "pocket" makes its rows up, "narrativeqa" reads only those of its stories that it needs,
                         "retrieved" puts questions and the documents that were retrieved for them together
option_fields(name)      what `dataset.options` may hold
"""

import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from pydantic import ConfigDict, Field
from pydantic.fields import FieldInfo

from harness.config import registry
from harness.config.schema import DatasetConfig
from harness.datasets.base import import_loader
from harness.datasets.find_files import FileOptions
from harness.datasets.longbench import support_parser
from harness.datasets.place_options import LOOKED_UP, PLACED, Placement, PlaceOptions
from harness.datasets.placing import split_options, with_support_moved
from harness.datasets.raw_rows import RawRow
from harness.datasets.rows import (
    Group,
    Retrieved,
    Row,
    RowError,
    Skip,
    StrictRow,
    example_and_document,
    refuse_half_characters,
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


def format_names() -> list[str]:
    """The names of the built-in formats, sorted."""
    return sorted([*registry.targets("row_formats"), *registry.targets("loaders")])


def option_fields(name: str) -> dict[str, FieldInfo]:
    """The options that a format has: name -> field of `dataset.options` with type, default,
    description.

    Args:
        name: The format.
    """
    loader = import_loader(name)
    if loader is not None:
        return dict(loader.Options.model_fields)
    if name in PLACED:
        return {**FileOptions.model_fields, **PlaceOptions.model_fields}
    if name == LOOKED_UP:
        return {**FileOptions.model_fields, **LookUpOptions.model_fields}
    return dict(FileOptions.model_fields)


def help_on_documents(format_name: str) -> str:
    """Help on how to give a format its retrieved documents; "" for a format whose rows have their
    own document."""
    return str(getattr(import_loader(format_name), "HELP_ON_DOCUMENTS", ""))


class _ParserWithKeys(NamedTuple):
    """The parser of a format's rows.

    Attributes:
        parse: One raw row to a question, or several on one document.
        row_keys: Keys of a row where a file may be one object {id: row, ...}, else ().
    """

    parse: RowParser
    row_keys: tuple[str, ...]


def _find_parser(config: DatasetConfig) -> _ParserWithKeys:
    """The parser of a format's rows, with those of the data set's subset, split and question that
    it takes filled in. A parser of the user's own gets none of them, and its results are checked.

    Imports the module of the parser.

    Args:
        config: Names the format, built in or "module:function".

    Returns:
        The parser, and the keys of a row (ROW_KEYS of its module) where the format has files of one
        object {id: row, ...}, else ().

    Raises:
        UnknownName: There is no such format.
        ConfigError: It names no function.
    """
    format_name = config.format
    shipped_parsers = registry.targets("row_formats")  # name -> "module:function"
    target = shipped_parsers.get(format_name, format_name)
    module, _, function = target.partition(":")
    if not function:
        own_format = "or 'module:function' for a format of your own"
        raise UnknownName("data set format", format_name, format_names(), see=own_format)
    parser = registry.load(format_name, section="row_formats")
    if not callable(parser):
        raise ConfigError([f"dataset.format: '{format_name}' is not a function"])
    if format_name not in shipped_parsers:
        return _ParserWithKeys(partial(_run_users_parser, parser, format_name), ())
    settings = {
        "subset": config.subset,
        "split": config.split,
        "question": config.options.get("question"),
    }
    accepted_names = inspect.signature(parser).parameters.keys() & settings
    arguments = {name: settings[name] for name in accepted_names}
    row_keys = getattr(importlib.import_module(module), "ROW_KEYS", ())
    return _ParserWithKeys(partial(parser, **arguments), tuple(row_keys))


class _RowFields(StrictRow):
    """The types of a Row's fields, to check one of the user's own parser; lists will do for
    tuples."""

    model_config = ConfigDict(strict=False)
    id: str
    question: str
    paragraphs: tuple[tuple[str, str], ...]
    answers: tuple[str, ...]
    supporting: tuple[int, ...]


def _run_users_parser(
    users_parser: RowParser, parser_name: str, raw: RawRow
) -> Row | Skip | Group | Retrieved:
    """Parse a row by the user's parser, and check what it returns.

    Args:
        users_parser: The user's function.
        parser_name: Its name, "module:function", for messages.
        raw: The row.

    Raises:
        RowError: The parser failed, with the line that failed, or returned something else.
    """
    try:
        row = users_parser(raw)
        if isinstance(row, Row):
            _check_row_from_user(row)
    except (RowError, UserError):
        raise
    except Exception as error:  # the user's code may raise anything
        missing_field = None
        if isinstance(error, KeyError) and error.args:
            missing_field = str(error.args[0])
        problem = f"the parser '{parser_name}' failed: {error_in_one_line(describe_failure(error))}"
        raise RowError(missing_field, problem) from error
    if not isinstance(row, Row | Skip | Group | Retrieved):
        raise RowError(
            None,
            f"the parser '{parser_name}' returned {type(row).__name__}; return a Row, a Group or "
            "a Skip",
        )
    return row


def _check_row_from_user(row: Row) -> None:
    """Check the fields of a row that a parser of the user's own made.

    Raises RowError for a field that is of another type or empty, and what JSON raises for a value
    that it cannot hold.
    """
    _RowFields.read({name: getattr(row, name) for name in _RowFields.model_fields})
    refuse_half_characters(example_and_document(row))


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


def find_row_format(config: DatasetConfig) -> RowFormat:
    """How the rows of a data set are read: by which parser, and where support is moved, if it is.

    The options that place the support are taken out of the config. For a placement in LongBench,
    whose rows do not mark the support, the original rows, which do, are read at once.

    Raises ConfigError, UnknownName, and what reading the original rows raises.
    """
    parser, row_keys = _find_parser(config)
    # Formats whose rows mark the support, and LongBench's, for which it is looked up.
    has_place_options = config.format in (*PLACED, LOOKED_UP)
    if not has_place_options:
        return RowFormat(config, parser, row_keys)
    placement, other_options = split_options(config.options)
    if config.format == LOOKED_UP:
        support = other_options.pop("support", None)
        other_options.pop("question", None)
        if placement is not None:
            parser = support_parser(config, str(support or ""), placement)
    elif placement is not None:
        parser = partial(_parse_and_place, parser, placement)
    config = config.model_copy(update={"options": other_options})
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
        return with_support_moved(row, placement)
    return row
