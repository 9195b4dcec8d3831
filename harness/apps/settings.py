"""How an application is called: the settings in `model.extra`, checked, and what they identify.

settings = app_settings(config)       format's body and map, with what the user replaces
settings.request(question)            the JSON body of a question, as text
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from pydantic import Field, ValidationError

from harness.apps.calls import import_own_function
from harness.apps.formats import FORMATS
from harness.apps.reply import checked_map
from harness.apps.templates import check_no_secret, header_values, rendered_json
from harness.config.schema import Frozen, ModelConfig
from harness.config.yaml_tree import error_sentences
from harness.errors import UserError, unknown_name_error
from harness.storage.own_code_hash import own_code

OPTION = "--app"


@dataclass(frozen=True)
class AppQuestion:
    """What an application is asked: the variables of a body template.

    Attributes:
        question: The text of the question.
        name: The application's name.
        options: The options of a multiple-choice question.
        documents: Ids of the documents that the question is about.
        instruction: How to answer.
    """

    question: str
    name: str = ""
    options: tuple[str, ...] = ()
    documents: tuple[str, ...] = ()
    instruction: str = ""


class AppSettings(Frozen):
    """The keys of `model.extra` of an application.

    Attributes:
        function: "module:function" instead of an address.
        format: The name of a known form of requests and replies.
        map: Field of a reply -> its place, instead of the format's.
        body: The jinja2 template of a request's body, instead of the format's.
        headers: Of a request. "$NAME" is the value of an environment variable, which is read when a
            request is sent and stored nowhere.
    """

    function: str | None = None
    format: str = "json"
    map: dict[str, str] = Field(default_factory=dict)
    body: str | None = None
    headers: dict[str, str] = Field(default_factory=dict)

    @property
    def places(self) -> dict[str, str]:
        """Where each field of a reply stands, as the user says it or else
        the format: {"answer": "answer"}.
        """
        return {**FORMATS[self.format].map, **self.map}

    @property
    def template(self) -> str:
        """The jinja2 template of a request's body: the user's, or else the format's."""
        if self.body is not None:
            return self.body
        return FORMATS[self.format].body

    def request(self, question: AppQuestion) -> str:
        """The JSON body that asks a question. Raises CannotRun where the template gives no JSON."""
        return rendered_json(self.template, asdict(question), "--app-body")

    def header_values(self) -> dict[str, str]:
        """The headers of a request, with the values of environment variables. Raises Missing."""
        return header_values(self.headers, "application")

    def identity(self, config: ModelConfig) -> dict[str, object]:
        """All that is known here and changes an answer: address or function, body, headers, places.

        Of a function also the hashes of its code.
        """
        identity: dict[str, object] = {
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
            function = import_own_function(self.function, OPTION)
            identity |= {"function": self.function, "code": own_code(function)}
        return identity


def app_settings(config: ModelConfig) -> AppSettings:
    """Read and check the settings of an application, which are in `config.extra`.

    Raises UserError or CannotRun for wrong ones.
    """
    try:
        settings = AppSettings.model_validate(config.extra)
    except ValidationError as error:
        sentence = error_sentences(error, AppSettings, "model.extra", {})[0]
        raise UserError(sentence) from None
    if settings.format not in FORMATS:
        raise unknown_name_error(
            f"format '{settings.format}' (--app-format)", settings.format, FORMATS
        )
    checked_map(settings.places)
    if settings.function is None:
        settings.request(
            AppQuestion("Is this JSON?")
        )  # raises where the body's template gives none
        check_no_secret(settings.headers, "--app-header")
    elif settings.body is not None or settings.headers:
        raise UserError("--app-body and --app-header are for an address; a function takes none")
    return settings
