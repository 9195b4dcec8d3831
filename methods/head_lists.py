"""Lists of attention heads that retrieve: one YAML file each, published ones in methods/heads.

    source: princeton-pli/QRHead, ...     where it is from
    found_on: LME                         the rows that it was found on
    model: {name: ..., hub: [owner/name], hidden_size: 4096, num_hidden_layers: 32, num_attention_heads: 32, ...}
    heads: ["13-18", "13-21"]             layer-head, from 0, best first

A list belongs to a model of these sizes and vocabulary; where it has `weights`, to these weights
alone, and where it has `hub`, to no model from the hub under another name.
Source: docs/methods/attention.md#head-lists.
"""

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from harness.errors import CannotRun
from harness.storage.yaml_text import parse_yaml

ALL, PUBLISHED = "all", "published"
_DATASETS_OF_LISTS = ("LME", "NQ")
_FOLDER = Path(__file__).parent / "heads"
_PUBLISHED_FILES = sorted(_FOLDER.glob("*.yaml"))
_LAYER_AND_HEAD = re.compile(r"(\d{1,5})-(\d{1,5})")
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
    weights: object = None


class HeadList(BaseModel):
    """A list as its file has it; scores: of the heads, in their order."""

    model_config = ConfigDict(extra="forbid")
    source: str
    found_on: str
    model: Model
    heads: list[str]
    scores: list[float] = []


def heads_for(name: str, model_sizes: Mapping[str, object]) -> Heads:
    """Find the heads that a name means for a model.

    Of the published lists that fit the model, the one found on LME is taken first.

    Args:
        name: "all", "published" (any published list), "LME" or "NQ" (the published list that was
            found on this data set), or the path of a file.
        model_sizes: The sizes of the model by their names in config.json; {} if unknown, and then
            no published list fits.

    Returns:
        (layer, head) pairs, best first; None for all heads.

    Raises:
        CannotRun: The list is missing, damaged or another model's.
    """
    if name == ALL:
        return None
    if name not in (PUBLISHED, *_DATASETS_OF_LISTS):
        return _heads_of_list(name, _read_head_list(Path(name).expanduser()), model_sizes)
    published_lists = [_read_head_list(path) for path in _PUBLISHED_FILES]
    fitting_lists: list[HeadList] = []
    for head_list in published_lists:
        is_named = name in (PUBLISHED, head_list.found_on)
        is_of_model = bool(model_sizes) and not _model_difference(head_list, model_sizes)
        if is_named and is_of_model:
            fitting_lists.append(head_list)
    if not fitting_lists:
        names = {f"{head_list.model.name} ({head_list.found_on})" for head_list in published_lists}
        raise CannotRun(
            f"there is no head list '{name}' for this model (there are: "
            f"{', '.join(sorted(names))}); find one with: python -m bench.heads METHOD "
            "--model MODEL --dataset NAME --out FILE, then set method.heads=FILE"
        )
    fitting_lists.sort(key=lambda head_list: head_list.found_on != _DATASETS_OF_LISTS[0])
    return _heads_of_list(name, fitting_lists[0], model_sizes)


def file_digest(name: str) -> str | None:
    """The sha256 of the file that `name` is; None for a name of a list, or where no file can be
    read."""
    if name in (ALL, PUBLISHED, *_DATASETS_OF_LISTS):
        return None
    try:
        return hashlib.sha256(Path(name).expanduser().read_bytes()).hexdigest()
    except OSError:
        return None


def _read_head_list(path: Path) -> HeadList:
    """Read and check the head list in a file. Raises CannotRun for one that is missing or
    damaged."""
    try:
        return HeadList.model_validate(parse_yaml(path.read_bytes()))
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise CannotRun(
            f"the head list '{path}' cannot be used ({why}); write one with: python -m bench.heads"
        ) from error


def _model_difference(head_list: HeadList, model_sizes: Mapping[str, object]) -> str:
    """A phrase that says in what the model of a list differs from the one that runs, "" where it
    does not.

        "hidden_size is 4096 there and 2048 here"

    Compared are the sizes and weights that both of them say, and the ids on the hub.

    Args:
        head_list: The list.
        model_sizes: The sizes of the model that runs, by their names in config.json.
    """
    for key, value in head_list.model.model_dump(exclude={"name", "hub"}).items():
        is_known_of_both = key in model_sizes and value is not None
        if not is_known_of_both or model_sizes[key] == value:
            continue
        if key == "weights":
            return "its weights are others"
        return f"{key} is {value} there and {model_sizes[key]} here"
    weights = model_sizes.get("weights")
    if not isinstance(weights, dict):
        return ""
    hub_id = weights.get("hub")
    is_known_of_both = bool(hub_id) and bool(head_list.model.hub)
    if is_known_of_both and hub_id not in head_list.model.hub:
        return f"this one is {hub_id}"
    return ""


def _heads_of_list(
    name: str, head_list: HeadList, model_sizes: Mapping[str, object]
) -> list[tuple[int, int]]:
    """The (layer, head) pairs of a list, best first: "13-18" -> (13, 18).

    Args:
        name: The name of the list, for messages.
        head_list: The list.
        model_sizes: The sizes of the model that runs, by their names in config.json.

    Raises:
        CannotRun: It is another model's list, or names what are no heads.
    """
    difference = _model_difference(head_list, model_sizes)
    if difference:
        raise CannotRun(
            f"the head list '{name}' belongs to another model, {head_list.model.name} "
            f"({difference}); find one for this model with: python -m bench.heads METHOD --model "
            "MODEL --dataset NAME --out FILE"
        )
    pairs: dict[tuple[int, int], None] = {}  # as an ordered set: a head named twice counts once
    for head in head_list.heads:
        match = _LAYER_AND_HEAD.fullmatch(head)
        if match and _is_head_of(head_list, int(match[1]), int(match[2])):
            pairs[int(match[1]), int(match[2])] = None
    if not pairs or len(pairs) < len(head_list.heads):
        raise CannotRun(
            f"the head list '{name}' must name different heads of its model as layer-head "
            '("13-18"), from 0'
        )
    return list(pairs)


def _is_head_of(head_list: HeadList, layer: int, head: int) -> bool:
    """Whether the model of a head list has a layer and a head of these numbers, counted from 0."""
    model = head_list.model
    return layer < model.num_hidden_layers and head < model.num_attention_heads
