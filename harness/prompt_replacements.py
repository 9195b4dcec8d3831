"""Whether a text that a configuration gives can replace a prompt.

prompts = {"answer": Prompt("answer", "{text} {question}")}
replacement_problem("bm25", "answer", "{text} Who?", prompts)
    -> "prompt 'answer' of 'bm25' lacks {question}; its placeholders are {text}, {question}"
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from harness.errors import unknown
from harness.prompts import Prompt, Replaced, turns_of

_TURNS = ("user", "system")


def replacement_problem(
    method: str, name: str, replacement: Replaced, known: Mapping[str, Prompt]
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
        return str(unknown(f"prompt '{name}' of '{method}'", name, known))
    prompt = f"prompt '{name}' of '{method}'"
    original = known[name]
    turns = turns_of(replacement)
    problem = _turns_problem(turns, original)
    if problem is None:
        new = replace(original, text=turns.get("user", original.text))
        problem = _places_problem(new, original)
    if problem is None:
        return None
    return f"{prompt}{problem}"


def _turns_problem(turns: Mapping[str, str], original: Prompt) -> str | None:
    """Say why a prompt cannot have these turns, as the end of a sentence; None where it can.

    Args:
        turns: "user" or "system" -> its text.
        original: The prompt that they replace.
    """
    if not turns or set(turns) - set(_TURNS):
        return ": give a text, or a mapping with 'user', 'system' or both"
    if "system" not in turns:
        return None
    if not original.first:
        return " is a later turn of a conversation, so it can have no system turn"
    places = Prompt("", turns["system"]).places()
    if places:
        return f": a system turn has no placeholders, but this one has {{{places[0]}}}"
    return None


def _places_problem(new: Prompt, original: Prompt) -> str | None:
    """Say which placeholders of a new prompt are not the original's, as the end of a sentence; None
    where all are.
    """
    places, new_places = original.places(), new.places()
    listed = _listed(places)
    for place in places:
        if place not in new_places:
            return f" lacks {{{place}}}; its placeholders are {listed}"
    for place in new_places:
        if place not in places:
            return f" has no placeholder {{{place}}}; its placeholders are {listed}"
        if new_places.count(place) > places.count(place):
            return f" has {{{place}}} more often than the original; write it once"
    if original.ordered and not _keeps_order(new, original):
        end = "{" + places[-1] + "}"
        return f" must have {listed} in this order, with nothing behind {end}"
    return None


def _keeps_order(new: Prompt, original: Prompt) -> bool:
    """Whether a new prompt has the original's placeholders in the same order, and nothing after the
    last one where the original has nothing there.
    """
    places = original.places()
    if new.places() != places:
        return False
    end = "{" + places[-1] + "}"
    return new.text.endswith(end) or not original.text.endswith(end)


def _listed(places: Iterable[str]) -> str:
    """Write names of placeholders for a sentence, each once: "{text}, {question}", or "none"."""
    named = [f"{{{place}}}" for place in dict.fromkeys(places)]
    return ", ".join(named) or "none"
