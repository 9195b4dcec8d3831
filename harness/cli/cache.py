"""`harness cache`: the replies that `harness run --cache replies` has kept."""

import json as json_
from collections.abc import Sequence
from typing import Annotated

from harness.cli.command import choice, execution
from harness.cli.options import Json
from harness.cli.table_output import aligned_columns
from harness.errors import UnknownName
from harness.storage import reply_cache


def cache(
    model: Annotated[
        str | None, choice("--model NAME", "Only the replies of this model.", "all models")
    ] = None,
    clear: Annotated[bool, execution("--clear", "Delete them.")] = False,
    json: Json = False,
) -> int:
    """List or delete the stored replies of models (run --cache replies).

    A model whose weights, tokenizer, template, adapters or window differ has a line of its own
    under the same name.
    """
    models = reply_cache.cached_models()
    if model is not None:
        names = {cached.model for cached in models}
        if model not in names:
            raise UnknownName("model with kept replies", model, names)
        models = [cached for cached in models if cached.model == model]
    if clear:
        reply_cache.delete_replies(models)
    if json:
        for cached in models:
            print(json_.dumps(_as_json(cached, was_deleted=clear)))
        return 0
    if not models:
        print("no replies are kept")
        return 0
    print(_as_table(models))
    if clear:
        print("deleted")
    return 0


def _as_json(cached: reply_cache.CachedModel, was_deleted: bool) -> dict[str, object]:
    """The JSON object about a model's stored replies, and whether they were deleted now."""
    return {
        "model": cached.model,
        "version": cached.folder.name,
        "replies": cached.replies,
        "bytes": cached.size,
        "cleared": was_deleted,
    }


def _as_table(models: Sequence[reply_cache.CachedModel]) -> str:
    """A text table of models with the number and size of their stored replies."""
    rows = [("model", "version", "replies", "size")]
    for cached in models:
        size = f"{cached.size / 1000:.1f} kB"
        rows.append((cached.model, cached.folder.name[:8], str(cached.replies), size))
    return aligned_columns(rows)
