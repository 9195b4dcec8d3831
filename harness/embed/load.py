"""Sentence encoders and rerankers through sentence-transformers: loaded once a process, bound to a
meter for every use.

folder of sentence-transformers (modules.json)   built as it says; a configuration that says otherwise is refused
folder of transformers alone (config.json)       its network with the pooling of the configuration, else the mean

"dragon":  question ──► query network ──► q          passage ──► passage network ──► p          score = q . p
reranker:  question and passage together ──► cross-encoder ──► score

What several questions in flight ask of one network at the same time runs as one call (SharedNetwork).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Generic, Literal, NamedTuple, TypeVar

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
from harness.parallel.members import current_scheduler
from harness.parallel.scheduler import Took, timed

T = TypeVar("T")


@dataclass(frozen=True)
class Loaded(Generic[T]):
    """Networks that are loaded, and the identity of their files.

    Attributes:
        nets: The network, or networks.
        identity: What identifies the files: hashes, or the commit on the hub.
    """

    nets: T
    identity: dict[str, object]


_loaded: dict[tuple[str, str], Loaded[Any]] = {}  # by kind and settings


def load_nets(
    config: EncoderConfig,
    kind: Literal["encoder", "reranker"],
    load: Callable[[str, str | None], T],
) -> Loaded[T]:
    """Load an encoder's networks, or return those that an earlier call with these settings loaded.

    Args:
        config: The encoder's settings.
        kind: What it is, for messages.
        load: Loads the networks from the folder of the weights, to a device (None: the best).

    Raises:
        CannotRun: The weights are missing, damaged or of another kind.
    """
    key = (kind, config.model_dump_json())
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
            raise CannotRun(f"cannot load {kind} '{config.name}': {str(e).splitlines()[0]}") from e
        _loaded[key] = Loaded(nets, facts.identity)
    return _loaded[key]


def with_token_counts(event: Event, lengths: Sequence[int], max_tokens: int) -> Event:
    """The event with the counts of a batch of texts: tokens, pairs, texts, and how many were cut.

    Args:
        event: The event without them.
        lengths: The number of tokens of each text.
        max_tokens: How many tokens of a text the encoder reads.
    """
    read_lengths = [min(length, max_tokens) for length in lengths]
    return replace(
        event,
        new=sum(read_lengths),
        # A token attends to every token of its own text.
        pairs=sum(length * length for length in read_lengths),
        requests=1,
        texts=len(lengths),
        cut=sum(length > max_tokens for length in lengths),
    )


class EncodedItems(NamedTuple):
    """What a network makes of some items, texts or pairs.

    Attributes:
        rows: A row of numbers for each item: vectors [items, width], or scores [items].
        lengths: The number of tokens of each item, also beyond the limit.
    """

    rows: np.ndarray
    lengths: list[int]


@dataclass(eq=False)
class SharedNetwork:
    """A network of sentence-transformers, whose short calls that wait together run as one: a
    RequestQueue.

    Attributes:
        net: The network.
        run_items: Runs the network on items (texts or pairs).
        max_shared_items: The largest number of items of a call that several questions share: a
            longer one gains nothing by company. With 1 each call runs alone.
        runs_first: As in RequestQueue.
    """

    net: Any
    run_items: Callable[[list[Any]], EncodedItems]
    max_shared_items: int
    runs_first: bool = True

    def __call__(self, items: list[Any]) -> EncodedItems:
        """Run the network on items, texts or pairs, together with those that other questions wait
        for. Raises what the network raises."""
        scheduler = current_scheduler()
        if scheduler is None:
            return self.run_items(items)
        encoded: EncodedItems = scheduler.run_in_batch(self, items)
        return encoded

    def take(self, requests: Sequence[list[Any]]) -> list[int]:
        """Choose which of the waiting requests run in the next call, by their indices.

        The oldest, and then each that fits in while all have at most `max_shared_items` items: with
        4 of these, requests of 3, 2 and 1 items -> [0, 2].

        Args:
            requests: The items of each waiting request, oldest first.
        """
        taken: list[int] = []
        items_left = self.max_shared_items
        for index, items in enumerate(requests):
            is_oldest = index == 0
            if is_oldest or len(items) <= items_left:
                taken.append(index)
                items_left -= len(items)
        return taken

    def run(self, requests: Sequence[list[Any]]) -> list[Any]:
        """Run the network once on the items of several requests.

        What fails together runs again one by one, so that only the request at fault gets the error.

        Args:
            requests: The items of each request.

        Returns:
            For each request its EncodedItems, or the error to raise in its thread.
        """
        try:
            encoded = self.run_items(list(chain.from_iterable(requests)))
        except Exception as error:  # noqa: BLE001 - raised in the thread that asked
            if len(requests) == 1:
                return [error]
            return [self.run([items])[0] for items in requests]
        results: list[Any] = []
        start = 0
        for items in requests:
            end = start + len(items)
            results.append(EncodedItems(encoded.rows[start:end], encoded.lengths[start:end]))
            start = end
        return results


class EncoderNetworks(NamedTuple):
    """The networks of an encoder, mostly the same one twice.

    Attributes:
        passage: Encodes passages.
        query: Encodes questions.
    """

    passage: SharedNetwork
    query: SharedNetwork


class SentenceEncoder:
    """An encoder bound to a meter; what `tools.encoder()` returns."""

    def __init__(
        self,
        config: EncoderConfig,
        loaded: Loaded[EncoderNetworks],
        meter: Meter,
        role: str,
    ) -> None:
        """Bind networks to a meter.

        Args:
            config: The encoder's settings.
            loaded: The networks for passages and for questions.
            meter: Counts what encoding costs.
            role: The role under which its cost counts.
        """
        self.name = config.name
        self.identity = loaded.identity
        self._config = config
        self._meter = meter
        self._role = role
        self._networks = loaded.nets

    def encode(self, texts: Sequence[str], kind: Literal["query", "passage"]) -> np.ndarray:
        """Encode texts, and record what that cost in the meter; no texts cost nothing.

        Args:
            texts: Without prefixes, which are added here.
            kind: "query" or "passage", which may have a prefix and a network of their own.

        Returns:
            Vectors [len(texts), width], float32; of length 1 where they are compared by cosine.

        Raises:
            ModelOutputError: The network gave NaN or an infinite number.
        """
        if not texts:
            width = int(self._networks.passage.net.get_embedding_dimension())
            return np.zeros((0, width), dtype=np.float32)
        prefix = self._config.passage_prefix
        network = self._networks.passage
        if kind == "query":
            prefix = self._config.query_prefix
            network = self._networks.query
        with timed() as took:
            encoded = network([prefix + text for text in texts])
        if not np.isfinite(encoded.rows).all():
            raise ModelOutputError(
                f"encoder '{self.name}' gave NaN or infinite embeddings; check its weights"
            )
        self._book(network, encoded.lengths, took)
        return encoded.rows

    def _book(self, network: SharedNetwork, lengths: Sequence[int], took: Took) -> None:
        """Record in the meter what encoding a batch of texts cost.

        Args:
            network: The network that encoded them.
            lengths: The number of tokens of each text.
            took: The time that it took.
        """
        model = network.net[0].auto_model  # the transformer: the first module of the network
        # sentence-transformers runs BERT's pooler even where mean pooling ignores it.
        n_pooled = 0
        if getattr(model, "pooler", None) is not None:
            n_pooled = len(lengths)
        event_without_counts = Event(
            role=self._role,
            model=self.name,
            phase=self._meter.current_phase,
            kind="embed",
            new=0,
            logits=n_pooled,  # of an encoder this field counts texts that went through the pooler
            seconds=took.seconds,
            queued=took.queued,
        )
        event = with_token_counts(
            event_without_counts, lengths, max_tokens=network.net.max_seq_length
        )
        self._meter.record(event, shape_of(model.config))

    def similarity(self, query: np.ndarray, passages: np.ndarray) -> np.ndarray:
        """Score passages by the dot product with the query, which is the cosine for vectors of
        length 1.

        Args:
            query: The vector of the question [width], from `encode`.
            passages: The vectors of the passages [passages, width].

        Returns:
            Scores [passages].
        """
        return np.asarray(passages @ query)


def _encode_texts(config: EncoderConfig, net: Any, texts: list[str]) -> EncodedItems:
    """Encode texts by a network of sentence-transformers: a vector and a length for each.

    Args:
        config: The encoder's settings.
        net: A SentenceTransformer.
        texts: The texts, prefixes included.
    """
    vectors = net.encode(
        texts,
        batch_size=config.batch_size,
        normalize_embeddings=config.similarity == "cosine",
        show_progress_bar=False,
        convert_to_numpy=True,
    )
    ids_of_texts = net.tokenizer(texts, truncation=False, verbose=False)["input_ids"]
    return EncodedItems(np.asarray(vectors, dtype=np.float32), list(map(len, ids_of_texts)))


def load_encoder(config: EncoderConfig, meter: Meter, role: str, alone: bool = False) -> Encoder:
    """Load an encoder, once a process, and bind it to a meter; for an encoder behind a server
    (`config.base_url`) nothing is loaded, and the server is asked.

    Args:
        config: The encoder's settings.
        meter: Counts what encoding costs.
        role: The role under which its cost counts.
        alone: Each call runs by itself, as no two share a batch, so that no bit of its vectors
            depends on the other questions in flight.

    Raises:
        CannotRun: It cannot be loaded.
    """
    if config.base_url is not None:
        return ServedEncoder(config, meter, role)

    def load(folder: str, device: str | None) -> EncoderNetworks:
        """Load the network for passages and that for queries; mostly they are the same one."""
        passage = _load_network(Path(folder), config, device)
        query = passage
        if config.query_source is not None:
            query = _load_network(query_folder(config), config, device)
        return EncoderNetworks(passage, query)

    loaded = load_nets(config, "encoder", load)
    if alone:
        networks = EncoderNetworks(
            passage=replace(loaded.nets.passage, max_shared_items=1),
            query=replace(loaded.nets.query, max_shared_items=1),
        )
        loaded = replace(loaded, nets=networks)
    return SentenceEncoder(config, loaded, meter, role)


def _load_network(folder: Path, config: EncoderConfig, device: str | None) -> SharedNetwork:
    """Load a network for encoding, pooling as its folder says, else as the configuration says, else
    by the mean.

    Args:
        folder: The folder with its files.
        config: The encoder's settings.
        device: The device that it is loaded to; None for the best.

    Raises:
        Exception: What the libraries raise.
    """
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    if (folder / MODULES).exists():
        net = SentenceTransformer(str(folder), device=device, local_files_only=True)
    else:
        transformer = Transformer(str(folder))
        pooling = Pooling(transformer.get_embedding_dimension(), config.pooling or "mean")
        net = SentenceTransformer(modules=[transformer, pooling], device=device)
    if config.max_length:
        net.max_seq_length = config.max_length
    return SharedNetwork(net, partial(_encode_texts, config, net), config.batch_size)


class CrossEncoderReranker:
    """A cross-encoder bound to a meter: what `tools.reranker()` returns."""

    def __init__(
        self,
        config: EncoderConfig,
        loaded: Loaded[SharedNetwork],
        meter: Meter,
        role: str,
    ) -> None:
        """Bind a network to a meter.

        Args:
            config: The reranker's settings.
            loaded: Its network.
            meter: Counts what it costs.
            role: The role under which its cost counts.
        """
        self.name = config.name
        self.identity = loaded.identity
        self._config = config
        self._meter = meter
        self._role = role
        self._network = loaded.nets
        self._net = loaded.nets.net
        self._shape = shape_of(self._net.model.config)

    def score(self, query: str, passages: Sequence[str]) -> np.ndarray:
        """Score passages for a question, and record what that cost in the meter; no passages cost
        nothing.

        Args:
            query: The question, without its prefix.
            passages: The passages, without their prefix.

        Returns:
            The raw logit of each pair of question and passage, [passages]; higher is better.

        Raises:
            ModelOutputError: The network gave NaN or an infinite number.
        """
        if not passages:
            return np.zeros(0, dtype=np.float32)
        question = self._config.query_prefix + query
        prefix = self._config.passage_prefix
        pairs = [(question, prefix + passage) for passage in passages]
        with timed() as took:
            scored = self._network(pairs)
        if not np.isfinite(scored.rows).all():
            raise ModelOutputError(
                f"reranker '{self.name}' gave NaN or infinite scores; check its weights"
            )
        max_tokens = self._net.max_length or self._net.tokenizer.model_max_length
        event_without_counts = Event(
            role=self._role,
            model=self.name,
            phase=self._meter.current_phase,
            kind="rerank",
            new=0,
            logits=len(scored.lengths),  # the head runs once for each pair
            seconds=took.seconds,
            queued=took.queued,
        )
        event = with_token_counts(event_without_counts, scored.lengths, max_tokens)
        self._meter.record(event, self._shape)
        return scored.rows


def _score_pairs(config: EncoderConfig, net: Any, pairs: list[tuple[str, str]]) -> EncodedItems:
    """Score pairs of a question and a passage by a cross-encoder: a score and a length for each.

    Args:
        config: The reranker's settings.
        net: A CrossEncoder.
        pairs: (question, passage) of each, prefixes included.
    """
    logits = net.predict(
        pairs,
        batch_size=config.batch_size,
        activation_fn=lambda logits: logits,  # none, where the library takes a sigmoid
        show_progress_bar=False,
    )
    questions = [question for question, _ in pairs]
    passages = [passage for _, passage in pairs]
    ids_of_pairs = net.tokenizer(questions, passages, truncation=False, verbose=False)["input_ids"]
    scores = np.asarray(logits, dtype=np.float32).reshape(len(pairs))
    return EncodedItems(scores, list(map(len, ids_of_pairs)))


def load_reranker(config: EncoderConfig, meter: Meter, role: str, alone: bool = False) -> Reranker:
    """Load a cross-encoder, once a process, and bind it to a meter; for a reranker behind a server
    (`config.base_url`) nothing is loaded, and the server is asked.

    Args:
        config: The reranker's settings.
        meter: Counts what it costs.
        role: The role under which its cost counts.
        alone: Each call runs by itself, so that no bit of its scores depends on the other questions
            in flight.

    Raises:
        CannotRun: It cannot be loaded, or is no reranker.
    """
    if config.base_url is not None:
        return ServedReranker(config, meter, role)
    from sentence_transformers import CrossEncoder

    def load(folder: str, device: str | None) -> SharedNetwork:
        """Load a cross-encoder to a device (None: the best).

        Raises CannotRun where its weights have no scoring head.
        """
        net = CrossEncoder(
            folder, device=device, max_length=config.max_length, local_files_only=True
        )
        missing_weight = _missing_head_weight(net.model, Path(folder))
        if missing_weight:
            raise CannotRun(
                f"'{config.name}' is no reranker: its weights have no '{missing_weight}', so its "
                "scores would be noise; name "
                "a cross-encoder with --set reranker=NAME"
            )
        return SharedNetwork(net, partial(_score_pairs, config, net), config.batch_size)

    loaded = load_nets(config, "reranker", load)
    n_scores = loaded.nets.net.num_labels
    if n_scores != 1:
        raise CannotRun(f"'{config.name}' gives {n_scores} scores a pair; a reranker gives one")
    if alone:
        loaded = replace(loaded, nets=replace(loaded.nets, max_shared_items=1))
    return CrossEncoderReranker(config, loaded, meter, role)


def _missing_head_weight(model: Any, folder: Path) -> str | None:
    """The name of a weight of a network's scoring head that its files lack, else None.

    Libraries draw such weights at random, so the scores would be noise.

    Args:
        model: The network.
        folder: The folder with its .safetensors files.
    """
    stored_names: set[str] = set()
    for path in folder.glob("*.safetensors"):
        with safe_open(str(path), "pt") as file:
            stored_names.update(file.keys())
    body_prefix = f"{model.base_model_prefix}."
    for name, _ in model.named_parameters():
        is_of_head = not name.startswith(body_prefix)
        if is_of_head and name not in stored_names:
            return str(name)
    return None
