"""Parts of an index, stored before it is complete: `keep` until then, `share` for the indexes of
other methods, too.

keep(cache, key, "gists 3", fn, meter)         what tools.keep does while the index of `key` is built
share(cache, key, "tree", "reader", needs, fn, meter)       what tools.share does
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from harness.cost.meter import Meter
from harness.storage.index_cache import Entry, IndexCache, key_digest, parts_folder


def keep(
    cache: IndexCache, index: dict[str, Any], name: str, fn: Callable[[], Any], meter: Meter
) -> Any:
    """Return the part `name` if a stopped run stored it, else fn(), stored; `meter` gets the cost.

    index: the key of the index.
    """
    key = {"index": key_digest(index), "part": name}
    return _get_or_build(cache, parts_folder(cache.folder(index)) / key_digest(key), key, fn, meter)


def share(
    cache: IndexCache,
    index: dict[str, Any],
    name: str,
    role: str,
    needs: Mapping[str, Any],
    fn: Callable[[], Any],
    meter: Meter,
) -> Any:
    """Return the part `name` if an index of any method stored it for equal `needs`, else fn(),
    stored.

    index: the key of the index; role: whose model fn uses; meter: gets the cost. Raises
    LookupError for needs without a "version" of fn's code, and where fn used another role's model.
    """
    if "version" not in needs:
        raise LookupError(f"tools.share('{name}') needs a 'version' of its code among its needs")
    key: dict[str, Any] = {
        "method": f"shared.{name}",
        "needs": key_digest(dict(needs)),
        "models": {role: index["models"][role]},
        **{part: index[part] for part in ("seed", "code", "packages") if part in index},
    }

    def build() -> Any:
        """Compute the value. Raises LookupError where it used a model of another role."""
        before = len(meter.events)
        value = fn()
        if other_roles := sorted({e.role for e in meter.events[before:]} - {role}):
            raise LookupError(
                f"tools.share('{name}') is for role '{role}', but used {', '.join(other_roles)}"
            )
        return value

    with cache.sharing.hold(key_digest(key)):
        return _get_or_build(cache, cache.folder(key), key, build, meter)


def _get_or_build(
    cache: IndexCache, folder: Path, key: dict[str, Any], fn: Callable[[], Any], meter: Meter
) -> Any:
    """Return the value of the entry in `folder`, else fn(), stored if possible. meter: gets the
    cost."""
    if (entry := cache.get(folder, key)) is not None:
        for event in entry.events:
            meter.record(event, entry.shapes.get(event.shape))
        return entry.value()
    before = len(meter.events)
    entry = Entry.of(fn(), meter.events[before:], meter)
    cache.put(folder, key, entry)
    return entry.value()
