"""A chat template cut into the pieces that stand between contents, by rendering it with sentinels.

    begin  content  mid  content  next  content  mid ...
    |               |             |
    BOS + user head end of user   end of reply
                    + reply head  + user head

Contents are encoded on their own, so what a document says can never become part of a piece. A
template is a program from whoever made the model: it is rendered in Jinja's sandbox, as
transformers does.
"""

import datetime
import functools
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

from jinja2 import Template, TemplateError, meta, nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from harness.config.schema import Thinking
from harness.errors import CannotRun

_SYSTEM, _USER, _REPLY, _SECOND_USER = "qXsystemXq", "qXuserXq", "qXreplyXq", "qXagainXq"
# What a document may look like inside: a template that changes any of it would make feeding piece
# by piece a lie.
_ROUGH_TEXT = "qXa  b\n\n\n* C <x> </think> {{ d }} #Xq"

_HINT = "set model.template=none or give a template file with model.template=FILE"


@dataclass(frozen=True)
class Pieces:
    """The texts that a chat template puts between contents; see the module's drawing.

    Attributes:
        begin: Before the first user turn's content.
        mid: Between a user turn's content and the reply.
        next: Between a reply and the next user turn's content.
        trims: Whether the template strips white space around a content (Llama-3.1's does).
        system: What stands before a system turn's content, and between it and the first user
            turn's; None where the template has no system role.
        thinks: After `mid`, what opens a reasoning model's thinking, or is an empty one.
        closed: Whether `thinks` ends the thinking.
    """

    begin: str
    mid: str
    next: str
    trims: bool = False
    system: tuple[str, str] | None = None
    thinks: str = ""
    closed: bool = False


PLAIN = Pieces(begin="", mid="\n", next="\n\n")


class Framed(Protocol):
    """Pieces of a chat template as token ids; system: before and after a system turn's content."""

    name: str
    begin: list[int]
    mid: list[int]
    next: list[int]
    system: tuple[list[int], list[int]] | None


def turn_frame(model: Framed, before: str, turn: str) -> list[int]:
    """The template's tokens between two turns.

    Args:
        model: With the template's pieces.
        before: The turn that is open; "start" for none.
        turn: The turn that begins.

    Raises:
        CannotRun: The template has no system turn.
    """
    if turn == "system":
        if model.system is None:
            raise no_system(model.name)
        return model.system[0]
    if turn == "reply":
        return model.mid
    if before == "system" and model.system is not None:
        return model.system[1]
    if before == "start":
        return model.begin
    return model.next


def no_system(name: str) -> CannotRun:
    """The error for a system turn in a prompt to the model `name`, whose template has no system
    role."""
    return CannotRun(
        f"the chat template of '{name}' has no system role, but a prompt in use has a system turn; "
        "replace that "
        "prompt, or give a template that has the role with model.template=FILE"
    )


def template_words(name: str) -> str:
    """The words by which messages name the chat template of the model `name`."""
    return f"the chat template of '{name}'"


def cut_template(
    template: str,
    tokens: Mapping[str, object],
    name: str,
    date: str,
    thinking: Thinking | None = None,
    extra: Mapping[str, object] | None = None,
) -> Pieces:
    """Cut the chat template of the model `name` into pieces.

    Args:
        template: Its text.
        tokens: What it may name: "bos_token" -> "<s>".
        name: The model's name, for messages.
        date: The day that the template is shown as today ("26 Jul 2024").
        thinking: Markers of a reasoning model; it may open the thinking of a reply that is to be
            written, which earlier replies do not have.
        extra: Further variables (enable_thinking), which it must have.

    Raises:
        CannotRun: It drops, repeats or rewrites a content, or fails.
    """
    applied = _AppliedTemplate(template, tokens, name, date, extra or {})
    once = applied.to_turns(_USER)
    applied.check_extra()
    thrice = applied.to_turns(_USER, _REPLY, _SECOND_USER)
    begin, after_user = _split_at(once, [_USER], name)
    parts = _split_at(thrice, [_USER, _REPLY, _SECOND_USER], name)
    mid, thinks = after_user, ""
    if after_user != parts[1] and after_user.startswith(parts[1]):
        mid, thinks = parts[1], after_user.removeprefix(parts[1])
    closed = (thinking or Thinking()).close in thinks
    opens_unknown_thinking = bool(thinks) and not (thinking or closed)
    if (parts[0], parts[3], parts[1]) != (begin, after_user, mid) or opens_unknown_thinking:
        hint = ""
        if thinks:
            hint = "for a reasoning model set model.thinking.tokens=4096, else "
        raise CannotRun(
            f"{template_words(name)} changes earlier turns when the conversation grows, so tokens "
            f"would have to go through the model twice; {hint}{_HINT}"
        )
    if _ROUGH_TEXT not in applied.to_turns(_ROUGH_TEXT):
        raise CannotRun(f"{template_words(name)} rewrites what a user turn says; {_HINT}")
    trims = f" {_USER} " not in applied.to_turns(f" {_USER} ")
    return Pieces(begin, mid, parts[2], trims, _system_pieces(applied.to), thinks, closed)


class _AppliedTemplate:
    """A chat template with the variables that it gets."""

    def __init__(
        self,
        template: str,
        tokens: Mapping[str, object],
        name: str,
        date: str,
        extra: Mapping[str, object],
    ) -> None:
        """Args: as of `cut_template`."""
        self._template = template
        self._name = name
        self._extra = extra
        self._variables: dict[str, object] = {
            "tools": None,
            "documents": None,
            "add_generation_prompt": True,
            "date_string": date,
            "strftime_now": datetime.datetime.strptime(date, "%d %b %Y").strftime,
            **tokens,
        }
        self._program: Template | None = None

    def to(self, messages: list[dict[str, str]]) -> str:
        """The template applied to messages. Raises what the template raises."""
        if self._program is None:
            self._program = environment().from_string(self._template)
        values = {**self._variables, **self._extra, "messages": messages}
        return str(self._program.render(values))

    def to_turns(self, *contents: str) -> str:
        """The template applied to user, assistant and user turns of these contents. Raises
        CannotRun."""
        turns = zip(("user", "assistant", "user"), contents, strict=False)
        try:
            return self.to([{"role": role, "content": content} for role, content in turns])
        except Exception as error:  # a template is a program of the model's maker
            reason = " ".join(str(error).split()) or type(error).__name__
            raise CannotRun(
                f"{template_words(self._name)} cannot be applied ({reason}); {_HINT}"
            ) from error

    def check_extra(self) -> None:
        """Raise CannotRun for a variable of the user's that the template does not have."""
        if not self._extra:
            return
        named = meta.find_undeclared_variables(environment().parse(self._template))
        free = named - {*self._variables, "messages"}
        unknown = sorted(self._extra.keys() - free)
        if unknown:
            has = "it has none"
            if free:
                has = f"it has {', '.join(sorted(free))}"
            raise CannotRun(
                f"model.extra.{unknown[0]}: {template_words(self._name)} has no such variable of "
                f"yours; {has}"
            )


class _Generation(Extension):
    """{% generation %} marks what a training learns; the text is as without it."""

    tags = {"generation"}  # noqa: RUF012 - as its base class has it

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """The content of the tag."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _raise_exception(message: str) -> NoReturn:
    """What a template calls to refuse messages."""
    raise TemplateError(message)


def _as_json(value: object, **how: Any) -> str:
    """The filter `tojson`, with letters of other scripts as they are."""
    return json.dumps(value, **{"ensure_ascii": False, **how})


@functools.cache
def environment() -> ImmutableSandboxedEnvironment:
    """Jinja's sandbox with the functions and tags that transformers gives chat templates.

    transformers' own `apply_chat_template` has today's date for `strftime_now`, and turns ours into
    a string.
    """
    sandbox = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, "jinja2.ext.loopcontrols"]
    )
    sandbox.globals["raise_exception"] = _raise_exception
    sandbox.filters["tojson"] = _as_json
    return sandbox


def _system_pieces(render: Callable[[list[dict[str, str]]], str]) -> tuple[str, str] | None:
    """The text before a system turn's content, and between it and a user turn's; None without a
    system role.

    render: messages -> text. A template without the role drops the content, or raises an error of
    its own.
    """
    messages = [{"role": "system", "content": _SYSTEM}, {"role": "user", "content": _USER}]
    try:
        rendered = render(messages)
    except Exception:  # noqa: BLE001 - a template may raise whatever it likes
        return None
    if rendered.count(_SYSTEM) != 1 or rendered.count(_USER) != 1:
        return None
    if rendered.index(_SYSTEM) > rendered.index(_USER):
        return None
    before, _, rest = rendered.partition(_SYSTEM)
    return before, rest.partition(_USER)[0]


def _split_at(text: str, sentinels: list[str], name: str) -> list[str]:
    """Split a rendered template at its contents.

    Args:
        text: The rendered template.
        sentinels: The contents, in their order.
        name: The model's name, for messages.

    Returns:
        What stands before, between and after the contents.

    Raises:
        CannotRun: A content is not there once.
    """
    parts = []
    for s in sentinels:
        if text.count(s) != 1:
            raise CannotRun(
                f"{template_words(name)} shows a content {text.count(s)} times instead of once; "
                f"{_HINT}"
            )
        before, text = text.split(s, 1)
        parts.append(before)
    return [*parts, text]
