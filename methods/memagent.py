"""MemAgent's workflow without its training (Yu et al. 2025, arXiv 2507.02259): one memory,
overwritten in turn.

    "No previous memory" + segment 1 ──► memory 1     memory 1 + segment 2 ──► memory 2     ...     memory n ──► answer

The question stands in every request, and the answer is written from the last memory alone. Writing
memories counts as search. Source: docs/methods/qrmem.md#memagent.
"""

from collections.abc import Sequence
from typing import NamedTuple

from harness.method import Indexes, Method, MethodConfig, Tools, Traits
from harness.method.settings import setting
from harness.models import MeteredModel
from harness.prompts import Pieces, Prompt, feed, prompt_tokens
from harness.types import Answer, Document, Question, Shown, Step
from methods.chunks import Span, fixed_chunks
from methods.reading import options, question_text
from methods.retry import require_room

# The released code's, but for the form of the answer, which is the data set's instruction. The
# paper's table 1 has a shorter update: configs/methods/memagent-printed-prompt.yaml.
UPDATE = Prompt(
    "memory update",
    "You are presented with a problem, a section of an article that may contain the answer to the "
    "problem, and a previous memory. Please read the provided section carefully and update the "
    "memory with the new information that helps to answer the problem. Be sure to retain all "
    "relevant details from the previous memory while adding any new, useful information.\n\n"
    "<problem> \n"
    "{question}\n"
    "</problem>\n\n"
    "<memory>\n"
    "{memory}\n"
    "</memory>\n\n"
    "<section>\n"
    "{section}\n"
    "</section>\n\n"
    "Updated memory:\n",
)
FINAL = Prompt(
    "answer from memory",
    "You are presented with a problem and a previous memory. Please answer the problem based on "
    "the previous memory. {instruction}\n\n"
    "<problem> \n"
    "{question}{options}\n"
    "</problem>\n\n"
    "<memory>\n"
    "{memory}\n"
    "</memory>\n\n"
    "Your answer:\n",
    answers=True,
)
NO_MEMORY = "No previous memory"


def segment_spans(text: str, segment_tokens: int, model: MeteredModel) -> list[Span]:
    """The spans of segments of `segment_tokens` tokens, which tile the text without the white space
    at its ends, as in the released code."""
    text_start = len(text) - len(text.lstrip())
    spans = fixed_chunks(text.strip(), segment_tokens, model)
    return [(text_start + start, text_start + end) for start, end in spans]


class Reply(NamedTuple):
    """The text of a reply, and how many tokens its request has."""

    text: str
    request_tokens: int


def send_request(
    request: Pieces, max_tokens: int, window: int | None, model: MeteredModel
) -> Reply:
    """Send a request in a conversation of its own.

    Args:
        request: The request.
        max_tokens: Most tokens of the reply.
        window: Most tokens of both; None: the model's window.
        model: The model that is asked.

    Raises:
        WindowExceeded: Both do not fit the window.
    """
    request_tokens = prompt_tokens(request, model)
    require_room(request_tokens + max_tokens, model, window)
    with model.session() as session:
        feed(session, request)
        return Reply(session.write(max_tokens).text, request_tokens)


class MemAgent(Method):
    """Read a document in segments, keep one memory of bounded length, answer from it."""

    class Config(MethodConfig):
        """Settings of this method."""

        segment_tokens: int = setting(5000, gt=0, help="Tokens of a segment.")
        memory_tokens: int = setting(1024, gt=0, help="Most tokens of the memory.")
        answer_tokens: int | None = setting(
            1024, gt=0, help="Most tokens of the answer; None = the data set's."
        )
        window: int | None = setting(
            None, gt=0, help="Most tokens of a request, reply included; None = the model's window."
        )

    summary = (
        "one memory overwritten segment by segment, the answer from it alone (MemAgent, untrained)"
    )
    traits = Traits(draws=False)

    def templates(self) -> Sequence[Prompt]:
        """The two prompts that it sends: the update of the memory, and the answer from it."""
        return (UPDATE, FINAL)

    def answer(
        self, question: Question, documents: Sequence[Document], indexes: Indexes, tools: Tools
    ) -> Answer:
        """Let the model overwrite the memory with every segment, then answer from the last memory.

        Raises:
            WindowExceeded: A segment with the memory, and the memory that is written, does not fit.
        """
        (document,) = documents
        config = self.config
        model = tools.model()
        spans = segment_spans(document.text, config.segment_tokens, model)
        with tools.phase("search"):
            memory, steps = self._overwrite_memory(question, document, spans, tools)
        prompt = FINAL.with_replacements(config)  # the settings may replace the prompt by another
        request = prompt.fill(
            instruction=tools.task.instruction,
            question=[question.text],
            options=options(question),
            memory=[memory],
        )
        max_tokens = config.answer_tokens or tools.task.max_answer_tokens
        reply = send_request(request, max_tokens, config.window, model)
        sources = tuple((document.id, start, end) for start, end in spans)
        shown_memory: tuple[Shown, ...] = ()
        if spans:  # the memory is a text that the model wrote from these spans
            shown_memory = (Shown("generated", document.id, text=memory, sources=sources),)
        return Answer(
            text=tools.task.answer_in(reply.text),
            shown=shown_memory,
            stop_reason=f"{len(spans)} segments",
            steps=tuple(steps),
        )

    def _overwrite_memory(
        self, question: Question, document: Document, spans: Sequence[Span], tools: Tools
    ) -> tuple[str, list[Step]]:
        """Show the model the segments in turn, each with the memory, to write a new memory.

        Args:
            question: The question.
            document: The document.
            spans: The spans of the segments.
            tools: The engine's tools.

        Returns:
            The last memory, with its white space, as in the released code; NO_MEMORY for a text
            without segments. And a step "memory" for each segment.
        """
        config = self.config
        memory = NO_MEMORY
        steps: list[Step] = []
        for number, (start, end) in enumerate(spans):
            request = UPDATE.with_replacements(config).fill(
                question=[question_text(question)],
                memory=[memory],
                section=[document.text[start:end]],
            )
            reply = send_request(request, config.memory_tokens, config.window, tools.model())
            memory = reply.text
            step = Step(
                "memory",
                number,
                tokens=reply.request_tokens,
                flops=tools.meter.flops(),
                shown=Shown("span", document.id, start, end),
                note=memory,
            )
            steps.append(step)
        return memory, steps
