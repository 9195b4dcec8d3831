"""The model folder that a command names, its card, and the skills that it chooses."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from harness_training.tasks import Skill

from harness.cli.options import split_names
from harness.errors import CannotRun, UnknownName
from pocket import card as cards
from pocket.tasks.catalog import skills

Model = Annotated[
    str | None,
    typer.Argument(metavar="FOLDER", help="A model folder.", show_default="the embedded model"),
]


def model_folder(folder: str | None) -> Path:
    """The model folder that a command names, or that of the embedded model.

    Args:
        folder: The name of the folder; None for the embedded model.

    Raises:
        CannotRun: There is no model in it.
    """
    path = cards.EMBEDDED
    if folder is not None:
        path = Path(folder)
    if (path / "config.json").is_file():
        return path
    if folder is None:
        raise CannotRun("no pocket model comes with this installation; name a model folder")
    what = f"no model folder '{folder}'"
    if path.is_dir():
        what = f"the folder '{folder}' holds no model (no config.json)"
    raise CannotRun(f"{what}; training writes one to OUT/model")


def model_card(folder: Path) -> cards.Card:
    """The card in a model folder, checked against its weights; a blank one if there is none. Raises
    CannotRun for weights that are not those of the card."""
    card = cards.read_card(folder)
    if card is None:
        return cards.blank_card(folder)
    cards.check_weights(folder)
    return card


def chosen_skills(names: Sequence[str]) -> list[Skill]:
    """The skills that --skill names.

    Args:
        names: Names of skills; one text may have several, divided by commas.

    Raises:
        UnknownName: There is no such skill.
    """
    for name in split_names(names):
        if name not in skills():
            raise UnknownName("skill", name, skills(), "harness pocket check")
    return [skills()[name] for name in split_names(names)]
