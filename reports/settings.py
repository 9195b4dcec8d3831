"""In which settings runs of one method differ: their labels in tables, and the columns of a sweep.

    name_runs(runs)   -> [RunNames("bm25 k=3", "bm25", {"method.k": 3}), ...]
    labels(runs)      -> ["bm25 k=3", "bm25 k=1", "full-context"]

Runs of one method, profile and model are compared. A label names the values that the user set and
in which two of them differ. Where that is not enough, it names every value in which they differ,
then hash and date of changed own code, then what differs of rows, checkout and packages, and at
last when the run was started.
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


_PARTS = ("method", "dataset", "model", "roles", "encoder", "reranker", "seed")
"""Parts of a configuration that may change an answer."""
# Keys of them that change no answer, or are columns of their own.
_LEFT_OUT = re.compile(
    r"(method|dataset|model)\.name|method\.(implementation|mark|encoder|reranker)"
    r"|dataset\.(scorers|data|licence|citation|keep_texts)"
    r"|(.+\.)?(batch_size|device|device_map|prefill_chunk|memory_fraction|embedded|small"
    r"|offers\..*|timeout|retries|price|price\..*)"
)
_BY_A_PRESET = ("configs/", "$", "profile ")
"""Beginnings of the origins of values that no user set."""
_COUNTED = re.compile(r"(\d+) settings")
"""The part of a mark that stands for settings which are too many to name: "7 settings"."""
_LONGEST_VALUE = 24
NOT_RECORDED = "not recorded"


@dataclass(frozen=True)
class RunNames:
    """A run in tables.

    Args:
        label: Unlike that of any other run of its data set and model.
        base: The method, without the settings that vary.
        values: These settings, as `--set` names them, with their values.
    """

    label: str
    base: str
    values: dict[str, Any] = field(default_factory=dict)

    def with_words(self, words: str) -> RunNames:
        """The names with words in brackets at the end of label and base."""
        return replace(self, label=f"{self.label} ({words})", base=f"{self.base} ({words})")

    def with_date(self, run: StoredRun) -> RunNames:
        """The names with the start and hash of a run at the end of label and base."""
        return replace(self, label=with_date(self.label, run), base=with_date(self.base, run))


def labels(runs: Sequence[StoredRun], ignored: Collection[str] = ()) -> list[str]:
    """The method's name in tables for each run; ignored as in `name_runs`."""
    return [named.label for named in name_runs(runs, ignored)]


def name_runs(runs: Sequence[StoredRun], ignored: Collection[str] = ()) -> list[RunNames]:
    """Each run's names and the settings in which it differs from others of its method.

    Args:
        runs: Stored runs.
        ignored: Settings that need not tell runs apart, "method.t_n"; runs that differ in no other
            have one label then.
    """
    groups: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for place, run in enumerate(runs):
        method, model = str(run.config["method"]["name"]), str(run.config["model"]["name"])
        groups[method, *_profile(run), model].append(place)
    names: dict[int, RunNames] = {}
    for places in groups.values():
        group = [runs[place] for place in places]
        named = _GroupNames(group, ignored).names()
        names.update(zip(places, named, strict=True))
    return [names[place] for place in range(len(runs))]


def _profile(run: StoredRun) -> list[str]:
    """The parts of a method's mark that name no settings or prompts."""
    found = []
    for part in _mark_parts(run):
        if _COUNTED.fullmatch(part) or "=" in part or part.startswith("prompt "):
            continue
        found.append(part)
    return found


def with_date(label: str, run: StoredRun) -> str:
    """The label with start and hash at its end, and the results folder where two folders have a run
    of this name."""
    started = str(run.manifest.get("started") or "")[:16].replace("T", " ")
    words = [started, run.path.name.rpartition("--")[2]]
    if run.name != run.path.name:
        words.append(str(run.path.parent.parent))
    return f"{label} ({', '.join(filter(None, words))})"


def distinct_labels(
    labels: Sequence[str], runs: Sequence[StoredRun], places: Sequence[Hashable]
) -> list[str]:
    """The labels, `with_date` where another run has the same label at the same place.

    Args:
        labels: One a run.
        runs: The runs.
        places: Of each run: a table, a point of a line.
    """
    keys = list(zip(labels, places, strict=True))
    found = []
    for key, run in zip(keys, runs, strict=True):
        label = key[0]
        if keys.count(key) > 1:
            label = with_date(label, run)
        found.append(label)
    return found


def setting_values(run: StoredRun) -> dict[str, Any]:
    """Every setting of a run by the key that `--set` takes, those of its models too: "method.k",
    "model", "seed"."""
    values = {"model": run.config["model"]["name"]}
    for path, value in _flat_config(run).items():
        if not _LEFT_OUT.fullmatch(path):
            values[_set_key(path)] = value
    return values


def _flat_config(run: StoredRun) -> dict[str, Any]:
    """Setting ("method.params.k") -> value, of the parts that may change an answer."""
    return flatten({part: run.config[part] for part in _PARTS if run.config.get(part) is not None})


def settings(frame: pd.DataFrame) -> list[str]:
    """The columns that hold settings, in their order."""
    return [str(name) for name in frame.columns if is_setting(str(name))]


def as_printed(name: str, known: Collection[str]) -> str:
    """The one of `known` that a head of a table means: "k" is "method.k" where nothing else is
    called k."""
    if name not in known and f"method.{name}" in known:
        return f"method.{name}"
    return name


def is_setting(column: str) -> bool:
    """Whether a column holds the values of a setting: "method.k", "seed"; a score of the user's own
    has a colon."""
    if column == "seed":
        return True
    head, dot, _ = column.partition(".")
    return bool(dot) and ":" not in column and head in _PARTS


def is_number(value: Any) -> bool:
    """Whether a setting's value is a number, not true or false."""
    return isinstance(value, int | float) and not isinstance(value, bool)


class _GroupNames:
    """Names the runs of one method, profile and model, in their order.

    Each step tells runs apart that the steps before it left alike.
    """

    def __init__(self, runs: Sequence[StoredRun], ignored: Collection[str]) -> None:
        self._runs = runs
        self._ignored = ignored
        self._values = [_answer_settings(run, ignored) for run in runs]
        self._datasets = [str(run.config["dataset"]["name"]) for run in runs]
        self._names: list[RunNames] = []

    def names(self) -> list[RunNames]:
        """The names of all runs."""
        self._name_by_settings()
        self._add_own_code()
        self._add_what_made_them()
        self._add_dates()
        return self._names

    def _name_by_settings(self) -> None:
        """By the settings that the user set; where that is not enough, by all that vary."""
        varying = self._varying_settings()
        set_by_user = [given(run).intersection(varying) for run in self._runs]
        swept = [key for key in varying if any(key in keys for keys in set_by_user)]
        for run, keys, values in zip(self._runs, set_by_user, self._values, strict=True):
            self._names.append(_name_run(run, keys, values, swept, self._ignored))
        for i in _repeated_labels(self._names, self._datasets):
            self._names[i] = _name_run(
                self._runs[i], set(varying), self._values[i], varying, self._ignored
            )

    def _varying_settings(self) -> list[str]:
        """The settings in which two runs of one data set differ."""
        all_keys: dict[str, None] = {}
        for values in self._values:
            all_keys.update(dict.fromkeys(values))
        varying = []
        for key in all_keys:
            found = set()
            for dataset, values in zip(self._datasets, self._values, strict=True):
                found.add((dataset, canonical(values.get(key))))
            if len(found) > len(set(self._datasets)):
                varying.append(key)
        return varying

    def _add_own_code(self) -> None:
        """Hash and date, where own code changed between runs of a data set."""
        for dataset in dict.fromkeys(self._datasets):
            places = [i for i, name in enumerate(self._datasets) if name == dataset]
            if len({code_hash(self._runs[i]) for i in places}) == 1:
                continue
            for i in places:
                words = [f"code {code_hash(self._runs[i])}"]
                started = str(self._runs[i].manifest.get("started") or "")[:10]
                if started:
                    words.append(started)
                self._names[i] = self._names[i].with_words(", ".join(words))

    def _add_what_made_them(self) -> None:
        """The rows, weights, checkout and packages in which runs differ that look alike."""
        for alike in _alike(self._names, self._datasets):
            made = [self._made_with(i) for i in alike]
            differing = _differing_keys(made)
            if not differing:
                continue
            for i, versions in zip(alike, made, strict=True):
                words = [f"{key} {versions.get(key, NOT_RECORDED)}" for key in differing]
                self._names[i] = self._names[i].with_words(", ".join(words))

    def _made_with(self, i: int) -> dict[str, str]:
        """What made a run, without what its ignored settings change: one of the data set has rows
        of its own, one of a model weights."""
        free = set()
        for key in self._ignored:
            if key.startswith("dataset."):
                free.add("rows")
            elif not key.startswith("method."):
                free.add("weights")
        versions = made_with(self._runs[i])
        return {key: text for key, text in versions.items() if key.split()[0] not in free}

    def _add_dates(self) -> None:
        """When a run was started, where runs still look alike; runs that may be one line of a
        figure get the date of the first."""
        for alike in _alike(self._names, self._datasets):
            keys = [self._line_key(i) for i in alike]
            if len(set(keys)) == 1:
                continue
            for i, key in zip(alike, keys, strict=True):
                first = self._runs[alike[keys.index(key)]]
                self._names[i] = self._names[i].with_date(first)

    def _line_key(self, i: int) -> str:
        """A key that runs share which may be one line of a figure: settings, models, and questions
        unless those vary; without ignored settings no two runs share one."""
        if not self._ignored:
            return str(i)
        run = self._runs[i]
        ids: list[str] = []
        if not any(key.startswith("dataset.") for key in self._ignored):
            ids = sorted(record.question_id for record in run.records)
        made_of = [self._values[i], run.config.get("failed"), run.manifest.get("models"), ids]
        return digest(made_of)


def _differing_keys(tables: Sequence[Mapping[str, str]]) -> list[str]:
    """The keys whose values differ between tables, or that one of them lacks."""
    keys: dict[str, None] = {}
    for table in tables:
        keys.update(dict.fromkeys(table))
    return [key for key in keys if len({table.get(key) for table in tables}) > 1]


def given(run: StoredRun) -> set[str]:
    """The settings that the user set, "method.params.k"."""
    found = set()
    for key, origin in run.origins.items():
        if origin != "default" and not origin.startswith(_BY_A_PRESET):
            found.add(key)
    return found


def code_hash(run: StoredRun) -> str:
    """Seven digits of the hash of the user's own code; "not recorded" where there is none, or an
    older run."""
    code = run.manifest.get("code")
    if not code:
        return NOT_RECORDED
    return digest(code)[:7]


def made_with(run: StoredRun) -> dict[str, str]:
    """What made the run, as far as it is recorded: "rows", "commit", "weights of NAME" and each
    package -> version."""
    manifest = run.manifest
    made = {}
    rows = (manifest.get("dataset") or {}).get("fingerprint")
    if rows:
        made["rows"] = str(rows)[:7]
    git = manifest.get("git") or {}
    if git.get("commit"):
        made["commit"] = str(git["commit"])[:7]
        if git.get("dirty"):
            made["commit"] += ", changed"
    for role, identity in (manifest.get("models") or {}).items():
        weights = identity.get("weights")
        if weights:
            parts = [weights, identity.get("query_weights"), identity.get("quantised")]
            made[f"weights of {_model_of_role(run, role)['name']}"] = digest(parts)[:7]
    for name, version in (manifest.get("packages") or {}).items():
        made[str(name)] = str(version)
    return made


def _model_of_role(run: StoredRun, role: str) -> Mapping[str, Any]:
    """The settings of the model with a role: an encoder, one of `roles`, else the reader."""
    named = run.config.get(role) or (run.config.get("roles") or {}).get(role)
    found: Mapping[str, Any] = named or run.config["model"]
    return found


def only_in_seed(runs: Sequence[StoredRun]) -> list[str | None]:
    """For each run, a sentence where others differ from it in the seed alone; the best of them is
    no fair measure."""
    seeds: dict[str, set[int]] = defaultdict(set)
    keys = []
    for run in runs:
        values = _answer_settings(run, ())
        key = canonical({**values, "dataset": run.config["dataset"]["name"], "seed": 0})
        keys.append(key)
        seeds[key].add(int(run.config.get("seed") or 0))
    sentences: dict[str, str] = {}
    for key, own in seeds.items():
        if len(own) > 1:
            listed = ", ".join(map(str, sorted(own)))
            sentences[key] = (
                f"one of {len(own)} runs that differ only in the seed ({listed}): report all of "
                "them, not the best"
            )
    return [sentences.get(key) for key in keys]


def _alike(names: Sequence[RunNames], datasets: Sequence[str]) -> list[list[int]]:
    """Indices of names that look alike in a table of one data set: one label, or one base and equal
    settings."""
    by_look: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for i, (name, dataset) in enumerate(zip(names, datasets, strict=True)):
        by_look[dataset, name.base, canonical(name.values)].append(i)
    groups = [group for group in by_look.values() if len(group) > 1]
    ungrouped = _repeated_labels(names, datasets)
    for group in groups:
        ungrouped.difference_update(group)
    if ungrouped:
        groups.append(sorted(ungrouped))
    return groups


def _name_run(
    run: StoredRun,
    in_label: set[str],
    values: Mapping[str, Any],
    swept: Sequence[str],
    ignored: Collection[str],
) -> RunNames:
    """The names of one run among those of its method, profile and model.

    Args:
        run: The run.
        in_label: The settings that its label names, out of `swept`.
        values: Setting -> value of this run.
        swept: The settings that vary.
        ignored: As in `name_runs`.
    """
    varying = {_short_key(key) for key in (*swept, *ignored)}
    marks = _marks_without(run, varying, len(in_label))
    base = label({"name": run.config["method"]["name"], "mark": ", ".join(marks)})
    words = [base]
    own_values = {}
    for key in swept:
        if key not in values:
            continue
        own_values[_set_key(key)] = values[key]
        if key in in_label:
            words.append(f"{_short_key(key)}={_short_value(values[key])}")
    return RunNames(label=" ".join(words), base=base, values=own_values)


def _marks_without(run: StoredRun, varying: Collection[str], n_in_label: int) -> list[str]:
    """The parts of a method's mark that its label does not say anyway.

    A mark says how a run's method differs from its preset: "k=3", or "7 settings" where these are
    too many. Settings that vary between the runs have a place of their own in the label, so they
    are left out of the mark; so is "7 settings" where the label names as many settings.

    Args:
        run: The run.
        varying: The settings that vary, as a mark names them: "k".
        n_in_label: How many settings the label names.
    """
    marks = []
    for mark in _mark_parts(run):
        setting = mark.partition("=")[0]
        if setting in varying:
            continue
        counted = _COUNTED.fullmatch(mark)
        if counted and int(counted[1]) <= n_in_label:
            continue
        marks.append(mark)
    return marks


def _short_value(value: Any) -> str:
    """A value as text, cut where it is long."""
    text = value_text(value)
    if len(text) <= _LONGEST_VALUE:
        return text
    return f"{text[: _LONGEST_VALUE - 3]}..."


def _repeated_labels(names: Iterable[RunNames], datasets: Sequence[str]) -> set[int]:
    """Indices of names whose label another run of the same data set has too; datasets: that of each
    name."""
    keys = [(dataset, name.label) for dataset, name in zip(datasets, names, strict=True)]
    return {i for i, key in enumerate(keys) if keys.count(key) > 1}


def _answer_settings(run: StoredRun, ignored: Collection[str]) -> dict[str, Any]:
    """Setting ("method.params.k") -> value of all that may change an answer, but numbers taken from
    other runs."""
    from_runs = {f"method.params.{name}" for name in run.manifest.get("amounts") or {}}
    found = {}
    for key, value in _flat_config(run).items():
        if _LEFT_OUT.fullmatch(key) or key in from_runs or _set_key(key) in ignored:
            continue
        found[key] = value
    return found


def _mark_parts(run: StoredRun) -> list[str]:
    """A method's mark, split at commas outside of brackets: ["pocket", "order=[a, b]"]."""
    mark = str(run.config["method"].get("mark") or "").replace(", ", ",")
    return re.findall(r"(?:\[[^\]]*\]|[^,\[])+", mark)


def _set_key(path: str) -> str:
    """A setting as `--set` names it: "method.params.k" -> "method.k", "roles.builder.name" ->
    "roles.builder"."""
    path = re.sub(r"^method\.params\.", "method.", path)
    path = re.sub(r"^dataset\.options\.", "dataset.", path)
    return re.sub(r"^(roles\.\w+|encoder|reranker)\.name$", r"\1", path)


def _short_key(path: str) -> str:
    """A setting in a label: "k", but "dataset.tokens"."""
    return _set_key(path).removeprefix("method.")
