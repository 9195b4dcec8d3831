"""What differs between a printed value and a run in more than chance: a sentence for each thing.

    differences(value, run).reasons   ["method: similarity_scale is raw, the paper's is all", ...]

Every setting of the run that can change a prediction is compared with the row's
(`reports.paper.preset`). Seeds are not: no paper names one. Nor are batch sizes, devices, scorers,
limits, paths, and parameters that only record more. What honest runs have too (another precision, a
server, uncommitted code, a seed) is a mark beside the verdict and forbids none.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from harness import scorers
from harness.config.registry import short_name
from harness.config.schema import DatasetConfig, sampling
from harness.config.yaml_tree import flatten
from harness.engine import model_warnings as embedded
from harness.engine.manifest import made_by
from harness.engine.numbers_from_runs import FROM
from harness.storage.run_folder import StoredRun
from reports import facts
from reports.paper import public_releases
from reports.paper.mapping import DatasetRule
from reports.paper.measured import score_of, scorer_of
from reports.paper.preset import Model, Settings, last_part, settings_of
from reports.paper.printed import Value, load
from reports.paper.public_releases import Findings

# Keys of the manifest whose change within a run makes it two experiments.
_DECISIVE = frozenset({"models", "prompts", "scorers", "seed", "code", "git", "packages"})
# Settings of a model, and their values, that change its numbers in their last digits alone.
_ROUNDED_OTHERWISE = ("dtype", "attention")
_ROUNDED_AS = ("bfloat16", "float16", "float32", "sdpa", "eager")
_FEW = 0.02  # share of failed questions up to which a mean is still one over the paper's questions; they score 0
_CONTEXT, _EXCERPT = (
    12,
    40,
)  # characters of a prompt that are shown before and after the first one that differs


def differences(
    value: Value, run: StoredRun, rule: DatasetRule | None = None, runs: Sequence[StoredRun] = ()
) -> Findings:
    """Why the run's number cannot be compared with the printed one, a sentence each; what nothing
    here proves; marks.

    rule: which of the value's data sets the run is of, where it is a mean over several; by default
    the first; runs: those at hand, among which the sources of the run's numbers are sought. Raises
    UserError or ConfigError for a preset of the mapping that cannot be resolved.
    """
    rule = rule or value.rules[0]
    paper = settings_of(value, rule)
    reasons = _model_reasons(value, run, paper)
    reasons.reasons += (
        _method_reasons(value, run, paper)
        + _source_reasons(run, rule, runs)
        + _prompt_reasons(run, paper)
    )
    reasons.add(_encoder_reasons(run, paper))
    reasons.add(_data_reasons(value, run, rule, paper))
    reasons.reasons += _metric_reasons(value, run) + _incomplete_reasons(value, run)
    if (run.manifest.get("git") or {}).get("dirty"):
        reasons.marks.append("the run's code had changes that no commit holds")
    if seed := run.config.get("seed"):
        reasons.marks.append(f"seed {seed} was chosen: whether other seeds were tried is not known")
    here, names = made_by(), {"code": "git", "packages": "packages"}
    reasons.unchecked += [name for name, key in names.items() if run.manifest.get(key) != here[key]]
    return Findings(
        reasons.reasons, list(dict.fromkeys(reasons.unchecked)), list(dict.fromkeys(reasons.marks))
    )


def listed(names: Sequence[str]) -> str:
    """Names as a phrase: "nq, triviaqa and popqa"."""
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _differences(head: str, used: Mapping[str, Any], paper: Mapping[str, Any]) -> list[str]:
    """A sentence, begun by `head`, for each key of `paper` with another value in `used`, and one
    for all it lacks.

    A run lists no setting that is not set.
    """
    differing = [key for key, value in paper.items() if key in used and used[key] != value]
    missing = [key for key, value in paper.items() if key not in used and value not in (None, {})]
    sentences = [
        f"{head}{key} is {_shown(used[key])}, the paper's is {_shown(paper[key])}"
        for key in differing
    ]
    if missing:
        lacking = f"{listed(missing)} {'is' if len(missing) == 1 else 'are'} not recorded"
        values = ", ".join(f"{key} {_shown(paper[key])}" for key in missing)
        sentences.append(f"{head}{lacking}; the paper has {values}")
    return sentences


def _shown(value: Any) -> str:
    return (
        "not set"
        if value is None
        else str(value).lower()
        if isinstance(value, bool)
        else str(value)
    )


def _model_reasons(value: Value, run: StoredRun, paper: Settings) -> Findings:
    """Why the models of a run are not those by which the paper got its printed `value`; paper: what
    they must be."""
    config = run.config
    if config["model"].get("embedded"):
        return Findings([f"model: {embedded.embedded_caveat(config['model'], config['dataset'])}"])
    result = Findings(_differences("model: the reader's ", sampling(config["model"]), sampling({})))
    for role, paper_model in paper.models.items():
        used = (config.get("roles") or {}).get(role) or config["model"]
        result.add(_reasons_of_model(value, run, role, used, paper_model))
        recorded = (run.manifest.get("models") or {}).get(role) or {}
        adapters = set(recorded.get("adapters") or used.get("adapters") or ())
        if missing := [name for name in value.entry.adapters.get(role, ()) if name not in adapters]:
            result.reasons.append(
                f"model: the {role} has no adapter for {listed(missing)}, the paper trained them"
            )
        if role not in paper.trained and adapters:
            result.reasons.append(
                f"model: the {role} has the adapter {listed(sorted(adapters))}, the paper's has "
                "none"
            )
        if added := used.get("adapter"):
            weights = f"the adapter {last_part(added)} added to its weights"
            result.reasons.append(f"model: the {role} has {weights}, the paper's has none")
    return result


def _reasons_of_model(
    value: Value, run: StoredRun, role: str, used: Mapping[str, Any], paper: Model
) -> Findings:
    """Why a role's model `used` is not `paper`: by content if that one can be loaded, by name if it
    is a service."""
    name = f"model: the {role} is {_name_of(used)}, the paper's is {paper.name}"
    if used.get("backend") == "endpoint" or "backend" not in paper.settings:
        if not _is_named(used, paper.name):
            return Findings([name])
        if other := public_releases.other_owner(str(used.get("source")), paper):
            return Findings([f"model: the {role} is {other}"])
        behind = ["precision", "chat template"] if "backend" in paper.settings else []
        used_here, head = (
            {"thinking": used.get("thinking"), "extra": used.get("extra") or {}},
            f"model: the {role}'s ",
        )
        result = Findings(
            _differences(head, used_here, {"thinking": paper.settings.get("thinking")}),
            ["weights", *behind],
        )
        result.marks += _differences(head, used_here, {"extra": {}})
        return result
    recorded = (run.manifest.get("models") or {}).get(role) or {}
    if used.get("backend") != "hf" or not (recorded.get("weights") or _is_named(used, paper.name)):
        return Findings([name])
    if not _is_named(used, paper.name) and public_releases.other_sizes(run, role, paper):
        return Findings([name])  # another model; how its weights are stored comes second
    result = public_releases.model_differences(run, role, paper)
    if result.reasons:
        return result
    used_here = {**used, **{key: recorded[key] for key in ("dtype", "window") if key in recorded}}
    settings = dict(paper.settings)
    window_here = cast("int", used_here.get("window") or 0)
    window_there = cast("int", settings.get("window") or 0)
    if not value.entry.truncated and window_here >= window_there:
        settings.pop("window", None)  # more room changes nothing where nothing was cut
    rounded = {
        key: settings.pop(key) for key in _ROUNDED_OTHERWISE if used_here.get(key) in _ROUNDED_AS
    }
    result.marks += _differences(f"model: the {role}'s ", used_here, rounded) + _revision_marks(
        role, used
    )
    result.reasons += _differences(f"model: the {role}'s ", used_here, settings)
    return result


def _revision_marks(role: str, used: Mapping[str, Any]) -> list[str]:
    """A sentence, in a list, for a revision that the user chose: which one the paper had is not
    known."""
    revision = used.get("revision")
    return (
        [f"{role}: revision {revision} was chosen, which one the paper had is not known"]
        if revision
        else []
    )


def _is_named(config: Mapping[str, Any], name: str) -> bool:
    return _name_of(config).lower() == name.lower()


def _name_of(config: Mapping[str, Any]) -> str:
    """The last part of the hub id, folder or file with the weights; the name where none is given.

    A preset's name says nothing about weights that the user put in the place of the preset's.
    """
    return last_part(str(config.get("source") or config.get("name") or "not recorded"))


def _encoder_reasons(run: StoredRun, paper: Settings) -> Findings:
    """Why the run's encoder and reranker are not the paper's: by name, then by content and
    settings."""
    result = Findings()
    for role, paper_model in paper.encoders.items():
        used = run.config.get(role) or {}
        source = str(used.get("source"))
        if not _is_named(used, paper_model.name) and not source.startswith(("/", ".", "~")):
            result.reasons.append(f"{role}: {_name_of(used)}, the paper's is {paper_model.name}")
            continue
        if other := public_releases.other_owner(source, paper_model):
            result.reasons.append(f"{role}: {other}")
            continue
        result.add(public_releases.model_differences(run, role, paper_model))
        result.reasons += _differences(f"{role}: ", used, paper_model.settings)
        result.marks += _revision_marks(role, used)
    return result


def _method_reasons(value: Value, run: StoredRun, paper: Settings) -> list[str]:
    """Why the run's method and parameters are not those of the printed row, a sentence each."""
    config = run.config["method"]
    params = flatten(config.get("params") or {}) if config.get("params") else {}
    actual = {
        **{key: short_name(config[key]) for key in ("implementation", "view") if config.get(key)},
        **params,
    }
    # A number that the paper takes from another run, as "from:garlic", of this run's model over its
    # data set.
    here = {part: run.config[part]["name"] for part in ("dataset", "model")}
    for key, number in (run.manifest.get("amounts") or {}).items():
        rule = f"{FROM}{number.get('source')}"
        if here.items() <= number.items() and key in params and rule == paper.method.get(key):
            actual[key] = rule
    unknown = [key for key in params if key not in paper.method and key not in value.recording]
    return [
        *([f"method: {value.entry.unlike}"] if value.entry.unlike else []),
        *_differences("method: ", actual, paper.method),
        *(
            f"method: {key} is {_shown(actual[key])}, which {value.entry.preset} does not have here"
            for key in unknown
        ),
    ]


def _source_reasons(run: StoredRun, rule: DatasetRule, runs: Sequence[StoredRun]) -> list[str]:
    """What is wrong with the runs that gave the method a number: each must be comparable itself; a
    sentence each."""
    sentences = []
    for key, amount in (run.manifest.get("amounts") or {}).items():
        if "run" not in amount:  # printed in the paper
            continue
        name = str(amount["run"]).rstrip("/").rpartition("/")[2]
        source = next((run_ for run_ in runs if run_.path.name == name), None)
        if source is None:
            sentences.append(f"method: {key} comes from {name}, which is not among these runs")
        elif (count := amount.get("questions")) != rule.questions:
            sentences.append(
                f"method: {key} is a mean of {count} questions, the paper has {rule.questions}"
            )
        else:  # it must be comparable, scores aside, with its preset's printed row on that data set
            preset = str(source.config["method"]["name"]).partition(" [")[0]
            printed = next(
                (value for value in load() if value.entry.preset == preset and rule in value.rules),
                None,
            )
            why = [f"no printed row is {preset} on {rule.dataset}"]
            if printed is not None:
                reasons = differences(printed, source, rule, runs).reasons
                why = [reason for reason in reasons if not reason.startswith("metric:")]
            sentences += [
                f"method: {key} comes from {name}, which is not comparable ({run_})"
                for run_ in why[:1]
            ]
    return sentences


def _prompt_reasons(run: StoredRun, paper: Settings) -> list[str]:
    """A sentence for each prompt that is not the paper's, with both texts from just before they
    begin to differ."""
    prompts = run.manifest.get("prompts")
    if prompts is None:
        return ["prompts: not recorded"]
    sentences = []
    for name in dict.fromkeys([*paper.prompts, *prompts]):
        ours, theirs = prompts.get(name), paper.prompts.get(name)
        if ours is None or theirs is None:
            problem = "missing" if ours is None else "no prompt of the paper's preset"
            sentences.append(f"prompts: '{name}' is {problem}")
        elif ours != theirs:
            pairs = enumerate(zip(ours, theirs, strict=False))
            start = next((i for i, (a, b) in pairs if a != b), min(len(ours), len(theirs)))
            texts = [
                repr(text[max(start - _CONTEXT, 0) : start + _EXCERPT]) for text in (ours, theirs)
            ]
            sentences.append(
                f"prompts: '{name}' has {texts[0]} at character {start}, the paper's {texts[1]}"
            )
    return sentences


def _data_reasons(value: Value, run: StoredRun, rule: DatasetRule, paper: Settings) -> Findings:
    """Why the run's data set, split, questions, settings or cut contexts are not those of the
    printed value."""
    config = run.config["dataset"]
    if config["name"] != rule.dataset:
        names = listed([item.dataset for item in value.rules])
        paper_has = (
            f"{names}'s {value.rules[0].split} split"
            if len(value.rules) == 1
            else f"the mean of {names}"
        )
        return Findings([f"split: {config['name']} is made up, the paper has {paper_has}"])
    rows = public_releases.row_differences(run, rule.dataset, rule.split)
    sentences = []
    if config.get("split") != rule.split:
        sentences.append(
            f"split: {config.get('split', 'not recorded')}, the paper's is {rule.split}"
        )
    n = len(run.records)
    if n != rule.questions:
        return Findings([*sentences, f"sample: {n} questions, the paper has {rule.questions}"])
    if run.config.get("sample"):
        seed = run.config.get("sample_seed", 0)
        sentences.append(
            f"sample: about {run.config['sample']} questions drawn with seed {seed}, the paper has "
            "all"
        )
    corrected = run.manifest.get("corrected") or ()
    sentences += [
        f"dataset: gold answers of {item['questions']} questions were corrected"
        for item in corrected
    ]
    if rule.subset is not None:
        sentences.append(f"sample: {rule.subset}")
    # An option that is not there is not set. Where the rows come from is not compared: what is
    # published of the rows decides. The subset of the official repository is.
    options = dict(config.get("options") or {})
    elsewhere = config.get("data") or config.get("hub") != paper.dataset.get("hub")
    places = ("split", "hub", "revision", *(["subset"] if elsewhere else []))
    printed = {key: item for key, item in paper.dataset.items() if key not in places}
    actual = {
        **dict.fromkeys(key for key in printed if key not in DatasetConfig.model_fields),
        **config,
        **options,
    }
    more = [
        key
        for key, item in options.items()
        if item is not None and key not in {*paper.dataset, *paper.ignored}
    ]
    sentences += _differences("dataset: ", actual, {**printed, **dict.fromkeys(more)})
    if (
        config.get("hub") != paper.dataset.get("hub", config.get("hub"))
        and "rows" not in rows.unchecked
    ):
        rows.unchecked.append("rows")  # of a mirror
    cut = sum(record.truncated is not None for record in run.records)
    if cut and not value.entry.truncated:
        sentences.append(
            f"truncation: {cut} of {n} contexts were cut to fit the window, the paper's were whole"
        )
    return Findings([*sentences, *rows.reasons], rows.unchecked)


def _metric_reasons(value: Value, run: StoredRun) -> list[str]:
    """Why the run has no number of the printed metric, as a list of one sentence; [] where it has
    one."""
    metric = value.metric
    if metric.problem is not None:
        return [f"metric: {metric.problem}"]
    if metric.phases and metric.asked not in (None, metric.convention):
        return [f"metric: FLOPs under {metric.asked}, the paper's are under {metric.convention}"]
    if not metric.in_points:
        return []
    score_names = facts.score_names(run)
    if metric.score is not None and score_of(metric, run) not in score_names:
        return [_lacking_score(metric.score, metric.score, score_names)]
    if metric.corpus is not None and metric.corpus not in facts.corpus_scores(run):
        return [
            _lacking_score(f"counts for {metric.corpus}", scorer_of(metric.corpus), score_names)
        ]
    if run.config.get("failed", "zero") == "skip" and any(r.error is not None for r in run.records):
        return ["metric: failed questions are left out of the mean"]
    return []


def _incomplete_reasons(value: Value, run: StoredRun) -> list[str]:
    """What makes a run less than the experiment that it names: it did not end, changed on the way,
    or lacks answers."""
    metric, entry, sentences = value.metric, value.entry, []
    state = run.summary.get("state", "running")
    if state != "finished":
        sentences.append(f"run: it is {state}")
    changed = {
        key for start in run.manifest.get("starts") or () for key in start.get("changed") or ()
    }
    if decisive := sorted(changed & _DECISIVE):
        sentences.append(f"run: a part of it was made after a change of {listed(decisive)}")
    n = len(run.records)
    failed = sum(record.error is not None for record in run.records)
    if failed > _FEW * n:
        sentences.append(f"run: {failed} of {n} questions failed")
    if metric.in_points and (name := score_of(metric, run)) in facts.score_names(run):
        if missing := n - len(facts.scored(run, str(name)).values):
            sentences.append(f"metric: {missing} of {n} questions have no {name}")
        for scorer, version in (run.manifest.get("scorers") or {}).items():
            here = scorers.version(scorer) if scorer in scorers.names() else None
            if scorer in (name, str(name).rpartition(".")[0]) and here not in (None, version):
                versions = f"version {version} of {scorer} scored the run, here is {here}"
                sentences.append(f"metric: {versions}; run: harness score RUN")
    if metric.phases and (entry.per_document or entry.questions_per_document):
        needed = {key for record in run.records for key in record.document_ids}
        built = {line.document_id for line in run.documents if not line.failed}
        if len(built) < len(needed):
            sentences.append(f"run: the cost of {len(built)} of {len(needed)} indexes is known")
    return sentences


def _lacking_score(noun: str, scorer: str, score_names: Sequence[str]) -> str:
    """The reason for a run without `noun`, with the command that adds `scorer` to its scores
    `score_names`."""
    names = ",".join(dict.fromkeys([*score_names, scorer]))
    return f"metric: the run has no {noun}; add it with: harness score RUN --scorers {names}"
