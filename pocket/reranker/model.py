"""A cross-encoder cut from the pocket model: its input embeddings and first layers, and one number read at the end.

    <|begin|><|user|>passage           as the model reads a text and a question: the score is read where its reply
                                       would begin
    Question: question
    Answer:<|end|><|assistant|>

cut(folder, layers)      LlamaForSequenceClassification with one label, in float32
tokenizer(folder, to)    the pocket model's, which now knows pairs; written to `to`
save(net, to)            config.json and model.safetensors in bfloat16, which are loaded as float32

What is written is a folder of transformers as any reranker's: harness/embed/load.py loads it like all others. A text
cannot forge the control tokens: its tokenizer splits them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from harness.errors import CannotRun
from harness.storage.home import write_json

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
    from safetensors import SafetensorError
    from safetensors.torch import load_file
    from transformers import LlamaConfig, LlamaForSequenceClassification

    values = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    if layers > values["num_hidden_layers"]:
        raise CannotRun(f"the model in {folder} has {values['num_hidden_layers']} layers, so no {layers} can be taken")
    kept = {
        k: v for k, v in values.items() if k not in ("architectures", "dtype", "transformers_version", "model_type")
    }
    ids = {t["content"]: t["id"] for t in _spec(folder)["added_tokens"]}
    settings = {**kept, "num_hidden_layers": layers, "pad_token_id": ids[_PAD], "num_labels": 1, "use_cache": False}
    torch.manual_seed(seed)
    net = LlamaForSequenceClassification(LlamaConfig(**settings)).float()
    try:
        weights = load_file(str(folder / "model.safetensors"))
    except (OSError, SafetensorError) as error:
        raise CannotRun(f"the weights in {folder} cannot be read ({str(error).splitlines()[0]})") from error
    mine = {name: weight.float() for name, weight in weights.items() if name in net.state_dict()}
    missing = net.load_state_dict(mine, strict=False).missing_keys
    if missing != ["score.weight"]:
        raise CannotRun(f"the weights in {folder} are none of a pocket model: {len(missing) - 1} tensors are missing")
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


def save(net: Any, to: Path) -> None:
    """Write the weights in bfloat16; `dtype` says float32, so that a score does not depend on its batch's padding."""
    import torch
    from safetensors.torch import save as packed

    half = {k: v.detach().cpu().to(torch.bfloat16).contiguous() for k, v in net.state_dict().items()}
    draft = to / ".model.safetensors"
    draft.write_bytes(packed(half, metadata={"format": "pt"}))
    draft.replace(to / "model.safetensors")
    config = {**net.config.to_diff_dict(), "architectures": [type(net).__name__], "dtype": "float32"}
    write_json(to / "config.json", config)


def _spec(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "tokenizer.json").read_text(encoding="utf-8")))
