"""The models and encoders of a plan, checked against what the method needs of them; none is loaded.

Mistakes and warnings are added to the resolution `r`, what identifies each model to `identities`.
"""

from collections.abc import Mapping
from typing import Any

from harness.config import presets
from harness.config.resolve import Resolution
from harness.config.schema import SAMPLING, DatasetConfig, EncoderConfig, ModelConfig, canonical
from harness.cost.flops import ModelShape
from harness.errors import Missing, UserError, raise_all
from harness.llm import backend
from harness.llm.backend import ModelFacts
from harness.method import Method


def models_of(
    r: Resolution, method: Method, identities: dict[str, dict[str, Any]]
) -> dict[str, ModelConfig]:
    """Role -> checked model, for each role that the method needs; adds role -> what identifies it
    to `identities`."""
    parts = r.parts
    models: dict[str, ModelConfig] = {}
    facts_by_config: dict[str, ModelFacts] = {}
    for role in method.needs:
        models[role] = config = _with_adapters(
            r, method, role, parts.get(f"roles.{role}", parts["model"])
        )
        if r.problems and config.backend == "hf":
            from harness.llm.model_info import needs_conversion

            if needs_conversion(config):
                raise_all(
                    r.problems
                )  # a minute's conversion is not worth the mistakes that are left
        key = canonical(config.model_dump(mode="json"))
        if key not in facts_by_config:
            facts_by_config[key] = facts = backend.model_facts(config)
            _add_problems(r, facts)
            r.warnings += facts.warnings
        identities[role] = facts_by_config[key].identity
        _check_needs(r, method, role, facts_by_config[key])
    # Only the reader's replies are sampled or cut.
    reader: ModelConfig = parts["model"]
    if "top_p" in reader.sampling and not reader.temperature:
        r.add_problem(
            "model.top_p is for sampled replies; set model.temperature too, or leave it out"
        )
    for path in (path for path in parts if path.startswith("roles.")):
        for name in (
            name
            for name in SAMPLING
            if r.origins.get(f"{path}.{name}", "as the reader") != "as the reader"
        ):
            r.add_problem(
                f"{path}.{name}: only the reader's replies are sampled or cut; set model.{name}"
            )
    preset = parts["method"].name
    if not method.one_request and any(config.batch for config in models.values()):
        r.add_problem(
            f"model.batch: requests of '{preset}' may depend on earlier replies, and a batch takes "
            "up to a day; leave "
            "it out"
        )
    # Replies that --cache replies cannot keep; and a server does not show its weights.
    if parts.get("cache") is not None:
        if not parts["dataset"].keep_texts:
            r.add_problem(
                "--cache replies would keep replies about texts that dataset.keep_texts forbids; "
                "leave it out"
            )
        for name in dict.fromkeys(
            model.name for model in models.values() if model.backend == "endpoint"
        ):
            r.warnings.append(
                f"--cache replies knows '{name}' by its address, name and model.revision, as a "
                "server shows no "
                "weights; set another model.revision when they change"
            )
        if scripted := [model.name for model in models.values() if model.backend == "scripted"]:
            r.add_problem(
                f"--cache replies cannot be used with a scripted model ('{scripted[0]}'); leave it "
                "out"
            )
    for path in parts:
        role = path.removeprefix("roles.")
        shared = r.origins.get(f"{path}.name", "").startswith(
            ("suite ", "profile ")
        )  # for those runs that use it
        if path.startswith("roles.") and role not in method.needs and not shared:
            r.warnings.append(
                f"'{preset}' uses no {role} model, so the setting {path} is ignored; it uses: "
                f"{', '.join(method.needs) or 'none'}"
            )
    # The papers compress with a smaller model than the reader.
    if "compressor" in method.needs and "roles.compressor" not in parts and not reader.embedded:
        role_models: dict[str, Any] = {}
        for _, values in presets.read("profiles", "paper"):
            role_models = values.get("methods", {}).get(preset, {}).get("roles", role_models)
        model = role_models.get("compressor")
        better = (
            f"the papers' setting (--profile paper) has {model} for it"
            if model
            else "name a smaller model for it"
        )
        setting = f"--set roles.compressor={model or 'NAME'}"
        r.warnings.append(
            f"'{preset}' compresses with the reader '{reader.name}' itself; {better}: {setting}"
        )
    return models


def _add_problems(r: Resolution, facts: ModelFacts) -> None:
    """Add to `r` what is wrong with a model or encoder; what is only absent on this machine is
    added as Missing."""
    for sentence in facts.problems:
        absent = facts.absent.get(sentence)
        r.problems.append(UserError(sentence) if absent is None else Missing(sentence, absent))


def _with_adapters(r: Resolution, method: Method, role: str, config: ModelConfig) -> ModelConfig:
    """The model `config` of a role with the adapters that the method uses; adds a problem for one
    that is missing."""
    if not (used := method.adapters().get(role, {}).values()):
        return config
    from harness.llm.adapters import with_bundled_adapters

    config = with_bundled_adapters(config, [use.name for use in used])
    missing = list(
        dict.fromkeys(use.name for use in used if use.needed and use.name not in config.adapters)
    )
    if missing:
        preset = r.parts["method"].name
        folders = " ".join(f"roles.{role}.adapters.{name}=FOLDER" for name in missing)
        ways = [f"name them (--set {folders})"]
        ways += [f"train them (harness train {preset} --model MODEL)"] if method.training() else []
        ways += [method.without_adapters] if method.without_adapters else []
        r.add_problem(
            f"'{preset}' needs trained adapters of its {role} ({', '.join(missing)}), which the "
            f"model '{config.name}' "
            f"does not have; {', or '.join(ways)}"
        )
    return config


def check_prompts(r: Resolution, method: Method, models: dict[str, ModelConfig]) -> None:
    """Check that chat templates have the system turn that prompts use; warn of models not trained
    on these prompts."""
    if r.problems:
        return  # nothing is known of a model that cannot be used
    system = any(prompt.of(method.config).system for prompt in method.templates())
    for role, config in models.items():
        if system and (sentence := backend.backend_of(config).system_problem(config)):
            r.add_problem(sentence)
        uses = method.adapters().get(role, {}).items()
        used = {
            task: (use.name, config.adapters[use.name])
            for task, use in uses
            if use.name in config.adapters
        }
        if used:
            from harness.llm.adapters import prompt_mismatch, unknown_prompts

            mismatches = (
                prompt_mismatch(*adapter, task, method.prompts()) for task, adapter in used.items()
            )
            r.problems += [UserError(sentence) for sentence in mismatches if sentence]
            r.warnings += unknown_prompts(dict(used.values()))
    dataset: DatasetConfig | None = r.parts.get("dataset")
    served = [model.name for model in models.values() if model.backend == "endpoint"]
    if dataset is not None and not dataset.chat and served:
        r.warnings.append(
            f"dataset.chat=false: '{dataset.name}' is shown without a chat template, but the "
            f"server of '{served[0]}' "
            "always uses its own"
        )
    if not r.problems and any(model.embedded for model in models.values()):
        from harness.engine.model_warnings import untrained_warnings

        r.warnings += untrained_warnings(models.values(), method, r.parts["method"].name)


_LOADED_ONLY = {"attention": "attention", "plain_model": "the transformers model itself"}
"""Capability -> words, for those that no server gives."""


def _check_needs(r: Resolution, method: Method, role: str, facts: Any) -> None:
    """Add a problem where the role's model, known by its ModelFacts, lacks a capability or window
    that is needed."""
    if facts.problems:
        return  # nothing is known of a model that cannot be used
    name = r.parts["method"].name
    missing = sorted(method.needs[role] - facts.capabilities)
    if missing:
        from harness.engine.runnable_presets import runnable_presets

        served = ", ".join(runnable_presets(facts.capabilities)) or "none"
        reasons = "".join(
            f": {facts.refusals[lacking]}" for lacking in missing if lacking in facts.refusals
        )
        phrases = [words for name, words in _LOADED_ONLY.items() if name in missing]
        if phrases and "served" in facts.identity:
            lacks = f"{phrases[0]}, which the server of '{facts.name}' cannot give"  # one sentence for all its roles
        else:
            offered = ", ".join(sorted(facts.capabilities)) or "no capabilities"
            lacks = f"{' and '.join(missing)} of its {role}, which the model '{facts.name}' does not offer ({offered})"
        r.add_problem(
            f"method '{name}' needs {lacks}{reasons}; choose another model, or a method that this "
            "one can serve "
            f"({served})"
        )
    sizes = {**facts.sizes, "weights": facts.identity["weights"]} if facts.sizes else {}
    for sentence in method.model_problems(role, facts.window, sizes):
        r.add_problem(f"method '{name}': {sentence}")
    dataset: DatasetConfig | None = r.parts.get("dataset")
    if (
        role == "reader"
        and dataset is not None
        and facts.window
        and facts.window <= dataset.max_answer_tokens
    ):
        r.add_problem(
            f"the window of '{facts.name}' ({facts.window} tokens) has no room beside the answer "
            "of up to "
            f"{dataset.max_answer_tokens} tokens; raise model.window or lower "
            "dataset.max_answer_tokens"
        )


def encoders_of(
    r: Resolution, method: Method, identities: dict[str, dict[str, Any]]
) -> dict[str, EncoderConfig]:
    """Role -> checked encoder or reranker that the method uses; adds role -> what identifies it to
    `identities`."""
    parts = r.parts
    # Chunks of whole sentences are mostly shorter than chunk_tokens; the others are as long as it.
    by_tokens = getattr(method.config, "chunks", None) not in ("sentences", "words")
    chunk = getattr(method.config, "chunk_tokens", None) if by_tokens else None
    encoders: dict[str, EncoderConfig] = {}
    for role in method.encoders:
        config: EncoderConfig | None = parts.get(role)
        if config is None:
            if role == "reranker":
                r.add_problem(
                    f"method '{parts['method'].name}' needs a reranker; name one: --set "
                    "reranker=NAME"
                )
            continue  # a missing encoder is reported by settings already
        from harness.embed import encoder_info

        facts = encoder_info.encoder_facts(config, role)
        _add_problems(r, facts)
        encoders[role], identities[role] = config, facts.identity
        if (
            role == "encoder"
            and not facts.problems
            and (cut := encoder_info.chunk_warning(config, chunk))
        ):
            r.warnings.append(cut)
        # An encoder that is not the preset's own stands in the row's name: "dragon[minilm]".
        choice, suffix = parts["method"], f"[{config.name}]"
        name: str | None = getattr(choice, role, None)
        if (
            name is not None
            and presets.fold(name) != presets.fold(config.name)
            and not choice.name.endswith(suffix)
        ):
            parts["method"] = choice.model_copy(update={"name": choice.name + suffix})
    for role in ("encoder", "reranker"):
        is_set = any(o == "--set" for path, o in r.origins.items() if path.startswith(role + "."))
        if is_set and role not in method.encoders:
            r.warnings.append(
                f"'{parts['method'].name}' uses no {role}, so the setting {role} is ignored"
            )
    return encoders


def server_shapes(models: Mapping[str, ModelConfig]) -> dict[str, ModelShape | None]:
    """Role -> sizes of its model (None where unknown), of the models behind a server."""
    served = {role: model for role, model in models.items() if model.backend == "endpoint"}
    if not served:
        return {}
    from harness.llm.endpoint_info import endpoint_shape

    return {role: endpoint_shape(model) for role, model in served.items()}
