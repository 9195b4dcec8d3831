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


def _pairs_with_title(raw: RawRow, field: str, second_key: str) -> object:
    """A field with a list of pairs as lists, whether it is stored as lists, objects or columns.

    {"context": {"title": ["Ada"], "sentences": [["One."]]}} -> [["Ada", ["One."]]]

    Args:
        raw: The row.
        field: The field, "context".
        second_key: The key of a pair's second value where it is an object or the list is columns,
            "sentences"; that of the first one is "title".

    Returns:
        [[title, second value], ..]; the value of the field as it is where that is no list.

    Raises:
        RowError: An object lacks a key.
    """
    value = records_from_columns(raw[field], field)
    if not isinstance(value, list):
        return value
    pairs = []
    for number, pair in enumerate(value):
        if isinstance(pair, Mapping):
            for key in ("title", second_key):
                if key not in pair:
                    raise RowError(f"{field}[{number}].{key}", "is missing")
            pair = [pair["title"], pair[second_key]]
        pairs.append(pair)
    return pairs


def _checked_row(raw: RawRow) -> _HotpotRow:
    """Parse a row of the official layout or of the hub copy's. Raises RowError, which names the
    field.
    """
    fields = dict(raw)
    if "supporting_facts" in raw:
        fields["supporting_facts"] = _pairs_with_title(raw, "supporting_facts", "sent_id")
    if "context" in raw:
        fields["context"] = _pairs_with_title(raw, "context", "sentences")
    fields["id"] = _row_id(raw)
    return _HotpotRow.read(fields)


def _row_id(raw: RawRow) -> object:
    """The id of a row, under "_id" or "id"; None where it has neither.

    Raises RowError where the two differ.
    """
    official_id = raw.get("_id")
    hub_id = raw.get("id")
    if official_id is None:
        return hub_id
    if hub_id is not None and official_id != hub_id:
        raise RowError("_id", f"'_id' ({official_id!r}) and 'id' ({hub_id!r}) differ")
    return official_id


def _facts_past_the_end(row: _HotpotRow) -> list[list[str | int]]:
    """The supporting facts, [title, number of the sentence], whose number is past the end of its
    paragraph.

    Raises RowError for a title that no paragraph has, and for a negative number.
    """
    n_sentences_by_title: dict[str, int] = {}
    for title, sentences in row.context:
        n_of_same_title = n_sentences_by_title.get(title, 0)
        n_sentences_by_title[title] = max(len(sentences), n_of_same_title)
    facts_past_the_end: list[list[str | int]] = []
    for fact_number, (title, sentence_number) in enumerate(row.supporting_facts):
        field = f"supporting_facts[{fact_number}]"
        if title not in n_sentences_by_title:
            problem = (
                "is not the title of one of the paragraphs (the fullwiki setting is not supported)"
            )
            raise RowError(field, f"'{title}' {problem}")
        if sentence_number < 0:
            raise RowError(field, f"sentence number {sentence_number} is negative")
        if sentence_number >= n_sentences_by_title[title]:
            facts_past_the_end.append([title, sentence_number])
    return facts_past_the_end


def parse_row(raw: RawRow) -> Row:
    """Parse one row, {"question", "answer", "supporting_facts", "context": its paragraphs, ..}.

    Gold.extra: the official supporting facts, type, level, hops, and the supporting paragraphs. A
    supporting title that no paragraph has is an error; a sentence number past the end of its
    paragraph is kept and named in extra["facts_past_the_end"]: only scores of sentences depend on
    it. Raises RowError, which names the field.
    """
    row = _checked_row(raw)
    facts_past_the_end = _facts_past_the_end(row)
    supporting_titles = {title for title, _ in row.supporting_facts}
    supporting = []
    for number, (title, _) in enumerate(row.context):
        if title in supporting_titles:
            supporting.append(number)
    extra: dict[str, object] = {
        "supporting_facts": [list(fact) for fact in row.supporting_facts],
        "supporting_paragraphs": list(supporting),
        "type": row.type,
        "level": row.level,
        "hops": len(supporting_titles),
    }
    if facts_past_the_end:
        extra["facts_past_the_end"] = facts_past_the_end
    question_id = row.id
    if question_id is None:
        question_id = id_from_text("hotpotqa", row.question)
    return Row(
        id=question_id,
        question=row.question,
        paragraphs=tuple((title, "".join(sentences)) for title, sentences in row.context),
        answers=gold_answers(row.answer),
        supporting=tuple(supporting),
        extra=extra,
    )
