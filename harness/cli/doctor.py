"""`harness doctor`: what is installed, which models are here, and what a server can do."""

import importlib.metadata
import json as json_
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Annotated

from packaging.requirements import Requirement

from harness.cli.checks import Check, check_weights, is_installed, preset_values, print_checks
from harness.cli.command import choice, setting
from harness.cli.options import Json
from harness.cli.server_check import check_server
from harness.config import presets, registry
from harness.config.yaml_tree import parse_assignments
from harness.errors import UserError

_DISTRIBUTION = "longdoc-harness"
_PURPOSE_OF_EXTRA = {
    "mlflow": "runs in MLflow",
    "gguf": "models in GGUF files, smollm2-135m among them",
    "minilm": "the sentence encoder all-MiniLM-L6-v2 without a download",
    "evaluate": "BLEU, METEOR and ROUGE as the library evaluate computes them",
    "zh": "Chinese data sets of LongBench",
    "compression": "LLMLingua and LongLLMLingua",
    "eviction": "bounded caches: SnapKV, StreamingLLM, PyramidKV, KVzip",
    "flops": "FLOPs counted by a second library",
    "adapters": "LoRA adapters: reading them, and harness train",
    "raptor": "RAPTOR's clusters (UMAP)",
    "entities": "names found by spaCy and stanza (QRMeM)",
    "retrieval": "documents for open questions out of a corpus: BM25 (bm25s) and dense (faiss)",
    "ray": "runs over many processes or machines with Ray",
    "serving": "a model behind transformers' own server",
}
# What must be importable for any model, which being installed does not prove.
_NAME_TO_IMPORT = {"torch": "Tensor", "transformers": "AutoModelForCausalLM"}

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


def doctor(json: Json = False, server: Url = None, model: Served = None, sets: Sets = None) -> int:
    """Check what is installed and what can be run here, or with --server what a server can do.

    Each thing that is missing comes with the command that gets it. Loads no model and downloads
    nothing. The exit code is 4 if the default model cannot run, or the server gives no reply.
    """
    if server is None:
        if model or sets:
            raise UserError("--model and --set describe a server; name it: --server URL")
        checks = [*_check_imports(), *_check_packages(), *_check_models()]
    else:
        checks = list(check_server(server, model, parse_assignments(sets or [], "--set ")))
    is_broken = any(check.state == "problem" for check in checks)
    if json:
        lines = [asdict(check) for check in checks]
        print(json_.dumps(lines, indent=2, ensure_ascii=False))
    else:
        print_checks(checks)
        print(_verdict(is_broken, asks_server=server is not None))
    if is_broken:
        return 4
    return 0


def _verdict(is_broken: bool, asks_server: bool) -> str:
    """The last line that is printed: whether anything can run here, or on the server.

    Args:
        is_broken: Whether a check found a problem.
        asks_server: Whether a server was checked.
    """
    if asks_server and is_broken:
        return "No method can run; see 'problem' above."
    if asks_server:
        return "It serves the methods marked 'ok'."
    if is_broken:
        return "The default model cannot run here; see 'problem' above."
    return "The default models run here."


def _check_imports() -> Iterator[Check]:
    """Yield a problem for each of torch and transformers that is installed and cannot be
    imported.
    """
    for package, name in _NAME_TO_IMPORT.items():
        try:
            if is_installed(package):  # if not, the checks of extras and models say so
                getattr(importlib.import_module(package), name)
        except Exception as error:  # noqa: BLE001 - a library that is not whole raises anything
            lines_of_error = str(error).strip().splitlines() or [type(error).__name__]
            install_command = f"pip install --force-reinstall {package}"
            text = f"cannot be imported ({lines_of_error[-1]}): {install_command}"
            yield Check(part="Packages", state="problem", name=package, text=text)


def _check_packages() -> Iterator[Check]:
    """Yield a check for each extra of this project: whether its packages are installed."""
    for extra, purpose in _PURPOSE_OF_EXTRA.items():
        if all(map(is_installed, _packages_of_extra(extra))):
            yield Check(part="Packages", state="ok", name=extra, text=purpose)
        else:
            install_advice = f"{purpose}: pip install '{_DISTRIBUTION}[{extra}]'"
            yield Check(part="Packages", state="missing", name=extra, text=install_advice)


def _packages_of_extra(extra: str) -> list[str]:
    """The names of the packages that an extra of this project installs, nested extras included."""
    names = []
    for requirement in _requirements(_DISTRIBUTION, extra):
        names.append(requirement.name)
        if is_installed(requirement.name):
            for nested_extra in requirement.extras:
                names += [nested.name for nested in _requirements(requirement.name, nested_extra)]
    return names


def _requirements(package: str, extra: str) -> list[Requirement]:
    """The requirements of an installed package that this extra of it adds."""
    requirements = map(Requirement, importlib.metadata.requires(package) or ())
    return [
        requirement
        for requirement in requirements
        if requirement.marker and requirement.marker.evaluate({"extra": extra})
    ]


def _check_models() -> Iterator[Check]:
    """Yield a check of the weights of each model and encoder.

    A default model (the readers of configs/registry.yaml) without its weights is a problem.
    """
    default_models = set(registry.targets("readers").values())
    for name in presets.names("models"):
        check = check_weights("Models", name, preset_values("models", name), "model.source")
        if check.state != "ok" and name in default_models:
            check = replace(check, state="problem")
        yield check
    for name in presets.names("encoders"):
        yield check_weights("Encoders", name, preset_values("encoders", name), "encoder.source")
