"""`harness pocket check`: the skills that methods declare, and whether a model was trained on them
as they are now."""

from harness_training.skills import presets_by_skill

from harness.cli.table_output import aligned_columns
from pocket.card import check_weights
from pocket.cli.model_card import Model, model_card, model_folder
from pocket.eval.card import stale
from pocket.tasks.catalog import skills as declared

FAILED = 4


def check(folder: Model = None) -> int:
    """List the skills that methods declare, and whether the model was trained on them as they are
    now.

    The exit code is 4 if one is missing or has changed. Adapters are checked whenever they are
    loaded.
    """
    path = model_folder(folder)
    check_weights(path)
    # Name of a skill -> why it is not as the weights were trained on it: "never trained", ...
    problem_by_skill = dict(stale(model_card(path), declared().values()))
    presets = presets_by_skill()
    rows = [("skill", "state", "methods")]
    for name in declared():
        state = problem_by_skill.get(name, "trained")
        rows.append((name, state, ", ".join(presets.get(name, ()))))
    print(aligned_columns(rows))
    if problem_by_skill:
        return FAILED
    return 0
