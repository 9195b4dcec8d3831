"""The interface of a method, and the tools that the engine passes to it.

    class Mine(Method):
        class Config(MethodConfig): k: int = 5
        def index(self, document, tools): ...            -> JSON values and numpy arrays, cached by the engine
        def answer(self, question, documents, indexes, tools): ...    -> Answer

A method never sees gold answers, the run folder, MLflow or the command line. It is straight-line Python: the engine
runs several questions at a time.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

from harness.errors import UserError
from harness.prompts import Prompt, Replaced, texts_of
from harness.types import Answer, Document, Question

if TYPE_CHECKING:
    import numpy as np

    from harness.cost.meter import Meter
    from harness.models import MeteredModel


Index = dict[str, Any]
T = TypeVar("T")
R = TypeVar("R")


class MethodConfig(BaseModel):
    """Base of every method's parameters: unknown keys are refused, values are frozen.

    prompts: replacements by the name of the prompt (harness/prompts.py); left out of a dump if empty.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    prompts: dict[str, Replaced] = Field(default_factory=dict)

    @model_serializer(mode="wrap")
    def _without_empty_prompts(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        values: dict[str, Any] = handler(self)
        return values if self.prompts else {key: value for key, value in values.items() if key != "prompts"}


class Task(BaseModel):
    """The part of a prompt that is the same for every method.

    instruction: how to answer, one sentence; max_answer_tokens: longest answer.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    instruction: str
    max_answer_tokens: int


@dataclass(frozen=True)
class Scene:
    """A question with its texts and the right replies; models are trained and tested on scenes.

    texts: passages in the order they are shown; verdicts: for each probe in turn, whether its first label is right;
    replies: the right reply to each call of `write` in turn.
    """

    question: Question
    texts: tuple[str, ...]
    task: Task
    replies: tuple[str, ...] = ()
    verdicts: tuple[bool, ...] = ()


@dataclass(frozen=True)
class Skill:
    """A kind of request that a method makes of a model.

    name: as on the pocket model's card; scene: the kind of scene it is trained on, one of SCENES in
    pocket.tasks.scenes; play: makes the same calls of the tools as the method does.
    """

    name: str
    scene: str
    play: Callable[[Scene, Tools], None]


@dataclass
class SceneOutcome:
    """A model's replies in one scene.

    written: text of each reply; p_first: probability of the first label of each probe; scored: mean log-probability
    (nats) of each scored text; failed: the scene ended early, and what is missing counts as wrong.
    """

    written: list[str] = field(default_factory=list)
    p_first: list[float] = field(default_factory=list)
    scored: list[float] = field(default_factory=list)
    failed: bool = False


class Labelling(Protocol):
    """The models that make labels.

    task: the data set's instruction, which becomes part of the scenes; asked: a prompt in place of the method's, or "".
    """

    task: Task
    asked: str
    meter: Meter

    def teacher(self) -> MeteredModel:
        """The model whose replies are the labels."""

    def base(self) -> MeteredModel:
        """The model that is trained, with the adapters of the tasks before."""

    def once(self, key: str, fn: Callable[[], T]) -> T:
        """fn(), or its result if it was called for `key` lately; a key's calls never overlap."""

    def most(self, tokens: int) -> int:
        """The tokens that a long reply of the teacher may have, `tokens` or fewer: what a row holds and time allows."""

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Character range of every token of `text`, by the tokenizer of the model that is trained; no weights."""


class LabelCost(NamedTuple):
    """At most: tokens that the labels of an item read and write, and rows that they make."""

    read: int
    written: int
    rows: int


class AdapterUse(NamedTuple):
    """The name of an adapter of a model, and whether the model must have it."""

    name: str
    needed: bool


@dataclass(frozen=True)
class TrainingTask:
    """How one adapter is trained and measured.

    measure: (scene, outcome) -> named values, which are averaged over scenes; headline: the name of the main one;
    floor: its expected value for guessing, where that is known; label: makes scenes of a question and its documents, or
    of a document (per "document"); most: what that costs at most, with a function that counts tokens; asked: the prompt
    that the teacher's labels answer, part of the label file's identity; after: tasks whose adapters must be trained
    before its labels are made; classes: what a scene's first verdict says, (if true, if false), () where it has none.
    """

    name: str
    skill: Skill
    headline: str
    measure: Callable[[Scene, SceneOutcome], dict[str, float]]
    label: Callable[[Question | None, Sequence[Document], Labelling], list[Scene]]
    most: Callable[[Question | None, Sequence[Document], Callable[[str], int]], LabelCost]
    per: Literal["question", "document"] = "question"
    after: tuple[str, ...] = ()
    floor: Callable[[Sequence[Scene]], float] | None = None
    asked: str = ""
    classes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reads:
    """How much text a method reads, in tokens; the return value of `Method.reads(tokens, room)`.

    shown: in all requests of one question; requests: per question; embedded: by the encoder, per index; ranked: by the
    reranker, per question.
    """

    shown: int
    requests: int = 1
    embedded: int = 0
    ranked: int = 0


class Encoder(Protocol):
    """A sentence encoder bound to a meter: what `tools.encoder()` returns.

    name: as in tables; identity: everything that changes its vectors, for cache keys and the manifest.
    """

    name: str
    identity: dict[str, Any]

    def encode(self, texts: Sequence[str], kind: Literal["query", "passage"]) -> np.ndarray:
        """Vectors of shape [len(texts), width], float32; `kind` picks prefix and length limit."""

    def similarity(self, query: np.ndarray, passages: np.ndarray) -> np.ndarray:
        """Scores of shape [passages]: cosine or dot product, as the encoder's config says."""


class Reranker(Protocol):
    """A cross-encoder bound to a meter: what `tools.reranker()` returns."""

    name: str
    identity: dict[str, Any]

    def score(self, query: str, passages: Sequence[str]) -> np.ndarray:
        """Scores of shape [passages], higher is better."""


class Tools(Protocol):
    """What a method may use. The cost of everything is metered.

    question: the question that an index of scope "question" is built for, None otherwise.
    """

    task: Task
    question: Question | None
    meter: Meter
    seed: int

    def model(self, role: str = "reader") -> MeteredModel:
        """The language model of a role: reader, builder, searcher, compressor, refiner (default: the reader)."""

    def encoder(self, role: str = "encoder") -> Encoder:
        """The sentence encoder of a role."""

    def reranker(self, role: str = "reranker") -> Reranker:
        """The cross-encoder of a role."""

    def map(self, fn: Callable[[T], R], items: Iterable[T]) -> list[R]:
        """Apply `fn` to independent items, order kept; the engine may run them together."""

    def keep(self, key: str, fn: Callable[[], Any]) -> Any:
        """Return fn(), or its stored result if the building of this index was interrupted before."""

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Count the cost of what happens inside as "search" or "answer" (the default while answering)."""

    def progress(self, done: int, total: int, what: str) -> None:
        """Report that a long step is at `done` of `total`."""


class IndexTools(Tools, Protocol):
    """What a method may use besides while it builds an index."""

    def share(self, name: str, role: str, needs: Mapping[str, Any], fn: Callable[[], Any]) -> Any:
        """Return fn(), or the result that an index of any method stored as `name` for equal `needs`.

        The cost of fn is counted in both cases. fn uses the model of `role` alone; needs: everything that its result
        depends on (texts, prompts, sizes), as JSON values, with "version" for the code of fn: raise it when the same
        needs give another result.
        """


class Method(abc.ABC):
    """Base class of all methods.

    Class attributes, all read by the plan before anything is loaded:

    summary         one line for `harness list`
    needs           role -> capabilities its model must have (see harness.models.CAPABILITIES)
    encoders        roles of sentence encoders it uses
    reads_documents whether it reads any text: one that does not answers questions without documents, too
    scope           what an index belongs to: "document", "question" (a document and a question), or "none"
    one_document    True: several documents are joined in order into one, and the record says so
    index_roles     roles whose model or encoder changes the index
    index_fields    config fields that change the index; None means all of them
    recording_fields config fields that change what is recorded besides the answer, and no prediction
    index_version   code version of the index; raise it when the same input gives another index
    without_adapters  how to run without the adapters of `adapters`; ends the sentence that refuses a model without them
    takes           config field -> unit, for numbers that another run can give (engine/sibling_values): "nodes"
                    that its search visited, or "pieces" to show for the same cost

    For a method outside this project the files of its class and its base classes are hashed too, so editing them
    makes new indexes and a new run. Modules that they import are not: raise index_version when those change.
    """

    Config: ClassVar[type[MethodConfig]] = MethodConfig
    summary: ClassVar[str] = ""
    needs: ClassVar[dict[str, frozenset[str]]] = {"reader": frozenset()}
    encoders: ClassVar[tuple[str, ...]] = ()
    reads_documents: ClassVar[bool] = True
    scope: ClassVar[Literal["document", "question", "none"]] = "none"
    one_document: ClassVar[bool] = True
    index_roles: ClassVar[tuple[str, ...]] = ()
    index_fields: ClassVar[tuple[str, ...] | None] = None
    recording_fields: ClassVar[tuple[str, ...]] = ()
    index_version: ClassVar[str] = "1"
    without_adapters: ClassVar[str] = ""
    takes: ClassVar[dict[str, Literal["nodes", "pieces"]]] = {}

    def __init__(self, config: MethodConfig) -> None:
        self.config: Any = config

    def index(self, document: Document, tools: IndexTools) -> Index:
        """Build the index of `document`: JSON values and numpy arrays. Not called for scope "none"."""
        raise NotImplementedError(f"{type(self).__name__} declares scope {self.scope!r} but builds no index")

    @abc.abstractmethod
    def answer(
        self, question: Question, documents: Sequence[Document], indexes: Sequence[Index], tools: Tools
    ) -> Answer:
        """Answer `question`; `indexes[i]` belongs to `documents[i]` (empty dicts for scope "none")."""

    def problems(self) -> list[str]:
        """Reasons why it cannot run, as sentences; found without loading anything.

        Raises CannotRun, Missing for weights or packages that a plan can do without.
        """
        return []

    def skills(self) -> list[Skill]:
        """The kinds of request that this method makes of a model."""
        return []

    def index_packages(self) -> tuple[str, ...]:
        """Distributions whose version changes the index, by their names on the package index."""
        return ()

    def adapters(self) -> dict[str, dict[str, AdapterUse]]:
        """Role -> {task: the adapter of the role's model that is switched on for it}."""
        return {}

    def training(self) -> Sequence[TrainingTask]:
        """The adapters that `harness train` can train for it."""
        return ()

    def reads(self, tokens: int, room: int) -> Reads | None:
        """How much it reads of a text of `tokens` tokens if the reader has room for `room`; forecasts use it.

        None if that depends on the text, for instance for a search, or for an index that a model writes.
        """
        return None

    def piece_tokens(self) -> int | None:
        """Tokens of one of the "pieces" of `takes`; None if their number does not determine what is shown."""
        return None

    def frame(self, question: Question, task: Task) -> str:
        """The text of the prompt around those pieces."""
        return ""

    def stop_rule(self) -> dict[str, Any]:
        """The parameters of its stopping rule that `replay` can vary: {"t_n": 1, "t_p": 0.5}; {} for none."""
        return {}

    def recorded_rule(self) -> dict[str, Any]:
        """The strictest stopping rule up to which its searches record every stop (recording_fields)."""
        return self.stop_rule()

    def replay(self, steps: Sequence[Mapping[str, Any]], **rule: Any) -> int | None:
        """The index in a record's `steps` at which its search would have stopped by another stopping rule.

        rule: values for the names of `stop_rule`. None if the search was not recorded that far. Raises UserError for a
        method without a stopping rule.
        """
        raise UserError(f"{type(self).__name__} has no stop rule that can be replayed: its stop_rule() is empty")

    def templates(self) -> Sequence[Prompt]:
        """Every prompt that this method may send, as its code has it; a configuration may replace any of them."""
        return ()

    def prompts(self) -> dict[str, str]:
        """Name -> text of every prompt in use, for the run's hash, the cache key, the manifest and `harness show`."""
        return texts_of(prompt.of(self.config) for prompt in self.templates())
