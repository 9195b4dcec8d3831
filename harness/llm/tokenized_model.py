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
from harness.llm.endings import AddedToken, endings_pattern, markers_of
from harness.llm.template import PLAIN, Pieces, SystemTurnTokens, cut_template, no_system_error
from harness.llm.text import Text
from harness.llm.tokenizer_files import tokenizer_folder
from harness.models import LanguageModel


@dataclass(frozen=True)
class NetworkEnds:
    """What a tokenizer needs to know of the network.

    Attributes:
        vocabulary_size: How many tokens its vocabulary has.
        end_ids: The ids of the tokens that end a reply, by its generation config.
    """

    vocabulary_size: int
    end_ids: tuple[int, ...]

    @classmethod
    def from_configs(cls, config: Any, generation_config: Any) -> NetworkEnds:
        """Read the size of the vocabulary and the ids of the end tokens from a model's
        configuration; it may name one end token, several or none.

        Args:
            config: The model's config of transformers.
            generation_config: A generation config of transformers, None for none.
        """
        end_ids = getattr(generation_config, "eos_token_id", None)
        if end_ids is None:
            end_ids = ()
        elif isinstance(end_ids, int):
            end_ids = (end_ids,)
        return cls(int(config.vocab_size), tuple(end_ids))


class TokenizedModel(LanguageModel):
    """A model whose contexts are token ids.

    Attributes:
        text: Encodes and decodes.
        pieces: The pieces of the chat template, as text.
        before_first_user_ids: Token ids of what stands before the first user turn.
        before_reply_ids: Of what stands between a user turn and the reply.
        before_next_user_ids: Of what stands between a reply and the next user turn.
        system_turn_ids: Of what stands around a system turn's content; None where the template has
            no such turn.
        open_thinking_ids: Of what opens a thinking.
        close_thinking_ids: Of what ends one at its limit.
        answer_start_ids: Of what stands before a reply without thinking: an empty thinking, or what
            opens one in a template that ends it by itself.
        stop_ids: Ids of the tokens that end a reply.
        endings: A pattern of markers that are cut off a reply; None for none.
        thinking: The markers of a reasoning model; None for another.
    """

    thinking: Thinking | None = None

    def _set_facts(self, facts: ModelFacts) -> None:
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
        tokenizer = _open_tokenizer(config, folder, self.name)
        if len(tokenizer) > network.vocabulary_size:
            raise CannotRun(
                f"the tokenizer has {len(tokenizer)} tokens, the model '{self.name}' only "
                f"{network.vocabulary_size}: they do not belong together"
            )
        self.pieces = _template_pieces(config, tokenizer, self.name)
        self.text = Text(tokenizer, self.name, self.pieces)
        self._encode_turns()
        self._encode_thinking(config.thinking)
        self.stop_ids = self._find_stop_ids(network, tokenizer.eos_token_id)
        added_tokens = tokenizer.backend_tokenizer.get_added_tokens_decoder().values()
        pieces = self.pieces
        template = pieces.before_first_user + pieces.before_reply + pieces.before_next_user
        self.endings = endings_pattern(
            markers_of(
                [AddedToken(token.content, token.special) for token in added_tokens],
                template,
                after_reply=pieces.before_next_user,
            )
        )

    def _find_stop_ids(self, network: NetworkEnds, eos_id: int | None) -> frozenset[int]:
        """The ids of the tokens that end a reply: those of the network and of the tokenizer, and
        the one that ends a reply in the template (<|eot_id|>, say), flagged as special or not.

        Args:
            network: Has the end tokens of the generation config.
            eos_id: The tokenizer's token that ends a text; None for none.
        """
        first_after_reply = self.before_next_user_ids[:1]
        markers_after_reply = (self.text.control | self.text.added).intersection(first_after_reply)
        stop_ids = {*network.end_ids, *markers_after_reply}
        if eos_id is not None:
            stop_ids.add(eos_id)
        return frozenset(stop_ids)

    def _encode_turns(self) -> None:
        """Set what the chat template puts between turns, as token ids. Raises CannotRun for a
        template that begins with several BOS."""
        self.before_first_user_ids = self._with_bos(self.pieces.before_first_user)
        self.before_reply_ids = self.text.encode_template(self.pieces.before_reply)
        self.before_next_user_ids = self.text.encode_template(self.pieces.before_next_user)
        self.system_turn_ids: SystemTurnTokens | None = None
        if self.pieces.system is not None:
            before = self._with_bos(self.pieces.system.before)
            after = self.text.encode_template(self.pieces.system.after)
            self.system_turn_ids = SystemTurnTokens(before, after)

    def _encode_thinking(self, thinking: Thinking | None) -> None:
        """Set `thinking`, and as token ids what opens a thinking in front of a reply, what ends one
        at its limit, and what stands before an answer without thinking: an empty thinking, or, for
        a model without markers, what the template puts there.

        Args:
            thinking: The markers in the settings; None for a model without. Not used where the
                template ends the thinking by itself.
        """
        if self.pieces.closes_thinking:
            thinking = None
        self.thinking = thinking
        self.open_thinking_ids = self.text.encode_template(self.pieces.thinking_start)
        self.close_thinking_ids: list[int] = []
        self.answer_start_ids = self.open_thinking_ids
        if thinking is not None:
            self.close_thinking_ids = self.text.encode_template(f"\n{thinking.close}\n\n")
            self.answer_start_ids = self.text.encode_template(
                f"{thinking.open}\n\n{thinking.close}\n\n"
            )

    def _with_bos(self, text: str) -> list[int]:
        """Token ids of the template's first piece, with one BOS in front if the tokenizer puts one
        there. Raises CannotRun for a piece with several."""
        ids = self.text.encode_template(text)
        bos = self.text.bos
        if bos is None:
            return ids
        if ids[:1] != [bos]:
            ids = [bos, *ids]
        if ids.count(bos) != 1:
            raise CannotRun(
                f"the chat template of '{self.name}' begins with {ids.count(bos)} BOS tokens"
            )
        return ids

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
            self.first_prompts[role] = {"text": self.text.decode_context(ids), "ids": list(ids)}

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Character range of every token of `text`."""
        return self.text.offsets(text)

    def turn_tokens(self) -> int:
        """Tokens that the template adds to one user turn and its reply: BOS and what stands before
        a reply without thinking included."""
        return (
            len(self.before_first_user_ids)
            + len(self.before_reply_ids)
            + len(self.answer_start_ids)
        )

    def system_turn_tokens(self, text: str) -> int:
        """Tokens that a system turn of `text` adds. Raises CannotRun where the chat template has no
        system role."""
        if self.system_turn_ids is None:
            raise no_system_error(self.name)
        n_around = len(self.system_turn_ids.before) + len(self.system_turn_ids.after)
        # What stands around it takes the place of what stands before a first user turn.
        return n_around + self.count(text) - len(self.before_first_user_ids)


def _open_tokenizer(config: ModelConfig, folder: str, name: str) -> Any:
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
    Also gives the tokenizer the template of a file.

    Args:
        config: The model's settings.
        tokenizer: A tokenizer of transformers.
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
    return cut_template(
        template,
        tokens=tokenizer.special_tokens_map,
        name=name,
        date=config.template_date,
        thinking=config.thinking,
        extra=config.extra,
    )
