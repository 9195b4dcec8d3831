"""Encode and decode texts of one model so that no control token comes from data, with character
offsets.

`Text.encode_data` encodes with a copy of the tokenizer that knows no added tokens, so "<|eot_id|>"
in a document becomes the ordinary tokens of that string, as with `sanitize_control_tokens` of
transformers, which needs a whole conversation. `Text.encode_template` encodes the template's own
pieces, where they are control tokens.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream

from harness.errors import CannotRun, ForgedTurn
from harness.llm.template import PLAIN, Pieces

Range = tuple[int, int]
"""The first character that a token covers, and the one after its last."""


@dataclass(frozen=True)
class _Encoded:
    """The tokens of a text.

    Attributes:
        ids: Their ids.
        offsets: The characters that each covers.
    """

    ids: list[int]
    offsets: list[Range]


class Decoded(NamedTuple):
    """The text of some tokens.

    Attributes:
        text: The text.
        offsets: The characters of it that each token covers.
    """

    text: str
    offsets: list[Range]


class Text:
    """Encodes and decodes texts of one model.

    Attributes:
        tokenizer: A tokenizer of transformers, or a FastTokenizer.
        added: Ids of the tokens that were added to the vocabulary.
        control: Ids of the control tokens.
        bos: The id of the token that begins a context, None where the tokenizer puts none there.
    """

    def __init__(self, tokenizer: Any, name: str, pieces: Pieces = PLAIN) -> None:
        """Make a copy of the tokenizer that knows no added tokens, by which texts from data are
        encoded, and find the ids that no such text may produce: control tokens, and added tokens
        in the pieces of the template.

        Args:
            tokenizer: A tokenizer of transformers, or a FastTokenizer.
            name: The model's name, for messages.
            pieces: Its chat template, whose tokens no text from data may produce.

        Raises:
            CannotRun: The tokenizer is a slow one.
        """
        if not getattr(tokenizer, "is_fast", False):
            raise CannotRun(
                f"the tokenizer of '{name}' has no tokenizer.json; convert it to the fast format "
                "first"
            )
        self.tokenizer = tokenizer
        self._name = name
        self._template_tokenizer: Tokenizer = tokenizer.backend_tokenizer
        spec = json.loads(self._template_tokenizer.to_str())
        added_tokens = spec["added_tokens"]
        self.added = {token["id"] for token in added_tokens}
        special = {token["id"] for token in added_tokens if token["special"]}
        self.control = special | set(tokenizer.all_special_ids)
        # Text with a character that the vocabulary lacks becomes the unknown token; it opens and
        # closes nothing.
        self.control.discard(tokenizer.unk_token_id)
        spec["added_tokens"] = []
        spec["truncation"] = None
        spec["padding"] = None
        spec["post_processor"] = None
        self._data_tokenizer = Tokenizer.from_str(json.dumps(spec))
        self._has_dummy_prefix = self._finds_dummy_prefix()
        self.bos = self._bos_in_front_of_texts()
        # Added tokens of white space alone may be in data.
        visible = {token["id"] for token in added_tokens if token["content"].strip()}
        self._forbidden_in_data = self.control | (visible & self._ids_in(pieces))

    def _bos_in_front_of_texts(self) -> int | None:
        """The id of the BOS that the tokenizer puts in front of a text; None where it puts none."""
        bos: int | None = self.tokenizer.bos_token_id
        if bos is not None and bos in self.tokenizer("a")["input_ids"][:1]:
            return bos
        return None

    def _ids_in(self, pieces: Pieces) -> set[int]:
        """The ids of all tokens in the pieces of a chat template that stand around user turns and
        replies."""
        ids: set[int] = set()
        for piece in (pieces.before_first_user, pieces.before_reply, pieces.before_next_user):
            ids.update(self.encode_template(piece))
        return ids

    def _finds_dummy_prefix(self) -> bool:
        """Whether encoding puts a space in front of every text, as SentencePiece's dummy prefix."""
        tokenizer = self._data_tokenizer
        letter = tokenizer.encode("a", add_special_tokens=False).ids
        newline = tokenizer.encode("\n", add_special_tokens=False).ids
        letter_after_newline = tokenizer.encode("\na", add_special_tokens=False).ids
        is_changed = tokenizer.decode(letter, skip_special_tokens=False) != "a"
        is_longer_alone = len(letter) != len(letter_after_newline) - len(newline)
        return bool(is_changed or is_longer_alone)

    def encode_data(self, text: str) -> list[int]:
        """Token ids of a text as data. Raises ForgedTurn where they include a token that opens or
        closes a turn."""
        ids = self._encode(text).ids
        if not self._forbidden_in_data.isdisjoint(ids):
            # A vocabulary that spells it as a word, which some Unigram models do.
            first_forbidden = next(filter(self._forbidden_in_data.__contains__, ids))
            token = self._template_tokenizer.id_to_token(first_forbidden)
            raise ForgedTurn(
                f"a text holds {token!r}, which the tokenizer of '{self._name}' writes as the "
                "control token of that name; take it out of the text, or use another tokenizer "
                "(model.tokenizer=FOLDER)"
            )
        return ids

    def decode_context(self, ids: Sequence[int]) -> str:
        """The text of a whole context, markers of the chat template included."""
        return str(self.tokenizer.decode(ids, clean_up_tokenization_spaces=False))

    def count(self, text: str) -> int:
        """How many tokens a text has as data, where control tokens are plain text."""
        return len(self._encode(text).ids)

    def offsets(self, text: str) -> list[Range]:
        """Character range of each token of `text` as data."""
        return self._encode(text).offsets

    def _encode(self, text: str) -> _Encoded:
        """The tokens of a text as data. The space that some tokenizers put in front of every text
        is left out."""
        if not text:
            return _Encoded([], [])
        tokenizer = self._data_tokenizer
        if not self._has_dummy_prefix:
            encoded = tokenizer.encode(text, add_special_tokens=False)
            return _Encoded(encoded.ids, encoded.offsets)
        # A newline in front takes the dummy prefix upon itself and is then dropped.
        n_newline_tokens = len(tokenizer.encode("\n", add_special_tokens=False).ids)
        encoded = tokenizer.encode("\n" + text, add_special_tokens=False)
        offsets: list[Range] = []
        for start, end in encoded.offsets[n_newline_tokens:]:
            offsets.append((max(start - 1, 0), max(end - 1, 0)))
        return _Encoded(encoded.ids[n_newline_tokens:], offsets)

    def encode_template(self, piece: str) -> list[int]:
        """Token ids of a piece of the chat template, whose control tokens are encoded as such."""
        if piece:
            return list(self._template_tokenizer.encode(piece, add_special_tokens=False).ids)
        return []

    def decode(self, ids: Iterable[int]) -> Decoded:
        """The text of tokens, without control tokens, and the characters of it that each token
        covers.

        Tokens that only together make a character share its range; a control token covers none.
        """
        ids = list(ids)
        stream = DecodeStream(skip_special_tokens=True)
        text = ""
        offsets: list[Range] = []
        n_waiting = 0  # tokens that are no whole character yet
        for token_id in ids:
            piece = stream.step(self._template_tokenizer, token_id) or ""
            n_waiting += 1
            if piece:
                # Tokens that only together make a character share its range.
                offsets += [(len(text), len(text) + len(piece))] * n_waiting
                text += piece
                n_waiting = 0
        rest = ""
        if n_waiting:
            rest = self._template_tokenizer.decode(ids[-n_waiting:], skip_special_tokens=True)
        whole_text = text + rest
        offsets += [(len(text), len(whole_text))] * n_waiting
        return Decoded(whole_text, offsets)
