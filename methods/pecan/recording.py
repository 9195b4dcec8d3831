"""A search that records what every other stop rule would have answered and cost, beside its own
answer.

steps      start  visit  visit │ study  study         one node each; every step after a probe has p_yes, answer and
phase      search ...          │ study ...            answer_flops; what comes after the stop has the action "study"
answers    study  study answer │ study  study

After every probe the answer is written in a branch of the context and rolled back, so no later step
depends on it. The prediction, the stop reason, what was shown, the steps up to the stop (answers
apart) and the usage of the phases
"search" and "answer" are those of a run without recording; all else is booked under the phase
"study".

Costs, in FLOPs under each convention: steps[i].flops are those of the question's search up to the
probe of step i, after the stop too, without any answer. So a run that stopped at step i would have
spent, in search and answer,

    steps[i].flops + steps[i].answer_flops

and at the configured stop this is the sum of the usage of the two phases. It goes on until
record_stops probes counted as Yes (with record_t_p: had p_yes above it), or the window, the graph
or max_nodes ends every search; the note of the last step says which.

What fails in the recording alone (no memory, NaN logits) costs the question nothing but the rest of
the recording: a last step of the action "study", without a node and a probe, says why. A replay
then knows no stop beyond it.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import replace

from harness.storage.failures import STOPS, describe_failure
from harness.types import Answer, Question, Step
from methods.pecan.search import Context, Search


class RecordingSearch(Search):
    """A Search whose config has record_stops."""

    _why_ended = ""
    """Why the recording ended before its time."""

    def run(self, question: Question) -> Answer:
        """Search and answer, then search on and record what later stops would answer.

        The answer, its stop reason and what was shown are those of the search's own stop.
        """
        with self.model.session() as session:
            with self.tools.phase("search"):
                context = self._open_context(session, question)
                reason = self._visit_until_stop(context)
            text = self._record_answer(context, "answer")
            shown = tuple(self.shown)
            with self.tools.phase("study"), self._errors_end_recording():
                self._record_later_stops(context)
        if self._why_ended:
            self.steps.append(Step(action="study", flops=self._flops(), note=self._why_ended))
        return Answer(text, shown, reason, tuple(self.steps))

    def _before_next_node(self, context: Context) -> None:
        """Record the answer over what the context has so far; nothing once the recording has
        ended."""
        with self._errors_end_recording():
            if not self._why_ended:
                self._record_answer(context, "study")

    @contextlib.contextmanager
    def _errors_end_recording(self) -> Iterator[None]:
        """Context manager: an error inside ends the recording, not the question; `_why_ended` then
        says why."""
        try:
            yield
        except STOPS:
            raise
        except Exception as error:  # noqa: BLE001 - a run without recording would not have come here
            record = describe_failure(error)
            probes = sum(step.p_yes is not None for step in self.steps)
            self._why_ended = (
                f"recording ended after {probes} probes: {record['type']}: {record['message']}"
            )

    def _record_answer(self, context: Context, phase: str) -> str:
        """Write the answer that a stop at the last step would give, put it into this step, and
        return it.

        The context is as before afterwards.

        Args:
            context: What the search has read.
            phase: The phase for which the cost of the answer counts.
        """
        flops_before = self.tools.meter.flops()
        try:
            with self.tools.phase(phase), context.session.branch():
                answer = self._ask_for_answer(context)
        finally:
            answer_flops = self.tools.meter.flops() - flops_before
            self._answer_flops += answer_flops
        self.steps[-1] = replace(self.steps[-1], answer=answer, answer_flops=answer_flops)
        return answer

    def _record_later_stops(self, context: Context) -> None:
        """Search on past the own stop, recording the answer after each probe, until `record_stops`
        probes counted as Yes or no node is left. The note of the last step says which.

        Does nothing if the recording has ended already.
        """
        if self._why_ended:
            return
        n_steps_at_stop = len(self.steps)
        max_yes = self.config.record_stops or 0
        reason = f"{max_yes} Yes"
        while self._count_recorded_yes() < max_yes:
            choice = self._choose_next_node(context)
            if choice.node is None:
                reason = choice.reason
                break
            self._visit(context, choice.node, "study", choice.scores)
            self._yes_count += self._probe(context)
            self._record_answer(context, "study")
        if len(self.steps) > n_steps_at_stop:
            self.steps[-1] = replace(self.steps[-1], note=f"recording ends: {reason}")

    def _count_recorded_yes(self) -> int:
        """How many probes counted as Yes so far: those with p_yes above record_t_p where it is set,
        else those that count for the search."""
        t_p = self.config.record_t_p
        if t_p is None:
            return self._yes_count
        return sum(step.p_yes is not None and step.p_yes > t_p for step in self.steps)
