"""A token classifier of transformers: for each token of a text, the probability that it is worth
keeping.

    locate_and_hash_weights(source) ──► Weights (folder, identity), or CannotRun: "not run: weights:
    ..." load_classifier(weights) ──► TokenClassifier.keep_probabilities(tokens) ──► p(class 1) of
    each token, metered as an encoder is

The classifier's own layer of two numbers a token is not counted: a 3,000th part of a per cent of
XLM-R large.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from harness.config.schema import ModelConfig
from harness.cost.flops import Event
from harness.cost.meter import Meter
from harness.cost.shapes import shape_of
from harness.errors import CannotRun, Missing, ModelOutputError
from harness.llm.model_info import find_or_download, hash_files
from harness.parallel.scheduler import in_forward_thread, timed
from harness.storage.hub_download import weights_of

CLASS_OF_KEPT_TOKENS = 1  # the class of tokens that are kept
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


def locate_and_hash_weights(folder_or_hub_id: str) -> Weights:
    """The folder and the hash of a classifier's files; one on the hub is downloaded at its first
    use.

    Args:
        folder_or_hub_id: A folder, or an id on the hub.

    Raises:
        CannotRun: They are not there and cannot be fetched ("not run: weights: ...").
    """
    model = ModelConfig(name=folder_or_hub_id, source=folder_or_hub_id)
    named_by_setting = weights_of("method.classifier")  # messages name this setting
    try:
        folder = find_or_download(model, named_by_setting).folder
        return Weights(source=folder_or_hub_id, folder=folder, identity=hash_files(folder))
    except Missing as error:
        raise Missing(f"not run: weights: {error}", error.thing) from error
    except CannotRun as error:
        raise CannotRun(f"not run: weights: {error}") from error


class _Network(NamedTuple):
    """A network of transformers, and its tokenizer."""

    net: Any
    tokenizer: Any


_networks: dict[str, _Network] = {}  # identity of the weights -> what was loaded of them
_lock = threading.Lock()


def load_classifier(weights: Weights, meter: Meter) -> TokenClassifier:
    """The classifier of some weights, bound to a meter; the network is loaded once a process.

    Raises:
        CannotRun: The weights are no classifier of tokens with two classes.
    """
    with _lock:
        if weights.identity not in _networks:
            _networks[weights.identity] = _load_network(weights)
        network = _networks[weights.identity]
    return TokenClassifier(weights, network.net, network.tokenizer, meter)


def _load_network(weights: Weights) -> _Network:
    """Load the network, in inference mode and onto a GPU where there is one, and its tokenizer.

    Raises:
        CannotRun: They cannot be loaded, or are no classifier of tokens with two classes.
    """
    import torch
    import transformers

    transformers.logging.disable_progress_bar()
    try:
        net, loading_info = transformers.AutoModelForTokenClassification.from_pretrained(
            str(weights.folder), use_safetensors=True, output_loading_info=True
        )
        tokenizer = transformers.AutoTokenizer.from_pretrained(str(weights.folder))
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise CannotRun(
            f"cannot load the classifier '{weights.source}': {str(error).splitlines()[0]}"
        ) from error
    missing_keys = [*loading_info["missing_keys"], *loading_info["mismatched_keys"]]
    problem = _network_problem(net, tokenizer, missing_keys)
    if problem:
        raise CannotRun(f"'{weights.source}' is no classifier of tokens to keep or drop: {problem}")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return _Network(net.eval().to(device), tokenizer)


def _network_problem(net: Any, tokenizer: Any, missing_keys: Sequence[object]) -> str:
    """Why a network is no classifier of tokens with two classes; "" where it is one.

    Args:
        net: A network of transformers.
        tokenizer: Its tokenizer.
        missing_keys: The names of weights that its files lack.
    """
    is_fast = getattr(tokenizer, "is_fast", False)
    if not is_fast or None in (tokenizer.cls_token_id, tokenizer.sep_token_id):
        return "its tokenizer has no fast form, or no tokens [CLS] and [SEP]"
    if net.config.num_labels != 2:
        return f"it has {net.config.num_labels} classes instead of 2"
    if missing_keys:
        return f"its weights lack {min(map(str, missing_keys))}"
    return ""


class TokenClassifier:
    """A classifier bound to a meter; `max_tokens` is the most that a text may have."""

    def __init__(self, weights: Weights, net: Any, tokenizer: Any, meter: Meter) -> None:
        """Keep the network and its tokenizer.

        Also sets `name`; `max_tokens`, the most tokens of a text: 512 or the network's fewer
        positions, without [CLS] and [SEP]; and `style`, how the tokenizer marks words.
        """
        self.name = weights.source
        self._net = net
        self._tokenizer = tokenizer
        self._meter = meter
        max_positions = int(getattr(net.config, "max_position_embeddings", 512))
        self._special_ids = tokenizer.cls_token_id, tokenizer.sep_token_id
        self.max_tokens = min(512, max_positions) - len(self._special_ids)
        algorithm = type(tokenizer.backend_tokenizer.model).__name__
        self.style: Style = "metaspace"  # a token that begins a word is marked: "▁The"
        if algorithm == "WordPiece":
            self.style = "wordpiece"  # a token that goes on with a word is marked: "##ing"

    def tokenize(self, text: str) -> Tokenized:
        """The tokens of a text of any length, with their places, without special tokens."""
        encoding = in_forward_thread(
            lambda: self._tokenizer(
                text, add_special_tokens=False, return_offsets_mapping=True, verbose=False
            )
        )
        tokens = self._tokenizer.convert_ids_to_tokens(encoding["input_ids"])
        return Tokenized(
            list(tokens), [(int(start), int(end)) for start, end in encoding["offset_mapping"]]
        )

    def keep_probabilities(self, tokens: Sequence[str]) -> np.ndarray:
        """The probability that each token is worth keeping, [tokens]. Also counts the cost of the
        pass.

        Args:
            tokens: At most `max_tokens` tokens, as `tokenize` spells them.

        Raises:
            ModelOutputError: The network gave NaN.
        """
        ids = self._tokenizer.convert_tokens_to_ids(list(tokens))
        ids_with_special = [self._special_ids[0], *ids, self._special_ids[1]]
        with timed() as duration:
            probabilities = in_forward_thread(lambda: self._run_network(ids_with_special))
        if np.isnan(probabilities).any():
            raise ModelOutputError(
                f"the classifier '{self.name}' gave NaN probabilities; check its weights"
            )
        event = Event(
            role="compressor",
            model=self.name,
            phase=self._meter.current_phase,
            kind="embed",  # one pass over a text without writing, as that of an encoder
            new=len(ids_with_special),
            pairs=len(ids_with_special) ** 2,  # each token attends to all
            requests=1,
            seconds=duration.seconds,
            queued=duration.queued,
        )
        self._meter.record(event, shape_of(self._net.config))
        return probabilities[1:-1]

    def _run_network(self, ids_with_special: list[int]) -> np.ndarray:
        """The probability of CLASS_OF_KEPT_TOKENS for each token id of `ids_with_special`, special
        tokens included, [tokens]."""
        import torch

        ids = torch.tensor([ids_with_special], device=self._net.device)
        with torch.inference_mode():
            logits = self._net(input_ids=ids).logits[0]  # [tokens, classes]
        probabilities = logits.float().softmax(-1)[:, CLASS_OF_KEPT_TOKENS]
        return np.asarray(probabilities.cpu().numpy(), dtype=float)
