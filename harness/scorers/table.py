"""The table of scorers: data only, functions are named by "module:function" and loaded when first used.

    TABLE["musique.answer_f1"].function      -> "harness.scorers.musique:answer_f1"

To add a scorer: write `f(prediction, references, *, extra) -> float` in the file of its origin and add a line here.
Raise its `version` whenever the same inputs give another value: tables and comparisons go by it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["answer", "short_answers", "shown", "indices", "facts", "paragraphs", "corpus", "retrieval", "text"]


@dataclass(frozen=True, slots=True)
class Scorer:
    """One line of the table.

    kind says what it is given, and so where it can be used; only the first three judge the answers of a run:

    answer          a text and its accepted answers
    short_answers   a text and, for each sub-question, its accepted answers (Gold.extra["short_answers"])
    shown           what the reader saw and Gold.supporting
    indices         predicted and gold paragraph numbers
    facts           predicted and gold [title, sentence number]
    paragraphs      predicted and gold paragraph texts
    corpus          a list of texts, and a list of the accepted answers of each
    retrieval       for each question a list of texts, and a list of accepted answers
    text            one text, no references; the value is a text

    packages: what must be importable; maximum: the best possible value (1, or 100 for percent).

    corpus: of a scorer of answers, the scorer of kind corpus whose value follows from sums over the answers; counts:
    "module:function" (prediction, references) -> the numbers to sum; total: "module:function" (sums) -> the value.
    """

    function: str
    origin: str
    summary: str
    kind: Kind = "answer"
    version: str = "1"
    packages: tuple[str, ...] = ()
    maximum: float = 1.0
    corpus: str = ""
    counts: str = ""
    total: str = ""


def _family(module: str, origin: str, prefix: str, lines: dict[str, tuple[str, Kind]]) -> dict[str, Scorer]:
    """Scorers of one file: {name in the file: (summary, kind)}, registered as "<prefix>.<name>"."""
    return {
        f"{prefix}.{name}": Scorer(f"harness.scorers.{module}:{name}", origin, summary, kind)
        for name, (summary, kind) in lines.items()
    }


def _bleu(name: str, orders: str) -> dict[str, Scorer]:
    """BLEU of one answer, with the counts that make up that of all answers, and the latter."""
    file, corpus = "harness.scorers.bleu", f"hf_bleu.corpus_{name}"
    counts, total = f"{file}:counts", f"{file}:{name}_from_counts"
    of_one = f"BLEU of one text, {orders}"
    return {
        f"hf_bleu.{name}": Scorer(f"{file}:{name}", _BLEU, of_one, corpus=corpus, counts=counts, total=total),
        corpus: Scorer(f"{file}:corpus_{name}", _BLEU, f"BLEU of a list, {orders}", "corpus"),
    }


_LONGBENCH = "THUDM/LongBench LongBench/metrics.py"
_LONGBENCH_EVAL = "THUDM/LongBench LongBench/eval.py"
_FLASHRAG = "RUC-NLPIR/FlashRAG flashrag/evaluator/metrics.py"
_HOTPOTQA = "hotpotqa/hotpot hotpot_evaluate_v1.py"
_TWOWIKI = "Alab-NII/2wikimultihop 2wikimultihop_evaluate_v1.1.py"
_TRIVIAQA = "mandarjoshi90/triviaqa evaluation/triviaqa_evaluation.py"
_QASPER = "allenai/qasper-led-baseline scripts/evaluator.py"
_BLEU = "huggingface/evaluate metrics/bleu"
_ROUGE_SCORE = "google-research rouge_score"
_ALCE = "princeton-nlp/ALCE eval.py"
_QUALITY = "nyu-mll/quality, accuracy over the options; how a reply is read is this project's"
_HERE = "this project"

_LONGBENCH_ZH = "harness.scorers.longbench_zh"

# Scores of one group of questions; the others are left out (harness.scorers.groups).
_GROUPS = {
    "longbench.qa_f1_score.first_line": Scorer(
        "harness.scorers.groups:qa_f1_first_line", _LONGBENCH_EVAL, "token F1 of the first line (few-shot sets)"
    ),
    **{
        f"longbench.qa_f1_score{line}.{name}": Scorer(
            f"harness.scorers.groups:{function}_{end}", _LONGBENCH_EVAL, f"token F1{of_what} of texts of {name} words"
        )
        for line, function, of_what in (("", "qa_f1", ""), (".first_line", "first_line", " of the first line"))
        for name, end in (("0-4k", "short"), ("4-8k", "middle"), ("8k+", "long"))
    },
    "quality.accuracy.easy": Scorer("harness.scorers.groups:accuracy_easy", _QUALITY, "accuracy of the easy questions"),
    "quality.accuracy.hard": Scorer("harness.scorers.groups:accuracy_hard", _QUALITY, "accuracy of the hard questions"),
}

TABLE: dict[str, Scorer] = {
    "longbench.qa_f1_score": Scorer("harness.scorers.longbench:qa_f1_score", _LONGBENCH, "token F1, SQuAD rules"),
    "longbench.rouge_score": Scorer(
        "harness.scorers.longbench:rouge_score", _LONGBENCH, "ROUGE-L of the rouge package", packages=("rouge",)
    ),
    "longbench.qa_f1_zh_score": Scorer(
        f"{_LONGBENCH_ZH}:qa_f1_zh_score", _LONGBENCH, "token F1 over jieba's words", packages=("jieba",)
    ),
    "longbench.rouge_zh_score": Scorer(
        f"{_LONGBENCH_ZH}:rouge_zh_score", _LONGBENCH, "ROUGE-L over jieba's words", packages=("jieba", "rouge")
    ),
    "longbench.retrieval_zh_score": Scorer(
        f"{_LONGBENCH_ZH}:retrieval_zh_score", _LONGBENCH, "share of numbers that name the Chinese paragraph"
    ),
    "longbench.normalize_zh_answer": Scorer(
        f"{_LONGBENCH_ZH}:normalize_zh_answer", _LONGBENCH, "the Chinese normalised text", "text"
    ),
    **_family(
        "longbench",
        _LONGBENCH,
        "longbench",
        {
            "classification_score": ("1 / number of class names in the text, if the gold one is there", "answer"),
            "retrieval_score": ("share of numbers that name the paragraph", "answer"),
            "count_score": ("share of numbers that equal the reference", "answer"),
            "code_sim_score": ("similarity of the first line of code", "answer"),
            "normalize_answer": ("the normalised text, SQuAD rules", "text"),
        },
    ),
    "longbench.scorer": Scorer(
        "harness.scorers.longbench_eval:scorer", _LONGBENCH_EVAL, "score of a list, in percent", "corpus", maximum=100.0
    ),
    "longbench.scorer_e": Scorer(
        "harness.scorers.longbench_eval:scorer_e", _LONGBENCH_EVAL, "the same by length", "corpus", maximum=100.0
    ),
    **_family(
        "flashrag",
        _FLASHRAG,
        "flashrag",
        {
            "acc": ("a reference is contained in the text", "answer"),
            "em": ("exact match", "answer"),
            "f1": ("token F1 with the yes/no rule", "answer"),
            "precision": ("token precision with the yes/no rule", "answer"),
            "recall": ("token recall with the yes/no rule", "answer"),
            **{f"dataset_{name}": (f"mean {name}", "corpus") for name in ("em", "acc", "f1", "precision", "recall")},
            **{f"retrieval_recall_top{k}": (f"a hit among {k} texts", "retrieval") for k in (1, 2, 3, 5, 10)},
            **{f"retrieval_precision_top{k}": (f"hits among {k} texts", "retrieval") for k in (1, 2, 3, 5, 10)},
        },
    ),
    **_family(
        "musique",
        "StonyBrookNLP/musique metrics",
        "musique",
        {
            "answer_f1": ("token F1, SQuAD 2 rules", "answer"),
            "answer_em": ("exact match", "answer"),
            "support_f1": ("F1 of supporting paragraphs", "indices"),
            "support_em": ("exact match of supporting paragraphs", "indices"),
        },
    ),
    **_family(
        "hotpotqa",
        _HOTPOTQA,
        "hotpotqa",
        {
            "f1": ("token F1 with the yes/no rule", "answer"),
            "em": ("exact match", "answer"),
            "prec": ("token precision with the yes/no rule", "answer"),
            "recall": ("token recall with the yes/no rule", "answer"),
            "sp_em": ("exact match of supporting facts", "facts"),
            "sp_f1": ("F1 of supporting facts", "facts"),
            "sp_prec": ("precision of supporting facts", "facts"),
            "sp_recall": ("recall of supporting facts", "facts"),
        },
    ),
    **_family(
        "twowiki",
        _TWOWIKI,
        "2wikimultihopqa",
        {
            "f1": ("token F1 with the yes/no rule", "answer"),
            "em": ("exact match", "answer"),
            "sp_em": ("exact match of supporting facts, titles in lower case", "facts"),
            "sp_f1": ("F1 of supporting facts, titles in lower case", "facts"),
        },
    ),
    **_family(
        "triviaqa",
        _TRIVIAQA,
        "triviaqa",
        {
            "f1": ("token F1, punctuation to spaces", "answer"),
            "em": ("exact match, punctuation to spaces", "answer"),
            "normalize_answer": ("the normalised text", "text"),
        },
    ),
    **_family(
        "qasper",
        _QASPER,
        "qasper",
        {
            "token_f1_score": ("token F1, SQuAD rules", "answer"),
            "paragraph_f1_score": ("F1 of evidence paragraphs", "paragraphs"),
        },
    ),
    **_bleu("bleu4", "orders 1-4"),
    **_bleu("bleu1", "single tokens"),
    **_bleu("bleu4_smooth", "orders 1-4, add-one smoothing"),
    **{
        f"rouge_score.{name}": Scorer(
            f"harness.scorers.rouge_score:{function}", _ROUGE_SCORE, summary, packages=("rouge_score",)
        )
        for name, function, summary in (
            ("rougeL", "rouge_l", "ROUGE-L"),
            ("rougeL_stem", "rouge_l_stem", "ROUGE-L, Porter stemmer"),
            ("rougeLsum", "rouge_lsum", "ROUGE-L over lines"),
            ("rougeLsum_stem", "rouge_lsum_stem", "ROUGE-L over lines, Porter stemmer"),
        )
    },
    **_family(
        "alce",
        _ALCE,
        "alce",
        {
            "str_em": ("share of sub-questions answered in the text", "short_answers"),
            "str_hit": ("all sub-questions answered in the text", "short_answers"),
        },
    ),
    "quality.accuracy": Scorer(
        "harness.scorers.quality:accuracy", _QUALITY, "the right option is named, by letter or text, and no other"
    ),
    **_GROUPS,
    "evidence_recall": Scorer(
        "harness.scorers.evidence:evidence_recall", _HERE, "share of supporting passages shown", "shown"
    ),
    "evidence_recall_sources": Scorer(
        "harness.scorers.evidence:evidence_recall_sources", _HERE, "the same, sources of summaries counted", "shown"
    ),
}
