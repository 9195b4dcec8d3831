"""Run folders with the settings of a paper's row, as `harness run --profile paper` writes them, and
changed ones."""

import copy

from harness.config import suites
from harness.config.layers import Choices
from harness.config.resolve import resolve
from harness.engine.completed_method import make_method
from harness.storage.manifest_file import RunManifest
from harness.storage.run_folder import read_run
from harness.storage.stored_config import StoredConfig
from reports.paper.preset import last_part
from reports.paper.published import published
from tests.reports.build import record, write_run

GONE = object()
"""The change that takes a key away."""
REFINED = {
    "dataset.top": 8,
    "dataset.documents": "documents.json",
    "dataset.max_answer_tokens": 500,
    "dataset.answer_prefix": "So the final answer is:",
    "dataset.demonstration": suites.read_suite("longrefiner-table2")
    .parts[0]
    .sets["dataset.demonstration"],
    "roles.refiner": "qwen2.5-3b-instruct",
}
"""What LongRefiner's suite sets on NQ, as after --set."""


def settings(preset, dataset, sets=None):
    """run.yaml's config, the method and its prompts under profile paper; `sets` as after --set."""
    r = resolve(Choices(method=preset, dataset=dataset, profile="paper", sets=dict(sets or {})))
    method = make_method(r.method, r.origins)
    config = r.config.model_dump(mode="json")
    config["method"]["params"] = method.config.model_dump(mode="json")
    return config, method, method.prompts()


def contents(config, method):
    """What the manifest says of the run's models, encoders and rows where all are of the hub."""
    models = {role: config["roles"].get(role) or config["model"] for role in method.needs}
    encoders = {role: config[role] for role in method.encoders if config.get(role)}
    known = {role: identity(one) for role, one in models.items()} | {
        role: {"weights": "00"} for role in encoders
    }
    shapes = {role: one.get("shape") for role, one in {**models, **encoders}.items()}
    sent = {}
    for role, one in models.items():
        of_hub = published().models.get(last_part(str(one.get("source") or "")))
        if of_hub is not None:
            sent[role] = {"text": of_hub.opening, "ids": of_hub.ids}
    return {
        "models": known,
        "shapes": shapes,
        "dataset": {"revision": "0" * 40},
        "first_prompts": sent,
    }


def identity(model):
    """What the manifest says of a model of the hub, or of a folder."""
    source = str(model.get("source") or model.get("name"))
    weights = {"files": "00"} if source.startswith("/") else {"hub": source, "commit": "0" * 40}
    return {"weights": weights, "dtype": model.get("dtype"), "window": model.get("window")}


def changed(values, changes):
    """A copy with other values at dotted paths."""
    values = copy.deepcopy(values)
    for path, value in changes.items():
        *heads, last = path.split(".")
        inner = values
        for key in heads:
            inner = inner[key]
        inner.pop(last) if value is GONE else inner.update({last: value})
    return values


def changed_config(config, changes):
    """A copy of a run's settings with other values at dotted paths."""
    return StoredConfig.from_json(changed(config.to_json(), changes))


def changed_manifest(manifest, changes):
    """A copy of a run's manifest with other values at dotted paths."""
    return RunManifest.from_json(changed(manifest.to_json(), changes))


def paper_run(root, preset, dataset, rows, *, sets=None, config=None, manifest=None, **files):
    """A stored run; `config` and `manifest` are changes at dotted paths, made after the run's
    settings were resolved;
    files: documents and hash8 of build.write_run."""
    plain, method, prompts = settings(preset, dataset, sets)
    whole = changed(plain, config or {})
    manifest = changed({"prompts": prompts, **contents(whole, method)}, manifest or {})
    name, called = whole["dataset"]["name"], whole["method"]["name"]
    written = write_run(
        root, rows, dataset=name, method=called, settings=whole, manifest=manifest, **files
    )
    return read_run(written)


def answers(n, score, value, **changes):
    """n answered questions, two on a document, whose scores lie 0.1 around `value`."""
    values = [value + (0.1 if i // 2 % 2 else -0.1) for i in range(n)]
    return [
        record(i, None, scores={score: one}, error=None, **changes) for i, one in enumerate(values)
    ]
