"""Check names, configuration, data and models together, before anything is loaded.

    plan_choices(choices) ──► Plan ──► runner.run(plan, out)
           │
           └─ ConfigError: every mistake at once

Nothing heavy is imported: it reads a method's module, the data set's rows and the models' small
files. A GGUF model is converted first, once, because its tokenizer is made by that.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from harness import scorers
from harness.config import presets, registry
from harness.config.layers import Choices, point_text
from harness.config.resolve import Resolution, resolve
from harness.config.schema import EncoderConfig, MethodChoice, ModelConfig, RunConfig, digest
from harness.config.yaml_tree import Tree, build, flatten
from harness.datasets import answer_prefix
from harness.datasets.base import Dataset
from harness.datasets.load_once import load_asked
from harness.engine.numbers_from_runs import (
    NumberFromRun,
    asked_from_runs,
    differing_source,
    number_from_run,
)
from harness.engine.plan_models import check_prompts, encoders_of, models_of
from harness.errors import Missing, UserError, attempt, raise_all
from harness.method import Method, Task, misdeclared
from harness.storage.paths import run_path

_PARAMS = "method.params."


@dataclass(frozen=True)
class Plan:
    """All that the runner needs."""

    config: RunConfig
    origins: dict[str, str]  # path of a value -> what set it
    method: Method
    dataset: Dataset  # without questions where its rows are in `missing`; `rows` is then the official number
    task: Task
    models: dict[str, ModelConfig]  # by role, for every role in method.needs
    encoders: dict[str, EncoderConfig]  # by role, for every role in method.encoders
    identities: dict[str, dict[str, Any]]  # role -> what identifies its model or encoder
    hash8: str  # covers what changes a prediction
    folder: str  # of the run, below the results
    warnings: tuple[str, ...] = ()
    code: dict[str, str] = field(
        default_factory=dict
    )  # hashes of the user's own code (storage/own_code_hash)
    choices: Choices = field(default_factory=Choices)  # what the plan was made from
    numbers: dict[str, NumberFromRun] = field(
        default_factory=dict
    )  # parameter -> the number that a run gave
    missing: tuple[
        str, ...
    ] = ()  # not on this machine, so that it cannot run here: "weights of owner/name"

    @property
    def questions(self) -> int:
        """The number of questions to ask; 0 where the rows are missing and no preset says how many
        there are."""
        config, rows = self.config, self.dataset.rows
        return len(self.dataset.examples[: config.limit]) or min(
            rows, config.limit or config.sample or rows
        )

    @property
    def method_name(self) -> str:
        """How messages call the method, with its point of a sweep: "bm25 k=3"."""
        return " ".join(filter(None, [self.config.method.name, point_text(self.choices.point)]))

    @property
    def run_name(self) -> str:
        """How messages call the run: "bm25 k=3 on musique"."""
        return f"{self.method_name} on {self.config.dataset.name}"


def plan_choices(choices: Choices, elsewhere: bool = False) -> Plan:
    """Resolve `choices` and check them against code, data and models.

    elsewhere: plan a run for another machine: no weights are fetched, and files missing here are no
    error. Raises ConfigError with every mistake (UserError for one).
    """
    if not elsewhere:
        return _plan(resolve(choices), elsewhere)
    from harness.storage.hub_download import without_weights

    with without_weights():
        return _plan(resolve(choices), elsewhere)


def _plan(resolution: Resolution, elsewhere: bool) -> Plan:
    """The plan of resolved settings; elsewhere: as in `plan_choices`."""
    # 1. The method's parameters with their defaults, and what the data set's settings ask for:
    # before anything is
    #    fetched or looked for.
    numbers: dict[str, NumberFromRun] = {}
    if "method" in resolution.parts:
        numbers = attempt(resolution.problems, fill_from_runs, resolution) or {}
    method = (
        attempt(resolution.problems, make_method, resolution)
        if "method" in resolution.parts
        else None
    )
    if method is not None:
        params = method.config.model_dump(mode="json")
        resolution.parts["method"] = resolution.parts["method"].model_copy(
            update={"params": params}
        )
        for leaf in flatten(params, "method.params"):
            resolution.origins.setdefault(leaf, "default")
    if "dataset" in resolution.parts:
        resolution.problems += map(
            UserError, scorers.problems(list(resolution.parts["dataset"].scorers))
        )
        if resolution.parts.get("keep_prompts") and not resolution.parts["dataset"].keep_texts:
            resolution.add_problem(
                "--keep-prompts would store the data set's texts, which dataset.keep_texts "
                "forbids; leave it out"
            )
    raise_all(resolution.problems)
    assert method is not None  # no problems: it is there
    # 2. The rows. None if loading failed; only a plan for another machine goes on then.
    choice: MethodChoice = resolution.parts["method"]
    dataset = attempt(resolution.problems, load_asked, resolution)
    absent = (
        _pop_missing_here(resolution) if elsewhere else []
    )  # of the data set, so that the models are checked too
    if dataset is not None and not len(dataset):
        resolution.add_problem(f"the data set '{dataset.name}' has no questions ({dataset.source})")
    elif dataset is not None and choice.view == "evidence":
        n_unmarked = sum(not e.gold.supporting for e in dataset.examples)
        if n_unmarked == len(dataset):
            resolution.add_problem(
                f"'{choice.name}' shows the supporting passages alone, but the data set "
                f"'{dataset.name}' marks none; "
                "leave this method out"
            )
        elif n_unmarked:
            resolution.warnings.append(
                f"{n_unmarked} of {len(dataset)} questions of '{dataset.name}' have no supporting "
                "marks, so "
                f"'{choice.name}' answers them from an empty text"
            )
    if dataset is not None:
        golds = [example.gold for example in dataset.examples]
        resolution.problems += map(
            UserError, scorers.lacking_inputs(resolution.parts["dataset"].scorers, golds)
        )
    # 3. The models and encoders, by what the method needs of them.
    identities: dict[str, dict[str, Any]] = {}
    resolution.problems += map(UserError, attempt(resolution.problems, method.problems) or ())
    models = models_of(resolution, method, identities)
    encoders = encoders_of(resolution, method, identities)
    check_prompts(resolution, method, models)
    absent += _pop_missing_here(resolution) if elsewhere else []
    raise_all(resolution.problems)
    if (
        dataset is None
    ):  # the rows are not here: none, with the official number if it is the official split
        name = resolution.parts["dataset"].name
        is_official = all(
            resolution.origins.get(f"dataset.{key}") != "--set"
            for key in ("split", "subset", "hub")
        )
        rows = (presets.dataset_note(name, "official_questions") or 0) if is_official else 0
        dataset = Dataset(name, (), {}, "", "not on this machine", rows=rows)
    # 4. The run's name in tables says which parameters are not the preset's.
    choice = resolution.parts["method"]
    params = {
        key.removeprefix(_PARAMS): origin
        for key, origin in resolution.origins.items()
        if key.startswith(_PARAMS)
    }
    changed_params = {
        key: o
        for key, o in params.items()
        if o != "default" and not o.startswith(("configs/", "$")) and key not in numbers
    }
    if changed_params:
        from harness.config.run_label import changes_from_preset

        mark = changes_from_preset(method, choice, dataset.name, changed_params)
        resolution.parts["method"] = choice.model_copy(update={"mark": mark})
    # 5. The configuration with the parts that are used, its hash and folder.
    used = {
        "roles": {
            role: config for role, config in resolution.config.roles.items() if role in method.needs
        }
    }
    used |= {role: encoders.get(role) for role in ("encoder", "reranker")}  # type: ignore[misc]
    config, task = (
        resolution.config.model_copy(update=used),
        answer_prefix.task(resolution.parts["dataset"]),
    )
    code: dict[str, str] = {}
    if choice.implementation not in registry.shipped("methods"):
        from harness.storage.own_code_hash import own_code

        code = own_code(type(method), choice.params.values())
    hash8 = run_hash(config, method, dataset, task, identities, code)
    sources = [
        differing_source(name, number, config.dataset.name, config.model.name)
        for name, number in numbers.items()
    ]
    resolution.warnings += filter(None, sources)
    return Plan(
        config=config,
        origins=dict(sorted(resolution.origins.items())),
        method=method,
        dataset=dataset,
        task=task,
        models=models,
        encoders=encoders,
        identities=identities,
        hash8=hash8,
        folder=run_path(
            config.dataset.name, config.method.name, config.model.name, hash8
        ).as_posix(),
        warnings=tuple(dict.fromkeys(resolution.warnings)),
        code=code,
        choices=resolution.choices,
        numbers=numbers,
        missing=tuple(dict.fromkeys(problem.thing for problem in absent)),
    )


def _pop_missing_here(r: Resolution) -> list[Missing]:
    """Remove from `r.problems` those about things only missing on this machine, and return them."""
    absent = [problem for problem in r.problems if isinstance(problem, Missing)]
    r.problems = [problem for problem in r.problems if problem not in absent]
    return absent


def make_method(r: Resolution) -> Method:
    """Import the resolved method and check its parameters; those that still name a run get the
    placeholder 1.

    Raises UserError for an implementation that cannot be imported, ConfigError for wrong parameters
    or prompts.
    """
    choice: MethodChoice = r.parts["method"]
    cls: type[Method] = registry.load(choice.implementation, Method)
    if wrong := misdeclared(cls):
        raise UserError(f"the method '{choice.implementation}' has {wrong} (docs/extending.md)")
    tree = Tree()
    tree.values = {**choice.params, **dict.fromkeys(asked_from_runs(cls, choice.params), 1)}
    tree.origins = {
        k.removeprefix(_PARAMS): v for k, v in r.origins.items() if k.startswith(_PARAMS)
    }
    method = cls(build(cls.Config, tree, "method.params"))
    if method.config.prompts:
        from harness.prompt_replacements import replacement_problem

        prompts = {prompt.name: prompt for prompt in method.templates()}
        sentences = (
            replacement_problem(choice.name, n, turns, prompts)
            for n, turns in method.config.prompts.items()
        )
        raise_all([UserError(problem) for problem in sentences if problem])
    return method


def fill_from_runs(r: Resolution) -> dict[str, NumberFromRun]:
    """Set the parameters that name a run to the number that it gives; returns these. Raises
    UserError."""
    choice: MethodChoice = r.parts["method"]
    asked = asked_from_runs(registry.method_class(choice.implementation), choice.params)
    if not asked:
        return {}
    method = make_method(r)
    numbers = {
        name: number_from_run(method, choice.name, name, text) for name, text in asked.items()
    }
    values = {name: number.value for name, number in numbers.items()}
    r.parts["method"] = choice.model_copy(update={"params": {**choice.params, **values}})
    r.origins |= {_PARAMS + name: number.note for name, number in numbers.items()}
    return numbers


def run_hash(
    config: RunConfig,
    method: Method,
    dataset: Dataset,
    task: Task,
    identities: Mapping[str, dict[str, Any]],
    code: Mapping[str, str],
) -> str:
    """Eight hexadecimal digits over all that changes a prediction: no limit, path, scorer or
    device.

    identities: role -> identity of its model or encoder; code: hashes of the user's own code
    (storage/own_code_hash).
    """
    inputs = {
        "method": {
            "implementation": config.method.implementation,
            "view": config.method.view,
            "params": {
                name: value for name, value in config.method.params.items() if name != "prompts"
            },
            "prompts": method.prompts(),
            "index_version": method.index_version,
            **({"code": code} if code else {}),
        },
        "task": task.model_dump(mode="json", exclude_defaults=True),
        "dataset": {"name": dataset.name, "fingerprint": dataset.fingerprint},
        "identities": dict(sorted(identities.items())),
        "seed": config.seed,
        **({"sampling": config.model.sampling} if config.model.sampling else {}),
        **(
            {"batch": True} if config.model.batch else {}
        ),  # no other answers, but another cost and time
    }
    return digest(inputs)[:8]
