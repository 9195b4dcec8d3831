"""LoRA adapters: whether a folder holds one, whether it is whole and fits the base; and one merged
into the weights.

A check reads only headers of the safetensors files. An adapter that `harness train` wrote has a
card that says of which weights it is; of the same model with other weights it is stale, of another
model it is refused.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from safetensors import SafetensorError, safe_open

from harness.config.schema import ModelConfig, canonical_json, json_sha256
from harness.errors import CannotRun
from harness.storage.files import read_object
from harness.storage.paths import package_folder, path_inside

if TYPE_CHECKING:
    import torch

CARD = "card.json"
WEIGHTS = "adapter_model.safetensors"
SETTINGS = "adapter_config.json"
_PACKAGE = "package:"
# Names of an adapter's matrices: the prefix of all, and the endings of A and B.
_KEY_PREFIX = "base_model.model."
_A, _B = ".lora_A.weight", ".lora_B.weight"
# Kinds of adapters of peft whose sum with the weights is not W + alpha / rank x B A.
_NOT_MERGEABLE = (
    "use_dora",
    "fan_in_fan_out",
    "lora_bias",
    "modules_to_save",
    "rank_pattern",
    "alpha_pattern",
)
Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class Base:
    """The model that an adapter is to fit.

    Attributes:
        name: Its name.
        folder: The folder with its files.
        weights_id: What identifies its weights: {"files": HASH}, or {"hub": "owner/name",
            "commit": COMMIT}.
    """

    name: str
    folder: Path
    weights_id: object


@dataclass(frozen=True)
class AdapterSettings:
    """What adapter_config.json says, as far as it is used.

    Attributes:
        base_model: The name of the model that it was made for; "" for none.
        is_lora: Whether it is of the kind LoRA.
        rank: The rank of its matrices, and `rank_pattern` of some; unchecked, so of any type.
        alpha: The factor of the change before it is divided by the rank; of any type.
        is_rank_stabilised: Whether it is divided by the root of the rank.
        is_transposed: Whether the base's matrices are stored [in, out].
        is_mergeable: Whether its sum with the weights is W + alpha / rank x B A.
    """

    base_model: str
    is_lora: bool
    rank: object
    rank_pattern: object
    alpha: object
    is_rank_stabilised: bool
    is_transposed: bool
    is_mergeable: bool

    @classmethod
    def read(cls, folder: Path) -> AdapterSettings:
        """Read adapter_config.json in an adapter's folder. Raises OSError or ValueError where it
        cannot be read."""
        values = read_object(folder / SETTINGS)
        return cls(
            base_model=str(values.get("base_model_name_or_path") or ""),
            is_lora=values.get("peft_type") == "LORA",
            rank=values.get("r"),
            rank_pattern=values.get("rank_pattern") or {},
            alpha=values.get("lora_alpha"),
            is_rank_stabilised=bool(values.get("use_rslora")),
            is_transposed=bool(values.get("fan_in_fan_out")),
            is_mergeable=not any(values.get(key) for key in _NOT_MERGEABLE),
        )

    def stated_ranks(self) -> list[object]:
        """All ranks that the settings name: that of all matrices, and those of single ones.
        Unchecked: any may be no number."""
        if isinstance(self.rank_pattern, dict):
            return [self.rank, *self.rank_pattern.values()]
        return [self.rank, self.rank_pattern]

    def scale(self) -> float:
        """The factor alpha / rank of B A in the sum W + alpha / rank x B A; alpha / root of the
        rank where it is rank-stabilised. Raises ValueError where rank or alpha is no number."""
        divisor = float(str(self.rank))
        if self.is_rank_stabilised:
            divisor = math.sqrt(divisor)
        return float(str(self.alpha)) / divisor


def check_adapter(name: str, folder: Path, base: Base, merged: bool = False) -> list[str]:
    """Check that an adapter is whole and fits its base.

    Args:
        name: The adapter's name, for messages.
        folder: Its folder.
        base: The model that it is to fit.
        merged: It is merged into the weights, which needs no peft.

    Returns:
        Warnings: that it is stale, that nothing says what it was trained on, or that methods had
        unequal shares in its training.

    Raises:
        CannotRun: It is not whole, or of another base; or the package peft is missing.
    """
    if not merged and importlib.util.find_spec("peft") is None:
        raise CannotRun(
            f"the adapter '{name}' needs the package peft; pip install 'longdoc-harness[train]'"
        )
    settings, shapes = _read_adapter(name, folder)
    first_problem = next(_problems_with_base(settings, shapes, _base_shapes(base.folder)), None)
    if first_problem is not None:
        made_for = settings.base_model or "an unnamed model"
        raise _base_error(name, folder, made_for, base, first_problem)
    card = read_card(folder)
    if card is None:
        # One that is not merged is warned of by unknown_prompts_warnings.
        if merged:
            return [f"no card says what the adapter '{name}' in '{folder}' was trained on"]
        return []
    return _check_card(card, name, folder, base)


def _check_card(card: Mapping[str, object], name: str, folder: Path, base: Base) -> list[str]:
    """Compare the base weights that an adapter's card names with those of the base in use.

    Args:
        card: {"base": {"name": "qwen3-4b", "where": {"files": HASH}}, "method": "pecan", "trained":
            {...}}; of each, other types and missing ones are taken as unknown.
        name: The adapter's name, for messages.
        folder: Its folder, for messages.
        base: The model that it is to fit.

    Returns:
        [A warning that it is stale] for other weights of a base of this name; else the warnings
        about unequal shares of methods in its training.

    Raises:
        CannotRun: It was trained on other weights, of a base of another name.
    """
    trained_base = card.get("base")
    if not isinstance(trained_base, dict):
        trained_base = {}
    trained_weights_id = trained_base.get("where")
    # Two ways of naming weights, a commit and a hash, cannot be compared.
    are_comparable = _name_weights_alike(trained_weights_id, base.weights_id)
    if not are_comparable or canonical_json(trained_weights_id) == canonical_json(base.weights_id):
        return _training_share_warnings(name, base, card.get("trained"))
    trained_name = trained_base.get("name")
    if trained_name != base.name:
        raise _base_error(
            name, folder, str(trained_name), base, "its card has the mark of other weights"
        )
    again = f"train it again: harness train {card.get('method')}"
    return [
        f"the adapter '{name}' is stale: it was trained on other weights of '{base.name}'; {again}"
    ]


def _name_weights_alike(first: object, second: object) -> bool:
    """Whether two identities name weights in the same way: by a commit, {"hub": ..., "commit":
    ...}, or by a hash, {"files": ...}. No for anything that is no such dict."""
    if not isinstance(first, dict) or not isinstance(second, dict):
        return False
    return first.keys() == second.keys()


def read_card(folder: Path) -> dict[str, object] | None:
    """The content of card.json, which `harness train` wrote beside an adapter; None where there is
    none. Raises CannotRun for a damaged one."""
    path = folder / CARD
    try:
        if path.exists():
            return read_object(path)
        return None
    except (OSError, ValueError) as e:
        raise CannotRun(
            f"the adapter's card {path} cannot be read ({e}); train it again, or delete the card"
        ) from e


def prompt_digests(prompts: Mapping[str, str]) -> dict[str, str]:
    """Name of a prompt -> 16 hex digits that identify its text, as an adapter's card keeps them.

    Args:
        prompts: Name -> text.
    """
    return {name: json_sha256(text)[:16] for name, text in prompts.items()}


def prompt_mismatch(
    name: str, folder: str | Path, task: str, prompts: Mapping[str, str]
) -> str | None:
    """Why an adapter does not go with the prompt that it is switched on for, by its card: it was
    trained on other prompts, or on another text of one.

    Args:
        name: The adapter's name, for messages.
        folder: Its folder.
        task: The prompt that the adapter is switched on for.
        prompts: Name -> text of all prompts of the method.

    Returns:
        A sentence; None where all agree, and where there is no card or it has no "prompts": the
        `prompt_digests` of those that it was trained on.

    Raises:
        CannotRun: The card cannot be read.
    """
    card = read_card(Path(folder)) or {}
    trained_digests = card.get("prompts")
    if not isinstance(trained_digests, dict):
        return None
    digests_in_use = prompt_digests(prompts)
    # A prompt may be in two parts: "qa" is then what the user says, "qa, system" comes before it.
    task_prompts = {task, f"{task}, system"}
    is_for_task = bool(task_prompts & trained_digests.keys() & digests_in_use.keys())
    if trained_digests and not is_for_task:
        return (
            f"the adapter '{name}' in '{folder}' was trained for {', '.join(trained_digests)}, "
            f"and is switched on for {task}; name the adapter of {task}"
        )
    for prompt, trained_digest in trained_digests.items():
        if digests_in_use.get(prompt) != trained_digest:
            return (
                f"the adapter '{name}' was trained on another prompt '{prompt}' than the one in "
                "use; put that prompt "
                f"back, train the adapter again (harness train {card.get('method')}), or run the "
                "method without it"
            )
    return None


def unknown_prompts_warnings(folders: Mapping[str, str | Path]) -> list[str]:
    """A warning about the adapters whose cards do not say which prompts they were trained on.

    Args:
        folders: Name of an adapter -> its folder.

    Returns:
        [The warning]; [] where all cards say it.
    """
    names: list[str] = []
    for name, folder in folders.items():
        card = read_card(Path(folder)) or {}
        if not card.get("prompts"):
            names.append(name)
    if not names:
        return []
    warning = f"no card says on which prompts these adapters were trained: {', '.join(names)}; if on others than those"
    fix = "give theirs with --set method.prompts=FILE (docs/methods/shared.md#prompts)"
    return [f"{warning} in use (harness show METHOD), {fix}"]


def with_bundled_adapters(config: ModelConfig, names: Iterable[str]) -> ModelConfig:
    """A copy of a model's settings that names adapters which the model's package bundles.

    Args:
        config: The model's settings; adapters that it names itself stay.
        names: The adapters that are wanted; one that is neither in `config.offers`, name -> folder
            in the package, nor there on disk is left out.

    Returns:
        The copy; `config` itself where its package is not installed or bundles none of them.
    """
    package_root = None
    if config.package and config.offers:
        package_root = package_folder(config.package)
    if package_root is None:
        return config
    bundled: dict[str, str] = {}  # name of an adapter -> its folder
    for name in names:
        if name in config.offers:
            path = path_inside(package_root, config.offers[name])
            if (path / SETTINGS).is_file():
                bundled[name] = str(path)
    if bundled:
        return config.model_copy(update={"adapters": {**bundled, **config.adapters}})
    return config


def _read_adapter(name: str, folder: Path) -> tuple[AdapterSettings, Shapes]:
    """The settings of an adapter, and the shapes of its matrices. Raises CannotRun where a file is
    missing or damaged.

    Args:
        name: The adapter's name, for messages.
        folder: Its folder.
    """
    if not (folder / SETTINGS).is_file():
        problem = f"there is no folder '{folder}'"
        if folder.is_dir():
            problem = f"the folder '{folder}' has no {SETTINGS}"
        raise CannotRun(
            f"{problem}, so it is no adapter; name one that was saved with peft for '{name}'"
        )
    if not (folder / WEIGHTS).is_file():
        raise CannotRun(
            f"the adapter '{name}' in '{folder}' has no {WEIGHTS}; other formats can run code"
        )
    try:
        return AdapterSettings.read(folder), _tensor_shapes(folder / WEIGHTS)
    except (OSError, ValueError) as e:
        raise CannotRun(
            f"the adapter '{name}' in '{folder}' is damaged ({e}); train it again or fetch it again"
        ) from e


def _tensor_shapes(path: Path) -> Shapes:
    """Tensor name -> shape, from a safetensors header. Raises OSError, and ValueError for a damaged
    file."""
    try:
        with safe_open(path, "np") as file:
            return {key: tuple(file.get_slice(key).get_shape()) for key in file.keys()}  # noqa: SIM118 - no mapping
    except SafetensorError as e:
        raise ValueError(f"{path.name}: {e}") from None


def _base_shapes(folder: Path) -> Shapes:
    """Name of a weight of the base -> its shape, from the headers of its files; {} where these are
    not on this machine yet, or cannot be read."""
    shapes: Shapes = {}
    for path in sorted(folder.glob("*.safetensors")):
        try:
            shapes |= _tensor_shapes(path)
        except (OSError, ValueError):
            return {}  # loading the base will say what is wrong with it
    return shapes


def _problems_with_base(
    settings: AdapterSettings, shapes: Shapes, base_shapes: Shapes
) -> Iterator[str]:
    """Yield a sentence for each way in which an adapter disagrees with itself, and then for each
    matrix that changes a weight that the base lacks, or has in another shape.

    Args:
        settings: The adapter's settings.
        shapes: Name of a matrix of the adapter -> its shape:
            {"base_model.model.layers.0.q_proj.lora_A.weight": (8, 512)} changes
            "layers.0.q_proj.weight".
        base_shapes: Name of a weight of the base -> its shape; {} where the weights are not on this
            machine yet: then only the adapter itself is looked at.
    """
    yield from _problems_within(settings, shapes)
    if not base_shapes:
        return
    for key, shape in sorted(shapes.items()):
        for side in _SIDES:
            if side.marker in key:
                module = key.removeprefix(_KEY_PREFIX).partition(side.marker)[0]
                base_shape = base_shapes.get(f"{module}.weight")
                problem = _shape_problem(settings, module, side, shape, base_shape)
                if problem is not None:
                    yield problem


def _problems_within(settings: AdapterSettings, shapes: Shapes) -> Iterator[str]:
    """Yield a sentence for each way in which an adapter's settings and its own matrices disagree:
    no LoRA matrices, or a rank or alpha that cannot be.

    Args:
        settings: The adapter's settings.
        shapes: Name of a matrix of the adapter -> its shape; A is [rank, in].
    """
    shapes_of_a = [shape for key, shape in shapes.items() if ".lora_A." in key]
    if not shapes_of_a:
        yield "it holds no LoRA matrices"
    largest_rank = max((shape[0] for shape in shapes_of_a if len(shape) == 2), default=0)
    for rank in settings.stated_ranks():
        if type(rank) is not int or not 0 < rank <= largest_rank:
            # peft would make matrices of that rank, into which these do not fit.
            yield f"its {SETTINGS} has a rank (r) that its matrices do not have"
            break
    if type(settings.alpha) not in (int, float):
        yield f"its {SETTINGS} has a lora_alpha that is no number"


class _Side(NamedTuple):
    """One of the two matrices of a LoRA. That of a weight [out, in] is A [rank, in], B [out, rank]
    (Hu et al. 2021, eq. 3).

    Attributes:
        marker: The part of its key that says which one it is.
        base_axis: Its axis that is as long as the same axis of the weight.
        meaning: What that axis of the weight is, for messages.
    """

    marker: str
    base_axis: int
    meaning: str


_SIDES = (_Side(".lora_A.", 1, "inputs"), _Side(".lora_B.", 0, "outputs"))


def _shape_problem(
    settings: AdapterSettings,
    module: str,
    side: _Side,
    shape: tuple[int, ...],
    base_shape: tuple[int, ...] | None,
) -> str | None:
    """Why a matrix of an adapter does not fit the weight that it changes; None where it does.

    For a weight [out, in], A is [rank, in] and B is [out, rank]: A must agree with it on axis 1, B
    on axis 0.

    Args:
        settings: The adapter's settings.
        module: The module of the weight, for messages.
        side: Which of the two matrices it is, and the axis on which it must agree.
        shape: Its shape.
        base_shape: The shape of the weight; None where the base has none of this name.
    """
    if base_shape is None:
        return f"it changes {module}, which is not there"
    size = shape[side.base_axis]
    base_axis = side.base_axis
    if settings.is_transposed:  # the weight is stored [in, out], A and B are not
        base_axis = 1 - base_axis
    base_size = base_shape[base_axis]
    if size == base_size:
        return None
    return f"it takes {module} to have {size} {side.meaning}, there are {base_size}"


def _base_error(name: str, folder: Path, made_for: str, base: Base, problem: str) -> CannotRun:
    """The error for an adapter that was made for another base model.

    Args:
        name: The adapter's name.
        folder: Its folder.
        made_for: The name of the model that it was made for.
        base: The model that it is to fit.
        problem: What does not fit, as a sentence without its full stop.
    """
    return CannotRun(
        f"the adapter '{name}' in '{folder}' is of another base than '{base.name}' (it was made "
        f"for '{made_for}'): {problem}; name an adapter of '{base.name}'"
    )


def _training_share_warnings(name: str, base: Base, trained: object) -> list[str]:
    """A warning about the unequal shares that methods had in an adapter's last training.

    Args:
        name: The adapter's name.
        base: The model that it was trained on.
        trained: The field of its card, {"rows": 9, "methods": {"pecan": 6, "bm25": 3}}.

    Returns:
        [The warning], [] where the card does not say the shares in positive whole numbers.
    """
    if not isinstance(trained, dict):
        return []
    all_rows, rows_by_method = trained.get("rows"), trained.get("methods")
    if not isinstance(rows_by_method, dict) or not rows_by_method:
        return []
    for count in (all_rows, *rows_by_method.values()):
        if type(count) is not int or count <= 0:
            return []
    largest_first = sorted(rows_by_method, key=lambda method: -rows_by_method[method])
    shares = [
        f"{method} {100 * rows_by_method[method] / all_rows:.0f} %" for method in largest_first
    ]
    extremes = shares[0]
    if shares[-1] != shares[0]:
        extremes += f" to {shares[-1]}"
    sentence = (
        f"the adapter '{name}' of '{base.name}' has seen the prompts of some methods more often "
        f"than others' ({extremes} of its rows): a method with a small share, or none, can score "
        "low because of the adapter, not because it is worse"
    )
    return [sentence]


def adapter_folder(setting: str) -> Path:
    """The folder that the setting model.adapter names.

    "adapters/qa" -> Path("adapters/qa"); "package:pocket/qa" -> the folder qa of the installed
    package

    Raises CannotRun where the package is not installed.
    """
    if not setting.startswith(_PACKAGE):
        return Path(setting)
    package, _, path_in_package = setting.removeprefix(_PACKAGE).partition("/")
    package_root = package_folder(package)
    if package_root is None:
        raise CannotRun(f"model.adapter '{setting}': there is no package '{package}'")
    return path_inside(package_root, path_in_package)


def merge_into_weights(net: torch.nn.Module, folder: Path) -> None:
    """Add the adapter in `folder` to the weights of `net`, which are changed for good: W + alpha /
    rank x B A for every matrix.

    So a session runs as fast as on the base alone. The sum is taken in float32 and rounded to the
    model's type. `check_adapter` has found before that every matrix fits a weight of `net`: a
    matrix "base_model.model.layers.0.q_proj.lora_A.weight" the weight "layers.0.q_proj.weight".

    Raises CannotRun for an adapter of another kind than plain LoRA.
    """
    from safetensors.torch import load_file

    settings = AdapterSettings.read(folder)
    if not settings.is_lora or not settings.is_mergeable:
        raise CannotRun(
            f"the adapter '{folder.name}' is not plain LoRA, so it cannot be merged; use "
            "model.adapters"
        )
    scale = settings.scale()
    tensors = load_file(str(folder / WEIGHTS))
    weights = dict(net.named_parameters())
    for key, matrix_a in tensors.items():
        if not key.endswith(_A):
            continue
        matrix_b = tensors[key.removesuffix(_A) + _B]
        module = key.removeprefix(_KEY_PREFIX).removesuffix(_A)
        weight = weights[f"{module}.weight"]
        change = scale * (matrix_b.to(weight.device).float() @ matrix_a.to(weight.device).float())
        weight.data = (weight.data.float() + change).to(weight.dtype)
