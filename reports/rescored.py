"""Scores computed again from the stored answers, so that a verdict or a comparison rests on answers
alone."""

import math

from harness import scorers
from harness.config.yaml_tree import dataset_of_run
from harness.engine.scoring import score_record
from harness.errors import UserError
from harness.storage.failures import STOPS, describe_failure, one_line
from harness.storage.record_texts import gold_of
from harness.storage.run_folder import StoredRun
from harness.types import COUNTS

_SAME = 1e-9


def rescored(run: StoredRun, name: str) -> tuple[str | None, bool]:
    """Compute scores `name` of a run again.

    Args:
        run: A stored run, with or without the gold answers of its questions.
        name: A score that the run has.

    Returns:
        A sentence where scores, or their counts for a score of the corpus, are not those of the
        stored answers, or where the scorer fails; else None. And whether every answer was checked:
        not where the gold answers were not kept, or the scorer is a model, the user's own function
        or not installed.
    """
    if name not in scorers.names() or scorers.problems([name]):
        return None, False
    try:
        config = dataset_of_run(run.config, run.path.name).model_copy(update={"scorers": (name,)})
    except UserError:
        return None, False
    checked, odd, all_checked = 0, 0, True
    for record in run.whole_records:
        if record["error"] is not None:
            continue
        try:
            gold = gold_of(record)
            if gold is None:
                all_checked = False
                continue
            fresh = score_record(record, config, gold)
        except STOPS:
            raise
        except Exception as error:  # noqa: BLE001 - a record that came from others may hold anything
            reason = one_line(describe_failure(error))
            return (
                (
                    f"{name} cannot score the stored answer of '{record['question_id']}' again: "
                    f"{reason}"
                ),
                False,
            )
        counts = [(row.get("notes") or {}).get(COUNTS, {}).get(name) for row in (record, fresh)]
        score = fresh["scores"].get(name)
        checked += 1
        odd += not _is_same(score, record["scores"].get(name)) or counts[0] != counts[1]
    sentence = f"{odd} of {checked} scores {name} are not those of the stored answers; run: harness score RUN"
    return (sentence if odd else None), all_checked


def _is_same(score: float | None, stored: float | None) -> bool:
    """Whether a score is the stored one; where there is none, whether both say so."""
    if score is None or stored is None:
        return score is stored
    return math.isclose(score, stored, abs_tol=_SAME)
