"""A model that replays replies, probabilities and attention from a table, through the same session interface.

    replies:                                  the first rule whose `when` occurs in the context answers
      - {when: "Summary the following", reply: "* one\\n* two"}
      - {reply: "Paris"}                      no `when`: always; `once: true`: used a single time
    probes:
      - {p: {"Yes": 0.2, "No": 0.8}, once: true}
      - {p: {"Yes": 0.9, "No": 0.1}}          tokens that are no labels may be among them: {"Maybe": 0.5, "Yes": 0.3}
    attention:                                [row contains, column contains, weight]; the first that fits
      - ["one", "Paris is", 0.75]

A token is a word with the white space before it. While writing, a token's row text is the line it stands in.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ConfigDict

from harness.config.schema import ModelConfig
from harness.cost.events import Event, Kind
from harness.cost.meter import Meter
from harness.errors import CannotRun, ModelOutputError, WindowExceeded
from harness.models import LanguageModel, ModelFacts, Probe, Session, Span, Written
from harness.storage.limits import yaml_problem

_TOKEN = re.compile(r"\s*\S+|\s+")
_CAPABILITIES = frozenset({"attention", "probe", "score", "adapters", "sampling"})
Attention = Callable[[str, str], float]


class Rule(BaseModel):
    """One line of the table: what to say, or which probabilities, when `when` occurs in the context."""

    model_config = ConfigDict(extra="forbid")
    when: str = ""
    reply: str | None = None
    p: dict[str, float] | None = None
    once: bool = False


class Script(BaseModel):
    """A whole table."""

    model_config = ConfigDict(extra="forbid")
    replies: list[Rule] = []
    probes: list[Rule] = []
    attention: list[tuple[str, str, float]] = []
    window: int = 8192


@dataclass
class _Turns:
    """Text of the context, token by token."""

    tokens: list[str] = field(default_factory=list)

    def add(self, text: str) -> Span:
        span = Span(len(self.tokens), len(self.tokens))
        self.tokens += _TOKEN.findall(text)
        return Span(span.start, len(self.tokens))

    def text(self, start: int = 0, end: int | None = None) -> str:
        return "".join(self.tokens[start:end])


class ScriptedSession(Session):
    """A context whose model is a table."""

    def __init__(self, model: ScriptedModel, meter: Meter, role: str) -> None:
        self._model, self._meter, self._role = model, meter, role
        self._context = _Turns()
        self._run = 0
        self._turn = "start"

    def _add(self, text: str) -> Span:
        span = self._context.add(text)
        if span.end > self._model.window:
            raise WindowExceeded(f"{span.end} tokens do not fit the window of {self._model.window}")
        return span

    def _need(self, verb: str) -> None:
        if self._turn != "user":
            raise ValueError(f"{verb}() needs an open user turn")

    def system(self, text: str) -> Span:
        """Begin with a system turn."""
        if self.length():
            raise ValueError("system() comes before everything else in a context")
        self._add("[system]")
        return self._add(text)

    def user(self, text: str = "") -> Span:
        """Open a user turn."""
        if self._turn == "user":
            raise ValueError("user() inside an open user turn")
        self._turn = "user"
        self._add("\n[user]")
        return self._add(text)

    def feed(self, text: str, watch: Sequence[Span] = ()) -> Span:
        """Append text; attention comes from the table."""
        self._need("feed")
        span = self._add(text)
        if watch:
            values = (self._model.attend(text, self._context.text(w.start, w.end)) for w in watch)
            return Span(span.start, span.end, None, tuple(values))
        return span

    def _event(self, kind: Kind, new: int, cached: int, requests: int = 0, out: int = 0) -> None:
        e = Event(self._role, self._model.name, self._meter.current_phase, kind, new, cached, 0, 0, requests, out)
        self._meter.record(e, None)

    def flush(self) -> None:
        """Book what is queued."""
        self._flush()

    def _flush(self, requests: int = 0) -> None:
        if self._run < self.length():
            self._event("prefill", self.length() - self._run, self._run, requests)
            self._run = self.length()

    @contextlib.contextmanager
    def branch(self) -> Iterator[None]:
        """Roll back afterwards."""
        self.flush()
        length, turn = self.length(), self._turn
        try:
            yield
        finally:
            del self._context.tokens[length:]
            self._run, self._turn = length, turn

    def probe(self, labels: Sequence[str], after: str = "") -> Probe:
        """Probabilities from the table."""
        self._need("probe")
        if len({label[:1] for label in labels}) < len(labels):
            raise ValueError(f"labels {list(labels)} share their first token")
        self.flush()
        rule = self._model.pick("probes", self._context.text())
        self._event("probe", 1, self.length(), requests=1)
        mass = {label: (rule.p or {}).get(label, 0.0) for label in labels}
        total = sum(mass.values()) or 1.0
        best = max(rule.p or {"": 0.0}, key=lambda token: (rule.p or {}).get(token, 0.0))
        return Probe({k: v / total for k, v in mass.items()}, mass, best if mass.get(best) else None)

    def reply(self, text: str) -> Span:
        """Put a reply into the context."""
        self._need("reply")
        self._turn = "reply"
        self._add("\n[reply]")
        return self._add(text)

    def score(self, text: str) -> list[float]:
        """Log-probabilities -1, -2, -3, ... token by token: a known answer for any text."""
        self.flush()
        found = [-float(i + 1) for i in range(len(_TOKEN.findall(text)))]
        self._event("score", len(found), self.length(), requests=1)
        return found

    def write(
        self,
        max_tokens: int,
        stop: Sequence[str] = (),
        *,
        temperature: float = 0.0,
        top_p: float = 1.0,
        seed: int = 0,
        watch: Sequence[Span] = (),
        begin: str = "",
    ) -> Written:
        """The first fitting reply, cut at `max_tokens` tokens and at stop strings."""
        self._need("write")
        rule = self._model.pick("replies", self._context.text())
        self._turn = "reply"
        self._add("\n[reply]" + begin)
        if self.room() < max_tokens:
            raise WindowExceeded(f"{self.length()} tokens and {max_tokens} to write do not fit {self._model.window}")
        self._flush(requests=1)
        reply = rule.reply or ""
        cut = min((reply.index(s) for s in stop if s in reply), default=len(reply))
        tokens = _TOKEN.findall(reply[:cut])
        finish = "length" if len(tokens) > max_tokens else "stop"
        text = "".join(tokens[:max_tokens])
        span = self._add(text)
        self._event("decode", len(span), span.start, out=len(span))
        self._run = self.length()
        offsets = tuple((m.start(), m.end()) for m in _TOKEN.finditer(text))
        return Written(text, span, finish, offsets, self._rows(text, offsets, watch) if watch else None)

    def _rows(self, text: str, offsets: Sequence[tuple[int, int]], watch: Sequence[Span]) -> np.ndarray:
        columns = [self._context.text(w.start, w.end) for w in watch]
        rows = np.zeros((len(offsets), len(columns)))
        for i, (_, end) in enumerate(offsets):
            line = text[text.rfind("\n", 0, end - 1) + 1 : (text + "\n").index("\n", end - 1)]
            rows[i] = [self._model.attend(line, c) for c in columns]
        return rows

    def length(self) -> int:
        """Tokens in the context."""
        return len(self._context.tokens)

    def room(self) -> int:
        """Tokens left in the window."""
        return self._model.window - self.length()

    def close(self) -> None:
        """Nothing to free."""
        self._turn = "closed"


class ScriptedModel(LanguageModel):
    """A table as a model. `attention` may be a function (row text, column text) -> weight instead of rows."""

    def __init__(self, script: Script, name: str = "scripted", attention: Attention | None = None) -> None:
        self.name, self.window, self.shape = name, script.window, None
        self.capabilities = _CAPABILITIES
        self.identity = {"script": hashlib.sha256(script.model_dump_json().encode()).hexdigest()}
        self.prompts: list[str] = []
        self._rules = {"replies": list(script.replies), "probes": list(script.probes)}
        self._rows = script.attention
        self._attention = attention
        self._lock = threading.Lock()

    @classmethod
    def from_config(cls, config: ModelConfig) -> ScriptedModel:
        """Read the table named by `config.script`."""
        script = read_script(config)
        return cls(script.model_copy(update={"window": config.window or script.window}), config.name)

    def pick(self, table: str, context: str) -> Rule:
        """The first rule of `table` that fits `context`. Raises ModelOutputError when none does."""
        with self._lock:
            self.prompts.append(context)
            rules = self._rules[table]
            for i, rule in enumerate(rules):
                if rule.when in context:
                    return rules.pop(i) if rule.once else rule
        raise ModelOutputError(f"the script of '{self.name}' has no rule in {table} for: ...{context[-80:]!r}")

    def attend(self, row: str, column: str) -> float:
        """Attention of a row text to a column text."""
        if self._attention is not None:
            return self._attention(row, column)
        return next((w for r, c, w in self._rows if r in row and c in column), 0.0)

    def session(self, meter: Meter, role: str = "reader", adapter: str | None = None) -> ScriptedSession:
        """Open an empty context."""
        return ScriptedSession(self, meter, role)

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """A token is a word with the white space before it."""
        return [(m.start(), m.end()) for m in _TOKEN.finditer(text)]

    def turn_tokens(self) -> int:
        """[user] and [reply]."""
        return 2

    def system_tokens(self, text: str) -> int:
        """[system] and the text."""
        return 1 + self.count(text)


def read_script(config: ModelConfig) -> Script:
    """Read and check the YAML table. Raises CannotRun."""
    import yaml

    if not config.script:
        raise CannotRun("a scripted model needs --set model.script=FILE")
    try:
        text = Path(config.script).read_text(encoding="utf-8")
        if problem := yaml_problem(text):
            raise CannotRun(f"the script '{config.script}' cannot be used: {problem}")
        return Script.model_validate(yaml.safe_load(text) or {})
    except (OSError, yaml.YAMLError, ValueError) as e:
        raise CannotRun(f"the script '{config.script}' cannot be used: {str(e).splitlines()[0]}") from e


def scripted_facts(config: ModelConfig) -> ModelFacts:
    """Facts of a scripted model: its identity is the table."""
    model = ScriptedModel.from_config(config)
    return ModelFacts(config.name, model.capabilities, model.window, model.identity)
