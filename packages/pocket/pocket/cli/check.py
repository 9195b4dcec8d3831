"""`harness pocket check`: whether a model was trained on the prompts that methods have now."""

from harness.cli.output import say
from pocket.card import check_weights
from pocket.cli.model_card import Model, model_card, model_folder
from pocket.eval.card import stale

FAILED = 4


def check(folder: Model = None) -> int:
    """Fail where a method needs a skill that the model was not trained on.

    The exit code is 4 if one is missing or has changed. Adapters are checked whenever they are loaded.
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
    return FAILED if wrong else 0
