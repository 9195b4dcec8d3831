"""What MLflow shows of a run, in plain values: names, scales and order are decided here; mlflow_run.py sends them.

F1, ROUGE-L, BLEU-4, EM, Acc    the papers' columns, 0 to 100 with two decimals; COLUMNS says which scorer each is
TFLOPs                          search + answer a question, counted by the convention that the tag `flops` names
evidence recall                 percent of the supporting passages that were shown
n, failed, truncated            questions
running/...                     means over the questions so far, one step a question
scores/<scorer>                 every scorer under its own name, 0 to 1
uncertainty/<name>.low, .high   95 % interval of a column, or of a scorer that is none; bootstrap clustered by document
usage/...                       tokens.<phase>, tflops.<phase>, seconds

MLflow lists plain names first, and draws a group of charts for each prefix. A metric of step 0 is drawn as bars, one a
run; one with steps as lines.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from harness.config.schema import canonical
from harness.config.yaml_tree import flatten
from harness.cost.flops import DEFAULT

if TYPE_CHECKING:
    from harness.storage.run_folder import StoredRun


Point = tuple[int, str, float]

# Column of the papers' tables -> scorers it may be, the first one that a run has. PECAN and GARLIC use LongBench's F1
# and the ROUGE-L and BLEU of Hugging Face evaluate; LongRefiner FlashRAG's F1, EM and Acc; then a data set's own.
# The tag `columns` says which scorer a column of a run is, since two data sets may differ in it.
COLUMNS: dict[str, tuple[str, ...]] = {
    "F1": (
        "longbench.qa_f1_score",
        "flashrag.f1",
        "musique.answer_f1",
        "hotpotqa.f1",
        "2wikimultihopqa.f1",
        "triviaqa.f1",
        "qasper.token_f1_score",
    ),
    "ROUGE-L": ("rouge_score.rougeL", "longbench.rouge_score"),
    "BLEU-4": ("hf_bleu.corpus_bleu4",),
    "EM": ("flashrag.em", "musique.answer_em", "hotpotqa.em", "2wikimultihopqa.em", "triviaqa.em"),
    "Acc": ("flashrag.acc",),
    "evidence recall": ("evidence_recall",),
}
_SECTION = "harness-comparison"
_PHASES = ("index", "search", "answer")
_LONGEST_PARAM = 100
_LONGEST_TAG = 5000
# May differ between two starts of one run folder: they are tags, because a param can never change.
_NOT_PARAMS = ("limit", "failed")
# Prose, and what other values and the tags say already; config.yaml has all of it.
_LEFT_OUT = re.compile(r"^(dataset\.(instruction|licence|citation|summary|scorers|format)|method\.implementation)$")
# "stopped" ended by an error; a run that says nothing of its end was killed.
STATUS = {"finished": "FINISHED", "interrupted": "KILLED", "stopped": "FAILED"}


def metric_name(name: str) -> str:
    """`name` with every character MLflow refuses as "_", and no empty or dotted path parts."""
    parts = re.sub(r"[^\w\-. :/]", "_", name).split("/")
    return "/".join(part for part in parts if part not in ("", ".", ".."))[:250] or "_"


def paper_columns(scorers: Iterable[str]) -> dict[str, str]:
    """{column: scorer} of the papers' columns that a run with these scorers has."""
    known = set(scorers)
    found = {column: next((s for s in names if s in known), None) for column, names in COLUMNS.items()}
    return {column: scorer for column, scorer in found.items() if scorer is not None}


def numbers(run: StoredRun, row: Mapping[str, Any]) -> dict[str, float]:
    """The metrics of a finished pass. row: the run's row of reports.tables.frame; what it lacks is left out."""
    scorers = _scorers(run)
    columns = paper_columns(scorers)
    found: dict[str, Any] = {}
    for column, scorer in columns.items():
        for end in ("", ".low", ".high"):
            found[f"uncertainty/{column}{end}" if end else column] = _percent(row.get(scorer + end))
    for end in ("", ".low", ".high"):
        found[f"uncertainty/TFLOPs{end}" if end else "TFLOPs"] = _digits(row.get(f"tflops{end}"))
    found |= {name: row.get(name) for name in ("n", "failed", "truncated")}
    for scorer in scorers:
        found[f"scores/{scorer}"] = row.get(scorer)
        if scorer not in columns.values():
            found |= {f"uncertainty/{scorer}{end}": row.get(scorer + end) for end in (".low", ".high")}
    found |= {f"usage/{kind}.{phase}": row.get(f"{kind}.{phase}") for kind in ("tokens", "tflops") for phase in _PHASES}
    found["usage/seconds"] = row.get("seconds")
    known = {metric_name(name): _number(value) for name, value in found.items()}
    return {name: value for name, value in known.items() if value is not None}


def first_columns(run: StoredRun) -> list[str]:
    """The metrics to look at first: the headline score, what it cost, the papers' other columns, failed questions."""
    headline: str = run.config["dataset"]["scorers"][0]
    known = paper_columns(_scorers(run))
    names = {scorer: column for column, scorer in known.items()}
    first = names.get(headline, metric_name(f"scores/{headline}"))
    return list(dict.fromkeys([first, "TFLOPs", *known, "n", "failed"]))


def _scorers(run: StoredRun) -> list[str]:
    from reports.stored import corpus_names

    names = dict.fromkeys(run.config["dataset"]["scorers"])
    for record in run.records:
        names.update(dict.fromkeys(record["scores"]))
    return [*names, *corpus_names(run)]


def _number(value: Any) -> float | None:
    if value is None or isinstance(value, str):
        return None
    number = float(value)
    return number if math.isfinite(number) else None


def _percent(value: Any) -> float | None:
    """0.86444 -> 86.44: MLflow's lists cut a long number off."""
    number = _number(value)
    return None if number is None else round(100 * number, 2)


def _digits(value: Any) -> float | None:
    number = _number(value)
    return None if number is None else float(f"{number:.4g}")


def params(config: Mapping[str, Any]) -> tuple[dict[str, str], list[str]]:
    """Short values of the configuration under their names for --set, and the names of those too long to be shown.

    What is null or empty is left out: it says nothing, and MLflow shows a missing value as such.
    """
    short: dict[str, str] = {}
    long: list[str] = []
    for key, value in flatten({k: v for k, v in config.items() if k not in _NOT_PARAMS}).items():
        name = re.sub(r"^method\.params\.", "method.", key).removesuffix(".name")
        text = value if isinstance(value, str) else canonical(value)
        if value is None or text in ("", "{}", "[]") or _LEFT_OUT.match(key):
            continue
        if len(text) > _LONGEST_PARAM:
            long.append(name)
        else:
            short[metric_name(name)] = text
    return short, long


def run_state(run: StoredRun) -> str:
    """finished, interrupted, stopped, or running (also for a run that was killed)."""
    starts = run.manifest.get("starts") or [{}]
    return str(starts[-1].get("state") or run.summary.get("state") or "running")


def suite_of(run: StoredRun) -> str | None:
    """The suite that the last start with `--suite` was part of, from the commands in the manifest."""
    for start in reversed(run.manifest.get("starts") or []):
        words = [str(word) for word in start.get("command") or ()]
        for n, word in enumerate(words):
            if word == "--suite" and n + 1 < len(words):
                return words[n + 1]
            if word.startswith("--suite="):
                return word.removeprefix("--suite=")
    return None


def tags(run: StoredRun, suite: str | None) -> dict[str, str]:
    """What runs are found by: tags.method = 'pecan' and tags.git_dirty = 'false'."""
    config = run.config
    git = run.manifest.get("git") or {}
    found = {
        "method": config["method"]["name"],
        "model": config["model"]["name"],
        "dataset": config["dataset"]["name"],
        "hash8": run.path.name.rpartition("--")[2],
        "embedded": _word(bool(config["model"].get("embedded"))),
        "profile": config.get("profile"),
        "suite": suite,
        "state": run_state(run),
        "limit": str(config.get("limit")),
        "failed_count_as": str(config.get("failed", "zero")),
        "flops": DEFAULT,
        "columns": "; ".join(f"{column} = {scorer}" for column, scorer in paper_columns(_scorers(run)).items()),
        "git_commit": git.get("commit"),
        "git_dirty": _word(git.get("dirty")),
        "mlflow.source.git.commit": git.get("commit"),
        "mlflow.source.name": "harness run",
        "mlflow.source.type": "LOCAL",
    }
    return {name: str(value)[:_LONGEST_TAG] for name, value in found.items() if value}


def _word(value: bool | None) -> str | None:
    return None if value is None else str(value).lower()


def saved_view(columns: Sequence[str], created: int) -> str:
    """A view for the menu Views of an experiment's page, in the form of MLflow 3's own "Save as new view".

    columns: the metrics of the list, the first one decides its order; created: milliseconds. The runs stand in a list
    without parents; the charts begin with the first column against TFLOPs and a bar chart for each column.
    """
    shown = [f"metrics.`{column}`" for column in columns] + ["tags.`model`", "tags.`hash8`", "tags.`suite`"]
    state = {
        "selectedColumns": shown,
        "columnOrder": shown,
        "orderByKey": f"metrics.`{columns[0]}`",
        "orderByAsc": False,
        "searchFilter": "tags.method != ''",
        "compareRunSections": [{"uuid": _SECTION, "name": "Comparison", "display": True, "isReordered": False}],
        "compareRunCharts": [
            _chart("SCATTER", 0, xaxis=_axis("TFLOPs"), yaxis=_axis(columns[0])),
            *(_chart("BAR", n, metricKey=column) for n, column in enumerate(columns, start=1)),
        ],
    }
    return json.dumps({"name": "Comparison", "createdAt": created, "updatedAt": created, "state": json.dumps(state)})


def _chart(kind: str, number: int, **more: Any) -> dict[str, Any]:
    fixed = {"uuid": f"{_SECTION}-{number}", "metricSectionId": _SECTION, "deleted": False, "isGenerated": False}
    return {"type": kind, **fixed, **more}


def _axis(metric: str) -> dict[str, str]:
    return {"key": metric, "type": "METRIC"}


def running_points(run: StoredRun) -> list[Point]:
    """(step, name, value) of the means over the first 1, 2, ... questions; the step is how many these are.

    The headline score has the papers' name and scale where they have it, else it is running/<scorer> in [0, 1].
    """
    headline: str = run.config["dataset"]["scorers"][0]
    columns = {scorer: column for column, scorer in paper_columns([headline]).items()}
    name, scale = metric_name(f"running/{columns.get(headline, headline)}"), 100.0 if headline in columns else 1.0
    skip = run.config.get("failed", "zero") == "skip"
    points: list[Point] = []
    score = tflops = 0.0
    failed = 0
    for n, record in enumerate(run.records, start=1):
        if record["error"] is None:
            score += scale * float(record["scores"].get(headline) or 0.0)
            spent = [
                record["usage"].get(phase, {}).get("flops", {}).get(DEFAULT, 0.0) for phase in ("search", "answer")
            ]
            tflops += sum(spent) / 1e12
        else:
            failed += 1
        answered = n - failed
        scored = answered if skip else n
        # MLflow compares runs by the metric that was logged first.
        points += [(n, name, score / scored)] if scored else []
        points += [(n, "running/TFLOPs", tflops / answered)] if answered else []
        points.append((n, "running/failed", float(failed)))
    return points
