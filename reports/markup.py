"""HTML that is escaped by construction: jinja2 escapes what is not `Html` in templates/, `element` what
it is given.

>>> str(element("td", "<script>", class_="who", data_value='"'))
'<td class="who" data-value="&#34;">&lt;script&gt;</td>'
"""

import base64
import hashlib
import re
from functools import cache
from importlib import resources

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

Html = Markup
"""HTML that needs no escaping."""

# Half a surrogate pair, which JSON data may hold, is no UTF-8; the others are not allowed in HTML.
_UNPRINTABLE = re.compile("[\ud800-\udfff\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufffe\uffff]")


def printable(value: object) -> str:
    """A value as text, with those characters replaced that neither HTML nor XML may hold."""
    return _UNPRINTABLE.sub("\ufffd", str(value))


def escaped_text(value: object) -> Html:
    """A value as escaped text for an element or a quoted attribute; Html stays as it is."""
    return value if isinstance(value, Html) else escape(printable(value))


def join_html(*children: object) -> Html:
    """All children as one piece of HTML; those that are not Html are escaped, None is left out."""
    return Html("").join(escaped_text(child) for child in children if child is not None)


def element(tag: str, *children: object, **attributes: object) -> Html:
    """An HTML element with escaped children and attributes.

        element("td", "a < b", class_="who", data_value=3)
            -> '<td class="who" data-value="3">a &lt; b</td>'

    An attribute that is None is left out.

    Args:
        tag: Its name.
        children: What stands in it, one after the other.
        attributes: `class_` is class, and `data_x` is data-x.
    """
    attributes_html = ""
    for name, value in attributes.items():
        if value is not None:
            attributes_html += f' {name.rstrip("_").replace("_", "-")}="{escaped_text(value)}"'
    return Html(f"<{tag}{attributes_html}>{join_html(*children)}</{tag}>")


@cache
def _templates() -> Environment:
    """The templates of reports/templates, made once; they escape what is not Html, and fail for a
    value that is missing."""
    environment = Environment(
        loader=PackageLoader("reports"),
        autoescape=True,
        finalize=escaped_text,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["small_interval"] = small_interval
    environment.filters["breakable"] = breakable_name
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False}
    return environment


def fill_template(template: str, **values: object) -> Html:
    """A file of reports/templates with these values in it, as HTML."""
    return Html(_templates().get_template(template).render(values))


def read_template(name: str) -> Html:
    """The style or script in a file of reports/templates, as it is."""
    return Html(resources.files("reports").joinpath("templates", name).read_text(encoding="utf-8"))


def csp_hash(code: str) -> str:
    """The hash of a style or script in the form of a content security policy: "sha256-..."."""
    return "sha256-" + base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()


def breakable_name(name: str) -> Html:
    """The name of a column as HTML, in which a line may break after "_" and "."."""
    return Html(re.sub(r"([_.])", r"\1<wbr>", str(escaped_text(name))))


def small_interval(cell: str) -> Html:
    """A cell as HTML, its interval in small type: "41.3 [36.0, 46.9]" -> "41.3<small> [36.0,
    46.9]</small>"."""
    value, bracket, interval = cell.partition(" [")
    if not bracket or not interval.endswith("]"):
        return escaped_text(cell)
    return join_html(value, element("small", f" [{interval}"))
