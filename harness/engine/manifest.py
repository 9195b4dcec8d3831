"""The manifest: all that a run was made with, so that two runs can be distinguished years later.

    {"id", "command", "started", "finished", "starts": [{"command", "started", "finished", "state",
    "changed"?}, ...],
     "method", "hash", "seed", "models": {role: identity}, "servers"?: {role: url},
     "shapes": {role: sizes}, "prompts", "dataset": {"fingerprint", "source", ...},
     "amounts"?: {field: {"value", "note", ...}}, "scorers": {name: version},
     "corpus"?: {"kind", "corpus", "sha256", "passages", "documents", "encoder", "searched",
     "hashed"}, "git": {"commit", "dirty"} | null, "packages", "python", "platform", "cpus",
     "memory_gib", "gpu", "warnings", "first_prompts": {role: {"text", "ids"}}}

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
from harness.llm.model_info import find_or_download
from harness.method.abilities import settings_that_runs_can_give
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
    with_address_secrets_masked,
    without_home,
)
from harness.storage.run_files import used_settings
from harness.storage.stored_config import StoredConfig
from harness.storage.summary_file import FINISHED
from harness.types import VERSION

# Packages whose version can change a prediction, a score or a count.
_RECORDED_PACKAGES = """
accelerate datasets evaluate fvcore jieba llmlingua mlflow nltk numpy pandas peft pydantic rank-bm25 rouge rouge-score
safetensors scikit-learn scipy sentence-transformers spacy stanza tokenizers torch transformers umap-learn
"""
# Keys that `changed_keys` does not compare: they identify the run, are known only later, or belong
# to one start.
_NOT_COMPARED = {
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
    """The commit that the checkout with top folder `root` is at, and whether files differ from it
    (`dirty`). None where `root` is no top folder of a checkout; the commit is None before the first
    one, `dirty` where git cannot say it."""

    def git(*words: str) -> str | None:
        """What a git command prints in the folder `root`; None if it fails or takes too long."""
        try:
            finished = subprocess.run(
                ["git", "-C", str(root), *words], capture_output=True, text=True, timeout=10
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        if finished.returncode != 0:
            return None
        return finished.stdout.strip()

    top = git("rev-parse", "--show-toplevel")
    if not top or Path(top).resolve() != root.resolve():
        return None
    status = git("status", "--porcelain")
    dirty = None
    if status is not None:
        dirty = status != ""
    return GitState(commit=git("rev-parse", "--verify", "HEAD"), dirty=dirty)


@dataclass(frozen=True)
class ProgramVersions:
    """What makes a run in this process: the checkout of this project (None outside of one), and
    package -> version."""

    git: GitState | None
    packages: dict[str, str]


@cache
def program_versions() -> ProgramVersions:
    """The checkout of this project and the packages of this process.

    Read once: at the first run it is nearest to the code imported, and parsing metadata takes a
    tenth of a second.
    """
    packages = {"longdoc-harness": VERSION, **installed_versions(_RECORDED_PACKAGES.split())}
    return ProgramVersions(git_state(Path(__file__).resolve().parents[2]), packages)


def describe(plan: PlannedRun) -> RunManifest:
    """What a plan's manifest says before the run starts: of the run, its models, its data set and
    this machine. Times, command and first prompts are not known yet. Home folders are written ~, but
    not in prompts, which stay as they are sent."""
    program = program_versions()
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    server_shapes_by_role = server_shapes(plan.models)
    manifest = RunManifest(
        method=plan.config.method.name,
        hash=plan.hash8,
        seed=plan.config.seed,
        models=plan.identities,
        # Sizes of models change no answer and are in no hash, but FLOPs are counted by them: a
        # later start records their change.
        shapes=_shapes_by_role(plan, server_shapes_by_role),
        dataset=_dataset_rows(plan),
        scorers={name: scorers.version(name) for name in plan.config.dataset.scorers},
        git=program.git,
        packages=dict(program.packages),
        python=platform.python_version(),
        platform=platform.platform(),
        cpus=os.cpu_count(),
        memory_gib=round(memory_bytes / 2**30, 1),
        gpu=describe_gpu(),
        warnings=[sentence_without_home(warning) for warning in plan.warnings],
    )
    manifest = _with_optional_keys(manifest, plan, server_shapes_by_role)
    manifest = RunManifest.from_json(without_home(manifest.to_json()))
    manifest = manifest.with_values(prompts=dict(plan.method.prompts()))
    return with_hashed(manifest, plan)


def _with_optional_keys(
    manifest: RunManifest, plan: PlannedRun, server_shapes_by_role: Mapping[str, ModelShape | None]
) -> RunManifest:
    """A copy of a manifest with the keys that only some runs have: `floor` (of a method that is
    only there to be beaten), `servers`, `amounts` (numbers of the paper or of other runs), `code`
    (the user's own), `corpus`.

    Args:
        manifest: The manifest without them.
        plan: The planned run.
        server_shapes_by_role: Role -> sizes of its model, for models behind servers.
    """
    if plan.method.traits.floor:
        manifest = manifest.with_values(floor=True)
    if server_shapes_by_role:
        servers = {role: str(plan.models[role].base_url) for role in server_shapes_by_role}
        manifest = manifest.with_values(servers=servers)
    amounts = _amounts(plan)
    if amounts:
        manifest = manifest.with_values(amounts=amounts)
    if plan.code:
        manifest = manifest.with_values(code=dict(plan.code))
    if plan.corpus is not None:
        corpus = SearchedCorpus.from_json(plan.corpus.as_json())
        manifest = manifest.with_values(corpus=corpus)
    return manifest


def _amounts(plan: PlannedRun) -> dict[str, Amount]:
    """Parameter -> its number and where it comes from, for those that the paper prints for this
    data set, and those that another run gave. Only parameters that a run may give are looked at.

    {"max_nodes": Amount(value=12, note="max_nodes = 12, printed in the paper (...)")}
    """
    amounts: dict[str, Amount] = {}
    for name in settings_that_runs_can_give(plan.method):
        origin = plan.origins.get(f"method.params.{name}", "")
        if _is_table_of_shipped_preset(origin):
            value = getattr(plan.method.config, name)
            note = f"{name} = {value}, printed in the paper ({origin})"
            amounts[name] = Amount(value=value, note=note)
    for name, number in plan.numbers_from_runs.items():
        amounts[name] = number.amount
    return amounts


def _is_table_of_shipped_preset(origin: str) -> bool:
    """Whether a setting's origin is a shipped preset's table of numbers by data set, which a paper
    prints: "configs/methods/pecan-printed.yaml, by_dataset"."""
    return origin.startswith("configs/") and origin.endswith(", by_dataset")


def _shapes_by_role(
    plan: PlannedRun, server_shapes_by_role: Mapping[str, ModelShape | None]
) -> dict[str, dict[str, int | bool] | None]:
    """Role -> the sizes of its model, {"layers": 16, ...}; None where they are unknown.

    Args:
        plan: The run.
        server_shapes_by_role: Role -> sizes, for the models behind servers.
    """
    shapes: dict[str, dict[str, int | bool] | None] = {}
    for role in plan.identities:
        shape = server_shapes_by_role.get(role)
        if role not in server_shapes_by_role:
            shape = shape_of_role(plan, role)
        shapes[role] = None
        if shape is not None:
            shapes[role] = asdict(shape)
    return shapes


def _dataset_rows(plan: PlannedRun) -> DatasetRows:
    """What a manifest says of the data set: fingerprint and source of its rows, number of
    questions, rows left out by reason; for a folder of documents also how many it has, for an
    entity-swapped copy how it was made."""
    dataset = plan.dataset
    rows = DatasetRows(
        name=dataset.name,
        fingerprint=dataset.fingerprint,
        source=dataset.source,
        revision=dataset.revision,
        questions=len(dataset.examples),
        skipped=dict(dataset.skipped),
    )
    if dataset.n_folder_documents:
        rows = rows.with_values(folder_documents=dataset.n_folder_documents)
    if dataset.copy_facts is not None:
        rows = rows.with_values(twin=SwappedCopy.from_json(dataset.copy_facts))
    return rows


def with_hashed(manifest: RunManifest, plan: PlannedRun) -> RunManifest:
    """The manifest with what the run's hash covers and no other key holds (`hashed`), so that
    anyone can compute the hash again from run.yaml and manifest.json. Checks that by computing it.

    Where that gives another hash, the manifest as it is: the hash then covers a path of the user's
    home folder, which the files hold as ~.
    """
    # As run.yaml has the settings: without those that nothing set, the home folder as ~.
    settings, _ = used_settings(plan.config.model_dump(mode="json"), plan.origins)
    stored = StoredConfig.from_json(without_home(settings))
    stored_params = stored.method.params
    params = plan.config.method.params
    hashed = HashedValues(
        task=plan.task.model_dump(mode="json", exclude_defaults=True),
        index_version=plan.method.index_version,
        unset={name: params[name] for name in params if name not in stored_params},
    )
    complete = manifest.with_values(hashed=hashed)
    inputs = recorded_inputs(stored, complete)
    if inputs is None or inputs.hash8() != plan.hash8:
        return manifest
    return complete


def shape_of_role(plan: PlannedRun, role: str) -> ModelShape | None:
    """The sizes of a role's model or encoder, read from its small files; for one that is not here,
    those of its setting `shape`. None where they are unknown."""
    config = plan.encoders.get(role) or plan.models.get(role)
    if config is None:
        return None
    is_on_this_machine = "weights" in plan.identities.get(role, {})
    if not is_on_this_machine:  # behind a server, or not downloaded
        if config.shape is None:
            return None
        return ModelShape(**config.shape.model_dump())

    try:
        if isinstance(config, EncoderConfig):
            folder = encoder_folder(config)
        else:
            files = find_or_download(config)
            folder = files.folder
        values = read_object(folder / "config.json")
        return shape_of(SimpleNamespace(**values))  # as transformers' object has them
    except (UserError, OSError, ValueError, AttributeError):
        return None


def with_start(stored: RunManifest, described: RunManifest, command: list[str]) -> RunManifest:
    """The manifest with one more start, which is "running". For a folder without a manifest: a new
    one, with an id drawn at random. Otherwise the start notes what differs from the first one, and
    the data set is described anew where this start asks at least as many questions.

    Args:
        stored: The manifest of the folder; without values where it has none.
        described: The manifest of this plan and machine (`describe`).
        command: The words that were typed.
    """
    start = Start(
        command=list(map(with_address_secrets_masked, command_without_home(command))),
        started=utc_now(),
        finished=None,
        state="running",
        parallel=1,  # until it is known how many questions are in flight
    )
    # The first start, or what a killed merge of an earlier version left.
    if not stored.has("starts"):
        return described.with_values(
            id=secrets.token_hex(8),
            command=start.command,
            started=start.started,
            finished=None,
            starts=[start],
        )
    changed = changed_keys(stored, described)
    if changed.has_values:
        start = start.with_values(changed=changed)
    if described.dataset.questions >= stored.dataset.questions:
        stored = stored.with_values(dataset=described.dataset)
    return stored.with_values(finished=None, starts=[*stored.starts, start])


def changed_keys(first: RunManifest, other: RunManifest) -> RunManifest:
    """What a later start or process has otherwise than the first description: its keys of the
    manifest that differ, with their new values. {} in JSON where nothing differs.

    Args:
        first: The manifest as it was first described.
        other: That of the later start or process.
    """
    not_compared = set(_NOT_COMPARED)
    if not first.has("shapes"):  # older runs have the sizes of servers alone
        not_compared.add("shapes")
    first_values = first.to_json()
    compared = {key: value for key, value in other.to_json().items() if key not in not_compared}
    changed = {key: value for key, value in compared.items() if first_values.get(key) != value}
    return RunManifest.from_json(changed)


def with_first_prompts(manifest: RunManifest, prompts: Mapping[str, FirstPrompt]) -> RunManifest:
    """The manifest with the first prompts of roles that it has none of; the same object if no
    prompt is new. With a new prompt it also gets the name of the GPU where it has none: once a
    model was asked, torch is loaded, which knows it.

    Args:
        manifest: The manifest.
        prompts: Role -> the first prompt that its model was sent.
    """
    known_prompts = manifest.first_prompts
    new_prompts = {role: prompt for role, prompt in prompts.items() if role not in known_prompts}
    if not new_prompts:
        return manifest
    gpu = manifest.gpu
    if gpu is None:
        gpu = describe_gpu()
    return manifest.with_values(first_prompts={**known_prompts, **new_prompts}, gpu=gpu)


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
