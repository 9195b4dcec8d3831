"""Why the models of a run are not those by which a paper got its printed value.

model_reasons(value, run, paper).reasons    -> ["model: the reader is tiny, the paper's is Llama-3.1-8B"]
"""

from collections.abc import Mapping
from typing import cast

from harness.engine import model_warnings as embedded
from harness.storage.run_folder import StoredRun
from harness.storage.stored_config import StoredEncoder, StoredModel
from reports.paper import public_releases
from reports.paper.preset import Model, Settings, last_part
from reports.paper.printed import Value
from reports.paper.public_releases import Findings
from reports.paper.setting_sentences import joined_names, setting_differences

_DEFAULT_MODEL = StoredModel(name="")
"""A model whose replies are drawn by the defaults."""
_ROUNDING_SETTINGS = ("dtype", "attention")
"""Settings of a model that change its numbers in their last digits alone, with these values."""
_ROUNDING_VALUES = ("bfloat16", "float16", "float32", "sdpa", "eager")


def model_reasons(value: Value, run: StoredRun, paper: Settings) -> Findings:
    """Why the models of a run are not those by which the paper got its printed value.

    Args:
        value: The printed value.
        run: The run.
        paper: The settings that a run must have, with the paper's models.

    Returns:
        Sentences that forbid a verdict or stand beside it, and what could not be checked.
    """
    config = run.config
    if config.model.embedded:
        caveat = embedded.embedded_caveat(config.model, config.dataset)
        return Findings([f"model: {caveat}"])
    sentence_start = "model: the reader's "
    found = Findings(
        setting_differences(sentence_start, config.model.sampling, _DEFAULT_MODEL.sampling)
    )
    for role, paper_model in paper.models.items():
        run_model = config.model_of(role)
        found.add(_RoleCheck(value, run, role, run_model, paper_model).findings())
        found.reasons += _adapter_reasons(value, run, role, paper)
    return found


def _adapter_reasons(value: Value, run: StoredRun, role: str, paper: Settings) -> list[str]:
    """Sentences on adapters that a role's model lacks, or has and the paper's has not.

    Args:
        value: The printed value.
        run: The run.
        role: The role.
        paper: The settings that a run must have.
    """
    run_model = run.config.model_of(role)
    adapters = set(run_model.adapters)
    recorded = run.manifest.identity(role).get("adapters")
    if isinstance(recorded, Mapping) and recorded:  # name -> hash
        adapters = set(recorded)
    reasons = []
    missing = [name for name in value.entry.adapters.get(role, ()) if name not in adapters]
    if missing:
        reasons.append(
            f"model: the {role} has no adapter for {joined_names(missing)}, the paper trained them"
        )
    if role not in paper.trained and adapters:
        reasons.append(
            f"model: the {role} has the adapter {joined_names(sorted(adapters))}, the paper's has none"
        )
    merged_adapter = run_model.adapter
    if merged_adapter:
        reasons.append(
            f"model: the {role} has the adapter {last_part(merged_adapter)} added to its weights, the "
            "paper's has none"
        )
    return reasons


class _RoleCheck:
    """Compares the model of a role with the paper's.

    A model that can be loaded is compared by content, a service by its name.
    """

    def __init__(
        self, value: Value, run: StoredRun, role: str, run_model: StoredModel, paper_model: Model
    ) -> None:
        """Keep what is compared; `_sentence_start` is how sentences on the role's model begin.

        Args:
            value: The printed value.
            run: The run.
            role: The role.
            run_model: The settings of its model in the run.
            paper_model: The paper's model.
        """
        self._value = value
        self._run = run
        self._role = role
        self._run_model = run_model
        self._paper_model = paper_model
        self._sentence_start = f"model: the {role}'s "

    def findings(self) -> Findings:
        """Why the model is not the paper's, and what could not be checked."""
        paper_is_service = "backend" not in self._paper_model.settings
        if self._run_model.backend == "endpoint" or paper_is_service:
            return self._service_findings()
        return self._weight_findings()

    @property
    def _has_paper_name(self) -> bool:
        """Whether the run's model has the name of the paper's."""
        return is_named(self._run_model, self._paper_model.name)

    def _another_model(self) -> Findings:
        """The finding that it is another model, with both names."""
        name = name_of(self._run_model)
        return Findings(
            [f"model: the {self._role} is {name}, the paper's is {self._paper_model.name}"]
        )

    def _service_findings(self) -> Findings:
        """What differs from the paper's model by name and by the settings of requests."""
        if not self._has_paper_name:
            return self._another_model()
        owner_sentence = public_releases.other_owner(str(self._run_model.source), self._paper_model)
        if owner_sentence:
            return Findings([f"model: the {self._role} is {owner_sentence}"])
        unchecked = ["weights"]
        if "backend" in self._paper_model.settings:
            unchecked += ["precision", "chat template"]
        run_settings = {
            "thinking": self._run_model.to_json().get("thinking"),
            "extra": self._run_model.extra,
        }
        paper_thinking = {"thinking": self._paper_model.settings.get("thinking")}
        return Findings(
            reasons=setting_differences(self._sentence_start, run_settings, paper_thinking),
            unchecked=unchecked,
            remarks=setting_differences(self._sentence_start, run_settings, {"extra": {}}),
        )

    def _weight_findings(self) -> Findings:
        """What differs from the paper's model by the content of its weights, then by its settings.

        Settings that change only the last digits are remarks beside a verdict; others forbid one.
        """
        recorded_identity = self._run.manifest.identity(self._role)
        if self._run_model.backend != "hf":
            return self._another_model()
        if not self._has_paper_name:
            if not recorded_identity.get("weights"):
                return self._another_model()
            # Another model; how its weights are stored comes second.
            if public_releases.other_sizes(self._run, self._role, self._paper_model):
                return self._another_model()
        found = public_releases.model_differences(self._run, self._role, self._paper_model)
        if found.reasons:
            return found
        run_settings = self._run_model.to_json()
        for key in ("dtype", "window"):
            if key in recorded_identity:
                run_settings[key] = recorded_identity[key]
        settings = dict(self._paper_model.settings)
        if self._window_suffices(run_settings.get("window")):
            settings.pop("window", None)  # a larger one changes nothing where nothing was cut
        rounding_settings = {}
        for key in _ROUNDING_SETTINGS:
            if run_settings.get(key) in _ROUNDING_VALUES:
                rounding_settings[key] = settings.pop(key)
        found.remarks += setting_differences(self._sentence_start, run_settings, rounding_settings)
        found.remarks += revision_remarks(self._role, self._run_model.revision)
        found.reasons += setting_differences(self._sentence_start, run_settings, settings)
        return found

    def _window_suffices(self, window: object) -> bool:
        """Whether the paper cut no text, and the model's window is at least as large as the
        paper's.

        Args:
            window: A number of tokens; None counts as 0.
        """
        if self._value.entry.truncated:
            return False
        run_window = cast("int", window or 0)
        return run_window >= cast("int", self._paper_model.settings.get("window") or 0)


def revision_remarks(role: str, revision: str | None) -> list[str]:
    """One sentence on a revision that the user chose, as it is not known which one the paper had;
    [] for none."""
    if not revision:
        return []
    return [f"{role}: revision {revision} was chosen, which one the paper had is not known"]


def is_named(config: StoredModel | StoredEncoder | None, name: str) -> bool:
    """Whether a model of a run has this name, in any case of letters."""
    return name_of(config).lower() == name.lower()


def name_of(config: StoredModel | StoredEncoder | None) -> str:
    """The name of a model: the last part of the hub id, folder or file with its weights.

    The name of its preset only where none is given: that says nothing about weights that the user
    put in the place of the preset's. "not recorded" for None.
    """
    if config is None:
        return "not recorded"
    return last_part(config.source or config.name or "not recorded")


def encoder_reasons(run: StoredRun, paper: Settings) -> Findings:
    """Why the run's encoder and reranker are not the paper's: by name, then by content and
    settings.

    Args:
        run: The run.
        paper: The settings that a run must have, with the paper's encoders.
    """
    found = Findings()
    for role, paper_model in paper.encoders.items():
        found.add(_encoder_findings(run, role, paper_model))
    return found


def _encoder_findings(run: StoredRun, role: str, paper_model: Model) -> Findings:
    """How the encoder or reranker of a role differs from the paper's.

    Args:
        run: The run.
        role: "encoder" or "reranker".
        paper_model: The paper's encoder or reranker.
    """
    encoder = run.config.encoder_of(role)
    source = ""
    settings = {}
    revision = None
    if encoder is not None:
        source = str(encoder.source)
        settings = encoder.to_json()
        revision = encoder.revision
    if not is_named(encoder, paper_model.name) and not source.startswith(("/", ".", "~")):
        return Findings([f"{role}: {name_of(encoder)}, the paper's is {paper_model.name}"])
    owner_sentence = public_releases.other_owner(source, paper_model)
    if owner_sentence:
        return Findings([f"{role}: {owner_sentence}"])
    found = Findings()
    found.add(public_releases.model_differences(run, role, paper_model))
    found.reasons += setting_differences(f"{role}: ", settings, paper_model.settings)
    found.remarks += revision_remarks(role, revision)
    return found
