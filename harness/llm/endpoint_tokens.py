"""Tokens of a model that runs elsewhere, for budgets, spans and the first label token: counted here
with its tokenizer.

A server encodes a whole conversation at once, control tokens in it included. So that a document
cannot forge a turn, `break_markers` puts a space into every marker that a text spells, also those
of widespread models (docs/security.md).

Without a tokenizer lengths are estimates (`EstimatedTokens`), and the window is kept with a margin
(endpoint_info.py).
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from harness.config.schema import ModelConfig, Thinking
from harness.errors import CannotRun
from harness.llm.endings import END_MARKERS, OPENING_MARKERS, AddedToken, markers_of
from harness.llm.fast_tokenizer import FastTokenizer
from harness.llm.template import cut_template
from harness.llm.text import Text

# Tokens that a turn's frame is taken to have without a chat template; Llama-3's has 11 to 36.
TURN_FRAME_ALLOWANCE = 16


class BrokenUpText(NamedTuple):
    """A text whose markers were broken up.

    Attributes:
        text: The text with a space in each marker.
        n_spaces: The number of these spaces.
    """

    text: str
    n_spaces: int


def put_space_into_markers(text: str, markers: Iterable[str]) -> BrokenUpText:
    """Put a space after the first character of each marker that a text spells.

    "a<|end|>", ["<|end|>"] -> BrokenUpText("a< |end|>", 1)

    Args:
        text: The text.
        markers: The markers; one of a single character is left as it is.
    """
    long_markers = [marker for marker in markers if len(marker.strip()) > 1]
    long_markers.sort(key=len, reverse=True)
    any_marker = "|".join(map(re.escape, long_markers))
    return BrokenUpText(*re.subn(any_marker, _marker_with_space, text))


def _marker_with_space(match: re.Match[str]) -> str:
    """The marker that a pattern found, with a space after its first character."""
    marker = match[0]
    return f"{marker[0]} {marker[1:]}"


# Characters of Chinese, Japanese and Korean, most of which are a token or more.
_CJK = r"\u1100-\u11ff\u2e80-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\uffef\U00020000-\U0003ffff"
# One token: such a character; six letters; a digit; white space; any other sign.
_PIECE = re.compile(rf"[{_CJK}]| ?[^\W\d_{_CJK}]{{1,6}}| ?\d|\n+| +|[^\w\s]|\s|\w")


class EstimatedTokens:
    """Estimates tokens of a model whose tokenizer is not at hand, by its pieces of text
    (docs/guide.md#api)."""

    markers: frozenset[str] = frozenset()
    turn_tokens = TURN_FRAME_ALLOWANCE

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Character range of every estimated token of `text`."""
        return [match.span() for match in _PIECE.finditer(text)]

    def count(self, text: str) -> int:
        """Estimated number of tokens of `text`."""
        return len(_PIECE.findall(text))

    def first_token_text(self, text: str) -> str:
        """The empty text: without a tokenizer no first token is known; the plan refuses methods
        that need it."""
        return ""

    def break_markers(self, text: str) -> BrokenUpText:
        """`text` with a space in each marker of a widespread model that it spells: markers that end
        a reply or turn (END_MARKERS), and that begin one (OPENING_MARKERS)."""
        return put_space_into_markers(text, {*END_MARKERS, *OPENING_MARKERS})


class Tokens(Text):
    """A tokenizer.json with its chat template. Raises CannotRun where it cannot be read.

    Attributes:
        markers: The markers of the model's own turns and endings.
        turn_tokens: Tokens that the template adds to one user turn, the head of the reply and the
            BOS included.
    """

    def __init__(self, folder: Path, name: str) -> None:
        """Read a tokenizer, the markers by which its model's turns begin and end ("<|im_end|>"),
        and the tokens that its chat template puts around a turn.

        Args:
            folder: The folder with tokenizer.json.
            name: The model's name, for messages.
        """
        tokenizer = FastTokenizer(folder)
        super().__init__(tokenizer, name)
        added_tokens = tokenizer.backend_tokenizer.get_added_tokens_decoder().values()
        self.markers = markers_of(
            [AddedToken(token.content, token.special) for token in added_tokens],
            tokenizer.chat_template or "",
        )
        frame_tokens = self._count_frame_tokens(tokenizer, name)
        if not frame_tokens:  # no template, or one that cannot be cut
            frame_tokens = TURN_FRAME_ALLOWANCE
        self.turn_tokens = frame_tokens
        # The markers that no text may spell in a request.
        self._markers_to_break = {*self.markers, *END_MARKERS, *OPENING_MARKERS}

    def _count_frame_tokens(self, tokenizer: FastTokenizer, name: str) -> int:
        """How many tokens the chat template puts around a user turn, the head of the reply
        included; 0 without a template, or with one that cannot be cut.

        Args:
            tokenizer: The tokenizer, with its template.
            name: The model's name, for messages.
        """
        template = tokenizer.chat_template
        if not template:
            return 0
        date = ModelConfig.model_fields["template_date"].default
        try:
            pieces = cut_template(template, tokenizer.special_tokens_map, name, date, Thinking())
        except CannotRun:
            # Templates call functions of their servers' own; the count is a budget's.
            return 0
        n_tokens = 0
        for piece in (pieces.before_first_user, pieces.before_reply, pieces.thinking_start):
            n_tokens += len(self.encode_template(piece))
        return n_tokens

    def first_token_text(self, text: str) -> str:
        """The text of the first token of `text`; "" where it has none."""
        first_ids = self.encode_data(text)[:1]
        return self.decode(first_ids).text

    def break_markers(self, text: str) -> BrokenUpText:
        """`text` with a space in every marker that it spells; text without markers is returned
        unchanged."""
        return put_space_into_markers(text, self._markers_to_break)
