"""The interface of a method, and the tools that the engine passes to it.

    class Mine(Method):
        class Config(MethodConfig): k: int = setting(5, gt=0, help="Chunks that are shown.")
        def index(self, document, tools): ...            -> JSON values and numpy arrays, cached by the engine
        def answer(self, question, documents, indexes, tools): ...    -> Answer

A method never sees gold answers, the run folder, MLflow or the command line. It is straight-line
Python: the engine runs several questions at a time.
"""

import abc
import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from harness.errors import unknown_name_error
from harness.method.tools import Encoder, Hit, IndexTools, Reranker, Retriever, Task, Tools
from harness.models import CAPABILITIES, ENCODER_ROLES, LANGUAGE_MODEL_ROLES
from harness.prompts import Prompt, PromptReplacement, turn_texts
from harness.types import Answer, Document, Question

__all__ = [
    "Encoder",
    "Hit",
    "Index",
    "IndexTools",
    "Indexes",
    "Method",
    "MethodConfig",
    "Needs",
    "Reranker",
    "Retriever",
    "Task",
    "Tools",
    "Traits",
    "draws_by_seed",
]

Index = dict[str, Any]
Needs = dict[str, frozenset[str]]
Indexes = Sequence[Index]


class MethodConfig(BaseModel):
    """Base of every method's settings (harness/method/settings.py says how to declare one). Unknown
    keys are refused, values are frozen.

    Attributes:
        prompts: Name of a prompt -> the text or turns that replace it (harness/prompts.py); left
            out of a dump if empty.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    prompts: dict[str, PromptReplacement] = Field(default_factory=dict, exclude_if=operator.not_)


@dataclass(frozen=True)
class Traits:
    """How the engine and the tables treat a method.

    Attributes:
        one_document: Several documents are joined in order into one, and the record says so.
        reads_documents: It reads documents; if not, it also answers questions that have none.
        one_request: It asks a model once a question, and not for an index: its requests may be sent
            as a batch.
        draws: More than the reader's sampling depends on the run's seed; counts for the class that
            declares it alone, a subclass states it anew (`draws_by_seed`).
        searches: It calls tools.search, and reads nothing else: with a corpus it gets no documents.
        floor: It is only what others must beat, as an answer without reading: tables never propose
            it.
        takes_retriever: A retriever of the user's own (--retriever) takes the place of its ranking;
            it then builds no index.
    """

    one_document: bool = True
    reads_documents: bool = True
    one_request: bool = False
    draws: bool = True
    searches: bool = False
    floor: bool = False
    takes_retriever: bool = False


class Method(abc.ABC):
    """Base class of all methods; further abilities are in harness/method/abilities.py.

    Class attributes, all read by the plan before anything is loaded:

    Config          class of its settings
    summary         one line for `harness list`
    needs           role -> capabilities its model must have (see harness.models.CAPABILITIES)
    encoders        roles of sentence encoders it uses
    scope           what an index belongs to: "document", "question" (a document and a question),
                    or "none"
    index_roles     roles whose model or encoder changes the index
    index_version   code version of the index; raise it when the same input gives another index
    traits          how the engine and the tables treat it

    For a method outside this project the files of its class, its base classes and your own modules
    that they import are hashed too (harness/storage/own_code_hash.py), so editing them makes new
    indexes and a new run.
    """

    Config: ClassVar[type[MethodConfig]] = MethodConfig
    summary: ClassVar[str] = ""
    needs: ClassVar[Needs] = {"reader": frozenset()}
    encoders: ClassVar[tuple[str, ...]] = ()
    scope: ClassVar[Literal["document", "question", "none"]] = "none"
    index_roles: ClassVar[tuple[str, ...]] = ()
    index_version: ClassVar[str] = "1"
    traits: ClassVar[Traits] = Traits()

    def __init__(self, config: MethodConfig) -> None:
        """Keep the settings as `config`."""
        self.config: Any = config

    def index(self, document: Document, tools: IndexTools) -> Index:
        """Build the index of a document: a dict of JSON values and numpy arrays. Not called for
        scope "none"; a method with another scope has to define it."""
        raise NotImplementedError(
            f"{type(self).__name__} declares scope {self.scope!r} but builds no index"
        )

    @abc.abstractmethod
    def answer(
        self, question: Question, documents: Sequence[Document], indexes: Indexes, tools: Tools
    ) -> Answer:
        """Answer a question about documents.

        Args:
            question: The question.
            documents: The documents, without any gold answer.
            indexes: The index of each document, made by `index`; {} for scope "none".
            tools: Models, encoders and searches, all metered.
        """

    def problems(self) -> list[str]:
        """Sentences that say why the method cannot run with its settings, found without loading
        anything.

        Raises Missing for weights or packages that only a run needs (a plan works without),
        CannotRun for the rest.
        """
        return []

    def most_shown(self) -> int | None:
        """Most passages that the answer to a question shows, by the settings; None where they set
        no number. An answer whose stop reason is "k" shows as many."""
        return None

    def most_tokens_shown(self) -> int | None:
        """Most tokens that the passages shown for a question have together, by the reader's
        tokenizer; None where the settings say nothing of it."""
        return None

    def passages_are_disjoint(self) -> bool:
        """Whether the passages of a document that an answer shows never overlap, as those of one
        cut of it; False where that is not known."""
        return False

    def passages_are_in_order(self) -> bool:
        """Whether an answer shows the passages of a document in the order of its text; False where
        the settings give another order, or that is not known."""
        return False

    def least_share_shown(self, stop_reason: str) -> float:
        """The least share of the documents' characters that an answer with this stop reason shows,
        from 0 to 1; 0 where the reason says nothing of it."""
        return 0.0

    def indexes_by_model(self) -> bool:
        """Whether building an index asks the models of `index_roles`; False where the settings need
        their tokenizers alone."""
        return True

    def templates(self) -> Sequence[Prompt]:
        """Every prompt that this method may send, as its code has it; a configuration may replace
        the text of any of them."""
        return ()

    def prompts(self) -> dict[str, str]:
        """Every prompt in use, name -> text, for the run's hash, the cache key, the manifest and
        `harness show`."""
        return turn_texts(prompt.with_replacements(self.config) for prompt in self.templates())


def draws_by_seed(method_type: type[Method]) -> bool:
    """Whether anything but the reader's sampling may depend on the run's seed; True where the class
    declares no traits. Only what the class itself declares counts: what a base class says of its
    own code says nothing of a subclass."""
    own_traits: Traits = vars(method_type).get("traits", Traits())
    return own_traits.draws


def misdeclared(method_type: type[Method]) -> str | None:
    """Find a mistake in the attributes of a method's class.

    Returns:
        The end of a sentence "it has ...": "no answer"; None if the attributes fit together.
    """
    missing_methods = sorted(method_type.__abstractmethods__)
    if missing_methods:
        return f"no {' and '.join(missing_methods)}"
    if MethodConfig not in method_type.Config.__mro__:
        return "a Config that is no harness.method.MethodConfig"
    return (
        _misdeclared_traits(method_type)
        or _misdeclared_scope(method_type)
        or _misdeclared_needs(method_type)
        or _misdeclared_names(method_type)
    )


def _misdeclared_traits(method_type: type[Method]) -> str | None:
    """The end of a sentence "it has ..." where a method class sets a trait beside `traits`, as an
    attribute of its own; None where it sets none."""
    for trait in fields(Traits):
        if hasattr(method_type, trait.name):
            value = getattr(method_type, trait.name)
            return f"{trait.name} in its class; write traits = Traits({trait.name}={value!r})"
    return None


def _misdeclared_scope(method_type: type[Method]) -> str | None:
    """The end of a sentence "it has ..." where a method class has an unknown `scope`, or builds an
    index and declares none; None where it is right."""
    scope = str(method_type.scope)
    if scope not in ("document", "question", "none"):
        return f"scope {scope!r}; it should be 'document', 'question' or 'none'"
    builds_index = method_type.index is not Method.index
    own_classes = [each for each in method_type.__mro__ if each is not Method]
    declares_scope = any("scope" in vars(each) for each in own_classes)
    if builds_index and not declares_scope:
        return "an index; say to what it belongs: scope = 'document', or 'question'"
    return None


def _misdeclared_needs(method_type: type[Method]) -> str | None:
    """The end of a sentence "it has ..." where `needs` of a method class is no dict of sets; None
    where it is one."""
    is_mapping = isinstance(method_type.needs, dict)
    if is_mapping:
        has_text_for_a_role = any(isinstance(each, str) for each in method_type.needs.values())
        if not has_text_for_a_role:
            return None
    return "needs that map no roles to sets of capabilities; write {'reader': frozenset({'probe'})}"


class _DeclaredNames(NamedTuple):
    """The names in an attribute of a method's class, and those that the attribute may have."""

    attribute: str
    names: Any
    known: Iterable[str]


def _misdeclared_names(method_type: type[Method]) -> str | None:
    """The end of a sentence "it has ..." where `needs`, `encoders` or `index_roles` of a method
    class has a name that is unknown, or is a text where it should be a tuple; None where all are
    right."""
    capabilities = frozenset[str]().union(*method_type.needs.values())
    own_roles = [*method_type.needs, *method_type.encoders]
    declared = [
        _DeclaredNames("needs", method_type.needs, LANGUAGE_MODEL_ROLES),
        _DeclaredNames("needs", capabilities, CAPABILITIES),
        _DeclaredNames("encoders", method_type.encoders, ENCODER_ROLES),
        _DeclaredNames("index_roles", method_type.index_roles, own_roles),
    ]
    for attribute, names, known in declared:
        if isinstance(names, str):
            return f"a text as {attribute}; write {(names,)}"
        for strange in sorted({*names} - {*known}):
            return f"an {unknown_name_error(f'name in {attribute}, {strange!r}', strange, known)}"
    return None
