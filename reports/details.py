"""What the page knows of each question of a data set: a list to search in, and details that are
unpacked when read.

    questions(runs, ...) ─► Questions(head, blocks, notes)

    head      {"name", "score", "methods": [{"label", "model", "run", "upper_bound"}, ...], "reference": 1,
               "count", "starts": [0, 24, ..., 5000]}      "reference" is a place in "methods", "starts" the first
                                                           question of each part and how many have
                                                           details
    blocks    "list"      {"ids", "texts", "gold", "options", "predictions", "values", "failed"}
              "part-0"    [[answer or null, one a method], ...], one a question from starts[0] to starts[1] - 1
              "graph-0"   a drawn graph (reports/search_player.py)

    In the list "predictions" and "values" (the headline score, null where there is none) have one
    row a method, and
    "failed" the places of the questions that failed. An answer: {"prediction", "scores", "stop",
    "error", "truncated",
    "shown": [...], "shown_total", "steps": [...], "steps_total", "replay": {...}}, without what is
    empty.

Every question can be searched. Texts are cut, with their length behind, to the longest of LENGTHS
for which the data set stays within its share of the page; if the shortest is too long, the last
questions have no details.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.cost.flops import DEFAULT
from harness.storage.record_texts import POINTER
from harness.storage.run_folder import ByQuestion, StoredRun
from harness.types import Example
from reports import costs, facts
from reports.compressed_json import compress_json, cut_text, without_empty
from reports.evidence import evidence
from reports.gold_rows import Rows
from reports.search_player import Searches


@dataclass(frozen=True)
class Limits:
    """questions: at most so many with details, None for all; size, graphs: bytes of questions and
    of drawn graphs."""

    questions: int | None = None
    size: int = 26_000_000
    graphs: int = 3_000_000


@dataclass(frozen=True)
class Length:
    """How much of an answer is kept: characters of a text and of a step's text, pieces shown,
    steps."""

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
_LIST_CHARACTERS = 16_000_000  # characters of the list, which is unpacked when the page opens
_SAMPLE_SIZE = 24  # questions by which the length is chosen
_PART = 250_000  # bytes of JSON of a part: unpacked in a few milliseconds


@dataclass(frozen=True)
class Questions:
    """The parts of the page described above; notes are sentences on what is missing."""

    head: dict[str, Any]
    blocks: dict[str, str]
    notes: list[str]


@dataclass(frozen=True)
class _KnownTexts:
    """A run's questions; long: checksum -> (first characters, number of all) of the long texts that
    it showed."""

    rows: Rows
    long: Mapping[str, tuple[str, int]]

    def text(self, piece: Mapping[str, Any], longest: int) -> str | None:
        """The text of a piece of a record's `shown`, cut to `longest` characters; None where it is
        not at hand."""
        if (long_text := self.long.get(piece.get(POINTER) or "")) is not None:
            first_characters, size = long_text
            return cut_text(first_characters, longest, size)
        text = self.rows.text(piece)
        return None if text is None else cut_text(text, longest)


@dataclass(frozen=True)
class _Source:
    """The runs of one data set, for each its records by question id and its known texts;
    convention: of FLOPs."""

    runs: Sequence[StoredRun]
    records: Sequence[Mapping[str, dict[str, Any]]]
    known: Sequence[_KnownTexts]
    convention: str

    def parts(
        self, ids: Sequence[str], length: Length, searches: Searches | None = None
    ) -> Iterator[list[list[Any]]]:
        """Yield the answers to `ids`, [question][run], in parts of about _PART bytes; None where a
        run has no record.

        searches: adds their replays.
        """
        part: list[list[Any]] = []
        size = 0
        for question_id in ids:
            answers: list[dict[str, Any] | None] = []
            for run, records, texts in zip(self.runs, self.records, self.known, strict=True):
                answer = None
                if (record := records.get(question_id)) is not None:
                    answer = _answer_json(record, texts, length, self.convention)
                    steps = answer.get("steps", ())
                    if searches and (replay := searches.replay(run, record, texts.rows, steps)):
                        answer["replay"] = replay
                answers.append(answer)
            part.append(answers)
            size += len(json.dumps(answers))
            if size > _PART:
                yield part
                part, size = [], 0
        if part:
            yield part


def questions(
    runs: Sequence[StoredRun],
    labels: Sequence[str],
    reference: int,
    rows: Sequence[Rows],
    limits: Limits,
    convention: str = DEFAULT,
) -> Questions:
    """What the page knows of the questions of one data set's runs; labels: their methods' names;
    rows: of each run.

    reference: the place of one in `runs`; convention: how the FLOPs of steps are counted. Raises
    DataError for damaged texts of a run folder.
    """
    score = facts.headline(runs[0])
    ids = list(dict.fromkeys(record["question_id"] for run in runs for record in run.records))
    detailed_ids = ids[: limits.questions]
    in_detail, long = set(detailed_ids), dict[str, tuple[str, int]]()
    for run in runs:  # one text in memory at a time
        with_details = (r for r in run.whole_records if r["question_id"] in in_detail)
        texts = run.stream_texts(with_details)
        long.update((key, (text[: LENGTHS[0].text], len(text))) for key, text in texts)
    records = [ByQuestion(run.whole_records, dict) for run in runs]
    source = _Source(runs, records, [_KnownTexts(run_rows, long) for run_rows in rows], convention)
    listed = compress_json(_question_list(source, ids, score))
    searches, room = Searches(limits.graphs), limits.size - len(listed)
    length = _longest_that_fits(source, detailed_ids, room)
    starts, blocks = [0], {"list": listed}
    for part in source.parts(detailed_ids, length, searches):
        text = compress_json(part)
        room -= len(text)
        if room < 0:
            break
        blocks[f"part-{len(starts) - 1}"] = text
        starts.append(starts[-1] + len(part))
    detailed = starts[-1]
    methods = [
        {
            "label": label,
            "model": run.config["model"]["name"],
            "run": run.name,
            "upper_bound": facts.is_upper_bound(run),
        }
        for run, label in zip(runs, labels, strict=True)
    ]
    dataset = runs[0].config["dataset"]["name"]
    head = {"name": dataset, "score": score, "methods": methods, "reference": reference}
    head |= {"count": len(ids), "starts": starts}
    problems = [run_rows.problem for run_rows in rows if run_rows.problem]
    notes = [f"No gold answers, questions and shown texts: {problem}." for problem in problems[:1]]
    if detailed < len(ids):
        reason = "--questions" if detailed == limits.questions else "so that the page stays small"
        notes.append(
            f"Details of {detailed} of {len(ids)} questions ({reason}); all can be searched."
        )
    if detailed and length != LENGTHS[0]:
        kept = f"at most {length.shown} pieces and {length.steps} steps of an answer are shown"
        cut = f"texts are cut at {length.text} characters, and {kept}; harness trace RUN QUESTION_ID shows all"
        notes.append(f"So that the page stays small, {cut}.")
    notes += searches.notes()
    by_run = (costs.full_only_notes(run.whole_records, convention) for run in runs)
    notes += dict.fromkeys(note for run_notes in by_run for note in run_notes)
    blocks |= {f"graph-{i}": text for i, text in enumerate(searches.graphs)}
    return Questions(head, blocks, notes)


def _longest_that_fits(source: _Source, ids: Sequence[str], size: int) -> Length:
    """The longest of LENGTHS at which the answers to `ids` take at most `size` bytes, judged by a
    sample of them."""
    sample = ids
    if len(ids) > _SAMPLE_SIZE:
        sample = [ids[i * len(ids) // _SAMPLE_SIZE] for i in range(_SAMPLE_SIZE)]
    for length in LENGTHS[:-1]:
        need = sum(len(compress_json(part)) for part in source.parts(sample, length))
        if need * len(ids) <= 0.95 * size * len(sample):
            return length
    return LENGTHS[-1]


def _question_list(source: _Source, ids: Sequence[str], score: str) -> dict[str, Any]:
    """The block "list" of the module: texts, answers and values of `score` of all questions."""
    texts: list[str | None] = []
    gold: list[list[str] | None] = []
    options: list[list[str] | None] = []
    for question_id in ids:
        in_rows = (run_rows.rows.examples.get(question_id) for run_rows in source.known)
        example = next((example for example in in_rows if example is not None), None)
        texts.append(None if example is None else cut_text(example.question.text, 600))
        gold.append(
            None if example is None else [cut_text(a, 300) for a in example.gold.answers[:20]]
        )
        of_question = () if example is None else example.question.options or ()
        options.append([cut_text(option, 300) for option in of_question] or None)
    has_texts = any(text is not None for text in texts)
    longest = min(LENGTHS[0].text, max(60, _LIST_CHARACTERS // (len(ids) * len(source.runs))))
    answers: list[dict[str, str]] = []
    failed: list[set[str]] = []
    values: list[dict[str, float]] = []
    for run in source.runs:
        answers.append(
            {r["question_id"]: cut_text(r["prediction"], longest) for r in run.whole_records}
        )
        failed.append({r["question_id"] for r in run.records if r["error"] is not None})
        values.append({})
        if score in facts.score_names(run):
            scored = facts.scored(run, score)
            values[-1] = dict(zip(scored.ids, scored.values, strict=True))
    return {
        "ids": list(ids),
        "texts": texts if has_texts else None,
        "gold": gold if has_texts else None,
        "options": options if any(options) else None,
        "predictions": [[of_run.get(question_id) for question_id in ids] for of_run in answers],
        "values": [
            [None if (value := of_run.get(i)) is None else round(value, 5) for i in ids]
            for of_run in values
        ],
        "failed": [
            [i for i, question_id in enumerate(ids) if question_id in of_run] for of_run in failed
        ],
    }


def _answer_json(
    record: dict[str, Any], texts: _KnownTexts, length: Length, convention: str
) -> dict[str, Any]:
    """A record as an answer of the module, without what is empty; length: how much of it is
    kept."""
    shown, steps, error = record["shown"], record["steps"], record["error"]
    example = texts.rows.examples.get(record["question_id"])
    numbers = {
        name: value for name, value in record["scores"].items() if isinstance(value, int | float)
    }
    return without_empty(
        prediction=cut_text(record["prediction"], LENGTHS[0].text),
        scores={name: round(value, 5) for name, value in numbers.items()},
        stop=record["stop_reason"],
        error=f"{error['type']}: {cut_text(error['message'], LENGTHS[0].text)}" if error else None,
        truncated=record["truncated"],
        shown=[_piece_json(piece, example, texts, length.text) for piece in shown[: length.shown]],
        shown_total=len(shown),
        steps=[_step_json(step, texts, length.step, convention) for step in steps[: length.steps]],
        steps_total=len(steps),
    )


def _piece_json(
    piece: dict[str, Any], example: Example | None, texts: _KnownTexts, longest: int
) -> dict[str, Any]:
    """A piece of what the reader saw as the page takes it, cut to `longest`; evidence: overlaps a
    supporting part."""
    if piece["kind"] == "generated":
        sources = ", ".join(f"{d} {a}–{b}" for d, a, b in piece["sources"][:6])
        where = f"generated from {sources}" if sources else "generated"
    elif piece["kind"] == "quote":
        where = "in no document"
    elif piece["kind"] == "unknown":
        where = "the application does not say which texts it used"
    else:
        where = f"{piece['document_id']} {piece['start']}–{piece['end']}"
    supporting = piece["kind"] == "span" and evidence(piece, example) == "yes"
    return without_empty(where=where, text=texts.text(piece, longest), evidence=supporting)


def _step_json(
    step: dict[str, Any], texts: _KnownTexts, longest: int, convention: str
) -> dict[str, Any]:
    """A step of a search as the page takes it, without what is empty; longest: characters of its
    text."""
    shown = step["shown"] or {}
    flops = costs.step_flops(step["flops"], convention)
    return without_empty(
        action=step["action"],
        node=step["node"],
        level=step["level"],
        p_yes=None if step["p_yes"] is None else round(step["p_yes"], 4),
        scores={name: round(value, 5) for name, value in step["scores"].items()},
        tokens=step["tokens"],
        tflops=None if flops is None else round(flops / costs.TERA, 6),
        note=bool(step["note"]),  # whether the text is a note
        text=cut_text(step["note"], longest) or (texts.text(shown, longest) if shown else ""),
    )
