"""A long list of JSON values in little memory: in blocks, packed by marshal (fastest) and zlib
(they are alike)."""

import marshal
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

_VALUES_PER_BLOCK = 64


class Packed(Sequence[Any]):
    """Values that are appended, and unpacked anew at each access; a slice unpacks all."""

    def __init__(self, values: Iterable[Any] = ()) -> None:
        """Begin with `values`: 64 at a time are packed into one of `_packed_blocks`, the rest stays
        in `_open_block`.
        """
        self._packed_blocks: list[bytes] = []
        self._open_block: list[Any] = []
        for value in values:
            self.append(value)

    def append(self, value: Any) -> None:
        """Add a JSON value at the end; a full block is packed."""
        self._open_block.append(value)
        if len(self._open_block) == _VALUES_PER_BLOCK:
            self._packed_blocks.append(zlib.compress(marshal.dumps(self._open_block), 1))
            self._open_block = []

    def replace(self, changes: Mapping[int, Any]) -> None:
        """Put other values at positions: {3: value} replaces the fourth
        one. All blocks are packed anew.
        """
        if changes:
            repacked = Packed(changes.get(position, value) for position, value in enumerate(self))
            self._packed_blocks = repacked._packed_blocks
            self._open_block = repacked._open_block

    def _unpacked_block(self, block_number: int) -> list[Any]:
        """The values of a block, counted from 0; the one after the packed blocks is the open one,
        which is not packed yet.
        """
        if block_number == len(self._packed_blocks):
            return self._open_block
        values: list[Any] = marshal.loads(zlib.decompress(self._packed_blocks[block_number]))
        return values

    def __len__(self) -> int:
        """How many values there are."""
        return _VALUES_PER_BLOCK * len(self._packed_blocks) + len(self._open_block)

    def __iter__(self) -> Iterator[Any]:
        """Unpack one block after the other, and yield their values in order."""
        with_open_block = len(self._packed_blocks) + 1
        blocks = map(self._unpacked_block, range(with_open_block))
        return chain.from_iterable(blocks)

    def __getitem__(self, position_or_slice: Any) -> Any:
        """The value at a position, or the list of values of a slice, unpacked now."""
        if isinstance(position_or_slice, slice):
            return list(self)[position_or_slice]
        position = range(len(self))[position_or_slice]
        return self._unpacked_block(position // _VALUES_PER_BLOCK)[position % _VALUES_PER_BLOCK]
