"""The stored search of one question as text, which `harness trace` prints: a tree where its graph
is in the cache.

step            node  level  p_yes  attention  similarity  tokens  TFLOPs   edge  evidence  text
0 start           31      3  0.112                             23   0.512         source    ...
├─ 1 visit        12      2  0.204     0.0310      0.0402      31   0.548  0.310  source    ...
│  └─ 2 visit      4      1  0.871     0.0220      0.0511     118   0.660  0.402  yes       ...
what a later stop would have seen
3 study           13      2  0.902     0.0109      0.0377      29   0.691  0.112  no        ...

A node stands under the earlier step that showed its predecessor of the largest edge weight
(search_moves.py); `edge` is that weight. `evidence`: the shown span overlaps a supporting part
(yes, no), the text was written from one that does (source), or it is unknown (-). Steps of a search
without a graph are a flat table.
"""

from dataclasses import dataclass, replace
from typing import Any

from harness.cost.flops import DEFAULT
from harness.errors import UnknownName, UserError, printable
from harness.storage.run_folder import StoredRun
from reports.costs import TERA, check_convention, full_only_notes, probe_share, step_flops
from reports.evidence import UNKNOWN, evidence
from reports.facts import headline
from reports.gold_rows import Rows, read_rows
from reports.search_graph import Graph, read_graph
from reports.search_moves import LATER, Move, forest, trace_moves

_STEP_WIDTH = 60  # characters of a step's text; JSON has all of it
_PIECE_WIDTH = 140  # of a line of a shown piece


@dataclass(frozen=True)
class Search:
    """One record with all that is known of its search.

    moves, evidence: of each step, evidence as in reports/evidence.py; problem: why there is no
    graph; notes: sentences on what is not known.
    """

    stored: StoredRun
    record: dict[str, Any]
    rows: Rows
    graph: Graph | None
    moves: list[Move]
    evidence: list[str]
    problem: str | None
    notes: list[str]
    convention: str = DEFAULT

    def text(self, move: Move) -> str:
        """What a step showed, its note in front; where its text is not at hand, the document and
        place of the span."""
        step, shown = move.step, move.step["shown"] or {}
        text = (self.rows.text(shown) or "") if shown else ""
        if not text and self.graph is not None and step["node"] is not None:
            text = self.graph.text[step["node"]]
        if not text and shown.get("document_id") and not step["note"]:
            text = f"{shown['document_id']} [{shown['start']}:{shown['end']}]"
        return f"({step['note']}) {text}" if step["note"] and text else step["note"] or text


def search_of(stored: StoredRun, question: str, data: str | None = None) -> Search:
    """The search of the question with that id; data: the data set's rows, instead of what the run
    holds.

    Raises UnknownName for another question, UserError for rows that cannot be read.
    """
    by_id = {record["question_id"]: record for record in stored.records}
    if question not in by_id:
        raise UnknownName("question", question, by_id, f"harness trace {stored.path}")
    record = by_id[question]
    result = read_graph(stored, record, {})
    loaded = read_rows(replace(stored, records=[record]), data=data)
    rows = replace(loaded, texts=stored.texts([record]))
    if data is not None and rows.problem:
        raise UserError(rows.problem)
    example = rows.examples.get(question)
    marks = [evidence(step["shown"], example) for step in record["steps"]]
    notes = [f"{result.problem} So the steps stand in their order only."] if result.problem else []
    if result.graph is not None and UNKNOWN in marks:
        problem = "the data set marks nothing as supporting this question"
        if rows.problem or example is None:
            problem = (
                f"{rows.problem} (--data names the rows)"
                if rows.problem
                else "the question is not in the data set"
            )
        notes.append(f"It is unknown which steps showed evidence: {problem}.")
    moves = trace_moves(record["steps"], result.graph)
    return Search(stored, record, rows, result.graph, moves, marks, result.problem, notes)


def question_list(stored: StoredRun) -> list[str]:
    """A line a question, failed ones first, then by the first score: what `harness trace RUN`
    prints."""
    name = headline(stored)
    ranked = sorted(
        stored.records, key=lambda r: (r["error"] is None, r["scores"].get(name) or 0.0)
    )
    lines = [
        f"{len(ranked)} questions, failed ones first, then by {name}; harness trace RUN QUESTION_ID"
    ]
    for record in ranked:
        error, value = record["error"], record["scores"].get(name)
        score = error["type"] if error else "-" if value is None else f"{100 * value:.1f}"
        texts = (
            _shortened(record.get("question") or "", _STEP_WIDTH),
            _shortened(record["prediction"], _STEP_WIDTH),
        )
        lines.append(
            "  ".join(
                [f"{printable(score):>6}", printable(record["question_id"]), *filter(None, texts)]
            )
        )
    return lines


def trace_lines(search: Search) -> list[str]:
    """The lines of `harness trace RUN QUESTION_ID`: question, steps or texts shown, notes, costs
    and scores."""
    record, convention = search.record, search.convention
    lines = [
        (
            f"question   {printable(record['question_id'])} on "
            f"{printable(', '.join(record['document_ids']))}"
        )
    ]
    if (example := search.rows.examples.get(record["question_id"])) is not None:
        options = example.question.options or ()
        lines.append(f"           {_one_line(example.question.text)}")
        lines += [
            f"{'options' if not n else '':<10} ({chr(65 + n)}) {_one_line(o)}"
            for n, o in enumerate(options)
        ]
        lines.append(f"gold       {_one_line(' | '.join(example.gold.answers))}")
    lines.append(f"answer     {printable(record['prediction'])}")
    if (final := (record.get("notes") or {}).get("scored")) is not None:
        lines.append(f"scored     {printable(final)}")
    if search.moves:
        lines += step_lines(search)
    else:  # of a method without a search, such as bm25, what the reader saw
        shown = record["shown"]
        places = [
            f"{p['document_id']} [{p['start']}:{p['end']}]" if p["document_id"] else p["kind"]
            for p in shown
        ]
        width = max(map(len, places), default=0)
        for n, (place, piece) in enumerate(zip(places, shown, strict=True)):
            text = _shortened(search.rows.text(piece) or "", _PIECE_WIDTH - width)
            lines.append(f"{'' if n else 'shown':<10} {printable(place).ljust(width)}  {text}")
        lines += [] if shown else ["shown      nothing"]
    lines += [*search.notes, *search.stored.notes]
    if share := probe_share(record["usage"].get("search", {}), convention):
        lines.append(f"probes     {share} of the search")
    if search.moves:
        check_convention(convention)
        lines += [
            f"TFLOPs     under the convention {convention}",
            *full_only_notes([record], convention),
        ]
    if record["stop_reason"]:
        lines.append(f"stopped    {printable(record['stop_reason'])}")
    if record["error"]:
        error = record["error"]
        lines.append(f"failed     {printable(error['type'])}: {printable(error['message'])}")
    scores = [f"{name} {100 * value:.1f}" for name, value in record["scores"].items()]
    lines += [f"{'scores' if not n else '':<10} {line}" for n, line in enumerate(scores)]
    return lines


def _one_line(text: str) -> str:
    return printable(" ".join(text.split()))


def step_lines(search: Search) -> list[str]:
    """The lines of the table of steps, with a column for each part of a score that any step has.

    Over a graph each stands under the one it came from, those behind the stop last; else they stand
    in their order.
    """
    moves, tree = search.moves, search.graph is not None
    scores = [score for move in moves for score in move.step["scores"].items()]
    with_decimals = {name for name, value in scores if value != value // 1}
    parts = {name: ".4f" if name in with_decimals else ".0f" for name, _ in scores}
    answers = ["answer"] if any(move.step.get("answer") is not None for move in moves) else []
    extra = ["edge", "evidence"] if tree else []
    head = [
        *(["step"] if tree else ["#", "action"]),
        "node",
        "level",
        "p_yes",
        *parts,
        "tokens",
        "TFLOPs",
    ]
    head += [*extra, *answers, "text"]
    groups = [[m for m in moves if not m.later], [m for m in moves if m.later]] if tree else [moves]
    rows = []
    for group in groups:
        numbers = {move.number for move in group}
        for mark, move in forest(group) if tree else [("", move) for move in group]:
            step, action = move.step, printable(move.step["action"])
            under = ""
            if move.parent is not None and move.parent not in numbers:
                under = f" (under {move.parent})"
            flops = step_flops(step["flops"], search.convention)
            cells = [
                *([f"{mark}{move.number} {action}{under}"] if tree else [str(move.number), action]),
                _formatted(step["node"], "d"),
                _formatted(step["level"], "d"),
                _formatted(step["p_yes"], ".3f"),
                *(_formatted(step["scores"].get(part), form) for part, form in parts.items()),
                str(step["tokens"]),
                "" if flops is None else f"{flops / TERA:.3g}",
                *([_formatted(move.edge, ".3f"), search.evidence[move.number]] if tree else []),
                *([_shortened(step.get("answer") or "", 24)] if answers else []),
                _shortened(search.text(move), _STEP_WIDTH),
            ]
            rows.append((move.later, cells))
    table = [head, *(row for _, row in rows)]
    widths = [max(len(row[i]) for row in table) for i in range(len(head))]
    words = [
        name in ("step", "action", "evidence", "answer", "text") for name in head
    ]  # to the left, others right
    lines = []
    for cells in table:
        aligned = [
            c.ljust(w) if left else c.rjust(w)
            for c, w, left in zip(cells, widths, words, strict=True)
        ]
        lines.append("  ".join(aligned).rstrip())
    first = next(
        (i for i, (later, _) in enumerate(rows, 1) if later), None
    )  # behind the search's stop
    return lines if first is None else [*lines[:first], LATER, *lines[first:]]


def _formatted(value: Any, format_spec: str) -> str:
    return "" if value is None else format(value, format_spec)


def _shortened(text: str, longest: int) -> str:
    text = _one_line(text)
    return text if len(text) <= longest else text[: longest - 3] + "..."


def search_json(search: Search) -> dict[str, Any]:
    """The search as JSON values: the record's steps, each with its parent (a step's number), edge
    and evidence.

    later: whether the step lies behind the stop, recorded for other stop rules.
    """
    record, known = search.record, dict[str, Any]()
    if (example := search.rows.examples.get(record["question_id"])) is not None:
        question = example.question
        known = {
            "question": question.text,
            "options": question.options,
            "gold": list(example.gold.answers),
        }
    return {
        "run": str(search.stored.path),
        "question_id": record["question_id"],
        "document_ids": record["document_ids"],
        **known,
        "graph": search.graph is not None,
        "notes": [*search.notes, *search.stored.notes],
        "steps": [
            {
                "step": m.number,
                "parent": m.parent,
                "edge": m.edge,
                "later": m.later,
                "evidence": seen,
                **m.step,
            }
            for m, seen in zip(search.moves, search.evidence, strict=True)
        ],
        **{name: record[name] for name in ("stop_reason", "error", "prediction", "scores")},
    }
