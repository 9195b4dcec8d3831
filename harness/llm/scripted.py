"""A scripted model: replies, probabilities and attention come from a table, through the same
session interface.

    replies:                                  the first rule whose `when` occurs in the context answers
      - {when: "Summary the following", reply: "* one\\n* two"}
      - {reply: "Paris"}                      no `when`: always; `once: true`: used a single time
    probes:
      - {p: {"Yes": 0.2, "No": 0.8}, once: true}
      - {p: {"Yes": 0.9, "No": 0.1}}          tokens that are no labels may be among them: {"Maybe": 0.5, "Yes": 0.3}
    attention:                                [row contains, column contains, weight]; the first that fits
      - ["one", "Paris is", 0.75]

A token is a word with the white space before it. While writing, a token's row text is the line it
stands in.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from harness.config.schema import ModelConfig, Thinking
from harness.config.yaml_tree import error_sentences
from harness.cost.meter import Meter
from harness.errors import CannotRun, ModelOutputError
from harness.llm.backend import Backend, ModelFacts, misplaced_settings
from harness.llm.endings import reply_end, split_thinking, thinking_room
from harness.models import (
    Decoding,
    LanguageModel,
    PlainGeneration,
    Probe,
    Session,
    Span,
    Written,
)
from harness.storage.yaml_text import parse_yaml

_TOKEN = re.compile(r"\s*\S+|\s+")
_CAPABILITIES = frozenset({"attention", "plain_model", "probe", "score", "adapters", "sampling"})
Attention = Callable[[str, str], float]


class Rule(BaseModel):
    """One line of the table: what the model does where a text occurs in its context.

    Attributes:
        when: The text; "" occurs in every context.
        reply: The reply, of a rule of replies.
        p: Probabilities (token -> p), of a rule of probabilities.
        once: Whether the rule holds a single time; without it the first that fits always answers.
    """

    model_config = ConfigDict(extra="forbid")
    when: str = ""
    reply: str | None = None
    p: dict[str, float] | None = None
    once: bool = False


class Script(BaseModel):
    """The whole table.

    Attributes:
        replies: Rules of replies; the first that fits the context answers.
        probes: Rules of probabilities.
        attention: (row contains, column contains, weight); the first that fits holds.
        window: Tokens of a context.
    """

    model_config = ConfigDict(extra="forbid")
    replies: list[Rule] = []
    probes: list[Rule] = []
    attention: list[tuple[str, str, float]] = []
    window: int = 8192


class ScriptedSession(Session):
    """A context whose model is a table."""

    def __init__(self, model: ScriptedModel, meter: Meter, role: str) -> None:
        """Begin an empty context.

        Args:
            model: The model with its table.
            meter: Counts the costs.
            role: The role that they are counted under.
        """
        super().__init__(model.name, model.window, meter, role)
        self._model = model
        self._tokens: list[str] = []
        self._n_read = 0  # tokens that are booked as read
        self._before_turn = ""  # the context in front of the turn that is open

    def _open(self, turn: str) -> None:
        """Begin a turn: append "[user]" on a line of its own, and note the context before it."""
        self._before_turn = self._text()
        turn_head = f"\n[{turn}]"
        if turn == "system":  # it begins the context
            turn_head = f"[{turn}]"
        self._append(turn_head)

    def _append(self, text: str) -> Span:
        """Append a text to the context, and return its span in tokens. Raises WindowExceeded."""
        tokens = _TOKEN.findall(text)
        self._check_window(len(tokens))
        self._tokens += tokens
        return Span(len(self._tokens) - len(tokens), len(self._tokens))

    def _text(self) -> str:
        """The text of the whole context."""
        return "".join(self._tokens)

    def _text_of(self, span: Span) -> str:
        """The text of the tokens in a span of the context."""
        return "".join(self._tokens[span.start : span.end])

    def _watch(self, span: Span, text: str, watch: Sequence[Span]) -> Span:
        """The span with its attention to each watched span, by the model's rule for two texts.

        Args:
            span: The span of the text that is fed.
            text: This text.
            watch: Earlier spans.
        """
        values = [self._model.attend(text, self._text_of(watched)) for watched in watch]
        return Span(span.start, span.end, session=None, _attention=tuple(values))

    def _by_head(self, text: str, keys: Span) -> np.ndarray:
        """Attention of a text to each token of `keys`, float32 [1, 1, tokens]: one layer and one
        head. A token gets the attention of `text` to the line that it stands in."""
        self._book("probe", self.length() - self._n_read, self._n_read, requests=1)
        key_tokens = self._tokens[keys.start : keys.end]
        lines = "".join(key_tokens).split("\n")
        line_numbers = np.cumsum([token.count("\n") for token in key_tokens])
        weights = [self._model.attend(text, lines[number]) for number in line_numbers]
        return np.array(weights, dtype=np.float32)[None, None]

    def _write_plain(
        self, generate: Callable[[PlainGeneration], None], decoding: Decoding
    ) -> Written:
        """Write as `_write` does: a table has no network that `generate` could run."""
        return self._write(decoding, ())

    def flush(self, requests: int = 0) -> None:
        """Book the tokens that are queued as read.

        Args:
            requests: How many requests they are booked as.
        """
        if self._n_read < self.length():
            self._book("prefill", self.length() - self._n_read, self._n_read, requests=requests)
            self._n_read = self.length()

    def _save(self) -> int:
        """The number of tokens of the context, to come back to by `_restore`."""
        return self.length()

    def _restore(self, state: int) -> None:
        """Cut the context to its first `state` tokens, all of which count as read."""
        n_tokens = state
        del self._tokens[n_tokens:]
        self._n_read = n_tokens

    def _first_token(self, label: str) -> str | None:
        """The first character of a label; None for an empty one."""
        return label[:1] or None

    def _probe(self, labels: Sequence[str], first_tokens: Sequence[str], after: str) -> Probe:
        """Probabilities of the labels by the first rule that fits the context; 0 for a label that
        the rule does not name. Also books the probe.

        Args:
            labels: What may come next.
            first_tokens: Not used.
            after: Not used.
        """
        self.flush()
        self._book("probe", 1, self.length(), requests=1)
        # A rule without probabilities gives each label 0, and none is likeliest.
        by_token = self._model.pick_rule("probes", self._text()).p or {"": 0.0}
        by_label = {label: by_token.get(label, 0.0) for label in labels}
        likeliest_token = max(by_token, key=by_token.__getitem__)
        likeliest_label = None
        if by_label.get(likeliest_token):
            likeliest_label = likeliest_token
        return Probe.of(by_label, likeliest_label)

    def _score(self, text: str) -> list[float]:
        """Log-probabilities -1, -2, -3, ... for the tokens of any text; books the request."""
        self.flush()
        n_tokens = len(_TOKEN.findall(text))
        scores = [-float(number) for number in range(1, n_tokens + 1)]
        self._book("score", len(scores), self.length(), requests=1)
        return scores

    def _write(self, decoding: Decoding, watch: Sequence[Span]) -> Written:
        """Append the reply of the first rule that fits the context before it, cut and booked as a
        model's would be; returns it."""
        self.flush(requests=1)
        whole_reply = self._model.pick_rule("replies", self._before_turn).reply or ""
        split = split_thinking(whole_reply, self._model.thinking)
        n_thinking = len(_TOKEN.findall(split.thinking))
        if n_thinking:
            self._book(
                "decode",
                n_thinking,
                self.length(),
                out=n_thinking,
                thinking=n_thinking,
                unclosed=int(not split.is_closed),
            )
        end = reply_end(split.answer, decoding.stop, endings=None)
        tokens = _TOKEN.findall(split.answer[: end.n_characters])
        text = "".join(tokens[: decoding.max_tokens])
        span = self._append(text)
        self._book("decode", len(span), span.start, out=len(span))
        self._n_read = self.length()
        offsets = tuple(self._model.offsets(text))
        finish = "stop"
        if len(tokens) > decoding.max_tokens:
            finish = "length"
        attention = None
        if watch:
            attention = self._attention_rows(text, offsets, watch)
        return Written(
            text=text,
            span=span,
            finish=finish,
            offsets=offsets,
            attention=attention,
            thinking=split.thinking,
        )

    def _attention_rows(
        self, text: str, offsets: Sequence[tuple[int, int]], watch: Sequence[Span]
    ) -> np.ndarray:
        """The attention of a reply to spans.

        Args:
            text: The text of the reply.
            offsets: The characters of each token.
            watch: The spans.

        Returns:
            [tokens, spans]; a token has the attention of the line that it stands in.
        """
        watched_texts = [self._text_of(watched) for watched in watch]
        weights = np.zeros((len(offsets), len(watched_texts)))
        for token_number, (_, token_end) in enumerate(offsets):
            line_start = text.rfind("\n", 0, token_end - 1) + 1
            line_end = (text + "\n").index("\n", token_end - 1)
            line = text[line_start:line_end]
            weights[token_number] = [self._model.attend(line, watched) for watched in watched_texts]
        return weights

    def length(self) -> int:
        """Tokens in the context."""
        return len(self._tokens)


class ScriptedModel(LanguageModel):
    """A table as a model.

    Attributes:
        prompts: The contexts for which a rule was looked for.
        thinking: Markers in its replies; None for none.
    """

    def __init__(
        self, script: Script, name: str = "scripted", attention: Attention | None = None
    ) -> None:
        """Make a model of a table.

        Args:
            script: The table.
            name: The name that tables of results show.
            attention: (row text, column text) -> weight, instead of the table's rows.
        """
        self.name = name
        self.window = script.window
        self.shape = None
        self.capabilities = _CAPABILITIES
        self.identity = {"script": hashlib.sha256(script.model_dump_json().encode()).hexdigest()}
        self.prompts: list[str] = []
        self._rules = {"replies": list(script.replies), "probes": list(script.probes)}
        self._attention_rules = script.attention
        self._attention = attention
        self._lock = threading.Lock()  # held while a rule is picked
        self.thinking: Thinking | None = None

    def pick_rule(self, kind: Literal["replies", "probes"], context: str) -> Rule:
        """The first rule that fits a context; one that holds a single time is used up. Also appends
        the context to `prompts`.

        Args:
            kind: What the rule is to give.
            context: The text of the context.

        Raises:
            ModelOutputError: No rule fits.
        """
        with self._lock:
            self.prompts.append(context)
            rules = self._rules[kind]
            for number, rule in enumerate(rules):
                if rule.when in context:
                    if rule.once:
                        return rules.pop(number)
                    return rule
        raise ModelOutputError(
            f"the script of '{self.name}' has no rule in {kind} for: ...{context[-80:]!r}"
        )

    def attend(self, row: str, column: str) -> float:
        """The attention weight from one text to another: by the model's function, else by the first
        row of its table that fits; 0 if none does.

        Args:
            row: The text that attends.
            column: The text that is attended to.
        """
        if self._attention is not None:
            return self._attention(row, column)
        for text_in_row, text_in_column, weight in self._attention_rules:
            if text_in_row in row and text_in_column in column:
                return weight
        return 0.0

    def session(
        self, meter: Meter, role: str = "reader", adapter: str | None = None
    ) -> ScriptedSession:
        """Open an empty context.

        Args:
            meter: Counts its costs.
            role: The role that they are counted under.
            adapter: Accepted, and changes nothing.
        """
        return ScriptedSession(self, meter, role)

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Character range of each token: a word with the white space before it."""
        return [match.span() for match in _TOKEN.finditer(text)]

    def turn_tokens(self) -> int:
        """2: "[user]" and "[reply]" are a token each."""
        return 2

    def system_turn_tokens(self, text: str) -> int:
        """Tokens of "[system]" and of the text."""
        return 1 + self.count(text)


class Scripted(Backend):
    """A table as a model."""

    def facts(self, config: ModelConfig) -> ModelFacts:
        """What is known of the model: all, as its table is read for that. Its identity is a hash of
        the table. Raises CannotRun where the table cannot be read."""
        problems = misplaced_settings(config)
        if problems:
            return ModelFacts(config.name, problems=problems)
        model = self.load(config)
        return ModelFacts(config.name, model.capabilities, model.window, model.identity)

    def load(self, config: ModelConfig, facts: ModelFacts | None = None) -> ScriptedModel:
        """Read and check the YAML table that `config.script` names, anew for each run, as a run
        uses up its replies. Raises CannotRun."""
        if not config.script:
            raise CannotRun(
                "a scripted model needs --set model.script=FILE, a YAML file such as `replies: "
                "[{reply: Paris}]`"
            )
        try:
            script = Script.model_validate(parse_yaml(Path(config.script).read_bytes()) or {})
        except ValidationError as e:
            sentences = error_sentences(e, Script, path="", origins={})
            raise CannotRun(f"the script '{config.script}': {sentences[0]}") from e
        except (OSError, ValueError) as e:
            reason = getattr(e, "strerror", None) or str(e).splitlines()[0]
            way_out = "check model.script (with --set from the current folder)"
            raise CannotRun(
                f"the script '{config.script}' cannot be used: {reason}; {way_out}"
            ) from e
        room = thinking_room(config, config.window or script.window)
        if room.problems:
            raise CannotRun(room.problems[0])
        model = ScriptedModel(script.model_copy(update={"window": room.n_tokens}), config.name)
        if config.thinking:
            model.thinking = config.thinking
            model.identity["thinking"] = config.thinking.model_dump()
        return model
