"""What must hold for any text."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.scorers import score
from harness.scorers.bleu import tokenize_13a
from harness.scorers.longbench_zh import normalize_zh_answer
from harness.scorers.squad import normalize_answer, overlap
from harness.scorers.triviaqa import normalize_answer as normalize_trivia

WORDS = ["paris", "the", "Beatles", "yes", "no", "42", "3.5", "mother-in-law", "‘x’", "é", "a", "U.S."]
sentences = st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join)
texts = st.one_of(sentences, st.text(max_size=30))
F1 = ["longbench.qa_f1_score", "flashrag.f1", "hotpotqa.f1", "2wikimultihopqa.f1", "musique.answer_f1", "triviaqa.f1"]
F1 += ["qasper.token_f1_score"]
EXACT = ["flashrag.em", "hotpotqa.em", "musique.answer_em", "2wikimultihopqa.em", "triviaqa.em"]
OTHERS = ["flashrag.acc", "flashrag.precision", "flashrag.recall", "hotpotqa.prec", "hotpotqa.recall"]
OTHERS += ["longbench.count_score", "longbench.code_sim_score", "rouge_score.rougeL", "longbench.rouge_score"]


@pytest.mark.parametrize("metric", F1 + EXACT + OTHERS)
@given(prediction=texts, references=st.lists(texts, min_size=1, max_size=3))
def test_scores_lie_between_0_and_1(metric: str, prediction: str, references: list[str]) -> None:
    assert 0.0 <= score(metric, prediction, references) <= 1.0


@pytest.mark.parametrize("metric", F1 + EXACT + OTHERS)
@given(prediction=texts, references=st.lists(texts, min_size=2, max_size=3))
def test_several_references_count_as_the_best_of_them(metric: str, prediction: str, references: list[str]) -> None:
    alone = [score(metric, prediction, [reference]) for reference in references]
    assert score(metric, prediction, references) == pytest.approx(max(alone))


@pytest.mark.parametrize("normalise", [normalize_answer, normalize_trivia])
@given(text=texts)
def test_normalising_twice_is_normalising_once(normalise, text: str) -> None:
    once = normalise(text)
    assert normalise(once) == once
    assert once == " ".join(once.split())
    assert not set(once) & set(string.punctuation)


@given(st.text(alphabet="今天 好，。《》!a\n", max_size=20))
def test_the_chinese_normaliser_is_idempotent(text: str) -> None:
    assert normalize_zh_answer(normalize_zh_answer(text)) == normalize_zh_answer(text)


@given(st.lists(st.sampled_from("abc")), st.lists(st.sampled_from("abc")))
def test_overlap_against_a_count_by_hand(left: list[str], right: list[str]) -> None:
    common = sum(min(left.count(word), right.count(word)) for word in "abc")
    found = overlap(left, right)
    assert found.f1 == pytest.approx(2 * common / (len(left) + len(right)) if common else 0.0)
    assert found.precision * len(left) == pytest.approx(common)
    assert found.recall * len(right) == pytest.approx(common)


@given(sentences.filter(tokenize_13a), sentences.filter(tokenize_13a))
def test_bleu_lies_between_0_and_1_and_smoothing_never_lowers_it(prediction: str, reference: str) -> None:
    plain, smooth = (score(name, prediction, [reference]) for name in ("hf_bleu.bleu4", "hf_bleu.bleu4_smooth"))
    assert 0.0 <= plain <= smooth <= 1.0 + 1e-12
    assert score("hf_bleu.bleu1", prediction, [prediction]) == pytest.approx(1.0)


@given(sentences.filter(tokenize_13a), st.lists(sentences.filter(tokenize_13a), min_size=1, max_size=3))
def test_a_corpus_of_one_is_the_item(prediction: str, references: list[str]) -> None:
    corpus = score("hf_bleu.corpus_bleu4", [prediction], [references])
    assert corpus == score("hf_bleu.bleu4", prediction, references)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Hello, world.", ["Hello", ",", "world", "."]),
        ("1,000.5 and 2017.", ["1,000.5", "and", "2017", "."]),
        ("don't mother-in-law 7-8", ["don't", "mother-in-law", "7", "-", "8"]),
        ("a&amp;b &quot;c&quot; &lt;d&gt;", ["a", "&", "b", '"', "c", '"', "<", "d", ">"]),
        ("cut-\nting\nline <skipped>x", ["cutting", "line", "x"]),
        ("", []),
    ],
)
def test_13a_tokens(text: str, tokens: list[str]) -> None:
    assert tokenize_13a(text) == tokens
