"""OOLONG-Pairs: questions and text come from two places, and the text is the one that fits."""

import json
from pathlib import Path

import pytest

from harness.config.layers import Choices
from harness.config.resolve import resolve
from harness.datasets import load
from harness.errors import ConfigError
from harness.scorers import score
from tests.datasets import releases
from tests.datasets.more_rows import pairs, pairs_text

COMMIT = "1" * 40
OTHER_USERS = "Date: Jan 01, 2023 || User: 99 || Instance: Who?"


def loaded(**sets):
    chosen = {f"dataset.{key}": value for key, value in sets.items()}
    choices = Choices(method="bm25", dataset="oolong/pairs", sets=chosen)
    return load(resolve(choices).config.dataset)


def files(asked, texts):
    """Write the files of the questions and the texts to the current folder."""
    Path("pairs.json").write_text(json.dumps(asked), encoding="utf-8")
    lines = [json.dumps(text) for text in texts]
    Path("texts.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return {"data": "pairs.json", "texts": "texts.jsonl"}


def test_questions_and_text_come_from_two_repositories_of_the_hub(hub):
    made = releases.pairs()
    asked = {name: made[name] for name in made if name.startswith("data/")}
    texts = {name.removeprefix("synth/"): made[name] for name in made if name not in asked}
    hub.add("mit-oasys/oolong-pairs", COMMIT, asked)
    hub.add("oolongbench/oolong-synth", COMMIT, {**texts, "data/test-00000.parquet": b""})
    at_32768, at_1024 = loaded(), loaded(tokens=1024)
    assert [example.question.id for example in at_1024.examples] == ["1024-1", "1024-2"]
    assert (len(at_32768), at_32768.revision) == (3, COMMIT)
    assert at_32768.examples[0].gold.answers == ("(11, 22)\n(11, 33)",)


def test_the_text_is_the_first_that_names_all_users(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    texts = [pairs_text(1, context_window_text=OTHER_USERS), pairs_text(2), pairs_text(3)]
    made = loaded(**files([pairs(1), pairs(2)], texts))
    (document,) = made.documents.values()
    assert document.text == pairs_text()["context_window_text"]


def test_a_length_whose_texts_name_other_users_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    texts = [pairs_text(1, context_window_text=OTHER_USERS), pairs_text(2, context_len=1024)]
    with pytest.raises(ConfigError, match="no trec_coarse text of 32768 tokens names all users"):
        loaded(**files([pairs(1)], texts))


@pytest.mark.parametrize(
    ("reply", "gold", "value"),
    [
        ("(11, 22)\n(11, 33)", "(11, 22)\n(11, 33)", 1.0),
        ("Pairs: (22,11), ( 11 , 22 )", "(11, 22)\n(11, 33)", 2 / 3),
        ("(11, 22)\n(1, 2)\n(3, 4)", "(11, 22)", 0.5),
        ("None of them.", "(11, 22)", 0.0),
        ("There are none.", "no pairs", 1.0),
        ("(11, 22)", "no pairs", 0.0),
    ],
)
def test_pairs_count_in_any_order_and_once(reply, gold, value):
    assert score("oolong_pairs.f1", reply, [gold]) == pytest.approx(value)


def test_a_question_without_a_pair_has_an_answer(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = loaded(**files([pairs(1, answer=[])], [pairs_text(1)]))
    assert made.examples[0].gold.answers == ("no pairs",)
