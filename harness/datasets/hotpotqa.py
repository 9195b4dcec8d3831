"""HotpotQA (Yang et al., EMNLP 2018), distractor setting: 10 paragraphs a question, in
sentences, 2 hops.

    official   {"_id": "5a..", "question": "..", "answer": "..", "type": "bridge", "level": "hard",
                "supporting_facts": [["Title", 0], ..], "context": [["Title", ["One.", " Two."]], ..]}
    hub copy   the same with "id", and columns: "supporting_facts": {"title": [..], "sent_id": [..]},
                "context": {"title": [..], "sentences": [[..], ..]}

A paragraph's text is its sentences joined with "". A row without `_id` and `id` gets the id
"hotpotqa-" + the first 12 hex digits of the sha256 of its question. Unknown fields are left alone.
"""

from collections.abc import Mapping

from pydantic import ConfigDict, StrictInt, StrictStr

from harness.datasets.raw_rows import RawRow
from harness.datasets.rows import (
    Row,
    RowError,
    StrictRow,
    gold_answers,
    id_from_text,
    records_from_columns,
)


class _HotpotRow(StrictRow):
    model_config = ConfigDict(strict=False)  # a list is read as a tuple

    id: StrictStr | None = None
    question: StrictStr
    answer: StrictStr | None = None
    type: StrictStr = ""
    level: StrictStr = ""
    supporting_facts: list[tuple[StrictStr, StrictInt]]
    context: list[tuple[StrictStr, list[StrictStr]]]


def _pairs(raw: RawRow, name: str, second: str) -> object:
    """A list of pairs in a row, whether it is stored as lists, objects or columns.

    {"context": {"title": ["Ada"], "sentences": [["One."]]}} -> [["Ada", ["One."]]]

    Args:
        raw: The row.
        name: The field, "context".
        second: The key of a pair's second value where it is an object or the list is columns,
            "sentences"; that of the first one is "title".

    Returns:
        [[title, value], ..]; the value of the field as it is where that is no list.

    Raises:
        RowError: An object lacks a key.
    """
    value = records_from_columns(raw[name], name)
    if not isinstance(value, list):
        return value
    pairs = []
    for number, entry in enumerate(value):
        if isinstance(entry, Mapping):
            for key in ("title", second):
                if key not in entry:
                    raise RowError(f"{name}[{number}].{key}", "is missing")
            entry = [entry["title"], entry[second]]
        pairs.append(entry)
    return pairs


def _checked_row(raw: RawRow) -> _HotpotRow:
    """Parse a row of the official layout or of the hub copy's. Raises RowError, which names the
    field.
    """
    fields = dict(raw)
    for name, second in (("supporting_facts", "sent_id"), ("context", "sentences")):
        if name in raw:
            fields[name] = _pairs(raw, name, second)
    fields["id"] = _row_id(raw)
    return _HotpotRow.read(fields)


def _row_id(raw: RawRow) -> object:
    """The id of a row, under "_id" or "id"; None where it has neither.

    Raises RowError where the two differ.
    """
    official = raw.get("_id")
    hub = raw.get("id")
    if official is None:
        return hub
    if hub is not None and official != hub:
        raise RowError("_id", f"'_id' ({official!r}) and 'id' ({hub!r}) differ")
    return official


def _facts_past_the_end(row: _HotpotRow) -> list[list[str | int]]:
    """The supporting facts, [title, sentence], whose sentence number is past the end of its
    paragraph.

    Raises RowError for a title that no paragraph has, and for a negative number.
    """
    lengths: dict[str, int] = {}
    for title, sentences in row.context:
        lengths[title] = max(len(sentences), lengths.get(title, 0))
    past: list[list[str | int]] = []
    for number, (title, sentence) in enumerate(row.supporting_facts):
        name = f"supporting_facts[{number}]"
        if title not in lengths:
            problem = (
                "is not the title of one of the paragraphs (the fullwiki setting is not supported)"
            )
            raise RowError(name, f"'{title}' {problem}")
        if sentence < 0:
            raise RowError(name, f"sentence number {sentence} is negative")
        if sentence >= lengths[title]:
            past.append([title, sentence])
    return past


def parse_row(raw: RawRow) -> Row:
    """Parse one row, {"question", "answer", "supporting_facts", "context": its paragraphs, ..}.

    Gold.extra: the official supporting facts, type, level, hops, and the supporting paragraphs. A
    supporting title that no paragraph has is an error; a sentence number past the end of its
    paragraph is kept and named in extra["facts_past_the_end"]: only scores of sentences depend on
    it. Raises RowError, which names the field.
    """
    row = _checked_row(raw)
    past = _facts_past_the_end(row)
    titles = {title for title, _ in row.supporting_facts}
    supporting = tuple(i for i, (title, _) in enumerate(row.context) if title in titles)
    extra: dict[str, object] = {
        "supporting_facts": [list(fact) for fact in row.supporting_facts],
        "supporting_paragraphs": list(supporting),
        "type": row.type,
        "level": row.level,
        "hops": len(titles),
    }
    if past:
        extra["facts_past_the_end"] = past
    question_id = row.id
    if question_id is None:
        question_id = id_from_text("hotpotqa", row.question)
    return Row(
        id=question_id,
        question=row.question,
        paragraphs=tuple((title, "".join(sentences)) for title, sentences in row.context),
        answers=gold_answers(row.answer),
        supporting=supporting,
        extra=extra,
    )
