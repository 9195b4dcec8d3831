"""`harness doctor --server URL`: what a server can do, found by sending it short requests, and
which methods it can serve."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from harness.cli.checks import Check, State
from harness.config import presets
from harness.config.layers import Choices
from harness.config.resolve import resolve_model
from harness.config.schema import ModelConfig
from harness.engine.runnable_presets import preset_methods
from harness.errors import CannotRun, RequestFailed, UserError
from harness.llm.endpoint import complete
from harness.llm.endpoint_http import RetryPolicy, Server, Tries
from harness.llm.endpoint_info import api_key, one_address_problems
from harness.llm.endpoint_reply import Reply
from harness.method import Method
from harness.method.abilities import needs_trained_adapters

_LIST_PROMPT = "List twenty animals, separated by commas."
_LONG_PROMPT = "The old bridge lies north of the river town. " * 60 + "Where does it lie?"
_NO_PREFIX_CACHE = (
    "it tells of none; vllm serve does with --enable-prompt-tokens-details, "
    "SGLang with --enable-cache-report"
)
_RAW_REPLY_BYTES = 1 << 20


def check_server(url: str, model: str | None, sets: Mapping[str, object]) -> Iterator[Check]:
    """Yield a check for each capability of a server, then one for each group of methods.

    Args:
        url: The server's address.
        model: The server's name of the model; None for the first that it lists.
        sets: Settings of the model, {"model.api_key_env": "NAME"}.

    Raises:
        CannotRun: No server answers at `url`.
        UserError: The address is wrong, or no model is named and the server lists none.
    """
    config = resolve_model(Choices(model="endpoint", sets={**sets, "model.base_url": url})).value
    problems = one_address_problems(config)
    if problems:
        raise UserError(problems[0])
    server = Server(
        str(config.base_url),
        key=api_key(config),
        policy=RetryPolicy(timeout=config.timeout, retries=2),
        key_env=config.api_key_env,
    )
    server.check_alive()
    offered = server.offered_models()
    if not model and not offered:
        raise UserError(f"{url} lists no models; name one: --model NAME")
    if offered:
        yield _capability("models", ", ".join(offered))
    else:
        yield _missing_capability("models", "it lists none")
    served = _ServedModel(server, model or offered[0], config)
    first_reply = served.reply_to(_LIST_PROMPT)
    if isinstance(first_reply, str):
        yield Check(part="Server", state="problem", name="chat", text=first_reply)
        return
    yield _capability("chat", f"'{served.name}' replies")
    yield _check_usage_counts(first_reply)
    yield _check_prefix_cache(served)
    yield _check_seed(served)
    yield _check_stop_strings(served, first_reply.text)
    n_log_probabilities, log_probabilities = _check_log_probabilities(served)
    yield log_probabilities
    yield _check_raw_completion(served)
    yield from _check_methods(n_log_probabilities)


@dataclass(frozen=True)
class _ServedModel:
    """A model behind a server.

    Attributes:
        server: The server.
        name: The server's name of the model.
        config: The settings of the model.
    """

    server: Server
    name: str
    config: ModelConfig

    def reply_to(self, prompt: str, **fields: Any) -> Reply | str:
        """Send a short chat request; the reply, or a sentence on why there is none.

        Args:
            prompt: The user turn.
            fields: Further fields of the request, such as seed=1.
        """
        body = {
            "model": self.name,
            "messages": [{"role": "user", "content": prompt}],
            "max_tokens": 48,
            "temperature": 0.0,
            **fields,
            **self.config.extra,
        }
        # A field that the settings make None is not sent.
        sent = {name: value for name, value in body.items() if value is not None}
        try:
            return complete(self.server, sent)
        except (CannotRun, RequestFailed) as error:
            return str(error)


def _capability(name: str, text: str) -> Check:
    """Make the line about a capability that the server has: "ok".

    Args:
        name: The capability: "seed".
        text: What was found.
    """
    return Check(part="Server", state="ok", name=name, text=text)


def _missing_capability(name: str, text: str) -> Check:
    """Make the line about a capability that the server lacks: "missing".

    Args:
        name: The capability: "seed".
        text: What was found.
    """
    return Check(part="Server", state="missing", name=name, text=text)


def _check_usage_counts(chat: Reply) -> Check:
    """Check that a reply comes with its numbers of tokens."""
    if chat.tokens_in is None or chat.tokens_out is None:
        return _missing_capability("usage counts", "none; they are counted here")
    text = f"{chat.tokens_in} tokens read, {chat.tokens_out} written"
    return _capability("usage counts", text)


def _check_prefix_cache(served: _ServedModel) -> Check:
    """Check that a prompt that is sent twice is reported as cached the second time."""
    served.reply_to(_LONG_PROMPT)
    second_reply = served.reply_to(_LONG_PROMPT)
    if isinstance(second_reply, str) or second_reply.tokens_cached == 0:
        return _missing_capability("prefix cache", _NO_PREFIX_CACHE)
    text = f"{second_reply.tokens_cached} tokens of a repeated prompt were in it"
    return _capability("prefix cache", text)


def _check_seed(served: _ServedModel) -> Check:
    """Check that a seed decides what is sampled: ask twice with one seed, then once with
    another.
    """
    reply_texts = []
    for seed in (1, 1, 2):
        reply = served.reply_to(_LIST_PROMPT, temperature=1.0, seed=seed)
        if isinstance(reply, str):
            return _missing_capability("seed", reply)
        reply_texts.append(reply.text)
    first, repeated, other_seed = reply_texts
    if first != repeated:
        text = "two replies with one seed differ; a sampled run cannot be repeated"
        return _missing_capability("seed", text)
    if other_seed == first:
        return _missing_capability("seed", "another seed gives the same reply")
    return _capability("seed", "one seed gives one reply")


def _check_stop_strings(served: _ServedModel, reply_text: str) -> Check:
    """Check that a reply ends at a stop string.

    Args:
        served: The model.
        reply_text: An earlier reply to _LIST_PROMPT; a word from its middle is the stop string.
    """
    reply_words = reply_text.split()
    if len(reply_words) <= 2:
        return _missing_capability("stop strings", "the reply was too short to tell")
    stop_word = reply_words[len(reply_words) // 2]
    second_reply = served.reply_to(_LIST_PROMPT, stop=[stop_word])
    if isinstance(second_reply, str):
        return _missing_capability("stop strings", second_reply)
    if len(second_reply.text) > reply_text.index(stop_word) + len(stop_word):
        text = "replies go on; they are cut here, but cost more tokens"
        return _missing_capability("stop strings", text)
    return _capability("stop strings", "replies end there")


def _check_log_probabilities(served: _ServedModel) -> tuple[int, Check]:
    """Check for how many tokens at once the server gives log-probabilities.

    Returns (that number, the line of the check); 0 where it gives none.
    """
    n_wanted = served.config.logprobs or 5
    reply = served.reply_to(_LIST_PROMPT, max_tokens=1, logprobs=True, top_logprobs=n_wanted)
    if isinstance(reply, str):
        return 0, _missing_capability("log-probabilities", reply)
    n_log_probabilities = len(reply.first_token)
    if n_log_probabilities == 0:
        return 0, _missing_capability("log-probabilities", "it gives none")
    return n_log_probabilities, _capability("log-probabilities", f"of {n_log_probabilities} tokens")


def _check_raw_completion(served: _ServedModel) -> Check:
    """Check that the server completes a text without a chat template."""
    body = {"model": served.name, "prompt": "One, two,", "max_tokens": 4}
    try:
        completes = served.server.post(
            "/completions",
            body,
            read=_has_completion,
            max_bytes=_RAW_REPLY_BYTES,
            tries=Tries(),
        )
    except (CannotRun, RequestFailed):
        completes = False
    if not completes:
        return _missing_capability("raw completion", "it has none; no method needs it")
    return _capability("raw completion", "no method needs it")


def _has_completion(reply: Any) -> bool:
    """Whether a parsed reply of /completions has a text."""
    try:
        return isinstance(reply["choices"][0]["text"], str)
    except (LookupError, TypeError):
        return False


def _check_methods(n_log_probabilities: int) -> Iterator[Check]:
    """Yield a check for each group of methods that need the same of a server.

    A method is named by the first preset that extends its base preset.

    Args:
        n_log_probabilities: For how many tokens at once the server gives log-probabilities.
    """
    # How the methods are served -> base preset file -> name of the first preset that extends it.
    groups: dict[_Service, dict[str, str]] = {}
    for preset in preset_methods():
        group = groups.setdefault(_service_of(preset.method, n_log_probabilities), {})
        base_file, _ = presets.read("methods", preset.name)[0]
        group.setdefault(base_file, preset.name)
    part = "Methods, each with the presets that extend it"
    for (state, reason), names in sorted(groups.items(), reverse=True):
        yield Check(part=part, state=state, name=reason, text=", ".join(names.values()))


class _Service(NamedTuple):
    """Whether a server can serve a method, and by what or why not: ("ok", "by a chat alone")."""

    state: State
    reason: str


def _service_of(method: Method, n_log_probabilities: int) -> _Service:
    """Say whether a server can serve a method, and by what or why not.

    Args:
        method: The method.
        n_log_probabilities: For how many tokens at once the server gives log-probabilities.
    """
    needs = set().union(*method.needs.values())
    beyond_chat = needs - {"sampling"}
    if needs_trained_adapters(method):
        beyond_chat.add("adapters")
    if beyond_chat - {"probe"}:
        return _Service("missing", f"loaded models only ({', '.join(sorted(beyond_chat))})")
    if "probe" not in needs:
        return _Service("ok", "by a chat alone")
    if n_log_probabilities == 0:
        return _Service("missing", "only with log-probabilities")
    return _Service("ok", f"with model.logprobs={n_log_probabilities} model.tokenizer=FOLDER")
