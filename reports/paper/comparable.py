"""What stands between a printed value and a run: a sentence for each thing that differs in more than chance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness import embedded
from reports import facts
from reports.paper.measured import score_of
from reports.paper.printed import Value
from reports.paper.rules import DatasetRule

if TYPE_CHECKING:
    from harness.store import StoredRun

__all__ = ["listed", "reasons"]


def reasons(value: Value, run: StoredRun, rule: DatasetRule | None = None) -> list[str]:
    """Why the run's number is no reproduction of the printed one, a sentence each; [] when it is one.

    rule: which of the value's data sets the run is of, where it is a mean over several; by default the first.
    """
    rule = rule or value.rules[0]
    found = [*_models(value, run), *_adapters(value, run), *_method(value, run), *_encoders(value, run)]
    return [*found, *_data(value, run, rule), *_metric(value, run)]


def listed(names: tuple[str, ...] | list[str]) -> str:
    """ "nq, triviaqa and popqa"."""
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


# ---- models --------------------------------------------------------------------------------------------------------


def _models(value: Value, run: StoredRun) -> list[str]:
    if run.config["model"].get("embedded"):
        return [f"model: {embedded.caveat(run.config['model'], run.config['dataset'])}"]
    found = []
    for role, model in _used(value, run).items():
        wanted = value.paper.roles.get(role, value.paper.model)
        if wanted is not None and not _is(model, wanted):
            found.append(f"model: the {role} is {model['name']}, the paper's is {wanted}")
    return found


def _used(value: Value, run: StoredRun) -> dict[str, dict[str, Any]]:
    """Role -> configuration of its model, of the roles that the run's method has.

    A role that was set for a method that has none such is left out. One that has no model of its own, and in the paper
    has, was the reader's.
    """
    config, said = run.config, run.manifest.get("models") or {}
    own = {role: model for role, model in (config.get("roles") or {}).items() if role in said or not said}
    shared = {role: config["model"] for role in value.paper.roles if role in said and role not in own}
    return {"reader": config["model"], **own, **shared}


def _adapters(value: Value, run: StoredRun) -> list[str]:
    if run.config["model"].get("embedded"):
        return []  # the caveat says all
    found = []
    for role, wanted in value.entry.adapters.items():
        own = ((run.manifest.get("models") or {}).get(role) or {}).get("adapters") or {}
        missing = [name for name in wanted if name not in own]
        if missing:
            found.append(f"model: the {role} has no adapter for {listed(missing)}, the paper trained them")
    return found


def _is(config: dict[str, Any], wanted: str) -> bool:
    """Whether a model or encoder is the one named: by its name, or the last part of its hub id or folder."""
    names = (str(config.get("name") or ""), str(config.get("source") or "").rstrip("/").rpartition("/")[2])
    return wanted.lower() in [name.lower() for name in names]


# ---- method --------------------------------------------------------------------------------------------------------


def _method(value: Value, run: StoredRun) -> list[str]:
    entry = value.entry
    found = [f"method: {entry.unlike}"] if entry.unlike else []
    params = run.config["method"].get("params") or {}
    for key, wanted in entry.params.items():
        if params.get(key, wanted) != wanted:
            found.append(f"method: {key} is {_told(params[key])}, the paper's is {_told(wanted)}")
    return found


def _encoders(value: Value, run: StoredRun) -> list[str]:
    entry, found = value.entry, []
    for kind, wanted in (("encoder", entry.encoder), ("reranker", entry.reranker)):
        used = run.config.get(kind) or {}
        if wanted is not None and not _is(used, wanted):
            found.append(f"{kind}: {used.get('name') or 'not recorded'}, the paper's is most likely {wanted}")
    name = run.config["method"]["name"]
    if name != entry.preset and entry.encoder is None and entry.reranker is None:
        found.append(f"encoder: {name.removeprefix(entry.preset)[1:-1]} stands in for that of {entry.preset}")
    return found


def _told(value: Any) -> str:
    return "not set" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


# ---- data and metric -----------------------------------------------------------------------------------------------


def _data(value: Value, run: StoredRun, rule: DatasetRule) -> list[str]:
    config = run.config["dataset"]
    if config["name"] != rule.dataset:
        return [f"split: {config['name']} is made up, the paper has {_asked(value)}"]
    found = []
    if config.get("split", rule.split) != rule.split:
        found.append(f"split: {config['split']}, the paper's is {rule.split}")
    n = len(run.records)
    if n != rule.questions:
        found.append(f"sample: {n} questions, the paper has {rule.questions}")
    if rule.subset is not None:
        found.append(f"sample: {rule.subset}")
    set_to = {**(config.get("options") or {}), **config}
    for key, wanted in {**rule.settings, **value.entry.settings}.items():
        if wanted is not None and set_to.get(key) != wanted:
            found.append(f"dataset: {key} is {_told(set_to.get(key))}, the paper's is {_told(wanted)}")
    cut = sum(record["truncated"] is not None for record in run.records)
    if cut and not value.entry.truncated:
        found.append(f"truncation: {cut} of {n} contexts were cut to fit the window, the paper's were whole")
    return found


def _asked(value: Value) -> str:
    """What the paper asked instead of a made-up data set."""
    if len(value.rules) == 1:
        return f"{value.rules[0].dataset}'s {value.rules[0].split} split"
    return f"the mean of {listed([rule.dataset for rule in value.rules])}"


def _metric(value: Value, run: StoredRun) -> list[str]:
    metric = value.metric
    if metric.problem is not None:
        return [f"metric: {metric.problem}"]
    if metric.score is None:
        return []
    if score_of(metric, run) not in facts.score_names(run):
        return [f"metric: the run has no {metric.score}; add it with: harness score RUN --scorers {metric.score}"]
    if run.config.get("failed", "zero") == "skip" and any(r["error"] is not None for r in run.records):
        return ["metric: failed questions are left out of the mean"]
    return []
