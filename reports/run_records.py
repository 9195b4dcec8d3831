"""What many tables need of a run's records.

question_ids(run)                         -> {"2hop__1", "2hop__2"}
values_in_order({"a": 1, "b": 2}, ["b"])        -> [2]
"""

from collections.abc import Iterable, Mapping
from itertools import compress
from typing import TypeVar

from harness.cost.usage import Usage
from harness.storage.run_folder import StoredRun

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


def question_ids(run: StoredRun) -> frozenset[str]:
    """The ids of the questions of a run."""
    return run.columns.id_set


def failed_ids(run: StoredRun) -> set[str]:
    """The ids of the questions that failed."""
    return set(compress(run.columns.ids, run.columns.failed.tolist()))


def count_failed(run: StoredRun) -> int:
    """The number of questions that failed."""
    return int(run.columns.failed.sum())


def index_usages(run: StoredRun) -> list[Usage]:
    """What each index that was built cost, by phase; failed indexes are left out."""
    return [line.usage for line in run.index_lines if not line.failed]


def values_in_order(values_by_key: Mapping[_Key, _Value], keys: Iterable[_Key]) -> list[_Value]:
    """The values of these keys in a mapping, in the order of the keys."""
    return [values_by_key[key] for key in keys]
