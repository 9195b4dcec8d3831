"""Which runs are compared with which, and what speaks against comparing them.

pairs_with_reference(runs, None)     -> [RunPair(bm25, "bm25", full_context, "full-context")]
objections(pair, "f1", checks)       -> ["musique: bm25 and full-context have different seeds (0 and 1)"]
"""

from collections.abc import Sequence
from dataclasses import dataclass

from harness.errors import UnknownName, UserError
from harness.storage.run_folder import StoredRun
from reports import facts
from reports.checks import Checks
from reports.comparability import answer_reasons, shared_questions, text_reasons
from reports.main_table import REFERENCE
from reports.run_records import question_ids

_LEAST_SHARED = 0.9
"""The share of the larger run's questions that a run made elsewhere must have in common with it."""


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
    def labelled(self) -> tuple[tuple[StoredRun, str], tuple[StoredRun, str]]:
        """Both runs with their names, the reference last."""
        return (self.run, self.label), (self.base, self.base_label)

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
    by_dataset: dict[str, list[_Labelled]] = {}
    for run, label in zip(runs, facts.labels(runs), strict=True):
        by_dataset.setdefault(run.config.dataset.name, []).append(_Labelled(run, label))
    pairs: list[RunPair] = []
    for dataset, group in by_dataset.items():
        base = _reference_of(dataset, group, reference)
        others = [one for one in group if one is not base]
        pairs += [RunPair(one.run, one.label, base.run, base.label) for one in others]
    if not pairs:
        raise UserError("nothing to compare: give at least two runs of one data set")
    return pairs


@dataclass(frozen=True, eq=False)
class _Labelled:
    """A run with its name in tables."""

    run: StoredRun
    label: str


def _reference_of(dataset: str, group: Sequence[_Labelled], reference: str | None) -> _Labelled:
    """The reference among the runs of a data set.

    Args:
        dataset: Its name.
        group: Its runs.
        reference: What the user named: a label, a preset's name, or a run folder's name or hash;
            None for full-context, or the first run where that was not run.

    Raises:
        UserError: None or several are meant.
    """
    name = reference or REFERENCE
    # Of "bm25" and "bm25 k=3" the first is meant.
    matching = [one for one in group if one.label == reference]
    if len(matching) != 1:
        matching = [one for one in group if name in facts.reference_names(one.run)]
    if len(matching) > 1:
        options = ", ".join(f"'{one.label}' ({one.run.name})" for one in matching)
        raise UserError(
            f"{dataset} has {len(matching)} runs of '{name}'; choose one with --reference: {options}"
        )
    if matching:
        return matching[0]
    if reference is not None:
        raise UserError(
            f"data set {dataset} has no run of the reference '{reference}'; run it, or leave "
            f"{dataset} out"
        )
    return group[0]


def compared_score(pair: RunPair, score: str | None) -> str:
    """The score that is compared: `score`, by default the headline that both runs share.

    Raises:
        UnknownName: One of the two runs lacks it.
    """
    name = score or facts.common_headline([pair.base, pair.run])
    for run in (pair.run, pair.base):
        score_names = facts.score_names(run)
        if name not in score_names:
            raise UnknownName("score", name, score_names, f"scores of {run.path.name}")
    return name


def objections(pair: RunPair, score: str, checks: Checks) -> list[str]:
    """Why the difference of a pair would not be the method's alone.

    Args:
        pair: The two runs.
        score: The name of the score that is compared.
        checks: What was found in the records of both.

    Returns:
        A sentence each; [] where the difference is the method's.
    """
    sentences = _other_questions(pair, checks)
    sentences += _scored_differently(pair, score)
    copied = checks.copied(pair.run, pair.base)
    if copied:
        sentences.append(
            f"{pair.dataset}: {pair.names} have {copied} answers of one cost, seconds included: "
            "copies"
        )
    for run, label in pair.labelled:
        sentences += _headed(f"{pair.dataset}: {label}:", _flaws(run, score, checks))
    return sentences


def _headed(head: str, texts: Sequence[str]) -> list[str]:
    """Each text behind the same words: ("bm25", ["is new"]) -> ["bm25 is new"]."""
    return [f"{head} {text}" for text in texts]


def _too_little_shared(pair: RunPair) -> list[str]:
    """One sentence where the two runs share less than 90 % of the larger one's questions; else
    []."""
    shared = shared_questions(pair.run, pair.base)
    if shared.number >= _LEAST_SHARED * shared.of_larger:
        return []
    return [f"{shared.sentence}, less than {_LEAST_SHARED:.0%}"]


def _other_questions(pair: RunPair, checks: Checks) -> list[str]:
    """Sentences on other rows, questions or texts, and on answers that were requested otherwise.

    For a run made elsewhere, only whether enough questions are shared.
    """
    if pair.has_imported_run:
        return _too_little_shared(pair)
    names = f"{pair.dataset}: {pair.names}"
    sentences = []
    fingerprint = facts.fingerprint(pair.run)
    base_fingerprint = facts.fingerprint(pair.base)
    if fingerprint != base_fingerprint:
        ours = fingerprint or "not recorded"
        theirs = base_fingerprint or "not recorded"
        sentences.append(f"{names} used different data (fingerprints {ours:.12} and {theirs:.12})")
    ids = question_ids(pair.run)
    base_ids = question_ids(pair.base)
    if ids != base_ids:
        counts = f"{len(ids)} and {len(base_ids)}, {len(ids & base_ids)} in common"
        remedy = ""
        if ids & base_ids:
            remedy = "; --common compares those"
        sentences.append(f"{names} answered different questions ({counts}{remedy})")
    sentences += _headed(f"{names} have", text_reasons(pair.run, pair.base, checks))
    sentences += _headed(names, answer_reasons(pair.run, pair.base))
    return sentences


def _scored_differently(pair: RunPair, score: str) -> list[str]:
    """Sentences on different versions of the scorer, and on another treatment of failed
    questions."""
    names = f"{pair.dataset}: {pair.names}"
    sentences = []
    version = facts.scorer_version(pair.run, score) or "not recorded"
    base_version = facts.scorer_version(pair.base, score) or "not recorded"
    if version != base_version:
        remedy = "score them again: harness score RUN"
        if score in facts.judges(pair.run):
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


def _flaws(run: StoredRun, score: str, checks: Checks) -> list[str]:
    """What does not fit in a run, a sentence each, and one more where the score is not that of its
    stored answers.

    Args:
        run: The run.
        score: The name of the score.
        checks: What was found in its records.
    """
    sentences = checks.misfit_notes(run)
    problem = checks.rescored(run, score).problem
    if problem is not None:
        sentences.append(problem)
    return sentences
