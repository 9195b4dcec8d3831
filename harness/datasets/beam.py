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
from collections.abc import Mapping

from harness.datasets.raw_rows import RawRow
from harness.datasets.rows import (
    Group,
    Row,
    RowError,
    StrictRow,
    clean_answers,
    example_and_document,
    refuse_blank,
)
from harness.types import Document, Example, Gold, Question, Support

_MESSAGE_SEPARATOR = "\n\n"


class _Message(StrictRow):
    id: int | None = None
    role: str
    content: str

    def text_in_document(self) -> str:
        """The message as the document holds it: "USER: Hello"."""
        return f"{self.role.upper()}: {self.content}"


class _ProbingQuestion(StrictRow):
    question: str
    rubric: list[str] | str
    answer: str | int | float | list[str] | None = None
    ideal_answer: str | None = None
    ideal_response: str | None = None
    ideal_summary: str | None = None
    source_chat_ids: object = None

    def rubric_items(self) -> list[str]:
        """The items of the rubric, of which the row may have a single one without a list."""
        if isinstance(self.rubric, str):
            return [self.rubric]
        return self.rubric

    def gold_answer(self) -> str:
        """The gold answer as one text: the answer, else an ideal one, else the rubric, an item
        a line.
        """
        if isinstance(self.answer, list):
            return "\n".join(self.answer)
        if self.answer is not None:
            return str(self.answer)
        ideal = self.ideal_answer or self.ideal_response or self.ideal_summary
        return ideal or "\n".join(self.rubric_items())


class _Row(StrictRow):
    conversation_id: str
    chat: list[list[_Message]]
    probing_questions: str


def _parse_questions(probing_questions: str) -> list[tuple[str, _ProbingQuestion]]:
    """Parse the questions of a chat: [("knowledge_update", question), ...], in the order of the
    row.

    Args:
        probing_questions: The field of the row, an object as Python writes it.

    Raises:
        RowError: It is of another form, or a question is malformed.
    """
    try:
        questions_by_kind = ast.literal_eval(probing_questions)
    except (ValueError, SyntaxError):
        questions_by_kind = None
    if not isinstance(questions_by_kind, dict):
        raise RowError("probing_questions", "should be an object in Python's form")
    kinds_and_questions = []
    for kind, raw_questions in questions_by_kind.items():
        if not isinstance(raw_questions, list):
            raise RowError(f"probing_questions.{kind}", "should be a list of questions")
        for number, raw in enumerate(raw_questions):
            try:
                kinds_and_questions.append((kind, _ProbingQuestion.read(raw)))
            except RowError as error:
                field = f"probing_questions.{kind}[{number}].{error.field}"
                raise RowError(field, error.problem) from None
    return kinds_and_questions


def _document_and_message_spans(row: _Row) -> tuple[Document, dict[int, Support]]:
    """Make the document of a chat, with a passage for each session that has messages.

    Returns:
        The document, and the span of each message in it by the message's id; messages without an
        id have none.
    """
    sessions = [messages for messages in row.chat if messages]
    paragraphs = []
    for messages in sessions:
        texts = [message.text_in_document() for message in messages]
        paragraphs.append(("", _MESSAGE_SEPARATOR.join(texts)))
    # Only the document of this row is used; it must have a question.
    document_row = Row(
        id=row.conversation_id, question="-", paragraphs=tuple(paragraphs), answers=()
    )
    _, document = example_and_document(document_row)
    span_by_message_id = {}
    for passage, messages in zip(document.passages, sessions, strict=True):
        start = passage.start
        for message in messages:
            end = start + len(message.text_in_document())
            if message.id is not None:
                span_by_message_id[message.id] = Support(document.id, start, end)
            start = end + len(_MESSAGE_SEPARATOR)
    return document, span_by_message_id


def _message_ids(sources: object) -> list[int]:
    """The whole numbers in what `source_chat_ids` holds: a number, a list, or an object of lists.

    {"original_info": [0, 3], "updated_info": [7]} -> [0, 3, 7]
    """
    if isinstance(sources, int):
        return [sources]
    values: list[object] = []
    if isinstance(sources, dict):
        values = list(sources.values())
    if isinstance(sources, list):
        values = sources
    ids = []
    for value in values:
        ids += _message_ids(value)
    return ids


def _example(
    question_id: str,
    kind: str,
    row_question: _ProbingQuestion,
    span_by_message_id: Mapping[int, Support],
) -> Example:
    """Make a question on the chat, with the messages that are named as its sources as support;
    those that are not in the chat are passed over.

    Gold.extra: type, the kind; rubric, its items; judge, the name of the prompt that judges it.

    Args:
        question_id: The id of the chat, a hyphen and the question's number.
        kind: Its kind, "knowledge_update".
        row_question: The question as the row has it.
        span_by_message_id: Id of each message -> its span.

    Raises:
        RowError: A field cannot be used.
    """
    refuse_blank({"question": row_question.question})
    answers = clean_answers([row_question.gold_answer()], "rubric")
    source_ids = dict.fromkeys(_message_ids(row_question.source_chat_ids))
    known_ids = [source for source in source_ids if source in span_by_message_id]
    supporting = tuple(span_by_message_id[message_id] for message_id in known_ids)
    if not row_question.rubric_items():
        raise RowError("rubric", "has no item")
    judge = "beam/item"
    if kind == "event_ordering":
        judge = "beam/order"
    extra: dict[str, object] = {
        "type": kind,
        "rubric": row_question.rubric_items(),
        "judge": judge,
    }
    chat_id, _, _ = question_id.rpartition("-")
    question = Question(question_id, row_question.question, (chat_id,))
    return Example(question, Gold(answers, supporting, extra))


def parse_row(raw: RawRow) -> Group:
    """Parse one chat with its questions, {"chat": its sessions, "probing_questions": as text, ..}.

    Gold.supporting: the messages that are named as sources. Gold.extra: type, the kind; rubric, its
    items; judge, its published prompt. Raises RowError, which names the field.
    """
    row = _Row.read(raw)
    questions = _parse_questions(row.probing_questions)
    document, span_by_message_id = _document_and_message_spans(row)
    examples = []
    for number, (kind, question) in enumerate(questions):
        question_id = f"{document.id}-{number}"
        examples.append(_example(question_id, kind, question, span_by_message_id))
    return Group(document, tuple(examples))
