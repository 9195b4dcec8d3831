"""Prompt templates, and the replacements that a configuration may give for them.

    ANSWER = Prompt("answer", "Read the text. {instruction}\\n\\n{text}\\n\\nQuestion: {question}")
    pieces = ANSWER.with_replacements(config).fill(instruction="Be brief.", text=texts, question="Who?")
    feed(session, pieces)

`{name}` is a placeholder; any other brace is text. A value that is a string becomes part of the
text around it. A list of strings becomes pieces of their own, each encoded alone, so that a
document's tokens never merge with the prompt's. A configuration replaces a prompt by its name, with
a text (the user turn) or with a mapping of `user` and `system`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from harness.models import MeteredModel, Session


_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")


PromptReplacement = str | dict[str, str]
"""One replacement: the user turn, or {"user": ..., "system": ...} with one of them or both."""


class HasPromptReplacements(Protocol):
    """An object that may replace prompts: a method's configuration."""

    @property
    def prompts(self) -> Mapping[str, PromptReplacement]:
        """The prompts that are replaced: name of a prompt -> its replacement."""


class Pieces(list[str]):
    """A filled prompt: pieces of a user turn, each encoded alone, after a system turn where
    `system` is not empty."""

    system: str = ""


class PiecesAround(NamedTuple):
    """A filled prompt in two parts, before (with the system turn) and after a placeholder."""

    before: Pieces
    after: Pieces


@dataclass(frozen=True)
class Prompt:
    """The template of one request to a model.

    Attributes:
        name: As `harness show` lists it.
        text: The user turn, with {placeholders}.
        system: The system turn before it, "" for none.
        first: False for a later turn of a conversation, which can have no system turn.
        ordered: The placeholders must keep their order, and the text must end where the original
            ends in a placeholder (a context that grows at its end).
        answers: It asks for the answer to the question, or begins the conversation that does, so
            that a run's system prompt stands before it.
    """

    name: str
    text: str
    system: str = ""
    first: bool = True
    ordered: bool = False
    answers: bool = False

    def with_replacements(self, config: HasPromptReplacements | None) -> Prompt:
        """This prompt with the turns that the configuration of a method replaces; unchanged where
        it replaces none.
        """
        if config is None or self.name not in config.prompts:
            return self
        turns = turns_by_name(config.prompts[self.name])
        return replace(
            self, text=turns.get("user", self.text), system=turns.get("system", self.system)
        )

    def fill(self, **values: str | Sequence[str]) -> Pieces:
        """Replace the placeholders by values; a list of texts becomes pieces of its own.

            Prompt("answer", "Read {text} now.").fill(text=["A.", "B."])
                -> ["Read ", "A.", "B.", " now."]

        The first piece is there even if it is empty, other empty ones are left out. The pieces carry
        the prompt's system turn (`Pieces.system`). Values of other names are not used. Raises
        KeyError if one is missing.
        """
        pieces = [""]
        # "Read {text} now." is split into "Read ", "text", " now.".
        for number, text_or_name in enumerate(_PLACEHOLDER.split(self.text)):
            value: str | Sequence[str] = text_or_name
            is_placeholder = number % 2 == 1
            if is_placeholder:
                value = values[text_or_name]
            if isinstance(value, str):
                pieces[-1] += value
            else:
                pieces += [*value, ""]
        filled = Pieces([pieces[0], *filter(None, pieces[1:])])
        filled.system = self.system
        return filled

    def around(self, name: str, **values: str | Sequence[str]) -> PiecesAround:
        """Fill the parts of the template before and after one placeholder, which itself is left
        out.

            Prompt("answer", "Read {text} now.").around("text")
                -> PiecesAround(before=["Read "], after=[" now."])

        Args:
            name: The placeholder that divides the template.
            values: The other placeholders' values.
        """
        text_before, _, text_after = self.text.partition("{" + name + "}")
        pieces_before = replace(self, text=text_before).fill(**values)
        pieces_after = replace(self, text=text_after, system="").fill(**values)
        return PiecesAround(pieces_before, pieces_after)

    def placeholders(self) -> list[str]:
        """The names of the placeholders in the user turn, in order; one
        that stands twice is named twice.
        """
        return [str(name) for name in _PLACEHOLDER.findall(self.text)]


def turns_by_name(replacement: PromptReplacement) -> dict[str, str]:
    """The turns that a replacement gives, by name: "Who?" -> {"user": "Who?"}."""
    if isinstance(replacement, str):
        return {"user": replacement}
    return replacement


def feed(session: Session, pieces: Sequence[str]) -> None:
    """Feed a filled prompt to a session: its system turn if it has one, then a user turn of its
    pieces, which stays open.
    """
    if isinstance(pieces, Pieces) and pieces.system:
        session.system(pieces.system)
    session.user(pieces[0])
    for piece in pieces[1:]:
        session.feed(piece)


def prompt_tokens(pieces: Sequence[str], model: MeteredModel) -> int:
    """Count the tokens of a request with this filled prompt: its system turn and the chat
    template's tokens included, the reply left out.
    """
    tokens = model.turn_tokens() + sum(map(model.count, pieces))
    if isinstance(pieces, Pieces) and pieces.system:
        tokens += model.system_turn_tokens(pieces.system)
    return tokens


def turn_texts(prompts: Iterable[Prompt]) -> dict[str, str]:
    """The texts of prompts by name: {"answer": <user turn>, "answer, system": <system turn>}.

    An empty system turn is left out.
    """
    texts: dict[str, str] = {}
    for prompt in prompts:
        texts[prompt.name] = prompt.text
        if prompt.system:
            texts[f"{prompt.name}, system"] = prompt.system
    return texts
