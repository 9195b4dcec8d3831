"""Shared by methods whose index is what a model extracts from each part of a document."""

from collections.abc import Callable
from typing import ClassVar, TypeVar

from harness.method import Needs, Tools
from methods.reading import ReadingMethod

T = TypeVar("T")


class ExtractingMethod(ReadingMethod):
    """A method whose builder extracts an index from a document, which an encoder and a model
    search."""

    needs: ClassVar[Needs] = {
        "reader": frozenset(),
        "searcher": frozenset(),
        "builder": frozenset(),
    }
    encoders = ("encoder",)
    scope = "document"
    index_roles = ("builder", "encoder")


def make_each_and_store(make: Callable[[int], T], count: int, part: str, tools: Tools) -> list[T]:
    """Call make(0) to make(count - 1), in parallel.

    Each result is stored at once, so that an interrupted index build resumes, and the progress is
    reported.

    Args:
        make: Makes the result for a number.
        count: How many results there are.
        part: What a result is called in the keys of what is stored and in the progress: "passage".
        tools: The engine's tools, which store and report.

    Returns:
        The results, in order.
    """

    def make_or_load(number: int) -> T:
        """Write the result of this number, or take it from an interrupted build; report the
        progress."""
        result: T = tools.keep(f"{part} {number}", lambda: make(number))
        tools.progress(number + 1, count, f"{part}s")
        return result

    return tools.map(make_or_load, range(count))
