"""`harness doctor --server URL`: what a server can do, found by asking it, and which methods it can
serve."""

from collections.abc import Iterator, Mapping
from typing import Any

from harness.cli.checks import Check, State
from harness.config import presets
from harness.config.resolve import resolved
from harness.errors import CannotRun, RequestFailed, UserError
from harness.method.abilities import needs_trained_adapters

_LIST_PROMPT = "List twenty animals, separated by commas."
_LONG_PROMPT = "The old bridge lies north of the river town. " * 60 + "Where does it lie?"


def check_server(url: str, model: str | None, sets: Mapping[str, Any]) -> Iterator[Check]:
    """Check the capabilities of the server at `url`, each by a short request; then group the
    methods by what they need.

    model: name under which the server knows it (None: the first that it lists); sets: settings of
    the model. Raises CannotRun where no server answers, UserError for a wrong address or where no
    model is named.
    """
    from harness.llm.endpoint import Reply, complete
    from harness.llm.endpoint_http import RetryPolicy, Server, Tries
    from harness.llm.endpoint_info import api_key, one_address_problems

    config = resolved("models", model="endpoint", sets={**sets, "model.base_url": url})
    if problems := one_address_problems(config):
        raise UserError(problems[0])
    server = Server(
        config.base_url, api_key(config), RetryPolicy(config.timeout, 2), config.api_key_env
    )
    server.check_alive()
    offered = server.offered_models()
    served = model or next(iter(offered), None)
    if served is None:
        raise UserError(f"{url} lists no models; name one: --model NAME")

    def ask(
        prompt: str = _LIST_PROMPT, **more: Any
    ) -> Reply | str:  # the reply, or why there is none
        body = {
            "messages": [{"role": "user", "content": prompt}],
            "max_tokens": 48,
            "temperature": 0.0,
        }
        fields = {"model": served, **body, **more, **config.extra}
        try:
            return complete(
                server, {name: value for name, value in fields.items() if value is not None}
            )
        except (CannotRun, RequestFailed) as e:
            return str(e)

    def line(name: str, state: State | bool, text: str) -> Check:
        return Check(
            "Server", state if isinstance(state, str) else "ok" if state else "missing", name, text
        )

    yield line("models", bool(offered), ", ".join(offered) or "it lists none")
    chat = ask()
    if isinstance(chat, str):
        yield line("chat", "problem", chat)
        return
    yield line("chat", True, f"'{served}' replies")
    read, written = chat.tokens_in, chat.tokens_out
    counted = read is not None and written is not None
    counts = f"{read} tokens read, {written} written" if counted else "none; they are counted here"
    yield line("usage counts", counted, counts)
    again = [ask(_LONG_PROMPT), ask(_LONG_PROMPT)][1]
    cached = 0 if isinstance(again, str) else again.tokens_cached
    flags = "it tells of none; vllm serve does with --enable-prompt-tokens-details, SGLang with --enable-cache-report"
    yield line(
        "prefix cache",
        cached > 0,
        f"{cached} tokens of a repeated prompt were in it" if cached else flags,
    )
    drawn = [ask(temperature=1.0, seed=seed) for seed in (1, 1, 2)]
    failed = next((reply for reply in drawn if isinstance(reply, str)), None)
    texts = [reply.text for reply in drawn if isinstance(reply, Reply)]
    if failed or texts[0] != texts[1]:
        yield line(
            "seed",
            False,
            failed or "two replies with one seed differ; a sampled run cannot be repeated",
        )
    else:
        same = texts[1] == texts[2]
        yield line(
            "seed",
            not same,
            "another seed gives the same reply" if same else "one seed gives one reply",
        )
    words = chat.text.split()
    stop = words[len(words) // 2] if len(words) > 2 else None
    short = ask(stop=[stop]) if stop else "the reply was too short to tell"
    if isinstance(short, Reply):
        ends = len(short.text) <= chat.text.index(str(stop)) + len(str(stop))
        short = (
            "replies end there"
            if ends
            else "replies go on; they are cut here, but cost more tokens"
        )
    yield line("stop strings", short == "replies end there", short)
    first = ask(max_tokens=1, logprobs=True, top_logprobs=config.logprobs or 5)
    n_measured, reason = (
        (0, first) if isinstance(first, str) else (len(first.first_token), "it gives none")
    )
    yield line(
        "log-probabilities", n_measured > 0, f"of {n_measured} tokens" if n_measured else reason
    )
    raw = {"model": served, "prompt": "One, two,", "max_tokens": 4}
    try:
        reply = server.post("/completions", raw, lambda _: None, 1 << 20, Tries())
        completes = isinstance(reply["choices"][0]["text"], str)
    except (CannotRun, RequestFailed, LookupError, TypeError):
        completes = False
    yield line(
        "raw completion", completes, f"{'' if completes else 'it has none; '}no method needs it"
    )
    yield from _check_methods({"sampling", "probe"} if n_measured else {"sampling"}, n_measured)


def _check_methods(capabilities: set[str], known: int) -> Iterator[Check]:
    """Group methods by what the server lacks for them. known: tokens whose log-probabilities it
    gives."""
    from harness.engine.runnable_presets import preset_methods

    groups: dict[
        tuple[State, str], dict[str, str]
    ] = {}  # base preset file -> the first preset that extends it
    for name, _, method in preset_methods():
        needs = frozenset().union(*method.needs.values())
        trained = needs_trained_adapters(method)
        missing = sorted(needs - capabilities)
        if trained or set(missing) - {"probe"}:
            needed = sorted({*needs - {"sampling"}, *(["adapters"] if trained else [])})
            group: tuple[State, str] = "missing", f"loaded models only ({', '.join(needed)})"
        elif missing:
            group = "missing", "only with log-probabilities"
        elif "probe" in needs:
            group = "ok", f"with model.logprobs={known} model.tokenizer=FOLDER"
        else:
            group = "ok", "by a chat alone"
        groups.setdefault(group, {}).setdefault(presets.read("methods", name)[0][0], name)
    for (state, reason), names in sorted(groups.items(), reverse=True):
        yield Check(
            "Methods, each with the presets that extend it",
            state,
            reason,
            ", ".join(names.values()),
        )
