"""What tables and comparisons check of their runs, each thing once.

checks = Checks()
    checks.examined(run).golds     checks.rescored(run, "em.squad")     checks.inconsistencies(run)
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from harness.storage.run_folder import StoredRun
from reports.cached_checks import RecordChecks, check_or_read_cached
from reports.consistency import file_inconsistencies, unchecked_parts
from reports.differences import differences
from reports.examined import Examined, examine
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

    For a part of a run (--by, --common), what was found in the whole one; for the mean of several
    seeds, what was found in each of them.
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
        self._examined_means: dict[int, Examined] = {}  # by id(run)
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
        whole_run = run.whole_run or run
        if not whole_run.repeats:
            return self._record_checks(whole_run).examined
        if id(whole_run) not in self._examined_means:
            self._checked_runs.append(whole_run)
            self._examined_means[id(whole_run)] = self._examine_mean(whole_run)
        return self._examined_means[id(whole_run)]

    def _examine_mean(self, mean: StoredRun) -> Examined:
        """What a pass over the records of the mean of several seeds finds, with the answers and
        costs of each seed in place of the means, which nobody measured."""
        of_repeats = [self.examined(repeat).answers_with_costs for repeat in mean.repeats]
        return replace(examine(mean), answers_with_costs=np.unique(np.concatenate(of_repeats)))

    def rescored(self, run: StoredRun, name: str) -> RescoringResult:
        """What computing the score `name` of the run again finds; computed once.

        Of the mean of several seeds, the first problem of any seed.
        """
        results = [self._rescored_as_made(made, name) for made in run.runs_as_made]
        problems = [result.problem for result in results if result.problem is not None]
        all_checked = all(result.all_checked for result in results)
        return RescoringResult(next(iter(problems), None), all_checked)

    def _rescored_as_made(self, run: StoredRun, name: str) -> RescoringResult:
        """What computing the score `name` of a whole run, which is no mean, again finds."""
        checked_scores = self._record_checks(run).scores
        if name in checked_scores:
            return checked_scores[name]
        if (id(run), name) not in self._rescored:
            self._rescored[id(run), name] = rescore(run, name)
        return self._rescored[id(run), name]

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
        sentences: list[str] = []
        for made in run.runs_as_made:
            of_rows = self._row_inconsistencies_as_made(made)
            if of_rows is None:
                return None
            sentences += of_rows
        return sentences

    def _row_inconsistencies_as_made(self, run: StoredRun) -> list[str] | None:
        """What `row_inconsistencies` gives, for a whole run that is no mean."""
        if self._data is None:
            return self._record_checks(run).rows
        if id(run) not in self._row_sentences:
            self._checked_runs.append(run)
            self._row_sentences[id(run)] = dataset_inconsistencies(run, self._data)
        return self._row_sentences[id(run)]

    def inconsistencies(self, run: StoredRun) -> list[str]:
        """What does not fit in the run's files and records, and between them and the rows of its
        data set; a sentence each, [] where all fits.

        Of the mean of several seeds: what does not fit in each of them, and between them.
        """
        repeats = run.runs_as_made
        if len(repeats) == 1:
            return self._inconsistencies_as_made(repeats[0])
        sentences = []
        for repeat in repeats:
            found = self._inconsistencies_as_made(repeat)
            sentences += [f"seed {repeat.config.seed}: {sentence}" for sentence in found]
        return sentences + self._inconsistencies_between(repeats)

    def _inconsistencies_as_made(self, run: StoredRun) -> list[str]:
        """What `inconsistencies` gives, for a whole run that is no mean."""
        return [
            *file_inconsistencies(run),
            *self._record_checks(run).inconsistencies,
            *(self._row_inconsistencies_as_made(run) or ()),
        ]

    def _inconsistencies_between(self, repeats: Sequence[StoredRun]) -> list[str]:
        """What of the later seeds of a run does not fit to its first one, a sentence each: another
        reader, other texts, and answers that were copied."""
        first, *others = repeats
        first_examined = self.examined(first)
        sentences = []
        for repeat in others:
            seeds = f"seed {repeat.config.seed} and seed {first.config.seed}"
            sentences += [
                f"{seeds}: other readers ({difference})"
                for difference in differences(repeat, first)
                if difference.key.startswith("manifest.models.reader")
            ]
            examined = self.examined(repeat)
            counts = {
                "other gold answers": examined.count_different_golds(first_examined),
                "other questions": examined.count_different_questions(first_examined),
                "copied answers": self.count_copied_answers(repeat, first),
            }
            for what, count in counts.items():
                if count:
                    sentences.append(f"{seeds}: {count} records with {what}")
        return sentences

    def inconsistency_notes(self, run: StoredRun) -> list[str]:
        """What does not fit, as notes of a table: "does not fit: records.jsonl was changed after
        the run ended"."""
        return [f"does not fit: {sentence}" for sentence in self.inconsistencies(run)]

    def unchecked(self, run: StoredRun) -> list[str]:
        """What could not be checked of the run as it does not record it, a phrase each:
        "gold answers and question texts"."""
        phrases: list[str] = []
        for made in run.runs_as_made:
            phrases += unchecked_parts(made, self.examined(made))
        return list(dict.fromkeys(phrases))
