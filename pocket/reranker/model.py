"""A cross-encoder cut from the pocket model: its input embeddings and first layers, and one number read at the end.

    <|begin|><|user|>passage           as the model reads a text and a question: the score is read where its reply
                                       would begin
    Question: question
    Answer:<|end|><|assistant|>

cut(folder, layers)      LlamaForSequenceClassification with one label, in float32
tokenizer(folder, to)    the pocket model's, which now knows pairs; written to `to`

What is written is a folder of transformers as any reranker's: harness/embed/load.py loads it like all others. A text
cannot forge the control tokens: its tokenizer splits them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from harness.errors import CannotRun
from harness.storage.home import write_json
from pocket.train import llama

LONGEST = 512
"""Tokens of a pair at most, as the released rerankers have it (docs/methods/retrieval.md#encoders)."""

_PAD = "<|end|>"
_A, _B = "A", "B"  # the question and the passage, as a pair is given
_ASKED, _ANSWER = "\n\nQuestion: ", "\nAnswer:"
_PAIR = ("<|begin|>", "<|user|>", _B, _ASKED, _A, _ANSWER, "<|end|>", "<|assistant|>")


def cut(folder: Path, layers: int, seed: int = 0) -> Any:
    """The first `layers` layers of a pocket model under a new head; `seed`: of that head.

    Raises CannotRun where the model has fewer layers, or its weights cannot be read.
    """
    import torch
    from transformers import LlamaForSequenceClassification

    pad = next(token["id"] for token in _spec(folder)["added_tokens"] if token["content"] == _PAD)
    config = llama.config_of(folder)
    if layers > config.num_hidden_layers:
        raise CannotRun(f"the model in {folder} has {config.num_hidden_layers} layers, so no {layers} can be taken")
    config.num_hidden_layers, config.pad_token_id, config.num_labels, config.use_cache = layers, pad, 1, False
    torch.manual_seed(seed)
    net = LlamaForSequenceClassification(config).float()
    llama.load(net, folder, {"score.weight"})
    return net


def tokenizer(folder: Path, to: Path) -> Any:
    """Write the folder's tokenizer with a form for pairs to `to`, and load it. Raises OSError."""
    from tokenizers import Tokenizer
    from transformers import AutoTokenizer

    spec = _spec(folder)
    plain = Tokenizer.from_file(str(folder / "tokenizer.json"))
    marks: dict[str, Any] = {}
    pair: list[dict[str, Any]] = []
    for part in _PAIR:
        given = part in (_A, _B)
        pair.append({"Sequence" if given else "SpecialToken": {"id": part, "type_id": 0}})
        if not given:
            encoding = plain.encode(part, add_special_tokens=False)
            marks[part] = {"id": part, "ids": encoding.ids, "tokens": encoding.tokens}
    spec["post_processor"] |= {"pair": pair, "special_tokens": marks}
    settings = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    settings |= {"pad_token": _PAD, "model_max_length": LONGEST, "padding_side": "right", "split_special_tokens": True}
    to.mkdir(parents=True, exist_ok=True)
    (to / "tokenizer.json").write_text(json.dumps(spec, ensure_ascii=False), encoding="utf-8")
    write_json(to / "tokenizer_config.json", settings)
    return AutoTokenizer.from_pretrained(str(to))


def _spec(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "tokenizer.json").read_text(encoding="utf-8")))
