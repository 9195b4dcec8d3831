"""What a method is, and the tools it is handed.

    class Mine(Method):
        class Config(MethodConfig): k: int = 5
        def index(self, document, tools): ...            -> JSON values and numpy arrays, cached by the engine
        def answer(self, question, documents, indexes, tools): ...    -> Answer

A method never sees gold answers, the store, MLflow or the command line. It is straight-line Python: running many
questions at once is the engine's business.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypeVar

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

    prompts: replacements by the name of the prompt (harness/prompts.py); it is no part of a dump where it is empty.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    prompts: dict[str, Replaced] = Field(default_factory=dict)

    @model_serializer(mode="wrap")
    def _without_empty_prompts(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        values: dict[str, Any] = handler(self)
        return values if self.prompts else {key: value for key, value in values.items() if key != "prompts"}


class Task(BaseModel):
    """What a data set asks of every method alike.

    instruction: the one answer instruction, a sentence; max_answer_tokens: cap on the written answer.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    instruction: str
    max_answer_tokens: int


@dataclass(frozen=True)
class Scene:
    """What the synthetic world shows a method, and what it knows to be right; the pocket model is trained on it.

    texts: the pieces in the order they are shown; verdicts: for every probe the method makes in turn, whether its
    first label is right; replies: what every call of `write` should have returned in turn.
    """

    question: Question
    texts: tuple[str, ...]
    task: Task
    replies: tuple[str, ...] = ()
    verdicts: tuple[bool, ...] = ()


@dataclass(frozen=True)
class Skill:
    """One thing a method asks a model to do.

    name: as on the pocket model's card; scene: which kind of scene it is trained on, one of SCENES in
    pocket.tasks.scenes; play: does with the tools exactly what the method does, and the model says what is right.
    """

    name: str
    scene: str
    play: Callable[[Scene, Tools], None]


@dataclass
class Heard:
    """What a model said in one scene; failed: it could not be asked to the end, what is missing is put as wrong."""

    written: list[str] = field(default_factory=list)
    p_first: list[float] = field(default_factory=list)
    scored: list[float] = field(default_factory=list)
    failed: bool = False


class Labelling(Protocol):
    """What labels are made with. task: the data set's instruction, which scenes carry along."""

    task: Task

    def teacher(self) -> MeteredModel:
        """The model that knows what is right."""

    def base(self) -> MeteredModel:
        """The model that is trained, with the adapters of the tasks before."""


@dataclass(frozen=True)
class TrainingTask:
    """One adapter.

    measure: a scene and what was heard in it -> named values, each averaged over scenes; headline: the value that
    counts; floor: what guessing would reach of it, where that is known; label: scenes of a question and its documents,
    or of a document alone (per "document"); asked: the prompt that a teacher's labels come from, which their file is
    bound to; prompts: names of the method's prompts that the adapter learns, () = the one named as the adapter; after:
    tasks whose adapters must be trained before its labels are made.
    """

    name: str
    skill: Skill
    headline: str
    measure: Callable[[Scene, Heard], dict[str, float]]
    label: Callable[[Question | None, Sequence[Document], Labelling], list[Scene]]
    per: Literal["question", "document"] = "question"
    after: tuple[str, ...] = ()
    floor: Callable[[Sequence[Scene]], float] | None = None
    asked: str = ""
    prompts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reads:
    """What a method reads, in tokens of text: what `Method.reads(tokens, room)` returns.

    shown: in the requests of one question, together; requests: so many; embedded: by the encoder, once an index;
    ranked: by the reranker, for one question.
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
    """What the engine hands a method. Everything taken from here is metered.

    question: the question an index of scope "question" is built for, None otherwise.
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
        """Return fn(), or what it returned before under `key` for this document: durable parts of a long index."""

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Book the cost of what happens inside under "search" or "answer" (the default while answering)."""

    def progress(self, done: int, total: int, what: str) -> None:
        """Say how far a long step is."""


class IndexTools(Tools, Protocol):
    """What building an index may do beside that."""

    def share(self, name: str, role: str, needs: Mapping[str, Any], fn: Callable[[], Any]) -> Any:
        """Return fn(), or what an index of any method shared as `name` for equal `needs`, its cost booked all the same.

        fn uses the model of `role` alone; needs: texts, prompts, sizes, all else that it depends on, as JSON values,
        and "version", of the code of fn and of what it calls: raise it when the same needs give another value.
        """


class Method(abc.ABC):
    """Base class of all methods.

    Class attributes, all read by the plan before anything is loaded:

    summary         one line for `harness list`
    needs           role -> capabilities its model must have (see harness.models.CAPABILITIES)
    encoders        roles of sentence encoders it uses
    scope           what an index belongs to: "document", "question" (a document and a question), or "none"
    one_document    True: several documents are handed over joined in order as one, and the record says so
    index_roles     roles whose model or encoder changes the index
    index_fields    config fields that change the index; None means all of them
    recording_fields config fields that change what is recorded beside the answer, and no prediction
    index_version   code version of the index; raise it when the same input gives another index
    without_adapters  how to run without the adapters of `adapters`; ends the sentence that refuses a model without them
    takes           config field -> what it counts, where its number may come from another run (engine/sibling_values):
                    "nodes" visited by a search, or "pieces" shown, as many as cost what the other run costs

    Of a method that is no part of this project the files of its class and its bases are hashed too, so editing them
    makes new indexes and a new run. Modules they import are not seen: raise index_version when those change.
    """

    Config: ClassVar[type[MethodConfig]] = MethodConfig
    summary: ClassVar[str] = ""
    needs: ClassVar[dict[str, frozenset[str]]] = {"reader": frozenset()}
    encoders: ClassVar[tuple[str, ...]] = ()
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
        """Build what belongs to `document` alone; JSON values and numpy arrays only. Not called for scope "none"."""
        raise NotImplementedError(f"{type(self).__name__} declares scope {self.scope!r} but builds no index")

    @abc.abstractmethod
    def answer(
        self, question: Question, documents: Sequence[Document], indexes: Sequence[Index], tools: Tools
    ) -> Answer:
        """Answer `question`; `indexes[i]` belongs to `documents[i]` (empty dicts for scope "none")."""

    def problems(self) -> list[str]:
        """Sentences that forbid a run, known without loading anything: weights of its own that are not there."""
        return []

    def skills(self) -> list[Skill]:
        """The prompts of this method with the replies the synthetic world knows to be right."""
        return []

    def index_packages(self) -> tuple[str, ...]:
        """Names on the package index of what its index is built with, where another version gives another index."""
        return ()

    def adapters(self) -> dict[str, dict[str, bool]]:
        """Role -> names of the adapters of its model that are used; True where there must be one, False: may be."""
        return {}

    def training(self) -> Sequence[TrainingTask]:
        """The adapters that `harness train` can make for it."""
        return ()

    def reads(self, tokens: int, room: int) -> Reads | None:
        """What it reads of a text of `tokens` tokens where the reader has room for `room`: for forecasts of the cost.

        None where that cannot be said beforehand, as of a search or of an index that a model writes.
        """
        return None

    def piece_tokens(self) -> int | None:
        """Tokens of one of the "pieces" in `takes`, None where their number does not fix what is shown."""
        return None

    def frame(self, question: Question, task: Task) -> str:
        """The text of the prompt around those pieces."""
        return ""

    def stop_rule(self) -> dict[str, Any]:
        """The values that end its search, where `replay` knows of others: {"t_n": 1, "t_p": 0.5}; else empty."""
        return {}

    def recorded_rule(self) -> dict[str, Any]:
        """The strictest rule up to which its searches record every stop (recording_fields)."""
        return self.stop_rule()

    def replay(self, steps: Sequence[Mapping[str, Any]], **rule: Any) -> int | None:
        """The place in a record's `steps` at which its search would have stopped by another rule than its own.

        rule: values for the names of `stop_rule`. None where the search did not go far enough to know. Raises UserError
        for a method without a rule.
        """
        raise UserError(f"{type(self).__name__} has no stop rule that can be replayed: its stop_rule() is empty")

    def templates(self) -> Sequence[Prompt]:
        """Every prompt that this method may send, as its code has it; a configuration may replace each."""
        return ()

    def prompts(self) -> dict[str, str]:
        """Name -> text of every prompt in use, for the run's hash, the cache key, the manifest and `harness show`."""
        return texts_of(prompt.of(self.config) for prompt in self.templates())
