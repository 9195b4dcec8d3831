"""A long list of JSON values in little memory: in blocks, packed by marshal (fastest) and zlib
(they are alike)."""

import marshal
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

_BLOCK = 64


class Packed(Sequence[Any]):
    """Values that are appended, and unpacked anew at each access; a slice unpacks all."""

    def __init__(self, values: Iterable[Any] = ()) -> None:
        """Begin with `values`: 64 at a time are packed into one of
        `_blocks`, the rest stays in `_open`.
        """
        self._blocks: list[bytes] = []
        self._open: list[Any] = []
        for value in values:
            self.append(value)

    def append(self, value: Any) -> None:
        """Add a JSON value at the end; a full block is packed."""
        self._open.append(value)
        if len(self._open) == _BLOCK:
            self._blocks.append(zlib.compress(marshal.dumps(self._open), 1))
            self._open = []

    def replace(self, changes: Mapping[int, Any]) -> None:
        """Put other values at positions: {3: value} replaces the fourth
        one. All blocks are packed anew.
        """
        if changes:
            whole = Packed(changes.get(place, value) for place, value in enumerate(self))
            self._blocks = whole._blocks
            self._open = whole._open

    def _unpacked(self, n: int) -> list[Any]:
        """Unpack block `n`, from 0, into its values; the last block is held as they are."""
        if n == len(self._blocks):
            return self._open
        values: list[Any] = marshal.loads(zlib.decompress(self._blocks[n]))
        return values

    def __len__(self) -> int:
        """How many values there are."""
        return _BLOCK * len(self._blocks) + len(self._open)

    def __iter__(self) -> Iterator[Any]:
        """Unpack one block after the other, and yield their values in order."""
        with_open_block = len(self._blocks) + 1
        blocks = map(self._unpacked, range(with_open_block))
        return chain.from_iterable(blocks)

    def __getitem__(self, at: Any) -> Any:
        """The value at a position, or the list of values of a slice, unpacked now."""
        if isinstance(at, slice):
            return list(self)[at]
        place = range(len(self))[at]
        return self._unpacked(place // _BLOCK)[place % _BLOCK]
