"""`harness score RUN...`: judge stored predictions again. No model is loaded; the data set is, for
its gold answers."""

import json as json_
from typing import Annotated

from harness.cli.command import setting
from harness.cli.options import Json, MovedData, Runs, split_names
from harness.cli.output import mean_texts, say
from harness.config import registry
from harness.engine.rescore import rescore
from harness.errors import UserError
from harness.storage.named_runs import run_folders
from harness.storage.run_files import read_manifest


def score(
    runs: Runs,
    scorers: Annotated[
        str | None,
        setting("--scorers NAME,...", "Scorers to add to the run's own (harness list scorers)."),
    ] = None,
    only: Annotated[
        bool, setting("--only", "With --scorers: drop the run's other scores.")
    ] = False,
    data: MovedData = None,
    json: Json = False,
) -> int:
    """Score stored answers again, without a model.

    The run keeps its scores, and --scorers adds others. The data set is loaded for its gold
    answers; it must hold the rows that the run was made with. With --data it may hold other gold
    answers to them; the original rows must still be where they were. The earlier scores stay in the
    records. What was said of the questions when the run began, as that the first ones are not like the
    rest, is said again.
    """
    names = split_names([scorers or ""])
    if only and not names:
        raise UserError("--only keeps the scores of --scorers alone; add --scorers NAME,...")
    registry.trust(*names)
    for folder in run_folders(runs):
        summary = rescore(folder, scorers=names, only=only, data=data)
        if json:
            print(json_.dumps({"run": str(folder), "summary": summary.to_json()}))
        else:
            means = ", ".join(f"{name} {text}" for name, text in mean_texts(summary).items())
            print(f"{folder}: {means or 'no questions yet'}")
        for warning in read_manifest(folder).warnings:
            say(f"warning: {folder.name}: {warning}")
    return 0
