"""What the page knows of each question of a data set: a list to search in, and details that are
unpacked when they are read.

    found = page_questions(runs, labels, reference, rows, limits)
    found.head              -> QuestionsHead("musique", methods=[PageMethod("bm25", ...)], ...)
    found.blocks["list"]    ids, texts, gold answers, options, predictions and values of all
    found.blocks["part-0"]  [[answer or null, one a method], ...], one a question of the first part
    found.blocks["graph-0"] a drawn graph (reports/search_player.py)

In the list "predictions", "values" (the headline score, null where there is none) and "failed"
(places of the questions that failed) have a row a method.

Every question can be searched. Texts are cut, followed by their length, to the longest of LENGTHS
for which the data set stays within its share of the page; if the shortest is too long, the last
questions have no details.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from harness.cost.flops import DEFAULT_CONVENTION
from harness.storage.records import StoredPiece, StoredRecord
from harness.storage.run_folder import RecordsByQuestion, StoredRun
from harness.types import Example
from reports import costs, facts
from reports.compressed_json import compress_json, cut_text, without_empty
from reports.evidence import evidence_of_piece
from reports.gold_rows import QuestionRows
from reports.run_records import failed_ids
from reports.search_player import GraphDrawings, Replay
from reports.search_steps import SearchStep, search_steps

_T = TypeVar("_T")


@dataclass(frozen=True)
class PageLimits:
    """How much of the questions of a data set a page holds.

    Args:
        max_questions: At most so many with details; None for all.
        max_bytes: Bytes that list and answers may take, compressed.
        max_graph_bytes: Bytes that drawn graphs may take.
    """

    max_questions: int | None = None
    max_bytes: int = 26_000_000
    max_graph_bytes: int = 3_000_000


@dataclass(frozen=True)
class AnswerLength:
    """How much of each answer the page holds.

    Args:
        text_characters: Characters to which a text is cut.
        step_characters: Characters to which a step's text is cut.
        max_shown: The number of shown texts that are held.
        max_steps: The number of search steps that are held.
    """

    text_characters: int
    step_characters: int
    max_shown: int
    max_steps: int


ANSWER_LENGTHS = (
    AnswerLength(600, 160, 12, 400),
    AnswerLength(300, 120, 8, 40),
    AnswerLength(160, 80, 6, 24),
    AnswerLength(80, 60, 3, 12),
)
_MAX_LIST_CHARACTERS = 16_000_000
"""Characters of the list, which is unpacked when the page opens."""
_MAX_QUESTION_CHARACTERS = 600
_MAX_GOLD_CHARACTERS = 300
_MAX_GOLD_ANSWERS = 20
_SAMPLED_QUESTIONS = 24
"""Questions by which the length is chosen."""
_MAX_PART_BYTES = 250_000
"""JSON of a part of the answers: unpacked in a few milliseconds."""


@dataclass(frozen=True)
class PageMethod:
    """What the page says about the method of a run.

    Args:
        label: Its name in tables.
        model: The name of its reader.
        run: The name of the run.
        upper_bound: Whether it was shown the supporting passages alone.
    """

    label: str
    model: str
    run: str
    upper_bound: bool


@dataclass(frozen=True)
class QuestionsHead:
    """What the page knows of a data set before anything is unpacked.

    Args:
        name: The data set.
        score: The headline score.
        methods: One a run.
        reference: The place of the reference in `methods`.
        count: All questions.
        starts: The first question of each part, and at the end how many questions have details.
    """

    name: str
    score: str
    methods: Sequence[PageMethod]
    reference: int
    count: int
    starts: Sequence[int]


@dataclass(frozen=True)
class PageQuestions:
    """What the page knows of the questions of a data set.

    Args:
        head: What is known before anything is unpacked.
        blocks: Name -> compressed JSON.
        notes: Sentences on what is missing.
    """

    head: QuestionsHead
    blocks: dict[str, str]
    notes: list[str]


_AnswerJson = Mapping[str, object]
"""An answer as JSON (`_answer_json`)."""
_AnswersByQuestion = list[list[_AnswerJson | None]]
"""Answers, [question][run]; None where a run has no record of a question."""


@dataclass(frozen=True)
class _LongText:
    """The first characters of a long text, and the number of all its characters."""

    start: str
    characters: int


@dataclass(frozen=True)
class _RunRecords:
    """The records of one run of the page, and where their texts are found.

    Args:
        run: The run.
        label: Its method's name.
        records: Question id -> record.
        rows: Its rows of the data set.
        long_texts: Checksum -> start of each long text that runs showed.
    """

    run: StoredRun
    label: str
    records: Mapping[str, StoredRecord]
    rows: QuestionRows
    long_texts: Mapping[str, _LongText]

    def text(self, piece: StoredPiece, max_characters: int) -> str | None:
        """The text of a piece of a record's `shown`, cut to so many characters; None where it is
        not at hand."""
        long_text = self.long_texts.get(piece.get("text_sha256") or "")
        if long_text is not None:
            return cut_text(long_text.start, max_characters, long_text.characters)
        text = self.rows.text(piece)
        if text is None:
            return None
        return cut_text(text, max_characters)


@dataclass(frozen=True)
class _PageAnswers:
    """The answers of all runs of one data set, as JSON for the page.

    Args:
        all_run_records: The questions of each run.
        convention: How the FLOPs of steps are counted.
    """

    all_run_records: Sequence[_RunRecords]
    convention: str

    def parts(
        self,
        question_ids: Sequence[str],
        length: AnswerLength,
        drawings: GraphDrawings | None = None,
    ) -> Iterator[_AnswersByQuestion]:
        """Yield the answers in parts, each a list [question][run] of about _MAX_PART_BYTES as JSON.

        Args:
            question_ids: The ids of the questions, in this order.
            length: How much of an answer the page holds.
            drawings: Gets the searches that the player shows, which the answers refer to; None for
                answers without them.
        """
        part: _AnswersByQuestion = []
        part_size = 0
        for question_id in question_ids:
            answers = [
                self._answer(run_records, question_id, length, drawings)
                for run_records in self.all_run_records
            ]
            part.append(answers)
            part_size += len(json.dumps(answers))
            if part_size > _MAX_PART_BYTES:
                yield part
                part = []
                part_size = 0
        if part:
            yield part

    def _answer(
        self,
        run_records: _RunRecords,
        question_id: str,
        length: AnswerLength,
        drawings: GraphDrawings | None,
    ) -> _AnswerJson | None:
        """The answer of a run to a question; None where it has no record.

        Args:
            run_records: The run.
            question_id: The question.
            length: How much of the answer the page holds.
            drawings: Gets the search of the answer for the player; None for an answer without it.
        """
        record = run_records.records.get(question_id)
        if record is None:
            return None
        replay = None
        if drawings is not None:
            replay = drawings.replay_of(run_records.run, record, run_records.rows)
        return _answer_json(record, run_records, length, self.convention, replay)


def page_questions(
    runs: Sequence[StoredRun],
    labels: Sequence[str],
    reference: int,
    rows: Sequence[QuestionRows],
    limits: PageLimits,
    convention: str = DEFAULT_CONVENTION,
) -> PageQuestions:
    """What the page knows of the questions of one data set's runs: a list of all of them, and the
    details of as many as fit, in compressed blocks, with notes on what is missing.

    Args:
        runs: The runs.
        labels: Their methods' names.
        reference: The place of the reference in `runs`.
        rows: The data set's rows as each run read them.
        limits: How much the page holds.
        convention: How the FLOPs of steps are counted.

    Raises:
        DataError: The texts of a run folder are damaged.
    """
    score = facts.headline_score(runs[0])
    question_ids = _question_ids(runs)
    detailed_ids = question_ids[: limits.max_questions]
    long_texts = _long_texts(runs, set(detailed_ids))
    all_run_records = _records_with_texts(runs, labels, rows, long_texts)
    list_block = compress_json(_question_list(all_run_records, question_ids, score))
    answer_bytes = limits.max_bytes - len(list_block)
    page_answers = _PageAnswers(all_run_records, convention)
    length = _choose_answer_length(page_answers, detailed_ids, answer_bytes)
    drawings = GraphDrawings(limits.max_graph_bytes)  # filled while the answers are made
    part_blocks = _PartBlocks(answer_bytes)
    part_blocks.add_answers(page_answers.parts(detailed_ids, length, drawings))
    notes = _missing_rows_note(rows)
    n_detailed = part_blocks.starts[-1]
    notes += _notes_on_missing_details(n_detailed, len(question_ids), limits, length)
    notes += drawings.notes()
    notes += _cost_notes(runs, convention)
    head = QuestionsHead(
        name=runs[0].config.dataset.name,
        score=score,
        methods=[_page_method(run_records) for run_records in all_run_records],
        reference=reference,
        count=len(question_ids),
        starts=part_blocks.starts,
    )
    blocks = {"list": list_block, **part_blocks.blocks, **_graph_blocks(drawings)}
    return PageQuestions(head, blocks, notes)


def _records_with_texts(
    runs: Sequence[StoredRun],
    labels: Sequence[str],
    rows: Sequence[QuestionRows],
    long_texts: Mapping[str, _LongText],
) -> list[_RunRecords]:
    """The records of each run together with where their texts are found.

    Args:
        runs: The runs.
        labels: Their methods' names.
        rows: The data set's rows as each run read them.
        long_texts: The long texts that all runs showed, by checksum.
    """
    run_records = []
    for run, label, run_rows in zip(runs, labels, rows, strict=True):
        records = RecordsByQuestion(run.records_with_texts)
        run_records.append(_RunRecords(run, label, records, run_rows, long_texts))
    return run_records


def _graph_blocks(drawings: GraphDrawings) -> dict[str, str]:
    """The drawn graphs by the names of their blocks: "graph-0", "graph-1", ..."""
    return {f"graph-{number}": graph for number, graph in enumerate(drawings.graphs)}


class _PartBlocks:
    """The blocks "part-0", "part-1", ... of answers, as many as fit.

    Attributes:
        blocks: Name -> compressed JSON.
        starts: The first question of each part, and at the end how many questions the parts hold:
            [0, 40, 75] for parts of 40 and 35.
    """

    def __init__(self, max_bytes: int) -> None:
        """Start without a part; `max_bytes` is how many bytes all parts may take."""
        self._bytes_left = max_bytes
        self.blocks: dict[str, str] = {}
        self.starts = [0]

    def add_answers(self, parts: Iterable[_AnswersByQuestion]) -> None:
        """Add parts to `blocks` and `starts`, up to the first part that does not fit."""
        for part in parts:
            text = compress_json(part)
            self._bytes_left -= len(text)
            if self._bytes_left < 0:
                return
            self.blocks[f"part-{len(self.blocks)}"] = text
            self.starts.append(self.starts[-1] + len(part))


def _question_ids(runs: Sequence[StoredRun]) -> list[str]:
    """The ids of the questions of all runs, each once."""
    ids: dict[str, None] = {}  # an ordered set
    for run in runs:
        for record in run.records:
            ids[record.question_id] = None
    return list(ids)


def _long_texts(runs: Sequence[StoredRun], question_ids: set[str]) -> dict[str, _LongText]:
    """Checksum -> start and length of each long text that runs showed to these questions.

    Only one whole text is in memory at a time.
    """
    max_characters = ANSWER_LENGTHS[0].text_characters  # of the longest form of an answer
    long_texts = {}
    for run in runs:
        records = run.records_with_texts
        detailed_records = (record for record in records if record.question_id in question_ids)
        for checksum, text in run.stream_texts(detailed_records):
            long_texts[checksum] = _LongText(text[:max_characters], len(text))
    return long_texts


def _page_method(run_records: _RunRecords) -> PageMethod:
    """What the page says about the method of a run."""
    return PageMethod(
        label=run_records.label,
        model=facts.model_name(run_records.run),
        run=run_records.run.name,
        upper_bound=facts.is_upper_bound(run_records.run),
    )


def _missing_rows_note(rows: Sequence[QuestionRows]) -> list[str]:
    """One sentence on why the rows of some run could not be read, so that the page lacks gold
    answers, questions and texts; [] where all were read."""
    for run_rows in rows:
        if run_rows.problem:
            return [f"No gold answers, questions and shown texts: {run_rows.problem}."]
    return []


def _notes_on_missing_details(
    n_detailed: int, n_questions: int, limits: PageLimits, length: AnswerLength
) -> list[str]:
    """Sentences on questions without details, and on what is cut; [] where the page holds all.

    Args:
        n_detailed: The number of questions with details.
        n_questions: The number of all questions.
        limits: What the page holds.
        length: How much of an answer the page holds.
    """
    notes = []
    if n_detailed < n_questions:
        reason = "so that the page stays small"
        if n_detailed == limits.max_questions:
            reason = "--questions"
        notes.append(
            f"Details of {n_detailed} of {n_questions} questions ({reason}); all can be searched."
        )
    if n_detailed and length != ANSWER_LENGTHS[0]:
        notes.append(
            f"So that the page stays small, texts are cut at {length.text_characters} characters, "
            f"and at most {length.max_shown} pieces and {length.max_steps} steps of an answer are "
            "shown; harness trace RUN QUESTION_ID shows all."
        )
    return notes


def _cost_notes(runs: Sequence[StoredRun], convention: str) -> list[str]:
    """Sentences on what is not known of the FLOPs of steps under the convention, each once."""
    notes: dict[str, None] = {}  # an ordered set
    for run in runs:
        notes.update(
            dict.fromkeys(
                costs.notes_on_steps_without_convention(run.records_with_texts, convention)
            )
        )
    return list(notes)


def _choose_answer_length(
    answers: _PageAnswers, ids: Sequence[str], max_bytes: int
) -> AnswerLength:
    """The longest of ANSWER_LENGTHS at which the answers fit, with 5 % to spare, judged by those to up
    to 24 questions; the shortest where none fits.

    Args:
        answers: The answers.
        ids: The ids of all questions that get details.
        max_bytes: Bytes that all answers may take.
    """
    sample = ids
    if len(ids) > _SAMPLED_QUESTIONS:  # at equal distances
        sample = [ids[i * len(ids) // _SAMPLED_QUESTIONS] for i in range(_SAMPLED_QUESTIONS)]
    *longer_lengths, shortest = ANSWER_LENGTHS
    for length in longer_lengths:
        sample_bytes = sum(len(compress_json(part)) for part in answers.parts(sample, length))
        # sample_bytes / len(sample) a question, times len(ids)
        if sample_bytes * len(ids) <= 0.95 * max_bytes * len(sample):
            return length
    return shortest


def _question_list(
    all_run_records: Sequence[_RunRecords], ids: Sequence[str], score: str
) -> dict[str, object]:
    """The block "list": questions, gold answers, options, predictions and scores of all questions.

        {"ids": ["q1"], "texts": ["Who?"], "gold": [["Ann"]], "options": None,
         "predictions": [["Ann"], ["Bob"]], "values": [[1.0], [0.0]], "failed": [[], []]}

    The last three have one list a run.

    Args:
        all_run_records: The runs.
        ids: The ids of all questions.
        score: The name of the score of "values".
    """
    question_texts = []
    gold_answers = []
    options = []
    for question_id in ids:
        texts_of_question = _question_texts(_find_example(all_run_records, question_id))
        question_texts.append(texts_of_question.question)
        gold_answers.append(texts_of_question.gold)
        options.append(texts_of_question.options)
    max_characters = _max_characters_in_list(len(ids) * len(all_run_records))
    predictions = []
    values = []
    failed = []
    for run_records in all_run_records:
        predictions.append(_predictions(run_records.run, ids, max_characters))
        values.append(_score_values(run_records.run, ids, score))
        failed.append(_failed_positions(run_records.run, ids))
    return {
        "ids": list(ids),
        "texts": _none_if_all_none(question_texts),
        "gold": _none_if_all_none(gold_answers),
        "options": _none_if_all_none(options),
        "predictions": predictions,
        "values": values,
        "failed": failed,
    }


def _none_if_all_none(column: list[_T]) -> list[_T] | None:
    """The column of the list; None where all its values are None."""
    if all(value is None for value in column):
        return None
    return column


@dataclass(frozen=True)
class _QuestionTexts:
    """The texts of a question in the list; None for what is not at hand."""

    question: str | None = None
    gold: list[str] | None = None
    options: list[str] | None = None


def _find_example(all_run_records: Sequence[_RunRecords], question_id: str) -> Example | None:
    """The question, from the rows of the first run whose rows hold it; None where no rows do."""
    for run_records in all_run_records:
        example = run_records.rows.examples.get(question_id)
        if example is not None:
            return example
    return None


def _question_texts(example: Example | None) -> _QuestionTexts:
    """Question, gold answers and options, cut to what the page shows; each None without an
    example."""
    if example is None:
        return _QuestionTexts()
    return _QuestionTexts(
        question=cut_text(example.question.text, _MAX_QUESTION_CHARACTERS),
        gold=_cut_texts(example.gold.answers[:_MAX_GOLD_ANSWERS]),
        options=_cut_texts(example.question.options or ()) or None,
    )


def _cut_texts(texts: Sequence[str]) -> list[str]:
    """Each of these answers or options, cut to 300 characters."""
    return [cut_text(text, _MAX_GOLD_CHARACTERS) for text in texts]


def _max_characters_in_list(n_predictions: int) -> int:
    """Characters to which predictions are cut, so that all together stay below a limit; each has at
    least 60, and at most as many as in the details."""
    share_of_prediction = max(60, _MAX_LIST_CHARACTERS // n_predictions)
    return min(ANSWER_LENGTHS[0].text_characters, share_of_prediction)


def _predictions(run: StoredRun, ids: Sequence[str], max_characters: int) -> list[str | None]:
    """The answer of a run to each question, in the order of `ids`; None where it has none.

    Args:
        run: The run.
        ids: The ids of the questions.
        max_characters: Characters to which answers are cut.
    """
    answer_by_question = {}
    for record in run.records_with_texts:
        answer_by_question[record.question_id] = cut_text(record.prediction, max_characters)
    return [answer_by_question.get(question_id) for question_id in ids]


def _score_values(run: StoredRun, ids: Sequence[str], score_name: str) -> list[float | None]:
    """The score of each question, in the order of `ids`; None where the run has none.

    Args:
        run: The run.
        ids: The questions.
        score_name: The name of the score.
    """
    if score_name not in facts.score_names(run):
        return [None] * len(ids)
    value_of_question = facts.score_values(run, score_name).by_question()
    return [_rounded_or_none(value_of_question.get(question_id), 5) for question_id in ids]


def _failed_positions(run: StoredRun, ids: Sequence[str]) -> list[int]:
    """The places in `ids` of the questions that failed."""
    failed_questions = failed_ids(run)
    positions = []
    for position, question_id in enumerate(ids):
        if question_id in failed_questions:
            positions.append(position)
    return positions


def _answer_json(
    record: StoredRecord,
    run_records: _RunRecords,
    length: AnswerLength,
    convention: str,
    replay: Replay | None,
) -> _AnswerJson:
    """A record as an answer of the page, without what is empty.

        -> {"prediction": "Ann", "scores": {"f1": 1.0}, "shown": [...], "shown_total": 3, ...}

    Args:
        record: The record.
        run_records: Its run.
        length: How much of it the page holds.
        convention: How FLOPs are counted.
        replay: What plays its search; None where nothing can be played.
    """
    example = run_records.rows.examples.get(record.question_id)
    pieces = record.shown[: length.max_shown]
    shown = [_piece_json(piece, example, run_records, length.text_characters) for piece in pieces]
    first_steps = search_steps(record.steps)[: length.max_steps]
    steps = [
        _step_json(step, run_records, length.step_characters, convention) for step in first_steps
    ]
    replay_json = None
    if replay is not None:
        replay_json = replay.as_json()
        movements = replay.steps[: len(steps)]
        steps = [{**step, **movement} for step, movement in zip(steps, movements, strict=True)]
    # However short the page has to be, the prediction keeps its longest form: it is what is read.
    prediction = cut_text(record.prediction, ANSWER_LENGTHS[0].text_characters)
    return without_empty(
        prediction=prediction,
        scores=_rounded(record.scores, 5),
        stop=record.stop_reason,
        error=_error_text(record.error),
        truncated=record.truncated,
        shown=shown,
        shown_total=len(record.shown),
        steps=steps,
        steps_total=len(record.steps),
        replay=replay_json,
    )


def _rounded(scores: Mapping[str, float], digits: int) -> dict[str, float]:
    """The scores rounded to `digits` decimals; one that is no number, null in a record, is left
    out."""
    rounded = {}
    for name, value in scores.items():
        if isinstance(value, int | float):
            rounded[name] = round(value, digits)
    return rounded


def _error_text(error: Mapping[str, str] | None) -> str | None:
    """An error in one line, its message cut: "TimeoutError: the server did not answer"; None for no
    error."""
    if not error:
        return None
    return f"{error['type']}: {cut_text(error['message'], ANSWER_LENGTHS[0].text_characters)}"


def _piece_json(
    piece: StoredPiece, example: Example | None, run_records: _RunRecords, max_characters: int
) -> dict[str, object]:
    """A piece of what the reader saw, as JSON: {"where": "d1 20–80", "text": "...", "evidence":
    true}.

    Args:
        piece: The piece as the record holds it.
        example: The question, which says whether it overlaps a supporting part; None if unknown.
        run_records: The run.
        max_characters: Characters to which its text is cut.
    """
    is_evidence = piece["kind"] == "span" and evidence_of_piece(piece, example) == "yes"
    return without_empty(
        where=_source_text(piece),
        text=run_records.text(piece, max_characters),
        evidence=is_evidence,
    )


def _source_text(piece: StoredPiece) -> str:
    """Where a piece that was shown comes from.

    a span                  -> "d1 20–80"
    a generated text        -> "generated from d1 20–80, d2 0–31" (at most six sources)
    a quote                 -> "in no document"
    """
    kind = piece["kind"]
    if kind == "generated":
        sources = ", ".join(_span_text(*source) for source in piece["sources"][:6])
        if not sources:
            return "generated"
        return f"generated from {sources}"
    if kind == "quote":
        return "in no document"
    if kind == "unknown":
        return "the application does not say which texts it used"
    return _span_text(piece["document_id"], piece["start"], piece["end"])


def _span_text(document: str, start: int, end: int) -> str:
    """A place in a document: ("d1", 20, 80) -> "d1 20–80"."""
    return f"{document} {start}–{end}"


def _step_json(
    step: SearchStep, run_records: _RunRecords, max_characters: int, convention: str
) -> dict[str, object]:
    """A step of a search as JSON, without what is empty.

    "text" is the method's note on the step, else the start of the text that it showed; "note" says
    whether it is a note.

    Args:
        step: The step.
        run_records: Its run.
        max_characters: Characters to which its text is cut.
        convention: How FLOPs are counted.
    """
    text = cut_text(step.note, max_characters)
    if not text and step.shown:
        text = run_records.text(step.shown, max_characters) or ""
    return without_empty(
        action=step.action,
        node=step.node,
        level=step.level,
        p_yes=_rounded_or_none(step.p_yes, 4),
        scores=_rounded(step.scores, 5),
        tokens=step.tokens,
        tflops=_rounded_or_none(step.tflops(convention), 6),
        note=bool(step.note),  # whether the text is a note
        text=text,
    )


def _rounded_or_none(value: float | None, digits: int) -> float | None:
    """The value rounded to `digits` decimals; None for None."""
    if value is None:
        return None
    return round(value, digits)
