"""PECAN's ablations, GARLIC and the choices left open: known answers worked by hand, and what their
presets say."""

import itertools
import json

import numpy as np
import pytest
from harness_training.method_skills import skills_of
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.config import presets, suites
from harness.config.layers import Choices
from harness.config.resolve import resolve
from harness.engine.plan import plan_choices
from harness.errors import UserError
from harness.llm.scripted import Rule, Script, ScriptedModel
from harness.method.settings import index_fields
from methods import summary
from methods.graph import Graph
from methods.pecan import Pecan
from methods.pecan.config import PecanConfig
from tests.methods.conftest import FakeTools
from tests.methods.pecan_search import CHUNKS, SUMMARY, attention, probes, run


class Similar:
    """An encoder whose similarity to any question is a table: text -> value, 0 for others."""

    name, identity = "table", {}

    def __init__(self, **values):
        self._values = {text.replace("_", " "): value for text, value in values.items()}

    def encode(self, texts, kind):
        return np.array([[self._values.get(t, 0.0)] for t in texts])

    def similarity(self, query, passages):
        return np.array(passages)[:, 0]


# The graph of test_pecan.py: chunks 0 to 3, points 4 and 5. r4 = 2 x 0.2 = 0.4 and r5 = 3 x 0.5 =
# 1.5, so
#            c0      c1      c2      c3
#   z        0.32    0.34    0.34    0.90      sum 1.9
#   share    0.168   0.179   0.179   0.474
#   cosine   0.5     0.1     0.3     0.1       p4 0.2, p5 0: sum 1.2
#   share    0.417   0.083   0.25    0.083
#   both     0.585   0.262   0.429   0.557
COSINE = {"aa_ab_ac": 0.5, "ba_bb_bc": 0.1, "ca_cb_cc": 0.3, "da_db_dc": 0.1, "first_point": 0.2}


REPLIES = (SUMMARY, Rule(reply="the answer"))


def search(p_yes=(), similar=COSINE, replies=REPLIES, attend=attention, **params):
    tools = FakeTools(replies, probes(*p_yes), attend, similarity=Similar(**similar))
    return run([], tools, **{"similarity": True, **params})


@pytest.mark.parametrize(
    ("params", "nodes"),
    [
        (
            {},
            [4, 5, 0, 3, 2, 1],
        ),  # by the last line above; chunks have no successors, so it stays as it is
        (
            {"attention": False},
            [4, 5, 0, 2, 1, 3],
        ),  # by cosine alone; c1 and c3 tie, the lower number first
        ({"similarity": False}, [4, 5, 3, 1, 2, 0]),  # by z alone; c1 and c2 tie
        # cosine as it is: 0.668, 0.279, 0.479, 0.574 in all, the same order
        ({"similarity_scale": "raw"}, [4, 5, 0, 3, 2, 1]),
        # Shares of what is not visited, sum 1.0: 0.668, ...; after c0 the sum is 0.5: c1 0.379, c2
        # 0.779, c3 0.674.
        ({"similarity_scale": "unvisited"}, [4, 5, 0, 2, 3, 1]),
        # Rows of attention sum over tokens: r4 = 2 x 0.2 x 2 = 0.8, r5 = 3.0, both twice as large;
        # the edges' shares stay.
        ({"token_mean": "sum"}, [4, 5, 0, 3, 2, 1]),
        (
            {"attention_scale": "raw"},
            [4, 5, 3, 0, 2, 1],
        ),  # z as it is and shares of cosine: 0.737, 0.423, 0.59, 0.983
    ],
    ids=str,
)
def test_order_of_visits_by_what_chooses(params, nodes):
    answer, _, _ = search(**params)
    assert [s.node for s in answer.steps] == nodes
    assert answer.stop_reason == "exhausted"


def test_a_negative_similarity_counts_0():
    answer, _, _ = search(similar={**COSINE, "ba_bb_bc": -0.9})
    assert [s.scores["similarity"] for s in answer.steps if s.node == 1] == [0]


def test_a_sum_over_tokens_makes_long_nodes_heavier():
    # Chunks of 3, 3, 3 and 1 tokens: A of p5 is 0.1 x 3, 0.1 x 3, 0.3 x 1 -> a third each, where
    # the mean has 0.2, 0.2, 0.6.
    columns = ["aa ab ac", "ba bb bc", "ca cb cc", "da"]
    rows = {"first": [0.8, 0.1, 0.1, 0.0], "second": [0.0, 0.1, 0.1, 0.3]}

    def attend(row, column):
        points = next((v for k, v in rows.items() if k in row), None)
        return (
            points[columns.index(column.strip())] if points and column.strip() in columns else 0.5
        )

    def weights(token_mean):
        tools = FakeTools([SUMMARY, Rule(reply="x")], probes(), attend)
        _, graph, _ = run([], tools, "aa ab ac ba bb bc ca cb cc da", token_mean=token_mean)
        return [w for high, _, w in graph.edges if high == 5]

    assert weights("sum") == pytest.approx([1 / 3] * 3)
    assert weights("mean") == pytest.approx([0.2, 0.2, 0.6])


@pytest.mark.parametrize(
    ("max_nodes", "similar", "nodes", "left_out"),
    [
        # Two levels, so 5 // 2 = 2 of the top level at the start: all of it. Then as above until
        # there are five.
        (5, COSINE, [4, 5, 0, 3, 2], 0),
        # 3 // 2 = 1: p4, the nearer one. z = 0.32, 0.04, 0.04, 0 (sum 0.4) and cosine: c0 1.217, c2
        # 0.35, p5 0.
        (3, COSINE, [4, 0, 2], 1),
        # p5, left out, comes back by similarity alone: p5 0.6/2.5 = 0.24; c0 0.8 + 0.2, c2 0.1 +
        # 0.12, c1 0.1 + 0.04.
        (3, {**COSINE, "first_point": 0.9, "second_point": 0.6}, [4, 0, 5], 1),
        (1, COSINE, [4], 1),  # never less than one
        (99, COSINE, [4, 5, 0, 3, 2, 1], 0),
    ],
)
def test_without_progress_control_a_fixed_number_is_visited(max_nodes, similar, nodes, left_out):
    answer, _, tools = search(similar=similar, progress_control=False, max_nodes=max_nodes)
    assert [s.node for s in answer.steps] == nodes
    assert answer.stop_reason == ("max-nodes" if max_nodes < 99 else "exhausted")
    assert [s.p_yes for s in answer.steps] == [None] * len(nodes)
    assert {e.kind for e in tools.meter.events} == {"prefill", "decode"}  # nothing was probed
    *_, last = (s for s in answer.steps if s.action == "start")
    assert last.note == (f"{left_out} top nodes left out" if left_out else "")
    # The answer follows the same words as in the full method.
    assert "[reply]Yes\n[user]Given the above" in tools.reader.prompts[-1]


def test_a_node_that_comes_back_has_the_rank_it_is_shown_at():
    similar = {**COSINE, "first_point": 0.9, "second_point": 0.6}
    answer, _, _ = search(similar=similar, progress_control=False, max_nodes=3)
    assert answer.steps[2].scores["relevance"] == pytest.approx(
        4 * 0.5
    )  # the question is 1, so the third node is 4


TREE = [
    Rule(when="aa ab ac\nba bb bc\n\nThe text ends", reply=" left side\n"),
    Rule(when="ca cb cc\nda db dc\n\nThe text ends", reply="right\nside"),
    Rule(when="left side\nright side\n\nThe text ends", reply="whole story"),
    Rule(when="Given the above", reply="x"),
]
# Attention while writing: line of the summary -> child; to the question: r.
TREE_ROWS = {
    ("left side", "aa ab ac"): 0.6, ("left side", "ba bb bc"): 0.2,
    ("right", "ca cb cc"): 0.1, ("right", "da db dc"): 0.3, ("side", "ca cb cc"): 0.1, ("side", "da db dc"): 0.3,
    ("whole story", "left side"): 0.1, ("whole story", "right side"): 0.4,
    ("whole story", "who zz"): 0.5, ("left side", "who zz"): 0.3, ("right side", "who zz"): 0.2,
}  # fmt: skip


def tree_attention(row, column):
    return TREE_ROWS.get((row.strip(), column.strip()), 0.0)


TREE_PARAMS = {"graph": "tree", "batch_nodes": 2, "similarity": False}


def test_a_tree_has_one_summary_a_group_and_edges_from_its_attention():
    answer, graph, tools = search(replies=TREE, attend=tree_attention, **TREE_PARAMS)
    assert graph.text == [*CHUNKS, "left side", "right side", "whole story"]
    assert graph.level == [1, 1, 1, 1, 2, 2, 3]
    assert {(i, j): pytest.approx(w) for i, j, w in graph.edges} == {
        (4, 0): 0.75, (4, 1): 0.25, (5, 2): 0.25, (5, 3): 0.75, (6, 4): 0.2, (6, 5): 0.8,
    }  # fmt: skip
    parents = [j for _, j, _ in graph.edges]
    assert sorted(parents) == sorted(set(parents))  # many to one: no node has two parents
    assert tools.reader.prompts[0] == "\n[user]" + summary.DETAILED.text.replace(
        "{text}", "aa ab ac\nba bb bc"
    )
    # The same search. r6 = 2 x 0.5 = 1: s4 0.2, s5 0.8 -> s5; r5 = 3 x 0.2 = 0.6: c2 0.15, c3 0.45
    # -> c3, then s4 (0.2); r4 = 5 x 0.3 = 1.5: c0 1.125, c1 0.375, c2 0.15.
    assert [s.node for s in answer.steps] == [6, 5, 3, 4, 0, 1, 2]
    assert [s.scores["relevance"] for s in answer.steps[:4]] == pytest.approx([1.0, 0.6, 0.0, 1.5])


def test_a_tree_over_the_cap_of_tokens_has_smaller_groups():
    # Three words and a line's end a chunk, so nine tokens hold two chunks though three were
    # allowed.
    one = [Rule(when="The text ends", reply="it"), Rule(reply="x")]
    _, graph, _ = search(
        replies=one,
        attend=tree_attention,
        graph="tree",
        batch_nodes=3,
        batch_tokens=9,
        max_levels=2,
    )
    assert [(i, j) for i, j, _ in graph.edges] == [(4, 0), (4, 1), (5, 2), (5, 3)]
    assert [w for _, _, w in graph.edges] == [0.5] * 4  # without any attention


def test_a_summary_of_a_tree_that_is_cut_is_kept():
    rules = [Rule(when="The text ends", reply="one two three four"), Rule(reply="x")]
    answer, graph, _ = search(replies=rules, attend=tree_attention, graph="tree", reserve=3)
    assert graph.text[4:] == ["one two three"]
    assert answer.steps[0].note == "level 2: 1 of 1 summaries were cut at 3 tokens"


def test_a_tree_asks_for_raptors_summary_and_shows_its_prompts():
    tree, points = (Pecan(PecanConfig(graph=g)) for g in ("tree", "points"))
    assert [s.name for s in skills_of(tree)] == ["pecan search", "summary"]
    assert [s.name for s in skills_of(points)] == [
        "pecan search",
        "pecan points",
        "pecan points of points",
    ]
    assert tree.prompts()["summary"] == summary.DETAILED.text
    assert "summary" not in points.prompts()


# p_yes 0.6, but a third token is likelier; 0.25; 0.529 and Yes on top; 0.25; 0.9 and on top.
ASKED = [
    {"Yes": 0.3, "No": 0.2, "Well": 0.5},
    {"Yes": 0.2, "No": 0.6},
    {"Yes": 0.45, "No": 0.4},
    {"Yes": 0.2, "No": 0.6},
    {"Yes": 0.9, "No": 0.1},
]


@pytest.mark.parametrize(
    ("params", "probed"),
    [
        ({"verdict": "threshold", "t_p": 0.5}, 1),
        ({"verdict": "threshold", "t_p": 0.6}, 5),
        ({"verdict": "threshold", "t_p": 0.98}, 5),  # exhausted: six nodes
        ({"verdict": "threshold", "t_p": 0.5, "t_n": 2}, 3),
        ({"verdict": "greedy"}, 3),
        ({"verdict": "greedy", "t_p": 0.0}, 3),  # t_p plays no part
        ({"verdict": "greedy", "t_n": 2}, 5),
        ({"verdict": "greedy", "t_n": 3}, 5),
    ],
    ids=str,
)
def test_garlic_counts_greedy_yes_and_pecan_shares(params, probed):
    rules = [Rule(p=p, once=True) for p in ASKED]
    tools = FakeTools([SUMMARY, Rule(reply="x")], rules, attention)
    answer, _, _ = run([], tools, **params)
    asked = [s for s in answer.steps if s.p_yes is not None]
    assert len(asked) == probed
    assert answer.stop_reason == (
        "exhausted" if params.get("t_p") == 0.98 or params.get("t_n") == 3 else "yes"
    )
    assert [s.scores["greedy_yes"] for s in asked] == [0, 0, 1, 0, 1][:probed]
    assert asked[0].p_yes == pytest.approx(0.6)


def test_the_plain_wording_asks_the_same_in_other_words():
    tools = FakeTools([SUMMARY, Rule(reply="x")], probes(0.9), attention)
    run([], tools, probe_wording="plain")
    asked = next(p for p in tools.reader.prompts if "Question:" in p)
    assert asked.startswith(
        "\n[user]Is the information below enough to answer the question? Reply with one word, Yes "
        "or No.\n\nQuestion:\n"
        "who zz\n\nInformation:\n* first point"
    )
    names = [skill.name for skill in skills_of(Pecan(PecanConfig(probe_wording="plain")))]
    assert names[0] == "pecan search, plain wording"  # no model is taken to be trained on it


def test_sentences_are_a_choice_of_the_graph():
    text = "Ann is here. Bob left it. Who"
    tools = FakeTools([SUMMARY, Rule(reply="x")], probes(), lambda row, column: 0.1)
    _, graph, _ = run([], tools, text, chunk_tokens=4, chunk_boundaries="sentences")
    assert graph.text[:3] == ["Ann is here.", "Bob left it. Who", "first point"]


def test_edges_come_from_the_builder_and_the_rest_from_the_searcher():
    def builders(row, column):  # would make every node relevant
        return 1.0 if "who" in column else attention(row, column)

    def searchers(row, column):  # would make all edges equal
        return 0.7 if "second" in row and "who" in column else 0.1

    builder = ScriptedModel(Script(replies=[SUMMARY]), "builder", attention=builders)
    searcher = ScriptedModel(
        Script(replies=[Rule(reply="said")], probes=probes(0.1, 0.8)), "searcher", searchers
    )
    # The reader has no rules at all: a call of it would fail.
    answer, graph, tools = run([], FakeTools(builder=builder, searcher=searcher))
    assert [w for high, _, w in graph.edges if high == 5] == pytest.approx([0.2, 0.2, 0.6])
    assert [s.scores["relevance"] for s in answer.steps] == pytest.approx(
        [2 * 0.1, 3 * 0.7, 4 * 0.1]
    )
    assert ([s.p_yes for s in answer.steps[1:]], answer.text) == ([0.1, 0.8], "said")
    assert all("Summary" in prompt for prompt in builder.prompts)
    assert not any("Summary" in prompt for prompt in searcher.prompts)
    roles = {(e.role, e.model) for e in tools.meter.events}
    assert roles == {("builder", "builder"), ("searcher", "searcher")}


def test_the_suite_of_two_models_has_the_papers_five_pairs():
    suite = suites.read_suite("pecan-table2")
    pairs = []
    for part in suite.parts:
        for model, dataset in itertools.product(part.models, part.datasets):
            config = resolve(
                Choices(method="pecan", dataset=dataset, model=model, suite=part)
            ).config
            assert config.model.window == 131072
            assert set(config.roles) <= {"builder"}  # so the searcher is the model itself
            sizes = [
                one.name.split("-")[2]
                for one in (config.roles.get("builder", config.model), config.model)
            ]
            pairs.append("/".join(sizes))
    assert list(dict.fromkeys(pairs)) == ["8B/8B", "3B/3B", "1B/1B", "8B/3B", "8B/1B"]


T_P = {"narrativeqa": 0.5, "qasper": 0.98, "hotpotqa": 0.5, "musique": 0.55}
FIXED = {"narrativeqa": 48, "qasper": 36, "hotpotqa": 17, "musique": 30}
BASES = ("pecan", "garlic")
TREE_DIFFERS = {
    "graph": ["tree", "points"],
    "batch_nodes": [10, None],
    "batch_tokens": [3500, None],
}
ABLATIONS = {
    "no-attention": {"attention": [False, True]},
    "no-embedding": {"similarity": [False, True]},
    "no-graph": {**TREE_DIFFERS, "reserve": [100, 2048], "min_ip_levels": [1, 2]},
}
BLIND = {"progress_control": [False, True]}
PRINTED = {"max_nodes": [33, None], **{f"max_nodes on {d}": [n, None] for d, n in FIXED.items()}}
DIFFERENCES = {
    **{(f"{base}-{name}", base): keys for base in BASES for name, keys in ABLATIONS.items()},
    **{
        (f"{base}-no-progress-control", base): {**BLIND, "max_nodes": [f"from:{base}", None]}
        for base in BASES
    },
    **{(f"{base}-no-progress-control-printed", base): {**BLIND, **PRINTED} for base in BASES},
    ("garlic", "pecan"): {
        "verdict": ["greedy", "threshold"],
        **{f"t_p on {d}": [None, t_p] for d, t_p in T_P.items()},
    },
    ("pecan-choice-one-level", "pecan"): {"min_ip_levels": [1, 2], "reserve": [1536, 2048]},
    ("pecan-choice-similarity-unvisited", "pecan"): {"similarity_scale": ["unvisited", "all"]},
    ("pecan-choice-similarity-raw", "pecan"): {"similarity_scale": ["raw", "all"]},
    ("pecan-choice-no-position-factor", "pecan"): {"position_factor": [False, True]},
    ("pecan-choice-sentences", "pecan"): {"chunk_boundaries": ["sentences", "tokens"]},
    ("pecan-choice-wording", "pecan"): {"probe_wording": ["plain", "printed"]},
    ("pecan-choice-chunk-mark", "pecan"): {"chunk_mark": ["none", "bullet"]},
    ("pecan-choice-token-sum", "pecan"): {"token_mean": ["sum", "mean"]},
    ("pecan-choice-repeats", "pecan"): {"repeated_points": ["drop", "keep"]},
}
MINE = [name for name in presets.names("methods") if name.startswith(("pecan", "garlic"))]


# Presets that take their number of nodes from the run of another method.
FROM_A_RUN = ("pecan-no-progress-control", "garlic-no-progress-control")


def test_every_variant_is_a_preset_and_is_compared_below():
    assert sorted(MINE) == sorted({name for pair in DIFFERENCES for name in pair})


def test_show_prints_exactly_the_keys_that_differ(here):
    for name, base in DIFFERENCES:
        done = here("show", name, "--diff", base, "--json")
        assert (done.returncode, done.stderr) == (0, ""), name
        keys = {f"method.params.{key}": values for key, values in DIFFERENCES[name, base].items()}
        # JSON has no "not there", so a key that one of them lacks is null, as a missing value is.
        assert {
            key: v for key, v in json.loads(done.stdout).items() if not key.startswith("prompt ")
        } == keys, name


def planned(method, dataset="pocket/musique", **more):
    said = {
        "profile": "pocket",
        "limit": 1,
        "sets": {"dataset.tokens": 300, "dataset.questions": 1, **more},
    }
    return plan_choices(Choices(method=method, dataset=dataset, **said))


def test_the_pocket_profile_scales_every_variant_down():
    for name in MINE:
        number = {"method.max_nodes": 7} if name in FROM_A_RUN else {}
        params = planned(name, **number).config.method.params
        tree = params["graph"] == "tree"
        assert (params["chunk_tokens"], params["window"], params["reserve"]) == (
            100,
            1600,
            300 if tree else 280,
        ), name
        assert params["batch_tokens"] == (300 if tree else 210), name
        # The profile must not undo what the variant is; the data set's own t_p is above the
        # preset's.
        sizes = {"chunk_tokens", "window", "reserve", "batch_tokens", "batch_nodes", "max_levels"}
        own = {
            k: v
            for _, layer in presets.read("methods", name)
            for k, v in layer.get("params", {}).items()
        }
        assert {
            k: v for k, v in own.items() if k not in sizes | {"max_nodes", "t_p"}
        }.items() <= params.items(), name
        # It sets sizes and the words of the embedded model, and makes no choice of algorithm.
        alone = resolve(Choices(method=name, dataset="pocket/musique", sets=number))
        alone = alone.config.method.params
        assert {k: v for k, v in alone.items() if k not in sizes}.items() <= params.items(), name
        profile = next(iter(presets.read("profiles", "pocket")))[1]["methods"][name]
        assert profile.keys() <= sizes | {"prompts"}, name
        assert params["min_ip_levels"] < params["max_levels"], name


@pytest.mark.parametrize("form", ["", "pocket/", "longbench/"])
@pytest.mark.parametrize("dataset", T_P)
def test_what_holds_on_a_data_set_holds_on_its_other_forms(dataset, form):
    def values(name):
        found = {}
        for _, layer in presets.read("methods", name):
            found |= layer.get("params") or {}
            found |= presets.params_for_dataset(layer, form + dataset)
        return found

    assert values("pecan")["t_p"] == T_P[dataset]
    assert values("pecan-no-graph")["t_p"] == T_P[dataset]
    for base in BASES:
        assert values(f"{base}-no-progress-control-printed")["max_nodes"] == FIXED[dataset]
        assert (
            values(f"{base}-no-progress-control")["max_nodes"] == f"from:{base}"
        )  # nothing measured by us
    assert "t_p" not in values("garlic")


def test_one_graph_serves_all_searches():
    searched = {
        "attention",
        "similarity",
        "verdict",
        "t_p",
        "t_n",
        "probe_wording",
        "progress_control",
        "record_stops",
    }
    assert not searched & set(index_fields(PecanConfig))
    assert Pecan(PecanConfig(probe_wording="plain")).prompts() == Pecan(PecanConfig()).prompts()


def test_the_plan_names_the_key_to_change():
    with pytest.raises(
        UserError, match=r"^method\.record_stops=2 \(--set\): without progress control no probe"
    ):
        planned("pecan-no-progress-control", **{"method.record_stops": 2})


@st.composite
def graphs(draw):
    graph = Graph()
    for _ in range(draw(st.integers(1, 6))):
        graph.add_node("c", 1, (0, 1))
    for level in (2, 3):
        below = [i for i, at in enumerate(graph.level) if at == level - 1]
        row = st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=len(below), max_size=len(below))
        rows = draw(st.lists(row, max_size=3))
        above = [graph.add_node("p", level) for _ in rows]
        graph.add_edges(
            [([node], below, np.array([row])) for node, row in zip(above, rows, strict=True)]
        )
    return graph


@settings(deadline=None)
@given(graphs())
def test_successors_are_those_of_the_list_of_edges(graph):
    for node in range(len(graph.text)):
        lower, weight = graph.edges_below(node)
        edges = [(low, w) for high, low, w in graph.edges if high == node]
        assert list(zip(lower.tolist(), weight.tolist(), strict=True)) == edges
    again = Graph.from_index(graph.to_index())
    assert (again.edges, again.text, again.level, again.span) == (
        graph.edges,
        graph.text,
        graph.level,
        graph.span,
    )
