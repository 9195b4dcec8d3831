"""What MLflow shows of a run, in plain values: names, scales and order are decided here;
mlflow_run.py sends them.

<scorer>                        every scorer under its own name, as in records and tables: percent, two decimals
TFLOPs                          of a question with its share of the index, by the convention that the tag `flops` names
failed, n, documents,           questions; left_out are those without an answer, by the loader, only if there are any
truncated, left_out
uncertainty/<name>.low, .high   95 % interval of a scorer or of TFLOPs, by document
usage/...                       tokens.<phase>, TFLOPs.<phase>, money, money.run,
                                seconds, seconds.p50, .p95, .queue, .index

A step is a number of questions: the headline score, TFLOPs and failed have one for each question,
the mean (or count) so far; the others have that of all questions. MLflow draws a metric of several
steps as lines, one of a single step as bars, and a group of charts for each prefix; its lists show
the value of the last step, in the order of logging.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import NamedTuple, SupportsFloat

import pandas as pd

from harness.config.schema import ModelConfig, canonical_json, json_sha256
from harness.config.yaml_tree import flatten
from harness.cost.flops import DEFAULT_CONVENTION
from harness.storage.manifest_file import GitState
from harness.storage.run_folder import StoredRun
from harness.storage.stored_config import StoredConfig
from reports.costs import question_tflops
from reports.facts import corpus_score_sources, score_names
from reports.settings import own_code_hash, run_versions, user_settings


class Point(NamedTuple):
    """A value of a metric at one step.

    Attributes:
        step: The number of questions that it is about.
        name: The metric.
        value: Its value.
    """

    step: int
    name: str
    value: float


class Params(NamedTuple):
    """The settings of a run as MLflow shows them.

    Attributes:
        texts: Name for --set -> value as text, where that is short enough.
        names_of_long_values: Names of settings whose values are too long to be shown.
    """

    texts: dict[str, str]
    names_of_long_values: list[str]


_PHASES = ("index", "search", "answer")
_INTERVAL_ENDS = (".low", ".high")
_MONEY_AND_TIMES = (
    "money",
    "money.run",
    "seconds",
    "seconds.p50",
    "seconds.p95",
    "seconds.queue",
    "seconds.index",
)
_MAX_NAME_CHARACTERS, _MAX_PARAM_CHARACTERS, _MAX_TAG_CHARACTERS = 250, 100, 5000  # characters
# May differ between two starts of one run folder: they are tags, because a param can never change.
_CHANGEABLE_SETTINGS = (
    "limit",
    "sample",
    "sample_seed",
    "failed",
    "keep_prompts",
    "cache",
    "currency",
)
# Prose, what other values and the tags say already, and where a model lies and how it is run, which
# changes no answer and may differ between two starts; config.yaml has all of it.
_HIDDEN_SETTINGS = re.compile(
    r"(dataset\.(instruction|licence|citation|summary|scorers|format)|method\.implementation"
    r"|(model|roles\.\w+|encoder|reranker)\.(device|device_map|batch_size|prefill_chunk|memory_fraction|package"
    r"|package_path|offers\..*))$"
)
_STATUS_OF_STATE = {"finished": "FINISHED", "interrupted": "KILLED", "stopped": "FAILED"}
"""State of a run -> its status in MLflow; "stopped" ended by an error."""


def metric_name(name: str) -> str:
    """Turn a name into one that MLflow takes: "acc@5/../hops" -> "acc_5/hops".

    Characters that it refuses become "_", path parts "", "." and ".." are left out, and the name
    ends after 250 characters; one without any part is "_".
    """
    parts = re.sub(r"[^\w\-. :/]", "_", name).split("/")
    cleaned = "/".join(part for part in parts if part not in ("", ".", ".."))
    return cleaned[:_MAX_NAME_CHARACTERS] or "_"


def final_metrics(run: StoredRun, table: pd.DataFrame) -> dict[str, float]:
    """The metrics of a whole run by name, in the order in which they are logged.

    Scores are in percent; of costs the first four digits are logged, of tokens the first six.

    Args:
        run: The run.
        table: `reports.main_table.frame([run])`; a number that it lacks is left out.
    """
    row = table.iloc[0]
    metrics = _FiniteMetrics()
    headline, *others = _all_score_names(run)
    metrics.add(headline, percent(row.get(headline)))
    metrics.add("TFLOPs", round_to_digits(row.get("tflops.total")))
    for name in ("failed", "n", "documents", "truncated"):
        metrics.add(name, row.get(name))
    if row["left_out"]:
        metrics.add("left_out", row["left_out"])
    for scorer in others:
        metrics.add(scorer, percent(row.get(scorer)))
    for scorer in (headline, *others):
        for end in _INTERVAL_ENDS:
            metrics.add(f"uncertainty/{scorer}{end}", percent(row.get(scorer + end)))
    for end in _INTERVAL_ENDS:
        metrics.add(f"uncertainty/TFLOPs{end}", round_to_digits(row.get(f"tflops.total{end}")))
    for phase in _PHASES:
        metrics.add(f"usage/tokens.{phase}", round_to_digits(row.get(f"tokens.{phase}"), 6))
    for phase in _PHASES:
        metrics.add(f"usage/TFLOPs.{phase}", round_to_digits(row.get(f"tflops.{phase}")))
    for name in _MONEY_AND_TIMES:
        metrics.add(f"usage/{name}", round_to_digits(row.get(name)))
    return metrics.values


class _FiniteMetrics:
    """Numbers by the names that MLflow takes, in the order in which they are added."""

    def __init__(self) -> None:
        """Begin without metrics."""
        self.values: dict[str, float] = {}

    def add(self, name: str, value: object) -> None:
        """Add a value under the name that MLflow takes; what is no finite number is left out."""
        number = _finite_number(value)
        if number is not None:
            self.values[metric_name(name)] = number


def first_columns(run: StoredRun) -> list[str]:
    """The metrics that a list of runs shows first: the headline score, what it cost, failed
    questions, the other scores.
    """
    headline, *others = map(metric_name, _all_score_names(run))
    return [headline, "TFLOPs", "failed", "n", *others]


def _all_score_names(run: StoredRun) -> list[str]:
    """The names of the run's scores of single questions, headline
    first, then those of the whole run.
    """
    return [*score_names(run), *corpus_score_sources(run)]


def _finite_number(value: object) -> float | None:
    """The value as a finite float; None where it is no such number."""
    if not isinstance(value, SupportsFloat):
        return None
    number = float(value)
    if not math.isfinite(number):
        return None
    return number


def percent(value: object) -> float | None:
    """A share in percent with two decimals, 0.86444 -> 86.44; None for what is no finite number.

    MLflow's lists cut a longer number off.
    """
    number = _finite_number(value)
    if number is None:
        return None
    return round(100 * number, 2)


def round_to_digits(value: object, n_digits: int = 4) -> float | None:
    """Round a cost to its first digits: (123456.7, 4) -> 123500.0; None for no finite number."""
    number = _finite_number(value)
    if number is None:
        return None
    return float(f"{number:.{n_digits}g}")


def run_params(config: StoredConfig, models: Mapping[str, object]) -> Params:
    """The settings of a run under their names for --set: {"method.k": "5", "model": "llama"}.

    What is null, empty or a default of a model is left out: it says nothing, and MLflow shows a
    missing value as such.

    Args:
        config: The run's settings.
        models: Role -> identity, as the manifest has them. The settings of a part that no role used
            are left out, unless this is empty, as in old manifests.
    """
    texts: dict[str, str] = {}
    names_of_long_values: list[str] = []
    shown_settings = {
        key: value for key, value in config.to_json().items() if key not in _CHANGEABLE_SETTINGS
    }
    for key, value in flatten(shown_settings).items():
        text = _param_text(value)
        if text in ("", "{}", "[]") or _is_hidden(key, value, models):
            continue
        name = _param_name(key)
        if len(text) > _MAX_PARAM_CHARACTERS:
            names_of_long_values.append(name)
        else:
            texts[metric_name(name)] = text
    return Params(texts, names_of_long_values)


def _param_text(value: object) -> str:
    """Write a setting as text: a text as it is, null as "", all else as JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return canonical_json(value)


def _is_hidden(key: str, value: object, models: Mapping[str, object]) -> bool:
    """Whether MLflow need not show a setting: prose, a part that no
    role used, a default of a model.

    Args:
        key: The setting, "model.dtype".
        value: The run's value.
        models: Role -> identity of the run's models; empty where they are not recorded.
    """
    if _HIDDEN_SETTINGS.match(key):
        return True
    part, _, field_name = key.removeprefix("roles.").partition(".")
    is_of_role = key.startswith(("roles.", "encoder.", "reranker."))
    is_unused_role = bool(models) and part not in models
    if is_of_role and is_unused_role:
        return True
    if not key.startswith(("model.", "roles.")):
        return False
    field = ModelConfig.model_fields.get(field_name)
    return field is not None and bool(field.default == value)


def _param_name(key: str) -> str:
    """The name of a setting as a param, which is its name for --set.

    "method.params.k" -> "method.k", "encoder.name" -> "encoder"
    """
    return re.sub(r"^method\.params\.", "method.", key).removesuffix(".name")


def last_path_part(value: str) -> str:
    """The last part of a path: "/home/ann/rows.jsonl" -> "rows.jsonl"; another value as it is."""
    return value.rstrip("/").rpartition("/")[2]


def settings_of_user(run: StoredRun) -> dict[str, str]:
    """The settings that the user gave, name for --set -> value as text.

    Method, data set and model are left out, as they are in every run's name.
    """
    values = run_params(run.config, run.manifest.models).texts
    changed_names = set(map(_param_name, user_settings(run)))
    shown_names = sorted(
        changed_names.intersection(values).difference(("method", "dataset", "model"))
    )
    return {name: values[name] for name in shown_names}


def run_state(run: StoredRun) -> str:
    """How the run's last start ended: "finished", "interrupted", "stopped", or "running", also for
    a run that was killed. Where the manifest does not say, as in older runs, the summary does.
    """
    return run.manifest.last_start.state or run.summary.state


def run_status(run: StoredRun) -> str:
    """The status of an ended run in MLflow, "FINISHED", "FAILED" or "KILLED"; a run whose state is
    still "running" was killed.
    """
    return _STATUS_OF_STATE.get(run_state(run), "KILLED")


def run_tags(run: StoredRun, suite: str | None) -> dict[str, str]:
    """The tags by which runs are found in MLflow: {"method": "pecan", "git_dirty": "false", ...}.

    Values that are unknown or empty are left out.

    Args:
        run: The run.
        suite: The suite that it belongs to; None without one.
    """
    config = run.config
    git = run.manifest.git or GitState()
    values = {
        "method": config.method.name,
        "model": config.model.name,
        "dataset": config.dataset.name,
        "hash8": run.path.name.rpartition("--")[2],
        "made_with": _made_with(run),
        "embedded": str(config.model.embedded).lower(),
        "profile": config.profile,
        "suite": suite,
        "state": run_state(run),
        "limit": str(config.limit),
        "failed_count_as": config.failed,
        "flops": DEFAULT_CONVENTION,
        "git_commit": git.commit,
        "git_dirty": _git_dirty(git),
        "mlflow.source.git.commit": git.commit,
        "mlflow.source.name": "harness run",
        "mlflow.source.type": "LOCAL",
    }
    return {name: str(value)[:_MAX_TAG_CHARACTERS] for name, value in values.items() if value}


def _made_with(run: StoredRun) -> str:
    """Say what made the run, in words that differ where two runs do: own code, rows, checkout,
    weights, packages.
    """
    packages = run.manifest.packages  # all of them are one hash at the end
    parts = [f"{key} {value}" for key, value in run_versions(run).items() if key not in packages]
    if run.manifest.code:
        parts.append(f"code {own_code_hash(run)}")
    parts.append(f"packages {json_sha256(packages)[:7]}")
    return ", ".join(parts)


def _git_dirty(git: GitState) -> str | None:
    """Whether the checkout had changes that no commit holds, as "true" or "false"; None if
    unknown.
    """
    if git.dirty is None:
        return None
    return str(git.dirty).lower()


def running_points(run: StoredRun) -> list[Point]:
    """The means over the first 1, 2, ... questions of a run, for MLflow's lines.

    Up to three points a question: the headline score in percent, TFLOPs with the question's share
    of the indexes, and how many failed.
    """
    headline: str = run.config.dataset.scorers[0]
    points: list[Point] = []
    tflops_by_question = question_tflops(run, with_index=True)
    sum_of_scores = 0.0
    sum_of_tflops = 0.0
    n_answered = 0
    for n, record in enumerate(run.records, start=1):
        if record.error is None:
            n_answered += 1
            sum_of_scores += float(record.scores.get(headline) or 0.0)
            sum_of_tflops += tflops_by_question.get(record.question_id, 0.0)
        n_scored = n  # failed questions count 0 unless the run skips them
        if run.config.skips_failed:
            n_scored = n_answered
        # MLflow compares runs by the metric that was logged first.
        if n_scored:
            mean_percent = round(100 * sum_of_scores / n_scored, 2)
            points.append(Point(n, name=metric_name(headline), value=mean_percent))
        if n_answered and tflops_by_question:
            mean_tflops = float(f"{sum_of_tflops / n_answered:.4g}")
            points.append(Point(n, name="TFLOPs", value=mean_tflops))
        points.append(Point(n, name="failed", value=float(n - n_answered)))
    return points
