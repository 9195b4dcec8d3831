"""Tree construction, layer by layer (docs/methods/raptor.md#raptor).

level 1   chunks of 100 tokens       c1 c2 c3 c4 c5 ...      embedded
level 2   a summary of each cluster  s1 s2 ...               embedded, clustered again, and so on
stops at a level of 11 nodes or fewer, or after 5 levels of summaries

A node may be in several clusters, so it may have several parents. The prompt asks for what the
released code's asks for (docs/methods/raptor.md#raptor-summary), at temperature 0 (released: the
API's default); nodes stand on a line each (released: with an empty line between).

Soft clusters of embeddings, as RAPTOR makes them (docs/methods/raptor.md#raptor-clusters).

    vectors ──UMAP──► 10 dimensions ──Gaussian mixture, number of components by BIC──► global clusters
    each global cluster ──the same on its own vectors──► local clusters; one with too many tokens is clustered again

A node belongs to every component with a posterior above the threshold, one without any to its
likeliest. Equal vectors are one point and share its clusters; a duplicate cluster is kept once; one
that cannot be split is cut in order.

UMAP asks numba to compile some ten functions at their first call, 10 s on a CPU core, and does not
store them; here they are kept for the next process.
"""

import os
import sys
import threading
import warnings
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from math import isqrt
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from harness.errors import CannotRun, QuestionError
from harness.method import Tools
from harness.models import MeteredModel
from harness.storage.files import harness_home
from harness.types import Document
from methods import summary
from methods.graph import Graph, NewNodes, equal_weights
from methods.packing import clause_chunks
from methods.raptor.config import NEEDS_UMAP, RaptorConfig

_PACKAGES_OF_UMAP = ("umap", "pynndescent")


def cache_compiled_functions(modules: Iterable[Any], cache_root: Path) -> None:
    """Let numba keep what it compiles of some modules on disk; nothing happens where it cannot
    write.

    Args:
        modules: The modules whose functions numba compiles.
        cache_root: A folder below which they are kept, unless numba is configured for another one.
    """
    from numba.core.dispatcher import Dispatcher

    config: Any = import_module("numba").config
    configured_folder = config.CACHE_DIR
    # numba's own key has its version and the CPU, but not how far it optimises.
    folder = (cache_root / f"numba-opt{int(config.OPT)}").absolute()
    if configured_folder:
        folder = Path(configured_folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return
    if not os.access(folder, os.W_OK):
        return
    config.CACHE_DIR = str(folder)
    try:
        for module in modules:
            for attribute in list(vars(module).values()):
                if isinstance(attribute, Dispatcher):
                    attribute.enable_caching()
    finally:
        config.CACHE_DIR = configured_folder


_MAX_DEPTH = 5  # times a cluster is clustered again; then it is cut in order
# numba's kernels may not be entered by two threads at once, and warnings are a matter of the whole
# process.
_LOCK = threading.Lock()


def cluster_nodes(
    vectors: np.ndarray, token_counts: Sequence[int], max_tokens: int, config: RaptorConfig
) -> list[list[int]]:
    """Cluster nodes by their embeddings; a node may be in several clusters.

    Args:
        vectors: The embedding of each node, [nodes, width].
        token_counts: The tokens of each node [nodes].
        max_tokens: Most tokens of a group, but for a group of one node.
        config: The method's settings.

    Returns:
        Groups of rows of `vectors`; every row is in one group at least, and no group is there
        twice.

    Raises:
        CannotRun: UMAP is configured but not installed.
    """
    groups = _cluster_until_small(
        list(range(len(vectors))), vectors, token_counts, max_tokens, config
    )
    return [list(group) for group in dict.fromkeys(map(tuple, groups))]


def _cluster_until_small(
    group: list[int],
    vectors: np.ndarray,
    token_counts: Sequence[int],
    max_tokens: int,
    config: RaptorConfig,
    splits_left: int = _MAX_DEPTH,
) -> Iterator[list[int]]:
    """Yield the clusters of a group; one that is too large is clustered again, or cut in order
    where that cannot divide it: it is the whole group, or has too few distinct vectors.

    Args:
        group: The numbers of nodes, which are rows of `vectors`.
        vectors: The vectors of all nodes [nodes, width].
        token_counts: The tokens of each node [nodes].
        max_tokens: Most tokens of a cluster.
        config: The method's settings.
        splits_left: How often a cluster may be clustered again; then it is cut in order.
    """
    for rows in _soft_clusters(vectors[group], config):
        cluster = [group[row] for row in rows]
        cluster_tokens = sum(token_counts[node] for node in cluster)
        if len(cluster) == 1 or cluster_tokens <= max_tokens:
            yield cluster
            continue
        is_whole_group = len(cluster) == len(group)
        may_be_split = splits_left > 0 and not is_whole_group
        if not may_be_split or _has_few_points(vectors[cluster], config):
            yield from cut_in_order(cluster, token_counts, max_tokens)
        else:
            yield from _cluster_until_small(
                cluster, vectors, token_counts, max_tokens, config, splits_left - 1
            )


def _has_few_points(vectors: np.ndarray, config: RaptorConfig) -> bool:
    """Whether there are too few distinct vectors to be clustered."""
    distinct = _distinct_vectors(vectors)
    return len(distinct.first_rows) <= config.dimensions + 1


def cut_in_order(
    group: Sequence[int], token_counts: Sequence[int], max_tokens: int
) -> Iterator[list[int]]:
    """Yield parts of a group, in order, each of as many nodes as fit.

    Args:
        group: The numbers of nodes.
        token_counts: The tokens of each node [nodes].
        max_tokens: Most tokens of a part; a node that has more is a part alone.
    """
    part: list[int] = []
    part_tokens = 0
    for node in group:
        if part and part_tokens + token_counts[node] > max_tokens:
            yield part
            part = []
            part_tokens = 0
        part.append(node)
        part_tokens += token_counts[node]
    if part:
        yield part


class _DistinctVectors(NamedTuple):
    """Which rows of vectors are equal: rows a, b, a -> first_rows [0, 1], number_of_row [0, 1, 0].

    Attributes:
        first_rows: The first row of each distinct vector.
        number_of_row: For every row the number of its vector among the distinct ones.
    """

    first_rows: list[int]
    number_of_row: list[int]


def _distinct_vectors(vectors: np.ndarray) -> _DistinctVectors:
    """Find the rows of `vectors` [rows, width] that are equal."""
    number_of_vector: dict[bytes, int] = {}
    first_rows: list[int] = []
    number_of_row: list[int] = []
    for row, vector in enumerate(vectors):
        number = number_of_vector.setdefault(vector.tobytes(), len(number_of_vector))
        if number == len(first_rows):
            first_rows.append(row)
        number_of_row.append(number)
    return _DistinctVectors(first_rows, number_of_row)


def _soft_clusters(vectors: np.ndarray, config: RaptorConfig) -> list[list[int]]:
    """Cluster rows of vectors, as lists of rows in ascending order; one may be in several clusters.

    Equal rows are one point in the clustering, and share its clusters.
    """
    distinct = _distinct_vectors(vectors)
    points = vectors[distinct.first_rows]
    clusters: list[list[int]] = []
    for points_in_cluster in _local_clusters(points, config):
        point_numbers = set(points_in_cluster.tolist())
        rows: list[int] = []
        for row, point_number in enumerate(distinct.number_of_row):
            if point_number in point_numbers:
                rows.append(row)
        clusters.append(rows)
    return clusters


def _local_clusters(points: np.ndarray, config: RaptorConfig) -> list[np.ndarray]:
    """Cluster points: global clusters, then local ones inside each; so few points that they cannot
    be reduced to `dimensions` are one cluster.

    Args:
        points: Different points [n, width].
        config: The method's settings.

    Returns:
        The numbers of the points of each local cluster; a point may be in several.
    """
    max_of_one_cluster = config.dimensions + 1
    if len(points) <= max_of_one_cluster:
        return [np.arange(len(points))]
    # As many neighbours as the root of the number of points, as in the released code.
    global_neighbours = isqrt(len(points) - 1)
    reduced_points = _reduce_dimensions(points, global_neighbours, config)
    clusters: list[np.ndarray] = []
    for members in _mixture_clusters(reduced_points, config):
        if len(members) <= max_of_one_cluster:
            clusters.append(members)
            continue
        reduced_again = _reduce_dimensions(points[members], config.neighbours, config)
        local_clusters = _mixture_clusters(reduced_again, config)
        clusters += [members[places_in_members] for places_in_members in local_clusters]
    return clusters


def _reduce_dimensions(points: np.ndarray, neighbours: int, config: RaptorConfig) -> np.ndarray:
    """Reduce points to fewer dimensions by UMAP or PCA: to `dimensions`, and n - 2 at most.

    Args:
        points: The points [n, width].
        neighbours: How many neighbours UMAP looks at.
        config: The method's settings.

    Returns:
        The points [n, dimensions].
    """
    n_dimensions = max(1, min(config.dimensions, len(points) - 2))
    if config.reduction == "pca":
        pca = import_module("sklearn.decomposition").PCA(
            min(n_dimensions, points.shape[1]), svd_solver="full"
        )
        return np.asarray(pca.fit_transform(points.astype(np.float64)))
    with _LOCK, warnings.catch_warnings():
        # UMAP warns of tiny and disconnected graphs, and lays them out all the same.
        warnings.simplefilter("ignore")
        reducer = _import_umap().UMAP(
            n_neighbors=min(max(2, neighbours), len(points) - 1),
            n_components=n_dimensions,
            metric="cosine",
            random_state=config.seed,
            n_jobs=1,
        )
        return np.asarray(reducer.fit_transform(points), dtype=np.float64)


def _import_umap() -> Any:
    """Import umap, late as it takes seconds. At the first time also lets numba keep what it
    compiles for umap.

    Raises:
        CannotRun: It is not installed.
    """
    is_first = "umap" not in sys.modules
    try:
        umap = import_module("umap")
    except ModuleNotFoundError as error:
        raise CannotRun(f"method.reduction: {NEEDS_UMAP}") from error
    if is_first:
        names = [name for name in sys.modules if name.partition(".")[0] in _PACKAGES_OF_UMAP]
        cache_compiled_functions([sys.modules[name] for name in names], harness_home())
    return umap


def _mixture_clusters(points: np.ndarray, config: RaptorConfig) -> list[np.ndarray]:
    """The points of each component of a Gaussian mixture, ascending. A point is in its likeliest
    component, and in each whose posterior is above `threshold`.

    Mixtures of 1 to min(components, n) - 1 components (the released range, its upper end excluded)
    are tried with the configured seed; the one with the lowest BIC is fitted anew with seed 0, as
    there.

    Args:
        points: The points [n, dimensions].
        config: The method's settings.
    """
    mixture_class = import_module("sklearn.mixture").GaussianMixture
    component_counts = range(1, max(2, min(config.components, len(points))))
    with _LOCK, warnings.catch_warnings():
        # Of mixtures that have not converged; BIC judges them like the others.
        warnings.simplefilter("ignore")
        mixtures = [
            mixture_class(count, random_state=config.seed).fit(points) for count in component_counts
        ]
        best_mixture = min(mixtures, key=lambda mixture: float(mixture.bic(points)))
        mixture = mixture_class(best_mixture.n_components, random_state=0).fit(points)
        posterior = mixture.predict_proba(points)
    is_member = posterior > config.threshold
    is_member[np.arange(len(points)), posterior.argmax(axis=1)] = True
    return [
        np.flatnonzero(is_in_component) for is_in_component in is_member.T if is_in_component.any()
    ]


def build_tree(document: Document, config: RaptorConfig, tools: Tools) -> tuple[Graph, np.ndarray]:
    """Build the tree of one document, layer by layer: chunks, then summaries of clusters of the
    layer below, until there are `layers` of these or a layer is too small to be clustered.

    Args:
        document: The document.
        config: The method's settings.
        tools: The engine's tools.

    Returns:
        The tree, and an embedding of every node [nodes, width].

    Raises:
        QuestionError: The builder's window leaves no room for text.
        CannotRun: UMAP is missing.
    """
    model = tools.model("builder")
    encoder = tools.encoder()
    graph = Graph()
    max_tokens = _max_cluster_tokens(config, model)
    if max_tokens < config.cluster_tokens:
        graph.log.append(
            f"clusters hold {max_tokens} tokens at most, which is what the window of "
            f"'{model.name}' leaves"
        )
    _add_chunks(graph, document, config, model)
    vectors = encoder.encode(graph.text, "passage")
    nodes = list(range(len(graph.text)))
    newline_tokens = model.count("\n")
    for level in range(2, config.layers + 2):  # level 1 is the chunks
        too_few_to_cluster = len(nodes) <= config.dimensions + 1
        if too_few_to_cluster:
            break
        token_counts = [model.count(text) + newline_tokens for text in graph.texts_of(nodes)]
        clusters_of_rows = cluster_nodes(vectors[nodes], token_counts, max_tokens, config)
        groups = [[nodes[row] for row in rows] for rows in clusters_of_rows]
        graph.log.append(f"level {level}: {len(nodes)} nodes in {len(groups)} clusters")
        nodes = _summarise_groups(graph, level, groups, config, tools)
        summary_vectors = encoder.encode(graph.texts_of(nodes), "passage")
        if nodes:
            vectors = np.concatenate([vectors, summary_vectors])
    return graph, vectors


def _add_chunks(
    graph: Graph, document: Document, config: RaptorConfig, model: MeteredModel
) -> None:
    """Add the document's chunks to the tree as its lowest nodes, level 1; a note where there are
    none."""
    for start, end in clause_chunks(document.text, config.chunk_tokens, model):
        words = document.text[start:end].split()
        graph.add_node(" ".join(words), 1, (start, end))
    if not graph.text:
        graph.notes.append("the document has no text, so there is nothing to retrieve")


def _max_cluster_tokens(config: RaptorConfig, model: MeteredModel) -> int:
    """Most tokens of a cluster: the setting's, or what the builder's window leaves. Raises
    QuestionError where that does not hold a chunk."""
    prompt_tokens_alone = summary.prompt_tokens_without_texts(
        model, summary.DETAILED.with_replacements(config)
    )
    tokens_left = model.window - prompt_tokens_alone - config.summary_tokens
    if tokens_left < config.chunk_tokens:
        raise QuestionError(
            f"the window of '{model.name}' ({model.window} tokens) does not hold a chunk of "
            f"{config.chunk_tokens} tokens beside the prompt ({prompt_tokens_alone}) and the "
            f"summary ({config.summary_tokens}); lower method.chunk_tokens or "
            "method.summary_tokens, or raise model.window"
        )
    return min(config.cluster_tokens, tokens_left)


def _summarise_groups(
    graph: Graph, level: int, groups: list[list[int]], config: RaptorConfig, tools: Tools
) -> list[int]:
    """Summarise each group of nodes, and add the summaries to the tree.

    Each summary is stored on disk as soon as it is written, so that an interrupted build of the
    tree goes on from there.

    Args:
        graph: The tree, which gets the summaries, and a note on empty ones.
        level: The number of the level that they make.
        groups: The numbers of the nodes of each group.
        config: The method's settings.
        tools: The engine's tools.

    Returns:
        The numbers of the new nodes.
    """
    model = tools.model("builder")
    prompt = summary.DETAILED.with_replacements(config)

    def summarise_texts(texts: list[str]) -> str:
        """Ask the builder for a summary of the texts of one group."""
        return summary.summarise(texts, model, config.summary_tokens, prompt)

    texts_of_groups = [graph.texts_of(group) for group in groups]
    summaries = summary.write_each_group_and_store(level, texts_of_groups, summarise_texts, tools)
    new_nodes: list[NewNodes] = []
    for text, group in zip(summaries, groups, strict=True):
        line = " ".join(text.split())
        if line:
            weights = equal_weights(group)
            new_nodes.append(NewNodes(texts=[line], lower_nodes=group, weights=weights))
    nodes = graph.add_level(level, new_nodes)
    n_empty = len(groups) - len(new_nodes)
    if n_empty:
        graph.notes.append(
            f"level {level}: {n_empty} of {len(groups)} summaries were empty and are left out"
        )
    return nodes
