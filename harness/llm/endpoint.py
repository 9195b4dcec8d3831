"""A model behind an OpenAI-compatible server: chat, and probes where the server gives log-probabilities.

    model = EndpointModel(config, facts)        one look whether a server answers; nothing is loaded
    model.session(meter)                        a conversation (endpoint_session.py)

endpoint_facts.py   names, numbers and files, checked before a run       endpoint_http.py    retries, waits, the key
endpoint_tokens.py  tokens counted here, for budgets                     endpoint_reply.py   what a server says
"""

from __future__ import annotations

from harness.config.schema import ModelConfig
from harness.cost.meter import Meter
from harness.errors import CannotRun
from harness.llm.endings import KNOWN, pattern
from harness.llm.endpoint_http import Patience, Server
from harness.llm.endpoint_info import key_of, sizes, tokenizer_folder
from harness.llm.endpoint_session import EndpointSession, conversation
from harness.llm.endpoint_tokens import Tokens
from harness.llm.model_facts import ModelFacts
from harness.models import LanguageModel


class EndpointModel(LanguageModel):
    """A chat model that a server runs. Raises CannotRun where no server answers, or it refuses the key."""

    def __init__(self, config: ModelConfig, facts: ModelFacts) -> None:
        assert config.base_url is not None  # endpoint_facts refuses it otherwise
        self.name, self.identity, self.capabilities = facts.name, facts.identity, facts.capabilities
        self.window, self.logprobs = facts.window, config.logprobs
        self.shape, self.thinking = sizes(config), config.thinking
        self.first_prompts = {}
        self.served = config.source or config.name
        self.tokens = Tokens(tokenizer_folder(config)[0], config.name)
        self.endings = pattern({*KNOWN, *self.tokens.markers})
        patience = Patience(config.timeout, config.retries)
        self.server = Server(config.base_url, key_of(config), patience, config.api_key_env)
        self.server.alive()

    def session(self, meter: Meter, role: str = "reader", adapter: str | None = None) -> EndpointSession:
        """Open an empty conversation. Raises CannotRun for an adapter: a server has its own names for those."""
        if adapter is not None:
            raise CannotRun(f"'{self.name}' runs behind a server and takes no adapter '{adapter}'")
        return EndpointSession(self, meter, role)

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Character range of every token of `text`, by the local tokenizer."""
        return self.tokens.offsets(text)

    def turn_tokens(self) -> int:
        """Tokens of one user turn's frame, BOS included; endpoint_tokens.ALLOWANCE where no template tells."""
        return self.tokens.turn

    def system_tokens(self, text: str) -> int:
        """Tokens of the text and of a turn's frame, which a template's may be shorter than."""
        return self.turn_tokens() + self.count(text)

    def remember_first_prompt(self, role: str, messages: list[dict[str, str]]) -> None:
        """Keep the first conversation that `role` sent, for the manifest; its token ids are the server's affair."""
        if role not in self.first_prompts:
            self.first_prompts[role] = {"text": conversation(messages), "ids": []}
