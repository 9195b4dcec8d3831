"""What many tables need of a run's records.

question_ids(run)                         -> {"2hop__1", "2hop__2"}
values_of({"a": 1, "b": 2}, ["b"])        -> [2]
"""

from collections.abc import Iterable, Mapping
from typing import TypeVar

from harness.cost.usage import Usage
from harness.storage.run_folder import StoredRun

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


def question_ids(run: StoredRun) -> set[str]:
    """The ids of the questions of a run."""
    return {record.question_id for record in run.records}


def failed_ids(run: StoredRun) -> set[str]:
    """The ids of the questions that failed."""
    return {record.question_id for record in run.records if record.error is not None}


def count_failed(run: StoredRun) -> int:
    """The number of questions that failed."""
    return sum(record.error is not None for record in run.records)


def index_usages(run: StoredRun) -> list[Usage]:
    """What each index cost that was built, by phase."""
    return [line.usage for line in run.documents if not line.failed]


def values_of(table: Mapping[_Key, _Value], keys: Iterable[_Key]) -> list[_Value]:
    """The values of some keys, in their order."""
    return [table[key] for key in keys]
