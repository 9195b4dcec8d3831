"""What a run is: pydantic models of every choice, frozen, unknown keys refused.

RunConfig
├── method    MethodChoice   preset, implementation "module:Class", view, params (checked by the method's Config)
├── dataset   DatasetConfig  name, format, where the rows are, instruction, scorers
├── model     ModelConfig    the reader
├── roles     {role: ModelConfig}     builder, searcher, compressor, refiner: default the reader
├── encoder / reranker  EncoderConfig
└── seed, limit, failed, keep_prompts, cache, profile, retriever, system_prompt, currency
"""

import dataclasses
import hashlib
import json
import operator
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
)

from harness.config.own_prompt import (
    AnswerSchema,
    SystemPrompt,
    read_answer_schema,
    read_system_prompt,
)
from harness.storage.paths import with_home_expanded
from harness.storage.stored_config import StoredConfig

# A file or folder, or what is none (a hub id, "package:..."): a leading ~ is the home folder from
# here on.
PathOrName = Annotated[str, AfterValidator(with_home_expanded)]

_SystemPrompt = Annotated[SystemPrompt | None, BeforeValidator(read_system_prompt)]
_AnswerSchema = Annotated[AnswerSchema | None, BeforeValidator(read_answer_schema)]
_Phrase = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


def canonical_json(value: Any) -> str:
    """Write a value as JSON in one form, which is hashed: sorted keys, no
    spaces, dataclasses as objects.
    """
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=_dataclass_to_dict
    )


def _dataclass_to_dict(value: Any) -> dict[str, object]:
    """A dataclass as {field: value}, for json.dumps; its values are not copied, as asdict would.

    Raises TypeError for any other value.
    """
    if not dataclasses.is_dataclass(value):
        raise TypeError(f"a {type(value).__name__} is not a JSON value")
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}


def json_sha256(value: Any) -> str:
    """sha256 (hex) of a value's canonical JSON."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


MADE_ELSEWHERE = "elsewhere"
"""The implementation of the method of a run that another tool made (harness import)."""


class Frozen(BaseModel):
    """A form of settings: not changed once made, unknown keys refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class MethodChoice(Frozen):
    """A preset: which implementation with which parameters, on which view of the documents.

    Attributes:
        name: In tables.
        implementation: Short name of the registry, or "module:Class".
        view: "evidence" cuts the documents to the supporting passages before the method sees them
            (oracle-evidence only).
        params: Parameters of the implementation, which its Config checks.
        encoder: The preset's own; a run with another shows that in its name.
        reranker: The same of a reranker.
        mark: What tables add to the name where parameters or prompts are not the preset's
            (harness/config/run_label.py); the plan sets it.
    """

    name: str
    implementation: str
    view: Literal["document", "evidence"] = "document"
    params: dict[str, object] = Field(default_factory=dict)
    encoder: str | None = None
    reranker: str | None = None
    mark: str = ""


class DatasetConfig(Frozen):
    """Where questions come from and how answers are judged.

    Attributes:
        name: In tables.
        format: The registered loader.
        hub: The repository of the rows; None: they are in `data`, or made here.
        subset: The subset of the repository.
        revision: The revision of the repository.
        split: The split of the repository or file.
        data: A local file or folder to load instead.
        instruction: How to answer, as every method's prompt has it.
        max_answer_tokens: Longest answer.
        answer_prefix: A phrase that a reply has before its final answer, which scorers then see
            alone (harness/datasets/answer_prefix.py); None: the reply is the answer.
        demonstration: A question with its reply, shown after the instruction as an example.
        answer_schema: The JSON schema that a reply has to follow
            (harness/datasets/answer_schema.py).
        answer_field: The property of such a reply that is the answer.
        raw_replies: Whether scorers see white space around a reply, too (code).
        chat: False shows the shared prompt without the model's chat template.
        scorers: Names; the first is the headline.
        licence: The licence of the rows.
        citation: The paper to cite.
        keep_texts: Whether run folders hold questions, gold answers and texts, which a licence may
            forbid.
        swap: "entities" for a copy with other names and numbers (packages/audit), "entities:rules"
            with the recogniser named.
        swap_seed: Another one makes another copy.
        shots: Number of solved examples of training rows (harness/datasets/few_shot.py).
        shots_from: Where these rows are: a split or a file.
        shots_by: How they are chosen.
        shots_passages: Whether an example shows its passages.
        shots_ids: The examples by id, in place of a choice.
        shots_seed: The seed of a choice by seed.
        options: Settings of the format.
    """

    name: str
    format: str
    hub: str | None = None
    subset: str | None = None
    revision: str | None = None
    split: str = "validation"
    data: PathOrName | None = None
    instruction: str
    max_answer_tokens: int = Field(gt=0)
    answer_prefix: _Phrase | None = None
    demonstration: _Phrase | None = None
    answer_schema: _AnswerSchema = Field(default=None, exclude_if=operator.not_)
    answer_field: str = Field(default="answer", exclude_if="answer".__eq__)
    raw_replies: bool = False
    chat: bool = True
    scorers: tuple[str, ...] = Field(min_length=1)
    licence: str = ""
    citation: str = ""
    keep_texts: bool = True
    swap: Literal["entities", "entities:rules", "entities:spacy", "entities:stanza"] | None = None
    swap_seed: int = Field(default=0, ge=0)
    shots: int = Field(default=0, ge=0)
    shots_from: PathOrName = "train"
    shots_by: Literal["seed", "similarity", "question"] = "seed"
    shots_passages: bool = False
    shots_ids: tuple[str, ...] = ()
    shots_seed: int = Field(default=0, ge=0)
    options: dict[str, object] = Field(default_factory=dict)


class Shape(Frozen):
    """The sizes of a model whose files are not on this machine, as its config.json has them, for
    FLOPs. tied: tie_word_embeddings."""

    layers: int = Field(gt=0)
    width: int = Field(gt=0)
    heads: int = Field(gt=0)
    kv_heads: int = Field(gt=0)
    head_size: int = Field(gt=0)
    mlp: int = Field(gt=0)
    vocab: int = Field(gt=0)
    gated: bool = True
    tied: bool = False


class Price(Frozen):
    """Money of a million tokens of a server.

    Attributes:
        input: What tokens that it read cost.
        output: What tokens that it wrote cost.
        cached: What those cost that it had in its prefix cache; None: as input.
        batch: What a request in a batch costs (model.batch), as a share of these prices.
    """

    input: float = Field(ge=0, allow_inf_nan=False)
    output: float = Field(ge=0, allow_inf_nan=False)
    cached: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    batch: float = Field(default=0.5, ge=0, allow_inf_nan=False)


class Thinking(Frozen):
    """How a reasoning model thinks before it answers.

    Attributes:
        open: The marker before its thinking.
        close: The marker after it.
        tokens: Most tokens of thinking in one reply, markers included, beyond those of the answer;
            they are kept free in the window.
    """

    open: str = Field(default="<think>", min_length=1)
    close: str = Field(default="</think>", min_length=1)
    tokens: int = Field(default=4096, gt=0)


SAMPLING = ("temperature", "top_p", "max_tokens")
"""Settings of how the reader's replies are drawn. A dump leaves out defaults, so that older runs
have the same hash."""


class _Weights(Frozen):
    """What language models and encoders share: where their weights are, or which server has them.

    Attributes:
        name: In tables.
        source: Hub id or folder; of a server, its name of the model.
        package: An installed package that carries the files.
        package_path: Where they are in it.
        sha256: The hash of the file of weights.
        revision: The revision of the repository.
        device: That it runs on.
        base_url: The address of a server that runs it, up to and with /v1.
        api_key_env: Name of the environment variable with the server's key.
        timeout: Seconds for one reply.
        retries: How often a request is repeated after its first try.
        shape: Sizes for FLOPs and plans where the weights are not on this machine.
    """

    name: str
    source: PathOrName | None = None
    package: str | None = None
    package_path: str | None = None
    sha256: str | None = None
    revision: str | None = None
    device: str = "auto"
    base_url: str | None = None
    api_key_env: str | None = None
    timeout: float = Field(default=120.0, gt=0)
    retries: int = Field(default=4, ge=0)
    shape: Shape | None = None


class ModelConfig(_Weights):
    """A language model and how it is run.

    Attributes:
        backend: "hf", "endpoint" (an OpenAI-compatible server), "scripted", that of a package
            ("vllm") or one of your own (harness/llm/backend.py).
        tokenizer: Of a server's model; None: lengths are estimated
            (harness/llm/endpoint_tokens.py).
        dtype: Of weights and cache; "auto": the one that the checkpoint's config.json names, else
            float32.
        device_map: As transformers takes it, for weights on several devices.
        attention: "sdpa" is the session's fused kernel where it is exact for the model, else what
            transformers picks.
        template: "model" (its own chat template), "none", or a path to a jinja file.
        template_date: Shown to templates that print a date.
        window: In tokens; None: the model's own.
        prefill_chunk: Most tokens that are read in one pass.
        deterministic: Whether predictions do not depend on --parallel or on load.
        memory_fraction: Share of free memory that weights and cache may take before loading is
            refused.
        trust_remote_code: Whether code of the model's repository is run.
        adapter: A folder, or "package:NAME/folder", with the LoRA adapter that is added to the
            weights.
        adapters: Name -> folder, for methods that switch between some.
        offers: Those that come with the package, loaded for a role whose method uses one of that
            name.
        script: Replies of the back end "scripted".
        embedded: Whether it comes with the project.
        small: Whether tables say that it is a small one.
        thinking: Of a reasoning model: its thinking is cut off before scoring and reported by itself.
        keep_thinking: Without `thinking`, whether what the markers of known models enclose stays in
            the answer.
        logprobs: How many tokens the server gives probabilities of; 0 for one that gives none.
        extra: Further fields of a server's requests (null: a field is left out), or further
            variables of a loaded model's chat template (enable_thinking).
        price: The price of its tokens.
        batch: Whether a run sends its requests as batch files (harness/llm/endpoint_batch.py).
        temperature: That of the reader's replies which the method leaves greedy; 0 is greedy.
        top_p: That of the same replies.
        max_tokens: Most tokens of any of these replies, where the method allows more.
    """

    backend: str = "hf"
    tokenizer: PathOrName | None = None
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    device_map: str | None = None
    attention: Literal["sdpa", "eager"] = "sdpa"
    template: PathOrName = "model"
    template_date: str = "26 Jul 2024"
    window: int | None = Field(default=None, gt=0)
    prefill_chunk: int = Field(default=2048, gt=0)
    deterministic: bool = False
    memory_fraction: float = Field(default=0.9, gt=0, le=1)
    trust_remote_code: bool = False
    adapter: PathOrName | None = None
    adapters: dict[str, PathOrName] = Field(default_factory=dict)
    offers: dict[str, str] = Field(default_factory=dict)
    script: PathOrName | None = None
    embedded: bool = False
    small: bool = False
    thinking: Thinking | None = None
    keep_thinking: bool = Field(default=False, exclude_if=operator.not_)
    logprobs: int = Field(default=0, ge=0)
    extra: dict[str, object] = Field(default_factory=dict)
    price: Price | None = None
    batch: bool = Field(default=False, exclude_if=operator.not_)
    temperature: float = Field(default=0.0, ge=0, exclude_if=operator.not_)
    top_p: float = Field(default=1.0, gt=0, le=1, exclude_if=(1.0).__eq__)
    max_tokens: int | None = Field(default=None, gt=0, exclude_if=operator.not_)

    @property
    def sampling(self) -> dict[str, object]:
        """Those settings of how replies are drawn that are not the defaults: {"temperature":
        0.7}.
        """
        not_default: dict[str, object] = {}
        for name in SAMPLING:
            value = getattr(self, name)
            if value != type(self).model_fields[name].default:
                not_default[name] = value
        return not_default


class EncoderConfig(_Weights):
    """A sentence encoder, with everything about it that changes a vector; of a server:
    harness/embed/served.py.

    Attributes:
        source: Hub id or folder.
        query_source: Where the network for questions is; None: one network for both.
        pooling: How tokens become one vector; None: as the folder says, else their mean.
        similarity: How two vectors are compared.
        query_prefix: Before a question.
        passage_prefix: Before a passage.
        max_length: Most tokens of a text; None: as the folder says.
        batch_size: Texts of a pass.
        price: Money of a million tokens of a server.
    """

    source: PathOrName
    query_source: PathOrName | None = None
    pooling: Literal["mean", "cls"] | None = None
    similarity: Literal["cosine", "dot"] = "cosine"
    query_prefix: str = ""
    passage_prefix: str = ""
    max_length: int | None = Field(default=None, gt=0)
    batch_size: int = Field(default=32, gt=0)
    price: float | None = Field(default=None, ge=0, allow_inf_nan=False)


class RetrieverConfig(Frozen):
    """A retriever of the user's own (--retriever): how it is asked, and what its reply means.

    Attributes:
        name: In tables.
        base_url: Its address; None for a function.
        function: "module:name"; None for an address.
        format: A known form of requests and replies.
        map: Field -> its place in a reply.
        body: jinja2 template of a request.
        headers: Headers of a request; "$NAME" is the value of an environment variable.
        api_key_env: Name of the environment variable with its key.
        timeout: Seconds for one reply.
        retries: How often a request is repeated after its first try.
        price: Money of one search; None: unknown.
    """

    name: str
    base_url: str | None = None
    function: str | None = None
    format: str = "json"
    map: dict[str, str] = Field(default_factory=dict)
    body: str | None = None
    headers: dict[str, str] = Field(default_factory=dict)
    api_key_env: str | None = None
    timeout: float = Field(default=30.0, gt=0)
    retries: int = Field(default=4, ge=0)
    price: float | None = Field(default=None, ge=0, allow_inf_nan=False)


class GeneralSettings(Frozen):
    """What a run has beside its parts.

    limit, sample, failed, keep_prompts, cache and currency change no prediction and are left out of
    the hash.

    Attributes:
        seed: The run's seed.
        limit: The first questions are asked, so many; None: all.
        sample: About so many questions are drawn (question_kinds.py); None: no draw.
        sample_seed: The seed of that draw.
        failed: What a failed question counts: "zero", or "skip" where it is left out.
        keep_prompts: Whether the run folder holds every request as it was sent.
        cache: "replies" where requests that earlier runs have sent are not sent again.
        corpus: The folder of an index (harness index-corpus) or the address of one (harness
            serve-index); None: each question's own documents.
        corpus_passages: How many of its best passages form the document of a method that does not
            search by itself.
        profile: The name of the profile.
        retriever: In place of the ranking of methods that retrieve; part of the hash of these.
        system_prompt: Before the request for an answer; part of the hash as a prompt of the method.
        currency: What prices and costs are in, as tables write it: "EUR".
    """

    seed: int = Field(default=0, ge=0)
    limit: int | None = Field(default=None, gt=0)
    sample: int | None = Field(default=None, gt=0)
    sample_seed: int = Field(default=0, ge=0)
    failed: Literal["zero", "skip"] = "zero"
    keep_prompts: bool = False
    cache: Literal["replies"] | None = None
    corpus: PathOrName | None = Field(default=None, exclude_if=operator.not_)
    corpus_passages: int = Field(default=5, gt=0, exclude_if=(5).__eq__)
    profile: str | None = None
    retriever: RetrieverConfig | None = Field(default=None, exclude_if=operator.not_)
    system_prompt: _SystemPrompt = Field(default=None, exclude_if=operator.not_)
    currency: str | None = Field(default=None, min_length=1, exclude_if=operator.not_)


class RunConfig(GeneralSettings):
    """One method over one data set with its models: the complete configuration of a run.

    A plan's has the roles, encoder and reranker that its method uses, and no others.
    """

    method: MethodChoice
    dataset: DatasetConfig
    model: ModelConfig
    roles: dict[str, ModelConfig] = Field(default_factory=dict)
    encoder: EncoderConfig | None = None
    reranker: EncoderConfig | None = None

    def stored(self) -> StoredConfig:
        """The configuration as a run folder's run.yaml holds it."""
        return StoredConfig.from_json(self.model_dump(mode="json"))
