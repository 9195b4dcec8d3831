"""What tables and comparisons check of their runs, each thing once.

checks = Checks()
checks.examined(run).golds          checks.rescored(run, "em.squad")        checks.misfits(run)
"""

from harness.storage.run_folder import StoredRun
from reports.cached_checks import Checked, checked
from reports.consistency import file_misfits, unchecked
from reports.examined import Examined
from reports.rescored import RescoredScore, rescored


def identity(run: StoredRun) -> str:
    """A text that is equal for copies of a run folder and for parts of one run.

    It is made of the id that was drawn at the run's start and the hash of its settings.
    """
    own = run.whole_run or run
    return f"{own.manifest.id or id(own)} {own.manifest.hash}"


class Checks:
    """What was found in runs, worked out on the first question about a run and kept.

    For a part of a run (--by, --common), what was found in the whole one.
    """

    def __init__(self) -> None:
        """Start with nothing worked out; the keys of `_checked` and `_rescored` begin with
        id(run)."""
        self._runs: list[StoredRun] = []  # so that no id is used again
        self._checked: dict[int, Checked] = {}  # by id(run)
        self._rescored: dict[tuple[int, str], RescoredScore] = {}  # by id(run), name of the score

    def _check(self, own: StoredRun) -> Checked:
        """What a pass over the records of a whole run finds; the pass is made once.

        The scores that tables show are computed again in the same pass.
        """
        if id(own) not in self._checked:
            self._runs.append(own)
            self._checked[id(own)] = checked(own)
        return self._checked[id(own)]

    def examined(self, run: StoredRun) -> Examined:
        """What the pass over the run's records found: hashes of their texts, and what does not
        fit."""
        return self._check(run.whole_run or run).examined

    def rescored(self, run: StoredRun, name: str) -> RescoredScore:
        """What computing the score `name` of the run again finds; computed once."""
        own = run.whole_run or run
        found = self._check(own).scores
        if name in found:
            return found[name]
        if (id(own), name) not in self._rescored:
            self._rescored[id(own), name] = rescored(own, name)
        return self._rescored[id(own), name]

    def copied(self, run: StoredRun, base: StoredRun) -> int:
        """How many answers of two runs have the same cost, to the last digit of the seconds, which
        no second run measures; 0 for copies of one run."""
        if identity(run) == identity(base):
            return 0
        return self.examined(run).copied(self.examined(base))

    def misfits(self, run: StoredRun) -> list[str]:
        """What does not fit in the run's files and records, a sentence each; [] where all fits."""
        own = run.whole_run or run
        return [*file_misfits(own), *self._check(own).misfits]

    def misfit_notes(self, run: StoredRun) -> list[str]:
        """What does not fit, as notes of a table: "does not fit: records.jsonl was changed after
        the run ended"."""
        return [f"does not fit: {sentence}" for sentence in self.misfits(run)]

    def unchecked(self, run: StoredRun) -> list[str]:
        """What could not be checked of the run as it does not record it, a phrase each."""
        return unchecked(run, self.examined(run))
