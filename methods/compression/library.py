"""The package llmlingua chooses what is kept, with scores from this project's sessions.

    spans of the document ──► PromptCompressor.compress_prompt ──► tokens that are kept ──► spans of the document
                                   │ tokenizer            │ get_ppl
                                   ▼                      ▼
                              NumberedTokens         SessionScores ──► sessions, metered

The package's model and tokenizer are replaced: nothing is fetched to count tokens, its cost is
booked by the meter, and its cache handling, which fails on current transformers beyond one window,
is not used. Each occurrence of a token has a number of its own in place of the token's id, so that
what is kept is known as a place in the text.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from itertools import accumulate
from types import SimpleNamespace, TracebackType
from typing import Any, Self

import numpy as np

from harness.errors import CannotRun, QuestionError, WindowExceeded
from harness.method import Tools
from harness.models import MeteredModel, Session
from harness.types import Document, Shown, Step
from methods.chunks import Span
from methods.compression.config import LinguaConfig
from methods.compression.show import (
    SEPARATOR,
    Compressed,
    contexts_as_pieces,
    pieces_that_are_kept,
)
from methods.compression.surprise import (
    SLACK_TOKENS,
    Units,
    cut_into_units,
    measure_surprise,
    open_context,
    spans_of_kept_units,
)

PACKAGE = "llmlingua"
# The package's own defaults (PromptCompressor.__init__): tokens at the beginning of a full cache
# and of a long question that always stay.
_CACHE_START = 10
_QUESTION_START = 100
_SETTINGS_OF_SAME_NAME = (
    "iterative_size",
    "use_context_level_filter",
    "use_token_level_filter",
    "context_budget",
    "condition_in_question",
    "reorder_context",
    "dynamic_context_compression_ratio",
    "condition_compare",
    "rank_method",
)


def import_prompt_compressor() -> Any:
    """The class PromptCompressor of the package llmlingua. Raises CannotRun where it is not
    installed."""
    try:
        return import_module(PACKAGE).PromptCompressor
    except ModuleNotFoundError as error:
        raise CannotRun(
            "LLMLingua needs the package llmlingua; run: pip install 'longdoc-harness[compression]'"
        ) from error


def compress_by_package(
    document: Document,
    spans: list[Span],
    target_tokens: float,
    question: str,
    config: LinguaConfig,
    tools: Tools,
) -> Compressed:
    """Compress a document with the package llmlingua, which chooses contexts and then, where
    `use_token_level_filter` is set, tokens of these.

    Args:
        document: The document.
        spans: The spans of its contexts, at least one, none of them blank.
        target_tokens: Tokens to keep.
        question: The question, by which contexts and tokens are ranked; "" for none.
        config: The package's arguments.
        tools: The engine's tools, whose compressor scores the tokens.

    Raises:
        CannotRun: The package is not installed.
        QuestionError: `force_context_ids` names a context that the text does not have.
        WindowExceeded: The compressor's window does not hold a window of `iterative_size`.
    """
    model = tools.model("compressor")
    contexts = [document.text[start:end] for start, end in spans]
    _check_forced_contexts(config, len(contexts))
    _check_window(config, question, model)
    tokens = NumberedTokens(model)
    with SessionScores(tokens, model) as scores:
        compressor = _CompressorOnSessions(
            import_prompt_compressor(), tokens, scores, len(contexts)
        )
        compressor.compress(contexts, target_tokens, question, config)
    chosen_contexts = compressor.chosen  # the numbers of the contexts
    token_counts = [model.count(context) for context in contexts]
    pieces_of_contexts = contexts_as_pieces([[spans[number]] for number in chosen_contexts])
    steps = [_context_step(document, spans, token_counts, number) for number in chosen_contexts]
    if not config.use_token_level_filter:
        tokens_kept = sum(token_counts[number] for number in chosen_contexts)
        return Compressed(
            pieces_of_contexts,
            tokens_before=sum(token_counts),
            tokens_after=tokens_kept,
            steps=steps,
        )
    joined_contexts = SEPARATOR.join(contexts[number] for number in chosen_contexts)
    pieces = pieces_that_are_kept(pieces_of_contexts, tokens.spans_of_kept_tokens(joined_contexts))
    return Compressed(
        pieces,
        tokens_before=sum(token_counts),
        tokens_after=tokens.count_kept_tokens(),
        steps=steps,
    )


def _context_step(
    document: Document, spans: list[Span], token_counts: list[int], number: int
) -> Step:
    """The step "context" of the trace for a context that is kept.

    Args:
        document: The document.
        spans: The spans of all contexts.
        token_counts: The tokens of each context.
        number: The number of the context that is kept.
    """
    shown = Shown("span", document.id, *spans[number])
    return Step("context", number, tokens=token_counts[number], shown=shown)


def _check_forced_contexts(config: LinguaConfig, n_contexts: int) -> None:
    """Raise QuestionError where `force_context_ids` names a context beyond the text's.

    Args:
        config: The package's arguments.
        n_contexts: How many contexts the text has.
    """
    for number in config.force_context_ids:
        if not 0 <= number < n_contexts:
            raise QuestionError(
                f"method.force_context_ids has {number}, but the text has {n_contexts} contexts"
            )


def _check_window(config: LinguaConfig, question: str, model: MeteredModel) -> None:
    """Check that a window of `iterative_size` tokens fits into the compressor's window after the
    question.

    Args:
        config: The package's arguments.
        question: The question, which is read first where `reads_question_first` says so.
        model: The compressor.

    Raises:
        WindowExceeded: It does not fit.
    """
    max_tokens = _max_text_tokens(model)
    if config.reads_question_first:
        max_tokens -= model.count(question + SEPARATOR)
    if config.use_token_level_filter and max_tokens < config.iterative_size:
        raise WindowExceeded(
            f"the window of the compressor '{model.name}' ({model.window} tokens) does not hold "
            f"method.iterative_size={config.iterative_size} tokens beside the question; lower it "
            "or raise model.window"
        )


def _max_text_tokens(model: MeteredModel) -> int:
    """Tokens of text that a context of the compressor holds."""
    return model.window - model.turn_tokens() - SLACK_TOKENS


class _CompressorOnSessions:
    """A PromptCompressor whose model and tokenizer are this project's.

    Attributes:
        chosen: The numbers of the contexts that the context level kept, in their new order.
    """

    def __init__(
        self, compressor_class: Any, tokens: NumberedTokens, scores: SessionScores, n_contexts: int
    ) -> None:
        """Make a PromptCompressor without its own model and tokenizer, and put ours in their
        places.

        Args:
            compressor_class: The class PromptCompressor.
            tokens: Stands in for its tokenizer.
            scores: Stands in for its model.
            n_contexts: How many contexts are compressed; all are chosen until the package chooses.
        """
        self.chosen = list(range(n_contexts))
        self._compressor_class = compressor_class
        # Its __init__ would load a model and fetch a tokenizer.
        self._compressor = compressor_class.__new__(compressor_class)
        self._compressor.__dict__.update(
            tokenizer=tokens,
            use_llmlingua2=False,
            oai_tokenizer=SimpleNamespace(encode=tokens.number_range),
            device="cpu",
            max_position_embeddings=scores.max_text_tokens,
            cache_bos_num=_CACHE_START,
            prefix_bos_num=_QUESTION_START,
            context_idxs=[],
            get_ppl=scores,
            get_prefix_length=tokens.count_prefix,
            control_context_budget=self._choose_contexts,
        )

    def compress(
        self, contexts: list[str], target_tokens: float, question: str, config: LinguaConfig
    ) -> None:
        """Compress contexts, and remember what is kept instead of returning it.

        The package returns a text without places in the document. What is kept stands in `chosen`,
        by context, and in the tokenizer, by token: the package calls its `batch_decode` with the
        tokens that it keeps.

        Args:
            contexts: The texts to compress.
            target_tokens: Tokens to keep.
            question: The question, by which contexts and tokens are ranked; "" for none.
            config: The package's arguments.
        """
        settings = {name: getattr(config, name) for name in _SETTINGS_OF_SAME_NAME}
        self._compressor.compress_prompt(
            contexts,
            question=question,
            target_token=target_tokens,
            force_context_ids=list(config.force_context_ids) or None,
            concate_question=False,
            **settings,
        )

    def _choose_contexts(self, *args: Any, **named: Any) -> Any:
        """Call the package's control_context_budget, in whose place the package calls this; return
        its result. Also sets `chosen` to the third member of that, the numbers of the contexts that
        are kept."""
        result = self._compressor_class.control_context_budget(self._compressor, *args, **named)
        self.chosen = result[2]
        return result


class _Encoded(dict[str, object]):
    """The return value of a transformers tokenizer: items are also attributes."""

    def __getattr__(self, name: str) -> object:
        """The item of this name: encoded.input_ids is encoded["input_ids"]."""
        return self[name]


def _as_tensor(values: np.ndarray) -> Any:
    """A torch tensor of the same numbers, shape and type."""
    import torch

    return torch.from_numpy(values)


@dataclass(frozen=True)
class _NumberedText:
    """A text whose tokens have the numbers from `first_number` on."""

    first_number: int
    text: str


class NumberedTokens:
    """The compressor's tokenizer as the package calls it: each occurrence of a token has a number.

    Attributes:
        token_texts: The text of each occurrence.
        token_counts: The model's tokens of each occurrence.
    """

    def __init__(self, model: MeteredModel) -> None:
        """Begin without a text; `model` is the compressor, whose tokens are numbered."""
        self._model = model
        self.token_texts: list[str] = []
        self.token_counts: list[int] = []
        self._texts: list[_NumberedText] = []
        self._kept_numbers: list[int] = []

    def __call__(
        self, text: str, return_tensors: str | None = None, add_special_tokens: bool = True
    ) -> _Encoded:
        """Number the tokens of a text from the last number on, and remember them.

        Args:
            text: The text.
            return_tensors: None for a list [tokens], anything else for tensors [1, tokens].
            add_special_tokens: The package gives it; not used, as there are no special tokens.

        Returns:
            The numbers as `input_ids`; of tensors also the `attention_mask`.
        """
        units = cut_into_units(text, self._model)
        first_number = len(self.token_texts)
        self._texts.append(_NumberedText(first_number, text))
        self.token_texts += [units.text_of_unit(unit) for unit in range(len(units))]
        self.token_counts += units.token_counts
        numbers = list(range(first_number, len(self.token_texts)))
        if return_tensors is None:
            return _Encoded(input_ids=numbers)
        row = np.array([numbers], dtype=np.int64)
        return _Encoded(input_ids=_as_tensor(row), attention_mask=_as_tensor(np.ones_like(row)))

    def decode(self, numbers: Iterable[Any]) -> str:
        """The text of the tokens with these numbers, joined."""
        return "".join(self.token_texts[int(number)] for number in numbers)

    def batch_decode(self, rows: Any) -> list[str]:
        """The text of the one row of `rows`. Also remembers the row as what is kept, since the
        package calls this with the tokens that it keeps."""
        self._kept_numbers = [int(number) for number in rows[0]]
        return [self.decode(self._kept_numbers)]

    def number_range(self, text: str) -> list[int]:
        """A list as long as `text` has tokens; the package asks for its length alone."""
        return list(range(self._model.count(text)))

    def count_prefix(self, prefix: str, text: str) -> int:
        """How many tokens of `prefix` and `text`, joined, end with `prefix` or before it.

        It replaces the package's get_prefix_length, which refuses a token that holds the end of the
        one and the beginning of the other.
        """
        units = cut_into_units(prefix + text, self._model)
        return sum(end <= len(prefix) for end in units.boundaries[1:])

    def units(self, numbers: list[int]) -> Units:
        """The tokens with these numbers as the units of one text."""
        token_texts = [self.token_texts[number] for number in numbers]
        token_counts = tuple(self.token_counts[number] for number in numbers)
        return Units(
            text="".join(token_texts),
            boundaries=(0, *accumulate(map(len, token_texts))),
            token_counts=token_counts,
        )

    def count_kept_tokens(self) -> int:
        """Tokens of the compressor that are kept."""
        return sum(self.token_counts[number] for number in self._kept_numbers)

    def spans_of_kept_tokens(self, joined_contexts: str) -> list[Span]:
        """The spans of the contexts that the package kept.

        The text whose tokens were kept ends with the contexts; before them may stand the question,
        which is no part of the result.

        Args:
            joined_contexts: The contexts that the package compressed, as one text; the spans are of
                it.
        """
        numbered = self._text_of_kept()
        units = cut_into_units(numbered.text, self._model)
        is_kept = np.zeros(len(units), dtype=bool)
        is_kept[[number - numbered.first_number for number in self._kept_numbers]] = True
        contexts_start = len(numbered.text) - len(joined_contexts)
        return [
            (run_start - contexts_start, run_end - contexts_start)
            for run_start, run_end in spans_of_kept_units(units, is_kept)
        ]

    def _text_of_kept(self) -> _NumberedText:
        """The numbered text that the kept tokens belong to: the last one that begins at or before
        the first of them."""
        first_kept = min(self._kept_numbers, default=0)
        for numbered in reversed(self._texts):
            if numbered.first_number <= first_kept:
                return numbered
        raise RuntimeError("llmlingua kept a token of no text")


@dataclass
class _OpenContext:
    """A session and the numbers of the tokens that were fed to it."""

    session: Session
    numbers: list[int]


class SessionScores:
    """Replaces PromptCompressor.get_ppl, which computes losses: sessions score the tokens.

    The package keeps a KV cache, cuts tokens out of it and hands it back. A tensor of the numbers
    of its tokens stands in for it here. A session that has read the first of these tokens goes on
    from there; two are open at a time, one with the question and one without.
    """

    def __init__(self, tokens: NumberedTokens, model: MeteredModel) -> None:
        """Begin without an open session.

        Args:
            tokens: Gives the texts of numbered tokens.
            model: The compressor.
        """
        self._tokens = tokens
        self._model = model
        self._open_contexts: list[_OpenContext] = []
        self.max_text_tokens = _max_text_tokens(model)

    def __call__(
        self,
        text: str,
        granularity: str = "sentence",
        input_ids: Any = None,
        attention_mask: Any = None,
        past_key_values: Any = None,
        return_kv: bool = False,
        end: int | None = None,
        condition_mode: str = "none",
        condition_pos_id: int = 0,
    ) -> Any:
        """The loss of every new token but the first [tokens - 1], or their mean.

        Called by the package in place of its get_ppl. Its cache of keys and values has a stand-in:
        the numbers of the tokens that were read, as [(numbers, numbers)], each [1, 1, tokens, 1].

        Args:
            text: What is scored where `input_ids` is None.
            granularity: "sentence" for the mean.
            input_ids: Numbers of the tokens [1, tokens], those that were read before first.
            attention_mask: The package gives it; not used, as it is always ones.
            past_key_values: The stand-in for the cache; None: no token was read before.
            return_kv: Whether the stand-in with the new tokens is returned, too, as a second value.
            end: Tokens from this one on are not scored.
            condition_mode: "before" or "after": only the losses before or from condition_pos_id.
            condition_pos_id: See `condition_mode`.
        """
        if input_ids is None:
            input_ids = self._tokens(text, return_tensors="pt")["input_ids"]
        numbers = input_ids[0].tolist()
        numbers_before: list[int] = []
        if past_key_values is not None:
            numbers_before = past_key_values[0][0].flatten().tolist()
        end_position = min(len(numbers), len(numbers_before) + self.max_text_tokens)
        if end is not None:
            end_position = min(end_position, int(end))
        new_numbers = numbers[len(numbers_before) : end_position]
        loss = _as_tensor(self._losses_after(numbers_before, new_numbers).astype(np.float64))
        if condition_mode == "before":
            loss = loss[:condition_pos_id]
        elif condition_mode == "after":
            loss = loss[condition_pos_id:]
        value = loss
        if granularity == "sentence":
            value = loss.mean()
        if not return_kv:
            return value
        cache = _as_tensor(
            np.array([*numbers_before, *new_numbers], dtype=np.int64).reshape(1, 1, -1, 1)
        )
        return value, [(cache, cache)]

    def _losses_after(self, numbers_before: list[int], numbers: list[int]) -> np.ndarray:
        """The losses of tokens that follow others, -log p; the first of them has none.

        The tokens before are read into an open context, where none has read them yet.

        Args:
            numbers_before: The numbers of the tokens before.
            numbers: The numbers of the tokens that are scored.

        Returns:
            The loss of each token but the first [tokens - 1].
        """
        context = self._find_or_open_context(numbers_before)
        surprise = measure_surprise(context.session, self._model, self._tokens.units(numbers))
        return surprise[1:]

    def _find_or_open_context(self, numbers_before: list[int]) -> _OpenContext:
        """An open context that has read the tokens `numbers_before`: of those that have read their
        beginning the longest goes on; without any, a new one reads them all."""
        fitting_contexts = [
            context
            for context in self._open_contexts
            if numbers_before[: len(context.numbers)] == context.numbers
        ]
        fitting_contexts = fitting_contexts or [self._open_new_context()]
        context = max(fitting_contexts, key=lambda context: len(context.numbers))
        for number in numbers_before[len(context.numbers) :]:
            context.session.feed(self._tokens.token_texts[number])
        context.numbers = list(numbers_before)
        return context

    def _open_new_context(self) -> _OpenContext:
        """Open an empty context; the older one of two that are open is closed."""
        if len(self._open_contexts) == 2:
            self._open_contexts.pop(0).session.close()
        context = _OpenContext(open_context(self._model), [])
        self._open_contexts.append(context)
        return context

    def __enter__(self) -> Self:
        """The scores themselves; their sessions are closed when the block ends."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        """Close the sessions of all contexts."""
        for context in self._open_contexts:
            context.session.close()
