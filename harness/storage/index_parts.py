"""Parts of an index, stored before it is complete: `keep` until then, `share` for the indexes of
other methods, too.

keep(cache, key, "gists 3", fn, meter)                      what tools.keep does while the index of `key` is built
share(cache, key, SharedPart("tree", "reader", needs), fn, meter)       what tools.share does
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.cost.meter import Meter
from harness.storage.index_cache import (
    CacheEntry,
    CacheKey,
    IndexCache,
    IndexKey,
    key_digest,
    parts_folder,
)


def keep(
    cache: IndexCache, index_key: CacheKey, name: str, compute: Callable[[], Any], meter: Meter
) -> Any:
    """Return a part of an unfinished index that a stopped run stored, or else compute and store it.

    Args:
        cache: Holds the parts of an index until it is complete.
        index_key: The key of the index.
        name: The name of the part.
        compute: Computes it.
        meter: Books the part's cost, also where it was stored.
    """
    part_key = {"index": key_digest(index_key), "part": name}
    folder = parts_folder(cache.folder(index_key)) / key_digest(part_key)
    return _get_or_build(cache, folder, part_key, compute, meter)


@dataclass(frozen=True)
class SharedPart:
    """A part of an index that indexes of any method may use.

    Attributes:
        name: What the part is: "tree".
        role: The role whose model computes it.
        needs: All else that it depends on, with the "version" of the code that computes it.
    """

    name: str
    role: str
    needs: Mapping[str, object]

    def key(self, index_key: IndexKey) -> dict[str, object]:
        """The part's key in the cache: the same for every index with equal
        `needs`, model, seed and code.
        """
        key: dict[str, object] = {
            "method": f"shared.{self.name}",
            "needs": key_digest(self.needs),
            "models": {self.role: index_key.models[self.role]},
            "seed": index_key.seed,
        }
        if index_key.code:
            key["code"] = index_key.code
        if index_key.packages:
            key["packages"] = index_key.packages
        return key


def share(
    cache: IndexCache,
    index_key: IndexKey,
    part: SharedPart,
    compute: Callable[[], Any],
    meter: Meter,
) -> Any:
    """Return a part that an index of any method stored, or else compute and store it.

    Of several threads that need the same part one computes it, and the others wait.

    Args:
        cache: Holds the parts.
        index_key: The key of the index that uses the part.
        part: Names it.
        compute: Computes it.
        meter: Books the part's cost, also where it was stored.

    Raises:
        LookupError: The part has no "version", or `compute` used the model of another role.
    """
    if "version" not in part.needs:
        raise LookupError(
            f"tools.share('{part.name}') needs a 'version' of its code among its needs"
        )

    def compute_checked() -> Any:
        """Compute the part. Raises LookupError where that used a model of another role."""
        events_before = len(meter.events)
        value = compute()
        roles_used = {event.role for event in meter.events[events_before:]}
        other_roles = sorted(roles_used - {part.role})
        if other_roles:
            raise LookupError(
                f"tools.share('{part.name}') is for role '{part.role}', but used "
                f"{', '.join(other_roles)}"
            )
        return value

    part_key = part.key(index_key)
    with cache.shared_part_locks.hold(key_digest(part_key)):
        return _get_or_build(cache, cache.folder(part_key), part_key, compute_checked, meter)


def _get_or_build(
    cache: IndexCache, folder: Path, key: CacheKey, compute: Callable[[], Any], meter: Meter
) -> Any:
    """Return the value of a cache entry, or else compute it and store it if possible.

    Args:
        cache: The cache of the entry.
        folder: The folder of the entry.
        key: What the value depends on.
        compute: Computes the value.
        meter: Books the cost of the value in both cases.
    """
    entry = cache.get(folder, key)
    if entry is not None:
        for event in entry.events:
            meter.record(event, entry.shapes.get(event.shape))
        return entry.value()
    events_before = len(meter.events)
    entry = CacheEntry.of(compute(), meter.events[events_before:], meter)
    cache.put(folder, key, entry)
    return entry.value()
