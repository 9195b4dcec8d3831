"""The rows behind a run: gold answers, question and document texts, which the records do not hold.

    rows = read_rows(run)
    rows.examples["2hop__482757"].gold.answers     rows.documents["2hop__482757"].text     rows.problem    None

They are read from where run.yaml says the data set is, without a connection; a data set of the hub comes from the
cache. Rows that are not those the run was made with are not used: `problem` then says why there are none.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.errors import UserError
from reports import stored as facts

if TYPE_CHECKING:
    from harness.storage.run_folder import StoredRun
    from harness.types import Document, Example


@dataclass(frozen=True)
class Rows:
    """Examples and documents by id; both are empty where `problem` says why they cannot be had."""

    examples: Mapping[str, Example] = field(default_factory=dict)
    documents: Mapping[str, Document] = field(default_factory=dict)
    problem: str | None = None


def read_rows(run: StoredRun) -> Rows:
    """The rows of `run`. Never raises for data that is missing or has changed: see `problem`."""
    from pydantic import ValidationError

    from harness.config.schema import DatasetConfig
    from harness.datasets import load

    name = run.config["dataset"]["name"]
    try:
        with offline():
            data = load(DatasetConfig.model_validate(run.config["dataset"]))
    except ValidationError as e:
        first = e.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        return Rows(
            problem=f"the rows of {name} are not available: run.yaml does not describe them whole "
            f"({where}: {first['msg']})"
        )
    except UserError as e:
        return Rows(problem=f"the rows of {name} are not available: {e}")
    if data.fingerprint != facts.fingerprint(run):
        return Rows(problem=f"the rows of {name} are not those the run was made with, so they are not shown")
    return Rows({example.question.id: example for example in data.examples}, data.documents)


@contextmanager
def offline() -> Iterator[None]:
    """A report never connects: files of the hub come from the cache or not at all."""
    before = os.environ.get("HF_HUB_OFFLINE")
    os.environ["HF_HUB_OFFLINE"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["HF_HUB_OFFLINE"]
        else:
            os.environ["HF_HUB_OFFLINE"] = before
