"""The bundled samples: what the program writes, in the official formats, provable from the supporting paragraphs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.config import DatasetConfig
from harness.datasets import load, sample
from harness.datasets.base import Dataset
from harness.datasets.sample_world import make_world

CONFIGS = Path(__file__).parents[2] / "configs" / "datasets"
SAMPLES = {"musique-sample": 20, "hotpotqa-sample": 10}


def _config(name: str) -> DatasetConfig:
    fields: dict[str, Any] = yaml.safe_load((CONFIGS / f"{name}.yaml").read_text(encoding="utf-8"))
    fields.pop("summary")
    return DatasetConfig.model_validate(fields)


def _sample(name: str) -> Dataset:
    return load(_config(name))


def test_stored_files_are_what_the_program_writes(tmp_path: Path) -> None:
    sample.main(tmp_path)
    stored = Path(sample.__file__).parent / "samples"
    written = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert written == {path.name: path.read_bytes() for path in stored.iterdir() if path.is_file()}


@pytest.mark.parametrize(("name", "paragraphs"), SAMPLES.items())
def test_size_and_spans(name: str, paragraphs: int) -> None:
    data = _sample(name)
    assert len(data) == 12
    assert data.skipped == {}
    assert data.source.startswith("package:harness.datasets/samples/")
    for example in data.examples:
        document = data.documents[example.question.id]
        assert len(document.passages) == paragraphs
        assert len({p.title for p in document.passages}) == paragraphs
        assert all(50 <= len(document.text[p.start : p.end].split()) <= 110 for p in document.passages)
        assert 2 <= len(example.gold.supporting) <= 4
        assert len(example.gold.supporting) == example.gold.extra["hops"]


def test_hops_of_the_musique_sample() -> None:
    hops = [example.gold.extra["hops"] for example in _sample("musique-sample").examples]
    assert (hops.count(2), hops.count(3), hops.count(4)) == (5, 4, 3)


def test_every_musique_answer_follows_from_its_supports() -> None:
    """Hop by hop: the paragraph names what is asked about, then holds the hop's answer; the last one is the answer."""
    for row in sample.musique_rows():
        asked: dict[str, str] = {}
        for hop in row["question_decomposition"]:
            paragraph = row["paragraphs"][hop["paragraph_support_idx"]]
            subject = hop["question"].split(" >> ")[0]
            subject = asked.get(subject, subject)
            assert paragraph["is_supporting"]
            assert subject in paragraph["title"]
            assert hop["answer"] in paragraph["paragraph_text"]
            asked[f"#{hop['id']}"] = hop["answer"]
        assert row["answer"] == hop["answer"]
        used = {hop["paragraph_support_idx"] for hop in row["question_decomposition"]}
        assert used == {p["idx"] for p in row["paragraphs"] if p["is_supporting"]}
        assert row["question_decomposition"][0]["question"].split(" >> ")[0] in row["question"]


def test_every_hotpot_fact_sentence_holds_its_fact() -> None:
    """Bridge: the second fact holds the answer. Comparison: recomputed from the two sentences."""
    for row in sample.hotpotqa_rows():
        text = dict(row["context"])
        facts = [text[title][number] for title, number in row["supporting_facts"]]
        if row["type"] == "bridge":
            assert row["answer"] in facts[1]
            assert row["supporting_facts"][1][0] in facts[0]
        elif row["answer"] in ("yes", "no"):
            towns = [next(t for t in _towns() if t in fact) for fact in facts]
            assert (towns[0] == towns[1]) == (row["answer"] == "yes")
        else:
            sizes = [int("".join(c for c in fact if c.isdigit())) for fact in facts]
            assert row["answer"] == row["supporting_facts"][sizes.index(max(sizes))][0]


def _towns() -> list[str]:
    return [entity.name for entity in make_world(sample.SEED).values() if entity.kind == "town"]


def test_a_world_states_each_fact_once() -> None:
    world = make_world(sample.SEED)
    for entity in world.values():
        stated = [fact for fact, _ in entity.sentences if fact is not None]
        assert len(set(stated)) == len(stated)
        for fact in stated:
            assert entity.facts[fact] in entity.sentences[entity.sentence(fact)][1]
    assert make_world(sample.SEED) == world
    assert make_world(sample.SEED + 1) != world


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.yaml")), ids=lambda path: path.stem)
def test_config_files(path: Path) -> None:
    fields: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    fields.pop("summary")
    config = DatasetConfig.model_validate(fields)
    assert config.name == path.stem
    assert config.instruction == "Answer the question as concisely as you can."
    assert config.max_answer_tokens == 32
    assert config.scorers[0] == "longbench.qa_f1_score"
    assert "evidence_recall" in config.scorers
    assert config.licence
    assert config.citation
    assert (config.hub is None) == config.name.endswith("-sample")
    assert config.revision is None


def test_sample_is_json_of_the_official_shape() -> None:
    row = json.loads((Path(sample.__file__).parent / "samples" / "musique.jsonl").read_text().splitlines()[0])
    wanted = {"id", "paragraphs", "question", "question_decomposition", "answer", "answer_aliases", "answerable"}
    assert set(row) == wanted
