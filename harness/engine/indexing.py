"""The index of a document: from memory, from the cache, or built now; its cost is known in every
case.

Each start of a run writes an IndexLine a document to documents.jsonl: built, hit or failed.
"""

import copy
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
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
from harness.parallel.members import current
from harness.parallel.phases import phase
from harness.storage.failures import STOPS, describe_failure
from harness.storage.index_cache import Entry, IndexCache, document_digest, key_digest
from harness.storage.kept_requests import request_rows
from harness.storage.package_versions import versions
from harness.storage.records import IndexLine, Status
from harness.storage.run_store import RunStore
from harness.types import Document, Example, Question

_KEPT = 4  # indexes held in memory at least: questions on one document follow each other in every data set


class Indexer:
    """The indexes of one run: if several questions need the same one, one builds it. kept: how many
    stay in memory."""

    def __init__(
        self,
        plan: PlannedRun,
        models: Models,
        cache: IndexCache,
        store: RunStore,
        progress: Progress,
        budget: Budget,
    ) -> None:
        self._plan, self._models, self._cache = plan, models, cache
        self._store, self._progress, self._budget = store, progress, budget
        self.kept = _KEPT
        self._building = KeyedLocks()
        # For what all questions share: the recent indexes, documents.jsonl.
        self._lock = threading.Lock()
        self._recent: OrderedDict[str, Entry] = OrderedDict()
        self._failed: dict[str, dict[str, str]] = {}
        # Ids of documents that a question in flight is indexing.
        self._being_indexed: set[str] = set()
        # Ids of documents that were indexed, or failed; no question waits for them.
        self._indexed: set[str] = set()

    def choose_next(self, examples: Iterable[Example]) -> int:
        """Position in `examples` of the first question none of whose documents is being indexed by
        another thread.

        So several documents are indexed at the same time, also where many questions on one follow
        each other. The question's documents count as being indexed until `documents_done`. If there
        is no such question: 0.
        """
        if self._plan.method.scope != "document" or not self._plan.builds_indexes:
            return 0
        with self._lock:
            for position, example in enumerate(examples):
                documents = set(example.question.document_ids)
                if not documents & self._being_indexed:
                    self._being_indexed |= documents - self._indexed
                    return position
        return 0

    def documents_done(self, question: Question) -> None:
        """Mark the question's documents as indexed, or as failed to index."""
        with self._lock:
            self._being_indexed.difference_update(question.document_ids)
            self._indexed.update(question.document_ids)

    def indexes(self, documents: Sequence[Document], question: Question) -> list[Index]:
        """The index of each document, every one a fresh copy. Raises IndexFailed when one cannot be
        built."""
        if not self._plan.builds_indexes:
            return [{} for _ in documents]
        of_question = question if self._plan.method.scope == "question" else None
        indexes: list[Index] = []
        for document in documents:
            key = index_key(self._plan, document, of_question)
            with self._building.hold(digest := key_digest(key)):
                # 1. From memory.
                # The other questions of this document do not pay for the failure again.
                if digest in self._failed:
                    raise IndexFailed(self._failed[digest])
                with self._lock:
                    entry = self._recent.get(digest)
                # 2. From the cache.
                if (
                    entry is None
                    and (entry := self._cache.get(self._cache.folder(key), key)) is not None
                ):
                    self._record_status(document, of_question, digest, "hit", entry.usage)
                # 3. Built, recorded, cached: a run killed in between would otherwise find its own
                # index in the cache,
                #    as if another had paid for it.
                if entry is None:
                    entry = self._build(document, of_question, key, digest)
                    self._record_status(document, of_question, digest, "built", entry.usage)
                    self._cache.put(self._cache.folder(key), key, entry)
                with self._lock:
                    self._recent[digest] = entry
                    self._recent.move_to_end(digest)
                    while len(self._recent) > self.kept:
                        self._recent.popitem(last=False)
            indexes.append(entry.value())
        return indexes

    def _build(
        self, document: Document, question: Question | None, key: dict[str, Any], digest: str
    ) -> Entry:
        """Call the method's `index` and keep its cost; digest: of `key`. Raises IndexFailed, now
        and the next time."""
        plan, method = self._plan, self._plan.method
        method = copy.copy(method)
        method.config = _IndexSettings(plan.method)
        meter = Meter("index", keeps_requests=plan.config.keep_prompts)
        build = IndexBuild(plan.method.index_roles, self._cache, key)
        task = plan.task if question is not None else None
        tools = EngineTools(self._models, meter, task, self._progress.part, build)
        tools.question = question
        self._models.reseed(digest)
        try:
            with phase("indexes"):
                value = method.index(document, tools)
            if not isinstance(value, dict):
                raise TypeError(
                    f"{type(plan.method).__name__}.index returned {type(value).__name__}, not a "
                    "dict"
                )
            entry = Entry.of(value, meter.events, meter)
        except STOPS:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a method does wrong costs its questions, not the run
            self._failed[digest] = describe_failure(error)
            self._record_status(document, question, digest, "failed", meter.usage())
            raise IndexFailed(self._failed[digest]) from None
        finally:
            if meter.requests:
                owner = {"document_id": document.id, "key": digest}
                self._store.keep_requests(request_rows(meter.requests, owner))
        return entry

    def _record_status(
        self,
        document: Document,
        question: Question | None,
        digest: str,
        status: Status,
        usage: Usage,
    ) -> None:
        """Append an index's line to documents.jsonl and count its cost. digest: of its key; status:
        see the module."""
        question_id = None if question is None else question.id
        line = IndexLine(document.id, digest, status, usage, question_id)
        with self._lock:
            if scheduler := current():
                scheduler.check()  # an interrupted run may have closed its folder
            self._store.add_document(line)
            self._budget.spend_index(line)


class _IndexSettings:
    """A method's configuration while it builds an index.

    Reading a setting that is no index setting raises LookupError.
    """

    def __init__(self, method: Method) -> None:
        self._method = method
        self._fields = {*index_fields(method.Config), "prompts"}

    def __getattr__(self, name: str) -> Any:
        """A setting of the method. Raises LookupError for one that the index is not stored
        under."""
        if name in self._method.Config.model_fields and name not in self._fields:
            # Otherwise an index of another value of this setting would be taken from the cache.
            raise LookupError(
                f"{type(self._method).__name__}.index reads the setting {name!r}, which no "
                "index_setting declares; declare it with index_setting in place of setting"
            )
        return getattr(self._method.config, name)


def _prompts_of_index(method: Method) -> dict[str, str]:
    """The prompts on which an index may depend: all, but for the system turns that stand before
    requests for an answer."""
    prompts = dict(method.prompts())
    for prompt in method.templates():
        if prompt.answers:
            prompts.pop(f"{prompt.name}, system", None)
    return prompts


def index_key(plan: PlannedRun, document: Document, question: Question | None) -> dict[str, Any]:
    """The key of the index of `document`; question: for an index of scope "question" only."""
    method = plan.method
    fields = set(index_fields(method.Config))
    params: dict[str, Any] = method.config.model_dump(mode="json", include=fields)
    outside = {
        "code": plan.code,
        "packages": versions(index_packages_of(method)),
    }  # inputs outside the configuration
    key: dict[str, Any] = {
        "document": document_digest(document),
        "method": plan.config.method.implementation,
        "version": method.index_version,
        "params": params,
        "prompts": _prompts_of_index(method),
        "models": {role: plan.identities[role] for role in method.index_roles},
        "seed": plan.config.seed,
        **{name: found for name, found in outside.items() if found},
    }
    if question is not None:
        key["question"] = {
            "text": question.text,
            "options": question.options,
            "task": plan.task.model_dump(exclude_defaults=True),
        }
    return key
