"""A retriever of the user's own: `--retriever NAME=URL` or `--retriever NAME=module:function`.

    retriever_settings("wiki=http://localhost:9200/wiki/_search", CallOptions("--retriever", format="elasticsearch"))
    -> {"name": "wiki", "base_url": "http://localhost:9200/wiki/_search", "format": "elasticsearch"}

What the settings mean is in harness/config/schema.py, what is asked in harness/retrieval/served.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from harness.config.applications import (
    CallOptions,
    call_settings,
    parse_named_target,
)
from harness.errors import UserError


def retriever_settings(text: str | None, options: CallOptions) -> Mapping[str, object] | None:
    """Make the settings of the retriever that a command names; None for none.

    "wiki=http://localhost:9200" -> {"name": "wiki", "base_url": "http://localhost:9200"}

    Args:
        text: As typed: "URL", "module:function", or either after "NAME=".
        options: How it is asked.

    Raises:
        UserError: The text names no retriever, or there are options without one.
    """
    if text is None:
        if options.is_any_given:
            raise UserError(
                "--retriever-map and the other --retriever-... options are for --retriever; name "
                "one"
            )
        return None
    target = parse_named_target(text, options.option, default_name="retriever")
    settings: dict[str, object] = {"name": target.name, **call_settings(options, Path())}
    if target.url is not None:
        settings["base_url"] = target.url
    if target.function is not None:
        settings["function"] = target.function
    if options.key is not None:
        settings["api_key_env"] = options.key
    return settings
