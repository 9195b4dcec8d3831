"""A language model that judges an answer: by default whether it is right, beside the gold answers
(kinds.py).

Decoding is greedy. A reply is kept under HARNESS_HOME by all that it depends on, so that none is
paid for twice; the model is loaded when the first reply is missing.
Question, gold answers and answer are pieces of their own, as in a method's prompt: they cannot
forge a turn.

Prompts that the authors of a data set publish take the place of PROMPT (published.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, cast

from harness.config.schema import ModelConfig
from harness.cost.meter import Meter
from harness.cost.usage import PhaseUsage
from harness.errors import QuestionError
from harness.judging.kinds import CORRECTNESS, UNCLEAR, YES, Scale, parse_verdict
from harness.judging.published import PublishedPrompts
from harness.llm import backend
from harness.models import LanguageModel
from harness.prompts import Prompt, feed
from harness.storage.files import read_object, write_json
from harness.storage.index_cache import key_digest

EMPTY, FAILED, NO_GOLD, NO_TEXT, NO_CONTEXTS = (
    "empty answer",
    "failed question",
    "no gold answer",
    "no text shown",
    "contexts not said",
)
"""Verdicts that are no model's. They score 0; there is no score without a gold answer, and where an
application does not say what it read."""
DECLINE = "The documents do not say: a reply is right that says so."
"""Stands for the gold answer of a question that no document answers."""


@dataclass(frozen=True)
class Case:
    """A stored answer with what the judge is shown.

    Attributes:
        question_id: The question.
        question: Its text.
        options: The answers to choose from, None for a free answer.
        gold: The gold answers.
        answer: What was answered.
        prompt: The published prompt that its gold answer names, "" for none.
        rubric: What a published prompt asks of it one by one.
        shown: The texts that the reader was shown, only for a judge that sees them.
        names_pages_only: Whether an application said no text that it read.
    """

    question_id: str
    question: str
    options: tuple[str, ...] | None
    gold: tuple[str, ...]
    answer: str
    prompt: str = ""
    rubric: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    names_pages_only: bool = False


@dataclass(frozen=True)
class Judgement:
    """The judgement of one answer.

    Attributes:
        question_id: The question.
        verdict: YES, NO, a number of a rubric, UNCLEAR, or one of `EMPTY` and so on.
        score: From 0 to 1, None where there is nothing to judge by.
        reply: The model's, None if it was not asked.
        usage: Cost of that reply, also if it came from the cache.
        cached: Whether it did.
        confidence: That of the answer in percent, where a published judge extracts one.
    """

    question_id: str
    verdict: str
    score: float | None = 0.0
    reply: str | None = None
    usage: PhaseUsage = field(default_factory=lambda: PhaseUsage())
    cached: bool = False
    confidence: float | None = None

    @property
    def flag(self) -> str | None:
        """Why there is no score, or one of 0 although the judge did not say no;
        None where that does not apply.
        """
        return {
            UNCLEAR: "the judge's reply holds no verdict",
            EMPTY: "an empty answer is not judged",
            NO_GOLD: "there is no gold answer to judge by",
            NO_TEXT: "the reader was shown no text",
            NO_CONTEXTS: "the application does not say what it read",
        }.get(self.verdict)


def question_with_options(case: Case) -> str:
    """The question as a prompt shows it: its text, then a line "(A) ..." for each option."""
    lines = [case.question]
    for number, option in enumerate(case.options or ()):
        letter = chr(ord("A") + number)
        lines.append(f"({letter}) {option}")
    return "\n".join(lines)


def with_blank_lines(texts: Sequence[str]) -> list[str]:
    r"""Put a blank line, a piece of its own, between texts: ["a", "b"] -> ["a", "\n\n", "b"]."""
    pieces: list[str] = []
    for text in texts:
        if pieces:
            pieces.append("\n\n")
        pieces.append(text)
    return pieces


class StoredReply(NamedTuple):
    """A stored reply of a judge's model, with what it cost."""

    text: str
    usage: PhaseUsage


class JudgeReplies:
    """The stored replies of judges, a JSON file each: <root>/<first 2 of digest>/<digest>.json.

    A file holds the reply and its cost, and no text of a data set.
    """

    def __init__(self, root: Path) -> None:
        """Name the folder of the replies; nothing is made yet."""
        self.root = root

    def get(self, key: Mapping[str, object]) -> StoredReply | None:
        """Read a stored reply with what it cost; None if there is no file or a damaged one.

        `key` is all that the reply depends on.
        """
        try:
            value = read_object(self._path(key))
            return StoredReply(str(value["reply"]), cast(PhaseUsage, dict(value["usage"])))
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def put(self, key: Mapping[str, object], reply: str, usage: PhaseUsage) -> None:
        """Store a reply, in place of one under the same key; any thread may call it.

        Args:
            key: All that the reply depends on.
            reply: Its text.
            usage: What it cost.

        Raises:
            SaveError: It cannot be written.
        """
        # A server may send half a character, which UTF-8 cannot hold.
        value = {"reply": reply.encode("utf-8", "replace").decode(), "usage": usage}
        write_json(self._path(key), value, "HARNESS_HOME")

    def _path(self, key: Mapping[str, object]) -> Path:
        """The file for the reply to the request with this key."""
        digest = key_digest(dict(key))
        return self.root / digest[:2] / f"{digest}.json"


@dataclass
class Judge:
    """A model and what it is asked about each answer.

    Attributes:
        name: The name of its score: "judge.endpoint".
        config: The model's settings.
        identity: Everything that changes the model's output, as in a run's manifest.
        prompt: What the model is asked.
        prompt_version: Changes with the prompt.
        max_tokens: The most tokens of a reply.
        replies: The cache of its replies.
        published: Prompts that take the place of `prompt`.
        kind: What is judged (kinds.py).
        scale: The numbers of a rubric, None for another kind.
        other_run: Name of the run that answers are compared with, "" for none.
    """

    name: str
    config: ModelConfig
    identity: Mapping[str, object]
    prompt: Prompt
    prompt_version: str
    max_tokens: int
    replies: JudgeReplies
    published: PublishedPrompts | None = None
    kind: str = CORRECTNESS
    scale: Scale | None = None
    other_run: str = ""

    @property
    def places(self) -> list[str]:
        """The placeholders of its prompt, which say what it is shown:
        ["question", "answers", "answer"].
        """
        return self.prompt.placeholders()

    @property
    def drops_unclear(self) -> bool:
        """Whether a reply that cannot be read gives no score, instead of 0."""
        return False

    def judgement_of_failed(self, question_id: str) -> Judgement:
        """The judgement of a question that failed: no model is asked, and the score is 0."""
        return Judgement(question_id, FAILED)

    @cached_property
    def model(self) -> LanguageModel:
        """The model that judges, loaded at the first use. Raises CannotRun."""
        return backend.load_model(self.config)

    @property
    def version(self) -> str:
        """What the judge's scores depend on, in words: "1 (32 tokens, model 9f3c0a1b)".

        Prompt, most tokens of a reply and model; scores are comparable only if it is equal.
        """
        model = key_digest(dict(self.identity))[:8]
        return f"{self.prompt_version} ({self.max_tokens} tokens, model {model})"

    def judge_without_asking(self, case: Case) -> Judgement | None:
        """Judge an answer without asking the model, where something is missing or the reply is
        cached.

        Returns:
            The judgement; None where the model must be asked.
        """
        incomplete = self._judgement_of_incomplete(case)
        if incomplete is not None:
            return incomplete
        cached = self.replies.get(self._cache_key(case))
        if cached is None:
            return None
        return self._judgement(case, cached.text, cached.usage, cached=True)

    def _judgement_of_incomplete(self, case: Case) -> Judgement | None:
        """The judgement of a case that lacks something the judge is shown, such as an empty answer.

        None where the case has all of it.
        """
        if "answers" in self.places and not case.gold:
            return Judgement(case.question_id, NO_GOLD, score=None)
        if "answer" in self.places and not case.answer.strip():
            return Judgement(case.question_id, EMPTY)
        if "shown" in self.places and case.names_pages_only:
            return Judgement(case.question_id, NO_CONTEXTS, score=None)
        if "shown" in self.places and not case.shown:
            return Judgement(case.question_id, NO_TEXT)
        return None

    def request(self, case: Case, meter: Meter | None = None) -> Judgement:
        """Ask the model about one answer; any thread may call it.

        Args:
            case: The answer with what the judge is shown.
            meter: Books the cost; None for a meter that nobody reads.

        Raises:
            QuestionError: This answer cannot be judged.
            CannotRun: No answer can be judged.
        """
        meter = meter or Meter("answer")
        with self.model.session(meter, "judge") as session:
            filled = self._prompt_for(case).fill(
                question=[question_with_options(case)],
                answers=[self._gold_text(case)],
                answer=[case.answer],
                shown=with_blank_lines(case.shown),
            )
            feed(session, filled)
            reply = session.write(self.max_tokens).text.strip()
        usage = meter.usage().get("answer", {})
        return self._judgement(case, reply, usage)

    def _gold_text(self, case: Case) -> str:
        """The gold answers as the prompt shows them: a line "- Rome" for each, or the first one
        alone in a published prompt.
        """
        if self.published is not None and case.gold:
            return case.gold[0]
        return "\n".join(f"- {answer}" for answer in case.gold)

    def store_reply(self, case: Case, judgement: Judgement) -> None:
        """Put the reply that a judgement rests on into the cache. Raises SaveError."""
        assert judgement.reply is not None  # the model was asked
        self.replies.put(self._cache_key(case), judgement.reply, judgement.usage)

    def _judgement(
        self, case: Case, reply: str, usage: PhaseUsage, cached: bool = False
    ) -> Judgement:
        """Make the judgement that a reply gives.

        Args:
            case: What was judged.
            reply: The model's reply.
            usage: What the reply cost.
            cached: Whether it came from the cache.
        """
        verdict = self._read_verdict(reply)
        score = self._score_of_verdict(verdict)
        confidence = None
        if self.published is not None:
            confidence = self.published.confidence(reply)
        return Judgement(
            question_id=case.question_id,
            verdict=verdict,
            score=score,
            reply=reply,
            usage=usage,
            cached=cached,
            confidence=confidence,
        )

    def _score_of_verdict(self, verdict: str) -> float:
        """The score of a verdict, from 0 to 1: of a rubric or rating its share, else 1 for yes."""
        if self.scale is not None:
            return self.scale.score(verdict)
        if self.published is not None:
            return self.published.score(verdict)
        return float(verdict == YES)

    def _read_verdict(self, reply: str) -> str:
        """Read the verdict in a reply: "yes", "no", a number, or "unclear".

        A reply to a published prompt is read as in the authors' code.
        """
        if self.scale is not None:
            return self.scale.verdict(reply)
        if self.published is not None:
            return self.published.verdict(reply)
        return parse_verdict(reply)

    def _prompt_for(self, case: Case) -> Prompt:
        """The prompt for a case: the judge's own, or the published one that the case names.

        Raises QuestionError for a name that the published prompts do not have.
        """
        if self.published is None:
            return self.prompt
        if case.prompt not in self.published.prompts:
            raise QuestionError(
                f"'{case.prompt}' is none of the prompts of {self.published.source}"
            )
        return self.published.prompts[case.prompt]

    def _cache_key(self, case: Case) -> dict[str, object]:
        """All that the reply about a case depends on, which is its key in the cache.

        What the prompt does not show is left empty, or out, so that it changes no key.
        """
        key: dict[str, object] = {
            "prompt": [self.prompt_version, self._prompt_for(case).text],
            "model": self.identity,
            "max_tokens": self.max_tokens,
            "question": [case.question, case.options],
            "gold": (),
            "answer": "",
        }
        if "answers" in self.places:
            key["gold"] = case.gold
        if "answer" in self.places:
            key["answer"] = case.answer
        if "shown" in self.places:
            key["shown"] = case.shown
        return key
