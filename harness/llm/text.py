"""Tokenizer in, tokens out: plain text can never forge a control token, and spans know their characters.

`Text.plain` encodes with a copy of the tokenizer that knows no added tokens, so "<|eot_id|>" in a document becomes the
ordinary tokens of that string. `Text.trusted` encodes the template's own pieces, where they are control tokens.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream

from harness.errors import CannotRun

__all__ = ["Text"]


class Text:
    """Encoding and decoding for one model. Raises CannotRun for a tokenizer without a fast back end."""

    def __init__(self, tokenizer: Any, name: str) -> None:
        if not getattr(tokenizer, "is_fast", False):
            raise CannotRun(f"the tokenizer of '{name}' has no tokenizer.json; convert it to the fast format first")
        self.tokenizer = tokenizer
        backend: Tokenizer = tokenizer.backend_tokenizer
        spec = json.loads(backend.to_str())
        self.added = {t["id"] for t in spec["added_tokens"]}
        self.control = {t["id"] for t in spec["added_tokens"] if t["special"]} | set(tokenizer.all_special_ids)
        # Text with a character that the vocabulary lacks becomes the unknown token; it opens and closes nothing.
        self.control.discard(tokenizer.unk_token_id)
        spec["added_tokens"], spec["truncation"], spec["padding"], spec["post_processor"] = [], None, None, None
        self._plain = Tokenizer.from_str(json.dumps(spec))
        self._backend = backend
        self._name = name
        self._lead = self._dummy_prefix()
        self._check()
        self.bos = self._bos()

    def _dummy_prefix(self) -> bool:
        """Whether encoding puts a space in front of every text (SentencePiece's dummy prefix)."""
        ids = self._plain.encode("a", add_special_tokens=False).ids
        return self._plain.decode(ids, skip_special_tokens=False) != "a" or len(ids) != len(
            self._plain.encode("\na", add_special_tokens=False).ids
        ) - len(self._plain.encode("\n", add_special_tokens=False).ids)

    def _check(self) -> None:
        added = self._backend.get_added_tokens_decoder()
        for i, token in added.items():
            if i in self.control and self.control.intersection(self.plain(token.content)):
                raise CannotRun(
                    f"the tokenizer of '{self._name}' turns the text {token.content!r} into a control token even as "
                    "plain text, so a document could forge a turn; use another tokenizer (model.tokenizer=FOLDER)"
                )

    def _bos(self) -> int | None:
        bos = self.tokenizer.bos_token_id
        return bos if bos is not None and bos in self.tokenizer("a")["input_ids"][:1] else None

    def plain(self, text: str) -> list[int]:
        """Token ids of `text` as data."""
        return [i for i, _ in self._encode(text)]

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Character range of each token of `text` as data."""
        return [o for _, o in self._encode(text)]

    def _encode(self, text: str) -> list[tuple[int, tuple[int, int]]]:
        if not text:
            return []
        if not self._lead:
            e = self._plain.encode(text, add_special_tokens=False)
            return list(zip(e.ids, e.offsets, strict=True))
        # A newline in front takes the dummy prefix upon itself and is then dropped.
        head = len(self._plain.encode("\n", add_special_tokens=False).ids)
        e = self._plain.encode("\n" + text, add_special_tokens=False)
        shifted = [(max(a - 1, 0), max(b - 1, 0)) for a, b in e.offsets]
        return list(zip(e.ids, shifted, strict=True))[head:]

    def trusted(self, text: str) -> list[int]:
        """Token ids of a template piece: control tokens in it are control tokens."""
        return list(self._backend.encode(text, add_special_tokens=False).ids) if text else []

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
        tail = self._backend.decode(ids[-waiting:], skip_special_tokens=True) if waiting else ""
        return text + tail, offsets + [(len(text), len(text) + len(tail))] * waiting
