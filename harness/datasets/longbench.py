"""LongBench (Bai et al., ACL 2024): one row a question, its long text as one string.

    {"input": "Who ...?", "context": "...", "answers": ["Ada"], "length": 18409, "dataset": "narrativeqa",
     "language": "en", "all_classes": null, "_id": "5a.."}

The text is shown as it is; questions on the same text share a document, named after the sha256 of
the text. Nothing is marked as supporting. Fields that are not named here are left alone.
LongBench-E's files ("qasper_e.jsonl") have the same rows; its scores are given by `length`
(harness.scorers.groups).

The original rows say which passages of multi-document texts are supporting, to move them (QRMeM,
table 3, figure 5):

    LongBench row     question, "Passage 1:\\nTitle\\nText\\n\\nPassage 2:\\n..."      marks nothing
    original row      the same question, and the titles of its supporting paragraphs
    ─► Row            the passages, the supporting ones marked; dataset.place and dataset.distance move them

LongBench took its questions from the development sets of HotpotQA, 2WikiMultihopQA and MuSiQue and
made each paragraph the whole page. A question is looked up by its text, a passage by its title.
Rows whose question or passages are not found are left out and counted. Passages are numbered anew
after a move.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pydantic import Field

from harness.config import presets
from harness.config.schema import DatasetConfig
from harness.datasets import hotpotqa, musique
from harness.datasets.files import parse_each, read_rows
from harness.datasets.find_files import find_source
from harness.datasets.place_options import Placement
from harness.datasets.placing import with_support_moved
from harness.datasets.raw_rows import RawRow
from harness.datasets.rows import (
    Group,
    QuestionText,
    Row,
    RowError,
    Skip,
    StrictRow,
    clean_answers,
    group_of_one_question,
    refuse_blank,
)
from harness.errors import ConfigError

NO_ORIGINAL_ROW = "not among the original data set's rows"
SUPPORT_NOT_IN_TEXT = "whose supporting passages are not in the text"
_COMPARED_CHARACTERS = 80  # of a paragraph's beginning, to tell passages of one title apart
_PASSAGE_HEAD = re.compile(r"^Passage \d+:\n", re.MULTILINE)


class _LongBenchRow(StrictRow):
    id: str = Field(alias="_id")
    input: str
    context: str
    answers: list[str]
    length: int | None = None
    dataset: str | None = None
    language: str | None = None
    all_classes: list[str] | None = None


def parse_row(raw: RawRow, *, subset: str | None = None, question: str | None = None) -> Group:
    """Parse one row, {"input": question, "context": text, "answers", ..}, to its text and
    question.

    Gold.extra has the inputs of its scorers: length, language and, where there are any,
    all_classes.

    Args:
        raw: The row.
        subset: The data set that the row must be of, where it says; "qasper" and "qasper_e" each
            take the other's rows too.
        question: The question to ask where the row asks nothing (summaries, code).

    Raises:
        RowError: A field is missing or cannot be used; the error names it.
    """
    row = _LongBenchRow.read(raw)
    if not _is_of_subset(row, subset):
        raise RowError(
            "dataset",
            f"the row is of '{row.dataset}', not of '{subset}'; give the file of '{subset}'",
        )
    words = row.input
    if not words.strip():
        words = question or ""
    refuse_blank({"_id": row.id, "input": words, "context": row.context})
    answers = clean_answers(row.answers, "answers")
    scorer_inputs = {
        "length": row.length,
        "language": row.language,
        "all_classes": row.all_classes,
    }
    extra = {key: value for key, value in scorer_inputs.items() if value is not None}
    document_prefix = row.dataset or subset or "longbench"
    asked = QuestionText(row.id, words)
    return group_of_one_question(document_prefix, row.context, asked, answers, extra)


def _is_of_subset(row: _LongBenchRow, subset: str | None) -> bool:
    """Whether the row's data set is `subset`, or either of them is None.

    LongBench-E's "qasper_e" and "qasper" count as the same data set.
    """
    if subset is None or row.dataset is None:
        return True
    return row.dataset.removesuffix("_e") == subset.removesuffix("_e")


def support_parser(
    config: DatasetConfig, support: str, placement: Placement
) -> Callable[[RawRow], Row | Skip]:
    """Read the original rows, and return a parser of LongBench rows that moves supporting
    passages.

    Args:
        config: The config of LongBench's data set.
        support: A preset, file or folder with the original rows; "" for none.
        placement: Where the supporting passages are to be.

    Raises:
        ConfigError: Without `support`; also what reading it raises.
    """
    if not support:
        problem = f"'{config.name}' marks no supporting passages"
        way_out = (
            "name the original data set's rows, which mark the supporting paragraphs: "
            "--set dataset.support=FILE"
        )
        raise ConfigError([f"dataset.place, dataset.distance: {problem}; {way_out}"])
    row_by_question = _read_original_rows(support)

    def parse(raw: RawRow) -> Row | Skip:
        """Parse a LongBench row, and move its supporting passages; its passages are numbered anew.

        Skip where its original row is not found or does not match. Raises RowError.
        """
        row = _row_with_support(parse_row(raw, subset=config.subset), row_by_question)
        if isinstance(row, Skip):
            return row
        moved = with_support_moved(row, placement)
        paragraphs = [
            (f"Passage {number}:\n{title}", text)
            for number, (title, text) in enumerate(moved.paragraphs, start=1)
        ]
        return replace(moved, paragraphs=tuple(paragraphs))

    return parse


def _read_original_rows(support: str) -> dict[str, Row]:
    """Map each question of the original data set, in small letters, to its row.

    Args:
        support: A preset, or a file or folder with its rows.
    """
    row_by_question: dict[str, Row] = {}
    for file in find_source(_config_of_original_rows(support)).files:
        for row in parse_each(read_rows(file), _parse_original_row):
            if isinstance(row, Row):
                row_by_question[_folded(row.question)] = row
    return row_by_question


def _config_of_original_rows(support: str) -> DatasetConfig:
    """The config of the data set with the original rows, used to find its files and for nothing
    else.

    Args:
        support: A file or folder with the rows, else the name of a preset.
    """
    if Path(support).expanduser().exists():
        return DatasetConfig(
            name=support,
            data=support,
            # The other fields must be set, and are not used.
            format="-",
            instruction="-",
            max_answer_tokens=1,
            scorers=("-",),
        )
    merged: dict[str, object] = {"name": support}
    for _, values in presets.read("datasets", support):
        merged.update(values)
    return DatasetConfig.model_validate(merged)


def _parse_original_row(raw: RawRow) -> Row | Skip:
    """Parse a row of the original data set: MuSiQue's, which has `paragraphs`, or one of
    HotpotQA's form. Raises RowError.
    """
    if "paragraphs" in raw:
        return musique.parse_row(raw)
    return hotpotqa.parse_row(raw)


def _row_with_support(group: Group, original_rows: Mapping[str, Row]) -> Row | Skip:
    """Split a LongBench row into passages, and mark those that its original row marks.

    Args:
        group: The row's text and question.
        original_rows: Question in small letters with single spaces -> row of the original data set.

    Returns:
        The row with its passages; Skip where it has no original row, or a supporting passage is not
        in its text.
    """
    example = group.examples[0]
    original = original_rows.get(_folded(example.question.text))
    if original is None:
        return Skip(NO_ORIGINAL_ROW)
    passages = _split_passages(group.document.text)
    supporting: set[int] = set()
    for number in original.supporting:
        title, text = original.paragraphs[number]
        index = _find_passage(passages, title, text)
        if index is None:
            return Skip(SUPPORT_NOT_IN_TEXT)
        supporting.add(index)
    if not supporting:
        return Skip(SUPPORT_NOT_IN_TEXT)
    return Row(
        id=example.question.id,
        question=example.question.text,
        paragraphs=passages,
        answers=example.gold.answers,
        supporting=tuple(sorted(supporting)),
        extra=dict(example.gold.extra),
    )


def _split_passages(text: str) -> tuple[tuple[str, str], ...]:
    r"""Divide a LongBench text into its passages, (title, text) of each.

    "Passage 1:\nAda\nShe wrote.\n\nPassage 2:\nBob\nHe read."
        -> (("Ada", "She wrote."), ("Bob", "He read."))
    """
    passages = []
    _, *texts_after_heads = _PASSAGE_HEAD.split(text)  # the text before the first head is left out
    for title_and_text in texts_after_heads:
        title, _, passage_text = title_and_text.partition("\n")
        passages.append((title.strip(), passage_text.strip("\n")))
    return tuple(passages)


def _find_passage(
    passages: Sequence[tuple[str, str]], wanted_title: str, wanted_text: str
) -> int | None:
    """The index of the passage with a title; of several with this title, of the one with the text.

    Args:
        passages: (title, text) of each passage.
        wanted_title: The title to find, whatever its case and spaces.
        wanted_text: The text to find in the passage, of which the first 80 characters are compared.

    Returns:
        The index; that of the first with the title where none has the text; None where no passage
        has the title.
    """
    wanted_beginning = _folded(wanted_text)[:_COMPARED_CHARACTERS]
    first_with_title = None
    for index, (title, text) in enumerate(passages):
        if _folded(title) != _folded(wanted_title):
            continue
        if wanted_beginning in _folded(text):
            return index
        if first_with_title is None:
            first_with_title = index
    return first_with_title


def _folded(text: str) -> str:
    """The text in small letters with single spaces, to compare it.

    " Who  IS it?" -> "who is it?"
    """
    return " ".join(text.split()).casefold()
