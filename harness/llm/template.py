"""A chat template cut into the pieces that stand between contents, by rendering it with sentinels.

    begin  content  mid  content  next  content  mid ...
    |               |             |
    BOS + user head end of user   end of reply
                    + reply head  + user head

Contents are encoded on their own, so what a document says can never become part of a piece. A template is a program
from whoever made the model: it is rendered in Jinja's sandbox, in a child process with limits of time and memory.
"""

import datetime
import functools
import json
import os
import resource
import select
import signal
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any, Protocol

from harness.config.schema import Thinking, canonical
from harness.errors import CannotRun

_SYSTEM, _USER, _REPLY, _SECOND = "qXsystemXq", "qXuserXq", "qXreplyXq", "qXagainXq"
# What a document may look like inside: a template that changes any of it would make feeding piece by piece a lie.
_ROUGH_TEXT = "qXa  b\n\n\n* C <x> </think> {{ d }} #Xq"

SECONDS, MEMORY, LONGEST = 10.0, 1 << 28, 1 << 20
"""What rendering a template may take: seconds, bytes of memory beyond what is in use, bytes of its result."""
_HINT = "set model.template=none or give a template file with model.template=FILE"
_RENDERED: dict[Hashable, Any] = {}  # results of `run_limited` by key: forking a program with models takes 0.1 s


@dataclass(frozen=True)
class Pieces:
    """The texts that a chat template puts between contents: begin, mid and next as in the module's drawing.

    trims: the template strips white space around a content (Llama-3.1's does). system: what stands before a system
    turn's content and between it and the first user turn's, None where the template has no system role. thinks: behind
    `mid`, what opens a reasoning model's thinking, or is an empty one (closed: it ends its thinking).
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
    """Pieces of a chat template as token ids; system: before and behind a system turn's content."""

    name: str
    begin: list[int]
    mid: list[int]
    next: list[int]
    system: tuple[list[int], list[int]] | None


def turn_frame(model: Framed, before: str, turn: str) -> list[int]:
    """Template tokens from turn `before` ("start": none) to `turn`. Raises CannotRun where it has no system turn."""
    if turn == "system":
        if model.system is None:
            raise no_system(model.name)
        return model.system[0]
    if turn == "reply":
        return model.mid
    if before == "system" and model.system is not None:
        return model.system[1]
    return model.begin if before == "start" else model.next


def no_system(name: str) -> CannotRun:
    """The error for a system turn in a prompt to the model `name`, whose template has no system role."""
    return CannotRun(
        f"the chat template of '{name}' has no system role, but a prompt in use has a system turn; replace that "
        "prompt, or give a template that has the role with model.template=FILE"
    )


def template_words(name: str) -> str:
    """The words by which messages name the chat template of the model `name`."""
    return f"the chat template of '{name}'"


def cut_template(
    template: str,
    tokens: Mapping[str, Any],
    name: str,
    date: str,
    thinking: Thinking | None = None,
    extra: Mapping[str, Any] | None = None,
) -> Pieces:
    """Cut the chat template of the model `name` into pieces; equal templates are rendered once a process.

    Args:
        template: its text.
        tokens: what it may name: "bos_token" -> "<s>".
        name: of the model, for messages.
        date: the day that the template is shown as today ("26 Jul 2024").
        thinking: markers of a reasoning model; it may open the thinking of a reply that is to be written, which earlier
            replies do not have.
        extra: further variables (enable_thinking), which it must have.

    Raises CannotRun, naming the template, when it drops, repeats or rewrites a content, fails, or exceeds a limit.
    """
    key = ("cut", template, str(tokens), date, thinking, canonical(extra or {}))
    begin, mid, after, trims, system, *thinks = run_limited(
        lambda: astuple(_cut(template, tokens, name, date, thinking or Thinking(), bool(thinking), extra or {})),
        template_words(name),
        key,
    )
    return Pieces(begin, mid, after, trims, tuple(system) if system else None, *thinks)


@functools.cache
def environment() -> Any:
    """Jinja's sandbox with the functions and tags that transformers gives chat templates.

    transformers' own `apply_chat_template` has today's date for `strftime_now`, and turns ours into a string.
    """
    from jinja2 import TemplateError
    from jinja2.ext import Extension
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """{% generation %} marks what a training learns; the text is as without it."""

        tags = {"generation"}  # noqa: RUF012 - as its base class has it

        def parse(self, parser: Any) -> Any:
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    def raise_exception(message: str) -> None:
        raise TemplateError(message)

    made = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, "jinja2.ext.loopcontrols"]
    )
    made.globals["raise_exception"] = raise_exception
    made.filters["tojson"] = lambda value, **how: json.dumps(value, **{"ensure_ascii": False, **how})
    return made


@dataclass(frozen=True)
class Limits:
    """What a child process may take (seconds, bytes of memory), and what to do about a file that takes more."""

    seconds: float
    memory: int
    hint: str


def run_limited(step: Callable[[], Any], what: str, key: Hashable | None = None, limits: Limits | None = None) -> Any:
    """Call `step` in a child process with limits, and return its result, a JSON value; what: its name in messages.

    key: all that `step` depends on, so that it runs once for equal keys (None: every time); limits: by default those of
    a chat template. Raises CannotRun where it fails, or takes more than the limits or LONGEST allow.
    """
    if key is not None and key in _RENDERED:
        return _RENDERED[key]
    import jinja2.sandbox  # noqa: F401 - a child of a program with threads should import nothing

    limits = limits or Limits(SECONDS, MEMORY, _HINT)
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        _run_child(step, writing, limits)
    os.close(writing)
    end, answer = time.monotonic() + limits.seconds, b""
    try:
        while len(answer) <= LONGEST and select.select([reading], [], [], max(end - time.monotonic(), 0))[0]:
            piece = os.read(reading, 1 << 16)
            if not piece:
                break
            answer += piece
    finally:
        os.close(reading)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    try:
        kind, value = json.loads(answer)
    except ValueError:
        raise CannotRun(
            f"{what} takes more than {limits.seconds:g} seconds, {limits.memory >> 20} MiB of memory or "
            f"{LONGEST >> 20} MiB of text; {limits.hint}"
        ) from None
    if kind == "value":
        if key is not None:
            _RENDERED[key] = value
        return value
    raise CannotRun(value if kind == "refused" else f"{what} fails ({value}); {limits.hint}")


def _run_child(step: Callable[[], Any], writing: int, limits: Limits) -> None:
    """Run `step` in the child; write ["value", ...], ["refused", why] or ["failed", why] to pipe `writing`; exit."""
    try:
        # A parent that is killed leaves no child running for ever.
        _lower_limit(resource.RLIMIT_CPU, int(limits.seconds) + 1)
        _lower_limit(resource.RLIMIT_CORE, 0)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # libraries of other languages print what they panic about
        size = Path("/proc/self/statm")
        if size.exists():
            _lower_limit(resource.RLIMIT_AS, int(size.read_text().split()[0]) * resource.getpagesize() + limits.memory)
        try:
            answer = ["value", step()]
        except CannotRun as e:
            answer = ["refused", str(e)]
        except MemoryError:
            os._exit(1)
        except BaseException as e:  # noqa: BLE001 - templates raise what they like; the parent says it
            answer = ["failed", f"{type(e).__name__}: {e}"[:500]]
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(json.dumps(answer).encode())
    finally:
        os._exit(0)


def _lower_limit(which: int, limit: int) -> None:
    """Set a soft limit of this process, at most its hard one. which: resource.RLIMIT_*."""
    hard = resource.getrlimit(which)[1]
    resource.setrlimit(which, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))


def _cut(
    template: str,
    tokens: Mapping[str, Any],
    name: str,
    date: str,
    markers: Thinking,
    thinking: bool,
    extra: Mapping[str, Any],
) -> Pieces:
    """Cut the template as `cut_template` does, in this process. thinking: whether the model may think."""
    from jinja2 import meta

    variables = {
        "tools": None,
        "documents": None,
        "add_generation_prompt": True,
        "date_string": date,
        "strftime_now": datetime.datetime.strptime(date, "%d %b %Y").strftime,
        **tokens,
    }
    program = functools.cache(environment().from_string)

    def render(messages: list[dict[str, str]]) -> str:
        return str(program(template).render(messages=messages, **variables, **extra))

    def rendered(*contents: str) -> str:
        """The template applied to user, assistant and user turns of these contents. Raises CannotRun."""
        roles = ("user", "assistant", "user")
        try:
            return render([{"role": r, "content": c} for r, c in zip(roles, contents, strict=False)])
        except Exception as error:  # a template is a program of the model's maker
            why = " ".join(str(error).split()) or type(error).__name__
            raise CannotRun(f"{template_words(name)} cannot be applied ({why}); {_HINT}") from error

    if extra:
        free = meta.find_undeclared_variables(environment().parse(template)) - {*variables, "messages"}
        if wrong := sorted(extra.keys() - free):
            has = f"it has {', '.join(sorted(free))}" if free else "it has none"
            raise CannotRun(f"model.extra.{wrong[0]}: {template_words(name)} has no such variable of yours; {has}")
    once, thrice = rendered(_USER), rendered(_USER, _REPLY, _SECOND)
    begin, asked = _split_at(once, [_USER], name)
    parts = _split_at(thrice, [_USER, _REPLY, _SECOND], name)
    mid, thinks = asked, ""
    if asked != parts[1] and asked.startswith(parts[1]):
        mid, thinks = parts[1], asked.removeprefix(parts[1])
    closed = markers.close in thinks
    if parts[0] != begin or parts[3] != asked or parts[1] != mid or (thinks and not (thinking or closed)):
        hint = "for a reasoning model set model.thinking.tokens=4096, else " if thinks else ""
        raise CannotRun(
            f"{template_words(name)} changes earlier turns when the conversation grows, so tokens would have to go "
            f"through the model twice; {hint}{_HINT}"
        )
    if _ROUGH_TEXT not in rendered(_ROUGH_TEXT):
        raise CannotRun(f"{template_words(name)} rewrites what a user turn says; {_HINT}")
    trims = f" {_USER} " not in rendered(f" {_USER} ")
    return Pieces(begin, mid, parts[2], trims, _system_pieces(render), thinks, closed)


def _system_pieces(render: Callable[[list[dict[str, str]]], str]) -> tuple[str, str] | None:
    """The text before a system turn's content, and between it and a user turn's; None without a system role.

    render: messages -> text. A template without the role drops the content, or raises an error of its own.
    """
    try:
        rendered = render([{"role": "system", "content": _SYSTEM}, {"role": "user", "content": _USER}])
    except Exception:  # noqa: BLE001 - a template may raise whatever it likes
        return None
    if rendered.count(_SYSTEM) != 1 or rendered.count(_USER) != 1 or rendered.index(_SYSTEM) > rendered.index(_USER):
        return None
    before, _, rest = rendered.partition(_SYSTEM)
    return before, rest.partition(_USER)[0]


def _split_at(text: str, sentinels: list[str], name: str) -> list[str]:
    """The parts of `text` around the sentinels. Raises CannotRun, naming `name`, where one is not there once."""
    parts = []
    for s in sentinels:
        if text.count(s) != 1:
            raise CannotRun(f"{template_words(name)} shows a content {text.count(s)} times instead of once; {_HINT}")
        before, text = text.split(s, 1)
        parts.append(before)
    return [*parts, text]
