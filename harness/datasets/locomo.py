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

from harness.datasets.raw_rows import RawRow
from harness.datasets.rows import (
    Group,
    Row,
    RowError,
    StrictRow,
    assemble,
    clean_answers,
    made_id,
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
_DATED = "{} Use DATE of CONVERSATION to answer with an approximate date."
_CHOICE = "{} Select the correct answer: (a) {} (b) {}."
_SESSION = re.compile(r"session_(\d+)")
_TURN_ID = re.compile(r"D:?(\d+):(\d+)")


class _Turn(StrictRow):
    speaker: str
    dia_id: str
    text: str
    blip_caption: str | None = None

    def shown(self) -> str:
        """The turn as the authors' prompt shows it: 'Ann said, "Hi"', and below it what she
        shares.
        """
        text = f'{self.speaker} said, "{self.text}"'
        if self.blip_caption:
            text += f"\n[shares {self.blip_caption}]"
        return text


class _Asked(StrictRow):
    question: str
    answer: str | int | float | None = None
    adversarial_answer: str | None = None
    evidence: list[str]
    category: int


class _Row(StrictRow):
    sample_id: str
    conversation: RawRow
    qa: list[_Asked]


class _Session(StrictRow):
    date: str
    turns: list[_Turn]

    def shown(self) -> str:
        """The turns as the authors' prompt shows them, one below the other."""
        return "\n".join(turn.shown() for turn in self.turns)


def _sessions(conversation: RawRow) -> list[_Session]:
    """The sessions of a conversation that have turns, in the order of their numbers.

    Args:
        conversation: "session_1" -> its turns, "session_1_date_time" -> its date, and so on.

    Raises:
        RowError: A session is malformed.
    """
    numbers = []
    for key in conversation:
        found = _SESSION.fullmatch(key)
        if found is not None:
            numbers.append(int(found.group(1)))
    sessions = []
    for number in sorted(numbers):
        name = f"session_{number}"
        raw = {"date": conversation.get(f"{name}_date_time"), "turns": conversation[name]}
        try:
            session = _Session.read(raw)
        except RowError as error:
            raise RowError(f"conversation.{name}", f"{error.field} {error.problem}") from None
        if session.turns:
            sessions.append(session)
    return sessions


def _document(name: str, sessions: list[_Session]) -> tuple[Document, dict[str, Support]]:
    """Make the document of a conversation, with a passage for each session.

    Args:
        name: The document's id.
        sessions: The sessions, in order.

    Returns:
        The document, and the span of each turn in it by its id, "D1:1".
    """
    titles = [f"DATE: {session.date}\nCONVERSATION:" for session in sessions]
    texts = [session.shown() for session in sessions]
    row = Row(name, "-", tuple(zip(titles, texts, strict=True)), ())
    _, document = assemble(row)
    spans = {}
    for passage, session, text in zip(document.passages, sessions, texts, strict=True):
        start = passage.end - len(text)
        for turn in session.turns:
            end = start + len(turn.shown())
            spans[turn.dia_id] = Support(name, start, end)
            start = end + 1
    return document, spans


def _evidence(marks: list[str], spans: dict[str, Support]) -> tuple[Support, ...]:
    """The spans of the turns that a question names as evidence; ids that are not there are passed
    over.

    Args:
        marks: As the row has them, ["D1:1", "D2:3; D2:4"].
        spans: Id of each turn -> its span.
    """
    named = []
    for mark in marks:
        for session, turn in _TURN_ID.findall(mark):
            named.append(f"D{int(session)}:{int(turn)}")
    return tuple(spans[name] for name in dict.fromkeys(named) if name in spans)


def _adversarial(asked: _Asked, name: str) -> tuple[str, dict[str, object]]:
    """The text of a question of category 5 with its two options, and {"options": the two}.

    Args:
        asked: The question; its adversarial answer is the wrong option.
        name: Its place in the row, for the error.

    Raises:
        RowError: The wrong option is blank.
    """
    wrong = str(asked.adversarial_answer or asked.answer)
    refuse_blank({f"{name}.adversarial_answer": wrong})
    options = [NOT_MENTIONED, wrong]
    if made_id("", asked.question).endswith(tuple("01234567")):
        options.reverse()
    return _CHOICE.format(asked.question, *options), {"options": options}


def _example(asked: _Asked, number: int, document: Document, spans: dict[str, Support]) -> Example:
    """Make one question of a conversation, with the accepted answer and evidence of its category.

    Args:
        asked: The question as the row has it.
        number: Its number in the row, from 0.
        document: The conversation.
        spans: Id of each turn -> its span.

    Raises:
        RowError: A field cannot be used.
    """
    name = f"qa[{number}]"
    refuse_blank({f"{name}.question": asked.question})
    if asked.category not in CATEGORIES:
        raise RowError(f"{name}.category", f"should be 1 to 5, is {asked.category}")
    extra: dict[str, object] = {"category": asked.category, "type": CATEGORIES[asked.category]}
    text = asked.question
    answer = ""
    if asked.answer is not None:
        answer = str(asked.answer)
    supporting = _evidence(asked.evidence, spans)
    if asked.category == 2:
        text = _DATED.format(text)
    if asked.category == 3:
        answer = answer.split(";")[0].strip()
    if asked.category == 5:
        text, options = _adversarial(asked, name)
        answer = NOT_MENTIONED
        supporting = ()
        extra |= options
    answers = clean_answers([answer], f"{name}.answer")
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
    document, spans = _document(row.sample_id, sessions)
    examples = []
    for number, asked in enumerate(row.qa):
        examples.append(_example(asked, number, document, spans))
    return Group(document, tuple(examples))
