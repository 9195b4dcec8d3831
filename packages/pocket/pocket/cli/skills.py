"""`harness pocket skills`: the skills that methods declare, and whether a model was trained on them as they are now."""

from harness.cli.output import columns
from pocket.card import EMBEDDED
from pocket.cli.model_card import Model, model_card, model_folder
from pocket.eval.card import stale


def skills(folder: Model = None) -> int:
    """List the skills that methods declare, and whether the model was trained on them as they are now."""
    from harness_training.skills import presets_by_skill

    from pocket.tasks.catalog import skills as declared

    known = declared()
    where = model_folder(folder) if folder is not None or EMBEDDED.is_dir() else None
    card = model_card(where) if where is not None else None
    if card is None or not card.trained:
        state = dict.fromkeys(known, "unknown (no card)")
    else:
        state = dict.fromkeys(known, "trained") | dict(stale(card, known.values()))
    methods = presets_by_skill()
    rows = [(name, state[name], ", ".join(methods.get(name, ()))) for name in known]
    print(columns([("skill", "state", "methods"), *rows]))
    return 0
