"""The rules by which a number comes from another run: figures worked by hand, and the papers'
printed ones."""

import json
from dataclasses import asdict

import pytest

from harness.config.layers import Choices
from harness.cost.flops import ModelShape
from harness.engine.manifest import describe
from harness.engine.numbers_from_runs import (
    ModelCall,
    cost_by_piece_count,
    nearest_count,
    number_from_run,
    visited_nodes,
)
from harness.engine.plan import plan_choices
from harness.errors import UserError
from harness.storage.manifest_file import Amount
from harness.storage.records import StoredRecord
from methods.pecan.method import Pecan
from methods.raptor.method import Raptor
from methods.retrieval import BM25
from tests.made_up import write_rows
from tests.reports.build import record

LLAMA = ModelShape(
    layers=32, width=4096, heads=32, kv_heads=8, head_size=128, mlp=14336, vocab=128256
)
# GARLIC's TFLOPs a question (GARLIC, table 1) and X of the two captions, by data set.
PRINTED = {
    "narrativeqa": (31.0, 7, 20),
    "qasper": (66.9, 14, 42),
    "hotpotqa": (16.0, 4, 12),
    "musique": (30.9, 7, 22),
}
# What the rule makes of them (docs/methods/costs.md#top-x).
RULE = {"narrativeqa": (6, 17), "qasper": (12, 36), "hotpotqa": (3, 9), "musique": (6, 17)}


@pytest.mark.parametrize("dataset", PRINTED)
def test_the_rule_gives_the_printed_x_within_two_chunks(dataset):
    tflops, chunks, nodes = PRINTED[dataset]

    def k(piece):
        cost = cost_by_piece_count(100, piece, 10, LLAMA)
        return nearest_count(lambda k: cost(k)[1] or 0.0, tflops * 1e12)

    assert (k(300), k(100)) == RULE[dataset]
    assert chunks - 2 <= k(300) <= chunks
    # RAPTOR's nodes are taken to be full; X is printed for nodes that mostly are a little shorter.
    assert nodes - 6 <= k(100) <= nodes


@pytest.mark.parametrize(
    ("target", "k"),
    [(0.0, 1), (30.0, 2), (45.0, 3), (34.9, 2), (35.0, 2), (35.1, 3), (40.0, 3), (1000.0, 99)],
)
def test_the_nearest_number_and_of_two_the_smaller(target, k):
    assert nearest_count(lambda k: 10.0 + 10.0 * k, target) == k


def test_the_cost_of_k_pieces():
    tiny = ModelShape(layers=1, width=2, heads=1, kv_heads=1, head_size=2, mlp=4, vocab=10)
    # W = 2*2*2 + 2*2*2 + 3*2*4 = 40, head 20, embeddings 20, a pair 8: prefill of 26 tokens, then 2
    # written after.
    prefill = 2 * 80 * 26 + 8 * 26 * 26
    decode = 2 * 80 * 2 + 8 * (2 * 26 + 3)
    assert cost_by_piece_count(5.6, 10, 2, tiny)(2) == (28, prefill + decode)
    assert cost_by_piece_count(5.6, 10, 2, tiny, ModelCall("embed", 7, 0, tiny))(2) == (
        35,
        prefill + decode + 2 * 40 * 7,
    )
    assert cost_by_piece_count(6, 10, 2, None)(2) == (28, None)


def test_steps_behind_the_stop_and_without_a_node_are_no_visits():
    steps = [("start", 0), ("visit", 3), ("start", None), ("study", 5), ("visit", 3)]
    stored = StoredRecord(
        question_id="q",
        document_ids=[],
        prediction="",
        scores={},
        usage={},
        steps=[{"action": action, "node": node} for action, node in steps],
    )
    assert visited_nodes(stored) == 3


CONFIG = {
    "method": {"name": "pecan"},
    "dataset": {"name": "d", "scorers": ["s"], "instruction": "i" * 40},
    "model": {"name": "m"},
    "seed": 0,
}
READER = ModelShape(layers=2, width=8, heads=2, kv_heads=1, head_size=4, mlp=16, vocab=50)


@pytest.fixture
def source(tmp_path):
    """Makes a finished run: two answered questions of 40 bytes, which wrote 4 tokens each, and a
    failed one."""

    def make(tokens=(400, 600), flops=1.25e9, uncounted=0, answered=2):
        def phase(read, wrote, full, unknown=0):
            counts = {"tokens_in": read, "tokens_out": wrote, "uncounted": unknown}
            return counts | {"flops": {"all-params": full}}

        def row(n, read, score):
            used = {"search": phase(read, 0, flops, uncounted), "answer": phase(0, 4, flops)}
            used["study"] = phase(10**6, 0, 1e18)
            return record(n, score, usage=used, question="q" * 40)

        rows = [row(n, read, 0.0) for n, read in enumerate(tokens)][:answered]
        folder = tmp_path / "pecan--m--1"
        folder.mkdir()
        (folder / "run.yaml").write_text(json.dumps({"config": CONFIG}))
        (folder / "summary.json").write_text(json.dumps({"state": "finished"}))
        shapes = {"shapes": {"reader": asdict(READER)}}
        (folder / "manifest.json").write_text(json.dumps(shapes))
        write_rows(folder / "records.jsonl", [*rows, row(2, 10**6, None)])
        return f"from:{folder}"

    return make


def bm25(**params):
    return BM25(BM25.Config(k=1, chunk_tokens=100, **params))


def test_search_and_answer_count_and_a_study_or_a_failed_question_does_not(source):
    number = number_from_run(bm25(), "bm25-topx", "k", source())
    assert (number.unit, number.mean) == ("TFLOPs", 0.0025)
    assert (number.questions, number.failed) == (2, 1)
    cost = cost_by_piece_count(60 + 10 + 10, 100, 4, READER)
    gaps = [
        abs((cost(n)[1] or 0) - 2.5e9) for n in (number.value - 1, number.value, number.value + 1)
    ]
    assert gaps[1] == min(gaps)


def test_tokens_where_the_flops_of_the_source_are_unknown(source):
    number = number_from_run(bm25(), "bm25-topx", "k", source(uncounted=1))
    # 504 tokens on average, of which the prompt takes 80 and the answer 4: 4.2 chunks of 100.
    assert (number.unit, number.mean, number.value) == ("tokens", 504, 4)


def test_raptors_nodes_have_a_rule_and_its_traversal_has_none(source):
    run = source(uncounted=1)
    collapsed = Raptor(Raptor.Config(top_k=1))
    assert number_from_run(collapsed, "raptor-ct-topx", "top_k", run).value == 4
    tree = Raptor(Raptor.Config(top_k=1, retrieval="traversal"))
    with pytest.raises(UserError, match="top_k does not fix what is shown"):
        number_from_run(tree, "raptor-tt", "top_k", run)


def test_a_run_that_visited_nothing_gives_no_number_of_nodes(source):
    with pytest.raises(UserError, match="its records name no visited nodes"):
        number_from_run(Pecan(Pecan.Config()), "pecan", "max_nodes", source())


def test_a_run_without_answers_gives_no_number(source):
    with pytest.raises(UserError, match="no question is answered there"):
        number_from_run(Pecan(Pecan.Config()), "pecan", "max_nodes", source(answered=0))


def test_printed_numbers_say_so():
    alone = plan_choices(Choices(method="bm25-topx", dataset="pocket/musique", limit=1))
    note = "k = 7, printed in the paper (configs/methods/bm25-topx.yaml, by_dataset)"
    assert describe(alone).amounts == {"k": Amount(value=7, note=note)}
    with pytest.raises(UserError, match="comes from a finished run of 'pecan'"):
        plan_choices(Choices(method="bm25-topx", dataset="pocket/quality", limit=1))
