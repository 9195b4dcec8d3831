"""Words without draws from the global generators, which questions in flight share."""

from collections.abc import Sequence

from harness.method import Index, Tools
from harness.types import Answer, Document, Question, Shown
from tests.engine.fakes import Words, trouble


class Quiet(Words):
    """Indexes words and answers with the first one."""

    def index(self, document: Document, tools: Tools) -> Index:
        self.built.append(document.id)
        tools.model().session().feed(document.text)  # type: ignore[attr-defined]
        return {"words": document.text.split()}

    def answer(
        self, question: Question, documents: Sequence[Document], indexes: Sequence[Index], tools: Tools
    ) -> Answer:
        self.pause()
        with tools.phase("search"):
            tools.model().session().feed(question.text)  # type: ignore[attr-defined]
        tools.model().session().feed(question.text + " please answer")  # type: ignore[attr-defined]
        trouble(question.text)
        whole = Shown("span", documents[0].id, 0, len(documents[0].text))
        return Answer(indexes[0]["words"][0], shown=(whole,), stop_reason="found")
