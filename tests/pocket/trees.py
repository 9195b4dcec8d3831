"""Trees as plain sequences: what every branch is together with the trunk before it."""

from collections.abc import Iterator

import numpy as np

from harness.training.token_rows import Tree
from pocket.train.packing import IGNORED, Batch


def sequences(tree: Tree) -> Iterator[tuple[list[int], list[int]]]:
    """(ids, indices of targets) of each reply of a tree, in the order in which `fill` counts replies."""
    if tree.targets:
        yield list(tree.trunk), list(tree.targets)
    for branch in tree.branches:
        yield [*tree.trunk[: branch.at], *branch.ids], [branch.at + t for t in branch.targets]


def seen(batch: Batch) -> np.ndarray:
    """Which token sees which, [rows, size, size], word for word as the docstring of lessons.py has it."""
    at = np.arange(batch.ids.shape[1])
    same = batch.own[:, :, None] == batch.own[:, None, :]
    trunk = (batch.own[:, None, :] == batch.root[:, :, None]) & (at[None, None, :] < batch.attach[:, :, None])
    return (same | trunk) & (at[:, None] >= at[None, :])


def replies(batch: Batch) -> dict[int, tuple[list[int], list[int]]]:
    """Group -> (flat places before its targets, the targets)."""
    found: dict[int, tuple[list[int], list[int]]] = {}
    for place, target, group in zip(batch.predict, batch.targets, batch.group, strict=True):
        assert (target == IGNORED) == (group == -1)
        if group >= 0:
            places, targets = found.setdefault(int(group), ([], []))
            places.append(int(place))
            targets.append(int(target))
    return found
