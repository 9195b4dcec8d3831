"""`harness pocket check`: whether a model, and the adapters that come with it, still fit the methods' prompts."""

from __future__ import annotations

from pathlib import Path

from harness.cli.output import say
from pocket.card import check_weights
from pocket.cli.model_card import Model, model_card, model_folder
from pocket.eval.card import stale

FAILED = 4


def check(folder: Model = None) -> int:
    """Fail where a method needs a skill that the model was not trained on.

    Without a folder, also checks the adapters that come with the embedded model. The exit code is 4 if a check failed.
    """
    from pocket.tasks.catalog import skills as declared

    where = model_folder(folder)
    check_weights(where)
    known = declared()
    wrong = stale(model_card(where), known.values())
    for name, why in wrong:
        say(f"the skill '{name}' of the model in {where}: {why}; train again with: harness pocket train")
    if not wrong:
        print(f"ok  {len(known)} skills are as they were trained")
    fits = folder is not None or _adapters_fit(where)
    return 0 if fits and not wrong else FAILED


def _adapters_fit(where: Path) -> bool:
    """Print which of the embedded model's adapters do not fit; return whether all do."""
    from pocket.eval import adapter_check as shipped

    adapters = shipped.check(shipped.embedded(), where)
    for sentence in adapters.wrong:
        say(sentence)
    if adapters.wrong:
        say("these adapters come with the package; train them again with: make adapters")
    if adapters.unread is not None:
        say(adapters.unread)
    if adapters.right and not adapters.wrong:
        print(f"ok  {len(adapters.right)} adapters fit the weights and the prompts")
    return not adapters.wrong
