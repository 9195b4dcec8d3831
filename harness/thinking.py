"""Splits the thinking of a reasoning model from its answer, by the markers between them.

    split_known_thinking("<think>A city.</think> Paris")   SplitReply("<think>A city.</think> ", "Paris", True)
    split_known_thinking("A city.</think>Paris")           the opening marker stood in the prompt
    split_known_thinking("<|channel|>analysis<|message|>A city.<|end|><|channel|>final<|message|>Paris")

Markers are those that models are published with. `model.thinking` names others, and gives the
thinking a room of its own (harness/llm/endings.py).
"""

import re
from dataclasses import dataclass

# DeepSeek-R1, Qwen3 and many others; Magistral; Seed-OSS; Kimi-VL.
_MARKERS = (
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("[THINK]", "[/THINK]"),
    ("<seed:think>", "</seed:think>"),
    ("\u25c1think\u25b7", "\u25c1/think\u25b7"),
)
_CHANNEL = "<|channel|>"  # gpt-oss
_FINAL = re.compile(r"<\|channel\|>final\b.*?<\|message\|>\s*")
_END_MARKER = re.compile(r"\s*<\|(?:end|return)\|>\s*\Z")
# The same reply where a server leaves out special tokens.
_FINAL_WITHOUT_MARKERS = re.compile(r"\s*analysis.*?assistantfinal\s*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class SplitReply:
    """A reply in two parts.

    Attributes:
        thinking: The thinking with its markers and the white space after it; "" for none.
        answer: The rest.
        closed: Whether the thinking ended; if not, there is no answer.
    """

    thinking: str
    answer: str
    closed: bool = True


def split_between(text: str, opening: str, closing: str) -> SplitReply:
    """Split a reply into thinking and answer at two markers; `closing` alone is enough.

    ("<think>A.</think> B", "<think>", "</think>") -> SplitReply("<think>A.</think> ", "B")

    All is answer where neither marker is there; a thinking without an end has no answer.

    Args:
        text: The reply.
        opening: The marker that a thinking begins with.
        closing: The marker that ends it.
    """
    # Some templates put the opening marker into the prompt of a server, so that a reply has only
    # the closing one.
    has_thinking = text.lstrip().startswith(opening) or closing in text
    if not has_thinking:
        return SplitReply(thinking="", answer=text)
    _, found_marker, after_marker = text.partition(closing)
    if not found_marker:
        return SplitReply(thinking=text, answer="", closed=False)
    return _split_at_answer(text, answer_start=len(text) - len(after_marker.lstrip()))


def split_known_thinking(text: str) -> SplitReply:
    """Split a reply at the markers of any known reasoning model; all is answer where it has none.

    "<think>A city.</think> Paris" -> SplitReply("<think>A city.</think> ", "Paris")
    """
    for opening, closing in _MARKERS:
        split = split_between(text, opening, closing)
        if split.thinking:
            return split
    if text.lstrip().startswith(_CHANNEL):
        return _split_channels(text)
    without_markers = _FINAL_WITHOUT_MARKERS.match(text)
    if without_markers:
        return _split_at_answer(text, without_markers.end())
    return SplitReply(thinking="", answer=text)


def _split_channels(text: str) -> SplitReply:
    """Split a reply in the channels of gpt-oss: the last one called final is the answer.

    "<|channel|>analysis<|message|>A.<|end|><|channel|>final<|message|>B" has the answer "B".
    """
    final_markers = list(_FINAL.finditer(text))
    if not final_markers:
        return SplitReply(thinking=text, answer="", closed=False)
    answer_start = final_markers[-1].end()
    answer = text[answer_start:]
    end_marker = _END_MARKER.search(answer)
    if end_marker:
        answer = answer[: end_marker.start()]
    return SplitReply(text[:answer_start], answer)


def _split_at_answer(text: str, answer_start: int) -> SplitReply:
    """Split a reply into the thinking, text[:answer_start], and the answer after it."""
    return SplitReply(text[:answer_start], text[answer_start:])
