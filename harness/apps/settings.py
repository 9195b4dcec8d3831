"""How an application is called: the settings in `model.extra`, checked, and what they identify.

settings = app_settings(config)       format's body and map, with what the user replaces
settings.request(question)            the JSON body of a question, as text
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from jinja2 import StrictUndefined, TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from pydantic import Field, ValidationError

from harness.apps.formats import FORMATS
from harness.apps.reply import compiled_map
from harness.config import registry
from harness.config.schema import Frozen, ModelConfig
from harness.config.yaml_tree import error_sentences
from harness.errors import CannotRun, Missing, UserError, unknown
from harness.storage.own_code_hash import own_code

_VARIABLE = re.compile(r"\$\{?([A-Za-z_]\w*)\}?")
_SECRET_NAME = re.compile(r"authorization|cookie|key|token|secret|password", re.IGNORECASE)


@dataclass(frozen=True)
class AppQuestion:
    """What an application is asked: the variables of a body template.

    name: of the application; options: of a multiple-choice question; documents: ids.
    """

    question: str
    name: str = ""
    options: tuple[str, ...] = ()
    documents: tuple[str, ...] = ()
    instruction: str = ""


class AppSettings(Frozen):
    """The keys of `model.extra` of an application.

    function: "module:function" instead of an address; headers: "$NAME" is the value of an
    environment variable, which is read when a request is sent and stored nowhere.
    """

    function: str | None = None
    format: str = "json"
    map: dict[str, str] = Field(default_factory=dict)
    body: str | None = None
    headers: dict[str, str] = Field(default_factory=dict)

    @property
    def places(self) -> dict[str, str]:
        """Field of a reply -> where it stands."""
        return {**FORMATS[self.format].map, **self.map}

    @property
    def template(self) -> str:
        """The jinja2 template of a request's body."""
        return FORMATS[self.format].body if self.body is None else self.body

    def request(self, question: AppQuestion) -> str:
        """The body of a request. Raises CannotRun where the template gives no JSON."""
        environment = ImmutableSandboxedEnvironment(autoescape=False, undefined=StrictUndefined)
        try:
            text = environment.from_string(self.template).render(asdict(question))
            json.loads(text)
        except (TemplateError, ValueError, TypeError) as error:
            raise CannotRun(
                f"--app-body: the template gives no JSON ({error}); write texts as "
                "{{ question | tojson }}"
            ) from None
        return text

    def header_values(self) -> dict[str, str]:
        """The headers with the values of environment variables. Raises Missing."""
        return {name: _with_variables(value) for name, value in self.headers.items()}

    def identity(self, config: ModelConfig) -> dict[str, Any]:
        """All that changes an answer, as far as it is known here."""
        identity: dict[str, Any] = {
            "application": config.source,
            "map": self.places,
            "revision": config.revision,
        }
        if self.function is None:
            identity |= {
                "address": config.base_url,
                "body": self.template,
                "headers": dict(self.headers),
            }
        else:
            identity |= {"function": self.function, "code": own_code(app_function(self.function))}
        return identity


def app_settings(config: ModelConfig) -> AppSettings:
    """The settings of an application. Raises UserError, CannotRun for wrong ones."""
    try:
        settings = AppSettings.model_validate(config.extra)
    except ValidationError as error:
        sentence = error_sentences(error, AppSettings, "model.extra", {})[0]
        raise UserError(sentence) from None
    if settings.format not in FORMATS:
        raise unknown(f"format '{settings.format}' (--app-format)", settings.format, FORMATS)
    compiled_map(settings.places)
    if settings.function is None:
        settings.request(AppQuestion("Is this JSON?"))
        _check_no_secret(settings.headers)
    elif settings.body is not None or settings.headers:
        raise UserError("--app-body and --app-header are for an address; a function takes none")
    return settings


def _check_no_secret(headers: Mapping[str, str]) -> None:
    """Raise UserError for a header that holds a key itself: settings are stored."""
    for name, value in headers.items():
        if _SECRET_NAME.search(name) and not _VARIABLE.search(value):
            raise UserError(
                f"--app-header {name}=...: put the value into an environment variable and name "
                f"that, as settings are stored: --app-header '{name}=$NAME'"
            )


def app_function(target: str) -> Any:
    """The function "module:name". Raises UserError for one that nobody chose or that is not
    there."""
    registry.check_trusted(target)
    function = registry.import_target(target)
    if not callable(function):
        raise UserError(f"--app {target}: is no function")
    return function


def _with_variables(value: str) -> str:
    """A header's value with environment variables in place of their names."""

    def of_environment(found: re.Match[str]) -> str:
        name = found.group(1)
        text = os.environ.get(name, "").strip()
        if not text:
            raise Missing(
                f"the environment variable {name}, which a header of the application needs, is "
                f"not set; set it with: export {name}=...",
                f"the header's value in {name}",
            )
        return text

    return _VARIABLE.sub(of_environment, value)
