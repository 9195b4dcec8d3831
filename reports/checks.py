"""What tables and comparisons check of their runs, each thing once.

checks = Checks()
    checks.examined(run).golds     checks.rescored(run, "em.squad")     checks.inconsistencies(run)
"""

from harness.storage.run_folder import StoredRun
from reports.cached_checks import RecordChecks, check_or_read_cached
from reports.consistency import file_inconsistencies, unchecked_parts
from reports.examined import Examined
from reports.gold_rows import dataset_inconsistencies
from reports.rescored import RescoringResult, rescore


def run_identity(run: StoredRun) -> str:
    """A text that is equal for copies of a run folder and for parts of one run.

    It is made of the id that was drawn at the run's start and the hash of its settings.
    """
    whole_run = run.whole_run or run
    return f"{whole_run.manifest.id or id(whole_run)} {whole_run.manifest.hash}"


class Checks:
    """What was found in runs, worked out on the first question about a run and kept.

    For a part of a run (--by, --common), what was found in the whole one.
    """

    def __init__(self, data: str | None = None) -> None:
        """Start with nothing worked out.

        Args:
            data: The file of the rows that all runs are compared with; None for rows that the
                program makes itself in a few seconds, and no others.
        """
        self._data = data
        self._checked_runs: list[StoredRun] = []  # kept, so that no id(run) is used again
        self._checks_by_run: dict[int, RecordChecks] = {}  # by id(run)
        self._rescored: dict[tuple[int, str], RescoringResult] = {}  # by id(run), score name
        self._row_sentences: dict[int, list[str] | None] = {}  # by id(run)

    def _record_checks(self, whole_run: StoredRun) -> RecordChecks:
        """What a pass over the records of a whole run finds.

        The pass is made on the first call, and its result kept. It also computes the scores that
        tables show again.
        """
        if id(whole_run) not in self._checks_by_run:
            self._checked_runs.append(whole_run)
            self._checks_by_run[id(whole_run)] = check_or_read_cached(whole_run)
        return self._checks_by_run[id(whole_run)]

    def examined(self, run: StoredRun) -> Examined:
        """What the pass over the run's records found: hashes of their texts, and what does not
        fit."""
        return self._record_checks(run.whole_run or run).examined

    def rescored(self, run: StoredRun, name: str) -> RescoringResult:
        """What computing the score `name` of the run again finds; computed once."""
        whole_run = run.whole_run or run
        checked_scores = self._record_checks(whole_run).scores
        if name in checked_scores:
            return checked_scores[name]
        if (id(whole_run), name) not in self._rescored:
            self._rescored[id(whole_run), name] = rescore(whole_run, name)
        return self._rescored[id(whole_run), name]

    def count_copied_answers(self, run: StoredRun, base: StoredRun) -> int:
        """How many answers of two runs have the same cost, to the last digit of the seconds, which
        no second run measures; 0 for copies of one run."""
        if run_identity(run) == run_identity(base):
            return 0
        return self.examined(run).count_copied_answers(self.examined(base))

    def row_inconsistencies(self, run: StoredRun) -> list[str] | None:
        """What the run holds otherwise than the rows of its data set, a sentence each; None where
        the rows were not read.

        Raises:
            UserError: The file of the rows cannot be read.
        """
        whole_run = run.whole_run or run
        if self._data is None:
            return self._record_checks(whole_run).rows
        if id(whole_run) not in self._row_sentences:
            self._checked_runs.append(whole_run)
            sentences = dataset_inconsistencies(whole_run, self._data)
            self._row_sentences[id(whole_run)] = sentences
        return self._row_sentences[id(whole_run)]

    def inconsistencies(self, run: StoredRun) -> list[str]:
        """What does not fit in the run's files and records, and between them and the rows of its
        data set; a sentence each, [] where all fits."""
        whole_run = run.whole_run or run
        return [
            *file_inconsistencies(whole_run),
            *self._record_checks(whole_run).inconsistencies,
            *(self.row_inconsistencies(whole_run) or ()),
        ]

    def inconsistency_notes(self, run: StoredRun) -> list[str]:
        """What does not fit, as notes of a table: "does not fit: records.jsonl was changed after
        the run ended"."""
        return [f"does not fit: {sentence}" for sentence in self.inconsistencies(run)]

    def unchecked(self, run: StoredRun) -> list[str]:
        """What could not be checked of the run as it does not record it, a phrase each:
        "gold answers and question texts"."""
        return unchecked_parts(run, self.examined(run))
