"""Encode and decode texts of one model so that no control token comes from data, with character
offsets.

`Text.plain` encodes with a copy of the tokenizer that knows no added tokens, so "<|eot_id|>" in a
document becomes the ordinary tokens of that string, as with `sanitize_control_tokens` of
transformers, which needs a whole conversation. `Text.trusted` encodes the template's own pieces,
where they are control tokens.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream

from harness.errors import CannotRun, ForgedTurn
from harness.llm.template import PLAIN, Pieces

Token = tuple[int, tuple[int, int]]  # a token's id and the range of characters it covers


class Text:
    """Encodes and decodes for the model `name`. pieces: its chat template, whose tokens no text
    from data may produce.

    tokenizer: of transformers, or FastTokenizer. Raises CannotRun for a slow one.
    """

    def __init__(self, tokenizer: Any, name: str, pieces: Pieces = PLAIN) -> None:
        if not getattr(tokenizer, "is_fast", False):
            raise CannotRun(
                f"the tokenizer of '{name}' has no tokenizer.json; convert it to the fast format "
                "first"
            )
        self.tokenizer = tokenizer
        backend: Tokenizer = tokenizer.backend_tokenizer
        spec = json.loads(backend.to_str())
        added = spec["added_tokens"]
        self.added = {token["id"] for token in added}
        special = {token["id"] for token in added if token["special"]}
        self.control = special | set(tokenizer.all_special_ids)
        # Text with a character that the vocabulary lacks becomes the unknown token; it opens and
        # closes nothing.
        self.control.discard(tokenizer.unk_token_id)
        spec["added_tokens"] = []
        spec["truncation"] = None
        spec["padding"] = None
        spec["post_processor"] = None
        self._plain = Tokenizer.from_str(json.dumps(spec))
        self._backend = backend
        self._has_dummy_prefix = self._finds_dummy_prefix()
        bos = tokenizer.bos_token_id
        begins_with_bos = bos is not None and bos in tokenizer("a")["input_ids"][:1]
        self.bos = bos if begins_with_bos else None
        used = {*self.trusted(pieces.begin), *self.trusted(pieces.mid), *self.trusted(pieces.next)}
        visible = {token["id"] for token in added if token["content"].strip()}
        self._name = name
        self._framing = self.control | (visible & used)

    def _finds_dummy_prefix(self) -> bool:
        """Whether encoding puts a space in front of every text, as SentencePiece's dummy prefix."""
        word = self._plain.encode("a", add_special_tokens=False).ids
        line = self._plain.encode("\n", add_special_tokens=False).ids
        word_after_line = self._plain.encode("\na", add_special_tokens=False).ids
        is_changed = self._plain.decode(word, skip_special_tokens=False) != "a"
        return bool(is_changed or len(word) != len(word_after_line) - len(line))

    def plain(self, text: str) -> list[int]:
        """Token ids of `text` as data. Raises ForgedTurn where its plain tokens include a control
        token."""
        ids = [token_id for token_id, _ in self._encode(text)]
        if not self._framing.isdisjoint(ids):
            # A vocabulary that spells it as a word, which some Unigram models do.
            control = next(filter(self._framing.__contains__, ids))
            token = self._backend.id_to_token(control)
            raise ForgedTurn(
                f"a text holds {token!r}, which the tokenizer of '{self._name}' writes as the "
                "control token of that name; take it out of the text, or use another tokenizer "
                "(model.tokenizer=FOLDER)"
            )
        return ids

    def context(self, ids: Sequence[int]) -> str:
        """The text of a whole context, markers of the chat template included."""
        return str(self.tokenizer.decode(ids, clean_up_tokenization_spaces=False))

    def count(self, text: str) -> int:
        """Number of tokens of `text`, control tokens as plain text."""
        return len(self._encode(text))

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Character range of each token of `text` as data."""
        return [offsets for _, offsets in self._encode(text)]

    def _encode(self, text: str) -> list[Token]:
        """Tokens of `text` with offsets."""
        if not text:
            return []
        if not self._has_dummy_prefix:
            e = self._plain.encode(text, add_special_tokens=False)
            return list(zip(e.ids, e.offsets, strict=True))
        # A newline in front takes the dummy prefix upon itself and is then dropped.
        head = len(self._plain.encode("\n", add_special_tokens=False).ids)
        e = self._plain.encode("\n" + text, add_special_tokens=False)
        shifted = [(max(a - 1, 0), max(b - 1, 0)) for a, b in e.offsets]
        return list(zip(e.ids, shifted, strict=True))[head:]

    def trusted(self, text: str) -> list[int]:
        """Token ids of a piece of the chat template, whose control tokens are encoded as such."""
        if text:
            return list(self._backend.encode(text, add_special_tokens=False).ids)
        return []

    def decode(self, ids: Iterable[int]) -> tuple[str, list[tuple[int, int]]]:
        """Text of `ids` without control tokens, and the character range of each id in it."""
        ids = list(ids)
        stream = DecodeStream(skip_special_tokens=True)
        text, offsets, waiting = "", [], 0
        for i in ids:
            piece = stream.step(self._backend, i) or ""
            waiting += 1
            if piece:
                # Tokens that only together make a character share its range.
                offsets += [(len(text), len(text) + len(piece))] * waiting
                text, waiting = text + piece, 0
        tail = ""
        if waiting:
            tail = self._backend.decode(ids[-waiting:], skip_special_tokens=True)
        return text + tail, offsets + [(len(text), len(text) + len(tail))] * waiting
