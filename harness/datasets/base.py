"""What a loaded data set is. Loaders (one file a family) return a `Dataset`; the runner reads
nothing else."""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeVar, cast

from pydantic import BaseModel

from harness.config import registry
from harness.config.schema import DatasetConfig
from harness.config.yaml_tree import Tree, validate_tree
from harness.types import Document, Example, Support


@dataclass(frozen=True)
class Dataset:
    """Questions with gold answers, and their documents.

    Attributes:
        name: The data set's name.
        examples: The questions with their gold answers, as many as the limit allows.
        documents: Id -> document.
        fingerprint: sha256 of the rows as used (content, not path); where that would mean reading
            whole libraries, of what stands for their content (harness.datasets.narrativeqa).
        source: Where the rows came from, for the manifest: a file's name or a hub id, never an
            absolute path.
        revision: The commit on the hub; None for a local data set.
        skipped: Reason -> count of the rows left out on purpose before the limit is reached.
        copy_facts: What made this copy of another data set (dataset.swap); None for an original.
        n_all_questions: The number of all questions, whatever the limit; 0 where they were not
            counted.
        kind_counts: (name, kind) -> the number of all questions of it (datasets.question_kinds).
        notes: Sentences about the source, printed as warnings.
        n_folder_documents: Documents in a folder of the user's own: a file is one, and a line of a
            .jsonl file; 0 for data that is no folder.
        page_spans: Id of a document -> name of a page or section of it -> its span, where a
            document holds several.
    """

    name: str
    examples: tuple[Example, ...]
    documents: Mapping[str, Document]
    fingerprint: str
    source: str
    revision: str | None = None
    skipped: dict[str, int] = field(default_factory=dict)
    copy_facts: Mapping[str, object] | None = None
    n_all_questions: int = 0
    kind_counts: Mapping[tuple[str, str], int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    n_folder_documents: int = 0
    page_spans: Mapping[str, Mapping[str, Support]] = field(default_factory=dict)

    def __len__(self) -> int:
        """The number of questions that were loaded (`examples`)."""
        return len(self.examples)

    @property
    def left_out(self) -> int:
        """The number of rows left out on purpose: the sum of the counts in `skipped`."""
        return sum(self.skipped.values())


def left_out_notes(skipped: Mapping[str, int]) -> list[str]:
    """A sentence on the rows that a loader left out, with its reasons; [] where it left out none.

    {"unanswerable": 3} -> ["rows of the data set that the loader left out: 3 (unanswerable)"]

    Args:
        skipped: Reason -> count, as in `Dataset.skipped` and in a run's manifest.
    """
    if not skipped:
        return []
    counts = ", ".join(f"{count} ({reason})" for reason, count in skipped.items())
    return [f"rows of the data set that the loader left out: {counts}"]


OptionsT = TypeVar("OptionsT", bound=BaseModel)


def parse_options(options_class: type[OptionsT], options: Mapping[str, object]) -> OptionsT:
    """Check `dataset.options` and return them as an object of the class of a format's options.

    Raises ConfigError for options that are unknown or malformed.

    Args:
        options_class: The class.
        options: The options as the configuration has them: {"tokens": 4096}.
    """
    options_of_no_origin = Tree([("", options)])
    return validate_tree(options_class, options_of_no_origin, "dataset")


class Loader(Protocol):
    """A module that loads a format by itself.

    Attributes:
        Options: What `dataset.options` may hold.
    """

    Options: type[BaseModel]

    def load(self, config: DatasetConfig, limit: int | None = None) -> Dataset:
        """Load the first `limit` questions (None: all) with their documents."""


def import_loader(format_name: str) -> Loader | None:
    """Import and return the module that loads a format by itself, such as "ruler".

    None for a format of rows, such as "musique": its parser is a function of one row.
    """
    module_and_function = registry.targets("loaders").get(format_name)
    if module_and_function is None:
        return None
    module_name, _, _ = module_and_function.partition(":")
    return cast(Loader, importlib.import_module(module_name))


def row_making(config: DatasetConfig) -> Literal["quick", "slow"] | None:
    """Whether a data set's rows are made by its format from its options alone, in a few seconds
    ("quick") or longer ("slow", also for a copy with other names); None for rows that are read.

    A format says so by a function `makes_rows_quickly(config)` of its loader.
    """
    makes_rows_quickly = getattr(import_loader(config.format), "makes_rows_quickly", None)
    if makes_rows_quickly is None:
        return None
    if config.swap is None and makes_rows_quickly(config):
        return "quick"
    return "slow"
