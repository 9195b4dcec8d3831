"""OpenAI MRCR (OpenAI 2025, after Vodrahalli et al. 2024): a long chat in which one request comes
2, 4 or 8 times.

    {"prompt": '[{"role": "user", "content": "write a poem about tapirs"}, {"role": "assistant", "content": ".."}, ..]',
     "answer": "aYooSG8CQgIn the..", "random_string_to_prepend": "aYooSG8CQg", "n_needles": 2}

The last message asks ("Prepend aYooSG8CQg to the 2nd (1 indexed) poem about tapirs. .."); those
before it are the document, a passage each, as "User: .." and "Assistant: ..". Supporting is the
message that is to be repeated.
"""

import json

from harness.datasets.raw_rows import RawRow
from harness.datasets.rows import Row, RowError, StrictRow, id_from_text


class _Row(StrictRow):
    prompt: str
    answer: str
    random_string_to_prepend: str
    n_needles: int


class _Message(StrictRow):
    role: str
    content: str

    def text_in_document(self) -> str:
        """The message as the document holds it: "User: write a poem"."""
        return f"{self.role.capitalize()}: {self.content}"


def parse_row(raw: RawRow) -> Row:
    """Parse one row, {"prompt": the chat as JSON, "answer", "random_string_to_prepend",
    "n_needles"}.

    The chat is the document, a message a paragraph; its last message is the question. The messages
    that the reply is to repeat are supporting. Gold.extra: prefix (what the reply must begin with),
    type. Raises RowError, which names the field.
    """
    row = _Row.read(raw)
    try:
        *messages, last_message = map(_Message.read, json.loads(row.prompt))
    except (ValueError, TypeError):
        raise RowError("prompt", "should be a JSON list of messages") from None
    message_to_repeat = row.answer.removeprefix(row.random_string_to_prepend)
    supporting = []
    for number, message in enumerate(messages):
        if message.content == message_to_repeat:
            supporting.append(number)
    return Row(
        id=id_from_text(f"mrcr-{row.n_needles}", row.prompt),
        question=last_message.content,
        paragraphs=tuple(("", message.text_in_document()) for message in messages),
        answers=(row.answer,),
        supporting=tuple(supporting),
        extra={"prefix": row.random_string_to_prepend, "type": f"{row.n_needles} needles"},
    )
