"""RAPTOR: chunks, clusters, trees and what is shown, with answers worked by hand."""

import contextlib
import os
import subprocess
import sys
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from harness_training.method_skills import skills_of
from hypothesis import given
from hypothesis import strategies as st

from harness.config.layers import Choices
from harness.engine.plan import plan_choices
from harness.errors import ConfigError, QuestionError, UserError
from harness.llm.scripted import Rule
from harness.types import Document, Question, Shown
from methods.graph import Graph
from methods.packing import clause_chunks
from methods.raptor import Raptor
from methods.raptor import config as raptor_config
from methods.raptor.config import RaptorConfig
from methods.raptor.tree import cache_compiled_functions, cluster_nodes, cut_in_order
from tests.methods.conftest import FakeTools
from tests.methods.raptor_tree import Vectors, fingerprint, index_of, text_of

MODEL = FakeTools().model()
QUESTION = Question("q", "who?", ("d",))
PCA = RaptorConfig(reduction="pca", components=12)


class Letters:
    """A model whose tokens are characters, as those of Chinese are."""

    def offsets(self, text):
        return [(i, i + 1) for i in range(len(text))]


CHUNKS = [
    ("One. Two words. Three.", 3, ["One. Two words.", " Three."]),
    ("One. Two words. Three.", 4, ["One. Two words. Three."]),
    ("a b c", 9, ["a b c"]),
    # The marks stay, and only before white space does one end a sentence.
    (
        'It costs 3.14 now. "Really?" he said! Yes.',
        4,
        ["It costs 3.14 now.", ' "Really?" he said! Yes.'],
    ),
    ("a b\nc d e\n\nf", 3, ["a b", "\nc d e", "\n\nf"]),
    # A long sentence is cut behind its clauses and packed with nothing else.
    ("Go. a b, c d, e f; g h i. End.", 4, ["Go.", " a b, c d,", " e f;", " g h i.", " End."]),
    # A long clause is cut where tokens end; no chunk is empty, none too long.
    ("a b c d e f go. h", 3, ["a b c", " d e f", " go.", " h"]),
    ("", 3, []),
    (" \n\n ", 3, []),
]


@pytest.mark.parametrize(("text", "size", "wanted"), CHUNKS)
def test_sentences_are_packed(text, size, wanted):
    assert [text[a:b] for a, b in clause_chunks(text, size, MODEL)] == wanted


def test_chinese_sentences_end_without_white_space():
    text = "\u5979\u6765\u4e86\u3002\u4ed6\u8d70\u4e86\uff01\u201c\u5417\uff1f\u201d\u4e00\u4e8c\uff0c\u4e09\u56db\u4e94\u3002"
    found = [text[a:b] for a, b in clause_chunks(text, 6, Letters())]
    # Four and four characters, then four, then seven that are cut behind the clause.
    assert found == [text[:4], text[4:8], text[8:12], text[12:15], text[15:]]


@pytest.mark.parametrize(
    "text", ["x" * 200_000, "word " * 40_000, "." * 200_000, "!) " * 66_000, '."' * 100_000]
)
def test_long_texts_without_an_end_take_no_longer(text):
    spans = clause_chunks(text, 100, Letters())
    assert all(b - a <= 100 for a, b in spans)
    assert "".join(text[a:b] for a, b in spans) == text
    assert len(spans) <= 2 * len(text) / 100 + 1


@given(st.text(alphabet='ab .,!?;\n"\u3002\uff0c\u00e9', max_size=120), st.integers(1, 9))
def test_chunks_lose_no_word_and_keep_the_order(text, size):
    for model in (MODEL, Letters()):
        spans = clause_chunks(text, size, model)
        assert all(a < b for a, b in spans)
        assert all(b <= c for (_, b), (c, _) in pairwise(spans))
        assert "".join("".join(text[a:b] for a, b in spans).split()) == "".join(text.split())
        assert all(len(model.offsets(text[a:b])) <= size + 1 for a, b in spans)
    assert all(b - a <= size for a, b in clause_chunks(text, size, Letters()))


def points(count, width=16, seed=0):
    return np.random.default_rng(seed).normal(size=(count, width)).astype(np.float32)


def blobs(*sizes):
    """Groups of points far from each other."""
    centres = 40 * np.eye(len(sizes), 16, dtype=np.float32)
    return np.concatenate([points(n, seed=i) * 0.1 + centres[i] for i, n in enumerate(sizes)])


def test_groups_far_apart_are_found():
    found = cluster_nodes(
        blobs(40, 30, 50), [1] * 120, 3500, PCA.model_copy(update={"dimensions": 2})
    )
    assert sorted(found) == [list(range(40)), list(range(40, 70)), list(range(70, 120))]


def test_equal_vectors_share_their_clusters():
    one = np.repeat(points(1), 40, axis=0)
    assert cluster_nodes(one, [1] * 40, 3500, PCA) == [list(range(40))]
    # 24 points in three groups, each point twice.
    twice = np.concatenate([blobs(8, 9, 7)] * 2)
    for group in cluster_nodes(twice, [1] * 48, 3500, PCA):
        assert {i % 24 for i in group} == {i for i in group if i < 24}
        assert len(group) == 2 * len({i % 24 for i in group})


CAPS = [
    # tokens of each, most, groups: what cannot be split by its vectors is cut in order
    ([5, 5, 5, 5], 10, [[0, 1], [2, 3]]),
    ([5, 5, 5, 5], 11, [[0, 1], [2, 3]]),
    ([5, 20, 5, 5], 10, [[0], [1], [2, 3]]),
    ([20], 10, [[0]]),
    ([20, 20], 10, [[0], [1]]),
    ([], 10, []),
]


@pytest.mark.parametrize(("tokens", "most", "wanted"), CAPS)
def test_a_cluster_that_cannot_be_split_is_cut_in_order(tokens, most, wanted):
    assert list(cut_in_order(range(len(tokens)), tokens, most)) == wanted
    if tokens:
        assert cluster_nodes(points(len(tokens)), tokens, most, PCA) == wanted
        same = np.repeat(points(1), len(tokens), axis=0)
        assert cluster_nodes(same, tokens, most, PCA) == wanted


@pytest.mark.parametrize("vectors", [blobs(30), blobs(20, 20), np.repeat(points(1), 30, axis=0)])
def test_no_cluster_has_more_tokens_than_it_may(vectors):
    found = cluster_nodes(vectors, [10] * len(vectors), 45, PCA)
    assert {i for group in found for i in group} == set(range(len(vectors)))
    assert max(map(len, found)) <= 4


@pytest.mark.parametrize("count", [0, 1, 2, 3, 11])
def test_few_chunks_have_no_summaries(count):
    index, tools = index_of(text_of(count))
    assert index["level"] == [1] * count
    assert index["embeddings"].shape == (count, 61)
    assert tools.reader.prompts == []
    assert bool(index["notes"]) == (count == 0)


@pytest.mark.parametrize("text", [text_of(12), text_of(60), "The same words. " * 40])
def test_a_tree_is_whole_and_ends(text):
    index, tools = index_of(text, layers=5)
    graph = Graph.from_index(index)
    leaves = [i for i, level in enumerate(graph.level) if level == 1]
    assert index["embeddings"].shape[0] == len(graph.text)
    assert 2 <= max(graph.level) <= 6
    second = [i for i, level in enumerate(graph.level) if level == 2]
    assert {int(c) for i in second for c in graph.edges_below(i)[0]} == set(leaves)
    for node, level in enumerate(graph.level):
        below, weight = graph.edges_below(node)
        assert all(graph.level[c] == level - 1 for c in below)
        assert len(below) == 0 or weight.sum() == pytest.approx(1)
        assert (graph.span[node] is not None) == (level == 1)
    assert {graph.text[i] for i in second} == {"a summary of it"}
    assert len(tools.kept) == len(set(tools.reader.prompts))


def test_summaries_are_asked_for_once_in_document_order_and_cut():
    index, tools = index_of(
        text_of(12), [Rule(reply="one two three four")], summary_tokens=2, layers=1
    )
    graph = Graph.from_index(index)
    assert {graph.text[i] for i, level in enumerate(graph.level) if level == 2} == {"one two"}
    for node in (i for i, level in enumerate(graph.level) if level == 2):
        below = graph.edges_below(node)[0].tolist()
        assert below == sorted(below)
        text = "\n".join(graph.text[c] for c in below)
        assert any(f"Text:\n{text}\n\nThe text" in p for p in tools.reader.prompts)


def test_empty_summaries_are_left_out_and_told():
    index, _ = index_of(text_of(30), [Rule(reply=" \n")])
    assert index["level"] == [1] * 30
    (note,) = index["notes"]
    assert note.startswith("level 2: ")
    assert note.endswith("summaries were empty and are left out")
    answer, _ = shown_by(
        Graph.from_index(index), Vectors().encode(index["text"], "passage"), top_k=2
    )
    assert answer.steps[0].note == note
    assert [s.action for s in answer.steps] == ["start", "select", "select"]


def test_what_numba_compiled_is_stored(tmp_path):
    numba = pytest.importorskip("numba")
    kernel = numba.njit(lambda x: x + 1)
    cache_compiled_functions([SimpleNamespace(kernel=kernel)], tmp_path)
    assert (kernel(1), numba.config.CACHE_DIR) == (2, "")
    assert list(tmp_path.rglob("*.nbc"))
    (tmp_path / "file").touch()
    cache_compiled_functions(
        [SimpleNamespace(kernel=kernel)], tmp_path / "file"
    )  # cannot be written: compiled anew each time


def test_umap_has_the_seed_and_one_thread(monkeypatch):
    asked = []

    def umap(**settings):
        asked.append({name: settings[name] for name in ("metric", "random_state", "n_jobs")})
        return SimpleNamespace(fit_transform=lambda points: points[:, : settings["n_components"]])

    monkeypatch.setattr("methods.raptor.tree._import_umap", lambda: SimpleNamespace(UMAP=umap))
    index_of(text_of(40), reduction="umap", seed=3)
    assert asked
    assert all(one == {"metric": "cosine", "random_state": 3, "n_jobs": 1} for one in asked)


# numba compiles UMAP anew in every process, for 13 s of processor time.
@pytest.mark.parametrize(
    "reduction", ["pca", *(["umap"] if os.environ.get("HARNESS_THOROUGH") else [])]
)
def test_every_process_makes_the_same_tree(reduction):
    # Without forked.py: starting its server, which imports torch, takes longer than this process.
    words = [sys.executable, "-m", "tests.methods.raptor_tree", reduction]
    other = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    made, _ = index_of(text_of(40), reduction=reduction, layers=2)
    assert other.split() == [
        fingerprint(made),
        str(max(made["level"])),
        str(made["level"].count(2)),
    ]
    assert 2 in made["level"]


# Level 1: nodes 0 to 3; level 2: 4 over 0 1, 5 over 1 2 3; level 3: 6 over 4 5. Node 1 has two
# parents.
TEXT = "c0 x. c1 x x. c2 x. c3 x."
SPANS = [(0, 5), (5, 13), (13, 19), (19, 25)]
CHILDREN = {4: [0, 1], 5: [1, 2, 3], 6: [4, 5]}


def hand_made():
    graph = Graph()
    for start, end in SPANS:
        graph.add_node(TEXT[start:end].strip(), 1, (start, end))
    for node, level in ((4, 2), (5, 2), (6, 3)):
        graph.add_node(f"s{node} y", level)
        below = CHILDREN[node]
        graph.add_edges([([node], below, np.full((1, len(below)), 1 / len(below)))])
    return graph


SIMILARITY = [0.9, 0.5, 0.1, 0.5, 0.2, 0.6, 0.4]


def shown_by(graph, vectors=None, similarity=None, window=8192, **params):
    vectors = np.zeros((len(graph.text), 1)) if vectors is None else vectors
    values = np.array(
        np.arange(len(graph.text))[::-1] if similarity is None else similarity, dtype=np.float32
    )
    encoder = SimpleNamespace(
        encode=lambda texts, kind: np.zeros((1, 1)), similarity=lambda query, nodes: values
    )
    tools = FakeTools([Rule(reply=" the reply ")], similarity=encoder, window=window)
    index = {**graph.to_index(), "embeddings": vectors}
    return Raptor(RaptorConfig(**params)).answer(
        QUESTION, [Document("d", TEXT)], [index], tools
    ), tools


@pytest.mark.parametrize(
    ("params", "nodes", "reason"),
    [
        ({"top_k": 3}, [0, 5, 1], "k"),  # 1 and 3 tie: document order
        ({"top_k": 7}, [0, 5, 1, 3, 6, 4, 2], "exhausted"),
        ({}, [0, 5, 1, 3, 6, 4, 2], "exhausted"),
        # Two tokens each, three for node 1: it would pass 6, and what comes behind it is not looked
        # at.
        ({"max_tokens": 6}, [0, 5], "budget"),
        ({"max_tokens": 7}, [0, 5, 1], "budget"),
        ({"max_tokens": 1}, [], "budget: not even one node fits"),
        ({"retrieval": "traversal", "top_k": 1, "max_tokens": None}, [6, 5, 1], "traversed"),
        ({"retrieval": "traversal", "top_k": 2, "max_tokens": None}, [6, 5, 4, 0, 1], "traversed"),
        (
            {"retrieval": "traversal", "top_k": 5, "max_tokens": None},
            [6, 5, 4, 0, 1, 3, 2],
            "traversed",
        ),
        ({"retrieval": "traversal", "top_k": 1, "max_tokens": 4}, [6, 5], "budget"),
    ],
)
def test_what_is_shown_of_a_hand_made_tree(params, nodes, reason):
    answer, tools = shown_by(hand_made(), similarity=SIMILARITY, **params)
    assert [s.node for s in answer.steps] == nodes
    assert answer.stop_reason == reason
    assert [s.scores["similarity"] for s in answer.steps] == pytest.approx(
        [SIMILARITY[i] for i in nodes]
    )
    assert [s.level for s in answer.steps] == [hand_made().level[i] for i in nodes]
    assert answer.text == "the reply"
    texts = [hand_made().text[i] for i in nodes]
    assert (
        not texts
        or "Text:\n" + "\n\n".join(texts) + "\n\nThe text ends here." in tools.reader.prompts[0]
    )


def test_chunks_are_spans_and_summaries_have_the_chunks_under_them_as_sources():
    answer, _ = shown_by(hand_made(), similarity=SIMILARITY, top_k=5)
    assert answer.shown == (
        Shown("span", "d", 0, 5),
        Shown("generated", "d", text="s5 y", sources=tuple(("d", *s) for s in SPANS[1:])),
        Shown("span", "d", 5, 13),
        Shown("span", "d", 19, 25),
        Shown("generated", "d", text="s6 y", sources=tuple(("d", *s) for s in SPANS)),
    )
    assert [s.tokens for s in answer.steps] == [2, 2, 3, 2, 2]


def test_the_window_ends_the_list():
    seen = []
    for window in range(40, 90):
        with contextlib.suppress(QuestionError):
            answer, _ = shown_by(hand_made(), similarity=SIMILARITY, window=window)
            seen.append((len(answer.steps), answer.stop_reason))
    assert seen[0] == (0, "window: not even one node fits")
    assert [n for n, _ in seen] == sorted(n for n, _ in seen)
    assert {n for n, _ in seen} == set(range(8))
    assert all(reason == ("window" if n < 7 else "exhausted") for n, reason in seen if n)


@pytest.mark.parametrize(
    ("dataset", "top_k"),
    [
        ("narrativeqa", 20),
        ("qasper", 42),
        ("hotpotqa", 12),
        ("musique", 22),
    ],
)
def test_top_x_by_data_set(dataset, top_k):
    params = plan_choices(
        Choices(method="raptor-ct-topx", dataset=f"pocket/{dataset}")
    ).config.method.params
    assert (params["top_k"], params["max_tokens"], params["retrieval"]) == (
        top_k,
        None,
        "collapsed",
    )


def test_top_x_takes_the_number_of_a_data_set_without_one_from_a_run():
    with pytest.raises(
        UserError, match="method.top_k of 'raptor-ct-topx' comes from a finished run"
    ):
        plan_choices(Choices(method="raptor-ct-topx", dataset="pocket/quality"))


def test_a_missing_package_is_told_by_the_plan(monkeypatch):
    monkeypatch.setattr(raptor_config, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"umap-learn.*pip install 'longdoc-harness\[raptor\]'"):
        plan_choices(Choices(method="raptor-ct", dataset="pocket/musique"))
    plan_choices(
        Choices(method="raptor-ct", dataset="pocket/musique", sets={"method.reduction": "pca"})
    )
    # The skills can be listed all the same.
    assert [s.name for s in skills_of(Raptor(RaptorConfig()))] == ["summary", "answer", "choose"]
