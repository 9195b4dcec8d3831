from hypothesis import given, settings
from hypothesis import strategies as st

from reports.search_graph import Edge, Graph
from reports.search_steps import as_tree, search_steps
from tests.reports.searches import made, steps


class TestSteps:
    def test_parents_edges_and_the_tree_worked_by_hand(self):
        found = search_steps(steps(), made())
        # 1 is shown before 5, so it stands under 4 although the edge from 5 is heavier; nothing
        # leads to 3.
        assert [(m.parent, m.edge) for m in found] == [
            (None, None), (0, 0.7), (1, 0.36), (0, 0.3), (3, 0.5), (None, None), (1, 0.6),
        ]  # fmt: skip
        assert [m.is_later for m in found] == [False] * 6 + [True]
        assert [f"{mark}{m.number}" for mark, m in as_tree(found)] == [
            "0", "├─ 1", "│  ├─ 2", "│  └─ 6", "└─ 3", "   └─ 4", "5",
        ]  # fmt: skip
        assert [f"{mark}{m.number}" for mark, m in as_tree(found[:6])][2] == "│  └─ 2"

    def test_of_equal_edges_the_earliest_step_is_taken(self):
        graph = Graph(("a", "b", "c"), (2, 2, 1), (Edge(0, 2, 0.5), Edge(1, 2, 0.5)))
        found = search_steps([{"action": "v", "node": n} for n in (1, 0, 2)], graph)
        assert found[2].parent == 0

    def test_without_a_graph_all_are_roots(self):
        assert [mark for mark, _ in as_tree(search_steps(steps()))] == [""] * 7

    def test_a_chain_of_twelve_hundred_nodes(self):
        n = 1200
        graph = Graph(
            ("x",) * n, tuple(range(n, 0, -1)), tuple(Edge(i, i + 1, 1.0) for i in range(n - 1))
        )
        lines = as_tree(search_steps([{"action": "v", "node": i} for i in range(n)], graph))
        assert [m.number for _, m in lines] == list(range(n))
        assert lines[-1][0] == "   " * (n - 2) + "└─ "

    @settings(max_examples=60, deadline=None)
    @given(
        st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7), st.floats(0, 1)), max_size=30),
        st.lists(st.integers(0, 7) | st.none(), max_size=12),
    )
    def test_a_parent_was_seen_before_and_no_heavier_one_was(self, edges, nodes):
        found = search_steps(
            [{"action": "v", "node": n} for n in nodes],
            Graph(("x",) * 8, (1,) * 8, tuple(Edge(*edge) for edge in edges)),
        )
        for step in found:
            before = set(nodes[: step.number]) - {None}
            weights = [w for h, low, w in edges if w > 0 and low == step.node and h in before]
            assert step.edge == (max(weights) if weights else None)
            assert step.parent is None or step.parent < step.number
        order = [m.number for _, m in as_tree(found)]
        assert sorted(order) == list(range(len(nodes)))
        assert all(
            order.index(m.parent) < order.index(m.number) for m in found if m.parent is not None
        )
