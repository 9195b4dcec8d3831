"""Outputs of the authors' programs on made-up inputs (docs/parity.md): a change of ours shows
here."""

import numpy as np

from methods.compression.selective import _sentence_ranges
from methods.compression.surprise import cut_into_units
from methods.hipporag import HippoRAG, passage_ranks
from methods.in_context_ranking import _chunk_scores
from methods.longrefiner.scores import global_scores, local_scores, normalised
from methods.longrefiner.tree import Node, Tree
from methods.raptor.config import RaptorConfig
from methods.raptor.tree import _mixture_clusters
from tests.methods.conftest import FakeTools


def test_hipporag_ranks_passages_as_its_program_does():
    """OSU-NLP-Group/HippoRAG at c617143: the walk from two kept triples, with similar phrases."""
    index = {
        "facts": [["a", "is", "b"], ["b", "is", "c"], ["d", "is", "e"], ["c", "of", "a"]],
        "of": [[0, 1], [2], [3, 0], []],
        "synonyms": [[0, 3, 0.9], [3, 0, 0.9], [2, 4, 0.85]],
    }
    fit, similarity = np.array([0.7, 1.0, 0.0, 0.4]), np.array([0.5, 0.0, 1.0, 0.25])
    found = passage_ranks(index, fit, [0, 1], similarity, HippoRAG.Config())
    assert np.allclose(found, [0.059241, 0.006632, 0.068458, 0.004608], atol=2e-6)


def test_raptor_clusters_points_as_its_program_does():
    """parthsarthi03/raptor at 2e3e83e: three groups of points, two of which touch, are two
    components."""
    dice = np.random.default_rng(3)
    points = np.concatenate([dice.normal(centre, 0.6, (40, 3)) for centre in (0, 1.2, 4)])
    groups = _mixture_clusters(points, RaptorConfig(components=8))
    assert [(len(group), int(group.sum())) for group in groups] == [(80, 3160), (40, 3980)]


def test_longrefiner_scores_nodes_as_its_program_does():
    """ignorejjj/LongRefiner at ad5ca56: an abstract, a section with two sub-sections, a section;
    weight 0.3."""
    kinds = [
        ("abstract", "", -1), ("paragraph", "", 0), ("paragraph", "", 0),
        ("section", "S0", -1), ("paragraph", "", 3), ("sub-section", "S0U0", 3), ("paragraph", "", 5),
        ("paragraph", "", 5), ("sub-section", "S0U1", 3), ("paragraph", "", 8),
        ("section", "S1", -1), ("paragraph", "", 10), ("paragraph", "", 10),
    ]  # fmt: skip
    tree = Tree(
        [Node(kind, title, at, at + 1, parent) for at, (kind, title, parent) in enumerate(kinds)]
    )
    leaves = [1.0, -2.0, 0.5, 3.0, -1.0, 2.0, 0.0, -3.0]
    local = normalised([local_scores(tree, leaves, "code")])[0]
    scores = local + 0.3 * global_scores(tree, {"s0", "s0u0", "abstract"}, "code")
    theirs = {
        1: 0.666667,
        2: 0.166667,
        4: 0.683333,
        6: 1.1,
        7: 0.433333,
        9: 0.833333,
        11: 0.5,
        12: 0.0,
    }
    theirs |= {0: 0.716667, 5: 1.066667, 8: 0.933333, 3: 0.994444, 10: 0.25}
    assert np.allclose([scores[i] for i in theirs], list(theirs.values()), atol=1e-6)


def test_selective_context_ends_sentences_as_its_program_does():
    """liyucheng09/Selective_Context at 3074343: not behind titles and abbreviations, not behind
    "!"."""
    text = "Mr. Abel took his Ph.D. at Kelford (est. 1719). It was e.g. a mill! Was it? U.S. rivers fell. He left."
    units = cut_into_units(text, FakeTools().model())
    found = [
        text[units.boundaries[a] : units.boundaries[b]].strip()
        for a, b in _sentence_ranges(units, 1024)
    ]
    theirs = [
        "Mr. Abel took his Ph.D. at Kelford (est.",
        "1719).",
        "It was e.g. a mill! Was it?",
        "U.S. rivers fell.",
    ]
    assert found == [*theirs, "He left."]


def test_qrhead_scores_a_chunk_as_its_program_does():
    """princeton-pli/QRHead at 7a668e7: two heads, summed; the token far below the others is left
    out."""
    asked = np.array(
        [[[0.1, 0.2, 0.1, 0.15, 0.1, 0.2, 0.1, 0.0]], [[0.3, 0.1, 0.2, 0.2, 0.1, 0.1, 0.1, 0.2]]]
    )
    null = np.array([[[0.0] * 7 + [2.0]], [[0.1] * 8]])
    assert np.allclose(_chunk_scores([asked - null], [(0, 0), (1, 0)], True), [1.35])
