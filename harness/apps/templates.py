"""What users say of requests and replies: templates of bodies, headers, and places in JSON.

rendered_json('{"q": {{ question | tojson }}}', {"question": "Who?"}, "--app-body")     -> '{"q": "Who?"}'
header_values({"X-Key": "$WIKI_KEY"}, "--app-header")                  the value of the environment variable
places = compiled({"answer": "data.text"}, ("answer",), "--app-map")
places["answer"].found_in({"data": {"text": "two years"}})             -> "two years"
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import jmespath
from jinja2 import Environment, StrictUndefined, TemplateError, meta
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jmespath.exceptions import JMESPathError

from harness.errors import CannotRun, Missing, ModelOutputError, UserError, unknown_name_error

_VARIABLE = re.compile(r"\$\{?([A-Za-z_]\w*)\}?")
_SECRET_NAME = re.compile(r"authorization|cookie|key|token|secret|password", re.IGNORECASE)


def rendered_json(template: str, variables: Mapping[str, object], option: str) -> str:
    """Fill a jinja2 template of a JSON body.

        '{"q": {{ question | tojson }}}', {"question": "Who?"} -> '{"q": "Who?"}'

    Args:
        template: The template.
        variables: Name -> value.
        option: What names the template, for messages.

    Raises:
        CannotRun: The template gives no JSON.
    """
    environment = ImmutableSandboxedEnvironment(autoescape=False, undefined=StrictUndefined)
    try:
        text = environment.from_string(template).render(variables)
        json.loads(text)
    except (TemplateError, ValueError, TypeError) as error:
        example = next(iter(variables))
        raise CannotRun(
            f"{option}: the template gives no JSON ({error}); write texts as "
            f"{{{{ {example} | tojson }}}}"
        ) from None
    return text


def variables_of(template: str) -> frozenset[str]:
    """The names of the variables that a jinja2 template uses; none where it cannot be parsed."""
    try:
        return frozenset(meta.find_undeclared_variables(Environment().parse(template)))
    except TemplateError:
        return frozenset()


def header_values(headers: Mapping[str, str], owner: str) -> dict[str, str]:
    """Replace the names of environment variables in headers by their values.

    {"X-Key": "$WIKI_KEY"} -> {"X-Key": "<value of WIKI_KEY>"}

    Args:
        headers: Name -> value, "$NAME" for the value of a variable.
        owner: Whose headers they are, for messages: "application".

    Raises:
        Missing: A variable is not set.
    """
    return {name: _with_variables(value, owner) for name, value in headers.items()}


def _with_variables(value: str, owner: str) -> str:
    """Replace "$NAME" in a header's value by that environment variable. Raises Missing."""

    def environment_value(match: re.Match[str]) -> str:
        """The value of the variable that a match names. Raises Missing where it is not set."""
        name = match.group(1)
        text = os.environ.get(name, "").strip()
        if not text:
            raise Missing(
                f"the environment variable {name}, which a header of the {owner} needs, is "
                f"not set; set it with: export {name}=...",
                f"the header's value in {name}",
            )
        return text

    return _VARIABLE.sub(environment_value, value)


def check_no_secret(headers: Mapping[str, str], option: str) -> None:
    """Raise UserError for a header that holds a key itself, as settings are stored in run folders:
    one whose name says so (Authorization, X-Api-Key) and whose value names no variable ("$NAME").

    Args:
        headers: Name -> value.
        option: What gives the headers, for messages.
    """
    for name, value in headers.items():
        if _SECRET_NAME.search(name) and not _VARIABLE.search(value):
            raise UserError(
                f"{option} {name}=...: put the value into an environment variable and name "
                f"that, as settings are stored: {option} '{name}=$NAME'"
            )


@dataclass(frozen=True)
class Place:
    """Where a field of a reply stands.

    Attributes:
        field: The name of the field, for messages.
        option: What names the place, for messages.
        path: The place in JMESPath: "data.text".
    """

    field: str
    option: str
    path: str

    def found_in(self, value: object) -> object:
        """Look up what stands at this place in JSON values; None for nothing.

        Raises ModelOutputError where the path does not fit the values.
        """
        try:
            # jmespath caches what it has parsed.
            found_value: object = jmespath.search(self.path, value)
        except JMESPathError as error:
            raise wrong_field(self.field, str(error).splitlines()[0], self.option) from None
        return found_value


def checked_places(
    places: Mapping[str, str], fields: Sequence[str], option: str
) -> dict[str, Place]:
    """Check the places of a reply's fields: {"answer": "data.text"} -> {"answer": Place(...)}.

    Args:
        places: Field -> its place, in JMESPath.
        fields: The fields that there are.
        option: What names the places, for messages.

    Raises:
        UserError: An unknown field, or no JMESPath.
    """
    checked: dict[str, Place] = {}
    for field, place in places.items():
        if field not in fields:
            raise unknown_name_error(f"field '{field}' ({option})", field, fields)
        try:
            jmespath.compile(place)
        except JMESPathError as error:
            first_line = str(error).splitlines()[0]
            raise UserError(f"{option} {field}={place}: no JMESPath ({first_line})") from None
        checked[field] = Place(field, option, place)
    return checked


def wrong_field(field: str, problem: str, option: str) -> ModelOutputError:
    """Make the error for a field of a reply that cannot be read.

    Args:
        field: The name of the field.
        problem: What is wrong with it, as the rest of a sentence.
        option: What names its place.
    """
    return ModelOutputError(f"{field} of the reply: {problem}; correct {option} {field}=PATH")


def described(value: object) -> str:
    """Say what JSON values are, without their texts: "it has answer, sources" or "it is a list"."""
    if isinstance(value, dict):
        key_names = ", ".join(map(str, value))
        return f"it has {key_names[:200] or 'no keys'}"
    return f"it is a {type(value).__name__}"
