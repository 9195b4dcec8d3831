"""The door to the pocket world: a document (or set of eight) with its questions, from a kind, a
seed and a length.

    made = sample("musique", seed=1_000_000, tokens=500, hops=(1, 2), purpose="training")
    made.documents[0].text, made.examples[0].question.text, made.examples[0].gold
    made.pages[0].stated                   each fact with the span of the sentence that states it
    made.asked[0].supports                 the facts that prove the answer

The same arguments give the same bytes on any machine. Tokens are characters / 4: a text is at most
that long, and at least 85 % of it. Evaluation seeds are 0 to 999,999, training seeds all from
1,000,000 on; the wrong one is refused.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from harness.errors import ConfigError, UnknownName
from harness.stats.rng import Dice
from pocket.world import render_encyclopedia, render_paper, render_story
from pocket.world.layout import CHARACTERS, Order, Sample

Purpose = Literal["evaluation", "training"]

FIRST_TRAINING_SEED = 1_000_000
LEAST_TOKENS = 200
_MOST_TOKENS = 10_000_000  # take about 1.5 GB of memory while they are made
MOST_HOPS = 4


@dataclass(frozen=True)
class Kind:
    """A kind of text.

    Args:
        make: What makes such a text.
        hops: Numbers of hops that its questions have by default.
        per_document: How many questions a document has.
    """

    make: Callable[[Order], Sample]
    hops: tuple[int, ...]
    per_document: int = 1


KINDS: dict[str, Kind] = {
    "musique": Kind(render_encyclopedia.make, (1, 2, 3, 4)),
    "hotpotqa": Kind(render_encyclopedia.make, (2,)),
    "2wikimultihopqa": Kind(render_encyclopedia.make, (2, 4)),
    "narrativeqa": Kind(render_story.make, (1, 2), per_document=5),
    "qasper": Kind(render_paper.make, (1, 2), per_document=5),
    "quality": Kind(render_story.make_choice, (1, 2), per_document=5),
    "retrieved": Kind(render_encyclopedia.make_retrieved, (1, 2, 3, 4)),
}


def check(kind: str, seed: int, tokens: int, hops: Sequence[int], purpose: Purpose) -> None:
    """Check what a text is to be made of.

    Args:
        kind: The kind of text, one of KINDS.
        seed: The seed of the text.
        tokens: Its length in characters / 4.
        hops: Numbers of hops that its questions may have.
        purpose: What the text is for; evaluation and training have seeds of their own.

    Raises:
        UnknownName: There is no such kind.
        ConfigError: Some of the others are wrong; it names each.
    """
    if kind not in KINDS:
        raise UnknownName("kind of pocket text", kind, KINDS)
    problems = []
    if not LEAST_TOKENS <= tokens <= _MOST_TOKENS:
        problems.append(f"tokens: should be {LEAST_TOKENS} to {_MOST_TOKENS:,}, is {tokens:,}")
    if not hops or not all(1 <= h <= MOST_HOPS for h in hops):
        problems.append(f"hops: should be 1 to {MOST_HOPS}, or a list of these, is {list(hops)}")
    if seed < 0:
        problems.append(f"seed: should be 0 or more, is {seed}")
    elif (seed >= FIRST_TRAINING_SEED) != (purpose == "training"):
        seeds = f"from {FIRST_TRAINING_SEED:,} on"
        if purpose == "evaluation":
            seeds = f"0 to {FIRST_TRAINING_SEED - 1:,}"
        problems.append(
            f"seed: {purpose} has the seeds {seeds}, so that no model is tested on what it saw; "
            f"{seed} is not one"
        )
    if problems:
        raise ConfigError(problems)


def sample(
    kind: str,
    seed: int,
    *,
    tokens: int,
    purpose: Purpose,
    hops: Sequence[int] = (),
    number: int = 0,
) -> Sample:
    """Make a document (eight for "retrieved") with its questions, gold answers and proofs. The same
    arguments always give the same.

    There are as many questions as the kind's `per_document`, fewer where a short text cannot hold
    their facts.

    Args:
        kind: The kind of text, one of KINDS.
        seed: Another seed makes other texts.
        tokens: Its length in characters / 4, 200 or more (all eight together for "retrieved").
        purpose: Whether it is to train on or to test on; each has seeds of its own.
        hops: Numbers of hops to choose from, at random; by default the kind's own.
        number: The number of the document among those of the seed.

    Raises:
        UnknownName: There is no such kind.
        ConfigError: Some of the others are wrong; it names each.
    """
    hops = tuple(hops)
    if not hops and kind in KINDS:
        hops = KINDS[kind].hops
    check(kind, seed, tokens, hops or (1,), purpose)
    order = Order(
        kind=kind,
        id=f"{kind}-{seed}-{number}",
        dice=Dice(kind, seed, number, tokens, hops),
        characters=tokens * CHARACTERS,
        hops=hops,
        questions=KINDS[kind].per_document,
    )
    return KINDS[kind].make(order)
