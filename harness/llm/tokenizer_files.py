"""Where a model's tokenizer is, and what identifies it and the chat template that is used.

A tokenizer on the hub is pinned as a model is (hub_download.py), and loaded from the files that
were hashed. Its chat template comes with it: transformers reads chat_template.jinja beside the
tokenizer, else its tokenizer_config.json.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

from harness.config.schema import ModelConfig
from harness.errors import CannotRun
from harness.storage.file_hash import file_hash, hash_named
from harness.storage.files import read_object
from harness.storage.hub_download import download, pin_repo, weights_of

VOCABULARY = ("vocab.*", "merges.txt", "*.model")
"""What tokens are made of where no tokenizer.json holds it all."""
_TOKEN_FILES = ("*token*.json", "*.tiktoken", *VOCABULARY)
# config.json tells which class a tokenizer is of.
_OTHER_FILES = ("chat_template.jinja", "config.json")


def tokenizer_folder(config: ModelConfig, folder: Path) -> Path:
    """The folder of the tokenizer that the settings name, downloaded where it is on the hub; the
    model's own folder where they name none.

    Args:
        config: The model's settings.
        folder: The model's folder.

    Raises:
        CannotRun: The folder is missing, or has no tokenizer.
    """
    source = config.tokenizer
    if not source:
        return folder
    own_folder = Path(source)
    if not own_folder.is_dir():
        own_folder = _download_tokenizer(source, config.trust_remote_code)
    if not own_folder.is_dir() or not _token_file_names(own_folder):
        raise CannotRun(
            f"model.tokenizer: '{source}' has no tokenizer; name a folder or a model that has one"
        )
    return own_folder


def _download_tokenizer(source: str, trust_remote_code: bool) -> Path:
    """Download the missing files of a tokenizer on the hub, and return their folder.

    Args:
        source: "owner/name".
        trust_remote_code: Whether files with code are fetched too.

    Returns:
        The folder; the path `source` where the repository has none of the files.

    Raises:
        CannotRun: `source` is no hub id.
    """
    folder = Path(source)
    is_path = folder.is_absolute() or source.startswith((".", "~"))
    if is_path or source.count("/") != 1:
        raise CannotRun(
            f"model.tokenizer: no folder '{source}' (and it is no hub id of the form owner/name)"
        )
    kind = weights_of("model.tokenizer", noun="tokenizer")
    commit, file_names = pin_repo(kind, source, revision=None)
    patterns = [*_TOKEN_FILES, *_OTHER_FILES]
    if trust_remote_code:
        patterns.append("*.py")
    for name in file_names:
        if "/" not in name and _matches_any(name, patterns):
            folder = download(kind, source, commit, name).parent
    return folder


def _token_file_names(folder: Path) -> list[str]:
    """Names of the files in a folder that say what its tokens are."""
    return [path.name for path in folder.iterdir() if _matches_any(path.name, _TOKEN_FILES)]


def tokenizer_digest(folder: Path) -> str:
    """sha256 over tokenizer.json, vocabulary, merges and settings, whichever of them are in the
    folder."""
    return hash_named(folder, _token_file_names(folder))


def template_digest(config: ModelConfig, folder: Path) -> str:
    """The sha256 of the chat template in use, by which it is identified: of the file that
    `config.template` names, of chat_template.jinja, or of the JSON value in tokenizer_config.json
    (null where there is none). "none" where none is to be used.

    Args:
        config: The model's settings, which may name a file.
        folder: The tokenizer's folder.

    Raises:
        CannotRun: The template cannot be read.
    """
    if config.template == "none":
        return "none"
    if config.template != "model":
        path = Path(config.template)
        if not path.is_file():
            raise CannotRun(
                f"no chat template file '{config.template}'; use model.template=model, none or a "
                "file"
            )
        return file_hash(path)
    jinja = folder / "chat_template.jinja"
    if jinja.exists():
        return file_hash(jinja)
    settings = folder / "tokenizer_config.json"
    try:
        template = None
        if settings.exists():
            template = read_object(settings).get("chat_template")
    except (OSError, ValueError) as e:
        raise CannotRun(f"the tokenizer_config.json of '{config.name}' cannot be read: {e}") from e
    return hashlib.sha256(json.dumps(template).encode()).hexdigest()


class ChatTemplate(NamedTuple):
    """A chat template.

    Attributes:
        text: The template; None where a folder has none that can be read.
        tokens: The tokens that it may name: "bos_token" -> "<s>".
    """

    text: str | None
    tokens: dict[str, str]


def chat_template(folder: Path) -> ChatTemplate:
    """The chat template in a tokenizer's folder, and the special tokens that its settings name. The
    file chat_template.jinja comes before the settings; of several templates the default one is
    taken. No template and no tokens where a file cannot be read."""
    settings: dict[str, object] = {}
    jinja = folder / "chat_template.jinja"
    try:
        for name in ("special_tokens_map.json", "tokenizer_config.json"):
            if (folder / name).exists():
                settings.update(read_object(folder / name))
        template = settings.get("chat_template")
        if jinja.exists():
            template = jinja.read_bytes().decode()
    except (OSError, ValueError):
        return ChatTemplate(text=None, tokens={})
    if isinstance(template, list):  # of several templates
        template = _default_template(template)
    if not isinstance(template, str):
        template = None
    return ChatTemplate(template, _named_tokens(settings))


def _default_template(templates: list[object]) -> object:
    """The text of the template that is named "default" among several; None for none.

    Args:
        templates: [{"name": "default", "template": "..."}, {"name": "tool_use", ...}].
    """
    for template in templates:
        if isinstance(template, dict) and template.get("name") == "default":
            text: object = template.get("template")
            return text
    return None


def _named_tokens(settings: Mapping[str, object]) -> dict[str, str]:
    """The special tokens that a tokenizer's settings name, as text.

    {"bos_token": "<s>", "eos_token": {"content": "</s>"}, "model_max_length": 512}
        -> {"bos_token": "<s>", "eos_token": "</s>"}
    """
    tokens: dict[str, str] = {}
    for name, value in settings.items():
        text = value
        if isinstance(value, dict):
            text = value.get("content")
        if name.endswith("_token") and isinstance(text, str):
            tokens[name] = text
    return tokens


def _matches_any(name: str, patterns: Iterable[str]) -> bool:
    """Whether a file name matches one of some patterns, as "tokenizer*"."""
    return any(fnmatch(name, pattern) for pattern in patterns)
