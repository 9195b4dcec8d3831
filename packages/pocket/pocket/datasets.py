"""Made-up data sets: the package `pocket` writes the documents and questions when they are loaded.

    format: pocket        options: {kind: musique, tokens: 2000, seed: 0, questions: 20, hops: [1, 2], place: head}
    split: validation     seeds 0 to 999,999
    split: train          seeds from 1,000,000 on; a smaller one is counted from there, so that the
                          few-shot examples of a data set need no seed of their own

Encyclopedic kinds go through their official row format and its parser, so what is loaded is what a
file of such rows would give. Question n of a seed does not depend on the number of questions or on
the place of its supporting paragraphs (`place` and `distance`, harness.datasets.placing; only
encyclopedic texts are paragraphs in any order).
"""

import dataclasses
import hashlib
import itertools
from collections.abc import Mapping
from typing import Any

from pydantic import Field, StrictInt, ValidationError, field_validator

from harness.config import registry
from harness.config.schema import DatasetConfig, canonical_json
from harness.config.yaml_tree import error_sentences
from harness.datasets.base import Dataset
from harness.datasets.place_options import PLACED, Placement, PlaceOptions, placement_from_options
from harness.datasets.placing import with_support_moved
from harness.datasets.rows import Row, example_and_document
from harness.errors import ConfigError, UnknownName
from harness.types import Document, Example
from pocket.world import sample as world

_PURPOSES: dict[str, world.Purpose] = {
    "validation": "evaluation",
    "test": "evaluation",
    "train": "training",
}
_FILES = ("data", "hub", "subset", "revision")
_QUICK_CHARACTERS = 8_000_000  # are made in about two seconds, at four million a second


class Options(PlaceOptions):
    """The options of a made-up data set."""

    kind: str = Field(description="the data set whose kind of text and question is made")
    tokens: StrictInt = Field(
        default=2000, description="length of each document, in characters / 4"
    )
    seed: StrictInt = Field(
        default=0, description="another seed makes other documents and questions"
    )
    questions: StrictInt = Field(default=20, ge=1, description="number of questions")
    hops: tuple[StrictInt, ...] = Field(
        default=(), description="numbers of hops to choose from, or one number"
    )

    @field_validator("hops", mode="before")
    @classmethod
    def _as_tuple(cls, value: Any) -> Any:
        """One number of hops as a tuple: 2 -> (2,); other values stay, to be checked."""
        if isinstance(value, int):
            return (value,)
        return value


def _checked_options(config: DatasetConfig) -> tuple[Options, world.Purpose]:
    """The options of a made-up data set, and the purpose that its split names ("evaluation" or
    "training"). A seed for training is moved to where such seeds begin.

    Raises ConfigError, which names every mistake that is not in the form of the options.
    """
    settings_of_files = [name for name in _FILES if getattr(config, name) is not None]
    problems = [
        f"dataset.{name}: '{config.name}' is made up, not read; leave it out"
        for name in settings_of_files
    ]
    if config.split not in _PURPOSES:
        problems.append(f"dataset.split: {UnknownName('split', config.split, _PURPOSES)}")
    try:
        options = Options.model_validate(config.options)
    except ValidationError as error:
        raise ConfigError(problems + error_sentences(error, Options, "dataset", {})) from None
    placement_settings = [
        name for name in PlaceOptions.model_fields if getattr(options, name) is not None
    ]
    if placement_settings and options.kind in world.KINDS and options.kind not in PLACED:
        reason = f"the paragraphs of a text of kind '{options.kind}' stand in an order of their own"
        problems += [
            f"dataset.{name}: {reason}; use {', '.join(PLACED)}" for name in placement_settings
        ]
    elif options.distance is not None and options.hops and max(options.hops) < 2:
        problems.append(
            "dataset.distance: a question of one hop has one supporting paragraph; set "
            "dataset.hops to 2 or more"
        )
    if problems:
        raise ConfigError(problems)
    purpose = _PURPOSES[config.split]
    if purpose == "training" and 0 <= options.seed < world.FIRST_TRAINING_SEED:
        seed = options.seed + world.FIRST_TRAINING_SEED
        options = options.model_copy(update={"seed": seed})
    try:
        world.check(options.kind, options.seed, options.tokens, options.hops or (1,), purpose)
    except ConfigError as error:
        raise ConfigError([f"dataset.{problem}" for problem in error.sentences]) from None
    return options, purpose


def makes_rows_quickly(config: DatasetConfig) -> bool:
    """Whether all rows of a made-up data set are made in about two seconds, by their number of
    characters; False for options that make no sense."""
    try:
        options = Options.model_validate(config.options)
    except ValidationError:
        return False
    characters = 4 * options.tokens * options.questions
    return characters <= _QUICK_CHARACTERS


def load(config: DatasetConfig, limit: int | None = None) -> Dataset:
    """Make the questions and documents of a made-up data set: documents number 0, 1, 2, ... with
    their questions, until there are enough.

    All questions are made, as the fingerprint is that of all; the first `limit` are returned, with
    their documents.

    Args:
        config: The data set, with its options.
        limit: Most questions; None for all.

    Raises:
        ConfigError: Options make no sense.
        UnknownName: There is no such kind of text.
    """
    options, purpose = _checked_options(config)
    placement = placement_from_options(options)
    n_returned = options.questions
    if limit is not None:
        n_returned = min(limit, n_returned)
    fingerprint = hashlib.sha256(b"pocket 1\n")
    examples: list[Example] = []
    documents: dict[str, Document] = {}
    n_made = 0
    for number in itertools.count():
        made = _make_questions(options, purpose, placement, number)
        questions = made.questions[: options.questions - n_made]
        hashed_parts: list[Document | Example] = [*made.documents, *questions]
        for part in hashed_parts:
            fingerprint.update(f"{canonical_json(dataclasses.asdict(part))}\n".encode())
        if n_made < n_returned:
            examples += questions[: n_returned - n_made]
            for document in made.documents:
                documents[document.id] = document
        n_made += len(questions)
        if n_made == options.questions:
            break
    length = f"{options.tokens} tokens a text"
    source = f"made up by pocket: {options.kind}, seed {options.seed}, {length}"
    if placement is not None:
        source += f", {placement}"
    return Dataset(
        config.name,
        tuple(examples),
        documents,
        fingerprint=fingerprint.hexdigest(),
        source=source,
    )


@dataclasses.dataclass(frozen=True)
class _MadeQuestions:
    """Documents that were made together, and the questions about them."""

    questions: tuple[Example, ...]
    documents: tuple[Document, ...]


def _make_questions(
    options: Options, purpose: world.Purpose, placement: Placement | None, number: int
) -> _MadeQuestions:
    """Make the documents of one number with their questions. Where the data set has an official
    format, they are read from the row in that format, and supporting paragraphs are moved.

    Args:
        options: The options of the data set.
        purpose: Whether they are to train on or to test on.
        placement: Where to put supporting paragraphs; None to leave them.
        number: The number of the documents among those of the seed, from 0.
    """
    sample = world.sample(
        options.kind,
        options.seed,
        tokens=options.tokens,
        purpose=purpose,
        hops=options.hops,
        number=number,
    )
    if sample.rows:
        example, document = _read_official(options.kind, sample.rows[0], placement)
        return _MadeQuestions(questions=(example,), documents=(document,))
    return _MadeQuestions(questions=sample.examples, documents=sample.documents)


def _read_official(
    kind: str, official_row: Mapping[str, object], placement: Placement | None
) -> tuple[Example, Document]:
    """Turn a row in the official format of a data set into a question and its document, with the
    parser that reads the data set's own files.

    Args:
        kind: The data set whose format it is.
        official_row: The row.
        placement: Where to put its supporting paragraphs; None to leave them.
    """
    parse = registry.import_target(registry.targets("row_formats")[kind])
    row = parse(dict(official_row))
    assert isinstance(row, Row)  # the world makes no row to leave out
    if placement is not None:
        row = with_support_moved(row, placement)
    return example_and_document(row)
