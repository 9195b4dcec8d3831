"""`harness cache`: the replies that `harness run --cache replies` has kept."""

import json as json_
from typing import Annotated

from harness.cli.command import choice, execution
from harness.cli.options import Json
from harness.cli.table_output import columns
from harness.errors import UnknownName


def cache(
    model: Annotated[
        str | None, choice("--model NAME", "Only the replies of this model.", "all models")
    ] = None,
    clear: Annotated[bool, execution("--clear", "Delete them.")] = False,
    json: Json = False,
) -> int:
    """List or delete the replies that run --cache replies has kept.

    A model whose weights, tokenizer, template, adapters or window differ is listed apart, under the
    same name.
    """
    from harness.storage import reply_cache

    models = reply_cache.cached_models()
    if model is not None and model not in (names := {kept.model for kept in models}):
        raise UnknownName("model with kept replies", model, names)
    models = [kept for kept in models if model in (None, kept.model)]
    if clear:
        reply_cache.clear(models)
    if json:
        for kept in models:
            row = {
                "model": kept.model,
                "version": kept.folder.name,
                "replies": kept.replies,
                "bytes": kept.size,
            }
            print(json_.dumps({**row, "cleared": clear}))
        return 0
    rows = [(k.model, k.folder.name[:8], str(k.replies), f"{k.size / 1000:.1f} kB") for k in models]
    print(
        columns([("model", "version", "replies", "size"), *rows]) if rows else "no replies are kept"
    )
    if clear and rows:
        print("deleted")
    return 0
