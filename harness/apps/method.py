"""An application as a method: each question is given to it as it is, and its reply is the answer.

    --app old=http://localhost:8000/ask  ->  "How long is the warranty?"
    {"answer": "two years", "sources": ["setup.md"]}  ->  Answer("two years", (Shown("source", text="setup.md"),))

It sees no documents: the application has its own. What it names or quotes is found in the data
set's documents afterwards (harness/engine/named_sources.py).
"""

from collections.abc import Sequence
from typing import ClassVar

from harness.apps.backend import CAPABILITY, ApplicationSession
from harness.apps.reply import AppReply
from harness.apps.settings import AppQuestion
from harness.method import Indexes, Method, Needs, Tools, Traits
from harness.types import Answer, Document, Question, Shown


class Application(Method):
    """Asks an application of the user's own."""

    summary = "an application of your own (--app)"
    needs: ClassVar[Needs] = {"reader": frozenset({CAPABILITY})}
    traits = Traits(one_document=False, reads_documents=False)

    def answer(
        self, question: Question, documents: Sequence[Document], indexes: Indexes, tools: Tools
    ) -> Answer:
        """Ask the application the question as it is, and answer with its reply.

        Args:
            question: The question.
            documents: Not used: the application has its own.
            indexes: Not used.
            tools: Give the application's session and the task.

        Returns:
            The application's answer, and what it says that it rests on.
        """
        session = tools.model().session()
        assert isinstance(session, ApplicationSession)  # the only one with this capability
        app_question = AppQuestion(
            question=_with_options(question),
            options=question.options or (),
            documents=question.document_ids,
            instruction=tools.task.instruction,
        )
        reply = session.ask(app_question)
        text = tools.task.answer_in(reply.answer)
        return Answer(text, shown_of(reply), "the application answered")


def _with_options(question: Question) -> str:
    """The question's text, with the options of a multiple-choice question below it."""
    return "\n".join([question.text, *(question.options or ())])


def shown_of(reply: AppReply) -> tuple[Shown, ...]:
    """What a reply says that it rests on: a piece for each text and for each page that it names.

    Where it does not say its texts, the first piece is of the kind "unknown"; an empty list of
    pages gives one without a name, as that is a statement too.
    """
    contexts: tuple[Shown, ...] = (Shown("unknown"),)
    if reply.contexts is not None:
        contexts = tuple(map(_quote, reply.contexts))
    if reply.sources is None:
        return contexts
    names = reply.sources or ("",)  # an empty list is a statement too: no page is named
    return (*contexts, *map(_source, names))


def _quote(text: str) -> Shown:
    """A shown piece with a text that the application says it used."""
    return Shown("quote", text=text)


def _source(name: str) -> Shown:
    """A shown piece with the name of a page that the application says it used."""
    return Shown("source", text=name)
