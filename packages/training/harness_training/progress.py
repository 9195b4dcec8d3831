"""How far a training is and what it ran on: plain values that a checkpoint and a model card hold."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Hardware:
    """What a training ran on, without the machine's name.

    Args:
        device: The name of the processor or GPU.
        threads: Threads of torch on the processor.
    """

    device: str
    threads: int


@dataclass(frozen=True)
class PassedStage:
    """A finished stage of a curriculum.

    Args:
        stage: Its name.
        steps: Its steps.
        right: "0 answer" (number of the recipe, skill) -> share of its last replies that were right.
        mastered: Whether every recipe reached its gate.
        minutes: Minutes of the whole training until its end.
        stage_minutes: Minutes of this stage alone.

    Older model cards lack some of these; they are None there.
    """

    stage: str
    steps: int
    right: dict[str, float]
    mastered: bool | None = None
    minutes: float | None = None
    stage_minutes: float | None = None


@dataclass
class Progress:
    """How far a training is.

    Args:
        step: Steps done.
        stage: The number of the stage it is in.
        since: The step that this stage began with.
        recent: Recipe number -> shares of right replies in its last batches.
        seconds: Spent so far.
        tokens: Trained on so far.
        passed: The finished stages.
    """

    step: int = 0
    stage: int = 0
    since: int = 0
    recent: dict[str, list[float]] = field(default_factory=dict)
    seconds: float = 0.0
    tokens: int = 0
    passed: list[PassedStage] = field(default_factory=list)
