"""Lists of attention heads that retrieve: one YAML file each, published ones in methods/heads.

    source: princeton-pli/QRHead, ...     where it is from
    found_on: LME                         the rows that it was found on
    model: {name: ..., hub: [owner/name], hidden_size: 4096, num_hidden_layers: 32,
    num_attention_heads: 32, ...}
    heads: ["13-18", "13-21"]             layer-head, from 0, best first

A list belongs to a model of these sizes and vocabulary; where it has `weights`, to these weights
alone, and where it has `hub`, to no model from the hub under another name.
Source: docs/methods/attention.md#head-lists.
"""

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from harness.errors import CannotRun
from harness.storage.yaml_text import parse_yaml

ALL, PUBLISHED = "all", "published"
_SETS = ("LME", "NQ")
_FOLDER = Path(__file__).parent / "heads"
_FILES = sorted(_FOLDER.glob("*.yaml"))
_HEAD = re.compile(r"(\d{1,5})-(\d{1,5})")
Heads = list[tuple[int, int]] | None
"""(layer, head) pairs; None: all heads."""


class Model(BaseModel):
    """The model that a list belongs to: sizes as in config.json, ids on the hub, what identifies
    the weights."""

    model_config = ConfigDict(extra="forbid")
    name: str
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    vocab_size: int | None = None
    hub: list[str] = []
    weights: Any = None


class HeadList(BaseModel):
    """A list as its file has it; scores: of the heads, in their order."""

    model_config = ConfigDict(extra="forbid")
    source: str
    found_on: str
    model: Model
    heads: list[str]
    scores: list[float] = []


def heads_for(name: str, sizes: Mapping[str, Any]) -> Heads:
    """The heads that `name` (all, published, LME, NQ or a file) means for a model of these `sizes`,
    {} if unknown.

    Raises CannotRun for a list that is missing, damaged or another model's.
    """
    if name == ALL:
        return None
    if name not in (PUBLISHED, *_SETS):
        return _heads_of_list(name, _read(Path(name).expanduser()), sizes)
    lists = [found for path in _FILES if not _why_other_model(found := _read(path), sizes)]
    fitting = [found for found in lists if name in (PUBLISHED, found.found_on)]
    if not sizes or not fitting:
        there = ", ".join(
            sorted({f"{found.model.name} ({found.found_on})" for found in map(_read, _FILES)})
        )
        raise CannotRun(
            f"there is no head list '{name}' for this model (there are: {there}); find one with: "
            "python -m bench.heads METHOD "
            "--model MODEL --dataset NAME --out FILE, then set method.heads=FILE"
        )
    fitting.sort(key=lambda found: found.found_on != _SETS[0])
    return _heads_of_list(name, fitting[0], sizes)


def file_digest(name: str) -> str | None:
    """The sha256 of the file that `name` is; None for a name of a list, or where no file can be
    read."""
    if name in (ALL, PUBLISHED, *_SETS):
        return None
    try:
        return hashlib.sha256(Path(name).expanduser().read_bytes()).hexdigest()
    except OSError:
        return None


def _read(path: Path) -> HeadList:
    """Read and check a head list. Raises CannotRun for one that is missing or damaged."""
    try:
        return HeadList.model_validate(parse_yaml(path.read_bytes()))
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise CannotRun(
            f"the head list '{path}' cannot be used ({why}); write one with: python -m bench.heads"
        ) from error


def _why_other_model(head_list: HeadList, sizes: Mapping[str, Any]) -> str:
    """A phrase that says in what the model of a list differs from `sizes`, "" where it does not."""
    for key, value in head_list.model.model_dump(exclude={"name", "hub"}).items():
        if key in sizes and value is not None and sizes[key] != value:
            return (
                "its weights are others"
                if key == "weights"
                else f"{key} is {value} there and {sizes[key]} here"
            )
    weights = sizes.get("weights")
    hub = weights.get("hub") if isinstance(weights, dict) else None
    return (
        f"this one is {hub}"
        if hub and head_list.model.hub and hub not in head_list.model.hub
        else ""
    )


def _heads_of_list(
    name: str, head_list: HeadList, sizes: Mapping[str, Any]
) -> list[tuple[int, int]]:
    """The (layer, head) pairs of the list `name`. Raises CannotRun for another model's list, or
    names of no heads."""
    if why := _why_other_model(head_list, sizes):
        raise CannotRun(
            f"the head list '{name}' belongs to another model, {head_list.model.name} ({why}); "
            "find one for this model "
            "with: python -m bench.heads METHOD --model MODEL --dataset NAME --out FILE"
        )
    matches = [_HEAD.fullmatch(head) for head in head_list.heads]
    pairs = [(int(m[1]), int(m[2])) for m in matches if m]
    inside = all(
        a < head_list.model.num_hidden_layers and b < head_list.model.num_attention_heads
        for a, b in pairs
    )
    if not pairs or len(set(pairs)) < len(matches) or not inside:
        raise CannotRun(
            f"the head list '{name}' must name different heads of its model as layer-head "
            '("13-18"), from 0'
        )
    return pairs
