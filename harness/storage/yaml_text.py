"""YAML from anywhere, received run folders too, read so that no text ends the process or its memory.

    parse_yaml("k: 3")              {"k": 3}
    parse_yaml("[" * 50_000)        YAMLProblem("nested more than 100 levels deep")
    parse_yaml("k: [1")             YAMLProblem("... expected ',' or ']'", line=1)

PyYAML's C loader is ten times as fast as the other one, but it calls itself once a level and ends
the process by a signal where the stack ends. Its events come one after the other without that, so
the text is first run through as events. An alias is cheap to build but repeats all that it names
for whoever walks through the values, which nine lines can make endless.
"""

from dataclasses import dataclass
from typing import Any

import yaml

Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MAX_LEVELS = 100
_MAX_REPEATED_SIZE = 10_000_000  # characters and values that aliases repeat


class YAMLProblem(ValueError):
    """A text that is no YAML, or none that is read. line: counted from 1, None if unknown."""

    def __init__(self, problem: str, line: int | None = None) -> None:
        """Keep the line.

        Args:
            problem: What is wrong; the message of the error.
            line: The number of the line, from 1; None if unknown.
        """
        super().__init__(problem)
        self.line = line


def parse_yaml(text: str | bytes, loader: Any = Loader) -> Any:
    """Parse a YAML text by PyYAML's safe loader, or by `loader`, a class made from it.

    Raises YAMLProblem, also for a text whose nesting or aliases are too much.
    """
    try:
        _check_size(text)
        return yaml.load(text, loader)
    except YAMLProblem:
        raise
    except yaml.MarkedYAMLError as error:
        line = _line_of_mark(error.problem_mark)
        raise YAMLProblem(error.problem or "not valid YAML", line) from None
    except yaml.YAMLError as error:
        raise YAMLProblem(" ".join(str(error).split())) from None
    except Exception as error:  # noqa: BLE001 - "!!int ''" is an IndexError, "!!bool x" a KeyError
        raise YAMLProblem(f"a value is not of its type ({error})") from None


def _line_of_mark(mark: Any) -> int | None:
    """The number of the line, from 1, at a mark of PyYAML; None without a mark."""
    if mark is None:
        return None
    return int(mark.line) + 1


def _check_size(text: str | bytes) -> None:
    """Raise YAMLProblem for a text that is nested too deeply, or whose aliases repeat too much.

    The text is only run through event by event, which builds nothing.
    """
    meter = _SizeMeter()
    for event in yaml.parse(text, Loader):
        line = _line_of_mark(event.start_mark)
        if isinstance(event, yaml.CollectionStartEvent):
            meter.begin(event.anchor, line)
        elif isinstance(event, yaml.CollectionEndEvent):
            meter.end()
        elif isinstance(event, yaml.ScalarEvent):
            meter.add_scalar(event.anchor, event.value)
        elif isinstance(event, yaml.AliasEvent):
            meter.add_alias(event.anchor, line)


@dataclass
class _OpenCollection:
    """A list or mapping whose end was not read yet: its anchor, None for none, and its size so
    far.
    """

    anchor: str | None
    size: int


class _SizeMeter:
    """Measures the lists and mappings of a YAML text, event by event, aliases written out.

    A size is 1 for each value and 1 for each character.
    """

    def __init__(self) -> None:
        """Begin outside of any list or mapping: `_size_by_anchor` holds the sizes of values with an
        anchor, `_size_repeated` what aliases have repeated so far.
        """
        self._open_collections: list[_OpenCollection] = []  # the outermost first
        self._size_by_anchor: dict[str, int] = {}
        self._size_repeated = 0

    def begin(self, anchor: str | None, line: int | None) -> None:
        """Enter a list or mapping. Raises YAMLProblem where that is nested too deeply.

        Args:
            anchor: Its anchor, None for none.
            line: The line where it begins, None if unknown.
        """
        if len(self._open_collections) == _MAX_LEVELS:
            raise YAMLProblem(f"nested more than {_MAX_LEVELS} levels deep", line)
        self._open_collections.append(_OpenCollection(anchor, size=1))

    def end(self) -> None:
        """Leave the innermost list or mapping, and add its size to the one around it."""
        ended = self._open_collections.pop()
        self._add(ended.anchor, ended.size)

    def add_scalar(self, anchor: str | None, value: str) -> None:
        """Count a text, number or other plain value in the innermost list or mapping."""
        self._add(anchor, 1 + len(value))

    def add_alias(self, anchor: str | None, line: int | None) -> None:
        """Count an alias as what it repeats. Raises YAMLProblem where that
        is inside of itself or too much.

        Args:
            anchor: The anchor of what it repeats.
            line: The alias's line, None if unknown.
        """
        is_inside_of_itself = anchor in [each.anchor for each in self._open_collections]
        if is_inside_of_itself:
            raise YAMLProblem(f"the alias *{anchor} is inside of what it names", line)
        size = self._size_by_anchor.get(str(anchor), 0)  # an unknown one is the loader's error
        self._size_repeated += size
        if self._size_repeated > _MAX_REPEATED_SIZE:
            raise YAMLProblem("its aliases repeat more than 10 million characters", line)
        self._add(anchor=None, size=size)

    def _add(self, anchor: str | None, size: int) -> None:
        """Add a value of this size to the innermost open collection,
        and remember it under its anchor.
        """
        if anchor is not None:
            self._size_by_anchor[anchor] = size
        if self._open_collections:
            self._open_collections[-1].size += size
