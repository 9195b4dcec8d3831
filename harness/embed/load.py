"""Sentence encoders and rerankers through sentence-transformers: loaded once a process, bound to a
meter for every use.

folder of sentence-transformers (modules.json)   built as it says; a configuration that says otherwise is refused
folder of transformers alone (config.json)       its network with the pooling of the configuration, else the mean

"dragon":  question ──► query network ──► q          passage ──► passage network ──► p          score = q . p
reranker:  question and passage together ──► cross-encoder ──► score

What several questions in flight ask of one network at the same time runs as one call (Together).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

import numpy as np
from safetensors import safe_open

from harness.config.schema import EncoderConfig
from harness.cost.flops import Event
from harness.cost.meter import Meter
from harness.cost.shapes import shape_of
from harness.embed.encoder_info import MODULES, encoder_facts, encoder_folder, query_folder
from harness.embed.served import ServedEncoder, ServedReranker
from harness.errors import CannotRun, ModelOutputError, import_error_as_cannot_run
from harness.method import Encoder, Reranker
from harness.parallel.members import current
from harness.parallel.scheduler import timed

T = TypeVar("T")


@dataclass(frozen=True)
class Loaded(Generic[T]):
    """Networks that are loaded, and the identity of their files."""

    nets: T
    identity: dict[str, object]


_loaded: dict[tuple[str, str], Loaded[Any]] = {}


def load_nets(config: EncoderConfig, what: str, load: Callable[[str, str | None], T]) -> Loaded[T]:
    """Load an encoder's networks, once a process.

    Args:
        config: Its settings.
        what: What it is ("encoder", "reranker"), for messages.
        load: Loads the networks from the folder of the weights, to a device (None: the best).

    Raises:
        CannotRun: The weights are missing, damaged or of another kind.
    """
    key = (what, config.model_dump_json())
    if key not in _loaded:
        with import_error_as_cannot_run():
            import transformers

        facts = encoder_facts(config)
        if facts.problems:
            raise CannotRun(facts.problems[0])
        transformers.logging.disable_progress_bar()
        device: str | None = config.device
        if config.device == "auto":
            device = None
        try:
            with import_error_as_cannot_run():
                nets = load(str(encoder_folder(config)), device)
        except (OSError, ValueError, KeyError, RuntimeError) as e:
            raise CannotRun(f"cannot load {what} '{config.name}': {str(e).splitlines()[0]}") from e
        _loaded[key] = Loaded(nets, facts.identity)
    return _loaded[key]


def with_token_counts(event: Event, lengths: Sequence[int], limit: int) -> Event:
    """An event with the counts of a batch of texts.

    Args:
        event: Without them.
        lengths: Tokens of each text.
        limit: Tokens that the encoder reads of one.
    """
    read = [min(length, limit) for length in lengths]
    return replace(
        event,
        new=sum(read),
        pairs=sum(length * length for length in read),
        requests=1,
        texts=len(lengths),
        cut=sum(length > limit for length in lengths),
    )


@dataclass(eq=False)
class Together:
    """A network of sentence-transformers, whose short calls that wait together run as one: a
    RequestQueue.

    Attributes:
        net: The network.
        run_items: From items (texts or pairs) to a row of numbers and a length for each.
        most: Items of a call that several questions share: a longer one gains nothing by company.
            With 1 each call runs alone.
        ahead: As in RequestQueue.
    """

    net: Any
    run_items: Callable[[list[Any]], tuple[np.ndarray, list[int]]]
    most: int
    ahead: bool = True

    def __call__(self, items: list[Any]) -> tuple[np.ndarray, list[int]]:
        """The rows and lengths of `items`. Raises what the network raises."""
        scheduler = current()
        if scheduler is None:
            return self.run_items(items)
        rows, lengths = scheduler.do(self, items)
        return rows, lengths

    def take(self, asks: Sequence[list[Any]]) -> list[int]:
        """Indices of the asks of the next call: the oldest ask, and others while they have `most`
        items."""
        taken, room = [], self.most
        for n, items in enumerate(asks):
            if n == 0 or len(items) <= room:
                taken.append(n)
                room -= len(items)
        return taken

    def run(self, asks: Sequence[list[Any]]) -> list[Any]:
        """Rows and lengths of each ask, or its error: what fails together runs again one by one."""
        try:
            rows, lengths = self.run_items(list(chain.from_iterable(asks)))
        except Exception as error:  # noqa: BLE001 - raised in the thread that asked
            if len(asks) == 1:
                return [error]
            return [self.run([items])[0] for items in asks]
        results: list[Any] = []
        start = 0
        for items in asks:
            end = start + len(items)
            results.append((rows[start:end], lengths[start:end]))
            start = end
        return results


class SentenceEncoder:
    """An encoder bound to a meter; what `tools.encoder()` returns."""

    def __init__(
        self,
        config: EncoderConfig,
        loaded: Loaded[tuple[Together, Together]],
        meter: Meter,
        role: str,
    ) -> None:
        """Bind networks to a meter.

        Args:
            config: The encoder's settings.
            loaded: The networks for passages and for questions, or the same one twice.
            meter: Counts what encoding costs.
            role: Under which it counts.
        """
        self.name, self.identity = config.name, loaded.identity
        self._config, self._meter, self._role = config, meter, role
        self._net, self._query_net = loaded.nets

    def encode(self, texts: Sequence[str], kind: Literal["query", "passage"]) -> np.ndarray:
        """Vectors [len(texts), width], float32, normalised for cosine. Raises ModelOutputError on
        NaN."""
        if not texts:
            return np.zeros((0, int(self._net.net.get_embedding_dimension())), dtype=np.float32)
        prefix = self._config.passage_prefix
        if kind == "query":
            prefix = self._config.query_prefix
        together = self._net
        if kind == "query":
            together = self._query_net
        with timed() as took:
            vectors, lengths = together([prefix + t for t in texts])
        if not np.isfinite(vectors).all():
            raise ModelOutputError(
                f"encoder '{self.name}' gave NaN or infinite embeddings; check its weights"
            )
        network = together.net[0].auto_model
        # sentence-transformers runs BERT's pooler even where mean pooling ignores it.
        logits = 0
        if getattr(network, "pooler", None) is not None:
            logits = len(lengths)
        batch = Event(
            self._role,
            self.name,
            self._meter.current_phase,
            "embed",
            0,
            logits=logits,
            **vars(took),
        )
        self._meter.record(
            with_token_counts(batch, lengths, together.net.max_seq_length), shape_of(network.config)
        )
        return vectors

    def similarity(self, query: np.ndarray, passages: np.ndarray) -> np.ndarray:
        """Scores [passages] of vectors from `encode`; those for cosine have length 1, so both are
        dot products."""
        return np.asarray(passages @ query)


def _vectors(config: EncoderConfig, net: Any, texts: list[str]) -> tuple[np.ndarray, list[int]]:
    """Encode texts.

    Args:
        config: The encoder's settings.
        net: A SentenceTransformer.
        texts: Prefixes included.

    Returns:
        Vectors [texts, width], and the length of each text in tokens, also beyond the limit.
    """
    vectors = net.encode(
        texts,
        batch_size=config.batch_size,
        normalize_embeddings=config.similarity == "cosine",
        show_progress_bar=False,
        convert_to_numpy=True,
    )
    ids = net.tokenizer(texts, truncation=False, verbose=False)["input_ids"]
    return np.asarray(vectors, dtype=np.float32), list(map(len, ids))


def load_encoder(config: EncoderConfig, meter: Meter, role: str, alone: bool = False) -> Encoder:
    """Bind an encoder to a meter; loads it once a process.

    Args:
        config: The encoder's settings.
        meter: Counts what encoding costs.
        role: Under which it counts.
        alone: Each call runs by itself, so that no bit of its vectors depends on the other
            questions in flight.

    Raises:
        CannotRun: It cannot be loaded.
    """
    if config.base_url is not None:
        return ServedEncoder(config, meter, role)

    def load(folder: str, device: str | None) -> tuple[Together, Together]:
        """Load the networks for passages and for queries; mostly they are the same one."""
        passage = _load_network(Path(folder), config, device)
        query = passage
        if config.query_source is not None:
            query = _load_network(query_folder(config), config, device)
        return passage, query

    loaded = load_nets(config, "encoder", load)
    if alone:
        passage, query = loaded.nets
        loaded = replace(loaded, nets=(replace(passage, most=1), replace(query, most=1)))
    return SentenceEncoder(config, loaded, meter, role)


def _load_network(folder: Path, config: EncoderConfig, device: str | None) -> Together:
    """Load a network for encoding, pooling as its folder says, else by the configuration.

    Args:
        folder: With its files.
        config: The encoder's settings.
        device: Where it is loaded; None for the best.

    Raises:
        Exception: What the libraries raise.
    """
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    if (folder / MODULES).exists():
        net = SentenceTransformer(str(folder), device=device, local_files_only=True)
    else:
        words = Transformer(str(folder))
        width = words.get_embedding_dimension()
        net = SentenceTransformer(
            modules=[words, Pooling(width, config.pooling or "mean")], device=device
        )
    if config.max_length:
        net.max_seq_length = config.max_length
    return Together(net, partial(_vectors, config, net), config.batch_size)


class CrossEncoderReranker:
    """A cross-encoder bound to a meter: what `tools.reranker()` returns."""

    def __init__(
        self,
        config: EncoderConfig,
        loaded: Loaded[Together],
        meter: Meter,
        role: str,
    ) -> None:
        """Bind a network to a meter.

        Args:
            config: The reranker's settings.
            loaded: Its network.
            meter: Counts what it costs.
            role: Under which it counts.
        """
        self.name, self.identity = config.name, loaded.identity
        self._config, self._meter, self._role = config, meter, role
        self._together = loaded.nets
        self._net = loaded.nets.net
        self._shape = shape_of(self._net.model.config)

    def score(self, query: str, passages: Sequence[str]) -> np.ndarray:
        """Raw logit of each (query, passage) pair, [passages], higher is better. Raises
        ModelOutputError on NaN."""
        if not passages:
            return np.zeros(0, dtype=np.float32)
        question = self._config.query_prefix + query
        pairs = [(question, self._config.passage_prefix + p) for p in passages]
        with timed() as took:
            scores, lengths = self._together(pairs)
        if not np.isfinite(scores).all():
            raise ModelOutputError(
                f"reranker '{self.name}' gave NaN or infinite scores; check its weights"
            )
        limit = self._net.max_length or self._net.tokenizer.model_max_length
        batch = Event(
            self._role,
            self.name,
            self._meter.current_phase,
            "rerank",
            0,
            logits=len(lengths),
            **vars(took),
        )
        self._meter.record(with_token_counts(batch, lengths, limit), self._shape)
        return scores


def _scores(
    config: EncoderConfig, net: Any, pairs: list[tuple[str, str]]
) -> tuple[np.ndarray, list[int]]:
    """Score pairs of a question and a passage.

    Args:
        config: The reranker's settings.
        net: A CrossEncoder.
        pairs: Prefixes included.

    Returns:
        Scores [pairs], and the length of each pair in tokens, also beyond the limit.
    """
    logits = net.predict(
        pairs,
        batch_size=config.batch_size,
        activation_fn=lambda logits: logits,
        show_progress_bar=False,
    )
    questions, passages = map(list, zip(*pairs, strict=True))
    encoded = net.tokenizer(questions, passages, truncation=False, verbose=False)
    scores = np.asarray(logits, dtype=np.float32).reshape(len(pairs))
    return scores, list(map(len, encoded["input_ids"]))


def load_reranker(config: EncoderConfig, meter: Meter, role: str, alone: bool = False) -> Reranker:
    """Bind a cross-encoder to a meter; loads it once a process.

    Args:
        config: The reranker's settings.
        meter: Counts what it costs.
        role: Under which it counts.
        alone: As of `load_encoder`.

    Raises:
        CannotRun: It cannot be loaded, or is no reranker.
    """
    if config.base_url is not None:
        return ServedReranker(config, meter, role)
    from sentence_transformers import CrossEncoder

    def load(folder: str, device: str | None) -> Together:
        """Load a cross-encoder. Raises CannotRun where its weights have no scoring head."""
        net = CrossEncoder(
            folder, device=device, max_length=config.max_length, local_files_only=True
        )
        missing = _missing_head_weight(net.model, Path(folder))
        if missing:
            raise CannotRun(
                f"'{config.name}' is no reranker: its weights have no '{missing}', so its scores "
                "would be noise; name "
                "a cross-encoder with --set reranker=NAME"
            )
        return Together(net, partial(_scores, config, net), config.batch_size)

    loaded = load_nets(config, "reranker", load)
    n_scores = loaded.nets.net.num_labels
    if n_scores != 1:
        raise CannotRun(f"'{config.name}' gives {n_scores} scores a pair; a reranker gives one")
    if alone:
        loaded = replace(loaded, nets=replace(loaded.nets, most=1))
    return CrossEncoderReranker(config, loaded, meter, role)


def _missing_head_weight(model: Any, folder: Path) -> str | None:
    """The name of a weight of the network's head that the folder lacks (libraries draw it at
    random), else None."""
    stored: set[str] = set()
    for path in folder.glob("*.safetensors"):
        with safe_open(str(path), "pt") as file:
            stored.update(file.keys())
    body = f"{model.base_model_prefix}."
    for name, _ in model.named_parameters():
        if not name.startswith(body) and name not in stored:
            return str(name)
    return None
