"""Whether a text that a configuration gives can replace a prompt.

prompts = {"answer": Prompt("answer", "{text} {question}")}
replacement_problem("bm25", "answer", "{text} Who?", prompts)
    -> "prompt 'answer' of 'bm25' lacks {question}; its placeholders are {text}, {question}"
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from harness.errors import unknown_name_error
from harness.prompts import Prompt, PromptReplacement, turns_by_name

_TURN_NAMES = ("user", "system")


def replacement_problem(
    method: str, name: str, replacement: PromptReplacement, known: Mapping[str, Prompt]
) -> str | None:
    """Say why a text cannot replace a prompt of a method; None where it can.

    Args:
        method: The method's name, for the sentence.
        name: The prompt's name.
        replacement: The text of the user turn, or {"user": ..., "system": ...}.
        known: The method's prompts by name.
    """
    if not known:
        return (
            f"the prompts of '{method}' cannot be replaced, because its code does not list them as "
            "templates"
        )
    if name not in known:
        return str(unknown_name_error(f"prompt '{name}' of '{method}'", name, known))
    original = known[name]
    turns = turns_by_name(replacement)
    problem = _turns_problem(turns, original)
    if problem is None:
        new = replace(original, text=turns.get("user", original.text))
        problem = _placeholders_problem(new, original)
    if problem is None:
        return None
    return f"prompt '{name}' of '{method}'{problem}"


def _turns_problem(turns: Mapping[str, str], original: Prompt) -> str | None:
    """Say why a prompt cannot have these turns, as the end of a sentence; None where it can.

    Args:
        turns: "user" or "system" -> its text.
        original: The prompt that they replace.
    """
    if not turns or set(turns) - set(_TURN_NAMES):
        return ": give a text, or a mapping with 'user', 'system' or both"
    if "system" not in turns:
        return None
    if not original.first:
        return " is a later turn of a conversation, so it can have no system turn"
    placeholders = Prompt("", turns["system"]).placeholders()
    if placeholders:
        return f": a system turn has no placeholders, but this one has {{{placeholders[0]}}}"
    return None


def _placeholders_problem(new: Prompt, original: Prompt) -> str | None:
    """Say how the placeholders of a new prompt differ from the original's, as the end of a
    sentence: " lacks {text}; its placeholders are {text}, {question}". None where they fit.
    """
    placeholders, new_placeholders = original.placeholders(), new.placeholders()
    all_listed = _listed_placeholders(placeholders)
    for placeholder in placeholders:
        if placeholder not in new_placeholders:
            return f" lacks {{{placeholder}}}; its placeholders are {all_listed}"
    for placeholder in new_placeholders:
        if placeholder not in placeholders:
            return f" has no placeholder {{{placeholder}}}; its placeholders are {all_listed}"
        if new_placeholders.count(placeholder) > placeholders.count(placeholder):
            return f" has {{{placeholder}}} more often than the original; write it once"
    if original.ordered and not _keeps_order_of_placeholders(new, original):
        last_placeholder = "{" + placeholders[-1] + "}"
        return f" must have {all_listed} in this order, with nothing behind {last_placeholder}"
    return None


def _keeps_order_of_placeholders(new: Prompt, original: Prompt) -> bool:
    """Whether a new prompt has the original's placeholders in the same order, and nothing after the
    last one where the original has nothing there.
    """
    placeholders = original.placeholders()
    if new.placeholders() != placeholders:
        return False
    last_placeholder = "{" + placeholders[-1] + "}"
    original_ends_in_it = original.text.endswith(last_placeholder)
    return new.text.endswith(last_placeholder) or not original_ends_in_it


def _listed_placeholders(placeholders: Iterable[str]) -> str:
    """Write names of placeholders for a sentence, each once: "{text}, {question}", or "none"."""
    named = [f"{{{placeholder}}}" for placeholder in dict.fromkeys(placeholders)]
    return ", ".join(named) or "none"
