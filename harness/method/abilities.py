"""What some methods can do besides indexing and answering. None of it changes an answer.

A method has an ability by having its members; there is nothing to inherit:

    class Pecan(Method):
        def stop_rule(self): return {"t_n": 1, "t_p": 0.5}
        def recorded_rule(self): ...
        def replay(self, steps, **rule): ...

    isinstance(method, ReplaysSearches)  -> True
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from harness.types import Question

if TYPE_CHECKING:
    import numpy as np

    from harness.method import Method
    from harness.method.tools import Tools


class AdapterUse(NamedTuple):
    """How a method uses an adapter of a model.

    Attributes:
        name: The adapter's name.
        needed: Whether the model must have it.
    """

    name: str
    needed: bool


@runtime_checkable
class UsesAdapters(Protocol):
    """A method that switches adapters of its models on for some requests.

    Attributes:
        without_adapters: How to run without them; ends the error that a model lacks them.
    """

    without_adapters: str

    def adapters(self) -> dict[str, dict[str, AdapterUse]]:
        """Which adapter is switched on for which task of which model: {"reader": {"answer":
        AdapterUse("qa", needed=True)}}."""


@runtime_checkable
class ReplaysSearches(Protocol):
    """A method that can say where a recorded search would have stopped by another stopping rule."""

    def stop_rule(self) -> dict[str, Any]:
        """The parameters of the stopping rule that `replay` can vary: {"t_n": 1, "t_p": 0.5}."""

    def recorded_rule(self) -> dict[str, Any]:
        """The parameters of the stopping rule at which recordings end, by the same names; `replay`
        cannot go beyond it."""

    def replay(self, steps: Sequence[Mapping[str, object]], **rule: Any) -> int | None:
        """Find where a recorded search would have stopped.

        Args:
            steps: The steps of a record.
            **rule: Values for the names of `stop_rule`.

        Returns:
            The index in `steps`; None if the search was not recorded that far.
        """


@runtime_checkable
class ChecksStops(Protocol):
    """A method that can say whether the steps of a search may have ended for the reason that a
    record gives."""

    def may_stop(self, reason: str, steps: Sequence[Mapping[str, object]]) -> bool:
        """Whether a search that made these steps may have stopped for this reason.

        Args:
            reason: The stop reason of a record.
            steps: Its steps; those after the stop, which were only recorded, have the action
                "study".
        """


@runtime_checkable
class ChecksModels(Protocol):
    """A method with demands on a model that its capabilities do not say."""

    def model_problems(self, role: str, window: int, sizes: Mapping[str, object]) -> list[str]:
        """Find out whether the method can run with a model that is not loaded yet.

        Args:
            role: The role of the model.
            window: Its window, in tokens.
            sizes: The sizes in its config.json, and "weights" -> what identifies them; {} where
                unknown.

        Returns:
            Sentences that say why the method cannot run with it.
        """


@runtime_checkable
class ChecksIndexPackages(Protocol):
    """A method that builds its index with packages whose version changes it."""

    def index_packages(self) -> tuple[str, ...]:
        """Distributions whose version changes the index, by their names on the package index."""


@runtime_checkable
class ScoresHeads(Protocol):
    """A method that reads a list of attention heads, which bench/heads.py can find.

    Attributes:
        heads_field: The setting that names such a list, or "all".
    """

    heads_field: str

    def head_scores(self, question: Question, texts: Sequence[str], tools: Tools) -> np.ndarray:
        """Scores of texts for a question by each attention head alone: float [texts, layers,
        heads].

        Args:
            question: The question.
            texts: The texts that are scored.
            tools: Gives the model.
        """


def index_packages_of(method: Method) -> tuple[str, ...]:
    """Distributions whose version changes the method's index; () for none."""
    if not isinstance(method, ChecksIndexPackages):
        return ()
    return method.index_packages()


def roles_with_adapters(method: Method) -> frozenset[str]:
    """The roles for whose model the method names adapters; none for a method that uses none."""
    if not isinstance(method, UsesAdapters):
        return frozenset()
    return frozenset(method.adapters())


def used_adapters(method: Method, role: str) -> dict[str, AdapterUse]:
    """Task -> the adapter that the method switches on for it in a role's model; {} for none."""
    if not isinstance(method, UsesAdapters):
        return {}
    return method.adapters().get(role, {})


def needs_trained_adapters(method: Method) -> bool:
    """Whether the method must have an adapter in one of its models."""
    if not isinstance(method, UsesAdapters):
        return False
    for use_by_task in method.adapters().values():
        for use in use_by_task.values():
            if use.needed:
                return True
    return False


def settings_that_runs_can_give(method: Method | type[Method]) -> Mapping[str, str]:
    """The settings whose number a finished run can give (method.k=from:RUN_FOLDER).

    Args:
        method: A method, or its class, that may have the attribute `from_other_runs`.

    Returns:
        Setting -> how the run's number is found. {"max_nodes": "nodes"}: the nodes that its searches
        visited. {"k": "chunk_tokens"}: so many chunks, each of the tokens that the setting
        chunk_tokens says, as cost as much to read as what its searches read.
    """
    numbers: Mapping[str, str] = getattr(method, "from_other_runs", {})
    return numbers
