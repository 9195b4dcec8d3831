"""A search that records what every other stop rule would have answered and cost, beside its own answer.

steps      start  visit  visit │ study  study         one node each; every step after a probe has p_yes, answer and
phase      search ...          │ study ...            answer_flops; what lies behind the stop has the action "study"
answers    study  study answer │ study  study

After every probe the answer is written in a branch of the context and rolled back, so no later step depends on it. The
prediction, the stop reason, what was shown, the steps up to the stop (answers apart) and the usage of the phases
"search" and "answer" are those of a run without recording; all else is booked under the phase "study".

Costs, in FLOPs under each convention: steps[i].flops are those of the question's search up to the probe of step i,
behind the stop too, without any answer. So a run that stopped at step i would have spent, in search and answer,

    steps[i].flops + steps[i].answer_flops

and at the configured stop this is the sum of the usage of the two phases. It goes on until record_stops probes counted
as Yes (with record_t_p: had p_yes above it), or the window, the graph or max_nodes ends every search; the note of the
last step says which.
"""

from __future__ import annotations

from dataclasses import replace

from harness.types import Answer, Question
from methods.pecan.search import Context, Search

__all__ = ["RecordingSearch"]


class RecordingSearch(Search):
    """A Search whose config has record_stops."""

    def run(self, question: Question) -> Answer:
        """Search and answer, then search on."""
        with self.model.session() as s:
            with self.tools.phase("search"):
                context = self._open(s, question)
                reason = self._walk(context)
            text = self._record(context, "answer")
            shown = tuple(self.shown)
            with self.tools.phase("study"):
                self._search_on(context)
        return Answer(text, shown, reason, tuple(self.steps))

    def _passed(self, context: Context) -> None:
        self._record(context, "study")

    def _record(self, context: Context, phase: str) -> str:
        """Write the answer of a stop at the last step, and take it back; what it costs is booked under `phase`."""
        before = self.tools.meter.flops()
        with self.tools.phase(phase), context.s.branch():
            text = self._finish(context)
        spent = self.tools.meter.flops() - before
        self._beside += spent
        self.steps[-1] = replace(self.steps[-1], answer=text, answer_flops=spent)
        return text

    def _search_on(self, context: Context) -> None:
        stop, wanted = len(self.steps), self.config.record_stops or 0
        reason = f"{wanted} Yes"
        while self._counted() < wanted:
            node, scores, why = self._onward(context)
            if node is None:
                reason = why
                break
            self._visit(node, self._append(context, node), "study", scores)
            self._yes += self._probe(context)
            self._record(context, "study")
        if len(self.steps) > stop:
            self.steps[-1] = replace(self.steps[-1], note=f"recording ends: {reason}")

    def _counted(self) -> int:
        """Probes so far that record_stops counts."""
        least = self.config.record_t_p
        if least is None:
            return self._yes
        return sum(step.p_yes is not None and step.p_yes > least for step in self.steps)
