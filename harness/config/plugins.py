"""What installed packages add by entry points; nothing is imported, neither here nor of theirs.

targets("harness.methods")      -> {"their-method": "their_package:Theirs"}
"""

import functools
from importlib.metadata import entry_points


@functools.cache
def targets(group: str) -> dict[str, str]:
    """What installed packages name in an entry-point group: name -> "module:attribute".

    If two packages use one name, the first counts. Cached; `harness.run` adds a method's class to
    the dict.
    """
    target_by_name: dict[str, str] = {}
    for entry_point in entry_points(group=group):
        target_by_name.setdefault(entry_point.name, entry_point.value)
    return target_by_name
