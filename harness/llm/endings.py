"""Markers that end a model's turn, spelled out at the end of its reply: they are never part of an
answer.

    endings = endings_pattern(["<|eot_id|>"])
    reply_end("Paris<|eot_id|>\\n", (), endings)      (5, True)

A marker comes through where its tokenizer does not flag it as special, where the model writes it in
ordinary tokens, or where a server leaves it in its reply. Scorers keep the published rules and know
nothing of markers; `endings_cut` in a record's usage counts the replies.
docs/methods/shared.md#end-markers.

Reasoning models: the thinking in front of an answer is cut off the reply, and its cost is reported
apart.

    split_thinking("<think>A city.</think>\\nParis", Thinking())
        -> SplitReply("<think>A city.</think>\\n", "Paris", True)

`model.thinking` names the markers and how many tokens the model may think, beyond those that a
method allows for the answer. The thinking is part neither of the answer nor of the context after
it. docs/methods/shared.md#thinking.
"""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from harness.config.schema import ModelConfig, Thinking
from harness.thinking import split_between

# Of the models that chat servers run; the tokenizer that counts for a server need not be its
# model's own.
_END_MARKERS = """
<|eot_id|> <|eom_id|> <|end_of_text|> <|im_end|> <|endoftext|> <|end|> <|eot|> <end_of_turn> <eos> </s>
<|END_OF_TURN_TOKEN|> <\uff5cend\u2581of\u2581sentence\uff5c>
"""
END_MARKERS = tuple(_END_MARKERS.split())
# What begins a turn, a role or a text in the formats of the same models.
_OPENING_MARKERS = """
<s> <bos> <|begin_of_text|> <|start_header_id|> <|end_header_id|> <|header_start|> <|header_end|> <|im_start|>
<|im_sep|> <|start|> <|channel|> <|message|> <|system|> <|user|> <|assistant|> <|start_of_role|> <|end_of_role|>
<start_of_turn> <|START_OF_TURN_TOKEN|> [INST] [/INST] <<SYS>> <</SYS>>
<\uff5cbegin\u2581of\u2581sentence\uff5c> <\uff5cUser\uff5c> <\uff5cAssistant\uff5c>
"""
OPENING_MARKERS = tuple(_OPENING_MARKERS.split())
_MARKER_AT_START = re.compile(r"\s*(<[^<>\s]+>)")


def endings_pattern(markers: Iterable[str]) -> re.Pattern[str] | None:
    """A pattern that finds, at the end of a text, any number of markers with white space after
    each; None where there is no marker. A marker of one character is left out.

    Args:
        markers: The markers: ["<|eot_id|>"].
    """
    long_markers = {marker for marker in markers if len(marker) > 1}
    if not long_markers:
        return None
    longest_first = sorted(long_markers, key=lambda marker: (-len(marker), marker))
    alternatives = "|".join(map(re.escape, longest_first))
    return re.compile(rf"(?:(?:{alternatives})\s*)+\Z")


class ReplyEnd(NamedTuple):
    """Where a reply ends.

    Attributes:
        n_characters: How many characters of its text are the reply.
        cuts_markers: Whether markers stand behind them.
    """

    n_characters: int
    cuts_markers: bool


def reply_end(text: str, stop: Sequence[str], endings: re.Pattern[str] | None) -> ReplyEnd:
    """Where a reply ends: before the first stop string, and before the end markers that stand in
    front of it.

    "Paris<|eot_id|>STOP so", ("STOP",) -> ReplyEnd(5, True)

    Args:
        text: The text of the reply.
        stop: The stop strings.
        endings: Finds end markers (`endings_pattern`); None for no markers.
    """
    end = len(text)
    for stop_string in stop:
        start_of_stop = text.find(stop_string)
        if start_of_stop != -1:
            end = min(end, start_of_stop)
    if endings is None:
        return ReplyEnd(end, cuts_markers=False)
    markers = endings.search(text[:end])
    if markers is None:
        return ReplyEnd(end, cuts_markers=False)
    return ReplyEnd(markers.start(), cuts_markers=True)


class AddedToken(NamedTuple):
    """A token that was added to a tokenizer's vocabulary.

    Attributes:
        content: Its text: "<|eot_id|>".
        is_special: Whether the tokenizer flags it as special.
    """

    content: str
    is_special: bool


def markers_of(added: Iterable[AddedToken], template: str, after_reply: str = "") -> set[str]:
    """A model's own markers: added tokens that are special or in its chat template, and what ends a
    reply there.

    Args:
        added: The added tokens.
        template: The text of the chat template.
        after_reply: What the template puts after a reply, perhaps a marker.
    """
    markers: set[str] = set()
    for content, is_special in added:
        is_in_template = bool(content.strip()) and content in template
        if is_special or is_in_template:
            markers.add(content)
    marker_after_reply = _MARKER_AT_START.match(after_reply)
    if marker_after_reply:
        markers.add(marker_after_reply[1])
    return markers


class SplitReply(NamedTuple):
    """A reply of a reasoning model.

    Attributes:
        thinking: The thinking with its markers and the white space after it; "" for none.
        answer: What follows.
        is_closed: Whether the thinking ended, or there is none.
    """

    thinking: str
    answer: str
    is_closed: bool


def split_thinking(text: str, thinking: Thinking | None) -> SplitReply:
    """Split a reply of a reasoning model.

        "<think>A city.</think> Paris"  -> SplitReply("<think>A city.</think> ", "Paris", True)
        "<think>A city"                 -> SplitReply("<think>A city", "", False)
        "Paris"                         -> SplitReply("", "Paris", True)

    Args:
        text: The text of the reply.
        thinking: The markers; None for a model that does not think: all is answer.
    """
    if thinking is None:
        return SplitReply(thinking="", answer=text, is_closed=True)
    split = split_between(text, thinking.open, thinking.close)
    return SplitReply(split.thinking, split.answer, split.closed)


def begins_thinking(text: str, thinking: Thinking) -> bool | None:
    """Whether a reply opens a thinking, judged by its first characters; None where more of them are
    needed.

    "<think>A" -> True, "Paris" -> False, "<th" -> None

    Args:
        text: The first characters of the reply.
        thinking: The markers of the model.
    """
    without_space = text.lstrip()
    if without_space.startswith(thinking.open):
        return True
    may_become_marker = thinking.open.startswith(without_space)
    if may_become_marker:
        return None
    return False


class ThinkingRoom(NamedTuple):
    """What the thinking of a model leaves of its window.

    Attributes:
        n_tokens: The tokens that are left; 0 where the window is unknown.
        problems: [A sentence] where none are left, else [].
    """

    n_tokens: int
    problems: list[str]


def thinking_room(config: ModelConfig, window: int) -> ThinkingRoom:
    """How many tokens of the window are left beside a reasoning model's thinking.

    Args:
        config: The model's settings.
        window: Tokens of the model's context; 0 where unknown.

    Returns:
        The tokens, 0 for an unknown window; with a problem where thinking leaves none.
    """
    thinking_tokens = 0
    if config.thinking:
        thinking_tokens = config.thinking.tokens
    if not window:
        return ThinkingRoom(n_tokens=0, problems=[])
    if window > thinking_tokens:
        return ThinkingRoom(n_tokens=window - thinking_tokens, problems=[])
    problem = (
        f"model.thinking.tokens={thinking_tokens} fills the whole window of {window} tokens; set "
        "fewer"
    )
    return ThinkingRoom(n_tokens=0, problems=[problem])
