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
# Places of files: where both runs name one and the reader's identity is the same, so is the content.
_PLACES = ("tokenizer", "template", "adapter", "dtype", "window")


@dataclass(frozen=True)
class Difference:
    """A key in which two runs differ.

    Args:
        kind: What a difference in this key does: "answers", "cost", ...
        key: The key with dots, of run.yaml or, after "manifest.", of manifest.json.
        ours: Its value in the first run, None where it is not set.
        theirs: Its value in the second run, likewise.
    """

    kind: Kind
    key: str
    ours: object
    theirs: object

    @property
    def values(self) -> str:
        """Both values as text, "32 and 64"; long ones are cut."""
        return f"{_shown(self.ours)} and {_shown(self.theirs)}"

    def __str__(self) -> str:
        return f"{self.key}: {self.values}"


def differences(run: StoredRun, base: StoredRun) -> list[Difference]:
    """All keys of run.yaml and manifest.json in which two runs differ, with what each difference
    does.

    Left out are keys about a role, prompt, scorer or package that only one of the runs has.

    Args:
        run: The run, whose values become `ours`.
        base: The run that it is compared with.
    """
    ours = facts_of(run)
    theirs = facts_of(base)
    reader_is_the_same = _have_one_reader(run, base)
    found = []
    for key in dict.fromkeys([*ours, *theirs]):
        our_value = ours.get(key)
        their_value = theirs.get(key)
        if our_value == their_value or _is_of_one_run(key, ours, theirs):
            continue
        kind = kind_of(key)
        if reader_is_the_same and _is_place(key, our_value, their_value):
            kind = "neutral"
        found.append(Difference(kind, key, our_value, their_value))
    keys = [one.key for one in found]
    sizes = [one for one in size_differences(run, base) if not _is_listed(one, keys)]
    return [*found, *sizes]


def _is_listed(one: Difference, keys: Iterable[str]) -> bool:
    """Whether one of these keys lies below that of the difference, so that its values are
    listed."""
    return any(key.startswith(f"{one.key}.") for key in keys)


def weights_of(run: StoredRun, role: str) -> str | None:
    """A text that identifies the weights of a role's model; None where they are not recorded."""
    weights = run.manifest.identity(role).get("weights")
    return canonical_json(weights) if weights else None


def size_differences(run: StoredRun, base: StoredRun) -> list[Difference]:
    """The differences in the sizes of models that both runs use, in any of their roles."""
    sizes_by_weights = {}
    for role, shape in base.manifest.shapes.items():
        weights = weights_of(base, role)
        if weights is not None and shape:
            sizes_by_weights[weights] = shape
    found = []
    for role, shape in run.manifest.shapes.items():
        theirs = sizes_by_weights.get(weights_of(run, role) or "", shape)
        if shape and shape != theirs:
            found.append(Difference("cost", f"manifest.shapes.{role}", shape, theirs))
    return found


def kind_of(key: str) -> Kind:
    """What a difference in a key does: "dataset.chat" -> "answers", "model.price.input" -> "cost".

    "not checked" for a key that nobody classified. The keys are those of `facts_of`.
    """
    for pattern, kind in _PATTERNS:
        if pattern.fullmatch(key):
            return kind
    return "not checked"


def facts_of(run: StoredRun) -> dict[str, object]:
    """All values that run.yaml and manifest.json of a run hold, by a key with dots.

        {"method.name": "bm25", "method.params.k": 5, "manifest.git.commit": "0a1b2c3", ...}

    The keys of manifest.json begin with "manifest.". A value at its default is left out, as older
    runs do not list it.
    """
    config = without_home(run.config.to_json())
    facts = flatten({key: value for key, value in config.items() if key != "origins"})
    facts["dataset.headline"] = config["dataset"]["scorers"][0]
    implementation = facts.get("method.implementation")
    if isinstance(implementation, str):
        facts["method.implementation"] = short_name(implementation)
    manifest = run.manifest.without("starts").to_json()
    facts |= flatten(manifest, "manifest")
    defaults = _defaults()
    found = {}
    for key, value in facts.items():
        is_set = value not in (None, {}, [], "")
        if is_set and value != defaults.get(key):
            found[key] = value
    return found


def _defaults() -> dict[str, object]:
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


def _have_one_reader(run: StoredRun, base: StoredRun) -> bool:
    """Whether both runs have the same reader by its recorded identity (weights, tokenizer,
    template); False where no weights are recorded."""
    reader = run.manifest.identity("reader")
    return bool(reader.get("weights")) and reader == base.manifest.identity("reader")


def _is_place(key: str, ours: object, theirs: object) -> bool:
    """Whether both values of a key of the reader stand for the same content.

    That is so for a file that lies in two places, and for one value said in two ways (unset and
    "float32").

    Args:
        key: A key of `facts_of`.
        ours: Its value in one run, None where it is not set.
        theirs: Its value in the other, None where it is not set.
    """
    name = key.removeprefix("model.")
    if not key.startswith("model.") or name not in _PLACES:
        return False
    one_is_unset = ours is None or theirs is None
    if name in ("dtype", "window"):
        return one_is_unset
    return not one_is_unset


def _is_of_one_run(key: str, ours: Collection[str], theirs: Collection[str]) -> bool:
    """Whether a key of the manifest is about something that one of the two runs does not have.

    That is a package, or a model, shape, prompt or scorer, as "builder" in
    "manifest.models.builder.weights".

    Args:
        key: A key of `facts_of`.
        ours: All keys of the first run.
        theirs: All keys of the second.
    """
    file, _, rest = key.partition(".")
    if file != "manifest":
        return False
    part, _, inner = rest.partition(".")
    if part == "packages":
        return key not in ours or key not in theirs
    if part == "hashed":  # an older run has none
        start = "manifest.hashed"
    elif part in ("models", "shapes", "prompts", "scorers"):
        start = f"manifest.{part}.{inner.partition('.')[0]}"
    else:
        return False
    return not _has(start, ours) or not _has(start, theirs)


def _has(start: str, keys: Iterable[str]) -> bool:
    """Whether one of the keys is `start`, or lies below it."""
    return any(key == start or key.startswith(f"{start}.") for key in keys)


def _shown(value: object) -> str:
    """A value as Python writes it, cut to 60 characters; "not set" for None."""
    if value is None:
        return "not set"
    text = repr(value)
    if len(text) <= 60:
        return text
    return f"{text[:57]}..."
