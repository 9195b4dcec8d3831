"""Training settings: profiles/<method>-<profile>.yaml, then a file of the user's, then --set.

    settings = read_settings(Settings, "longrefiner", "pocket", tasks, sets={"analysis.rank": 8, "rate": 1e-3})
    settings.tasks["analysis"]                 TaskSettings

A file has the keys of Settings; `common` holds for every task and `tasks` for one. After --set a
key of a task is `TASK.KEY`, and one of `common` may be given without it.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from harness.config.registry import CONFIGS_VARIABLE
from harness.config.yaml_tree import Layer, Tree, mapping_at, nested, read_yaml, validate_tree
from harness.errors import ConfigError, UserError, unknown_name_error
from harness_training.example_files import Recipe, world_module


class TaskSettings(BaseModel):
    """Settings of one task.

    Args:
        rank: The rank of the LoRA.
        alpha: The LoRA is scaled by alpha / rank.
        length: Most tokens of a row; see Settings.overlong.
        scenes: Scenes of the synthetic world, or questions of each labelled data set.
        epochs: Passes over them.
        batch: Rows of a forward pass.
        accumulation: Forward passes of an optimizer step.
        rate: Highest learning rate.
        asked: What the teacher is asked for labels in place of the method's own prompt, with
            placeholders of that.
        recipes: Texts of the synthetic world, see pocket.tasks.recipes.Recipe, each with a weight.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
    rank: int = Field(default=16, ge=1)
    alpha: float = Field(default=32, gt=0)
    length: int = Field(default=2048, ge=16)
    scenes: int = Field(default=10_000, ge=1)
    epochs: int = Field(default=1, ge=1)
    batch: int = Field(default=1, ge=1)
    accumulation: int = Field(default=8, ge=1)
    rate: float = Field(default=3e-5, gt=0)
    asked: str = ""
    recipes: tuple[dict[str, object], ...] = ()


class Settings(BaseModel):
    """Settings of a training.

    Args:
        dtype: The numbers of the frozen base (adapters are float32).
        warmup: Share of the steps.
        schedule: The learning rate after the warm-up.
        clip: Largest norm of a gradient.
        overlong: Whether rows above a task's length are left out or cut, see token_rows.truncate.
        splits: Data set -> settings with which its training questions are read, None for a data set
            without a training split (others have their preset's, with split "train").
        checkpointing: Recompute activations instead of keeping them.
        save: Steps between checkpoints.
        say: Steps between lines of the log.
        held: Share of labelled data for evaluation.
        exam: Evaluation scenes of a task.
        tasks: Task -> its settings.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
    dtype: Literal["float32", "bfloat16"] = "bfloat16"
    warmup: float = Field(default=0.1, ge=0, lt=1)
    schedule: Literal["cosine", "linear", "constant"] = "cosine"
    clip: float = Field(default=1.0, gt=0)
    overlong: Literal["leave_out", "cut"] = "leave_out"
    splits: dict[str, dict[str, str] | None] = {}
    checkpointing: bool = False
    save: int = Field(default=100, ge=1)
    say: int = Field(default=20, ge=1)
    held: float = Field(default=0.03, gt=0, lt=1)
    exam: int = Field(default=100, ge=2)
    tasks: dict[str, TaskSettings]

    def recipes(self, task: str, skill: str) -> list[Recipe]:
        """A task's recipes for the synthetic world.

        Args:
            task: The name of the task.
            skill: The skill of recipes that name none.

        Raises:
            UserError: The settings list none.
            ConfigError: A recipe is wrong.
        """
        recipes = self.tasks[task].recipes
        if not recipes:
            raise UserError(
                f"tasks.{task}.recipes is missing, so no texts of the synthetic world can be made; "
                "let a teacher label with --teacher MODEL --dataset NAME, or use --profile pocket"
            )
        validated: list[Any] = []
        for number, values in enumerate(recipes):
            tree = Tree([("the training's settings", {"skill": skill, **values})])
            validated.append(
                validate_tree(world_module().Recipe, tree, f"tasks.{task}.recipes.{number}")
            )
        return validated


S = TypeVar("S", bound=Settings)


def _profile_folders() -> list[Path]:
    """The folders with YAML files of training settings, the user's own first, where there is
    one."""
    user_folder = os.environ.get(CONFIGS_VARIABLE)
    shipped_folder = Path(__file__).parent / "profiles"
    if not user_folder:
        return [shipped_folder]
    return [Path(user_folder) / "training", shipped_folder]


def profiles(method: str) -> list[str]:
    """The names of the profiles that a method's training has settings for, sorted."""
    names: set[str] = set()
    for folder in _profile_folders():
        for path in folder.glob(f"{method}-*.yaml"):
            names.add(path.stem.removeprefix(f"{method}-"))
    return sorted(names)


def _find_profile_file(name: str) -> Path | None:
    """The settings file of this name ("longrefiner-paper.yaml"), the user's own first; None where
    there is none."""
    for folder in _profile_folders():
        path = folder / name
        if path.is_file():
            return path
    return None


def read_settings(
    form: type[S],
    method: str,
    profile: str,
    tasks: Sequence[str],
    sets: Mapping[str, object],
    own: Path | None = None,
) -> S:
    """Read the settings of a training: a profile, overridden by the user's file, overridden by
    --set.

    Args:
        form: The class of the settings.
        method: The preset of the method.
        profile: "paper", "pocket" or another that it has a file for.
        tasks: The names of all tasks of the method.
        sets: --set, key -> value.
        own: The user's file; None for none.

    Raises:
        UserError: There is no such profile.
        ConfigError: Some values are wrong; it names each.
    """
    name = f"{method}-{profile}.yaml"
    path = _find_profile_file(name)
    if path is None:
        known_profiles = ", ".join(profiles(method)) or "none"
        raise UserError(
            f"the training of '{method}' has no profile '{profile}'; it has: {known_profiles}"
        )
    layers = [Layer(f"profiles/{name}", read_yaml(path))]
    if own is not None:
        layers.append(Layer(own.name, read_yaml(own)))
    assignment_layers = [
        _assignment_as_layer(form, key, value, tasks) for key, value in sets.items()
    ]
    for_all_tasks = [values for values in assignment_layers if "common" in values]
    others = [values for values in assignment_layers if "common" not in values]
    # A setting for one task overrides one for all tasks, whichever comes first.
    layers += [Layer("--set", values) for values in [*for_all_tasks, *others]]
    tree = _settings_tree(layers, tasks)
    task_list = ", ".join(tasks)
    unknown_tasks = [task for task in mapping_at(tree.values, "tasks") if task not in tasks]
    if unknown_tasks:
        raise ConfigError(
            [f"unknown task '{task}'; '{method}' has: {task_list}" for task in unknown_tasks]
        )
    return validate_tree(form, tree, "")


def _settings_tree(layers: Sequence[Layer], tasks: Sequence[str]) -> Tree:
    """Layers of settings over each other, where a later one overrides those before it; what a layer
    has in `common` holds for each task, unless the layer has it in `tasks`. `summary` is a text for
    people, and left out.

    Args:
        layers: The lowest first.
        tasks: The names of all tasks.
    """
    # Every task has an entry, also one that no layer names.
    expanded_layers = [Layer(layers[0].origin, {"tasks": {task: {} for task in tasks}})]
    for origin, layer in layers:
        values = dict(layer)
        values.pop("summary", None)
        common = values.pop("common", {})
        expanded_layers.append(Layer(origin, {"tasks": dict.fromkeys(tasks, common)}))
        expanded_layers.append(Layer(origin, values))
    return Tree(expanded_layers)


def _assignment_as_layer(
    form: type[Settings], key: str, value: object, tasks: Sequence[str]
) -> dict[str, object]:
    """Turn a --set assignment into the mapping that a file would have.

        analysis.rank=8 -> {"tasks": {"analysis": {"rank": 8}}}
        rank=8          -> {"common": {"rank": 8}}
        dtype=float32   -> {"dtype": "float32"}

    Args:
        form: The class of the settings.
        key: The key after --set.
        value: Its value.
        tasks: The names of all tasks.

    Raises:
        UserError: There is no such setting; it names those that there are.
    """
    first_key, _, rest = key.partition(".")
    if first_key in tasks and rest:
        return {"tasks": {first_key: {rest: value}}}
    if first_key == "tasks" and rest.count(".") == 1:
        task, name = rest.split(".")
        return {"tasks": {task: {name: value}}}
    if key in TaskSettings.model_fields:
        return {"common": {key: value}}
    # Fields that every training has are plain values; those of one kind of training may be mappings.
    may_have_rest = first_key not in Settings.model_fields
    is_setting = first_key in form.model_fields and first_key != "tasks"
    if is_setting and (not rest or may_have_rest):
        return nested(key, value)
    settings_names = dict.fromkeys(form.model_fields)
    del settings_names["tasks"]
    settable = [*settings_names, *TaskSettings.model_fields]
    known_keys = list(settable)
    for task in tasks:
        known_keys += [f"{task}.{name}" for name in settable]
    raise unknown_name_error(f"key '{key}' (--set)", key, known_keys)
