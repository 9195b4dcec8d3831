"""In what two runs differ, and whether that changes answers, costs, or neither: one classification,
from which compare, report, the page, figures, published numbers and verify speak.

    differences(run, base)
        -> [Difference("answers", "dataset.chat", True, False), Difference("cost", "model.price.input", 1.0, 2.0)]

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
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel

from harness.config.registry import short_name
from harness.config.schema import SAMPLING, DatasetConfig, GeneralSettings, ModelConfig
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
    (r"manifest\.dataset\.(name|fingerprint|source|revision|questions)", "neutral"),
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
# Places of files: where both runs name one and the reader's identity is the same, so is the content.
_PLACES = ("tokenizer", "template", "adapter", "dtype", "window")


@dataclass(frozen=True)
class Difference:
    """A key in which two runs differ. ours, theirs: its values, None where it is not set."""

    kind: Kind
    key: str
    ours: Any
    theirs: Any

    @property
    def values(self) -> str:
        """Both values, "32 and 64"; long ones shortened."""
        return f"{_shown(self.ours)} and {_shown(self.theirs)}"

    def __str__(self) -> str:
        return f"{self.key}: {self.values}"


def differences(run: StoredRun, base: StoredRun) -> list[Difference]:
    """All keys of run.yaml and manifest.json in which two runs differ, but those of one run alone
    (shapes, prompts and models of roles that the other has not)."""
    ours, theirs = facts_of(run), facts_of(base)
    reader_is_the_same = _reader(run) is not None and _reader(run) == _reader(base)
    found = []
    for key in dict.fromkeys([*ours, *theirs]):
        a, b = ours.get(key), theirs.get(key)
        if a == b or _is_of_one_run(key, ours, theirs):
            continue
        kind = kind_of(key)
        if reader_is_the_same and _is_place(key, a, b):
            kind = "neutral"
        found.append(Difference(kind, key, a, b))
    return found


def kind_of(key: str) -> Kind:
    """What a difference in a key of `facts_of` does; "not checked" for one that nobody
    classified."""
    for pattern, kind in _PATTERNS:
        if pattern.fullmatch(key):
            return kind
    return "not checked"


def facts_of(run: StoredRun) -> dict[str, Any]:
    """Dotted key -> value of all that run.yaml and manifest.json hold; the latter's keys begin with
    "manifest.". What is at its default is left out, as older runs do not list it."""
    config = without_home(run.config.to_json())
    facts = flatten({key: value for key, value in config.items() if key != "origins"})
    facts["dataset.headline"] = config["dataset"]["scorers"][0]
    implementation = facts.get("method.implementation")
    if isinstance(implementation, str):
        facts["method.implementation"] = short_name(implementation)
    manifest = run.manifest.without("starts").to_json()
    facts |= flatten(manifest, "manifest")
    defaults = _defaults()
    return {
        key: value
        for key, value in facts.items()
        if value not in (None, {}, [], "") and value != defaults.get(key, None)
    }


def _defaults() -> dict[str, Any]:
    """The defaults of the settings of a run, its data set and its reader, by dotted key."""
    parts: dict[str, type[BaseModel]] = {
        "": GeneralSettings,
        "dataset.": DatasetConfig,
        "model.": ModelConfig,
    }
    found = {}
    for start, form in parts.items():
        for name, field in form.model_fields.items():
            if not field.is_required() and field.default is not None:
                found[start + name] = field.default
    return found


def _reader(run: StoredRun) -> Any:
    """The identity of the run's reader; None where no weights are recorded."""
    reader = run.manifest.identity("reader")
    return reader if reader.get("weights") else None


def _is_place(key: str, ours: Any, theirs: Any) -> bool:
    """Whether a key of the reader names the same content by two places, or one value in two ways
    ("auto" and "float32")."""
    name = key.removeprefix("model.")
    if not key.startswith("model.") or name not in _PLACES:
        return False
    one_is_unset = ours is None or theirs is None
    return one_is_unset if name in ("dtype", "window") else not one_is_unset


def _is_of_one_run(key: str, ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> bool:
    """Whether a key of the manifest is about a role, a prompt, a scorer or a package that one of
    the two runs does not have."""
    parts = key.split(".")
    if parts[:2] == ["manifest", "hashed"]:  # an older run has none
        return not (_has("manifest.hashed", ours) and _has("manifest.hashed", theirs))
    if parts[0] != "manifest" or parts[1] not in ("models", "shapes", "prompts", "scorers"):
        return parts[:2] == ["manifest", "packages"] and not (key in ours and key in theirs)
    start = ".".join(parts[:3])
    return not (_has(start, ours) and _has(start, theirs))


def _has(start: str, facts: Iterable[str]) -> bool:
    return any(key == start or key.startswith(f"{start}.") for key in facts)


def _shown(value: Any) -> str:
    text = "not set" if value is None else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
