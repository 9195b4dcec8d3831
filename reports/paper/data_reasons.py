"""Why the data set, split, questions or contexts of a run are not those of a printed value.

data_reasons(value, run, rule, paper).reasons     -> ["sample: 20 questions, the paper has 2417"]
"""

from harness.config.schema import DatasetConfig
from harness.storage.run_folder import StoredRun
from harness.storage.stored_config import StoredDataset
from reports.paper import public_releases
from reports.paper.mapping import DatasetRule
from reports.paper.preset import Settings
from reports.paper.printed import Value
from reports.paper.public_releases import Findings
from reports.paper.setting_sentences import joined_names, setting_differences


def data_reasons(value: Value, run: StoredRun, rule: DatasetRule, paper: Settings) -> Findings:
    """Why the run's data set, split, questions, settings or cut contexts are not those of the
    printed value, and what of its rows could not be checked.

    Args:
        value: The printed value.
        run: The run.
        rule: The data set of the value that the run is of.
        paper: The settings that a run must have.
    """
    config = run.config.dataset
    if config.name != rule.dataset:
        return Findings([f"split: {config.name} is made up, the paper has {_its_data(value)}"])
    row_findings = public_releases.row_differences(run, rule.dataset, rule.split)
    sentences = []
    if config.split != rule.split:
        split = "not recorded"
        if config.has("split"):
            split = str(config.split)
        sentences.append(f"split: {split}, the paper's is {rule.split}")
    n_questions = len(run.records)
    if n_questions != rule.questions:
        sample = f"sample: {n_questions} questions, the paper has {rule.questions}"
        return Findings([*sentences, sample])
    sentences += _sample_reasons(run, rule)
    sentences += _setting_reasons(config, paper)
    sentences += _cut_reasons(value, run)
    unchecked = list(row_findings.unchecked)
    if _is_mirror(config, paper) and "rows" not in unchecked:
        unchecked.append("rows")
    return Findings([*sentences, *row_findings.reasons], unchecked)


def _its_data(value: Value) -> str:
    """The data of a printed value in a sentence: "musique's validation split", "the mean of nq and
    popqa"."""
    names = joined_names(value.datasets)
    if len(value.rules) == 1:
        return f"{names}'s {value.rules[0].split} split"
    return f"the mean of {names}"


def _sample_reasons(run: StoredRun, rule: DatasetRule) -> list[str]:
    """Sentences on questions that were drawn, whose gold answers were corrected, or that are
    another part of the data set."""
    sentences = []
    if run.config.sample:
        seed = run.config.sample_seed
        sentences.append(
            f"sample: about {run.config.sample} questions drawn with seed {seed}, the paper has all"
        )
    for correction in run.manifest.corrected:
        count = correction.questions
        sentences.append(f"dataset: gold answers of {count} questions were corrected")
    if rule.subset is not None:
        sentences.append(f"sample: {rule.subset}")
    return sentences


def _setting_reasons(config: StoredDataset, paper: Settings) -> list[str]:
    """A sentence for each setting of the data set that is not the paper's.

    An option that a run does not list is not set. Where the rows come from is not compared, as what
    is published of the rows decides; but the subset of the official repository is.

    Args:
        config: The settings of the run's data set.
        paper: The settings that a run must have.
    """
    places = {"split", "hub", "revision"}
    if config.data or config.hub != paper.dataset.get("hub"):
        places.add("subset")
    in_paper = {key: value for key, value in paper.dataset.items() if key not in places}
    in_run: dict[str, object] = {}
    for key in in_paper:
        is_option = key not in DatasetConfig.model_fields
        if is_option:
            in_run[key] = None
    in_run |= config.to_json()
    in_run |= config.options
    for key, value in config.options.items():
        if value is not None and key not in paper.dataset and key not in paper.ignored:
            in_paper[key] = None  # an option that the paper does not have
    return setting_differences("dataset: ", used=in_run, paper=in_paper)


def _is_mirror(config: StoredDataset, paper: Settings) -> bool:
    """Whether the rows come from another repository of the hub than the paper's."""
    return bool(config.hub != paper.dataset.get("hub", config.hub))


def _cut_reasons(value: Value, run: StoredRun) -> list[str]:
    """One sentence on contexts that were cut, where the paper cut none; else []."""
    n_cut = sum(1 for record in run.records if record.truncated is not None)
    if not n_cut or value.entry.truncated:
        return []
    contexts = f"{n_cut} of {len(run.records)} contexts"
    return [f"truncation: {contexts} were cut to fit the window, the paper's were whole"]
