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
from harness.parallel.members import current_scheduler
from harness.parallel.scheduler import timed

T = TypeVar("T")


@dataclass(frozen=True)
class Loaded(Generic[T]):
    """Networks that are loaded, and the identity of their files."""

    nets: T
    identity: dict[str, object]


_loaded: dict[tuple[str, str], Loaded[Any]] = {}


def load_nets(config: EncoderConfig, what: str, load: Callable[[str, str | None], T]) -> Loaded[T]:
    """Load an encoder's networks, or return those that an earlier call with these settings loaded.

    Args:
        config: The encoder's settings.
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
    """The event with the counts of a batch of texts: tokens, pairs, texts, and how many were cut.

    Args:
        event: The event without them.
        lengths: The number of tokens of each text.
        limit: How many tokens of a text the encoder reads.
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
        run_items: Runs the network on items (texts or pairs); returns a row of numbers and a length
            for each.
        most: The largest number of items of a call that several questions share: a longer one gains
            nothing by company. With 1 each call runs alone.
        runs_first: As in RequestQueue.
    """

    net: Any
    run_items: Callable[[list[Any]], tuple[np.ndarray, list[int]]]
    most: int
    runs_first: bool = True

    def __call__(self, items: list[Any]) -> tuple[np.ndarray, list[int]]:
        """Run the network on items, together with those that other questions wait for.

        Args:
            items: Texts or pairs.

        Returns:
            A row of numbers [items, ...] and a length in tokens for each item. Raises what the
            network raises.
        """
        scheduler = current_scheduler()
        if scheduler is None:
            return self.run_items(items)
        rows, lengths = scheduler.run_in_batch(self, items)
        return rows, lengths

    def take(self, asks: Sequence[list[Any]]) -> list[int]:
        """Choose which of the waiting requests run in the next call, by their indices.

        The oldest, and then each that fits in while all have at most `most` items: with `most` 4,
        requests of 3, 2 and 1 items -> [0, 2].

        Args:
            asks: The items of each waiting request, oldest first.
        """
        taken: list[int] = []
        items_left = self.most
        for n, items in enumerate(asks):
            if n == 0 or len(items) <= items_left:
                taken.append(n)
                items_left -= len(items)
        return taken

    def run(self, asks: Sequence[list[Any]]) -> list[Any]:
        """Run the network once on the items of several requests.

        What fails together runs again one by one, so that only the request at fault gets the error.

        Args:
            asks: The items of each request.

        Returns:
            For each request its (rows, lengths), or the error to raise in its thread.
        """
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
            role: The role under which its cost counts.
        """
        self.name = config.name
        self.identity = loaded.identity
        self._config = config
        self._meter = meter
        self._role = role
        self._net, self._query_net = loaded.nets

    def encode(self, texts: Sequence[str], kind: Literal["query", "passage"]) -> np.ndarray:
        """Encode texts, and record what that cost in the meter.

        Args:
            texts: Without prefixes, which are added here.
            kind: "query" or "passage", which may have a prefix and a network of their own.

        Returns:
            Vectors [len(texts), width], float32; of length 1 where they are compared by cosine.

        Raises:
            ModelOutputError: The network gave NaN or an infinite number.
        """
        if not texts:
            return np.zeros((0, int(self._net.net.get_embedding_dimension())), dtype=np.float32)
        prefix = self._config.passage_prefix
        together = self._net
        if kind == "query":
            prefix = self._config.query_prefix
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
            seconds=took.seconds,
            queued=took.queued,
        )
        self._meter.record(
            with_token_counts(batch, lengths, together.net.max_seq_length), shape_of(network.config)
        )
        return vectors

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


def _vectors(config: EncoderConfig, net: Any, texts: list[str]) -> tuple[np.ndarray, list[int]]:
    """Encode texts by a network of sentence-transformers.

    Args:
        config: The encoder's settings.
        net: A SentenceTransformer.
        texts: The texts, prefixes included.

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
    """Load an encoder, once a process, and bind it to a meter.

    Args:
        config: The encoder's settings.
        meter: Counts what encoding costs.
        role: The role under which its cost counts.
        alone: Each call runs by itself, so that no bit of its vectors depends on the other
            questions in flight.

    Raises:
        CannotRun: It cannot be loaded.
    """
    if config.base_url is not None:
        return ServedEncoder(config, meter, role)

    def load(folder: str, device: str | None) -> tuple[Together, Together]:
        """Load the network for passages and that for queries; mostly they are the same one."""
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
    """Load a network for encoding, pooling as its folder says, else as the configuration says.

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
            role: The role under which its cost counts.
        """
        self.name = config.name
        self.identity = loaded.identity
        self._config = config
        self._meter = meter
        self._role = role
        self._together = loaded.nets
        self._net = loaded.nets.net
        self._shape = shape_of(self._net.model.config)

    def score(self, query: str, passages: Sequence[str]) -> np.ndarray:
        """Score passages for a question, and record what that cost in the meter.

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
            seconds=took.seconds,
            queued=took.queued,
        )
        self._meter.record(with_token_counts(batch, lengths, limit), self._shape)
        return scores


def _scores(
    config: EncoderConfig, net: Any, pairs: list[tuple[str, str]]
) -> tuple[np.ndarray, list[int]]:
    """Score pairs of a question and a passage by a cross-encoder.

    Args:
        config: The reranker's settings.
        net: A CrossEncoder.
        pairs: (question, passage) of each, prefixes included.

    Returns:
        Scores [pairs], and the length of each pair in tokens, also beyond the limit.
    """
    logits = net.predict(
        pairs,
        batch_size=config.batch_size,
        activation_fn=lambda logits: logits,
        show_progress_bar=False,
    )
    questions = [question for question, _ in pairs]
    passages = [passage for _, passage in pairs]
    encoded = net.tokenizer(questions, passages, truncation=False, verbose=False)
    scores = np.asarray(logits, dtype=np.float32).reshape(len(pairs))
    return scores, list(map(len, encoded["input_ids"]))


def load_reranker(config: EncoderConfig, meter: Meter, role: str, alone: bool = False) -> Reranker:
    """Load a cross-encoder, once a process, and bind it to a meter.

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

    def load(folder: str, device: str | None) -> Together:
        """Load a cross-encoder to a device (None: the best).

        Raises CannotRun where its weights have no scoring head.
        """
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
    """The name of a weight of a network's scoring head that its files lack, else None.

    Libraries draw such weights at random, so the scores would be noise.

    Args:
        model: The network.
        folder: The folder with its .safetensors files.
    """
    stored: set[str] = set()
    for path in folder.glob("*.safetensors"):
        with safe_open(str(path), "pt") as file:
            stored.update(file.keys())
    body = f"{model.base_model_prefix}."
    for name, _ in model.named_parameters():
        if not name.startswith(body) and name not in stored:
            return str(name)
    return None
