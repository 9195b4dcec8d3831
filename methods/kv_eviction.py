"""A bounded key/value cache: the whole document is read, a press of the package kvpress cuts the
cache, and the answer is written over what is left.

    asked behind     | text, question | press | answer          the question takes part in the choice
    asked before     | question, text | press | answer
    asked after      | text | press | question, answer          what stays is chosen without the question

Source: docs/methods/attention.md#bounded-cache, which says what each press keeps and what it costs.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar, Literal

from pydantic import model_validator

from harness.errors import CannotRun, Missing, QuestionError
from harness.method import Needs, Tools, Traits
from harness.method.settings import setting
from harness.models import PlainGeneration
from harness.prompts import Pieces, Prompt, feed, prompt_tokens
from harness.types import Question, Step
from methods.long_context import FullContext
from methods.reading import Reading, options

QUESTION_FIRST = Prompt(
    "answer, question first",
    "Read the text below to answer a question about it. {instruction}\n\nQuestion: "
    "{question}{options}\n\n"
    "Text:\n{text}\n\nThe text ends here.\nAnswer:",
    answers=True,
)
PACKAGE = "kvpress"
PressName = Literal[
    "snapkv", "streamingllm", "observed", "pyramidkv", "expected-attention", "kvzip"
]
_PRESSES_WITH_OBSERVED_TOKENS = ("snapkv", "pyramidkv")


class BoundedCacheConfig(FullContext.Config):
    """What stays in the cache."""

    press: PressName = setting("snapkv", help="Press of kvpress: the rule by which tokens stay.")
    budget: int = setting(
        1024, gt=0, help="Tokens kept, the mean of all layers and key/value heads."
    )
    asked: Literal["behind", "before", "after"] = setting(
        "behind",
        help=(
            "Where the question stands: behind the text, before it, or after the cut, so that it "
            "ranks nothing."
        ),
    )
    observed: int | None = setting(
        None,
        gt=0,
        help="snapkv, pyramidkv: last tokens whose attention ranks the others; null: 64.",
    )
    width: int | None = setting(
        None,
        gt=0,
        help="snapkv, pyramidkv: neighbours (odd) of the mean that smooths ranks; null: 5.",
    )

    @model_validator(mode="after")
    def _check_settings(self) -> BoundedCacheConfig:
        """Raise ValueError for settings that change nothing with the chosen press, or that it
        cannot use."""
        sets_observed_tokens = self.observed is not None or self.width is not None
        if sets_observed_tokens and self.press not in _PRESSES_WITH_OBSERVED_TOKENS:
            raise ValueError(
                f"observed and width change nothing with press={self.press}; leave them out"
            )
        if self.width is not None and self.width % 2 == 0:
            raise ValueError(
                "width is a number of neighbours around a token and itself: set an odd one"
            )
        if self.press in _PRESSES_WITH_OBSERVED_TOKENS and self.observed_tokens >= self.budget:
            raise ValueError(
                f"the {self.observed_tokens} observed tokens always stay: raise method.budget "
                "above them"
            )
        return self

    @property
    def observed_tokens(self) -> int:
        """How many of the last tokens rank the others: the setting `observed`, 64 where it is
        None."""
        if self.observed is None:
            return 64
        return self.observed


@dataclass(frozen=True)
class RankingSizes:
    """What a press multiplies once more to rank tokens.

    Attributes:
        tokens_read: How many tokens were read.
        observed_tokens: How many of the last tokens rank the others.
        head_size: How many numbers a head's query has.
    """

    tokens_read: int
    observed_tokens: int
    head_size: int


@dataclass(frozen=True)
class Press:
    """How a press of kvpress is made, and what its ranking costs.

    Attributes:
        class_name: Its class in kvpress.
        count_extra_pairs: Products of a query and a key, of each head, beyond those of the pass
            itself.
        needs_weights: Whether the pass must give attention weights (the kernel "eager").
        masks_keys: Whether it masks keys instead of cutting them, which the kernel "eager" cannot.
    """

    class_name: str
    count_extra_pairs: Callable[[RankingSizes], int]
    needs_weights: bool = False
    masks_keys: bool = False


def _no_extra_pairs(_: RankingSizes) -> int:
    """0: a press that ranks tokens without any further product."""
    return 0


def _pairs_of_observed_queries(sizes: RankingSizes) -> int:
    """The products of the last `observed_tokens` queries with all keys."""
    return sizes.observed_tokens * sizes.tokens_read


def _pairs_of_mean_query(sizes: RankingSizes) -> int:
    """What the press multiplies with the mean query and with the covariance C of the queries, in
    pairs: a pair is a product of two vectors of h = `head_size` numbers, h multiplications.

    For each token: k q with the mean query q is 1 pair; its query's part of C [h, h] takes h * h
    multiplications, h pairs; k C k is h pairs for C k, and 1 for k times that.
    """
    mean_query = sizes.tokens_read
    covariance = sizes.head_size * sizes.tokens_read
    quadratic_form = (sizes.head_size + 1) * sizes.tokens_read
    return mean_query + covariance + quadratic_form


def _pairs_of_repetition(sizes: RankingSizes) -> int:
    """The products of KVzip's repetition, in which every token is read again: each query with the
    keys of its own pass of at most _TOKENS_REPEATED_TOGETHER tokens, and of as many original
    tokens."""
    return 2 * sizes.tokens_read * min(sizes.tokens_read, _TOKENS_REPEATED_TOGETHER)


_TOKENS_REPEATED_TOGETHER = 2048  # tokens that KVzip repeats in one pass
PRESSES: dict[PressName, Press] = {
    "snapkv": Press("SnapKVPress", _pairs_of_observed_queries),
    "streamingllm": Press("StreamingLLMPress", _no_extra_pairs),
    "observed": Press("ObservedAttentionPress", _no_extra_pairs, needs_weights=True),
    "pyramidkv": Press("PyramidKVPress", _pairs_of_observed_queries),
    "expected-attention": Press("ExpectedAttentionPress", _pairs_of_mean_query),
    "kvzip": Press("KVzipPress", _pairs_of_repetition, masks_keys=True),
}


def import_kvpress() -> Any:
    """Import the package kvpress, and silence its warning that KVzip reads the text twice.

    Raises:
        Missing: It is not installed.
    """
    try:
        package = import_module(PACKAGE)
    except ModuleNotFoundError as error:
        raise Missing(
            "a bounded cache needs the package kvpress; run: pip install "
            "'longdoc-harness[eviction]'",
            f"the package {PACKAGE}",
        ) from error
    # It says that KVzip reads the text again, which the costs and the documents say, too.
    logging.getLogger("kvpress.presses.kvzip_press").setLevel(logging.ERROR)
    return package


class BoundedCache(FullContext):
    """The whole document with a bounded cache."""

    Config = BoundedCacheConfig
    summary = "the whole document in the window, with a cache of fixed size"
    traits = Traits(draws=False)
    needs: ClassVar[Needs] = {"reader": frozenset({"plain_model"})}
    own_prompts = (QUESTION_FIRST,)

    def problems(self) -> list[str]:
        """No sentence, as no setting is wrong by itself; checks that kvpress is installed.

        Raises:
            Missing: It is not.
        """
        import_kvpress()
        return []

    def model_problems(self, role: str, window: int, sizes: Mapping[str, object]) -> list[str]:
        """A sentence where the budget is not below the model's window, so that nothing would ever
        be dropped; else [].

        Args:
            role: Not used.
            window: The window of the model in tokens; 0 where it is unknown.
            sizes: Not used.
        """
        if not window or self.config.budget < window:
            return []
        sentence = (
            f"its budget of {self.config.budget} tokens is not below the window of {window}, "
            "so nothing would ever be dropped; set a smaller method.budget, or run full-context"
        )
        return [sentence]

    def _ask(
        self, question: Question, texts: Sequence[str], tools: Tools, reading: Reading
    ) -> tuple[str, tuple[Step, ...]]:
        """Read text and question, cut the cache, and write the answer.

        The cache is cut after the whole prompt, or, where the question is asked "after" the text,
        between the two.

        Args:
            question: The question.
            texts: The texts.
            tools: The engine's tools.
            reading: How the shared prompt is filled.

        Returns:
            The answer, and a step that says how many tokens were read and kept.

        Raises:
            QuestionError: The question with its prompt is longer than the budget.
        """
        model = tools.model()
        task = tools.task
        pieces = self._pieces(question, texts, reading, task.instruction)
        tokens_without_text = prompt_tokens(reading.pieces(question, [""]), model)
        if tokens_without_text > self.config.budget:
            raise QuestionError(
                f"the question with its prompt takes {tokens_without_text} tokens, more than the "
                f"cache's budget of {self.config.budget}; raise method.budget"
            )
        with model.session(chat=task.chat) as session:
            all_but_last = Pieces(pieces[:-1])
            all_but_last.system = pieces.system
            feed(session, all_but_last)
            tokens_before_last = session.length()
            session.feed(pieces[-1])
            cut_at = None
            if self.config.asked == "after" and len(pieces) > 1:
                cut_at = tokens_before_last  # the last piece is what follows the text
            reader = CutReader(self.config, cut_at)  # knows after writing what was read and kept
            written = session.write_plain(reader, task.max_answer_tokens)
        scores = {
            "read": float(reader.tokens_read),
            "kept": float(reader.tokens_kept),
            "megabytes": reader.bytes_kept / 1e6,
        }
        step = Step("cut", scores=scores, tokens=reader.tokens_kept, flops=tools.meter.flops())
        return task.answer_in(written.text), (step,)

    def _pieces(
        self, question: Question, texts: Sequence[str], reading: Reading, instruction: str
    ) -> Pieces:
        """The prompt in pieces, filled with the texts and the question.

        Where the question stands before the text (asked "before"), it is the question's solved
        example, if it has one, and QUESTION_FIRST; else the shared reading prompt, whose last piece
        is all that follows the text. Where the question says how its reply begins, the last piece
        ends so.

        Args:
            question: The question.
            texts: The texts; [] asks without a text.
            reading: Fills the shared prompt.
            instruction: The instruction on how to answer, for QUESTION_FIRST.
        """
        pieces = reading.pieces(question, texts)
        if self.config.asked == "before":
            prompt = QUESTION_FIRST.with_replacements(self.config)
            pieces = prompt.fill(
                text=list(texts),
                instruction=instruction,
                question=question.text,
                options=options(question),
            )
            pieces[0] = question.example + pieces[0]
        if question.begins:  # the cache is cut where the reply begins, so this stands before it
            pieces[-1] += f" {question.begins}"
        return pieces


class CutReader:
    """Reads a context on the plain model, cuts its cache by a press and writes the reply.

    Attributes:
        tokens_read: Tokens before the cut.
        tokens_kept: Tokens left of them, the mean of all layers and key/value heads.
        bytes_kept: Bytes of the keys and values of these.
    """

    def __init__(self, config: BoundedCacheConfig, cut_at: int | None) -> None:
        """Keep what a later call needs; nothing is read yet.

        Args:
            config: The method's settings.
            cut_at: Tokens of the context before the cut; None for all.
        """
        self.tokens_read = 0
        self.tokens_kept = 0
        self.bytes_kept = 0
        self._config = config
        self._press = PRESSES[config.press]
        self._cut_at = cut_at

    def __call__(self, generation: PlainGeneration) -> None:
        """Read the context, cut its cache, and write the reply token by token.

        Also sets `tokens_read`, `tokens_kept` and `bytes_kept`.

        Args:
            generation: The plain model and the context's tokens; it counts what they cost.
        """
        import torch
        from transformers import DynamicCache

        _check_model(generation.net, self._press)
        cache = DynamicCache()
        ids = generation.ids
        self.tokens_read = len(ids)
        if self._cut_at is not None:
            self.tokens_read = self._cut_at
        try:
            with torch.inference_mode():
                self._read_and_write(generation, cache)
        finally:
            _remove_key_masks(generation.net)

    def _read_and_write(self, generation: PlainGeneration, cache: Any) -> None:
        """Read the first `tokens_read` tokens and cut their cache, read the rest, and write the
        reply.

        Args:
            generation: The plain model and the context's tokens; it holds the reply once that is
                written, and the session takes it from there.
            cache: An empty cache of transformers; it grows.
        """
        ids = generation.ids
        logits = self._read_and_cut(generation, cache, ids[: self.tokens_read])
        if self.tokens_read < len(ids):
            logits = generation.read(ids[self.tokens_read :], cache, position=self.tokens_read)
        generation.write(logits, cache, position=len(ids))

    def _read_and_cut(self, generation: PlainGeneration, cache: Any, ids: Sequence[int]) -> Any:
        """Read tokens under the press; a text that fits the budget is read without one.

        A press cuts each layer after its own attention, so the pass itself sees the whole text.
        Also counts the cost of the press, and notes what is left.

        Args:
            generation: The plain model, which counts what a pass costs.
            cache: An empty cache; afterwards it has what the press keeps.
            ids: The tokens.

        Returns:
            The logits of the last token [vocab].
        """
        if len(ids) <= self._config.budget:
            logits = generation.read(ids, cache, position=0)
            self._set_what_is_kept(generation, cache)
            return logits
        net = generation.net
        with contextlib.ExitStack() as stack:
            if self._press.needs_weights:
                stack.enter_context(_with_attention_weights(net))
            stack.enter_context(self._create_press(len(ids))(net))
            logits = generation.read(ids, cache, position=0)
        head_size = cache.layers[0].keys.shape[-1]
        ranking = RankingSizes(
            tokens_read=len(ids), observed_tokens=self._config.observed_tokens, head_size=head_size
        )
        generation.rank(self._press.count_extra_pairs(ranking))
        self._set_what_is_kept(generation, cache)
        return logits

    def _create_press(self, tokens: int) -> Any:
        """An object of the chosen press of kvpress, which keeps `budget` of `tokens` tokens."""
        # A press keeps int(tokens * (1 - ratio)): half a token more is exact in spite of rounding.
        settings: dict[str, float] = {"compression_ratio": 1 - (self._config.budget + 0.5) / tokens}
        if self._config.observed is not None:
            settings["window_size"] = self._config.observed
        if self._config.width is not None:
            settings["kernel_size"] = self._config.width
        return getattr(import_kvpress(), self._press.class_name)(**settings)

    def _set_what_is_kept(self, generation: PlainGeneration, cache: Any) -> None:
        """Set `tokens_kept` and `bytes_kept` from the cache, and tell `generation` how many tokens
        are left.

        Tokens are the mean over heads and layers. What a press masked instead of cutting it counts
        as gone: at the layer's attention stand the contexts, heads and tokens of the masked keys,
        as three lists.
        """
        tokens_of_all_layers = 0
        bytes_of_token = 0
        for attention, layer in zip(_attention_modules(generation.net), cache.layers, strict=True):
            heads, tokens, head_size = layer.keys.shape[1:]
            masked_keys = getattr(attention, "masked_key_indices", None)
            masked_per_head = 0.0
            if masked_keys is not None:
                masked_per_head = len(masked_keys[0]) / heads
            tokens_of_all_layers += tokens - masked_per_head
            bytes_of_token += 2 * heads * head_size * layer.keys.element_size()  # key and value
        self.tokens_kept = round(tokens_of_all_layers / len(cache.layers))
        self.bytes_kept = self.tokens_kept * bytes_of_token
        generation.drop(cache, self.tokens_kept)


def _check_model(net: Any, press: Press) -> None:
    """Raise CannotRun where kvpress, or this press, does not support the network.

    Args:
        net: A model of transformers.
        press: The press that is to cut its cache.
    """
    supported = import_kvpress().SUPPORTED_MODELS
    if not isinstance(net, supported):
        names = ", ".join(kind.__name__ for kind in supported)
        raise CannotRun(f"kvpress cuts no cache of a {type(net).__name__}; use a model of {names}")
    if press.masks_keys and net.config._attn_implementation == "eager":
        raise CannotRun(
            f"{press.class_name} does not work with model.attention=eager; set model.attention=sdpa"
        )


def _attention_modules(net: Any) -> list[Any]:
    """The attention modules of all layers of a network, in order; a press hooks into these."""
    return [layer.self_attn for layer in net.get_decoder().layers]


def _remove_key_masks(net: Any) -> None:
    """Drop the masks that KVzip leaves on the network, or the next request would see them."""
    for attention in _attention_modules(net):
        attention.masked_key_indices = None


@contextlib.contextmanager
def _with_attention_weights(net: Any) -> Iterator[None]:
    """Context manager: passes inside return their attention weights, which the kernel "eager"
    computes and a fused one does not."""
    kernel_before = net.config._attn_implementation
    net.set_attn_implementation("eager")
    try:
        yield
    finally:
        net.set_attn_implementation(kernel_before)
