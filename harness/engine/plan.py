"""Names, configuration, data and what is known of the models, checked together before anything is loaded.

    settings.resolve(choices) ──► make_plan ──► Plan ──► runner.run(plan, out)
                                     │
                                     └─ ConfigError: every mistake at once

Nothing heavy is imported: a method's module, the data set's rows and the models' small files are all it reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.config import presets, registry
from harness.config.layers import Choices
from harness.config.resolve import Draft, Resolved, config_of, draft, raise_all
from harness.config.row_label import mark
from harness.config.schema import (
    DatasetConfig,
    EncoderConfig,
    MethodChoice,
    ModelConfig,
    RunConfig,
    canonical,
    digest,
)
from harness.config.validation import build
from harness.config.yaml_tree import Tree, flatten
from harness.datasets import answer_prefix
from harness.datasets.fallback import find
from harness.errors import HarnessError, UserError
from harness.method import Method, Task
from harness.prompts import wrong
from harness.storage.code_version import own_code
from harness.storage.paths import inside

if TYPE_CHECKING:
    from harness.cost.flops import ModelShape
    from harness.datasets.base import Dataset


FROM = "from:"
"""Begins the value of a parameter that comes from a run: from:PRESET or from:RUN_FOLDER (engine/sibling_values)."""


@dataclass(frozen=True)
class Plan:
    """All that the runner needs.

    models: role -> config for every role in method.needs; encoders: likewise for method.encoders; facts: role ->
    identity of its model or encoder; hash8: covers what changes a prediction; folder: of the run, below the results.
    choices: what the plan was made from; awaits: field of the method -> "from:SOURCE" while its number is unknown, and
    the plan cannot run; amounts: field -> {"value", "note", ...} of a number that a run gave (engine/sibling_values).
    """

    config: RunConfig
    origins: dict[str, str]
    method: Method
    dataset: Dataset
    task: Task
    models: dict[str, ModelConfig]
    encoders: dict[str, EncoderConfig]
    facts: dict[str, dict[str, Any]]
    hash8: str
    folder: str
    warnings: tuple[str, ...] = ()
    choices: Choices = field(default_factory=Choices)
    awaits: dict[str, str] = field(default_factory=dict)
    amounts: dict[str, dict[str, Any]] = field(default_factory=dict)

    def served(self) -> dict[str, ModelShape | None]:
        """Role -> sizes of its model, as the configuration tells them, where it runs behind a server."""
        from harness.llm.endpoint_info import sizes

        return {role: sizes(model) for role, model in self.models.items() if model.backend == "endpoint"}


@dataclass
class _Sketch:
    """A plan while it is drawn; `problems` grows and the rest is filled as far as it can be."""

    draft: Draft
    method: Method | None = None
    dataset: Dataset | None = None
    models: dict[str, ModelConfig] = field(default_factory=dict)
    encoders: dict[str, EncoderConfig] = field(default_factory=dict)
    facts: dict[str, dict[str, Any]] = field(default_factory=dict)
    problems: list[HarnessError] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    awaits: dict[str, str] = field(default_factory=dict)

    def wrong(self, sentence: str) -> None:
        self.problems.append(UserError(sentence))


def make_plan(resolved: Resolved) -> Plan:
    """Check `resolved` against code, data and models. Raises ConfigError with all mistakes (UserError for one)."""
    config = resolved.config
    parts: dict[str, Any] = {k: getattr(config, k) for k in RunConfig.model_fields if k != "roles"}
    parts.update({f"roles.{role}": model for role, model in config.roles.items()})
    origins, warnings = dict(resolved.origins), list(resolved.warnings)
    return _plan(Draft(resolved.choices, parts, origins, resolved.raw, warnings=warnings))


def plan_choices(choices: Choices) -> Plan:
    """Resolve and plan in one go, so that mistakes of both kinds are reported together."""
    return _plan(draft(choices))


def _plan(d: Draft) -> Plan:
    found, choices = find(d), d.choices
    d = found.draft  # another one where the data set's twin stands in for it
    sketch = _Sketch(d, dataset=found.dataset)
    sketch.problems += [*d.problems, *found.problems]
    sketch.warnings += [*d.warnings, *found.warnings]
    if "method" in d.parts:
        _check_method(sketch, d.parts["method"])
    if "dataset" in d.parts:
        _check_dataset(sketch, d.parts["dataset"])
    if "model" in d.parts and sketch.method is not None:
        _check_models(sketch, sketch.method)
        _check_compressor(sketch, sketch.method)
    if sketch.method is not None:
        _check_encoders(sketch, sketch.method)
        for sentence in sketch.method.problems():
            sketch.wrong(sentence)
        _check_prompts(sketch, sketch.method)
    if sketch.dataset is not None and "method" in d.parts:
        _check_view(sketch, d.parts["method"], sketch.dataset)
    if sketch.method is not None:
        _check_skills(sketch, sketch.method)
    raise_all(sketch.problems)
    assert sketch.method is not None  # no problems: both are there
    assert sketch.dataset is not None
    return replace(_finish(sketch, sketch.method, sketch.dataset), choices=choices)


# --- the method -------------------------------------------------------------------------------------------------------


def make_method(d: Draft) -> Method:
    """Import the method of a draft and give it its checked parameters; a number to come from a run is 1 until then.

    Raises UserError for an implementation that cannot be imported, ConfigError for wrong parameters or prompts.
    """
    choice: MethodChoice = d.parts["method"]
    cls: type[Method] = registry.load(choice.implementation, Method)
    head = "method.params."
    tree = Tree()
    tree.values = {**choice.params, **dict.fromkeys(awaited(cls, choice.params), 1)}
    tree.origins = {k.removeprefix(head): v for k, v in d.origins.items() if k.startswith(head)}
    tree.raw = {k.removeprefix(head): v for k, v in d.raw.items() if k.startswith(head)}
    made = cls(build(cls.Config, tree, "method.params"))
    known = {prompt.name: prompt for prompt in made.templates()}
    raise_all([UserError(s) for n, said in made.config.prompts.items() if (s := wrong(choice.name, n, said, known))])
    return made


def awaited(cls: type[Method], params: Mapping[str, Any]) -> dict[str, str]:
    """The parameters whose number is to come from a run: {"max_nodes": "from:pecan"}."""
    return {name: text for name in cls.takes if isinstance(text := params.get(name), str) and text.startswith(FROM)}


def _check_method(sketch: _Sketch, choice: MethodChoice) -> None:
    try:
        sketch.method = make_method(sketch.draft)
    except UserError as e:
        sketch.problems.append(e)
        return
    sketch.awaits = awaited(type(sketch.method), choice.params)
    params = sketch.method.config.model_dump(mode="json") | sketch.awaits
    sketch.draft.parts["method"] = choice.model_copy(update={"params": params})
    origins = sketch.draft.origins
    for leaf in flatten(params, "method.params"):
        origins.setdefault(leaf, "default")


# --- the data set -----------------------------------------------------------------------------------------------------


def _check_dataset(sketch: _Sketch, config: DatasetConfig) -> None:
    from harness import scorers

    for sentence in scorers.problems(list(config.scorers)):
        sketch.wrong(sentence)
    if sketch.dataset is not None and not len(sketch.dataset):
        sketch.wrong(f"the data set '{config.name}' has no questions ({sketch.dataset.source})")


def _check_view(sketch: _Sketch, choice: MethodChoice, dataset: Dataset) -> None:
    if choice.view != "evidence" or not len(dataset):
        return
    without = sum(not e.gold.supporting for e in dataset.examples)
    if without == len(dataset):
        sketch.wrong(
            f"'{choice.name}' shows the supporting passages alone, but the data set '{dataset.name}' marks none; "
            "leave this method out"
        )
    elif without:
        sketch.warnings.append(
            f"{without} of {len(dataset)} questions of '{dataset.name}' have no supporting marks, so '{choice.name}' "
            "answers them from an empty text"
        )


# --- models and encoders ----------------------------------------------------------------------------------------------


def _check_models(sketch: _Sketch, method: Method) -> None:
    from harness.llm.model_info import model_facts
    from harness.models import ModelFacts

    parts = sketch.draft.parts
    known: dict[str, ModelFacts] = {}
    for role in method.needs:
        config = _with_adapters(sketch, method, role, parts.get(f"roles.{role}", parts["model"]))
        sketch.models[role] = config
        key = canonical(config.model_dump(mode="json"))
        if key not in known:
            known[key] = facts = model_facts(config)
            for sentence in facts.problems:
                sketch.wrong(sentence)
            sketch.warnings += facts.warnings
        sketch.facts[role] = known[key].identity
        _check_pair(sketch, method, role, known[key])
    for path in parts:
        role = path.removeprefix("roles.")
        if path.startswith("roles.") and role not in method.needs:
            sketch.warnings.append(
                f"'{parts['method'].name}' uses no {role} model, so the one set is not used; it uses: "
                f"{', '.join(method.needs) or 'none'}"
            )


def _check_compressor(sketch: _Sketch, method: Method) -> None:
    """Say where the reader compresses its own text: the papers have a smaller model for it."""
    parts = sketch.draft.parts
    if "compressor" not in method.needs or "roles.compressor" in parts or parts["model"].embedded:
        return
    name, reader = parts["method"].name, parts["model"].name
    own: dict[str, Any] = {}
    for _, values in presets.read("profiles", "paper"):
        own = values.get("methods", {}).get(name, {}).get("roles", own)
    model = own.get("compressor")
    better = f"the papers' setting (--profile paper) has {model} for it" if model else "name a smaller model for it"
    setting = f"--set roles.compressor={model or 'NAME'}"
    sketch.warnings.append(f"'{name}' compresses with the reader '{reader}' itself; {better}: {setting}")


def _with_adapters(sketch: _Sketch, method: Method, role: str, config: ModelConfig) -> ModelConfig:
    """The role's model with the adapters that the method uses of those it comes with."""
    from harness.llm.adapters import furnished

    wanted = method.adapters().get(role, {})
    config = furnished(config, wanted)
    missing = [name for name, needed in wanted.items() if needed and name not in config.adapters]
    if missing:
        preset = sketch.draft.parts["method"].name
        folders = " ".join(f"roles.{role}.adapters.{name}=FOLDER" for name in missing)
        ways = [f"name them (--set {folders})"]
        ways += [f"train them (harness train {preset} --model MODEL)"] if method.training() else []
        ways += [method.without_adapters] if method.without_adapters else []
        sketch.wrong(
            f"'{preset}' needs trained adapters of its {role} ({', '.join(missing)}), which the model '{config.name}' "
            f"does not have; {', or '.join(ways)}"
        )
    return config


def _check_prompts(sketch: _Sketch, method: Method) -> None:
    """Prompts against the models: a system turn needs a template with the role, an adapter the prompts it learnt."""
    from harness.llm.adapters import other_prompts, without_prompts
    from harness.llm.model_info import system_problem

    if sketch.problems:
        return  # nothing is known of a model that cannot be used
    system = any(prompt.of(method.config).system for prompt in method.templates())
    for role, config in sketch.models.items():
        if system and (sentence := system_problem(config)):
            sketch.wrong(sentence)
        used = {name: config.adapters[name] for name in method.adapters().get(role, {}) if name in config.adapters}
        sketch.problems += [UserError(s) for n, at in used.items() if (s := other_prompts(n, at, method.prompts()))]
        sketch.warnings += without_prompts(used)


def _check_skills(sketch: _Sketch, method: Method) -> None:
    """Whether an embedded model was trained on what the method asks of it; never an error."""
    from harness.engine import model_warnings as embedded

    if not sketch.problems:
        sketch.warnings += embedded.untrained(sketch.models.values(), method, sketch.draft.parts["method"].name)


def _check_pair(sketch: _Sketch, method: Method, role: str, facts: Any) -> None:
    """What a method needs of the model in a role against what the model can do, and its window."""
    if facts.problems:
        return  # nothing is known of a model that cannot be used
    name = sketch.draft.parts["method"].name
    missing = sorted(method.needs[role] - facts.capabilities)
    if missing:
        from harness.engine.suggest import fitting

        served = ", ".join(fitting(facts.capabilities)) or "none"
        reasons = "".join(f": {facts.refusals[one]}" for one in missing if one in facts.refusals)
        sketch.wrong(
            f"method '{name}' needs {' and '.join(missing)} of its {role}, which the model '{facts.name}' does not "
            f"offer ({', '.join(sorted(facts.capabilities)) or 'no capabilities'}){reasons}; choose another model, or "
            f"a method that this one can serve ({served})"
        )
    dataset: DatasetConfig | None = sketch.draft.parts.get("dataset")
    if role == "reader" and dataset is not None and facts.window and facts.window <= dataset.max_answer_tokens:
        sketch.wrong(
            f"the window of '{facts.name}' ({facts.window} tokens) has no room beside the answer of up to "
            f"{dataset.max_answer_tokens} tokens; raise model.window or lower dataset.max_answer_tokens"
        )


def _check_encoders(sketch: _Sketch, method: Method) -> None:
    from harness.embed.encoder_info import chunk_warning, encoder_facts

    parts = sketch.draft.parts
    # Chunks of whole sentences are mostly shorter than chunk_tokens; the others are as long as it.
    chunk = (
        None if getattr(method.config, "chunks", None) == "sentences" else getattr(method.config, "chunk_tokens", None)
    )
    for role in method.encoders:
        config: EncoderConfig | None = parts.get(role)
        if config is None:
            if role == "reranker":
                sketch.wrong(f"method '{parts['method'].name}' needs a reranker; name one: --set reranker=NAME")
            continue  # a missing encoder is reported by settings already
        facts = encoder_facts(config)
        for sentence in facts.problems:
            sketch.wrong(sentence)
        sketch.encoders[role], sketch.facts[role] = config, facts.identity
        if role == "encoder" and not facts.problems and (cut := chunk_warning(config, chunk)):
            sketch.warnings.append(cut)
        _name_stand_in(sketch, role, config.name)
    origins = sketch.draft.origins
    for role in ("encoder", "reranker"):
        said = any(o == "--set" for path, o in origins.items() if path.startswith(role + "."))
        if said and role not in method.encoders:
            sketch.warnings.append(f"'{parts['method'].name}' uses no {role}, so the one set is not used")


def _name_stand_in(sketch: _Sketch, role: str, used: str) -> None:
    """Show an encoder that is not the preset's own in the row's name: "dragon[minilm]"."""
    choice: MethodChoice = sketch.draft.parts["method"]
    own, suffix = getattr(choice, role, None), f"[{used}]"
    if own is not None and presets.fold(own) != presets.fold(used) and not choice.name.endswith(suffix):
        sketch.draft.parts["method"] = choice.model_copy(update={"name": choice.name + suffix})


# --- the result -------------------------------------------------------------------------------------------------------


def _finish(sketch: _Sketch, method: Method, dataset: Dataset) -> Plan:
    choice: MethodChoice = sketch.draft.parts["method"]
    said = mark(method, choice, dataset.name, sketch.draft.origins)
    sketch.draft.parts["method"] = choice.model_copy(update={"mark": said})
    config = config_of(sketch.draft)
    task = answer_prefix.task(config.dataset)
    hash8 = "pending" if sketch.awaits else digest(_what_counts(sketch, config, method, dataset, task))[:8]
    names = (config.dataset.name, f"{config.method.name}--{config.model.name}--{hash8}")
    folder = inside(Path(), *(n.replace("/", "~") for n in names)).as_posix()
    return Plan(
        config=config,
        origins=dict(sorted(sketch.draft.origins.items())),
        method=method,
        dataset=dataset,
        task=task,
        models=sketch.models,
        encoders=sketch.encoders,
        facts=sketch.facts,
        hash8=hash8,
        folder=folder,
        warnings=tuple(dict.fromkeys(sketch.warnings)),
        awaits=sketch.awaits,
    )


def _what_counts(sketch: _Sketch, config: RunConfig, method: Method, dataset: Dataset, task: Task) -> dict[str, Any]:
    """All that changes a prediction, and nothing else: no limit, path, scorer, batch size or place to run."""
    return {
        "method": {
            "implementation": config.method.implementation,
            "view": config.method.view,
            "params": {name: value for name, value in config.method.params.items() if name != "prompts"},
            "prompts": method.prompts(),
            "index_version": method.index_version,
            **({"code": code} if (code := own_code(type(method))) else {}),
        },
        "task": task.model_dump(mode="json"),
        "dataset": {"name": dataset.name, "fingerprint": dataset.fingerprint},
        "identities": {role: sketch.facts[role] for role in sorted(sketch.facts)},
        "seed": config.seed,
    }
