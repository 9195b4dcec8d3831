"""Every scorer equals the published code to 1e-6: hand-made pairs always, real ones where the
folder is named."""

import functools

import pytest

from harness import scorers
from harness.types import Gold
from tests.datasets.support import needs_real
from tests.scorers.support import NO_JIEBA, differences, hand_cases, needs_chinese_words, real_cases

HAND = hand_cases()
# Metrics without rows in the golden file; infinitebench.choice and .qa_f1 also equal it on the
# 4,060 replies of seven models in its repository, and give the means of its README.
HAND_ONLY = {"infinitebench.choice", "longbench_v2.accuracy", "qasper.paragraph_f1_score"}
HAND_ONLY |= {name for name in HAND if name.startswith(("helmet.", "hotpotqa.joint_"))}
# Metrics of the golden file that have real rows only, or none at all.
REAL_ONLY = {
    *(f"flashrag.dataset_{value}" for value in ("acc", "em", "f1", "precision", "recall")),
    *(f"flashrag.retrieval_{kind}_top{k}" for kind in ("recall", "precision") for k in (1, 2, 3)),
    "alce.str_em",
    "alce.str_hit",
    "longbench.scorer_e",
    "rouge_score.rougeLsum_stem",
}


def check(metric, cases):
    """Fail on any difference; cases that need jieba are skipped by name where it is missing."""
    checked = [case for case in cases if not (NO_JIEBA and needs_chinese_words(metric, case[2]))]
    if wrong := differences(metric, checked):
        pytest.fail(f"{len(wrong)} of {len(checked)} differ\n" + "\n".join(wrong[:5]))
    if len(checked) < len(cases):
        pytest.skip(
            f"{len(cases) - len(checked)} of {len(cases)} cases need the optional package jieba"
        )


@pytest.mark.parametrize("metric", sorted(HAND))
def test_hand_made_pairs(metric):
    check(metric, HAND[metric])


@functools.cache
def real():
    cases = real_cases()
    return lambda metric: cases[metric]


@needs_real
@pytest.mark.parametrize("metric", sorted({*HAND, *REAL_ONLY} - HAND_ONLY))
def test_whole_golden_file(metric):
    check(metric, real()(metric))


@needs_real
@pytest.mark.parametrize("name", ["bleu4", "bleu1", "bleu4_smooth"])
def test_counts_of_single_answers_add_up_to_the_golden_corpus(name):
    """What records keep is all that BLEU needs: no sum over answers looks at their texts again."""
    single, checked = scorers.lookup(f"hf_bleu.{name}"), 0
    assert single.corpus == f"hf_bleu.corpus_{name}"
    for predictions, references, _, value in real()(single.corpus):
        golds = [Gold(tuple(texts)) for texts in references]
        pairs = zip(predictions, golds, strict=True)
        sheets = [scorers.score_answer([f"hf_bleu.{name}"], text, (), gold) for text, gold in pairs]
        totals = [
            sum(column)
            for column in zip(*(sheet.counts[f"hf_bleu.{name}"] for sheet in sheets), strict=True)
        ]
        assert scorers.corpus_score(f"hf_bleu.{name}", totals) == pytest.approx(value, abs=1e-9)
        checked += 1
    assert checked >= 3


@needs_real
def test_no_metric_of_the_golden_file_is_left_out():
    assert set(real_cases()) == {*HAND, *REAL_ONLY} - HAND_ONLY


def test_a_wrong_value_would_be_seen():
    assert differences("hotpotqa.em", [("a cat", ["cat"], {}, 0.0)])
    assert differences("hf_bleu.bleu4", [("", ["cat"], {}, 0.0)])
    assert differences("hotpotqa.em", [("a cat", ["cat"], {}, None)])
    assert not differences("hotpotqa.em", [("a cat", ["cat"], {}, 1.0)])
