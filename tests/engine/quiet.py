"""Words without draws from the global generators, which questions in flight share."""

from harness.types import Answer, Shown
from tests.engine.fakes import Words, trouble


class Quiet(Words):
    """Indexes words and answers with the first one."""

    def index(self, document, tools):
        self.built.append(document.id)
        tools.model().session().feed(document.text)
        return {"words": document.text.split()}

    def answer(self, question, documents, indexes, tools):
        self.pause()
        with tools.phase("search"):
            tools.model().session().feed(question.text)
        tools.model().session().feed(question.text + " please answer")
        trouble(question.text)
        whole = Shown("span", documents[0].id, 0, len(documents[0].text))
        return Answer(indexes[0]["words"][0], shown=(whole,), stop_reason="found")
