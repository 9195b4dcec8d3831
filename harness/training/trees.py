"""Scenes about one text as a tree of tokens: the text is the trunk, each question and probe a branch.

grow([teacher.play(skill, scene) for scene in scenes])       [Tree(trunk, targets, branches), ...]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.training.teacher import Transcript


@dataclass
class Branch:
    """Tokens after the first `at` of the trunk; `targets`: indices of those that are to be predicted."""

    at: int
    ids: Sequence[int]
    targets: Sequence[int]


@dataclass
class Tree:
    """A trunk with its own targets, and the branches."""

    trunk: Sequence[int]
    targets: Sequence[int]
    branches: list[Branch]

    def __len__(self) -> int:
        return len(self.trunk) + sum(len(b.ids) for b in self.branches)

    @property
    def replies(self) -> int:
        """The number of replies: one for each branch, and one for the trunk if it has targets."""
        return bool(self.targets) + len(self.branches)


def grow(transcripts: Sequence[Transcript]) -> list[Tree]:
    """One tree of all transcripts, which share their beginning; one tree each if there are probes.

    The last shared token stays in the branches, so that every target has its predecessor in its own branch.
    """
    if any(t.probes for t in transcripts):
        return [_single(t) for t in transcripts]
    if len(transcripts) < 2:
        return [Tree(t.ids, t.targets, []) for t in transcripts]
    shared = min(min(t.targets) for t in transcripts) - 1
    first = transcripts[0].ids
    for other in transcripts[1:]:
        shared = next((i for i in range(shared) if other.ids[i] != first[i]), shared)
    shared -= 1
    branches = [Branch(shared, t.ids[shared:], [i - shared for i in t.targets]) for t in transcripts]
    return [Tree(first[:shared], [], branches)]


def _single(transcript: Transcript) -> Tree:
    branches = [Branch(probe.at, probe.ids, [len(probe.ids) - 1]) for probe in transcript.probes]
    return Tree(transcript.ids, transcript.targets, branches)
