"""Reasoning models: the thinking in front of an answer is cut off the reply, and its cost is reported apart.

    split_thinking("<think>A city.</think>\\n\\nParis", Thinking())     ("<think>A city.</think>\\n\\n", "Paris", True)

`model.thinking` names the markers and how many tokens the model may think, beyond those that a method allows for the
answer. The thinking is part neither of the answer nor of the context behind it. docs/methods/shared.md#thinking.
"""

from harness.config.schema import ModelConfig, Thinking


def split_thinking(text: str, thinking: Thinking | None) -> tuple[str, str, bool]:
    """(thinking with its markers and the white space behind it, answer, whether the thinking ended) of a reply.

    All is answer where `thinking` is None or no marker begins or ends one; a thinking without an end has no answer.
    """
    # Some templates put the opening marker into the prompt of a server, so that a reply has only the closing one.
    if thinking is None or (not text.lstrip().startswith(thinking.open) and thinking.close not in text):
        return "", text, True
    _, close, answer = text.partition(thinking.close)
    if not close:
        return text, "", False
    kept = answer.lstrip()
    return text[: len(text) - len(kept)], kept, True


def begins_thinking(text: str, thinking: Thinking) -> bool | None:
    """Whether a reply that begins with `text` begins with the opening marker; None where more text is needed."""
    start = text.lstrip()
    if start.startswith(thinking.open):
        return True
    return None if thinking.open.startswith(start) else False


def thinking_room(config: ModelConfig, window: int) -> tuple[int, list[str]]:
    """How many tokens a reasoning model's thinking leaves of the window, and a problem where none are left."""
    thought = config.thinking.tokens if config.thinking else 0
    if not 0 < window <= thought:
        return window - thought if window else 0, []
    return 0, [f"model.thinking.tokens={thought} fills the whole window of {window} tokens; set fewer"]
