"""The models and encoders of a plan, checked against what the method needs of them; none is loaded.

    ModelPlanner(settings, completed, findings).plan() -> PlannedModels(models, encoders, identities)

Mistakes and warnings are added to the findings of the plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.config import presets
from harness.config.resolve import Settings
from harness.config.schema import (
    SAMPLING,
    EncoderConfig,
    ModelConfig,
    RetrieverConfig,
    canonical_json,
)
from harness.config.yaml_tree import mapping_at
from harness.cost.flops import ModelShape
from harness.embed import encoder_info
from harness.engine.completed_method import CompletedMethod
from harness.engine.findings import Findings
from harness.engine.model_warnings import untrained_warnings
from harness.engine.runnable_presets import runnable_presets
from harness.errors import Missing, call_noting_problem
from harness.llm import backend
from harness.llm.adapters import prompt_mismatch, unknown_prompts_warnings, with_bundled_adapters
from harness.llm.backend import ModelFacts
from harness.llm.endpoint_info import endpoint_shape
from harness.llm.model_info import needs_conversion
from harness.method.abilities import ChecksModels, UsesAdapters, used_adapters
from harness.retrieval.served import find_problems, needs_vector, retriever_identity
from harness.storage.manifest_file import ModelIdentity

_AS_READER = "as the reader"
_NOT_GIVEN_BY_SERVERS = {"attention": "attention", "plain_model": "the transformers model itself"}
"""Capability -> words, for those that no server gives."""


@dataclass(frozen=True)
class PlannedModels:
    """The models and encoders of a run by role, and what identifies each.

    Attributes:
        models: Language models.
        encoders: Encoder and reranker.
        identities: What identifies each of both, by role.
        method_name: The method's, with an encoder that is not the preset's own: "dragon[minilm]",
            or with the retriever: "bm25[wiki]".
        retriever: Where the method takes one.
        unused: What the user set and the method does not have: "reranker", "roles.builder".
    """

    models: dict[str, ModelConfig]
    encoders: dict[str, EncoderConfig]
    identities: dict[str, ModelIdentity]
    method_name: str
    retriever: RetrieverConfig | None
    unused: tuple[str, ...]


@dataclass
class ModelPlanner:
    """Checks the models and encoders of one run; every mistake and warning goes to `findings`.

    Attributes:
        settings: The run's settings.
        completed: The run's method with its parameters.
        findings: Gets mistakes and warnings.
        _identities: Role -> what identifies its model, encoder or retriever, for those checked so
            far.
        _facts_by_settings: Settings of a model as JSON -> what its small files say, so that roles
            that share a model read them once.
    """

    settings: Settings
    completed: CompletedMethod
    findings: Findings
    _identities: dict[str, ModelIdentity] = field(default_factory=dict)
    _facts_by_settings: dict[str, ModelFacts] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Keep the method and the name by which messages call it."""
        self._method = self.completed.method
        self._name = self.completed.choice.name

    def plan(self) -> PlannedModels:
        """Check all models and encoders, and return those that the method uses. Mistakes, also what
        the method says against its own settings, do not end the check: they are added to the
        findings."""
        sentences = call_noting_problem(self.findings.problems, self._method.problems)
        for sentence in sentences or ():
            self.findings.add_problem(sentence)
        models = {role: self._checked_model(role) for role in self._method.needs}
        self._check_sampling()
        self._check_batch(models)
        self._check_reply_cache(models)
        self._warn_if_reader_compresses()
        retriever = self._checked_retriever()
        encoders = self._checked_encoders(retriever)
        if not self.findings.problems:  # else nothing is known of a model that cannot be used
            self._check_prompts(models)
        name = self._name_with_encoders(encoders)
        if retriever is not None:
            name += f"[{retriever.name}]"
        return PlannedModels(
            models=models,
            encoders=encoders,
            identities=self._identities,
            method_name=name,
            retriever=retriever,
            unused=self._unused_settings(encoders),
        )

    def _checked_model(self, role: str) -> ModelConfig:
        """The settings of a role's model, checked: mistakes and warnings are added to the findings,
        for roles with the same model once. Also records what identifies the model.

        Raises UserError or ConfigError where mistakes were found and this model would first be
        converted, which takes a minute.
        """
        config = self._with_used_adapters(role, self.settings.model_of(role))
        if self.findings.problems and config.backend == "hf" and needs_conversion(config):
            # Further mistakes are not worth a minute's conversion.
            self.findings.raise_problems()
        settings_text = canonical_json(config.model_dump(mode="json"))
        facts = self._facts_by_settings.get(settings_text)
        if facts is None:
            facts = backend.model_facts(config)
            self._facts_by_settings[settings_text] = facts
            self._add_problems(facts)
            self.findings.warnings += facts.warnings
        self._identities[role] = facts.identity
        if not facts.problems:  # else nothing is known of it
            self._check_capabilities(role, facts)
            self._check_window(role, facts)
        return config

    def _add_problems(self, facts: ModelFacts) -> None:
        """Add what is wrong with a model or encoder to the problems; what this machine merely lacks
        is added as Missing."""
        for sentence in facts.problems:
            absent_thing = facts.absent.get(sentence)
            if absent_thing is None:
                self.findings.add_problem(sentence)
            else:
                self.findings.problems.append(Missing(sentence, absent_thing))

    def _with_used_adapters(self, role: str, config: ModelConfig) -> ModelConfig:
        """The settings of a role's model with the adapters that the method uses; adds a mistake for
        one that the method must have and the model lacks."""
        adapters = used_adapters(self._method, role).values()
        if not adapters:
            return config
        config = with_bundled_adapters(config, [adapter.name for adapter in adapters])
        needed = [adapter.name for adapter in adapters if adapter.needed]
        missing = [name for name in dict.fromkeys(needed) if name not in config.adapters]
        if missing:
            folders = " ".join(f"roles.{role}.adapters.{name}=FOLDER" for name in missing)
            ways = [f"name them (--set {folders})"]
            ways.append(f"train them (harness train {self._name} --model MODEL)")
            if isinstance(self._method, UsesAdapters):
                ways.append(self._method.without_adapters)
            self.findings.add_problem(
                f"'{self._name}' needs trained adapters of its {role} ({', '.join(missing)}), "
                f"which the model '{config.name}' does not have; {', or '.join(ways)}"
            )
        return config

    def _check_capabilities(self, role: str, facts: ModelFacts) -> None:
        """Add a mistake where a role's model lacks a capability ("probe") that the method needs of
        it. The sentence says what is lacking, why where the model says so, and names methods that
        the model can serve."""
        missing = sorted(self._method.needs[role] - facts.capabilities)
        if not missing:
            return
        reasons = ""
        for capability in missing:
            if capability in facts.refusals:
                reasons += f": {facts.refusals[capability]}"
        not_given = [words for name, words in _NOT_GIVEN_BY_SERVERS.items() if name in missing]
        is_served = "served" in facts.identity
        if not_given and is_served:  # without the role, so that it is said once for all roles
            lacks = f"{not_given[0]}, which the server of '{facts.name}' cannot give"
        else:
            offered = ", ".join(sorted(facts.capabilities)) or "no capabilities"
            lacks = (
                f"{' and '.join(missing)} of its {role}, which the model '{facts.name}' does not "
                f"offer ({offered})"
            )
        runnable = ", ".join(runnable_presets(facts.capabilities)) or "none"
        self.findings.add_problem(
            f"method '{self._name}' needs {lacks}{reasons}; choose another model, or a method that "
            f"this one can serve ({runnable})"
        )

    def _check_window(self, role: str, facts: ModelFacts) -> None:
        """Add a mistake for each sentence that the method itself says against a role's model, and
        for a reader whose window (0: unknown) has no room beside the longest answer."""
        sizes: dict[str, object] = {}  # {"num_hidden_layers": 16, ..., "weights": HASH}
        if facts.sizes:
            sizes = {**facts.sizes, "weights": facts.identity["weights"]}
        if isinstance(self._method, ChecksModels):
            for sentence in self._method.model_problems(role, facts.window, sizes):
                self.findings.add_problem(
                    f"method '{self._name}': {sentence}{self._profile_hint()}"
                )
        max_answer_tokens = self.settings.dataset.max_answer_tokens
        has_no_room = facts.window and facts.window <= max_answer_tokens
        if role == "reader" and has_no_room:
            self.findings.add_problem(
                f"the window of '{facts.name}' ({facts.window} tokens) has no room beside the "
                f"answer of up to {max_answer_tokens} tokens; raise model.window or lower "
                "dataset.max_answer_tokens"
            )

    def _profile_hint(self) -> str:
        """The end of a sentence that names the profiles with sizes for this method; "" where none
        has any."""
        profiles = []
        for name in presets.names("profiles"):
            for _, layer in presets.read("profiles", name):
                methods = layer.get("methods")
                if isinstance(methods, Mapping) and self.settings.method.name in methods:
                    profiles.append(f"--profile {name}")
        if not profiles:
            return ""
        return f", or take sizes from a profile ({', '.join(profiles)})"

    def _check_sampling(self) -> None:
        """Add a mistake for a top_p without a temperature, and for each role but the reader whose
        replies are to be sampled or cut."""
        reader = self.settings.model
        if "top_p" in reader.sampling and not reader.temperature:
            self.findings.add_problem(
                "model.top_p is for sampled replies; set model.temperature too, or leave it out"
            )
        for role in self.settings.roles:
            for name in SAMPLING:
                path = f"roles.{role}.{name}"
                if self._is_set_for_role(path):
                    self.findings.add_problem(
                        f"{path}: only the reader's replies are sampled or cut; set model.{name}"
                    )

    def _is_set_for_role(self, path: str) -> bool:
        """Whether a setting of a role, "roles.builder.temperature", was set for that role; else the
        role has no such setting, or takes the reader's."""
        origin = self.settings.origins.get(path)
        return origin not in (None, _AS_READER)

    def _check_batch(self, models: Mapping[str, ModelConfig]) -> None:
        """Add a mistake where a model takes batches and the method's requests may depend on earlier
        replies."""
        takes_batches = any(config.batch for config in models.values())
        if takes_batches and not self._method.traits.one_request:
            self.findings.add_problem(
                f"model.batch: requests of '{self._name}' may depend on earlier replies, and a "
                "batch takes up to a day; leave it out"
            )

    def _check_reply_cache(self, models: Mapping[str, ModelConfig]) -> None:
        """With --cache replies: add mistakes for replies that must not or cannot be kept, and a
        warning for each model behind a server, as it does not show its weights."""
        if self.settings.general.cache is None:
            return
        if not self.settings.dataset.keep_texts:
            self.findings.add_problem(
                "--cache replies would keep replies about texts that dataset.keep_texts forbids; "
                "leave it out"
            )
        for name in _model_names_of_backend(models, "endpoint"):
            self.findings.warnings.append(
                f"--cache replies knows '{name}' by its address, name and model.revision, as a "
                "server shows no weights; set another model.revision when they change"
            )
        scripted = _model_names_of_backend(models, "scripted")
        if scripted:
            self.findings.add_problem(
                f"--cache replies cannot be used with a scripted model ('{scripted[0]}'); leave it "
                "out"
            )

    def _unused_settings(self, encoders: Mapping[str, EncoderConfig]) -> tuple[str, ...]:
        """What the user set and the run does not use: ("roles.builder", "reranker").

        Roles that a suite or a profile sets are left out: they are for other runs.

        Args:
            encoders: The encoder and reranker that the run uses, by role.
        """
        origins = self.settings.origins
        # The first part of each path that --set has set: "encoder.name" -> "encoder".
        set_by_user = {path.split(".")[0] for path in origins if origins[path] == "--set"}
        unused: list[str] = []
        for role in self.settings.roles:
            origin = origins.get(f"roles.{role}.name", "")  # "suite paper"
            is_for_many_runs = origin.startswith(("suite ", "profile "))
            if role not in self._method.needs and not is_for_many_runs:
                unused.append(f"roles.{role}")
        for role in ("encoder", "reranker"):
            if role in set_by_user and role not in encoders:
                unused.append(role)  # noqa: PERF401
        return tuple(unused)

    def _warn_if_reader_compresses(self) -> None:
        """Warn where the reader itself is the compressor of a method that needs one: the papers
        compress with a smaller model, which the warning names. Not for an embedded reader, which is
        small itself."""
        reader = self.settings.model
        has_compressor = "compressor" in self.settings.roles or reader.embedded
        if has_compressor or "compressor" not in self._method.needs:
            return
        paper_model: object = None
        for _, values in presets.read("profiles", "paper"):
            roles = mapping_at(values, "methods", self._name, "roles")
            paper_model = roles.get("compressor", paper_model)
        better = "name a smaller model for it"
        if paper_model:
            better = f"the papers' setting (--profile paper) has {paper_model} for it"
        self.findings.warnings.append(
            f"'{self._name}' compresses with the reader '{reader.name}' itself; {better}: "
            f"--set roles.compressor={paper_model or 'NAME'}"
        )

    def _check_prompts(self, models: Mapping[str, ModelConfig]) -> None:
        """Add a mistake for each model whose chat template lacks the system turn that prompts use.
        Also warns of a server that uses its template against dataset.chat=false, and of models that
        were not trained on these prompts."""
        method = self._method
        has_system_turn = any(
            prompt.with_replacements(method.config).system for prompt in method.templates()
        )
        for role, config in models.items():
            if has_system_turn:
                sentence = backend.backend_of(config).system_problem(config)
                if sentence:
                    self.findings.add_problem(sentence)
            self._check_adapter_prompts(role, config)
        dataset = self.settings.dataset
        served_models = _model_names_of_backend(models, "endpoint")
        if served_models and not dataset.chat:
            self.findings.warnings.append(
                f"dataset.chat=false: '{dataset.name}' is shown without a chat template, but the "
                f"server of '{served_models[0]}' always uses its own"
            )
        has_embedded_model = any(model.embedded for model in models.values())
        if has_embedded_model and not self.findings.problems:
            self.findings.warnings += untrained_warnings(models.values(), method, self._name)

    def _check_adapter_prompts(self, role: str, config: ModelConfig) -> None:
        """Add a mistake for each adapter of a role's model that was trained on other prompts than
        the method sends, and a warning for those that do not say theirs. Adapters that the method
        uses and the model lacks are passed over."""
        folders: dict[str, str] = {}
        for task, adapter in used_adapters(self._method, role).items():
            if adapter.name not in config.adapters:
                continue
            folder = config.adapters[adapter.name]
            folders[adapter.name] = folder
            sentence = prompt_mismatch(adapter.name, folder, task, self._method.prompts())
            if sentence:
                self.findings.add_problem(sentence)
        if folders:
            self.findings.warnings += unknown_prompts_warnings(folders)

    def _checked_retriever(self) -> RetrieverConfig | None:
        """The settings of the run's retriever, checked; None where the run has none, the method
        takes none, or it has a mistake, which is added. Also records what identifies it."""
        config = self.settings.general.retriever
        takes_retriever = self._method.traits.takes_retriever or self._method.traits.searches
        if config is None or not takes_retriever:
            return None
        problems = find_problems(config)
        if problems:
            self.findings.problems += problems
            return None
        self._identities["retriever"] = dict(retriever_identity(config))
        return config

    def _encoder_roles(self, retriever: RetrieverConfig | None) -> list[str]:
        """The roles of encoders that are used. A retriever takes the place of the method's encoder,
        so the role "encoder" remains only where the retriever's requests hold a vector of the
        query."""
        if retriever is None:
            return list(self._method.encoders)
        roles = [role for role in self._method.encoders if role != "encoder"]
        if needs_vector(retriever):
            roles.append("encoder")
        return roles

    def _checked_encoders(self, retriever: RetrieverConfig | None) -> dict[str, EncoderConfig]:
        """ "encoder" and "reranker" -> its settings, checked, for those that the run uses; a
        reranker that nobody named is a mistake."""
        encoders: dict[str, EncoderConfig] = {}
        for role in self._encoder_roles(retriever):
            config = self.settings.encoder_of(role)
            if config is not None:
                encoders[role] = config
                self._check_encoder(role, config)
            elif role == "reranker":
                self.findings.add_problem(
                    f"method '{self._name}' needs a reranker; name one: --set reranker=NAME"
                )
        return encoders

    def _check_encoder(self, role: str, config: EncoderConfig) -> None:
        """Check one encoder, and warn where it cuts the method's chunks. Also records what
        identifies it."""
        facts = encoder_info.encoder_facts(config, role)
        self._add_problems(facts)
        self._identities[role] = facts.identity
        if role == "encoder" and not facts.problems:
            warning = encoder_info.chunk_warning(config, self._chunk_tokens())
            if warning:
                self.findings.warnings.append(warning)

    def _chunk_tokens(self) -> int | None:
        """Tokens of the method's chunks; None where it has none, or has chunks of whole sentences,
        which are mostly shorter than chunk_tokens."""
        config = self._method.config
        if getattr(config, "chunks", None) in ("sentences", "words"):
            return None
        tokens: int | None = getattr(config, "chunk_tokens", None)
        return tokens

    def _name_with_encoders(self, encoders: Mapping[str, EncoderConfig]) -> str:
        """The method's name followed by each encoder or reranker that is not the preset's own:
        "dragon[minilm]"; a name that ends so already stays as it is."""
        name = self._name
        for role, config in encoders.items():
            # The encoder or reranker that the method's preset names.
            name_in_preset: str | None = getattr(self.completed.choice, role, None)
            suffix = f"[{config.name}]"
            differs = name_in_preset is not None and (
                presets.comparable_name(name_in_preset) != presets.comparable_name(config.name)
            )
            if differs and not name.endswith(suffix):
                name += suffix
        return name


def _model_names_of_backend(models: Mapping[str, ModelConfig], backend_name: str) -> list[str]:
    """The names of the models that a back end runs, each once.

    Args:
        models: Role -> settings of its model.
        backend_name: "endpoint".
    """
    names = [model.name for model in models.values() if model.backend == backend_name]
    return list(dict.fromkeys(names))


def server_shapes(models: Mapping[str, ModelConfig]) -> dict[str, ModelShape | None]:
    """Role -> sizes of its model, for the roles whose model is behind a server; None where the
    sizes are unknown."""
    return {
        role: endpoint_shape(model) for role, model in models.items() if model.backend == "endpoint"
    }
