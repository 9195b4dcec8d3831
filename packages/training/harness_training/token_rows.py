"""Scenes as rows of tokens: the prompt as the method feeds it, then the reply, whose tokens alone
are targets.

data = rows_of_scenes(skill, scenes, teacher, length)       Rows; left_out: the number of rows that are too long
data = rows_of_scenes(skill, scenes, teacher, length, "cut")    such rows are shortened instead
batches(data.rows, 8, Dice("order", seed, 0))     lists of row numbers; rows of similar length are together

Scenes about one text become a tree: the text is the trunk, each question and probe a branch.

build_trees([teacher.play(skill, scene) for scene in scenes])       [Tree(trunk, targets, branches), ...]
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from harness.stats.rng import Dice
from harness_training.tasks import Scene, Skill
from harness_training.teacher import Teacher, Transcript

_BATCHES_SORTED_TOGETHER = 16  # batches whose rows are sorted by length together


@dataclass(frozen=True)
class Row:
    """A training row of tokens.

    Args:
        ids: The tokens.
        targets: Indices in `ids` of the tokens to learn; each has a token before it.
        branches: (start, at) of each branch: it begins at `ids[start]`, ends where the next one
            begins, and attends to the first `at` tokens and to itself alone.
        weights: The weight of each target in the loss; () for 1 each.
    """

    ids: tuple[int, ...]
    targets: tuple[int, ...]
    branches: tuple[tuple[int, int], ...] = ()
    weights: tuple[float, ...] = ()

    def positions(self) -> list[int]:
        """The position of each token in its context, [tokens]; a branch counts on from where it is
        attached."""
        positions = list(range(len(self.ids)))
        for (start, attached_at), end in zip(self.branches, self._branch_ends(), strict=True):
            positions[start:end] = range(attached_at, attached_at + end - start)
        return positions

    def _branch_ends(self) -> list[int]:
        """The index in `ids` at which each branch ends: where the next one starts, or the row
        ends."""
        if not self.branches:
            return []
        starts = [start for start, _ in self.branches]
        return [*starts[1:], len(self.ids)]

    def masked_blocks(self) -> list[tuple[int, int, int, int]]:
        """The blocks of attention to mask besides the causal mask, so that a branch sees its part
        of the trunk and itself alone: for each branch the rest of the trunk, and all branches
        before it.

        Returns:
            (first row, end, first column, end) of each block: tokens [first row, end) must not
            attend to tokens [first column, end).
        """
        if not self.branches:
            return []
        trunk_end, _ = self.branches[0]  # the first branch starts where the trunk ends
        blocks = []
        for (start, attached_at), end in zip(self.branches, self._branch_ends(), strict=True):
            rest_of_trunk = (start, end, attached_at, trunk_end)
            branches_before = (start, end, trunk_end, start)
            blocks += [rest_of_trunk, branches_before]
        return blocks


@dataclass
class Rows:
    """Training rows.

    Args:
        rows: The rows.
        left_out: Replies and probes that are missing because their row was too long.
        cut: Rows that were truncated.
    """

    rows: list[Row] = field(default_factory=list)
    left_out: int = 0
    cut: int = 0

    @property
    def tokens(self) -> int:
        """How many tokens all rows have."""
        return sum(len(row.ids) for row in self.rows)


def rows_of_scenes(
    skill: Skill,
    scenes: Iterable[Scene],
    teacher: Teacher,
    length: int,
    overlong: Literal["leave_out", "cut"] = "leave_out",
) -> Rows:
    """Make a row for the replies of each scene, and one for each of its probes.

    Args:
        skill: Makes the requests.
        scenes: The texts and the right replies.
        teacher: Runs `skill` in a scene to get its tokens.
        length: Most tokens of a row.
        overlong: Whether longer rows are left out or truncated; both are counted.
    """
    token_rows = Rows()
    for scene in scenes:
        transcript = teacher.play(skill, scene)
        rows_of_scene = []
        if transcript.targets:
            rows_of_scene.append(Row(tuple(transcript.ids), targets=tuple(transcript.targets)))
        for probe in transcript.probes:
            ids = (*transcript.ids[: probe.at], *probe.ids)
            rows_of_scene.append(Row(ids, targets=(len(ids) - 1,)))  # the right label, the last
        for row in rows_of_scene:
            if len(row.ids) <= length:
                token_rows.rows.append(row)
            elif overlong == "cut":
                token_rows.rows.append(truncate(row, length))
                token_rows.cut += 1
            else:
                token_rows.left_out += 1
    return token_rows


def truncate(row: Row, max_tokens: int) -> Row:
    """Truncate a row to `max_tokens` tokens: prompt and reply each lose their ends, as by
    LLaMA-Factory's cutoff_len.

        prompt of 10 and reply of 10 tokens, length 8 -> the first 4 tokens of each

    A reply of less than half of `max_tokens` stays whole, and the prompt is cut. If the prompt is
    that short, the reply is cut. Otherwise both keep the same share (infer_seqlen in
    LLaMA-Factory's data/processor; docs/methods/longrefiner.md#longrefiner-training).
    """
    n_prompt = row.targets[0]  # the reply begins with the first token to learn
    n_reply = len(row.ids) - n_prompt
    max_reply_tokens = max_tokens
    if 2 * n_reply >= max_tokens and 2 * n_prompt < max_tokens:
        max_reply_tokens = max_tokens - n_prompt
    elif 2 * n_reply >= max_tokens:
        max_reply_tokens = max_tokens * n_reply // (n_prompt + n_reply)
    n_reply_left = min(max_reply_tokens, n_reply)
    n_prompt_left = min(max_tokens - n_reply_left, n_prompt)
    ids = row.ids[:n_prompt_left] + row.ids[n_prompt : n_prompt + n_reply_left]
    n_removed = n_prompt - n_prompt_left  # tokens before the reply that are gone
    targets = [target - n_removed for target in row.targets if target - n_removed < len(ids)]
    return Row(ids, tuple(targets))


def batches(rows: Sequence[Row], size: int, dice: Dice) -> list[list[int]]:
    """Split the indices of rows into shuffled batches; rows of similar length share one to save
    padding: the shuffled rows are sorted by length within parts of several batches.

    Args:
        rows: The rows.
        size: How many rows a batch has.
        dice: Shuffles them.
    """

    def short_rows_first(index: int) -> tuple[int, int]:
        """A sort key: the shorter row first, of the same length the lower number."""
        return len(rows[index].ids), index

    shuffled_indices = dice.shuffled(range(len(rows)))
    sorted_within_parts: list[int] = []
    for start in range(0, len(shuffled_indices), size * _BATCHES_SORTED_TOGETHER):
        indices = shuffled_indices[start : start + size * _BATCHES_SORTED_TOGETHER]
        sorted_within_parts += sorted(indices, key=short_rows_first)
    grouped = [
        sorted_within_parts[start : start + size]
        for start in range(0, len(sorted_within_parts), size)
    ]
    return dice.shuffled(grouped)


@dataclass
class Branch:
    """Tokens that continue a trunk.

    Args:
        at: They continue its first `at` tokens.
        ids: The tokens.
        targets: Indices in `ids` of the tokens to learn.
    """

    at: int
    ids: Sequence[int]
    targets: Sequence[int]


@dataclass
class Tree:
    """Token sequences with a common beginning.

    Args:
        trunk: The tokens that they begin with.
        targets: Indices in `trunk` of the tokens to learn.
        branches: How each goes on.
    """

    trunk: Sequence[int]
    targets: Sequence[int]
    branches: list[Branch]

    def __len__(self) -> int:
        """How many tokens the trunk and all branches have."""
        length = len(self.trunk)
        for branch in self.branches:
            length += len(branch.ids)
        return length

    @property
    def reply_lengths(self) -> list[int]:
        """How many targets each reply has: that of the trunk, if it has any, then that of each
        branch."""
        lengths = [len(self.targets)] + [len(branch.targets) for branch in self.branches]
        return [length for length in lengths if length]

    def row(self, by_reply: bool = True) -> Row:
        """The tree as one row: the trunk, then one branch after the other.

        Args:
            by_reply: Whether a reply's weight is the square root of its number n of tokens, so each
                of them weighs n ** -0.5; a probe of one token then counts beside a list of a
                hundred tokens. Else each target's weight is 1.
        """
        ids = list(self.trunk)
        targets = list(self.targets)
        branches = []
        for branch in self.branches:
            start = len(ids)
            branches.append((start, branch.at))
            targets += [start + target for target in branch.targets]
            ids += branch.ids
        weights: list[float] = []
        if by_reply:
            for length in self.reply_lengths:
                weights += [length**-0.5] * length
        return Row(
            tuple(ids),
            targets=tuple(targets),
            branches=tuple(branches),
            weights=tuple(weights),
        )


def build_trees(transcripts: Sequence[Transcript]) -> list[Tree]:
    """Merge transcripts with a common beginning into one tree; where any has probes, each becomes a
    tree of its own.

    The last shared token stays in the branches, so that every target has its predecessor in its own
    branch.
    """
    if len(transcripts) < 2 or any(transcript.probes for transcript in transcripts):
        return list(map(_tree_of_one, transcripts))
    n_shared = _shared_tokens(transcripts) - 1
    branches = []
    for transcript in transcripts:
        targets = [target - n_shared for target in transcript.targets]
        branches.append(Branch(at=n_shared, ids=transcript.ids[n_shared:], targets=targets))
    return [Tree(transcripts[0].ids[:n_shared], targets=[], branches=branches)]


def _tree_of_one(transcript: Transcript) -> Tree:
    """A transcript as a tree, with a branch for each of its probes."""
    probes = transcript.probes
    branches = [
        Branch(at=probe.at, ids=probe.ids, targets=[len(probe.ids) - 1]) for probe in probes
    ]
    return Tree(transcript.ids, transcript.targets, branches)


def _shared_tokens(transcripts: Sequence[Transcript]) -> int:
    """How many first tokens all transcripts have in common; the first target of any is not among
    them, nor is the token before it."""
    first_targets = [min(transcript.targets) for transcript in transcripts]
    n_shared = min(first_targets) - 1
    first_ids = transcripts[0].ids
    for other in transcripts[1:]:
        position = 0
        while position < n_shared and other.ids[position] == first_ids[position]:
            position += 1
        n_shared = position
    return n_shared
