"""Makes a judge out of a model and a kind."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from harness.config.layers import Choices
from harness.config.resolve import resolve_model
from harness.config.schema import ModelConfig
from harness.errors import UnknownName, UserError, raise_all
from harness.judging import stepwise
from harness.judging.alce import ALCE_KINDS
from harness.judging.citations import CITATION_KINDS
from harness.judging.claims import CLAIM_KINDS
from harness.judging.kinds import (
    CORRECTNESS,
    MAX_RUBRIC_TOKENS,
    MAX_TOKENS,
    PROMPTS,
    RUBRIC,
    Scale,
    read_prompt,
)
from harness.judging.model_judge import Judge, JudgeReplies
from harness.judging.pairwise import PAIRWISE, PAIRWISE_KIND
from harness.judging.published import PublishedPrompts, published_for
from harness.judging.rubric import RUBRIC_STEPS, rubric_steps
from harness.judging.stepwise import StepwiseJudge, StepwiseKind
from harness.llm.backend import check_greedy, model_facts
from harness.prompts import Prompt
from harness.storage.files import harness_home
from harness.types import Example

STEPWISE: dict[str, StepwiseKind] = {
    **CLAIM_KINDS,
    **CITATION_KINDS,
    **ALCE_KINDS,
    PAIRWISE: PAIRWISE_KIND,
}
"""The kinds that ask several requests about an answer."""


@dataclass(frozen=True)
class _JudgingModel:
    """The model of a judge.

    Attributes:
        name: The name of the judge's score: "judge.llama".
        config: The model's settings.
        identity: What distinguishes the model, as in a run's manifest.
    """

    name: str
    config: ModelConfig
    identity: Mapping[str, object]


@dataclass(frozen=True)
class JudgeRequest:
    """What the user says of a judge.

    Attributes:
        model: Preset, folder or hub id.
        sets: Settings of the model, {"model.KEY": value}.
        prompt: A file with a prompt of one's own, not for kinds that send several requests.
        name: The name in its score, judge.NAME; None: the model's name.
        max_tokens: The most tokens of a reply; None: as the kind or the published prompts say.
        kind: What is judged (kinds.py, claims.py, citations.py).
        scale: The scale of a rubric, as text: "1-5".
    """

    model: str
    sets: Mapping[str, object]
    prompt: str | None = None
    name: str | None = None
    max_tokens: int | None = None
    kind: str = CORRECTNESS
    scale: str | None = None


def make_judge(request: JudgeRequest) -> Judge:
    """Make the judge that the user asks for; its model is not loaded yet. Raises UserError.

    A scale makes it a rubric of the user's own. A kind of STEPWISE asks several requests about an
    answer, any other one.
    """
    scale = None
    kind = request.kind
    if request.scale is not None:
        scale = Scale.parse(request.scale)
        kind = RUBRIC
    if kind not in (*PROMPTS, RUBRIC, *STEPWISE):
        raise UnknownName("kind of judge", kind, [*PROMPTS, RUBRIC, *STEPWISE], "--kind")
    judging_model = _judging_model(request, kind)
    if kind in STEPWISE:
        if request.prompt is not None:
            raise UserError(
                f"--prompt: the kind {kind} has several prompts of its own; leave it out"
            )
        return _stepwise_judge(judging_model, kind, request.max_tokens or stepwise.MAX_TOKENS)
    prompt, version = read_prompt(request.prompt, kind, scale)
    reply_tokens = MAX_TOKENS
    if scale is not None:
        reply_tokens = MAX_RUBRIC_TOKENS
    return Judge(
        name=judging_model.name,
        config=judging_model.config,
        identity=judging_model.identity,
        prompt=prompt,
        prompt_version=version,
        max_tokens=request.max_tokens or reply_tokens,
        replies=JudgeReplies(harness_home() / "judge"),
        kind=kind,
        scale=scale,
    )


def _judging_model(request: JudgeRequest, kind: str) -> _JudgingModel:
    """Resolve the model of a judge of this kind, and name its score. Raises UserError."""
    for key in request.sets:
        if key.partition(".")[0] != "model":
            raise UserError(
                f"--set {key}: only settings of the model that judges can be set here "
                "(model.KEY=VALUE)"
            )
    choices = Choices(model=request.model, sets=dict(request.sets))
    config = check_greedy(resolve_model(choices).value, "a judge")
    facts = model_facts(config)
    raise_all([UserError(problem) for problem in facts.problems])
    return _JudgingModel(
        name=_score_name(request, config.name, kind), config=config, identity=facts.identity
    )


def _score_name(request: JudgeRequest, model_name: str, kind: str) -> str:
    """The name of a judge's score: "judge.NAME" with the name that the user gave, else
    "judge.llama", or "judge.llama.relevance" for a kind that is not correctness.

    Args:
        request: What the user said of the judge.
        model_name: The name of its model.
        kind: What is judged.

    Raises:
        UserError: The name that the user gave has other characters than it may.
    """
    name = request.name
    if name is not None and not re.fullmatch(r"\w[\w.-]*", name):
        raise UserError(f"--name '{name}': use letters, digits, '.', '_' and '-'")
    if not name:
        name = re.sub(r"[^\w./-]+", "_", model_name)
        if kind != CORRECTNESS:
            name = f"{name}.{kind}"
    return f"judge.{name}"


def _stepwise_judge(judging_model: _JudgingModel, kind: str, max_tokens: int) -> StepwiseJudge:
    """Make a judge of a kind that asks several requests.

    Args:
        judging_model: Its model.
        kind: One of STEPWISE.
        max_tokens: The most tokens of a reply.
    """
    stepwise_kind = STEPWISE[kind]
    return StepwiseJudge(
        name=judging_model.name,
        config=judging_model.config,
        identity=judging_model.identity,
        prompt=Prompt("judge", stepwise_kind.text),
        prompt_version=stepwise_kind.version,
        max_tokens=max_tokens,
        replies=JudgeReplies(harness_home() / "judge"),
        kind=kind,
        steps=stepwise_kind.steps,
        needs=stepwise_kind.places,
    )


def with_published_prompts(
    judge: Judge, examples: Mapping[str, Example], request: JudgeRequest
) -> Judge:
    """The judge, or a copy with the prompts that are published for a run's questions.

    A prompt that the user gave, and any kind but correctness, stays.

    Args:
        judge: The judge that `make_judge` made of the request.
        examples: Question id -> the question with its gold answers.
        request: What the user said of the judge.
    """
    if request.prompt is not None or judge.kind != CORRECTNESS:
        return judge
    published = published_for(examples)
    if published is None:
        return judge
    max_tokens = request.max_tokens or published.max_tokens
    if published.steps == RUBRIC_STEPS:
        return _published_steps(judge, published, max_tokens)
    return replace(
        judge, published=published, prompt_version=published.version, max_tokens=max_tokens
    )


def _published_steps(judge: Judge, published: PublishedPrompts, max_tokens: int) -> StepwiseJudge:
    """Make a judge that asks several requests about an answer with published prompts.

    Args:
        judge: The judge whose model it asks.
        published: The prompts.
        max_tokens: The most tokens of a reply.
    """
    return StepwiseJudge(
        name=judge.name,
        config=judge.config,
        identity=judge.identity,
        prompt=judge.prompt,
        prompt_version=published.version,
        max_tokens=max_tokens,
        replies=judge.replies,
        published=published,
        kind=judge.kind,
        steps=rubric_steps(published),
        needs=("answer",),
    )
