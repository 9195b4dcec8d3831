"""Folders of encoders and rerankers that are broken, through the rows that use them: a sentence, never a wrong number."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import XLMRobertaForSequenceClassification, XLMRobertaModel

from harness.config.layers import Choices
from harness.config.schema import EncoderConfig
from harness.cost.meter import Meter
from harness.embed.encoder_info import encoder_facts
from harness.embed.load import load_reranker
from harness.engine.plan import plan_choices
from harness.engine.progress import Silent
from harness.engine.runner import run
from harness.errors import CannotRun, HarnessError
from harness.storage.run_folder import read_run
from tests.embed.saved_models import packed, saved

ROWS = {"dataset.questions": 2, "dataset.tokens": 300}


@pytest.fixture(autouse=True)
def _home(tmp_path, monkeypatch):
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path / "home"))


def choices(method: str, **sets: Any) -> Choices:
    return Choices(method=method, dataset="pocket/musique", sets={**ROWS, **sets}, limit=1)


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("1_Pooling/config.json", "{", "cannot be read (Expecting property name"),
        ("1_Pooling/config.json", "[]", "it holds a list where a dict belongs"),
        ("modules.json", "no json", "cannot be read (Expecting value"),
        ("modules.json", '{"type": "x"}', "it holds a dict where a list belongs"),
        ("modules.json", '["x"]', "it does not list modules"),
    ],
)
def test_a_broken_pooling_file_is_a_sentence_of_the_plan(name, content, why, tmp_path):
    folder = packed(tmp_path, "cls")
    (folder / name).write_text(content)
    with pytest.raises(HarnessError) as caught:
        plan_choices(choices("sbert", encoder=str(folder)))
    assert f"the encoder's file {folder / name}" in str(caught.value)
    assert why in str(caught.value)
    assert "download the folder again" in str(caught.value)


def test_a_way_of_pooling_that_nobody_knows_is_a_sentence(tmp_path):
    folder = packed(tmp_path, "cls")
    (told,) = folder.glob("*Pooling/config.json")
    told.write_text(json.dumps({**json.loads(told.read_text()), "pooling_mode": "majority"}))
    config = EncoderConfig(name="mine", source=str(folder), pooling="mean")
    assert "its folder's own pooling is majority" in encoder_facts(config).problems[0]


@pytest.mark.parametrize(("method", "role"), [("sbert", "encoder"), ("bge-reranker", "reranker")])
def test_weights_that_are_nan_fail_the_question_and_are_told(method, role, tmp_path):
    classes = {"cls": XLMRobertaForSequenceClassification, "num_labels": 1} if role == "reranker" else {}
    folder = saved(tmp_path / "m", "xlm-roberta", **classes)
    path = tmp_path / "m" / "model.safetensors"
    weights = load_file(str(path))
    name = next(n for n in weights if n.endswith("layer.1.output.dense.weight"))
    save_file({**weights, name: torch.full_like(weights[name], float("nan"))}, str(path), metadata={"format": "pt"})
    plan = plan_choices(choices(method, **{role: folder}))
    result = run(plan, tmp_path / "out", command=["harness"], progress=Silent())
    stored = read_run(result.folder)
    (record,) = stored.records
    assert (record["prediction"], record["error"]["type"]) == ("", "ModelOutputError")
    assert "gave NaN or infinite" in record["error"]["message"]
    assert (result.summary["n_failed"], result.summary["n_scored"]) == (1, 0)


def test_an_encoder_is_no_reranker(tmp_path):
    folder = saved(tmp_path / "m", "xlm-roberta", cls=XLMRobertaModel, num_labels=1)
    config = EncoderConfig(name="mine", source=folder, max_length=12)
    with pytest.raises(CannotRun, match=r"'mine' is no reranker: its weights have no 'classifier\.dense\.weight'"):
        load_reranker(config, Meter(), "reranker")
