"""Official scorers: LongBench, MuSiQue, HotpotQA, 2WikiMultihopQA, Qasper, KILT."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bench.parity import Stage, stage, theirs
from bench.parity.rows import Rows
from harness import scorers
from harness.types import Gold

PROGRAM = (
    "THUDM/LongBench, StonyBrookNLP/musique, hotpotqa/hotpot, Alab-NII/2wikimultihop, allenai/qasper-led-baseline, "
    "facebookresearch/KILT"
)
METHODS = "the scorers of their data sets"
ANSWERS = 2000
WORDS = "the a Velindra Toren 1719 mill, yes no of river's KELFORD U.S. and “poet” x 河流 北京 在北京，"
# folder below the one that is named, module, function of (prediction, gold), our scorer
OFFICIAL: list[tuple[str, str, str, str]] = [
    ("LongBench/LongBench", "metrics", "qa_f1_score", "longbench.qa_f1_score"),
    ("LongBench/LongBench", "metrics", "rouge_score", "longbench.rouge_score"),
    ("LongBench/LongBench", "metrics", "retrieval_score", "longbench.retrieval_score"),
    ("LongBench/LongBench", "metrics", "count_score", "longbench.count_score"),
    ("LongBench/LongBench", "metrics", "code_sim_score", "longbench.code_sim_score"),
    ("LongBench/LongBench", "metrics", "qa_f1_zh_score", "longbench.qa_f1_zh_score"),
    ("LongBench/LongBench", "metrics", "rouge_zh_score", "longbench.rouge_zh_score"),
    ("musique", "metrics.answer", "compute_f1", "musique.answer_f1"),
    ("musique", "metrics.answer", "compute_exact", "musique.answer_em"),
    ("hotpot", "hotpot_evaluate_v1", "f1_score", "hotpotqa.f1"),
    ("hotpot", "hotpot_evaluate_v1", "exact_match_score", "hotpotqa.em"),
    ("2wikimultihop", "2wikimultihop_evaluate", "f1_score", "2wikimultihopqa.f1"),
    ("2wikimultihop", "2wikimultihop_evaluate", "exact_match_score", "2wikimultihopqa.em"),
    ("qasper-led-baseline/scripts", "evaluator", "token_f1_score", "qasper.token_f1_score"),
    ("KILT", "kilt.eval_downstream", "_f1_score", "longbench.qa_f1_score"),
    ("KILT", "kilt.eval_downstream", "_exact_match_score", "flashrag.em"),
]


def _text(dice: random.Random) -> str:
    return " ".join(dice.choices(WORDS.split(), k=dice.randint(0, 6)))


def _number(value: Any) -> float:
    return float(value[0] if isinstance(value, tuple) else value)


def run(code: Path, rows: Rows) -> Iterator[Stage]:
    """Made-up answers and the real gold answers of sample rows, each scored by both."""
    import sys

    dice = random.Random(20261124)
    real = [e.gold.answers[0] for name in ("hotpotqa", "musique") for e in rows.dataset(name, 100).examples]
    pairs = [(_text(dice), _text(dice) or "x") for _ in range(ANSWERS)]
    pairs += [(dice.choice([gold, gold.lower(), f"It is {gold}.", _text(dice)]), gold) for gold in real]
    numbered = [
        (f"Paragraph {dice.randint(1, 9)} or {dice.randint(1, 9)}", f"Paragraph {n % 9 + 1}") for n in range(ANSWERS)
    ]
    for folder, module, function, ours in OFFICIAL:
        sys.modules.pop("metrics", None)
        official: Callable[[str, str], Any] = getattr(theirs(code / folder, module), function)
        turned = function.startswith("compute_")  # MuSiQue's take the gold answer first
        found, own = [], []
        for prediction, gold in numbered if function == "retrieval_score" else pairs:
            found.append(_number(official(gold, prediction) if turned else official(prediction, gold)))
            own.append(scorers.score_record([ours], prediction, (), Gold((gold,))).scores[ours])
        yield stage(f"{folder.partition('/')[0]}: {function}", found, own)
