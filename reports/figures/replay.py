"""Where another stop rule would have stopped a recorded search, what it would have answered, and for how much.

    stop = Search.of(record, convention).stop(Rule(t_n=3, t_p=0.5), recorded(run))
    stop.answer, stop.flops                 None where the search did not go far enough to know

A probe counts as Yes when p_yes > t_p (PECAN, section 3.2) or, where t_p is None, when Yes was the likeliest of all
tokens (GARLIC, section 3.2). The search ends at the t_n-th Yes, counted cumulatively, or where the window or the graph
ends. Which node comes next does not depend on the rule, so one search that went on behind its stop holds the stops of
all rules that are not stricter. Nothing is guessed beyond its end.

    p_yes      0.2   0.6   0.4   0.9   0.7     t_p = 0.5: stops of t_n = 1, 2, 3 are at the 2nd, 4th and 5th probe
    answer      a     b     b     c     c      t_p = 0.8: t_n = 1 at the 4th
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.cost.flops import DEFAULT
from reports.step_flops import spent_flops, step_flops, stop_flops

if TYPE_CHECKING:
    from harness.storage.run_folder import StoredRun


STUDY = "study"
"""Action of a step that only a recording took: it lies behind the stop."""

GREEDY, GREEDY_YES = "greedy", "greedy_yes"
"""The verdict that looks at the likeliest token, and where a step keeps it: among its scores, 1 for Yes."""


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


@dataclass(frozen=True, slots=True)
class Recorded:
    """The stop rule of a run, and how far it searched on: until `most.t_n` Yes by the verdict of `most`."""

    own: Rule
    most: Rule

    @property
    def more(self) -> bool:
        """Whether stops other than the run's own were recorded on purpose."""
        return self.most != self.own


def recorded(run: StoredRun) -> Recorded | None:
    """What the run's configuration says of its stop rule; None for a method that does not stop by t_n."""
    params: dict[str, Any] = run.config["method"].get("params") or {}
    t_n, t_p = params.get("t_n"), params.get("t_p")
    if not isinstance(t_n, int) or not isinstance(t_p, int | float):
        return None
    if not any(step.get("p_yes") is not None for record in run.records for step in record["steps"]):
        return None
    own = Rule(t_n, None if params.get("verdict") == GREEDY else float(t_p))
    stops, most = params.get("record_stops"), params.get("record_t_p")
    if stops is None:
        return Recorded(own, own)
    return Recorded(own, Rule(int(stops), own.t_p if most is None else float(most)))


@dataclass(frozen=True)
class Search:
    """The probes of an answered question, made once and asked for any number of rules.

    probes: places in the record's steps; p_yes, greedy: what each of them said; own: where the run itself stopped, -1
    nowhere; convention: how FLOPs are counted.
    """

    record: Mapping[str, Any]
    probes: tuple[int, ...]
    p_yes: tuple[float, ...]
    greedy: tuple[bool, ...]
    own: int
    convention: str = DEFAULT

    @classmethod
    def of(cls, record: Mapping[str, Any], convention: str = DEFAULT) -> Search:
        """The search that a record holds."""
        steps: Sequence[Mapping[str, Any]] = record["steps"]
        probes = tuple(i for i, step in enumerate(steps) if step.get("p_yes") is not None)
        own = max((i for i in probes if steps[i]["action"] != STUDY), default=-1)
        greedy = tuple(bool((steps[i].get("scores") or {}).get(GREEDY_YES)) for i in probes)
        return cls(record, probes, tuple(float(steps[i]["p_yes"]) for i in probes), greedy, own, convention)

    @property
    def broken(self) -> bool:
        """Whether an error ended the recording: its last step then has no probe, and says why in its note."""
        last = self.record["steps"][-1] if self.record["steps"] else {}
        return last.get("action") == STUDY and last.get("p_yes") is None

    def yes(self, t_p: float | None) -> list[int]:
        """The probes that count as Yes, by their place among the probes."""
        if t_p is None:
            return [i for i, yes in enumerate(self.greedy) if yes]
        return [i for i, p in enumerate(self.p_yes) if p > t_p]

    def stop(self, rule: Rule, told: Recorded) -> Stop | None:
        """The stop of `rule`; None where the record does not hold it."""
        if rule == told.own:
            return self._own_stop()
        place = self._place(rule, told.most)
        if place is None:
            return None
        step = self.probes[place]
        return self._own_stop() if step == self.own else self._other(step)

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

    def _place(self, rule: Rule, most: Rule) -> int | None:
        """The probe that the rule stops at; None where the search ended before it, for another reason than its end."""
        yes = self.yes(rule.t_p)
        if len(yes) >= rule.t_n:
            return yes[rule.t_n - 1]
        # The recording went on to the window or the end of the graph unless it had all its Yes.
        ended = not self.broken and len(self.yes(most.t_p)) < most.t_n
        return len(self.probes) - 1 if ended and self.probes else None


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
