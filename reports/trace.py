"""The stored search of one question as text, which `harness trace` prints: a tree where its graph
is in the cache.

    step            node  level  p_yes  attention  similarity  tokens  TFLOPs   edge  evidence  text
    0 start           31      3  0.112                             23   0.512         source    ...
    ├─ 1 visit        12      2  0.204     0.0310      0.0402      31   0.548  0.310  source    ...
    │  └─ 2 visit      4      1  0.871     0.0220      0.0511     118   0.660  0.402  yes       ...
    what a later stop would have seen
    3 study           13      2  0.902     0.0109      0.0377      29   0.691  0.112  no        ...

`edge` is the weight of the edge that led to a step (search_steps.py), `evidence` says whether it
showed a supporting part (evidence.py). Steps of a search without a graph are a flat table.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from harness.cost.flops import DEFAULT_CONVENTION
from harness.errors import UnknownName, UserError, printable
from harness.storage.records import StoredPiece, StoredRecord
from harness.storage.run_folder import StoredRun
from harness.types import Example
from reports.costs import check_convention, notes_on_steps_without_convention, probe_share
from reports.evidence import UNKNOWN_EVIDENCE, Evidence, evidence_of_piece
from reports.facts import headline_score
from reports.gold_rows import QuestionRows, read_rows
from reports.search_graph import Graph, GraphsByIndexKey, read_graph
from reports.search_steps import LATER_STEPS_HEADING, SearchStep, TreeLine, as_tree, search_steps

_MAX_STEP_CHARACTERS = 60
"""Characters of a step's text; JSON has all of it."""
_MAX_PIECE_CHARACTERS = 140
"""Characters of the line of a shown text, with its place."""
_MAX_ANSWER_CHARACTERS = 24
_HEADING_CHARACTERS = 10


@dataclass(frozen=True)
class Search:
    """One record with all that is known of its search.

    Args:
        stored: The run.
        record: The record.
        rows: The rows of the data set, as far as they are at hand.
        graph: The graph that was searched, or None.
        steps: The steps of the search, in the order of the record.
        evidence: Of each step, what it showed: "yes" (evidence), "source" (text written from it),
            "no", "-" where that is unknown, "" for nothing.
        problem: Why there is no graph, or None.
        notes: Sentences on what is not known.
        convention: How FLOPs are counted.
    """

    stored: StoredRun
    record: StoredRecord
    rows: QuestionRows
    graph: Graph | None
    steps: list[SearchStep]
    evidence: list[Evidence]
    problem: str | None
    notes: list[str]
    convention: str = DEFAULT_CONVENTION

    @property
    def example(self) -> Example | None:
        """The question with its right answers; None where the rows are not at hand."""
        return self.rows.examples.get(self.record.question_id)

    def text(self, step: SearchStep) -> str:
        """What the table of steps says of a step: the text that it showed, behind the method's note
        if it has one, "(note) text".

        Where the text is not at hand, the place of the span, "d1 [20:80]", unless there is a note.
        """
        text = self._shown_text(step)
        if not step.note:
            return text
        if not text:
            return step.note
        return f"({step.note}) {text}"

    def _shown_text(self, step: SearchStep) -> str:
        """The text that a step showed; else the text of its node in the graph; else, for a step
        without a note, the place of the span; "" where none is known."""
        text = ""
        if step.shown:
            text = self.rows.text(step.shown) or ""
        if not text and self.graph is not None and step.node is not None:
            text = self.graph.texts[step.node]
        if text or step.note:
            return text
        if step.shown is not None and step.shown.get("document_id"):
            return _span_text(step.shown)
        return ""


def _span_text(piece: StoredPiece) -> str:
    """The place of a piece in its document: "d1 [20:80]"."""
    return f"{piece['document_id']} [{piece['start']}:{piece['end']}]"


def read_search(stored: StoredRun, question: str, data: str | None = None) -> Search:
    """Read the search of one question from a run: its steps, their graph and their evidence.

    What cannot be read (a damaged graph, rows that are not there) is said in `notes`.

    Args:
        stored: The run.
        question: The id of the question.
        data: A file with the rows of the data set; None for the place that the run names.

    Raises:
        UnknownName: The run has no such question.
        UserError: The rows cannot be read.
    """
    records_by_id = {record.question_id: record for record in stored.records}
    if question not in records_by_id:
        raise UnknownName("question", question, records_by_id, f"harness trace {stored.path}")
    record = records_by_id[question]
    graphs_read_before: GraphsByIndexKey = {}  # none
    graph_result = read_graph(stored, record, graphs_read_before)
    run_of_one_question = replace(stored, records=[record])
    rows = read_rows(run_of_one_question, data=data)
    rows = replace(rows, texts=stored.texts([record]))
    if data is not None and rows.problem:
        raise UserError(rows.problem)
    example = rows.examples.get(question)
    evidence_of_steps = [evidence_of_piece(step["shown"], example) for step in record.steps]
    notes = []
    if graph_result.problem:
        notes.append(f"{graph_result.problem} So the steps stand in their order only.")
    if graph_result.graph is not None and UNKNOWN_EVIDENCE in evidence_of_steps:
        why = _why_evidence_is_unknown(rows, example)
        notes.append(f"It is unknown which steps showed evidence: {why}.")
    return Search(
        stored=stored,
        record=record,
        rows=rows,
        graph=graph_result.graph,
        steps=search_steps(record.steps, graph_result.graph),
        evidence=evidence_of_steps,
        problem=graph_result.problem,
        notes=notes,
    )


def _why_evidence_is_unknown(rows: QuestionRows, example: Example | None) -> str:
    """Why it is unknown which steps showed evidence, as the end of a sentence.

    Args:
        rows: The rows of the data set, as far as they are at hand.
        example: The question in these rows; None where it is not there.
    """
    if rows.problem:
        return f"{rows.problem} (--data names the rows)"
    if example is None:
        return "the question is not in the data set"
    return "the data set marks nothing as supporting this question"


def question_list(stored: StoredRun) -> list[str]:
    """What `harness trace RUN` prints: a head, then a line a question, failed ones first, then by
    the headline score from the lowest."""
    score_name = headline_score(stored)
    records = sorted(stored.records, key=partial(_failed_first, score_name=score_name))
    heading = (
        f"{len(records)} questions, failed ones first, then by {score_name}; "
        "harness trace RUN QUESTION_ID"
    )
    return [heading, *(_question_line(record, score_name) for record in records)]


def _failed_first(record: StoredRecord, score_name: str) -> tuple[bool, float]:
    """A sort key of a record: failed questions come first, then low scores; no score counts 0."""
    return record.error is None, record.scores.get(score_name) or 0.0


def _question_line(record: StoredRecord, score_name: str) -> str:
    """A question on one line: its score or error, its id, its text and its answer."""
    question = _cut_line(record.question or "", _MAX_STEP_CHARACTERS)
    answer = _cut_line(record.prediction, _MAX_STEP_CHARACTERS)
    outcome = printable(_score_or_error(record, score_name))
    columns = [f"{outcome:>6}", printable(record.question_id)]
    if question:
        columns.append(question)
    if answer:
        columns.append(answer)
    return "  ".join(columns)


def _score_or_error(record: StoredRecord, score_name: str) -> str:
    """The score in percent, "-" without one, or the type of the error."""
    if record.error:
        return str(record.error["type"])
    value = record.scores.get(score_name)
    if value is None:
        return "-"
    return f"{100 * value:.1f}"


def trace_lines(search: Search) -> list[str]:
    """The lines of `harness trace RUN QUESTION_ID`: question, steps or texts shown, notes, costs
    and scores."""
    lines = _question_lines(search)
    if search.steps:
        lines += step_lines(search)
    else:  # of a method without a search, such as bm25, what the reader saw
        lines += _shown_lines(search)
    lines += [*search.notes, *search.stored.notes]
    lines += _cost_lines(search)
    lines += _outcome_lines(search.record)
    return lines


def _with_heading(heading: str, line: str) -> str:
    """A line behind a heading of ten characters that says what it is: "gold       Rome"."""
    return f"{heading:<{_HEADING_CHARACTERS}} {line}"


def _with_headings(heading: str, lines: Sequence[str]) -> list[str]:
    """The lines, the first behind a heading, the others behind as much space."""
    if not lines:
        return []
    first_line, *other_lines = lines
    first_with_heading = _with_heading(heading, first_line)
    return [first_with_heading, *(_with_heading("", line) for line in other_lines)]


def _question_lines(search: Search) -> list[str]:
    """The lines on the question and its options, the right answers, and the answer."""
    record = search.record
    example = search.example
    documents = printable(", ".join(record.document_ids))
    lines = [_with_heading("question", f"{printable(record.question_id)} on {documents}")]
    if example is not None:
        lines.append(_with_heading("", _one_line(example.question.text)))
        options = []
        for number, option in enumerate(example.question.options or ()):
            options.append(f"({chr(65 + number)}) {_one_line(option)}")
        lines += _with_headings("options", options)
        lines.append(_with_heading("gold", _one_line(" | ".join(example.gold.answers))))
    lines.append(_with_heading("answer", printable(record.prediction)))
    if "scored" in record.notes:
        lines.append(_with_heading("scored", printable(record.scored_text)))
    return lines


def _shown_lines(search: Search) -> list[str]:
    """A line for each text that the reader saw, behind its place; "nothing" where it saw none."""
    shown = search.record.shown
    if not shown:
        return [_with_heading("shown", "nothing")]
    places = [_span_or_kind(piece) for piece in shown]
    width = max(len(place) for place in places)
    lines = []
    for place, piece in zip(places, shown, strict=True):
        text = _cut_line(search.rows.text(piece) or "", _MAX_PIECE_CHARACTERS - width)
        lines.append(f"{printable(place).ljust(width)}  {text}")
    return _with_headings("shown", lines)


def _span_or_kind(piece: StoredPiece) -> str:
    """The place of a piece in its document, "d1 [20:80]"; its kind where it is of no document."""
    if piece["document_id"]:
        return _span_text(piece)
    return str(piece["kind"])


def _cost_lines(search: Search) -> list[str]:
    """A line on what part of the search probes took, and one on how FLOPs are counted; [] where
    there are neither probes nor steps."""
    record = search.record
    convention = search.convention
    lines = []
    share = probe_share(record.usage.get("search", {}), convention)
    if share:
        lines.append(_with_heading("probes", f"{share} of the search"))
    if search.steps:
        check_convention(convention)
        lines.append(_with_heading("TFLOPs", f"under the convention {convention}"))
        lines += notes_on_steps_without_convention([record], convention)
    return lines


def _outcome_lines(record: StoredRecord) -> list[str]:
    """The lines on why the search stopped, why the question failed, and its scores."""
    lines = []
    if record.stop_reason:
        lines.append(_with_heading("stopped", printable(record.stop_reason)))
    if record.error:
        error = f"{printable(record.error['type'])}: {printable(record.error['message'])}"
        lines.append(_with_heading("failed", error))
    scores = [f"{name} {100 * value:.1f}" for name, value in record.scores.items()]
    return lines + _with_headings("scores", scores)


def _one_line(text: str) -> str:
    """The words of a text on one line, without control characters."""
    return printable(" ".join(text.split()))


@dataclass(frozen=True)
class _TextColumn:
    """A column of the table of steps: its head, and what gives the text of a step's cell."""

    head: str
    cell: Callable[[SearchStep], str]
    is_text: bool = False
    """Whether it is aligned to the left, as words are."""

    def padded(self, steps: Sequence[SearchStep]) -> list[str]:
        """The head and the cells of the steps, all of one width."""
        cells = [self.head, *map(self.cell, steps)]
        width = max(map(len, cells))
        if self.is_text:
            return [cell.ljust(width) for cell in cells]
        return [cell.rjust(width) for cell in cells]


def step_lines(search: Search) -> list[str]:
    """The lines of the table of steps, with a column for each part of a score that any step has.

    Over a graph each stands under the one it came from, those after the stop last; else they stand
    in their order.
    """
    lines = _lines_in_order(search)
    steps = [line.step for line in lines]
    branches = {line.step.number: line.branch for line in lines}
    columns = [column.padded(steps) for column in _step_columns(search, branches)]
    table = ["  ".join(cells).rstrip() for cells in zip(*columns, strict=True)]
    for line_number, step in enumerate(steps, 1):  # the first line names the columns
        if step.is_later:
            return [*table[:line_number], LATER_STEPS_HEADING, *table[line_number:]]
    return table


def _step_columns(search: Search, branches: Mapping[int, str]) -> list[_TextColumn]:
    """All columns of the table of steps, from the left.

    Args:
        search: The search.
        branches: As of `_first_columns`.
    """
    return [
        *_first_columns(search, branches),
        _TextColumn("node", lambda step: _formatted(step.node, "d")),
        _TextColumn("level", lambda step: _formatted(step.level, "d")),
        _TextColumn("p_yes", lambda step: _formatted(step.p_yes, ".3f")),
        *_score_columns(search.steps),
        _TextColumn("tokens", lambda step: str(step.tokens)),
        _TextColumn("TFLOPs", lambda step: _formatted(step.tflops(search.convention), ".3g")),
        *_last_columns(search),
    ]


def _lines_in_order(search: Search) -> list[TreeLine]:
    """The steps in the order of the table: over a graph as a tree, those after the stop as another
    tree behind it; else as the record has them."""
    if search.graph is None:
        return [TreeLine("", step) for step in search.steps]
    until_stop = []
    later = []
    for step in search.steps:
        if step.is_later:
            later.append(step)
        else:
            until_stop.append(step)
    return [*as_tree(until_stop), *as_tree(later)]


def _first_columns(search: Search, branches: Mapping[int, str]) -> list[_TextColumn]:
    """The columns at the left: the number of a step and what it did.

    Args:
        search: The search.
        branches: Number of a step -> the lines that draw its branch of the tree, over a graph.
    """
    if search.graph is None:
        return [
            _TextColumn("#", lambda step: str(step.number)),
            _TextColumn("action", lambda step: printable(step.action), is_text=True),
        ]

    def branch_and_action(step: SearchStep) -> str:
        """Branch, number and action of a step: "├─ 3 ask".

        Steps after the stop of the search are drawn as a tree of their own; a step there whose
        parent is in the first tree names it: "3 ask (under 1)".
        """
        text = f"{branches[step.number]}{step.number} {printable(step.action)}"
        if step.parent is None:
            return text
        parent_is_later = search.steps[step.parent].is_later
        if parent_is_later is not step.is_later:
            text += f" (under {step.parent})"
        return text

    return [_TextColumn("step", branch_and_action, is_text=True)]


def _score_columns(steps: Sequence[SearchStep]) -> list[_TextColumn]:
    """A column for each named score that any step has: "similarity" of {"similarity": 0.71}.

    Its numbers have no decimals where all of them are whole, else four.
    """
    formats: dict[str, str] = {}
    for step in steps:
        for name, value in step.scores.items():
            formats.setdefault(name, ".0f")
            is_whole = value == value // 1
            if not is_whole:
                formats[name] = ".4f"
    return [_score_column(name, number_format) for name, number_format in formats.items()]


def _score_column(name: str, number_format: str) -> _TextColumn:
    """The column of one part of a score, its numbers in a format such as ".4f"."""
    return _TextColumn(name, lambda step: _formatted(step.scores.get(name), number_format))


def _last_columns(search: Search) -> list[_TextColumn]:
    """The columns after the costs: edge and evidence where there is a graph, answers where any step
    has one, and the text."""
    columns = []
    if search.graph is not None:
        columns += [
            _TextColumn("edge", lambda step: _formatted(step.edge, ".3f")),
            _TextColumn("evidence", lambda step: search.evidence[step.number], is_text=True),
        ]

    def short_answer(step: SearchStep) -> str:
        """The answer of a step, cut to its column."""
        return _cut_line(step.answer or "", _MAX_ANSWER_CHARACTERS)

    def short_text(step: SearchStep) -> str:
        """What the table says of a step, cut to one line."""
        return _cut_line(search.text(step), _MAX_STEP_CHARACTERS)

    if any(step.answer is not None for step in search.steps):
        columns.append(_TextColumn("answer", short_answer, is_text=True))
    columns.append(_TextColumn("text", short_text, is_text=True))
    return columns


def _formatted(value: float | None, number_format: str) -> str:
    """A number in a format such as ".3f"; "" for None."""
    if value is None:
        return ""
    return format(value, number_format)


def _cut_line(text: str, max_characters: int) -> str:
    """A text on one line, cut to `max_characters` characters with "..." at its end."""
    text = _one_line(text)
    if len(text) <= max_characters:
        return text
    return text[: max_characters - 3] + "..."


def search_json(search: Search) -> dict[str, object]:
    """The search as JSON values, which `harness trace --json` prints.

        {"run": "...", "question_id": "q1", "document_ids": ["d1"], "question": "Who?", "options":
            null,
         "gold": ["Ann"], "graph": true, "notes": [], "steps": [...], "stop_reason": "accept",
         "error": null, "prediction": "Ann", "scores": {"f1": 1.0}}

    "question", "options" and "gold" are missing where the rows are not at hand.
    """
    record = search.record
    values: dict[str, object] = {
        "run": str(search.stored.path),
        "question_id": record.question_id,
        "document_ids": record.document_ids,
    }
    example = search.example
    if example is not None:
        values["question"] = example.question.text
        values["options"] = example.question.options
        values["gold"] = list(example.gold.answers)
    values["graph"] = search.graph is not None
    values["notes"] = [*search.notes, *search.stored.notes]
    steps_and_evidence = zip(search.steps, search.evidence, strict=True)
    values["steps"] = [_step_json(step, evidence) for step, evidence in steps_and_evidence]
    values["stop_reason"] = record.stop_reason
    values["error"] = record.error
    values["prediction"] = record.prediction
    values["scores"] = record.scores
    return values


def _step_json(step: SearchStep, evidence: str) -> Mapping[str, object]:
    """A step as JSON: number, parent, edge, whether it came after the stop, and evidence, then all
    that the record holds of it."""
    values_beside_record = {
        "step": step.number,
        "parent": step.parent,
        "edge": step.edge,
        "later": step.is_later,
        "evidence": evidence,
    }
    return {**values_beside_record, **step.stored}
