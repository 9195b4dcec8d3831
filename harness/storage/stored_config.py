"""The settings of a stored run as a typed value: `config` of run.yaml.

    config = StoredConfig.from_json({"method": {"name": "bm25", "params": {"k": 5}}, ...})
    config.method.params["k"]           5
    config.dataset.answer_prefix        None, as the file has none
    config.to_json()                    what was read, key by key and in its order

Parsed where run.yaml is read (run_folder.py) and written by RunStore.write_run_yaml. What a setting does
says harness/config/schema.py, whose RunConfig a plan has. A stored run may be of another version,
so settings may be missing here, and those that no reader uses are held as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Self

from pydantic import (
    Field,
    ModelWrapValidatorHandler,
    PrivateAttr,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from harness.cost.prices import FREE, Prices
from harness.cost.usage import BilledTokens
from harness.storage.json_values import NULL_IS_EMPTY, NULL_IS_NO_ITEM, JsonValues

Values = Annotated[dict[str, object], NULL_IS_EMPTY]
"""Settings that a method, a loader or a server defines: name -> JSON value."""


class _InOrder(JsonValues):
    """Values that are written in the order in which they were read."""

    _keys_in_order: tuple[str, ...] = PrivateAttr(())

    @model_validator(mode="wrap")
    @classmethod
    def _remember_order_of_keys(
        cls, values: object, parse: ModelWrapValidatorHandler[Self]
    ) -> Self:
        """Parse the values with pydantic, and remember the order of their keys."""
        parsed = parse(values)
        if isinstance(values, Mapping):
            parsed._keys_in_order = tuple(values)
        return parsed

    @model_serializer(mode="wrap")
    def _to_json_in_order(self, dump_unordered: SerializerFunctionWrapHandler) -> dict[str, object]:
        """The values as a dict, in the order in which they were read;
        keys that were added come last.
        """
        values: dict[str, object] = dump_unordered(self)
        ordered = {key: values[key] for key in self._keys_in_order if key in values}
        return ordered | values


class StoredMethod(_InOrder):
    """The method, as its preset and the run's settings made it (MethodChoice)."""

    name: str
    implementation: str | None = None
    view: str = "document"
    params: Values = Field(default_factory=dict)
    mark: str | None = None


class StoredAnswerSchema(_InOrder):
    """The JSON schema that replies had to follow. form: the schema itself."""

    name: str | None = None
    form: object = None


class StoredDataset(_InOrder):
    """The data set: where its rows are, how questions were asked and answers judged
    (DatasetConfig)."""

    name: str
    scorers: list[str]
    format: str | None = None
    hub: str | None = None
    split: str | None = None
    data: str | None = None
    instruction: str | None = None
    max_answer_tokens: int | None = None
    answer_prefix: str | None = None
    demonstration: str | None = None
    answer_schema: StoredAnswerSchema | None = None
    answer_field: str | None = None
    raw_replies: bool = False
    chat: bool = True
    licence: str | None = None
    keep_texts: bool = True
    swap: str | None = None
    shots: int = 0
    shots_from: str | None = None
    shots_ids: Annotated[list[str], NULL_IS_NO_ITEM] = Field(default_factory=list)
    options: Values = Field(default_factory=dict)


class StoredPrice(_InOrder):
    """Money of a million tokens of a model on a server (Price)."""

    input: float
    output: float
    cached: float | None = None
    batch: float = 0.5

    def billed(self, *, in_batches: bool) -> BilledTokens:
        """What a million tokens of each kind (input, cached, output) cost.

        Cached ones cost as input unless the price says otherwise.

        Args:
            in_batches: Whether requests were sent in batches, which cost the share `batch` of
                others.
        """
        price_of_cached = self.input
        if self.cached is not None:
            price_of_cached = self.cached
        share_of_price = 1.0
        if in_batches:
            share_of_price = self.batch
        return {
            "input": share_of_price * self.input,
            "cached": share_of_price * price_of_cached,
            "output": share_of_price * self.output,
        }


class StoredThinking(_InOrder):
    """How the model thinks before it answers (Thinking). tokens: most tokens of that."""

    tokens: int | None = None


class StoredModel(_InOrder):
    """A language model and how it was run (ModelConfig)."""

    name: str
    backend: str | None = None
    source: str | None = None
    revision: str | None = None
    window: int | None = None
    adapter: str | None = None
    adapters: Annotated[dict[str, str], NULL_IS_EMPTY] = Field(default_factory=dict)
    embedded: bool = False
    small: bool = False
    thinking: StoredThinking | None = None
    extra: Values = Field(default_factory=dict)
    price: StoredPrice | None = None
    batch: bool = False
    temperature: float = 0.0
    top_p: float = 1.0
    max_tokens: int | None = None

    @property
    def sampling(self) -> dict[str, float | int | None]:
        """The settings by which replies were drawn, by name; defaults too."""
        return {
            "temperature": self.temperature,
            "top_p": self.top_p,
            "max_tokens": self.max_tokens,
        }

    @property
    def billed_price(self) -> BilledTokens | None:
        """What a million of the model's tokens of each kind cost; None where it has no price."""
        if self.price is None:
            return None
        return self.price.billed(in_batches=self.batch)


class StoredEncoder(_InOrder):
    """An encoder or reranker (EncoderConfig). price: of a million tokens."""

    name: str
    source: str | None = None
    revision: str | None = None
    base_url: str | None = None
    price: float | None = None

    @property
    def billed_price(self) -> BilledTokens | None:
        """What a million tokens cost: 0 for an encoder on this machine,
        None for a server without a price.
        """
        if not self.base_url:
            return FREE
        if self.price is None:
            return None
        return {"input": self.price, "cached": self.price, "output": 0.0}


class StoredRetriever(_InOrder):
    """A retriever of the user's own (RetrieverConfig). price: of a search."""

    name: str
    price: float | None = None


class StoredSystemPrompt(_InOrder):
    """The system prompt of the run."""

    name: str
    text: str


class StoredConfig(_InOrder):
    """Every setting of a stored run (RunConfig).

    Attributes:
        roles: Models that a role had to itself: "builder", "searcher", ...
        limit: The first questions were asked, so many; None = all.
        sample: About so many questions were drawn, by `sample_seed`.
        failed: What a failed question counts: "zero", or "skip" where it is left out.
    """

    method: StoredMethod
    dataset: StoredDataset
    model: StoredModel
    roles: Annotated[dict[str, StoredModel], NULL_IS_EMPTY] = Field(default_factory=dict)
    encoder: StoredEncoder | None = None
    reranker: StoredEncoder | None = None
    retriever: StoredRetriever | None = None
    seed: int
    limit: int | None = None
    sample: int | None = None
    sample_seed: int = 0
    failed: str = "zero"
    cache: str | None = None
    profile: str | None = None
    system_prompt: StoredSystemPrompt | None = None
    currency: str | None = None

    @property
    def skips_failed(self) -> bool:
        """Whether a failed question is left out of the scores."""
        return self.failed == "skip"

    @property
    def prices(self) -> Prices:
        """What a token costs of each model of the run: the reader,
        those of roles, and the encoders.
        """
        roles = {role: model.billed_price for role, model in self.roles.items()}
        encoders = {}
        for role, encoder in (("encoder", self.encoder), ("reranker", self.reranker)):
            if encoder is not None:
                encoders[role] = encoder.billed_price
        return Prices(reader=self.model.billed_price, roles=roles, encoders=encoders)

    def model_of(self, role: str) -> StoredModel:
        """The language model that played a role: its own if the
        settings gave it one, else the reader.
        """
        return self.roles.get(role, self.model)

    def encoder_of(self, role: str) -> StoredEncoder | None:
        """The settings of the role "encoder" or "reranker"; None for any other role."""
        if role == "encoder":
            return self.encoder
        if role == "reranker":
            return self.reranker
        return None

    def with_dataset(self, **values: object) -> StoredConfig:
        """A copy with these values changed in the settings of its data set."""
        return self.with_values(dataset=self.dataset.with_values(**values))


class RunFile(_InOrder):
    """run.yaml. origins: dotted setting ("method.params.k") -> what set it."""

    config: StoredConfig
    origins: Annotated[dict[str, str], NULL_IS_EMPTY] = Field(default_factory=dict)
