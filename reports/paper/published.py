"""What is publicly known of the papers' models and rows: published.yaml and training_ids.txt.

published().models["Llama-3.1-8B-Instruct"].hubs[0]        -> "meta-llama/Llama-3.1-8B-Instruct"
published().splits["qasper test"].documents                -> 416
"""

from functools import cache
from importlib import resources

import yaml
from pydantic import BaseModel, ConfigDict, Field


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class PublishedModel(_Strict):
    """What is published of a model. Its first prompt is: opening, a system turn, user, the prompt,
    closing.

    Attributes:
        hubs: Its ids of the hub, the newest first.
        opening: The text that its chat template begins with.
        system: The system turn where a prompt has none.
        user: The text before the turn of the user.
        closing: The text after it.
        ids: The first token ids of a prompt.
    """

    hubs: tuple[str, ...] = Field(min_length=1)
    opening: str
    system: str
    user: str
    closing: str
    ids: list[int]


class PublishedSplit(_Strict):
    """The official split of a data set; None or {} for what is not known.

    Attributes:
        ids: The form of a question's id, a regular expression.
        documents: The number of documents.
        sha256: The sha256 of the sorted ids of the documents, joined by line ends.
        kinds: Criterion ("hops") -> kind ("2") -> number of questions.
    """

    ids: str | None = None
    documents: int | None = None
    sha256: str | None = None
    kinds: dict[str, dict[str, int]] = Field(default_factory=dict)


class Published(_Strict):
    """The content of published.yaml.

    Attributes:
        models: Last part of a hub id -> what is published of the model.
        splits: Data set and split, "musique validation" -> what is published of the split.
    """

    models: dict[str, PublishedModel]
    splits: dict[str, PublishedSplit]


NOTHING_KNOWN = PublishedSplit()
"""Of a split that published.yaml does not name."""


@cache
def published() -> Published:
    """The content of published.yaml, read once."""
    text = (resources.files("reports.paper") / "published.yaml").read_text("utf-8")
    values = yaml.safe_load(text)
    return Published(models=values["models"], splits=values["datasets"])


@cache
def training_ids() -> frozenset[str]:
    """The training questions in training_ids.txt, read once: the first 12 hex digits of the sha256
    of each question's id."""
    text = (resources.files("reports.paper") / "training_ids.txt").read_text("utf-8")
    return frozenset(text.split())
