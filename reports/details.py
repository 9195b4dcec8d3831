"""What the page knows of each question of a data set: a list to search in, and details that are
unpacked when they are read.

    found = questions(runs, labels, reference, rows, limits)
    found.head                 -> QuestionsHead("musique", methods=[PageMethod("bm25", ...)], starts=[0, 24], ...)
    found.blocks["list"]       ids, texts, gold answers, options, predictions and values of all questions
    found.blocks["part-0"]     [[answer or null, one a method], ...], one a question of the first part
    found.blocks["graph-0"]    a drawn graph (reports/search_player.py)

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
from reports.evidence import evidence
from reports.gold_rows import Rows
from reports.run_records import failed_ids
from reports.search_player import Replay, Searches
from reports.search_steps import SearchStep, search_steps

_T = TypeVar("_T")


@dataclass(frozen=True)
class Limits:
    """How much of the questions of a data set a page holds.

    Args:
        questions: At most so many with details; None for all.
        size: Bytes that list and answers may take, compressed.
        graphs: Bytes that drawn graphs may take.
    """

    questions: int | None = None
    size: int = 26_000_000
    graphs: int = 3_000_000


@dataclass(frozen=True)
class Length:
    """How much of each answer the page holds.

    Args:
        text: Characters to which a text is cut.
        step: Characters to which a step's text is cut.
        shown: The number of shown texts that are held.
        steps: The number of search steps that are held.
    """

    text: int
    step: int
    shown: int
    steps: int


LENGTHS = (
    Length(600, 160, 12, 400),
    Length(300, 120, 8, 40),
    Length(160, 80, 6, 24),
    Length(80, 60, 3, 12),
)
_LIST_CHARACTERS = 16_000_000
"""Characters of the list, which is unpacked when the page opens."""
_QUESTION_CHARACTERS = 600
_GOLD_CHARACTERS = 300
_MOST_GOLD = 20
_SAMPLE_SIZE = 24
"""Questions by which the length is chosen."""
_PART_BYTES = 250_000
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
class Questions:
    """The parts of the page described above.

    Args:
        head: What is known before anything is unpacked.
        blocks: Name -> compressed JSON.
        notes: Sentences on what is missing.
    """

    head: QuestionsHead
    blocks: dict[str, str]
    notes: list[str]


_Answer = Mapping[str, object]
"""An answer as JSON (`_answer_json`)."""
_Part = list[list[_Answer | None]]
"""Answers, [question][run]; None where a run has no record of a question."""


@dataclass(frozen=True)
class _LongText:
    """The first characters of a long text, and the number of all."""

    start: str
    size: int


@dataclass(frozen=True)
class _RunQuestions:
    """The records of one run, and where their texts are found.

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
    rows: Rows
    long_texts: Mapping[str, _LongText]

    def text(self, piece: StoredPiece, longest: int) -> str | None:
        """The text of a piece of a record's `shown`, cut to `longest` characters; None where it is
        not at hand."""
        long_text = self.long_texts.get(piece.get("text_sha256") or "")
        if long_text is not None:
            return cut_text(long_text.start, longest, long_text.size)
        text = self.rows.text(piece)
        if text is None:
            return None
        return cut_text(text, longest)


@dataclass(frozen=True)
class _Answers:
    """The answers of all runs of one data set, as JSON for the page.

    Args:
        of_runs: The questions of each run.
        convention: How the FLOPs of steps are counted.
    """

    of_runs: Sequence[_RunQuestions]
    convention: str

    def parts(
        self, ids: Sequence[str], length: Length, searches: Searches | None = None
    ) -> Iterator[_Part]:
        """Yield the answers in parts, each a list [question][run] of about _PART_BYTES.

        Args:
            ids: The ids of the questions, in this order.
            length: How much of an answer the page holds.
            searches: Gets the searches that the player shows, which the answers refer to; None for
                answers without them.
        """
        part: _Part = []
        size = 0
        for question_id in ids:
            answers = [
                self._answer(of_run, question_id, length, searches) for of_run in self.of_runs
            ]
            part.append(answers)
            size += len(json.dumps(answers))
            if size > _PART_BYTES:
                yield part
                part = []
                size = 0
        if part:
            yield part

    def _answer(
        self, of_run: _RunQuestions, question_id: str, length: Length, searches: Searches | None
    ) -> _Answer | None:
        """The answer of a run to a question; None where it has no record.

        Args:
            of_run: The run.
            question_id: The question.
            length: How much of the answer the page holds.
            searches: Gets the search of the answer for the player; None for an answer without it.
        """
        record = of_run.records.get(question_id)
        if record is None:
            return None
        replay = None
        if searches is not None:
            replay = searches.replay_of(of_run.run, record, of_run.rows)
        return _answer_json(record, of_run, length, self.convention, replay)


def questions(
    runs: Sequence[StoredRun],
    labels: Sequence[str],
    reference: int,
    rows: Sequence[Rows],
    limits: Limits,
    convention: str = DEFAULT_CONVENTION,
) -> Questions:
    """What the page knows of the questions of one data set's runs.

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
    score = facts.headline(runs[0])
    ids = _question_ids(runs)
    detailed_ids = ids[: limits.questions]
    of_runs = _questions_of_runs(runs, labels, rows, _long_texts(runs, set(detailed_ids)))
    listed = compress_json(_question_list(of_runs, ids, score))
    answer_bytes = limits.size - len(listed)
    answers = _Answers(of_runs, convention)
    length = _longest_that_fits(answers, detailed_ids, answer_bytes)
    searches = Searches(limits.graphs)
    parts = _Parts(answer_bytes)
    parts.add_answers(answers.parts(detailed_ids, length, searches))
    notes = _missing_rows(rows)
    notes += _missing_details(parts.starts[-1], len(ids), limits, length)
    notes += searches.notes()
    notes += _cost_notes(runs, convention)
    head = QuestionsHead(
        name=runs[0].config.dataset.name,
        score=score,
        methods=list(map(_page_method, of_runs)),
        reference=reference,
        count=len(ids),
        starts=parts.starts,
    )
    return Questions(head, {"list": listed, **parts.blocks, **_graph_blocks(searches)}, notes)


def _questions_of_runs(
    runs: Sequence[StoredRun],
    labels: Sequence[str],
    rows: Sequence[Rows],
    long_texts: Mapping[str, _LongText],
) -> list[_RunQuestions]:
    """The records of each run together with where their texts are found.

    Args:
        runs: The runs.
        labels: Their methods' names.
        rows: The data set's rows as each run read them.
        long_texts: The long texts that all runs showed, by checksum.
    """
    found = []
    for run, label, run_rows in zip(runs, labels, rows, strict=True):
        records = RecordsByQuestion(run.records_with_texts)
        found.append(_RunQuestions(run, label, records, run_rows, long_texts))
    return found


def _graph_blocks(searches: Searches) -> dict[str, str]:
    """The drawn graphs by the names of their blocks: "graph-0", "graph-1", ..."""
    return {f"graph-{number}": graph for number, graph in enumerate(searches.graphs)}


class _Parts:
    """The blocks "part-0", "part-1", ... of answers, as many as fit.

    Attributes:
        blocks: Name -> compressed JSON.
        starts: The first question of each part, and at the end how many questions the parts hold:
            [0, 40, 75] for parts of 40 and 35.
    """

    def __init__(self, size: int) -> None:
        """Start without a part; `size` is how many bytes all parts may take."""
        self._bytes_left = size
        self.blocks: dict[str, str] = {}
        self.starts = [0]

    def add_answers(self, parts: Iterable[_Part]) -> None:
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
    ids: dict[str, None] = {}
    for run in runs:
        for record in run.records:
            ids[record.question_id] = None
    return list(ids)


def _long_texts(runs: Sequence[StoredRun], ids: set[str]) -> dict[str, _LongText]:
    """Checksum -> start and length of each long text that runs showed to these questions.

    Only one whole text is in memory at a time.
    """
    found = {}
    for run in runs:
        detailed = (record for record in run.records_with_texts if record.question_id in ids)
        for key, text in run.stream_texts(detailed):
            found[key] = _LongText(text[: LENGTHS[0].text], len(text))
    return found


def _page_method(of_run: _RunQuestions) -> PageMethod:
    """What the page says about the method of a run."""
    return PageMethod(
        label=of_run.label,
        model=facts.model_name(of_run.run),
        run=of_run.run.name,
        upper_bound=facts.is_upper_bound(of_run.run),
    )


def _missing_rows(rows: Sequence[Rows]) -> list[str]:
    """One sentence on why the page has no gold answers, questions and texts; [] where it has
    them."""
    for run_rows in rows:
        if run_rows.problem:
            return [f"No gold answers, questions and shown texts: {run_rows.problem}."]
    return []


def _missing_details(detailed: int, count: int, limits: Limits, length: Length) -> list[str]:
    """Sentences on questions without details, and on what is cut; [] where the page holds all.

    Args:
        detailed: The number of questions with details.
        count: The number of all questions.
        limits: What the page holds.
        length: How much of an answer the page holds.
    """
    notes = []
    if detailed < count:
        reason = "so that the page stays small"
        if detailed == limits.questions:
            reason = "--questions"
        notes.append(f"Details of {detailed} of {count} questions ({reason}); all can be searched.")
    if detailed and length != LENGTHS[0]:
        notes.append(
            f"So that the page stays small, texts are cut at {length.text} characters, and at most "
            f"{length.shown} pieces and {length.steps} steps of an answer are shown; harness trace "
            "RUN QUESTION_ID shows all."
        )
    return notes


def _cost_notes(runs: Sequence[StoredRun], convention: str) -> list[str]:
    """Sentences on what is not known of the FLOPs of steps under the convention, each once."""
    notes: dict[str, None] = {}
    for run in runs:
        notes.update(
            dict.fromkeys(
                costs.notes_on_steps_without_convention(run.records_with_texts, convention)
            )
        )
    return list(notes)


def _longest_that_fits(answers: _Answers, ids: Sequence[str], size: int) -> Length:
    """The longest of LENGTHS at which the answers fit, judged by up to 24 of them.

    Args:
        answers: The answers.
        ids: The ids of all questions that get details.
        size: Bytes that all answers may take.
    """
    sample = ids
    if len(ids) > _SAMPLE_SIZE:
        sample = [ids[i * len(ids) // _SAMPLE_SIZE] for i in range(_SAMPLE_SIZE)]
    for length in LENGTHS[:-1]:
        need = sum(len(compress_json(part)) for part in answers.parts(sample, length))
        if need * len(ids) <= 0.95 * size * len(sample):
            return length
    return LENGTHS[-1]


def _question_list(
    of_runs: Sequence[_RunQuestions], ids: Sequence[str], score: str
) -> dict[str, object]:
    """The block "list": questions, gold answers, options, predictions and scores of all questions.

        {"ids": ["q1"], "texts": ["Who?"], "gold": [["Ann"]], "options": None,
         "predictions": [["Ann"], ["Bob"]], "values": [[1.0], [0.0]], "failed": [[], []]}

    The last three have one list a run.

    Args:
        of_runs: The runs.
        ids: The ids of all questions.
        score: The name of the score of "values".
    """
    texts = []
    gold = []
    options = []
    for question_id in ids:
        found = _question_texts(_example(of_runs, question_id))
        texts.append(found.question)
        gold.append(found.gold)
        options.append(found.options)
    longest = max(60, _LIST_CHARACTERS // (len(ids) * len(of_runs)))
    longest = min(LENGTHS[0].text, longest)
    predictions = []
    values = []
    failed = []
    for of_run in of_runs:
        predictions.append(_predictions(of_run.run, ids, longest))
        values.append(_values(of_run.run, ids, score))
        failed.append(_failed_places(of_run.run, ids))
    return {
        "ids": list(ids),
        "texts": _none_if_unknown(texts),
        "gold": _none_if_unknown(gold),
        "options": _none_if_unknown(options),
        "predictions": predictions,
        "values": values,
        "failed": failed,
    }


def _none_if_unknown(column: list[_T]) -> list[_T] | None:
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


def _example(of_runs: Sequence[_RunQuestions], question_id: str) -> Example | None:
    """The question as the rows of the first run hold it that has it; None where no run has."""
    for of_run in of_runs:
        example = of_run.rows.examples.get(question_id)
        if example is not None:
            return example
    return None


def _question_texts(example: Example | None) -> _QuestionTexts:
    """Question, gold answers and options, cut to what the page shows; each None without an
    example."""
    if example is None:
        return _QuestionTexts()
    return _QuestionTexts(
        question=cut_text(example.question.text, _QUESTION_CHARACTERS),
        gold=_cut_golds(example.gold.answers[:_MOST_GOLD]),
        options=_cut_golds(example.question.options or ()) or None,
    )


def _cut_golds(texts: Sequence[str]) -> list[str]:
    """Each of these answers or options, cut to 300 characters."""
    return [cut_text(text, _GOLD_CHARACTERS) for text in texts]


def _predictions(run: StoredRun, ids: Sequence[str], longest: int) -> list[str | None]:
    """The answer of a run to each question, in the order of `ids`; None where it has none.

    Args:
        run: The run.
        ids: The questions.
        longest: Characters to which answers are cut.
    """
    answers = {}
    for record in run.records_with_texts:
        answers[record.question_id] = cut_text(record.prediction, longest)
    return list(map(answers.get, ids))


def _values(run: StoredRun, ids: Sequence[str], score: str) -> list[float | None]:
    """The score of each question, in the order of `ids`; None where the run has none.

    Args:
        run: The run.
        ids: The questions.
        score: The name of the score.
    """
    if score not in facts.score_names(run):
        return [None] * len(ids)
    values = facts.scored(run, score).by_question()
    return [_rounded_or_none(values.get(question_id), 5) for question_id in ids]


def _failed_places(run: StoredRun, ids: Sequence[str]) -> list[int]:
    """The places in `ids` of the questions that failed."""
    failed = failed_ids(run)
    return [place for place, question_id in enumerate(ids) if question_id in failed]


def _answer_json(
    record: StoredRecord,
    of_run: _RunQuestions,
    length: Length,
    convention: str,
    replay: Replay | None,
) -> _Answer:
    """A record as an answer of the page, without what is empty.

        -> {"prediction": "Ann", "scores": {"f1": 1.0}, "shown": [...], "shown_total": 3, ...}

    Args:
        record: The record.
        of_run: Its run.
        length: How much of it the page holds.
        convention: How FLOPs are counted.
        replay: What plays its search; None where nothing can be played.
    """
    example = of_run.rows.examples.get(record.question_id)
    pieces = record.shown[: length.shown]
    shown = [_piece_json(piece, example, of_run, length.text) for piece in pieces]
    first_steps = search_steps(record.steps)[: length.steps]
    steps = [_step_json(step, of_run, length.step, convention) for step in first_steps]
    replay_json = None
    if replay is not None:
        replay_json = replay.as_json()
        moves = replay.steps[: len(steps)]
        steps = [{**step, **move} for step, move in zip(steps, moves, strict=True)]
    # However short the page has to be, the prediction keeps its longest form: it is what is read.
    prediction = cut_text(record.prediction, LENGTHS[0].text)
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
    """The scores with so many decimals; one that is no number, as null in a record, is left out."""
    found = {}
    for name, value in scores.items():
        if isinstance(value, int | float):
            found[name] = round(value, digits)
    return found


def _error_text(error: Mapping[str, str] | None) -> str | None:
    """An error in one line, its message cut: "TimeoutError: the server did not answer"; None for no
    error."""
    if not error:
        return None
    return f"{error['type']}: {cut_text(error['message'], LENGTHS[0].text)}"


def _piece_json(
    piece: StoredPiece, example: Example | None, of_run: _RunQuestions, longest: int
) -> dict[str, object]:
    """A piece of what the reader saw, as JSON: {"where": "d1 20–80", "text": "...", "evidence":
    true}.

    Args:
        piece: The piece as the record holds it.
        example: The question, which says whether it overlaps a supporting part; None if unknown.
        of_run: The run.
        longest: Characters to which its text is cut.
    """
    supporting = piece["kind"] == "span" and evidence(piece, example) == "yes"
    return without_empty(where=_where(piece), text=of_run.text(piece, longest), evidence=supporting)


def _where(piece: StoredPiece) -> str:
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
    step: SearchStep, of_run: _RunQuestions, longest: int, convention: str
) -> dict[str, object]:
    """A step of a search as JSON, without what is empty.

    "text" is the method's note on the step, else the start of the text that it showed; "note" says
    whether it is a note.

    Args:
        step: The step.
        of_run: Its run.
        longest: Characters to which its text is cut.
        convention: How FLOPs are counted.
    """
    text = cut_text(step.note, longest)
    if not text and step.shown:
        text = of_run.text(step.shown, longest) or ""
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
    """The value with so many decimals; None stays None."""
    if value is None:
        return None
    return round(value, digits)
