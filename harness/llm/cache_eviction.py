"""Dropping keys and values from a context's cache: which tokens stay, by rule, and the cut itself.

    tokens read      | first | ............ middle ............ | last |
    kept, per head   | first | the highest-scored of the middle | last |     budget tokens in all

A middle token's score is the attention that some rows of the context pay it, summed over the rows
and over the query heads that share its key/value head (docs/methods/attention.md#bounded-cache).
What stays keeps its position.

With a choice for each query head the keys and values are held once for each head of a group, a
choice behind the other:

    key/value head   | choice of its query head 1 | of 2 | of 3 | what is read and written later |
"""

import torch
from torch import Tensor
from transformers.cache_utils import Cache

from harness.llm.kv import slot_of
from harness.model_outputs import CacheLimit, Kept


def kept_tokens(scores: Tensor | None, read: int, limit: CacheLimit, choices: int) -> Tensor:
    """Which of `read` tokens (more than the budget) stay: int64 [choices, budget], ascending.

    scores: float32 [heads, read]; None keeps the newest tokens of the middle; choices: the number
    of key/value heads, whose query heads are summed, or of all heads.
    """
    end = read - limit.last
    ranked = limit.budget - limit.first - limit.last
    if scores is None:
        middle = torch.arange(end - ranked, end).expand(choices, -1)
    else:
        grouped = (
            max_pooled(scores[:, limit.first : end], limit.width)
            .view(choices, -1, end - limit.first)
            .sum(1)
        )
        middle = grouped.topk(ranked, -1).indices.sort(-1).values + limit.first
    ends = [
        torch.arange(limit.first).expand(choices, -1),
        torch.arange(end, read).expand(choices, -1),
    ]
    return torch.cat([ends[0], middle, ends[1]], -1)


def max_pooled(scores: Tensor, width: int) -> Tensor:
    """The maximum over `width` neighbours (odd) of each score of [heads, tokens]; fewer at the
    ends."""
    return torch.nn.functional.max_pool1d(scores[None], width, stride=1, padding=width // 2)[0]


def cut_cache(cache: Cache, scores: dict[int, Tensor], limit: CacheLimit) -> Kept:
    """Drop what `limit` leaves out, in every layer; scores: layer -> float32 [heads, tokens], {}
    without attention.

    All layers and heads keep as many tokens. Nothing is dropped of a cache within the budget. Where
    more cuts follow (limit.step), `scores` keeps those of the tokens that stay, at their new
    places.
    """
    slot = slot_of(cache)
    n_held = slot.used[0]
    with slot.pool.lock, torch.inference_mode():
        if n_held > limit.budget:
            first = slot.pool.keys[0]
            assert first is not None
            # Query heads of a key/value head.
            copies = (
                next(iter(scores.values())).shape[0] // first.shape[1] if limit.by_query_head else 1
            )
            room = copies * limit.budget
            slot.reserve(max(n_held, room))
            for layer in range(len(slot.used)):
                keys, values = slot.pool.keys[layer], slot.pool.values[layer]
                assert keys is not None
                assert values is not None
                rows = slot.rows(0, n_held)
                heads = keys.shape[1]
                chosen = kept_tokens(scores.get(layer), n_held, limit, heads * copies).to(
                    keys.device
                )
                if limit.step is not None and (layer_scores := scores.get(layer)) is not None:
                    stays = layer_scores.gather(
                        1, chosen.repeat_interleave(layer_scores.shape[0] // heads, 0)
                    )
                    scores[layer] = torch.nn.functional.pad(
                        stays, (0, layer_scores.shape[1] - limit.budget)
                    )
                chosen = chosen.view(heads, room).T[:, :, None]
                kept = [
                    states[rows].gather(0, chosen.expand(-1, -1, states.shape[2]))
                    for states in (keys, values)
                ]
                slot.pool.write(layer, slot.rows(0, room), *kept)
            slot.dropped += n_held - room
            slot.copies, slot.kept = copies, limit.budget
            slot.names, slot.before_leaving = [], None
            slot.used = [room] * len(slot.used)
            slot.shrink(room)
        size = sum(keys.nbytes + values.nbytes for _, keys, values in slot.states())
    return Kept(slot.tokens_read(), slot.attended(), size)
