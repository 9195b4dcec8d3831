"""What differs between a printed value and a run in more than chance: a sentence for each thing.

    differences(value, run).reasons   -> ["method: similarity_scale is raw, the paper's is all", ...]

Every setting of the run that can change a prediction is compared with the row's
(`reports.paper.preset`). Seeds are not: no paper names one. Nor are batch sizes, devices, scorers,
limits, paths, and parameters that only record more. What honest runs have too (another precision, a
server, uncommitted code, a seed) is a mark beside the verdict and forbids none.
"""

from collections.abc import Collection, Sequence

from harness import scorers
from harness.config.registry import short_name
from harness.config.yaml_tree import flatten
from harness.engine.manifest import program_versions
from harness.engine.numbers_from_runs import FROM
from harness.storage.manifest_file import Amount
from harness.storage.run_folder import StoredRun
from reports import facts
from reports.paper.data_reasons import data_reasons
from reports.paper.mapping import DatasetRule
from reports.paper.measured import counting_scorer, find_score_name
from reports.paper.model_reasons import encoder_reasons, model_reasons
from reports.paper.preset import Settings, settings_of
from reports.paper.printed import Value, load
from reports.paper.public_releases import Findings
from reports.paper.setting_sentences import joined_names, setting_differences, shown
from reports.run_records import count_failed

_DECISIVE = frozenset({"models", "prompts", "scorers", "seed", "code", "git", "packages"})
"""Keys of the manifest whose change within a run makes it two experiments."""
_FEW = 0.02
"""Share of failed questions up to which a mean is still one over the paper's questions; they score
0."""
_CONTEXT = 12
_EXCERPT = 40
"""Characters of a prompt that are shown before and after the first one that differs."""


def differences(
    value: Value, run: StoredRun, rule: DatasetRule | None = None, runs: Sequence[StoredRun] = ()
) -> Findings:
    """What sets a run apart from the run that a printed value must have come from.

        Findings(reasons=["method: similarity_scale is raw, the paper's is all"],
                 unchecked=["weights"], remarks=["seed 3 was chosen: ..."])

    Args:
        value: The printed value.
        run: The run.
        rule: Which of the value's data sets the run is of, where it is a mean over several; by
            default the first.
        runs: All runs at hand, among which the sources of the run's numbers are looked for.

    Returns:
        `reasons`: sentences on why the two numbers cannot be compared. `unchecked`: words for what
        may differ and cannot be checked here ("weights"; "code", where another version of the
        program made the run). `remarks`: sentences to be printed beside the comparison.

    Raises:
        UserError: A preset of the mapping cannot be resolved.
        ConfigError: A setting of such a preset is not valid.
    """
    rule = rule or value.rules[0]
    paper_settings = settings_of(value, rule)
    found = model_reasons(value, run, paper_settings)
    found.reasons += _method_reasons(value, run, paper_settings)
    found.reasons += _source_reasons(run, rule, runs)
    found.reasons += _prompt_reasons(run, paper_settings)
    found.add(encoder_reasons(run, paper_settings))
    found.add(data_reasons(value, run, rule, paper_settings))
    found.reasons += _metric_reasons(value, run)
    found.reasons += _incomplete_reasons(value, run)
    found.remarks += _run_remarks(run)
    found.unchecked += _changed_parts_of_program(run)  # whether they change an answer is unknown
    return Findings(
        reasons=found.reasons,
        unchecked=list(dict.fromkeys(found.unchecked)),
        remarks=list(dict.fromkeys(found.remarks)),
    )


def _run_remarks(run: StoredRun) -> list[str]:
    """Sentences on what honest runs have too: uncommitted code, a chosen seed; [] for neither."""
    remarks = []
    git = run.manifest.git
    if git is not None and git.dirty:
        remarks.append("the run's code had changes that no commit holds")
    seed = run.config.seed
    if seed:
        remarks.append(f"seed {seed} was chosen: whether other seeds were tried is not known")
    return remarks


def _changed_parts_of_program(run: StoredRun) -> list[str]:
    """What differs between the program that made the run and this one: ["code", "packages"], one of
    them, or []."""
    this_program = program_versions()
    changed_parts = []
    if run.manifest.git != this_program.git:
        changed_parts.append("code")
    if run.manifest.packages != this_program.packages:
        changed_parts.append("packages")
    return changed_parts


def _method_reasons(value: Value, run: StoredRun, paper: Settings) -> list[str]:
    """Sentences on why the run's method and parameters are not those of the printed row.

    Args:
        value: The printed value.
        run: The run.
        paper: The settings that a run must have to measure it.
    """
    method_config = run.config.method
    params: dict[str, object] = {}
    if method_config.params:
        params = flatten(method_config.params)
    run_settings: dict[str, object] = {}
    if method_config.implementation:
        run_settings["implementation"] = short_name(method_config.implementation)
    if method_config.has("view"):
        run_settings["view"] = method_config.view
    run_settings |= params
    run_settings |= _rules_of_params_from_runs(run, params, paper)
    sentences = []
    if value.entry.unlike:
        sentences.append(f"method: {value.entry.unlike}")
    sentences += setting_differences("method: ", run_settings, paper.method)
    for key in params:
        if key not in paper.method and key not in value.recording:
            sentences.append(
                f"method: {key} is {shown(run_settings[key])}, which {value.entry.preset} does not have "
                "here"
            )
    return sentences


def _rules_of_params_from_runs(
    run: StoredRun, params: Collection[str], paper: Settings
) -> dict[str, str]:
    """Parameters of the run that come from another run as in the paper, as that rule says it.

        -> {"t_n": "from:garlic"}

    The other run must be of the same model and data set.

    Args:
        run: The run.
        params: The names of its parameters, nested ones with dots.
        paper: The settings that a run must have.
    """
    dataset = run.config.dataset.name
    model = run.config.model.name
    rules = {}
    for key, number in run.manifest.amounts.items():
        rule = f"{FROM}{number.source}"
        is_of_this_run = number.dataset == dataset and number.model == model
        if key in params and is_of_this_run and rule == paper.method.get(key):
            rules[key] = rule
    return rules


def _source_reasons(run: StoredRun, rule: DatasetRule, runs: Sequence[StoredRun]) -> list[str]:
    """Sentences on what is wrong with the other runs of which the run has a parameter: how many nodes
    GARLIC visited on average, say. Each must be comparable itself.

    Args:
        run: The run.
        rule: Which data set, split and questions the printed value is of.
        runs: All runs at hand, among which the sources are looked for.
    """
    sentences = []
    for key, amount in run.manifest.amounts.items():
        if amount.run is None:  # printed in the paper
            continue
        name = amount.run.rstrip("/").rpartition("/")[2]
        problem = _source_problem(name, amount, rule, runs)
        if problem is not None:
            sentences.append(f"method: {key} {problem}")
    return sentences


def _source_problem(
    name: str, amount: Amount, rule: DatasetRule, runs: Sequence[StoredRun]
) -> str | None:
    """What is wrong with the run that gave a number, as the end of a sentence; None where nothing
    is.

    Args:
        name: The name of its folder.
        amount: The number, as the manifest has it.
        rule: Which data set, split and questions the printed value is of.
        runs: All runs at hand, among which it is looked for.
    """
    runs_with_name = [run for run in runs if run.path.name == name]
    if not runs_with_name:
        return f"comes from {name}, which is not among these runs"
    n_questions = amount.questions
    if n_questions != rule.questions:
        return f"is a mean of {n_questions} questions, the paper has {rule.questions}"
    reasons = _why_not_comparable(runs_with_name[0], rule, runs)
    if not reasons:
        return None
    return f"comes from {name}, which is not comparable ({reasons[0]})"


def _why_not_comparable(
    source: StoredRun, rule: DatasetRule, runs: Sequence[StoredRun]
) -> list[str]:
    """Why a run cannot be compared, scores aside, with its preset's printed row on a data set.

    Args:
        source: The run.
        rule: The data set.
        runs: All runs at hand, among which the sources of its own numbers are looked for.

    Returns:
        A sentence each; [] where it can be compared.
    """
    preset = source.config.method.name.partition(" [")[0]
    for printed in load():
        if printed.entry.preset == preset and rule in printed.rules:
            reasons = differences(printed, source, rule, runs).reasons
            return [reason for reason in reasons if not reason.startswith("metric:")]
    return [f"no printed row is {preset} on {rule.dataset}"]


def _prompt_reasons(run: StoredRun, paper: Settings) -> list[str]:
    """A sentence for each prompt of the run that is not the paper's, and for each that is
    missing."""
    prompts = run.manifest.prompts
    if not run.manifest.has("prompts"):
        return ["prompts: not recorded"]
    sentences = []
    for name in dict.fromkeys([*paper.prompts, *prompts]):
        ours = prompts.get(name)
        theirs = paper.prompts.get(name)
        if ours is None:
            sentences.append(f"prompts: '{name}' is missing")
        elif theirs is None:
            sentences.append(f"prompts: '{name}' is no prompt of the paper's preset")
        elif ours != theirs:
            sentences.append(_prompt_difference(name, ours, theirs))
    return sentences


def _prompt_difference(name: str, ours: str, theirs: str) -> str:
    """A sentence with both texts of a prompt from just before they begin to differ.

    Args:
        name: The name of the prompt.
        ours: Its text in the run.
        theirs: Its text in the paper.
    """
    shorter = min(len(ours), len(theirs))
    start = shorter  # where one is the beginning of the other
    for place in range(shorter):
        if ours[place] != theirs[place]:
            start = place
            break
    excerpt = slice(max(start - _CONTEXT, 0), start + _EXCERPT)
    return (
        f"prompts: '{name}' has {ours[excerpt]!r} at character {start}, the paper's "
        f"{theirs[excerpt]!r}"
    )


def _metric_reasons(value: Value, run: StoredRun) -> list[str]:
    """One sentence on why the run has no number of the printed metric; [] where it has one."""
    metric = value.metric
    if metric.problem is not None:
        return [f"metric: {metric.problem}"]
    requested = metric.requested_convention  # None: as the paper counts
    if metric.phases and requested not in (None, metric.convention):
        return [f"metric: FLOPs under {requested}, the paper's are under {metric.convention}"]
    if not metric.in_points:
        return []
    score_names = facts.score_names(run)
    if metric.score is not None and find_score_name(metric, run) not in score_names:
        return [_lacking_score(metric.score, metric.score, score_names)]
    if metric.corpus is not None and metric.corpus not in facts.corpus_score_sources(run):
        noun = f"counts for {metric.corpus}"
        return [_lacking_score(noun, counting_scorer(metric.corpus), score_names)]
    if run.config.skips_failed and count_failed(run):
        return ["metric: failed questions are left out of the mean"]
    return []


def _incomplete_reasons(value: Value, run: StoredRun) -> list[str]:
    """Sentences on what makes a run less than the experiment that it names: it did not end, changed
    on the way, or lacks answers, scores or costs of indexes."""
    sentences = []
    state = run.summary.state
    if state != "finished":
        sentences.append(f"run: it is {state}")
    decisive = sorted(run.manifest.changed_keys & _DECISIVE)
    if decisive:
        sentences.append(f"run: a part of it was made after a change of {joined_names(decisive)}")
    n_questions = len(run.records)
    n_failed = count_failed(run)
    if n_failed > _FEW * n_questions:
        sentences.append(f"run: {n_failed} of {n_questions} questions failed")
    if value.metric.in_points:
        sentences += _score_reasons(value, run)
    counts_indexes = value.entry.per_document or value.entry.questions_per_document
    if value.metric.phases and counts_indexes:
        sentences += _index_reasons(run)
    return sentences


def _score_reasons(value: Value, run: StoredRun) -> list[str]:
    """Sentences on what is wrong with the run's score: questions that lack it, and a scorer of
    another version than the one installed here.

    The scorer has the score's name ("f1"), or the part of it before the last dot ("hf_bleu" of
    "hf_bleu.bleu4").
    """
    score_name = find_score_name(value.metric, run)
    if score_name is None or score_name not in facts.score_names(run):
        return []
    sentences = []
    n_questions = len(run.records)
    n_without_score = n_questions - len(facts.score_values(run, score_name).values)
    if n_without_score:
        sentences.append(
            f"metric: {n_without_score} of {n_questions} questions have no {score_name}"
        )
    known_scorers = scorers.names()
    scorers_of_name = (score_name, score_name.rpartition(".")[0])
    for scorer, version_of_run in run.manifest.scorers.items():
        if scorer not in scorers_of_name or scorer not in known_scorers:
            continue
        version_here = scorers.version(scorer)
        if version_here is not None and version_here != version_of_run:
            sentences.append(
                f"metric: version {version_of_run} of {scorer} scored the run, here is "
                f"{version_here}; run: harness score RUN"
            )
    return sentences


def _index_reasons(run: StoredRun) -> list[str]:
    """One sentence where the cost of some indexes is not known; else []."""
    needed: set[str] = set()
    for record in run.records:
        needed.update(record.document_ids)
    built = {line.document_id for line in run.index_lines if not line.failed}
    if len(built) >= len(needed):
        return []
    return [f"run: the cost of {len(built)} of {len(needed)} indexes is known"]


def _lacking_score(noun: str, scorer: str, score_names: Sequence[str]) -> str:
    """The sentence on a run that lacks a score, with the command that adds it.

    Args:
        noun: What the run lacks, in words.
        scorer: The scorer to add.
        score_names: The scores that the run has.
    """
    names = ",".join(dict.fromkeys([*score_names, scorer]))
    return f"metric: the run has no {noun}; add it with: harness score RUN --scorers {names}"
