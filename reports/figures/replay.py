"""What another stop rule would have answered in a recorded search, and for how much.

    stop = Search.of(record, convention).stop(Rule(t_n=3, t_p=0.5), recorded(run))
    stop.answer, stop.flops                 None where the search did not go far enough to know

Where a rule stops is the method's to say (Method.replay, reached by the name in the run's configuration); what was
answered there and what it cost stands in the record's steps. Nothing is guessed beyond the end of a recording.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from harness.config import registry
from harness.cost.flops import DEFAULT
from harness.method import Method
from reports.step_flops import spent_flops, step_flops, stop_flops

if TYPE_CHECKING:
    from harness.storage.run_folder import StoredRun


STUDY = "study"
"""Action of a step that only a recording took: it lies behind the stop."""


@dataclass(frozen=True, slots=True, order=True)
class Rule:
    """Stop at the `t_n`-th probe with p_yes above `t_p`; None: at the t_n-th whose likeliest token is Yes."""

    t_n: int
    t_p: float | None

    def __str__(self) -> str:
        return f"t_n = {self.t_n}" + (", greedy" if self.t_p is None else f", t_p = {self.t_p:g}")


@dataclass(frozen=True, slots=True)
class Stop:
    """What a rule makes of one question.

    step: place in the record's steps, -1 for a record without steps; own: whether it is the stop of the run itself;
    flops: of search and answer under the search's convention, None where they are unknown; nodes: how many were
    retrieved; probes: the part of `flops` that probes took, None where it is unknown or an older run did not store it.
    """

    step: int
    own: bool
    answer: str
    flops: float | None
    nodes: int
    probes: float | None = None


@dataclass(frozen=True)
class Recorded:
    """The stop rule of a run, the rule up to which it recorded others, and the method that replays them."""

    own: Rule
    most: Rule
    method: Method = field(compare=False)

    @property
    def more(self) -> bool:
        """Whether stops other than the run's own were recorded on purpose."""
        return self.most != self.own


def method_of(run: StoredRun) -> Method:
    """The method of a run with the run's parameters; those that this version does not know are left out.

    Raises UserError where its code cannot be imported or its parameters are not valid.
    """
    from harness.config.validation import part_of_run

    choice = run.config["method"]
    method: type[Method] = registry.load(registry.short(choice["implementation"]), Method)
    params = {k: v for k, v in (choice.get("params") or {}).items() if k in method.Config.model_fields}
    return method(part_of_run(method.Config, params, str(run.path)))


def recorded(run: StoredRun) -> Recorded | None:
    """The stop rule of a run; None for a method that does not stop by t_n and t_p. Raises as `method_of`."""
    params: dict[str, Any] = run.config["method"].get("params") or {}
    if not isinstance(params.get("t_n"), int) or not isinstance(params.get("t_p"), int | float):
        return None
    if not any(step.get("p_yes") is not None for record in run.records for step in record["steps"]):
        return None
    method = method_of(run)
    own, most = method.stop_rule(), method.recorded_rule()
    return Recorded(Rule(**own), Rule(**most), method) if own.keys() == {"t_n", "t_p"} else None


@dataclass(frozen=True)
class Search:
    """A recorded search. own: place in the record's steps where the run itself stopped, -1 for a search without probes;
    convention: how FLOPs are counted.
    """

    record: Mapping[str, Any]
    own: int
    convention: str = DEFAULT

    @classmethod
    def of(cls, record: Mapping[str, Any], convention: str = DEFAULT) -> Search:
        """The search that a record holds."""
        probed = (i for i, s in enumerate(record["steps"]) if s.get("p_yes") is not None and s["action"] != STUDY)
        return cls(record, max(probed, default=-1), convention)

    @property
    def broken(self) -> bool:
        """Whether an error ended the recording: its last step then has no probe, and says why in its note."""
        last = self.record["steps"][-1] if self.record["steps"] else {}
        return last.get("action") == STUDY and last.get("p_yes") is None

    def stop(self, rule: Rule, recording: Recorded) -> Stop | None:
        """The stop of `rule`; None where the record does not hold it."""
        if rule == recording.own:
            return self._own_stop()
        place = recording.method.replay(self.record["steps"], t_n=rule.t_n, t_p=rule.t_p)
        if place is None:
            return None
        return self._own_stop() if place == self.own else self._other(place)

    def _own_stop(self) -> Stop:
        """The stop of the run itself, as it was answered and measured."""
        last = self.own if self.own >= 0 else len(self.record["steps"]) - 1
        flops = spent_flops(self.record, self.convention)
        probes = None if flops is None else self._probe_flops(last)
        return Stop(self.own, True, self.record["prediction"], flops, _nodes(self.record, last), probes)

    def _other(self, step: int) -> Stop | None:
        """A stop that was recorded; None where no answer was written there."""
        last = self.record["steps"][step]
        if last.get("answer") is None:
            return None
        known = not any(usage.get("uncounted") for usage in self.record["usage"].values())
        flops = stop_flops(last, self.convention) if known else None
        probes = None if flops is None else self._probe_flops(step)
        return Stop(step, False, str(last["answer"]), flops, _nodes(self.record, step), probes)

    def _probe_flops(self, last: int) -> float | None:
        """What the probes up to a step took; None for an older run, which did not store it."""
        stored = [step.get("probe_flops") for step in self.record["steps"][: last + 1]]
        spent = [None if value is None else step_flops(value, self.convention) for value in stored]
        known = [value for value in spent if value is not None]
        return sum(known) if spent and len(known) == len(spent) else None


def shown(record: Mapping[str, Any], stop: Stop) -> list[dict[str, Any]]:
    """What the reader had seen at a stop, as in a record's `shown`."""
    if stop.own:
        return list(record["shown"])
    return [part for s in record["steps"][: stop.step + 1] if s.get("shown") for part in _spans(s["shown"])]


def _nodes(record: Mapping[str, Any], last: int) -> int:
    return sum(step.get("node") is not None for step in record["steps"][: last + 1])


def _spans(shown: dict[str, Any]) -> list[dict[str, Any]]:
    """A step's text that lies in several documents is stored as one without a place of its own; its parts again."""
    if shown["kind"] != "span" or shown["document_id"] or not shown["sources"]:
        return [shown]
    return [{**shown, "document_id": d, "start": a, "end": b, "sources": []} for d, a, b in shown["sources"]]
