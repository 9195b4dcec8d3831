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
    """What copies of a run folder have in common: the id that was drawn at its start, and the hash
    of the settings."""
    own = run.whole or run
    return f"{own.manifest.id or id(own)} {own.manifest.hash}"


class Checks:
    """Results by run, worked out when they are first asked for; of a part of a run (--by, --common)
    those of the whole one."""

    def __init__(self) -> None:
        """Begin with nothing worked out."""
        self._runs: list[StoredRun] = []  # so that no id is used again
        self._checked: dict[int, Checked] = {}  # by id(run)
        self._rescored: dict[tuple[int, str], RescoredScore] = {}  # by id(run), name of the score

    def _check(self, own: StoredRun) -> Checked:
        """What a pass over the run's records finds; the scores that tables show are computed again
        in the same pass."""
        if id(own) not in self._checked:
            self._runs.append(own)
            self._checked[id(own)] = checked(own)
        return self._checked[id(own)]

    def examined(self, run: StoredRun) -> Examined:
        """What the texts of the run's records are."""
        return self._check(run.whole or run).examined

    def rescored(self, run: StoredRun, name: str) -> RescoredScore:
        """What computing a score of the run again finds."""
        own = run.whole or run
        found = self._check(own).scores
        if name in found:
            return found[name]
        if (id(own), name) not in self._rescored:
            self._rescored[id(own), name] = rescored(own, name)
        return self._rescored[id(own), name]

    def copied(self, run: StoredRun, base: StoredRun) -> int:
        """How many answers of two runs have one cost, to the last digit of the seconds, which no
        second run measures; 0 for copies of one run."""
        if identity(run) == identity(base):
            return 0
        return self.examined(run).copied(self.examined(base))

    def misfits(self, run: StoredRun) -> list[str]:
        """What does not fit in the run, a sentence each."""
        own = run.whole or run
        return [*file_misfits(own), *self._check(own).misfits]

    def misfit_notes(self, run: StoredRun) -> list[str]:
        """The same as notes: "does not fit: records.jsonl was changed after the run ended"."""
        return [f"does not fit: {sentence}" for sentence in self.misfits(run)]

    def unchecked(self, run: StoredRun) -> list[str]:
        """What could not be checked of the run, a phrase each."""
        return unchecked(run, self.examined(run))
