"""Applications of the user's own: `--app NAME=URL` or `--app NAME=module:function`.

    chosen = chosen_applications(["old=http://localhost:8000/ask"], CallOptions("--app"))
    chosen[0].name        "old", the name in tables, in place of a method's
    chosen[0].settings    what stands for it in a RunConfig: a method, and the back end that calls it

What the settings mean is in harness/apps/settings.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from harness.config import presets
from harness.errors import UserError, comparable_name

APPLICATION = "application"
"""The short name of the method and of the back end, and the name of the model in tables."""
_NAME = re.compile(r"[A-Za-z0-9][\w.+-]*")
_FUNCTION_TARGET = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


@dataclass(frozen=True)
class CallOptions:
    """How the applications, or the retriever, of a command are called.

    Attributes:
        option: The option that names them: "--app".
        map: Field of a reply ("answer") -> where it stands, in JMESPath.
        format: Name of a known form of requests and replies; None: "json".
        body: File with the jinja2 template of a request.
        headers: Name -> value; "$NAME" is the value of an environment variable.
        key: Name of the environment variable that holds the key.
    """

    option: str
    map: Mapping[str, str] = field(default_factory=dict)
    format: str | None = None
    body: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    key: str | None = None

    @property
    def is_any_given(self) -> bool:
        """Whether the user gave any of the options beside `option`."""
        return self != CallOptions(self.option)


@dataclass(frozen=True)
class ChosenApplication:
    """An application to run.

    Attributes:
        name: In tables, in place of a method's.
        url: Its address; None for a function.
        function: "module:name"; None for an address.
        key: Name of the environment variable that holds its key.
        call: How it is called: format, map, headers, body (harness/apps/settings.py).
    """

    name: str
    url: str | None
    function: str | None
    key: str | None
    call: Mapping[str, object]

    @property
    def settings(self) -> dict[str, object]:
        """The sections "method" and "model" of a RunConfig that runs the application.

        `call` stands in "extra", which the back end reads.

            {"method": {"name": "bot", "implementation": "application"},
             "model": {"name": "application", "backend": "application", "source": "bot",
                       "base_url": "http://localhost:8000/ask", "extra": {}}}
        """
        extra = dict(self.call)
        model: dict[str, object] = {
            "name": APPLICATION,
            "backend": APPLICATION,
            "source": self.name,
            "extra": extra,
        }
        if self.url is not None:
            model["base_url"] = self.url
        if self.function is not None:
            extra["function"] = self.function
        if self.key is not None:
            model["api_key_env"] = self.key
        method = {"name": self.name, "implementation": APPLICATION}
        return {"method": method, "model": model}


def chosen_applications(
    named: Sequence[str], options: CallOptions, base_folder: Path | None = None
) -> list[ChosenApplication]:
    """Parse the applications of a command: ["old=http://localhost:8000/ask"].

    Args:
        named: As typed: "URL", "module:function", or either after "NAME=".
        options: How all of them are called.
        base_folder: Where a relative body template is; None: the current folder.

    Raises:
        UserError: A text that names no application, a name that is taken, or options without one.
    """
    if options.is_any_given and not named:
        raise UserError("--app-map and the other --app-... options are for --app; name one")
    call = call_settings(options, base_folder or Path())
    chosen: list[ChosenApplication] = []
    for text in named:
        target = parse_named_target(text, options.option, default_name="app")
        _check_name(target.name, [app.name for app in chosen])
        chosen.append(
            ChosenApplication(
                name=target.name,
                url=target.url,
                function=target.function,
                key=options.key,
                call=call,
            )
        )
    return chosen


def call_settings(options: CallOptions, folder: Path) -> dict[str, object]:
    """The settings that the options give: {"format": ..., "map": ..., "headers": ..., "body": ...}.

    What is not given is left out. Also reads the file of the template.

    Args:
        options: The options of the command.
        folder: Where a relative body template is.

    Raises:
        UserError: The template cannot be read.
    """
    settings: dict[str, object] = {}
    if options.format is not None:
        settings["format"] = options.format
    if options.map:
        settings["map"] = dict(options.map)
    if options.headers:
        settings["headers"] = dict(options.headers)
    if options.body is not None:
        path = folder / Path(options.body).expanduser()
        try:
            settings["body"] = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            sentence = f"{options.option}-body: {options.body} cannot be read ({error})"
            raise UserError(sentence) from None
    return settings


class NamedTarget(NamedTuple):
    """What a command calls: its name in tables, and either its address or its function.

    One of `url` and `function` ("module:name") is None.
    """

    name: str
    url: str | None
    function: str | None


def parse_named_target(text: str, option: str, default_name: str) -> NamedTarget:
    """Split what was typed into a name, and an address or function.

        "old=http://host/ask" -> NamedTarget("old", url="http://host/ask", function=None)
        "mine:ask"            -> NamedTarget("ask", url=None, function="mine:ask")

    Args:
        text: What was typed.
        option: The option that it was typed for, for messages.
        default_name: The name of an address without one.

    Raises:
        UserError: The text is neither an address nor a function.
    """
    name, equals, target = text.partition("=")
    if not equals or not _NAME.fullmatch(name):
        name, target = "", text
    if "://" in target:
        return NamedTarget(name or default_name, url=target, function=None)
    if _FUNCTION_TARGET.fullmatch(target):
        _, _, function_name = target.partition(":")
        return NamedTarget(name or function_name, url=None, function=target)
    raise UserError(
        f"{option} {text}: should be NAME=http://HOST:PORT/PATH or NAME=module:function"
    )


def _check_name(name: str, names_of_others: Sequence[str]) -> None:
    """Raise UserError for a name that another application or a method has."""
    if name in names_of_others:
        raise UserError(f"two applications are called '{name}'; name each: --app old=URL,new=URL")
    methods = {comparable_name(method) for method in presets.names("methods")}
    if comparable_name(name) in methods:
        raise UserError(f"--app {name}=...: '{name}' is a method; give it another name")
