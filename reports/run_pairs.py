"""Which runs are compared with which, and what speaks against comparing them.

pairs_with_reference(runs, None)     -> [RunPair(bm25, "bm25", full_context, "full-context")]
comparison_problems(pair, "f1", checks)
    -> ["musique: bm25 and full-context have different seeds (0 and 1)"]
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from harness.errors import UnknownName, UserError
from harness.storage.run_folder import StoredRun
from reports import facts
from reports.checks import Checks
from reports.comparability import answer_differences, different_texts, shared_questions
from reports.main_table import REFERENCE
from reports.run_records import question_ids

_MIN_SHARED_QUESTIONS = 0.9
"""The share of the larger run's questions that a run made elsewhere must have in common with it."""


class LabelledRun(NamedTuple):
    """A run with its name in tables."""

    run: StoredRun
    label: str


@dataclass(frozen=True)
class RunPair:
    """A run and the reference run of its data set.

    Args:
        run: The run.
        label: The run's name in tables.
        base: The reference.
        base_label: The reference's name in tables.
    """

    run: StoredRun
    label: str
    base: StoredRun
    base_label: str

    @property
    def dataset(self) -> str:
        """The name of the data set of both runs."""
        return self.run.config.dataset.name

    @property
    def names(self) -> str:
        """Both names in a sentence: "bm25 and full-context"."""
        return f"{self.label} and {self.base_label}"

    @property
    def labelled(self) -> tuple[LabelledRun, LabelledRun]:
        """Both runs with their names, the reference last."""
        return LabelledRun(self.run, self.label), LabelledRun(self.base, self.base_label)

    @property
    def has_imported_run(self) -> bool:
        """Whether one of the two was made by another tool."""
        return facts.is_imported(self.run) or facts.is_imported(self.base)


def pairs_with_reference(runs: Sequence[StoredRun], reference: str | None) -> list[RunPair]:
    """Each other run with the reference of its data set.

    Args:
        runs: Stored runs.
        reference: A label, a preset's name, or a run folder's name or hash; by default full-context
            where it was run, else the first run of each data set.

    Raises:
        UnknownName: No run is meant by the reference.
        UserError: There is no pair, or a data set has no reference or several.
    """
    if reference is not None:
        facts.check_reference(runs, reference)
    runs_by_dataset: dict[str, list[LabelledRun]] = {}
    for run, label in zip(runs, facts.run_labels(runs), strict=True):
        runs_by_dataset.setdefault(run.config.dataset.name, []).append(LabelledRun(run, label))
    pairs: list[RunPair] = []
    for dataset, runs_of_dataset in runs_by_dataset.items():
        base = _find_reference(dataset, runs_of_dataset, reference)
        others = [labelled for labelled in runs_of_dataset if labelled is not base]
        pairs += [RunPair(other.run, other.label, base.run, base.label) for other in others]
    if not pairs:
        raise UserError("nothing to compare: give at least two runs of one data set")
    return pairs


def _find_reference(
    dataset: str, candidates: Sequence[LabelledRun], reference: str | None
) -> LabelledRun:
    """The reference among the runs of a data set.

    Args:
        dataset: Its name.
        candidates: Its runs.
        reference: What the user named: a label, a preset's name, or a run folder's name or hash;
            None for full-context, or the first run where that was not run or nothing else was.

    Raises:
        UserError: None or several are meant.
    """
    name = reference or REFERENCE
    # Of "bm25" and "bm25 k=3" the first is meant.
    matching_runs = [candidate for candidate in candidates if candidate.label == reference]
    if len(matching_runs) != 1:
        matching_runs = [
            candidate for candidate in candidates if name in facts.reference_names(candidate.run)
        ]
    all_match = len(matching_runs) == len(candidates)
    if reference is None and all_match:  # full-context made twice: is it reproduced?
        return candidates[0]
    if len(matching_runs) > 1:
        choices = [f"'{matching.label}' ({matching.run.name})" for matching in matching_runs]
        options = ", ".join(choices)
        raise UserError(
            f"{dataset} has {len(matching_runs)} runs of '{name}'; choose one with --reference: "
            f"{options}"
        )
    if matching_runs:
        return matching_runs[0]
    if reference is not None:
        raise UserError(
            f"data set {dataset} has no run of the reference '{reference}'; run it, or leave "
            f"{dataset} out"
        )
    return candidates[0]


def choose_score(pair: RunPair, score: str | None) -> str:
    """The score that is compared: `score`, by default the headline that both runs share.

    Raises:
        UnknownName: One of the two runs lacks it.
    """
    name = score or facts.common_headline_score([pair.base, pair.run])
    for run in (pair.run, pair.base):
        score_names = facts.score_names(run)
        if name not in score_names:
            raise UnknownName("score", name, score_names, f"scores of {run.path.name}")
    return name


def comparison_problems(pair: RunPair, score: str, checks: Checks) -> list[str]:
    """Why the difference of a pair would not be the method's alone.

    Args:
        pair: The two runs.
        score: The name of the score that is compared.
        checks: What was found in the records of both.

    Returns:
        A sentence each; [] where the difference is the method's.
    """
    sentences = _question_differences(pair, checks)
    sentences += _scoring_differences(pair, score)
    n_copied = checks.count_copied_answers(pair.run, pair.base)
    if n_copied:
        sentences.append(
            f"{pair.dataset}: {pair.names} have {n_copied} answers of one cost, seconds included: "
            "copies"
        )
    for run, label in pair.labelled:
        inconsistencies = _inconsistencies_of_run(run, score, checks)
        sentences += _with_prefix(f"{pair.dataset}: {label}:", inconsistencies)
    return sentences


def _with_prefix(prefix: str, texts: Sequence[str]) -> list[str]:
    """Each text behind the same words: ("bm25", ["is new"]) -> ["bm25 is new"]."""
    return [f"{prefix} {text}" for text in texts]


def _too_few_shared_questions(pair: RunPair) -> list[str]:
    """One sentence where the two runs share less than 90 % of the larger one's questions; else
    []."""
    shared = shared_questions(pair.run, pair.base)
    if shared.number >= _MIN_SHARED_QUESTIONS * shared.of_larger:
        return []
    return [f"{shared.sentence}, less than {_MIN_SHARED_QUESTIONS:.0%}"]


def _question_differences(pair: RunPair, checks: Checks) -> list[str]:
    """Sentences on other rows, questions or texts, and on answers that were requested otherwise.

    For a run made elsewhere, only whether enough questions are shared.
    """
    if pair.has_imported_run:
        return _too_few_shared_questions(pair)
    names = f"{pair.dataset}: {pair.names}"
    sentences = []
    fingerprint = facts.rows_fingerprint(pair.run)
    base_fingerprint = facts.rows_fingerprint(pair.base)
    if fingerprint != base_fingerprint:
        own_hash = fingerprint or "not recorded"
        base_hash = base_fingerprint or "not recorded"
        sentences.append(
            f"{names} used different data (fingerprints {own_hash:.12} and {base_hash:.12})"
        )
    ids = question_ids(pair.run)
    base_ids = question_ids(pair.base)
    if ids != base_ids:
        counts = f"{len(ids)} and {len(base_ids)}, {len(ids & base_ids)} in common"
        remedy = ""
        if ids & base_ids:
            remedy = "; --common compares those"
        sentences.append(f"{names} answered different questions ({counts}{remedy})")
    sentences += _with_prefix(f"{names} have", different_texts(pair.run, pair.base, checks))
    sentences += _with_prefix(names, answer_differences(pair.run, pair.base))
    return sentences


def _scoring_differences(pair: RunPair, score: str) -> list[str]:
    """Sentences on different versions of the scorer, and on another treatment of failed
    questions."""
    names = f"{pair.dataset}: {pair.names}"
    sentences = []
    version = facts.scorer_version(pair.run, score) or "not recorded"
    base_version = facts.scorer_version(pair.base, score) or "not recorded"
    if version != base_version:
        remedy = "score them again: harness score RUN"
        if score in facts.judge_names(pair.run):
            remedy = "judge them again alike: harness judge"
        sentences.append(
            f"{names} were scored by different versions of {score} ({version} and {base_version}); "
            f"{remedy}"
        )
    failed = pair.run.config.failed
    base_failed = pair.base.config.failed
    if failed != base_failed:
        sentences.append(
            f"{names} treat failed questions differently (failed: {failed} and {base_failed})"
        )
    return sentences


def _inconsistencies_of_run(run: StoredRun, score: str, checks: Checks) -> list[str]:
    """What does not fit in a run, a sentence each, and one more where the score is not that of its
    stored answers.

    Args:
        run: The run.
        score: The name of the score.
        checks: What was found in its records.
    """
    sentences = checks.inconsistency_notes(run)
    problem = checks.rescored(run, score).problem
    if problem is not None:
        sentences.append(problem)
    return sentences
