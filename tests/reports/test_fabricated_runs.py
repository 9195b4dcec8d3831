"""Runs fabricated by seed, dishonest and honest ones, judged as the tables and certificates judge them.

A dishonest run must have a reason against its verdict, an honest one none. Each kind draws its details anew. Kinds of
runs whose sentence is tested are in test_paper.py, test_paper_settings.py and test_paper_published.py.
"""

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from harness.config.layers import Choices
from harness.engine.manifest import describe
from harness.engine.plan import plan_choices
from harness.stats.rng import Dice
from harness.storage.run_folder import StoredRun
from pocket.random_model import save
from reports.paper.comparable import differences
from reports.paper.printed import Value, load
from reports.paper.verdicts import _measured_notes
from tests.llm.conftest import SIZES, WORDS
from tests.reports.paper_runs import paper_run
from tests.reports.test_paper_published import official

SEEDS = (1, 2)
PAPER = "meta-llama/Llama-3.1-8B-Instruct"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
Change = Callable[[StoredRun, Dice], Any]


def value(preset: str = "bm25", label: str = "F1") -> Value:
    return next(v for v in load() if v.entry.preset == preset and v.rules[0].dataset == "musique" and v.label == label)


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    return {preset: paper_run(folder / preset, preset, "musique", official()) for preset in ("bm25", "sbert")}


def reader(run: StoredRun) -> dict[str, Any]:
    found: dict[str, Any] = run.manifest["models"]["reader"]
    return found


def local(run: StoredRun, source: str) -> None:
    run.config["model"]["source"] = source
    reader(run)["weights"] = {"files": "ab" * 32}
    run.manifest["dataset"] = {"fingerprint": "f"}


def failing(run: StoredRun, count: int) -> None:
    lost = {"error": {"type": "T", "message": ""}, "usage": {}}
    run.records[:count] = [{**row, **lost} for row in run.records[:count]]


DISHONEST: dict[str, Change] = {
    "another precision": lambda run, dice: reader(run).update(dtype=dice.pick(("float16", "float32"))),
    "thinking": lambda run, dice: run.config["model"].update(thinking={"tokens": dice.between(9, 99)}),
    "code of the repository": lambda run, _: run.config["model"].update(trust_remote_code=True),
    "an end that did not come": lambda run, dice: run.summary.update(state=dice.pick(("interrupted", "running"))),
}

HONEST: dict[str, Change] = {
    "as the README says": lambda run, _: None,
    "a pinned revision": lambda run, _: run.config["model"].update(revision=COMMIT),
    "dtype auto that became bfloat16": lambda run, _: (
        run.config["model"].update(dtype="auto"), reader(run).update(dtype="bfloat16")),
    "a snapshot of the hub": lambda run, dice: local(
        run, f"/home/u/.cache/huggingface/hub/models--meta-llama--Llama-3.1-8B-Instruct/snapshots/{dice.random()}"
    ),
    "a local path": lambda run, dice: local(run, f"/models/{dice.pick(('llama', 'Llama-3.1-8B-Instruct', 'x/8b'))}"),
    "a larger window": lambda run, dice: (
        run.config["model"].update(window=None), reader(run).update(window=131072 + dice.between(0, 10**6))),
    "a pinned data set": lambda run, _: run.config["dataset"].update(revision=COMMIT, hub="dgslibisey/MuSiQue"),
    "a failed question or two": lambda run, dice: failing(run, dice.between(1, 24)),
}  # fmt: skip


def copied(run: StoredRun) -> StoredRun:
    whole = {key: copy.deepcopy(getattr(run, key)) for key in ("config", "manifest", "summary")}
    return replace(run, records=list(run.records), **whole)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", DISHONEST)
def test_a_dishonest_run_has_no_verdict(honest, kind, seed):
    run = copied(honest["bm25"])
    DISHONEST[kind](run, Dice("fabricated", kind, seed))
    assert differences(value(), run).reasons, f"certified: {kind}"


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", HONEST)
def test_an_honest_run_has_one(honest, kind, seed):
    run = copied(honest["bm25"])
    HONEST[kind](run, Dice("fabricated", kind, seed))
    assert differences(value(), run).reasons == []


def test_a_small_llama_that_is_really_loaded_is_not_the_papers(honest, tmp_path):
    folder = tmp_path / "Llama-3.1-8B-Instruct"
    save(folder, [WORDS * 3], seed=1, **{**SIZES, "hidden_size": 32, "num_hidden_layers": 1})
    sets = {"model.dtype": "bfloat16", "model.window": 1024, "dataset.tokens": 300}
    plan = plan_choices(Choices(method="bm25", dataset="pocket/musique", model=str(folder), limit=1, sets=sets))
    told, run = describe(plan), copied(honest["bm25"])
    run.config["model"].update(source=str(folder))
    run.manifest["models"], run.manifest["shapes"] = told["models"], told["shapes"]
    found = differences(value(), run)
    assert any("other sizes than Llama-3.1-8B-Instruct" in reason for reason in found.reasons), found.reasons


@pytest.mark.parametrize(
    ("change", "certified"),
    [
        ({"revision": COMMIT}, True),
        ({"source": "/models/all-MiniLM-L6-v2"}, False),
        ({"source": "me/multi-qa-mpnet-base-cos-v1"}, False),
    ],
)
def test_an_encoder_is_known_by_its_content(honest, change, certified):
    run = copied(honest["sbert"])
    run.config["encoder"].update(change)
    if not certified:
        source = change["source"]
        weights = {"files": "ab"} if source.startswith("/") else {"hub": source, "commit": COMMIT}
        run.manifest["models"]["encoder"] = {"weights": weights}
        run.manifest["shapes"]["encoder"] = {"layers": 6, "width": 384}
    assert (differences(value("sbert"), run).reasons == []) == certified


def test_costs_that_were_counted_otherwise_have_no_verdict(honest):
    printed = value(label="TFLOPs")
    assert differences(printed, honest["bm25"]).reasons == []
    asked = replace(printed, metric=printed.metric.model_copy(update={"asked": "executed"}))
    assert differences(asked, honest["bm25"]).reasons
    failed = copied(honest["bm25"])
    failing(failed, 2017)
    assert differences(printed, failed).reasons


def test_what_a_construction_cost_over_few_documents_has_no_verdict(tmp_path):
    run = paper_run(tmp_path, "pecan", "musique", official())
    printed = next(
        v for v in load() if v.entry.preset == "pecan" and v.rules[0].dataset == "musique" and v.entry.per_document
    )
    for count, told in ((2417, []), (3, ["run: the cost of 3 of 2417 indexes is known"])):
        run.documents[:] = [{"document_id": f"d{i}", "status": "built", "usage": {}} for i in range(count)]
        assert differences(printed, run).reasons == told


def test_a_dirty_checkout_is_told_beside_the_verdict(honest):
    run = copied(honest["bm25"])
    assert _measured_notes(((value(), run),)) == []
    run.manifest["git"]["dirty"] = True
    assert _measured_notes(((value(), run),)) == ["the run's code had changes that no commit holds"]
