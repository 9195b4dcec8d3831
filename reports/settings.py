"""In which settings runs of one method differ: their labels in tables, and the columns of a sweep.

    name_runs(runs)   -> [RunNames("bm25 k=3", "bm25", {"method.k": 3}), ...]
    run_labels(runs)      -> ["bm25 k=3", "bm25 k=1", "full-context"]

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
from pathlib import Path
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


_CONFIG_PARTS = ("method", "dataset", "model", "roles", "encoder", "reranker", "seed")
"""Parts of a configuration that may change an answer."""
# Keys of them that change no answer, or are columns of their own.
_IGNORED_KEYS = re.compile(
    r"(method|dataset|model)\.name|method\.(implementation|mark|encoder|reranker)"
    r"|dataset\.(scorers|data|licence|citation|keep_texts)"
    r"|(.+\.)?(batch_size|device|device_map|prefill_chunk|memory_fraction|embedded|small"
    r"|offers\..*|timeout|retries|price|price\..*)"
)
_PRESET_ORIGINS = ("configs/", "$", "profile ")
"""How the origins of values start that no user set."""
_COUNT_OF_SETTINGS = re.compile(r"(\d+) settings")
"""The part of a mark that stands for settings which are too many to name: "7 settings"."""
_MAX_VALUE_CHARACTERS = 24
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
        label = label_with_date(self.label, run)
        base = label_with_date(self.base, run)
        return replace(self, label=label, base=base)


def run_labels(runs: Sequence[StoredRun], ignored: Collection[str] = ()) -> list[str]:
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
    positions_by_group: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for position, run in enumerate(runs):
        method = run.config.method.name
        model = run.config.model.name
        positions_by_group[method, *_profile_parts(run), model].append(position)
    names: dict[int, RunNames] = {}
    for positions in positions_by_group.values():
        names_of_group = _GroupNaming([runs[position] for position in positions], ignored).names()
        names.update(zip(positions, names_of_group, strict=True))  # place in `runs` -> names
    return [names[position] for position in range(len(runs))]


def _profile_parts(run: StoredRun) -> list[str]:
    """The parts of a method's mark that name no settings or prompts: ["pocket"] of "pocket,
    k=3"."""
    profile_parts = []
    for part in _mark_parts(run):
        names_settings = "=" in part or _COUNT_OF_SETTINGS.fullmatch(part) is not None
        names_prompt = part.startswith("prompt ")
        if not names_settings and not names_prompt:
            profile_parts.append(part)
    return profile_parts


def label_with_date(label: str, run: StoredRun) -> str:
    """The label with start and hash of the run: "bm25 (2025-01-31 12:30, 0a1b2c3d)".

    The results folder is named too where two folders have a run of this name; one that was given
    by its absolute path by its last two parts, as pages are shown to others.
    """
    started = str(run.manifest.started or "")[:16].replace("T", " ")
    words = [started, run.path.name.rpartition("--")[2]]
    if run.name != run.path.name:
        results_folder = run.path.parent.parent
        if results_folder.is_absolute():
            results_folder = Path(*results_folder.parts[1:][-2:])
        words.append(str(results_folder))
    known_words = [word for word in words if word]
    return f"{label} ({', '.join(known_words)})"


def distinct_labels(
    labels: Sequence[str], runs: Sequence[StoredRun], positions: Sequence[Hashable]
) -> list[str]:
    """The labels, with start and hash where another run has the same label at the same place.

    Args:
        labels: One a run.
        runs: The runs.
        positions: Where each run stands: the name of a table, a point of a line.
    """
    labels_and_positions = list(zip(labels, positions, strict=True))
    distinct = []
    for label_and_position, run in zip(labels_and_positions, runs, strict=True):
        label = label_and_position[0]
        if labels_and_positions.count(label_and_position) > 1:
            label = label_with_date(label, run)
        distinct.append(label)
    return distinct


def setting_values(run: StoredRun) -> dict[str, object]:
    """The settings of a run and of its models, by the key that `--set` takes.

        -> {"model": "pocket-llama", "method.k": 5, "seed": 0}

    Those that change no answer, such as prices, are left out.
    """
    values: dict[str, object] = {"model": run.config.model.name}
    for path, value in _flat_settings(run).items():
        if not _IGNORED_KEYS.fullmatch(path):
            values[_set_key(path)] = value
    return values


def _flat_settings(run: StoredRun) -> dict[str, object]:
    """The settings in the parts of a run's configuration that may change an answer.

    -> {"method.name": "bm25", "method.params.k": 5, "seed": 0, ...}
    """
    config = run.config.to_json()
    parts = {}
    for part in _CONFIG_PARTS:
        if config.get(part) is not None:
            parts[part] = config[part]
    return flatten(parts)


def setting_columns(frame: pd.DataFrame) -> list[str]:
    """The names of the columns that hold settings, in their order: ["method.k", "seed"]."""
    return list(filter(is_setting, map(str, frame.columns)))


def full_column_name(name: str, known_columns: Collection[str]) -> str:
    """The column that a head of a table means: "k" is "method.k" where no column is called k.

    Args:
        name: The head, or a column's full name.
        known_columns: The full names of all columns.
    """
    if name not in known_columns and f"method.{name}" in known_columns:
        return f"method.{name}"
    return name


def is_setting(column: str) -> bool:
    """Whether a column holds the values of a setting, by its name: "method.k" or "seed", not
    "module:function"."""
    if column == "seed":
        return True
    head, dot, _ = column.partition(".")
    return bool(dot) and ":" not in column and head in _CONFIG_PARTS


def is_number(value: object) -> TypeIs[float]:
    """Whether a setting's value is a number, not true or false."""
    return isinstance(value, int | float) and not isinstance(value, bool)


@dataclass(eq=False)
class _NamedRun:
    """A run of a group that is being named.

    Args:
        position: Its place in the group.
        run: The run.
        values: Setting ("method.params.k") -> value, of all that may change an answer.
        names: Its names so far.
    """

    position: int
    run: StoredRun
    values: Mapping[str, object]
    names: RunNames = RunNames("", "")

    @property
    def dataset(self) -> str:
        """The name of the run's data set."""
        return self.run.config.dataset.name


class _GroupNaming:
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
        self._named_runs: list[_NamedRun] = []
        for position, run in enumerate(runs):
            self._named_runs.append(_NamedRun(position, run, _settings_for_answers(run, ignored)))

    def names(self) -> list[RunNames]:
        """The names of all runs, in their order."""
        self._name_by_settings()
        self._add_hashes_of_own_code()
        self._add_versions()
        self._add_dates()
        return [named_run.names for named_run in self._named_runs]

    def _name_by_settings(self) -> None:
        """Set the names of all runs by settings.

        A label names the settings that the user set and that vary; where two runs would have one
        label, all that vary.
        """
        varying_keys = self._varying_settings()
        user_keys: set[str] = set()
        for named_run in self._named_runs:
            user_keys |= user_settings(named_run.run)
        varying_user_keys = [key for key in varying_keys if key in user_keys]
        for named_run in self._named_runs:
            label_keys = user_settings(named_run.run).intersection(varying_keys)
            named_run.names = _names_of_run(named_run, label_keys, varying_user_keys, self._ignored)
        for named_run in _runs_with_shared_label(self._named_runs):
            named_run.names = _names_of_run(
                named_run, set(varying_keys), varying_keys, self._ignored
            )

    def _varying_settings(self) -> list[str]:
        """The settings in which two runs of one data set differ: ["method.params.k"]."""
        all_keys: dict[str, None] = {}  # an ordered set
        datasets = set()
        for named_run in self._named_runs:
            all_keys.update(dict.fromkeys(named_run.values))
            datasets.add(named_run.dataset)
        varying = []
        for key in all_keys:
            values_by_dataset = set()
            for named_run in self._named_runs:
                value = canonical_json(named_run.values.get(key))
                values_by_dataset.add((named_run.dataset, value))
            one_dataset_has_several = len(values_by_dataset) > len(datasets)
            if one_dataset_has_several:
                varying.append(key)
        return varying

    def _add_hashes_of_own_code(self) -> None:
        """Add the hash of the user's own code and a date to the names, in data sets whose runs
        differ in this code."""
        by_dataset: dict[str, list[_NamedRun]] = defaultdict(list)
        for named_run in self._named_runs:
            by_dataset[named_run.dataset].append(named_run)
        for group in by_dataset.values():
            if len({own_code_hash(named_run.run) for named_run in group}) == 1:
                continue
            for named_run in group:
                words = [f"code {own_code_hash(named_run.run)}"]
                started = str(named_run.run.manifest.started or "")[:10]
                if started:
                    words.append(started)
                named_run.names = named_run.names.with_words(", ".join(words))

    def _add_versions(self) -> None:
        """Add to the names of runs that look alike the versions in which they differ: of rows,
        weights, checkout and packages."""
        for look_alikes in _groups_that_look_alike(self._named_runs):
            versions_of_runs = [
                self._versions_outside_ignored(named_run.run) for named_run in look_alikes
            ]
            differing = _differing_keys(versions_of_runs)
            if not differing:
                continue
            for named_run, versions in zip(look_alikes, versions_of_runs, strict=True):
                words = [f"{key} {versions.get(key, NOT_RECORDED)}" for key in differing]
                named_run.names = named_run.names.with_words(", ".join(words))

    def _versions_outside_ignored(self, run: StoredRun) -> dict[str, str]:
        """What made a run, as in `run_versions`, without what the ignored settings change.

        An ignored setting of the data set changes the rows, one of a model the weights.
        """
        changed_by_ignored = set()
        for key in self._ignored:
            if key.startswith("dataset."):
                changed_by_ignored.add("rows")
            elif not key.startswith("method."):
                changed_by_ignored.add("weights")
        unaffected_versions = {}
        for key, version in run_versions(run).items():
            kind = key.split()[0]  # "weights" of "weights of llama-8b"
            if kind not in changed_by_ignored:
                unaffected_versions[key] = version
        return unaffected_versions

    def _add_dates(self) -> None:
        """Add start and hash to the names of runs that still look alike.

        Runs that may be one line of a figure get those of the first of them; nothing is added where
        all runs may be one line.
        """
        for look_alikes in _groups_that_look_alike(self._named_runs):
            runs_by_line: dict[str, list[_NamedRun]] = defaultdict(list)
            for named_run in look_alikes:
                runs_by_line[self._line_key(named_run)].append(named_run)
            if len(runs_by_line) == 1:
                continue
            for runs_of_line in runs_by_line.values():
                for named_run in runs_of_line:
                    named_run.names = named_run.names.with_date(runs_of_line[0].run)

    def _line_key(self, named_run: _NamedRun) -> str:
        """A key that is equal for runs which may be one line of a figure.

        These have the same settings and models, and the same questions unless settings of the data
        set are ignored; without ignored settings each run has a key of its own.
        """
        if not self._ignored:
            return str(named_run.position)
        run = named_run.run
        question_ids_of_run: list[str] = []
        ignores_the_dataset = any(key.startswith("dataset.") for key in self._ignored)
        if not ignores_the_dataset:
            question_ids_of_run = sorted(question_ids(run))
        key_values = [named_run.values, run.config.failed, run.manifest.models, question_ids_of_run]
        return json_sha256(key_values)


def _differing_keys(versions_of_runs: Sequence[Mapping[str, str]]) -> list[str]:
    """The keys whose values are not the same in all runs, or that some run lacks.

    [{"numpy": "2.1"}, {"numpy": "2.0"}] -> ["numpy"]
    """
    all_keys: dict[str, None] = {}  # they serve as an ordered set
    for versions in versions_of_runs:
        all_keys.update(dict.fromkeys(versions))
    differing_keys = []
    for key in all_keys:
        values = {versions.get(key) for versions in versions_of_runs}
        if len(values) > 1:
            differing_keys.append(key)
    return differing_keys


def user_settings(run: StoredRun) -> set[str]:
    """The settings that the user set, by themselves or in a file of their own:
    {"method.params.k"}."""
    keys = set()
    for key, origin in run.origins.items():
        if origin != "default" and not origin.startswith(_PRESET_ORIGINS):
            keys.add(key)
    return keys


def own_code_hash(run: StoredRun) -> str:
    """Seven digits of the hash of the user's own code; "not recorded" where the run used none, or
    is an older one."""
    code = run.manifest.code
    if not code:
        return NOT_RECORDED
    return json_sha256(code)[:7]


def run_versions(run: StoredRun) -> dict[str, str]:
    """What made the run, as far as it is recorded.

    -> {"rows": "0a1b2c3", "commit": "4d5e6f7, changed", "weights of llama-8b": "8a9b0c1",
        "numpy": "2.1.0"}
    """
    manifest = run.manifest
    versions = {}
    rows_hash = manifest.dataset.fingerprint
    if rows_hash:
        versions["rows"] = str(rows_hash)[:7]
    git = manifest.git or GitState()
    if git.commit:
        versions["commit"] = git.commit[:7]
        if git.dirty:
            versions["commit"] += ", changed"
    for role, identity in manifest.models.items():
        weights = identity.get("weights")
        if weights:
            name = _model_of_role(run, role).name
            weight_hashes = [weights, identity.get("query_weights"), identity.get("quantised")]
            versions[f"weights of {name}"] = json_sha256(weight_hashes)[:7]
    for package, version in manifest.packages.items():
        versions[str(package)] = str(version)
    return versions


def _model_of_role(run: StoredRun, role: str) -> StoredModel | StoredEncoder:
    """The settings of the model with a role: an encoder, a language model of its own, else the
    reader."""
    return run.config.encoder_of(role) or run.config.model_of(role)


def notes_on_seeds(runs: Sequence[StoredRun]) -> list[str | None]:
    """For each run, a sentence where other runs differ from it in the seed alone; None elsewhere.

    The sentence says that the best of these runs is no fair measure.
    """
    seeds_by_settings: dict[str, set[int]] = defaultdict(set)
    settings_keys = []
    for run in runs:
        values = _settings_for_answers(run, ())
        key = canonical_json({**values, "dataset": run.config.dataset.name, "seed": 0})
        settings_keys.append(key)
        seeds_by_settings[key].add(run.config.seed)
    sentences: dict[str, str] = {}
    for key, seeds in seeds_by_settings.items():
        if len(seeds) > 1:
            seeds_in_words = ", ".join(map(str, sorted(seeds)))
            sentences[key] = (
                f"one of {len(seeds)} runs that differ only in the seed ({seeds_in_words}): "
                "report all of them, not the best"
            )
    return [sentences.get(key) for key in settings_keys]


def _groups_that_look_alike(named_runs: Sequence[_NamedRun]) -> list[list[_NamedRun]]:
    """Groups of runs that look alike in a table of one data set.

    They have one base and equal settings; the last group is of all others whose label is not their
    own.
    """
    runs_by_look: dict[tuple[str, ...], list[_NamedRun]] = defaultdict(list)
    for named_run in named_runs:
        names = named_run.names
        runs_by_look[named_run.dataset, names.base, canonical_json(names.values)].append(named_run)
    groups = [group for group in runs_by_look.values() if len(group) > 1]
    grouped = set(chain.from_iterable(groups))
    sharing = _runs_with_shared_label(named_runs)
    ungrouped = [named_run for named_run in sharing if named_run not in grouped]
    if ungrouped:
        groups.append(ungrouped)
    return groups


def _names_of_run(
    named_run: _NamedRun, label_keys: set[str], value_keys: Sequence[str], ignored: Collection[str]
) -> RunNames:
    """The names of one run among those of its method, profile and model.

    -> RunNames(label="bm25 k=3", base="bm25", values={"method.k": 3})

    Args:
        named_run: The run.
        label_keys: The settings that its label names, out of `value_keys`.
        value_keys: The settings that vary, which become `RunNames.values`.
        ignored: Settings that need not tell runs apart; its mark does not name them either.
    """
    keys_outside_mark = set(map(_key_in_label, [*value_keys, *ignored]))
    marks = _mark_without_varying_settings(named_run.run, keys_outside_mark, len(label_keys))
    method = named_run.run.config.method.name
    base = table_label({"name": method, "mark": ", ".join(marks)})
    label_parts = [base]
    values = {}
    for key in value_keys:
        if key not in named_run.values:
            continue
        value = named_run.values[key]
        values[_set_key(key)] = value
        if key in label_keys:
            label_parts.append(f"{_key_in_label(key)}={_value_in_label(value)}")
    return RunNames(label=" ".join(label_parts), base=base, values=values)


def _runs_with_shared_label(named_runs: Sequence[_NamedRun]) -> list[_NamedRun]:
    """The runs whose label another run of the same data set has too."""
    runs_by_label: dict[tuple[str, str], list[_NamedRun]] = defaultdict(list)
    for named_run in named_runs:
        runs_by_label[named_run.dataset, named_run.names.label].append(named_run)
    sharing = []
    for named_run in named_runs:
        same_label = runs_by_label[named_run.dataset, named_run.names.label]
        if len(same_label) > 1:
            sharing.append(named_run)
    return sharing


def _mark_without_varying_settings(
    run: StoredRun, varying: Collection[str], n_label_settings: int
) -> list[str]:
    """The parts of a method's mark that stay in the name of a run.

    A mark says how a run's method differs from its preset: "k=3", or "7 settings" where these are
    too many. Settings that vary between the runs have a place of their own in the label, so they
    are left out of the mark; so is "7 settings" where the label names as many settings.

    Args:
        run: The run.
        varying: The settings that vary, as a mark names them: {"k"}.
        n_label_settings: The number of settings that the label names.
    """
    parts = []
    for part in _mark_parts(run):
        setting = part.partition("=")[0]
        if setting in varying:
            continue
        count_match = _COUNT_OF_SETTINGS.fullmatch(part)
        if count_match and int(count_match[1]) <= n_label_settings:
            continue
        parts.append(part)
    return parts


def _value_in_label(value: object) -> str:
    """A value as text of at most 24 characters, cut with "..." where it is longer."""
    text = value_text(value)
    if len(text) <= _MAX_VALUE_CHARACTERS:
        return text
    return f"{text[: _MAX_VALUE_CHARACTERS - 3]}..."


def _settings_for_answers(run: StoredRun, ignored: Collection[str]) -> dict[str, object]:
    """The settings of a run that may change an answer, by path: {"method.params.k": 5}.

    Left out are numbers that were taken from other runs, and ignored settings.

    Args:
        run: The run.
        ignored: Settings as `--set` names them, "method.k".
    """
    keys_from_runs = {f"method.params.{name}" for name in run.manifest.amounts}
    settings = {}
    for key, value in _flat_settings(run).items():
        is_left_out = _set_key(key) in ignored or key in keys_from_runs
        if not is_left_out and not _IGNORED_KEYS.fullmatch(key):
            settings[key] = value
    return settings


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


def _key_in_label(path: str) -> str:
    """A setting as labels name it: "method.params.k" -> "k", "dataset.options.tokens" ->
    "dataset.tokens"."""
    return _set_key(path).removeprefix("method.")
