"""Runs fabricated on the official rows, dishonest and honest ones, judged as the tables and certificates judge them.

A dishonest run must have a reason against its verdict, an honest one none. Kinds of runs whose sentence is tested are
in test_paper.py, test_paper_settings.py and test_paper_public_releases.py.
"""

from dataclasses import replace

import pytest
from pocket.random_model import save

from harness.config.layers import Choices
from harness.engine.manifest import describe
from harness.engine.plan import plan_choices
from reports.paper.comparable import differences, odd_scores
from reports.paper.printed import load
from reports.paper.verdicts import _measured_notes, frame
from tests.llm.conftest import SIZES, WORDS
from tests.reports.paper_runs import changed, paper_run
from tests.reports.test_paper_public_releases import official

COMMIT = "0123456789abcdef0123456789abcdef01234567"
LOST = {"error": {"type": "T", "message": ""}, "usage": {}}


def value(preset="bm25", label="F1"):
    return next(v for v in load() if v.entry.preset == preset and v.rules[0].dataset == "musique" and v.label == label)


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    return {preset: paper_run(folder / preset, preset, "musique", official()) for preset in ("bm25", "sbert")}


def fabricated(run, config=None, manifest=None, failed=0):
    """A copy with changes at dotted paths, whose first questions failed."""
    rows = [{**row, **LOST} for row in run.records[:failed]] + run.records[failed:]
    told = changed(run.config, config or {}), changed(run.manifest, manifest or {})
    return replace(run, config=told[0], manifest=told[1], records=rows)


def local(source):
    """The changes of a run with weights and rows of this machine."""
    weights = {"models.reader.weights": {"files": "ab" * 32}, "dataset": {"fingerprint": "f"}}
    return {"model.source": source}, weights


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_another_precision_has_no_verdict(honest, dtype):
    assert differences(value(), fabricated(honest["bm25"], {}, {"models.reader.dtype": dtype})).reasons


@pytest.mark.parametrize("config", [{"model.thinking": {"tokens": 9}}, {"model.trust_remote_code": True}])
def test_another_way_to_run_the_model_has_no_verdict(honest, config):
    assert differences(value(), fabricated(honest["bm25"], config)).reasons


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"model.temperature": 0.7}, "model: the reader's temperature is 0.7, the paper's is 0.0"),
        ({"model.top_p": 0.9}, "model: the reader's top_p is 0.9, the paper's is 1.0"),
        ({"model.max_tokens": 5}, "model: the reader's max_tokens is 5, the paper's is not set"),
        ({"sample": 2400, "sample_seed": 7}, "sample: about 2400 questions drawn with seed 7, the paper has all"),
    ],
)
def test_sampled_answers_and_questions_have_no_verdict(honest, config, told):
    assert differences(value(), fabricated(honest["bm25"], config)).reasons == [told]


@pytest.mark.parametrize("state", ["interrupted", "running"])
def test_a_run_that_did_not_end_has_no_verdict(honest, state):
    assert differences(value(), replace(honest["bm25"], summary={"state": state})).reasons == [f"run: it is {state}"]


@pytest.mark.parametrize(
    "changes",
    [
        (),  # as the README says
        ({"model.revision": COMMIT},),
        ({"model.dtype": "auto"}, {"models.reader.dtype": "bfloat16"}),
        local("/home/u/.cache/huggingface/hub/models--meta-llama--Llama-3.1-8B-Instruct/snapshots/0.1"),
        *(local(f"/models/{name}") for name in ("llama", "Llama-3.1-8B-Instruct", "x/8b")),
        ({"model.window": None}, {"models.reader.window": 131072 + 9}),
        ({"dataset.revision": COMMIT, "dataset.hub": "dgslibisey/MuSiQue"},),
        ({}, {}, 24),  # a failed question in a hundred
    ],
)
def test_an_honest_run_has_a_verdict(honest, changes):
    assert differences(value(), fabricated(honest["bm25"], *changes)).reasons == []


def test_a_small_llama_that_is_really_loaded_is_not_the_papers(honest, tmp_path):
    folder = tmp_path / "Llama-3.1-8B-Instruct"
    save(folder, [WORDS * 3], seed=1, **{**SIZES, "hidden_size": 32, "num_hidden_layers": 1})
    sets = {"model.dtype": "bfloat16", "model.window": 1024, "dataset.tokens": 300}
    plan = plan_choices(Choices(method="bm25", dataset="pocket/musique", model=str(folder), limit=1, sets=sets))
    told = describe(plan)
    manifest = {name: told[name] for name in ("models", "shapes")}
    found = differences(value(), fabricated(honest["bm25"], {"model.source": str(folder)}, manifest))
    assert any("other sizes than Llama-3.1-8B-Instruct" in reason for reason in found.reasons), found.reasons


@pytest.mark.parametrize("source", ["/models/all-MiniLM-L6-v2", "me/multi-qa-mpnet-base-cos-v1", None])
def test_an_encoder_is_known_by_its_content(honest, source):
    if source is None:
        run = fabricated(honest["sbert"], {"encoder.revision": COMMIT})
    else:
        weights = {"files": "ab"} if source.startswith("/") else {"hub": source, "commit": COMMIT}
        manifest = {"models.encoder": {"weights": weights}, "shapes.encoder": {"layers": 6, "width": 384}}
        run = fabricated(honest["sbert"], {"encoder.source": source}, manifest)
    assert (differences(value("sbert"), run).reasons == []) == (source is None)


def test_costs_that_were_counted_otherwise_have_no_verdict(honest):
    printed = value(label="TFLOPs")
    assert differences(printed, honest["bm25"]).reasons == []
    asked = replace(printed, metric=printed.metric.model_copy(update={"asked": "executed"}))
    assert differences(asked, honest["bm25"]).reasons
    assert differences(printed, fabricated(honest["bm25"], failed=2017)).reasons


def test_what_a_construction_cost_over_few_documents_has_no_verdict(tmp_path):
    run = paper_run(tmp_path, "pecan", "musique", official())
    own = [v for v in load() if v.entry.preset == "pecan" and v.rules[0].dataset == "musique"]
    printed = next(v for v in own if v.entry.per_document)
    for count, told in ((2417, []), (3, ["run: the cost of 3 of 2417 indexes is known"])):
        run.documents[:] = [{"document_id": f"d{i}", "status": "built", "usage": {}} for i in range(count)]
        assert differences(printed, run).reasons == told


def test_a_dirty_checkout_is_told_beside_the_verdict(honest):
    told = {True: ["the run's code had changes that no commit holds"], False: []}
    for dirty, notes in told.items():
        assert _measured_notes(((value(), fabricated(honest["bm25"], {}, {"git.dirty": dirty})),)) == notes


@pytest.mark.parametrize(("edited", "told"), [(0, None), (1, "metric: 1 of 2 scores musique.answer_f1 are not those")])
def test_scores_are_computed_again_from_the_stored_answers(honest, edited, told):
    run, name = honest["bm25"], "musique.answer_f1"
    gold = {"answers": ["Mira"], "supporting": [], "extra": {}}
    own = {"gold": gold, "prediction": "Mira", "scores": {name: 1.0}}
    rows = [{**row, **own} for row in run.records[:2]]
    rows[0] = {**rows[0], "prediction": "Tom" if edited else "Mira"}
    found = odd_scores(replace(run, records=rows), name)
    assert found is None if told is None else found.startswith(told)


def test_edited_scores_have_no_verdict(tmp_path):
    gold = {"answers": ["Mira"], "supporting": [], "extra": {}}
    rows = [{**row, "gold": gold, "prediction": "Tom"} for row in official()]
    name = value().metric.score
    rows = [{**row, "scores": {name: 0.5}} for row in rows]
    run = paper_run(tmp_path, "bm25", "musique", rows)
    told = frame([run], [value()]).iloc[0]
    assert told["verdict"] == "not comparable"
    assert f"scores {name} are not those of the stored answers" in " ".join(told["notes"])
