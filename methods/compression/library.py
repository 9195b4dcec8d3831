"""engine: library: the package llmlingua chooses what is kept, with scores from this project's
sessions.

Its model and tokenizer are replaced: nothing is fetched to count tokens, its cost is booked by the
meter, and its cache handling, which fails on current transformers beyond one window, is not used.
What it takes for a cache is a list of the tokens before; every window reads them again. Each
occurrence of a token has an id of its own, so what is kept is known as a place in the text.
"""

from collections.abc import Iterable
from importlib import import_module
from itertools import accumulate
from types import SimpleNamespace
from typing import Any

import numpy as np

from harness.errors import CannotRun
from harness.method import Tools
from harness.models import MeteredModel
from methods.chunks import Span
from methods.compression.config import LinguaConfig
from methods.compression.show import SEPARATOR, Compressed, spans_in_document, with_blank_lines
from methods.compression.surprise import (
    ANCHOR,
    SLACK,
    Units,
    open_context,
    spans_of_kept,
    surprise,
    units_of,
)

_SAME_NAMES = (
    "iterative_size",
    "use_context_level_filter",
    "use_token_level_filter",
    "context_budget",
    "condition_in_question",
    "reorder_context",
    "dynamic_context_compression_ratio",
    "condition_compare",
    "rank_method",
)


class _Encoded(dict[str, Any]):
    """The return value of a transformers tokenizer: items are also attributes."""

    def __getattr__(self, name: str) -> Any:
        return self[name]


class _Tokens:
    """The compressor's tokenizer as the library calls it; `pieces[id]` is the text of an occurrence
    of a token."""

    def __init__(self, model: MeteredModel) -> None:
        self._model = model
        self.pieces: list[str] = []
        self.sizes: list[int] = []
        self.texts: list[tuple[int, str]] = []
        self.decoded: list[int] = []

    def __call__(
        self, text: str, return_tensors: str | None = None, add_special_tokens: bool = True
    ) -> _Encoded:
        units = units_of(text, self._model)
        first = len(self.pieces)
        self.texts.append((first, text))
        self.pieces += [units.piece(i) for i in range(len(units))]
        self.sizes += units.sizes
        ids: Any = list(range(first, len(self.pieces)))
        if return_tensors is None:
            return _Encoded(input_ids=ids)
        torch = import_module("torch")
        tensor = torch.tensor([ids], dtype=torch.long)
        return _Encoded(input_ids=tensor, attention_mask=torch.ones_like(tensor))

    def decode(self, ids: Iterable[Any]) -> str:
        return "".join(self.pieces[int(i)] for i in ids)

    def batch_decode(self, rows: Any) -> list[str]:
        self.decoded = [int(i) for i in rows[0]]
        return [self.decode(self.decoded)]

    def units(self, ids: list[int]) -> Units:
        pieces = [self.pieces[i] for i in ids]
        sizes = tuple(self.sizes[i] for i in ids)
        return Units("".join(pieces), (0, *accumulate(map(len, pieces))), sizes)


def compress_by_package(
    text: str, spans: list[Span], target: float, question: str, config: LinguaConfig, tools: Tools
) -> Compressed:
    """Compress the contexts text[a:b] of `spans` to `target` tokens with the package llmlingua.

    Raises CannotRun where the package is not installed.
    """
    try:
        kind = import_module("llmlingua").PromptCompressor
    except ModuleNotFoundError as e:
        raise CannotRun(
            "method.engine=library needs llmlingua; run: pip install 'longdoc-harness[compression]'"
        ) from e
    model = tools.model("compressor")
    tokens = _Tokens(model)
    package = kind.__new__(kind)  # its __init__ loads a model and fetches a tokenizer
    package.__dict__.update(
        tokenizer=tokens,
        use_llmlingua2=False,
        oai_tokenizer=SimpleNamespace(encode=lambda t: list(range(model.count(t)))),
        device="cpu",
        max_position_embeddings=model.window - model.turn_tokens() - SLACK,
        cache_bos_num=ANCHOR,
        prefix_bos_num=100,
        context_idxs=[],
        get_ppl=_Surprise(tokens, model),
    )
    contexts = [text[a:b] for a, b in spans]
    used = list(range(len(spans)))

    def choose_contexts(*args: Any, **named: Any) -> Any:
        result = kind.control_context_budget(package, *args, **named)
        used[:] = result[2]
        return result

    package.control_context_budget = choose_contexts
    forced = list(config.force_context_ids) or None
    asked = {
        "question": question,
        "target_token": target,
        "force_context_ids": forced,
        "concate_question": False,
    }
    package.compress_prompt(
        contexts, **asked, **{name: getattr(config, name) for name in _SAME_NAMES}
    )
    layout = with_blank_lines([[spans[i]] for i in used])
    before = sum(map(model.count, contexts))
    if not config.use_token_level_filter:
        return Compressed(layout, before, sum(model.count(contexts[i]) for i in used))
    first, whole = next(
        (first, t) for first, t in reversed(tokens.texts) if first <= min(tokens.decoded, default=0)
    )
    units = units_of(whole, model)
    mask = np.zeros(len(units), dtype=bool)
    mask[[i - first for i in tokens.decoded]] = True
    # The question, which the package puts first where it reads it, is cut off by the package.
    head = len(whole) - len(SEPARATOR.join(contexts[i] for i in used))
    kept = [(a - head, b - head) for a, b in spans_of_kept(units, mask)]
    return Compressed(
        spans_in_document(layout, kept), before, sum(tokens.sizes[i] for i in tokens.decoded)
    )


class _Surprise:
    """Replaces PromptCompressor.get_ppl, which computes losses: here the harness's own session
    scores the tokens.

    The package keeps a KV cache, cuts tokens out of it and hands it back. A tensor of the ids of
    its tokens stands in for it here: a call feeds these tokens to a new session before it scores
    the new ones.
    """

    def __init__(self, tokens: _Tokens, model: MeteredModel) -> None:
        self._tokens, self._model = tokens, model

    def __call__(
        self,
        text: str,
        granularity: str = "sentence",
        input_ids: Any = None,
        attention_mask: Any = None,
        past_key_values: Any = None,
        return_kv: bool = False,
        end: int | None = None,
        condition_mode: str = "none",
        condition_pos_id: int = 0,
    ) -> Any:
        """Loss of every new token but the first, or their mean (granularity "sentence"), as the
        package asks for it.

        past_key_values: the stand-in for the cache; end: tokens beyond it are not scored;
        condition_mode: "before" or
        "after" the token condition_pos_id alone; return_kv: also return the stand-in with the new
        tokens.
        """
        torch = import_module("torch")
        ids = self._tokens(text)["input_ids"] if input_ids is None else input_ids[0].tolist()
        past = past_key_values[0][0].flatten().tolist() if past_key_values is not None else []
        positions = self._model.window - self._model.turn_tokens() - SLACK
        last = min(len(ids) if end is None else int(end), len(past) + positions)
        with open_context(self._model) as s:
            for i in past:
                s.feed(self._tokens.pieces[i])
            scores = surprise(s, self._model, self._tokens.units(ids[len(past) : last]))[1:]
        loss = torch.tensor(np.asarray(scores), dtype=torch.float64)
        loss = {"before": loss[:condition_pos_id], "after": loss[condition_pos_id:]}.get(
            condition_mode, loss
        )
        value = loss.mean() if granularity == "sentence" else loss
        if not return_kv:
            return value
        cache = torch.tensor([*past, *ids[len(past) : last]], dtype=torch.long).reshape(1, 1, -1, 1)
        return value, [(cache, cache)]
