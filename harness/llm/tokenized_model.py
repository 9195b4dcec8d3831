"""A model whose contexts are token ids: its tokenizer, the pieces of its chat template as tokens,
and what ends its replies.

The back ends for weights on this machine share it: hf_model.py, and the package `packages/vllm`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.config.schema import ModelConfig, Thinking
from harness.errors import CannotRun
from harness.llm import gguf
from harness.llm.backend import ModelFacts
from harness.llm.endings import endings_pattern, markers_of
from harness.llm.template import PLAIN, Pieces, SystemTurnTokens, cut_template, no_system
from harness.llm.text import Text
from harness.llm.tokenizer_files import tokenizer_folder
from harness.models import LanguageModel


@dataclass(frozen=True)
class NetworkEnds:
    """What a tokenizer needs to know of the network.

    Attributes:
        vocabulary: The size of its vocabulary.
        end_tokens: The tokens that end a reply, by its generation config.
    """

    vocabulary: int
    end_tokens: tuple[int, ...]

    @classmethod
    def of(cls, config: Any, generation: Any) -> NetworkEnds:
        """Read both from a model's configuration.

        Args:
            config: The model's config of transformers.
            generation: A generation config of transformers, None for none.
        """
        ends = getattr(generation, "eos_token_id", None)
        if ends is None:
            ends = ()
        elif isinstance(ends, int):
            ends = (ends,)
        return cls(int(config.vocab_size), tuple(ends))


class TokenizedModel(LanguageModel):
    """A model whose contexts are token ids.

    Attributes:
        text: Encodes and decodes.
        pieces: The pieces of the chat template, as text.
        begin: What stands before the first user turn, as tokens.
        mid: What stands between a user turn and the reply.
        next: What stands between a reply and the next user turn.
        system: What stands around a system turn's content; None where the template has no such
            turn.
        opens: What opens a thinking.
        closes: What ends one at its limit.
        reply_start: What stands before a reply without thinking: an empty thinking, or what opens
            one in a template that ends it by itself.
        stop_ids: Tokens that end a reply.
        endings: A pattern of markers that are cut off a reply; None for none.
        thinking: The markers of a reasoning model; None for another.
    """

    thinking: Thinking | None = None

    def _take_facts(self, facts: ModelFacts) -> None:
        """Set the attributes that are known before the weights are loaded: name, identity,
        capabilities, window."""
        self.name = facts.name
        self.identity = facts.identity
        self.capabilities = facts.capabilities
        self.window = facts.window
        self.first_prompts = {}
        self._refusals = facts.refusals

    def _load_tokenizer(self, config: ModelConfig, folder: str, network: NetworkEnds) -> None:
        """Load the tokenizer, and set the attributes that come from it and from the chat template.

        Args:
            config: The model's settings.
            folder: The model's folder.
            network: The vocabulary and end tokens of the network that the tokenizer belongs to.

        Raises:
            CannotRun: It cannot be loaded, or does not belong to the network.
        """
        tokenizer = _tokenizer(config, folder, self.name)
        if len(tokenizer) > network.vocabulary:
            raise CannotRun(
                f"the tokenizer has {len(tokenizer)} tokens, the model '{self.name}' only "
                f"{network.vocabulary}: they do not belong together"
            )
        self.pieces = _template_pieces(config, tokenizer, self.name)
        self.text = Text(tokenizer, self.name, self.pieces)
        self._encode_turns()
        self._encode_thinking(config.thinking)
        # The token that ends a reply in the template (<|eot_id|>, say) ends one here, flagged as
        # special or not.
        known = self.text.control | self.text.added
        last = known.intersection(self.next[:1])
        ends = {*network.end_tokens, tokenizer.eos_token_id, *last}
        self.stop_ids = frozenset(ends - {None})
        added_tokens = tokenizer.backend_tokenizer.get_added_tokens_decoder().values()
        added = [(token.content, token.special) for token in added_tokens]
        template = self.pieces.begin + self.pieces.mid + self.pieces.next
        self.endings = endings_pattern(markers_of(added, template, self.pieces.next))

    def _encode_turns(self) -> None:
        """Set what the chat template puts between turns (`begin`, `mid`, `next`, `system`) as token
        ids. Raises CannotRun for a template that begins with several BOS."""
        self.begin = self._with_bos(self.pieces.begin)
        self.mid = self.text.trusted(self.pieces.mid)
        self.next = self.text.trusted(self.pieces.next)
        self.system: SystemTurnTokens | None = None
        if self.pieces.system is not None:
            before = self._with_bos(self.pieces.system.before)
            after = self.text.trusted(self.pieces.system.after)
            self.system = SystemTurnTokens(before, after)

    def _encode_thinking(self, thinking: Thinking | None) -> None:
        """Set what opens a thinking, what ends one at its limit, and an empty one, as token ids.

        Args:
            thinking: The markers in the settings; None for a model without. Not used where the
                template ends the thinking by itself.
        """
        if self.pieces.closed:
            thinking = None
        self.thinking = thinking
        self.opens = self.text.trusted(self.pieces.thinks)
        self.closes: list[int] = []
        self.reply_start = self.opens
        if thinking is not None:
            self.closes = self.text.trusted(f"\n{thinking.close}\n\n")
            self.reply_start = self.text.trusted(f"{thinking.open}\n\n{thinking.close}\n\n")

    def _with_bos(self, text: str) -> list[int]:
        """Token ids of the template's first piece, with one BOS in front if the tokenizer puts one
        there. Raises CannotRun for a piece with several."""
        begin, bos = self.text.trusted(text), self.text.bos
        if bos is not None and begin[:1] != [bos]:
            begin = [bos, *begin]
        if bos is not None and begin.count(bos) != 1:
            raise CannotRun(
                f"the chat template of '{self.name}' begins with {begin.count(bos)} BOS tokens"
            )
        return begin

    def require(self, capability: str) -> None:
        """Raise CannotRun, with the reason, where the model lacks a capability (one of
        CAPABILITIES)."""
        if capability not in self.capabilities:
            offered = ", ".join(sorted(self.capabilities)) or "none"
            reason = self._refusals.get(capability, f"it has {offered}")
            raise CannotRun(f"'{self.name}' has no capability '{capability}': {reason}")

    def remember_first_prompt(self, role: str, ids: list[int]) -> None:
        """Keep the first context that `role` ran, for the manifest: its text and its token ids.
        Later ones are not kept."""
        if role not in self.first_prompts:
            self.first_prompts[role] = {"text": self.text.context(ids), "ids": list(ids)}

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Character range of every token of `text`."""
        return self.text.offsets(text)

    def turn_tokens(self) -> int:
        """Tokens that the template adds to one user turn and its reply: BOS and what stands before
        a reply without thinking included."""
        return len(self.begin) + len(self.mid) + len(self.reply_start)

    def system_turn_tokens(self, text: str) -> int:
        """Tokens that a system turn of `text` adds. Raises CannotRun where the chat template has no
        system role."""
        if self.system is None:
            raise no_system(self.name)
        around = len(self.system.before) + len(self.system.after)
        return around + self.count(text) - len(self.begin)


def _tokenizer(config: ModelConfig, folder: str, name: str) -> Any:
    """Load the tokenizer of a model.

    Args:
        config: The model's settings.
        folder: The model's folder, where the settings name no other one.
        name: The model's name, for messages.

    Raises:
        CannotRun: There is none that can be loaded.
    """
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(
            str(tokenizer_folder(config, Path(folder))),
            trust_remote_code=config.trust_remote_code,
        )
    except (OSError, ValueError) as e:
        raise CannotRun(
            f"'{config.tokenizer or name}' has no tokenizer that can be loaded "
            f"({str(e).splitlines()[0]}); "
            "name one with --set model.tokenizer=FOLDER"
        ) from e


def _template_pieces(config: ModelConfig, tokenizer: Any, name: str) -> Pieces:
    """The pieces of the chat template in use: the model's own, that of a file, or PLAIN for "none".

    Args:
        config: The model's settings.
        tokenizer: A tokenizer of transformers; gets the template of a file.
        name: The model's name, for messages.

    Raises:
        CannotRun: There is no template, or one that no session can use.
    """
    if config.template == "none":
        return PLAIN
    if config.template != "model":
        tokenizer.chat_template = Path(config.template).read_bytes().decode()
    if not tokenizer.chat_template:
        raise gguf.NoTemplate(name)
    try:
        template = tokenizer.get_chat_template()
    except ValueError as e:
        raise CannotRun(
            f"'{name}' has several chat templates and none is its default; set model.template=FILE"
        ) from e
    tokens = tokenizer.special_tokens_map
    return cut_template(template, tokens, name, config.template_date, config.thinking, config.extra)
