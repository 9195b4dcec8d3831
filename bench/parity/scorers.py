"""Official scorers: LongBench, MuSiQue, HotpotQA, 2WikiMultihopQA, Qasper's answers, KILT."""

from __future__ import annotations

import random
import sys
from pathlib import Path

from bench.parity import Found, import_theirs
from bench.parity.rows import Rows
from harness.scorers import score

PROGRAM = (
    "THUDM/LongBench, StonyBrookNLP/musique, hotpotqa/hotpot, Alab-NII/2wikimultihop, "
    "allenai/qasper-led-baseline, "
    "facebookresearch/KILT"
)
METHODS = "the scorers of their data sets"
REASONS: dict[str, str] = {}
ANSWERS = 2000
WORDS = (
    "the a Velindra Toren 1719 mill, yes no of river's KELFORD U.S. and “poet” x 河流 北京 在北京，"
)
LONGBENCH = ("qa_f1", "rouge", "retrieval", "count", "code_sim", "qa_f1_zh", "rouge_zh")
OFFICIAL = {  # (folder below the one that is named, module) -> function of (prediction, gold): our scorer
    ("LongBench/LongBench", "metrics"): {
        f"{name}_score": f"longbench.{name}_score" for name in LONGBENCH
    },
    ("musique", "metrics.answer"): {
        "compute_f1": "musique.answer_f1",
        "compute_exact": "musique.answer_em",
    },
    ("hotpot", "hotpot_evaluate_v1"): {
        "f1_score": "hotpotqa.f1",
        "exact_match_score": "hotpotqa.em",
    },
    ("2wikimultihop", "2wikimultihop_evaluate"): {
        "f1_score": "2wikimultihopqa.f1",
        "exact_match_score": "2wikimultihopqa.em",
    },
    ("qasper-led-baseline/scripts", "evaluator"): {"token_f1_score": "qasper.token_f1_score"},
    ("KILT", "kilt.eval_downstream"): {
        "_f1_score": "longbench.qa_f1_score",
        "_exact_match_score": "flashrag.em",
    },
}


def _text(dice: random.Random) -> str:
    """A made-up text of up to six words."""
    return " ".join(dice.choices(WORDS.split(), k=dice.randint(0, 6)))


def compare(code: Path, rows: Rows, found: Found) -> None:
    """Compare the scores of made-up answers, and of real gold answers of sample rows, by both."""
    dice = random.Random(20261124)
    real = [
        e.gold.answers[0]
        for name in ("hotpotqa", "musique")
        for e in rows.dataset(name, 100).examples
    ]
    pairs = [(_text(dice), _text(dice) or "x") for _ in range(ANSWERS)]
    pairs += [
        (dice.choice([gold, gold.lower(), f"It is {gold}.", _text(dice)]), gold) for gold in real
    ]
    pairs += [
        (f"Paragraph {dice.randint(1, 9)} or {n % 5}", f"Paragraph {n % 9 + 1}")
        for n in range(ANSWERS)
    ]
    for (folder, module), functions in OFFICIAL.items():
        sys.modules.pop("metrics", None)
        official = import_theirs(code / folder, module)
        for function, ours in functions.items():
            for prediction, gold in pairs:
                if function == "retrieval_score" and not gold.startswith("Paragraph"):
                    continue
                given = (
                    (gold, prediction) if function.startswith("compute_") else (prediction, gold)
                )  # MuSiQue's
                value = getattr(official, function)(*given)
                number = float(value[0] if isinstance(value, tuple) else value)
                found.add(
                    f"{folder.partition('/')[0]}: {function}",
                    number,
                    score(ours, prediction, [gold]),
                )
