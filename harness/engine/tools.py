"""The tools that the engine gives a method: metered models and encoders, without access to gold
answers."""

import contextlib
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any, TypeVar

import numpy as np

from harness.config.schema import EncoderConfig
from harness.cost.meter import Meter
from harness.datasets.few_shot import load_solved_examples
from harness.embed.load import load_encoder, load_reranker
from harness.engine.metered_retriever import MeteredRetriever
from harness.engine.plan import PlannedRun
from harness.engine.searching import Searcher
from harness.llm import backend
from harness.method import Encoder, Reranker, Retriever, Task
from harness.models import LanguageModel, MeteredModel, Sampling
from harness.parallel.in_flight import map_together
from harness.parallel.locks import KeyedLocks
from harness.parallel.members import current_scheduler
from harness.parallel.phases import phase
from harness.retrieval.served import ServedRetriever
from harness.stats.rng import derived_seed
from harness.storage.index_cache import IndexCache, IndexKey, cache_root
from harness.storage.index_parts import SharedPart
from harness.storage.index_parts import keep as find_or_store_part
from harness.storage.index_parts import share as find_or_store_shared_part
from harness.storage.manifest_file import FirstPrompt
from harness.storage.reply_cache import ReplyCache
from harness.types import Question, SearchHit

T = TypeVar("T")
R = TypeVar("R")


def seed_everything(seed: int) -> None:
    """Seed the global generators of Python, NumPy and, if it is loaded, torch.

    Methods are given a seed; this covers libraries that draw from the global generators on their
    own. Several questions in flight share these, so they are seeded once, not for each question: a
    method must draw from generators of its own, seeded with tools.seed.
    """
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(seed)


@contextlib.contextmanager
def _global_draws_restored(seed: int) -> Iterator[None]:
    """Context manager: restores the global random generators after the block, so that loading a
    model changes no later random number.

    Args:
        seed: What torch's generator is seeded with afterwards, where the block imported torch.
    """
    python_state = random.getstate()
    numpy_state = np.random.get_state()
    torch = sys.modules.get("torch")
    torch_state = None
    if torch is not None:
        torch_state = torch.get_rng_state()
    try:
        yield
    finally:
        random.setstate(python_state)
        np.random.set_state(numpy_state)
        torch = sys.modules.get("torch")
        if torch is not None and torch_state is not None:
            torch.set_rng_state(torch_state)
        elif torch is not None:
            torch.manual_seed(seed)


class Models:
    """The models of a plan by role, loaded at first use; roles with equal configs share one model.

    Attributes:
        plan: The run.
        seed: What the last `reseed` seeded the global random generators with.
        slow_paths_of_workers: A process that answers questions too -> the slow paths of its models, a sentence
            each.
    """

    def __init__(self, plan: PlannedRun, note: Callable[[str], None]) -> None:
        """Begin with nothing loaded. Loaded models are kept by the JSON of their config, caches of
        replies by role.

        Args:
            plan: The run.
            note: Gets a sentence where replies cannot be cached, and what happens to a model's
                servers.
        """
        self.plan = plan
        self._note = note
        self._loaded: dict[str, LanguageModel] = {}
        self._replies: dict[str, ReplyCache] = {}
        self._retriever: ServedRetriever | None = None
        self._loading = KeyedLocks()
        self.seed = 0
        self.slow_paths_of_workers: dict[object, list[str]] = {}

    def reseed(self, *parts: str) -> None:
        """Seed the global generators by the run's seed and `parts`; does nothing with several
        questions in flight."""
        if current_scheduler() is None:
            self.seed = derived_seed(self.plan.config.seed, *parts)
            seed_everything(self.seed)

    def load_all(self) -> list[LanguageModel]:
        """Load every model of the plan now, each distinct one once. Raises CannotRun."""
        for role in self.plan.models:
            self.model(role)
        return self.loaded()

    def loaded(self) -> list[LanguageModel]:
        """The models that are loaded so far, each distinct one once."""
        return list(dict.fromkeys(self._loaded.values()))

    def slow_paths(self) -> list[str]:
        """Why the batches of the loaded models, and of `slow_paths_of_workers`, ran slower than
        they could, a sentence each; also that several models shared a GPU's memory."""
        loaded: list[Any] = self.loaded()
        slow: list[str] = []
        for model in loaded:
            if hasattr(model, "slow_paths"):  # one that runs in this process
                slow += model.slow_paths()
        for paths_of_worker in self.slow_paths_of_workers.values():
            slow += paths_of_worker
        sentences = list(dict.fromkeys(slow))
        # Models on a GPU whose waiting contexts leave its memory where others need their room.
        sharing = [model for model in loaded if getattr(model, "contexts_make_room", False)]
        if len(sharing) > 1:
            names = [f"'{model.name}'" for model in sharing]
            sentences.append(
                f"{' and '.join(names)} shared a GPU's memory: each had room for fewer contexts "
                "than alone"
            )
        return sentences

    def server_reports(self) -> list[str]:
        """What each server of a fleet did, a sentence each: how many requests it answered, for
        example."""
        return list(chain.from_iterable(model.server_reports() for model in self.loaded()))

    def model(self, role: str) -> LanguageModel:
        """The model of `role`, loaded at the first call; roles with equal settings share one.
        Loading changes no later random number. Raises LookupError for a role the method does not
        declare, CannotRun from loading."""
        config = self.plan.models.get(role)
        if config is None:
            raise LookupError(_undeclared_role("needs", role, self.plan.models))
        key = config.model_dump_json()
        with self._loading.hold(key):
            if key not in self._loaded:
                with _global_draws_restored(self.seed), phase("models"):
                    self._loaded[key] = backend.load_model(config)
                    self._loaded[key].report_events_to(self._note)
        return self._loaded[key]

    def replies(self, role: str) -> ReplyCache:
        """The cache of replies of the model of `role` (--cache replies), opened at the first call.
        Raises as `model` does."""
        loaded = self.model(role)
        name = self.plan.models[role].name
        with self._loading.hold("replies"):
            if role not in self._replies:
                self._replies[role] = ReplyCache(cache_root(), name, loaded.identity, self._note)
        return self._replies[role]

    def encoder(
        self, load: Callable[[EncoderConfig, Meter, str, bool], T], role: str, meter: Meter
    ) -> T:
        """The encoder or reranker of a role, loaded at its first use and bound to a meter. Loading
        changes no later random number.

        Args:
            load: load_encoder or load_reranker; called with the config, the meter, the role and
                whether the run is deterministic.
            role: "encoder" or "reranker".
            meter: Counts what it does.

        Raises:
            LookupError: The method does not declare the role.
            CannotRun: It cannot be loaded.
        """
        config = self.plan.encoders.get(role)
        if config is None:
            raise LookupError(_undeclared_role("encoders", role, self.plan.encoders))
        with (
            self._loading.hold("encoders"),
            _global_draws_restored(self.seed),
            phase("encoders"),
        ):
            deterministic = self.plan.config.model.deterministic
            return load(config, meter, role, deterministic)

    def retriever(self) -> ServedRetriever | None:
        """The retriever of the run, tried once before its first use; None where the run has none.
        Raises CannotRun where it does not answer."""
        config = self.plan.config.retriever
        if config is None:
            return None
        with self._loading.hold("retriever"):
            if self._retriever is None:
                served = ServedRetriever(config)
                served.check()
                self._retriever = served
        return self._retriever

    def first_prompts(self) -> dict[str, FirstPrompt]:
        """Role -> the first prompt that was sent to its model since it was loaded; only roles whose
        back end keeps it."""
        prompts = {}
        for role, config in self.plan.models.items():
            loaded_model = self._loaded.get(config.model_dump_json())
            prompts_by_role = getattr(loaded_model, "first_prompts", {})
            if role in prompts_by_role:
                prompts[role] = FirstPrompt.from_json(prompts_by_role[role])
        return prompts


def _undeclared_role(attribute: str, role: str, declared_roles: Iterable[str]) -> str:
    """The sentence for a role that a method uses and does not declare.

    Args:
        attribute: The method's attribute that declares roles: "needs".
        role: The role that it asked for.
        declared_roles: The declared ones.
    """
    declared_text = ", ".join(declared_roles) or "none"
    return (
        f"the method asks for role '{role}', but its '{attribute}' declares only: {declared_text}"
    )


@dataclass(frozen=True)
class IndexBuild:
    """What building an index may use.

    Attributes:
        roles: The roles that the index's key covers.
        cache: For parts from tools.keep and tools.share.
        key: The key of the index.
        locks: One for each part.
    """

    roles: tuple[str, ...]
    cache: IndexCache
    key: IndexKey
    locks: KeyedLocks = field(default_factory=KeyedLocks)


class EngineTools:
    """Implements harness.method.Tools for one question, or for one index.

    While an index is built a role outside the method's `index_roles`, and the task where the index
    belongs to the document alone, are refused: the index's key does not cover them.

    Attributes:
        meter: Counts the cost.
        seed: The run's seed.
        question: Set while a question is answered or its own index is built.
        searcher: Set while a question is answered.
    """

    def __init__(
        self,
        models: Models,
        meter: Meter,
        task: Task | None,
        report: Callable[[int, int, str], None],
        build: IndexBuild | None = None,
    ) -> None:
        """Tools without a question and a searcher, which the caller sets.

        Args:
            models: The run's models.
            meter: Counts the cost.
            task: The run's task; None while an index is built that belongs to the document alone.
            report: Shows a long step's progress: called with units done, all units, and the step in
                words.
            build: What building an index may use; None while a question is answered.
        """
        self.meter = meter
        self.seed = models.plan.config.seed
        self.question: Question | None = None
        self.searcher: Searcher | None = None
        self._models = models
        self._task = task
        self._report = report
        self._build = build

    @property
    def task(self) -> Task:
        """The data set's instruction and answer length. While a question is set, solved examples
        for it are appended to the instruction (dataset.shots).

        Raises LookupError where an index is built that belongs to the document alone.
        """
        if self._task is None:
            raise LookupError(
                "an index of scope 'document' cannot depend on the task; use scope 'question'"
            )
        # Examples that all questions share are in the instruction already; `shots` is then "".
        has_own_examples = bool(self._task.shots)
        if not self.question or not has_own_examples:
            return self._task
        shots = load_solved_examples(self._models.plan.config.dataset)
        if shots is None:
            return self._task
        return self._task.model_copy(
            update={"instruction": self._task.instruction + shots.text_for(self.question)}
        )

    @task.setter
    def task(self, task: Task) -> None:
        """Replace the task, which gets solved examples as before when it is read."""
        self._task = task

    def model(self, role: str = "reader") -> MeteredModel:
        """The language model of `role`, metered. The reader draws its replies as model.temperature
        and its like say while a question is answered; in an index, and in every other role, it is
        greedy. With --cache replies, a reply that is in the cache comes from there.

        Raises LookupError for an undeclared role.
        """
        self._check_role(role)
        config = self._models.plan.config
        loaded = self._models.model(role)
        question_with_drawn_replies = None
        if role == "reader" and self._build is None:
            question_with_drawn_replies = self.question
        sampling = None  # greedy
        if question_with_drawn_replies is not None and config.model.sampling:
            sampling = Sampling(
                seed=derived_seed(config.seed, question_with_drawn_replies.id),
                temperature=config.model.temperature,
                top_p=config.model.top_p,
                max_tokens=config.model.max_tokens,
            )
        replies = None
        if config.cache is not None:
            replies = self._models.replies(role)  # the cache of them
        return MeteredModel(
            loaded,
            self.meter,
            role,
            sampling=sampling,
            replies=replies,
            keep_thinking=self._models.plan.models[role].keep_thinking,
        )

    def encoder(self, role: str = "encoder") -> Encoder:
        """The sentence encoder of `role`, metered. Raises LookupError for an undeclared role."""
        self._check_role(role)
        return self._models.encoder(load_encoder, role, self.meter)

    def reranker(self, role: str = "reranker") -> Reranker:
        """The reranker of `role`, metered. Raises LookupError for an undeclared role."""
        self._check_role(role)
        return self._models.encoder(load_reranker, role, self.meter)

    def retriever(self) -> Retriever | None:
        """The run's retriever, bound to the meter; None where the run has none."""
        served = self._models.retriever()
        plan = self._models.plan
        if served is None or plan.config.retriever is None:
            return None
        price = plan.config.retriever.price
        return MeteredRetriever(served, price, self.meter, plan.dataset, self._query_vector)

    def _query_vector(self, query: str) -> Sequence[float]:
        """The vector of a query by the run's encoder, for a retriever whose requests hold it."""
        (vector,) = self.encoder().encode([query], "query")
        values: list[float] = vector.tolist()
        return values

    def _check_role(self, role: str) -> None:
        """Raise LookupError where an index is being built whose cache key does not cover `role`."""
        if self._build is not None and role not in self._build.roles:
            raise LookupError(_undeclared_role("index_roles", role, self._build.roles))

    def search(self, query: str, k: int) -> list[SearchHit]:
        """The `k` best passages for a query, best first, by the run's retriever if it has one, else
        from its corpus or the question's own documents. Also records the search on the meter.

        Raises LookupError while an index is built: its key does not cover a corpus.
        """
        if self.searcher is None:
            raise LookupError("tools.search is for answering; an index cannot depend on a search")
        retriever = self.retriever()
        if retriever is not None:
            return self.searcher.search_with_retriever(retriever, query, k, self.meter)
        return self.searcher.search(query, k, self.meter)

    def map(self, fn: Callable[[T], R], items: Iterable[T]) -> list[R]:
        """Return [fn(item), ...] in order; in parallel if the run has free places, else one after
        the other.

        The first exception in the order of the items is raised. Inside, `meter.flops()` counts what
        came before the map and the item's own; with --parallel 1, where items run in turn, also the
        items before. Totals are the same.
        """
        scheduler = current_scheduler()
        if scheduler is None:
            return [fn(item) for item in items]
        return map_together(scheduler, fn, list(items), self.meter)

    def keep(self, key: str, fn: Callable[[], Any]) -> Any:
        """Return the result that an interrupted build of this index stored under `key`; where there
        is none, the result of fn(), which is stored. Tuples come back as lists.

        Raises LookupError while answering: parts belong to an index.
        """
        if self._build is None:
            raise LookupError(
                "tools.keep stores parts of an index; it cannot be used while answering"
            )
        build = self._build
        with build.locks.hold(key):
            compute_part = partial(self._call_with_own_draws, key, fn)
            index_key = build.key.to_json()
            return find_or_store_part(build.cache, index_key, key, compute_part, self.meter)

    def share(
        self, name: str, role: str, needs: Mapping[str, object], fn: Callable[[], Any]
    ) -> Any:
        """Return what an index of any method stored under this name for equal needs; where there is
        nothing, the result of fn(), which is stored. Tuples come back as lists.

        Args:
            name: The name of the part: "tree".
            role: The role whose model fn uses.
            needs: All else that the part depends on, with the "version" of the code of fn.
            fn: Computes the part.

        Raises:
            LookupError: A question is being answered, the index's key does not cover the role, or
                fn used another one.
        """
        if self._build is None:
            raise LookupError(
                "tools.share stores parts of indexes; it cannot be used while answering"
            )
        self._check_role(role)
        seed_text = f"share {name}"
        compute_part = partial(self._call_with_own_draws, seed_text, fn)
        part = SharedPart(name, role, needs)
        return find_or_store_shared_part(
            self._build.cache, self._build.key, part, compute_part, self.meter
        )

    def _call_with_own_draws(self, seed_text: str, fn: Callable[[], Any]) -> Any:
        """Return fn(), run with the global random generators seeded by the run's seed and
        `seed_text`, and then restored. So a part that comes from the cache, not from fn, changes no
        later random number.

        With several questions in flight, which share these generators, fn() is called without that.
        """
        several_in_flight = current_scheduler() is not None
        if several_in_flight:
            return fn()
        seed = derived_seed(self.seed, seed_text)
        with _global_draws_restored(seed):
            seed_everything(seed)
            return fn()

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Count the costs of the block under the phase `name` ("search", "answer"). Raises
        ValueError while an index is built, whose costs all count under "index"."""
        if self._build is not None and name != "index":
            raise ValueError(f"building an index costs phase 'index', not '{name}'")
        return self.meter.phase(name)

    def progress(self, done: int, total: int, what: str) -> None:
        """Report a long step.

        Args:
            done: Units of the step that are done.
            total: All of its units.
            what: The step in words.
        """
        self._report(done, total, what)
