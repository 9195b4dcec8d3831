"""The hash at the end of a run folder's name: over all that changes a prediction.

    plan ──► HashInputs ──► hash8 ──► the folder's name
    run.yaml and manifest.json ──► recorded_inputs ──► HashInputs ──► the same hash8, or they were edited

No limit, path, scorer or device is part of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.config.schema import json_sha256
from harness.storage.manifest_file import RunManifest
from harness.storage.stored_config import StoredConfig, StoredModel


@dataclass(frozen=True)
class HashInputs:
    """All that changes a prediction, as JSON values.

    Attributes:
        implementation: The method's class: "methods.pecan:Pecan".
        view: What the method sees of the documents.
        params: The method's parameters.
        prompts: The method's prompts, by name.
        index_version: The version of the method's code that builds indexes.
        task: What prompts say of the task, without defaults.
        dataset: The data set's name.
        fingerprint: The hash of its rows.
        identities: Role -> what identifies its model or encoder.
        seed: The run's seed.
        sampling: How replies are drawn, where not by the defaults.
        code: Hashes of the user's own code.
        batch: Whether requests go in batches: no other answers, but another cost and time.
        corpus: What is searched, and how much of it is read.
    """

    implementation: str
    view: str
    params: Mapping[str, object]
    prompts: Mapping[str, str]
    index_version: str
    task: Mapping[str, object]
    dataset: str | None
    fingerprint: str | None
    identities: Mapping[str, object]
    seed: int
    sampling: Mapping[str, object] = field(default_factory=dict)
    code: Mapping[str, str] = field(default_factory=dict)
    batch: bool = False
    corpus: Mapping[str, object] | None = None

    def hash8(self) -> str:
        """The hash: the first eight hexadecimal digits of the digest of all inputs as JSON. Inputs
        that most runs lack (code, sampling, batch, corpus) are left out where they are empty; of
        the prompts their texts count, not the parameter that replaces some of them."""
        method: dict[str, object] = {
            "implementation": self.implementation,
            "view": self.view,
            "params": {name: value for name, value in self.params.items() if name != "prompts"},
            "prompts": self.prompts,
            "index_version": self.index_version,
        }
        if self.code:
            method["code"] = self.code
        inputs: dict[str, object] = {
            "method": method,
            "task": self.task,
            "dataset": {"name": self.dataset, "fingerprint": self.fingerprint},
            "identities": dict(sorted(self.identities.items())),
            "seed": self.seed,
        }
        if self.sampling:
            inputs["sampling"] = self.sampling
        if self.batch:
            inputs["batch"] = True
        if self.corpus is not None:
            inputs["corpus"] = self.corpus
        return json_sha256(inputs)[:8]


def recorded_inputs(config: StoredConfig, manifest: RunManifest) -> HashInputs | None:
    """The inputs of a stored run's hash.

    Args:
        config: Its settings.
        manifest: Its manifest.json.

    Returns:
        The inputs; None for an older run, or one whose hash covers a path of its user's home
        folder, which no file of the run holds.
    """
    hashed = manifest.hashed  # its "unset": parameters that run.yaml leaves out
    if hashed is None:
        return None
    fingerprint = manifest.dataset.fingerprint
    if manifest.corrected:  # gold answers were corrected: that of the rows of the first run
        fingerprint = manifest.corrected[0].before
    corpus = None
    if manifest.corpus is not None:
        corpus = manifest.corpus.hashed
    return HashInputs(
        implementation=str(config.method.implementation),
        view=config.method.view,
        params={**hashed.unset, **config.method.params},
        prompts=manifest.prompts,
        index_version=hashed.index_version,
        task=hashed.task,
        dataset=manifest.dataset.name,
        fingerprint=fingerprint,
        identities=manifest.models,
        seed=config.seed,
        sampling=_sampling_that_is_set(config.model),
        code=manifest.code,
        batch=config.model.batch,
        corpus=corpus,
    )


def _sampling_that_is_set(model: StoredModel) -> dict[str, float | int | None]:
    """How replies are drawn, where a setting is not its default: {"temperature": 0.7}; {} for
    greedy."""
    defaults = StoredModel(name=model.name).sampling
    return {name: value for name, value in model.sampling.items() if value != defaults[name]}
