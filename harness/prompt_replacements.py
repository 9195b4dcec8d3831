"""Whether a text that a configuration gives can replace a prompt."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from harness.errors import unknown
from harness.prompts import Prompt, Replaced

_TURNS = ("user", "system")


def replacement_problem(
    method: str, name: str, replacement: Replaced, known: Mapping[str, Prompt]
) -> str | None:
    """Why `replacement` cannot replace the prompt `name` of a method, None where it can; known: its
    prompts by name."""
    if not known:
        return f"the prompts of '{method}' cannot be replaced, because its code does not list them as templates"
    if name not in known:
        return str(unknown(f"prompt '{name}' of '{method}'", name, known))
    turns = {"user": replacement} if isinstance(replacement, str) else replacement
    original, new = known[name], replace(known[name], text=turns.get("user", known[name].text))
    if not turns or set(turns) - set(_TURNS):
        return f"prompt '{name}' of '{method}': give a text, or a mapping with 'user', 'system' or both"
    if "system" in turns and not original.first:
        return f"prompt '{name}' of '{method}' is a later turn of a conversation, so it can have no system turn"
    if places := Prompt("", turns.get("system", "")).places():
        return f"prompt '{name}' of '{method}': a system turn has no placeholders, but this one has {{{places[0]}}}"
    old_places, new_places = original.places(), new.places()
    for place in old_places:
        if place not in new_places:
            return f"prompt '{name}' of '{method}' lacks {{{place}}}; its placeholders are {_listed(old_places)}"
    for place in new_places:
        if place not in old_places:
            there = _listed(old_places)
            return f"prompt '{name}' of '{method}' has no placeholder {{{place}}}; its placeholders are {there}"
        if new_places.count(place) > old_places.count(place):
            return f"prompt '{name}' of '{method}' has {{{place}}} more often than the original; write it once"
    if original.ordered:
        end = "{" + old_places[-1] + "}"
        if new_places != old_places or (original.text.endswith(end) and not new.text.endswith(end)):
            order = f"{_listed(old_places)} in this order"
            return f"prompt '{name}' of '{method}' must have {order}, with nothing behind {end}"
    return None


def _listed(places: Iterable[str]) -> str:
    return ", ".join(f"{{{place}}}" for place in dict.fromkeys(places)) or "none"
