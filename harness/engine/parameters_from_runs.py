"""Numbers of a method that come from another run: method.max_nodes=from:pecan,
method.k=from:RUN_FOLDER.

    nodes    the mean number of nodes that the run visited for an answered question, rounded
    pieces   the number k of chunks or nodes whose predicted cost is nearest to the mean cost of the run's questions:

             cost(k) = prefill(f + k p) + decode(g) + embed(q)        k = argmin over k >= 1 of |cost(k) - cost(run)|

f: tokens of the prompt around the pieces; p: of a piece (Method.piece_tokens); g: of the run's mean
answer; q: of the question, if the method embeds it. Costs are FLOPs of search and answer under the
default convention; if the FLOPs of one of the two are unknown, tokens processed. Half rounds up; of
two equally near k the smaller one counts. Sources and alternatives:
docs/methods/costs.md#from-another-run.

Only the number reaches the method, and the number is what is hashed. It is stored with its source
in run.yaml (origins) and manifest.json ("amounts").
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.config import presets
from harness.cost.flops import DEFAULT, ModelShape
from harness.cost.usage import sum_phases, tokens_of
from harness.engine.forecast import Call, text_tokens, tokens_and_flops
from harness.engine.manifest import shape_of_role
from harness.engine.plan import FROM, Plan, plan_choices
from harness.errors import UserError
from harness.llm.model_info import local_folder
from harness.llm.tokenizer_files import tokenizer_folder
from harness.storage.run_folder import StoredRun, read_run

_STUDY = "study"  # the action of a step after the stop of the run itself
_COMPARED = {
    "dataset": "data set",
    "model": "model",
}  # parts that should be the plan's own -> their names in words


def preset_of(text: str) -> str | None:
    """The preset that "from:NAME" names, None if it names a folder. Raises UserError for
    neither."""
    name = text.removeprefix(FROM)
    try:
        return presets.find("methods", name)
    except UserError as e:
        if Path(name).expanduser().is_dir():
            return None
        raise UserError(f"'{text}' names neither a run folder nor a method: {e}") from None


def finished_run(text: str) -> StoredRun:
    """The finished run whose folder "from:FOLDER" names. Raises UserError."""
    run = read_run(Path(text.removeprefix(FROM)).expanduser())
    if run.summary.get("state") != "finished":
        raise UserError(f"'{text}': that run is not finished; run its command again, then this one")
    return run


def plan_with_amounts(plan: Plan, runs: Mapping[str, tuple[str, StoredRun]]) -> Plan:
    """`plan` with the settings that other runs decide, such as "k: from:pecan".

    runs: setting -> (name of the run in notes, the run).
    Raises UserError for a run that has no such number, and what planning with the number raises.
    """
    amounts = {name: _amount(plan, name, *runs[name]) for name in plan.pending}
    sets = {f"method.{name}": amount["value"] for name, amount in amounts.items()}
    made = plan_choices(replace(plan.choices, sets={**plan.choices.sets, **sets}))
    method = made.config.method.model_copy(
        update={"mark": plan.config.method.mark}
    )  # numbers of a run do not mark it
    notes = {f"method.params.{name}": amount["note"] for name, amount in amounts.items()}
    warnings = []
    for name, (_, run) in runs.items():
        pairs = [
            (what, run.config[part]["name"], getattr(made.config, part).name)
            for part, what in _COMPARED.items()
        ]
        if differing := [
            f"{what} '{other}', not '{here}'" for what, other, here in pairs if other != here
        ]:
            warnings.append(
                f"method.{name} comes from {run.path.name}, a run with {' and '.join(differing)}"
            )
    return replace(
        made,
        config=made.config.model_copy(update={"method": method}),
        origins={**made.origins, **notes},
        amounts=amounts,
        warnings=tuple(dict.fromkeys([*made.warnings, *warnings])),
    )


def _amount(plan: Plan, name: str, called: str, run: StoredRun) -> dict[str, Any]:
    """The number of field `name` from `run`, named `called` in notes: {"value", "note", "mean",
    "unit", "run", ...}."""
    records = [record for record in run.records if record["error"] is None]
    if not records:
        raise UserError(f"method.{name} cannot come from {run.path}: no question is answered there")
    count, failed = len(records), len(run.records) - len(records)
    where = f"mean of {count} question{'s'[: count > 1]} of {run.path.name}"
    where += f", {failed} failed and left out" if failed else ""
    if type(plan.method).from_other_runs[name] == "nodes":
        mean, unit = sum(map(visited_nodes, records)) / count, "nodes"
        if mean == 0:
            raise UserError(
                f"method.{name} cannot come from {run.path}: its records name no visited nodes"
            )
        value = max(1, math.floor(mean + 0.5))
        note = f"{name} = {value}, as many nodes as {called} visits ({mean:.2f}, {where})"
    else:
        value, mean, unit = _pieces_of_equal_cost(plan, name, records)
        note = f"{name} = {value}, the same {unit} as {called} ({mean:.4g} a question, {where})"
    of = {part: run.config[part]["name"] for part in _COMPARED}
    source = {"source": called, "run": str(run.path), **of, "questions": count, "failed": failed}
    return {"value": value, "note": note, "mean": mean, "unit": unit, **source}


def visited_nodes(record: Mapping[str, Any]) -> int:
    """How many nodes the search of a record visited, the first ones included, up to its own
    stop."""
    return sum(
        step.get("node") is not None and step["action"] != _STUDY for step in record["steps"]
    )


def nearest_count(cost: Callable[[int], float], target: float) -> int:
    """The k >= 1 whose increasing `cost` is nearest to `target`; of two equally near the
    smaller."""
    k = 1
    while cost(k) < target:
        k += 1
    return k - 1 if k > 1 and target - cost(k - 1) <= cost(k) - target else k


def _pieces_of_equal_cost(
    plan: Plan, name: str, records: Sequence[Mapping[str, Any]]
) -> tuple[int, float, str]:
    """(k, cost, unit): how many pieces cost what the answered `records` cost on average, that cost,
    its unit."""
    piece = plan.method.piece_tokens()
    if piece is None:
        raise UserError(
            f"method.{name} does not fix what is shown with these settings; give it a number"
        )
    usages = [record["usage"] for record in records]
    spent = sum_phases(usages, "search", "answer")
    tokens, flops = (
        tokens_of(spent) / len(records),
        spent.get("flops", {}).get(DEFAULT, 0.0) / len(records),
    )
    written = round(sum_phases(usages, "answer").get("tokens_out", 0) / len(records))
    cost = _cost_by_pieces(plan, piece, written)
    if not spent.get("uncounted") and cost(1)[1] is not None:
        return nearest_count(lambda k: cost(k)[1] or 0.0, flops), flops / 1e12, "TFLOPs"
    return nearest_count(lambda k: cost(k)[0], tokens), tokens, "tokens"


def cost_of(
    prompt: float, piece: int, written: int, reader: ModelShape | None, *embed: Call
) -> Callable[[int], tuple[int, float | None]]:
    """Return the function cost(k) above, in (tokens, FLOPs); FLOPs are None where a model's sizes
    are unknown.

    prompt, piece, written: f, p, g; embed: the call embed(q), nothing for a method without an
    encoder.
    """

    def cost(k: int) -> tuple[int, float | None]:
        read = round(prompt + k * piece)
        calls: list[Call] = [("prefill", read, 0, reader), ("decode", written, read, reader)]
        return tokens_and_flops([*calls, *embed])

    return cost


def _cost_by_pieces(
    plan: Plan, piece: int, written: int
) -> Callable[[int], tuple[int, float | None]]:
    """cost(k): the predicted mean cost of the plan's questions; piece, written: tokens of a piece,
    of the answer."""
    questions = [example.question for example in plan.dataset.examples[: plan.config.limit]]
    count, turn = _token_counter(plan)
    prompt = turn + sum(
        count(plan.method.frame(question, plan.task)) for question in questions
    ) / len(questions)
    query = round(sum(count(question.text) for question in questions) / len(questions))
    embed: list[Call] = (
        [("embed", query, 0, shape_of_role(plan, "encoder"))] if "encoder" in plan.encoders else []
    )
    return cost_of(prompt, piece, written, shape_of_role(plan, "reader"), *embed)


def _token_counter(plan: Plan) -> tuple[Callable[[str], float], int]:
    """A function that counts a text's tokens, and the number of the template's; estimates without a
    tokenizer."""
    from harness.llm.endpoint_tokens import ALLOWANCE, Tokens

    model = plan.models["reader"]
    try:
        tokens = Tokens(tokenizer_folder(model, local_folder(model)[0]), model.name)
    except UserError:
        return text_tokens, ALLOWANCE
    return tokens.count, tokens.turn_tokens
