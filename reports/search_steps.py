"""A search as a list of typed steps. The text of `harness trace`, the page and its player show these.

    steps = search_steps(record.steps, graph)
    steps[2]            -> SearchStep(number=2, action="visit", node=4, parent=1, edge=0.402, ...)
    as_tree(steps)      -> [("", step 0), ("├─ ", step 1), ("│  └─ ", step 2), ...]

A step that shows a node stands under the earlier step that showed the predecessor with the largest
edge weight (the earliest of equals). Without a graph, or where no predecessor had been visited (the
similarity alone led there), it stands at the root. Steps of the action "study" were taken only to
record what a later stop would have seen.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from harness.storage.records import StoredPiece, StoredStep
from reports.costs import TERA, step_flops
from reports.search_graph import Edge, Graph

STUDY_ACTION = "study"
"""The action of a step that only a recording took, after the stop of the search."""
LATER_STEPS_HEADING = "what a later stop would have seen"


@dataclass(frozen=True)
class SearchStep:
    """A step of a search.

    Args:
        number: Its place in the record, from 0.
        stored: The step as the record holds it.
        parent: The number of the step that it came from, or None.
        edge: The weight of the edge that led to it, or None.
    """

    number: int
    stored: StoredStep
    parent: int | None = None
    edge: float | None = None

    @property
    def action(self) -> str:
        """What the search did in the step: "visit", "start", "study"."""
        return str(self.stored["action"])

    @property
    def node(self) -> int | None:
        """The number of the node that the step showed; None where it showed none."""
        return self.stored["node"]

    @property
    def level(self) -> int | None:
        """The level of that node in the graph; None where the step showed none."""
        return self.stored["level"]

    @property
    def p_yes(self) -> float | None:
        """P(Yes) of the probe after the step; None where there was no probe."""
        return self.stored["p_yes"]

    @property
    def scores(self) -> Mapping[str, float]:
        """The parts of the score by which the node was chosen: {"attention": 0.03, "similarity":
        0.04}."""
        return self.stored["scores"]

    @property
    def tokens(self) -> int:
        """The number of tokens of the text that the step showed."""
        return int(self.stored["tokens"])

    @property
    def shown(self) -> StoredPiece | None:
        """The text that it showed, as a record holds it; None for none."""
        return self.stored["shown"] or None

    @property
    def note(self) -> str:
        """What the method wrote about the step; "" for nothing."""
        return str(self.stored["note"])

    @property
    def answer(self) -> str | None:
        """The answer if the search stopped at this step; None where that was not recorded."""
        return self.stored.get("answer")

    @property
    def is_later(self) -> bool:
        """Whether the step was taken after the stop of the search, to record what a later stop
        would see."""
        return self.action == STUDY_ACTION

    def tflops(self, convention: str) -> float | None:
        """TFLOPs (1e12 FLOPs) of the question up to this step; None where that is not known."""
        flops = step_flops(self.stored["flops"], convention)
        if flops is None:
            return None
        return flops / TERA


def search_steps(stored: Sequence[StoredStep], graph: Graph | None = None) -> list[SearchStep]:
    """The steps of a record in their order; over a graph, those that showed a node know the step
    that they came from.

    Args:
        stored: The steps as the record holds them.
        graph: The graph that was searched; None where there is none at hand.
    """
    edges_from_above = _edges_from_above(graph)
    first_shown: dict[int, int] = {}  # node -> number of the step that showed it first
    steps = []
    for number, step in enumerate(stored):
        node = step["node"]
        arrival = None
        if node is not None:
            arrival = _arrival_at_node(edges_from_above.get(node, ()), first_shown)
            first_shown.setdefault(node, number)
        if arrival is None:
            steps.append(SearchStep(number, step))
        else:
            steps.append(SearchStep(number, step, arrival.step, arrival.weight))
    return steps


@dataclass(frozen=True)
class _Arrival:
    """How a search came to a node: from which step, over an edge of which weight."""

    step: int
    weight: float


def _edges_from_above(graph: Graph | None) -> dict[int, list[Edge]]:
    """Node -> its edges from higher nodes with a weight above 0; {} without a graph."""
    edges_by_lower_node: dict[int, list[Edge]] = {}
    if graph is None:
        return edges_by_lower_node
    for edge in graph.edges:
        if edge.weight > 0:
            edges_by_lower_node.setdefault(edge.lower, []).append(edge)
    return edges_by_lower_node


def _arrival_at_node(
    edges_from_above: Sequence[Edge], first_shown: Mapping[int, int]
) -> _Arrival | None:
    """Find how a search came to a node: over the heaviest edge from a node that it had shown.

    Of edges with equal weights, the one from the earliest step is taken.

    Args:
        edges_from_above: The edges to the node from higher ones.
        first_shown: Node -> number of the step that showed it first.

    Returns:
        The step and the weight; None where none of the higher nodes was shown.
    """
    edges_from_shown = [edge for edge in edges_from_above if edge.higher in first_shown]
    arrivals = [_Arrival(first_shown[edge.higher], edge.weight) for edge in edges_from_shown]

    def heaviest_then_earliest(arrival: _Arrival) -> tuple[float, int]:
        """A sort key: the heaviest edge first, of equal ones that from the earliest step."""
        return -arrival.weight, arrival.step

    return min(arrivals, key=heaviest_then_earliest, default=None)


class TreeLine(NamedTuple):
    """A step, and the lines that draw its branch of the tree: "│  └─ "."""

    branch: str
    step: SearchStep


def as_tree(steps: Sequence[SearchStep]) -> list[TreeLine]:
    """The steps depth first, each behind the lines that draw its branch of the tree.

        [step 0, step 1 (parent 0), step 2 (parent 1), step 3 (parent 0)]
            -> [("", step 0), ("├─ ", step 1), ("│  └─ ", step 2), ("└─ ", step 3)]

    A step whose parent is not among the steps is a root.
    """
    numbers = {step.number for step in steps}
    roots: list[SearchStep] = []
    children: dict[int, list[SearchStep]] = {}
    for step in steps:
        if step.parent in numbers and step.parent is not None:
            children.setdefault(step.parent, []).append(step)
        else:
            roots.append(step)
    lines: list[TreeLine] = []
    # A stack and no recursion: a chain may have 1,000 nodes. The next step stands last.
    # (branch of the step, indent of its children's branches, step)
    steps_to_write = [("", "", step) for step in reversed(roots)]
    while steps_to_write:
        branch, indent, step = steps_to_write.pop()
        lines.append(TreeLine(branch, step))
        own_children = children.get(step.number, [])
        for child in reversed(own_children):
            is_last_child = child is own_children[-1]
            if is_last_child:
                steps_to_write.append((f"{indent}└─ ", f"{indent}   ", child))
            else:
                steps_to_write.append((f"{indent}├─ ", f"{indent}│  ", child))
    return lines
