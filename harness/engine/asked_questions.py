"""The questions that a run asks: the first ones up to its limit, or a random sample."""

from __future__ import annotations

from dataclasses import dataclass

from harness import scorers
from harness.config.resolve import Settings
from harness.config.schema import DatasetConfig
from harness.datasets.base import Dataset
from harness.datasets.load_once import load_once
from harness.datasets.question_kinds import first_rows_warning, random_sample
from harness.datasets.rows import NO_DOCUMENTS
from harness.engine.findings import Findings
from harness.errors import HarnessError
from harness.method import Method


@dataclass(frozen=True)
class LoadedQuestions:
    """The questions of a run.

    Attributes:
        dataset: The questions with their documents.
        config: The data set's settings by which they were loaded.
    """

    dataset: Dataset
    config: DatasetConfig


def load_questions(settings: Settings, method: Method, findings: Findings) -> LoadedQuestions:
    """Load the questions that a run asks: those up to its limit, or a random sample of all. Also
    warns of what was odd in the rows, and where the first ones are not like the rest.

    Rows for which no documents were retrieved are a mistake only for a method that reads them. For
    one that reads none, or a corpus, the data set is loaded with the option documents: [].

    Args:
        settings: The run's settings.
        method: The method.
        findings: Gets the warnings.

    Raises:
        UserError: The data set cannot be found, or its rows cannot be read.
    """
    general, config = settings.general, settings.dataset
    max_rows = general.limit
    if general.sample:
        max_rows = None  # a sample is drawn from all rows
    try:
        dataset = load_once(config, max_rows)
    except HarnessError as error:
        lacks_documents = NO_DOCUMENTS in str(error)
        needs_documents = method.traits.reads_documents and general.corpus is None
        if not lacks_documents or needs_documents:
            raise
        config = config.model_copy(update={"options": {**config.options, "documents": ()}})
        dataset = load_once(config, max_rows)
    findings.warnings += dataset.notes
    # The user's folder of documents gives its data set a name of its own.
    config = config.model_copy(update={"name": dataset.name})
    if general.sample:
        sample = random_sample(dataset, config.format, general.sample, general.sample_seed)
        return LoadedQuestions(sample, config)
    if general.limit and dataset.kind_counts:  # without kinds there is nothing to compare
        warning = first_rows_warning(dataset, general.limit)
        if warning:
            findings.warnings.append(warning)
    return LoadedQuestions(dataset, config)


def check_questions_fit(settings: Settings, dataset: Dataset, findings: Findings) -> None:
    """Add a mistake where the run has no questions, lacks supporting marks that the method is
    shown, or gold answers that a scorer needs.

    Args:
        settings: The run's settings.
        dataset: The questions.
        findings: Gets mistakes and warnings.
    """
    if not len(dataset):
        findings.add_problem(f"the data set '{dataset.name}' has no questions ({dataset.source})")
    elif settings.method.view == "evidence":
        _check_supporting_passages(settings.method.name, dataset, findings)
    golds = [example.gold for example in dataset.examples]
    for sentence in scorers.missing_input_problems(settings.dataset.scorers, golds):
        findings.add_problem(sentence)


def _check_supporting_passages(method: str, dataset: Dataset, findings: Findings) -> None:
    """Check that questions have supporting marks, which are all that a method sees.

    Args:
        method: The method's name.
        dataset: The questions.
        findings: Gets a mistake where no question has any, a warning where some have none.
    """
    n_unmarked = sum(not example.gold.supporting for example in dataset.examples)
    if n_unmarked == len(dataset):
        findings.add_problem(
            f"'{method}' shows the supporting passages alone, but the data set '{dataset.name}' "
            "marks none; leave this method out"
        )
    elif n_unmarked:
        findings.warnings.append(
            f"{n_unmarked} of {len(dataset)} questions of '{dataset.name}' have no supporting marks, "
            f"so '{method}' answers them from an empty text"
        )
