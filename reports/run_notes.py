"""What a reader of a run's numbers must know, a sentence each: the notes below its tables.

run_notes(run)     -> ("2 of 20 questions failed (scored 0)", "money unknown: model.price ...")
"""

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from harness.cost.usage import PhaseUsage, sum_phases
from harness.datasets.base import left_out_notes
from harness.engine import model_warnings as embedded
from harness.stats.bootstrap import Labels
from harness.stats.sign_flips import one_outweighs
from harness.storage.manifest_file import Correction
from harness.storage.record_notes import flags_of
from harness.storage.run_folder import StoredRun
from harness.storage.run_summary import count_problem_replies, reply_sentences
from harness.types import ANSWER_PREFIX, PREFIX_MISSING, SCHEMA_NOT_FOLLOWED
from reports import costs, facts
from reports.judge_notes import judge_notes
from reports.search_notes import search_notes

_MANY = 20
"""Fewer questions are not worth a word about the size of their clusters."""


def run_notes(run: StoredRun, clusters: NDArray[np.int32] | None = None) -> tuple[str, ...]:
    """What a reader of the run's numbers must know, each sentence once.

    Args:
        run: The run.
        clusters: The cluster of each record, where the caller has them already.
    """
    if clusters is None:
        clusters = facts.question_clusters(run)
    sentences = [
        *_source_notes(run),
        *_state_notes(run),
        *_answer_notes(run),
        *costs.probes(run),
        *search_notes(run.columns),
        *_model_notes(run),
        *_folder_notes(run),
        *cluster_notes(run.columns.documents.by_record(), clusters, _cluster(run)),
        *_flag_notes(run),
        *judge_notes(run),
        *_change_notes(run),
        *(str(warning) for warning in run.manifest.warnings),
        *run.notes,
    ]
    return tuple(dict.fromkeys(sentences))


def _source_notes(run: StoredRun) -> list[str]:
    """Sentences on where the run's numbers come from: other runs, another tool, corrected gold
    answers, rows that were left out."""
    notes = [amount.note for amount in run.manifest.amounts.values()]
    imported = run.manifest.imported
    if imported is not None:
        files = ", ".join(file.name for file in imported.files)
        notes.append(
            f"imported from {imported.tool}: answers, logged scores and costs are those of "
            f"{files} and not checked; how questions were asked is not known"
        )
    notes += [_correction_note(entry) for entry in run.manifest.corrected]
    notes += left_out_notes(run.manifest.dataset.skipped)
    return notes


def _correction_note(entry: Correction) -> str:
    """The sentence on a correction of gold answers, with the means before it."""
    means = []
    for name, mean in entry.scores.items():
        if mean is not None:
            means.append(f"{name} {100 * mean:.1f}")
    return (
        f"gold answers of {entry.questions} questions were corrected on {entry.at[:10]} "
        f"({entry.file}); the means before: {', '.join(means)}"
    )


def _state_notes(run: StoredRun) -> list[str]:
    """Sentences on a run that is not finished, or that a duel stopped early."""
    notes = []
    if facts.is_unfinished(run):
        notes.append(f"the run is {run.summary.state}, not finished: {_progress(run)}")
    early = run.summary.stopped_early
    if early is not None:
        notes.append(
            f"a duel stopped the run early, after {early.questions} of {early.of} questions "
            f"in random order of documents (seed {early.seed}): {'; '.join(early.verdicts)}; "
            "tests that take n as fixed (harness compare) do not hold for it"
        )
    return notes


def _progress(run: StoredRun) -> str:
    """How far an unfinished run is: "12 of 20 questions have no record yet", or "8 questions so
    far" where it is not recorded how many it was to ask."""
    n_asked = run.summary.n_asked
    if not n_asked:
        return f"{len(run.records)} questions so far"
    whole = run.whole_run or run
    n_missing = n_asked - len(whole.records) - facts.left_out(whole)
    return f"{n_missing} of {n_asked} questions have no record yet"


def _answer_notes(run: StoredRun) -> list[str]:
    """Sentences on questions that failed, were answered from a cut context, or in another form."""
    total = len(run.records)
    notes = []
    columns = run.columns
    failed = int(columns.failed.sum())
    if failed:
        treatment = "scored 0"
        if run.config.skips_failed:
            treatment = "left out of the scores"
        notes.append(f"{failed} of {total} questions failed ({treatment})")
    cut = int(columns.truncated.sum())
    if cut:
        notes.append(f"{cut} of {total} questions were answered from a truncated context")
    no_prefix = columns.notes.count(lambda notes: notes.get(ANSWER_PREFIX) == PREFIX_MISSING)
    if no_prefix:
        prefix = run.config.dataset.answer_prefix
        notes.append(
            f"{no_prefix} of {total} replies lacked the answer prefix '{prefix}' and were scored "
            "whole"
        )
    unread = columns.notes.count(lambda notes: SCHEMA_NOT_FOLLOWED in notes)
    if unread:
        schema = None
        if run.config.dataset.answer_schema is not None:
            schema = run.config.dataset.answer_schema.name
        notes.append(
            f"{unread} of {total} replies do not follow the answer schema '{schema}' and scored 0"
        )
    return notes


def _model_notes(run: StoredRun) -> list[str]:
    """Sentences on what the run's models and servers did that its scores and costs do not show."""
    spent = costs.whole_usage(run)
    lacking = Counter(count_problem_replies(spent))
    total = sum_phases([spent])
    notes = [*reply_sentences(lacking, run.config)]
    unclosed = total.get("thinking", {}).get("unclosed", 0) - lacking["thought"]
    if unclosed > 0:
        notes.append(
            f"the thinking of {unclosed} replies reached its limit (model.thinking.tokens)"
        )
    notes += _caveats(run)
    notes += _cut_text_notes(run)
    notes += _usage_notes(run, total)
    return notes


def _caveats(run: StoredRun) -> list[str]:
    """Sentences on embedded and small models of the run, whose scores say little of others."""
    used = run.manifest.models
    models = [run.config.model]
    for role, model in run.config.roles.items():
        if role in used:
            models.append(model)
    dataset = run.config.dataset
    notes = [embedded.embedded_caveat(model, dataset) for model in models if model.embedded]
    notes += [embedded.small_model_note(model.name) for model in models if model.small]
    return notes


def _cut_text_notes(run: StoredRun) -> list[str]:
    """One sentence on the texts that encoders and rerankers cut; [] where they cut none."""
    texts = facts.texts_cut(run)
    if not texts.cut:
        return []
    part = "texts"
    if texts.given:
        part = f"of {texts.given} texts ({100 * texts.cut / texts.given:.0f} %)"
    return [f"{texts.cut} {part} were longer than the encoder reads, and cut"]


def _usage_notes(run: StoredRun, total: PhaseUsage) -> list[str]:
    """Sentences on what is odd or unknown in the costs of a run.

    Args:
        run: The run.
        total: Its usage, all phases and indexes together.
    """
    notes = []
    recounted = total.get("recounted")
    if recounted:
        notes.append(
            f"{recounted} token counts of the servers (of model, encoder or reranker) are missing "
            "or cannot be true; those made here are used"
        )
    recalled = total.get("recalled")
    if recalled:
        notes.append(
            f"{recalled} replies came from earlier runs (--cache replies); costs are those of "
            "sending them"
        )
    if total.get("uncounted"):
        notes.append("FLOPs unknown: a model of this run has no known sizes")
    gap = costs.price_gap(run, total)
    if gap:
        notes.append(f"money unknown: {gap} is not set; set it and run the same command again")
    return notes


def _flag_notes(run: StoredRun) -> list[str]:
    """A sentence for each score by which some answers could not be scored and count 0.

    A score that was left out, as evidence recall where nothing is marked, counts as missing and not
    as 0, so it is not named.
    """
    flagged: Counter[str] = Counter()
    columns = run.columns
    for place in np.flatnonzero(columns.notes.where(flags_of)).tolist():
        for name in flags_of(columns.notes.of_record(place)):
            if name in columns.scores and not np.isnan(columns.scores[name][place]):
                flagged[name] += 1
    return [
        f"{n} of {len(columns)} values of {name} could not be scored as they are and count 0"
        for name, n in flagged.items()
    ]


def _change_notes(run: StoredRun) -> list[str]:
    """Sentences on settings that were changed between two starts of the run; [] for none."""
    changed = run.manifest.changed_keys
    if not changed:
        return []
    keys = ", ".join(sorted(changed))
    notes = [f"a part of the run was made after a change of {keys} (manifest.json)"]
    if "shapes" in changed:
        notes.append(
            "model.shape was changed on the way: FLOPs of earlier questions are counted by the old "
            "sizes"
        )
    return notes


def _cluster(run: StoredRun) -> str:
    """What intervals take as one observation: "question" where questions are about all pages of a
    folder, else "document"."""
    if facts.asks_whole_folder(run):
        return "question"
    return "document"


def _folder_notes(run: StoredRun) -> list[str]:
    """What `documents` counts where questions are about all pages of a folder, and what intervals
    are over."""
    if not facts.asks_whole_folder(run):
        return []
    counted = "documents: those in the folder, each of which every question may be about"
    return [f"{counted}; intervals and tests are over questions"]


def cluster_notes(
    document_ids: Iterable[Sequence[str]], labels: Labels, cluster: str = "document"
) -> list[str]:
    """Sentences on what few or unequal clusters do to intervals and tests; [] where they do no
    harm.

    A sign-flip test over G clusters has no smaller p than 2 / 2^G.

    Args:
        document_ids: The documents of each question.
        labels: The cluster of each question.
        cluster: What a cluster is called: "document" or "question".
    """
    sizes = np.unique(labels, return_counts=True)[1]
    largest = max(sizes, default=0)
    total = len(labels)
    notes = []
    if len(sizes) > 0 and 2 / 2 ** len(sizes) > facts.ALPHA:
        notes.append(
            f"{cluster}s: {len(sizes)}; this test cannot find a difference with fewer than 6"
        )
    if len(sizes) == 1:
        return [f"{_link(document_ids, total)}: no interval", *notes]
    linked = f"{largest} of {total} questions are linked through documents that they share"
    one_of = f"{linked}, one of {len(sizes)} clusters"
    if not notes and one_outweighs(sizes):
        return [f"{one_of}: too many for a test or an interval of a difference"]
    if total < _MANY or 2 * largest <= total:
        return notes
    return [f"{one_of}: intervals are wide", *notes]


def _link(document_ids: Iterable[Sequence[str]], total: int) -> str:
    """What joins all questions in one cluster, as the start of a sentence.

    Args:
        document_ids: The documents of each question.
        total: The number of questions.
    """
    first, *others = document_ids
    shared = set(first)
    for ids in others:
        shared.intersection_update(ids)
    if shared:
        return "all questions share one document"
    return f"all {total} questions are linked through documents that they share"
