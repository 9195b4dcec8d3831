"""LongBench (Bai et al., ACL 2024): one row a question, its long text as one string.

    {"input": "Who ...?", "context": "...", "answers": ["Ada"], "length": 18409, "dataset":
    "narrativeqa",
     "language": "en", "all_classes": null, "_id": "5a.."}

The text is shown as it is; questions on the same text share a document, named after the sha256 of
the text. Nothing is marked as supporting. Fields that are not named here are left alone.
LongBench-E's files ("qasper_e.jsonl") have the same rows; its scores are given apart by `length`
(harness.scorers.groups).

The original rows say which passages of multi-document texts are supporting, to move them (QRMeM,
table 3, figure 5):

    LongBench row     question, "Passage 1:\\nTitle\\nText\\n\\nPassage 2:\\n..."      marks nothing
    original row      the same question, and the titles of its supporting paragraphs
    ─► Row            the passages, the supporting ones marked; dataset.place and dataset.distance move them

LongBench took its questions from the development sets of HotpotQA, 2WikiMultihopQA and MuSiQue and
made each paragraph the whole page. A question is looked up by its text, a passage by its title.
Rows whose question or passages are not found are left out and counted. Passages are numbered anew
behind a move.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import Field

from harness.config import presets
from harness.config.schema import DatasetConfig
from harness.datasets import hotpotqa, musique
from harness.datasets.files import parse_each, read_rows
from harness.datasets.find_files import find_source
from harness.datasets.place_options import Placement
from harness.datasets.placing import rearrange
from harness.datasets.rows import (
    Group,
    Row,
    RowError,
    Skip,
    StrictRow,
    clean_answers,
    refuse_blank,
    text_with_question,
)
from harness.errors import ConfigError

UNKNOWN = "not among the original data set's rows"
UNLIKE = "whose supporting passages are not in the text"
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


def parse_row(
    raw: dict[str, Any], *, subset: str | None = None, question: str | None = None
) -> Group:
    """One LongBench row. Gold.extra: length, language and, where there are any, all_classes (inputs
    of its scorers).

    subset: the data set that the row must be of, where it says; "qasper" and "qasper_e" each take
    the other's rows too.
    question: asked where the row asks nothing (summaries, code). Raises RowError naming the field.
    """
    row = _LongBenchRow.read(raw)
    if (
        subset is not None
        and row.dataset is not None
        and row.dataset.removesuffix("_e") != subset.removesuffix("_e")
    ):
        raise RowError(
            "dataset",
            f"the row is of '{row.dataset}', not of '{subset}'; give the file of '{subset}'",
        )
    asked = row.input if row.input.strip() else question or ""
    refuse_blank({"_id": row.id, "input": asked, "context": row.context})
    answers = clean_answers(row.answers, "answers")
    extra = {"length": row.length, "language": row.language, "all_classes": row.all_classes}
    extra = {key: value for key, value in extra.items() if value is not None}
    return text_with_question(
        row.dataset or subset or "longbench", row.context, (row.id, asked), answers, extra
    )


def support_parser(
    config: DatasetConfig, support: str | None, placement: Placement
) -> Callable[[dict[str, Any]], Any]:
    """A parser of LongBench rows that marks their supporting passages and moves them to
    `placement`.

    support: a preset, file or folder with the original rows. Raises ConfigError without one, and as
    reading it does.
    """
    if not support:
        sentence = "name the original data set's rows, which mark the supporting paragraphs: --set dataset.support=FILE"
        raise ConfigError(
            [
                (
                    f"dataset.place, dataset.distance: '{config.name}' marks no supporting passages; "
                    f"{sentence}"
                )
            ]
        )
    originals = dict(_read_originals(support))

    def parse(raw: dict[str, Any]) -> Row | Skip:
        row = _row_with_support(parse_row(raw, subset=config.subset), originals)
        if isinstance(row, Skip):
            return row
        moved = rearrange(row, placement)
        parts = (
            (f"Passage {n}:\n{title}", text)
            for n, (title, text) in enumerate(moved.paragraphs, start=1)
        )
        return replace(moved, paragraphs=tuple(parts))

    return parse


def _read_originals(support: str) -> Iterator[tuple[str, Row]]:
    """Yield (normalised question, row) of the original data set, a preset or a file or folder."""
    if Path(support).expanduser().exists():
        unused: dict[str, Any] = {
            "format": "-",
            "instruction": "-",
            "max_answer_tokens": 1,
            "scorers": ("-",),
        }
        config = DatasetConfig(name=support, data=support, **unused)
    else:
        merged = {
            key: value
            for _, values in presets.read("datasets", support)
            for key, value in values.items()
        }
        config = DatasetConfig.model_validate({"name": support, **merged})
    rows = (row for file in find_source(config).files for row in read_rows(file))
    for row in parse_each(
        rows, lambda raw: (musique if "paragraphs" in raw else hotpotqa).parse_row(raw)
    ):
        if isinstance(row, Row):
            yield _folded(row.question), row


def _row_with_support(group: Group, originals: Mapping[str, Row]) -> Row | Skip:
    """Split a LongBench row into passages and mark those that its original row marks; Skip where
    they do not match.

    originals: question in small letters with single spaces -> row of the original data set.
    """
    example, text = group.examples[0], group.document.text
    original = originals.get(_folded(example.question.text))
    if original is None:
        return Skip(UNKNOWN)
    parts = [part.partition("\n") for part in _PASSAGE_HEAD.split(text)[1:]]
    passages = tuple((title.strip(), rest.strip("\n")) for title, _, rest in parts)
    supporting = [
        _passage_index(passages, *original.paragraphs[index]) for index in original.supporting
    ]
    if not supporting or None in supporting:
        return Skip(UNLIKE)
    supporting_indices = tuple(sorted({index for index in supporting if index is not None}))
    gold = example.gold
    return Row(
        example.question.id,
        example.question.text,
        passages,
        gold.answers,
        supporting_indices,
        dict(gold.extra),
    )


def _passage_index(passages: tuple[tuple[str, str], ...], title: str, text: str) -> int | None:
    """The index of the passage, (title, text), with `title`; of several, the one with `text`. None:
    not there."""
    named = [i for i, (name, _) in enumerate(passages) if _folded(name) == _folded(title)]
    return next(
        (i for i in named if _folded(text)[:80] in _folded(passages[i][1])),
        named[0] if named else None,
    )


def _folded(text: str) -> str:
    return " ".join(text.split()).casefold()
