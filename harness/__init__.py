"""A fair comparison of long-document question answering methods: quality and cost, from question to table.

    import harness
    result = harness.run(method="pecan", dataset="musique", data="dev.jsonl", model="./Llama-3.1-8B-Instruct", limit=20)
    result.summary["scores"]
    harness.compare(result.folder, other.folder)      -> pandas.DataFrame

Everything is imported at its first use, so `import harness` is cheap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness import types

if TYPE_CHECKING:
    from harness.api import compare, read_run, run, score

__all__ = ["__version__", "compare", "read_run", "run", "score"]

__version__ = types.VERSION
_API = ("compare", "read_run", "run", "score")


def __getattr__(name: str) -> Any:
    if name in _API:
        import harness.api

        return getattr(harness.api, name)
    raise AttributeError(f"module 'harness' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_API])
