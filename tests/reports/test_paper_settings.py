"""A run with other settings than its row is refused, and the setting is named."""

from dataclasses import replace

import pytest

from harness.config import presets
from reports.paper import frame
from reports.paper import preset as preset_module
from reports.paper.preset import settings_of
from reports.paper.printed import load
from reports.paper.verdicts import EQUIVALENT, NOT_COMPARABLE, UNDECIDED
from tests.reports.build import record, usage
from tests.reports.paper_runs import GONE, REFINED, answers, paper_run

F1, ACC = "longbench.qa_f1_score", "flashrag.acc"
LLAMA2 = {
    "model": {
        "name": "Llama-2-70b-chat-hf",
        "source": "meta-llama/Llama-2-70b-chat-hf",
        "backend": "hf",
    }
}
TRAINED = {"models.refiner.adapters": {"analysis": "a", "structuring": "b", "selection": "c"}}


def value(paper, table, method, dataset, metric):
    own = [v for v in load() if v.paper.name == paper and v.entry.table.startswith(table)]
    own = [v for v in own if [rule.dataset for rule in v.rules] == [dataset]]
    (one,) = (v for v in own if (v.entry.method, v.metric.score) == (method, metric))
    return one


GARLIC = value("GARLIC", "Table 1", "GARLIC", "musique", F1)
RAPTOR = value("GARLIC", "Table 1", "RAPTOR-CT", "musique", F1)
TOP_X = value("GARLIC", "Table 1", "BM25 top-X", "musique", F1)
BM25 = value("GARLIC", "Table 1", "BM25 top-5", "musique", F1)
SBERT = value("GARLIC", "Table 1", "SBERT top-5", "musique", F1)
WALK = value("GARLIC", "Table 1", "MeMWalker", "musique", F1)
LINGUA = value("GARLIC", "Table 1", "LongLLMLingua", "musique", F1)
REFINER = value("LongRefiner", "Table 2", "LongRefiner(Ours)", "nq", ACC)
QRMEM = value("QRMeM", "Table 1", "LLaMa-70B-Chat / QRMeM (KN)", "longbench/musique", ACC)
PECAN = next(
    v for v in load() if v.entry.method == "PECAN Graph Search" and v.rules[0].dataset == "musique"
)


def fabricated(root, one, **changes):
    """The run that prints the paper's number, settings of the row but for `changes` (see
    paper_run)."""
    rows = answers(one.rules[0].questions, one.metric.score or "s", one.printed / 100)
    if one.metric.phases:
        rows = [
            record(i, None, usage={"search": usage(one.printed)}, error=None)
            for i in range(len(rows))
        ]
    own = {}
    if one.paper.name == "LongRefiner":
        own = {"sets": REFINED, "manifest": {**TRAINED, **changes.pop("manifest", {})}}
    if one.paper.name == "QRMeM":
        own = {"config": {**LLAMA2, **changes.pop("config", {})}}
    return paper_run(root, one.entry.preset, one.rules[0].dataset, rows, **{**own, **changes})


def few(one):
    """The row as if the paper had asked 60 questions: a reason against a run needs no more."""
    return replace(one, rules=(one.rules[0].model_copy(update={"questions": 60}),))


def row(root, one, **changes):
    (only,) = frame([fabricated(root, one, **changes)], [one]).to_dict("records")
    return {str(key): cell for key, cell in only.items()}


def reasons(found):
    return [note for note in found["notes"] if not note.startswith("known difference: ")]


@pytest.mark.parametrize(
    "one",
    [GARLIC, RAPTOR, TOP_X, WALK, LINGUA, REFINER, QRMEM, SBERT, PECAN],
    ids=lambda v: v.entry.preset,
)
def test_a_run_with_the_settings_of_the_row_is_compared(tmp_path, one):
    found = row(tmp_path, one)
    assert reasons(found) == []
    assert found["verdict"].startswith(
        (EQUIVALENT, UNDECIDED)
    )  # 200 questions of LongBench cannot decide


def params(**changed):
    return {"config": {f"method.params.{key}": one for key, one in changed.items()}}


REFUSED = [
    (
        GARLIC,
        params(position_factor=False, similarity_scale="raw", window=1600, token_mean="sum"),
        [
            "method: window is 1600, the paper's is 8192",
            "method: token_mean is sum, the paper's is mean",
            "method: position_factor is false, the paper's is true",
            "method: similarity_scale is raw, the paper's is all",
        ],
    ),
    (PECAN, params(t_p=0.9), ["method: t_p is 0.9, the paper's is 0.55"]),
    (
        BM25,
        {"config": {"dataset.instruction": "Explain at length."}},
        ["dataset: instruction is Explain at length., the paper's is Answer the question as concisely as you can."],
    ),
    (REFINER, {"sets": {**REFINED, "dataset.top": 3}}, ["dataset: top is 3, the paper's is 8"]),
    (BM25, {"config": {"dataset.options": {"top": 3}}}, ["dataset: top is 3, the paper's is not set"]),
    (SBERT, {"config": {"encoder.pooling": "cls"}}, ["encoder: pooling is cls, the paper's is mean"]),
    (LINGUA, {"config": {"roles.compressor.template": "model"}}, ["model: the compressor's template is model, the paper's is none"]),
    (BM25, {"config": {"model.window": 4096}}, ["model: the reader's window is 4096, the paper's is 131072"]),
    (BM25, {"config": {"model.source": "Qwen/Qwen2.5-7B-Instruct"}}, ["model: the reader is Qwen2.5-7B-Instruct, the paper's is Llama-3.1-8B-Instruct"]),
    (BM25, {"manifest": {"models.reader.adapters": {"tuned": "x"}}}, ["model: the reader has the adapter tuned, the paper's has none"]),
    (BM25, {"manifest": {"prompts.answer without text": "Say something."}}, ["prompts: 'answer without text' has 'Say something.' at character 0, the paper's 'Answer a question from what you know. {i'"]),
    (BM25, {"manifest": {"prompts.mine": "x"}}, ["prompts: 'mine' is no prompt of the paper's preset"]),
    (BM25, {"config": {"method.implementation": "my_bm25:Mine"}}, ["method: implementation is my_bm25:Mine, the paper's is bm25"]),
    (BM25, params(window=9, least_characters=GONE, order=GONE), ["method: least_characters and order are not recorded; the paper has least_characters 1, order rank", "method: window is 9, which bm25 does not have here"]),
    (BM25, {"manifest": {"prompts": GONE, "first_prompts": GONE}}, ["prompts: not recorded"]),
    (BM25, {"sets": {"method.prompts.answer": "Think first. {instruction} {text} {question}{options}"}}, ["method: prompts.answer.user is Think first. {instruction} {text} {question}{options}, which bm25 does not have here", "prompts: 'answer' has 'Think first. {instruction} {text} {quest' at character 0, the paper's 'Read the text below, then answer a quest'"]),
    (BM25, {"sets": {"model.adapter": "/models/tuned"}}, ["model: the reader has the adapter tuned added to its weights, the paper's has none"]),
    (BM25, {"sets": {"model.source": "/models/Llama-3.1-8B-Instruct", "model.shape.layers": 1}}, ["model: the reader has other sizes than Llama-3.1-8B-Instruct (layers 1 instead of 32)"]),
    (GARLIC, {"sets": {"roles.builder": "llama-3.2-1b-instruct"}}, ["model: the builder is Llama-3.2-1B-Instruct, the paper's is Llama-3.1-8B-Instruct"]),
    (GARLIC, {"sets": {"encoder": "contriever"}}, ["encoder: contriever, the paper's is multi-qa-mpnet-base-cos-v1"]),
]  # fmt: skip


@pytest.mark.parametrize(("one", "changes", "expected"), REFUSED, ids=lambda part: str(part)[:40])
def test_another_setting_is_refused_by_its_key(tmp_path, one, changes, expected):
    found = row(tmp_path, few(one), **changes)
    assert found["verdict"] == NOT_COMPARABLE
    assert reasons(found) == expected


@pytest.mark.parametrize(
    "changes",
    [
        {"config": {"encoder.batch_size": 4, "model.device": "cpu", "model.memory_fraction": 0.5}},
        {
            "config": {
                "dataset.data": "~/musique.jsonl",
                "dataset.hub": None,
                "dataset.licence": "mine",
            }
        },
        {"config": {"limit": 60, "profile": None, "model.name": "llama"}},
        {"sets": {"method.record_stops": 8, "method.record_t_p": 0.9}},
    ],
)
def test_what_changes_no_prediction_is_no_difference(tmp_path, changes):
    assert reasons(row(tmp_path, few(GARLIC), **changes)) == []


def test_what_is_known_to_differ_stands_beside_the_verdict(tmp_path):
    found = row(tmp_path, RAPTOR)
    assert found["verdict"] == "equivalent (within 2 points; weights and scores not checked)"
    assert any("prompts are this project's wording" in note for note in found["notes"])
    assert all(note.startswith("known difference: ") for note in found["notes"])
    assert not any("this project's wording" in note for note in row(tmp_path / "b", TOP_X)["notes"])


def test_rows_of_a_mirror_are_not_checked(tmp_path):
    mirror = {"dataset.data": None, "dataset.hub": "mirror/musique"}
    found = row(tmp_path, BM25, config=mirror, manifest={"dataset.revision": "0" * 40})
    assert reasons(found) == []
    assert found["verdict"] == "equivalent (within 2 points; weights, rows and scores not checked)"


def test_presets_of_the_user_do_not_say_what_the_paper_did(tmp_path, monkeypatch):
    run = fabricated(tmp_path, TOP_X, **params(k=20))
    (tmp_path / "own" / "methods").mkdir(parents=True)
    (tmp_path / "own" / "methods" / "bm25-topx.yaml").write_text(
        "implementation: bm25\nparams: {k: 20}\n"
    )
    monkeypatch.setenv(presets.CONFIGS_VARIABLE, str(tmp_path / "own"))
    assert reasons(frame([run], [TOP_X]).to_dict("records")[0]) == [
        "method: k is 20, the paper's is 7"
    ]


def test_a_package_that_is_missing_here_does_not_matter(tmp_path, monkeypatch):
    run = fabricated(tmp_path, RAPTOR)
    monkeypatch.setattr("methods.raptor.config.find_spec", lambda name: None)
    monkeypatch.setattr(preset_module, "_resolve_preset", preset_module._resolve_preset.__wrapped__)
    assert reasons(frame([run], [RAPTOR]).to_dict("records")[0]) == []


def test_entries_repeat_nothing_that_the_preset_says():
    """An entry's params are those in which the printed row differs from the preset under profile
    paper."""
    for one in load():
        for key, said in one.entry.params.items():
            plain = replace(one, entry=one.entry.model_copy(update={"params": {}}))
            assert settings_of(plain, one.rules[0]).method[key] != said, (one.entry.method, key)
