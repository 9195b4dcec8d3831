"""Which runs measure a printed value: one, or for a mean over data sets one on each of them.

matches(value, runs)
    -> [(Pair(rule of nq, run), Pair(rule of triviaqa, run), Pair(rule of popqa, run)), ...]
incomplete_means(runs)
    -> ["LongRefiner's Single-hop is a mean over nq, triviaqa and popqa: no run of longrefiner ..."]
"""

import re
from collections.abc import Mapping, Sequence
from itertools import product
from typing import NamedTuple

from harness.config.schema import canonical_json
from harness.storage.run_folder import StoredRun
from reports import facts
from reports.paper.mapping import DatasetRule
from reports.paper.printed import Value, load
from reports.paper.setting_sentences import joined_names


class Pair(NamedTuple):
    """A run, with the rule by which it measures a printed value."""

    rule: DatasetRule
    run: StoredRun


def matches(value: Value, runs: Sequence[StoredRun]) -> list[tuple[Pair, ...]]:
    """Each way in which the runs measure the value, as pairs (rule, run), in the order of the runs.

    A rule says which data set, split and questions the value is of. A way is one run, with the
    value's rule. For a mean over data sets it is a run on each of them, all with the same preset,
    models and settings, or one run on a stand-in; where a data set has no run there is none: see
    `incomplete_means`.
    """
    fitting_runs = _runs_of_preset(value, runs)
    first_rule = value.rules[0]
    if len(value.rules) == 1:
        datasets = (first_rule.dataset, *value.stand_ins)
        return _single_run_ways(first_rule, fitting_runs, datasets)
    ways: list[tuple[Pair, ...]] = []
    for runs_by_dataset in _groups_by_settings(value, fitting_runs):
        pairs_of_each_rule = [_pairs(rule, runs_by_dataset) for rule in value.rules]
        ways += product(*pairs_of_each_rule)  # one pair of each rule, in all combinations
    return ways + _single_run_ways(first_rule, fitting_runs, value.stand_ins)


def _single_run_ways(
    rule: DatasetRule, runs: Sequence[StoredRun], datasets: Sequence[str]
) -> list[tuple[Pair, ...]]:
    """Each run over one of these data sets as a way to measure a value alone: a tuple of one pair.

    Args:
        rule: Which data set, split and questions the value is of.
        runs: The runs.
        datasets: Names of data sets that a run may be over.
    """
    return [(Pair(rule, run),) for run in runs if run.config.dataset.name in datasets]


def _pairs(rule: DatasetRule, runs_by_dataset: Mapping[str, Sequence[StoredRun]]) -> list[Pair]:
    """The runs on the rule's data set, each with the rule.

    Args:
        rule: Which data set, split and questions a value is of.
        runs_by_dataset: Data set -> its runs.
    """
    return [Pair(rule, run) for run in runs_by_dataset[rule.dataset]]


def incomplete_means(runs: Sequence[StoredRun], values: Sequence[Value] | None = None) -> list[str]:
    """A sentence for each mean that some of the runs measure in part, with the data sets that lack
    a run.

    Args:
        runs: Stored runs.
        values: Printed values; by default those of paper_results.csv that mapping.yaml maps.
    """
    if values is None:
        values = load()
    sentences: dict[str, None] = {}  # the keys serve as an ordered set
    for value in values:
        is_mean = len(value.rules) > 1
        if not is_mean:
            continue
        for runs_by_dataset in _groups_by_settings(value, _runs_of_preset(value, runs)):
            each_has_a_run = all(runs_by_dataset.values())
            if not each_has_a_run:
                sentences[_incomplete_mean_sentence(value, runs_by_dataset)] = None
    return list(sentences)


def _incomplete_mean_sentence(
    value: Value, runs_by_dataset: Mapping[str, Sequence[StoredRun]]
) -> str:
    """The sentence on a mean that runs of the same settings measure in part.

    Args:
        value: The printed mean.
        runs_by_dataset: Data set -> its runs; some have none.
    """
    datasets_without_run = []
    runs: list[StoredRun] = []
    for dataset in value.datasets:
        runs += runs_by_dataset[dataset]
        if not runs_by_dataset[dataset]:
            datasets_without_run.append(dataset)
    config = runs[0].config
    method = config.method.name
    model = config.model.name
    return (
        f"{value.paper.name}'s {value.place} is a mean over {joined_names(value.datasets)}: no run "
        f"of {method} with {model} and these settings on {joined_names(datasets_without_run)}"
    )


def _runs_of_preset(value: Value, runs: Sequence[StoredRun]) -> list[StoredRun]:
    """The runs of the value's preset whose texts were made for its length, where it has one.

    A run made elsewhere is of no preset, whatever its method is called.
    """
    fitting = []
    for run in runs:
        if facts.is_imported(run) or _preset_name(run) != value.entry.preset:
            continue
        options = run.config.dataset.options
        if value.rules[0].tokens in (None, options.get("tokens")):
            fitting.append(run)
    return fitting


def _preset_name(run: StoredRun) -> str:
    """The name of a run's preset, without what the run has otherwise: "dragon[minilm]" -> "dragon",
    "pecan [pocket]" -> "pecan"."""
    return re.sub(r"(\s*\[[^\]]*\])+$", "", run.config.method.name)


def _groups_by_settings(
    value: Value, runs: Sequence[StoredRun]
) -> list[dict[str, list[StoredRun]]]:
    """Groups of the runs on the value's data sets, one for each choice of settings.

    -> [{"nq": [run], "popqa": []}, ...]: data set -> its runs with these settings
    """
    group_by_settings: dict[str, dict[str, list[StoredRun]]] = {}
    for run in runs:
        dataset = run.config.dataset.name
        if dataset not in value.datasets:
            continue
        settings = _settings_key(run)
        if settings not in group_by_settings:
            group_by_settings[settings] = {name: [] for name in value.datasets}
        group_by_settings[settings][dataset].append(run)
    return list(group_by_settings.values())


def _settings_key(run: StoredRun) -> str:
    """A key that is equal for runs with the same settings outside of the data set.

    These are method, models and encoders as the manifest has them, seed, and what the prompts say
    about answers besides the instruction. How long answers may be is left out where it is the
    preset's length.
    """
    config = run.config
    manifest = run.manifest
    task = facts.task_settings(run)
    del task["instruction"]
    origin_of_length = run.origins.get("dataset.max_answer_tokens") or ""
    if origin_of_length.startswith("configs/"):  # a preset of this project
        del task["max_answer_tokens"]
    models: dict[str, object] = dict(manifest.models)
    if not models:
        values = config.to_json()
        models = {role: values.get(role) for role in ("model", "roles", "encoder", "reranker")}
    return canonical_json(
        {
            "method": config.method.to_json(),
            "models": models,
            "prompts": manifest.prompts,
            "task": task,
            "seed": config.seed,
            "failed": config.failed,
        }
    )
