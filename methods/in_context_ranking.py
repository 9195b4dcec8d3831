"""ICR and QRHead: chunks ranked by the attention that the question pays them in one pass over all
of them.

    "[1] chunk" "[2] chunk" ... instruction question      attention of the last part, instruction on, to each token
    "[1] chunk" "[2] chunk" ... instruction "N/A"         the same of a question without content, which is taken off

    token score = sum over heads of (attention to the question - attention to "N/A"); those more
    than two standard deviations below their chunk's mean are left out; chunk score = sum of the
    rest.

ICR sums all heads, QRHead those of a head list. Source: docs/methods/attention.md#in-context.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import model_validator

from harness.errors import CannotRun, WindowExceeded
from harness.method import Index, Needs, Tools, Traits
from harness.method.settings import setting
from harness.models import MeteredModel
from harness.models import Span as Tokens
from harness.prompts import Prompt, feed, prompt_tokens
from harness.types import Question, Shown, Step
from methods.head_lists import ALL, Heads, file_digest, heads_for
from methods.reading import SEPARATOR, question_text
from methods.retrieval import RetrievalConfig, TopK

_BEGIN = "Passages of a text follow.\n\n{text}\n\n"
ANSWER = Prompt(
    "rank to answer",
    _BEGIN + "Use these passages to answer the question.\n\nQuestion: {question}",
    ordered=True,
)
FIND = Prompt(
    "rank to find",
    _BEGIN + "Find the passages that matter for the question.\n\nQuestion: {question}",
    ordered=True,
)
NO_CONTENT = "N/A"
_DEVIATIONS = 2  # both papers' code


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
    def _add_file_hash(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Set heads_sha256 to the hash of the file `heads`. Raises ValueError where another hash is
        given already."""
        digest = file_digest(str(values.get("heads", ALL)))
        if values.get("heads_sha256") not in (None, digest):
            raise ValueError(
                f"the head list {values['heads']} is not the one that the configuration was made "
                "with"
            )
        return {**values, "heads_sha256": digest} if digest else values


class InContext(TopK):
    """Chunks ranked by attention."""

    Config = InContextConfig
    summary = "top-k chunks by the model's own attention from the question"
    traits = Traits(one_request=True, draws=False)
    needs: ClassVar[Needs] = {"reader": frozenset({"attention"})}
    own_prompts = (ANSWER, FIND)
    heads_field = "heads"

    def model_problems(self, role: str, window: int, sizes: Mapping[str, Any]) -> list[str]:
        """A sentence where the head list is missing, damaged or another model's than one of these
        `sizes`; else []."""
        try:
            heads_for(self.config.heads, sizes)
        except CannotRun as error:
            return [str(error)]
        return []

    def steps(
        self, shown: Sequence[Shown], kept: Sequence[int], ranks: np.ndarray, tools: Tools
    ) -> list[Step]:
        """A "rank" step with its score for each chunk `shown`; kept: their numbers; ranks: scores
        of all chunks."""
        flops = tools.meter.flops()
        pairs = zip(kept, shown, strict=True)
        return [
            Step("rank", i, scores={"attention": float(ranks[i])}, flops=flops, shown=s)
            for i, s in pairs
        ]

    def rank(self, question: Question, texts: list[str], index: Index, tools: Tools) -> np.ndarray:
        """Scores [chunks], higher is better: of attention where one pass holds all chunks, else
        negated ranks.

        Passes go from the end of the text to its beginning; the better half of a pass's chunks is
        in the next one too, as in ICR's code. Raises WindowExceeded where a chunk does not fit.
        """
        if not texts:
            return np.zeros(0)
        model = tools.model()
        frame = prompt_tokens(
            self._prompt().fill(text=[""], question=question_text(question)), model
        )
        room = model.window - frame - model.count(NO_CONTENT)
        sizes = [
            model.count(_marked(len(texts), text)) + 2 * model.count(SEPARATOR) for text in texts
        ]
        heads = heads_for(self.config.heads, _model_sizes(model))
        waiting, carried, dropped = list(range(len(texts))), list[int](), list[int]()
        while True:
            group = carried
            while waiting and sum(sizes[i] for i in [*group, waiting[-1]]) <= room:
                group = [waiting.pop(), *group]
            if len(group) == len(carried) and waiting:
                if not carried:
                    raise WindowExceeded(
                        f"a chunk of {sizes[waiting[-1]]} tokens does not fit the window of "
                        f"'{model.name}' beside the "
                        "question; set a smaller method.chunk_tokens or raise model.window"
                    )
                dropped, carried = [carried[-1], *dropped], carried[:-1]
                continue
            attention = self.attention(
                question, [texts[i] for i in group], tools, self.config.calibrate
            )
            values = _chunk_scores(attention, heads, self.config.calibrate)
            if len(group) == len(texts):
                return values
            best = [group[i] for i in np.argsort(-values, kind="stable")]
            if not waiting:
                order = [*best, *dropped]
                return -np.argsort(order).astype(float)
            half = len(best) // 2
            dropped, carried = [*best[half:], *dropped], sorted(best[:half])

    def attention(
        self, question: Question, texts: Sequence[str], tools: Tools, calibrate: bool = True
    ) -> list[np.ndarray]:
        """Attention of the question to each text, [layers, heads, its tokens]; calibrate: less that
        of "N/A"."""
        before, behind = self._prompt().around("text", question=question_text(question))
        _, empty = self._prompt().around("text", question=NO_CONTENT)
        with tools.model().session() as s:
            feed(s, before)
            spans = []
            for n, text in enumerate(texts):
                s.feed(SEPARATOR if n else "")
                spans.append(s.feed(_marked(n + 1, text)))
            every = Tokens(spans[0].start, spans[-1].end)
            attention = s.attention_by_head("".join(behind), every)
            if calibrate:
                attention = attention - s.attention_by_head("".join(empty), every)
        cuts = [slice(span.start - every.start, span.end - every.start) for span in spans]
        return [attention[:, :, cut] for cut in cuts]

    def head_scores(self, question: Question, texts: Sequence[str], tools: Tools) -> np.ndarray:
        """The score of each text by each head alone, [texts, layers, heads], as QRHead's detection
        computes it."""
        return np.stack(
            [
                _sum_without_outliers(attention)
                for attention in self.attention(question, texts, tools)
            ]
        )

    def _prompt(self) -> Prompt:
        return (ANSWER if self.config.instruction == "answer" else FIND).of(self.config)


def _marked(number: int, text: str) -> str:
    return f"[{number}] {text}"


def _model_sizes(model: MeteredModel) -> dict[str, Any]:
    """The sizes of a loaded model, by their names in config.json; {} where they are unknown."""
    if (shape := model.shape) is None:
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
    """Scores [chunks] of what `InContext.attention` returned; calibrate: leave outliers out."""
    total = _sum_without_outliers if calibrate else np.sum
    return np.array([total(_sum_over_heads(by_head, heads)) for by_head in attention])


def _sum_over_heads(by_head: np.ndarray, heads: Heads) -> np.ndarray:
    """Attention [tokens]: the sum of `by_head` [layers, heads, tokens] over the query heads `heads`
    (None: all)."""
    if heads is None:
        return np.asarray(by_head.sum((0, 1)))
    layers, numbers = zip(*heads, strict=True)
    return np.asarray(by_head[list(layers), list(numbers)].sum(0))


def _sum_without_outliers(scores: np.ndarray) -> np.ndarray:
    """Sum over the last axis without values more than two standard deviations (n - 1) below the
    mean.

    Values that are all the same stay; the papers' code, with > for >=, would leave them all out.
    """
    if scores.shape[-1] < 2:
        return np.asarray(scores.sum(-1))
    least = scores.mean(-1, keepdims=True) - _DEVIATIONS * scores.std(-1, ddof=1, keepdims=True)
    return np.asarray(np.where(scores >= least, scores, 0).sum(-1))
