"""ICR and QRHead: chunks ranked by the attention that the question pays them in one pass over all
of them.

    "[1] chunk" "[2] chunk" ... instruction question      attention of the last part, instruction on, to each token
    "[1] chunk" "[2] chunk" ... instruction "N/A"         the same of a question without content, which is taken off

    token score = sum over heads of (attention to the question - attention to "N/A"); those more than two standard
    deviations below their chunk's mean are left out; chunk score = sum of the rest.

ICR sums all heads, QRHead those of a head list. Source: docs/methods/attention.md#in-context.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np
from pydantic import model_validator

from harness.errors import CannotRun, WindowExceeded
from harness.method import Index, Needs, Tools, Traits
from harness.method.settings import setting
from harness.models import MeteredModel
from harness.models import Span as TokenSpan
from harness.prompts import Prompt, feed, prompt_tokens
from harness.types import Question, Shown, Step
from methods.head_lists import ALL, Heads, file_digest, heads_for
from methods.reading import SEPARATOR, question_text
from methods.retrieval import RetrievalConfig, TopK, best_first

_PASSAGES = "Passages of a text follow.\n\n{text}\n\n"
ANSWER = Prompt(
    "rank to answer",
    _PASSAGES + "Use these passages to answer the question.\n\nQuestion: {question}",
    ordered=True,
)
FIND = Prompt(
    "rank to find",
    _PASSAGES + "Find the passages that matter for the question.\n\nQuestion: {question}",
    ordered=True,
)
NO_CONTENT = "N/A"
_MAX_DEVIATIONS = 2  # both papers' code


class InContextConfig(RetrievalConfig):
    """Settings."""

    heads: str = setting(
        ALL,
        help=(
            '"all"; "published": the list of the model\'s sizes in methods/heads, found on '
            'LongMemEval where there is one; "LME" or "NQ": the list found there; or the '
            "path of a file with a list of heads."
        ),
    )
    heads_sha256: str | None = setting(
        None,
        help="Hash of that file, filled in, so that another list under its name is another run.",
    )
    instruction: Literal["answer", "find"] = setting(
        "answer", help=("What the pass over the chunks asks for: an answer, or relevant passages.")
    )
    calibrate: bool = setting(
        True,
        help=(
            'Subtract the scores for the question "N/A", and leave out tokens far below the '
            "mean of their chunk."
        ),
    )

    @model_validator(mode="before")
    @classmethod
    def _add_file_hash(cls, values: dict[str, object]) -> dict[str, object]:
        """The settings with heads_sha256, the hash of the file that `heads` names.

        They stay as they are where `heads` names no file but a list ("all", "published", "LME").

        Args:
            values: The settings as given.

        Raises:
            ValueError: They have another hash, or one although `heads` is no file that can be read.
        """
        digest = file_digest(str(values.get("heads", ALL)))
        if values.get("heads_sha256") not in (None, digest):
            raise ValueError(
                f"the head list {values['heads']} is not the one that the configuration was made "
                "with"
            )
        if digest is None:
            return values
        return {**values, "heads_sha256": digest}


@dataclass
class _Passes:
    """Which chunks each pass reads, where one pass does not hold all of them.

    Attributes:
        chunk_tokens: Tokens of each chunk [chunks].
        max_pass_tokens: Tokens of chunks in one pass.
        model_name: The model's name, for messages.
        waiting: The chunks that were in no pass yet.
        carried: The better half of the last pass, which the next one reads again.
        dropped: The chunks that no further pass reads, best first.
    """

    chunk_tokens: list[int]
    max_pass_tokens: int
    model_name: str
    waiting: list[int]
    carried: list[int] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)

    def next_group(self) -> list[int]:
        """The chunks of the next pass, in the order of the text: those carried on from the last
        pass, and before them as many as fit from the end of those that wait.

        These are taken out of `waiting`. Where not one of them fits, chunks move from `carried` to
        `dropped`, the last in the text first, until one does.

        Raises:
            WindowExceeded: A chunk does not fit alone.
        """
        while True:
            group = list(self.carried)
            pass_tokens = sum(self.chunk_tokens[chunk] for chunk in group)
            while self.waiting:
                next_tokens = self.chunk_tokens[self.waiting[-1]]
                if pass_tokens + next_tokens > self.max_pass_tokens:
                    break
                pass_tokens += next_tokens
                group.insert(0, self.waiting.pop())
            has_new_chunk = len(group) > len(self.carried)
            if has_new_chunk or not self.waiting:
                return group
            if not self.carried:
                raise WindowExceeded(
                    f"a chunk of {self.chunk_tokens[self.waiting[-1]]} tokens does not fit the "
                    f"window of '{self.model_name}' beside the question; set a smaller "
                    "method.chunk_tokens or raise model.window"
                )
            self.dropped.insert(0, self.carried.pop())

    def keep_better_half(self, chunks_best_first: Sequence[int]) -> None:
        """Carry the better half of the last pass on, in the order of the text, and drop the other
        half.

        Args:
            chunks_best_first: The chunks of the pass, best first.
        """
        half = len(chunks_best_first) // 2
        self.dropped = [*chunks_best_first[half:], *self.dropped]
        self.carried = sorted(chunks_best_first[:half])


class InContext(TopK):
    """Chunks ranked by attention."""

    Config = InContextConfig
    summary = "top-k chunks by the model's own attention from the question"
    traits = Traits(one_request=True, draws=False)
    needs: ClassVar[Needs] = {"reader": frozenset({"attention"})}
    own_prompts = (ANSWER, FIND)
    heads_field = "heads"

    def model_problems(self, role: str, window: int, sizes: Mapping[str, object]) -> list[str]:
        """A sentence where the list of heads cannot be used with a model, else [].

        The list may be missing, damaged, or made for a model of other sizes.

        Args:
            role: Not used.
            window: Not used.
            sizes: The sizes of the model, by their names in config.json.
        """
        try:
            heads_for(self.config.heads, sizes)
        except CannotRun as error:
            return [str(error)]
        return []

    def steps_of_chunks(
        self, shown: Sequence[Shown], chunk_numbers: Sequence[int], scores: np.ndarray, tools: Tools
    ) -> list[Step]:
        """A "rank" step for each chunk that is shown, with its score.

        Args:
            shown: These chunks, as an Answer says what the reader saw.
            chunk_numbers: Their numbers, in the same order.
            scores: The scores of all chunks [chunks].
            tools: The engine's tools.
        """
        flops = tools.meter.flops()
        steps: list[Step] = []
        for chunk, shown_chunk in zip(chunk_numbers, shown, strict=True):
            step_scores = {"attention": float(scores[chunk])}
            steps.append(Step("rank", chunk, scores=step_scores, flops=flops, shown=shown_chunk))
        return steps

    def rank(self, question: Question, texts: list[str], index: Index, tools: Tools) -> np.ndarray:
        """Score the chunks by the attention that they get from the question.

        One pass over all chunks gives their attention. Where several passes are needed, they go
        from the end of the text to its start, and the better half of each goes on into the next
        one, as in ICR's code; scores are then negated ranks.

        Args:
            question: The question.
            texts: The chunks.
            index: Not used.
            tools: The engine's tools.

        Returns:
            Scores [chunks], higher is better.

        Raises:
            WindowExceeded: A chunk does not fit.
        """
        if not texts:
            return np.zeros(0)
        model = tools.model()
        max_pass_tokens = self._room_for_chunks(question, model)
        chunk_tokens = [_max_chunk_tokens(text, len(texts), model) for text in texts]
        heads = heads_for(self.config.heads, _model_sizes(model))
        passes = _Passes(chunk_tokens, max_pass_tokens, model.name, waiting=list(range(len(texts))))
        while True:
            group = passes.next_group()
            group_texts = [texts[chunk] for chunk in group]
            attention = self.attention(question, group_texts, tools, self.config.calibrate)
            scores = _chunk_scores(attention, heads, self.config.calibrate)
            if len(group) == len(texts):
                return scores
            chunks_best_first = [group[number] for number in best_first(scores)]
            if not passes.waiting:
                ranking = [*chunks_best_first, *passes.dropped]
                ranks = np.argsort(ranking)  # the place of each chunk in the ranking
                return -ranks.astype(float)
            passes.keep_better_half(chunks_best_first)

    def _room_for_chunks(self, question: Question, model: MeteredModel) -> int:
        """How many tokens of chunks one pass holds, beside the prompt with the question, and with
        the question "N/A", by which attention is calibrated."""
        request = self._prompt().fill(text=[""], question=question_text(question))
        return model.window - prompt_tokens(request, model) - model.count(NO_CONTENT)

    def attention(
        self, question: Question, texts: Sequence[str], tools: Tools, calibrate: bool = True
    ) -> list[np.ndarray]:
        """Read the numbered texts and the question in one pass, and measure the attention that the
        question pays each text.

        Args:
            question: The question.
            texts: The texts that it is asked about.
            tools: The engine's tools.
            calibrate: Whether the attention of the question "N/A" is subtracted.

        Returns:
            For each text the attention that the question pays it, [layers, heads, tokens of the
            text].
        """
        before, after = self._prompt().around("text", question=question_text(question))
        _, without_content = self._prompt().around("text", question=NO_CONTENT)
        with tools.model().session() as session:
            feed(session, before)
            spans: list[TokenSpan] = []
            separator = ""
            for number, text in enumerate(texts, 1):
                session.feed(separator)
                spans.append(session.feed(_numbered(number, text)))
                separator = SEPARATOR
            span_of_texts = TokenSpan(spans[0].start, spans[-1].end)
            attention = session.attention_by_head("".join(after), span_of_texts)
            if calibrate:
                attention = attention - session.attention_by_head(
                    "".join(without_content), span_of_texts
                )
        columns_of_texts = [
            slice(span.start - span_of_texts.start, span.end - span_of_texts.start)
            for span in spans
        ]
        return [attention[:, :, columns] for columns in columns_of_texts]

    def head_scores(self, question: Question, texts: Sequence[str], tools: Tools) -> np.ndarray:
        """The score of each text by each head alone, [texts, layers, heads], as QRHead's detection
        computes it.

        Args:
            question: The question.
            texts: The texts that it is asked about.
            tools: The engine's tools.
        """
        attention = self.attention(question, texts, tools)
        return np.stack([_sum_without_outliers(to_text) for to_text in attention])

    def _prompt(self) -> Prompt:
        """The prompt of the pass over the chunks, by the setting `instruction`."""
        if self.config.instruction == "answer":
            return ANSWER.with_replacements(self.config)
        return FIND.with_replacements(self.config)


def _numbered(number: int, text: str) -> str:
    """A text with its number before it: 2, "One." -> "[2] One."."""
    return f"[{number}] {text}"


def _max_chunk_tokens(text: str, n_chunks: int, model: MeteredModel) -> int:
    """At most how many tokens a chunk takes in a pass: with the longest number, and two
    separators."""
    return model.count(_numbered(n_chunks, text)) + 2 * model.count(SEPARATOR)


def _model_sizes(model: MeteredModel) -> dict[str, object]:
    """The sizes of a loaded model, by their names in config.json; {} where they are unknown."""
    shape = model.shape
    if shape is None:
        return {}
    return {
        "hidden_size": shape.width,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "vocab_size": shape.vocab,
        "weights": model.identity.get("weights"),
    }


def _chunk_scores(attention: Sequence[np.ndarray], heads: Heads, calibrate: bool) -> np.ndarray:
    """The score of each chunk [chunks], from the attention to its tokens.

    Args:
        attention: For each chunk [layers, heads, tokens], as `InContext.attention` returns it.
        heads: The heads that count, as (layer, head); None: all.
        calibrate: Whether tokens far below the mean of their chunk are left out.
    """
    attention_by_token = [
        _sum_over_heads(attention_by_head, heads) for attention_by_head in attention
    ]
    if calibrate:
        return np.array(list(map(_sum_without_outliers, attention_by_token)))
    return np.array(list(map(np.sum, attention_by_token)))


def _sum_over_heads(attention_by_head: np.ndarray, heads: Heads) -> np.ndarray:
    """The attention to each token [tokens], summed over heads.

    Args:
        attention_by_head: The attention by head [layers, heads, tokens].
        heads: The heads that count, as (layer, head); None: all.
    """
    if heads is None:
        return np.asarray(attention_by_head.sum((0, 1)))
    layers, heads_of_layers = zip(*heads, strict=True)
    return np.asarray(attention_by_head[list(layers), list(heads_of_layers)].sum(0))


def _sum_without_outliers(scores: np.ndarray) -> np.ndarray:
    """Sum over the last axis, without values more than two standard deviations below the mean.

    Standard deviations are of a sample (n - 1). Values that are all the same stay; the papers'
    code, with > for >=, would leave them all out.
    """
    if scores.shape[-1] < 2:
        return np.asarray(scores.sum(-1))
    min_score = scores.mean(-1, keepdims=True) - _MAX_DEVIATIONS * scores.std(
        -1, ddof=1, keepdims=True
    )
    return np.asarray(np.where(scores >= min_score, scores, 0).sum(-1))
