"""In which settings runs of one method differ: their labels in tables, and the columns of a sweep.

    name_runs(runs)  RunNames("bm25 k=3", "bm25", {"method.k": 3})                one for each run
    labels(runs)     ["bm25 k=1", "bm25 k=3", "full-context"]
    settings(frame)  ["method.k"]                                     the columns of a frame that hold them

Runs of one method, profile and model are compared. A label names the values that the user set and
in which two of them differ, "bm25 k=3"; where that is not enough, every value in which they differ.
Where own code changed, it has hash and date; if still alike, what differs of rows, checkout and
packages, at last when the run was started.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from harness.config.run_label import label
from harness.config.schema import canonical, digest
from harness.config.yaml_tree import flatten, value_text
from harness.storage.run_folder import StoredRun

if TYPE_CHECKING:
    import pandas as pd


# Parts of a configuration, and those of their keys that change no answer or are columns of their
# own.
_PARTS = ("method", "dataset", "model", "roles", "encoder", "reranker", "seed")
_LEFT_OUT = re.compile(
    r"(method|dataset|model)\.name|method\.(implementation|mark|encoder|reranker)"
    r"|dataset\.(scorers|data|licence|citation|keep_texts)"
    r"|(.+\.)?(batch_size|device|device_map|prefill_chunk|memory_fraction|embedded|small|offers\..*|timeout|retries|price|price\..*)"
)
_BY_A_PRESET = ("configs/", "$", "profile ")  # beginnings of the origins of values that no user set
_COUNTED = re.compile(r"(\d+) settings")  # a mark of more settings than it names
_LONGEST_VALUE = 24


@dataclass(frozen=True)
class RunNames:
    """A run in tables. label: unlike that of any other run of its data set and model; base: its
    method, without the settings that vary, which are in `values`: as `--set` names them, and their
    values.
    """

    label: str
    base: str
    values: dict[str, Any] = field(default_factory=dict)


def labels(runs: Sequence[StoredRun], ignored: Collection[str] = ()) -> list[str]:
    """The method's name in tables for each run; ignored as in `name_runs`."""
    return [named.label for named in name_runs(runs, ignored)]


def name_runs(runs: Sequence[StoredRun], ignored: Collection[str] = ()) -> list[RunNames]:
    """Each run's names and the settings in which it differs from others of its method.

    ignored: settings that need not tell runs apart, "method.t_n"; runs that differ in no other have
    one label then.
    """
    groups: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for i, run in enumerate(runs):
        profile = (
            m
            for m in _mark_parts(run)
            if not (_COUNTED.fullmatch(m) or "=" in m or m.startswith("prompt "))
        )
        groups[
            str(run.config["method"]["name"]), *profile, str(run.config["model"]["name"])
        ].append(i)
    names: dict[int, RunNames] = {}
    for places in groups.values():
        names.update(zip(places, _name_group([runs[i] for i in places], ignored), strict=True))
    return [names[i] for i in range(len(runs))]


def with_date(label: str, run: StoredRun) -> str:
    """The label with start and hash behind it, and the results folder where two folders have a run
    of this name."""
    started = str(run.manifest.get("started") or "")[:16].replace("T", " ")
    folder = str(run.path.parent.parent) if run.name != run.path.name else ""
    return (
        f"{label} ({', '.join(filter(None, [started, run.path.name.rpartition('--')[2], folder]))})"
    )


def distinct_labels(
    labels: Sequence[str], runs: Sequence[StoredRun], places: Sequence[Hashable]
) -> list[str]:
    """The labels, `with_date` where another run has the same label at the same place (a table, a
    point of a line)."""
    keys = list(zip(labels, places, strict=True))
    keyed = zip(keys, runs, strict=True)
    return [with_date(key[0], run) if keys.count(key) > 1 else key[0] for key, run in keyed]


def setting_values(run: StoredRun) -> dict[str, Any]:
    """Every setting of a run by the key that `--set` takes, those of its models too: "method.k",
    "model", "seed"."""
    config = {part: run.config[part] for part in _PARTS if run.config.get(part) is not None}
    values = {
        path: value for path, value in flatten(config).items() if not _LEFT_OUT.fullmatch(path)
    }
    by_key = {_set_key(path): value for path, value in values.items()}
    return {"model": run.config["model"]["name"]} | by_key


def settings(frame: pd.DataFrame) -> list[str]:
    """The columns that hold settings, in their order."""
    return [str(name) for name in frame.columns if is_setting(str(name))]


def as_printed(name: str, known: Collection[str]) -> str:
    """The one of `known` that a head of a table means: "k" is "method.k" where nothing else is
    called k."""
    return f"method.{name}" if name not in known and f"method.{name}" in known else name


def is_setting(column: str) -> bool:
    """Whether a column holds the values of a setting: "method.k", "seed"; a score of the user's own
    has a colon."""
    head, dot, _ = column.partition(".")
    return column == "seed" or (bool(dot) and ":" not in column and head in _PARTS)


def is_number(value: Any) -> bool:
    """Whether a setting's value is a number, not true or false."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _name_group(runs: Sequence[StoredRun], ignored: Collection[str]) -> list[RunNames]:
    """The names of runs of one method, profile and model, in their order; ignored: as in
    `name_runs`."""
    values = [_answer_settings(run, ignored) for run in runs]
    datasets = [str(run.config["dataset"]["name"]) for run in runs]
    sets = list(zip(datasets, values, strict=True))
    keys = [
        key
        for key in dict.fromkeys(k for name in values for k in name)
        if len({(dataset, canonical(name.get(key))) for dataset, name in sets}) > len({*datasets})
    ]
    set_by_user = [given(run).intersection(keys) for run in runs]
    swept = [key for key in keys if any(key in name for name in set_by_user)]
    names = [
        _name_run(*each, swept, ignored) for each in zip(runs, set_by_user, values, strict=True)
    ]
    for i in _repeated_labels(names, datasets):
        names[i] = _name_run(runs[i], set(keys), values[i], keys, ignored)
    for dataset in dict.fromkeys(datasets):
        places = [i for i, name in enumerate(datasets) if name == dataset]
        codes = [code_hash(runs[i]) for i in places]
        if len({*codes}) > 1:
            for i, code in zip(places, codes, strict=True):
                started = str(runs[i].manifest.get("started") or "")[:10]
                names[i] = _with_words(names[i], ", ".join(filter(None, [f"code {code}", started])))
    # An ignored setting of the data set has rows of its own, one of a model weights.
    free = {
        "rows" if key.startswith("dataset.") else "weights"
        for key in ignored
        if not key.startswith("method.")
    }
    for alike in _alike(names, datasets):
        made = [
            {key: v for key, v in made_with(runs[i]).items() if key.split()[0] not in free}
            for i in alike
        ]
        odd = [
            key
            for key in dict.fromkeys(k for name in made for k in name)
            if len({name.get(key) for name in made}) > 1
        ]
        for i, name in zip(alike, made, strict=True) if odd else ():
            names[i] = _with_words(
                names[i], ", ".join(f"{key} {name.get(key, 'not recorded')}" for key in odd)
            )
    for alike in _alike(names, datasets):
        keys = [_line_key(runs[i], values[i], ignored) if ignored else str(i) for i in alike]
        for i, key in zip(alike, keys, strict=True) if len({*keys}) > 1 else ():
            first = runs[alike[keys.index(key)]]
            names[i] = replace(
                names[i],
                label=with_date(names[i].label, first),
                base=with_date(names[i].base, first),
            )
    return names


def _line_key(run: StoredRun, values: Mapping[str, Any], ignored: Collection[str]) -> str:
    """A key that runs share which may be one line of a figure: settings, models, and questions
    unless those vary."""
    vary = any(key.startswith("dataset.") for key in ignored)
    ids = [] if vary else sorted(record["question_id"] for record in run.records)
    return digest([values, run.config.get("failed"), run.manifest.get("models"), ids])


def given(run: StoredRun) -> set[str]:
    """The settings that the user set, "method.params.k"."""
    return {
        key
        for key, origin in run.origins.items()
        if origin != "default" and not origin.startswith(_BY_A_PRESET)
    }


def code_hash(run: StoredRun) -> str:
    """Seven digits of the hash of the user's own code; "not recorded" where there is none, or an
    older run."""
    code = run.manifest.get("code")
    return digest(code)[:7] if code else "not recorded"


def made_with(run: StoredRun) -> dict[str, str]:
    """What made the run, as far as it is recorded: "rows", "commit", "weights of NAME" and each
    package -> version."""
    manifest = run.manifest
    git = manifest.get("git") or {}
    rows = (manifest.get("dataset") or {}).get("fingerprint")
    made = {"rows": str(rows)[:7]} if rows else {}
    if git.get("commit"):
        made["commit"] = str(git["commit"])[:7] + (", changed" if git.get("dirty") else "")
    for role, identity in (manifest.get("models") or {}).items():
        used = (
            run.config.get(role) or (run.config.get("roles") or {}).get(role) or run.config["model"]
        )
        if weights := identity.get("weights"):
            parts = [weights, identity.get("query_weights"), identity.get("quantised")]
            made[f"weights of {used['name']}"] = digest(parts)[:7]
    return made | {
        str(name): str(version) for name, version in (manifest.get("packages") or {}).items()
    }


def only_in_seed(runs: Sequence[StoredRun]) -> list[str | None]:
    """For each run, a sentence where others differ from it in the seed alone; the best of them is
    no fair measure."""
    seeds: dict[str, set[int]] = defaultdict(set)
    keys = []
    for run in runs:
        settings = {
            **_answer_settings(run, ()),
            "dataset": run.config["dataset"]["name"],
            "seed": 0,
        }
        keys.append(canonical(settings))
        seeds[keys[-1]].add(int(run.config.get("seed") or 0))
    text = "one of {} runs that differ only in the seed ({}): report all of them, not the best"
    several = {
        key: text.format(len(own), ", ".join(map(str, sorted(own))))
        for key, own in seeds.items()
        if len(own) > 1
    }
    return [several.get(key) for key in keys]


def _with_words(name: RunNames, words: str) -> RunNames:
    """The name with words in brackets behind its label and base."""
    return replace(name, label=f"{name.label} ({words})", base=f"{name.base} ({words})")


def _alike(names: Sequence[RunNames], datasets: Sequence[str]) -> list[list[int]]:
    """Indices of names that look alike in a table of one data set: one label, or one base and equal
    settings."""
    groups_by_look: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for i, (name, dataset) in enumerate(zip(names, datasets, strict=True)):
        groups_by_look[dataset, name.base, canonical(name.values)].append(i)
    labels = _repeated_labels(names, datasets)
    groups = [group for group in groups_by_look.values() if len(group) > 1]
    ungrouped = labels - {i for group in groups for i in group}
    return groups + ([sorted(ungrouped)] if ungrouped else [])


def _name_run(
    run: StoredRun,
    in_label: set[str],
    values: Mapping[str, Any],
    swept: Sequence[str],
    ignored: Collection[str],
) -> RunNames:
    """The names of one run among those of its method, profile and model.

    in_label: settings that its label names, out of `swept`, those that vary; values: setting ->
    value of this run.
    """
    short = {_short_key(key) for key in (*swept, *ignored)}
    marks = [mark for mark in _mark_parts(run) if mark.partition("=")[0] not in short]
    marks = [
        mark for mark in marks if not (m := _COUNTED.fullmatch(mark)) or int(m[1]) > len(in_label)
    ]
    base = label({"name": run.config["method"]["name"], "mark": ", ".join(marks)})
    shown = [key for key in swept if key in in_label and key in values]
    texts = [value_text(values[key]) for key in shown]
    texts = [
        text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 3]}..."
        for text in texts
    ]
    words = [f"{_short_key(key)}={text}" for key, text in zip(shown, texts, strict=True)]
    return RunNames(
        " ".join([base, *words]),
        base,
        {_set_key(key): values[key] for key in swept if key in values},
    )


def _repeated_labels(names: Iterable[RunNames], datasets: Sequence[str]) -> set[int]:
    """Indices of names whose label another run of the same data set has too; datasets: that of each
    name."""
    keys = [(dataset, name.label) for dataset, name in zip(datasets, names, strict=True)]
    return {i for i, key in enumerate(keys) if keys.count(key) > 1}


def _answer_settings(run: StoredRun, ignored: Collection[str]) -> dict[str, Any]:
    """Setting ("method.params.k") -> value of all that may change an answer, but numbers taken from
    other runs."""
    from_runs = {f"method.params.{name}" for name in run.manifest.get("amounts") or {}}
    values = flatten(
        {part: run.config[part] for part in _PARTS if run.config.get(part) is not None}
    )
    return {
        k: v
        for k, v in values.items()
        if not (_LEFT_OUT.fullmatch(k) or k in from_runs or _set_key(k) in ignored)
    }


def _mark_parts(run: StoredRun) -> list[str]:
    """A method's mark, split at commas outside of brackets: ["pocket", "order=[a, b]"]."""
    mark = str(run.config["method"].get("mark") or "").replace(", ", ",")
    return re.findall(r"(?:\[[^\]]*\]|[^,\[])+", mark)


def _set_key(path: str) -> str:
    """A setting as `--set` names it: "method.params.k" -> "method.k", "roles.builder.name" ->
    "roles.builder"."""
    path = re.sub(r"^(method\.params|dataset\.options)\.", lambda m: m[0].split(".")[0] + ".", path)
    return re.sub(r"^(roles\.\w+|encoder|reranker)\.name$", r"\1", path)


def _short_key(path: str) -> str:
    """A setting in a label: "k", but "dataset.tokens"."""
    return _set_key(path).removeprefix("method.")
