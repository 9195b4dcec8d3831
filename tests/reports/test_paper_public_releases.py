"""What a run's rows and models are by content; tests/reports/test_fabricated_runs.py judges whole
runs."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from harness.storage.manifest_file import RunManifest
from harness.storage.records import StoredRecord
from harness.storage.run_folder import StoredRun
from harness.storage.summary_file import RunSummary
from reports.paper import public_releases
from reports.paper.comparable import differences
from reports.paper.preset import Model
from reports.paper.printed import load
from reports.paper.published import published
from tests.reports.build import record, stored_config, usage
from tests.reports.paper_runs import changed_manifest, paper_run

F1 = "longbench.qa_f1_score"
LLAMA = published().models["Llama-3.1-8B-Instruct"]
OPENING = LLAMA.opening
USER = LLAMA.user
CLOSING = LLAMA.closing
IDS = LLAMA.ids
SHAPE = {"layers": 32, "width": 4096}
WANTED = Model("Llama-3.1-8B-Instruct", {}, "meta-llama/Llama-3.1-8B-Instruct", SHAPE)
HUB = {"hub": "meta-llama/Llama-3.1-8B-Instruct", "commit": "0" * 40}


def run_of(weights, shape=None, prompts=None, model=None, **sent):
    manifest = {
        "models": {"reader": {"weights": weights, **(model or {})}},
        "shapes": {"reader": shape},
    }
    manifest |= {"prompts": {"answer": "Read. {text}\nAnswer:", **(prompts or {})}}
    if sent:
        manifest["first_prompts"] = {"reader": {"ids": IDS, **sent}}
    return StoredRun(
        Path("r"), stored_config(), RunManifest.from_json(manifest), [], [], RunSummary()
    )


@pytest.mark.parametrize(
    ("made", "reason", "unchecked"),
    [
        (run_of(HUB), "", ["weights", "chat template"]),
        (run_of({**HUB, "hub": "Meta-Llama/Meta-Llama-3.1-8B-Instruct"}), "", ["weights", "chat template"]),
        (run_of({**HUB, "hub": "me/Llama-3.1-8B-Instruct"}), "me/Llama-3.1-8B-Instruct, the paper's is meta-llama/", []),
        (run_of({"files": "ab"}, SHAPE), "", ["weights", "chat template"]),
        (run_of({"files": "ab"}, {**SHAPE, "layers": 1}), r"other sizes .*layers 1 instead of 32", ["weights", "chat template"]),
        (run_of({"files": "ab"}), "sizes are not recorded", ["weights", "chat template"]),
        (run_of({"gguf": "ab"}, SHAPE), "quantised file", []),
        (run_of(None), "not recorded", []),
        (run_of(HUB, model={"quantised": "gptq, 4 bits"}), r"weights are quantised \(gptq, 4 bits\)", []),
        (run_of(HUB, text=f"{OPENING}{USER}Read. x\nAnswer:{CLOSING}"), "", ["weights"]),
        (run_of(HUB, text=f"{OPENING}{USER}Read. x\nAnswer: Think first.{CLOSING}"), r"it adds .*Think first", ["weights"]),
        (run_of(HUB, text=f"<s>[INST] Read. x\nAnswer:{CLOSING}"), "its first prompt begins", ["weights"]),
        (run_of(HUB, text=f"{OPENING}{USER}Read. x\nAnswer:{CLOSING}", ids=[1, 2, 3]), r"tokenizer .*\[1, 2, 3\]", ["weights"]),
        (run_of(HUB, text=f"{OPENING}You are careful.{USER}Read. x\nAnswer:{CLOSING}"), "stands 'You are careful", ["weights"]),
        (run_of(HUB, text=f"{OPENING}{USER}Be right. Read. x\nAnswer:{CLOSING}"), "stands .*Be right", ["weights"]),
        (run_of(HUB, prompts={"answer, system": "Be kind."}, text=f"{OPENING}Be kind.{USER}Read. x\nAnswer:{CLOSING}"),
         "", ["weights"]),
        (run_of(HUB, text=f"{OPENING}{USER}a search that goes on"), "", ["weights"]),
        (run_of(HUB, text=f"{OPENING}You are careful.{USER}a search that goes on"), "stands 'You are careful", ["weights"]),
    ],
)  # fmt: skip
def test_a_model_is_known_by_its_content(made, reason, unchecked):
    found = public_releases.model_differences(made, "reader", WANTED)
    assert found.unchecked == unchecked
    assert [bool(re.search(reason, sentence)) for sentence in found.reasons] == [True] * bool(
        reason
    )


def question(i, hops, **changes):
    gold = {"answers": [str(i)], "supporting": [], "extra": {"hops": hops}}
    names = {
        "question_id": f"{hops}hop__{i}_{i}",
        "question": f"Who is {i}?",
        "document_ids": [f"d{i}"],
    }
    costs = {"usage": {"search": usage(0.0), "answer": usage(26.3, 100_000)}}
    scores = {F1: 0.287 + (0.1 if i % 2 else -0.1)}
    return record(i, None, scores=scores, error=None, gold=gold, **names, **costs) | changes


def official(n=2417):
    """As many questions of each number of hops as MuSiQue's development set has."""
    return [question(i, 2 if i < 1252 else 3 if i < 2012 else 4) for i in range(n)]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return paper_run(tmp_path_factory.mktemp("official"), "bm25", "musique", official())


def record_of(row):
    return row if isinstance(row, StoredRecord) else StoredRecord.from_json(row)


def reasons(run, rows, **manifest):
    own = [v for v in load() if v.entry.preset == "bm25" and v.rules[0].dataset == "musique"]
    value = next(v for v in own if v.label == "F1")
    return differences(
        value,
        replace(
            run,
            records=[record_of(row) for row in rows],
            manifest=changed_manifest(run.manifest, manifest),
        ),
    ).reasons


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([{**question(i % 54, 2), "question_id": f"2hop__{i}_{i}"} for i in range(2417)], "2363 of 2417 questions stand there twice"),
        ([question(i, 2) for i in range(2417)], "other numbers of each hops: 2 2417 .official 1252."),
        ([{**row, "question_id": f"{i:024x}"} for i, row in enumerate(official())], "2417 of 2417 ids are not of the form"),
        ([question(0, 2, question_id="2hop__205146_62031"), *official()[1:]], "1 of 2417 questions are training rows"),
        ([{**row, "error": {"type": "T", "message": ""}} if i < 400 else row for i, row in enumerate(official())],
         "400 of 2417 questions failed"),
        ([{**row, "scores": {F1: row["scores"][F1]} if i % 2 else {}} for i, row in enumerate(official())],
         f"1209 of 2417 questions have no {F1}"),
    ],
)  # fmt: skip
def test_other_rows_and_lost_answers_are_refused(run, rows, reason):
    found = reasons(run, rows)
    assert any(re.search(reason, sentence) for sentence in found), found


@pytest.mark.parametrize(
    ("manifest", "reason"),
    [
        ({}, None),
        ({"starts": [{}, {"changed": {"models": {}}}]}, "run: a part of it was made after a change of models"),
        ({"starts": [{}, {"changed": {"git": {}}}]}, "run: a part of it was made after a change of git"),
        ({"starts": [{}, {"changed": {"cpus": 4}}]}, None),
        ({"scorers": {F1: "0"}}, f"metric: version 0 of {F1} scored the run, here is 1; run: harness score RUN"),
        ({"amounts": {"k": {"run": "elsewhere/0", "questions": 2417}}}, "method: k comes from 0, which is not among these runs"),
    ],
)  # fmt: skip
def test_what_happened_to_the_run(run, manifest, reason):
    assert reasons(run, run.records, **manifest) == ([reason] if reason else [])


def test_another_model_is_named_first_however_its_weights_are_stored(tmp_path, command):
    reader = {"name": "smollm2-135m", "source": "HuggingFaceTB/SmolLM2-135M-Instruct"}
    manifest = {
        "models.reader.weights": {"gguf": "ab"},
        "shapes.reader": {"layers": 30, "width": 576},
    }
    config = {f"model.{key}": value for key, value in reader.items()}
    rows = [record(n, None, scores={F1: 0.5}, error=None) for n in range(4)]
    paper_run(tmp_path, "bm25", "musique", rows, config=config, manifest=manifest)
    code, out, err = command("report", str(tmp_path), "--paper", "--format", "json")
    assert code == 0, err
    first, *others = json.loads(out)[0]["notes"]
    assert first == (
        "model: the reader is SmolLM2-135M-Instruct, the paper's is Llama-3.1-8B-Instruct"
    )
    assert not any("quantised" in note for note in others)
