"""Check configuration, data and models together, before anything is loaded.

    plan_choices(choices) ──► resolve ──► Settings ──► plan ──► PlannedRun ──► runner.run(planned, out)
                                                         │
                                                         └─ ConfigError: every mistake at once

Nothing heavy is imported: it reads a method's module, the data set's rows and the models' small
files. A GGUF model is converted first, once, because its tokenizer is made by that.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from harness import scorers
from harness.config import presets, registry
from harness.config.layers import Choices, point_text
from harness.config.resolve import Parts, Settings, resolve
from harness.config.schema import EncoderConfig, ModelConfig, RunConfig
from harness.datasets import answer_prefix, answer_schema
from harness.datasets.base import Dataset
from harness.engine.asked_questions import LoadedQuestions, check_questions_fit, load_questions
from harness.engine.completed_method import (
    CompletedMethod,
    complete_method,
    make_method,
    mark_of_changes,
)
from harness.engine.findings import Findings
from harness.engine.numbers_from_runs import NumberFromRun, differing_source
from harness.engine.plan_models import ModelPlanner, PlannedModels
from harness.engine.planned_corpus import PlannedCorpus, plan_corpus, with_search_scorers
from harness.engine.run_hash import HashInputs
from harness.errors import HarnessError, UserError, call_noting_problem
from harness.method import Method, Task
from harness.storage.hub_download import without_weights
from harness.storage.manifest_file import ModelIdentity
from harness.storage.own_code_hash import own_code
from harness.storage.paths import run_path


@dataclass(frozen=True)
class PlannedRun:
    """All that the runner needs of one run.

    Attributes:
        config: Its settings, with the parts that are used.
        origins: Path of a value ("method.params.k") -> what set it ("--set").
        method: The method.
        dataset: The questions; where their rows are in `missing`, none, and its `rows` says how
            many there are officially.
        task: What every method is asked to do.
        models: Role -> settings of its model, for every role that the method uses.
        encoders: "encoder" and "reranker" -> its settings, where the method uses it.
        identities: Role -> what identifies its model or encoder.
        hash8: Eight hexadecimal digits over what changes a prediction.
        folder: The run's folder, below the results folder.
        warnings: A sentence each.
        code: Hashes of the user's own code (storage/own_code_hash.py).
        choices: What the plan was made from.
        numbers_from_runs: Parameter -> the number that a finished run gave.
        missing: What is not on this machine, so that it cannot run here: "weights of owner/name".
        unused: Settings that the method does not use: "reranker".
        corpus: What is searched; None where each question's own documents are.
    """

    config: RunConfig
    origins: dict[str, str]
    method: Method
    dataset: Dataset
    task: Task
    models: dict[str, ModelConfig]
    encoders: dict[str, EncoderConfig]
    identities: dict[str, ModelIdentity]
    hash8: str
    folder: str
    warnings: tuple[str, ...] = ()
    code: dict[str, str] = field(default_factory=dict)
    choices: Choices = field(default_factory=Choices)
    numbers_from_runs: Mapping[str, NumberFromRun] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()
    corpus: PlannedCorpus | None = None

    @property
    def n_questions(self) -> int:
        """The number of questions to ask.

        Where the rows are not on this machine, no question is loaded. The number is then that of
        the preset (`dataset.n_all_questions`), or the limit or sample that is set where this is
        smaller; 0 where the preset says none.
        """
        n_loaded = len(self.dataset.examples[: self.config.limit])
        if n_loaded:
            return n_loaded
        n_official = self.dataset.n_all_questions
        n_wanted = self.config.limit or self.config.sample or n_official
        return min(n_official, n_wanted)

    @property
    def builds_indexes(self) -> bool:
        """Whether the method builds indexes; with a retriever of the user's own it needs none."""
        return self.method.scope != "none" and self.config.retriever is None

    @property
    def method_name(self) -> str:
        """How messages call the method: with its values of a sweep, if it has any, "bm25 k=3"."""
        name = self.config.method.name
        point = point_text(self.choices.point)
        if not point:
            return name
        return f"{name} {point}"

    @property
    def run_name(self) -> str:
        """How messages call the run: "bm25 k=3 on musique"."""
        return f"{self.method_name} on {self.config.dataset.name}"


def plan_choices(choices: Choices, for_another_machine: bool = False) -> PlannedRun:
    """Resolve `choices` and check them against code, data and models.

    Args:
        choices: What the user chose for one run.
        for_another_machine: Whether the run is for another machine: then no weights are fetched,
            and files missing here are no error.

    Raises:
        UserError: One mistake.
        ConfigError: Several.
    """
    downloads: contextlib.AbstractContextManager[object] = contextlib.nullcontext()
    if for_another_machine:
        downloads = without_weights()
    with downloads:
        settings = resolve(choices, check=mistakes_in_parts)
        return plan(settings, for_another_machine)


def mistakes_in_parts(parts: Parts, origins: Mapping[str, str]) -> list[HarnessError]:
    """Mistakes in a method's parameters, and in what a data set's settings ask for, found before
    anything is fetched or looked for.

    Args:
        parts: The method and the data set as they are resolved; either may be None.
        origins: Path of a value -> what set it, for messages.
    """
    problems: list[HarnessError] = []
    if parts.method is not None:
        call_noting_problem(problems, make_method, parts.method, origins)
    if parts.dataset is not None:
        problems += map(UserError, scorers.problems(list(parts.dataset.scorers)))
        schema_problem = answer_schema.schema_problem(parts.dataset)
        if schema_problem:
            problems.append(UserError(schema_problem))
    return problems


def plan(settings: Settings, for_another_machine: bool = False) -> PlannedRun:
    """Check settings against code, data and models, and make the plan of their run.

    Each check adds its mistakes and warnings to `findings`, so that they are raised together: those
    about --keep-prompts and the method before anything else is looked at, all others at the end. A
    check that fails with an error gives None (`call_noting_problem`).

    Args:
        settings: The run's settings.
        for_another_machine: Whether the run is for another machine: then files missing here are no
            error.

    Raises:
        UserError: One mistake.
        ConfigError: Several.
    """
    findings = Findings(warnings=list(settings.warnings))
    stores_forbidden_texts = settings.general.keep_prompts and not settings.dataset.keep_texts
    if stores_forbidden_texts:
        findings.add_problem(
            "--keep-prompts would store the data set's texts, which dataset.keep_texts forbids; "
            "leave it out"
        )
    completed = call_noting_problem(findings.problems, complete_method, settings)
    findings.raise_problems()
    assert completed is not None  # without it there was a problem, which was raised
    corpus = plan_corpus(settings, completed.method, findings)
    questions = _load_and_check_questions(settings, completed.method, findings, for_another_machine)
    models = ModelPlanner(settings, completed, findings).plan()
    if for_another_machine:
        findings.move_missing_out_of_problems()
    findings.raise_problems()
    if questions is None:  # only for another machine, as the rows are not on this one
        questions = _stand_in_for_questions(settings)
    parts = _CheckedParts(settings, completed, questions, models, corpus)
    return _planned_run(parts, findings)


def _load_and_check_questions(
    settings: Settings, method: Method, findings: Findings, for_another_machine: bool
) -> LoadedQuestions | None:
    """The questions of a run, checked; None where they cannot be loaded, which is added to the
    findings.

    Args:
        settings: The run's settings.
        method: The run's method.
        findings: Gets mistakes and warnings.
        for_another_machine: Whether files missing here are no error, so that the models are checked
            too.
    """
    questions = call_noting_problem(findings.problems, load_questions, settings, method, findings)
    if for_another_machine:
        findings.move_missing_out_of_problems()
    if questions is not None:
        check_questions_fit(settings, questions.dataset, findings)
    return questions


def _stand_in_for_questions(settings: Settings) -> LoadedQuestions:
    """Stands in for a run's questions where their rows are not on this machine: a data set without
    questions, whose `n_all_questions` is the official number of the preset, or 0 where --set chose
    another split, subset or repository."""
    name = settings.dataset.name
    origins_of_rows = [settings.origins.get(f"dataset.{key}") for key in ("split", "subset", "hub")]
    n_official = 0
    if "--set" not in origins_of_rows:
        n_official = presets.official_questions(name)
    dataset = Dataset(
        name,
        examples=(),
        documents={},
        fingerprint="",
        source="not on this machine",
        n_all_questions=n_official,
    )
    return LoadedQuestions(dataset, settings.dataset)


@dataclass(frozen=True)
class _CheckedParts:
    """The parts of a run in which no mistake was found."""

    settings: Settings
    completed: CompletedMethod
    questions: LoadedQuestions
    models: PlannedModels
    corpus: PlannedCorpus | None


def _planned_run(parts: _CheckedParts, findings: Findings) -> PlannedRun:
    """The run with its hash and folder, from parts without mistakes. Also adds to `findings` a
    warning for each number that comes from a run with another data set or model. A warning, or a
    missing thing, that was found several times is in the plan once."""
    method = parts.completed.method
    models = parts.models
    dataset = parts.questions.dataset
    config = _config_of_used_parts(parts)
    _warn_of_other_sources(parts.completed, config, findings)
    code: dict[str, str] = {}
    is_users_own_method = config.method.implementation not in registry.targets("methods")
    if is_users_own_method:
        code = own_code(type(method), config.method.params.values())
    hashed_corpus = None
    if parts.corpus is not None:
        hashed_corpus = parts.corpus.hashed
    task = answer_prefix.load_task(config.dataset)
    hash8 = run_hash(config, method, dataset, task, models.identities, code, hashed_corpus)
    folder = run_path(config.dataset.name, config.method.name, config.model.name, hash8)
    return PlannedRun(
        config=config,
        origins=dict(sorted(parts.completed.origins.items())),
        method=method,
        dataset=dataset,
        task=task,
        models=models.models,
        encoders=models.encoders,
        identities=models.identities,
        hash8=hash8,
        folder=folder.as_posix(),
        warnings=tuple(dict.fromkeys(findings.warnings)),
        code=code,
        choices=parts.settings.choices,
        numbers_from_runs=parts.completed.numbers_from_runs,
        missing=tuple(dict.fromkeys(findings.missing)),
        unused=models.unused,
        corpus=parts.corpus,
    )


def _config_of_used_parts(parts: _CheckedParts) -> RunConfig:
    """The run's settings with only those parts that the method uses: roles that it does not need
    are left out, encoder, reranker and retriever are None where unused. The method's name becomes
    that of tables ("bm25[wiki]"), its mark says what differs from the preset ("k=7") and names the
    corpus; a run that searches also gets the scorers of searches."""
    settings = parts.settings
    completed = parts.completed
    models = parts.models
    mark = mark_of_changes(completed, settings.dataset.name)
    if parts.corpus is not None:
        marks_that_are_set = filter(None, [mark, parts.corpus.mark])
        mark = ", ".join(marks_that_are_set)
    method = completed.choice.model_copy(update={"name": models.method_name, "mark": mark})
    questions = with_search_scorers(parts.questions, completed.method, parts.corpus)
    needed = completed.method.needs
    used_roles = {role: model for role, model in settings.roles.items() if role in needed}
    return settings.config.model_copy(
        update={
            "method": method,
            "dataset": questions.config,
            "roles": used_roles,
            "encoder": models.encoders.get("encoder"),
            "reranker": models.encoders.get("reranker"),
            "retriever": models.retriever,
        }
    )


def _warn_of_other_sources(
    completed: CompletedMethod, config: RunConfig, findings: Findings
) -> None:
    """Warn of each number that comes from a run with another data set or model.

    Args:
        completed: Has the numbers.
        config: The settings of the run that uses them.
        findings: Gets the warnings.
    """
    for parameter, number in completed.numbers_from_runs.items():
        warning = differing_source(parameter, number, config.dataset.name, config.model.name)
        if warning:
            findings.warnings.append(warning)


def run_hash(
    config: RunConfig,
    method: Method,
    dataset: Dataset,
    task: Task,
    identities: Mapping[str, ModelIdentity],
    code: Mapping[str, str],
    corpus: Mapping[str, object] | None = None,
) -> str:
    """Eight hexadecimal digits over all that can change a prediction.

    The limit, paths, scorers and the device are no part of it.

    Args:
        config: The run's settings.
        method: The method, for its settings and prompts.
        dataset: The data set, for the fingerprint of its rows.
        task: What every method is asked to do.
        identities: Role -> identity of its model or encoder.
        code: Hashes of the user's own code (storage/own_code_hash.py).
        corpus: What of the corpus can change a prediction; None without one.
    """
    return HashInputs(
        implementation=config.method.implementation,
        view=config.method.view,
        params=config.method.params,
        prompts=method.prompts(),
        index_version=method.index_version,
        task=task.model_dump(mode="json", exclude_defaults=True),
        dataset=dataset.name,
        fingerprint=dataset.fingerprint,
        identities=identities,
        seed=config.seed,
        sampling=config.model.sampling,
        code=code,
        batch=config.model.batch,
        corpus=corpus,
    ).hash8()
