"""Where a model's tokenizer is, and what identifies it and the chat template that is used.

A tokenizer on the hub is pinned as a model is (hub_download.py), and loaded from the files that
were hashed. Its chat template comes with it: transformers reads chat_template.jinja beside the
tokenizer, else its tokenizer_config.json.
"""

import hashlib
import json
from collections.abc import Iterable
from fnmatch import fnmatch
from pathlib import Path

from harness.config.schema import ModelConfig
from harness.errors import CannotRun
from harness.storage.file_hash import file_hash, hash_named
from harness.storage.files import read_object

VOCABULARY = (
    "vocab.*",
    "merges.txt",
    "*.model",
)  # what tokens are made of where no tokenizer.json holds it all
_TOKEN_FILES = ("*token*.json", "*.tiktoken", *VOCABULARY)
_OTHER_FILES = (
    "chat_template.jinja",
    "config.json",
)  # config.json tells which class a tokenizer is of


def tokenizer_folder(config: ModelConfig, folder: Path) -> Path:
    """The folder of the config's tokenizer; folder: the model's. Raises CannotRun where it is
    missing or has none."""
    source = config.tokenizer
    if not source:
        return folder
    tokenizer = Path(source)
    if not tokenizer.is_dir():
        if tokenizer.is_absolute() or source.startswith((".", "~")) or source.count("/") != 1:
            raise CannotRun(
                f"model.tokenizer: no folder '{source}' (and it is no hub id of the form "
                "owner/name)"
            )
        from harness.storage.hub_download import download, resolve, weights_of

        kind = weights_of("model.tokenizer", noun="tokenizer")
        commit, files = resolve(kind, source, None)
        patterns = (*_TOKEN_FILES, *_OTHER_FILES, *(("*.py",) if config.trust_remote_code else ()))
        names = [name for name in files if "/" not in name and _matches_any(name, patterns)]
        paths = [download(kind, source, commit, name) for name in names]
        tokenizer = paths[0].parent if paths else tokenizer
    if not tokenizer.is_dir() or not any(
        _matches_any(path.name, _TOKEN_FILES) for path in tokenizer.iterdir()
    ):
        raise CannotRun(
            f"model.tokenizer: '{source}' has no tokenizer; name a folder or a model that has one"
        )
    return tokenizer


def tokenizer_digest(folder: Path) -> str:
    """sha256 over tokenizer.json, vocabulary, merges and settings, whichever of them are in the
    folder."""
    return hash_named(
        folder, (path.name for path in folder.iterdir() if _matches_any(path.name, _TOKEN_FILES))
    )


def template_digest(config: ModelConfig, folder: Path) -> str:
    """sha256 of the chat template in use ("none": none); folder: tokenizer's folder. Raises
    CannotRun if unreadable."""
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
        template = read_object(settings).get("chat_template") if settings.exists() else None
    except (OSError, ValueError) as e:
        raise CannotRun(f"the tokenizer_config.json of '{config.name}' cannot be read: {e}") from e
    return hashlib.sha256(json.dumps(template).encode()).hexdigest()


def chat_template(folder: Path) -> tuple[str | None, dict[str, str]]:
    """The chat template, None where the folder has none that can be read; tokens it may name:
    "bos_token" -> "<s>"."""
    try:
        files = [folder / name for name in ("special_tokens_map.json", "tokenizer_config.json")]
        settings = {
            key: value
            for path in files
            if path.exists()
            for key, value in read_object(path).items()
        }
        jinja = folder / "chat_template.jinja"
        text = jinja.read_bytes().decode() if jinja.exists() else settings.get("chat_template")
    except (OSError, ValueError):
        return None, {}
    if isinstance(text, list):
        text = next(
            (t.get("template") for t in text if isinstance(t, dict) and t.get("name") == "default"),
            None,
        )
    named = {
        k: v.get("content") if isinstance(v, dict) else v
        for k, v in settings.items()
        if k.endswith("_token")
    }
    return text if isinstance(text, str) else None, {
        k: v for k, v in named.items() if isinstance(v, str)
    }


def _matches_any(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)
