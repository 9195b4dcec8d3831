"""The data sets that a teacher labels, as options of `harness train` name them: training splits, and what to keep out.

labels(options, settings, teacher, sets)      harness.training.course.Labels; raises before anything is loaded

"{dataset}" in a path stands for the data set's name, so that one option names a file for each of several;
datasets.NAME.KEY sets a key of one of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.cli.options import split
from harness.cli.output import say
from harness.cli.training_run import TrainOptions
from harness.config.yaml_tree import Raw
from harness.errors import UserError

if TYPE_CHECKING:
    from harness.config.schema import DatasetConfig, ModelConfig
    from harness.training.course import Labels
    from harness.training.question_sets import QuestionSet
    from harness.training.settings import Settings

PLACE = "{dataset}"


def labels(options: TrainOptions, settings: Settings, teacher: ModelConfig, sets: Mapping[str, Any]) -> Labels:
    """The teacher and the training questions it labels. sets: assignments to dataset.KEY and datasets.NAME.KEY.

    Raises UserError for a split or file that is not a training one, and for paths that several sets would share.
    """
    from harness.training.course import Labels

    names = split([options.dataset or ""])
    if len(names) > 1:
        for option, value in (("--data", options.data), ("--set dataset.documents", sets.get("dataset.documents"))):
            if value is not None and PLACE not in str(value):
                raise UserError(
                    f"{option} names one place for {len(names)} data sets; write {PLACE} where the name of each goes"
                )
    other = [key for key in sets if key.startswith("datasets.") and key.split(".")[1] not in names]
    if other:
        raise UserError(f"--set {other[0]}: '{other[0].split('.')[1]}' is not among the data sets of --dataset")
    chosen = [one for name in names if (one := _question_set(name, options, settings, sets)) is not None]
    if not chosen:
        raise UserError(f"{options.dataset} has no training split, so no adapter can be trained on it")
    pages = Path(options.pages).expanduser() if options.pages is not None else None
    if pages is not None and not pages.is_file():
        raise UserError(
            f"--pages {options.pages}: no such file; it is KILT's kilt_knowledgesource.json, or lines of it"
        )
    return Labels(teacher, tuple(chosen), pages, options.parallel)


def _question_set(name: str, options: TrainOptions, settings: Settings, sets: Mapping[str, Any]) -> QuestionSet | None:
    """The training questions of one data set; None for one that has no training split."""
    from harness.config.resolve import part
    from harness.training.question_sets import QuestionSet, check_training

    own: DatasetConfig = part("datasets", dataset=name)
    places = settings.splits.get(own.name, {})
    data = None if options.data is None else options.data.replace(PLACE, own.name)
    if places is None:
        say(f"'{own.name}' has no training split, so it is left out")
        return None
    mine = f"datasets.{own.name}."
    given: dict[str, Any] = {
        key: Raw(v.replace(PLACE, own.name)) for key, v in sets.items() if not key.startswith("datasets.")
    }
    given |= {f"dataset.{key.removeprefix(mine)}": v for key, v in sets.items() if key.startswith(mine)}
    retrieved = "dataset.documents" in given
    local = () if data is None else ("hub", "subset") if retrieved else ("hub", "subset", "format")
    preset = {"split": "train", **{key: value for key, value in places.items() if key not in local}}
    given = {**{f"dataset.{key}": value for key, value in preset.items()}, **given}
    training = part("datasets", dataset=name, data=data, sets=given)
    check_training(training)
    evaluation: list[DatasetConfig] = []
    if data is None:
        evaluation.append(own)
    elif Path(data).is_dir():
        evaluation.append(part("datasets", dataset=name, data=data))
    if options.exclude is not None:
        evaluation.append(part("datasets", dataset=name, data=options.exclude.replace(PLACE, own.name)))
    return QuestionSet(training, tuple(evaluation))
