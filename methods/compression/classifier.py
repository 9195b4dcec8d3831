"""A token classifier of transformers: for each token of a text, the probability that it is worth
keeping.

    find(source) ──► Weights (folder, identity), or CannotRun: "not run: weights: ..."
    load(weights) ──► TokenClassifier.keep(texts) ──► p(class 1) of each token, metered as an encoder is

The classifier's own layer of two numbers a token is not counted: a 3,000th part of a per cent of
XLM-R large.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from harness.config.schema import ModelConfig
from harness.cost.flops import Event
from harness.cost.meter import Meter
from harness.cost.shapes import shape_of
from harness.errors import CannotRun, Missing, ModelOutputError
from harness.llm.model_info import hash_files, local_folder
from harness.parallel.scheduler import in_forward_thread, timed
from harness.storage.hub_download import weights_of

KEEP = 1  # the class of tokens that are kept
Style = Literal["wordpiece", "metaspace"]


@dataclass(frozen=True)
class Weights:
    """The folder of a classifier, and the hash of its files."""

    source: str
    folder: Path
    identity: str


@dataclass(frozen=True)
class Tokenized:
    """tokens as the vocabulary has them, and the characters [start, end) of each."""

    tokens: list[str]
    offsets: list[tuple[int, int]]


def find(source: str) -> Weights:
    """Find and hash the files of a classifier, without loading it.

    Args:
        source: A folder, or an id on the hub.

    Raises:
        CannotRun: They are not there ("not run: weights: ...").
    """
    model = ModelConfig(name=source, source=source)
    named_by_setting = weights_of("method.classifier")  # messages name this setting
    try:
        folder, _ = local_folder(model, named_by_setting)
        return Weights(source, folder, hash_files(folder))
    except Missing as error:
        raise Missing(f"not run: weights: {error}", error.thing) from error
    except CannotRun as error:
        raise CannotRun(f"not run: weights: {error}") from error


_networks: dict[str, tuple[Any, Any]] = {}  # identity of the weights -> network and tokenizer
_lock = threading.Lock()


def load(weights: Weights, meter: Meter) -> TokenClassifier:
    """The classifier of some weights, bound to a meter; the network is loaded once a process.

    Raises:
        CannotRun: The weights are no classifier of tokens with two classes.
    """
    with _lock:
        if weights.identity not in _networks:
            _networks[weights.identity] = _load_network(weights)
    return TokenClassifier(weights, *_networks[weights.identity], meter)


def _load_network(weights: Weights) -> tuple[Any, Any]:
    """Load the network and its tokenizer, the network onto a GPU where there is one.

    Returns:
        (network in inference mode, tokenizer).

    Raises:
        CannotRun: They cannot be loaded, or are no classifier of tokens with two classes.
    """
    import torch
    import transformers

    transformers.logging.disable_progress_bar()
    try:
        net, info = transformers.AutoModelForTokenClassification.from_pretrained(
            str(weights.folder), use_safetensors=True, output_loading_info=True
        )
        tokenizer = transformers.AutoTokenizer.from_pretrained(str(weights.folder))
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise CannotRun(
            f"cannot load the classifier '{weights.source}': {str(error).splitlines()[0]}"
        ) from error
    missing = sorted(map(str, [*info["missing_keys"], *info["mismatched_keys"]]))
    why = ""
    if missing:
        why = f"its weights lack {missing[0]}"
    if net.config.num_labels != 2:
        why = f"it has {net.config.num_labels} classes instead of 2"
    is_fast = getattr(tokenizer, "is_fast", False)
    if not is_fast or None in (tokenizer.cls_token_id, tokenizer.sep_token_id):
        why = "its tokenizer has no fast form, or no tokens [CLS] and [SEP]"
    if why:
        raise CannotRun(f"'{weights.source}' is no classifier of tokens to keep or drop: {why}")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return net.eval().to(device), tokenizer


class TokenClassifier:
    """A classifier bound to a meter. max_tokens: of a text."""

    def __init__(self, weights: Weights, net: Any, tokenizer: Any, meter: Meter) -> None:
        """Keep the network and its tokenizer.

        Also sets `name`, `max_tokens` (of a text, without the two special tokens) and `style` (how
        the tokenizer marks words).
        """
        self.name = weights.source
        self._net = net
        self._tokenizer = tokenizer
        self._meter = meter
        places = int(getattr(net.config, "max_position_embeddings", 512))
        self._ends = tokenizer.cls_token_id, tokenizer.sep_token_id
        self.max_tokens = min(512, places) - len(self._ends)
        # A token that goes on with a word looks like "##ing"; or one that begins a word looks like
        # "▁The".
        algorithm = type(tokenizer.backend_tokenizer.model).__name__
        self.style: Style = "metaspace"
        if algorithm == "WordPiece":
            self.style = "wordpiece"

    def tokenize(self, text: str) -> Tokenized:
        """The tokens of a text of any length, with their places, without special tokens."""
        encoding = in_forward_thread(
            lambda: self._tokenizer(
                text, add_special_tokens=False, return_offsets_mapping=True, verbose=False
            )
        )
        tokens = self._tokenizer.convert_ids_to_tokens(encoding["input_ids"])
        return Tokenized(list(tokens), [(int(a), int(b)) for a, b in encoding["offset_mapping"]])

    def keep(self, tokens: Sequence[str]) -> np.ndarray:
        """The probability that each token is worth keeping, [tokens]. Also counts the cost of the
        pass.

        Args:
            tokens: At most `max_tokens` tokens, as `tokenize` spells them.

        Raises:
            ModelOutputError: The network gave NaN.
        """
        ids = self._tokenizer.convert_tokens_to_ids(list(tokens))
        row = [self._ends[0], *ids, self._ends[1]]
        with timed() as took:
            probabilities = in_forward_thread(lambda: self._keep_probabilities(row))
        if np.isnan(probabilities).any():
            raise ModelOutputError(
                f"the classifier '{self.name}' gave NaN probabilities; check its weights"
            )
        event = Event(
            role="compressor",
            model=self.name,
            phase=self._meter.current_phase,
            kind="embed",  # one pass over a text without writing, as that of an encoder
            new=len(row),
            pairs=len(row) ** 2,  # each token attends to all
            requests=1,
            seconds=took.seconds,
            queued=took.queued,
        )
        self._meter.record(event, shape_of(self._net.config))
        return probabilities[1:-1]

    def _keep_probabilities(self, row: list[int]) -> np.ndarray:
        """The probability of the class KEEP for each token id of `row`, special tokens included,
        [tokens]."""
        import torch

        ids = torch.tensor([row], device=self._net.device)
        with torch.inference_mode():
            logits = self._net(input_ids=ids).logits[0]  # [tokens, classes]
        probabilities = logits.float().softmax(-1)[:, KEEP]
        return np.asarray(probabilities.cpu().numpy(), dtype=float)
