"""The options that move supporting paragraphs to a place; placing.py moves them."""

from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Place = Literal["head", "middle", "tail"]
"""A part of a text: its beginning, its middle or its end."""
# Formats, and kinds of pocket text, of paragraphs in any order.
PLACED = ("2wikimultihopqa", "hotpotqa", "musique")
# The format whose supporting passages are in the original data sets (longbench.py).
LOOKED_UP = "longbench"


class PlaceOptions(BaseModel):
    """`dataset.options` that move the supporting paragraphs; both None: the paragraphs keep their
    places."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    place: Place | None = Field(
        default=None,
        description="move the supporting paragraphs there; null leaves them where they are",
    )
    distance: float | None = Field(
        default=None,
        ge=0,
        le=1,
        strict=True,
        description="from the first to the last supporting paragraph, as a share of the text (0 to 1)",
    )


@dataclass(frozen=True)
class Placement:
    """Where the supporting paragraphs are to be.

    Attributes:
        place: The part of the text.
        distance: From the first to the last of them, as a share of the text.
    """

    place: Place = "middle"
    distance: float = 0.0

    def __str__(self) -> str:
        """The placement in words: "support at the tail, 0.5 of the text apart"."""
        text = f"support at the {self.place}"
        if self.distance:
            text += f", {self.distance:g} of the text apart"
        return text


def placement_from_options(options: PlaceOptions) -> Placement | None:
    """The placement that the options ask for, None if both options are None.

    Where one of them is None it stands for "middle", or for a distance of 0.
    """
    if options.place is None and options.distance is None:
        return None
    return Placement(options.place or "middle", options.distance or 0.0)
