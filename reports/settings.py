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
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING

from typing_extensions import TypeIs

from harness.config.run_label import table_label
from harness.config.schema import canonical_json, json_sha256
from harness.config.yaml_tree import flatten, value_text
from harness.storage.manifest_file import GitState
from harness.storage.run_folder import StoredRun
from harness.storage.stored_config import StoredEncoder, StoredModel
from reports.run_records import question_ids

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
"""How the origins of values start that no user set."""
_COUNTED = re.compile(r"(\d+) settings")
"""The part of a mark that stands for settings which are too many to name: "7 settings"."""
_LONGEST_VALUE = 24
NOT_RECORDED = "not recorded"


@dataclass(frozen=True)
class RunNames:
    """The names of a run in tables.

    Args:
        label: A name unlike that of any other run of its data set and model: "bm25 k=3".
        base: The method's name without the settings that vary: "bm25".
        values: These settings, as `--set` names them, with their values: {"method.k": 3}.
    """

    label: str
    base: str
    values: dict[str, object] = field(default_factory=dict)

    def with_words(self, words: str) -> RunNames:
        """The names with words in brackets at the end of label and base: "bm25 (code 0a1b2c3)"."""
        return replace(self, label=f"{self.label} ({words})", base=f"{self.base} ({words})")

    def with_date(self, run: StoredRun) -> RunNames:
        """The names with the start and hash of a run in brackets at the end of label and base."""
        return replace(self, label=with_date(self.label, run), base=with_date(self.base, run))


def labels(runs: Sequence[StoredRun], ignored: Collection[str] = ()) -> list[str]:
    """The label of each run: the name of its method in tables, with what tells it from others.

    Args:
        runs: Stored runs.
        ignored: Settings that need not tell runs apart, "method.t_n".
    """
    return [named.label for named in name_runs(runs, ignored)]


def name_runs(runs: Sequence[StoredRun], ignored: Collection[str] = ()) -> list[RunNames]:
    """Each run's names and the settings in which it differs from others of its method.

    Args:
        runs: Stored runs.
        ignored: Settings that need not tell runs apart, "method.t_n"; runs that differ in no other
            setting then have one label.
    """
    groups: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for place, run in enumerate(runs):
        method = run.config.method.name
        model = run.config.model.name
        groups[method, *_profile(run), model].append(place)
    names: dict[int, RunNames] = {}
    for places in groups.values():
        named = _GroupNames([runs[place] for place in places], ignored).names()
        names.update(zip(places, named, strict=True))  # place in `runs` -> names
    return [names[place] for place in range(len(runs))]


def _profile(run: StoredRun) -> list[str]:
    """The parts of a method's mark that name no settings or prompts: ["pocket"] of "pocket,
    k=3"."""
    found = []
    for part in _mark_parts(run):
        if _COUNTED.fullmatch(part) or "=" in part or part.startswith("prompt "):
            continue
        found.append(part)
    return found


def with_date(label: str, run: StoredRun) -> str:
    """The label with start and hash of the run: "bm25 (2025-01-31 12:30, 0a1b2c3d)".

    The results folder is named too where two folders have a run of this name.
    """
    started = str(run.manifest.started or "")[:16].replace("T", " ")
    words = [started, run.path.name.rpartition("--")[2]]
    if run.name != run.path.name:
        words.append(str(run.path.parent.parent))
    return f"{label} ({', '.join(filter(None, words))})"


def distinct_labels(
    labels: Sequence[str], runs: Sequence[StoredRun], places: Sequence[Hashable]
) -> list[str]:
    """The labels, with start and hash where another run has the same label at the same place.

    Args:
        labels: One a run.
        runs: The runs.
        places: Where each run stands: the name of a table, a point of a line.
    """
    keys = list(zip(labels, places, strict=True))
    found = []
    for key, run in zip(keys, runs, strict=True):
        label = key[0]
        if keys.count(key) > 1:
            label = with_date(label, run)
        found.append(label)
    return found


def setting_values(run: StoredRun) -> dict[str, object]:
    """The settings of a run and of its models, by the key that `--set` takes.

        -> {"model": "pocket-llama", "method.k": 5, "seed": 0}

    Those that change no answer, such as prices, are left out.
    """
    values: dict[str, object] = {"model": run.config.model.name}
    for path, value in _flat_config(run).items():
        if not _LEFT_OUT.fullmatch(path):
            values[_set_key(path)] = value
    return values


def _flat_config(run: StoredRun) -> dict[str, object]:
    """The settings in the parts of a run's configuration that may change an answer.

    -> {"method.name": "bm25", "method.params.k": 5, "seed": 0, ...}
    """
    config = run.config.to_json()
    parts = {}
    for part in _PARTS:
        if config.get(part) is not None:
            parts[part] = config[part]
    return flatten(parts)


def settings(frame: pd.DataFrame) -> list[str]:
    """The names of the columns that hold settings, in their order: ["method.k", "seed"]."""
    return list(filter(is_setting, map(str, frame.columns)))


def as_printed(name: str, known: Collection[str]) -> str:
    """The column that a head of a table means: "k" is "method.k" where no column is called k.

    Args:
        name: The head, or a column's full name.
        known: The full names of all columns.
    """
    if name not in known and f"method.{name}" in known:
        return f"method.{name}"
    return name


def is_setting(column: str) -> bool:
    """Whether a column holds the values of a setting, by its name: "method.k" or "seed", not
    "module:function"."""
    if column == "seed":
        return True
    head, dot, _ = column.partition(".")
    return bool(dot) and ":" not in column and head in _PARTS


def is_number(value: object) -> TypeIs[float]:
    """Whether a setting's value is a number, not true or false."""
    return isinstance(value, int | float) and not isinstance(value, bool)


@dataclass(eq=False)
class _Member:
    """A run of a group that is being named.

    Args:
        place: Its place in the group.
        run: The run.
        values: Setting ("method.params.k") -> value, of all that may change an answer.
        names: Its names so far.
    """

    place: int
    run: StoredRun
    values: Mapping[str, object]
    names: RunNames = RunNames("", "")

    @property
    def dataset(self) -> str:
        """The name of the run's data set."""
        return self.run.config.dataset.name


class _GroupNames:
    """Names the runs of one method, profile and model, in their order.

    Each step tells runs apart that the steps before it left alike.
    """

    def __init__(self, runs: Sequence[StoredRun], ignored: Collection[str]) -> None:
        """Start with the runs in their order, and no names.

        Args:
            runs: The runs, of one method, profile and model.
            ignored: Settings that need not tell runs apart.
        """
        self._ignored = ignored
        self._members: list[_Member] = []
        for place, run in enumerate(runs):
            self._members.append(_Member(place, run, _answer_settings(run, ignored)))

    def names(self) -> list[RunNames]:
        """The names of all runs, in their order."""
        self._name_by_settings()
        self._add_own_code()
        self._add_versions()
        self._add_dates()
        return [member.names for member in self._members]

    def _name_by_settings(self) -> None:
        """Set the names of all runs by settings.

        A label names the settings that the user set and that vary; where two runs would have one
        label, all that vary.
        """
        varying = self._varying_settings()
        by_user: set[str] = set()
        for member in self._members:
            by_user |= user_settings(member.run)
        swept = [key for key in varying if key in by_user]
        for member in self._members:
            in_label = user_settings(member.run).intersection(varying)
            member.names = _name_run(member, in_label, swept, self._ignored)
        for member in _same_labels(self._members):
            member.names = _name_run(member, set(varying), varying, self._ignored)

    def _varying_settings(self) -> list[str]:
        """The settings in which two runs of one data set differ: ["method.params.k"]."""
        all_keys: dict[str, None] = {}
        datasets = set()
        for member in self._members:
            all_keys.update(dict.fromkeys(member.values))
            datasets.add(member.dataset)
        varying = []
        for key in all_keys:
            found = set()
            for member in self._members:
                found.add((member.dataset, canonical_json(member.values.get(key))))
            if len(found) > len(datasets):
                varying.append(key)
        return varying

    def _add_own_code(self) -> None:
        """Add the hash of the user's own code and a date to the names, in data sets whose runs
        differ in this code."""
        by_dataset: dict[str, list[_Member]] = defaultdict(list)
        for member in self._members:
            by_dataset[member.dataset].append(member)
        for group in by_dataset.values():
            if len({code_hash(member.run) for member in group}) == 1:
                continue
            for member in group:
                words = [f"code {code_hash(member.run)}"]
                started = str(member.run.manifest.started or "")[:10]
                if started:
                    words.append(started)
                member.names = member.names.with_words(", ".join(words))

    def _add_versions(self) -> None:
        """Add to the names of runs that look alike the versions in which they differ: of rows,
        weights, checkout and packages."""
        for alike in _alike(self._members):
            versions_of_runs = [self._versions_of(member.run) for member in alike]
            differing = _differing_keys(versions_of_runs)
            if not differing:
                continue
            for member, versions in zip(alike, versions_of_runs, strict=True):
                words = [f"{key} {versions.get(key, NOT_RECORDED)}" for key in differing]
                member.names = member.names.with_words(", ".join(words))

    def _versions_of(self, run: StoredRun) -> dict[str, str]:
        """What made a run, as in `made_with`, without what the ignored settings change.

        An ignored setting of the data set changes the rows, one of a model the weights.
        """
        changed_by_ignored = set()
        for key in self._ignored:
            if key.startswith("dataset."):
                changed_by_ignored.add("rows")
            elif not key.startswith("method."):
                changed_by_ignored.add("weights")
        kept = {}
        for key, version in made_with(run).items():
            kind = key.split()[0]  # "weights" of "weights of llama-8b"
            if kind not in changed_by_ignored:
                kept[key] = version
        return kept

    def _add_dates(self) -> None:
        """Add start and hash to the names of runs that still look alike.

        Runs that may be one line of a figure get those of the first of them; nothing is added where
        all runs may be one line.
        """
        for alike in _alike(self._members):
            lines: dict[str, list[_Member]] = defaultdict(list)
            for member in alike:
                lines[self._line_key(member)].append(member)
            if len(lines) == 1:
                continue
            for line in lines.values():
                for member in line:
                    member.names = member.names.with_date(line[0].run)

    def _line_key(self, member: _Member) -> str:
        """A key that is equal for runs which may be one line of a figure.

        These have the same settings and models, and the same questions unless settings of the data
        set are ignored; without ignored settings each run has a key of its own.
        """
        if not self._ignored:
            return str(member.place)
        run = member.run
        ids: list[str] = []
        if not any(key.startswith("dataset.") for key in self._ignored):
            ids = sorted(question_ids(run))
        made_of = [member.values, run.config.failed, run.manifest.models, ids]
        return json_sha256(made_of)


def _differing_keys(tables: Sequence[Mapping[str, str]]) -> list[str]:
    """The keys whose values are not the same in all tables, or that some table lacks."""
    found: dict[str, set[str | None]] = {}
    for table in tables:
        for key in table:
            found.setdefault(key, set())
    for key, values in found.items():
        values.update(table.get(key) for table in tables)
    return [key for key, values in found.items() if len(values) > 1]


def user_settings(run: StoredRun) -> set[str]:
    """The settings that the user set, by themselves or in a file of their own:
    {"method.params.k"}."""
    found = set()
    for key, origin in run.origins.items():
        if origin != "default" and not origin.startswith(_BY_A_PRESET):
            found.add(key)
    return found


def code_hash(run: StoredRun) -> str:
    """Seven digits of the hash of the user's own code; "not recorded" where the run used none, or
    is an older one."""
    code = run.manifest.code
    if not code:
        return NOT_RECORDED
    return json_sha256(code)[:7]


def made_with(run: StoredRun) -> dict[str, str]:
    """What made the run, as far as it is recorded.

    -> {"rows": "0a1b2c3", "commit": "4d5e6f7, changed", "weights of llama-8b": "8a9b0c1",
        "numpy": "2.1.0"}
    """
    manifest = run.manifest
    made = {}
    rows = manifest.dataset.fingerprint
    if rows:
        made["rows"] = str(rows)[:7]
    git = manifest.git or GitState()
    if git.commit:
        made["commit"] = git.commit[:7]
        if git.dirty:
            made["commit"] += ", changed"
    for role, identity in manifest.models.items():
        weights = identity.get("weights")
        if weights:
            parts = [weights, identity.get("query_weights"), identity.get("quantised")]
            made[f"weights of {_model_of_role(run, role).name}"] = json_sha256(parts)[:7]
    for name, version in manifest.packages.items():
        made[str(name)] = str(version)
    return made


def _model_of_role(run: StoredRun, role: str) -> StoredModel | StoredEncoder:
    """The settings of the model with a role: an encoder, a language model of its own, else the
    reader."""
    return run.config.encoder_of(role) or run.config.model_of(role)


def only_in_seed(runs: Sequence[StoredRun]) -> list[str | None]:
    """For each run, a sentence where other runs differ from it in the seed alone; None elsewhere.

    The sentence says that the best of these runs is no fair measure.
    """
    seeds: dict[str, set[int]] = defaultdict(set)
    keys = []
    for run in runs:
        values = _answer_settings(run, ())
        key = canonical_json({**values, "dataset": run.config.dataset.name, "seed": 0})
        keys.append(key)
        seeds[key].add(run.config.seed)
    sentences: dict[str, str] = {}
    for key, own in seeds.items():
        if len(own) > 1:
            listed = ", ".join(map(str, sorted(own)))
            sentences[key] = (
                f"one of {len(own)} runs that differ only in the seed ({listed}): report all of "
                "them, not the best"
            )
    return [sentences.get(key) for key in keys]


def _alike(members: Sequence[_Member]) -> list[list[_Member]]:
    """Groups of runs that look alike in a table of one data set.

    They have one base and equal settings; the last group is of all others whose label is not their
    own.
    """
    by_look: dict[tuple[str, ...], list[_Member]] = defaultdict(list)
    for member in members:
        names = member.names
        by_look[member.dataset, names.base, canonical_json(names.values)].append(member)
    groups = [group for group in by_look.values() if len(group) > 1]
    grouped = set(chain.from_iterable(groups))
    ungrouped = [member for member in _same_labels(members) if member not in grouped]
    if ungrouped:
        groups.append(ungrouped)
    return groups


def _name_run(
    member: _Member, in_label: set[str], swept: Sequence[str], ignored: Collection[str]
) -> RunNames:
    """The names of one run among those of its method, profile and model.

    Args:
        member: The run.
        in_label: The settings that its label names, out of `swept`.
        swept: The settings that vary, which become `RunNames.values`.
        ignored: Settings that need not tell runs apart; its mark does not name them either.
    """
    varying = set(map(_short_key, [*swept, *ignored]))
    marks = _marks_without(member.run, varying, len(in_label))
    method = member.run.config.method.name
    base = table_label({"name": method, "mark": ", ".join(marks)})
    words = [base]
    own_values = {}
    for key in swept:
        if key not in member.values:
            continue
        value = member.values[key]
        own_values[_set_key(key)] = value
        if key in in_label:
            words.append(f"{_short_key(key)}={_short_value(value)}")
    return RunNames(label=" ".join(words), base=base, values=own_values)


def _same_labels(members: Sequence[_Member]) -> list[_Member]:
    """The runs whose label another run of the same data set has too."""
    by_label: dict[tuple[str, str], list[_Member]] = defaultdict(list)
    for member in members:
        by_label[member.dataset, member.names.label].append(member)
    found = []
    for member in members:
        same_label = by_label[member.dataset, member.names.label]
        if len(same_label) > 1:
            found.append(member)
    return found


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


def _short_value(value: object) -> str:
    """A value as text of at most 24 characters, cut with "..." where it is longer."""
    text = value_text(value)
    if len(text) <= _LONGEST_VALUE:
        return text
    return f"{text[: _LONGEST_VALUE - 3]}..."


def _answer_settings(run: StoredRun, ignored: Collection[str]) -> dict[str, object]:
    """The settings of a run that may change an answer, by path: {"method.params.k": 5}.

    Left out are numbers that were taken from other runs, and ignored settings.

    Args:
        run: The run.
        ignored: Settings as `--set` names them, "method.k".
    """
    from_runs = {f"method.params.{name}" for name in run.manifest.amounts}
    found = {}
    for key, value in _flat_config(run).items():
        if _LEFT_OUT.fullmatch(key) or key in from_runs or _set_key(key) in ignored:
            continue
        found[key] = value
    return found


def _mark_parts(run: StoredRun) -> list[str]:
    """A method's mark, split at commas outside of brackets: "pocket, order=[a,b]" -> ["pocket",
    "order=[a,b]"]."""
    mark = (run.config.method.mark or "").replace(", ", ",")
    return re.findall(r"(?:\[[^\]]*\]|[^,\[])+", mark)


def _set_key(path: str) -> str:
    """A setting as `--set` names it: "method.params.k" -> "method.k", "roles.builder.name" ->
    "roles.builder"."""
    path = re.sub(r"^method\.params\.", "method.", path)
    path = re.sub(r"^dataset\.options\.", "dataset.", path)
    return re.sub(r"^(roles\.\w+|encoder|reranker)\.name$", r"\1", path)


def _short_key(path: str) -> str:
    """A setting as labels name it: "method.params.k" -> "k", "dataset.options.tokens" ->
    "dataset.tokens"."""
    return _set_key(path).removeprefix("method.")
