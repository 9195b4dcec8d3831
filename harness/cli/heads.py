"""`harness heads METHOD --model NAME --dataset NAME --out FILE`: find the attention heads that
point at evidence.

exit 0 written · 2 a mistake, nothing was written · 3 the file could not be saved · 130 interrupted
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.command import choice, output, setting
from harness.cli.options import LocalData
from harness.cli.output import say
from harness.cli.stopping import until_interrupted
from harness.config.yaml_tree import parse_assignments
from harness.errors import UserError

if TYPE_CHECKING:
    from harness.engine.plan import Plan


def heads(
    method: Annotated[
        str,
        typer.Argument(metavar="METHOD", help="A method that ranks by attention heads (qrhead)."),
    ],
    model: Annotated[
        str, choice("--model NAME", "Model whose heads are scored.", complete="models")
    ],
    dataset: Annotated[
        str,
        choice(
            "--dataset -d NAME",
            "Data set whose rows mark supporting passages.",
            complete="datasets",
        ),
    ],
    out: Annotated[
        str, output("--out FILE", "File to write; use it with --set method.heads=FILE.")
    ],
    data: LocalData = None,
    sample: Annotated[
        int, choice("--sample N", "So many questions, drawn by the seed.", min=1)
    ] = 128,
    seed: Annotated[int, setting("--seed N", "Seed of the sample.", min=0)] = 0,
    top: Annotated[int, setting("--top N", "Heads of the list.", min=1)] = 16,
    sets: Annotated[
        list[str] | None,
        setting("--set KEY=VALUE ...", "Any setting of method, data set or model."),
    ] = None,
) -> int:
    """Find the attention heads of a model that point at evidence, and write them as a list.

    A head's score is the attention that it pays the passages marked as supporting, summed over
    them, mean over the questions. Questions whose passages do not fit the window or of which none
    is marked are left out and counted.
    """
    from harness.config.layers import Choices
    from harness.config.registry import method_class
    from harness.config.resolve import resolve_part
    from harness.engine.plan import plan_choices
    from harness.llm.backend import check_greedy

    settings = {**parse_assignments(sets or [], "--set "), "sample_seed": seed}
    choices = Choices(
        method, dataset, data=data, model=model, sample=sample, seed=seed, sets=settings
    )
    cls = method_class(resolve_part("methods", choices).parts["method"].implementation)
    if not cls.heads_field:
        raise UserError(
            f"'{method}' uses no list of attention heads; name a method that does, such as qrhead"
        )
    plan = plan_choices(replace(choices, sets={**settings, f"method.{cls.heads_field}": "all"}))
    check_greedy(plan.config.model, "a model whose heads are ranked")
    file = Path(out).expanduser()
    return until_interrupted(
        lambda: _write_heads(plan, top, file), "interrupted; nothing was written"
    )


def _write_heads(plan: Plan, top: int, out: Path) -> int:
    """Score the heads, write and print the `top` best as YAML
    (docs/methods/attention.md#head-lists); returns 0."""
    from harness.engine.head_scores import find_heads
    from harness.storage.files import save_error, write_atomic

    scored, config = find_heads(plan, say), plan.config
    best = scored.best(top)
    heads = [f"{layer}-{head}" for layer, head in best]
    values = {
        "source": f"harness heads {config.method.name}, {scored.questions} questions, seed {config.sample_seed}",
        "found_on": config.dataset.name,
        "model": {
            "name": config.model.name,
            **scored.sizes,
            "weights": plan.identities["reader"].get("weights"),
        },
        "heads": heads,
        "scores": [round(float(scored.scores[head]), 6) for head in best],
    }
    try:
        write_atomic(
            out, "".join(f"{key}: {json.dumps(value)}\n" for key, value in values.items()).encode()
        )
    except OSError as error:
        raise save_error(out, error, "--out") from error
    print(f"{out}: {', '.join(heads)}  ({scored.questions} questions, {scored.left_out} left out)")
    return 0
