"""What the steps of one start of a run share: answering a question, recording it, executors."""

from __future__ import annotations

from dataclasses import dataclass, field

from harness.cost.usage import SentUsage
from harness.engine.indexing import Indexer
from harness.engine.plan import PlannedRun
from harness.engine.plan_models import server_shapes
from harness.engine.progress import Progress
from harness.engine.searching import RunSearches
from harness.engine.spending_limits import Budget
from harness.engine.start_manifest import StartManifest
from harness.engine.tools import Models
from harness.storage.index_cache import IndexCache, cache_root
from harness.storage.run_store import RunStore
from harness.types import Example


@dataclass(frozen=True)
class OpenRun:
    """A run whose folder is open: what is needed to answer, record and sum up its questions.

    Attributes:
        plan: The run.
        store: Its folder.
        progress: Shows what is done.
        budget: The limits of the command, and what is spent.
        models: Its models, loaded at their first use.
        searches: What its questions search in.
        indexer: Has the indexes of its documents.
        examples: The questions to ask, answered ones too.
        manifest: The manifest of this start; a worker has its own, which the driver merges.
        earlier_tries: Question id -> what its earlier tries sent.
        problems: Sentences about what could not be written.
    """

    plan: PlannedRun
    store: RunStore
    progress: Progress
    budget: Budget
    models: Models
    searches: RunSearches
    indexer: Indexer
    examples: tuple[Example, ...]
    manifest: StartManifest
    earlier_tries: dict[str, SentUsage] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    @classmethod
    def prepare(
        cls,
        plan: PlannedRun,
        store: RunStore,
        progress: Progress,
        budget: Budget,
        examples: tuple[Example, ...],
        manifest: StartManifest,
    ) -> OpenRun:
        """The run, ready to be asked: its models, none of them loaded yet, its indexer, and what
        its questions search in.

        Args:
            plan: The run.
            store: Its open folder.
            progress: Shows what is done.
            budget: The limits of the command, and what is spent.
            examples: The questions to ask, answered ones too.
            manifest: The manifest of this start.
        """
        models = Models(plan, progress.note)
        cache = IndexCache(cache_root(), progress.note, server_shapes(plan.models))
        indexer = Indexer(plan, models, cache, store, progress, budget)
        searches = RunSearches(plan.corpus)
        return cls(plan, store, progress, budget, models, searches, indexer, examples, manifest)

    def longest_context_tokens(self) -> int:
        """An estimate of the tokens of the longest context that a question needs: the bytes of its
        documents / 3 (a token has 3 to 5 bytes), and 1,024 for the rest of the prompt and the
        answer."""
        bytes_by_document: dict[str, int] = {}
        for document_id, document in self.plan.dataset.documents.items():
            bytes_by_document[document_id] = len(document.text.encode())
        most_bytes = 0
        for example in self.examples:
            document_ids = example.question.document_ids
            n_bytes = sum(bytes_by_document[document_id] for document_id in document_ids)
            most_bytes = max(most_bytes, n_bytes)
        return most_bytes // 3 + 1024
