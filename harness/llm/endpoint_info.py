"""What can be known of a model behind a server without asking the server: names, numbers and files
alone.

A key is read when a request is sent, and kept in memory only. Messages never repeat a value that
may be a key itself.
"""

from __future__ import annotations

import ipaddress
import os
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlsplit

from harness.config.schema import ModelConfig, Shape
from harness.cost.flops import ModelShape
from harness.cost.shapes import shape_of
from harness.errors import CannotRun, HarnessError, Missing, UserError, call_noting_problem
from harness.llm.backend import ModelFacts, misplaced_settings
from harness.llm.endings import thinking_room
from harness.llm.tokenizer_files import tokenizer_folder
from harness.storage.file_hash import hash_named
from harness.storage.files import read_object

MARGIN = 0.2
"""Without a tokenizer: how much longer than estimated texts may be. A window of 1,200 takes 1,000
estimated ones."""
ESTIMATE = "estimated, 1"
"""Without a tokenizer: what identifies the estimate; raise the number when endpoint_tokens.py cuts
otherwise."""
# An upper-case name. Keys of every large provider have lower-case letters, so a pasted key is no
# such name.
_VARIABLE_NAME = re.compile(r"[A-Z_][A-Z0-9_]{0,63}")
_TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
)


def endpoint_facts(config: ModelConfig) -> ModelFacts:
    """Facts of a model behind a server.

    The identity holds the name by which the server knows the model, not the address, so that a run
    resumes when the server moves; model.revision distinguishes servers that answer differently
    under one name. Capabilities: sampling; probe where the server gives log-probabilities. The
    window is model.window, else that in config.json beside the tokenizer; without a tokenizer
    lengths are estimates, and a share of it is kept free. `absent` has the problems that end when
    something is got: a key, a tokenizer.
    """
    sentences = [*misplaced_settings(config), *address_problems(config)]
    problems: list[HarnessError] = [UserError(sentence) for sentence in sentences]
    # An error that either function raises is added to the problems.
    call_noting_problem(problems, api_key, config)
    tokenizer = call_noting_problem(problems, endpoint_tokenizer, config)
    window = config.window
    if not window and tokenizer is not None:
        window = _window_in_config(tokenizer.folder)
    lacks_named_tokenizer = tokenizer is None and bool(config.tokenizer)  # a problem already
    if not window and not lacks_named_tokenizer:
        unknown_window = (
            f"nothing here says how long the window of '{config.name}' is; set model.window=TOKENS"
        )
        problems.append(UserError(unknown_window))
    usable_tokens = window or 0
    if not config.tokenizer:  # lengths are estimates
        usable_tokens = int(usable_tokens / (1 + MARGIN))
    room = thinking_room(config, usable_tokens)
    return ModelFacts(
        name=config.name,
        capabilities=_capabilities(config),
        window=room.n_tokens,
        identity=_identity(config, tokenizer, window),
        problems=[*map(str, problems), *room.problems],
        warnings=_warnings(config),
        refusals=_refusals(config),
        absent={str(each): each.thing for each in problems if isinstance(each, Missing)},
    )


def _identity(
    config: ModelConfig, tokenizer: LocalTokenizer | None, window: int | None
) -> dict[str, object]:
    """All that changes the replies, as far as it is known here: {"served": "qwen3", "revision":
    None, "tokenizer": HASH, "window": 32768, ...}.

    Args:
        config: The model's settings.
        tokenizer: The model's tokenizer; None for estimates.
        window: Tokens of its context; None where nothing says it.
    """
    identity: dict[str, object] = {
        "served": config.source or config.name,
        "revision": config.revision,
        "tokenizer": ESTIMATE,
        "window": window,
    }
    if tokenizer is not None:
        identity["tokenizer"] = tokenizer.identity
    if config.logprobs:
        identity["logprobs"] = config.logprobs
    if config.extra:
        identity["extra"] = config.extra
    if config.thinking:
        identity["thinking"] = config.thinking.model_dump()
    return identity


def _capabilities(config: ModelConfig) -> frozenset[str]:
    """What the model can do beyond reading and writing: always "sampling"; "probe" where the server
    gives log-probabilities and the first token of an answer is known here."""
    gives_logprobs = bool(config.logprobs)
    knows_first_token = bool(config.tokenizer)
    # The first token of a reasoning model's reply opens its thinking, and a chat has no way to skip
    # it.
    if gives_logprobs and knows_first_token and not config.thinking:
        return frozenset({"sampling", "probe"})
    return frozenset({"sampling"})


def _refusals(config: ModelConfig) -> dict[str, str]:
    """Capability -> why the model lacks it, where there is more to say; {} elsewhere."""
    if not config.logprobs or config.tokenizer:
        return {}
    unknown = "the first token of an answer is not known without its tokenizer"
    return {"probe": f"{unknown}; name it: --set model.tokenizer=FOLDER"}


def _warnings(config: ModelConfig) -> list[str]:
    """Warnings: that lengths are estimated, that sizes for FLOPs are assumed or unknown, that a key
    travels unencrypted."""
    warnings = []
    if not config.tokenizer:
        warnings.append(
            f"lengths of texts for '{config.name}' are estimates, so chunks of N tokens are about "
            "that long, and "
            f"{100 * MARGIN:.0f} % of what is sent is kept free in the window; exact: --set "
            "model.tokenizer=FOLDER"
        )
    if config.shape is None and endpoint_shape(config) is not None:
        warnings.append(
            f"FLOPs of '{config.name}' are counted with the sizes in config.json beside its "
            "tokenizer; if the server "
            "runs a model of another size, give its sizes: --set model.shape.layers=..."
        )
    elif config.shape is None and config.price is None:
        warnings.append(
            f"FLOPs of '{config.name}' are unknown, as it runs behind a server; for money give its "
            "prices per million "
            "tokens: --set model.price.input=... model.price.output=...; for FLOPs its sizes: "
            "--set "
            "model.shape.layers=... width, heads, kv_heads, head_size, mlp, vocab"
        )
    urls = addresses(config.base_url or "")
    if config.api_key_env and any(map(_is_unencrypted, urls)):
        warnings.append(
            "model.base_url is http, so the key travels unencrypted; use https where the server "
            "has it"
        )
    return warnings


def _is_unencrypted(address: str) -> bool:
    """Whether others on the way to a server can read what is sent: plain http to another
    machine."""
    url = urlsplit(address)
    return url.scheme == "http" and not is_loopback(url.hostname)


def is_loopback(host: str | None) -> bool:
    """Whether a host name means this machine."""
    try:
        return host == "localhost" or ipaddress.ip_address(host or "").is_loopback
    except ValueError:  # a name, which may well begin with "127."
        return False


def addresses(base_url: str) -> list[str]:
    """The addresses in model.base_url: one, or those of a fleet, which commas separate."""
    return [url.strip() for url in base_url.split(",")]


def address_problems(config: ModelConfig) -> list[str]:
    """[A sentence] where model.base_url is wrong, else []; a secret in the URL is not repeated."""
    if not config.base_url:
        return [
            (
                f"'{config.name}' runs behind a server; say where: --set "
                "model.base_url=http://HOST:PORT/v1"
            )
        ]
    urls = addresses(config.base_url)
    for url in urls:
        problem = _address_problem(url)
        if problem:
            return [problem]
    if len(set(urls)) < len(urls):
        return ["model.base_url names a server twice; name each once"]
    if config.batch and len(urls) > 1:
        return ["model.batch sends batch files to one server; name one address in model.base_url"]
    return []


def one_address_problems(config: ModelConfig) -> list[str]:
    """[A sentence] where model.base_url is wrong, or names several servers where only one can be
    used; else []."""
    problems = address_problems(config)
    if not problems and len(addresses(config.base_url or "")) > 1:
        return ["model.base_url names several servers; name one here"]
    return problems


def _address_problem(address: str) -> str | None:
    """What is wrong with one address, as a sentence that does not repeat it; None where nothing
    is."""
    no_address = "model.base_url is no address; write it as http://HOST:PORT/v1"
    try:
        url = urlsplit(address)
        port_is_valid = url.port is None or url.port > 0
    except ValueError:
        return no_address
    has_user_or_password = url.username is not None or url.password is not None
    if has_user_or_password or url.query or url.fragment:
        return (
            "model.base_url must be a plain address without a user, a password or anything behind "
            "a '?'; name the variable that holds the key: model.api_key_env=NAME"
        )
    is_http = url.scheme in ("http", "https")
    has_valid_host = bool(url.hostname) and port_is_valid and address.isascii()
    if not is_http or not has_valid_host:
        return no_address
    return None


def api_key(config: ModelConfig) -> str | None:
    """The key of the server, from the environment variable that the settings name; None where
    they name none. Raises CannotRun where there is no such variable, or its value can be in no
    header."""
    if config.api_key_env is None:
        return None
    if not _VARIABLE_NAME.fullmatch(config.api_key_env):
        raise CannotRun(
            "model.api_key_env must be the name of an environment variable in capitals, not the "
            "key itself; put the "
            "key into a variable, for example: export ENDPOINT_KEY=...; --set "
            "model.api_key_env=ENDPOINT_KEY"
        )
    key = os.environ.get(config.api_key_env, "").strip()
    if not key:
        raise Missing(
            f"the environment variable {config.api_key_env}, which should hold the key of "
            f"'{config.name}', is not set; "
            f"set it with: export {config.api_key_env}=...",
            f"the key of {config.name} in {config.api_key_env}",
        )
    # The HTTP library would repeat the key in its complaint.
    is_printable_ascii = all("!" <= character <= "~" for character in key)
    if not is_printable_ascii:
        raise CannotRun(
            f"the key in the environment variable {config.api_key_env} has a space, a line break "
            "or a letter beyond "
            "ASCII in it; copy it again"
        )
    return key


def endpoint_shape(config: ModelConfig) -> ModelShape | None:
    """The model's sizes, by which FLOPs are counted: model.shape, or those in config.json beside
    the tokenizer; None where neither says them."""
    if config.shape is not None:
        return ModelShape(**config.shape.model_dump())
    try:
        tokenizer = endpoint_tokenizer(config)
        if tokenizer is None:
            return None
        settings = read_object(tokenizer.folder / "config.json")
        # Without it nothing tells a gated MLP from a plain one.
        if "num_key_value_heads" not in settings:
            return None
        sizes = asdict(shape_of(SimpleNamespace(**settings)))
        checked_sizes = Shape(**sizes)
        return ModelShape(**checked_sizes.model_dump())
    except (CannotRun, OSError, ValueError, AttributeError, TypeError, ZeroDivisionError):
        return None


@dataclass(frozen=True)
class LocalTokenizer:
    """A tokenizer on this machine.

    Attributes:
        folder: The folder with its tokenizer.json.
        identity: A hash of its files.
    """

    folder: Path
    identity: str


def endpoint_tokenizer(config: ModelConfig) -> LocalTokenizer | None:
    """The tokenizer that model.tokenizer names: its folder, downloaded where it is on the hub, and
    a hash of its files. None where it names none. Raises CannotRun where it is missing."""
    if not config.tokenizer:
        return None
    model_folder = Path()  # not used: the tokenizer has a folder of its own
    folder = tokenizer_folder(config, model_folder)
    if not (folder / "tokenizer.json").is_file():
        raise CannotRun(
            f"model.tokenizer: '{config.tokenizer}' has no tokenizer.json; name a folder or a "
            "model that has one"
        )
    return LocalTokenizer(folder, hash_named(folder, (*_TOKENIZER_FILES, "config.json")))


def _window_in_config(folder: Path) -> int | None:
    """The window that config.json beside the tokenizer says (max_position_embeddings); None where
    it says none."""
    try:
        settings = read_object(folder / "config.json")
        return int(settings.get("max_position_embeddings") or 0) or None
    except (OSError, ValueError, TypeError, OverflowError):
        return None
