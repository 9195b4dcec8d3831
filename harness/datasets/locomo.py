"""LoCoMo (Maharana et al., ACL 2024): questions on ten conversations of two people over months.

    {"sample_id": "conv-1",
     "conversation": {"speaker_a": "Ann", "speaker_b": "Bo", "session_1_date_time": "1:56 pm on 8 May, 2023",
                      "session_1": [{"speaker": "Ann", "dia_id": "D1:1", "text": "..", "blip_caption": ".."}, ..], ..},
     "qa": [{"question": "..", "answer": "..", "evidence": ["D1:1"], "category": 1},
            {"question": "..", "adversarial_answer": "..", "evidence": ["D1:1"], "category": 5}, ..]}

The layout of data/locomo10.json (snap-research/locomo). A row holds a conversation and all its
questions. The text is written as by the authors' task_eval/evaluate_gpts.py (commit 9228632,
get_input_context), a passage each session, and so are the questions: of category 2 they end with a
sentence on dates, of category 5 with two options. The order of the options is drawn by the
question's hash, where the authors draw it anew in each run.
"""

import re
from collections.abc import Mapping

from harness.datasets.raw_rows import RawRow
from harness.datasets.rows import (
    Group,
    Row,
    RowError,
    StrictRow,
    clean_answers,
    example_and_document,
    id_from_text,
    refuse_blank,
)
from harness.types import Document, Example, Gold, Question, Support

CATEGORIES = {
    1: "multi-hop",
    2: "temporal",
    3: "open-domain",
    4: "single-hop",
    5: "adversarial",
}
NOT_MENTIONED = "Not mentioned in the conversation"
_WITH_SENTENCE_ON_DATES = "{} Use DATE of CONVERSATION to answer with an approximate date."
_HEX_DIGITS_BELOW_8 = tuple("01234567")  # a hash ends in one of them half of the time
_WITH_OPTIONS = "{} Select the correct answer: (a) {} (b) {}."
_SESSION_KEY = re.compile(r"session_(\d+)")
_TURN_ID = re.compile(r"D:?(\d+):(\d+)")


class _Turn(StrictRow):
    speaker: str
    dia_id: str
    text: str
    blip_caption: str | None = None

    def text_in_prompt(self) -> str:
        """The turn as the authors' prompt shows it: 'Ann said, "Hi"', and below it what she
        shares.
        """
        text = f'{self.speaker} said, "{self.text}"'
        if self.blip_caption:
            text += f"\n[shares {self.blip_caption}]"
        return text


class _RowQuestion(StrictRow):
    question: str
    answer: str | int | float | None = None
    adversarial_answer: str | None = None
    evidence: list[str]
    category: int


class _Row(StrictRow):
    sample_id: str
    conversation: RawRow
    qa: list[_RowQuestion]


class _Session(StrictRow):
    date: str
    turns: list[_Turn]

    def text_in_prompt(self) -> str:
        """The turns as the authors' prompt shows them, one below the other."""
        return "\n".join(turn.text_in_prompt() for turn in self.turns)


def _sessions(conversation: RawRow) -> list[_Session]:
    """The sessions of a conversation that have turns, in the order of their numbers.

    Args:
        conversation: "session_1" -> its turns, "session_1_date_time" -> its date, and so on.

    Raises:
        RowError: A session is malformed.
    """
    numbers = []
    for key in conversation:
        session_key = _SESSION_KEY.fullmatch(key)
        if session_key is not None:
            numbers.append(int(session_key.group(1)))
    sessions = []
    for number in sorted(numbers):
        key = f"session_{number}"
        raw = {"date": conversation.get(f"{key}_date_time"), "turns": conversation[key]}
        try:
            session = _Session.read(raw)
        except RowError as error:
            raise RowError(f"conversation.{key}", f"{error.field} {error.problem}") from None
        if session.turns:
            sessions.append(session)
    return sessions


def _document_and_turn_spans(
    document_id: str, sessions: list[_Session]
) -> tuple[Document, dict[str, Support]]:
    """Make the document of a conversation, with a passage for each session.

    Args:
        document_id: The document's id.
        sessions: The sessions, in order.

    Returns:
        The document, and the span of each turn in it by its id, "D1:1".
    """
    titles = [f"DATE: {session.date}\nCONVERSATION:" for session in sessions]
    texts = [session.text_in_prompt() for session in sessions]
    paragraphs = tuple(zip(titles, texts, strict=True))
    # Only the document of this row is used; it must have a question.
    row = Row(id=document_id, question="-", paragraphs=paragraphs, answers=())
    _, document = example_and_document(row)
    span_by_turn_id = {}
    for passage, session, text in zip(document.passages, sessions, texts, strict=True):
        start = passage.end - len(text)  # the passage begins with the title
        for turn in session.turns:
            end = start + len(turn.text_in_prompt())
            span_by_turn_id[turn.dia_id] = Support(document_id, start, end)
            start = end + len("\n")
    return document, span_by_turn_id


def _evidence_spans(
    evidence: list[str], span_by_turn_id: Mapping[str, Support]
) -> tuple[Support, ...]:
    """The spans of the turns that a question names as evidence, each once; unknown ids are passed
    over.

    Args:
        evidence: As the row has it, ["D1:1", "D2:3; D2:4"].
        span_by_turn_id: Id of each turn, "D1:1" -> its span.
    """
    turn_ids = []
    for text_with_ids in evidence:
        for session, turn in _TURN_ID.findall(text_with_ids):
            turn_ids.append(f"D{int(session)}:{int(turn)}")
    known_ids = [turn_id for turn_id in dict.fromkeys(turn_ids) if turn_id in span_by_turn_id]
    return tuple(span_by_turn_id[turn_id] for turn_id in known_ids)


def _adversarial_options(row_question: _RowQuestion, field: str) -> list[str]:
    """The two options of a question of category 5, in an order that the question's hash decides,
    so that about half of the questions have each order.

    ["Not mentioned in the conversation", "a red hat"] or the other way round

    Args:
        row_question: The question; its adversarial answer is the wrong option.
        field: Its place in the row, "qa[3]", for the error.

    Raises:
        RowError: The wrong option is blank.
    """
    wrong = str(row_question.adversarial_answer or row_question.answer)
    refuse_blank({f"{field}.adversarial_answer": wrong})
    options = [NOT_MENTIONED, wrong]
    hash_of_question = id_from_text(prefix="", text=row_question.question)
    if hash_of_question.endswith(_HEX_DIGITS_BELOW_8):
        options.reverse()
    return options


def _example(
    row_question: _RowQuestion,
    number: int,
    document: Document,
    span_by_turn_id: Mapping[str, Support],
) -> Example:
    """Make one question of a conversation, as the authors ask it:

        temporal       with a sentence on dates after it
        open-domain    the accepted answer is the first of those between ";"
        adversarial    with two options, "not mentioned" is right; no evidence

    Gold.extra: category, its name as type, and of adversarial ones the options.

    Args:
        row_question: The question as the row has it.
        number: Its number in the row, from 0.
        document: The conversation.
        span_by_turn_id: Id of each turn -> its span.

    Raises:
        RowError: A field cannot be used.
    """
    field = f"qa[{number}]"
    refuse_blank({f"{field}.question": row_question.question})
    category = row_question.category
    if category not in CATEGORIES:
        raise RowError(f"{field}.category", f"should be 1 to 5, is {category}")
    extra: dict[str, object] = {"category": category, "type": CATEGORIES[category]}
    text = row_question.question
    answer = ""
    if row_question.answer is not None:
        answer = str(row_question.answer)
    supporting = _evidence_spans(row_question.evidence, span_by_turn_id)
    if CATEGORIES[category] == "temporal":
        text = _WITH_SENTENCE_ON_DATES.format(text)
    if CATEGORIES[category] == "open-domain":
        answer = answer.split(";")[0].strip()
    if CATEGORIES[category] == "adversarial":
        options = _adversarial_options(row_question, field)
        text = _WITH_OPTIONS.format(text, *options)
        answer = NOT_MENTIONED
        supporting = ()
        extra["options"] = options
    answers = clean_answers([answer], f"{field}.answer")
    question = Question(f"{document.id}-{number}", text, (document.id,))
    return Example(question, Gold(answers, supporting, extra))


def parse_row(raw: RawRow) -> Group:
    """Parse one conversation with its questions, {"conversation": its sessions, "qa": questions,
    ..}.

    Gold.supporting: the turns that are named as evidence, none in category 5. Gold.extra: category,
    type (its name), and in category 5 the options (a, b). Raises RowError, which names the field.
    """
    row = _Row.read(raw)
    sessions = _sessions(row.conversation)
    document, span_by_turn_id = _document_and_turn_spans(row.sample_id, sessions)
    examples = []
    for number, row_question in enumerate(row.qa):
        examples.append(_example(row_question, number, document, span_by_turn_id))
    return Group(document, tuple(examples))
