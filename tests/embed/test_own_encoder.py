"""A preset's own encoder, what stands in for it, and what a row whose weights are missing says."""

import pytest
import yaml

from harness.config.layers import Choices
from harness.config.resolve import resolve, resolve_encoder
from harness.engine.plan import plan_choices
from harness.errors import HarnessError
from tests.embed.saved_models import saved

ROWS = [
    ("dragon", "dragon"),
    ("contriever", "contriever"),
    ("e5", "e5"),
    ("bge-embedder", "bge"),
    ("recomp", "recomp-nq"),
    ("recomp-multihop", "recomp-hotpotqa"),
]


@pytest.fixture(autouse=True)
def _closed(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))


def choices(method, **more):
    more.setdefault("sets", {"dataset.questions": 1, "dataset.tokens": 300})
    return Choices(method=method, dataset="pocket/musique", **more)


@pytest.mark.parametrize(
    ("method", "encoder"),
    [*ROWS, ("bge-reranker", "bge-reranker"), ("bce-reranker", "bce-reranker")],
)
def test_a_row_whose_weights_are_missing_is_not_run(method, encoder):
    with pytest.raises(HarnessError, match="not run: weights: ") as caught:
        plan_choices(choices(method))
    part = "reranker" if "reranker" in method else "encoder"
    assert f"name a folder with `--set {part}.source=FOLDER`" in str(caught.value)
    assert "--model" not in str(caught.value)
    d = resolve(choices(method))
    assert getattr(d, part).name == encoder
    assert (
        d.origins[f"{part}.name"]
        == d.origins[f"method.{part}"]
        == "configs/methods/" + method + ".yaml"
    )


@pytest.mark.parametrize(("method", "_own"), ROWS)
def test_a_stand_in_is_in_the_name(method, _own):
    for said in ({"sets": {"encoder": "minilm", "dataset.questions": 1}}, {"profile": "pocket"}):
        p = plan_choices(choices(method, **said))
        assert (p.config.method.name, p.encoders["encoder"].name) == (f"{method}[minilm]", "minilm")
        assert f"/{method}[minilm]--" in p.folder


def test_a_preset_without_an_encoder_of_its_own_keeps_its_name_and_a_stored_one_is_not_named_twice(
    tmp_path,
):
    for method in ("sbert", "bm25"):
        assert plan_choices(choices(method, profile="pocket")).config.method.name == method
    p = plan_choices(choices("dragon", profile="pocket"))
    file = tmp_path / "run.yaml"
    file.write_text(
        yaml.safe_dump({"config": p.config.model_dump(mode="json"), "origins": p.origins})
    )
    again = plan_choices(Choices(files=(str(file),)))
    assert (again.config.method.name, again.hash8, again.folder) == (
        p.config.method.name,
        p.hash8,
        p.folder,
    )


def test_the_weights_of_its_own_encoder_from_elsewhere_keep_the_name(tmp_path):
    sets = {
        "encoder.source": saved(tmp_path / "p"),
        "encoder.query_source": saved(tmp_path / "q", seed=1),
    }
    p = plan_choices(
        choices("dragon", sets={**sets, "dataset.questions": 1, "dataset.tokens": 300})
    )
    assert p.config.method.name == "dragon"
    found = p.encoders["encoder"]
    assert (found.pooling, found.similarity, found.max_length) == ("cls", "dot", 512)


@pytest.mark.parametrize(
    ("name", "pooling", "similarity", "query_prefix", "passage_prefix"),
    [
        ("dragon", "cls", "dot", "", ""),
        ("contriever", "mean", "dot", "", ""),
        ("contriever-msmarco", "mean", "dot", "", ""),
        ("e5", "mean", "cosine", "query: ", "passage: "),
        ("e5-large", "mean", "cosine", "query: ", "passage: "),
        ("bge", "cls", "cosine", "Represent this sentence for searching relevant passages: ", ""),
        (
            "bge-large",
            "cls",
            "cosine",
            "Represent this sentence for searching relevant passages: ",
            "",
        ),
        ("recomp-nq", "mean", "dot", "", ""),
        ("recomp-tqa", "mean", "dot", "", ""),
        ("recomp-hotpotqa", "mean", "dot", "", ""),
        ("mpnet", "mean", "cosine", "", ""),
        ("minilm", "mean", "cosine", "", ""),
    ],
)
def test_what_the_papers_say_of_each_encoder(
    name, pooling, similarity, query_prefix, passage_prefix
):
    found = resolve_encoder(Choices(sets={"encoder": name})).value
    said = (found.pooling, found.similarity, found.query_prefix, found.passage_prefix)
    assert said == (pooling, similarity, query_prefix, passage_prefix)
    assert (found.query_source is not None) == (name == "dragon")
    assert found.max_length == (None if name == "minilm" else 512)
