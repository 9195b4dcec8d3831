"""`harness reproduce --list`: what each table and figure needs, and what of it is on this machine.

GPU memory is weights and cache of the row that takes most (reports/paper/needs.py).
"""

import importlib.util
import json as json_
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from harness.cli.doctor import Check, check_rows, check_weights, print_checks
from harness.cli.output import columns
from harness.config import suites
from harness.config.schema import EncoderConfig
from reports.paper.needs import Needs, needs
from reports.paper.tables_and_figures import find_table_or_figure, tables_and_figures

_GIB = 2**30
_BELOW = """
GPU memory: weights and cache of the row that takes most, without activations.
What a table lacks, with the commands that get it: harness reproduce NAME --list
Without the weights: harness reproduce NAME --model smollm2-135m; on the made-up world: harness reproduce pocket-NAME"""
_NOUNS = {"Data sets": "data set", "Files": "file", "Weights": "weight", "Packages": "package", "GPU": "GPU"}


def print_needs(name: str | None, json: bool) -> int:
    """Print what is needed: of one table or figure in detail, or of all, a line each."""
    every = [(item, item.name) for item in tables_and_figures() if item.name]
    chosen = every if name is None else [find_table_or_figure(name)]
    listed = [(item, suite, suite_checks(suites.read_suite(str(suite)))) for item, suite in chosen]
    if json:
        told = [
            {"name": suite, **item.model_dump(exclude={"name"}), "needs": [asdict(check) for check in own]}
            for item, suite, own in listed
        ]
        print(json_.dumps(told, indent=2, ensure_ascii=False))
    elif name is not None:
        ((item, suite, own),) = listed
        print(f"{item.label}: {item.title}  (suite {suite})\n")
        print_checks(own)
        for text in filter(None, (item.note, *(f"cannot be had: {one}" for one in item.lacks))):
            print(text)
    else:
        lines = [(str(suite), item.label, *_memory_and_lacks(own), item.title) for item, suite, own in listed]
        print(columns([("name", "table or figure", "GPU memory", "here", ""), *lines]))
        print(_BELOW)
    return 0


def suite_checks(suite: suites.Suite) -> list[Check]:
    """A check of each thing that the suite needs."""
    found = needs(suite)
    return [*_file_checks(found), _gpu_check(found)]


def _file_checks(found: Needs) -> Iterator[Check]:
    """Yield a check of each data set, file of documents, weights, adapter and package."""
    for name in found.datasets:
        yield check_rows(name)
    for name, place in found.documents.items():
        here = Path(place).expanduser().exists()
        how = f"harness retrieve --dataset {name} --corpus WIKIPEDIA --retriever e5 --top 8 --limit 1000"
        yield Check("Files", "ok" if here else "missing", place, "on disk" if here else how)
    for name, config in (*found.models.items(), *found.encoders.items()):
        key = getattr(config, "api_key_env", None)
        if key and key not in os.environ:
            yield Check("Weights", "missing", name, f"the key of its provider: export {key}=...")
        else:
            part = "encoder" if isinstance(config, EncoderConfig) else "model"
            yield check_weights("Weights", name, config.model_dump(), f"{part}.source")
    for source in found.classifiers:
        yield check_weights("Weights", source, {"source": source}, "method.classifier")
    for place in found.adapters:
        here = Path(place).expanduser().exists()
        out, _, _ = place.partition("/adapters/")
        base = Path(out).name
        how = f"harness train longrefiner --model {base} --out {out}"
        yield Check("Weights", "ok" if here else "missing", place, "on disk" if here else how)

    if found.entities:
        here = importlib.util.find_spec("stanza") is not None
        how = "pip install 'longdoc-harness[entities]', then python -c \"import stanza; stanza.download('en')\""
        yield Check("Packages", "ok" if here else "missing", "stanza", "names in texts (QRMeM)" if here else how)


def _gpu_check(found: Needs) -> Check:
    """Whether the GPUs of this machine hold what the row that takes most needs."""
    need = found.gpu / _GIB
    if need < 1:
        return Check("GPU", "ok", "memory", "not needed: the models are small, or behind a server")
    unknown = f"; without {', '.join(found.unknown)}, whose size is not known" if found.unknown else ""
    has = 0.0
    if importlib.util.find_spec("torch") is not None:
        import torch

        sizes = (torch.cuda.get_device_properties(n).total_memory for n in range(torch.cuda.device_count()))
        has = sum(sizes) / _GIB
    here = f"{has:.0f} GiB" if has else "no GPU"
    text = f"{need:.0f} GiB for weights and cache, beside activations{unknown}; here: {here}"
    return Check("GPU", "ok" if has >= need else "missing", "memory", text)


def _memory_and_lacks(checks: list[Check]) -> tuple[str, str]:
    """GPU memory, and "ready" where all checks are ok, else "lacks 4 data sets, 1 GPU"."""
    memory, has_size, _ = next(check.text for check in checks if check.part == "GPU").partition(" for ")
    count = Counter(_NOUNS[check.part] for check in checks if check.state != "ok")
    lacks = ", ".join(f"{n} {noun}{'s' * (n > 1)}" for noun, n in count.items())
    return memory if has_size else "–", f"lacks {lacks}" if lacks else "ready"
