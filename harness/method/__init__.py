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
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from harness.errors import unknown
from harness.method.hooks import MethodHooks
from harness.method.tools import Encoder, IndexTools, Reranker, Task, Tools
from harness.models import CAPABILITIES, ROLES
from harness.prompts import Prompt, Replaced, turn_texts
from harness.types import Answer, Document, Question

__all__ = [
    "Encoder",
    "Index",
    "IndexTools",
    "Indexes",
    "Method",
    "MethodConfig",
    "Needs",
    "Reranker",
    "Task",
    "Tools",
]

Index = dict[str, Any]
Needs = dict[str, frozenset[str]]
Indexes = Sequence[Index]


class MethodConfig(BaseModel):
    """Base of every method's settings (harness/method/settings.py says how to declare one).

    Unknown keys are refused, values are frozen.

    prompts: replacements by the name of the prompt (harness/prompts.py); left out of a dump if
    empty.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    prompts: dict[str, Replaced] = Field(default_factory=dict, exclude_if=operator.not_)


class Method(MethodHooks, abc.ABC):
    """Base class of all methods; what it may say for trainings, forecasts and curves is in
    harness/method/hooks.py.

    Class attributes, all read by the plan before anything is loaded:

    summary         one line for `harness list`
    needs           role -> capabilities its model must have (see harness.models.CAPABILITIES)
    encoders        roles of sentence encoders it uses
    reads_documents whether it reads documents; if not, it also answers questions that have none
    floor           whether it is only what others must beat, as an answer without reading: tables never propose it
    scope           what an index belongs to: "document", "question" (a document and a question), or "none"
    one_document    True: several documents are joined in order into one, and the record says so
    index_roles     roles whose model or encoder changes the index
    index_version   code version of the index; raise it when the same input gives another index
    one_request     whether it asks a model once a question, and not for an index: its requests may be sent as a batch
    draws           whether anything but the reader's sampling depends on the run's seed (default True); a subclass
                    must repeat `draws = False`

    For a method outside this project the files of its class, its base classes and your own modules
    that they import are hashed too (harness/storage/own_code_hash.py), so editing them makes new
    indexes and a new run.
    """

    Config: ClassVar[type[MethodConfig]] = MethodConfig
    summary: ClassVar[str] = ""
    needs: ClassVar[Needs] = {"reader": frozenset()}
    encoders: ClassVar[tuple[str, ...]] = ()
    reads_documents: ClassVar[bool] = True
    floor: ClassVar[bool] = False
    scope: ClassVar[Literal["document", "question", "none"]] = "none"
    one_document: ClassVar[bool] = True
    index_roles: ClassVar[tuple[str, ...]] = ()
    index_version: ClassVar[str] = "1"
    one_request: ClassVar[bool] = False
    draws: ClassVar[bool] = True

    def __init__(self, config: MethodConfig) -> None:
        self.config: Any = config

    def index(self, document: Document, tools: IndexTools) -> Index:
        """Build the index of `document`: JSON values and numpy arrays. Not called for scope
        "none"."""
        raise NotImplementedError(
            f"{type(self).__name__} declares scope {self.scope!r} but builds no index"
        )

    @abc.abstractmethod
    def answer(
        self, question: Question, documents: Sequence[Document], indexes: Indexes, tools: Tools
    ) -> Answer:
        """Answer `question` about `documents`; indexes[i]: of documents[i], made by `index` ({} for
        scope "none")."""

    def problems(self) -> list[str]:
        """Sentences that say why the method cannot run with its settings, found without loading
        anything.

        Raises Missing for weights or packages that only a run needs (a plan works without),
        CannotRun for the rest.
        """
        return []

    def index_packages(self) -> tuple[str, ...]:
        """Distributions whose version changes the index, by their names on the package index."""
        return ()

    def templates(self) -> Sequence[Prompt]:
        """Every prompt that this method may send, as its code has it; a configuration may replace
        any of them."""
        return ()

    def prompts(self) -> dict[str, str]:
        """Every prompt in use, name -> text, for the run's hash, the cache key, the manifest and
        `harness show`."""
        return turn_texts(prompt.of(self.config) for prompt in self.templates())


def misdeclared(cls: type[Method]) -> str | None:
    """What is wrong with the attributes of a method's class, as the end of "it has ..."; None if
    they fit together."""
    if lacking := sorted(cls.__abstractmethods__):
        return f"no {' and '.join(lacking)}"
    if MethodConfig not in cls.Config.__mro__:
        return "a Config that is no harness.method.MethodConfig"
    if (scope := str(cls.scope)) not in ("document", "question", "none"):
        return f"scope {scope!r}; it should be 'document', 'question' or 'none'"
    if (
        cls.index is not Method.index
        and next(c for c in cls.__mro__ if "scope" in vars(c)) is Method
    ):
        return "an index; say to what it belongs: scope = 'document', or 'question'"
    if not isinstance(cls.needs, dict) or any(isinstance(own, str) for own in cls.needs.values()):
        return "needs that map no roles to sets of capabilities; write {'reader': frozenset({'probe'})}"
    capabilities = frozenset().union(*cls.needs.values())
    named: list[tuple[str, Any, Iterable[str]]] = [
        ("needs", cls.needs, ROLES[:5]),
        ("needs", capabilities, CAPABILITIES),
        ("encoders", cls.encoders, ROLES[5:]),
        ("index_roles", cls.index_roles, [*cls.needs, *cls.encoders]),
    ]
    for name, given, known in named:
        if isinstance(given, str):
            return f"a text as {name}; write {(given,)}"
        for strange in sorted({*given} - {*known}):
            return f"an {unknown(f'name in {name}, {strange!r}', strange, known)}"
    return None
