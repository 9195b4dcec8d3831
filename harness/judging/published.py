"""The prompts that the authors of some data sets publish for a judge: configs/judges/NAME.yaml.
They take the place of the judge's own.

    source: repository and file
    max_tokens: 10                              of a reply
    highest_rating: 100                         where the reply is a rating
    verdict_after: correct                      where yes or no stands after this word
    confidence_after: confidence                where a number of percent stands after this word
    steps: rubric                               where an answer takes several requests (rubric.py)
    prompts: {fact: "..", abstention: ".."}     with {question}, {answers}: the gold answer, {answer}

A gold answer names its prompt: `judge: NAME/fact` in Gold.extra. As in the authors' code the
question is asked as they show it to the judge (`question` in Gold.extra). Without one of these
fields a reply is a yes where "yes" stands anywhere in it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel

from harness.config.yaml_tree import read_yaml
from harness.judging.kinds import NO, UNCLEAR, YES, parse_rating, words_after
from harness.prompts import Prompt, PromptReplacement, turns_by_name
from harness.storage.file_hash import file_hash
from harness.types import Example

_FOLDER = Path(__file__).parents[2] / "configs" / "judges"
_PUBLISHED = {path.stem: path for path in _FOLDER.glob("*.yaml")}


class _PublishedFile(BaseModel):
    """The content of a file of configs/judges, checked.

    Attributes:
        source: Repository and file of the authors.
        max_tokens: The most tokens of a reply.
        prompts: Kind ("fact") -> text, or user and system turn.
        highest_rating: Where a reply is a rating, the highest one.
        verdict_after: Where yes or no follows a word, that word.
        confidence_after: Where a confidence follows a word, that word.
        steps: Where an answer takes several requests, how it is judged.
    """

    source: str
    max_tokens: int
    prompts: dict[str, PromptReplacement]
    highest_rating: float | None = None
    verdict_after: str = ""
    confidence_after: str = ""
    steps: str = ""


@dataclass(frozen=True)
class PublishedPrompts:
    """The judge's prompts of one file of configs/judges.

    Attributes:
        version: Its name and hash.
        source: Repository and file of the authors.
        max_tokens: The most tokens of a reply.
        prompts: Kind ("fact") -> the prompt.
        highest_rating: The highest rating, of which a rating is a share; None where the reply is
            yes or no.
        verdict_after: The word that yes or no follows; "" where it may stand anywhere.
        confidence_after: The word that the confidence in percent follows; "" where none is asked.
        steps: How an answer is judged by several requests; "" for one request.
    """

    version: str
    source: str
    max_tokens: int
    prompts: Mapping[str, Prompt]
    highest_rating: float | None = None
    verdict_after: str = ""
    confidence_after: str = ""
    steps: str = ""

    def verdict(self, reply: str) -> str:
        """Read the verdict in a reply as the authors' code does: YES, NO, a
        rating such as "87.5", or UNCLEAR.

        It is a rating where the prompts have a highest one, else the yes or no after the word that
        they name; where they name none, a reply with "yes" anywhere in it is YES, any other NO.
        """
        if self.highest_rating is not None:
            return parse_rating(reply)
        if self.verdict_after:
            return words_after(self.verdict_after, "yes|no", reply).lower() or UNCLEAR
        if YES in reply.lower():
            return YES
        return NO

    def score(self, verdict: str) -> float:
        """The score of a verdict, from 0 to 1: the share of the highest rating, or 1 for yes."""
        if self.highest_rating is None:
            return float(verdict == YES)
        if verdict == UNCLEAR:
            return 0.0
        return float(verdict) / self.highest_rating

    def confidence(self, reply: str) -> float | None:
        """Read the confidence in percent that a reply names, at most 100; None where it names
        none.
        """
        if not self.confidence_after:
            return None
        number = words_after(self.confidence_after, r"\d+(?:\.\d+)?", reply)
        if not number:
            return None
        return min(float(number), 100.0)


def published_for(examples: Mapping[str, Example]) -> PublishedPrompts | None:
    """Read the published prompts (configs/judges/NAME.yaml) that the questions' `Gold.extra` names
    as {"judge": "NAME/fact"}; None where it names none.

    Args:
        examples: Question id -> the question with its gold answers; all name the same file.
    """
    if not examples:
        return None
    first = next(iter(examples.values()))
    name, _, _ = str(first.gold.extra.get("judge", "")).partition("/")
    if name not in _PUBLISHED:  # a name of a received run opens nothing
        return None
    values = read_yaml(_PUBLISHED[name], f"configs/judges/{name}.yaml")
    file = _PublishedFile.model_validate(values)
    prompts = {}
    for kind, text in file.prompts.items():
        turns = turns_by_name(text)
        prompts[kind] = Prompt(kind, turns["user"], turns.get("system", ""))
    return PublishedPrompts(
        version=f"{name} {file_hash(_PUBLISHED[name])[:8]}",
        source=file.source,
        max_tokens=file.max_tokens,
        prompts=prompts,
        highest_rating=file.highest_rating,
        verdict_after=file.verdict_after,
        confidence_after=file.confidence_after,
        steps=file.steps,
    )
