"""manifest.json of a run folder as a typed value: parsed where the file is read, written by RunStore.

    RunManifest.from_json({"method": "bm25", "dataset": {"questions": 200}, ...}).dataset.questions    -> 200

What each key means: docs/run-folder.md#manifest. A plan's manifest is made in harness/engine/manifest.py.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from harness.cost.flops import ModelShape
from harness.cost.prices import Prices
from harness.cost.usage import PhaseUsage, SentUsage
from harness.storage.json_values import (
    NOT_CHECKED,
    NULL_IS_EMPTY,
    NULL_IS_NO_ITEM,
    JsonValues,
)
from harness.storage.stored_config import StoredPrice
from harness.storage.summary_file import EarlyStop

ModelIdentity = dict[str, object]
"""What distinguishes a model: hashes of its files, dtype, window, ...; each back end has its own."""


class GitState(JsonValues):
    """The checkout of this project. dirty: whether it had changes that no commit holds."""

    commit: str | None = None
    dirty: bool | None = None


class CopyRecogniser(JsonValues):
    """What found the names that a copy swaps."""

    name: str | None = None


class SwappedCopy(JsonValues):
    """How an entity-swapped copy was made.

    Attributes:
        of: Fingerprint of the original rows.
        seed: The seed that its names and numbers were drawn by.
        recogniser: What found the names.
    """

    of: str | None = None
    seed: int | None = None
    recogniser: Annotated[CopyRecogniser, NULL_IS_EMPTY] = Field(default_factory=CopyRecogniser)


class DatasetRows(JsonValues):
    """The rows that a run was made with.

    Attributes:
        name: The data set's name.
        fingerprint: Hash of all rows.
        source: File or repository.
        revision: The revision of the repository.
        questions: How many there are.
        skipped: Rows that the loader left out, by reason.
        folder_documents: Documents in a folder of the user's own; None for other data, and in runs
            of older versions.
        twin: How it was made, for an entity-swapped copy.
    """

    name: str | None = None
    fingerprint: str | None = None
    source: str | None = None
    revision: str | None = None
    questions: int = 0
    skipped: Annotated[dict[str, int], NULL_IS_EMPTY] = Field(default_factory=dict)
    folder_documents: int | None = None
    twin: SwappedCopy | None = None


class Shard(JsonValues):
    """Which part of a run a folder holds: part `number` of `of`; all parts together ask `asked`
    questions. A merged run has `asked` alone.
    """

    number: int | None = None
    of: int | None = None
    asked: int = 0


class FirstPrompt(JsonValues):
    """The first prompt that a role was sent, and its token ids where they are known."""

    text: str | None = None
    ids: list[int] | None = None


class Amount(JsonValues):
    """A number that the method took from another run, or that its paper prints.

    Attributes:
        value: The number.
        note: What tables say of it.
        mean: What it was rounded from.
        unit: The unit of the mean.
        source: The method of the run that gave it.
        run: Its folder; None where the paper prints the number.
        dataset: That run's data set.
        model: That run's model.
        questions: How many it answered.
        failed: How many were left out.
    """

    value: float | int | None = None
    note: str = ""
    mean: float | None = None
    unit: str | None = None
    source: str | None = None
    run: str | None = None
    dataset: str | None = None
    model: str | None = None
    questions: int | None = None
    failed: int | None = None


class HashedValues(JsonValues):
    """What the hash in the run's name covers and no other key holds.

    Attributes:
        task: What prompts say of the task, without defaults.
        index_version: The version of the method's code that builds indexes.
        unset: Parameters that run.yaml leaves out.
    """

    task: dict[str, object]
    index_version: Any
    unset: dict[str, object]


class SearchedCorpus(JsonValues):
    """What was searched.

    Attributes:
        searched: Its name in tables.
        hashed: What the run's hash covers.
    """

    searched: str | None = None
    hashed: dict[str, object] | None = None


class JudgeEntry(JsonValues):
    """A judge of the run's answers (docs/run-folder.md#judges).

    Attributes:
        version: Names prompt, reply length and model; only equal ones give comparable scores.
        kind: What `harness judge --kind` named.
        prompt: Its text, or where published ones are from.
        prompt_version: Its number, or a name and a hash.
        max_tokens: The most tokens of a reply.
        model: Name and identity.
        other_run: For a pairwise judge, the folder's name of the other run.
        server: Its address.
        verdicts: Verdict -> number of answers.
        calibration_error: Of the answers' confidence, from 0 to 1.
        usage: What the replies cost.
        earlier: What requests without a judgement sent.
        price: The price of a million tokens.
        finished: When it ended.
    """

    version: str | None = None
    kind: str = "correctness"
    prompt: str | None = None
    prompt_version: str | int | None = None
    max_tokens: int | None = None
    model: ModelIdentity | None = None
    other_run: str | None = None
    server: str | None = None
    verdicts: Annotated[dict[str, int], NULL_IS_EMPTY] = Field(default_factory=dict)
    calibration_error: float | None = None
    usage: Annotated[PhaseUsage, NOT_CHECKED] = Field(default_factory=lambda: PhaseUsage())
    earlier: Annotated[SentUsage, NOT_CHECKED] = Field(default_factory=lambda: SentUsage())
    price: StoredPrice | None = None
    finished: str | None = None

    @property
    def prices(self) -> Prices:
        """What a token of the judge's model costs; nothing is known where the run names no
        price.
        """
        if self.price is None:
            return Prices()
        return Prices(self.price.billed(in_batches=False))


class Correction(JsonValues):
    """A correction of gold answers.

    Attributes:
        at: When it was made.
        file: Name of the file with the rows.
        questions: How many got other gold answers.
        before: Fingerprint of the rows before.
        scores: The means before.
    """

    at: str
    file: str
    questions: int
    before: str | None = None
    scores: Annotated[dict[str, float | None], NULL_IS_EMPTY] = Field(default_factory=dict)


class ImportedFile(JsonValues):
    """A log of another tool."""

    name: str
    sha256: str


class Import(JsonValues):
    """Where an imported run is from. told: the means that the tool printed."""

    tool: str
    files: list[ImportedFile]
    at: str | None = None
    told: Annotated[Any, NOT_CHECKED] = None
    left_out: list[str] = Field(default_factory=list)


class Start(JsonValues):
    """One start of the run.

    Attributes:
        command: What was typed.
        started: When.
        finished: When it ended; None while it runs, or where it was killed.
        state: "running" until it ends, then as in summary.json.
        parallel: Questions in flight at most.
        changed: Keys of the manifest that differed by then, with their new values.
        shard: "3/16", of a merged run.
        stopped_early: Why a sequential test stopped it.
        served: What each server of a fleet did, a sentence each.
    """

    command: Annotated[list[str], NULL_IS_NO_ITEM] = Field(default_factory=list)
    started: str | None = None
    finished: str | None = None
    state: str | None = None
    parallel: int | None = None
    changed: RunManifest | None = None
    shard: str | None = None
    stopped_early: EarlyStop | None = None
    served: list[str] = Field(default_factory=list)

    def with_changes(self, changed: RunManifest) -> Start:
        """A copy of this start that notes further changed keys of the manifest.

        Args:
            changed: A manifest with these keys alone and their values at this start; they replace
                the values noted before.
        """
        return self.with_values(changed=_merged_manifests(self.changed, changed))

    def with_earlier_changes(self, changed: RunManifest) -> Start:
        """A copy of this start that notes further changed keys of the manifest.

        Args:
            changed: A manifest with these keys alone; a value that was noted before stays.
        """
        return self.with_values(changed=_merged_manifests(changed, self.changed))

    @property
    def changed_keys(self) -> set[str]:
        """The keys of the manifest whose values at this start differed from the run's first."""
        if self.changed is None:
            return set()
        return self.changed.model_fields_set


def _merged_manifests(first: RunManifest | None, second: RunManifest | None) -> RunManifest:
    """Merge two manifests that hold only some keys; None is one without
    any. The second's value counts.
    """
    values: dict[str, object] = {}
    for manifest in (first, second):
        if manifest is not None:
            values |= manifest.to_json()
    return RunManifest.from_json(values)


class RunManifest(JsonValues):
    """All that a run was made with: manifest.json. A key that the file
    lacks has an empty value here.
    """

    id: str | None = None
    command: Annotated[list[str], NULL_IS_NO_ITEM] = Field(default_factory=list)
    started: str | None = None
    finished: str | None = None
    starts: Annotated[list[Start], NULL_IS_NO_ITEM] = Field(default_factory=list)
    method: str | None = None
    hash: str | None = None
    seed: int | None = None
    floor: bool = False
    models: Annotated[dict[str, ModelIdentity], NULL_IS_EMPTY] = Field(default_factory=dict)
    servers: Annotated[dict[str, str], NULL_IS_EMPTY] = Field(default_factory=dict)
    shapes: Annotated[dict[str, dict[str, int | bool] | None], NULL_IS_EMPTY] = Field(
        default_factory=dict
    )
    prompts: Annotated[dict[str, str], NULL_IS_EMPTY] = Field(default_factory=dict)
    dataset: Annotated[DatasetRows, NULL_IS_EMPTY] = Field(default_factory=DatasetRows)
    amounts: Annotated[dict[str, Amount], NULL_IS_EMPTY] = Field(default_factory=dict)
    scorers: Annotated[dict[str, str | None], NULL_IS_EMPTY] = Field(default_factory=dict)
    code: Annotated[dict[str, str], NULL_IS_EMPTY] = Field(default_factory=dict)
    corpus: SearchedCorpus | None = None
    git: GitState | None = None
    packages: Annotated[dict[str, str | None], NULL_IS_EMPTY] = Field(default_factory=dict)
    python: str | None = None
    platform: str | None = None
    cpus: int | None = None
    memory_gib: float | None = None
    gpu: str | None = None
    warnings: Annotated[list[str], NULL_IS_NO_ITEM] = Field(default_factory=list)
    hashed: HashedValues | None = None
    first_prompts: Annotated[dict[str, FirstPrompt], NULL_IS_EMPTY] = Field(default_factory=dict)
    judges: Annotated[dict[str, JudgeEntry], NULL_IS_EMPTY] = Field(default_factory=dict)
    corrected: Annotated[list[Correction], NULL_IS_NO_ITEM] = Field(default_factory=list)
    imported: Import | None = None
    shard: Shard | None = None

    @property
    def lacks_hashed_values(self) -> bool:
        """Whether it does not hold what its hash was made of, as that of an import or an older
        version."""
        return self.hashed is None

    @property
    def last_start(self) -> Start:
        """The last start of the run; a Start without values where the manifest lists none."""
        if not self.starts:
            return Start()
        return self.starts[-1]

    @property
    def run_and_starts(self) -> list[Start]:
        """The whole run written as one start (from its first start to
        its last end), then each start.
        """
        whole_run = Start(command=self.command, started=self.started, finished=self.finished)
        return [whole_run, *self.starts]

    @property
    def max_in_flight(self) -> int:
        """The most questions that any start had in flight at once; at least 1."""
        return max([1, *(start.parallel or 1 for start in self.starts)])

    @property
    def changed_keys(self) -> set[str]:
        """The keys of the manifest whose values changed at any later start of the run."""
        keys: set[str] = set()
        for start in self.starts:
            keys |= start.changed_keys
        return keys

    def identity(self, role: str) -> ModelIdentity:
        """What distinguishes the model of a role: hashes of its files,
        dtype, window and more, by name.

        {} where the manifest does not have it.
        """
        return self.models.get(role) or {}

    def shape(self, role: str) -> ModelShape | None:
        """The sizes of the model of a role, for FLOPs; None where the manifest does not have
        them.
        """
        sizes = self.shapes.get(role)
        if sizes is None:
            return None
        return ModelShape(**sizes)  # type: ignore[arg-type]

    def first_prompt(self, role: str) -> FirstPrompt:
        """The first prompt that a role was sent; one without values where the manifest has none."""
        return self.first_prompts.get(role) or FirstPrompt()

    def with_last_start(self, start: Start) -> RunManifest:
        """A copy of the manifest with `start` in place of its last start."""
        return self.with_values(starts=[*self.starts[:-1], start])


Start.model_rebuild()
