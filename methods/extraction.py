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


def keep_each(write: Callable[[int], T], count: int, part: str, tools: Tools) -> list[T]:
    """Call write(0) to write(count - 1), in parallel.

    Each result is stored at once, so that an interrupted index build resumes.

    Args:
        write: Makes the part of a number.
        count: How many parts there are.
        part: What a part is called, in the keys of what is stored and in the progress.
        tools: The engine's tools.

    Returns:
        The parts, in order.
    """

    def kept(number: int) -> T:
        """Write a part, or take it from an earlier interrupted index; report the progress."""
        made: T = tools.keep(f"{part} {number}", lambda: write(number))
        tools.progress(number + 1, count, f"{part}s")
        return made

    return tools.map(kept, range(count))
