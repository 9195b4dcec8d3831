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

_MIN_QUESTIONS_FOR_SIZE = 20
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
        *costs.probe_notes(run),
        *search_notes(run.columns),
        *_model_notes(run),
        *_folder_notes(run),
        *cluster_notes(run.columns.documents.by_record(), clusters, _cluster_noun(run)),
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
        notes.append(f"the run is {run.summary.state}, not finished: {_missing_questions(run)}")
    early_stop = run.summary.stopped_early
    if early_stop is not None:
        notes.append(
            f"a duel stopped the run early, after {early_stop.questions} of {early_stop.of} "
            f"questions in random order of documents (seed {early_stop.seed}): "
            f"{'; '.join(early_stop.verdicts)}; "
            "tests that take n as fixed (harness compare) do not hold for it"
        )
    return notes


def _missing_questions(run: StoredRun) -> str:
    """How far an unfinished run is: "12 of 20 questions have no record yet", or "8 questions so
    far" where it is not recorded how many it was to ask."""
    n_asked = run.summary.n_asked
    if not n_asked:
        return f"{len(run.records)} questions so far"
    whole_run = run.whole_run or run
    n_missing = n_asked - len(whole_run.records) - facts.count_left_out(whole_run)
    return f"{n_missing} of {n_asked} questions have no record yet"


def _answer_notes(run: StoredRun) -> list[str]:
    """Sentences on questions that failed, were answered from a cut context, or in another form than
    the data set asks for (an answer prefix, an answer schema)."""
    n_records = len(run.records)
    notes = []
    columns = run.columns
    n_failed = int(columns.failed.sum())
    if n_failed:
        treatment = "scored 0"
        if run.config.skips_failed:
            treatment = "left out of the scores"
        notes.append(f"{n_failed} of {n_records} questions failed ({treatment})")
    n_truncated = int(columns.truncated.sum())
    if n_truncated:
        notes.append(
            f"{n_truncated} of {n_records} questions were answered from a truncated context"
        )
    n_without_prefix = columns.notes.count(lambda notes: notes.get(ANSWER_PREFIX) == PREFIX_MISSING)
    if n_without_prefix:
        prefix = run.config.dataset.answer_prefix
        notes.append(
            f"{n_without_prefix} of {n_records} replies lacked the answer prefix '{prefix}' and "
            "were scored whole"
        )
    n_not_parsed = columns.notes.count(lambda notes: SCHEMA_NOT_FOLLOWED in notes)
    if n_not_parsed:
        schema = None
        if run.config.dataset.answer_schema is not None:
            schema = run.config.dataset.answer_schema.name
        notes.append(
            f"{n_not_parsed} of {n_records} replies do not follow the answer schema '{schema}' and "
            "scored 0"
        )
    return notes


def _model_notes(run: StoredRun) -> list[str]:
    """Sentences on what the run's models and servers did that its scores and costs do not show:
    replies cut off or without an answer, embedded models, cut texts, and odd or unknown costs."""
    usage = costs.usage_of_run(run)
    n_replies_by_problem = Counter(count_problem_replies(usage))
    usage_of_all_phases = sum_phases([usage])
    notes = [*reply_sentences(n_replies_by_problem, run.config)]
    n_cut_while_thinking = usage_of_all_phases.get("thinking", {}).get("unclosed", 0)
    n_not_named_yet = n_cut_while_thinking - n_replies_by_problem["thought"]
    if n_not_named_yet > 0:
        notes.append(
            f"the thinking of {n_not_named_yet} replies reached its limit (model.thinking.tokens)"
        )
    notes += _caveats_on_models(run)
    notes += _cut_text_notes(run)
    notes += _usage_notes(run, usage_of_all_phases)
    return notes


def _caveats_on_models(run: StoredRun) -> list[str]:
    """Sentences on embedded and small models of the run, whose scores say little of others."""
    used_roles = run.manifest.models
    models = [run.config.model]
    for role, model in run.config.roles.items():
        if role in used_roles:
            models.append(model)
    dataset = run.config.dataset
    notes = [embedded.embedded_caveat(model, dataset) for model in models if model.embedded]
    notes += [embedded.small_model_note(model.name) for model in models if model.small]
    return notes


def _cut_text_notes(run: StoredRun) -> list[str]:
    """One sentence on the texts that encoders and rerankers cut; [] where they cut none."""
    counts = facts.count_cut_texts(run)
    if not counts.cut:
        return []
    texts_in_words = "texts"
    if counts.given:
        texts_in_words = f"of {counts.given} texts ({100 * counts.cut / counts.given:.0f} %)"
    return [f"{counts.cut} {texts_in_words} were longer than the encoder reads, and cut"]


def _usage_notes(run: StoredRun, usage: PhaseUsage) -> list[str]:
    """Sentences on what is odd or unknown in the costs of a run.

    Args:
        run: The run.
        usage: Its usage, all phases and indexes together.
    """
    notes = []
    n_recounted = usage.get("recounted")
    if n_recounted:
        notes.append(
            f"{n_recounted} token counts of the servers (of model, encoder or reranker) are "
            "missing or cannot be true; those made here are used"
        )
    n_recalled = usage.get("recalled")
    if n_recalled:
        notes.append(
            f"{n_recalled} replies came from earlier runs (--cache replies); costs are those of "
            "sending them"
        )
    if usage.get("uncounted"):
        notes.append("FLOPs unknown: a model of this run has no known sizes")
    missing_price = costs.first_missing_price(run, usage)
    if missing_price:
        notes.append(
            f"money unknown: {missing_price} is not set; set it and run the same command again"
        )
    return notes


def _flag_notes(run: StoredRun) -> list[str]:
    """A sentence for each score by which some answers could not be scored and count 0.

    A record's notes name the scores that could not be made. One that was left out, as evidence
    recall where nothing is marked, counts as missing and not as 0, so it is not named.
    """
    n_flagged_by_score: Counter[str] = Counter()
    columns = run.columns
    positions_with_flags = np.flatnonzero(columns.notes.where(flags_of)).tolist()
    for position in positions_with_flags:
        for name in flags_of(columns.notes.of_record(position)):
            if name in columns.scores and not np.isnan(columns.scores[name][position]):
                n_flagged_by_score[name] += 1
    notes = []
    for name, n_flagged in n_flagged_by_score.items():
        values = f"{n_flagged} of {len(columns)} values of {name}"
        notes.append(f"{values} could not be scored as they are and count 0")
    return notes


def _change_notes(run: StoredRun) -> list[str]:
    """Sentences on settings that were changed between two starts of the run; [] for none."""
    changed_keys = run.manifest.changed_keys
    if not changed_keys:
        return []
    keys = ", ".join(sorted(changed_keys))
    notes = [f"a part of the run was made after a change of {keys} (manifest.json)"]
    if "shapes" in changed_keys:
        notes.append(
            "model.shape was changed on the way: FLOPs of earlier questions are counted by the old "
            "sizes"
        )
    return notes


def _cluster_noun(run: StoredRun) -> str:
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
    documents = "documents: those in the folder, each of which every question may be about"
    return [f"{documents}; intervals and tests are over questions"]


def cluster_notes(
    document_ids: Iterable[Sequence[str]],
    cluster_of_question: Labels,
    cluster_noun: str = "document",
) -> list[str]:
    """Sentences on what few or unequal clusters do to intervals and tests; [] where they do no
    harm.

    A sign-flip test over G clusters has no smaller p than 2 / 2^G.

    Args:
        document_ids: The documents of each question.
        cluster_of_question: The cluster of each question.
        cluster_noun: What a cluster is called: "document" or "question".
    """
    _, cluster_sizes = np.unique(cluster_of_question, return_counts=True)
    largest = max(cluster_sizes, default=0)
    n_questions = len(cluster_of_question)
    notes = []
    n_clusters = len(cluster_sizes)
    if n_clusters > 0 and 2 / 2**n_clusters > facts.ALPHA:  # 5 or fewer
        notes.append(
            f"{cluster_noun}s: {n_clusters}; this test cannot find a difference with fewer than 6"
        )
    if n_clusters == 1:
        return [f"{_what_links_all(document_ids, n_questions)}: no interval", *notes]
    linked_questions = (
        f"{largest} of {n_questions} questions are linked through documents that they share"
    )
    largest_in_words = f"{linked_questions}, one of {n_clusters} clusters"
    if not notes and one_outweighs(cluster_sizes):
        return [f"{largest_in_words}: too many for a test or an interval of a difference"]
    largest_has_most = 2 * largest > n_questions
    if n_questions < _MIN_QUESTIONS_FOR_SIZE or not largest_has_most:
        return notes
    return [f"{largest_in_words}: intervals are wide", *notes]


def _what_links_all(document_ids: Iterable[Sequence[str]], n_questions: int) -> str:
    """What joins all questions in one cluster, as the start of a sentence.

    Args:
        document_ids: The documents of each question.
        n_questions: The number of questions.
    """
    first_documents, *other_questions = document_ids
    shared_documents = set(first_documents)
    for documents in other_questions:
        shared_documents.intersection_update(documents)
    if shared_documents:
        return "all questions share one document"
    return f"all {n_questions} questions are linked through documents that they share"
