"""What methods share whose index is extracted from a document part by part, in lists that a model writes."""

from collections.abc import Callable
from typing import ClassVar, TypeVar

from harness.method import Needs, Tools
from methods.reading import ReadingMethod

T = TypeVar("T")


class ExtractingMethod(ReadingMethod):
    """A method whose builder extracts an index from a document, which an encoder and a model search."""

    needs: ClassVar[Needs] = {"reader": frozenset(), "searcher": frozenset(), "builder": frozenset()}
    encoders = ("encoder",)
    scope = "document"
    index_roles = ("builder", "encoder")


def keep_each(write: Callable[[int], T], count: int, part: str, tools: Tools) -> list[T]:
    """What `write` makes of each of so many parts, kept so that a stopped index goes on; part: their name."""

    def kept(number: int) -> T:
        made: T = tools.keep(f"{part} {number}", lambda: write(number))
        tools.progress(number + 1, count, f"{part}s")
        return made

    return tools.map(kept, range(count))
