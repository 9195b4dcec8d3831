"""In what two runs differ, and whether that changes answers, costs, or neither: one classification,
from which compare, report, the page, figures, published numbers and verify speak.

    differences(run, base)
        -> [Difference("answers", "dataset.chat", True, False),
            Difference("cost", "model.price.input", 1.0, 2.0)]

Everything that run.yaml and manifest.json hold is compared, key by key. The first line of _KINDS
that fits a key says what a difference in it does:

    answers    both methods would have answered otherwise: the runs must not be compared
    cost       tokens, FLOPs, seconds or money are not measured alike
    method     what the comparison is about: the method, its models, its prompts
    version    code and packages
    neutral    where something lies, who started it, what is kept
    not checked    a key that nobody classified
"""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel

from harness.config.registry import short_name
from harness.config.schema import (
    SAMPLING,
    DatasetConfig,
    GeneralSettings,
    ModelConfig,
    canonical_json,
)
from harness.config.yaml_tree import flatten
from harness.storage.paths import without_home
from harness.storage.run_folder import StoredRun

Kind = Literal["answers", "cost", "method", "version", "neutral", "not checked"]

_KINDS: tuple[tuple[str, Kind], ...] = (
    # run.yaml: the data set. Its rows are compared by their hash, wherever they lie.
    (r"dataset\.(name|hub|subset|revision|data|licence|citation|keep_texts)", "neutral"),
    (r"dataset\.headline", "answers"),
    (r"dataset\.scorers", "neutral"),
    (
        r"dataset\.swap_seed|dataset\.shots_(from|by|seed|ids|passages)|dataset\.(shots|swap)",
        "answers",
    ),
    (r"dataset\.(format|split|instruction|answer_prefix|demonstration)", "answers"),
    (r"dataset\.answer_(schema(\..*)?|field)", "answers"),
    (r"dataset\.(max_answer_tokens|raw_replies|chat)|dataset\.options(\..*)?", "answers"),
    # run.yaml: the reader.
    (r"model\.(name|source|package|package_path|sha256|revision|base_url|api_key_env)", "neutral"),
    (r"model\.(device|device_map|prefill_chunk|memory_fraction|timeout|retries)", "neutral"),
    (r"model\.offers(\..*)?", "neutral"),
    (r"model\.(price|shape)(\..*)?|model\.batch", "cost"),
    (r"model\.(backend|tokenizer|dtype|attention|window|template|template_date)", "answers"),
    (r"model\.(adapter|adapters\..*|adapters|script|trust_remote_code|deterministic)", "answers"),
    (r"model\.(embedded|small|logprobs|keep_thinking)|model\.(thinking|extra)(\..*)?", "answers"),
    (rf"model\.({'|'.join(SAMPLING)})", "answers"),
    # run.yaml: the method, and the rest.
    (r"retriever\.(timeout|retries|api_key_env)", "neutral"),
    (r"(method|roles|encoder|reranker|retriever|system_prompt)(\..*)?", "method"),
    (r"seed|sample|sample_seed|failed", "answers"),
    (r"cache|currency", "cost"),
    (r"limit|keep_prompts|profile|corpus|corpus_passages", "neutral"),
    # manifest.json.
    (r"manifest\.models\.reader(\..*)?", "answers"),
    (r"manifest\.(models|prompts|code|amounts|floor)(\..*)?", "method"),
    (r"manifest\.dataset\.(twin(\..*)?|skipped(\..*)?)", "answers"),
    (
        r"manifest\.dataset\.(name|fingerprint|source|revision|questions|folder_documents)",
        "neutral",
    ),
    (r"manifest\.(shapes(\..*)?|gpu)", "cost"),
    (r"manifest\.scorers\..*|manifest\.judges(\..*)?", "neutral"),
    (r"manifest\.(git|packages)(\..*)?|manifest\.python", "version"),
    (r"manifest\.hashed\.task(\..*)?|manifest\.corpus\.searched", "answers"),
    (r"manifest\.corpus(\..*)?", "neutral"),
    (r"manifest\.(id|command|started|finished|starts|method|hash|seed)", "neutral"),
    (r"manifest\.(hashed|servers|imported|corrected|warnings)(\..*)?", "neutral"),
    (r"manifest\.(platform|cpus|memory_gib|first_prompts(\..*)?)", "neutral"),
)
_PATTERNS = tuple((re.compile(pattern), kind) for pattern, kind in _KINDS)
_MAY_DIFFER_FOR_SAME_READER = ("tokenizer", "template", "adapter", "dtype", "window")
"""Settings of a reader that may be said in two ways where its identity is the same."""


@dataclass(frozen=True)
class Difference:
    """A key in which two runs differ.

    Args:
        kind: What a difference in this key does: "answers", "cost", ...
        key: The key with dots, of run.yaml or, after "manifest.", of manifest.json.
        run_value: Its value in the first run, None where it is not set.
        base_value: Its value in the second run, likewise.
    """

    kind: Kind
    key: str
    run_value: object
    base_value: object

    @property
    def values(self) -> str:
        """Both values as text, "32 and 64"; long ones are cut."""
        return f"{_value_text(self.run_value)} and {_value_text(self.base_value)}"

    def __str__(self) -> str:
        return f"{self.key}: {self.values}"


def differences(run: StoredRun, base: StoredRun) -> list[Difference]:
    """All keys of run.yaml and manifest.json in which two runs differ, with what each difference
    does: change "answers" or "cost", or nothing ("neutral").

    Left out are keys about a role, prompt, scorer or package that only one of the runs has. Sizes
    of models are compared by the models' weights, whatever role the models have.

    Args:
        run: The run, whose values become `run_values`.
        base: The run that it is compared with.
    """
    run_values = comparable_values(run)
    base_values = comparable_values(base)
    reader_is_the_same = _have_same_reader(run, base)
    differing = []
    for key in dict.fromkeys([*run_values, *base_values]):
        run_value = run_values.get(key)
        base_value = base_values.get(key)
        if run_value == base_value or _concerns_only_one_run(key, run_values, base_values):
            continue
        kind = kind_of_difference(key)
        if reader_is_the_same and _may_be_same_content(key, run_value, base_value):
            kind = "neutral"
        differing.append(Difference(kind, key, run_value, base_value))
    keys = [difference.key for difference in differing]
    in_size = size_differences(run, base)
    not_listed = [difference for difference in in_size if not _has_deeper_key(difference, keys)]
    return [*differing, *not_listed]


def _has_deeper_key(difference: Difference, keys: Iterable[str]) -> bool:
    """Whether one of these keys lies below that of the difference, so that it is listed already:
    "manifest.shapes.reader.width" lies below "manifest.shapes.reader"."""
    return any(key.startswith(f"{difference.key}.") for key in keys)


def weights_identity(run: StoredRun, role: str) -> str | None:
    """A text that identifies the weights of a role's model; None where they are not recorded."""
    weights = run.manifest.identity(role).get("weights")
    if not weights:
        return None
    return canonical_json(weights)


def size_differences(run: StoredRun, base: StoredRun) -> list[Difference]:
    """The differences in the sizes of models that both runs use, in any of their roles."""
    base_sizes_by_weights = {}
    for role, sizes in base.manifest.shapes.items():
        weights = weights_identity(base, role)
        if weights is not None and sizes:
            base_sizes_by_weights[weights] = sizes
    differing = []
    for role, sizes in run.manifest.shapes.items():
        weights = weights_identity(run, role)
        if not sizes or weights not in base_sizes_by_weights:
            continue
        base_sizes = base_sizes_by_weights[weights]
        if sizes != base_sizes:
            differing.append(Difference("cost", f"manifest.shapes.{role}", sizes, base_sizes))
    return differing


def kind_of_difference(key: str) -> Kind:
    """What a difference in a key does: "dataset.chat" -> "answers", "model.price.input" -> "cost".

    "not checked" for a key that nobody classified. The keys are those of `comparable_values`.
    """
    for pattern, kind in _PATTERNS:
        if pattern.fullmatch(key):
            return kind
    return "not checked"


def comparable_values(run: StoredRun) -> dict[str, object]:
    """All values that run.yaml and manifest.json of a run hold, by a key with dots.

        {"method.name": "bm25", "method.params.k": 5, "manifest.git.commit": "0a1b2c3", ...}

    The keys of manifest.json begin with "manifest.". A value at its default is left out, as older
    runs do not list it; so are where each setting came from ("origins") and the single starts.
    "dataset.headline" is added, the first scorer. Paths begin with "~" for the home folder.
    """
    config = without_home(run.config.to_json())
    values = flatten({key: value for key, value in config.items() if key != "origins"})
    values["dataset.headline"] = config["dataset"]["scorers"][0]
    implementation = values.get("method.implementation")
    if isinstance(implementation, str):
        values["method.implementation"] = short_name(implementation)
    manifest = run.manifest.without("starts").to_json()
    values |= flatten(manifest, "manifest")
    defaults = _default_values()
    set_values = {}
    for key, value in values.items():
        is_set = value not in (None, {}, [], "")
        if is_set and value != defaults.get(key):
            set_values[key] = value
    return set_values


def _default_values() -> dict[str, object]:
    """The defaults of the settings of a run, its data set and its reader, by dotted key; those that
    have one other than None.

    -> {"failed": "zero", "dataset.chat": True, "model.backend": "hf", ...}
    """
    types_by_prefix: dict[str, type[BaseModel]] = {
        "": GeneralSettings,
        "dataset.": DatasetConfig,
        "model.": ModelConfig,
    }
    defaults = {}
    for prefix, settings_type in types_by_prefix.items():
        for name, field in settings_type.model_fields.items():
            if not field.is_required() and field.default is not None:
                defaults[prefix + name] = field.default
    return defaults


def _have_same_reader(run: StoredRun, base: StoredRun) -> bool:
    """Whether both runs have the same reader by its recorded identity (weights, tokenizer,
    template); False where no weights are recorded."""
    reader = run.manifest.identity("reader")
    return bool(reader.get("weights")) and reader == base.manifest.identity("reader")


def _may_be_same_content(key: str, run_value: object, base_value: object) -> bool:
    """Whether both values of a key of the reader stand for the same content.

    That is so for a file that lies in two places, and for one value said in two ways (unset and
    "float32").

    Args:
        key: A key of `comparable_values`.
        run_value: Its value in one run, None where it is not set.
        base_value: Its value in the other, None where it is not set.
    """
    name = key.removeprefix("model.")
    if not key.startswith("model.") or name not in _MAY_DIFFER_FOR_SAME_READER:
        return False
    one_is_unset = run_value is None or base_value is None
    if name in ("dtype", "window"):
        return one_is_unset
    return not one_is_unset  # two paths of a file


def _concerns_only_one_run(key: str, run_keys: Collection[str], base_keys: Collection[str]) -> bool:
    """Whether a key of the manifest is about something that one of the two runs does not have.

    That is a package, or a model, shape, prompt or scorer, as "builder" in
    "manifest.models.builder.weights".

    Args:
        key: A key of `comparable_values`.
        run_keys: All keys of the first run.
        base_keys: All keys of the second.
    """
    file, _, rest = key.partition(".")
    if file != "manifest":
        return False
    part, _, inner = rest.partition(".")
    if part == "packages":
        return key not in run_keys or key not in base_keys
    if part == "hashed":  # an older run has none
        prefix = "manifest.hashed"
    elif part in ("models", "shapes", "prompts", "scorers"):
        prefix = f"manifest.{part}.{inner.partition('.')[0]}"
    else:
        return False
    return not _has_key_or_below(prefix, run_keys) or not _has_key_or_below(prefix, base_keys)


def _has_key_or_below(prefix: str, keys: Iterable[str]) -> bool:
    """Whether one of the keys is `prefix`, or lies below it."""
    return any(key == prefix or key.startswith(f"{prefix}.") for key in keys)


def _value_text(value: object) -> str:
    """A value as Python writes it, cut to 60 characters; "not set" for None."""
    if value is None:
        return "not set"
    text = repr(value)
    if len(text) <= 60:
        return text
    return f"{text[:57]}..."
