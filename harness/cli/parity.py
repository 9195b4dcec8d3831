"""`harness parity --lm-eval RUN...`: stored predictions scored by another harness, and where the two differ."""

from __future__ import annotations

import json as json_
import sys
from typing import TYPE_CHECKING, Annotated, Any

from harness.cli.command import choice
from harness.cli.options import Json, MovedData, Runs
from harness.errors import UserError, printable

if TYPE_CHECKING:
    from harness.exchange.lm_eval_parity import Parity

_SHORT = 60


def parity(
    runs: Runs,
    lm_eval: Annotated[
        bool, choice("--lm-eval", "Compare with the LongBench scorers of the installed lm-evaluation-harness.")
    ] = False,
    data: MovedData = None,
    json: Json = False,
) -> int:
    """Score stored answers with the scorers of lm-eval, and print where they differ.

    No model is loaded. A score is compared where lm-eval has one of the same name, and the headline of a LongBench data
    set with lm-eval's task.
    """
    if not lm_eval:
        raise UserError("name the harness to compare with; there is one: harness parity --lm-eval RUN")
    from harness.cli.output import say
    from harness.cli.stored_runs import stored_runs
    from harness.exchange.lm_eval_parity import compared, scorers
    from reports.gold_rows import with_rows

    longbench = scorers()
    read, damaged = stored_runs(runs)
    parities = [p for run, rows in with_rows(read, data, say) for p in compared(run, rows.examples, longbench)]
    if not parities:
        raise UserError(
            "no run here has a score that lm-eval has too; add one: "
            f"harness score {runs[0]} --scorers longbench.qa_f1_score"
        )
    if json:
        told: list[dict[str, Any]] = []
        for p in parities:
            asked = [{"question_id": q.id, "here": q.here, "lm_eval": q.there} for q in p.questions]
            means = dict(zip(("mean", "lm_eval_mean"), p.means, strict=True))
            named = {"run": str(p.run.path), "scorer": p.scorer, "function": p.function}
            told.append({**named, **means, "differing": len(p.differing), "questions": asked})
        print(json_.dumps({"lm_eval": longbench.version, "scores": told}))
    else:
        _print(parities, longbench.version)
    return 3 if damaged else 0


def _print(parities: list[Parity], version: str) -> None:
    questions = sum(len(p.questions) for p in parities)
    differing = sum(len(p.differing) for p in parities)
    print(f"lm-eval {version}: {differing} of {questions} scores differ")
    for parity in parities:
        here, there = parity.means
        print(f"\n{printable(str(parity.run.path))}")
        print(
            f"  {parity.scorer} {here:.4f}, lm-eval's {parity.function} {there:.4f}, {len(parity.questions)} questions"
        )
        for question in parity.differing:
            answer = " ".join(question.prediction.split())
            answer = answer if len(answer) <= _SHORT else f"{answer[: _SHORT - 1]}…"
            name = printable(question.id)
            print(f"    {name}  {question.here:.4f}  lm-eval {question.there:.4f}  {printable(answer)!r}")
        if not parity.differing:
            print("    the same for every question")
    sys.stdout.flush()
