"""A chat template cut into the pieces that stand between contents, by rendering it with sentinels.

    before_first_user  content  before_reply  content  before_next_user  content  before_reply ...
    |                           |                      |
    BOS + user head             end of user            end of reply
                                + reply head           + user head

Contents are encoded on their own, so what a document says can never become part of a piece. A
template is a program from whoever made the model: it is rendered in Jinja's sandbox, as
transformers does.
"""

import datetime
import functools
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn, Protocol

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


class SystemTurnText(NamedTuple):
    """What a chat template puts around a system turn's content.

    Attributes:
        before: What stands before it.
        after: What stands between it and the first user turn's content.
    """

    before: str
    after: str


class SystemTurnTokens(NamedTuple):
    """The same as token ids.

    Attributes:
        before: What stands before a system turn's content.
        after: What stands between it and the first user turn's content.
    """

    before: list[int]
    after: list[int]


@dataclass(frozen=True)
class Pieces:
    """The texts that a chat template puts between contents; see the module's drawing.

    Attributes:
        before_first_user: Before the first user turn's content.
        before_reply: Between a user turn's content and the reply.
        before_next_user: Between a reply and the next user turn's content.
        trims_contents: Whether the template strips white space around a content (Llama-3.1's
            does).
        system: What stands around a system turn's content; None where the template has no system
            role.
        thinking_start: After `before_reply`, what opens a reasoning model's thinking, or is an
            empty one.
        closes_thinking: Whether `thinking_start` ends the thinking.
    """

    before_first_user: str
    before_reply: str
    before_next_user: str
    trims_contents: bool = False
    system: SystemTurnText | None = None
    thinking_start: str = ""
    closes_thinking: bool = False


PLAIN = Pieces(before_first_user="", before_reply="\n", before_next_user="\n\n")


class Framed(Protocol):
    """A model whose chat template's pieces are token ids.

    Attributes:
        name: The model's name, for messages.
        before_first_user_ids: What stands before the first user turn.
        before_reply_ids: What stands between a user turn and the reply.
        before_next_user_ids: What stands between a reply and the next user turn.
        system_turn_ids: What stands around a system turn's content; None where the template has no
            such turn.
    """

    name: str
    before_first_user_ids: list[int]
    before_reply_ids: list[int]
    before_next_user_ids: list[int]
    system_turn_ids: SystemTurnTokens | None


def turn_frame(model: Framed, open_turn: str, next_turn: str) -> list[int]:
    """The token ids that the template puts between two turns.

    Args:
        model: Has the template's pieces.
        open_turn: The turn that is open: "system", "user" or "reply"; "start" for none.
        next_turn: The turn that begins: "system", "user" or "reply".

    Raises:
        CannotRun: The template has no system turn.
    """
    if next_turn == "system":
        if model.system_turn_ids is None:
            raise no_system_error(model.name)
        return model.system_turn_ids.before
    if next_turn == "reply":
        return model.before_reply_ids
    if open_turn == "system" and model.system_turn_ids is not None:
        return model.system_turn_ids.after
    if open_turn == "start":
        return model.before_first_user_ids
    return model.before_next_user_ids


def no_system_error(model_name: str) -> CannotRun:
    """The error for a prompt with a system turn to a model whose template has no system role."""
    return CannotRun(
        f"the chat template of '{model_name}' has no system role, but a prompt in use has a system "
        "turn; replace that prompt, or give a template that has the role with model.template=FILE"
    )


def template_words(model_name: str) -> str:
    """The words by which messages name the chat template of a model: "the chat template of
    'm'"."""
    return f"the chat template of '{model_name}'"


def cut_template(
    template: str,
    tokens: Mapping[str, object],
    name: str,
    date: str,
    thinking: Thinking | None = None,
    extra: Mapping[str, object] | None = None,
) -> Pieces:
    """Cut the chat template of the model `name` into pieces: what it puts before, between and after
    the contents of turns, found by applying it to made-up contents.

        a template that makes "<s>[INST]Q[/INST]A</s>[INST]Q2[/INST]" of the contents Q, A and Q2
            -> Pieces(before_first_user="<s>[INST]", before_reply="[/INST]",
                      before_next_user="</s>[INST]")

    Args:
        template: Its text.
        tokens: What it may name: "bos_token" -> "<s>".
        name: The model's name, for messages.
        date: The day that the template is shown as today ("26 Jul 2024").
        thinking: Markers of a reasoning model; it may open the thinking of a reply that is to be
            written, which earlier replies do not have.
        extra: Further variables (enable_thinking), which it must have.

    Raises:
        CannotRun: It drops, repeats or rewrites a content, shows a turn otherwise once others
            follow it, opens a thinking whose markers are not set, or fails.
    """
    applied = _AppliedTemplate(template, tokens, name, date, extra or {})
    rendered_turn = applied.to_turns(_USER)
    applied.check_extra()
    rendered_turns = applied.to_turns(_USER, _REPLY, _SECOND_USER)
    one_turn = _split_one_turn(rendered_turn, name)
    three_turns = _split_three_turns(rendered_turns, name)
    thinking_start = _thinking_start(one_turn.after_user, three_turns.before_reply)
    before_reply = one_turn.after_user.removesuffix(thinking_start)
    shows_turns_alike = three_turns == _ThreeTurns(
        before_user=one_turn.before_user,
        before_reply=before_reply,
        after_reply=three_turns.after_reply,  # one turn has no such part
        after_second_user=one_turn.after_user,
    )
    end_of_thinking = Thinking().close
    if thinking is not None:
        end_of_thinking = thinking.close
    closes_thinking = end_of_thinking in thinking_start
    opens_thinking = bool(thinking_start) and not closes_thinking
    if not shows_turns_alike or (opens_thinking and thinking is None):
        raise _changed_turns_error(name, thinking_start)
    if _ROUGH_TEXT not in applied.to_turns(_ROUGH_TEXT):
        raise CannotRun(f"{template_words(name)} rewrites what a user turn says; {_HINT}")
    return Pieces(
        before_first_user=one_turn.before_user,
        before_reply=before_reply,
        before_next_user=three_turns.after_reply,
        trims_contents=f" {_USER} " not in applied.to_turns(f" {_USER} "),
        system=_system_pieces(applied.to_messages),
        thinking_start=thinking_start,
        closes_thinking=closes_thinking,
    )


class _OneTurn(NamedTuple):
    """What a template puts around the content of a single user turn.

    Attributes:
        before_user: Before the content.
        after_user: After it, where a reply is to follow.
    """

    before_user: str
    after_user: str


class _ThreeTurns(NamedTuple):
    """What a template puts around the contents of a user turn, a reply and a second user turn.

    Attributes:
        before_user: Before the first content.
        before_reply: Between it and the reply.
        after_reply: Between the reply and the second user turn's content.
        after_second_user: After that, where a reply is to follow.
    """

    before_user: str
    before_reply: str
    after_reply: str
    after_second_user: str


def _split_one_turn(rendered: str, name: str) -> _OneTurn:
    """What stands around the content _USER in a rendered template.

    Args:
        rendered: The text that the template makes of that content.
        name: The model's name, for messages.

    Raises:
        CannotRun: The content is not there once.
    """
    before_user, after_user = _split_at(rendered, [_USER], name)
    return _OneTurn(before_user, after_user)


def _split_three_turns(rendered: str, name: str) -> _ThreeTurns:
    """What stands around the contents _USER, _REPLY and _SECOND_USER in a rendered template.

    Args:
        rendered: The text that the template makes of these contents.
        name: The model's name, for messages.

    Raises:
        CannotRun: A content is not there once.
    """
    parts = _split_at(rendered, [_USER, _REPLY, _SECOND_USER], name)
    before_user, before_reply, after_reply, after_second_user = parts
    return _ThreeTurns(before_user, before_reply, after_reply, after_second_user)


def _thinking_start(after_user: str, before_earlier_reply: str) -> str:
    """What a template puts in front of a reply that is to be written and not in front of an earlier
    one: it opens a thinking, or is an empty one. "" where both are alike, or differ otherwise.

    "[/INST]<think>", "[/INST]" -> "<think>"

    Args:
        after_user: What it puts after a user turn that a reply is to follow.
        before_earlier_reply: What it puts between a user turn and a reply that is there.
    """
    if not after_user.startswith(before_earlier_reply):
        return ""
    return after_user.removeprefix(before_earlier_reply)


def _changed_turns_error(name: str, thinking_start: str) -> CannotRun:
    """The error for a template that shows a turn otherwise once others follow it.

    Args:
        name: The model's name.
        thinking_start: What opens the thinking of a reply; "" for nothing.
    """
    hint = ""
    if thinking_start:
        hint = "for a reasoning model set model.thinking.tokens=4096, else "
    return CannotRun(
        f"{template_words(name)} changes earlier turns when the conversation grows, so tokens "
        f"would have to go through the model twice; {hint}{_HINT}"
    )


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
        """Keep a template with the variables that it gets; it is compiled at its first use.

        Args:
            template: The text of the template.
            tokens: What it may name: "bos_token" -> "<s>".
            name: The model's name, for messages.
            date: The day that the template is shown as today ("26 Jul 2024").
            extra: Further variables of the user's.
        """
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

    def to_messages(self, messages: list[dict[str, str]]) -> str:
        """The text that the template makes of messages ({"role": "user", "content": "Hi"}). Raises
        what the template raises."""
        if self._program is None:
            self._program = environment().from_string(self._template)
        values = {**self._variables, **self._extra, "messages": messages}
        return str(self._program.render(values))

    def to_turns(self, *contents: str) -> str:
        """The text that the template makes of a user turn, a reply and a second user turn, as many
        as there are contents. Raises CannotRun where the template fails."""
        turns = zip(("user", "assistant", "user"), contents, strict=False)
        try:
            return self.to_messages([{"role": role, "content": content} for role, content in turns])
        except Exception as error:  # a template is a program of the model's maker
            reason = " ".join(str(error).split()) or type(error).__name__
            raise CannotRun(
                f"{template_words(self._name)} cannot be applied ({reason}); {_HINT}"
            ) from error

    def check_extra(self) -> None:
        """Raise CannotRun for a variable of the user's that the template does not have."""
        if not self._extra:
            return
        variables = meta.find_undeclared_variables(environment().parse(self._template))
        free_variables = variables - {*self._variables, "messages"}
        unknown = sorted(self._extra.keys() - free_variables)
        if unknown:
            what_it_has = "it has none"
            if free_variables:
                what_it_has = f"it has {', '.join(sorted(free_variables))}"
            raise CannotRun(
                f"model.extra.{unknown[0]}: {template_words(self._name)} has no such variable of "
                f"yours; {what_it_has}"
            )


class _Generation(Extension):
    """{% generation %} marks what a training learns; the text is as without it."""

    tags = {"generation"}  # noqa: RUF012 - as its base class has it

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """The nodes between the tag and its end, as if the tag were not there."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _raise_exception(message: str) -> NoReturn:
    """What a template calls to refuse messages."""
    raise TemplateError(message)


def _as_json(value: object, **how: Any) -> str:
    """A value as JSON, for the filter `tojson` of templates; letters of other scripts stay as they
    are.

    Args:
        value: The value.
        **how: Arguments of json.dumps.
    """
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


def _system_pieces(render: Callable[[list[dict[str, str]]], str]) -> SystemTurnText | None:
    """The text around a system turn's content; None where the template has no system role.

    Args:
        render: Applies the template: messages -> text. For a template without the role the text
            lacks the content, or an error is raised.
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
    after, _, _ = rest.partition(_USER)
    return SystemTurnText(before, after)


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
    rest = text
    for sentinel in sentinels:
        if rest.count(sentinel) != 1:
            raise CannotRun(
                f"{template_words(name)} shows a content {rest.count(sentinel)} times instead of "
                f"once; {_HINT}"
            )
        before, rest = rest.split(sentinel, 1)
        parts.append(before)
    return [*parts, rest]
