"""A judge that asks several requests about one answer, such as for its claims and then whether each
is supported.

    def steps(case, ask):                       what one kind of judge does
        claims = read_claims(ask(EXTRACT, question=[case.question], answer=[case.answer]))
        ...
        return Outcome("2 of 3", 2 / 3, "yes  Ann built the mill.\\n...")

Every reply is kept under HARNESS_HOME by all that it depends on, once the whole answer is judged:
kinds that begin with the same request pay for it once. A reply that cannot be read gives no score;
its question is counted as unclear.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from harness.cost.meter import Meter
from harness.cost.usage import PhaseUsage, add_phase, usage_of
from harness.judging.kinds import UNCLEAR, VersionedPrompt
from harness.judging.model_judge import DECLINE, NO_GOLD, Case, Judge, Judgement
from harness.prompts import Prompt, feed

MAX_TOKENS = 1024
"""Of a reply: a list of claims may be long."""


class Ask(Protocol):
    """A function that sends the model of a judge one request and returns the reply."""

    def __call__(self, prompt: VersionedPrompt, **values: Sequence[str]) -> str:
        """Send a prompt whose placeholders have these values, each a
        list of pieces; returns the reply.
        """


@dataclass(frozen=True)
class Outcome:
    """What the steps found of one answer.

    Attributes:
        verdict: In words.
        score: From 0 to 1, None where there is nothing to score.
        details: What a reader of the record wants to see, a line each.
        flag: Why there is no score, or why it is 0.
    """

    verdict: str
    score: float | None
    details: str = ""
    flag: str | None = None


Steps = Callable[[Case, Ask], Outcome]


class UnreadableReply(Exception):
    """A reply of the judge that does not follow its prompt; its text is the argument."""


@dataclass(frozen=True)
class StepwiseKind:
    """A kind of judge that asks several requests about each answer.

    Attributes:
        places: What it needs, of kinds.PLACES.
        prompts: All that it may ask.
        steps: The function that judges an answer; None where it needs a second run
            (pairwise.beside).
    """

    places: tuple[str, ...]
    prompts: tuple[VersionedPrompt, ...]
    steps: Steps | None

    @property
    def text(self) -> str:
        """The texts of all its prompts, as the manifest stores them."""
        return "\n\n---\n\n".join(versioned.prompt.text for versioned in self.prompts)

    @property
    def version(self) -> str:
        """The versions of all its prompts: "claims 1, supported 1"."""
        return ", ".join(versioned.version for versioned in self.prompts)


class _NotCached(Exception):
    """Raised where the model may not be asked and a reply is not in the cache."""


@dataclass(frozen=True)
class _Reply:
    """A reply of the judge's model.

    Attributes:
        key: Its key in the cache.
        text: The reply.
        usage: What it cost.
        cached: Whether it came from the cache.
    """

    key: dict[str, object]
    text: str
    usage: PhaseUsage
    cached: bool


@dataclass
class _Requests:
    """The requests about one answer.

    Attributes:
        judge: Whose requests they are.
        meter: Books the cost of those that are sent; None: only cached replies are used.
        replies: All replies so far, in order.
    """

    judge: StepwiseJudge
    meter: Meter | None
    replies: list[_Reply] = field(default_factory=list)

    def ask(self, prompt: VersionedPrompt, **values: Sequence[str]) -> str:
        """Get the reply to a request from the cache, or else from the model; add it to `replies`.

        Raises _NotCached where the model would have to be asked and there is no meter.
        """
        key = {
            "prompt": [prompt.version, prompt.prompt.text],
            "values": values,
            "model": self.judge.identity,
            "max_tokens": self.judge.max_tokens,
        }
        stored = self.judge.replies.get(key)
        if stored is not None:
            reply = _Reply(key, stored.text, stored.usage, cached=True)
        elif self.meter is None:
            raise _NotCached
        else:
            reply = self._send(key, prompt.prompt, values, self.meter)
        self.replies.append(reply)
        return reply.text

    def _send(
        self, key: dict[str, object], prompt: Prompt, values: dict[str, Sequence[str]], meter: Meter
    ) -> _Reply:
        """Ask the model, and return its reply with what it cost.

        Args:
            key: The key of the reply in the cache.
            prompt: The prompt with its placeholders.
            values: Placeholder -> its text, in pieces.
            meter: Books the cost.
        """
        n_events_before = len(meter.events)
        with self.judge.model.session(meter, "judge") as session:
            feed(session, prompt.fill(**values))
            text = session.write(self.judge.max_tokens).text.strip()
        usage = usage_of(meter.events[n_events_before:], meter.shapes).get("answer", {})
        return _Reply(key, text, usage, cached=False)

    @property
    def usage(self) -> PhaseUsage:
        """What all replies together cost, cached ones included."""
        total: PhaseUsage = {}
        for reply in self.replies:
            add_phase(total, reply.usage)
        return total


@dataclass(frozen=True)
class StepwiseJudgement(Judgement):
    """A judgement by several requests.

    Attributes:
        new_replies: The replies that are not cached yet.
        own_flag: Why the steps gave no score, or 0; None where they do not say.
    """

    new_replies: tuple[_Reply, ...] = ()
    own_flag: str | None = None

    @property
    def flag(self) -> str | None:
        """Why there is no score, or one of 0 although the judge did not say no;
        None where that does not apply.
        """
        return self.own_flag or super().flag


@dataclass
class StepwiseJudge(Judge):
    """A judge whose kind asks several requests about each answer.

    Attributes:
        steps: The function that judges an answer.
        needs: What it needs, of kinds.PLACES.
    """

    steps: Steps | None = None
    needs: tuple[str, ...] = ()

    @property
    def places(self) -> list[str]:
        """What it needs of a case: ["answer", "shown"]."""
        return list(self.needs)

    @property
    def drops_unclear(self) -> bool:
        """Always true: a reply that cannot be read gives no score."""
        return True

    def judge_without_asking(self, case: Case) -> Judgement | None:
        """Judge an answer without asking the model, where something is missing or all replies are
        cached.

        Returns:
            The judgement; None where the model must be asked.
        """
        incomplete = self._judgement_of_incomplete(case)
        if incomplete is not None:
            return incomplete
        try:
            return self._run_steps(case, _Requests(self, meter=None))
        except _NotCached:
            return None

    def request(self, case: Case, meter: Meter | None = None) -> Judgement:
        """Judge one answer by as many requests as its kind takes; any thread may call it.

        Args:
            case: The answer with what the judge is shown.
            meter: Books the cost of requests that are sent; None for a meter that nobody reads.

        Raises:
            QuestionError: This answer cannot be judged.
            CannotRun: No answer can be judged.
        """
        return self._run_steps(case, _Requests(self, meter or Meter("answer")))

    def store_reply(self, case: Case, judgement: Judgement) -> None:
        """Put the new replies that a judgement rests on into the cache. Raises SaveError."""
        assert isinstance(judgement, StepwiseJudgement)
        for reply in judgement.new_replies:
            self.replies.put(reply.key, reply.text, reply.usage)

    def _judgement_of_incomplete(self, case: Case) -> Judgement | None:
        """The judgement of a case that lacks something the judge needs, such as gold answers; None
        where the case has all of it.

        A question that no document answers counts as one without: its gold answer, DECLINE, makes
        no claim.
        """
        if "answers" in self.places and case.gold == (DECLINE,):
            return Judgement(case.question_id, NO_GOLD, score=None)
        return super()._judgement_of_incomplete(case)

    def _run_steps(self, case: Case, requests: _Requests) -> Judgement:
        """Run the steps on a case, and make the judgement of what they find.

        A reply that cannot be read makes it unclear, without a score. Where no reply was needed
        there are no details either. Raises _NotCached.
        """
        assert self.steps is not None
        try:
            outcome = self.steps(case, requests.ask)
        except UnreadableReply as error:
            outcome = Outcome(UNCLEAR, score=None, details=str(error))
        details: str | None = outcome.details
        if not requests.replies:
            details = None
        new_replies = tuple(reply for reply in requests.replies if not reply.cached)
        return StepwiseJudgement(
            question_id=case.question_id,
            verdict=outcome.verdict,
            score=outcome.score,
            reply=details,
            usage=requests.usage,
            cached=bool(requests.replies) and not new_replies,
            new_replies=new_replies,
            own_flag=outcome.flag,
        )
