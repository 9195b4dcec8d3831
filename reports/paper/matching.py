"""Which runs measure a printed value: one, or for a mean over data sets one on each of them.

matches(value, runs)     [((rule of nq, run), (rule of triviaqa, run), (rule of popqa, run)), ...]
incomplete(runs)         "LongRefiner's Single-hop is a mean over nq, triviaqa and popqa: no run of longrefiner ..."
"""

import re
from collections.abc import Sequence
from itertools import product

from harness.config.schema import canonical
from harness.storage.run_folder import StoredRun
from reports import facts
from reports.paper.comparable import listed
from reports.paper.mapping import DatasetRule
from reports.paper.printed import Value, load

Pair = tuple[DatasetRule, "StoredRun"]


def matches(value: Value, runs: Sequence[StoredRun]) -> list[tuple[Pair, ...]]:
    """Each way in which the runs measure the value, in the order of the runs.

    For a mean that is a run on each of its data sets, all with the same preset, models and
    settings, or one run on a stand-in. Nothing where a member is missing: see `incomplete`.
    """
    fitting = _fitting(value, runs)
    alone = [
        ((value.rules[0], run),) for run in fitting if facts.run_key(run)[0] in value.stand_ins
    ]
    if len(value.rules) == 1:
        named = (value.rules[0].dataset, *value.stand_ins)
        return [((value.rules[0], run),) for run in fitting if facts.run_key(run)[0] in named]
    ways: list[tuple[Pair, ...]] = []
    for alike in _by_settings(value, fitting):
        ways += product(*([(rule, run) for run in alike[rule.dataset]] for rule in value.rules))
    return ways + alone


def incomplete(runs: Sequence[StoredRun], values: Sequence[Value] | None = None) -> list[str]:
    """A sentence for each mean that some of the runs measure in part, with the data sets that lack
    a run.

    values: by default those of paper_results.csv that mapping.yaml maps.
    """
    sentences: list[str] = []
    for value in load() if values is None else values:
        members = [rule.dataset for rule in value.rules]
        for alike in _by_settings(value, _fitting(value, runs)) if len(members) > 1 else ():
            if missing := [name for name in members if not alike[name]]:
                first = next(run for name in members for run in alike[name])
                sentences.append(
                    f"{value.paper.name}'s {value.place} is a mean over {listed(members)}: no run "
                    "of "
                    f"{first.config['method']['name']} with {first.config['model']['name']} and "
                    "these settings on "
                    f"{listed(missing)}"
                )
    return list(dict.fromkeys(sentences))


def _fitting(value: Value, runs: Sequence[StoredRun]) -> list[StoredRun]:
    """The runs of the value's preset whose texts were made for its length, where it has one.

    What a run has otherwise is no part of a preset's name: "dragon[minilm]" is dragon, "pecan
    [pocket]" is pecan. A run made elsewhere is of no preset, whatever its method is called.
    """
    names = [re.sub(r"(\s*\[[^\]]*\])+$", "", str(run.config["method"]["name"])) for run in runs]
    of_preset = [run for run, name in zip(runs, names, strict=True) if name == value.entry.preset]
    tokens = value.rules[0].tokens
    fitting = [
        run
        for run in of_preset
        if tokens in (None, (run.config["dataset"].get("options") or {}).get("tokens"))
    ]
    return [run for run in fitting if not facts.made_elsewhere(run)]


def _by_settings(value: Value, runs: Sequence[StoredRun]) -> list[dict[str, list[StoredRun]]]:
    """The runs on the value's data sets by data set, those of the same settings together.

    Compared are all settings but the data set's own: method, models and encoders as the manifest
    has them, seed, and what was asked of answers besides the instruction; how long they may be too,
    where each has the preset's length.
    """
    members = [rule.dataset for rule in value.rules]
    groups: dict[str, dict[str, list[StoredRun]]] = {}
    for run in runs:
        if (name := facts.run_key(run)[0]) not in members:
            continue
        config, manifest = run.config, run.manifest
        asked = {key: text for key, text in facts.task(run).items() if key != "instruction"}
        if (run.origins.get("dataset.max_answer_tokens") or "").startswith("configs/"):
            del asked["max_answer_tokens"]
        models = manifest.get("models") or {
            key: config.get(key) for key in ("model", "roles", "encoder", "reranker")
        }
        settings = {
            "method": config["method"],
            "models": models,
            "prompts": manifest.get("prompts"),
            "task": asked,
        }
        key = canonical({**settings, "seed": config.get("seed"), "failed": config.get("failed")})
        groups.setdefault(key, {member: [] for member in members})[name].append(run)
    return list(groups.values())
