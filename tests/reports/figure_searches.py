"""Records of searches made by hand: one step a node, a probe behind each, and what a stop there
would answer."""

import json
from pathlib import Path

from harness.config import registry
from harness.config.schema import DatasetConfig
from harness.datasets import load
from harness.datasets.rows import Row
from harness.scorers import version
from harness.storage.run_folder import read_run
from methods.pecan.config import PecanConfig
from methods.pecan.method import Pecan
from reports.figures.replay import Recorded
from tests.reports.build import flops, record, span, usage, write_run
from tests.reports.build import step as plain_step

TERA = 1e12
F1 = "longbench.qa_f1_score"
registry.trust("tests.reports.figure_searches:parse_row")  # as if a preset of the user named it


def parse_row(raw):
    return Row(raw["id"], "Which?", (("T", "text"),), (raw["gold"],))


def own_rows(gold):
    """The data set "mine" in rows.jsonl here, a question for each gold answer, as run.yaml and the
    manifest have it."""
    Path("rows.jsonl").write_text(
        "".join(json.dumps({"id": q, "gold": text}) + "\n" for q, text in gold.items())
    )
    config = DatasetConfig(
        name="mine", format="tests.reports.figure_searches:parse_row", data="rows.jsonl", instruction="Answer.",
        max_answer_tokens=4, scorers=(F1,),
    )  # fmt: skip
    manifest = {"dataset": {"fingerprint": load(config).fingerprint}, "scorers": {F1: version(F1)}}
    return {"dataset": config.model_dump(mode="json")}, manifest


def step(number, **changes):
    """The step that visits node `number`; its search has cost (number + 1) TFLOPs, an answer a
    tenth."""
    fields = {"tokens": 10, "flops": flops(number + 1), "shown": span("d0", number, number + 1)}
    return plain_step("visit", number, **fields) | changes


def searched(
    number, p_yes, answers = (), *, stop, greedy = (),
    **more,
):  # fmt: skip
    """Question q<number>: a probe after each node; the run itself stopped at probe `stop`, the rest
    is study."""
    steps = []
    for i, p in enumerate(p_yes):
        scores = {"greedy_yes": float(greedy[i])} if greedy else {}
        found = {"answer": answers[i], "answer_flops": flops(0.1)} if answers else {}
        steps.append(
            step(i, action="study" if i > stop else "visit", p_yes=p, scores=scores, **found)
        )
    answer = answers[stop] if answers else f"answer at {stop}"
    spent = {"search": usage(stop + 1.0), "answer": usage(0.1)}
    if answers:
        spent["study"] = usage(9.0)
    shown = [s["shown"] for s in steps[: stop + 1]]
    return record(number, 0.5, steps=steps, prediction=answer, usage=spent, shown=shown) | more


def settings(t_n=1, t_p=0.5, **params):
    """Settings of a run with this stop rule."""
    parameters = {"t_n": t_n, "t_p": t_p, **params}
    return {
        "method": {
            "name": "pecan",
            "implementation": "pecan",
            "view": "document",
            "params": parameters,
        }
    }


def recording(own, most=None):
    """PECAN that stops by `own` and recorded up to `most`."""
    more = {} if most is None or most == own else {"record_stops": most.t_n, "record_t_p": most.t_p}
    greedy = {"verdict": "greedy"} if own.t_p is None else {"t_p": own.t_p}
    return Recorded(
        own, most or own, Pecan(PecanConfig.model_validate({"t_n": own.t_n, **greedy, **more}))
    )


def searched_run(root, records, **changes):
    """A stored run of these records."""
    return read_run(write_run(root, records, **changes))
