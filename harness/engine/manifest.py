"""The manifest: all that a run was made with, so that two runs can be distinguished years later.

    {"id", "command", "started", "finished", "starts": [{"command", "started", "finished", "state",
    "changed"?}, ...],
     "method", "hash", "seed", "models": {role: identity}, "servers"?: {role: url},
     "shapes": {role: sizes}, "prompts", "dataset": {"fingerprint", "source", ...},
     "amounts"?: {field: {"value", "note", ...}}, "scorers": {name: version},
     "corpus"?: {"kind", "corpus", "sha256", "passages", "documents", "encoder", "searched", "hashed"},
     "git": {"commit", "dirty"} | null, "packages", "python", "platform", "cpus", "memory_gib",
     "gpu", "warnings", "first_prompts": {role: {"text", "ids"}}}

A run that is continued keeps its first description, and its id, which is drawn at random; each
later start says what had changed by then. The user's home folder is written ~, in the command too,
and what is secret in an address of the command is written ***; prompts are kept as they were sent.
"""

import os
import platform
import secrets
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from types import SimpleNamespace

from harness import scorers
from harness.config.schema import EncoderConfig
from harness.cost.flops import ModelShape
from harness.cost.shapes import shape_of
from harness.embed.encoder_info import encoder_folder
from harness.engine.plan import PlannedRun
from harness.engine.plan_models import server_shapes
from harness.engine.run_hash import recorded_inputs
from harness.errors import UserError
from harness.llm.model_info import local_folder
from harness.method.abilities import numbers_from_runs
from harness.storage.files import read_object
from harness.storage.manifest_file import (
    Amount,
    DatasetRows,
    FirstPrompt,
    GitState,
    HashedValues,
    RunManifest,
    SearchedCorpus,
    Start,
    SwappedCopy,
)
from harness.storage.package_versions import installed_versions
from harness.storage.paths import (
    command_without_home,
    sentence_without_home,
    with_secrets_masked,
    without_home,
)
from harness.storage.run_files import used_settings
from harness.storage.stored_config import StoredConfig
from harness.storage.summary_file import FINISHED
from harness.types import VERSION

# Packages whose version can change a prediction, a score or a count.
_PACKAGES = """
accelerate datasets evaluate fvcore jieba llmlingua mlflow nltk numpy pandas peft pydantic rank-bm25 rouge rouge-score
safetensors scikit-learn scipy sentence-transformers spacy stanza tokenizers torch transformers umap-learn
"""
# Keys that `changes` does not compare: they identify the run, are known only later, or belong to
# one start.
_FIXED = {
    "id",
    "method",
    "hash",
    "hashed",
    "dataset",
    "amounts",
    "first_prompts",
    "command",
    "floor",
    "started",
    "finished",
    "starts",
    "shard",
}


def utc_now() -> str:
    """The time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def git_state(root: Path) -> GitState | None:
    """The commit that the checkout with top folder `root` is at, and whether files differ from it.
    None where `root` is no top folder of a checkout; the commit is None before the first one."""

    def git(*words: str) -> str | None:  # what the command prints; None if it fails
        """What a git command prints; None if it fails."""
        try:
            done = subprocess.run(
                ["git", "-C", str(root), *words], capture_output=True, text=True, timeout=10
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        if done.returncode != 0:
            return None
        return done.stdout.strip()

    top = git("rev-parse", "--show-toplevel")
    if not top or Path(top).resolve() != root.resolve():
        return None
    status = git("status", "--porcelain")
    dirty = None
    if status is not None:
        dirty = status != ""
    return GitState(commit=git("rev-parse", "--verify", "HEAD"), dirty=dirty)


@dataclass(frozen=True)
class MadeBy:
    """What makes a run in this process: the checkout of this project (None outside of one), and
    package -> version."""

    git: GitState | None
    packages: dict[str, str]


@cache
def made_by() -> MadeBy:
    """The checkout of this project and the packages of this process.

    Read once: at the first run it is nearest to the code imported, and parsing metadata takes a
    tenth of a second.
    """
    packages = {"longdoc-harness": VERSION, **installed_versions(_PACKAGES.split())}
    return MadeBy(git_state(Path(__file__).resolve().parents[2]), packages)


def describe(plan: PlannedRun) -> RunManifest:
    """What a plan's manifest says before the run starts; times, command and first prompts are not
    known yet. Home folders are written ~, but not in prompts, which stay as they are sent."""
    made = made_by()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    served = server_shapes(plan.models)
    described = RunManifest(
        method=plan.config.method.name,
        hash=plan.hash8,
        seed=plan.config.seed,
        models=plan.identities,
        # They change no answer and are in no hash, but FLOPs are counted by them: a later start
        # records their change.
        shapes=_shapes(plan, served),
        dataset=_dataset(plan),
        scorers={name: scorers.version(name) for name in plan.config.dataset.scorers},
        git=made.git,
        packages=dict(made.packages),
        python=platform.python_version(),
        platform=platform.platform(),
        cpus=os.cpu_count(),
        memory_gib=round(memory / 2**30, 1),
        gpu=describe_gpu(),
        warnings=[sentence_without_home(warning) for warning in plan.warnings],
    )
    described = _with_what_some_runs_have(described, plan, served)
    described = RunManifest.from_json(without_home(described.to_json()))
    # Prompts as they were sent.
    described = described.with_values(prompts=dict(plan.method.prompts()))
    return with_hashed(described, plan)


def _with_what_some_runs_have(
    described: RunManifest, plan: PlannedRun, served: Mapping[str, ModelShape | None]
) -> RunManifest:
    """Add the keys that only some runs have: floors, servers, numbers of other runs, own code,
    corpora.

    Args:
        described: The manifest without them.
        plan: The planned run.
        served: Role -> sizes of its model, for models behind servers.
    """
    if plan.method.traits.floor:
        described = described.with_values(floor=True)
    if served:
        servers = {role: str(plan.models[role].base_url) for role in served}
        described = described.with_values(servers=servers)
    amounts = _amounts(plan)
    if amounts:
        described = described.with_values(amounts=amounts)
    if plan.code:
        described = described.with_values(code=dict(plan.code))
    if plan.corpus is not None:
        corpus = SearchedCorpus.from_json(plan.corpus.as_json())
        described = described.with_values(corpus=corpus)
    return described


def _amounts(plan: PlannedRun) -> dict[str, Amount]:
    """Parameter -> its number and where it comes from, for those that the paper prints for this
    data set, and those that another run gave."""
    amounts: dict[str, Amount] = {}
    for name in numbers_from_runs(plan.method):
        origin = plan.origins.get(f"method.params.{name}", "")
        if origin.startswith("configs/") and origin.endswith(", by_dataset"):
            value = getattr(plan.method.config, name)
            note = f"{name} = {value}, printed in the paper ({origin})"
            amounts[name] = Amount(value=value, note=note)
    for name, number in plan.numbers.items():
        amounts[name] = number.amount
    return amounts


def _shapes(
    plan: PlannedRun, served: Mapping[str, ModelShape | None]
) -> dict[str, dict[str, int | bool] | None]:
    """Role -> the sizes of its model, {"layers": 16, ...}; None where they are unknown.

    Args:
        plan: The run.
        served: Role -> sizes, for the models behind servers.
    """
    shapes: dict[str, dict[str, int | bool] | None] = {}
    for role in plan.identities:
        shape = served[role] if role in served else shape_of_role(plan, role)
        shapes[role] = None
        if shape is not None:
            shapes[role] = asdict(shape)
    return shapes


def _dataset(plan: PlannedRun) -> DatasetRows:
    """What a manifest says of the data set: fingerprint and source of its rows, number of
    questions, rows left out by reason; for an entity-swapped copy also how it was made."""
    dataset = plan.dataset
    rows = DatasetRows(
        name=dataset.name,
        fingerprint=dataset.fingerprint,
        source=dataset.source,
        revision=dataset.revision,
        questions=len(dataset.examples),
        skipped=dict(dataset.skipped),
    )
    if dataset.folder_documents:
        rows = rows.with_values(folder_documents=dataset.folder_documents)
    if dataset.copied is not None:
        rows = rows.with_values(twin=SwappedCopy.from_json(dataset.copied))
    return rows


def with_hashed(described: RunManifest, plan: PlannedRun) -> RunManifest:
    """The described run with what its hash covers and no other key holds (`hashed`), so that anyone
    can compute the hash again from the files. Checks that by computing it.

    Without `hashed` where the hash covers a path of the user's home folder, which the files hold as
    ~.
    """
    config, _ = used_settings(plan.config.model_dump(mode="json"), plan.origins)
    stored = StoredConfig.from_json(without_home(config))
    listed = stored.method.params
    params = plan.config.method.params
    hashed = HashedValues(
        task=plan.task.model_dump(mode="json", exclude_defaults=True),
        index_version=plan.method.index_version,
        unset={name: params[name] for name in params if name not in listed},
    )
    complete = described.with_values(hashed=hashed)
    inputs = recorded_inputs(stored, complete)
    if inputs is None or inputs.hash8() != plan.hash8:
        return described
    return complete


def shape_of_role(plan: PlannedRun, role: str) -> ModelShape | None:
    """The sizes of a role's model or encoder, read from its small files; for one that is not here,
    those of its setting `shape`. None where they are unknown."""
    config = plan.encoders.get(role) or plan.models.get(role)
    if config is None:
        return None
    if "weights" not in plan.identities.get(role, {}):  # behind a server, or not on this machine
        if config.shape is None:
            return None
        return ModelShape(**config.shape.model_dump())

    try:
        if isinstance(config, EncoderConfig):
            folder = encoder_folder(config)
        else:
            folder, _ = local_folder(config)
        return shape_of(SimpleNamespace(**read_object(folder / "config.json")))
    except (UserError, OSError, ValueError, AttributeError):
        return None


def with_start(before: RunManifest, described: RunManifest, command: list[str]) -> RunManifest:
    """The manifest with one more start, which is "running". For a folder without a manifest: a new
    one, with an id drawn at random.

    Args:
        before: The manifest of the folder; without values where it has none.
        described: The manifest of this plan and machine (`describe`).
        command: The words that were typed.
    """
    start = Start(
        command=list(map(with_secrets_masked, command_without_home(command))),
        started=utc_now(),
        finished=None,
        state="running",
        parallel=1,  # until it is known how many questions are in flight
    )
    # The first start, or what a killed merge of an earlier version left.
    if not before.has("starts"):
        return described.with_values(
            id=secrets.token_hex(8),
            command=start.command,
            started=start.started,
            finished=None,
            starts=[start],
        )
    changed = changes(before, described)
    if changed.has_values:
        start = start.with_values(changed=changed)
    if described.dataset.questions >= before.dataset.questions:
        before = before.with_values(dataset=described.dataset)  # that of the largest limit
    return before.with_values(finished=None, starts=[*before.starts, start])


def changes(before: RunManifest, other: RunManifest) -> RunManifest:
    """What a later start or process has otherwise than the first description: its keys of the
    manifest that differ, with their new values. {} in JSON where nothing differs.

    Args:
        before: The manifest as it was first described.
        other: That of the later start or process.
    """
    left_out = set(_FIXED)
    if not before.has("shapes"):  # older runs have the sizes of servers alone
        left_out.add("shapes")
    earlier = before.to_json()
    compared = {key: value for key, value in other.to_json().items() if key not in left_out}
    changed = {key: value for key, value in compared.items() if earlier.get(key) != value}
    return RunManifest.from_json(changed)


def with_first_prompts(manifest: RunManifest, prompts: Mapping[str, FirstPrompt]) -> RunManifest:
    """The manifest with the first prompts of roles that it has none of, and with the name of the
    GPU where it has none; the same object if no prompt is new.

    Args:
        manifest: The manifest.
        prompts: Role -> the first prompt that its model was sent.
    """
    before = manifest.first_prompts
    new = {role: prompt for role, prompt in prompts.items() if role not in before}
    if not new:
        return manifest
    gpu = manifest.gpu
    if gpu is None:
        gpu = describe_gpu()
    return manifest.with_values(first_prompts={**before, **new}, gpu=gpu)


def with_end(manifest: RunManifest, state: str) -> RunManifest:
    """The manifest with its last start ended now.

    Args:
        manifest: The manifest.
        state: How it ended: "finished", "interrupted" or "stopped"; only the first sets the run's
            own time of finishing.
    """
    now = utc_now()
    last = manifest.last_start.with_values(finished=now, state=state)
    finished = None
    if state == FINISHED:
        finished = now
    return manifest.with_last_start(last).with_values(finished=finished)


def describe_gpu() -> str | None:
    """The name of the GPU; None where there is none, or torch is not loaded."""
    # Not imported for this: a run that loads no model has no use for it.
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return None
    return str(torch.cuda.get_device_name())
