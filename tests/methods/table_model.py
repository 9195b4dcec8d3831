"""A scripted model whose log-probabilities are looked up in a table."""

from harness.llm.scripted import Rule, Script, ScriptedModel, ScriptedSession

REPLY = [Rule(reply="Mira")]


class Table(ScriptedModel):
    """Every word costs what its last character says: "a7" has probability exp(-7); others cost
    1."""

    def __init__(self, window=8192):
        super().__init__(Script(replies=REPLY, window=window))
        self.contexts = []

    def session(self, meter, role="reader", adapter=None):
        return _TableSession(self, meter, role)


class _TableSession(ScriptedSession):
    def score(self, text):
        self._model.contexts.append(self._text())
        super().score(text)
        return [
            -float(t[-1]) if t[-1].isdigit() else -1.0
            for t in (text[a:b] for a, b in self._model.offsets(text))
        ]
