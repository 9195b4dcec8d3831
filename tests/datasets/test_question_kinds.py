"""Kinds of questions, and samples that keep their shares."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.config.layers import Choices
from harness.config.resolve import resolve
from harness.datasets.base import Dataset
from harness.datasets.question_kinds import (
    answer_kind,
    count_kinds,
    first_rows_warning,
    question_kinds,
    random_sample,
)
from harness.engine.asked_questions import load_questions
from harness.engine.completed_method import complete_method
from harness.engine.findings import Findings
from harness.errors import UserError
from harness.types import Document, Example, Gold, Question
from tests.datasets.support import musique, write_lines


@pytest.mark.parametrize(
    ("extra", "found"),
    [
        (
            {"hops": 2, "type": "bridge", "level": "hard", "length": 9},
            {"hops": "2", "type": "bridge", "level": "hard"},
        ),
        ({"difficult": 0}, {"level": "easy"}),
        ({"difficult": 1}, {"level": "hard"}),
        (
            {"types": ["extractive", "abstractive", "extractive"]},
            {"type": "abstractive/extractive"},
        ),
        ({"type": "", "hops": None}, {}),
    ],
)
def test_the_data_sets_own_words(extra, found):
    assert question_kinds(extra) == found


@pytest.mark.parametrize(
    ("answers", "kind"),
    [(["Yes."], "yes/no"), (["Unanswerable"], "unanswerable"), ([], "unanswerable"), (["May 1901"], "number"), (["Ada"], "text")],
)  # fmt: skip
def test_kinds_of_answers(answers, kind):
    assert answer_kind(answers) == kind


def made(hops, a_document=1):
    """A question for each number of hops, `a_document` of them on each document."""
    asked = [Question(f"q{i}", "?", (f"d{i // a_document}",)) for i in range(len(hops))]
    examples = tuple(
        Example(q, Gold(("a",), extra={"hops": n})) for q, n in zip(asked, hops, strict=True)
    )
    documents = {f"d{i}": Document(f"d{i}", "text") for i in range(len(hops))}
    return Dataset(
        "made",
        examples,
        documents,
        "0",
        "here",
        n_all_questions=len(hops),
        kind_counts=count_kinds(examples),
    )


def ids(dataset):
    return {example.question.id for example in dataset.examples}


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from([2, 2, 2, 3, 4]), min_size=1, max_size=60),
    st.integers(0, 3),
    st.data(),
)
def test_a_larger_sample_contains_a_smaller_one_with_the_same_shares(hops, seed, data):
    dataset = made(hops)
    number = data.draw(st.integers(1, len(hops)))
    sample = random_sample(dataset, "musique", number, seed)
    assert len(sample) == number
    assert ids(sample) <= ids(random_sample(dataset, "musique", number + 7, seed))
    for kind, count in count_kinds(dataset.examples).items():
        assert abs(count_kinds(sample.examples)[kind] - number * count / len(hops)) < 2


def test_questions_of_a_document_are_drawn_together_and_in_the_order_of_the_data_set():
    dataset = made([2] * 40, a_document=4)
    sample = random_sample(dataset, "quality", 6, 0)
    assert len(sample) == 8
    assert len({example.question.document_ids for example in sample.examples}) == 2
    assert [*sample.examples] == [
        example for example in dataset.examples if example in sample.examples
    ]
    assert ids(sample) != ids(random_sample(dataset, "quality", 6, 1))
    assert (
        len(random_sample(dataset, "retrieved", 6, 0)) == 6
    )  # documents of a corpus bind no questions


def test_documents_that_differ_give_samples_with_the_shares_of_all():
    dataset = made([2 + (i % 8 < i // 8 % 9) for i in range(480)], a_document=8)
    share = dataset.kind_counts["hops", "3"] / 480
    for seed in range(20):
        sample = random_sample(dataset, "quality", 48, seed)
        assert ids(sample) <= ids(random_sample(dataset, "quality", 56, seed))
        assert abs(count_kinds(sample.examples)["hops", "3"] / 48 - share) < 0.08


def test_a_sample_is_the_same_on_every_machine():
    assert ids(random_sample(made([2, 3] * 10), "musique", 4, 0)) == {"q0", "q10", "q17", "q9"}


def asked(data, **choices):
    """The questions of a run over a file of MuSiQue, and the warnings about them."""
    settings = resolve(Choices(method="bm25", dataset="musique", data=data, **choices))
    method, findings = complete_method(settings).method, Findings()
    return load_questions(settings, method, findings).dataset, findings.warnings


def test_the_first_rows_are_compared_with_all(tmp_path):
    rows = [
        musique(i) | {"id": f"{2 + i // 30}hop__{i}", "question_decomposition": []}
        for i in range(60)
    ]
    data = str(write_lines(tmp_path / "r.jsonl", rows))
    first, warnings = asked(data, limit=20)
    assert len(first) == 20
    assert [warning for warning in warnings if "not like the rest" in warning] == [
        (
            "the first 20 questions are not like the rest (type 2hop is 100% of them, 50% of all 60); "
            "--sample 20 draws from all"
        )
    ]
    sample, warnings = asked(data, sample=20)
    assert count_kinds(sample.examples)["type", "2hop"] == 10
    assert not [warning for warning in warnings if "not like" in warning]


def test_all_kinds_of_a_name_are_compared_together():
    """Ten questions of one kind of a file with 69 % of it: no single share is far, but few random
    draws are so."""
    dataset = made([2] * 84 + [3] * 22 + [4] * 16)
    first = replace(dataset, examples=dataset.examples[:10])
    assert "hops 2 is 100% of them, 69% of all 122" in str(first_rows_warning(first, 10))


def test_few_first_rows_prove_nothing():
    dataset = made([2, 3] * 20)
    assert first_rows_warning(replace(dataset, examples=dataset.examples[:3]), 3) is None
    assert first_rows_warning(dataset, 40) is None


@pytest.mark.parametrize(
    ("choices", "limit", "sample"),
    [
        ({"limit": 5}, 5, None),
        ({"sample": 5}, None, 5),
        ({"sample": 5, "sets": {"sample_seed": 3}}, None, 5),
    ],
)
def test_one_takes_the_place_of_the_other(choices, limit, sample, tmp_path):
    file = tmp_path / "a.yaml"
    file.write_text("limit: 9\n" if sample else "sample: 9\n")
    config = resolve(
        Choices(method="bm25", dataset="pocket/musique", files=(str(file),), **choices)
    ).config
    assert (config.limit, config.sample) == (limit, sample)


def test_both_together_are_refused():
    with pytest.raises(UserError, match="give one of them"):
        resolve(Choices(method="bm25", dataset="pocket/musique", limit=1, sample=1))
