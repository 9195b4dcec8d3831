"""Prompts of judges that the authors of a data set publish: configs/judges/NAME.yaml.

    source: repository and file
    max_tokens: 10                              of a reply
    prompts: {fact: "..", abstention: ".."}     with {question}, {answers}: the gold answer, {answer}

A gold answer names its prompt: `judge: NAME/fact` in Gold.extra. As in the authors' code the question is asked without
what the data set added to it (`question` in Gold.extra), and a reply is a yes where "yes" stands anywhere in it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.config.yaml_tree import read_yaml
from harness.prompts import Prompt
from harness.storage.file_hash import file_hash
from harness.types import Example

_FILES = {path.stem: path for path in (Path(__file__).parents[2] / "configs" / "judges").glob("*.yaml")}


@dataclass(frozen=True)
class PublishedPrompts:
    """One file. version: its name and hash."""

    version: str
    source: str
    max_tokens: int
    prompts: Mapping[str, Prompt]


def published_for(examples: Mapping[str, Example]) -> PublishedPrompts | None:
    """The published prompts that a run's questions name in `Gold.extra`, all in one file; None where they name none."""
    first = next(iter(examples.values()), None)
    name = "" if first is None else str(first.gold.extra.get("judge", "")).partition("/")[0]
    if name not in _FILES:  # a name of a received run opens nothing
        return None
    values = read_yaml(_FILES[name], f"configs/judges/{name}.yaml")
    prompts = {kind: Prompt(kind, text) for kind, text in values["prompts"].items()}
    version = f"{name} {file_hash(_FILES[name])[:8]}"
    return PublishedPrompts(version, values["source"], values["max_tokens"], prompts)
