"""BEAM (Tavakoli et al., ICLR 2026): twenty questions of ten kinds on each of some long chats with an
assistant.

    {"conversation_id": "1",
     "chat": [[{"id": 0, "role": "user", "content": ".."}, {"id": 1, "role": "assistant", "content": ".."}, ..], ..],
     "probing_questions": "{'knowledge_update': [{'question': '..', 'answer': '..', 'rubric': ['..', ..],
                                                  'source_chat_ids': {'original_info': [0], ..}}, ..], ..}"}

The layout of Mohammadta/BEAM, as the authors' program for its download reads it; the questions are an
object as Python writes it. A chat is a document and each of its sessions a passage; a message stands
there as "USER: ..". The gold answer is the authors' ideal one; kinds without (following of
instructions and preferences) have their rubric in its place. A judge asks for the items of the
rubric, or of events in their order (configs/judges/beam.yaml).
"""

import ast

from harness.datasets.raw_rows import RawRow
from harness.datasets.rows import (
    Group,
    Row,
    RowError,
    StrictRow,
    assemble,
    clean_answers,
    refuse_blank,
)
from harness.types import Document, Example, Gold, Question, Support


class _Message(StrictRow):
    id: int | None = None
    role: str
    content: str

    def shown(self) -> str:
        """The message as the document holds it: "USER: Hello"."""
        return f"{self.role.upper()}: {self.content}"


class _Asked(StrictRow):
    question: str
    rubric: list[str] | str
    answer: str | int | float | list[str] | None = None
    ideal_answer: str | None = None
    ideal_response: str | None = None
    ideal_summary: str | None = None
    source_chat_ids: object = None

    def items(self) -> list[str]:
        """The items of the rubric, of which the row may have a single one without a list."""
        if isinstance(self.rubric, str):
            return [self.rubric]
        return self.rubric

    def gold(self) -> str:
        """The gold answer as one text: the answer, else an ideal one, else the rubric, an item
        a line.
        """
        if isinstance(self.answer, list):
            return "\n".join(self.answer)
        if self.answer is not None:
            return str(self.answer)
        ideal = self.ideal_answer or self.ideal_response or self.ideal_summary
        return ideal or "\n".join(self.items())


class _Row(StrictRow):
    conversation_id: str
    chat: list[list[_Message]]
    probing_questions: str


def _read_asked(text: str) -> list[tuple[str, _Asked]]:
    """Parse the questions of a chat: [("knowledge_update", question), ...], in the order of the
    row.

    Args:
        text: The row's `probing_questions`, an object as Python writes it.

    Raises:
        RowError: It is of another form, or a question is malformed.
    """
    try:
        by_kind = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        by_kind = None
    if not isinstance(by_kind, dict):
        raise RowError("probing_questions", "should be an object in Python's form")
    asked = []
    for kind, rows in by_kind.items():
        if not isinstance(rows, list):
            raise RowError(f"probing_questions.{kind}", "should be a list of questions")
        for number, raw in enumerate(rows):
            try:
                asked.append((kind, _Asked.read(raw)))
            except RowError as error:
                place = f"probing_questions.{kind}[{number}].{error.field}"
                raise RowError(place, error.problem) from None
    return asked


def _document(row: _Row) -> tuple[Document, dict[int, Support]]:
    """Make the document of a chat, with a passage for each session.

    Returns:
        The document, and the span of each message in it by the message's id.
    """
    sessions = [messages for messages in row.chat if messages]
    texts = ["\n\n".join(message.shown() for message in messages) for messages in sessions]
    paragraphs = tuple(("", text) for text in texts)
    _, document = assemble(Row(row.conversation_id, "-", paragraphs, ()))
    spans = {}
    for passage, messages in zip(document.passages, sessions, strict=True):
        start = passage.start
        for message in messages:
            end = start + len(message.shown())
            if message.id is not None:
                spans[message.id] = Support(document.id, start, end)
            start = end + len("\n\n")
    return document, spans


def _numbers(sources: object) -> list[int]:
    """The whole numbers in what `source_chat_ids` holds: a number, a list, or an object of lists.

    {"original_info": [0, 3], "updated_info": [7]} -> [0, 3, 7]
    """
    if isinstance(sources, int):
        return [sources]
    parts: list[object] = []
    if isinstance(sources, dict):
        parts = list(sources.values())
    if isinstance(sources, list):
        parts = sources
    numbers = []
    for part in parts:
        numbers += _numbers(part)
    return numbers


def _example(name: str, kind: str, asked: _Asked, spans: dict[int, Support]) -> Example:
    """Make a question on the chat, with the messages that are named as its sources as support.

    Args:
        name: The question's id: that of the chat, a hyphen and its number.
        kind: Its kind, "knowledge_update".
        asked: The question as the row has it.
        spans: Id of each message -> its span.

    Raises:
        RowError: A field cannot be used.
    """
    refuse_blank({"question": asked.question})
    answers = clean_answers([asked.gold()], "rubric")
    sources = dict.fromkeys(_numbers(asked.source_chat_ids))
    supporting = tuple(spans[number] for number in sources if number in spans)
    chat, _, _ = name.rpartition("-")
    if not asked.items():
        raise RowError("rubric", "has no item")
    extra: dict[str, object] = {
        "type": kind,
        "rubric": asked.items(),
        "judge": "beam/order" if kind == "event_ordering" else "beam/item",
    }
    return Example(Question(name, asked.question, (chat,)), Gold(answers, supporting, extra))


def parse_row(raw: RawRow) -> Group:
    """Parse one chat with its questions, {"chat": its sessions, "probing_questions": as text, ..}.

    Gold.supporting: the messages that are named as sources. Gold.extra: type, the kind; rubric, its
    items; judge, its published prompt. Raises RowError, which names the field.
    """
    row = _Row.read(raw)
    asked = _read_asked(row.probing_questions)
    document, spans = _document(row)
    examples = []
    for number, (kind, each) in enumerate(asked):
        examples.append(_example(f"{document.id}-{number}", kind, each, spans))
    return Group(document, tuple(examples))
