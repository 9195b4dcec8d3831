from hypothesis import given, settings
from hypothesis import strategies as st

from reports.search_graph import Graph
from reports.search_moves import forest, trace_moves
from tests.reports.searches import made, steps


class TestWalk:
    def test_parents_edges_and_the_tree_worked_by_hand(self):
        moves = trace_moves(steps(), made())
        # 1 is shown before 5, so it stands under 4 although the edge from 5 is heavier; nothing
        # leads to 3.
        assert [(m.parent, m.edge) for m in moves] == [
            (None, None), (0, 0.7), (1, 0.36), (0, 0.3), (3, 0.5), (None, None), (1, 0.6),
        ]  # fmt: skip
        assert [m.later for m in moves] == [False] * 6 + [True]
        assert [f"{mark}{m.number}" for mark, m in forest(moves)] == [
            "0", "├─ 1", "│  ├─ 2", "│  └─ 6", "└─ 3", "   └─ 4", "5",
        ]  # fmt: skip
        assert [f"{mark}{m.number}" for mark, m in forest(moves[:6])][2] == "│  └─ 2"

    def test_of_equal_edges_the_earliest_step_is_taken(self):
        graph = Graph(("a", "b", "c"), (2, 2, 1), ((0, 2, 0.5), (1, 2, 0.5)))
        moves = trace_moves([{"action": "v", "node": n} for n in (1, 0, 2)], graph)
        assert moves[2].parent == 0

    def test_without_a_graph_all_are_roots(self):
        assert [mark for mark, _ in forest(trace_moves(steps()))] == [""] * 7

    def test_a_chain_of_twelve_hundred_nodes(self):
        n = 1200
        graph = Graph(
            ("x",) * n, tuple(range(n, 0, -1)), tuple((i, i + 1, 1.0) for i in range(n - 1))
        )
        lines = forest(trace_moves([{"action": "v", "node": i} for i in range(n)], graph))
        assert [m.number for _, m in lines] == list(range(n))
        assert lines[-1][0] == "   " * (n - 2) + "└─ "

    @settings(max_examples=60, deadline=None)
    @given(
        st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7), st.floats(0, 1)), max_size=30),
        st.lists(st.integers(0, 7) | st.none(), max_size=12),
    )
    def test_a_parent_was_seen_before_and_no_heavier_one_was(self, edges, nodes):
        moves = trace_moves(
            [{"action": "v", "node": n} for n in nodes], Graph(("x",) * 8, (1,) * 8, tuple(edges))
        )
        for move in moves:
            before = set(nodes[: move.number]) - {None}
            weights = [
                w for h, low, w in edges if w > 0 and low == move.step["node"] and h in before
            ]
            assert move.edge == (max(weights) if weights else None)
            assert move.parent is None or move.parent < move.number
        order = [m.number for _, m in forest(moves)]
        assert sorted(order) == list(range(len(nodes)))
        assert all(
            order.index(m.parent) < order.index(m.number) for m in moves if m.parent is not None
        )
