"""The index of a document: from memory, from the cache, or built now; its cost is known in every
case.

Each start of a run writes an IndexLine a document to documents.jsonl: built, hit or failed.
"""

from __future__ import annotations

import copy
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from harness.cost.meter import Meter
from harness.cost.usage import Usage
from harness.engine.plan import PlannedRun
from harness.engine.progress import Progress
from harness.engine.spending_limits import Budget
from harness.engine.tools import EngineTools, IndexBuild, Models
from harness.errors import IndexFailed
from harness.method import Index, Method
from harness.method.abilities import index_packages_of
from harness.method.settings import index_fields
from harness.parallel.locks import KeyedLocks
from harness.parallel.members import current_scheduler
from harness.parallel.phases import phase
from harness.storage.failures import STOPS, describe_failure
from harness.storage.index_cache import CacheEntry, IndexCache, IndexKey, document_digest
from harness.storage.kept_requests import request_rows
from harness.storage.package_versions import package_versions
from harness.storage.records import IndexLine, Status
from harness.storage.run_store import RunStore
from harness.types import Document, Example, Question

_MAX_INDEXES_IN_MEMORY = 4
"""Few are enough, as questions on one document follow each other in every data set."""


@dataclass(frozen=True)
class _WantedIndex:
    """An index that a question needs.

    Attributes:
        document: The document.
        question: Whose index it is, None where all questions share it.
        key: All that it depends on.
    """

    document: Document
    question: Question | None
    key: IndexKey

    @cached_property
    def digest(self) -> str:
        """Names the index in the cache and in documents.jsonl."""
        return self.key.digest


class Indexer:
    """The indexes of one run: if several questions need the same one, one builds it.

    Attributes:
        max_in_memory: How many indexes stay in memory.
    """

    def __init__(
        self,
        plan: PlannedRun,
        models: Models,
        cache: IndexCache,
        store: RunStore,
        progress: Progress,
        budget: Budget,
    ) -> None:
        """Begin without any index. `_failures` holds, by index, why it could not be built.

        Args:
            plan: The run.
            models: The models that build indexes.
            cache: Holds indexes of all runs.
            store: Gets the lines of documents.jsonl, and requests.
            progress: Shows long steps.
            budget: Counts what indexes cost.
        """
        self._plan = plan
        self._models = models
        self._cache = cache
        self._store = store
        self._progress = progress
        self._budget = budget
        self.max_in_memory = _MAX_INDEXES_IN_MEMORY
        self._locks = KeyedLocks()
        # For what all questions share: the recent indexes, documents.jsonl.
        self._lock = threading.Lock()
        self._in_memory: OrderedDict[str, CacheEntry] = OrderedDict()
        self._failures: dict[str, dict[str, str]] = {}
        # Documents that a question in flight is indexing.
        self._ids_being_indexed: set[str] = set()
        # Documents that were indexed, or failed; no question waits for them.
        self._ids_indexed: set[str] = set()

    def reserve_next(self, examples: Iterable[Example]) -> int:
        """Mark the documents of the question to ask next as being indexed, until `mark_as_indexed`,
        and return its position in `examples`: the first question none of whose documents another
        thread is indexing. Where there is none, nothing is marked, and the position is 0.

        So several documents are indexed at the same time, also where many questions on one document
        follow each other.
        """
        questions_share_indexes = self._plan.method.scope == "document"
        if not self._plan.builds_indexes or not questions_share_indexes:
            return 0
        with self._lock:
            for position, example in enumerate(examples):
                document_ids = set(example.question.document_ids)
                if not document_ids & self._ids_being_indexed:
                    self._ids_being_indexed |= document_ids - self._ids_indexed
                    return position
        return 0

    def mark_as_indexed(self, question: Question) -> None:
        """Mark the question's documents as indexed, or as failed to index."""
        with self._lock:
            self._ids_being_indexed.difference_update(question.document_ids)
            self._ids_indexed.update(question.document_ids)

    def indexes_for(self, documents: Sequence[Document], question: Question) -> list[Index]:
        """The index of each document, every one a fresh copy that a method may change; {} for a
        method that builds none. Raises IndexFailed when one cannot be built."""
        if not self._plan.builds_indexes:
            return [{} for _ in documents]
        question_of_index = None
        if self._plan.method.scope == "question":
            question_of_index = question
        return [self._find_or_build(document, question_of_index) for document in documents]

    def _find_or_build(self, document: Document, question: Question | None) -> Index:
        """A fresh copy of the index of a document: from memory, from the cache, or built now.
        Another question that needs the same index meanwhile waits for it.

        Args:
            document: The document.
            question: Whose index it is, None where all questions share it.

        Raises:
            IndexFailed: It cannot be built, now or before.
        """
        wanted = _WantedIndex(document, question, index_key(self._plan, document, question))
        with self._locks.hold(wanted.digest):
            entry = self._find_in_memory(wanted.digest)
            if entry is None:
                entry = self._load_from_cache(wanted)
            if entry is None:
                entry = self._build_and_cache(wanted)
            self._keep_in_memory(wanted.digest, entry)
        index: Index = entry.value()
        return index

    def _find_in_memory(self, digest: str) -> CacheEntry | None:
        """The index with this key if it is one of the recent ones. Raises IndexFailed for one that
        could not be built: the other questions of its document do not pay for the failure again."""
        if digest in self._failures:
            raise IndexFailed(self._failures[digest])
        with self._lock:
            return self._in_memory.get(digest)

    def _keep_in_memory(self, digest: str, entry: CacheEntry) -> None:
        """Make an index the most recent one, and drop those beyond `max_in_memory`."""
        with self._lock:
            self._in_memory[digest] = entry
            self._in_memory.move_to_end(digest)
            while len(self._in_memory) > self.max_in_memory:
                self._in_memory.popitem(last=False)

    def _load_from_cache(self, wanted: _WantedIndex) -> CacheEntry | None:
        """The index from the cache of all runs; None where it has none. Also records in
        documents.jsonl that it was found there ("hit")."""
        key = wanted.key.to_json()
        entry = self._cache.get(self._cache.folder(key), key)
        if entry is not None:
            self._record_status(wanted, "hit", entry.usage)
        return entry

    def _build_and_cache(self, wanted: _WantedIndex) -> CacheEntry:
        """The index, built now. Also records it in documents.jsonl, then puts it into the cache: a
        run killed in between would otherwise find its own index there, as if another had paid for
        it. Raises IndexFailed."""
        entry = self._build(wanted)
        self._record_status(wanted, "built", entry.usage)
        key = wanted.key.to_json()
        self._cache.put(self._cache.folder(key), key, entry)
        return entry

    def _build(self, wanted: _WantedIndex) -> CacheEntry:
        """Build the index by the method's `index`; returns it with what it cost. A failure is
        recorded in documents.jsonl and remembered, so that the document's other questions fail at
        once. Also stores the requests that were sent, where they are kept (--keep-prompts).

        Raises:
            IndexFailed: The method raised an error.
        """
        meter = Meter("index", keeps_requests=self._plan.config.keep_prompts)
        try:
            value = self._call_method(wanted, meter)
            return CacheEntry.of(value, meter.events, meter)
        except STOPS:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a method does wrong costs its questions, not the run
            self._failures[wanted.digest] = describe_failure(error)
            self._record_status(wanted, "failed", meter.usage())
            raise IndexFailed(self._failures[wanted.digest]) from None
        finally:
            if meter.requests:
                owner = {"document_id": wanted.document.id, "key": wanted.digest}
                self._store.append_requests(request_rows(meter.requests, owner))

    def _call_method(self, wanted: _WantedIndex, meter: Meter) -> Index:
        """What the method's `index` returns for the document. It is called with a copy of the
        method whose settings, and with tools, that refuse what is not in the index's key, and after
        the random generators are seeded by that key.

        Args:
            wanted: The index.
            meter: Counts what building it costs.

        Raises:
            TypeError: It returned no dict. Also whatever the method raises.
        """
        method = copy.copy(self._plan.method)  # the run's own method keeps its settings
        method.config = _IndexSettings(self._plan.method)
        build = IndexBuild(method.index_roles, self._cache, wanted.key)
        task = None
        if wanted.question is not None:  # an index of the document alone must not depend on it
            task = self._plan.task
        tools = EngineTools(self._models, meter, task, self._progress.show_step, build)
        tools.question = wanted.question
        self._models.reseed(wanted.digest)
        with phase("indexes"):
            value: object = method.index(wanted.document, tools)
        if not isinstance(value, dict):
            name = type(method).__name__
            raise TypeError(f"{name}.index returned {type(value).__name__}, not a dict")
        return value

    def _record_status(self, wanted: _WantedIndex, status: Status, usage: Usage) -> None:
        """Append the line of an index to documents.jsonl and count its cost. In a run that was
        interrupted neither is done, and Stopped is raised.

        Args:
            wanted: The index.
            status: How the run got it: "built", "hit" or "failed".
            usage: What building it cost, now or when it was built.
        """
        question_id = None
        if wanted.question is not None:
            question_id = wanted.question.id
        line = IndexLine(wanted.document.id, wanted.digest, status, usage, question_id)
        with self._lock:
            scheduler = current_scheduler()
            if scheduler is not None:
                scheduler.raise_if_stopped()  # an interrupted run may have closed its folder
            self._store.append_index_line(line)
            self._budget.spend_index(line)


class _IndexSettings:
    """A method's configuration while it builds an index.

    Reading a setting that is no index setting raises LookupError.
    """

    def __init__(self, method: Method) -> None:
        """Keep the method, and the names of the settings that its index may read."""
        self._method = method
        self._readable_settings = {*index_fields(method.Config), "prompts"}

    def __getattr__(self, name: str) -> Any:
        """A setting of the method. Raises LookupError for one that the index is not stored
        under."""
        is_setting = name in self._method.Config.model_fields
        if is_setting and name not in self._readable_settings:
            # Otherwise an index of another value of this setting would be taken from the cache.
            raise LookupError(
                f"{type(self._method).__name__}.index reads the setting {name!r}, which no "
                "index_setting declares; declare it with index_setting in place of setting"
            )
        return getattr(self._method.config, name)


def _prompts_of_index(method: Method) -> dict[str, str]:
    """Name -> text of the prompts on which an index may depend: all, but for the system turns that
    stand before requests for an answer."""
    prompts = dict(method.prompts())
    for prompt in method.templates():
        if prompt.answers:
            name_of_system_turn = f"{prompt.name}, system"
            prompts.pop(name_of_system_turn, None)  # None: it has no such turn
    return prompts


def index_key(plan: PlannedRun, document: Document, question: Question | None) -> IndexKey:
    """The key of the index of a document: all on which the index depends.

    Args:
        plan: The run, with its method.
        document: The document as the method sees it.
        question: Whose index it is; None for an index of scope "document".
    """
    method = plan.method
    fields = set(index_fields(method.Config))
    question_values: dict[str, object] | None = None
    if question is not None:
        question_values = {
            "text": question.text,
            "options": question.options,
            "task": plan.task.model_dump(exclude_defaults=True),
        }
    return IndexKey(
        document=document_digest(document),
        method=plan.config.method.implementation,
        version=method.index_version,
        params=method.config.model_dump(mode="json", include=fields),
        prompts=_prompts_of_index(method),
        models={role: plan.identities[role] for role in method.index_roles},
        seed=plan.config.seed,
        code=plan.code,
        packages=package_versions(index_packages_of(method)),
        question=question_values,
    )
